/*
 * gather_nd and scatter_nd. An index of several axes becomes the number of a row,
 * and a row is a block of bytes; scatter.c sums them and finds extremes. All tensors are dense.
 */
#include <string.h>

#include "kernels/cpu/base/along.h"
#include "kernels/cpu/index/slices.h"

/* --- indexes of several axes --- */

typedef struct numbering {
  const void *index;
  bool wide;
  int axes;
  int64_t size[TN_MAX_RANK], step[TN_MAX_RANK]; /* of the axes that the index names, in rows */
  int64_t per_batch, batch_step;                /* rows of the index and of the data */
  int64_t *rows;
} numbering;

static tn_status number_range(void *ctx, int64_t begin, int64_t end) {
  const numbering *u = ctx;
  for (int64_t i = begin; i < end; i++) {
    int64_t row = i / u->per_batch * u->batch_step;
    bool inside = true;
    for (int a = 0; a < u->axes; a++) {
      const int64_t at = i * u->axes + a;
      const int64_t k = along_place(
          u->wide ? ((const int64_t *)u->index)[at] : ((const int32_t *)u->index)[at], u->size[a]);
      inside &= k >= 0;
      row += k * u->step[a];
    }
    u->rows[i] = inside ? row : INT64_MIN;
  }
  return TN_OK;
}

tn_status ISA(slices_begin)(const tn_kernel_args *args, const DLTensor *part, const DLTensor *data,
                            slices *s) {
  const int batch = (int)((const tn_gather_nd_attrs *)args->attrs)->batch_dims; /* one layout */
  const DLTensor *index = args->in[1];
  numbering u = {.index = index->data, .wide = index->dtype.bits == 64, .batch_step = 1};
  u.axes = (int)index->shape[index->ndim - 1];
  *s = (slices){.n = 1, .count = 1, .block = 1};
  for (int d = 0; d < index->ndim - 1; d++) s->count *= index->shape[d];
  for (int d = batch + u.axes; d < data->ndim; d++) s->block *= data->shape[d];
  for (int a = u.axes - 1; a >= 0; a--) {
    u.size[a] = data->shape[batch + a];
    u.step[a] = u.batch_step;
    u.batch_step *= u.size[a];
  }
  s->n = u.batch_step;
  u.per_batch = s->count;
  for (int d = 0; d < batch; d++) {
    s->n *= data->shape[d];
    if (data->shape[d]) u.per_batch /= data->shape[d];
  }
  if (cpu_count(part) == 0) s->count = 0;
  s->rows = u.rows = args->host->alloc(args->host, (size_t)s->count * sizeof *s->rows, 64);
  if (!s->rows)
    return args->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for the places of %lld indexes",
                            (long long)s->count);
  if (!s->count) return TN_OK;
  return args->host->parallel_for(args->host, s->count, CPU_GRAIN_MATHS, number_range, &u);
}

/* --- gather_nd, scatter_nd --- */

typedef struct moving {
  const slices *s;
  char *to;
  const char *from;
  int64_t size; /* bytes of a row */
  int64_t pieces, piece;
} moving;

/* Rows that are one element. */
#define MOVE_LOOPS(bits, U)                                                                        \
  static tn_status read_##bits(void *ctx, int64_t begin, int64_t end) {                            \
    const moving *m = ctx;                                                                         \
    const int64_t *rows = m->s->rows;                                                              \
    const U *x = (const U *)(const void *)m->from;                                                 \
    U *y = (U *)(void *)m->to;                                                                     \
    for (int64_t i = begin; i < end; i++) y[i] = rows[i] < 0 ? 0 : x[rows[i]];                     \
    return TN_OK;                                                                                  \
  }
MOVE_LOOPS(8, uint8_t)
MOVE_LOOPS(16, uint16_t)
MOVE_LOOPS(32, uint32_t)
MOVE_LOOPS(64, uint64_t)

static tn_status read_blocks(void *ctx, int64_t begin, int64_t end) {
  const moving *m = ctx;
  const size_t size = (size_t)m->size;
  for (int64_t i = begin; i < end; i++)
    if (m->s->rows[i] < 0)
      memset(m->to + i * m->size, 0, size);
    else
      memcpy(m->to + i * m->size, m->from + m->s->rows[i] * m->size, size);
  return TN_OK;
}

static tn_range_fn read_fn(const moving *m) {
  if (!cpu_is_word(m->size, m->from, m->to)) return read_blocks;
  return m->size == 1 ? read_8 : m->size == 2 ? read_16 : m->size == 4 ? read_32 : read_64;
}

tn_status ISA(gather_nd_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  slices s;
  tn_status status = ISA(slices_begin)(args, y, x, &s);
  if (status == TN_OK && s.count) {
    moving m = {.s = &s, .to = y->data, .from = x->data, .size = s.block * (x->dtype.bits / 8)};
    status = args->host->parallel_for(args->host, s.count, 1 + 2 * CPU_GRAIN_CHEAP / (m.size + 8),
                                      read_fn(&m), &m);
  }
  args->host->free(args->host, s.rows);
  return status;
}

/* Pieces of all rows: the updates of one place go one after the other, so that the last stays. */
static tn_status write_range(void *ctx, int64_t begin, int64_t end) {
  const moving *m = ctx;
  const int64_t first = begin * m->piece, last = cpu_min(end * m->piece, m->size);
  const size_t size = (size_t)(last - first);
  for (int64_t i = 0; i < m->s->count; i++)
    if (m->s->rows[i] >= 0)
      memcpy(m->to + m->s->rows[i] * m->size + first, m->from + i * m->size + first, size);
  return TN_OK;
}

tn_status ISA(scatter_nd_any)(const tn_kernel_args *args) {
  const DLTensor *updates = args->in[0], *y = args->out[0];
  slices s;
  tn_status status = ISA(slices_begin)(args, updates, y, &s);
  if (status == TN_OK && s.count) {
    moving m = {.s = &s,
                .to = y->data,
                .from = updates->data,
                .size = s.block * (y->dtype.bits / 8),
                .piece = 1024};
    m.pieces = cpu_ceil_div(m.size, m.piece);
    status = args->host->parallel_for(args->host, m.pieces, 1 + CPU_GRAIN_CHEAP / (64 * s.count),
                                      write_range, &m);
  }
  args->host->free(args->host, s.rows);
  return status;
}
