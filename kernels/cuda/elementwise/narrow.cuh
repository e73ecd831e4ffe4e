/*
 * Activations in float, for elements of 16 bits. Each is right to some 1e-5 of its value, also
 * where that is tiny: the tails of erfc and exp multiply the rounding of their arguments, up to 100
 * times.
 */
#ifndef KERNELS_CUDA_NARROW_ACTIVATION_CUH
#define KERNELS_CUDA_NARROW_ACTIVATION_CUH

#include <cuda_runtime.h>

namespace {

/* Beyond these all is 0 or x in 16 bits, and products with infinities are none. */
__device__ __forceinline__ float narrow_clamp(float x) { return x < -100.0f ? -100.0f : x; }

/* e^-|x| is never infinite, and 1 - sigmoid is not taken. */
__device__ __forceinline__ float narrow_sigmoid(float x) {
  const float t = expf(-fabsf(x)), r = 1.0f / (1.0f + t);
  return x < 0.0f ? t * r : r;
}

__device__ __forceinline__ float narrow_silu(float x) {
  const float c = narrow_clamp(x);
  return c * narrow_sigmoid(c);
}

__device__ __forceinline__ float narrow_silu_slope(float x) {
  const float c = fminf(narrow_clamp(x), 100.0f), t = expf(-fabsf(c)), r = 1.0f / (1.0f + t);
  return x != x ? x : fmaf(c * t * r, r, c < 0.0f ? t * r : r);
}

/* The distribution function of the normal distribution. */
__device__ __forceinline__ float narrow_normal(float x) { return 0.5f * erfcf(x * -0.70710678f); }

__device__ __forceinline__ float narrow_gelu_slope(float x) {
  const float c = fminf(narrow_clamp(x), 100.0f);
  return x != x ? x : fmaf(0.39894228f * c, expf(-0.5f * c * c), narrow_normal(c));
}

__device__ __forceinline__ float narrow_gelu_argument(float x) {
  return 1.5957691f * fmaf(0.044715f * x * x, x, x);
}

__device__ __forceinline__ float narrow_gelu_tanh(float x) {
  const float c = narrow_clamp(x);
  return c * narrow_sigmoid(narrow_gelu_argument(c));
}

__device__ __forceinline__ float narrow_gelu_tanh_slope(float x) {
  const float c = fminf(narrow_clamp(x), 100.0f), u = narrow_gelu_argument(c);
  const float t = expf(-fabsf(u)), r = 1.0f / (1.0f + t);
  const float slope = 1.5957691f * fmaf(0.134145f * c, c, 1.0f);
  return x != x ? x : fmaf(c * t * r * r, slope, u < 0.0f ? t * r : r);
}

} // namespace

#endif /* KERNELS_CUDA_NARROW_ACTIVATION_CUH */
