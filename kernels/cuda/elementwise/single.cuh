/*
 * Elementary functions of floats in float's own arithmetic, for elements of 32 and 16 bits:
 * double's units are half as many, and conversions to and from it a quarter of those again.
 * Each errs by less than its row allows, also before the rounding to 16 bits; all products and
 * sums that may be fused are written so, and those that may not be, too.
 *
 * The device's approximate reciprocal and square root only start: a step in exact remainders
 * follows, so that results hardly depend on them.
 */
#ifndef KERNELS_CUDA_SINGLE_CUH
#define KERNELS_CUDA_SINGLE_CUH

#include <cuda_runtime.h>

namespace {

#define SINGLE_FN static __device__ __forceinline__
/* What is called where numbers are rare, so that it is not put in at every place. */
#define SINGLE_RARE_FN static inline __device__ __noinline__

/* Adding it to a number of at most 2^22 rounds to a whole one, which stands in the low bits. */
#define SINGLE_ROUND 12582912.0f

/* 1 / x to 1 ULP, for 2^-126 <= |x| <= 2^126; without branches. */
SINGLE_FN float single_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

SINGLE_FN float single_rsqrt(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* 2^x to 2^-22 of it; 0 where that is less than 2^-126. */
SINGLE_FN float single_power_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* x >= bound ? a : b, without a branch: to compute both costs less where they are short. */
SINGLE_FN float single_reaches(float x, float bound, float a, float b) {
  float y;
  asm("{\n.reg .pred p;\nsetp.ge.f32 p, %1, %2;\nselp.f32 %0, %3, %4, p;\n}"
      : "=f"(y)
      : "f"(x), "f"(bound), "f"(a), "f"(b));
  return y;
}

/* The larger; NaN where x is. */
SINGLE_FN float single_at_least(float x, float bound) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(bound));
  return y;
}

/* The smaller; NaN where x is. */
SINGLE_FN float single_at_most(float x, float bound) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(bound));
  return y;
}

/* n / (d + low), |low| <= ULP(d) / 2, hardly worse than correctly rounded where neither the
 * quotient nor its remainder leaves the normal numbers. */
SINGLE_FN float single_quotient(float n, float d, float low) {
  const float r = single_reciprocal(d), q = __fmul_rn(n, r);
  return fmaf(fmaf(-low, q, fmaf(-d, q, n)), r, q);
}

/* A number and what it lacks, which sums with others that nearly cancel it need. */
struct single_parts {
  float whole, rest;
};

/* (n + lost) / (d + low) under the same conditions. */
SINGLE_FN single_parts single_ratio(float n, float lost, float d, float low) {
  const float r = single_reciprocal(d), q = __fmul_rn(n, r);
  const float left = fmaf(-low, q, fmaf(-d, q, n)) + lost;
  single_parts y;
  y.whole = fmaf(left, r, q);
  y.rest = fmaf(left, r, q - y.whole);
  return y;
}

/* sqrt(x) within 0.51 ULP for normal x that are not huge; 0 stays. */
SINGLE_FN float single_root(float x) {
  const float r = single_rsqrt(x), s = __fmul_rn(x, r);
  return x == 0.0f ? x : fmaf(fmaf(-s, s, x), 0.5f * r, s);
}

/* ------------------------------------------------------------ exponentials --- */

/* e^x = scale (1 + rest), scale = 2^(n + more), |rest| < 0.42. */
struct single_power {
  float scale, rest;
};

/* pre: n + more is an exponent of normal numbers. Low is added to x. */
SINGLE_FN single_power single_power_e(float x, float low, int more) {
  const float t = fmaf(x, 1.44269504f, SINGLE_ROUND), n = t - SINGLE_ROUND;
  const float a = fmaf(n, -0.693147182f, x), b = fmaf(n, 1.90465421e-9f, low), r = a + b;
  float p = fmaf(1.38145953e-3f, r, 8.36871099e-3f);
  p = fmaf(p, r, 4.1668389e-2f);
  p = fmaf(p, r, 0.166665211f);
  p = fmaf(p, r, 0.49999994f);
  single_power y;
  y.scale = __int_as_float((__float_as_int(t) << 23) + ((127 + more) << 23));
  y.rest = a + fmaf(__fmul_rn(r, r), p, b);
  return y;
}

/* e^x to 0.9 ULP, |x| <= 87. */
SINGLE_FN float single_exp(float x) {
  const single_power e = single_power_e(x, 0.0f, 0);
  return fmaf(e.scale, e.rest, e.scale);
}

/* 2^x to 0.78 ULP, |x| <= 126. */
SINGLE_FN float single_exp2(float x) {
  const float t = x + SINGLE_ROUND, f = x - (t - SINGLE_ROUND), a = __fmul_rn(f, 0.693147182f);
  float p = fmaf(1.52909488e-5f, f, 1.54531634e-4f);
  p = fmaf(p, f, 1.33335218e-3f);
  p = fmaf(p, f, 9.61808302e-3f);
  p = fmaf(p, f, 5.55041097e-2f);
  p = fmaf(p, f, 0.240226507f);
  p = fmaf(p, f, -1.9046543e-9f);
  const float rest = a + fmaf(f, p, fmaf(f, 0.693147182f, -a));
  const float scale = __int_as_float((__float_as_int(t) << 23) + (127 << 23));
  return fmaf(scale, rest, scale);
}

/* e^-a 2^48 for a >= 0: the factor keeps it normal as long as a e^-a is not 0. */
SINGLE_FN single_power single_falling(float a) {
  return single_power_e(fmaxf(-a, -112.0f), 0.0f, 48);
}

/* A number times single_falling's power, `by` being some factor times its scale. */
SINGLE_FN float single_fallen(single_power e, float by, single_parts v) {
  const float w = __fmul_rn(by, v.whole), off = fmaf(by, v.rest, fmaf(by, v.whole, -w));
  return __fmul_rn(w + fmaf(w, e.rest, off), 0x1p-48f);
}

/* (1 or e^-|x|) / (1 + e^-|x|) as a quotient and what it lacks times `reciprocal`, both yet to be
 * scaled; what e^-|x| loses in one float is not lost. */
struct single_share {
  float quotient, left, reciprocal, scale;
};

SINGLE_FN single_share single_share_of(float x) {
  const bool below = x < 0.0f;
  const single_power e = single_falling(fabsf(x));
  const float t = fmaf(e.scale, e.rest, e.scale), lost = fmaf(e.scale, e.rest, e.scale - t);
  const float u = __fmul_rn(t, 0x1p-48f), d = 1.0f + u;
  const float low = fmaf(lost, 0x1p-48f, u - (d - 1.0f));
  const float n = below ? t : 1.0f, r = single_reciprocal(d), q = __fmul_rn(n, r);
  single_share y;
  y.quotient = q;
  y.left = fmaf(-low, q, fmaf(-d, q, n)) + (below ? lost : 0.0f);
  y.reciprocal = r;
  y.scale = below ? 0x1p-48f : 1.0f;
  return y;
}

SINGLE_FN float single_sigmoid_times(float x, float by) {
  const single_share s = single_share_of(x);
  const float y = __fmul_rn(__fmul_rn(fmaf(s.left, s.reciprocal, s.quotient), by), s.scale);
  return x != x ? x : y;
}

SINGLE_FN float single_sigmoid(float x) { return single_sigmoid_times(x, 1.0f); }

/* Far below 0 the result is 0, and x, which may be infinite, must not be multiplied. */
SINGLE_FN float single_silu(float x) {
  const float c = x < -130.0f ? -130.0f : x;
  return single_sigmoid_times(c, c);
}

/* tanh(softplus x) is n / (n + 2), n = e^x (e^x + 2), here with x e^x times that without its e^x:
 * where e^x would lose bits. */
SINGLE_RARE_FN float single_mish_below(float x) {
  const float c = x < -130.0f ? -130.0f : x;
  const single_power e = single_falling(fabsf(c));
  const float scale = __fmul_rn(e.scale, 0x1p-48f), t = fmaf(scale, e.rest, scale);
  const float n = t + 2.0f, d = fmaf(t, n, 2.0f), lost = t - (n - 2.0f);
  const single_parts y = single_ratio(n, lost, d, fmaf(t, lost, fmaf(t, n, 2.0f - d)));
  return x != x ? x : single_fallen(e, __fmul_rn(e.scale, c), y);
}

SINGLE_FN float single_mish(float x) {
  if (x > 20.0f) return x;
  if (!(x > -60.0f)) return single_mish_below(x);
  const single_power e = single_power_e(x, 0.0f, 0);
  const float t = fmaf(e.scale, e.rest, e.scale), t_lost = fmaf(e.scale, e.rest, e.scale - t);
  const float twice = 2.0f * t, n = fmaf(t, t, twice), d = n + 2.0f;
  const float lost = fmaf(t_lost, twice + 2.0f, fmaf(t, t, twice - n));
  const float low = n - (d - 2.0f) + lost, r = single_reciprocal(d), q = __fmul_rn(n, r);
  const float left = fmaf(-low, q, fmaf(-d, q, n)) + lost;
  return fmaf(x, q, __fmul_rn(x, __fmul_rn(left, r)));
}

/* e^x - 1 for x < 0, and something for others. Small x lose nothing: their power of 2 is 1. */
SINGLE_FN float single_expm1_below(float x) {
  const single_power e = single_power_e(single_at_least(x, -30.0f), 0.0f, 0);
  return fmaf(e.scale, e.rest, e.scale - 1.0f);
}

/* Whether a factor may be rounded to float: neither it nor products with it leave its range. */
static inline bool is_plain_factor(double x) { return fabs(x) > 1e-6 && fabs(x) < 1e6; }

SINGLE_FN float single_elu(float x, float alpha) {
  return single_reaches(x, 0.0f, x, __fmul_rn(alpha, single_expm1_below(x)));
}

SINGLE_FN float single_selu(float x) {
  return single_reaches(x, 0.0f, __fmul_rn(1.05070102f, x),
                        __fmul_rn(1.75809932f, single_expm1_below(x)));
}

SINGLE_FN float single_tanh(float x) {
  const float a = fabsf(x), z = __fmul_rn(x, x);
  if (a < 0.55f) {
    float p = fmaf(2.90327100e-3f, z, -8.83987918e-3f);
    p = fmaf(p, z, 2.19133180e-2f);
    p = fmaf(p, z, -5.39772622e-2f);
    p = fmaf(p, z, 0.133333921f);
    p = fmaf(p, z, -0.333333343f);
    return fmaf(x, __fmul_rn(p, z), x);
  }
  const float c = fminf(a, 20.0f);
  const single_power e = single_power_e(2.0f * c, 0.0f, 0);
  const float t = fmaf(e.scale, e.rest, e.scale), d = t + 1.0f;
  const float low = 1.0f - (d - t) + fmaf(e.scale, e.rest, e.scale - t);
  const float r = single_reciprocal(d), s = fmaf(fmaf(-low, r, fmaf(-d, r, 1.0f)), r, r);
  return x != x ? x : copysignf(fmaf(-2.0f, s, 1.0f), x);
}

SINGLE_FN float single_sinh(float x) {
  const float a = fabsf(x), z = __fmul_rn(x, x);
  if (a < 1.0f) {
    float p = fmaf(2.75910747e-6f, z, 1.98463589e-4f);
    p = fmaf(p, z, 8.33329838e-3f);
    p = fmaf(p, z, 0.166666672f);
    return fmaf(x, __fmul_rn(p, z), x);
  }
  const single_power e = single_power_e(fminf(a, 90.0f), 0.0f, -4);
  const float h = fmaf(e.scale, e.rest, e.scale); /* e^a / 16 */
  const float y = fmaf(-0x1p-8f, single_reciprocal(h), h);
  return x != x ? x : copysignf(8.0f * y, x);
}

SINGLE_FN float single_cosh(float x) {
  const single_power e = single_power_e(fminf(fabsf(x), 90.0f), 0.0f, -4);
  const float h = fmaf(e.scale, e.rest, e.scale);
  return x != x ? x : 8.0f * fmaf(0x1p-8f, single_reciprocal(h), h);
}

/* -------------------------------------------------------------- logarithms --- */

/* ln(1 + f) for 1 + f from sqrt(1/2) to sqrt 2, and k ln 2 to that. */
SINGLE_FN single_parts single_log_parts(float k, float f, float low) {
  float p = fmaf(7.14671835e-2f, f, -0.115661435f);
  p = fmaf(p, f, 0.116602592f);
  p = fmaf(p, f, -0.124118336f);
  p = fmaf(p, f, 0.142501935f);
  p = fmaf(p, f, -0.166684434f);
  p = fmaf(p, f, 0.200006947f);
  p = fmaf(p, f, -0.249999896f);
  p = fmaf(p, f, 0.333333313f);
  const float s = __fmul_rn(f, f);
  const float rest = fmaf(s, fmaf(p, f, -0.5f), fmaf(k, 1.42860677e-6f, low));
  const float whole = __fmul_rn(k, 0.693145752f); /* exact, as is the sum but for its rounding */
  const float sum = whole + f, lost = f - (sum - whole);
  single_parts y;
  y.whole = sum;
  y.rest = rest + lost;
  return y;
}

SINGLE_FN float single_log_sum(float k, float f, float low) {
  const single_parts y = single_log_parts(k, f, low);
  return y.whole + y.rest;
}

/* log10 x to 0.91 ULP. */
SINGLE_FN float single_log10(float x) {
  const bool tiny = x < 0x1p-126f;
  const int bits = __float_as_int(tiny ? __fmul_rn(x, 0x1p23f) : x);
  const int power = (bits - 0x3f3504f3) & (int)0xff800000;
  const float f = __int_as_float(bits - power) - 1.0f;
  const single_parts y = single_log_parts((float)(power >> 23) - (tiny ? 23.0f : 0.0f), f, 0.0f);
  if (!(x > 0.0f && x < INFINITY)) return x == 0.0f ? -INFINITY : x > 0.0f ? x : NAN;
  return fmaf(y.whole, 0.434294492f, fmaf(y.rest, 0.434294492f, y.whole * -1.01030503e-8f));
}

/* ln((u + low) 2^k), |low| hardly more than ULP(u) / 2; u is normal. */
SINGLE_FN float single_log_pair(float u, float low, float k) {
  const int bits = __float_as_int(u), power = (bits - 0x3f3504f3) & (int)0xff800000;
  const float f = __int_as_float(bits - power) - 1.0f;
  const float rest = __fmul_rn(low, __int_as_float(0x3f800000 - power));
  return single_log_sum((float)(power >> 23) + k, f, fmaf(-f, rest, rest));
}

/* ln(1 + v + low), v >= 0. */
SINGLE_FN float single_log1p_pair(float v, float low) {
  const float u = 1.0f + v;
  return single_log_pair(u, fminf(v, 1.0f) - (u - fmaxf(v, 1.0f)) + low, 0.0f);
}

/* ln(1 + t), 0 <= t <= 1. */
SINGLE_FN float single_log1p_unit(float t) {
  const bool far = t > 0.41421356f;
  const float f = far ? fmaf(0.5f, t, -0.5f) : t;
  return single_log_sum(far ? 1.0f : 0.0f, f, 0.0f);
}

/* ln(a + sqrt(a^2 - 1)) and ln(a + sqrt(a^2 + 1)) for large a. */
SINGLE_RARE_FN float single_far_log(float a) {
  return a < INFINITY ? single_log_pair(0.25f * a, 0.0f, 3.0f) : a;
}

/* ln(1 + a + a^2 / (1 + sqrt(a^2 + 1))): an error of the quotient counts for a fifth. */
SINGLE_FN float single_asinh(float x) {
  const float a = fabsf(x);
  if (!(a < 4096.0f)) return copysignf(single_far_log(a), x);
  const float h = __fmul_rn(a, a), u = h + 1.0f, s = __fmul_rn(u, single_rsqrt(u));
  const float q = __fmul_rn(h, single_reciprocal(1.0f + s)), v = a + q;
  return copysignf(single_log1p_pair(v, q - (v - a)), x);
}

/* ln(1 + t + s), s = sqrt(t^2 + 2 t), t = x - 1, which keeps what the root's last step loses. */
SINGLE_FN float single_acosh(float x) {
  if (!(x < 4096.0f)) return single_far_log(x);
  const float t = x - 1.0f, h = __fmul_rn(t, t + 2.0f), r = single_rsqrt(fmaxf(h, 0x1p-100f));
  const float g = __fmul_rn(h, r), e = fmaf(-g, g, h), half = 0.5f * r, s = fmaf(e, half, g);
  const float v = s + t, left = t - (v - s) + fmaf(e, half, g - s);
  return t >= 0.0f ? single_log1p_pair(v, left) : NAN;
}

SINGLE_FN float single_atanh(float x) {
  const float a = fabsf(x), d = 1.0f - a, low = (1.0f - d) - a;
  const float q = single_quotient(2.0f * a, d, low);
  if (a < 0x1p-12f) return fmaf(__fmul_rn(x, 0.33333334f), __fmul_rn(x, x), x);
  return a < 1.0f ? copysignf(0.5f * single_log1p_pair(q, 0.0f), x)
                  : (a == 1.0f ? copysignf(INFINITY, x) : NAN);
}

/* ----------------------------------------------------------------- angles --- */

/* x less its nearest multiple of pi / 2, in two parts, and that multiple, whose last two bits
 * say in which quarter x lies. */
struct single_turn {
  float r, low;
  int quarter;
};

#define SINGLE_TURN_MOST 32768.0f

SINGLE_FN single_turn single_turn_of(float x) {
  const float t = fmaf(x, 0.636619747f, SINGLE_ROUND), n = t - SINGLE_ROUND;
  const float a = fmaf(n, -1.57079637f, x), b = __fmul_rn(n, 4.37113883e-8f), r = a + b;
  const bool first = fabsf(a) > fabsf(b);
  const float lost = (first ? b : a) - (r - (first ? a : b));
  single_turn y;
  y.r = r;
  y.low = fmaf(n, 1.71512451e-15f, fmaf(n, 4.37113883e-8f, -b) + lost);
  y.quarter = __float_as_int(t);
  return y;
}

/* The sine or the cosine, by one polynomial whose numbers are chosen: lanes of a warp want both. */
SINGLE_FN float single_wave(single_turn a, bool cosine) {
  const float z = __fmul_rn(a.r, a.r), h = 0.5f * z, c = 1.0f - h;
  float p =
      fmaf(cosine ? -3.20099048e-7f : 2.9144644e-6f, z, cosine ? 2.48519373e-5f : -1.98607406e-4f);
  p = fmaf(p, z, cosine ? -1.38890476e-3f : 8.33339617e-3f);
  p = fmaf(p, z, cosine ? 4.16666679e-2f : -0.166666672f);
  const float rest = cosine ? fmaf(-a.r, a.low, (1.0f - c) - h) : fmaf(-h, a.low, a.low);
  return (cosine ? c : a.r) + fmaf(__fmul_rn(cosine ? z : a.r, z), p, rest);
}

SINGLE_FN float single_turned(float y, int quarter) {
  return __int_as_float(__float_as_int(y) ^ (quarter & 2) << 30);
}

/* pre, for these: |x| <= SINGLE_TURN_MOST. */
SINGLE_FN float single_sin(float x) {
  const single_turn a = single_turn_of(x);
  return x == 0.0f ? x : single_turned(single_wave(a, a.quarter & 1), a.quarter);
}

SINGLE_FN float single_cos(float x) {
  const single_turn a = single_turn_of(x);
  return single_turned(single_wave(a, !(a.quarter & 1)), a.quarter + 1);
}

SINGLE_FN float single_tan(float x) {
  const single_turn a = single_turn_of(x);
  const float z = __fmul_rn(a.r, a.r);
  float p = fmaf(3.91938537e-3f, z, 1.04831334e-3f);
  p = fmaf(p, z, 1.00549823e-2f);
  p = fmaf(p, z, 2.15917844e-2f);
  p = fmaf(p, z, 5.39987758e-2f);
  p = fmaf(p, z, 0.133332059f);
  p = fmaf(p, z, 0.333333343f);
  const float rest = fmaf(__fmul_rn(a.r, z), p, fmaf(z, a.low, a.low)), y = a.r + rest;
  if (a.quarter & 1) return single_quotient(-1.0f, y, rest - (y - a.r));
  return x == 0.0f ? x : y;
}

/* The angle of (x, y) where single_atan2_serves. */
SINGLE_FN float single_atan2(float y, float x) {
  const float a = fabsf(x), b = fabsf(y), big = fmaxf(a, b), small = fminf(a, b);
  const float t = single_quotient(small, big, 0.0f), z = __fmul_rn(t, t);
  float p = fmaf(1.69246073e-3f, z, -1.0104687e-2f);
  p = fmaf(p, z, 2.82071698e-2f);
  p = fmaf(p, z, -5.10183424e-2f);
  p = fmaf(p, z, 7.16395229e-2f);
  p = fmaf(p, z, -8.98289904e-2f);
  p = fmaf(p, z, 0.110998258f);
  p = fmaf(p, z, -0.142854154f);
  p = fmaf(p, z, 0.200000271f);
  p = fmaf(p, z, -0.333333343f);
  const float arc = fmaf(__fmul_rn(t, z), p, t);
  const bool steep = b > a, back = x < 0.0f;
  const float from = steep ? 1.57079637f : back ? 3.14159274f : 0.0f; /* too much by low */
  const float low = steep ? 4.37113883e-8f : back ? 8.74227766e-8f : 0.0f;
  return copysignf(from + ((steep != back ? -arc : arc) - low), y);
}

/* Quotients stay normal. */
SINGLE_FN bool single_atan2_serves(float y, float x) {
  const float a = fabsf(x), b = fabsf(y), big = fmaxf(a, b), small = fminf(a, b);
  return big >= 0x1p-60f && big <= 0x1p60f && (small >= 0x1p-60f || small == 0.0f) && a == a &&
         b == b;
}

} // namespace

#include "kernels/cuda/elementwise/single_normal.cuh"

#endif /* KERNELS_CUDA_SINGLE_CUH */
