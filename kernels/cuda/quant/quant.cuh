/* Division and rounding of quantised numbers, each as one IEEE operation. */
#ifndef KERNELS_CUDA_QUANT_CUH
#define KERNELS_CUDA_QUANT_CUH

#include "kernels/cuda/base/common.cuh"

namespace {

template <class C> __device__ __forceinline__ C divide(C a, C b) { return a / b; }
template <> __device__ __forceinline__ float divide(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ int whole(float v) { return __float2int_rn(v); }
__device__ __forceinline__ int whole(double v) { return __double2int_rn(v); }

/* A quotient, which may be NaN, from the zero point on. */
template <class C> __device__ __forceinline__ int saturated(C v, int zero, int low, int high) {
  v = v == v ? v : 0;
  v = v < (C)(low - zero) ? (C)(low - zero) : v;
  v = v > (C)(high - zero) ? (C)(high - zero) : v;
  return whole(v) + zero;
}

} // namespace

#endif /* KERNELS_CUDA_QUANT_CUH */
