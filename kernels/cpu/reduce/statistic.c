/*
 * Variance, log-sum-exp and norms over any axes. The first two go over their input twice,
 * the second time by distances from each output's centre, so that nothing cancels and
 * nothing overflows.
 */
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/elementwise/maths_blocks.h"
#include "kernels/cpu/reduce/reduce.h"

/* Room for one centre per output. */
static tn_status centres_make(const tn_host *host, reduce_plan *p) {
  p->centre = host->alloc(host, (size_t)p->outputs * sizeof *p->centre, 64);
  if (p->centre) return TN_OK;
  return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld numbers of scratch",
                    (long long)p->outputs);
}

/* Runs `first`, which fills the centres, then `second`. */
static tn_status two_passes(const tn_kernel_args *args, const tn_axes *axes,
                            tn_status (*first)(const tn_host *host, reduce_plan *p),
                            tn_status (*second)(const tn_host *host, reduce_plan *p)) {
  reduce_plan p;
  ISA(reduce_plan_build)(&p, args->in[0], args->out[0], axes);
  p.attrs = args->attrs;
  if (p.outputs == 0) return TN_OK;
  tn_status status = centres_make(args->host, &p);
  if (status == TN_OK) status = first(args->host, &p);
  if (status == TN_OK) status = second(args->host, &p);
  args->host->free(args->host, p.centre);
  return status;
}

/* The divisor of a variance: attribute `correction` below the count, never below 0. */
static double divisor_of(const reduce_plan *p) {
  const tn_var_attrs *attrs = p->attrs; /* std has the same layout */
  const double divisor = (double)p->terms - attrs->correction;
  return divisor > 0 ? divisor : 0;
}

/* log sum e^x from a finite largest x and the sum of e^(x - largest). */
static double log_of_sum(double largest, double sum) {
  return isfinite(largest) ? largest + log(sum) : largest;
}

/* Whether a sum of squares lost nothing to overflow or underflow; of NaN too. */
static bool square_is_safe(double sum) { return !(sum < 0x1p-900) && sum != (double)INFINITY; }

#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
#define EXP_SUM_BY_REGISTERS

/* e^x of numbers that are at most 0. Below -87, where one scale is not enough, it is the least
 * normal number or so, which the sum of terms of which one is 1 does not show. */
static inline FLOATS exp_term(FLOATS x) {
  const maths_power e = maths_power_of(FLOATS_MAX(MATHS_OF(-87), x));
  const maths_words scale = (MATHS_BITS(e.t) + (127u - MATHS_ROUND_BITS)) << 23;
  return (MATHS_OF(1) + (e.high + maths_rest(e))) * MATHS_FLOAT(scale);
}

/* lane[j % 32] += e^(x[j] - top), j < n but for less than 32 at the end; returns how many. */
static int64_t exp_sum_many(double *lane, const float *x, int64_t n, float top) {
  enum { STEP = 32, VECTORS = STEP / 4 };
  const __m256 most = _mm256_set1_ps(top);
  __m256d sum[VECTORS];
  int64_t i = 0;
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) sum[v] = _mm256_loadu_pd(lane + 4 * v);
  for (; i + STEP <= n; i += STEP)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v += 2) {
      const __m256 term = exp_term(_mm256_sub_ps(_mm256_loadu_ps(x + i + 4 * v), most));
      const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(term, 1));
      sum[v] = _mm256_add_pd(sum[v], _mm256_cvtps_pd(_mm256_castps256_ps128(term)));
      sum[v + 1] = _mm256_add_pd(sum[v + 1], high);
    }
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) _mm256_storeu_pd(lane + 4 * v, sum[v]);
  return i;
}
#endif

#define BODY "kernels/cpu/reduce/statistic.inc"
#include "kernels/cpu/base/stamp_float.inc"
