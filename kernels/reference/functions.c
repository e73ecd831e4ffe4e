/*
 * Elementary functions of one element, and questions about it.
 */
#include <math.h>

#include "bodies.h"
#include "kernels.h"

/* An operator that is one function of the C library. */
#define FUNCTION(name, function)                                                                   \
  BODY_ONE(name##_f64, double, function(x))                                                        \
  KERNEL_FLOAT(name)

FUNCTION(cbrt, cbrt)
FUNCTION(exp2, exp2)
FUNCTION(expm1, expm1)
FUNCTION(log2, log2)
FUNCTION(log10, log10)
FUNCTION(log1p, log1p)
FUNCTION(sin, sin)
FUNCTION(cos, cos)
FUNCTION(tan, tan)
FUNCTION(asin, asin)
FUNCTION(acos, acos)
FUNCTION(atan, atan)
FUNCTION(sinh, sinh)
FUNCTION(cosh, cosh)
FUNCTION(asinh, asinh)
FUNCTION(acosh, acosh)
FUNCTION(atanh, atanh)
FUNCTION(erf, erf)
FUNCTION(erfc, erfc)

BODY_ONE(reciprocal_f64, double, 1 / x)
KERNEL_FLOAT(reciprocal)

BODY_ONE(rsqrt_f64, double, 1 / sqrt(x))
KERNEL_FLOAT(rsqrt)

BODY_ONE(abs_f64, double, fabs(x))
BODY_ONE(abs_i64, int64_t, x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
KERNEL_NUMBER(abs)

BODY_ONE(sign_f64, double, x > 0 ? 1 : x < 0 ? -1 : x)
BODY_ONE(sign_i64, int64_t, (x > 0) - (x < 0))
KERNEL_NUMBER(sign)

BODY_ONE(square_f64, double, x *x)
BODY_ONE(square_i64, int64_t, (int64_t)((uint64_t)x *(uint64_t)x))
KERNEL_NUMBER(square)

BODY_ONE(floor_f64, double, floor(x))
BODY_ONE(ceil_f64, double, ceil(x))
BODY_ONE(round_f64, double, nearbyint(x))
BODY_ONE(trunc_f64, double, trunc(x))
BODY_ONE(floor_i64, int64_t, x)
BODY_ONE(ceil_i64, int64_t, x)
BODY_ONE(round_i64, int64_t, x)
BODY_ONE(trunc_i64, int64_t, x)
KERNEL_NUMBER(floor)
KERNEL_NUMBER(ceil)
KERNEL_NUMBER(round)
KERNEL_NUMBER(trunc)

BODY_ONE(isnan_f64, double, x != x)
KERNEL_FLOAT(isnan)

BODY_ONE(isinf_f64, double, fabs(x) == INFINITY)
KERNEL_FLOAT(isinf)

BODY_ONE(isfinite_f64, double, fabs(x) < INFINITY)
KERNEL_FLOAT(isfinite)

BODY_ONE(logical_not_f64, double, x == 0)
BODY_ONE(logical_not_i64, int64_t, x == 0)
KERNEL_NUMBER(logical_not)

BODY_ONE(bitwise_not_i64, int64_t, r->dtype == TN_BOOL ? !x : ~x)
tn_status reference_bitwise_not(const tn_kernel_args *args) {
  return map(args, NULL, bitwise_not_i64);
}
