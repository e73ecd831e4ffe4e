/*
 * Conversions to one element type from float64 and int64, as tn_cast makes them, with one
 * rounding.
 */
#ifndef KERNELS_CUDA_CONVERT_CUH
#define KERNELS_CUDA_CONVERT_CUH

#include "kernels/cuda/base/common.cuh"

namespace {

/* Rounds towards zero and leaves the lowest bit set if anything was cut off: a later
 * rounding to far fewer bits then comes out as if it were the first. */
__device__ float odd_float(double x) {
  float y = __double2float_rz(x);
  return (double)y == x || x != x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}
__device__ float odd_float(int64_t x) {
  float y = __ll2float_rz(x);
  return __float2ll_rz(y) == x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}

template <class T> struct convert; /* to the float types */
template <> struct convert<double> {
  static __device__ double from(double x) { return x; }
  static __device__ double from(int64_t x) { return (double)x; }
};
template <> struct convert<float> {
  static __device__ float from(double x) { return (float)x; }
  static __device__ float from(int64_t x) { return (float)x; }
};
template <> struct convert<half_t> {
  static __device__ half_t from(double x) { return stored<half_t>::from(odd_float(x)); }
  static __device__ half_t from(int64_t x) { return stored<half_t>::from(odd_float(x)); }
};
template <> struct convert<bfloat_t> {
  static __device__ bfloat_t from(double x) { return stored<bfloat_t>::from(odd_float(x)); }
  static __device__ bfloat_t from(int64_t x) { return stored<bfloat_t>::from(odd_float(x)); }
};
template <> struct convert<bool_t> {
  static __device__ bool_t from(double x) { return stored<bool_t>::from(x != 0); }
  static __device__ bool_t from(int64_t x) { return stored<bool_t>::from(x != 0); }
};

/* Towards zero; the hardware saturates, NaN gives 0. */
template <class T> __device__ T saturate(double x, double low, double high) {
  if (x != x) return 0;
  if (x <= low) return (T)(int64_t)low;
  if (x >= high) return (T)(int64_t)high;
  return (T)__double2ll_rz(x);
}
template <> struct convert<uint8_t> {
  static __device__ uint8_t from(double x) { return saturate<uint8_t>(x, 0, 255); }
  static __device__ uint8_t from(int64_t x) { return (uint8_t)x; }
};
template <> struct convert<int8_t> {
  static __device__ int8_t from(double x) { return saturate<int8_t>(x, -128, 127); }
  static __device__ int8_t from(int64_t x) { return (int8_t)x; }
};
template <> struct convert<int16_t> {
  static __device__ int16_t from(double x) { return saturate<int16_t>(x, -32768, 32767); }
  static __device__ int16_t from(int64_t x) { return (int16_t)x; }
};
template <> struct convert<int32_t> {
  static __device__ int32_t from(double x) {
    return saturate<int32_t>(x, -2147483648.0, 2147483647.0);
  }
  static __device__ int32_t from(int64_t x) { return (int32_t)x; }
};
template <> struct convert<int64_t> {
  static __device__ int64_t from(double x) {
    if (x != x) return 0;
    if (x >= 9223372036854775808.0) return INT64_MAX;
    if (x <= -9223372036854775808.0) return INT64_MIN;
    return __double2ll_rz(x);
  }
  static __device__ int64_t from(int64_t x) { return x; }
};

} // namespace

#endif /* KERNELS_CUDA_CONVERT_CUH */
