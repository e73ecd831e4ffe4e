/* Exponentials and hyperbolic functions in double; see wide.h. */
#ifndef TENON_KERNELS_WIDE_EXP_H
#define TENON_KERNELS_WIDE_EXP_H

#include "kernels/common/wide/wide.h"

/* 2^n and e^r - 1, whose combination is e^x: |r| <= ln 2 / 2. */
typedef struct wide_power {
  double scale, rest;
} wide_power;

/* t is n + WIDE_ROUND. */
WIDE_FN wide_power wide_power_of(double t, double r) {
  double p = WIDE_FMA(1.9890990824673654e-4, r, 1.3933649996309251e-3);
  p = WIDE_FMA(p, r, 8.3333109254809003e-3);
  p = WIDE_FMA(p, r, 4.1666464925285904e-2);
  p = WIDE_FMA(p, r, 0.16666666681623232);
  p = WIDE_FMA(p, r, 0.50000000134658096);
  wide_power y;
  y.scale = wide_of_bits((wide_bits(t) + 1023u) << 52);
  y.rest = WIDE_FMA(r * r, p, r);
  return y;
}

WIDE_FN wide_power wide_power_e(double x) {
  const double c = wide_clamp(x, -708.0, 709.0);
  const double t = WIDE_FMA(c, 1.4426950408889634, WIDE_ROUND);
  return wide_power_of(t, WIDE_FMA(t - WIDE_ROUND, -0.69314718055994531, c));
}

/* 0 where double has only 0. */
WIDE_FN double wide_exp(double x) {
  const wide_power y = wide_power_e(x);
  return x < -745.2 ? 0.0 : WIDE_FMA(y.scale, y.rest, y.scale);
}

WIDE_FN double wide_exp2(double x) {
  const double c = wide_clamp(x, -1022.0, 1023.0), t = c + WIDE_ROUND;
  const wide_power y = wide_power_of(t, (c - (t - WIDE_ROUND)) * 0.69314718055994531);
  return WIDE_FMA(y.scale, y.rest, y.scale);
}

WIDE_FN double wide_expm1(double x) {
  const wide_power y = wide_power_e(x);
  return wide_select(x == 0.0, x, WIDE_FMA(y.scale, y.rest, y.scale - 1.0));
}

WIDE_FN double wide_sinh(double x) {
  const double e = wide_expm1(fabs(x));
  return copysign(0.5 * (e + e / (e + 1.0)), x);
}

WIDE_FN double wide_cosh(double x) {
  const double e = wide_exp(fabs(x));
  return 0.5 * (e + 1.0 / e);
}

WIDE_FN double wide_tanh(double x) {
  const double e = wide_expm1(2.0 * fabs(x));
  return copysign(e / (e + 2.0), x);
}

#endif
