/*
 * The functions of this folder for doubles that need double's own precision: double_<name>
 * of the maths library, under the names that composed.inc expects.
 */
#ifndef TENON_KERNELS_WIDE_DOUBLE_H
#define TENON_KERNELS_WIDE_DOUBLE_H

#include "kernels/common/wide/wide.h"

#define DOUBLE_FN(f)                                                                               \
  WIDE_FN double double_##f(double x) { return f(x); }
DOUBLE_FN(exp)
DOUBLE_FN(exp2)
DOUBLE_FN(expm1)
DOUBLE_FN(sinh)
DOUBLE_FN(cosh)
DOUBLE_FN(tanh)
DOUBLE_FN(log)
DOUBLE_FN(log2)
DOUBLE_FN(log10)
DOUBLE_FN(log1p)
DOUBLE_FN(asinh)
DOUBLE_FN(acosh)
DOUBLE_FN(atanh)
DOUBLE_FN(cbrt)
DOUBLE_FN(sin)
DOUBLE_FN(cos)
DOUBLE_FN(tan)
DOUBLE_FN(asin)
DOUBLE_FN(acos)
DOUBLE_FN(atan)
DOUBLE_FN(erf)
DOUBLE_FN(erfc)
#undef DOUBLE_FN

#endif
