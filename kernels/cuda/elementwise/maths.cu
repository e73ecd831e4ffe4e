/*
 * Elementary functions. Where CUDA documents a bound for float that the operator's row
 * allows, its own function serves; the others are of single.cuh.
 */
#include "kernels/common/wide/double.h"
#include "kernels/common/wide/exp.h"
#include "kernels/common/wide/log.h"
#include "kernels/cuda/elementwise/single.cuh"
#include "kernels/cuda/elementwise/unary.cuh"

WIDE_UNARY(exp2)
PLAIN_UNARY(expm1, expm1(x))
PLAIN_UNARY(log, log(x))
PLAIN_UNARY(log2, log2(x))
PLAIN_UNARY(log1p, log1p(x))
PLAIN_UNARY(cbrt, cbrt(x))

/* A function of single.cuh where `serves` says so of x, else in double. */
#define OFTEN_SINGLE(name, serves, ...)                                                            \
  namespace {                                                                                      \
  SINGLE_RARE_FN float rare_##name(float x) { return (float)wide_##name((double)x); }              \
  struct name##_op {                                                                               \
    __VA_ARGS__                                                                                    \
    __device__ __forceinline__ float operator()(float x) const {                                   \
      return (serves) ? single_##name(x) : rare_##name(x);                                         \
    }                                                                                              \
    __device__ __forceinline__ double operator()(double x) const { return double_##name(x); }      \
  };                                                                                               \
  }                                                                                                \
  RUN_UNARY(name)
OFTEN_SINGLE(exp, fabsf(x) <= 87.0f)
OFTEN_SINGLE(log10, __float_as_uint(x) - 0x00800000u < 0x7f000000u, /* normal and above 0 */
             using many_steps = void;)

SINGLE_UNARY(sinh)
SINGLE_UNARY(cosh)
SINGLE_UNARY(tanh)
SINGLE_UNARY(asinh)
SINGLE_UNARY(acosh)
SINGLE_UNARY(atanh)
SINGLE_UNARY(erf)
SINGLE_UNARY(erfc)
