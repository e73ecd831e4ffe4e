/*
 * Elementary functions of one element, and questions about it.
 */
#include <math.h>

#include "bodies.h"
#include "kernels.h"

ONE_FLOAT(cbrt, cbrt(x))
ONE_FLOAT(exp2, exp2(x))
ONE_FLOAT(expm1, expm1(x))
ONE_FLOAT(log2, log2(x))
ONE_FLOAT(log10, log10(x))
ONE_FLOAT(log1p, log1p(x))
ONE_FLOAT(sin, sin(x))
ONE_FLOAT(cos, cos(x))
ONE_FLOAT(tan, tan(x))
ONE_FLOAT(asin, asin(x))
ONE_FLOAT(acos, acos(x))
ONE_FLOAT(atan, atan(x))
ONE_FLOAT(sinh, sinh(x))
ONE_FLOAT(cosh, cosh(x))
ONE_FLOAT(asinh, asinh(x))
ONE_FLOAT(acosh, acosh(x))
ONE_FLOAT(atanh, atanh(x))
ONE_FLOAT(erf, erf(x))
ONE_FLOAT(erfc, erfc(x))
ONE_FLOAT(reciprocal, 1 / x)
ONE_FLOAT(rsqrt, 1 / sqrt(x))
ONE_NUMBER(abs, fabs(x), x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
ONE_NUMBER(sign, x > 0 ? 1 : x < 0 ? -1 : x, (x > 0) - (x < 0))
ONE_NUMBER(square, x *x, (int64_t)((uint64_t)x *(uint64_t)x))
ONE_NUMBER(floor, floor(x), x)
ONE_NUMBER(ceil, ceil(x), x)
ONE_NUMBER(round, nearbyint(x), x)
ONE_NUMBER(trunc, trunc(x), x)
ONE_FLOAT(isnan, x != x)
ONE_FLOAT(isinf, fabs(x) == INFINITY)
ONE_FLOAT(isfinite, fabs(x) < INFINITY)
ONE_NUMBER(logical_not, x == 0, x == 0)
ONE_INT(bitwise_not, r->dtype == TN_BOOL ? !x : ~x)
