/* Tensors made from a rule, and triangles. */
#include <math.h>
#include <string.h>

#include "iterate.h"
#include "kernels.h"

/* As tn_cast to i64: towards zero, saturating, NaN to 0. */
static int64_t whole(double x) {
  int64_t y;
  store_f64(TN_I64, &y, 1, 1, &x);
  return y;
}

tn_status reference_arange(const tn_kernel_args *args) {
  const tn_arange_attrs *attrs = args->attrs;
  view y = view_of(args->out[0]);
  uint64_t start = (uint64_t)whole(attrs->start), step = (uint64_t)whole(attrs->step);
  walk w = walk_over(&y, 1, 0, view_count(&y));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      double value = fma((double)(w.first + i), attrs->step, attrs->start);
      int64_t integer = (int64_t)(start + (uint64_t)(w.first + i) * step);
      if (dtype_is_float(y.dtype))
        store_f64(y.dtype, walk_at(&w, 0, i), 1, 1, &value);
      else
        store_i64(y.dtype, walk_at(&w, 0, i), 1, 1, &integer);
    }
  return TN_OK;
}

tn_status reference_linspace(const tn_kernel_args *args) {
  const tn_linspace_attrs *attrs = args->attrs;
  view y = view_of(args->out[0]);
  int64_t last = view_count(&y) - 1;
  double step = last > 0 ? (attrs->stop - attrs->start) / (double)last : 0;
  walk w = walk_over(&y, 1, 0, last + 1);
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      double value = fma((double)(w.first + i), step, attrs->start);
      if (w.first + i == last && last > 0) value = attrs->stop;
      if (w.first + i == 0) value = attrs->start;
      store_f64(y.dtype, walk_at(&w, 0, i), 1, 1, &value);
    }
  return TN_OK;
}

/* Column minus row of the element at a logical index. */
static int64_t diagonal_of(const view *v, int64_t flat) {
  int64_t columns = v->shape[v->ndim - 1], rows = v->shape[v->ndim - 2];
  return flat % columns - flat / columns % rows;
}

tn_status reference_eye(const tn_kernel_args *args) {
  const tn_eye_attrs *attrs = args->attrs;
  view y = view_of(args->out[0]);
  walk w = walk_over(&y, 1, 0, view_count(&y));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      double value = diagonal_of(&y, w.first + i) == attrs->diagonal;
      store_f64(y.dtype, walk_at(&w, 0, i), 1, 1, &value);
    }
  return TN_OK;
}

static tn_status triangle(const tn_kernel_args *args, bool upper) {
  int64_t diagonal = ((const tn_tril_attrs *)args->attrs)->diagonal;
  view views[2] = {view_of(args->in[0]), view_of(args->out[0])};
  size_t size = tn_dtype_size(views[0].dtype);
  walk w = walk_over(views, 2, 0, view_count(&views[0]));
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      int64_t d = diagonal_of(&views[0], w.first + i);
      if (upper ? d >= diagonal : d <= diagonal)
        memmove(walk_at(&w, 1, i), walk_at(&w, 0, i), size);
      else
        memset(walk_at(&w, 1, i), 0, size);
    }
  return TN_OK;
}

tn_status reference_tril(const tn_kernel_args *args) { return triangle(args, false); }
tn_status reference_triu(const tn_kernel_args *args) { return triangle(args, true); }
