/*
 * Elementary functions. Where CUDA documents a bound for float that the operator's row
 * allows, its own function serves; the others compute in double, as the CPU kernels do.
 */
#include "kernels/common/wide/double.h"
#include "kernels/common/wide/erf.h"
#include "kernels/common/wide/exp.h"
#include "kernels/common/wide/log.h"
#include "kernels/cuda/elementwise/unary.cuh"

WIDE_UNARY(exp)
WIDE_UNARY(exp2)
PLAIN_UNARY(expm1, expm1(x))
PLAIN_UNARY(log, log(x))
PLAIN_UNARY(log2, log2(x))
PLAIN_UNARY(log1p, log1p(x))
PLAIN_UNARY(cbrt, cbrt(x))
WIDE_UNARY(log10)
WIDE_UNARY(sinh)
WIDE_UNARY(cosh)
WIDE_UNARY(tanh)
WIDE_UNARY(asinh)
WIDE_UNARY(acosh)
WIDE_UNARY(atanh)
WIDE_UNARY(erf)
WIDE_UNARY(erfc)
