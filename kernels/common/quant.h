/*
 * Where the scales of quantised tensors stand, and the numbers of the convolutions over them: what
 * several backends need of the operators of api/ops/quant.def.
 */
#ifndef TENON_KERNELS_QUANT_H
#define TENON_KERNELS_QUANT_H

#include "tenon/plugin.h"

/* A tensor seen as [outer, size, inner] around an axis: the scale of element (o, d, i) is number
 * o steps[0] + d / block steps[1] + i steps[2] of the scales, all row-major. */
typedef struct quant_place {
  int64_t size, inner, block, steps[3];
} quant_place;

static inline int64_t quant_count(const DLTensor *t, int32_t begin, int32_t end) {
  int64_t n = 1;
  for (int32_t d = begin; d < end; d++) n *= t->shape[d];
  return n;
}

/* pre: axis counts from the front, unless there is one scale for all. */
static inline quant_place quant_place_of(const DLTensor *x, const DLTensor *scale, int64_t axis,
                                         int64_t block) {
  quant_place p = {1, 1, 1, {0, 0, 0}};
  if (quant_count(scale, 0, scale->ndim) == 1) {
    p.inner = quant_count(x, 0, x->ndim);
    return p;
  }
  p.size = x->shape[axis];
  p.inner = quant_count(x, (int32_t)axis + 1, x->ndim);
  p.steps[1] = 1;
  if (block == 0) return p;
  p.block = block;
  p.steps[0] = scale->shape[axis] * p.inner;
  p.steps[1] = p.inner;
  p.steps[2] = 1;
  return p;
}

/* Elements from `at` on whose scales lie in a row or are one and the same. */
typedef struct quant_run {
  int64_t n, scale; /* elements, at most end - at; the first one's scale */
  int step;         /* from one's scale to the next one's, 0 or 1 */
} quant_run;

static inline quant_run quant_run_at(const quant_place *p, int64_t at, int64_t end) {
  const int64_t row = p->inner * p->size, outer = at / row, d = at % row / p->inner;
  const int64_t i = at % p->inner, base = outer * p->steps[0];
  quant_run r = {p->inner - i, base + d / p->block * p->steps[1] + i * p->steps[2],
                 (int)p->steps[2]};
  if (p->inner == 1 && p->steps[1]) { /* along the axis itself */
    const int64_t in_block = p->block - d % p->block, left = p->size - d;
    r.step = p->block == 1;
    r.n = p->block == 1 || left < in_block ? left : in_block;
  }
  if (r.n > end - at) r.n = end - at;
  return r;
}

/* What an integer type holds. */
typedef struct quant_range {
  int32_t low, high;
} quant_range;

static inline quant_range quant_range_of(tn_dtype dtype) {
  quant_range r = {0, 255};
  if (dtype == TN_I8) r.low = -128, r.high = 127;
  if (dtype == TN_I16) r.low = -32768, r.high = 32767;
  return r;
}

/* A convolution over one to three spatial axes seen as three, those that lack in front. */
typedef struct quant_conv {
  int64_t stride[3], before[3], dilation[3], groups;
} quant_conv;

static inline quant_conv quant_conv_of(const void *attrs, int spatial) {
  const tn_conv_integer_attrs *a = (const tn_conv_integer_attrs *)attrs; /* and qlinear_conv's */
  quant_conv c = {{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, a->groups};
  for (int i = 0; i < spatial; i++) {
    const int to = 3 - spatial + i;
    if (a->stride.count) c.stride[to] = a->stride.dim[i];
    if (a->padding.count) c.before[to] = a->padding.dim[i];
    if (a->dilation.count) c.dilation[to] = a->dilation.dim[i];
  }
  return c;
}

/* Where the operators that requantise have their arguments. */
enum {
  QUANT_A,
  QUANT_A_SCALE,
  QUANT_A_ZERO,
  QUANT_B,
  QUANT_B_SCALE,
  QUANT_B_ZERO,
  QUANT_Y_SCALE,
  QUANT_Y_ZERO,
  QUANT_BIAS
};

#endif
