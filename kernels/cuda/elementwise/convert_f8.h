/* Casts to and from 8-bit floats that programs make in bulk: for convert.cu. */
#ifndef KERNELS_CUDA_CONVERT_F8_H
#define KERNELS_CUDA_CONVERT_F8_H

#include "tenon/plugin.h"

/* Whether a cast is one of them; then it is made, and came to *status. */
bool cuda_cast_f8(const tn_kernel_args *args, tn_status *status);

#endif /* KERNELS_CUDA_CONVERT_F8_H */
