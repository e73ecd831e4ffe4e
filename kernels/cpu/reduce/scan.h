/* The frame of scans along one axis of dense tensors, seen as [outer, size, inner]. */
#ifndef TENON_KERNELS_CPU_SCAN_H
#define TENON_KERNELS_CPU_SCAN_H

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

/* Lines that are worked on side by side. */
#define SCAN_TILE 128

typedef struct scan_call {
  const void *x;
  void *y;
  int64_t *index; /* of cummax, or NULL */
  cpu_axis_view view;
  bool reverse, exclusive;
} scan_call;

/* The lines of one tile: the first element in the order of the scan, from there `step`
 * elements to the next. */
typedef struct scan_tile {
  int64_t at, step, lines;
} scan_tile;

static inline scan_tile scan_tile_of(const scan_call *call, int64_t t) {
  const cpu_axis_view v = call->view;
  const int64_t per = cpu_ceil_div(v.inner, SCAN_TILE), first = t % per * SCAN_TILE;
  scan_tile tile = {t / per * v.size * v.inner + first, v.inner,
                    cpu_min(SCAN_TILE, v.inner - first)};
  if (call->reverse) {
    tile.at += (v.size - 1) * v.inner;
    tile.step = -v.inner;
  }
  return tile;
}

#endif
