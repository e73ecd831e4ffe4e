/*
 * Where resample reads and how much of what: the same places and weights, in double, on every
 * device. A place outside x reads what the border stands for, or nothing.
 */
#ifndef TENON_KERNELS_RESAMPLE_H
#define TENON_KERNELS_RESAMPLE_H

#include <math.h>

#include "tenon/plugin.h"

#ifdef __CUDACC__
#define TN_RESAMPLE_FN static __host__ __device__ inline
#else
#define TN_RESAMPLE_FN static inline
#endif

typedef struct resample_plan {
  double start, shift, span, count, stretch, cubic;
  int64_t size, out; /* of the forward operator along the axis */
  int32_t filter, exclude_outside, extrapolate;
} resample_plan;

/* What one element of y reads: elements first..last of x, which may lie outside, each with its
 * weight divided by `total`. None (first > last) where the value beside x is given. */
typedef struct resample_reading {
  double place, total;
  int64_t first, last;
} resample_reading;

/* pre: attributes of resample or its gradient, behind their axis and size */
#define RESAMPLE_PLAN(a, size_, out_)                                                              \
  {                                                                                                \
    (a)->start, (a)->shift, (a)->count == 0 ? (double)(size_) : (a)->span,                         \
        (a)->count == 0 ? (double)(out_) : (a)->count, (a)->stretch, (a)->cubic, (size_), (out_),  \
        (int32_t)(a)->filter, (a)->exclude_outside, (a)->extrapolate                               \
  }

TN_RESAMPLE_FN bool resample_is_nearest(const resample_plan *p) {
  return p->filter < TN_RESAMPLE_LINEAR;
}

/* Elements of x on either side that a place can reach. */
TN_RESAMPLE_FN double resample_reach(const resample_plan *p) {
  return resample_is_nearest(p) ? 1 : (p->filter == TN_RESAMPLE_CUBIC ? 2 : 1) * p->stretch;
}

TN_RESAMPLE_FN double resample_place(const resample_plan *p, int64_t i) {
  return p->start + ((double)i + p->shift) * p->span / p->count;
}

/* The filter at u elements from its centre, of a filter that is not stretched. */
TN_RESAMPLE_FN double resample_filter(const resample_plan *p, double u) {
  const double t = u < 0 ? -u : u, a = p->cubic;
  if (p->filter == TN_RESAMPLE_LINEAR) return t < 1 ? 1 - t : 0;
  /* Keys 1981 in factors: near its zeros the polynomial would lose its digits. */
  if (t <= 1) return (1 - t) * (1 + t - (a + 2) * t * t);
  return t < 2 ? a * (t - 1) * (2 - t) * (2 - t) : 0;
}

/* Element j's part in a reading, before it is divided by the total. */
TN_RESAMPLE_FN double resample_weight(const resample_plan *p, double place, int64_t j) {
  if (resample_is_nearest(p)) return 1;
  if (p->exclude_outside && (j < 0 || j >= p->size)) return 0;
  return resample_filter(p, ((double)j - place) / p->stretch);
}

TN_RESAMPLE_FN int64_t resample_nearest(const resample_plan *p, double place) {
  switch (p->filter) {
  case TN_RESAMPLE_NEAREST_DOWN:
    return (int64_t)ceil(place - 0.5);
  case TN_RESAMPLE_NEAREST_UP:
    return (int64_t)floor(place + 0.5);
  case TN_RESAMPLE_FLOOR:
    return (int64_t)floor(place);
  default:
    return (int64_t)ceil(place);
  }
}

/* Filters that are neither stretched nor cut have weights that come to 1. */
TN_RESAMPLE_FN bool resample_is_shared(const resample_plan *p) {
  return !resample_is_nearest(p) && (p->stretch != 1 || p->exclude_outside);
}

TN_RESAMPLE_FN resample_reading resample_read(const resample_plan *p, int64_t i) {
  resample_reading r;
  const double reach = resample_reach(p);
  r.place = resample_place(p, i);
  r.total = 1;
  if (p->extrapolate && !(r.place >= 0 && r.place <= (double)(p->size - 1))) {
    r.first = 0;
    r.last = -1;
  } else if (resample_is_nearest(p)) {
    r.first = resample_nearest(p, r.place);
    r.last = r.first;
  } else {
    r.first = (int64_t)floor(r.place - reach) + 1;
    r.last = (int64_t)ceil(r.place + reach) - 1;
  }
  if (p->exclude_outside && !resample_is_nearest(p)) {
    if (r.first < 0) r.first = 0;
    if (r.last >= p->size) r.last = p->size - 1;
    if (r.first > r.last && !p->extrapolate) { /* all is outside: none of it counts */
      r.first = 0;
      r.last = 0;
      r.total = INFINITY;
      return r;
    }
  }
  if (resample_is_shared(p)) {
    r.total = 0;
    for (int64_t j = r.first; j <= r.last; ++j) r.total += resample_weight(p, r.place, j);
  }
  return r;
}

/* The element of x that stands for j. */
TN_RESAMPLE_FN int64_t resample_inside(const resample_plan *p, int64_t j) {
  return j < 0 ? 0 : j >= p->size ? p->size - 1 : j;
}

#endif
