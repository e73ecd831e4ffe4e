/*
 * Fast float functions, good to about 2 ULP, for kernels that sum or go on to compute; the
 * operators that are such a function themselves use kernels/common/wide. They have no branches,
 * tables or calls, so that loops over them vectorise; the doubles call libm. Polynomials
 * were fitted to these intervals at Chebyshev nodes in 40 digits. NaN, infinities and
 * subnormals come out as C says.
 */
#ifndef TENON_KERNELS_CPU_VMATH_H
#define TENON_KERNELS_CPU_VMATH_H

#include <math.h>

#include "kernels/common/wide/tail.h"
#include "kernels/cpu/base/half.h"

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

/* Rounded once on every instruction set: for numbers that must be the same everywhere. */
static inline float fma_same_f(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return FMA(a, b, c);
#else
  return (float)((double)a * (double)b + (double)c);
#endif
}

/* e^x = 2^n e^r, |r| <= ln 2 / 2. The scale is applied in two halves so that results
 * round once where they are subnormal. */
static inline float exp_f(float x) {
  float c = x < -104.0f ? -104.0f : x;
  c = c > 89.0f ? 89.0f : c;
  const float round = 0x1.8p23f, t = FMA(c, 1.44269504f, round), n = t - round;
  float r = FMA(n, -0x1.62e4p-1f, c);
  r = FMA(n, -1.42860682e-6f, r);
  float p = FMA(1.392691806e-3f, r, 8.363767023e-3f);
  p = FMA(p, r, 4.166655016e-2f);
  p = FMA(p, r, 1.666657342e-1f);
  p = FMA(p, r, 0.5f);
  const float y = FMA(r * r, p, r) + 1.0f;
  const int32_t k = (int32_t)(bits_of_float(t) - bits_of_float(round)), k1 = k >> 1;
  const uint32_t s1 = (uint32_t)k1 + 127u, s2 = (uint32_t)k - (uint32_t)k1 + 127u;
  return y * float_of_bits(s1 << 23) * float_of_bits(s2 << 23);
}

/* ln x = e ln 2 + ln(1 + f), sqrt(1/2) <= 1 + f < sqrt(2). */
static inline float log_f(float x) {
  const int tiny = x < 0x1p-126f;
  const float a = tiny ? x * 0x1p23f : x;
  const uint32_t u = bits_of_float(a), e = u - 0x3f3504f3u;
  const float f = float_of_bits(u - (e & 0xff800000u)) - 1.0f;
  const float k = (float)((int32_t)e >> 23) - (tiny ? 23.0f : 0.0f);
  float p = FMA(-0.06201500119f, f, 0.1053086474f);
  p = FMA(p, f, -0.1064619164f);
  p = FMA(p, f, 0.1103778336f);
  p = FMA(p, f, -0.1245074332f);
  p = FMA(p, f, 0.1428652455f);
  p = FMA(p, f, -0.1666800152f);
  p = FMA(p, f, 0.2000001004f);
  p = FMA(p, f, -0.2499999028f);
  p = FMA(p, f, 0.3333333328f);
  const float s = f * f;
  float y = FMA(k, 1.42860682e-6f, f * s * p);
  y = FMA(-0.5f, s, y);
  y = FMA(k, 0x1.62e4p-1f, y + f);
  y = x == INFINITY ? INFINITY : y;
  const float special = x == 0.0f ? -INFINITY : NAN;
  return x > 0.0f ? y : special;
}

static inline float tanh_f(float x) {
  const float a = fabsf(x), s = x * x;
  float p = FMA(-0.006096714165f, s, 0.020997179f);
  p = FMA(p, s, -0.05385090958f);
  p = FMA(p, s, 0.1333276974f);
  p = FMA(p, s, -0.3333332894f);
  const float small = FMA(x * s, p, x);
  const float big = copysignf(1.0f - 2.0f / (exp_f(2.0f * a) + 1.0f), x);
  return a < 0.625f ? small : big;
}

static inline float sigmoid_f(float x) {
  const float t = exp_f(-fabsf(x));
  return (x < 0.0f ? t : 1.0f) / (1.0f + t);
}

/* Below, it is 0. */
static inline float silu_f(float x) {
  const float c = x < -104.0f ? -104.0f : x;
  return c * sigmoid_f(c);
}

/* The normal distribution: density and half of erfc(|x| / sqrt 2), |x| <= 14.5, beyond
 * which both are 0. (1 + 2 z) e^(z^2) erfc z is a polynomial in (z - 3) / (z + 3). */
typedef struct normal_f {
  float density, tail;
} normal_f;

static inline normal_f normal_at_f(float x) {
  const float s = x * x, z = fabsf(x) * 0.70710678f, q = (z - 3.0f) / (z + 3.0f);
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  const float low = FMA(x, x, -s);
#else
  const float low = 0.0f;
#endif
  float e = exp_f(-0.5f * s);
  e = FMA(-0.5f * low, e, e);
  float p = FMA(-2.763902556e-4f, q, -7.957492334e-4f);
  p = FMA(p, q, 1.99637574e-3f);
  p = FMA(p, q, 2.578845361e-3f);
  p = FMA(p, q, -2.379134803e-2f);
  p = FMA(p, q, 6.829336743e-2f);
  p = FMA(p, q, -0.1192724743f);
  p = FMA(p, q, 0.1296466124f);
  p = FMA(p, q, -4.756228937e-2f);
  p = FMA(p, q, -0.1356211448f);
  p = FMA(p, q, 1.253008058f);
  const normal_f r = {0.39894228f * e, 0.5f * e * p / FMA(2.0f, z, 1.0f)};
  return r;
}

static inline float clamp_f(float x, float bound) {
  const float low = x < -bound ? -bound : x;
  return low > bound ? bound : low;
}

static inline float gelu_f(float x) {
  const float c = clamp_f(x, 14.5f), tail = normal_at_f(c).tail;
  return x > 0.0f ? FMA(-c, tail, x) : c * tail;
}

static inline float gelu_slope_f(float x) {
  const float c = clamp_f(x, 14.5f);
  const normal_f n = normal_at_f(c);
  return FMA(c, n.density, x > 0.0f ? 1.0f - n.tail : n.tail);
}

/* (1 + tanh u) / 2 is sigmoid(2 u), which does not cancel; 1.5957691 = 2 sqrt(2 / pi). */
static inline float gelu_tanh_f(float x) {
  const float c = x < -20.0f ? -20.0f : x;
  return c * sigmoid_f(1.5957691f * c * FMA(0.044715f * c, c, 1.0f));
}

/* y and 1 - y both from e^-|u|: neither cancels. */
static inline float gelu_tanh_slope_f(float x) {
  const float c = clamp_f(x, 20.0f), cc = c * c;
  const float u = 1.5957691f * c * FMA(0.044715f, cc, 1.0f);
  const float t = exp_f(-fabsf(u)), r = 1.0f / (1.0f + t);
  const float y = u < 0.0f ? t * r : r;
  return FMA(c * t * r * r, 1.5957691f * FMA(0.134145f, cc, 1.0f), y);
}

static inline float sqrt_f(float x) { return sqrtf(x); }

/* Sine and cosine of 2 pi u, 0 <= u < 1 a multiple of 2^-24, so that the reduction to
 * an eighth of a turn is exact. */
static inline void turn_f(float u, float *sine, float *cosine) {
  const float round = 0x1.8p23f, t = 4.0f * u + round, r = u - 0.25f * (t - round), s = r * r;
  float ps = FMA(-75.4016127f, s, 81.59254287f);
  ps = FMA(ps, s, -41.34166257f);
  ps = FMA(ps, s, 6.283185307f);
  float pc = FMA(59.42410598f, s, -85.44882009f);
  pc = FMA(pc, s, 64.93936905f);
  pc = FMA(pc, s, -19.73920879f);
  const float sn = r * ps, cs = FMA(pc, s, 1.0f);
  const uint32_t quarter = bits_of_float(t);
  const float a = quarter & 1u ? cs : sn, b = quarter & 1u ? sn : cs;
  *sine = quarter & 2u ? -a : a;
  *cosine = (quarter + 1u) & 2u ? -b : b;
}

static inline double exp_d(double x) { return exp(x); }
static inline double log_d(double x) { return log(x); }
static inline double tanh_d(double x) { return tanh(x); }
static inline double sqrt_d(double x) { return sqrt(x); }
static inline double sigmoid_d(double x) {
  const double t = exp(-fabs(x));
  return (x < 0 ? t : 1) / (1 + t);
}
static inline double silu_d(double x) { return double_silu(x); }
static inline double gelu_d(double x) { return double_gelu(x); }
static inline double gelu_tanh_d(double x) { return double_gelu_tanh(x); }

#endif
