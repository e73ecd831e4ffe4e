/*
 * Sorting of several short slices side by side, a slice in each lane. Up to a block of rows by
 * Batcher's odd-even merge exchange (Knuth, The Art of Computer Programming, volume 3, 5.2.2,
 * algorithm M); more by Batcher's bitonic sorter with each merge's first step mirrored, so that all
 * of it rises and rows behind the last one need not be there. Each of its steps is a least and a
 * greatest of two vectors: those of small distance are done on a block that is in registers, the
 * others two at a time. An item is a double: a whole number of 52 bits, key above, place below, so
 * that no two of a slice are equal and the order is stable.
 */
#ifndef TENON_KERNELS_CPU_SORT_ROWS_H
#define TENON_KERNELS_CPU_SORT_ROWS_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/cpu/cpu.h"

enum {
  SORT_LANES = 16,
  SORT_PLACE_BITS = 20, /* of the 52 that a double has beside a key of 32 */
  SORT_FEW_ROWS = 32,   /* up to here no steps in registers pay */
};

#define SORT_BEHIND 0x1p54 /* greater than any item */

typedef double sort_row[SORT_LANES];

/* Elements of the longest slice that this sorts faster than by digits, of which there are as many
 * as an element has bytes. */
static inline int64_t sort_side_by_side(int bits) {
  if (bits == 8) return 128;
  if (TN_ISA_LEVEL == 0) return 256;
  return bits == 16 ? 512 : 4096;
}

enum { SORT_BLOCK = 16 /* rows that are sorted in registers */ };

#if defined(__AVX512F__)
typedef __m512d sort_vector;
#define sort_load _mm512_loadu_pd
#define sort_store _mm512_storeu_pd
#define sort_least _mm512_min_pd
#define sort_most _mm512_max_pd
#elif defined(__AVX__)
typedef __m256d sort_vector;
#define sort_load _mm256_loadu_pd
#define sort_store _mm256_storeu_pd
#define sort_least _mm256_min_pd
#define sort_most _mm256_max_pd
#elif defined(__SSE2__)
typedef __m128d sort_vector;
#define sort_load _mm_loadu_pd
#define sort_store _mm_storeu_pd
#define sort_least _mm_min_pd
#define sort_most _mm_max_pd
#elif defined(__aarch64__)
typedef float64x2_t sort_vector;
#define sort_load vld1q_f64
#define sort_store vst1q_f64
#define sort_least vminq_f64
#define sort_most vmaxq_f64
#else
typedef double sort_vector;
static inline double sort_load(const double *a) { return *a; }
static inline void sort_store(double *a, double x) { *a = x; }
static inline double sort_least(double x, double y) { return x < y ? x : y; }
static inline double sort_most(double x, double y) { return x < y ? y : x; }
#endif

enum { SORT_WIDTH = (int)(sizeof(sort_vector) / sizeof(double)) };

#define SORT_PAIR(i, j)                                                                            \
  {                                                                                                \
    const sort_vector less = sort_least(x##i, x##j);                                               \
    x##j = sort_most(x##i, x##j);                                                                  \
    x##i = less;                                                                                   \
  }
#define SORT_LOAD(i) sort_vector x##i = sort_load(a[i] + j);
#define SORT_STORE(i) sort_store(a[i] + j, x##i);

/* Lesser items to a, greater ones to b. */
static inline void sort_exchange(double *a, double *b) {
  for (int j = 0; j < SORT_LANES; j += SORT_WIDTH) {
    sort_vector x0 = sort_load(a + j), x1 = sort_load(b + j);
    SORT_PAIR(0, 1)
    sort_store(a + j, x0);
    sort_store(b + j, x1);
  }
}

/* Algorithm M. */
static inline void sort_few_rows(sort_row *a, int64_t n) {
  int64_t top = 1;
  while (2 * top < n) top *= 2;
  for (int64_t p = top; p > 0; p /= 2)
    for (int64_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
      for (int64_t first = r; first < n - d; first += 2 * p)
        for (int64_t i = first; i < cpu_min(first + p, n - d); i++) sort_exchange(a[i], a[i + d]);
      if (q == p) break;
    }
}

/* clang-format off */
#define SORT_EACH(DO)                                                                              \
  DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)                                                  \
  DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)

/* Batcher's odd-even merge sort of 16. */
#define SORT_NETWORK                                                                               \
  SORT_PAIR(0, 1) SORT_PAIR(2, 3) SORT_PAIR(4, 5) SORT_PAIR(6, 7) SORT_PAIR(8, 9)                  \
  SORT_PAIR(10, 11) SORT_PAIR(12, 13) SORT_PAIR(14, 15) SORT_PAIR(0, 2) SORT_PAIR(1, 3)            \
  SORT_PAIR(4, 6) SORT_PAIR(5, 7) SORT_PAIR(8, 10) SORT_PAIR(9, 11) SORT_PAIR(12, 14)              \
  SORT_PAIR(13, 15) SORT_PAIR(1, 2) SORT_PAIR(5, 6) SORT_PAIR(9, 10) SORT_PAIR(13, 14)             \
  SORT_PAIR(0, 4) SORT_PAIR(1, 5) SORT_PAIR(2, 6) SORT_PAIR(3, 7) SORT_PAIR(8, 12)                 \
  SORT_PAIR(9, 13) SORT_PAIR(10, 14) SORT_PAIR(11, 15) SORT_PAIR(2, 4) SORT_PAIR(3, 5)             \
  SORT_PAIR(10, 12) SORT_PAIR(11, 13) SORT_PAIR(1, 2) SORT_PAIR(3, 4) SORT_PAIR(5, 6)              \
  SORT_PAIR(9, 10) SORT_PAIR(11, 12) SORT_PAIR(13, 14) SORT_PAIR(0, 8) SORT_PAIR(1, 9)             \
  SORT_PAIR(2, 10) SORT_PAIR(3, 11) SORT_PAIR(4, 12) SORT_PAIR(5, 13) SORT_PAIR(6, 14)             \
  SORT_PAIR(7, 15) SORT_PAIR(4, 8) SORT_PAIR(5, 9) SORT_PAIR(6, 10) SORT_PAIR(7, 11)               \
  SORT_PAIR(2, 4) SORT_PAIR(3, 5) SORT_PAIR(6, 8) SORT_PAIR(7, 9) SORT_PAIR(10, 12)                \
  SORT_PAIR(11, 13) SORT_PAIR(1, 2) SORT_PAIR(3, 4) SORT_PAIR(5, 6) SORT_PAIR(7, 8)                \
  SORT_PAIR(9, 10) SORT_PAIR(11, 12) SORT_PAIR(13, 14)

/* The steps of distances 8, 4, 2 and 1. */
#define SORT_HALVES                                                                                \
  SORT_PAIR(0, 8) SORT_PAIR(1, 9) SORT_PAIR(2, 10) SORT_PAIR(3, 11) SORT_PAIR(4, 12)               \
  SORT_PAIR(5, 13) SORT_PAIR(6, 14) SORT_PAIR(7, 15) SORT_PAIR(0, 4) SORT_PAIR(1, 5)               \
  SORT_PAIR(2, 6) SORT_PAIR(3, 7) SORT_PAIR(8, 12) SORT_PAIR(9, 13) SORT_PAIR(10, 14)              \
  SORT_PAIR(11, 15) SORT_PAIR(0, 2) SORT_PAIR(1, 3) SORT_PAIR(4, 6) SORT_PAIR(5, 7)                \
  SORT_PAIR(8, 10) SORT_PAIR(9, 11) SORT_PAIR(12, 14) SORT_PAIR(13, 15) SORT_PAIR(0, 1)            \
  SORT_PAIR(2, 3) SORT_PAIR(4, 5) SORT_PAIR(6, 7) SORT_PAIR(8, 9) SORT_PAIR(10, 11)                \
  SORT_PAIR(12, 13) SORT_PAIR(14, 15)
/* clang-format on */

static inline void sort_block(sort_row *a) {
  for (int j = 0; j < SORT_LANES; j += SORT_WIDTH) {
    SORT_EACH(SORT_LOAD)
    SORT_NETWORK
    SORT_EACH(SORT_STORE)
  }
}

static inline void sort_halves(sort_row *a) {
  for (int j = 0; j < SORT_LANES; j += SORT_WIDTH) {
    SORT_EACH(SORT_LOAD)
    SORT_HALVES
    SORT_EACH(SORT_STORE)
  }
}

/* Two steps on four rows a < b < c < d: between the inner and the outer ones where mirrored, else
 * between every second one; then between neighbours. Of the rows, `count` are there. */
static inline void sort_four(double *a, double *b, double *c, double *d, bool mirrored,
                             int64_t count) {
  if (count == 3) sort_exchange(mirrored ? b : a, c);
  if (count == 2 || count == 3) sort_exchange(a, b);
  if (count < 4) return;
  for (int j = 0; j < SORT_LANES; j += SORT_WIDTH) {
    sort_vector x0 = sort_load(a + j), x1 = sort_load(b + j);
    sort_vector x2 = sort_load((mirrored ? d : c) + j), x3 = sort_load((mirrored ? c : d) + j);
    SORT_PAIR(0, 2)
    SORT_PAIR(1, 3)
    SORT_PAIR(0, 1)
    if (mirrored)
      SORT_PAIR(3, 2)
    else
      SORT_PAIR(2, 3)
    sort_store(a + j, x0);
    sort_store(b + j, x1);
    sort_store((mirrored ? d : c) + j, x2);
    sort_store((mirrored ? c : d) + j, x3);
  }
}

/* How many of the rows a < b < c < d are before n. */
static inline int64_t sort_present(int64_t n, int64_t a, int64_t b, int64_t c, int64_t d) {
  return (a < n) + (b < n) + (c < n) + (d < n);
}

/* Merges rows by `size`, the halves of which are sorted. pre: n is a multiple of SORT_BLOCK. */
static inline void sort_merge(sort_row *a, int64_t n, int64_t size) {
  const int64_t q = size / 4;
  for (int64_t first = 0; first < n; first += size) {
    const int64_t last = first + size - 1;
    for (int64_t i = 0; size == 2 * SORT_BLOCK && i < size / 2; i++)
      if (last - i < n) sort_exchange(a[first + i], a[last - i]);
    for (int64_t i = 0; size > 2 * SORT_BLOCK && i < q; i++) {
      const int64_t x = first + i, y = last - i;
      sort_four(a[x], a[x + q], a[y - q], a[y], true, sort_present(n, x, x + q, y - q, y));
    }
  }
  int64_t d = q / 2;
  for (; d >= 2 * SORT_BLOCK; d /= 4)
    for (int64_t first = 0; first < n; first += 2 * d)
      for (int64_t i = first; i < cpu_min(n, first + d / 2); i++)
        sort_four(a[i], a[i + d / 2], a[i + d], a[i + d + d / 2], false,
                  sort_present(n, i, i + d / 2, i + d, i + d + d / 2));
  for (int64_t first = 0; d == SORT_BLOCK && first < n - d; first += 2 * d)
    for (int64_t i = first; i < first + d; i++) sort_exchange(a[i], a[i + d]);
  for (int64_t i = 0; i < n; i += SORT_BLOCK) sort_halves(a + i);
}

/* Rows that there must be space for to sort n. */
static inline int64_t sort_space(int64_t n) { return cpu_ceil_div(n, SORT_BLOCK) * SORT_BLOCK; }

/* pre: space for sort_space(n) rows. */
static inline void sort_rows(sort_row *a, int64_t n) {
  const int64_t all = sort_space(n);
  if (n <= SORT_FEW_ROWS) {
    sort_few_rows(a, n);
    return;
  }
  for (int64_t i = n; i < all; i++)
    for (int j = 0; j < SORT_LANES; j++) a[i][j] = SORT_BEHIND;
  for (int64_t i = 0; i < all; i += SORT_BLOCK) sort_block(a + i);
  for (int64_t size = 2 * SORT_BLOCK; size < 2 * all; size *= 2) sort_merge(a, all, size);
}

static inline double sort_item(uint32_t key, int64_t place) {
  const uint64_t bits = UINT64_C(0x433) << 52 | (uint64_t)key << SORT_PLACE_BITS | (uint64_t)place;
  double item;
  memcpy(&item, &bits, sizeof item);
  return item;
}

/* An item as a word: key in the upper half, place in the lower one. */
static inline uint64_t sort_word(double item) {
  uint64_t bits;
  memcpy(&bits, &item, sizeof bits);
  const uint64_t place = bits & ((UINT64_C(1) << SORT_PLACE_BITS) - 1);
  return bits >> SORT_PLACE_BITS << 32 | place;
}

#endif
