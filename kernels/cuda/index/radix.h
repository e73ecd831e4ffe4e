/*
 * Stable radix sort of unsigned keys in workspace, with the places they stood at: CUB's, compiled
 * once for all operators that sort. Keys have 32 or 64 bits, whichever holds the bits in use.
 */
#ifndef KERNELS_CUDA_INDEX_RADIX_H
#define KERNELS_CUDA_INDEX_RADIX_H

#include "kernels/cuda/kernels.h"

/* Two arrays of keys, two of places, and what CUB wants. key[0] and item[0] are filled in before
 * the sort and hold its result after it. */
typedef struct cuda_radix {
  void *key[2];      /* uint32_t, or uint64_t where `wide` */
  uint32_t *item[2]; /* NULL where keys are sorted alone */
  void *temp;
  size_t temp_bytes, bytes; /* of temp, of all */
  int64_t n;
  bool wide;
  int first; /* the lowest bit that is sorted by; 0 unless set before the sort */
} cuda_radix;

static inline size_t cuda_radix_rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* Lays out memory for n keys of `bits` bits from `base` on, which may be NULL where only bytes are
 * wanted. pre: n < 2^32. */
tn_status cuda_radix_of(const tn_kernel_args *args, void *base, int64_t n, int bits, bool items,
                        cuda_radix *r);

/* Sorts by the lowest `bits` bits of the keys, from r->first on. */
tn_status cuda_radix_sort(const tn_kernel_args *args, cuda_radix *r, int bits);

/* Bits that tell `values` values apart, from 0 on. */
static inline int cuda_radix_bits(uint64_t values) {
  int bits = 0;
  while (bits < 64 && values && (values - 1) >> bits) bits++;
  return bits;
}

#endif /* KERNELS_CUDA_INDEX_RADIX_H */
