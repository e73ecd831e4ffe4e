/*
 * Elementary functions. Where CUDA documents a bound for float that the operator's row
 * allows, its own function serves; the others are of single.cuh.
 */
#include "kernels/common/wide/double.h"
#include "kernels/common/wide/exp.h"
#include "kernels/cuda/elementwise/narrow.cuh"
#include "kernels/cuda/elementwise/unary.cuh"

PLAIN_UNARY(expm1, expm1(x))
PLAIN_UNARY(log, log(x))
PLAIN_UNARY(log2, log2(x))
PLAIN_UNARY(log1p, log1p(x))
PLAIN_UNARY(cbrt, cbrt(x))

namespace {

SINGLE_RARE_FN float rare_exp(float x) { return (float)wide_exp((double)x); }
SINGLE_RARE_FN float rare_exp2(float x) { return (float)wide_exp2((double)x); }

/* By single.cuh where results are normal, else in double. */
struct exp_op {
  static constexpr bool wide_in_half = true;
  __device__ __forceinline__ float narrow(float x) const { return narrow_exp_value(x); }
  __device__ __forceinline__ float operator()(float x) const {
    return fabsf(x) <= 87.0f ? single_exp(x) : rare_exp(x);
  }
  __device__ __forceinline__ double operator()(double x) const { return double_exp(x); }
};
struct exp2_op {
  static constexpr bool wide_in_half = true;
  __device__ __forceinline__ float narrow(float x) const { return narrow_exp2(x); }
  __device__ __forceinline__ float operator()(float x) const {
    return fabsf(x) <= 126.0f ? single_exp2(x) : rare_exp2(x);
  }
  __device__ __forceinline__ double operator()(double x) const { return double_exp2(x); }
};

} // namespace
RUN_UNARY(exp)
RUN_UNARY(exp2)
SINGLE_UNARY(log10)

SINGLE_UNARY(sinh)
NARROWED_SINGLE_OP(cosh, true)
RUN_UNARY(cosh)
NARROWED_SINGLE_OP(tanh, true)
RUN_UNARY(tanh)
SINGLE_UNARY(asinh)
SINGLE_UNARY(acosh)
SINGLE_UNARY(atanh)
SINGLE_UNARY(erf)
SINGLE_UNARY(erfc)
