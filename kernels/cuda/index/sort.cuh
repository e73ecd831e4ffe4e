/* Rows to sort, and elements as keys and back: shared by sort.cu and select_top.cu. */
#ifndef KERNELS_CUDA_INDEX_SORT_CUH
#define KERNELS_CUDA_INDEX_SORT_CUH

#include "kernels/common/order_key.h"
#include "kernels/cuda/base/common.cuh"

/* Rows along one axis of a contiguous tensor seen as [outer, n, inner]; k of the n sorted
 * elements are written. */
struct rows {
  const void *x;
  void *y;        /* or NULL */
  int64_t *index; /* or NULL */
  int64_t outer, n, inner, k;
  order_type type;
  bool indexed; /* whether places are wanted; index is not set yet where workspace is measured */
  bool flat;    /* one row, of which four elements move at once wherever a multiple of four is */
};

__device__ __forceinline__ uint64_t bits_at(const void *x, int64_t i, int bits) {
  switch (bits) {
  case 8:
    return ((const uint8_t *)x)[i];
  case 16:
    return ((const uint16_t *)x)[i];
  case 32:
    return ((const uint32_t *)x)[i];
  default:
    return ((const uint64_t *)x)[i];
  }
}

__device__ __forceinline__ void bits_put(void *y, int64_t i, uint64_t value, int bits) {
  switch (bits) {
  case 8:
    ((uint8_t *)y)[i] = (uint8_t)value;
    break;
  case 16:
    ((uint16_t *)y)[i] = (uint16_t)value;
    break;
  case 32:
    ((uint32_t *)y)[i] = (uint32_t)value;
    break;
  default:
    ((uint64_t *)y)[i] = value;
  }
}

template <class U>
__device__ __forceinline__ void four_at(const U *x, int64_t i, uint64_t (&v)[4]) {
  const pack<U, 4> four = *(const pack<U, 4> *)(x + i);
#pragma unroll
  for (int k = 0; k < 4; k++) v[k] = four.v[k];
}

template <class U>
__device__ __forceinline__ void four_put(U *y, int64_t i, const uint64_t (&v)[4]) {
  pack<U, 4> four;
#pragma unroll
  for (int k = 0; k < 4; k++) four.v[k] = (U)v[k];
  *(pack<U, 4> *)(y + i) = four;
}

/* Four elements of flat rows; i is a multiple of four. */
__device__ __forceinline__ void four_bits_at(const void *x, int64_t i, int bits, uint64_t (&v)[4]) {
  switch (bits) {
  case 8:
    return four_at((const uint8_t *)x, i, v);
  case 16:
    return four_at((const uint16_t *)x, i, v);
  case 32:
    return four_at((const uint32_t *)x, i, v);
  default:
    four_at((const uint64_t *)x, i, v);
  }
}

__device__ __forceinline__ void four_bits_put(void *y, int64_t i, int bits,
                                              const uint64_t (&v)[4]) {
  switch (bits) {
  case 8:
    return four_put((uint8_t *)y, i, v);
  case 16:
    return four_put((uint16_t *)y, i, v);
  case 32:
    return four_put((uint32_t *)y, i, v);
  default:
    four_put((uint64_t *)y, i, v);
  }
}

/* Where element i of a row lies, in a tensor with `size` elements along the axis. */
__device__ __forceinline__ int64_t place_of(const rows &r, int64_t row, int64_t i, int64_t size) {
  if (r.inner == 1) return row * size + i;
  return row / r.inner * size * r.inner + row % r.inner + i * r.inner;
}

/* order_key() of at most 32 bits. */
__device__ __forceinline__ uint32_t narrow_key(uint32_t x, const order_type &t) {
  const uint32_t mask = ~0u >> (32 - t.bits), sign = 1u << (t.bits - 1);
  uint32_t key = x;
  if (t.infinity) {
    const uint32_t size = x & (mask ^ sign);
    key = size == 0 ? sign : x & sign ? ~x & mask : x | sign;
    if (size > (uint32_t)t.infinity) key = mask;
  } else if (t.is_signed) {
    key = x ^ sign;
  }
  return t.descending ? key ^ mask : key;
}

/* The element of a key; false where several have it. */
__device__ __forceinline__ bool element_of(uint64_t key, order_type t, uint64_t *x) {
  const uint64_t mask = ~(uint64_t)0 >> (64 - t.bits), sign = (uint64_t)1 << (t.bits - 1);
  key &= mask;
  if (t.descending) key = ~key & mask;
  *x = t.is_signed ? key ^ sign : key;
  if (!t.infinity) return true;
  *x = key & sign ? key ^ sign : ~key & mask;
  return key != mask && key != sign;
}

/* The k least keys of each row, in order, without sorting all of it: where k is small. */
bool cuda_select_takes(const rows &r);
tn_status cuda_select_workspace(const tn_kernel_args *args, const rows &r, size_t *bytes);
tn_status cuda_select_run(const tn_kernel_args *args, const rows &r);

#endif /* KERNELS_CUDA_INDEX_SORT_CUH */
