/*
 * Reductions over axes; see reduce.h. Here are sums, products, extremes and logic; those
 * that need maths are in reduce_float.c.
 */
#include <math.h>

#include "kernels.h"
#include "reduce.h"

typedef struct reduce_call {
  reduction r;
  reduce_fn fn;
} reduce_call;

static tn_status reduce_range(void *ctx, int64_t begin, int64_t end) {
  const reduce_call *call = ctx;
  walk outer = walk_over(call->r.kept, 2, begin, end);
  walk inner = walk_over(&call->r.inner, 1, 0, call->r.count);
  while (walk_next(&outer)) {
    for (int64_t i = 0; i < outer.n; ++i) {
      walk_restart(&inner, walk_at(&outer, 0, i));
      call->fn(&call->r, &inner, walk_at(&outer, 1, i));
    }
  }
  return TN_OK;
}

/* pre: bit a of `axes` is set where axis a is reduced. */
static reduction reduction_of(const tn_kernel_args *args, uint32_t axes, bool keepdims) {
  view x = view_of(args->in[0]), y = view_of(args->out[0]);
  int kept[TN_MAX_RANK], reduced[TN_MAX_RANK], num_kept = 0, num_reduced = 0, of_y[TN_MAX_RANK];
  for (int a = 0; a < x.ndim; ++a) {
    if (axes >> a & 1) {
      reduced[num_reduced++] = a;
    } else {
      of_y[num_kept] = keepdims ? a : num_kept;
      kept[num_kept++] = a;
    }
  }
  reduction r = {.inner = view_permute(x, num_reduced, reduced)};
  r.kept[0] = view_permute(x, num_kept, kept);
  r.kept[1] = view_permute(y, num_kept, of_y);
  r.count = view_count(&r.inner);
  return r;
}

static uint32_t axes_mask(const tn_axes *axes, int ndim) {
  uint32_t mask = 0;
  if (axes->count == 0) return (1u << ndim) - 1;
  for (int i = 0; i < axes->count; ++i) mask |= 1u << axis_index(axes->axis[i], ndim);
  return mask;
}

tn_status reduce(const tn_kernel_args *args, const tn_axes *axes, bool keepdims, reduce_fn fn) {
  reduce_call call = {reduction_of(args, axes_mask(axes, args->in[0]->ndim), keepdims), fn};
  call.r.attrs = args->attrs;
  int64_t outputs = view_count(&call.r.kept[1]), grain = 1 + 4096 / (call.r.count + 1);
  return outputs ? args->host->parallel_for(args->host, outputs, grain, reduce_range, &call)
                 : TN_OK;
}

static bool is_float(const tn_kernel_args *args) {
  return dtype_is_float(tn_dtype_of(args->in[0]->dtype));
}

/* Sums run by run: short partial sums lose less than one long one. */
static double sum_of(const reduction *r, walk *w) {
  double total = 0, x[WALK_RUN];
  while (walk_next(w)) {
    double part = 0;
    load_f64(r->inner.dtype, w->at[0], w->step[0], w->n, x);
    for (int64_t i = 0; i < w->n; ++i) part += x[i];
    total += part;
  }
  return total;
}

static void sum_f64(const reduction *r, walk *w, void *y) {
  double total = sum_of(r, w);
  store_f64(r->kept[1].dtype, y, 1, 1, &total);
}

static void sum_i64(const reduction *r, walk *w, void *y) {
  int64_t x[WALK_RUN];
  uint64_t total = 0;
  while (walk_next(w)) {
    load_i64(r->inner.dtype, w->at[0], w->step[0], w->n, x);
    for (int64_t i = 0; i < w->n; ++i) total += (uint64_t)x[i];
  }
  int64_t wrapped = (int64_t)total;
  store_i64(r->kept[1].dtype, y, 1, 1, &wrapped);
}

static void mean_f64(const reduction *r, walk *w, void *y) {
  double mean = sum_of(r, w) / (double)r->count;
  store_f64(r->kept[1].dtype, y, 1, 1, &mean);
}

tn_status reference_sum(const tn_kernel_args *args) {
  const tn_sum_attrs *attrs = args->attrs;
  return reduce(args, &attrs->axes, attrs->keepdims, is_float(args) ? sum_f64 : sum_i64);
}

tn_status reference_mean(const tn_kernel_args *args) {
  const tn_mean_attrs *attrs = args->attrs;
  return reduce(args, &attrs->axes, attrs->keepdims, mean_f64);
}

static void prod_f64(const reduction *r, walk *w, void *y) {
  double total = 1, x[WALK_RUN];
  while (walk_next(w)) {
    load_f64(r->inner.dtype, w->at[0], w->step[0], w->n, x);
    for (int64_t i = 0; i < w->n; ++i) total *= x[i];
  }
  store_f64(r->kept[1].dtype, y, 1, 1, &total);
}

static void prod_i64(const reduction *r, walk *w, void *y) {
  int64_t x[WALK_RUN];
  uint64_t total = 1;
  while (walk_next(w)) {
    load_i64(r->inner.dtype, w->at[0], w->step[0], w->n, x);
    for (int64_t i = 0; i < w->n; ++i) total *= (uint64_t)x[i];
  }
  int64_t wrapped = (int64_t)total;
  store_i64(r->kept[1].dtype, y, 1, 1, &wrapped);
}

tn_status reference_prod(const tn_kernel_args *args) {
  const tn_prod_attrs *attrs = args->attrs;
  return reduce(args, &attrs->axes, attrs->keepdims, is_float(args) ? prod_f64 : prod_i64);
}

/* How many elements are not 0. */
static int64_t count_true(const reduction *r, walk *w) {
  int64_t count = 0;
  double x[WALK_RUN];
  while (walk_next(w)) {
    load_f64(r->inner.dtype, w->at[0], w->step[0], w->n, x);
    for (int64_t i = 0; i < w->n; ++i) count += x[i] != 0;
  }
  return count;
}

static void any_of(const reduction *r, walk *w, void *y) { *(uint8_t *)y = count_true(r, w) > 0; }

static void all_of(const reduction *r, walk *w, void *y) {
  *(uint8_t *)y = count_true(r, w) == r->count;
}

tn_status reference_any(const tn_kernel_args *args) {
  const tn_any_attrs *attrs = args->attrs;
  return reduce(args, &attrs->axes, attrs->keepdims, any_of);
}

tn_status reference_all(const tn_kernel_args *args) {
  const tn_all_attrs *attrs = args->attrs;
  return reduce(args, &attrs->axes, attrs->keepdims, all_of);
}

/* The largest or smallest element and where it stands first; NaN is beyond everything. */
typedef struct extreme {
  double f64;
  int64_t i64, index;
} extreme;

static extreme extreme_f64(const reduction *r, walk *w, bool smallest) {
  double x[WALK_RUN];
  extreme best = {.f64 = smallest ? INFINITY : -INFINITY};
  while (walk_next(w)) {
    load_f64(r->inner.dtype, w->at[0], w->step[0], w->n, x);
    for (int64_t i = 0; i < w->n; ++i) {
      if (x[i] != x[i]) return (extreme){.f64 = x[i], .index = w->first + i};
      if (smallest ? x[i] < best.f64 : x[i] > best.f64)
        best = (extreme){.f64 = x[i], .index = w->first + i};
    }
  }
  return best;
}

static extreme extreme_i64(const reduction *r, walk *w, bool smallest) {
  int64_t x[WALK_RUN];
  extreme best = {.i64 = smallest ? INT64_MAX : INT64_MIN};
  while (walk_next(w)) {
    load_i64(r->inner.dtype, w->at[0], w->step[0], w->n, x);
    for (int64_t i = 0; i < w->n; ++i)
      if (smallest ? x[i] < best.i64 : x[i] > best.i64)
        best = (extreme){.i64 = x[i], .index = w->first + i};
  }
  return best;
}

/* max, min, argmax and argmin. */
#define EXTREMES(name, smallest)                                                                   \
  static void name##_f64(const reduction *r, walk *w, void *y) {                                   \
    extreme best = extreme_f64(r, w, smallest);                                                    \
    store_f64(r->kept[1].dtype, y, 1, 1, &best.f64);                                               \
  }                                                                                                \
  static void name##_i64(const reduction *r, walk *w, void *y) {                                   \
    extreme best = extreme_i64(r, w, smallest);                                                    \
    store_i64(r->kept[1].dtype, y, 1, 1, &best.i64);                                               \
  }                                                                                                \
  static void arg##name##_f64(const reduction *r, walk *w, void *y) {                              \
    *(int64_t *)y = extreme_f64(r, w, smallest).index;                                             \
  }                                                                                                \
  static void arg##name##_i64(const reduction *r, walk *w, void *y) {                              \
    *(int64_t *)y = extreme_i64(r, w, smallest).index;                                             \
  }                                                                                                \
  tn_status reference_##name(const tn_kernel_args *args) {                                         \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    return reduce(args, &attrs->axes, attrs->keepdims, is_float(args) ? name##_f64 : name##_i64);  \
  }                                                                                                \
  tn_status reference_arg##name(const tn_kernel_args *args) {                                      \
    const tn_arg##name##_attrs *attrs = args->attrs;                                               \
    tn_axes axes = {1, {(int32_t)attrs->axis}};                                                    \
    return reduce(args, &axes, attrs->keepdims,                                                    \
                  is_float(args) ? arg##name##_f64 : arg##name##_i64);                             \
  }

EXTREMES(max, false)
EXTREMES(min, true)
