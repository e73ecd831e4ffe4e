/* The first k of long rows, found in one pass over their elements; for select_top.cu. */
#ifndef KERNELS_CUDA_INDEX_SELECT_DELEGATES_H
#define KERNELS_CUDA_INDEX_SELECT_DELEGATES_H

#include "kernels/cuda/index/select_plan.h"
#include "kernels/cuda/index/sort.cuh"

/* How rows are gone about on the call's device; pre: cuda_select_takes(r). */
cuda_select_plan cuda_delegates_plan(const tn_kernel_args *args, const rows &r);

/* Follows a plan that is not CUDA_SELECT_OTHERWISE. */
tn_status cuda_delegates_run(const tn_kernel_args *args, const rows &r,
                             const cuda_select_plan &plan);

#endif /* KERNELS_CUDA_INDEX_SELECT_DELEGATES_H */
