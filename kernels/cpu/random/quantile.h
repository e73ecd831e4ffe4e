/*
 * truncated_at of kernels/common/draws.h for many numbers at once: the centre by a loop that
 * vectorises, what is further out set apart first, so that no branch is guessed wrong.
 */
#ifndef TENON_KERNELS_CPU_QUANTILE_H
#define TENON_KERNELS_CPU_QUANTILE_H

#include <math.h>
#include <string.h>

#include "kernels/common/draws.h"
#include "kernels/cpu/base/vwide.h"
#include "kernels/cpu/cpu.h"

enum { QUANTILES = 256 /* the most at once */ };

/* r of the flanks. A logarithm from vwide.h does for float32, and is far above 25 too for numbers
 * that it is not made for, subnormal ones. */
static inline void quantile_roots(const double *p, int64_t n, bool exact, double *r) {
  if (exact)
    for (int64_t i = 0; i < n; i++) r[i] = sqrt(-log(p[i]));
  else
    for (int64_t i = 0; i < n; i++) r[i] = sqrt(-0.69314718055994531 * log2_wide(p[i]));
}

/* z: 0 < u < 1 on entry, then the numbers there, still mirrored where t is; n <= QUANTILES.
 * exact: to more than float32. */
static inline void truncated_each(const truncated *t, int64_t n, bool exact, double *z) {
  double p[QUANTILES], r[QUANTILES], less[QUANTILES];
  uint16_t at[QUANTILES];
  int64_t flank = 0;
  for (int64_t i = 0; i < n; i++) {
    p[i] = t->from + z[i] * t->width;
    z[i] = quantile_centre(p[i] - 0.5);
  }
  for (int64_t i = 0; i < n; i++) {
    at[flank] = (uint16_t)i;
    flank += fabs(p[i] - 0.5) > 0.425;
  }
  for (int64_t k = 0; k < flank; k++) less[k] = p[at[k]] < 0.5 ? p[at[k]] : 1 - p[at[k]];
  quantile_roots(less, flank, exact, r);
  for (int64_t k = 0; k < flank; k++) less[k] = quantile_flank(r[k]);
  for (int64_t k = 0; k < flank; k++) {
    const double one = p[at[k]], size = r[k] <= 5 ? less[k] : 0;
    z[at[k]] = one < 0.5 ? -size : size;
    if (r[k] <= 5) continue;
    z[at[k]] = one > 0 && one < 1 ? normal_quantile(one) : t->high;
  }
  for (int64_t i = 0; i < n; i++) {
    const double least = z[i] < t->low ? t->low : z[i];
    z[i] = least > t->high ? t->high : least;
  }
}

#endif
