/*
 * Copies between tensors, host memory and devices. The raw copies move contiguous
 * bytes through the backend's copy slot; tensors with other strides go through a
 * contiguous one on the device.
 */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/watch.h"

/* What a backend knows of the stream. */
static void *queue_of(const tn_stream *stream) {
  return stream->device->synchronous ? NULL : stream->queue;
}

tn_status transfer_to_device(tn_stream *stream, tn_tensor *dst, const void *src, size_t bytes) {
  if (bytes == 0) return TN_OK;
  tn_device *device = dst->device;
  uint64_t began = watch_clock(device->runtime);
  tn_status status = device_result(
      device, device->type->backend.copy(device->handle, queue_of(stream), TN_COPY_TO_DEVICE,
                                         dst->dl.data, dst->dl.byte_offset, src, 0, bytes));
  if (!status && began) notify_copy(TN_LAYER_TENSOR_WRITTEN, dst, stream, began);
  return status;
}

/* A copy to pageable memory is done when the backend returns, and all before it. */
static void was_read(const tn_stream *stream, const tn_tensor *src, const void *dst,
                     uint64_t began) {
  tn_runtime *runtime = src->device->runtime;
  notify_copy(TN_LAYER_TENSOR_READ, src, stream, began);
  if (!watch_is_pinned(runtime, dst)) notify_stream(TN_LAYER_STREAM_WAITED, stream, NULL);
}

tn_status transfer_to_host(tn_stream *stream, const tn_tensor *src, void *dst, size_t bytes) {
  if (bytes == 0) return TN_OK;
  tn_device *device = src->device;
  uint64_t began = watch_clock(device->runtime);
  tn_status status = device_result(
      device, device->type->backend.copy(device->handle, queue_of(stream), TN_COPY_TO_HOST, dst, 0,
                                         src->dl.data, src->dl.byte_offset, bytes));
  if (!status && began) was_read(stream, src, dst, began);
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

tn_status tn_tensor_write(tn_stream *stream, tn_tensor *tensor, const void *data, size_t bytes) {
  tn_status status = tensor_check(tensor, "tn_tensor_write");
  if (!status) status = check_bytes("tn_tensor_write", tensor, data, bytes);
  if (!status) status = pick_stream("tn_tensor_write", &stream, tensor);
  if (status) return status;
  if (tensor->read_only)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_write: the tensor is read-only");
  if (tensor->contiguous) return transfer_to_device(stream, tensor, data, bytes);
  tn_tensor *dense;
  status = tensor_make(tensor->device, stream, (tn_dtype)tensor->dtype, tensor->dl.ndim,
                       tensor->shape, tensor->elements, &dense);
  if (status) return status;
  status = transfer_to_device(stream, dense, data, bytes);
  if (!status) status = layers_copy_for("tn_tensor_write", stream, dense, &tensor);
  tn_tensor_release(dense);
  return status;
}

tn_status tn_tensor_read(tn_stream *stream, const tn_tensor *tensor, void *data, size_t bytes) {
  tn_status status = tensor_check(tensor, "tn_tensor_read");
  if (!status) status = check_bytes("tn_tensor_read", tensor, data, bytes);
  if (!status) status = pick_stream("tn_tensor_read", &stream, tensor);
  if (status) return status;
  if (tensor->contiguous) return transfer_to_host(stream, tensor, data, bytes);
  tn_tensor *dense = NULL;
  status = layers_copy_for("tn_tensor_read", stream, tensor, &dense);
  if (!status) status = transfer_to_host(stream, dense, data, bytes);
  tn_tensor_release(dense);
  return status;
}

/* The stream whose work made the tensor, as far as that is known: the one that its memory
 * was taken for. */
static tn_stream *home_stream(const tn_tensor *t) {
  tn_stream *made_on = t->storage->block ? pool_cache_stream(t->storage->block->cache) : NULL;
  return made_on ? made_on : t->device->default_stream;
}

tn_status tn_tensor_to_host(const tn_tensor *tensor, void *data, size_t bytes) {
  tn_status status = tensor_check(tensor, "tn_tensor_to_host");
  if (status) return status;
  tn_stream *stream = home_stream(tensor);
  status = tn_tensor_read(stream, tensor, data, bytes);
  return status ? status : stream_wait(stream);
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

/* Contiguous bytes from one device to another, through the host unless one of the
 * devices has host memory. */
static tn_status copy_across(const tn_tensor *src, tn_tensor *dst, size_t bytes) {
  tn_stream *from = home_stream(src), *to = dst->device->default_stream;
  bool watched = src->device->runtime->watch != NULL;
  if (src->device->host_memory) {
    if (watched) {
      notify_tensor(TN_LAYER_TENSOR_READ, src, from);
      notify_stream(TN_LAYER_STREAM_WAITED, from, NULL);
    }
    return transfer_to_device(to, dst, src->dl.data, bytes);
  }
  if (dst->device->host_memory) {
    tn_status status = transfer_to_host(from, src, dst->dl.data, bytes);
    if (!status && watched) notify_tensor(TN_LAYER_TENSOR_WRITTEN, dst, to);
    return status ? status : stream_wait(from);
  }
  const host_memory *memory = &src->device->runtime->memory;
  void *staging = memory->alloc(memory->user, bytes, 64);
  if (!staging)
    return fail(TN_ERR_OUT_OF_MEMORY, "tn_tensor_to_device: no host memory for %zu bytes", bytes);
  tn_status status = transfer_to_host(from, src, staging, bytes);
  if (!status) status = stream_wait(from);
  if (!status) status = transfer_to_device(to, dst, staging, bytes);
  if (!status) status = stream_wait(to);
  host_free(memory, staging);
  return status;
}

tn_status tn_tensor_to_device(const tn_tensor *tensor, tn_device *device, tn_tensor **copy) {
  tn_status status = tensor_check(tensor, "tn_tensor_to_device");
  if (status) return status;
  if (!device || !copy)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_to_device: device and copy must not be NULL");
  tn_tensor *made = NULL, *dense = NULL;
  if (device == tensor->device) {
    status = tn_copy(home_stream(tensor), tensor, &made);
    if (!status) *copy = made;
    return status;
  }
  if (device->runtime != tensor->device->runtime)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_to_device: the device is of another runtime");
  if (tensor->contiguous) {
    dense = (tn_tensor *)(uintptr_t)tensor;
    tn_tensor_retain(dense);
  } else {
    status = layers_copy_for("tn_tensor_to_device", home_stream(tensor), tensor, &dense);
  }
  if (!status)
    status =
        tn_tensor_empty(device, (tn_dtype)tensor->dtype, tensor->dl.ndim, tensor->shape, &made);
  if (!status && tn_tensor_bytes(made)) status = copy_across(dense, made, tn_tensor_bytes(made));
  tn_tensor_release(dense);
  if (status)
    tn_tensor_release(made);
  else
    *copy = made;
  return status;
}
