/*
 * Functions of two float32 numbers, computed in double without branches, tables or calls,
 * so that the compiler vectorises the loops they stand in. What is left of their error
 * after rounding to float32 is far below one unit in the last place. Special values come
 * out as C says.
 */
#ifndef TENON_KERNELS_CPU_VWIDE_H
#define TENON_KERNELS_CPU_VWIDE_H

#include <math.h>

#include "kernels/common/wide/wide.h"
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

/* log2 of a normal number to 2^-45: e + log2 m, sqrt(1/2) <= m < sqrt(2), and log2 m = s p(s^2)
 * with s = (m - 1) / (m + 1). Polynomials here are those of common/wide/fit.py. */
static inline double log2_wide(double x) {
  const uint64_t u = bits_of_double(x), root = 0x3fe6a09e667f3bcdu;
  const uint64_t e = u - root + (UINT64_C(1024) << 52);
  const double k = double_of_bits(e >> 52 | 0x4330000000000000u) - (0x1p52 + 1024);
  const double m = double_of_bits(u - ((u - root) & 0xfff0000000000000u));
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = WIDE_FMA(0.28288718263145973, z, 0.31990666088908881);
  p = WIDE_FMA(p, z, 0.41220922733052617);
  p = WIDE_FMA(p, z, 0.5770779426302618);
  p = WIDE_FMA(p, z, 0.96179669411235946);
  p = WIDE_FMA(p, z, 2.8853900817778504);
  return WIDE_FMA(s, p, k);
}

/* 2^t to 2^-33; outside +-1000 as at the end, which is 0 or infinity in float32. 2^r = 1 + r p(r),
 * |r| <= 1/2. */
static inline double exp2_wide(double t) {
  double c = t < -1000 ? -1000 : t;
  c = c > 1000 ? 1000 : c;
  const double round = 0x1.8p52, n = c + round, r = c - (n - round);
  double p = WIDE_FMA(1.5297372833162207e-05, r, 0.00015461448223862834);
  p = WIDE_FMA(p, r, 0.0013333502234496603);
  p = WIDE_FMA(p, r, 0.0096180566697118396);
  p = WIDE_FMA(p, r, 0.055504108840214686);
  p = WIDE_FMA(p, r, 0.24022650922330063);
  p = WIDE_FMA(p, r, 0.69314718055993396);
  p = WIDE_FMA(p, r, 1.0);
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

/* atan q = q p(q^2), 0 <= q <= 1, to 2^-33. */
static inline double atan2_wide(double y, double x) {
  const double ay = fabs(y), ax = fabs(x);
  const double least = ay < ax ? ay : ax, most = ay < ax ? ax : ay;
  double q = least / most;
  q = most == 0 ? 0 : q;
  q = least == (double)INFINITY ? 1 : q;
  const double z = q * q;
  double p = WIDE_FMA(-0.00066317844223292145, z, 0.0047313361886640939);
  p = WIDE_FMA(p, z, -0.015825704149959052);
  p = WIDE_FMA(p, z, 0.033822848808053349);
  p = WIDE_FMA(p, z, -0.053953991814116753);
  p = WIDE_FMA(p, z, 0.07228140789068721);
  p = WIDE_FMA(p, z, -0.089741268480262246);
  p = WIDE_FMA(p, z, 0.11091913758950686);
  p = WIDE_FMA(p, z, -0.14283812162185083);
  p = WIDE_FMA(p, z, 0.19999901035668774);
  p = WIDE_FMA(p, z, -0.3333333128931531);
  p = WIDE_FMA(p, z, 0.99999999992924216);
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
