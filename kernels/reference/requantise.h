/* From sums of products of quantised numbers to quantised numbers. */
#ifndef TENON_KERNELS_REFERENCE_REQUANTISE_H
#define TENON_KERNELS_REFERENCE_REQUANTISE_H

#include <math.h>

#include "iterate.h"
#include "kernels/common/quant.h"

/* x to the nearest whole number, from the zero point on, inside the range; NaN is 0. */
static inline double saturated(double x, double zero, quant_range range) {
  const double y = isnan(x) ? zero : nearbyint(x) + zero;
  return y < range.low ? range.low : y > range.high ? range.high : y;
}

/* A sum modulo 2^32, as the int32 that it is. */
static inline double wrapped(double sum) { return (int32_t)(uint32_t)(uint64_t)(int64_t)sum; }

/* What a call that requantises has beside its products. */
typedef struct requantisation {
  bool wanted;
  float y_scale;
  double y_zero;
  quant_range range;
} requantisation;

static inline requantisation requantisation_of(const tn_kernel_args *args) {
  requantisation r = {.wanted = true};
  double y_scale;
  gather(view_of(args->in[QUANT_Y_SCALE]), &y_scale);
  gather(view_of(args->in[QUANT_Y_ZERO]), &r.y_zero);
  r.y_scale = (float)y_scale;
  r.range = quant_range_of(tn_dtype_of(args->out[0]->dtype));
  return r;
}

/* pre: sum is an int32. Each operation is one of float32. */
static inline double requantised(const requantisation *r, double sum, double a_scale,
                                 double b_scale) {
  const float product = (float)a_scale * (float)b_scale, multiplier = product / r->y_scale;
  return saturated((double)((float)sum * multiplier), r->y_zero, r->range);
}

#endif
