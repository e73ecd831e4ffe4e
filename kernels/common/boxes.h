/*
 * Boxes: where roi_align reads in a bin, and how much two boxes have in common. In double, so that
 * every device reads the same elements and leaves the same boxes.
 */
#ifndef TENON_KERNELS_BOXES_H
#define TENON_KERNELS_BOXES_H

#include <math.h>

#include "tenon/plugin.h"

#ifdef __CUDACC__
#define TN_BOXES_FN static __host__ __device__ inline
#else
#define TN_BOXES_FN static inline
#endif

/* Bins of a box along one axis: place k of bin i is start + i bin + (k + 1/2) bin / count. */
typedef struct roi_axis {
  double start, bin, count; /* count: a whole number up to 2^40 */
} roi_axis;

TN_BOXES_FN roi_axis roi_axis_of(double from, double to, double scale, int32_t half_pixel,
                                 int64_t samples, int64_t bins) {
  roi_axis a;
  const double offset = half_pixel ? 0.5 : 0;
  double length = (to * scale - offset) - (from * scale - offset);
  a.start = from * scale - offset;
  if (!half_pixel && !(length >= 1)) length = 1;
  a.bin = length / (double)bins;
  a.count = samples > 0 ? (double)samples : ceil(a.bin);
  /* None of boxes turned inside out, or so large that places run together; nor of NaN. */
  if (!(a.count >= 0 && a.count <= 1099511627776.0)) a.count = 0;
  return a;
}

TN_BOXES_FN double roi_place(const roi_axis *a, int64_t bin, double k) {
  return a->start + (double)bin * a->bin + (k + 0.5) * a->bin / a->count;
}

/* The first place of a bin that may lie in an image of `size` elements, and the one behind the
 * last: what lies between is as much as the image has. Others read zeros. */
TN_BOXES_FN void roi_places(const roi_axis *a, int64_t bin, int64_t size, double *first,
                            double *end) {
  const double from = a->start + (double)bin * a->bin, step = a->bin / a->count;
  *first = 0;
  *end = a->count;
  if (!(a->count > 0) || !(fabs(from) < 1e300)) {
    *end = 0;
  } else if (step > 0) {
    const double low = floor((-1 - from) / step - 1.5),
                 high = ceil(((double)size - from) / step + 0.5);
    if (low > *first) *first = low;
    if (high < *end) *end = high;
  }
}

/* The two elements that a place lies between and the weight of the second; false where it is
 * farther than an element outside. */
TN_BOXES_FN bool roi_between(double place, int64_t size, int64_t at[2], double *t) {
  if (!(place >= -1 && place <= (double)size)) return false;
  if (place < 0) place = 0;
  at[0] = (int64_t)place;
  if (at[0] >= size - 1) {
    at[0] = size - 1;
    at[1] = at[0];
    *t = 0;
  } else {
    at[1] = at[0] + 1;
    *t = place - (double)at[0];
  }
  return true;
}

/* Lower and upper end of a box along both axes, and its area. */
typedef struct box {
  double low[2], high[2], area;
} box;

TN_BOXES_FN box box_of(const double v[4], bool centered) {
  box b;
  for (int d = 0; d < 2; ++d) {
    const double from = centered ? v[d] - v[2 + d] / 2 : v[d];
    const double to = centered ? v[d] + v[2 + d] / 2 : v[2 + d];
    b.low[d] = from < to ? from : to;
    b.high[d] = from < to ? to : from;
  }
  b.area = (b.high[0] - b.low[0]) * (b.high[1] - b.low[1]);
  return b;
}

/* Whether two boxes have more than a share of their union in common. */
TN_BOXES_FN bool boxes_overlap(const box *a, const box *b, double share) {
  double side[2];
  for (int d = 0; d < 2; ++d) {
    const double low = a->low[d] > b->low[d] ? a->low[d] : b->low[d];
    const double high = a->high[d] < b->high[d] ? a->high[d] : b->high[d];
    side[d] = high - low;
    if (!(side[d] > 0)) return false;
  }
  const double common = side[0] * side[1];
  return common > share * (a->area + b->area - common);
}

#endif
