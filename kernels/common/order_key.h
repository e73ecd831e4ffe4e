/*
 * Elements as unsigned numbers that compare as the elements do: NaN, whatever its bits,
 * above all numbers, -0 equal to 0. Used by the sorting kernels of CPU and CUDA, so that
 * all of them put elements in the same order.
 */
#ifndef TENON_KERNELS_ORDER_KEY_H
#define TENON_KERNELS_ORDER_KEY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TN_ORDER_FN static __host__ __device__ inline
#else
#define TN_ORDER_FN static inline
#endif

/* How the bits of an element type order. */
typedef struct order_type {
  int bits;          /* 8, 16, 32 or 64 */
  bool is_signed;    /* two's complement */
  uint64_t infinity; /* of a float: the bits of +Inf; else 0 */
  bool descending;   /* the largest element gets the smallest key */
} order_type;

TN_ORDER_FN uint64_t order_key(uint64_t x, order_type t) {
  const uint64_t mask = ~(uint64_t)0 >> (64 - t.bits), sign = (uint64_t)1 << (t.bits - 1);
  uint64_t key = x;
  if (t.infinity) {
    const uint64_t size = x & ~sign & mask;
    key = size == 0 ? sign : x & sign ? ~x & mask : x | sign;
    if (size > t.infinity) key = mask;
  } else if (t.is_signed) {
    key = x ^ sign;
  }
  return t.descending ? ~key & mask : key;
}

#endif
