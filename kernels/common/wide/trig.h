/* Trigonometric functions and their inverses in double; see wide.h. */
#ifndef TENON_KERNELS_WIDE_TRIG_H
#define TENON_KERNELS_WIDE_TRIG_H

#include "kernels/common/wide/wide.h"

/* The reduction below holds for |x| up to this; callers take another way beyond. */
#define WIDE_TRIG_MOST 0x1p20

/* Sine and cosine of x less its nearest multiple of pi / 2, and that multiple, whose last
 * two bits say in which quarter x lies. */
typedef struct wide_turn {
  double sine, cosine;
  uint64_t quarter;
} wide_turn;

/* pi / 2 in two parts: n times the first, of 33 bits, is exact, and so is its difference
 * from x. No float comes closer than 2^-31 to a multiple of pi / 2 but 0 itself. */
WIDE_FN wide_turn wide_turn_of(double x) {
  const double t = WIDE_FMA(x, 0.63661977236758134, WIDE_ROUND), n = t - WIDE_ROUND;
  double r = WIDE_FMA(n, -0x1.921fb544p0, x);
  r = WIDE_FMA(n, -0x1.0b4611a626331p-34, r);
  const double z = r * r;
  double s = WIDE_FMA(2.7249620080074831e-6, z, -1.9840084376422697e-4);
  s = WIDE_FMA(s, z, 8.3333318703413487e-3);
  s = WIDE_FMA(s, z, -0.16666666663844049);
  double c = WIDE_FMA(-2.7300704038086237e-7, z, 2.4800598408350117e-5);
  c = WIDE_FMA(c, z, -1.3888887668370663e-3);
  c = WIDE_FMA(c, z, 4.1666666664311826e-2);
  wide_turn y;
  y.sine = r * WIDE_FMA(z, s, 1.0);
  y.cosine = WIDE_FMA(z * z, c, WIDE_FMA(-0.5, z, 1.0));
  y.quarter = wide_bits(t);
  return y;
}

/* x with its sign changed where bit 1 of quarter is set. */
WIDE_FN double wide_turned(double x, uint64_t quarter) {
  return wide_of_bits(wide_bits(x) ^ (quarter & 2u) << 62);
}

WIDE_FN double wide_sin(double x) {
  const wide_turn a = wide_turn_of(x);
  return wide_turned(a.quarter & 1u ? a.cosine : a.sine, a.quarter);
}

WIDE_FN double wide_cos(double x) {
  const wide_turn a = wide_turn_of(x);
  return wide_turned(a.quarter & 1u ? a.sine : a.cosine, a.quarter + 1u);
}

WIDE_FN double wide_tan(double x) {
  const wide_turn a = wide_turn_of(x);
  const uint64_t odd = a.quarter & 1u;
  return (odd ? -a.cosine : a.sine) / (odd ? a.sine : a.cosine);
}

/* asin s = s + s z p(z), z = s^2; beyond 1/2, asin a = pi / 2 - 2 asin sqrt((1 - a) / 2). */
typedef struct wide_arc {
  double sine;
  int far; /* asin a is pi / 2 - 2 sine, else sine */
} wide_arc;

WIDE_FN wide_arc wide_arc_of(double a) {
  const int far = a > 0.5;
  const double w = WIDE_FMA(-0.5, a, 0.5), z = far ? w : a * a, s = far ? sqrt(w) : a;
  double p = WIDE_FMA(2.9305239705442607e-2, z, 5.4431851026483739e-3);
  p = WIDE_FMA(p, z, 1.9306260869405265e-2);
  p = WIDE_FMA(p, z, 2.2132443623419724e-2);
  p = WIDE_FMA(p, z, 3.039763413058142e-2);
  p = WIDE_FMA(p, z, 4.4642358484883155e-2);
  p = WIDE_FMA(p, z, 7.5000005988290486e-2);
  p = WIDE_FMA(p, z, 0.16666666665495086);
  wide_arc y;
  y.sine = WIDE_FMA(s * z, p, s);
  y.far = far;
  return y;
}

#define WIDE_HALF_PI 1.5707963267948966
#define WIDE_PI 3.1415926535897932

/* NaN where |x| > 1: the root is. */
WIDE_FN double wide_asin(double x) {
  const wide_arc a = wide_arc_of(fabs(x));
  return copysign(a.far ? WIDE_FMA(-2.0, a.sine, WIDE_HALF_PI) : a.sine, x);
}

WIDE_FN double wide_acos(double x) {
  const wide_arc a = wide_arc_of(fabs(x));
  const double far = x < 0.0 ? WIDE_FMA(-2.0, a.sine, WIDE_PI) : 2.0 * a.sine;
  return a.far ? far : WIDE_HALF_PI - copysign(a.sine, x);
}

/* Around 0, 1 and infinity: tan(a - b) = (tan a - tan b) / (1 + tan a tan b). */
WIDE_FN double wide_atan(double x) {
  const double a = fabs(x);
  const int middle = a > 0.41421356237309503, far = a > 2.4142135623730949;
  const double over = far ? -1.0 : middle ? a - 1.0 : a, under = far ? a : middle ? a + 1.0 : 1.0;
  const double from = far ? WIDE_HALF_PI : middle ? 0.78539816339744828 : 0.0;
  const double t = over / under, z = t * t;
  double p = WIDE_FMA(-4.0430336961351482e-2, z, 7.1352346474573544e-2);
  p = WIDE_FMA(p, z, -9.0289675621089791e-2);
  p = WIDE_FMA(p, z, 0.11107493853432554);
  p = WIDE_FMA(p, z, -0.14285612465275244);
  p = WIDE_FMA(p, z, 0.19999998916690562);
  p = WIDE_FMA(p, z, -0.33333333331439496);
  return copysign(from + WIDE_FMA(t * z, p, t), x);
}

#endif
