/*
 * One element along an axis for each index: how take_along_axis and the scatter family
 * walk. The index is dense; the data has its rank and is no smaller except along the axis.
 * Work falls into columns, which share no element of the data, so that each can go through
 * its indexes in order whatever the others do. A column is narrow enough for what it picks from
 * or writes to to stay in a cache, and is copied side by side where its rows are far apart.
 */
#ifndef TENON_KERNELS_CPU_ALONG_H
#define TENON_KERNELS_CPU_ALONG_H

#include <string.h>

#include "kernels/cpu/cpu.h"

enum {
  ALONG_WIDTH = 256,
  ALONG_SPLIT = 4096,
  ALONG_LINE = 64,         /* bytes of a row that a column has at the least, if there are so many */
  ALONG_CACHE = 512 << 10, /* bytes of a column */
  ALONG_AHEAD = 8,         /* rows of the index that are fetched before they are read */
};

typedef struct along {
  const tn_host *host;
  const void *index;
  bool wide;           /* the index is i64, not i32 */
  bool shared;         /* the index has the axis alone */
  bool packed;         /* columns are copied to work on them, with a row to spare */
  int64_t n, step;     /* the data's size and stride along the axis */
  int64_t count;       /* indexes along the axis */
  int64_t all, places; /* count and n of the call, of which this may be a part */
  int64_t part;        /* elements of the update from one index to the next */
  int64_t last;        /* elements inside the axis that lie side by side in both, 1 without */
  int64_t width;       /* of a column */
  int64_t chunks;      /* columns that a row of `last` elements falls into */
  int64_t splits;      /* parts of `count` that go on their own: 1 where order matters */
  int64_t inner;       /* rows of `last` elements inside the axis */
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

/* Chooses columns of at most ALONG_CACHE bytes, of what takes `bytes` for each element of `size`.
 * Rows that are picked or written to as a whole need no narrow ones. */
static inline void along_fit(along *a, int64_t size, int64_t bytes) {
  const int64_t line = ALONG_LINE / size, fits = ALONG_CACHE / bytes / cpu_max(1, a->n);
  a->width = a->shared ? ALONG_WIDTH : cpu_min(ALONG_WIDTH, cpu_max(line, fits / line * line));
  a->chunks = cpu_ceil_div(a->last, a->width);
  a->packed = !a->shared && a->step > a->width && a->count >= a->n / 2;
}

static inline along along_of(const tn_kernel_args *args, const DLTensor *update,
                             const DLTensor *index, const DLTensor *data, int64_t axis) {
  along a = {.host = args->host, .index = index->data, .wide = index->dtype.bits == 64};
  a.rank = data->ndim;
  a.axis = (int)(axis < 0 ? axis + data->ndim : axis);
  a.n = data->shape[a.axis];
  a.step = data->strides[a.axis];
  a.count = update->shape[a.axis];
  a.all = a.count, a.places = a.n;
  a.last = a.part = a.inner = a.splits = 1;
  for (int d = 0; d < a.rank; d++) {
    a.size[d] = update->shape[d];
    a.stride[d] = data->strides[d];
    if (d > a.axis) a.part *= update->shape[d];
  }
  if (a.axis < a.rank - 1) a.last = a.size[a.rank - 1];
  /* Axes that have the same size in both lie side by side with the one before them. */
  for (; a.rank - 2 > a.axis && a.size[a.rank - 1] == a.stride[a.rank - 2]; a.rank--) {
    a.last *= a.size[a.rank - 2];
    a.size[a.rank - 2] = a.last;
  }
  if (a.last) a.inner = a.part / a.last;
  along_fit(&a, data->dtype.bits / 8, data->dtype.bits / 8);
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
  const int64_t first = i % a->chunks * a->width;
  int64_t row = i / a->chunks % a->inner, outer = i / a->chunks / a->inner;
  c.width = cpu_min(a->width, a->last - first);
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

/* An index as a place on an axis of n, some number from n on outside it. */
static inline uint64_t along_from_end(int64_t index, int64_t n) {
  return (uint64_t)index + (uint64_t)(n & -(int64_t)(index < 0));
}

/* An index as a place on an axis of n; -1 outside it. */
static inline int64_t along_place(int64_t index, int64_t n) {
  const uint64_t at = along_from_end(index, n);
  return at < (uint64_t)n ? (int64_t)at : -1;
}

/* The same where there is a row n to spare, which stands for all places outside: no branch asks
 * where they are, for a wrong guess costs more than all else. */
static inline int64_t along_row(int64_t index, int64_t n) {
  const uint64_t at = along_from_end(index, n);
  return (int64_t)(at < (uint64_t)n ? at : (uint64_t)n);
}

/* Fetches a row of a column early, `bytes` of it. */
static inline void along_fetch(const void *row, int64_t bytes) {
  for (int64_t b = 0; b < bytes; b += ALONG_LINE) __builtin_prefetch((const char *)row + b);
}

/* Goes through a column's indexes, its data being at `data`, rows `step` elements apart, and one
 * to spare behind them. */
typedef void (*column_fn)(const along *a, const column *c, void *data, int64_t step, bool spare);

/* n rows of `bytes` bytes from one stride to another. */
static inline void along_copy(char *to, int64_t to_step, const char *from, int64_t from_step,
                              int64_t n, int64_t bytes) {
  for (int64_t k = 0; k < n; k++) {
    along_fetch(from + cpu_min(k + ALONG_AHEAD, n - 1) * from_step, bytes);
    if (bytes == ALONG_LINE)
      memcpy(to + k * to_step, from + k * from_step, ALONG_LINE);
    else
      memcpy(to + k * to_step, from + k * from_step, (size_t)bytes);
  }
}

/* Runs fn over columns of elements of `size` bytes at data; writes: fn writes to them. Without
 * memory for copies they are worked on where they are. */
static inline tn_status along_each(const along *a, int64_t begin, int64_t end, const void *data,
                                   int64_t size, bool writes, column_fn fn) {
  const size_t bytes = (size_t)((a->n + 1) * cpu_min(a->width, a->last) * size);
  char *room = a->packed ? a->host->alloc(a->host, bytes, ALONG_LINE) : NULL;
  for (int64_t i = begin; i < end; i++) {
    const column c = along_column(a, i);
    char *own = (char *)(uintptr_t)data + c.data * size;
    const int64_t row = c.width * size, step = a->step * size;
    if (!room) {
      fn(a, &c, own, a->step, false);
      continue;
    }
    along_copy(room, row, own, step, a->n, row);
    memset(room + a->n * row, 0, (size_t)row);
    fn(a, &c, room, c.width, true);
    if (writes) along_copy(own, step, room, row, a->n, row);
  }
  if (room) a->host->free(a->host, room);
  return TN_OK;
}

static inline tn_status along_run(along *a, tn_range_fn fn) {
  const int64_t columns = along_columns(a);
  const int64_t work =
      cpu_min(a->last, a->width) * (a->splits > 1 ? (int64_t)ALONG_SPLIT : a->count);
  if (columns == 0) return TN_OK;
  return a->host->parallel_for(a->host, columns, 1 + CPU_GRAIN_MATHS / (work + 1), fn, a);
}

#endif
