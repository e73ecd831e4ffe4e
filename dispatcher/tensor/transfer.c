/*
 * Copies between tensors, host memory and devices. The raw copies move contiguous
 * bytes through the backend's copy slot; tensors with other strides go through a
 * contiguous one on the device where it has a kernel for that, else through strided.c.
 */
#include "dispatcher/tensor/transfer.h"

#include <inttypes.h>
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/device/pinned.h"
#include "dispatcher/device/stream.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/notify/notify.h"
#include "dispatcher/notify/origin.h"
#include "dispatcher/notify/watch.h"
#include "dispatcher/tensor/overlap.h"
#include "dispatcher/tensor/strided.h"
#include "dispatcher/tensor/tensor.h"

static bool transfer_is_valid(const tn_stream *stream, const tn_tensor *t, size_t bytes) {
  return t->contiguous && bytes == tn_tensor_bytes(t) && stream->device == t->device &&
         stream->cache;
}

/* Devices of symbolic tensors copy nothing: what is written there is the recorder's. */
static __attribute__((cold)) tn_status not_copied(tn_tensor *dst, const void *src, size_t bytes,
                                                  tn_status status) {
  const call_recorder *recorder = dst->device->recorder;
  if (!recorder) return device_result(dst->device, "copy", status);
  status = recorder->write(dst, src, bytes);
  if (!status) fail_clear();
  return status;
}

tn_status transfer_to_device(tn_stream *stream, tn_tensor *dst, const void *src, size_t bytes) {
  if (bytes == 0) return TN_OK;
  INVARIANT(transfer_is_valid(stream, dst, bytes));
  tn_device *device = dst->device;
  uint64_t began = notify_clock(device->runtime);
  tn_status status =
      device->type->backend.copy(device->handle, stream_queue(stream), TN_COPY_TO_DEVICE,
                                 dst->dl.data, dst->dl.byte_offset, src, 0, bytes);
  if (__builtin_expect(status, 0)) return not_copied(dst, src, bytes, status);
  if (began) notify_copy(TN_LAYER_TENSOR_WRITTEN, dst, stream, began);
  return TN_OK;
}

/* A copy to pageable memory is done when the backend returns, and all before it. */
static void was_read(const tn_stream *stream, const tn_tensor *src, const void *dst,
                     uint64_t began) {
  tn_runtime *runtime = src->device->runtime;
  notify_copy(TN_LAYER_TENSOR_READ, src, stream, began);
  if (!pinned_contains(runtime, dst)) notify_stream(TN_LAYER_STREAM_WAITED, stream, NULL);
}

tn_status transfer_to_host(tn_stream *stream, const tn_tensor *src, void *dst, size_t bytes) {
  if (bytes == 0) return TN_OK;
  INVARIANT(transfer_is_valid(stream, src, bytes));
  tn_device *device = src->device;
  uint64_t began = notify_clock(device->runtime);
  tn_status status = device_result(device, "copy",
                                   device->type->backend.copy(device->handle, stream_queue(stream),
                                                              TN_COPY_TO_HOST, dst, 0, src->dl.data,
                                                              src->dl.byte_offset, bytes));
  if (!status && began) was_read(stream, src, dst, began);
  return status;
}

/* Whether the device itself makes a strided tensor contiguous: whatever tn_copy does with one
 * otherwise comes back to this file. */
static bool copies_strided(const tn_tensor *t) {
  const cell *c = registry_cells(t->device->table, TN_OP_COPY, (tn_dtype)t->dtype);
  return c && c->direct && c->strided;
}

tn_status transfer_stand_in(const char *call, tn_stream *stream, const tn_tensor *x,
                            tn_tensor **y) {
  /* A copy that a stand-in needs is the outer call's. */
  const char *outer = origin_stands_in_for();
  const char *before = origin_stand_in(outer ? outer : call);
  tn_status status = x->device->runtime->hooks->copy(stream, x, y);
  origin_stand_in(before);
  return status;
}

static tn_status read_through_device(tn_stream *stream, const tn_tensor *src, void *dst) {
  tn_tensor *dense = NULL;
  tn_status status = transfer_stand_in("tn_tensor_read", stream, src, &dense);
  if (!status) status = transfer_to_host(stream, dense, dst, tn_tensor_bytes(dense));
  tn_tensor_release(dense);
  return status;
}

/* A tensor of any strides to row-major memory, in the stream's order. */
static tn_status pull(tn_stream *stream, const tn_tensor *src, void *dst) {
  if (src->contiguous) return transfer_to_host(stream, src, dst, tn_tensor_bytes(src));
  if (copies_strided(src)) return read_through_device(stream, src, dst);
  uint64_t began = notify_clock(src->device->runtime);
  tn_status status = strided_to_host(stream, src, dst);
  if (!status && began) was_read(stream, src, dst, began);
  return status;
}

static tn_status write_through_device(tn_stream *stream, tn_tensor *dst, const void *src) {
  tn_tensor *dense;
  tn_status status = tensor_make(dst->device, stream, (tn_dtype)dst->dtype, dst->dl.ndim,
                                 dst->shape, dst->elements, &dense);
  if (status) return status;
  status = transfer_to_device(stream, dense, src, tn_tensor_bytes(dense));
  if (!status) status = transfer_stand_in("tn_tensor_write", stream, dense, &dst);
  tn_tensor_release(dense);
  return status;
}

tn_status transfer_push(tn_stream *stream, tn_tensor *dst, const void *src) {
  if (dst->contiguous) return transfer_to_device(stream, dst, src, tn_tensor_bytes(dst));
  if (copies_strided(dst)) return write_through_device(stream, dst, src);
  uint64_t began = notify_clock(dst->device->runtime);
  tn_status status = strided_to_device(stream, dst, src);
  if (!status && began) notify_copy(TN_LAYER_TENSOR_WRITTEN, dst, stream, began);
  return status;
}

static tn_status check_bytes(const char *function, const tn_tensor *t, const void *data,
                             size_t bytes) {
  if (bytes != tn_tensor_bytes(t))
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: %zu bytes given, the tensor has %zu", function, bytes,
                tn_tensor_bytes(t));
  if (bytes && !data) return fail(TN_ERR_INVALID_ARGUMENT, "%s: data is NULL", function);
  return TN_OK;
}

static tn_status pick_stream(const char *function, tn_stream **stream, const tn_tensor *t) {
  if (!*stream) *stream = t->device->default_stream;
  if ((*stream)->device != t->device)
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: the stream is of another device", function);
  if (t->storage->block && t->storage->block->cache != (*stream)->cache)
    pool_note_use(t->storage->block, (*stream)->cache);
  return TN_OK;
}

/* pre: the tensor is there and its device fine. */
static tn_status check_write(tn_stream **stream, tn_tensor *tensor, const void *data,
                             size_t bytes) {
  tn_status status = check_bytes("tn_tensor_write", tensor, data, bytes);
  if (!status) status = pick_stream("tn_tensor_write", stream, tensor);
  if (status) return status;
  if (tensor->read_only)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_write: the tensor is read-only");
  if (tensor_repeats_elements(tensor))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_tensor_write: the tensor has the same element in several places and cannot be "
                "written");
  return TN_OK;
}

static __attribute__((cold)) tn_status write_told(tn_stream *stream, tn_tensor *tensor,
                                                  const void *data, size_t bytes) {
  tn_status status = tensor_check(tensor, "tn_tensor_write");
  if (!status) status = check_write(&stream, tensor, data, bytes);
  if (!status) status = watch_written(tensor);
  return status ? status : transfer_push(stream, tensor, data);
}

tn_status tn_tensor_write(tn_stream *stream, tn_tensor *tensor, const void *data, size_t bytes) {
  if (__builtin_expect(!tensor || !device_is_ordinary(tensor->device), 0))
    return write_told(stream, tensor, data, bytes);
  tn_status status = check_write(&stream, tensor, data, bytes);
  return status ? status : transfer_push(stream, tensor, data);
}

static tn_status read_tensor(const char *function, tn_stream *stream, const tn_tensor *tensor,
                             void *data, size_t bytes) {
  tn_status status = check_bytes(function, tensor, data, bytes);
  if (!status) status = pick_stream(function, &stream, tensor);
  if (!status) status = pull(stream, tensor, data);
  return status;
}

tn_status tn_tensor_read(tn_stream *stream, const tn_tensor *tensor, void *data, size_t bytes) {
  tn_status status = tensor_check(tensor, "tn_tensor_read");
  if (!status) status = read_tensor("tn_tensor_read", stream, tensor, data, bytes);
  return status;
}

tn_status tn_tensor_to_host(const tn_tensor *tensor, void *data, size_t bytes) {
  tn_status status = tensor_check(tensor, "tn_tensor_to_host");
  if (status) return status;
  tn_stream *stream = tensor_home(tensor);
  status = read_tensor("tn_tensor_to_host", stream, tensor, data, bytes);
  if (!status) status = stream_wait(stream);
  tensor_leave_home(tensor, stream);
  return status;
}

tn_status tn_tensor_from_host(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape,
                              const void *data, tn_tensor **tensor) {
  if (!tensor) return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_from_host: tensor is NULL");
  tn_tensor *t;
  tn_status status = tn_tensor_empty(device, dtype, rank, shape, &t);
  if (status) return status;
  status = check_bytes("tn_tensor_from_host", t, data, tn_tensor_bytes(t));
  if (!status) status = transfer_to_device(device->default_stream, t, data, tn_tensor_bytes(t));
  if (status) {
    tn_tensor_release(t);
    return status;
  }
  *tensor = t;
  return TN_OK;
}

void *transfer_address(const tn_tensor *t) { return (char *)t->dl.data + t->dl.byte_offset; }

tn_status transfer_settle(tn_stream *stream) {
  return stream->device->shared ? stream_wait(stream) : TN_OK;
}

/* From host memory that a device works on beside the host: behind its work, and done before it
 * can go on. */
static tn_status copy_from_host_device(tn_stream *from, const tn_tensor *src, tn_stream *to,
                                       tn_tensor *dst) {
  tn_status status = transfer_settle(from);
  if (status) return status;
  if (src->device->runtime->notified) {
    notify_tensor(TN_LAYER_TENSOR_READ, src, from);
    notify_stream(TN_LAYER_STREAM_WAITED, from, NULL);
  }
  status = transfer_to_device(to, dst, transfer_address(src), tn_tensor_bytes(dst));
  if (!status && src->device->shared) status = stream_wait(to);
  return status;
}

/* To host memory, which work that has not been waited for may still be using. */
static tn_status copy_to_host_device(tn_stream *from, const tn_tensor *src, tn_stream *to,
                                     tn_tensor *dst) {
  tn_status status = transfer_settle(to);
  if (!status) status = pull(from, src, transfer_address(dst));
  if (status) return status;
  if (src->device->runtime->notified) notify_tensor(TN_LAYER_TENSOR_WRITTEN, dst, to);
  return stream_wait(from);
}

/* As if an event of the program's had stood between the copy and the source's stream. */
static void tell_copied(const tn_stream *from, const tn_tensor *src, const tn_stream *to,
                        const tn_tensor *dst, uint64_t began) {
  notify_copy(TN_LAYER_TENSOR_READ, src, from, began);
  notify_order(from, to);
  notify_copy(TN_LAYER_TENSOR_WRITTEN, dst, to, began);
  notify_order(to, from);
}

/* Whether the backend may be asked to copy between two of its devices. */
static bool has_between(const tn_tensor *src, const tn_tensor *dst) {
  return src->contiguous && src->device->type == dst->device->type && !src->device->recorder &&
         !dst->device->recorder && dst->device->type->backend.copy_between;
}

/* By the backend itself. TN_ERR_UNSUPPORTED: it cannot, and nothing has happened. */
static tn_status copy_between(tn_stream *from, const tn_tensor *src, tn_stream *to,
                              tn_tensor *dst) {
  tn_device *device = dst->device;
  uint64_t began = notify_clock(device->runtime);
  tn_status status = device->type->backend.copy_between(
      device->handle, stream_queue(to), dst->dl.data, dst->dl.byte_offset, src->device->handle,
      stream_queue(from), src->dl.data, src->dl.byte_offset, tn_tensor_bytes(dst));
  if (status == TN_ERR_UNSUPPORTED) {
    fail_clear();
    return status;
  }
  status = device_result(device, "copy_between", status);
  if (!status && began) tell_copied(from, src, to, dst, began);
  return status;
}

/* From one device to another: by their backend, else through the host unless one of the devices
 * has host memory. pre: dst is contiguous and has elements. */
static tn_status copy_across(tn_stream *from, const tn_tensor *src, tn_tensor *dst) {
  tn_stream *to = dst->device->default_stream;
  size_t bytes = tn_tensor_bytes(dst);
  if (src->device->host_memory && src->contiguous) return copy_from_host_device(from, src, to, dst);
  if (dst->device->host_memory) return copy_to_host_device(from, src, to, dst);
  if (has_between(src, dst)) {
    tn_status done = copy_between(from, src, to, dst);
    if (done != TN_ERR_UNSUPPORTED) return done;
  }
  const host_memory *memory = &src->device->runtime->memory;
  void *staging = memory->alloc(memory->user, bytes, 64);
  if (!staging)
    return fail(TN_ERR_OUT_OF_MEMORY, "tn_tensor_to_device: no host memory for %zu bytes", bytes);
  tn_status status = pull(from, src, staging);
  if (!status) status = stream_wait(from);
  if (!status) status = transfer_to_device(to, dst, staging, bytes);
  if (!status) status = stream_wait(to);
  host_free(memory, staging);
  return status;
}

static tn_status copy_to_other(tn_stream *from, const tn_tensor *x, tn_device *device,
                               tn_tensor **copy) {
  tn_tensor *made = NULL, *dense = NULL;
  tn_status status = TN_OK;
  if (x->contiguous || !copies_strided(x))
    tn_tensor_retain(dense = (tn_tensor *)(uintptr_t)x);
  else
    status = transfer_stand_in("tn_tensor_to_device", from, x, &dense);
  if (!status) status = tn_tensor_empty(device, (tn_dtype)x->dtype, x->dl.ndim, x->shape, &made);
  if (!status && tn_tensor_bytes(made)) status = copy_across(from, dense, made);
  tn_tensor_release(dense);
  if (status)
    tn_tensor_release(made);
  else
    *copy = made;
  return status;
}

static tn_status copy_to_same(tn_stream *home, const tn_tensor *x, tn_tensor **copy) {
  tn_tensor *made = NULL;
  tn_status status = x->device->runtime->hooks->copy(home, x, &made);
  if (!status) *copy = made;
  return status;
}

tn_status tn_tensor_to_device(const tn_tensor *tensor, tn_device *device, tn_tensor **copy) {
  tn_status status = tensor_check(tensor, "tn_tensor_to_device");
  if (status) return status;
  if (!device || !copy)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_to_device: device and copy must not be NULL");
  if (device->runtime != tensor->device->runtime) {
    status = runtime_check(device->runtime);
    if (status) return status;
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_to_device: the device is of another runtime");
  }
  tn_stream *home = tensor_home(tensor);
  status = device == tensor->device ? copy_to_same(home, tensor, copy)
                                    : copy_to_other(home, tensor, device, copy);
  tensor_leave_home(tensor, home);
  return status;
}
