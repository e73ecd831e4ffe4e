/*
 * Merging of dimensions and division constants. Host code only; on the way of every
 * elementwise call, so it stays free of allocation and of loops beyond the rank.
 */
#include "kernels/cuda/base/layout.h"

#include "kernels/cuda/kernels.h"

cuda_divisor cuda_divisor_of(uint32_t value) {
  if (value == 0) return (cuda_divisor){0, 1, 0}; /* of an empty tensor: never divided by */
  const uint32_t shift = value > 1 ? 32 - (uint32_t)__builtin_clz(value - 1) : 0;
  uint64_t multiplier = ((UINT64_C(1) << 32) * ((UINT64_C(1) << shift) - value)) / value + 1;
  return (cuda_divisor){value, (uint32_t)multiplier, shift};
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

static void swap_dims(cuda_shape *s, int operands, int i, int j) {
  int64_t size = s->size[i];
  s->size[i] = s->size[j];
  s->size[j] = size;
  for (int k = 0; k < operands; k++) {
    int64_t stride = s->stride[k][i];
    s->stride[k][i] = s->stride[k][j];
    s->stride[k][j] = stride;
  }
}

/* Whether dimension j should stand outside dimension i. */
static bool is_outer(const cuda_shape *s, int operands, int j, int i) {
  for (int k = 0; k < operands; k++) {
    int64_t a = magnitude(s->stride[k][j]), b = magnitude(s->stride[k][i]);
    if (a != b) return a > b;
  }
  return false;
}

static bool is_one_walk(const cuda_shape *s, int operands, int outer, int inner) {
  for (int k = 0; k < operands; k++) {
    if (s->stride[k][outer] != s->stride[k][inner] * s->size[inner]) return false;
  }
  return true;
}

static void copy_dim(cuda_shape *s, int operands, int to, int from) {
  s->size[to] = s->size[from];
  for (int k = 0; k < operands; k++) s->stride[k][to] = s->stride[k][from];
}

static void drop_ones(cuda_shape *s, int operands) {
  int rank = 0;
  for (int d = 0; d < s->rank; d++) {
    if (s->size[d] != 1) copy_dim(s, operands, rank++, d);
  }
  s->rank = rank;
}

static void merge_dims(cuda_shape *s, int operands) {
  int last = 0;
  for (int d = 1; d < s->rank; d++) {
    if (is_one_walk(s, operands, last, d)) {
      int64_t size = s->size[last] * s->size[d];
      copy_dim(s, operands, last, d);
      s->size[last] = size;
    } else {
      copy_dim(s, operands, ++last, d);
    }
  }
  s->rank = last + 1;
}

void cuda_shape_simplify(cuda_shape *shape, int operands, bool reorder) {
  drop_ones(shape, operands);
  if (shape->rank == 0) {
    shape->rank = 1;
    shape->size[0] = 1;
    for (int k = 0; k < operands; k++) shape->stride[k][0] = 1;
    return;
  }
  for (int i = 1; reorder && i < shape->rank; i++) {
    for (int j = i; j > 0 && is_outer(shape, operands, j, j - 1); j--) {
      swap_dims(shape, operands, j, j - 1);
    }
  }
  merge_dims(shape, operands);
}

void cuda_shape_of(cuda_shape *shape, int operands, const DLTensor *const *tensors, bool reorder) {
  shape->rank = tensors[0]->ndim;
  for (int d = 0; d < shape->rank; d++) {
    shape->size[d] = tensors[0]->shape[d];
    for (int k = 0; k < operands; k++) shape->stride[k][d] = tensors[k]->strides[d];
  }
  cuda_shape_simplify(shape, operands, reorder);
}

int64_t cuda_shape_count(const cuda_shape *shape) {
  int64_t count = 1;
  for (int d = 0; d < shape->rank; d++) count *= shape->size[d];
  return count;
}

bool cuda_shape_is_flat(const cuda_shape *shape, int operands) {
  if (shape->rank != 1) return false;
  for (int k = 0; k < operands; k++) {
    if (shape->stride[k][0] != 1) return false;
  }
  return true;
}

void cuda_layout_of(cuda_layout *layout, const cuda_shape *shape, int operands) {
  layout->count = (uint32_t)cuda_shape_count(shape);
  layout->rank = shape->rank;
  for (int d = 0; d < shape->rank; d++) {
    layout->size[d] = cuda_divisor_of((uint32_t)shape->size[d]);
    for (int k = 0; k < operands; k++) layout->stride[k][d] = shape->stride[k][d];
  }
}

int64_t cuda_size(const DLTensor *tensor, int begin, int end) {
  int64_t count = 1;
  for (int d = begin; d < end; d++) count *= tensor->shape[d];
  return count;
}

tn_dtype cuda_dtype(const DLTensor *tensor) { return tn_dtype_of(tensor->dtype); }
