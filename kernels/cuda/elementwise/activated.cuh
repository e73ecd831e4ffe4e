/*
 * Activations as epilogues, of numbers in the type that they were computed in.
 */
#ifndef KERNELS_CUDA_ACTIVATED_CUH
#define KERNELS_CUDA_ACTIVATED_CUH

#include "kernels/common/wide/composed.h"
#include "kernels/cuda/elementwise/single.cuh"
#include "tenon/base.h"

namespace {

/* Those of a few additions and comparisons, which any kernel may apply as it stores; others stay as
 * they are. NaN stays NaN. */
static inline bool is_simple_activation(int activation) {
  return activation == TN_ACTIVATION_NONE || activation == TN_ACTIVATION_RELU ||
         activation == TN_ACTIVATION_RELU6 || activation == TN_ACTIVATION_HARDSWISH;
}

template <class C> __device__ __forceinline__ C simply_activated(int activation, C x) {
  switch (activation) {
  case TN_ACTIVATION_RELU:
    return x <= (C)0 ? (C)0 : x;
  case TN_ACTIVATION_RELU6:
    return x <= (C)0 ? (C)0 : x > (C)6 ? (C)6 : x;
  case TN_ACTIVATION_HARDSWISH:
    return x <= (C)-3 ? (C)0 : x >= (C)3 ? x : x * (x + (C)3) / (C)6;
  default:
    return x;
  }
}

/* Called rather than put in at every place, of which a thread that stores vectors has many. */
__device__ __noinline__ float composed_activation(int activation, float x) {
  switch (activation) {
  case TN_ACTIVATION_GELU:
    return single_gelu(x);
  case TN_ACTIVATION_GELU_TANH:
    return (float)wide_gelu_tanh((double)x);
  case TN_ACTIVATION_SILU:
    return single_silu(x);
  default:
    return single_sigmoid(x);
  }
}

/* All of them. */
__device__ __forceinline__ float activated(int activation, float x) {
  switch (activation) {
  case TN_ACTIVATION_GELU:
  case TN_ACTIVATION_GELU_TANH:
  case TN_ACTIVATION_SILU:
  case TN_ACTIVATION_SIGMOID:
    return composed_activation(activation, x);
  default:
    return simply_activated(activation, x);
  }
}

/* As far as a kernel that sums in C stores results of type T so: those of 16 bits, which would else
 * be rounded twice, by all; others by the simple ones. */
template <class T, class C> __device__ __forceinline__ C activated_for(int activation, C x) {
  if constexpr (sizeof(T) == 2)
    return activated(activation, x);
  else
    return simply_activated(activation, x);
}

} // namespace

#endif /* KERNELS_CUDA_ACTIVATED_CUH */
