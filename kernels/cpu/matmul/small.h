/*
 * Products of float32 that are not worth packing: tiles of registers over operands that are read
 * where they lie. Each sum adds its terms in their order, so that an element's bits depend neither
 * on the extents nor on where it stands.
 */
#ifndef TENON_KERNELS_CPU_SMALL_H
#define TENON_KERNELS_CPU_SMALL_H

#include "kernels/cpu/cpu.h"

/* y[m, n] = a[m, k] b[k, n]; element (i, j) of an operand at i * row + j * col. Rows of y are dense
 * and overlap no operand. Steps may be 0 or negative. */
typedef struct small_product {
  int64_t m, n, k;
  const float *a, *b;
  float *y;
  int64_t a_row, a_col, b_row, b_col, y_row;
} small_product;

void ISA(small_floats)(const small_product *p);

#endif
