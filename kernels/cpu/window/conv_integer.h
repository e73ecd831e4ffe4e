/* A convolution of 8-bit integers, as both ways to compute it see it. */
#ifndef TENON_KERNELS_CPU_CONV_INTEGER_H
#define TENON_KERNELS_CPU_CONV_INTEGER_H

#include "kernels/common/window.h"
#include "kernels/cpu/matmul/integer.h"

typedef struct conv_integer {
  const tn_host *host;
  const DLTensor *x, *w, *x_zeros, *w_zero, *y;
  int32_t x_zero; /* of x_zeros, one for all */
  quant_conv at;
  int64_t images, channels, kernels;  /* channels and kernels of one group */
  int64_t size[3], kernel[3], out[3]; /* of x, w, y */
  int64_t plane, window, windows;     /* products of these */
  integer_sink sink;
} conv_integer;

/* Without products: row by row of y, each element of a kernel times a row of x. */
tn_status ISA(conv_integer_thin)(const conv_integer *c);

#endif
