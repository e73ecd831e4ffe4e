/* Variance, log-sum-exp and norms: reductions that look at their elements twice, so that
 * nothing cancels and nothing overflows. */
#include <math.h>

#include "kernels.h"
#include "reduce.h"

/* sum f(x, centre) over the walk from its beginning. */
#define SUM(name, expression)                                                                      \
  static double name(const reduction *r, walk *w, double centre) {                                 \
    double total = 0, at[WALK_RUN];                                                                \
    walk_restart(w, w->views[0].data);                                                             \
    while (walk_next(w)) {                                                                         \
      double part = 0;                                                                             \
      load_f64(r->inner.dtype, w->at[0], w->step[0], w->n, at);                                    \
      for (int64_t i = 0; i < w->n; ++i) {                                                         \
        double x = at[i];                                                                          \
        part += expression;                                                                        \
      }                                                                                            \
      total += part;                                                                               \
    }                                                                                              \
    return total;                                                                                  \
  }

SUM(sum_away, x - centre)
SUM(sum_squares_away, (x - centre) * (x - centre))
SUM(sum_exp, exp(x - centre))
SUM(sum_magnitudes, fabs(x) / centre)
SUM(sum_squares, (x / centre) * (x / centre))

/* The largest x, or |x|; NaN if there is one. */
static double largest(const reduction *r, walk *w, double least, bool magnitudes) {
  double x[WALK_RUN];
  while (walk_next(w)) {
    load_f64(r->inner.dtype, w->at[0], w->step[0], w->n, x);
    for (int64_t i = 0; i < w->n; ++i) {
      double v = magnitudes ? fabs(x[i]) : x[i];
      if (v != v) return v;
      if (v > least) least = v;
    }
  }
  return least;
}

static double variance(const reduction *r, walk *w, double correction) {
  double count = (double)r->count, mean = sum_away(r, w, 0) / count;
  mean += sum_away(r, w, mean) / count;
  return sum_squares_away(r, w, mean) / fmax(count - correction, 0);
}

static void var_f64(const reduction *r, walk *w, void *y) {
  const tn_var_attrs *attrs = r->attrs;
  double v = variance(r, w, attrs->correction);
  store_f64(r->kept[1].dtype, y, 1, 1, &v);
}

static void std_f64(const reduction *r, walk *w, void *y) {
  const tn_std_attrs *attrs = r->attrs;
  double v = sqrt(variance(r, w, attrs->correction));
  store_f64(r->kept[1].dtype, y, 1, 1, &v);
}

static void logsumexp_f64(const reduction *r, walk *w, void *y) {
  double v = largest(r, w, -INFINITY, false);
  if (isfinite(v)) v += log(sum_exp(r, w, v));
  store_f64(r->kept[1].dtype, y, 1, 1, &v);
}

static void norm_f64(const reduction *r, walk *w, void *y) {
  const tn_norm_attrs *attrs = r->attrs;
  double v = largest(r, w, 0, true);
  if (isfinite(v) && v > 0 && attrs->ord == 1) v *= sum_magnitudes(r, w, v);
  if (isfinite(v) && v > 0 && attrs->ord == 2) v *= sqrt(sum_squares(r, w, v));
  store_f64(r->kept[1].dtype, y, 1, 1, &v);
}

#define KERNEL(name)                                                                               \
  tn_status reference_##name(const tn_kernel_args *args) {                                         \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    return reduce(args, &attrs->axes, attrs->keepdims, name##_f64);                                \
  }

KERNEL(var)
KERNEL(std)
KERNEL(logsumexp)
KERNEL(norm)
