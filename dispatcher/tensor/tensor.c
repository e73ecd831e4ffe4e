/*
 * Tensors: headers, storages and their reference counts.
 *
 * A tensor made together with its memory lives in the header of its pool block, so
 * that making and releasing one costs a pool hit and nothing else. Views have headers
 * of their own, recycled through the runtime. A count of 1 is released without an
 * atomic read-modify-write: nobody else can hold a reference then.
 */
#include "dispatcher/tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/device/device.h"
#include "dispatcher/device/stream.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/shape/shape.h"
#include "dispatcher/tensor/tracked.h"

DLDataType dtype_to_dl(tn_dtype dtype) {
  static const DLDataType types[] = {
      [TN_BOOL] = {kDLBool, 8, 1},
      [TN_U8] = {kDLUInt, 8, 1},
      [TN_I8] = {kDLInt, 8, 1},
      [TN_I16] = {kDLInt, 16, 1},
      [TN_I32] = {kDLInt, 32, 1},
      [TN_I64] = {kDLInt, 64, 1},
      [TN_F16] = {kDLFloat, 16, 1},
      [TN_BF16] = {kDLBfloat, 16, 1},
      [TN_F32] = {kDLFloat, 32, 1},
      [TN_F64] = {kDLFloat, 64, 1},
      [TN_F8_E4M3] = {kDLFloat8_e4m3fn, 8, 1},
      [TN_F8_E5M2] = {kDLFloat8_e5m2, 8, 1},
  };
  return types[dtype];
}

bool strides_are_contiguous(int32_t rank, const int64_t *shape, const int64_t *strides) {
  int64_t expected = 1;
  for (int32_t i = rank - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

void strides_fill(int32_t rank, const int64_t *shape, int64_t *strides) {
  int64_t stride = 1;
  for (int32_t i = rank - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i] ? shape[i] : 1; /* fits: shape_elements */
  }
}

void strides_fill_channels_last(const int64_t *shape, int64_t *strides) {
  static const int32_t inwards[IMAGE_RANK] = {1, 3, 2, 0};
  int64_t stride = 1;
  for (int32_t i = 0; i < IMAGE_RANK; ++i) {
    strides[inwards[i]] = stride;
    stride *= shape[inwards[i]] ? shape[inwards[i]] : 1;
  }
}

/* --- what must hold of tensors --- */

/* Its storage is a block, in whose header it lies, or an import. */
static bool storage_is_valid(const storage *s) {
  if (!s->device || !atomic_load_explicit(&s->refs, memory_order_relaxed)) return false;
  return s->block ? s->block->bytes && block_header(s->block) == s : s->destroy != NULL;
}

/* Every element lies in the block. */
static bool lies_in_block(const tn_tensor *t) {
  const block *b = t->storage->block;
  const char *data = t->dl.data,
             *begin = t->device->opaque ? b->handle : (char *)b->handle + b->offset;
  int64_t first = t->device->opaque ? (int64_t)(t->dl.byte_offset - b->offset) : data - begin;
  int64_t low = 0, high = 0, size = (int64_t)tn_dtype_size((tn_dtype)t->dtype);
  for (int32_t i = 0; i < t->dl.ndim; ++i) {
    int64_t way = (t->shape[i] - 1) * t->strides[i];
    *(way < 0 ? &low : &high) += way;
  }
  return first + low * size >= 0 && first + (high + 1) * size <= (int64_t)b->bytes;
}

static bool tensor_is_valid(const tn_tensor *t) {
  int64_t elements = 1;
  if (!atomic_load_explicit(&t->refs, memory_order_relaxed) || !storage_is_valid(t->storage) ||
      t->device != t->storage->device || t->dl.ndim < 0 || t->dl.ndim > TN_MAX_RANK ||
      t->dl.shape != t->shape || t->dl.strides != t->strides ||
      tn_dtype_of(t->dl.dtype) != (tn_dtype)t->dtype)
    return false;
  for (int32_t i = 0; i < t->dl.ndim; ++i)
    if (t->shape[i] < 0 || __builtin_mul_overflow(elements, t->shape[i], &elements)) return false;
  if (elements != t->elements) return false;
  if (elements == 0) return t->contiguous;
  return t->contiguous == strides_are_contiguous(t->dl.ndim, t->shape, t->strides) &&
         (!t->storage->block || lies_in_block(t));
}

void tensor_finish(tn_tensor *t) {
  int64_t elements = 1;
  for (int32_t i = 0; i < t->dl.ndim; ++i) elements *= t->shape[i];
  t->elements = elements;
  t->contiguous = elements == 0 || strides_are_contiguous(t->dl.ndim, t->shape, t->strides);
  if (__builtin_expect(t->spare < 0, 0)) tracked_made(t, NULL);
  INVARIANT(tensor_is_valid(t));
}

static void header_init(tn_tensor *t, tn_device *device, tn_dtype dtype, int32_t rank) {
  t->dl.device.device_type = (DLDeviceType)device->props.dl_device_type;
  t->dl.device.device_id = device->props.dl_device_id;
  t->dl.ndim = rank;
  t->dl.dtype = dtype_to_dl(dtype);
  t->dl.shape = t->shape;
  t->dl.strides = t->strides;
  t->dl.byte_offset = 0;
  atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
  t->dtype = (uint8_t)dtype;
  t->device = device;
  t->read_only = false;
}

/* The tensor of a whole block. */
static inline __attribute__((always_inline)) void tensor_init(tn_tensor *t, storage *s, block *b,
                                                              tn_device *device, tn_dtype dtype,
                                                              int32_t rank, const int64_t *shape,
                                                              int64_t elements) {
  static const struct { uint32_t refs, tag; } fresh = {1, 0};
  memcpy(&s->refs, &fresh, sizeof fresh); /* nobody else knows it yet: one store for both */
  s->block = b;
  s->device = device;
  header_init(t, device, dtype, rank);
  t->storage = s;
  t->contiguous = true;
  t->elements = elements;
  if (device->opaque) {
    t->dl.data = b->handle;
    t->dl.byte_offset = b->offset;
  } else {
    t->dl.data = (char *)b->handle + b->offset;
  }
  int64_t stride = 1;
  for (int32_t i = rank - 1; i >= 0; --i) {
    t->shape[i] = shape[i];
    t->strides[i] = stride;
    stride *= shape[i] ? shape[i] : 1; /* fits: shape_elements */
  }
}

/* Where pool_alloc did not say TN_OK: it failed, or the tensor is to be tracked. */
static __attribute__((noinline, cold)) tn_status make_slowly(tn_status status, tn_device *device,
                                                             block *const *b, tn_dtype dtype,
                                                             int32_t rank, const int64_t *shape,
                                                             int64_t elements, tn_tensor **out) {
  if (status != (tn_status)POOL_TRACKED) {
    fail_prefix("device %s: ", device->id);
    return status;
  }
  tn_tensor *t = tracked_header(device->runtime);
  if (!t) {
    pool_free(*b);
    return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a tensor's header");
  }
  tensor_init(t, block_header(*b), *b, device, dtype, rank, shape, elements);
  tracked_made(t, pool_cache_stream((*b)->cache));
  INVARIANT(tensor_is_valid(t));
  *out = t;
  return TN_OK;
}

tn_status tensor_make(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                      const int64_t *shape, int64_t elements, tn_tensor **out) {
  block *b;
  tn_status status = pool_alloc(stream->cache, (size_t)elements * tn_dtype_size(dtype), &b);
  if (__builtin_expect(status != TN_OK, 0))
    return make_slowly(status, device, &b, dtype, rank, shape, elements, out);
  storage *s = block_header(b);
  tensor_init(&s->first, s, b, device, dtype, rank, shape, elements);
  INVARIANT(tensor_is_valid(&s->first));
  *out = &s->first;
  return TN_OK;
}

/* --- headers of views: a stack whose head is swapped, so that no thread sees a
 * header that another is taking --- */

/* Pushes the chain first..last. */
static void headers_push(tn_runtime *runtime, tn_tensor *first, tn_tensor *last) {
  last->next_spare = atomic_load_explicit(&runtime->spare_tensors, memory_order_relaxed);
  while (!atomic_compare_exchange_weak(&runtime->spare_tensors, &last->next_spare, first)) continue;
}

static tn_tensor *header_make(tn_runtime *runtime) {
  if (runtime->notified) return tracked_header(runtime);
  tn_tensor *t = host_alloc(&runtime->memory, sizeof *t);
  if (t) t->spare = SPARE_VIEW;
  return t;
}

static tn_tensor *header_take(tn_runtime *runtime) {
  tn_tensor *head = atomic_exchange(&runtime->spare_tensors, NULL), *expected = NULL;
  if (!head) return header_make(runtime);
  tn_tensor *rest = head->next_spare;
  if (rest && !atomic_compare_exchange_strong(&runtime->spare_tensors, &expected, rest)) {
    tn_tensor *last = rest;
    while (last->next_spare) last = last->next_spare;
    headers_push(runtime, rest, last);
  }
  return head;
}

tn_status tensor_view(const tn_tensor *x, tn_tensor **out) {
  tn_tensor *t = header_take(x->device->runtime);
  if (!t) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a tensor's header");
  header_init(t, x->device, (tn_dtype)x->dtype, x->dl.ndim);
  t->dl.data = x->dl.data;
  t->dl.byte_offset = x->dl.byte_offset;
  t->storage = x->storage;
  t->read_only = x->read_only;
  INVARIANT(storage_is_valid(x->storage));
  atomic_fetch_add_explicit(&x->storage->refs, 1, memory_order_relaxed);
  *out = t;
  return TN_OK;
}

tn_status tensor_import(tn_device *device, const tn_stream *stream, void (*destroy)(void *),
                        void *ctx, tn_tensor **out) {
  tn_runtime *runtime = device->runtime;
  imported *made = host_alloc(&runtime->memory, sizeof *made);
  storage *s = made ? &made->storage : NULL;
  tn_tensor *t = s && runtime->notified ? tracked_header(runtime) : s ? &s->first : NULL;
  if (!t) {
    host_free(&runtime->memory, s);
    return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a tensor's header");
  }
  atomic_init(&s->refs, 1);
  s->device = device;
  s->destroy = destroy;
  s->destroy_ctx = ctx;
  made->home = stream ? stream->cache : NULL;
  made->opened = stream ? pool_cache_opened(stream->cache) : 0;
  header_init(t, device, TN_U8, 0);
  t->storage = s;
  runtime_retain(runtime);
  *out = t;
  return TN_OK;
}

/* The lowest address of an element: steps may be negative. */
static const char *lowest_element(const tn_tensor *t) {
  int64_t below = 0;
  for (int32_t i = 0; i < t->dl.ndim && t->elements; ++i)
    if (t->strides[i] < 0) below += (t->shape[i] - 1) * t->strides[i];
  return (const char *)t->dl.data + below * (int64_t)tn_dtype_size((tn_dtype)t->dtype);
}

void tensor_finish_import(tn_tensor *t) {
  tensor_finish(t);
  if (!t->device->opaque) ((imported *)(void *)t->storage)->begin = lowest_element(t);
}

/* True if the caller held the last reference. */
static inline bool drop_ref(_Atomic uint32_t *refs) {
  if (atomic_load_explicit(refs, memory_order_acquire) == 1) return true;
  return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* Apart from storage_free so that releases of blocks do not pay for its stack. The producer may
 * use the memory again from its deleter on, in streams that know nothing of ours, so that all work
 * that may still touch it is waited for. */
static __attribute__((noinline, cold)) void import_free(storage *s) {
  tn_runtime *runtime = s->device->runtime;
  if (!s->device->synchronous && device_is_fine(s->device))
    (void)device_wait(s->device); /* a device that fails has nothing left to wait for */
  s->destroy(s->destroy_ctx);
  host_free(&runtime->memory, s);
  runtime_release(runtime); /* not before: the deleter may release others of the runtime's */
}

void storage_free(storage *s) {
  if (__builtin_expect(s->block != NULL, 1))
    pool_free(s->block);
  else
    import_free(s);
}

void storage_free_closed(tn_runtime *runtime, storage *s) {
  if (runtime_is_forked(runtime)) return; /* locks may be held by threads of the parent */
  bool pooled = s->block != NULL;
  storage_free(s);
  if (pooled) runtime_release(runtime);
}

void tn_tensor_retain(tn_tensor *tensor) {
  if (tensor) atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
}

/* As drop_ref. A tracked tensor's count is negative and left alone: those tensors are told
 * from others at the next branch that there must be anyhow. */
static inline bool drop_tensor_ref(tn_tensor *t) {
  if ((int32_t)atomic_load_explicit(&t->refs, memory_order_acquire) <= 1) return true;
  return atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1;
}

void tn_tensor_release(tn_tensor *tensor) {
  if (!tensor || !drop_tensor_ref(tensor)) return;
  storage *s = tensor->storage;
  tn_runtime *runtime = s->device->runtime;
  INVARIANT(tensor->spare < 0 || storage_is_valid(s));
  if (tensor->spare) {
    if (__builtin_expect(tensor->spare < 0, 0)) {
      tracked_release(tensor);
      return;
    }
    headers_push(runtime, tensor, tensor);
  }
  if (!drop_ref(&s->refs)) return;
  if (__builtin_expect(atomic_load_explicit(&runtime->closed, memory_order_relaxed), 0))
    storage_free_closed(runtime, s);
  else
    storage_free(s);
}

/* --- making tensors --- */

static tn_status check_shape(const char *function, tn_dtype dtype, int32_t rank,
                             const int64_t *shape, int64_t *elements) {
  char text[128];
  if (tn_dtype_size(dtype) == 0)
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: %d is no element type", function, (int)dtype);
  if (rank < 0 || rank > TN_MAX_RANK || (rank > 0 && !shape))
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: the rank must be 0 to %d, with as many sizes",
                function, TN_MAX_RANK);
  for (int32_t i = 0; i < rank; ++i)
    if (shape[i] < 0)
      return fail(TN_ERR_INVALID_ARGUMENT, "%s: negative size in %s", function,
                  shape_text(text, sizeof text, rank, shape));
  if (!shape_elements(rank, shape, tn_dtype_size(dtype), elements))
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: the size of %s %s overflows", function,
                tn_dtype_name(dtype), shape_text(text, sizeof text, rank, shape));
  return TN_OK;
}

tn_status tn_tensor_empty_on(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                             const int64_t *shape, tn_tensor **tensor) {
  int64_t elements;
  if (!device || !tensor)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_empty: device and tensor must not be NULL");
  if (stream && stream->device != device)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_empty: the stream is of another device");
  tn_status status = check_shape("tn_tensor_empty", dtype, rank, shape, &elements);
  if (!status) status = device_ready(device);
  if (status) return status;
  return tensor_make(device, stream ? stream : device->default_stream, dtype, rank, shape, elements,
                     tensor);
}

tn_status tn_tensor_empty(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape,
                          tn_tensor **tensor) {
  return tn_tensor_empty_on(device, NULL, dtype, rank, shape, tensor);
}

/* Whether a block has lost its stream is asked with the visit under way: the cache may have come to
 * serve another stream until then. */
tn_stream *tensor_home(const tn_tensor *t) {
  const storage *s = t->storage;
  const imported *import = s->block ? NULL : (const imported *)(const void *)s;
  pool_cache *home = import ? import->home : s->block->cache;
  tn_stream *own = t->device->default_stream;
  if (!home || home == own->cache || storage_is_homeless(s)) return own;
  tn_stream *made_on = pool_cache_visit(home, import ? import->opened : 0);
  if (!made_on) return own;
  if (!storage_is_homeless(s)) return made_on;
  pool_cache_leave(home);
  return own;
}

void tensor_leave_home(const tn_tensor *t, tn_stream *home) {
  if (home != t->device->default_stream) pool_cache_leave(home->cache);
}

static __attribute__((noinline)) tn_status refuse(const tn_tensor *t, const char *function) {
  return tracked_explain(t, function, device_check(t->device));
}

tn_status tensor_check(const tn_tensor *t, const char *function) {
  if (!t) return fail(TN_ERR_INVALID_ARGUMENT, "%s: the tensor is NULL", function);
  return __builtin_expect(device_is_fine(t->device), 1) ? TN_OK : refuse(t, function);
}

tn_status tensor_settle(const tn_tensor *t) {
  if (!t->device->shared) return TN_OK;
  tn_stream *home = tensor_home(t);
  tn_status status = stream_wait(home);
  tensor_leave_home(t, home);
  return status;
}

/* --- looking at tensors --- */

tn_device *tn_tensor_device(const tn_tensor *tensor) { return tensor ? tensor->device : NULL; }
tn_dtype tn_tensor_dtype(const tn_tensor *tensor) {
  return tensor ? (tn_dtype)tensor->dtype : TN_DTYPE_NONE;
}
int32_t tn_tensor_rank(const tn_tensor *tensor) { return tensor ? tensor->dl.ndim : 0; }
const int64_t *tn_tensor_shape(const tn_tensor *tensor) { return tensor ? tensor->shape : NULL; }
const int64_t *tn_tensor_strides(const tn_tensor *tensor) {
  return tensor ? tensor->strides : NULL;
}
int64_t tn_tensor_elements(const tn_tensor *tensor) { return tensor ? tensor->elements : 0; }
size_t tn_tensor_bytes(const tn_tensor *tensor) {
  return tensor ? (size_t)tensor->elements * tn_dtype_size((tn_dtype)tensor->dtype) : 0;
}
bool tn_tensor_is_contiguous(const tn_tensor *tensor) { return tensor && tensor->contiguous; }
void *tn_tensor_data(const tn_tensor *tensor) {
  if (!tensor || tensor->elements == 0) return NULL;
  if (tensor->device->shared && device_is_fine(tensor->device) && tensor_settle(tensor))
    return NULL;
  if (__builtin_expect(tensor->spare < 0, 0)) tracked_exposed(tensor);
  return (char *)tensor->dl.data + tensor->dl.byte_offset;
}

const char *tensor_text(char *text, size_t size, const tn_tensor *t) {
  if (!t) {
    snprintf(text, size, "NULL");
    return text;
  }
  char dims[128], strides[128];
  snprintf(text, size, "%s %s %s%s%s", t->device->id, tn_dtype_name((tn_dtype)t->dtype),
           shape_text(dims, sizeof dims, t->dl.ndim, t->shape), t->contiguous ? "" : " strides ",
           t->contiguous ? "" : shape_text(strides, sizeof strides, t->dl.ndim, t->strides));
  return text;
}
