/*
 * Strided tensors to and from row-major host memory without any kernel of their device: by
 * the backend's copies of bytes alone, and a rearrangement on the host. This is the ground
 * that transfers and the fallback stand on where a device has no kernel `copy`; where it
 * has one, that is faster.
 *
 * A tensor is walked as a box whose axes go by falling step in device memory. What lies close
 * together moves in one piece of at most PIECE bytes, through a buffer on the host. Pieces
 * that are written and have gaps between their elements are read first, so that the gaps keep
 * what they hold.
 */
#include "dispatcher/tensor/strided.h"

#include <string.h>

#include "dispatcher/device/stream.h"
#include "dispatcher/objects/device.h"

/* Bytes of the buffer, and of a gap that is worth a copy of its own to pass over. */
enum { PIECE = 1 << 20, GAP = 1 << 16 };

typedef struct box {
  tn_stream *stream;
  const tn_tensor *tensor;
  bool write;
  char *buffer;
  int32_t rank;
  int64_t item; /* bytes of an element */
  int64_t size[TN_MAX_RANK];
  int64_t step[TN_MAX_RANK];      /* bytes in device memory, falling, >= 0 */
  int64_t host_step[TN_MAX_RANK]; /* bytes in host memory */
  int64_t reach[TN_MAX_RANK + 1]; /* bytes from the first to behind the last, axes k and on */
} box;

/* --- the box of a tensor --- */

static void swap_axes(box *b, int32_t i, int32_t k) {
  int64_t size = b->size[i], step = b->step[i], host_step = b->host_step[i];
  b->size[i] = b->size[k], b->step[i] = b->step[k], b->host_step[i] = b->host_step[k];
  b->size[k] = size, b->step[k] = step, b->host_step[k] = host_step;
}

/* Fills the box. `at` and `host` become the places of the element that lies lowest on the
 * device, in bytes from the tensor's first. pre: the tensor has elements. */
static void box_of(box *b, const tn_tensor *t, int64_t *at, int64_t *host) {
  int64_t host_step = b->item = (int64_t)tn_dtype_size((tn_dtype)t->dtype);
  *at = *host = 0;
  for (int32_t i = t->dl.ndim - 1; i >= 0; host_step *= t->shape[i--]) {
    if (t->shape[i] == 1) continue;
    int32_t k = b->rank++;
    bool down = t->strides[i] < 0;
    b->size[k] = t->shape[i];
    b->step[k] = t->strides[i] * b->item;
    b->host_step[k] = host_step;
    if (down) {
      *at += (b->size[k] - 1) * b->step[k];
      *host += (b->size[k] - 1) * host_step;
      b->step[k] = -b->step[k], b->host_step[k] = -host_step;
    }
    for (; k > 0 && b->step[k - 1] < b->step[k]; --k) swap_axes(b, k - 1, k);
  }
  b->reach[b->rank] = b->item;
  for (int32_t k = b->rank - 1; k >= 0; --k)
    b->reach[k] = b->reach[k + 1] + (b->size[k] - 1) * b->step[k];
}

/* Whether `count` indexes of axis k, and the axes behind it, lie on the host as they do on the
 * device; without gaps then, since the host's memory is row-major. */
static bool lies_alike(const box *b, int32_t k, int64_t count) {
  int64_t expected = b->item;
  for (int32_t i = b->rank - 1; i >= k; --i) {
    if (b->step[i] != expected || b->host_step[i] != expected) return false;
    expected *= i == k ? count : b->size[i];
  }
  return true;
}

static bool has_gaps(const box *b, int32_t k, int64_t count, int64_t bytes) {
  int64_t payload = b->item;
  for (int32_t i = k; i < b->rank; ++i) payload *= i == k ? count : b->size[i];
  return payload != bytes;
}

/* --- moving --- */

static tn_status move_bytes(const box *b, uint32_t direction, int64_t at, void *host,
                            int64_t bytes) {
  tn_device *d = b->tensor->device;
  const DLTensor *dl = &b->tensor->dl;
  char *data = dl->data;
  uint64_t offset = dl->byte_offset;
  if (d->opaque)
    offset += (uint64_t)at;
  else
    data += at;
  bool out = direction == TN_COPY_TO_HOST;
  return device_result(d, "copy",
                       d->type->backend.copy(d->handle, stream_queue(b->stream), direction,
                                             out ? host : data, out ? 0 : offset, out ? data : host,
                                             out ? offset : 0, (size_t)bytes));
}

/* Between the buffer, laid out as on the device, and row-major memory. */
static void rearrange(const box *b, int32_t k, int64_t count, char *buffer, char *host) {
  if (k == b->rank) {
    memcpy(b->write ? buffer : host, b->write ? host : buffer, (size_t)b->item);
    return;
  }
  int64_t inner = k + 1 < b->rank ? b->size[k + 1] : 1;
  for (int64_t i = 0; i < count; ++i)
    rearrange(b, k + 1, inner, buffer + i * b->step[k], host + i * b->host_step[k]);
}

/* The buffer is the embedder's memory and might be pinned: wait before it is used again. */
static tn_status move_through_buffer(const box *b, int32_t k, int64_t count, int64_t at, char *host,
                                     int64_t bytes) {
  tn_status status = TN_OK;
  if (!b->write || has_gaps(b, k, count, bytes)) {
    status = move_bytes(b, TN_COPY_TO_HOST, at, b->buffer, bytes);
    if (!status) status = stream_wait(b->stream);
  }
  if (status) return status;
  rearrange(b, k, count, b->buffer, host);
  if (!b->write) return TN_OK;
  status = move_bytes(b, TN_COPY_TO_DEVICE, at, b->buffer, bytes);
  if (!status) status = stream_wait(b->stream);
  return status;
}

/* `count` indexes of axis k with all of the axes behind it. */
static tn_status move_piece(const box *b, int32_t k, int64_t count, int64_t at, char *host) {
  int64_t bytes = k < b->rank ? (count - 1) * b->step[k] + b->reach[k + 1] : b->item;
  if (lies_alike(b, k, count))
    return move_bytes(b, b->write ? TN_COPY_TO_DEVICE : TN_COPY_TO_HOST, at, host, bytes);
  return move_through_buffer(b, k, count, at, host, bytes);
}

/* Axis k and those behind it. */
static tn_status move_axes(const box *b, int32_t k, int64_t at, char *host) {
  if (k == b->rank) return move_piece(b, k, 1, at, host);
  if (b->reach[k] <= PIECE || lies_alike(b, k, b->size[k]))
    return move_piece(b, k, b->size[k], at, host);
  int64_t inner = b->reach[k + 1], step = b->step[k];
  bool apart = step - inner >= GAP || inner > PIECE / 2;
  int64_t count = apart ? 1 : (PIECE - inner) / step + 1;
  tn_status status = TN_OK;
  for (int64_t i = 0; !status && i < b->size[k]; i += count) {
    int64_t left = b->size[k] - i;
    char *to = host + i * b->host_step[k];
    status = apart ? move_axes(b, k + 1, at + i * step, to)
                   : move_piece(b, k, left < count ? left : count, at + i * step, to);
  }
  return status;
}

/* Writers take turns on a device: two that write to interleaved views would give back each
 * other's elements as they were. */
static tn_status move_in_turn(const box *b, int64_t at, char *host) {
  tn_device *device = b->tensor->device;
  log_hold();
  pthread_mutex_lock(&device->mutex);
  tn_status status = move_axes(b, 0, at, host);
  pthread_mutex_unlock(&device->mutex);
  log_resume();
  return status;
}

static tn_status move_all(box *b, char *host) {
  const host_memory *memory = &b->tensor->device->runtime->memory;
  int64_t at, first;
  box_of(b, b->tensor, &at, &first);
  size_t bytes = b->reach[0] < PIECE ? (size_t)b->reach[0] : PIECE;
  b->buffer = memory->alloc(memory->user, bytes, 64);
  if (!b->buffer)
    return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a copy of %zu bytes", bytes);
  tn_status status =
      b->write ? move_in_turn(b, at, host + first) : move_axes(b, 0, at, host + first);
  host_free(memory, b->buffer);
  return status;
}

tn_status strided_to_host(tn_stream *stream, const tn_tensor *src, void *dst) {
  box b = {.stream = stream, .tensor = src};
  return src->elements ? move_all(&b, dst) : TN_OK;
}

tn_status strided_to_device(tn_stream *stream, tn_tensor *dst, const void *src) {
  box b = {.stream = stream, .tensor = dst, .write = true};
  return dst->elements ? move_all(&b, (char *)(uintptr_t)src) : TN_OK;
}
