/*
 * One element along an axis for each index: how take_along_axis and the scatter family
 * walk. The index is dense; the data has its rank and is no smaller except along the axis.
 * Work falls into columns, which share no element of the data, so that each can go through
 * its indexes in order whatever the others do.
 */
#ifndef TENON_KERNELS_CPU_ALONG_H
#define TENON_KERNELS_CPU_ALONG_H

#include "kernels/cpu/cpu.h"

enum { ALONG_WIDTH = 256, ALONG_SPLIT = 4096 };

typedef struct along {
  const tn_host *host;
  const void *index;
  bool wide;       /* the index is i64, not i32 */
  bool shared;     /* the index has the axis alone */
  int64_t n, step; /* the data's size and stride along the axis */
  int64_t count;   /* indexes along the axis */
  int64_t part;    /* elements of the update from one index to the next */
  int64_t last;    /* size of the innermost axis inside the axis, 1 without */
  int64_t chunks;  /* columns that a row of `last` elements falls into */
  int64_t splits;  /* parts of `count` that go on their own: 1 where order matters */
  int64_t inner;   /* rows of `last` elements inside the axis */
  int rank, axis;
  int64_t size[TN_MAX_RANK], stride[TN_MAX_RANK]; /* of the update, of the data */
  const void *from;
  void *to;
} along;

/* One column: the update's element (k, j) is at update + k part + j, the data's at
 * data + place step + j. */
typedef struct column {
  int64_t update, data, width, begin, end; /* begin <= k < end */
} column;

static inline along along_of(const tn_kernel_args *args, const DLTensor *update,
                             const DLTensor *index, const DLTensor *data, int64_t axis) {
  along a = {.host = args->host, .index = index->data, .wide = index->dtype.bits == 64};
  a.rank = data->ndim;
  a.axis = (int)(axis < 0 ? axis + data->ndim : axis);
  a.n = data->shape[a.axis];
  a.step = data->strides[a.axis];
  a.count = update->shape[a.axis];
  a.last = a.axis == a.rank - 1 ? 1 : update->shape[a.rank - 1];
  a.part = a.inner = a.splits = 1;
  for (int d = 0; d < a.rank; d++) {
    a.size[d] = update->shape[d];
    a.stride[d] = data->strides[d];
    if (d > a.axis) a.part *= update->shape[d];
  }
  if (a.last) a.inner = a.part / a.last;
  a.chunks = cpu_ceil_div(a.last, ALONG_WIDTH);
  return a;
}

/* Number of columns; 0 where there is nothing to do. */
static inline int64_t along_columns(const along *a) {
  int64_t outer = 1;
  for (int d = 0; d < a->axis; d++) outer *= a->size[d];
  return a->part && a->count ? outer * a->inner * a->chunks * a->splits : 0;
}

static inline column along_column(const along *a, int64_t i) {
  column c = {.end = a->count};
  if (a->splits > 1) {
    c.begin = i % a->splits * ALONG_SPLIT;
    c.end = cpu_min(c.begin + ALONG_SPLIT, a->count);
    i /= a->splits;
  }
  const int64_t first = i % a->chunks * ALONG_WIDTH;
  int64_t row = i / a->chunks % a->inner, outer = i / a->chunks / a->inner;
  c.width = cpu_min(ALONG_WIDTH, a->last - first);
  c.update = (outer * a->count * a->inner + row) * a->last + first;
  c.data = first;
  for (int d = a->rank - 2; d > a->axis; d--) {
    c.data += row % a->size[d] * a->stride[d];
    row /= a->size[d];
  }
  for (int d = a->axis - 1; d >= 0; d--) {
    c.data += outer % a->size[d] * a->stride[d];
    outer /= a->size[d];
  }
  return c;
}

/* An index as a place on an axis of n; -1 outside it. */
static inline int64_t along_place(int64_t index, int64_t n) {
  const int64_t at = index < 0 ? index + n : index; /* does not overflow */
  return (uint64_t)at < (uint64_t)n ? at : -1;
}

static inline tn_status along_run(along *a, tn_range_fn fn) {
  const int64_t columns = along_columns(a);
  const int64_t work =
      cpu_min(a->last, ALONG_WIDTH) * (a->splits > 1 ? (int64_t)ALONG_SPLIT : a->count);
  if (columns == 0) return TN_OK;
  return a->host->parallel_for(a->host, columns, 1 + CPU_GRAIN_MATHS / (work + 1), fn, a);
}

#endif
