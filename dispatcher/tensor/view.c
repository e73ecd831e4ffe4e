/*
 * Views: other shapes and strides over the same storage. They allocate a header and
 * nothing else.
 */
#include "dispatcher/tensor/view.h"

#include <inttypes.h>
#include <string.h>

#include "dispatcher/objects/device.h"
#include "dispatcher/shape/shape.h"
#include "dispatcher/tensor/tensor.h"

tn_status view_check(const char *function, const tn_tensor *x, tn_tensor **view) {
  if (!view) return fail(TN_ERR_INVALID_ARGUMENT, "%s: the result pointer is NULL", function);
  return tensor_check(x, function);
}

/* Replaces one -1 in `shape` by what makes `elements`; false if that cannot be. */
static bool complete_shape(int64_t elements, int32_t rank, const int64_t *shape, int64_t *out) {
  int32_t open = -1;
  int64_t known = 1;
  for (int32_t i = 0; i < rank; ++i) {
    out[i] = shape[i];
    if (shape[i] == -1) {
      if (open >= 0) return false;
      open = i;
    } else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known)) {
      return false;
    }
  }
  if (open < 0) return known == elements;
  if (known == 0 || elements % known != 0) return false;
  out[open] = elements / known;
  return true;
}

/* The strides that the new shape has over x's memory. Axes of x that lie behind one
 * another in memory form runs; each run must be covered by whole new axes. */
static bool view_strides(const tn_tensor *x, int32_t rank, const int64_t *shape, int64_t *strides) {
  if (x->elements == 0 || x->contiguous) {
    strides_fill(rank, shape, strides);
    return true;
  }
  int32_t j = rank - 1;
  int64_t run = 1, run_stride = 1, covered = 1;
  bool started = false;
  for (int32_t i = x->dl.ndim - 1; i >= 0; --i) {
    if (x->shape[i] == 1) continue;
    if (!started) run_stride = x->strides[i], started = true;
    run *= x->shape[i];
    int32_t next = i - 1;
    while (next >= 0 && x->shape[next] == 1) --next;
    if (next >= 0 && x->strides[next] == run_stride * run) continue;
    while (j >= 0 && (covered < run || shape[j] == 1)) {
      strides[j] = run_stride * covered;
      covered *= shape[j--];
    }
    if (covered != run) return false;
    run = covered = 1;
    started = false;
  }
  for (; j >= 0; --j) strides[j] = 1;
  return true;
}

tn_status tn_tensor_reshape(const tn_tensor *x, int32_t rank, const int64_t *shape,
                            tn_tensor **view) {
  tn_status status = view_check("tn_tensor_reshape", x, view);
  if (status) return status;
  int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK];
  char from[160], to[128];
  if (rank < 0 || rank > TN_MAX_RANK || (rank && !shape))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_reshape: the rank must be 0 to %d",
                TN_MAX_RANK);
  int64_t elements;
  if (!complete_shape(x->elements, rank, shape, dims) ||
      !shape_elements(rank, dims, tn_dtype_size((tn_dtype)x->dtype), &elements))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_reshape: %s does not have the elements of %s",
                tensor_text(from, sizeof from, x), shape_text(to, sizeof to, rank, shape));
  if (!view_strides(x, rank, dims, strides))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_tensor_reshape: no strides give %s the shape %s; use tn_tensor_contiguous "
                "first",
                tensor_text(from, sizeof from, x), shape_text(to, sizeof to, rank, dims));
  tn_tensor *t;
  status = tensor_view(x, &t);
  if (status) return status;
  t->dl.ndim = rank;
  memcpy(t->shape, dims, sizeof dims);
  memcpy(t->strides, strides, sizeof strides);
  tensor_finish(t);
  *view = t;
  return TN_OK;
}

tn_status tn_tensor_permute(const tn_tensor *x, const int32_t *axes, tn_tensor **view) {
  tn_status status = view_check("tn_tensor_permute", x, view);
  if (status) return status;
  uint32_t seen = 0;
  for (int32_t i = 0; i < x->dl.ndim; ++i) {
    if (!axes || axes[i] < 0 || axes[i] >= x->dl.ndim || (seen >> axes[i] & 1))
      return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_permute: axes is no permutation of 0..%d",
                  x->dl.ndim - 1);
    seen |= 1u << axes[i];
  }
  tn_tensor *t;
  status = tensor_view(x, &t);
  if (status) return status;
  for (int32_t i = 0; i < x->dl.ndim; ++i) {
    t->shape[i] = x->shape[axes[i]];
    t->strides[i] = x->strides[axes[i]];
  }
  tensor_finish(t);
  *view = t;
  return TN_OK;
}

void view_advance(tn_tensor *t, int64_t elements) {
  int64_t bytes = elements * (int64_t)tn_dtype_size((tn_dtype)t->dtype);
  if (t->device->opaque)
    t->dl.byte_offset = (uint64_t)((int64_t)t->dl.byte_offset + bytes);
  else
    t->dl.data = (char *)t->dl.data + bytes;
}

tn_status tn_tensor_slice(const tn_tensor *x, int32_t axis, int64_t begin, int64_t end,
                          int64_t step, tn_tensor **view) {
  tn_status status = view_check("tn_tensor_slice", x, view);
  if (status) return status;
  int32_t rank = x->dl.ndim;
  if (axis < -rank || axis >= rank)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_slice: axis %d of a tensor of rank %d", axis,
                rank);
  if (axis < 0) axis += rank;
  int64_t size = x->shape[axis];
  int64_t first = begin < 0 ? begin + size : begin, last = end < 0 ? end + size : end;
  if (first < 0 || first > last || last > size || step < 1)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_tensor_slice: elements %" PRId64 " to %" PRId64 " by %" PRId64
                " of an axis of %" PRId64,
                begin, end, step, size);
  tn_tensor *t;
  status = tensor_view(x, &t);
  if (status) return status;
  memcpy(t->shape, x->shape, sizeof t->shape);
  memcpy(t->strides, x->strides, sizeof t->strides);
  t->shape[axis] = (last - first) / step + ((last - first) % step != 0);
  if (t->shape[axis] > 1) t->strides[axis] = x->strides[axis] * step;
  if (last > first) view_advance(t, first * x->strides[axis]);
  tensor_finish(t);
  *view = t;
  return TN_OK;
}

/* Whether the sizes, or `count` equal parts, make up an axis of `whole` elements. */
static bool parts_fit(int64_t whole, size_t count, const int64_t *sizes) {
  if (!sizes) return count > 0 && count <= INT64_MAX && whole % (int64_t)count == 0;
  int64_t left = whole;
  for (size_t i = 0; i < count; ++i) {
    if (sizes[i] < 0 || sizes[i] > left) return false;
    left -= sizes[i];
  }
  return left == 0;
}

tn_status tn_tensor_split(const tn_tensor *x, int32_t axis, size_t count, const int64_t *sizes,
                          tn_tensor **views) {
  tn_status status = view_check("tn_tensor_split", x, views);
  if (status) return status;
  int32_t rank = x->dl.ndim;
  if (axis < -rank || axis >= rank)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_split: axis %d of a tensor of rank %d", axis,
                rank);
  int64_t whole = x->shape[axis < 0 ? axis + rank : axis], begin = 0;
  if (!parts_fit(whole, count, sizes))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_tensor_split: %zu %s do not make up an axis of %" PRId64, count,
                sizes ? "sizes" : "equal parts", whole);
  for (size_t i = 0; i < count; ++i) {
    int64_t size = sizes ? sizes[i] : whole / (int64_t)count;
    status = tn_tensor_slice(x, axis, begin, begin + size, 1, &views[i]);
    if (status) {
      for (size_t k = 0; k < i; ++k) {
        tn_tensor_release(views[k]);
        views[k] = NULL;
      }
      return status;
    }
    begin += size;
  }
  return TN_OK;
}

tn_status tn_tensor_expand(const tn_tensor *x, int32_t rank, const int64_t *shape,
                           tn_tensor **view) {
  tn_status status = view_check("tn_tensor_expand", x, view);
  if (status) return status;
  char from[160], to[128];
  bool fits = rank >= x->dl.ndim && rank <= TN_MAX_RANK && (rank == 0 || shape);
  int32_t added = rank - x->dl.ndim;
  int64_t elements;
  for (int32_t i = 0; fits && i < rank; ++i)
    fits =
        shape[i] >= 0 && (i < added || shape[i] == x->shape[i - added] || x->shape[i - added] == 1);
  if (!fits || !shape_elements(rank, shape, tn_dtype_size((tn_dtype)x->dtype), &elements))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_expand: %s cannot become %s",
                tensor_text(from, sizeof from, x),
                shape ? shape_text(to, sizeof to, rank < 0 || rank > TN_MAX_RANK ? 0 : rank, shape)
                      : "NULL");
  tn_tensor *t;
  status = tensor_view(x, &t);
  if (status) return status;
  t->dl.ndim = rank;
  for (int32_t i = 0; i < rank; ++i) {
    t->shape[i] = shape[i];
    bool repeated = i < added || x->shape[i - added] != shape[i];
    t->strides[i] = repeated ? 0 : x->strides[i - added];
  }
  tensor_finish(t);
  *view = t;
  return TN_OK;
}

tn_status tn_tensor_contiguous(tn_stream *stream, tn_tensor *x, tn_tensor **copy) {
  tn_status status = view_check("tn_tensor_contiguous", x, copy);
  if (status) return status;
  if (x->contiguous) {
    tn_tensor_retain(x);
    *copy = x;
    return TN_OK;
  }
  tn_tensor *made = NULL;
  status = x->device->runtime->hooks->copy(stream, x, &made);
  if (!status) *copy = made;
  return status;
}
