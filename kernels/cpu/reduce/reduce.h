/*
 * The order in which a reduction visits its input. Kept dimensions number the outputs,
 * reduced ones the terms of each; both stand with the largest step first and are merged
 * where possible, so that the innermost loop is as long and as dense as it can be.
 */
#ifndef TENON_KERNELS_CPU_REDUCE_H
#define TENON_KERNELS_CPU_REDUCE_H

#include "kernels/cpu/cpu.h"

/*
 * Vectors of four doubles that sums of floats keep in registers at a time, where one instruction
 * widens four from memory; of eight doubles it takes longer than two of four. Terms are added by a
 * multiplication with 1 that is fused with the addition: the same numbers, but multipliers are
 * free, while additions share their units with conversions (1.7 times as fast on Zen 4).
 */
#if defined(__AVX512VL__)
#include <immintrin.h>
#define REDUCE_DOUBLES 16 /* all lanes of a row, so that it need not go through memory */
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define REDUCE_DOUBLES 8
#endif

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
