/*
 * Products of signed bytes with few rows by the matrix units, b read as it lies; see
 * int8_skinny.cu.
 */
#ifndef KERNELS_CUDA_INT8_SKINNY_H
#define KERNELS_CUDA_INT8_SKINNY_H

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* matmul_integer: where a has at most 64 rows, b is large and neither has a zero point; that alone
 * is run. */
bool cuda_matmul_integer_is_skinny(const tn_kernel_args *args);
tn_status cuda_run_matmul_integer_skinny(const tn_kernel_args *args);

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_INT8_SKINNY_H */
