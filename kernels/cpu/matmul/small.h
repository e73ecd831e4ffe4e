/*
 * Products of float32 that are not worth packing: tiles of registers over operands that are read
 * where they lie. An element's bits depend on its operands, on the number of terms and on which of
 * the two ways below is taken, not on where it stands.
 */
#ifndef TENON_KERNELS_CPU_SMALL_H
#define TENON_KERNELS_CPU_SMALL_H

#include "kernels/cpu/cpu.h"

/* y[m, n] = a[m, k] b[k, n]; element (i, j) of each at i * row + j * col. y overlaps no operand;
 * the steps of those may be 0 or negative. */
typedef struct small_product {
  int64_t m, n, k;
  const float *a, *b;
  float *y;
  int64_t a_row, a_col, b_row, b_col, y_row, y_col;
  bool add; /* to what is in y */
} small_product;

/* Columns of a narrow product, and terms of its sums at the least, four times so many where it has
 * more than half the columns: vectors run along these then. Rows for which columns are copied. Rows
 * of a wide product for which the same serves. */
enum { SMALL_NARROW = 8, SMALL_LONG = 32, SMALL_FEW = 16 };

/* pre: rows of y are dense. What adds goes by the wide way. */
void ISA(small_floats)(const small_product *p);
/* pre: rows of a are dense, b has no more than SMALL_FEW columns, there is a term, and nothing is
 * added to. */
void ISA(small_dots)(const small_product *p);

#endif
