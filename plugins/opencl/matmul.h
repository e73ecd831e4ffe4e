/*
 * A matrix product as the kernels see it: sizes, strides within the matrices, and the walk over
 * the batch.
 */
#ifndef OPENCL_MATMUL_H
#define OPENCL_MATMUL_H

#include "opencl.h"

/* Elements from one row to the next, and from one column to the next. */
typedef struct ocl_pitch {
  cl_long row, column;
} ocl_pitch;

/* y [m, n] = a [m, k] b [k, n] + bias [n], transposition being in the pitches. matmul.cl has
 * the same struct. */
typedef struct ocl_product {
  cl_long m, n, k;
  ocl_pitch y, a, b;
  cl_long bias; /* stride, 0 without */
} ocl_product;

void ocl_product_of(const tn_kernel_args *args, ocl_product *product);

/* Operands y, a, b; stride 0 where an operand is broadcast. */
void ocl_batch_of(const tn_kernel_args *args, ocl_walk *walk);

bool ocl_matmul_supports(const tn_kernel_args *args);

#endif
