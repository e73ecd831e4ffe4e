/* Logarithms, inverse hyperbolic functions and the cube root in double; see wide.h. */
#ifndef TENON_KERNELS_WIDE_LOG_H
#define TENON_KERNELS_WIDE_LOG_H

#include "kernels/common/wide/wide.h"

#define WIDE_LN2 0.69314718055994531

/* 2 artanh(s) + k ln 2, |s| < 0.1716. */
WIDE_FN double wide_log_ratio(double k, double s) {
  const double z = s * s;
  double p = WIDE_FMA(0.23330581938280376, z, 0.28550816599709566);
  p = WIDE_FMA(p, z, 0.40000121876972028);
  p = WIDE_FMA(p, z, 0.66666666554451648);
  return WIDE_FMA(k, WIDE_LN2, WIDE_FMA(s * z, p, 2.0 * s));
}

/* ln(1 + f) + k ln 2, sqrt(1/2) <= 1 + f < sqrt 2: ln(1 + f) = 2 artanh(f / (2 + f)). */
WIDE_FN double wide_log_sum(double k, double f) { return wide_log_ratio(k, f / (2.0 + f)); }

/* x = 2^k (1 + f). */
typedef struct wide_parts {
  double k, f;
} wide_parts;

WIDE_FN wide_parts wide_parts_of(double x) {
  const uint64_t u = wide_bits(x), biased = (u - 0x3fe6a09e667f3bcdu + (1023ull << 52)) >> 52;
  wide_parts y;
  y.k = wide_of_bits(biased | 0x4330000000000000u) - (0x1p52 + 1023.0);
  y.f = wide_of_bits(u - (biased << 52) + (1023ull << 52)) - 1.0;
  return y;
}

/* y, but for arguments without a finite logarithm. */
WIDE_FN double wide_log_ends(double x, double y) {
  const double special = x == 0.0 ? -(double)INFINITY : (double)NAN;
  const double end = x == (double)INFINITY ? x : special;
  return wide_select((x > 0.0) & (x < (double)INFINITY), y, end);
}

WIDE_FN double wide_log(double x) {
  const wide_parts a = wide_parts_of(x);
  return wide_log_ends(x, wide_log_sum(a.k, a.f));
}

WIDE_FN double wide_log2(double x) { return wide_log(x) * 1.4426950408889634; }
WIDE_FN double wide_log10(double x) { return wide_log(x) * 0.43429448190325183; }

/* Where 1 + x is within sqrt 2 of 1, x itself is the f without its rounding. */
WIDE_FN double wide_log1p(double x) {
  const double u = 1.0 + x;
  const wide_parts a = wide_parts_of(u);
  const double y = wide_log_ends(u, wide_log_sum(a.k, a.k == 0.0 ? x : a.f));
  return wide_select(x == 0.0, x, y);
}

WIDE_FN double wide_asinh(double x) {
  const double a = fabs(x), b = a > 1e39 ? 1e39 : a, s = b * b;
  const double y = wide_log1p(b + s / (1.0 + sqrt(s + 1.0)));
  return copysign(wide_select(a > 1e39, a, y), x);
}

WIDE_FN double wide_acosh(double x) {
  const double t = x - 1.0, y = wide_log1p(t + sqrt(t * (t + 2.0)));
  return wide_select(x < 1.0, (double)NAN, y);
}

WIDE_FN double wide_atanh(double x) {
  const double a = fabs(x);
  return copysign(0.5 * wide_log1p(2.0 * a / (1.0 - a)), x);
}

/* A third of the float's exponent and mantissa, read as one number, errs by less than 4 %;
 * each step of Halley's method cubes the error. */
WIDE_FN double wide_cbrt(double x) {
  const double a = fabs(x), b = a < 0x1p-126 ? a * 0x1p24 : a;
  const float narrow = (float)b;
#ifdef __CUDACC__
  const int32_t u = __float_as_int(narrow);
  const double y0 = (double)__int_as_float((int32_t)((float)u * 0.33333334f) + 709921077);
#else
  int32_t u, third;
  float guess;
  memcpy(&u, &narrow, sizeof u);
  third = (int32_t)((float)u * 0.33333334f) + 709921077;
  memcpy(&guess, &third, sizeof guess);
  const double y0 = (double)guess;
#endif
  const double c0 = y0 * y0 * y0, y1 = y0 * (c0 + 2.0 * b) / WIDE_FMA(2.0, c0, b);
  const double c1 = y1 * y1 * y1, y2 = y1 * (c1 + 2.0 * b) / WIDE_FMA(2.0, c1, b);
  const double y = copysign(a < 0x1p-126 ? y2 * 0x1p-8 : y2, x);
  return wide_select((a > 0.0) & (a < (double)INFINITY), y, x);
}

#endif
