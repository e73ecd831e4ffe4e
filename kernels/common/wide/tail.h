/*
 * Activations of doubles in double's own precision. In their tails they multiply an error of
 * the exponential's argument by that argument, and become subnormal before the factor that they
 * carry is in: arguments come in two parts, and far out an exponential in two halves.
 */
#ifndef TENON_KERNELS_WIDE_TAIL_H
#define TENON_KERNELS_WIDE_TAIL_H

#include "kernels/common/wide/wide.h"

/* A number in two parts; the second is what rounding leaves of the first. */
typedef struct double_pair {
  double high, low;
} double_pair;

WIDE_FN double_pair double_product(double a, double b) {
  double_pair p;
  p.high = WIDE_MUL(a, b);
  p.low = fma(a, b, -p.high);
  return p;
}

/* Below this an exponential is taken in halves, e^(x / 2) twice: the first is normal. */
#define DOUBLE_FAR (-600.0)
#define DOUBLE_INV_SQRT_2PI 0.3989422804014327

/* e^(high + low) for arguments that give a normal number, or 0. */
WIDE_FN double double_exp_pair(double_pair x) {
  const double e = exp(x.high);
  return e + e * x.low;
}

/* ----------------------------------------------------------------- normal --- */

/* From here down the series of Mills' ratio has double's precision. */
#define DOUBLE_NORMAL_FAR (-36.0)

/* The density of the normal distribution. */
WIDE_FN double double_density(double x) {
  double_pair s = double_product(x, x);
  s.high *= -0.5;
  s.low *= -0.5;
  return DOUBLE_INV_SQRT_2PI * double_exp_pair(s);
}

/* Its distribution function from DOUBLE_NORMAL_FAR to 40: erfc(-x / sqrt 2) / 2, moved by its
 * slope to where the argument is. */
WIDE_FN double double_normal(double x) {
  double_pair a = double_product(-x, 0.7071067811865476);
  a.low += x * 4.833646656726457e-17;
  return 0.5 * (erfc(a.high) - 1.1283791670955126 * exp(-a.high * a.high) * a.low);
}

/* x times the tail's share of the density, -x Phi(x) / phi(x), below DOUBLE_NORMAL_FAR: the
 * asymptotic series 1 - 1 / x^2 + 3 / x^4 - ... */
WIDE_FN double double_mills(double x) {
  const double z = 1.0 / (x * x);
  double p = 1.0 - 13.0 * z;
  p = 1.0 - 11.0 * z * p;
  p = 1.0 - 9.0 * z * p;
  p = 1.0 - 7.0 * z * p;
  p = 1.0 - 5.0 * z * p;
  p = 1.0 - 3.0 * z * p;
  return 1.0 - z * p;
}

/* factor times the density, where that may be subnormal. */
WIDE_FN double double_times_density(double factor, double x) {
  const double_pair s = double_product(x, x);
  const double half_e = exp(-0.25 * s.high);
  return factor * DOUBLE_INV_SQRT_2PI * (1.0 - 0.5 * s.low) * half_e * half_e;
}

WIDE_FN double double_gelu(double x) {
  const double far = x < -40.0 ? -40.0 : x;
  if (x < DOUBLE_NORMAL_FAR) return double_times_density(-double_mills(far), far);
  return x * double_normal(x > 40.0 ? 40.0 : x);
}

WIDE_FN double double_gelu_slope(double x) {
  const double c = wide_clamp(x, -40.0, 40.0);
  if (x < DOUBLE_NORMAL_FAR) return double_times_density(c - double_mills(c) / c, c);
  return fma(c, double_density(c), double_normal(c));
}

/* ------------------------------------------------------------------- tanh --- */

/* 2 sqrt(2 / pi) (x + 0.044715 x^3), whose sigmoid is (1 + tanh u) / 2, for |x| <= 40. */
WIDE_FN double_pair double_gelu_argument(double x) {
  const double_pair s = double_product(x, x), g = double_product(0.044715, s.high);
  const double_pair w = double_product(x, 1.5957691216057308);
  const double sum = 1.0 + g.high, grown = sum - 1.0;
  const double low = (1.0 - (sum - grown)) + (g.high - grown) + g.low + 0.044715 * s.low +
                     2.1960211427085595e-18 * s.high;
  double_pair u = double_product(w.high, sum);
  u.low += w.high * low + (w.low - x * 9.96930880911092e-17) * sum;
  return u;
}

WIDE_FN double double_gelu_tanh(double x) {
  const double c = wide_clamp(x, -40.0, 40.0);
  double_pair u = double_gelu_argument(c);
  if (u.high < DOUBLE_FAR) {
    const double half_e = exp(0.5 * u.high);
    return c * (1.0 + u.low) * half_e * half_e;
  }
  if (u.high > 0.0) {
    u.high = -u.high;
    u.low = -u.low;
    return x / (1.0 + double_exp_pair(u));
  }
  const double t = double_exp_pair(u);
  return x * (t / (1.0 + t));
}

WIDE_FN double double_gelu_tanh_slope(double x) {
  const double c = wide_clamp(x, -40.0, 40.0);
  const double way = 1.5957691216057308 * fma(0.134145 * c, c, 1.0);
  double_pair u = double_gelu_argument(c);
  const int below = u.high < 0.0;
  if (u.high < DOUBLE_FAR) {
    const double half_e = exp(0.5 * u.high);
    return (1.0 + c * way) * (1.0 + u.low) * half_e * half_e;
  }
  u.high = below ? u.high : -u.high;
  u.low = below ? u.low : -u.low;
  const double t = double_exp_pair(u), r = 1.0 / (1.0 + t);
  return fma(c * t * r * r, way, below ? t * r : r);
}

/* ---------------------------------------------------------------- sigmoid --- */

/* factor times e^x. */
WIDE_FN double double_times_exp(double factor, double x) {
  const double half_e = exp(0.5 * x);
  return factor * half_e * half_e;
}

WIDE_FN double double_silu(double x) {
  const double c = x < -800.0 ? -800.0 : x, t = exp(-fabs(c));
  if (c < DOUBLE_FAR) return double_times_exp(c, c);
  return c < 0.0 ? c * (t / (1.0 + t)) : c / (1.0 + t);
}

WIDE_FN double double_silu_slope(double x) {
  const double c = wide_clamp(x, -800.0, 800.0), t = exp(-fabs(c)), r = 1.0 / (1.0 + t);
  if (c < DOUBLE_FAR) return double_times_exp(1.0 + c, c);
  return fma(c * t * r, r, c < 0.0 ? t * r : r);
}

/* tanh(softplus x) = n / (n + 2), n = e^x (e^x + 2), which is 1 in double from 40 on. */
WIDE_FN double double_mish(double x) {
  const double c = x < -800.0 ? -800.0 : x, e = exp(c > 40.0 ? 40.0 : c), n = e * (e + 2.0);
  if (c < DOUBLE_FAR) return double_times_exp(c, c);
  return c * (n / (n + 2.0));
}

WIDE_FN double double_mish_slope(double x) {
  const double c = wide_clamp(x, -800.0, 40.0), e = exp(c), n = e * (e + 2.0);
  const double r = 1.0 / (n + 2.0);
  if (c < DOUBLE_FAR) return double_times_exp(1.0 + c, c);
  return fma(4.0 * c * (n + 1.0) * r * r, e / (1.0 + e), n * r);
}

#endif
