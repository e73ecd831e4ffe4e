/*
 * Gathering and scattering by index. An index below 0 counts from the end; what is outside
 * the axis even so is read as 0 and not written.
 */
#include <string.h>

#include "index.h"
#include "kernels.h"

/* --- gather, index_select --- */

/* x seen as [before..., n, after...], y as [before..., index..., after...]. */
tn_status reference_gather(const tn_kernel_args *args) {
  view x = view_of(args->in[0]), index = view_of(args->in[1]), y = view_of(args->out[0]);
  int axis = axis_index(((const tn_gather_attrs *)args->attrs)->axis, x.ndim);
  size_t size = tn_dtype_size(x.dtype);
  walk w = walk_over(&y, 1, 0, view_count(&y));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      int64_t rest = w.first + i, from = 0, which = 0;
      for (int a = y.ndim - 1; a >= 0; --a) {
        int64_t at = rest % y.shape[a];
        rest /= y.shape[a];
        if (a < axis)
          from += at * x.stride[a];
        else if (a < axis + index.ndim)
          which += at * index.stride[a - axis];
        else
          from += at * x.stride[a - index.ndim + 1];
      }
      int64_t k = index_place(&index, view_at(&index, which), x.shape[axis]);
      if (k < 0)
        memset(walk_at(&w, 0, i), 0, size);
      else
        memcpy(walk_at(&w, 0, i), view_at(&x, from + k * x.stride[axis]), size);
    }
  return TN_OK;
}

tn_status reference_index_select(const tn_kernel_args *args) { return reference_gather(args); }

/* --- one element along an axis for each index --- */

/* Sees `data` in the index's shape, its axis held at 0; gives the axis its stride. */
static view along(view data, const view *index, int axis, int64_t *step, int64_t *n) {
  *step = data.stride[axis];
  *n = data.shape[axis];
  memcpy(data.shape, index->shape, sizeof data.shape);
  data.stride[axis] = 0;
  return data;
}

static int axis_of(const tn_kernel_args *args, const view *data) {
  return axis_index(((const tn_gather_attrs *)args->attrs)->axis, data->ndim);
}

tn_status reference_take_along_axis(const tn_kernel_args *args) {
  view x = view_of(args->in[0]), index = view_of(args->in[1]), y = view_of(args->out[0]);
  int64_t step, n;
  size_t size = tn_dtype_size(x.dtype);
  view views[3] = {y, index, along(x, &index, axis_of(args, &x), &step, &n)};
  walk w = walk_over(views, 3, 0, view_count(&y));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      int64_t k = index_place(&index, walk_at(&w, 1, i), n);
      if (k < 0)
        memset(walk_at(&w, 0, i), 0, size);
      else
        memcpy(walk_at(&w, 0, i), (char *)walk_at(&w, 2, i) + k * step * (int64_t)size, size);
    }
  return TN_OK;
}

/* Updates along an axis, in row-major order of the index. */
typedef struct updating {
  view updates, index;
  int axis;
} updating;

static void scatter_each(const void *context, view y, update_fn update) {
  const updating *u = context;
  int64_t step, n, size = (int64_t)tn_dtype_size(y.dtype);
  view views[3] = {u->index, u->updates, along(y, &u->index, u->axis, &step, &n)};
  walk w = walk_over(views, 3, 0, view_count(&u->index));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      int64_t k = index_place(&u->index, walk_at(&w, 0, i), n);
      if (k >= 0)
        update(u->updates.dtype, (char *)walk_at(&w, 2, i) + k * step * size, walk_at(&w, 1, i));
    }
}

static tn_status scatter_run(const tn_kernel_args *args, update_fn update) {
  view y = view_of(args->out[0]);
  updating u = {view_of(args->in[0]), view_of(args->in[1]), axis_of(args, &y)};
  scatter_each(&u, y, update);
  return TN_OK;
}

static tn_status fold_run(const tn_kernel_args *args, const fold *f) {
  view y = view_of(args->out[0]);
  updating u = {view_of(args->in[0]), view_of(args->in[1]), axis_of(args, &y)};
  return scatter_fold(args->host, y, f, scatter_each, &u);
}

tn_status reference_scatter(const tn_kernel_args *args) { return scatter_run(args, update_set); }
tn_status reference_scatter_max(const tn_kernel_args *args) {
  return scatter_run(args, update_max);
}
tn_status reference_scatter_min(const tn_kernel_args *args) {
  return scatter_run(args, update_min);
}
tn_status reference_scatter_add(const tn_kernel_args *args) { return fold_run(args, &fold_add); }
tn_status reference_scatter_mul(const tn_kernel_args *args) { return fold_run(args, &fold_mul); }

/* scatter_add with the same index everywhere across the axis. */
tn_status reference_index_add(const tn_kernel_args *args) {
  view y = view_of(args->out[0]), index = view_of(args->in[1]);
  updating u = {view_of(args->in[0]), view_of(args->in[0]), axis_of(args, &y)};
  u.index.data = index.data;
  u.index.dtype = index.dtype;
  for (int a = 0; a < u.index.ndim; ++a) u.index.stride[a] = a == u.axis ? index.stride[0] : 0;
  return scatter_fold(args->host, y, &fold_add, scatter_each, &u);
}

/* --- one_hot --- */

tn_status reference_one_hot(const tn_kernel_args *args) {
  const tn_one_hot_attrs *attrs = args->attrs;
  view index = view_of(args->in[0]), y = view_of(args->out[0]);
  int axis = axis_index(attrs->axis, y.ndim);
  size_t size = tn_dtype_size(y.dtype);
  unsigned char on[8], off[8];
  store_f64(y.dtype, on, 1, 1, &attrs->on);
  store_f64(y.dtype, off, 1, 1, &attrs->off);
  view views[2] = {view_drop(y, axis), index};
  walk w = walk_over(views, 2, 0, view_count(&index));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      int64_t k = index_place(&index, walk_at(&w, 1, i), attrs->classes);
      for (int64_t c = 0; c < attrs->classes; ++c)
        memcpy((char *)walk_at(&w, 0, i) + c * y.stride[axis] * (int64_t)size, c == k ? on : off,
               size);
    }
  return TN_OK;
}

/* --- nonzero --- */

/* Whether an element is not zero; NaN is not. */
static bool is_set(tn_dtype dtype, const void *at) {
  double value;
  int64_t whole;
  if (dtype_is_float(dtype)) {
    load_f64(dtype, at, 1, 1, &value);
    return value != 0;
  }
  load_i64(dtype, at, 1, 1, &whole);
  return whole != 0;
}

static void store_index(const view *y, int64_t row, int64_t flat, const view *x) {
  for (int a = x->ndim - 1; a >= 0; --a) {
    *(int64_t *)view_at(y, row * y->stride[0] + a * y->stride[1]) = flat % x->shape[a];
    flat /= x->shape[a];
  }
}

tn_status reference_nonzero(const tn_kernel_args *args) {
  view x = view_of(args->in[0]), y = view_of(args->out[0]), total = view_of(args->out[1]);
  int64_t count = 0;
  walk w = walk_over(&x, 1, 0, view_count(&x));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i)
      if (is_set(x.dtype, walk_at(&w, 0, i))) store_index(&y, count++, w.first + i, &x);
  *(int64_t *)total.data = count;
  return TN_OK;
}
