/*
 * Elementwise functions of f16 and bf16 by a table of their 65,536 results, for tensors so large
 * that the table costs little: the operator's own kernel makes it, so that results are the same
 * bit for bit, and every block keeps it in shared memory. A look costs less than most functions.
 */
#ifndef KERNELS_CUDA_TABLE_H
#define KERNELS_CUDA_TABLE_H

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TABLE_ENTRIES = 65536, TABLE_BYTES = 2 * TABLE_ENTRIES };

/* Elements from which on a table is made: a little over what it takes to make one. */
enum { TABLE_LEAST = 1 << 24 };

/* y[i] = table[x[i]] for n elements of dense runs that begin at 16 bytes; y may be x. Starts while
 * the kernel before it in the stream makes the table, and no other work. */
tn_status cuda_table_look(const tn_kernel_args *args, void *y, const void *x, int64_t n);

/* Whether blocks of the current device may hold a table; asked before cuda_table_look. */
bool cuda_table_fits(void);

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_TABLE_H */
