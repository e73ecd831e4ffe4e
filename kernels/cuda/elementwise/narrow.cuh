/*
 * Activations in float, for elements of 16 bits. Each is right to some 1e-5 of its value, also
 * where that is tiny: the tails multiply the rounding of an exponential's argument. Slopes, whose
 * error is measured over a tensor, take the device's approximate powers of 2 and reciprocals.
 */
#ifndef KERNELS_CUDA_NARROW_ACTIVATION_CUH
#define KERNELS_CUDA_NARROW_ACTIVATION_CUH

#include "kernels/common/wide/composed.h"
#include "kernels/cuda/elementwise/single.cuh"

namespace {

/* Beyond these all is 0 or x in 16 bits, and products with infinities are none. */
__device__ __forceinline__ float narrow_clamp(float x) { return x < -100.0f ? -100.0f : x; }

/* The same of slopes, which from here down are 0 in double, too. */
__device__ __forceinline__ float narrow_clamp_slope(float x, float most) {
  return fminf(x < -745.2f ? -200.0f : narrow_clamp(x), most);
}

/* 1 / d for 1 <= d <= 2, hardly worse than correctly rounded. */
__device__ __forceinline__ float narrow_inverse(float d) {
  const float r = single_reciprocal(d);
  return fmaf(fmaf(-d, r, 1.0f), r, r);
}

/* e^-|x| is never infinite, and 1 - sigmoid is not taken. */
__device__ __forceinline__ float narrow_sigmoid(float x) {
  const float t = expf(-fabsf(x)), r = narrow_inverse(1.0f + t);
  return x < 0.0f ? t * r : r;
}

__device__ __forceinline__ float narrow_silu(float x) {
  const float c = narrow_clamp(x);
  return c * narrow_sigmoid(c);
}

/* ----------------------------------------------------------- for bfloat16 alone --- */

/* Some 2^-21 of themselves right, selu 2^-18 by -0.3: of no number of bfloat16 the exact result
 * lies so close to the middle of two that this takes the wrong one by more than the bound. With the
 * powers of 2 of compute capability 9.0 tests/cuda/test_narrow.c has seen that of all numbers. */

/* x log2 e in two parts. The least numbers of bfloat16 whose results are infinite, to which larger
 * ones are cut, have a rest above 0, so that Inf plus that part of it is no NaN. */
__device__ __forceinline__ single_parts narrow_binary(float x) {
  single_parts y;
  y.whole = __fmul_rn(x, 1.44269504f);
  y.rest = fmaf(x, 1.92596299e-8f, fmaf(x, 1.44269504f, -y.whole));
  return y;
}

/* Below 2^-126 a power of 2 is made 2^64 times as large first. */
__device__ __forceinline__ float narrow_exp_value(float x) {
  const single_parts b = narrow_binary(single_at_most(single_at_least(x, -200.0f), 88.75f));
  const bool tiny = b.whole < -125.0f;
  const float y = single_power_2(tiny ? b.whole + 64.0f : b.whole);
  return fmaf(y, 0.693147182f * b.rest, y) * (tiny ? 0x1p-64f : 1.0f);
}

/* A square becomes 0 where float has only 0. */
__device__ __forceinline__ float narrow_exp2(float x) {
  const float root = single_power_2(0.5f * x);
  return root * root;
}

/* Half of e^|x| is there where that is none any more. */
__device__ __forceinline__ float narrow_cosh(float x) {
  const single_parts b = narrow_binary(single_at_most(fabsf(x), 89.5f));
  float e = single_power_2(b.whole - 1.0f);
  e = fmaf(e, 0.693147182f * b.rest, e);
  return fmaf(0.25f, single_reciprocal(e), e);
}

/* e^x - 1 for x < 0, and something for others: by its series from -0.3 on. */
__device__ __forceinline__ float narrow_expm1_below(float x) {
  float p = fmaf(x, 1.0f / 120, 1.0f / 24);
  p = fmaf(p, x, 1.0f / 6);
  p = fmaf(p, x, 0.5f);
  p = fmaf(p, x, 1.0f);
  return single_reaches(x, -0.3f, x * p, single_power_2(1.44269504f * x) - 1.0f);
}

/* Of alpha 1. */
__device__ __forceinline__ float narrow_elu(float x) {
  return single_reaches(x, 0.0f, x, narrow_expm1_below(x));
}

__device__ __forceinline__ float narrow_selu(float x) {
  return single_reaches(x, 0.0f, 1.05070102f * x, 1.75809932f * narrow_expm1_below(x));
}

/* Up to 0.4 x (1 + z p(z)), z = x^2, the polynomial to 2^-23 of tanh x; from there on what e^2|x|
 * leaves of 1. */
__device__ __forceinline__ float narrow_tanh(float x) {
  const float a = fabsf(x), z = x * x, e = single_power_2(2.88539008f * a);
  const float p = fmaf(fmaf(-0.047794327f, z, 0.1327763f), z, -0.33331883f);
  const float far = fmaf(-2.0f, single_reciprocal(e + 1.0f), 1.0f);
  return copysignf(single_reaches(a, 0.4f, far, fmaf(a * z, p, a)), x);
}

/* ------------------------------------------------------------------ slopes --- */

/* e^x as a square, which becomes 0 where float has only 0. */
__device__ __forceinline__ float narrow_exp(float x) {
  const float root = single_power_2(0.72134752f * x);
  return root * root;
}

__device__ __forceinline__ float narrow_silu_slope(float x) {
  const float c = narrow_clamp_slope(x, 100.0f);
  const float t = narrow_exp(-fabsf(c)), r = single_reciprocal(1.0f + t);
  return x != x ? x : r * fmaf(c * t, r, c < 0.0f ? t : 1.0f);
}

/* With e = e^x: n = e (e + 2), and the slope is (n + 4 x e (1 + e) / (n + 2)) / (n + 2). */
__device__ __forceinline__ float narrow_mish_slope(float x) {
  const float c = narrow_clamp_slope(x, 20.0f), e = narrow_exp(c);
  const float d = fmaf(e, e + 2.0f, 2.0f), r = single_reciprocal(d);
  const float y = e * r * fmaf(4.0f * c * (1.0f + e), r, e + 2.0f);
  return x != x ? x : y;
}

/* The slope at -a is e^(-a^2 / 2) (m - a / sqrt(2 pi)), m being Phi(-a) e^(a^2 / 2), a polynomial
 * of 1 / (1 + 0.35 a) to 4e-7 of it; that at a is what is left of 1. */
__device__ __forceinline__ float narrow_gelu_slope(float x) {
  const float a = fminf(fabsf(x), 100.0f), t = single_reciprocal(fmaf(0.35f, a, 1.0f));
  const float e = narrow_exp(-0.5f * (a * a));
  float m = fmaf(0.0489433408f, t, -0.202122703f);
  m = fmaf(m, t, 0.240646049f);
  m = fmaf(m, t, -0.0170275085f);
  m = fmaf(m, t, 0.155963168f);
  m = fmaf(m, t, 0.133354753f);
  m = fmaf(m, t, 0.140270367f);
  m = fmaf(m, t, -2.7314778e-05f);
  const float y = e * fmaf(a, -0.39894228f, m);
  return x != x ? x : x < 0.0f ? y : 1.0f - y;
}

__device__ __forceinline__ float narrow_gelu_argument(float x) {
  return 1.5957691f * fmaf(0.044715f * x * x, x, x);
}

__device__ __forceinline__ float narrow_gelu_tanh(float x) {
  const float c = narrow_clamp(x);
  return c * narrow_sigmoid(narrow_gelu_argument(c));
}

__device__ __forceinline__ float narrow_gelu_tanh_slope(float x) {
  const float c = narrow_clamp_slope(x, 100.0f), u = narrow_gelu_argument(c);
  const float t = narrow_exp(-fabsf(u)), r = single_reciprocal(1.0f + t);
  const float slope = 1.5957691f * fmaf(0.134145f * c, c, 1.0f);
  return x != x ? x : r * fmaf(c * t * r, slope, u < 0.0f ? t : 1.0f);
}

/* --------------------------------- slopes to 2 units of float's last place --- */

/* e^-a = scale (1 + rest) 2^-48, or 2^-137 far out, where any of 16 bits still multiplies it to
 * more than 0. What multiplies such to 0 is as small as a float's scale can say, so that infinities
 * stay, until a double's exponential is 0. */
struct narrow_fall {
  float scale, rest;
  bool far;
};

__device__ __forceinline__ narrow_fall narrow_fall_of(float a) {
  const single_power e = single_power_e(fmaxf(-a, -182.6f), 0.0f, 48);
  const bool far = a > 60.0f;
  const float scale = __int_as_float(__float_as_int(e.scale) + (far ? 89 << 23 : 0));
  return {a > 745.13f ? 0.0f : scale, e.rest, far};
}

/* dy w, w being made of such a scale: rounded once where that is a normal number. */
__device__ __forceinline__ float narrow_fallen(float dy, float w, bool far) {
  const bool large = fabsf(dy) >= 0x1p24f;
  const float y = (large ? dy * 0x1p-48f : dy) * w;
  return y * (far ? (large ? 0x1p-89f : 0x1p-137f) : (large ? 1.0f : 0x1p-48f));
}

/* dy times `above`, or alpha e^x where x is not above 0, also where that is tiny or x no number. */
SINGLE_RARE_FN float narrow_elu_slope_any(float dy, float x, float alpha, float alpha_low,
                                          float above) {
  const narrow_fall e = narrow_fall_of(fabsf(x));
  const float w = alpha + fmaf(alpha, e.rest, alpha_low);
  const float y = narrow_fallen(dy, e.scale * w, e.far);
  return x > 0.0f ? dy * above : x != x ? x : y;
}

/* The same, of elu or selu. */
struct narrow_elu_slope {
  float alpha, alpha_low, above;
  narrow_elu_slope(double from, double scale) {
    alpha = (float)from;
    alpha_low = (float)(from - (double)alpha);
    above = (float)scale;
  }
  __device__ __forceinline__ float times(float dy, float x) const {
    if (!(fabsf(x) <= 60.0f)) return narrow_elu_slope_any(dy, x, alpha, alpha_low, above);
    const single_power e = single_power_e(x, 0.0f, 0);
    const float w = alpha + fmaf(alpha, e.rest, alpha_low);
    return single_reaches(0.0f, x, dy * (e.scale * w), dy * above);
  }
};

/* dy sigmoid(x), also where one of them is huge. */
SINGLE_RARE_FN float narrow_sigmoid_times_any(float dy, float x) {
  return (float)((double)dy * wide_sigmoid((double)x));
}

__device__ __forceinline__ float narrow_sigmoid_times(float dy, float x) {
  if (!(fabsf(x) <= 60.0f && fabsf(dy) < INFINITY)) return narrow_sigmoid_times_any(dy, x);
  const float t = single_exp(-fabsf(x)), d = 1.0f + t, low = t - (d - 1.0f);
  const float n = x < 0.0f ? t : 1.0f, r = single_reciprocal(d), q = __fmul_rn(n, r);
  const float left = fmaf(-low, q, fmaf(-d, q, n));
  return fmaf(dy, q, __fmul_rn(dy, __fmul_rn(left, r)));
}

} // namespace

#endif /* KERNELS_CUDA_NARROW_ACTIVATION_CUH */
