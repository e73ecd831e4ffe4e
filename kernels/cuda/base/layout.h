/*
 * Index arithmetic shared by host and device: dimensions of several tensors merged
 * into as few as possible, and division by a constant without dividing.
 */
#ifndef KERNELS_CUDA_LAYOUT_H
#define KERNELS_CUDA_LAYOUT_H

#include "tenon/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most tensors that one kernel walks together, output first. */
#define CUDA_MAX_OPERANDS 4
/* Most elements that a kernel indexes with 32 bits. */
#define CUDA_MAX_INDEX 0x7fffffff

/* Dimensions of tensors that are walked together, outermost first; strides count
 * elements of each tensor. Rank is at least 1. */
typedef struct cuda_shape {
  int rank;
  int64_t size[TN_MAX_RANK];
  int64_t stride[CUDA_MAX_OPERANDS][TN_MAX_RANK];
} cuda_shape;

/* n / value for 0 <= n < 2^31 by multiplication (Granlund and Montgomery 1994). */
typedef struct cuda_divisor {
  uint32_t value, multiplier, shift;
} cuda_divisor;

/* A cuda_shape of at most CUDA_MAX_INDEX elements, as kernels want it. */
typedef struct cuda_layout {
  uint32_t count;
  int rank;
  cuda_divisor size[TN_MAX_RANK];
  int64_t stride[CUDA_MAX_OPERANDS][TN_MAX_RANK];
} cuda_layout;

/* value < 2^31. */
cuda_divisor cuda_divisor_of(uint32_t value);

/* Removes dimensions of size 1, orders the rest by falling stride of operand 0 where
 * `reorder` says that order does not matter, and merges neighbours that every operand
 * walks as one. */
void cuda_shape_simplify(cuda_shape *shape, int operands, bool reorder);

/* The simplified common shape of tensors that all have the first one's shape. */
void cuda_shape_of(cuda_shape *shape, int operands, const DLTensor *const *tensors, bool reorder);

int64_t cuda_shape_count(const cuda_shape *shape);

/* Whether every operand is walked with stride 1. */
bool cuda_shape_is_flat(const cuda_shape *shape, int operands);

/* The layout of a shape of at most CUDA_MAX_INDEX elements. */
void cuda_layout_of(cuda_layout *layout, const cuda_shape *shape, int operands);

/* Product of sizes begin <= axis < end. */
int64_t cuda_size(const DLTensor *tensor, int begin, int end);

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_LAYOUT_H */
