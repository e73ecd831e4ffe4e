/* Powers and remainders of floats in float's own arithmetic: see single.cuh. */
#ifndef KERNELS_CUDA_SINGLE_POWERS_CUH
#define KERNELS_CUDA_SINGLE_POWERS_CUH

#include "kernels/cuda/elementwise/single.cuh"

namespace {

/* ------------------------------------------------------------------ powers --- */

/* log2 a to 2^-32 of it, in two parts; a is normal and above 0. With a = (1 + f) 2^k and
 * s = f / (2 + f), ln(1 + f) is 2 s (1 + z / 3 + z^2 / 5 + ...), z = s^2; all but the series' end
 * keeps what float loses. */
SINGLE_FN single_parts single_log2_parts(float a) {
  const int bits = __float_as_int(a), power = (bits - 0x3f3504f3) & (int)0xff800000;
  const float f = __int_as_float(bits - power) - 1.0f, k = (float)power; /* 2^23 times it */
  const float d = 2.0f + f, r = single_reciprocal(d), s = __fmul_rn(f, r);
  const float s_low = __fmul_rn(fmaf(-s, f - (d - 2.0f), fmaf(-s, d, f)), r);
  const float z = __fmul_rn(s, s), z_low = fmaf(__fmul_rn(2.0f, s), s_low, fmaf(s, s, -z));
  float q = fmaf(0.0909090936f, z, 0.111111112f);
  q = fmaf(q, z, 0.142857149f);
  q = fmaf(q, z, 0.2f);
  const float c = __fmul_rn(z, 0.333333343f);
  const float c_low =
      fmaf(z_low, 0.333333343f, fmaf(z, -9.93410776e-9f, fmaf(z, 0.333333343f, -c)));
  const float rest = fmaf(__fmul_rn(z, z), q, c_low);
  const float l = fmaf(s, c, s); /* half of ln(1 + f) */
  const float l_low = fmaf(s, c, s - l) + fmaf(s, rest, fmaf(s_low, c, s_low));
  const float p = __fmul_rn(l, 2.88539004f);
  const float p_low = fmaf(l_low, 2.88539004f, fmaf(l, 3.85192607e-8f, fmaf(l, 2.88539004f, -p)));
  single_parts y;
  y.whole = fmaf(k, 0x1p-23f, p);
  y.rest = p_low + (p - fmaf(k, -0x1p-23f, y.whole));
  return y;
}

/* 2^(e + low) to 0.7 ULP, |e| <= 125. */
SINGLE_FN float single_exp2_parts(float e, float low) {
  const float t = e + SINGLE_ROUND, g = (e - (t - SINGLE_ROUND)) + low;
  float p = fmaf(1.53533285e-4f, g, 1.3398875e-3f);
  p = fmaf(p, g, 9.61843785e-3f);
  p = fmaf(p, g, 5.55033237e-2f);
  p = fmaf(p, g, 0.240226477f);
  p = fmaf(p, g, 0.693147182f);
  const float y = fmaf(p, g, 1.0f);
  return __int_as_float(__float_as_int(y) + (__float_as_int(t) << 23));
}

/* a^b within 1.3 ULP, and whether it is that: where a and the power are normal and b lies where
 * SINGLE_ROUND tells whole numbers and odd ones. */
struct single_powered {
  float value;
  bool serves;
};

/* The same with e + low = b log2 |a|. */
SINGLE_FN single_powered single_pow_of(float a, float b, float e, float low) {
  const float t = b + SINGLE_ROUND;
  const int odd = __float_as_int(a) & __float_as_int(t) << 31 & (int)0x80000000;
  const float y = __int_as_float(__float_as_int(single_exp2_parts(e, low)) ^ odd);
  single_powered p;
  p.serves = (__float_as_uint(a) & 0x7fffffffu) - 0x00800000u < 0x7f000000u && fabsf(e) <= 125.0f &&
             fabsf(b) < 0x1p22f;
  p.value = a < 0.0f && t - SINGLE_ROUND != b ? NAN : y;
  return p;
}

SINGLE_FN single_powered single_pow(float a, float b) {
  const single_parts l = single_log2_parts(fabsf(a));
  const float e = __fmul_rn(b, l.whole);
  return single_pow_of(a, b, e, fmaf(b, l.rest, fmaf(b, l.whole, -e)));
}

/* -------------------------------------------------------------- remainders --- */

/* a - b q and q, the whole number next to a / b or one beside it; the difference is exact. */
struct single_division {
  float rest, whole;
};

/* Quotients that are known to a quarter, and remainders that are normal numbers or exact. */
SINGLE_FN bool single_divides(float a, float b) {
  const float c = fabsf(b);
  return fabsf(a) < __fmul_rn(c, 0x1p20f) && c >= 0x1p-100f && c <= 0x1p100f;
}

SINGLE_FN single_division single_divide(float a, float b) {
  single_division y;
  y.whole = rintf(__fmul_rn(a, single_reciprocal(b)));
  y.rest = fmaf(-y.whole, b, a);
  return y;
}

} // namespace

#endif /* KERNELS_CUDA_SINGLE_POWERS_CUH */
