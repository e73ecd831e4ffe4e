/* What an update by index does to an element: for scattering along an axis, and along several. */
#ifndef TENON_KERNELS_REFERENCE_INDEX_H
#define TENON_KERNELS_REFERENCE_INDEX_H

#include "iterate.h"

/* The element of an index tensor as a place on an axis of n; -1 outside it. */
static inline int64_t index_place(const view *index, const void *at, int64_t n) {
  int64_t i;
  load_i64(index->dtype, at, 1, 1, &i);
  if (i < 0) i = i < -n ? -1 : i + n;
  return i < n ? i : -1;
}

/* Does something to one element: `to` from `from`. */
typedef void (*update_fn)(tn_dtype dtype, void *to, const void *from);

void update_set(tn_dtype dtype, void *to, const void *from);
void update_min(tn_dtype dtype, void *to, const void *from);
void update_max(tn_dtype dtype, void *to, const void *from);

/* Sums and products. Integers wrap; for floats `to` is a double, which is rounded once at the end,
 * whatever type the update has. */
typedef struct fold {
  update_fn whole, wide;
} fold;
extern const fold fold_add, fold_mul;

/* Updates of y, which `scatter` makes with its context: of y itself, or of a copy in double. */
typedef void (*scatter_fn)(const void *context, view y, update_fn update);
tn_status scatter_fold(const tn_host *host, view y, const fold *f, scatter_fn scatter,
                       const void *context);

#endif
