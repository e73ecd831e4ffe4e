/* Activations with bell-shaped slopes, of doubles that were floats; tail.h has doubles'. */
#ifndef TENON_KERNELS_WIDE_BELL_H
#define TENON_KERNELS_WIDE_BELL_H

#include "kernels/common/wide/erf.h"
#include "kernels/common/wide/exp.h"

/* The distribution function of the normal distribution. */
WIDE_FN double wide_normal(double x) { return 0.5 * wide_erfc(WIDE_MUL(x, -0.70710678118654752)); }

/* Far below 0 the result is 0, and x, which may be infinite, must not be multiplied; the
 * same in silu and mish. */
WIDE_FN double wide_gelu(double x) {
  const double c = x < -40.0 ? -40.0 : x;
  return 0.5 * c * wide_erfc(WIDE_MUL(c, -0.70710678118654752));
}

WIDE_FN double wide_gelu_slope(double x) {
  const double c = wide_clamp(x, -40.0, 40.0);
  return WIDE_FMA(0.39894228040143268 * c, wide_exp(-0.5 * c * c), wide_normal(c));
}

/* (1 + tanh u) / 2 is sigmoid(2 u), which does not cancel; 1.59... = 2 sqrt(2 / pi). The
 * sigmoid multiplies errors of its argument, which therefore rounds alike everywhere. */
WIDE_FN double wide_gelu_argument(double x) {
  const double cubic = WIDE_MUL(WIDE_MUL(WIDE_MUL(0.044715, x), x), x);
  return WIDE_MUL(1.5957691216057308, x + cubic);
}

WIDE_FN double wide_gelu_tanh(double x) {
  const double c = x < -40.0 ? -40.0 : x;
  return c * wide_sigmoid(wide_gelu_argument(c));
}

WIDE_FN double wide_gelu_tanh_slope(double x) {
  const double c = wide_clamp(x, -40.0, 40.0);
  const double u = wide_gelu_argument(c);
  const double t = wide_exp(-fabs(u)), r = 1.0 / (1.0 + t);
  const double slope = 1.5957691216057308 * WIDE_FMA(0.134145 * c, c, 1.0);
  return WIDE_FMA(c * t * r * r, slope, u < 0.0 ? t * r : r);
}

WIDE_FN double wide_silu(double x) {
  const double c = x < -800.0 ? -800.0 : x;
  return c * wide_sigmoid(c);
}

WIDE_FN double wide_silu_slope(double x) {
  const double c = wide_clamp(x, -800.0, 800.0), t = wide_exp(-fabs(c)), r = 1.0 / (1.0 + t);
  return WIDE_FMA(c * t * r, r, c < 0.0 ? t * r : r);
}

/* tanh(softplus x) = n / (n + 2), n = e^x (e^x + 2), which is 1 in double from 40 on. */
WIDE_FN double wide_mish(double x) {
  const double c = x < -800.0 ? -800.0 : x, e = wide_exp(c > 40.0 ? 40.0 : c);
  const double n = e * (e + 2.0);
  return c * (n / (n + 2.0));
}

WIDE_FN double wide_mish_slope(double x) {
  const double c = wide_clamp(x, -800.0, 40.0), e = wide_exp(c), n = e * (e + 2.0);
  const double r = 1.0 / (n + 2.0);
  return WIDE_FMA(4.0 * c * (n + 1.0) * r * r, e / (1.0 + e), n * r);
}

#endif
