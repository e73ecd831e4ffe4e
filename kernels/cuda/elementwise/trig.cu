/*
 * Trigonometric functions and their inverses, floats in double as in the CPU kernels. Only
 * angles beyond WIDE_TRIG_MOST take CUDA's own functions with their longer reduction.
 */
#include "kernels/common/wide/double.h"
#include "kernels/common/wide/trig.h"
#include "kernels/cuda/elementwise/unary.cuh"

#define ANGLE(name)                                                                                \
  namespace {                                                                                      \
  struct name##_op {                                                                               \
    __device__ __forceinline__ float operator()(float x) const {                                   \
      return fabsf(x) > (float)WIDE_TRIG_MOST ? (float)name((double)x)                             \
                                              : (float)wide_##name((double)x);                     \
    }                                                                                              \
    __device__ __forceinline__ double operator()(double x) const { return name(x); }               \
  };                                                                                               \
  }                                                                                                \
  RUN_UNARY(name)
ANGLE(sin)
ANGLE(cos)
ANGLE(tan)
WIDE_UNARY(asin)
WIDE_UNARY(acos)
WIDE_UNARY(atan)
