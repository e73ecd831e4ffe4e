/*
 * Views with one axis less or more: an index of an axis, an axis of size 1 dropped or put in.
 */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/base/error.h"
#include "dispatcher/tensor/tensor.h"
#include "dispatcher/tensor/view.h"

/* An axis of 0..count-1, or of -count..-1 from the end. */
static tn_status find_axis(const char *function, const tn_tensor *x, int32_t axis, int32_t count,
                           int32_t *found) {
  if (axis < -count || axis >= count)
    return fail(TN_ERR_INVALID_ARGUMENT, "%s: axis %d of a tensor of rank %d", function, axis,
                x->dl.ndim);
  *found = axis < 0 ? axis + count : axis;
  return TN_OK;
}

/* A view of x without one of its axes, to be finished. */
static tn_status view_without(const tn_tensor *x, int32_t axis, tn_tensor **out) {
  tn_tensor *t;
  tn_status status = tensor_view(x, &t);
  if (status) return status;
  t->dl.ndim = x->dl.ndim - 1;
  for (int32_t i = 0; i < t->dl.ndim; ++i) {
    t->shape[i] = x->shape[i + (i >= axis)];
    t->strides[i] = x->strides[i + (i >= axis)];
  }
  *out = t;
  return TN_OK;
}

tn_status tn_tensor_select(const tn_tensor *x, int32_t axis, int64_t index, tn_tensor **view) {
  int32_t at = 0;
  tn_tensor *t;
  tn_status status = view_check("tn_tensor_select", x, view);
  if (!status) status = find_axis("tn_tensor_select", x, axis, x->dl.ndim, &at);
  if (status) return status;
  int64_t size = x->shape[at];
  if (index < -size || index >= size)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_tensor_select: element %" PRId64 " of an axis of %" PRId64, index, size);
  status = view_without(x, at, &t);
  if (status) return status;
  int64_t elements = x->elements / size; /* of none there is no address to move */
  if (elements) view_advance(t, (index < 0 ? index + size : index) * x->strides[at]);
  tensor_finish(t);
  *view = t;
  return TN_OK;
}

tn_status tn_tensor_squeeze(const tn_tensor *x, int32_t axis, tn_tensor **view) {
  int32_t at = 0;
  tn_tensor *t;
  tn_status status = view_check("tn_tensor_squeeze", x, view);
  if (!status) status = find_axis("tn_tensor_squeeze", x, axis, x->dl.ndim, &at);
  if (status) return status;
  if (x->shape[at] != 1)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_tensor_squeeze: axis %d has %" PRId64 " elements; only an axis of 1 can go",
                axis, x->shape[at]);
  status = view_without(x, at, &t);
  if (status) return status;
  tensor_finish(t);
  *view = t;
  return TN_OK;
}

/* The stride that a row-major tensor would have there; it means nothing, and may wrap. */
static int64_t stride_for(const tn_tensor *x, int32_t at) {
  if (at == x->dl.ndim) return 1;
  return (int64_t)((uint64_t)x->shape[at] * (uint64_t)x->strides[at]);
}

tn_status tn_tensor_unsqueeze(const tn_tensor *x, int32_t axis, tn_tensor **view) {
  int32_t at = 0;
  tn_tensor *t;
  tn_status status = view_check("tn_tensor_unsqueeze", x, view);
  if (status) return status;
  int32_t rank = x->dl.ndim + 1;
  if (rank > TN_MAX_RANK)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_unsqueeze: the tensor has %d axes already",
                TN_MAX_RANK);
  status = find_axis("tn_tensor_unsqueeze", x, axis, rank, &at);
  if (!status) status = tensor_view(x, &t);
  if (status) return status;
  t->dl.ndim = rank;
  for (int32_t i = 0; i < rank; ++i) {
    t->shape[i] = i == at ? 1 : x->shape[i - (i > at)];
    t->strides[i] = i == at ? stride_for(x, at) : x->strides[i - (i > at)];
  }
  tensor_finish(t);
  *view = t;
  return TN_OK;
}
