/*
 * Where grid_sample reads along one axis, in double, so that every device finds the same elements
 * whatever the type of the grid.
 */
#ifndef TENON_KERNELS_GRID_SAMPLE_H
#define TENON_KERNELS_GRID_SAMPLE_H

#include <math.h>

#include "tenon/plugin.h"

#ifdef __CUDACC__
#define TN_GRID_FN static __host__ __device__ inline
#else
#define TN_GRID_FN static inline
#endif

typedef struct grid_plan {
  int32_t mode, padding, align_corners;
  int32_t axes, taps; /* elements read along an axis */
} grid_plan;

/* Along one axis: what is read, -1 for zeros; the weights, and how they change with the grid. */
typedef struct grid_reading {
  int64_t at[4];
  double weight[4], slope[4];
} grid_reading;

TN_GRID_FN grid_plan grid_plan_of(int64_t mode, int64_t padding, int32_t align_corners,
                                  int32_t axes) {
  grid_plan p;
  p.mode = (int32_t)mode;
  p.padding = (int32_t)padding;
  p.align_corners = align_corners;
  p.axes = axes;
  p.taps = mode == TN_GRID_CUBIC ? 4 : mode == TN_GRID_LINEAR ? 2 : 1;
  return p;
}

/* Mirrors a place between two ends; *sign becomes -1 where that turns it round. */
TN_GRID_FN double grid_reflect(double place, double low, double high, double *sign) {
  const double length = high - low;
  double beyond = place < low ? low - place : place - low;
  if (length <= 0) {
    *sign = 0;
    return low;
  }
  if (place < low) *sign = -*sign;
  const double times = floor(beyond / length);
  beyond -= times * length;
  if (fmod(times, 2.0) == 0) return low + beyond;
  *sign = -*sign;
  return high - beyond;
}

/* The place inside the image that stands for one outside; *slope becomes 0 where it is moved to
 * the border. */
TN_GRID_FN double grid_pad(const grid_plan *p, double place, int64_t size, double *slope) {
  const double last = (double)(size - 1);
  if (p->padding == TN_GRID_REFLECTION) {
    place = p->align_corners ? grid_reflect(place, 0, last, slope)
                             : grid_reflect(place, -0.5, (double)size - 0.5, slope);
  }
  if (p->padding != TN_GRID_ZEROS) {
    if (!(place > 0)) {
      *slope = 0;
      place = 0;
    } else if (place >= last) {
      *slope = 0;
      place = last;
    }
  }
  return place;
}

/* Weights of two or four elements around `lead` elements before a fraction t. */
TN_GRID_FN void grid_weights(int32_t taps, double t, grid_reading *r) {
  if (taps == 2) {
    r->weight[0] = 1 - t;
    r->weight[1] = t;
    r->slope[0] = -1;
    r->slope[1] = 1;
    return;
  }
  /* Keys 1981 with a = -0.75, in factors: a weight near one of its zeros keeps its digits. */
  const double a = -0.75, s = 1 - t;
  r->weight[0] = a * t * s * s;
  r->weight[1] = s * (1 + t - (a + 2) * t * t);
  r->weight[2] = t * (1 + s - (a + 2) * s * s);
  r->weight[3] = a * s * t * t;
  r->slope[0] = a * s * (1 - 3 * t);
  r->slope[1] = (3 * (a + 2) * t - 2 * (a + 3)) * t;
  r->slope[2] = (2 * (a + 3) - 3 * (a + 2) * s) * s;
  r->slope[3] = a * t * (3 * s - 1);
}

/* What a number of the grid reads along an axis of `size` elements. */
TN_GRID_FN grid_reading grid_read(const grid_plan *p, double g, int64_t size) {
  const double far = 1099511627776.0; /* 2^40: beyond any image, and exact */
  double slope = p->align_corners ? (double)(size - 1) / 2 : (double)size / 2, sign = 1;
  double place =
      p->align_corners ? (g + 1) / 2 * (double)(size - 1) : ((g + 1) * (double)size - 1) / 2;
  grid_reading r = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  if (!(place > -far)) place = -far; /* NaN too */
  if (place > far) place = far;
  if (p->mode != TN_GRID_CUBIC) place = grid_pad(p, place, size, &sign);
  slope *= sign;
  double whole = p->mode == TN_GRID_NEAREST ? rint(place) : floor(place);
  if (p->mode == TN_GRID_NEAREST) {
    r.weight[0] = 1;
    r.slope[0] = 0;
  } else {
    grid_weights(p->taps, place - whole, &r);
  }
  if (p->mode == TN_GRID_CUBIC) whole -= 1;
  for (int k = 0; k < p->taps; ++k) {
    double at = whole + k, ignored = 1;
    if (p->mode == TN_GRID_CUBIC) at = grid_pad(p, at, size, &ignored);
    r.at[k] = at >= 0 && at <= (double)(size - 1) ? (int64_t)at : -1;
    r.slope[k] *= slope;
  }
  /* What reads one element alone does not change: the slopes' sum is 0 but for rounding. */
  if (p->taps == 4 && r.at[0] == r.at[1] && r.at[1] == r.at[2] && r.at[2] == r.at[3])
    for (int k = 0; k < 4; ++k) r.slope[k] = 0;
  return r;
}

#endif
