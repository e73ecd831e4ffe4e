/*
 * Where resize reads: output i of an axis lies at (scale i + shift) / unit of the input,
 * all whole numbers, so that every backend finds the same elements and the weights are
 * exact but for one rounding. A mode reads `taps` elements from the whole part minus
 * `lead` on; those outside are the nearest inside.
 */
#ifndef TENON_KERNELS_RESIZE_H
#define TENON_KERNELS_RESIZE_H

#include "tenon/plugin.h"

typedef struct resize_axis {
  int64_t scale, shift, unit;
  int64_t size, out; /* elements of the input and the output */
  int32_t taps, lead;
} resize_axis;

static inline resize_axis resize_axis_of(int64_t mode, bool align_corners, int64_t size,
                                         int64_t out) {
  bool nearest = mode == TN_RESIZE_NEAREST || mode == TN_RESIZE_NEAREST_EXACT;
  resize_axis a;
  a.size = size;
  a.out = out;
  a.taps = mode == TN_RESIZE_BICUBIC ? 4 : nearest ? 1 : 2;
  a.lead = (a.taps - 1) / 2;
  if (align_corners) { /* i (size - 1) / (out - 1); to the nearest: and a half */
    a.scale = out > 1 ? 2 * (size - 1) : 0;
    a.unit = out > 1 ? 2 * (out - 1) : 2;
    a.shift = nearest ? a.unit / 2 : 0;
  } else { /* (i + 1/2) size / out - 1/2; to the nearest: and a half */
    a.scale = 2 * size;
    a.unit = 2 * out;
    a.shift = mode == TN_RESIZE_NEAREST ? 0 : nearest ? size : size - out;
  }
  return a;
}

/* The weights of a mode for the fraction t, 0 <= t < 1, between element `lead` and the
 * next; bicubic as Keys 1981 with a = -0.75, in factors, so that a weight near
 * one of its zeros keeps its digits. Written once for every type and compiler. */
#define RESIZE_WEIGHTS(C, taps, t, w)                                                              \
  do {                                                                                             \
    const C t_ = (t), s_ = 1 - t_, a_ = (C)-0.75;                                                  \
    if ((taps) == 1) {                                                                             \
      (w)[0] = 1;                                                                                  \
    } else if ((taps) == 2) {                                                                      \
      (w)[0] = s_;                                                                                 \
      (w)[1] = t_;                                                                                 \
    } else {                                                                                       \
      (w)[0] = a_ * t_ * s_ * s_;                                                                  \
      (w)[1] = s_ * (1 + t_ - (a_ + 2) * t_ * t_);                                                 \
      (w)[2] = t_ * (1 + s_ - (a_ + 2) * s_ * s_);                                                 \
      (w)[3] = a_ * s_ * t_ * t_;                                                                  \
    }                                                                                              \
  } while (0)

#endif
