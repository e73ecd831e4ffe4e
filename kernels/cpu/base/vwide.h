/*
 * Functions of two float32 numbers, computed in double without branches, tables or calls,
 * so that the compiler vectorises the loops they stand in. What is left of their error
 * after rounding to float32 is far below one unit in the last place. Special values come
 * out as C says.
 */
#ifndef TENON_KERNELS_CPU_VWIDE_H
#define TENON_KERNELS_CPU_VWIDE_H

#include <math.h>

#include "kernels/cpu/base/half.h"

static inline uint64_t bits_of_double(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline double double_of_bits(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* log2 of a normal number: e + log2 m, sqrt(1/2) <= m < sqrt(2), by the series of artanh
 * at s = (m - 1) / (m + 1), |s| < 0.172, of which s^17 / 17 < 2^-45 is left out. */
static inline double log2_wide(double x) {
  const uint64_t u = bits_of_double(x), root = 0x3fe6a09e667f3bcdu;
  const uint64_t e = u - root + (UINT64_C(1024) << 52);
  const double k = double_of_bits(e >> 52 | 0x4330000000000000u) - (0x1p52 + 1024);
  const double m = double_of_bits(u - ((u - root) & 0xfff0000000000000u));
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.0 / 15 * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1;
  return k + 2.8853900817779268 * s * p; /* 2 / ln 2 */
}

/* 2^t; outside +-1000 as at the end, which is 0 or infinity in float32. Taylor's series
 * at r ln 2, |r| <= 1/2, of which 2^-42 is left out. */
static inline double exp2_wide(double t) {
  double c = t < -1000 ? -1000 : t;
  c = c > 1000 ? 1000 : c;
  const double round = 0x1.8p52, n = c + round, r = (c - (n - round)) * 0.69314718055994531;
  double p = 1.0 / 3628800 * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  return p * double_of_bits((bits_of_double(n) - bits_of_double(round) + 1023) << 52);
}

/* Whether b, a float32 number, is whole, and whether it is odd; beyond 2^24 all are even. */
static inline double whole_wide(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

static inline double pow_wide(double a, double b) {
  const double size = fabs(a), steps = fabs(b), near = steps > 0x1p40 ? 0x1p40 : steps;
  double log2a = log2_wide(size);
  log2a = size == 0 ? (double)-INFINITY : log2a;
  log2a = size == (double)INFINITY ? (double)INFINITY : log2a;
  double y = exp2_wide(b * log2a);
  /* Selections among doubles: of truth values kept as integers no loop is vectorised. */
  const double odd = whole_wide(near * 0.5) != near * 0.5 ? copysign(y, a) : y;
  const double broken = ((a < 0) & (size < (double)INFINITY)) ? (double)NAN : y;
  y = whole_wide(near) == near ? odd : broken;
  y = ((a != a) | (b != b)) ? (double)NAN : y;
  return ((b == 0) | (a == 1) | ((size == 1) & (steps == (double)INFINITY))) ? 1 : y;
}

/* atan q = q P(q^2), 0 <= q <= 1, to 2^-41: fitted at Chebyshev nodes in 40 digits. */
static inline double atan2_wide(double y, double x) {
  const double ay = fabs(y), ax = fabs(x);
  const double least = ay < ax ? ay : ax, most = ay < ax ? ax : ay;
  double q = least / most;
  q = most == 0 ? 0 : q;
  q = least == (double)INFINITY ? 1 : q;
  const double z = q * q;
  double p = 0.00017046040466188238 * z - 0.0014666686334116588;
  p = p * z + 0.005936376596452122;
  p = p * z - 0.015232491909076559;
  p = p * z + 0.028410612112699587;
  p = p * z - 0.042324616793255397;
  p = p * z + 0.054582394542429477;
  p = p * z - 0.065362288118493733;
  p = p * z + 0.076631773577540779;
  p = p * z - 0.090863606607273319;
  p = p * z + 0.11110640790649381;
  p = p * z - 0.14285684661254053;
  p = p * z + 0.1999999901342103;
  p = p * z - 0.33333333320254712;
  p = p * z + 0.99999999999970996;
  double angle = q * p;
  angle = ay > ax ? 1.5707963267948966 - angle : angle;
  angle = bits_of_double(x) >> 63 ? 3.1415926535897932 - angle : angle;
  angle = bits_of_double(y) >> 63 ? -angle : angle;
  return ((x != x) | (y != y)) ? (double)NAN : angle;
}

static inline double hypot_wide(double a, double b) {
  const double root = sqrt(a * a + b * b);
  return ((fabs(a) == (double)INFINITY) | (fabs(b) == (double)INFINITY)) ? (double)INFINITY : root;
}

/* The remainder of a / b is exact by one step where the quotient is below this. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FMOD_WIDE_LIMIT 0x1p51
#define FMOD_STEP(q, b, a) __builtin_fma(-(q), b, a)
#else
#define FMOD_WIDE_LIMIT 0x1p29 /* 29 + 24 bits */
#define FMOD_STEP(q, b, a) ((a) - (q) * (b))
#endif

/* All bits where it is not, of the quotient q = a / b; as wide as doubles, for loops of vectors. */
static inline int64_t fmod_is_slow(double q, double b) {
  const int64_t far = fabs(q) >= FMOD_WIDE_LIMIT ? -1 : 0;
  return far | (fabs(b) == (double)INFINITY ? -1 : 0);
}

/* C's fmod where fmod_is_slow does not hold. A quotient rounded up gives a remainder of
 * the wrong sign, from which the right one is a step of b away. */
static inline double fmod_wide(double a, double b, double q) {
  const double r = FMOD_STEP(trunc(q), b, a), step = copysign(b, a);
  const double fixed = (r < 0) != (a < 0) ? r + step : r;
  return r == 0 ? copysign(0, a) : fixed;
}

/* The same of mod and floor_div, whose remainder has the sign of b whichever way q was rounded. */
static inline double mod_wide(double a, double b, double q) {
  const double r = FMOD_STEP(trunc(q), b, a), up = (r < 0) != (b < 0) ? r + b : r;
  return r == 0 ? copysign(0, b) : up;
}

static inline double floor_div_wide(double a, double b, double q) {
  const double whole = trunc(q), r = FMOD_STEP(whole, b, a);
  const double down = (r < 0) != (b < 0) ? whole - 1 : whole, floored = r == 0 ? whole : down;
  return floored == 0 ? copysign(0, q) : floored;
}

static inline double fmod_double(double a, double b, double rest) {
  (void)a, (void)b;
  return rest;
}

static inline double mod_double(double a, double b, double rest) {
  const double up = (rest < 0) != (b < 0) ? rest + b : rest;
  (void)a;
  return rest == 0 ? copysign(0, b) : up;
}

static inline double floor_div_double(double a, double b, double rest) {
  const double quotient = (a - rest) / b;
  const double down = ((rest != 0) & ((rest < 0) != (b < 0))) ? quotient - 1 : quotient;
  const double whole = down == 0 ? copysign(0, a / b) : rint(down);
  return b == 0 ? a / b : whole;
}

#endif
