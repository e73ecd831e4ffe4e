/*
 * What launches need to know of tensors: element types, sizes, and the common walk of several
 * tensors, with as few axes as it takes.
 */
#include <string.h>

#include "opencl.h"

tn_dtype ocl_dtype(const DLTensor *tensor) { return tn_dtype_of(tensor->dtype); }

int64_t ocl_size(const DLTensor *tensor, int32_t begin, int32_t end) {
  int64_t count = 1;
  for (int32_t d = begin; d < end; d++) count *= tensor->shape[d];
  return count;
}

uint64_t ocl_count(const DLTensor *tensor) { return (uint64_t)ocl_size(tensor, 0, tensor->ndim); }

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

static void copy_axis(ocl_walk *w, int operands, int to, const ocl_walk *from_walk, int from) {
  w->size[to] = from_walk->size[from];
  for (int k = 0; k < operands; k++) w->stride[k][to] = from_walk->stride[k][from];
}

/* Whether axis j should stand outside axis i. */
static bool is_outer(const ocl_walk *w, int operands, int j, int i) {
  for (int k = 0; k < operands; k++) {
    int64_t a = magnitude(w->stride[k][j]), b = magnitude(w->stride[k][i]);
    if (a != b) return a > b;
  }
  return false;
}

/* By falling stride of the first operand: elements may be visited in any order. */
static void sort_axes(ocl_walk *w, int operands) {
  for (int i = 1; i < w->rank; i++) {
    for (int j = i; j > 0 && is_outer(w, operands, j, j - 1); j--) {
      ocl_walk was = *w;
      copy_axis(w, operands, j, &was, j - 1);
      copy_axis(w, operands, j - 1, &was, j);
    }
  }
}

static bool is_one_axis(const ocl_walk *w, int operands, int outer, int inner) {
  for (int k = 0; k < operands; k++) {
    if (w->stride[k][outer] != w->stride[k][inner] * w->size[inner]) return false;
  }
  return true;
}

static void merge_axes(ocl_walk *w, int operands) {
  int last = 0;
  for (int d = 1; d < w->rank; d++) {
    if (is_one_axis(w, operands, last, d)) {
      int64_t size = w->size[last] * w->size[d];
      copy_axis(w, operands, last, w, d);
      w->size[last] = size;
    } else {
      copy_axis(w, operands, ++last, w, d);
    }
  }
  w->rank = last + 1;
}

void ocl_walk_of(ocl_walk *walk, int operands, const DLTensor *const *tensors) {
  memset(walk, 0, sizeof *walk);
  walk->count = 1;
  for (int d = 0; d < tensors[0]->ndim; d++) {
    int64_t size = tensors[0]->shape[d];
    walk->count *= size;
    if (size == 1) continue;
    walk->size[walk->rank] = size;
    for (int k = 0; k < operands; k++) walk->stride[k][walk->rank] = tensors[k]->strides[d];
    walk->rank++;
  }
  if (walk->rank == 0) {
    walk->rank = 1;
    walk->size[0] = 1;
    for (int k = 0; k < operands; k++) walk->stride[k][0] = 1;
  }
  sort_axes(walk, operands);
  merge_axes(walk, operands);
  walk->flat = walk->rank == 1;
  for (int k = 0; k < operands; k++) walk->flat = walk->flat && walk->stride[k][0] == 1;
}

void ocl_dims_of(ocl_dims *dims, const DLTensor *tensor) {
  memset(dims, 0, sizeof *dims);
  dims->rank = tensor->ndim;
  for (int d = 0; d < tensor->ndim; d++) {
    dims->size[d] = tensor->shape[d];
    dims->stride[d] = tensor->strides[d];
  }
}

static bool is_double(const DLTensor *tensor) {
  return tensor && tensor->dtype.code == kDLFloat && tensor->dtype.bits == 64;
}

bool ocl_has_double(const tn_kernel_args *args) { return ocl_device_of(args)->fp64; }

bool ocl_takes_types(const tn_kernel_args *args) {
  if (ocl_has_double(args)) return true;
  for (int i = 0; i < args->num_in; i++)
    if (is_double(args->in[i])) return false;
  for (int i = 0; i < args->num_out; i++)
    if (is_double(args->out[i])) return false;
  return true;
}
