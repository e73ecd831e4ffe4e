/*
 * Sorting of several short slices side by side, a slice in each lane: Batcher's odd-even merge
 * exchange (Knuth, The Art of Computer Programming, volume 3, 5.2.2, algorithm M), of which every
 * step is a least and a greatest of two vectors. An item is a double: a whole number of 52 bits,
 * key above, place below, so that no two of a slice are equal and the order is stable.
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
  /* Elements of the longest slice that this sorts faster than by digits. */
  SORT_SIDE_BY_SIDE = TN_ISA_LEVEL == 2   ? 1024
                      : TN_ISA_LEVEL == 1 ? 512
                                          : 256,
};

typedef double sort_row[SORT_LANES];

#define SORT_EXCHANGE(vector, load, store, least, most)                                            \
  for (int j = 0; j < SORT_LANES; j += (int)(sizeof(vector) / sizeof(double))) {                   \
    const vector x = load(a + j), y = load(b + j);                                                 \
    store(a + j, least(x, y));                                                                     \
    store(b + j, most(x, y));                                                                      \
  }

/* Lesser items to a, greater ones to b. */
static inline void sort_exchange(double *a, double *b) {
#if defined(__AVX512F__)
  SORT_EXCHANGE(__m512d, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_min_pd, _mm512_max_pd)
#elif defined(__AVX__)
  SORT_EXCHANGE(__m256d, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_min_pd, _mm256_max_pd)
#elif defined(__SSE2__)
  SORT_EXCHANGE(__m128d, _mm_loadu_pd, _mm_storeu_pd, _mm_min_pd, _mm_max_pd)
#elif defined(__aarch64__)
  SORT_EXCHANGE(float64x2_t, vld1q_f64, vst1q_f64, vminq_f64, vmaxq_f64)
#else
  for (int j = 0; j < SORT_LANES; j++) {
    const double x = a[j], y = b[j];
    a[j] = x < y ? x : y;
    b[j] = x < y ? y : x;
  }
#endif
}

static inline void sort_rows(sort_row *a, int64_t n) {
  int64_t top = 1;
  while (2 * top < n) top *= 2;
  for (int64_t p = top; p > 0; p /= 2)
    for (int64_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
      for (int64_t first = r; first < n - d; first += 2 * p)
        for (int64_t i = first; i < cpu_min(first + p, n - d); i++) sort_exchange(a[i], a[i + d]);
      if (q == p) break;
    }
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
