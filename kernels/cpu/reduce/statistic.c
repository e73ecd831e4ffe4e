/*
 * Variance, log-sum-exp and norms over any axes. The first two go over their input twice,
 * the second time by distances from each output's centre, so that nothing cancels and
 * nothing overflows.
 */
#include "kernels/cpu/base/vmath.h"
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

#define BODY "kernels/cpu/reduce/statistic.inc"
#include "kernels/cpu/base/stamp_float.inc"
