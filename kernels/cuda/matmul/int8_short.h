/*
 * Products of signed bytes in one launch of wgmma; see int8_short.cu.
 */
#ifndef KERNELS_CUDA_INT8_SHORT_H
#define KERNELS_CUDA_INT8_SHORT_H

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* matmul_integer: where that should be quicker than packing b for cuBLASLt, and neither has a zero
 * point; that alone is run. */
bool cuda_matmul_integer_is_short(const tn_kernel_args *args);
tn_status cuda_run_matmul_integer_short(const tn_kernel_args *args);

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_INT8_SHORT_H */
