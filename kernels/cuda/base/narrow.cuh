/* From double to any float type with one rounding. */
#ifndef KERNELS_CUDA_NARROW_CUH
#define KERNELS_CUDA_NARROW_CUH

#include "kernels/cuda/base/common.cuh"

/* One rounding from double: to odd first where a 16-bit float follows (Boldo and
 * Melquiond 2008). */
__device__ __forceinline__ float odd_float(double x) {
  float y = __double2float_rz(x);
  return (double)y == x || x != x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}

/* What an element is computed in, such that storing it rounds a double once. */
template <class T> __device__ __forceinline__ compute_t<T> before_narrowing(double x) {
  if constexpr (sizeof(T) == 2)
    return odd_float(x);
  else
    return (T)x;
}

template <class T> struct narrowed {
  static __device__ __forceinline__ T from(double x) {
    return stored<T>::from(before_narrowing<T>(x));
  }
};

#endif /* KERNELS_CUDA_NARROW_CUH */
