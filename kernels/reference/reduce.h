/*
 * Reductions over axes: each output element is one walk over the reduced axes, in
 * row-major order, by one thread.
 */
#ifndef TENON_KERNELS_REFERENCE_REDUCE_H
#define TENON_KERNELS_REFERENCE_REDUCE_H

#include "iterate.h"

/* One reduction: the kept axes of x and y side by side, and the reduced axes of x. */
typedef struct reduction {
  view kept[2]; /* x, y */
  view inner;
  int64_t count; /* of elements behind one output */
  const void *attrs;
} reduction;

/* Writes one output element at y from the elements that the walk finds. */
typedef void (*reduce_fn)(const reduction *r, walk *w, void *y);

tn_status reduce(const tn_kernel_args *args, const tn_axes *axes, bool keepdims, reduce_fn fn);

#endif
