/*
 * Resizing images, plane by plane or, with channels last, all channels at once, and output row by
 * output row: the rows of the input that it reads are blended into one, from which its elements are
 * blended. The gradient runs the same way back. What an output reads along an axis is worked out
 * once per call.
 */
#include <string.h>

#include "kernels/common/resize.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

typedef struct resize_call {
  const tn_host *host;
  const void *x;       /* or dy */
  void *y;             /* or dx */
  resize_axis axis[2]; /* rows and columns */
  int64_t channels;    /* that lie side by side: 1 of images whose planes do */
  int32_t *at[2];      /* [taps, out]: places in the input */
  void *weight[2];     /* [taps, out] in type C */
} resize_call;

/* The place of tap k of an output at `whole`, inside the input. */
static int32_t resize_place(const resize_axis *a, int64_t whole, int k) {
  return (int32_t)cpu_min(cpu_max(whole - a->lead + k, 0), a->size - 1);
}

/* The place of output i: whole elements, and the rest in units. */
static int64_t resize_whole(const resize_axis *a, int64_t i, int64_t *rest) {
  const int64_t number = a->scale * i + a->shift;
  const int64_t whole = number / a->unit - (number % a->unit < 0);
  *rest = number - whole * a->unit;
  return whole;
}

#define BODY "kernels/cpu/window/resize.inc"
#include "kernels/cpu/base/stamp_float.inc"
