/*
 * Trigonometric functions and their inverses. Only angles beyond SINGLE_TURN_MOST take CUDA's own
 * functions with their longer reduction, in double.
 */
#include "kernels/common/wide/double.h"
#include "kernels/cuda/elementwise/single.cuh"
#include "kernels/cuda/elementwise/unary.cuh"

#define ANGLE(name)                                                                                \
  namespace {                                                                                      \
  SINGLE_RARE_FN float rare_##name(float x) { return (float)name((double)x); }                     \
  struct name##_op {                                                                               \
    using many_steps = void;                                                                       \
    __device__ __forceinline__ float operator()(float x) const {                                   \
      return fabsf(x) <= SINGLE_TURN_MOST ? single_##name(x) : rare_##name(x);                     \
    }                                                                                              \
    __device__ __forceinline__ double operator()(double x) const { return name(x); }               \
  };                                                                                               \
  }                                                                                                \
  RUN_UNARY(name)
ANGLE(sin)
ANGLE(cos)
ANGLE(tan)
PLAIN_UNARY(asin, asin(x))
PLAIN_UNARY(acos, acos(x))
PLAIN_UNARY(atan, atan(x))
