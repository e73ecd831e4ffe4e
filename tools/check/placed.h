/*
 * Tensors placed in memory in a chosen way: a view into a larger tensor whose other
 * elements are guards, filled with a pattern, that nothing may touch.
 */
#ifndef TENON_TESTS_PLACED_H
#define TENON_TESTS_PLACED_H

#include "tenon/tenon.h"

typedef enum layout {
  LAYOUT_ROW_MAJOR,
  LAYOUT_OFF_BY_ONE,    /* row-major, one element after an aligned address */
  LAYOUT_REVERSED,      /* axes in opposite order in memory */
  LAYOUT_SLICED,        /* gaps around every axis, step 2 on the last */
  LAYOUT_CHANNELS_LAST, /* n, h, w, c in memory; rank 4 only, else reversed */
  LAYOUT_TRAPPED,       /* row-major, at the end or the beginning of pages between two that trap */
} layout;

typedef struct placed {
  tn_tensor *base; /* the guards and the elements, row-major */
  tn_tensor *view;
} placed;

/* Makes a tensor of row-major `values`, or poisoned where values is NULL. Axes whose
 * bit is set in `expanded` get stride 0. On failure nothing is left. */
tn_status placed_make(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape,
                      layout how, uint32_t expanded, const void *values, placed *out);
/* Reads the elements, row-major, and whether all guards are as they were. */
tn_status placed_read(const placed *p, void *values, bool *guarded);
void placed_free(placed *p);

#endif
