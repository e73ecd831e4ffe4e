/*
 * The frame of scans along one axis of dense tensors, seen as [outer, size, inner]. Lines that
 * lie side by side are worked on together, as a tile. Where there are too few tiles for the
 * threads, lines fall into parts: what the parts come to is found first, side by side, and
 * then each is scanned from what those before it come to. The parts follow from the shape,
 * so that results are the same for any number of threads.
 */
#ifndef TENON_KERNELS_CPU_SCAN_H
#define TENON_KERNELS_CPU_SCAN_H

#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/cpu.h"

#define SCAN_TILE 512 /* lines of a tile at the most */
#define SCAN_BLOCK 32 /* elements of a line that are looked at together */
#define SCAN_LANES 16 /* sums of a line that are made side by side */

typedef struct scan_call scan_call;

/* Steps first <= i < first + n of the lines of one tile: the first element in the order of the
 * scan, from there `step` elements to the next. */
typedef struct scan_stretch {
  int64_t at, step, lines, first, n;
} scan_stretch;

/* What stretches of a scan come to, an item of `item` bytes for each line. */
typedef struct scan_fns {
  size_t item;
  /* False where the items may not be joined to others: too small or too large. */
  bool (*fold)(const scan_call *call, const scan_stretch *s, void *items);
  /* items = before joined with items. */
  void (*join)(const void *before, void *items, int64_t lines);
  /* Writes the results of a stretch behind `before`, NULL at the start, and in `after`, which may
   * be NULL, what the line comes to then; where `agree` is NULL nothing. */
  void (*scan)(const scan_call *call, const scan_stretch *s, const void *before, void *after);
  /* Whether what was found one by one is what was joined: fold does not meet its elements in their
   * order, and may pass a place at which the scan left what its type holds. NULL: always. */
  bool (*agree)(const void *one_by_one, const void *joined, int64_t lines);
  bool exact; /* results are the same whatever the parts, which one thread then does without */
} scan_fns;

struct scan_call {
  const void *x;
  void *y;
  int64_t *index; /* of cummax, or NULL */
  cpu_axis_view view;
  bool reverse, exclusive;
  scan_fns fns;
  int64_t width, tiles; /* lines of a tile; tiles of all lines */
  int64_t part, parts;  /* steps of a part, parts of a line */
  int64_t round;        /* parts of a line that are at work together */
  int64_t begin, count; /* the first of them, and how many */
  char *items;          /* [tiles, round + 1, width]: before a part, behind it its own */
  char *after;          /* [tiles, round, width]: behind a part as its scan found it */
  bool *unsafe;         /* [tiles, round]: what fold said */
};

static inline scan_stretch scan_stretch_of(const scan_call *call, int64_t tile, int64_t first,
                                           int64_t n) {
  const cpu_axis_view v = call->view;
  const int64_t per = cpu_ceil_div(v.inner, call->width), line = tile % per * call->width;
  const int64_t step = call->reverse ? -v.inner : v.inner;
  const int64_t start = call->reverse ? (v.size - 1) * v.inner : 0;
  return (scan_stretch){.at = tile / per * v.size * v.inner + line + start + first * step,
                        .step = step,
                        .lines = cpu_min(call->width, v.inner - line),
                        .first = first,
                        .n = n};
}

#endif
