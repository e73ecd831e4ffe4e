/*
 * The updates of each place, in their order: where an index has one place for a whole row, a row of
 * data is then read and written once however many updates it gets, and sums of a wider type take
 * the memory of one piece of a row.
 */
#ifndef TENON_KERNELS_CPU_SCATTER_ROWS_H
#define TENON_KERNELS_CPU_SCATTER_ROWS_H

#include "kernels/cpu/base/along.h"

enum { ROWS_LEAST = 16 }; /* elements of a row from which on it pays */

typedef struct update_rows {
  const along *a;
  int64_t *start; /* [n + 2]: place p has the updates order[start[p]] to order[start[p + 1] - 1] */
  int64_t *order; /* [count] */
} update_rows;

/* The updates that place p has are counted at start[p + 2], so that their end is at start[p + 1]
 * when all are dealt. */
#define UPDATE_ROWS_DEAL(suffix, I)                                                                \
  static inline void update_rows_##suffix(const along *a, int64_t *start, int64_t *order) {        \
    const I *index = a->index;                                                                     \
    for (int64_t k = 0; k < a->count; k++) {                                                       \
      const int64_t place = along_place(index[k], a->n);                                           \
      if (place >= 0) start[place + 2]++;                                                          \
    }                                                                                              \
    for (int64_t p = 2; p <= a->n; p++) start[p] += start[p - 1];                                  \
    for (int64_t k = 0; k < a->count; k++) {                                                       \
      const int64_t place = along_place(index[k], a->n);                                           \
      if (place >= 0) order[start[place + 1]++] = k;                                               \
    }                                                                                              \
  }
UPDATE_ROWS_DEAL(narrow, int32_t)
UPDATE_ROWS_DEAL(wide, int64_t)

/* False without memory; the caller frees r->start. */
static inline bool update_rows_make(const along *a, update_rows *r) {
  const size_t starts = (size_t)(a->n + 2);
  r->a = a;
  r->start = a->host->alloc(a->host, (starts + (size_t)a->count) * sizeof *r->start, ALONG_LINE);
  if (!r->start) return false;
  r->order = r->start + starts;
  memset(r->start, 0, starts * sizeof *r->start);
  (a->wide ? update_rows_wide : update_rows_narrow)(a, r->start, r->order);
  return true;
}

#endif
