/* Lists of tensors as one long one, their places laid one after the other. */
#ifndef TENON_KERNELS_CPU_PLACES_H
#define TENON_KERNELS_CPU_PLACES_H

#include "kernels/cpu/cpu.h"

/* Elements first <= i < first + n of one place. */
typedef void (*place_fn)(void *ctx, int place, int64_t first, int64_t n);

static inline int64_t places_count(const DLTensor *const *list, int length) {
  int64_t n = 0;
  for (int i = 0; i < length; i++) n += cpu_count(list[i]);
  return n;
}

/* Calls fn for every place that elements begin <= i < end reach into. */
static inline void places_each(const DLTensor *const *list, int length, int64_t begin, int64_t end,
                               place_fn fn, void *ctx) {
  for (int i = 0; i < length && end > 0; i++) {
    const int64_t size = cpu_count(list[i]), first = cpu_max(begin, 0),
                  n = cpu_min(end, size) - first;
    if (n > 0) fn(ctx, i, first, n);
    begin -= size;
    end -= size;
  }
}

#endif
