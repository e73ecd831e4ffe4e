/*
 * gelu and silu of floats, in float: within the bounds of their operators, in 0.6 of the time
 * that doubles take. They want fused multiply-add, by which what a rounding or a division leaves is
 * had in one step; builds without it keep to kernels/common/wide. A number is carried as a sum of
 * two where the second part would cost more than a few tenths of a unit in the last place.
 * Polynomials were fitted at Chebyshev nodes in 40 digits. Results are scaled by 2^64 until the
 * last step, so that subnormal ones round once.
 */
#ifndef TENON_KERNELS_CPU_BELL_H
#define TENON_KERNELS_CPU_BELL_H

#include "kernels/cpu/base/vmath.h"

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define BELL_IN_FLOAT 1

/* e^x = scale (1 + high + low), high = x - n ln 2 with one rounding. */
typedef struct bell_exp {
  float scale, high, low;
} bell_exp;

/* From t = n + 1.5 2^23; `more` is added to the exponent. The scale has 2^64 in it. */
static inline bell_exp bell_exp_of(float t, float high, float n, float more) {
  const float low = FMA(n, -3.19461849e-5f, more), r = high + low;
  float p = FMA(1.989099109e-4f, r, 1.393365e-3f);
  p = FMA(p, r, 8.333310925e-3f);
  p = FMA(p, r, 4.166646493e-2f);
  p = FMA(p, r, 1.666666668e-1f);
  p = FMA(p, r, 0.5f);
  bell_exp y;
  y.scale = float_of_bits((bits_of_float(t) + (127u + 64u - 0x4b400000u)) << 23);
  y.high = high;
  y.low = FMA(r * r, p, low);
  return y;
}

#define BELL_ROUND 0x1.8p23f
#define BELL_LOG2E 1.44269504f
#define BELL_LN2 0x1.62ep-1f /* of 12 bits, so that its products with n are exact */

/* x max(0, sign x) - |x| Phi(-|x|), where Phi(-a) = t p(t) e^(-a^2 / 2), t = 1 / (1 + a / 2). What
 * t lacks acts on the product as the exponent does, 1.3 times. Beyond 14.5 the tail is 0. */
static inline float bell_gelu(float x) {
  const float b = fabsf(x), a = b > 14.5f ? 14.5f : b, h = -0.5f * a;
  const float k = FMA(h * a, BELL_LOG2E, BELL_ROUND), n = k - BELL_ROUND;
  const float d = FMA(0.5f, a, 1.0f), t = 1.0f / d, s = t - 0.6f;
  const float lack = FMA(-t, FMA(0.5f, a, 1.0f - d), FMA(-d, t, 1.0f));
  const bell_exp e = bell_exp_of(k, FMA(h, a, n * -BELL_LN2), n, 1.3f * lack);
  float q = FMA(0.0666759547f, s, -0.00266181005f);
  q = FMA(q, s, -0.0732324779f);
  q = FMA(q, s, 0.0532119349f);
  q = FMA(q, s, 0.013689555f);
  q = FMA(q, s, -0.073531018f);
  q = FMA(q, s, 0.0646241708f);
  q = FMA(q, s, 0.0395994823f);
  q = FMA(q, s, -0.138982932f);
  q = FMA(q, s, 0.0142815779f);
  q = FMA(q, s, 0.338551908f);
  const float p = FMA(q, s, 0.369774163f), p_low = FMA(q, s, 0.369774163f - p);
  const float u = t * a, u_low = FMA(t, a, -u);
  const float w = u * p, w_low = FMA(u, p_low, FMA(u_low, p, FMA(u, p, -w)));
  const float y = (w + FMA(w, e.high, FMA(w, e.low, w_low))) * e.scale;
  return FMA(-y, 0x1p-64f, x >= 0.0f ? x : -0.0f);
}

/* x / (1 + e^-x), below 0 as x e^x / (1 + e^x): e^-|x| never overflows. Below -112 it is 0, from
 * 100 on x itself, which may be infinite. */
static inline float bell_silu(float x) {
  const float c = x < -112.0f ? -112.0f : x, b = fabsf(c), z = b > 112.0f ? -112.0f : -b;
  const float k = FMA(z, BELL_LOG2E, BELL_ROUND), n = k - BELL_ROUND;
  const bell_exp e = bell_exp_of(k, FMA(n, -BELL_LN2, z), n, 0.0f);
  const float unit = e.scale * 0x1p-64f, q = e.high + e.low, q_low = (e.high - q) + e.low;
  const float d = FMA(unit, q, 1.0f + unit), r = 1.0f / d;
  const float d_low = FMA(unit, q_low, FMA(unit, q, (1.0f - d) + unit));
  const float lack = FMA(-d_low, r, FMA(-d, r, 1.0f));
  const int below = x < 0.0f;
  const float v = below ? e.scale * r : r;
  const float low = below ? FMA(v, e.high, v * (e.low + lack)) : v * lack;
  const float y = FMA(v, c, low * c) * (below ? 0x1p-64f : 1.0f);
  return x > 100.0f ? x : y;
}
#endif

#endif
