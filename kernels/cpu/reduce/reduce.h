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
