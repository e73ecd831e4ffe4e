/*
 * The order in which a reduction visits its input. Kept dimensions number the outputs,
 * reduced ones the terms of each; both stand with the largest step first and are merged
 * where possible, so that the innermost loop is as long and as dense as it can be.
 */
#ifndef TENON_KERNELS_CPU_REDUCE_H
#define TENON_KERNELS_CPU_REDUCE_H

#include "kernels/cpu/base/floats.h"
#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/cpu.h"

/*
 * Terms of sums are added by a multiplication with 1 that is fused with the addition: the same
 * numbers, but multipliers are free, while additions share their units with conversions (1.7 times
 * as fast on Zen 4). One instruction widens four floats from memory; eight take longer than twice
 * four.
 */
#if defined(__AVX512VL__)
/* Vectors of four: all lanes of a row, so that it need not go through memory. */
#define REDUCE_DOUBLES 16
#elif defined(__AVX2__) && defined(__FMA__)
#define REDUCE_BY_DOUBLES
#endif

/* Vectors of lanes that stay in registers; places of a long row that are read at once, since a
 * processor fetches ahead of each, and of one alone less than half of what memory gives; and
 * elements of a long row, since of shorter places little is read when fetching ahead has begun. */
enum { REDUCE_VECTORS = 8, REDUCE_PLACES = 8, REDUCE_LONG = 1 << 16 };

/* Elements of each place of a row of n: steps of an odd number, since places a power of two apart
 * share the same few lines of a cache. 0 where the row is short. */
static inline int64_t reduce_place(int64_t n, int64_t step) {
  return n < REDUCE_LONG ? 0 : ((n / REDUCE_PLACES / step - 1) | 1) * step;
}

/* Asks early for the n elements that are a KiB ahead. */
static inline void reduce_fetch(const float *x, int n) {
  enum { AHEAD = 256, LINE = 16 };
  for (int i = 0; i < n; i += LINE) __builtin_prefetch(x + AHEAD + i);
}

/* y[j] = x[j] + x[j + 64] + ... + x[j + 448], 0 <= j < 64, of 16 bits, rounded three times, each by
 * 2^-24 of what is added at most: their own last bit is 2^13 times as large or more, and of their
 * sums in double one step in eight is left. False where a sum is not finite, which one in double
 * may be. */
static inline bool reduce_eights(bool bf16, const uint16_t *restrict x, float *restrict y) {
  enum { N = 64 };
  uint32_t all = 0;
#define REDUCE_EIGHT(j)                                                                            \
  (((from[0][j] + from[1][j]) + (from[2][j] + from[3][j])) +                                       \
   ((from[4][j] + from[5][j]) + (from[6][j] + from[7][j])))
#ifdef HALVES_IN_REGISTERS
  for (int i = 0; i < N; i += HALVES) {
    float from[8][HALVES];
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) take_some_halves(bf16, x + k * N + i, from[k]);
    CPU_SIMD for (int j = 0; j < HALVES; j++) y[i + j] = REDUCE_EIGHT(j);
  }
#else
  float from[8][N];
  for (int k = 0; k < 8; k++) take_halves(bf16, N, x + k * N, 1, from[k]);
  CPU_SIMD for (int j = 0; j < N; j++) y[j] = REDUCE_EIGHT(j);
#endif
#undef REDUCE_EIGHT
  for (int j = 0; j < N; j++) all |= (bits_of_float(y[j]) & 0x7fffffffu) + 0x00800000u;
  return all < 0x80000000u;
}

/* Outputs computed side by side. */
#define REDUCE_TILE 512

typedef struct reduce_dim {
  int64_t size, x, y; /* y: step of the output, 0 in reduced dimensions */
} reduce_dim;

typedef struct reduce_plan {
  reduce_dim kept[TN_MAX_RANK], reduced[TN_MAX_RANK];
  int num_kept, num_reduced; /* at least 1 each */
  int64_t outputs, terms;
  const void *x;
  void *y;
  tn_dtype wide; /* of y where attribute dtype makes it wider than x: TN_I64, TN_F32, TN_F64 */
  /* Terms of few outputs are summed in this many parts, at most the size of
   * reduced[0], each into its own row of `partial`. Fixed by the shape, so that results
   * do not depend on the number of threads. */
  int64_t parts;
  void *partial;
  double *centre; /* one number per output that its terms are taken from, or NULL */
  const void *attrs;
} reduce_plan;

void ISA(reduce_plan_build)(reduce_plan *p, const DLTensor *x, const DLTensor *y,
                            const tn_axes *axes);

/* Steps through the outputs or the terms: offsets of element `index`. */
static inline int64_t reduce_offset(const reduce_dim *dims, int count, int64_t index, int64_t *y) {
  int64_t x = 0;
  *y = 0;
  for (int d = count - 1; d > 0; d--) {
    const int64_t at = index % dims[d].size;
    index /= dims[d].size;
    x += at * dims[d].x;
    *y += at * dims[d].y;
  }
  if (count == 0) return 0;
  *y += index * dims[0].y;
  return x + index * dims[0].x;
}

/* A result that is wider than the elements it comes from. */
static inline void reduce_put_float(const reduce_plan *p, int64_t at, double v) {
  if (p->wide == TN_F64)
    ((double *)p->y)[at] = v;
  else
    ((float *)p->y)[at] = (float)v;
}
static inline void reduce_put_int(const reduce_plan *p, int64_t at, uint64_t v) {
  ((int64_t *)p->y)[at] = (int64_t)v;
}

/* Runs `part` over outputs, or over parts and then `finish` over outputs. `bytes` is the
 * size of one accumulator. */
tn_status ISA(reduce_run)(const tn_host *host, reduce_plan *p, size_t bytes, tn_range_fn direct,
                          tn_range_fn part, tn_range_fn finish);

#endif
