/*
 * Indexes of several axes as numbers of rows: the data seen as [n, block], a row for each place
 * that the index's axes, and those of the batch, can name.
 */
#ifndef TENON_KERNELS_CPU_SLICES_H
#define TENON_KERNELS_CPU_SLICES_H

#include "kernels/cpu/cpu.h"

typedef struct slices {
  int64_t n, count, block; /* rows of the data, of the index; elements of a row */
  int64_t *rows;           /* [count], the least integer where the index is outside, which
                              stands for no row from the end either; the caller frees it */
} slices;

/* Of the index in[1], for `data` and `part`, what is picked from it or written to it. */
tn_status ISA(slices_begin)(const tn_kernel_args *args, const DLTensor *part, const DLTensor *data,
                            slices *s);

#endif
