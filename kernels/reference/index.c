/* Gathering and scattering by index. */
#include <math.h>

#include "iterate.h"
#include "kernels.h"

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
