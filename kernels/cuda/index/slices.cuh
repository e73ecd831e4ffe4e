/*
 * Indexes of several axes as numbers of rows: a call seen as one of data [n, block], a row for each
 * place that the index's axes, and those of the batch, can name, and an index [count] along axis 0.
 */
#ifndef KERNELS_CUDA_SLICES_CUH
#define KERNELS_CUDA_SLICES_CUH

#include "kernels/cuda/base/place.cuh"

struct cuda_slices {
  int64_t data_shape[2], part_shape[2], strides[2], count, one;
  DLTensor data, part, index;
  const DLTensor *in[2];
  DLTensor *out[1];
  tn_gather_attrs attrs;
  tn_kernel_args args; /* its workspace lies behind the numbers of rows */
};

/* `part` is what is picked from `data`, or written to it. The numbers themselves are made by
 * cuda_slices_number. */
void cuda_slices_begin(const tn_kernel_args *args, const DLTensor *part, const DLTensor *data,
                       cuda_slices *s);
tn_status cuda_slices_number(const tn_kernel_args *args, const DLTensor *data,
                             const cuda_slices *s);
size_t cuda_slices_bytes(const cuda_slices *s);

#endif /* KERNELS_CUDA_SLICES_CUH */
