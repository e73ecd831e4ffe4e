/*
 * gather, index_select, take_along_axis, scatter, one_hot, nonzero: by element size. All
 * tensors are dense. An index that is outside its axis reads 0 and writes nothing.
 */
#include <string.h>

#include "along.h"

/* --- gather, index_select: x as [outer, n, block], y as [outer, count, block] --- */

typedef struct gathering {
  const char *x;
  char *y;
  along index;          /* only n and the index */
  int64_t count, block; /* block in bytes */
} gathering;

#define GATHER_LOOP(U)                                                                             \
  for (int64_t i = begin; i < end; i++) {                                                          \
    const int64_t k = along_place(&g->index, i % g->count);                                        \
    ((U *)(void *)g->y)[i] =                                                                       \
        k < 0 ? 0 : ((const U *)(const void *)g->x)[i / g->count * g->index.n + k];                \
  }                                                                                                \
  return TN_OK;

static tn_status gather_range(void *ctx, int64_t begin, int64_t end) {
  const gathering *g = ctx;
  switch (g->block) {
  case 1:
    GATHER_LOOP(uint8_t)
  case 2:
    GATHER_LOOP(uint16_t)
  case 4:
    GATHER_LOOP(uint32_t)
  case 8:
    GATHER_LOOP(uint64_t)
  default:
    break;
  }
  for (int64_t i = begin; i < end; i++) {
    const int64_t k = along_place(&g->index, i % g->count);
    char *y = g->y + i * g->block;
    if (k < 0)
      memset(y, 0, (size_t)g->block);
    else
      memcpy(y, g->x + (i / g->count * g->index.n + k) * g->block, (size_t)g->block);
  }
  return TN_OK;
}

tn_status ISA(gather_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *index = args->in[1];
  const cpu_axis_view v = cpu_view_axis(x, ((const tn_gather_attrs *)args->attrs)->axis);
  gathering g = {.x = x->data, .y = args->out[0]->data};
  g.index = (along){.index = index->data, .wide = index->dtype.bits == 64, .n = v.size};
  g.count = cpu_count(index);
  g.block = v.inner * (x->dtype.bits / 8);
  const int64_t rows = v.outer * g.count;
  if (rows * g.block == 0) return TN_OK;
  const int64_t grain = 1 + 2 * CPU_GRAIN_CHEAP / (g.block + 8);
  if (rows <= grain) return gather_range(&g, 0, rows);
  return args->host->parallel_for(args->host, rows, grain, gather_range, &g);
}

tn_status ISA(index_select_any)(const tn_kernel_args *args) { return ISA(gather_any)(args); }

/* --- take_along_axis, scatter --- */

#define ALONG_LOOPS(bits, U)                                                                       \
  static tn_status take_##bits(void *ctx, int64_t begin, int64_t end) {                            \
    const along *a = ctx;                                                                          \
    const U *x = a->from;                                                                          \
    U *y = a->to;                                                                                  \
    for (int64_t i = begin; i < end; i++) {                                                        \
      const column c = along_column(a, i);                                                         \
      for (int64_t k = c.begin; k < c.end; k++)                                                    \
        for (int64_t j = 0; j < c.width; j++) {                                                    \
          const int64_t at = c.update + k * a->part + j, from = along_place(a, at);                \
          y[at] = from < 0 ? 0 : x[c.data + from * a->step + j];                                   \
        }                                                                                          \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }                                                                                                \
  static tn_status set_##bits(void *ctx, int64_t begin, int64_t end) {                             \
    const along *a = ctx;                                                                          \
    const U *x = a->from;                                                                          \
    U *y = a->to;                                                                                  \
    for (int64_t i = begin; i < end; i++) {                                                        \
      const column c = along_column(a, i);                                                         \
      for (int64_t k = c.begin; k < c.end; k++)                                                    \
        for (int64_t j = 0; j < c.width; j++) {                                                    \
          const int64_t at = c.update + k * a->part + j, to = along_place(a, at);                  \
          if (to >= 0) y[c.data + to * a->step + j] = x[at];                                       \
        }                                                                                          \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
ALONG_LOOPS(8, uint8_t)
ALONG_LOOPS(16, uint16_t)
ALONG_LOOPS(32, uint32_t)
ALONG_LOOPS(64, uint64_t)

#define BY_SIZE(name, bits)                                                                        \
  ((bits) == 8 ? name##_8 : (bits) == 16 ? name##_16 : (bits) == 32 ? name##_32 : name##_64)

static int64_t axis_of(const tn_kernel_args *args) {
  return ((const tn_gather_attrs *)args->attrs)->axis; /* one layout for all of them */
}

tn_status ISA(take_along_axis_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *index = args->in[1];
  along a = along_of(args, index, index, x, axis_of(args));
  a.from = x->data;
  a.to = args->out[0]->data;
  a.splits = cpu_ceil_div(a.count, ALONG_SPLIT);
  return along_run(&a, BY_SIZE(take, x->dtype.bits));
}

tn_status ISA(scatter_any)(const tn_kernel_args *args) {
  const DLTensor *updates = args->in[0];
  along a = along_of(args, updates, args->in[1], args->out[0], axis_of(args));
  a.from = updates->data;
  a.to = args->out[0]->data;
  return along_run(&a, BY_SIZE(set, updates->dtype.bits));
}

/* --- one_hot: y as [outer, classes, inner], the index as [outer, inner] --- */

typedef struct marking {
  void *y;
  along index;
  int64_t inner;
  uint64_t on, off;
} marking;

#define MARK_LOOPS(bits, U)                                                                        \
  static tn_status mark_##bits(void *ctx, int64_t begin, int64_t end) {                            \
    const marking *m = ctx;                                                                        \
    const int64_t block = m->index.n * m->inner;                                                   \
    for (int64_t i = begin; i < end; i++) {                                                        \
      U *y = (U *)m->y + i * block;                                                                \
      for (int64_t j = 0; j < block; j++) y[j] = (U)m->off;                                        \
      for (int64_t j = 0; j < m->inner; j++) {                                                     \
        const int64_t k = along_place(&m->index, i * m->inner + j);                                \
        if (k >= 0) y[k * m->inner + j] = (U)m->on;                                                \
      }                                                                                            \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
MARK_LOOPS(8, uint8_t)
MARK_LOOPS(16, uint16_t)
MARK_LOOPS(32, uint32_t)
MARK_LOOPS(64, uint64_t)

tn_status ISA(one_hot_any)(const tn_kernel_args *args) {
  const tn_one_hot_attrs *attrs = args->attrs;
  const DLTensor *index = args->in[0], *y = args->out[0];
  const cpu_axis_view v = cpu_view_axis(y, attrs->axis);
  marking m = {.y = y->data, .inner = v.inner};
  m.index = (along){.index = index->data, .wide = index->dtype.bits == 64, .n = v.size};
  ISA(value_bits)(y->dtype, attrs->on, &m.on);
  ISA(value_bits)(y->dtype, attrs->off, &m.off);
  const int64_t block = v.size * v.inner, grain = 1 + CPU_GRAIN_CHEAP / (block + 1);
  if (v.outer * block == 0) return TN_OK;
  return args->host->parallel_for(args->host, v.outer, grain, BY_SIZE(mark, y->dtype.bits), &m);
}

/* --- nonzero: counts in parts, then each part writes where its predecessors end --- */

enum { PARTS = 64 };

typedef struct search {
  const void *x;
  const DLTensor *shape;
  int64_t *y;
  uint64_t mask; /* all but the sign of a float */
  int64_t n, part;
  int64_t first[PARTS + 1]; /* hits in a part, then hits before it */
} search;

static void write_index(const search *s, int64_t flat, int64_t row) {
  const int rank = s->shape->ndim;
  for (int d = rank - 1; d >= 0; d--) {
    s->y[row * rank + d] = d ? flat % s->shape->shape[d] : flat;
    flat /= s->shape->shape[d];
  }
}

#define SEARCH_LOOPS(bits, U)                                                                      \
  static tn_status count_##bits(void *ctx, int64_t begin, int64_t end) {                           \
    search *s = ctx;                                                                               \
    const U *x = s->x, mask = (U)s->mask;                                                          \
    for (int64_t p = begin; p < end; p++) {                                                        \
      const int64_t last = cpu_min((p + 1) * s->part, s->n);                                       \
      int64_t hits = 0;                                                                            \
      for (int64_t i = p * s->part; i < last; i++) hits += (x[i] & mask) != 0;                     \
      s->first[p + 1] = hits;                                                                      \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }                                                                                                \
  static tn_status write_##bits(void *ctx, int64_t begin, int64_t end) {                           \
    const search *s = ctx;                                                                         \
    const U *x = s->x, mask = (U)s->mask;                                                          \
    for (int64_t p = begin; p < end; p++) {                                                        \
      const int64_t last = cpu_min((p + 1) * s->part, s->n);                                       \
      int64_t row = s->first[p];                                                                   \
      for (int64_t i = p * s->part; i < last; i++)                                                 \
        if (x[i] & mask) write_index(s, i, row++);                                                 \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
SEARCH_LOOPS(8, uint8_t)
SEARCH_LOOPS(16, uint16_t)
SEARCH_LOOPS(32, uint32_t)
SEARCH_LOOPS(64, uint64_t)

tn_status ISA(nonzero_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  const int bits = x->dtype.bits;
  const bool real = x->dtype.code == kDLFloat || x->dtype.code == kDLBfloat;
  search s = {.x = x->data, .shape = x, .y = args->out[0]->data, .n = cpu_count(x)};
  s.mask = real ? ~(UINT64_C(1) << (bits - 1)) : ~UINT64_C(0);
  s.part = cpu_max(CPU_GRAIN_CHEAP, cpu_ceil_div(s.n, PARTS));
  const int64_t parts = cpu_ceil_div(s.n, s.part);
  tn_status status = TN_OK;
  if (parts) status = args->host->parallel_for(args->host, parts, 1, BY_SIZE(count, bits), &s);
  for (int64_t p = 0; p < parts; p++) s.first[p + 1] += s.first[p];
  if (parts && status == TN_OK)
    status = args->host->parallel_for(args->host, parts, 1, BY_SIZE(write, bits), &s);
  *(int64_t *)args->out[1]->data = s.first[parts];
  return status;
}
