/* Choosing, limiting and blending elements. */
#include <math.h>
#include <string.h>

#include "bodies.h"
#include "kernels.h"

#define WHERE_RUNS(type)                                                                           \
  while (walk_next(&w)) {                                                                          \
    const uint8_t *condition = w.at[0];                                                            \
    const type *a = w.at[1], *b = w.at[2];                                                         \
    type *y = w.at[3];                                                                             \
    for (int64_t i = 0; i < w.n; ++i)                                                              \
      y[i * w.step[3]] = condition[i * w.step[0]] ? a[i * w.step[1]] : b[i * w.step[2]];           \
  }                                                                                                \
  return TN_OK;

/* Bits are moved, not values. */
static tn_status where_range(void *ctx, int64_t begin, int64_t end) {
  const view *views = ctx;
  walk w = walk_over(views, 4, begin, end);
  switch (tn_dtype_size(views[3].dtype)) {
  case 1:
    WHERE_RUNS(uint8_t)
  case 2:
    WHERE_RUNS(uint16_t)
  case 4:
    WHERE_RUNS(uint32_t)
  default:
    WHERE_RUNS(uint64_t)
  }
}

tn_status reference_where(const tn_kernel_args *args) {
  view views[4] = {view_of(args->in[0]), view_of(args->in[1]), view_of(args->in[2]),
                   view_of(args->out[0])};
  int64_t count = view_count(&views[3]);
  return count ? args->host->parallel_for(args->host, count, 16384, where_range, views) : TN_OK;
}

static void clamp_f64(const run *r, double *const *in, double *const *out) {
  const tn_clamp_attrs *attrs = r->attrs;
  for (int64_t i = 0; i < r->n; ++i) {
    double x = in[0][i];
    if (x < attrs->min) x = attrs->min;
    out[0][i] = x > attrs->max ? attrs->max : x;
  }
}

/* A bound as tn_cast converts it; NaN: the extreme given. */
static int64_t bound_int(tn_dtype dtype, double bound, double none) {
  double from = bound != bound ? none : bound;
  int64_t to = 0, wide = 0;
  store_f64(dtype, &to, 1, 1, &from);
  load_i64(dtype, &to, 1, 1, &wide);
  return wide;
}

static void clamp_i64(const run *r, int64_t *const *in, int64_t *const *out) {
  const tn_clamp_attrs *attrs = r->attrs;
  int64_t min = bound_int(r->dtype, attrs->min, -INFINITY);
  int64_t max = bound_int(r->dtype, attrs->max, INFINITY);
  for (int64_t i = 0; i < r->n; ++i) {
    int64_t x = in[0][i] < min ? min : in[0][i];
    out[0][i] = x > max ? max : x;
  }
}
KERNEL_NUMBER(clamp)

static void clamp_grad_f64(const run *r, double *const *in, double *const *out) {
  const tn_clamp_grad_attrs *attrs = r->attrs;
  for (int64_t i = 0; i < r->n; ++i) {
    double x = in[1][i];
    out[0][i] = x < attrs->min || x > attrs->max ? 0 : in[0][i];
  }
}
KERNEL_FLOAT(clamp_grad)

static void lerp_f64(const run *r, double *const *in, double *const *out) {
  for (int64_t i = 0; i < r->n; ++i) {
    double a = in[0][i], b = in[1][i], t = in[2][i];
    double y = t < 0.5 ? a + t * (b - a) : b - (1 - t) * (b - a);
    out[0][i] = t == 0 ? a : t == 1 ? b : y;
  }
}
KERNEL_FLOAT(lerp)

/* a b + c rounded to odd, of 16-bit floats, whose product is a double: the store's
 * rounding is then the only one (Boldo and Melquiond 2008). */
static double fma_to_odd(double a, double b, double c) {
  double product = a * b, sum = product + c;
  double from_c = sum - product, error = (product - (sum - from_c)) + (c - from_c);
  int64_t bits;
  if (error == 0 || error != error) return sum;
  memcpy(&bits, &sum, sizeof bits);
  if (bits & 1) return sum;
  return nextafter(sum, error > 0 ? (double)INFINITY : -(double)INFINITY);
}

static void fma_f64(const run *r, double *const *in, double *const *out) {
  for (int64_t i = 0; i < r->n; ++i) {
    double a = in[0][i], b = in[1][i], c = in[2][i];
    out[0][i] = r->dtype == TN_F64   ? fma(a, b, c)
                : r->dtype == TN_F32 ? (double)fmaf((float)a, (float)b, (float)c)
                                     : fma_to_odd(a, b, c);
  }
}

static void fma_i64(const run *r, int64_t *const *in, int64_t *const *out) {
  for (int64_t i = 0; i < r->n; ++i)
    out[0][i] = (int64_t)((uint64_t)in[0][i] * (uint64_t)in[1][i] + (uint64_t)in[2][i]);
}
KERNEL_NUMBER(fma)
