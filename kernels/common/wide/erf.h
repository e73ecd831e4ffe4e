/* The error function in double; see wide.h. */
#ifndef TENON_KERNELS_WIDE_ERF_H
#define TENON_KERNELS_WIDE_ERF_H

#include "kernels/common/wide/exp.h"

/* erfc a = t p(t) e^-a^2, t = 1 / (1 + 0.45 a), 0 <= a; float has only 0 beyond 10.5. */
WIDE_FN double wide_erfc_tail(double a) {
  const double b = a > 10.5 ? 10.5 : a, t = 1.0 / WIDE_FMA(0.45, b, 1.0);
  double p = WIDE_FMA(-2.4826925747680254e-2, t, 0.18454361701999433);
  p = WIDE_FMA(p, t, -0.58628247268756695);
  p = WIDE_FMA(p, t, 1.0126532749500468);
  p = WIDE_FMA(p, t, -1.0012866463926844);
  p = WIDE_FMA(p, t, 0.5887263516732123);
  p = WIDE_FMA(p, t, -0.30373747874035883);
  p = WIDE_FMA(p, t, 0.12827748834125741);
  p = WIDE_FMA(p, t, 8.6132147260386968e-2);
  p = WIDE_FMA(p, t, 0.18019159243748784);
  p = WIDE_FMA(p, t, 0.22781621206927821);
  p = WIDE_FMA(p, t, 0.25390817281614042);
  p = WIDE_FMA(p, t, 0.25388466697330064);
  const wide_power e = wide_power_e(-(b * b));
  const double y = t * p;
  return WIDE_FMA(y * e.scale, e.rest, y * e.scale);
}

WIDE_FN double wide_erfc(double x) {
  const double y = wide_erfc_tail(fabs(x));
  return wide_select(x < 0.0, 2.0 - y, y);
}

WIDE_FN double wide_erf(double x) {
  const double a = fabs(x), z = x * x;
  double p = WIDE_FMA(-7.6945342791390355e-4, z, 5.2004137243352672e-3);
  p = WIDE_FMA(p, z, -2.6863143032249331e-2);
  p = WIDE_FMA(p, z, 0.11283774013179537);
  p = WIDE_FMA(p, z, -0.37612638525650693);
  p = WIDE_FMA(p, z, 1.1283791670824095);
  return wide_select(a < 0.5, x * p, copysign(1.0 - wide_erfc_tail(a), x));
}

#endif
