/*
 * What losses of pairs and their slopes are made of. Where two terms may nearly cancel, the greater
 * of them keeps what one float loses.
 */
#ifndef KERNELS_CUDA_PAIR_TERMS_CUH
#define KERNELS_CUDA_PAIR_TERMS_CUH

#include "kernels/common/wide/log.h"
#include "kernels/cuda/elementwise/single.cuh"

namespace {

/* ln(1 + e^-|x|) */
__device__ __forceinline__ float softplus_tail(float x) {
  const single_power e = single_falling(fabsf(x));
  const float t = __fmul_rn(fmaf(e.scale, e.rest, e.scale), 0x1p-48f);
  return x != x ? x : single_log1p_unit(t);
}
__device__ __forceinline__ double softplus_tail(double x) { return log1p(exp(-fabs(x))); }

/* The same to some 3e-6 of it, plainly for elements of 16 bits: e^-|x| is a square, which becomes 0
 * where float has only 0, and ln(1 + t) is t times a polynomial. */
__device__ __forceinline__ float softplus_tail_short(float x) {
  const float root = single_power_2(-0.72134752f * fabsf(x)), t = root * root;
  float p = fmaf(0.0141404839f, t, -0.0664001778f);
  p = fmaf(p, t, 0.149222046f);
  p = fmaf(p, t, -0.235037655f);
  p = fmaf(p, t, 0.331094265f);
  p = fmaf(p, t, -0.499869645f);
  return t * fmaf(p, t, 0.999998748f);
}

/* e^-|x| to some 2^-22 of it; 0 where that is less than 2^-126. */
__device__ __forceinline__ float power_below(float x) {
  const float a = single_at_least(-fabsf(x), -128.0f), y = a * 1.44269504f;
  const float low = fmaf(a, 1.92596303e-8f, fmaf(a, 1.44269504f, -y)), e = single_power_2(y);
  return fmaf(e, low * 0.693147182f, e);
}

/* softplus_tail to some 2^-22 of it, but for those below 2^-126. */
__device__ __forceinline__ float softplus_tail_near(float x) {
  const float t = power_below(x);
  float p = fmaf(0.00523269409f, t, -0.0295052379f);
  p = fmaf(p, t, 0.0782259479f);
  p = fmaf(p, t, -0.136632457f);
  p = fmaf(p, t, 0.191060066f);
  p = fmaf(p, t, -0.24842982f);
  p = fmaf(p, t, 0.333190978f);
  p = fmaf(p, t, -0.499994934f);
  return t * fmaf(p, t, 0.99999994f);
}

/* (1 - t) / (1 + e^-x) - pos t / (1 + e^x), of e = e^-|x|: neither loses anything beside the other
 * but where they cancel. */
__device__ __forceinline__ float entropy_slope_of(float e, float x, float t, float pos) {
  const float most = single_reciprocal(1.0f + e), least = e * most;
  const float above = x > 0.0f ? most : least, below = x > 0.0f ? least : most;
  return fmaf(1.0f - t, above, -(pos * t) * below);
}
__device__ __forceinline__ float entropy_slope(float x, float t, float pos) {
  return entropy_slope_of(power_below(x), x, t, pos);
}
__device__ __forceinline__ float entropy_slope_short(float x, float t, float pos) {
  return entropy_slope_of(single_power_2(-1.44269504f * fabsf(x)), x, t, pos);
}
__device__ __forceinline__ double entropy_slope(double x, double t, double pos) {
  const double e = exp(-fabs(x)), below = (x < 0.0 ? 1.0 : e) / (1.0 + e); /* 1 / (1 + e^x) */
  return 1.0 - t - (1.0 + (pos - 1.0) * t) * below;
}

/* ln x - y for elements of 16 bits, right to some 1e-8 of the logarithm also where the two nearly
 * cancel; `tiny`: x may be less than float's normal numbers. */
template <bool tiny> __device__ __forceinline__ float single_log_less(float x, float y) {
  const bool lift = tiny && x < 0x1p-100f;
  const int bits = __float_as_int(lift ? x * 0x1p100f : x);
  const int power = (bits - 0x3f3504f3) & (int)0xff800000;
  const float k = (float)(power >> 23), f = __int_as_float(bits - power) - 1.0f;
  const single_parts l = single_log_parts(lift ? k - 100.0f : k, f, 0.0f);
  const float end = x == 0.0f ? -INFINITY : x > 0.0f ? x : NAN;
  return x > 0.0f && x < INFINITY ? (l.whole - y) + l.rest : end - y;
}

/* ln x to some 2^-22, or as much of it. */
__device__ __forceinline__ float single_log_short(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return 0.693147182f * y;
}

/* ln x in double: of a double by the maths library; of a float to some 1e-10, in so few steps that
 * memory stays slower. The reciprocal's estimate and one step of Newton's hold 40 bits. */
__device__ __forceinline__ double log_of(double x) { return log(x); }
__device__ __forceinline__ double log_of(float x) {
  const double a = (double)x;
  const int high = __double2hiint(a), power = (high - 0x3fe6a09e) >> 20;
  const double f = __hiloint2double(high - (power << 20), __double2loint(a)) - 1.0;
  const double k = __hiloint2double(0x43300000, power ^ (int)0x80000000) - (0x1p52 + 0x1p31);
  const double d = 2.0 + f;
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(d));
  r = fma(fma(-d, r, 1.0), r, r);
  return wide_log_ends(a, wide_log_ratio(k, f * r));
}

} // namespace

#endif /* KERNELS_CUDA_PAIR_TERMS_CUH */
