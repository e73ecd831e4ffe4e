/*
 * How one product, or a batch of them, is cut into blocks of the result for threads to share.
 * Of the grids that give every thread one, two or four blocks the cheapest is taken, by a model
 * whose unit is a term, one multiplication and addition. It is fitted to OpenBLAS on AVX-512:
 * beside its terms a block packs its rows of one operand and its columns of the other, which its
 * neighbours pack again, so that square blocks are cheap; blocks of few terms are not packed.
 */
#ifndef TENON_KERNELS_CPU_SPLIT_H
#define TENON_KERNELS_CPU_SPLIT_H

#include <math.h>

#include "kernels/cpu/cpu.h"

/* Batches of products [m, k] by [k, n], for so many threads. unpacked: whether the BLAS has a
 * kernel that does not pack for blocks of SPLIT_UNPACKED terms or fewer. */
typedef struct split_work {
  int64_t batches, m, n, k, threads;
  bool unpacked;
} split_work;

/* Extents of the blocks, of which the last in a row or column may be smaller. */
typedef struct split_blocks {
  int64_t m, n;
} split_blocks;

/* What the sides of a block are multiples of, for whole registers and whole cache lines. */
enum { SPLIT_M = 4, SPLIT_N = 16 };
/* Terms that are worth a second thread; terms of a block that is not packed. Reading it in place is
 * slower where it is deep, and where the second operand, which every row of blocks reads again, is
 * large: it has so many elements then, unless there are few rows. */
enum { SPLIT_WORTH = 500000, SPLIT_UNPACKED = 1000000 };
enum { SPLIT_IN_PLACE_DEPTH = 384, SPLIT_IN_PLACE_SECOND = 160000, SPLIT_IN_PLACE_ROWS = 128 };

static inline bool split_in_place(const split_work *w) {
  return w->unpacked && w->k <= SPLIT_IN_PLACE_DEPTH &&
         (w->k * w->n <= SPLIT_IN_PLACE_SECOND || w->m <= SPLIT_IN_PLACE_ROWS);
}

static inline double split_block_terms(const split_work *w, split_blocks b) {
  const double terms = (double)b.m * (double)b.n * (double)w->k, pack = 8, call = 10000;
  if (terms <= SPLIT_UNPACKED && split_in_place(w)) return 0.85 * terms + call;
  return terms + pack * (double)w->k * (double)(b.m + b.n) + call;
}

/* What the thread with most blocks computes, with the time to hand blocks out one by one, and a
 * share of a block that one thread is late by. */
static inline double split_terms(const split_work *w, split_blocks b) {
  const double block = split_block_terms(w, b), claim = w->threads > 1 ? 5000 : 0;
  const int64_t units = w->batches * cpu_ceil_div(w->m, b.m) * cpu_ceil_div(w->n, b.n);
  const double late = w->threads > 1 ? 0.1 * block : 0;
  return (double)cpu_ceil_div(units, w->threads) * block + claim * (double)units + late;
}

static inline split_blocks split_grid(const split_work *w, int64_t rows, int64_t columns) {
  const int64_t m = cpu_ceil_div(cpu_ceil_div(w->m, rows), SPLIT_M) * SPLIT_M;
  const int64_t n = cpu_ceil_div(cpu_ceil_div(w->n, columns), SPLIT_N) * SPLIT_N;
  return (split_blocks){cpu_min(m, w->m), cpu_min(n, w->n)};
}

/* Tries grids of about `pieces` blocks that are nearly square. */
static inline void split_try(const split_work *w, double pieces, split_blocks *best,
                             double *least) {
  const double square = fmin(sqrt(pieces * (double)w->m / (double)w->n), pieces);
  const int64_t first = cpu_max(1, (int64_t)(square / 2));
  const int64_t last = cpu_max(1, (int64_t)fmin(2 * square, pieces));
  for (int64_t rows = first; rows <= last; rows++) {
    const split_blocks b = split_grid(w, rows, cpu_max(1, (int64_t)(pieces / (double)rows)));
    const double terms = split_terms(w, b);
    if (terms < *least) *least = terms, *best = b;
  }
}

/* pre: all extents and the number of threads are 1 or more. */
static inline split_blocks split_choose(const split_work *w) {
  split_blocks best = {w->m, w->n};
  const double each = (double)w->m * (double)w->n * (double)w->k;
  const double all = each * (double)w->batches, threads = (double)w->threads;
  double least = split_terms(w, best);
  const bool few = (double)w->batches < 4 * threads && all > SPLIT_WORTH && w->threads > 1;
  for (int waves = 1; few && waves <= 4; waves *= 2)
    split_try(w, ceil(waves * threads / (double)w->batches), &best, &least);
  if (each > SPLIT_UNPACKED && split_in_place(w))
    for (int spare = 9; spare >= 7; spare -= 2)
      split_try(w, ceil(each / SPLIT_UNPACKED * 10 / spare), &best, &least);
  return best;
}

/* The same for products in registers (small.h), which read the first operand where it lies: a block
 * is a strip of columns, which are as good as packed for it, by rows that leave all threads the
 * same work. A block of more rows would only have them leave the cache before the next strip. */
enum { SPLIT_STRIP = 64, SPLIT_TILE = 6, SPLIT_ROWS = 192, SPLIT_ROWS_LEAST = 2 * SPLIT_TILE };
#ifndef SPLIT_MANY
#define SPLIT_MANY 384
#endif
static inline split_blocks split_strips(const split_work *w) {
  const int64_t strips = w->batches * cpu_ceil_div(w->n, SPLIT_STRIP), once = 4; /* reads of b */
  const int64_t most = cpu_ceil_div(w->m, SPLIT_ROWS_LEAST);
  const bool many = strips * cpu_ceil_div(w->m, SPLIT_MANY) >= 4 * w->threads;
  const int64_t tall = many ? SPLIT_MANY : SPLIT_ROWS;
  split_blocks best = {cpu_min(w->m, tall), cpu_min(w->n, SPLIT_STRIP)};
  double least = INFINITY;
  for (int64_t parts = cpu_ceil_div(w->m, tall); parts <= most; parts++) {
    const int64_t rows = cpu_ceil_div(cpu_ceil_div(w->m, parts), SPLIT_TILE) * SPLIT_TILE;
    const int64_t units = strips * cpu_ceil_div(w->m, rows);
    const double strip = (double)w->k * SPLIT_STRIP, call = 5000;
    const double terms =
        (double)cpu_ceil_div(units, w->threads) * ((double)(rows + once) * strip + call);
    if (terms < least) least = terms, best.m = cpu_min(rows, w->m);
    if (units >= 8 * w->threads) break;
  }
  return best;
}

#endif
