/*
 * Tensors made with a value: constants of rank 0, tensors filled with one number, and tensors
 * like another one. Nothing here waits for a device that can fill by itself: it gets the number
 * as an attribute of tn_fill, a whole one that float64 does not hold in two halves.
 */
#include <string.h>

#include "dispatcher/composite/number.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/tensor.h"
#include "dispatcher/tensor/transfer.h"

static number whole(int64_t i) { return (number){.whole = true, .i = i}; }
static number real(double f) { return (number){.f = f}; }

/* --- filling --- */

static tn_status fill_with(tn_stream *stream, tn_tensor *t, double value) {
  tn_fill_attrs attrs = TN_FILL_DEFAULTS;
  attrs.value = value;
  return tn_fill(stream, t, &attrs);
}

/* One half of every element of a contiguous I64 tensor, as a view of I32. */
static tn_status fill_half(tn_stream *stream, const tn_tensor *t, int half, int32_t value) {
  tn_tensor *pairs, *part = NULL;
  tn_status status = tensor_view(t, &pairs);
  if (status) return status;
  pairs->dtype = TN_I32;
  pairs->dl.dtype = dtype_to_dl(TN_I32);
  pairs->dl.ndim = 2;
  pairs->shape[0] = t->elements, pairs->strides[0] = 2;
  pairs->shape[1] = 2, pairs->strides[1] = 1;
  tensor_finish(pairs);
  status = tn_tensor_slice(pairs, 1, half, half + 1, 1, &part);
  if (!status) status = fill_with(stream, part, value);
  tn_tensor_release(part);
  tn_tensor_release(pairs);
  return status;
}

/* pre: t is contiguous, of the stream's device, and number_check has passed. */
static tn_status fill_number(tn_stream *stream, tn_tensor *t, number n) {
  double value;
  if (t->elements == 0) return TN_OK;
  if (number_as_f64((tn_dtype)t->dtype, n, &value)) return fill_with(stream, t, value);
  int32_t halves[2];
  memcpy(halves, &n.i, sizeof halves);
  tn_status status = fill_half(stream, t, 0, halves[0]);
  return status ? status : fill_half(stream, t, 1, halves[1]);
}

/* One element: written by the host where that takes no wait, or where a fill would take more. */
static tn_status set_number(tn_stream *stream, tn_tensor *t, number n) {
  const tn_device *d = t->device;
  bool fills = registry_cells(d->table, TN_OP_FILL, (tn_dtype)t->dtype) != NULL;
  if (fills && !(d->host_memory && d->synchronous)) return fill_number(stream, t, n);
  uint64_t element = 0;
  number_store((tn_dtype)t->dtype, n, &element);
  return transfer_to_device(stream, t, &element, tn_dtype_size((tn_dtype)t->dtype));
}

/* --- a number of rank 0 --- */

static tn_status make_scalar(tn_device *device, tn_stream *stream, tn_dtype dtype, number n,
                             tn_tensor **scalar) {
  tn_tensor *t;
  if (!scalar) return fail(TN_ERR_INVALID_ARGUMENT, "tn_scalar: scalar is NULL");
  tn_status status = tn_tensor_empty_on(device, stream, dtype, 0, NULL, &t);
  if (status) return status;
  status = number_check("tn_scalar", dtype, n);
  if (!status) status = set_number(stream ? stream : device->default_stream, t, n);
  if (status) {
    tn_tensor_release(t);
    return status;
  }
  t->read_only = true;
  *scalar = t;
  return TN_OK;
}

tn_status tn_scalar_f64(tn_device *device, tn_stream *stream, tn_dtype dtype, double value,
                        tn_tensor **scalar) {
  return make_scalar(device, stream, dtype, real(value), scalar);
}

tn_status tn_scalar_i64(tn_device *device, tn_stream *stream, tn_dtype dtype, int64_t value,
                        tn_tensor **scalar) {
  return make_scalar(device, stream, dtype, whole(value), scalar);
}

/* --- tensors of one number --- */

static tn_status make_full(const char *function, tn_device *device, tn_stream *stream,
                           tn_dtype dtype, int32_t rank, const int64_t *shape, number n,
                           tn_tensor **tensor) {
  tn_tensor *t;
  if (!tensor) return fail(TN_ERR_INVALID_ARGUMENT, "%s: tensor is NULL", function);
  tn_status status = tn_tensor_empty_on(device, stream, dtype, rank, shape, &t);
  if (status) return status;
  status = number_check(function, dtype, n);
  if (!status) status = fill_number(stream ? stream : device->default_stream, t, n);
  if (status)
    tn_tensor_release(t);
  else
    *tensor = t;
  return status;
}

tn_status tn_full_f64(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                      const int64_t *shape, double value, tn_tensor **tensor) {
  return make_full("tn_full", device, stream, dtype, rank, shape, real(value), tensor);
}

tn_status tn_full_i64(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                      const int64_t *shape, int64_t value, tn_tensor **tensor) {
  return make_full("tn_full", device, stream, dtype, rank, shape, whole(value), tensor);
}

tn_status tn_zeros(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                   const int64_t *shape, tn_tensor **tensor) {
  return make_full("tn_zeros", device, stream, dtype, rank, shape, whole(0), tensor);
}

tn_status tn_ones(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                  const int64_t *shape, tn_tensor **tensor) {
  return make_full("tn_ones", device, stream, dtype, rank, shape, whole(1), tensor);
}

/* --- like another tensor --- */

/* Whether axis a of x lies inside axis b in memory. Repeated axes say nothing. */
static bool lies_inside(const tn_tensor *x, int32_t a, int32_t b) {
  int64_t inner = x->strides[a] < 0 ? -(x->strides[a] + 1) : x->strides[a] - 1;
  int64_t outer = x->strides[b] < 0 ? -(x->strides[b] + 1) : x->strides[b] - 1;
  if (inner < 0 || outer < 0 || x->shape[a] == 1 || x->shape[b] == 1) return false;
  return inner < outer;
}

/* x's axes from the outermost to the innermost in memory, each as far back in its own order as
 * that allows. Returns whether the order differs from 0, 1, 2... */
static bool order_of(const tn_tensor *x, int32_t *order) {
  bool moved = false;
  for (int32_t i = 0; i < x->dl.ndim; ++i) {
    int32_t to = i;
    for (int32_t j = i - 1; j >= 0; --j)
      if (lies_inside(x, order[j], i)) to = j;
    for (int32_t j = i; j > to; --j) order[j] = order[j - 1];
    order[to] = i;
    moved |= to != i;
  }
  return moved;
}

/* A view of t, whose axes are x's in that order, with the axes where x has them. */
static tn_status view_in_order(tn_tensor *t, const int32_t *order, tn_tensor **view) {
  int32_t axes[TN_MAX_RANK] = {0};
  for (int32_t i = 0; i < t->dl.ndim; ++i) axes[order[i]] = i;
  return tn_tensor_permute(t, axes, view);
}

static tn_status make_like(const char *function, tn_stream *stream, const tn_tensor *x,
                           const number *n, tn_tensor **tensor) {
  tn_status status = tensor_check(x, function);
  if (status) return status;
  if (!tensor) return fail(TN_ERR_INVALID_ARGUMENT, "%s: tensor is NULL", function);
  tn_tensor *t, *view = NULL;
  int32_t order[TN_MAX_RANK] = {0};
  int64_t shape[TN_MAX_RANK] = {0};
  bool moved = !x->contiguous && order_of(x, order);
  for (int32_t i = 0; i < x->dl.ndim; ++i) shape[i] = x->shape[moved ? order[i] : i];
  status = tn_tensor_empty_on(x->device, stream, (tn_dtype)x->dtype, x->dl.ndim, shape, &t);
  if (status) return status;
  if (n) status = number_check(function, (tn_dtype)x->dtype, *n);
  if (n && !status) status = fill_number(stream ? stream : x->device->default_stream, t, *n);
  if (!status && moved) status = view_in_order(t, order, &view);
  if (status || moved) tn_tensor_release(t);
  if (!status) *tensor = moved ? view : t;
  return status;
}

tn_status tn_empty_like(tn_stream *stream, const tn_tensor *x, tn_tensor **tensor) {
  return make_like("tn_empty_like", stream, x, NULL, tensor);
}

tn_status tn_zeros_like(tn_stream *stream, const tn_tensor *x, tn_tensor **tensor) {
  return make_like("tn_zeros_like", stream, x, &(number){.whole = true}, tensor);
}

tn_status tn_ones_like(tn_stream *stream, const tn_tensor *x, tn_tensor **tensor) {
  return make_like("tn_ones_like", stream, x, &(number){.whole = true, .i = 1}, tensor);
}

tn_status tn_full_like_f64(tn_stream *stream, const tn_tensor *x, double value,
                           tn_tensor **tensor) {
  return make_like("tn_full_like", stream, x, &(number){.f = value}, tensor);
}

tn_status tn_full_like_i64(tn_stream *stream, const tn_tensor *x, int64_t value,
                           tn_tensor **tensor) {
  return make_like("tn_full_like", stream, x, &(number){.whole = true, .i = value}, tensor);
}
