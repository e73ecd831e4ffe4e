/*
 * gather, index_select, take_along_axis, scatter, one_hot, nonzero: by element size. All
 * tensors are dense. An index that is outside its axis reads 0 and writes nothing.
 */
#include <string.h>

#include "kernels/cpu/base/along.h"

/* --- gather, index_select: x as [outer, n, block], y as [outer, count, block] --- */

typedef struct gathering {
  const char *x;
  char *y;
  const void *index;
  int64_t n, count, block; /* block in bytes */
} gathering;

/* Blocks that are one element. The share's entries first <= k < last of row `outer` and
 * so on: no division for each. */
#define GATHER_LOOPS(name, U, I)                                                                   \
  static tn_status name(void *ctx, int64_t begin, int64_t end) {                                   \
    const gathering *g = ctx;                                                                      \
    const I *index = g->index;                                                                     \
    const int64_t n = g->n, count = g->count;                                                      \
    while (begin < end) {                                                                          \
      const int64_t outer = begin / count, first = begin - outer * count;                          \
      const int64_t m = cpu_min(count - first, end - begin);                                       \
      const U *x = (const U *)(const void *)g->x + outer * n;                                      \
      U *y = (U *)(void *)g->y + begin;                                                            \
      for (int64_t i = 0; i < m; i++) {                                                            \
        const int64_t k = along_place(index[first + i], n);                                        \
        y[i] = k < 0 ? 0 : x[k];                                                                   \
      }                                                                                            \
      begin += m;                                                                                  \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }

#define GATHER_BLOCKS(name, I)                                                                     \
  static tn_status name(void *ctx, int64_t begin, int64_t end) {                                   \
    const gathering *g = ctx;                                                                      \
    for (int64_t i = begin; i < end; i++) {                                                        \
      const int64_t outer = i / g->count;                                                          \
      const int64_t k = along_place(((const I *)g->index)[i - outer * g->count], g->n);            \
      char *y = g->y + i * g->block;                                                               \
      if (k < 0)                                                                                   \
        memset(y, 0, (size_t)g->block);                                                            \
      else                                                                                         \
        memcpy(y, g->x + (outer * g->n + k) * g->block, (size_t)g->block);                         \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
GATHER_LOOPS(gather_8_narrow, uint8_t, int32_t)
GATHER_LOOPS(gather_8_wide, uint8_t, int64_t)
GATHER_LOOPS(gather_16_narrow, uint16_t, int32_t)
GATHER_LOOPS(gather_16_wide, uint16_t, int64_t)
GATHER_LOOPS(gather_32_narrow, uint32_t, int32_t)
GATHER_LOOPS(gather_32_wide, uint32_t, int64_t)
GATHER_LOOPS(gather_64_narrow, uint64_t, int32_t)
GATHER_LOOPS(gather_64_wide, uint64_t, int64_t)
GATHER_BLOCKS(gather_blocks_narrow, int32_t)
GATHER_BLOCKS(gather_blocks_wide, int64_t)

/* The function for elements of `bits` and an index of i32 or i64. */
#define BY_SIZE(name, bits, wide)                                                                  \
  ((bits) == 8    ? (wide) ? name##_8_wide : name##_8_narrow                                       \
   : (bits) == 16 ? (wide) ? name##_16_wide : name##_16_narrow                                     \
   : (bits) == 32 ? (wide) ? name##_32_wide : name##_32_narrow                                     \
   : (wide)       ? name##_64_wide                                                                 \
                  : name##_64_narrow)

static tn_range_fn gather_fn(const gathering *g, bool wide) {
  if (cpu_is_word(g->block, g->x, g->y)) return BY_SIZE(gather, 8 * g->block, wide);
  return wide ? gather_blocks_wide : gather_blocks_narrow;
}

tn_status ISA(gather_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *index = args->in[1];
  const cpu_axis_view v = cpu_view_axis(x, ((const tn_gather_attrs *)args->attrs)->axis);
  gathering g = {.x = x->data, .y = args->out[0]->data, .index = index->data, .n = v.size};
  g.count = cpu_count(index);
  g.block = v.inner * (x->dtype.bits / 8);
  const int64_t rows = v.outer * g.count;
  if (rows * g.block == 0) return TN_OK;
  const int64_t grain = 1 + 2 * CPU_GRAIN_CHEAP / (g.block + 8);
  const tn_range_fn fn = gather_fn(&g, index->dtype.bits == 64);
  if (rows <= grain) return fn(&g, 0, rows);
  return args->host->parallel_for(args->host, rows, grain, fn, &g);
}

tn_status ISA(index_select_any)(const tn_kernel_args *args) { return ISA(gather_any)(args); }

/* --- take_along_axis, scatter --- */

#define ALONG_LOOPS(suffix, U, I)                                                                  \
  static tn_status take_##suffix(void *ctx, int64_t begin, int64_t end) {                          \
    const along *a = ctx;                                                                          \
    const int64_t n = a->n, step = a->step, part = a->part;                                        \
    for (int64_t i = begin; i < end; i++) {                                                        \
      const column c = along_column(a, i);                                                         \
      const U *x = (const U *)a->from + c.data;                                                    \
      const I *index = (const I *)a->index + c.update;                                             \
      U *y = (U *)a->to + c.update;                                                                \
      for (int64_t k = c.begin; k < c.end; k++)                                                    \
        for (int64_t j = 0; j < c.width; j++) {                                                    \
          const int64_t from = along_place(index[k * part + j], n);                                \
          y[k * part + j] = from < 0 ? 0 : x[from * step + j];                                     \
        }                                                                                          \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }                                                                                                \
  static tn_status set_##suffix(void *ctx, int64_t begin, int64_t end) {                           \
    const along *a = ctx;                                                                          \
    const int64_t n = a->n, step = a->step, part = a->part;                                        \
    for (int64_t i = begin; i < end; i++) {                                                        \
      const column c = along_column(a, i);                                                         \
      const U *x = (const U *)a->from + c.update;                                                  \
      const I *index = (const I *)a->index + c.update;                                             \
      U *y = (U *)a->to + c.data;                                                                  \
      for (int64_t k = c.begin; k < c.end; k++)                                                    \
        for (int64_t j = 0; j < c.width; j++) {                                                    \
          const int64_t to = along_place(index[k * part + j], n);                                  \
          if (to >= 0) y[to * step + j] = x[k * part + j];                                         \
        }                                                                                          \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
ALONG_LOOPS(8_narrow, uint8_t, int32_t)
ALONG_LOOPS(8_wide, uint8_t, int64_t)
ALONG_LOOPS(16_narrow, uint16_t, int32_t)
ALONG_LOOPS(16_wide, uint16_t, int64_t)
ALONG_LOOPS(32_narrow, uint32_t, int32_t)
ALONG_LOOPS(32_wide, uint32_t, int64_t)
ALONG_LOOPS(64_narrow, uint64_t, int32_t)
ALONG_LOOPS(64_wide, uint64_t, int64_t)

static int64_t axis_of(const tn_kernel_args *args) {
  return ((const tn_gather_attrs *)args->attrs)->axis; /* one layout for all of them */
}

tn_status ISA(take_along_axis_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *index = args->in[1];
  along a = along_of(args, index, index, x, axis_of(args));
  a.from = x->data;
  a.to = args->out[0]->data;
  a.splits = cpu_ceil_div(a.count, ALONG_SPLIT);
  return along_run(&a, BY_SIZE(take, x->dtype.bits, a.wide));
}

tn_status ISA(scatter_any)(const tn_kernel_args *args) {
  const DLTensor *updates = args->in[0];
  along a = along_of(args, updates, args->in[1], args->out[0], axis_of(args));
  a.from = updates->data;
  a.to = args->out[0]->data;
  return along_run(&a, BY_SIZE(set, updates->dtype.bits, a.wide));
}

/* --- one_hot: y as [outer, classes, inner], the index as [outer, inner] --- */

typedef struct marking {
  void *y;
  const void *index;
  int64_t classes, inner;
  uint64_t on, off;
} marking;

#define MARK_LOOPS(suffix, U, I)                                                                   \
  static tn_status mark_##suffix(void *ctx, int64_t begin, int64_t end) {                          \
    const marking *m = ctx;                                                                        \
    const int64_t inner = m->inner, block = m->classes * inner;                                    \
    const U on = (U)m->on, off = (U)m->off;                                                        \
    for (int64_t i = begin; i < end; i++) {                                                        \
      U *y = (U *)m->y + i * block;                                                                \
      for (int64_t j = 0; j < block; j++) y[j] = off;                                              \
      for (int64_t j = 0; j < inner; j++) {                                                        \
        const int64_t k = along_place(((const I *)m->index)[i * inner + j], m->classes);           \
        if (k >= 0) y[k * inner + j] = on;                                                         \
      }                                                                                            \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
MARK_LOOPS(8_narrow, uint8_t, int32_t)
MARK_LOOPS(8_wide, uint8_t, int64_t)
MARK_LOOPS(16_narrow, uint16_t, int32_t)
MARK_LOOPS(16_wide, uint16_t, int64_t)
MARK_LOOPS(32_narrow, uint32_t, int32_t)
MARK_LOOPS(32_wide, uint32_t, int64_t)
MARK_LOOPS(64_narrow, uint64_t, int32_t)
MARK_LOOPS(64_wide, uint64_t, int64_t)

tn_status ISA(one_hot_any)(const tn_kernel_args *args) {
  const tn_one_hot_attrs *attrs = args->attrs;
  const DLTensor *index = args->in[0], *y = args->out[0];
  const cpu_axis_view v = cpu_view_axis(y, attrs->axis);
  marking m = {.y = y->data, .index = index->data, .classes = v.size, .inner = v.inner};
  ISA(value_bits)(y->dtype, attrs->on, &m.on);
  ISA(value_bits)(y->dtype, attrs->off, &m.off);
  const int64_t block = v.size * v.inner, grain = 1 + CPU_GRAIN_CHEAP / (block + 1);
  if (v.outer * block == 0) return TN_OK;
  return args->host->parallel_for(args->host, v.outer, grain,
                                  BY_SIZE(mark, y->dtype.bits, index->dtype.bits == 64), &m);
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

/* The coordinates of one row of x, from one hit in it to the next. */
typedef struct row {
  int64_t first, last; /* flat indexes of the row */
  int64_t at[TN_MAX_RANK];
} row;

/* Goes to the row that holds flat index i. */
static void find_row(const DLTensor *x, int64_t i, row *r) {
  const int inner = x->ndim - 1;
  const int64_t width = inner < 0 ? 1 : x->shape[inner];
  int64_t rest = i / width;
  r->first = rest * width;
  r->last = r->first + width;
  for (int d = inner - 1; d >= 0; d--) {
    r->at[d] = rest % x->shape[d];
    rest /= x->shape[d];
  }
}

static void write_index(const DLTensor *x, row *r, int64_t i, int64_t *y) {
  const int inner = x->ndim - 1;
  if (i >= r->last) find_row(x, i, r);
  for (int d = 0; d < inner; d++) y[d] = r->at[d];
  if (inner >= 0) y[inner] = i - r->first;
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
    const int rank = s->shape->ndim;                                                               \
    for (int64_t p = begin; p < end; p++) {                                                        \
      const int64_t last = cpu_min((p + 1) * s->part, s->n);                                       \
      int64_t *y = s->y + s->first[p] * rank;                                                      \
      row r = {0};                                                                                 \
      for (int64_t i = p * s->part; i < last; i++)                                                 \
        if (x[i] & mask) {                                                                         \
          write_index(s->shape, &r, i, y);                                                         \
          y += rank;                                                                               \
        }                                                                                          \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
SEARCH_LOOPS(8, uint8_t)
SEARCH_LOOPS(16, uint16_t)
SEARCH_LOOPS(32, uint32_t)
SEARCH_LOOPS(64, uint64_t)

#define SEARCH(name, bits)                                                                         \
  ((bits) == 8 ? name##_8 : (bits) == 16 ? name##_16 : (bits) == 32 ? name##_32 : name##_64)

tn_status ISA(nonzero_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  const int bits = x->dtype.bits;
  const bool real = x->dtype.code == kDLFloat || x->dtype.code == kDLBfloat;
  search s = {.x = x->data, .shape = x, .y = args->out[0]->data, .n = cpu_count(x)};
  s.mask = real ? ~(UINT64_C(1) << (bits - 1)) : ~UINT64_C(0);
  s.part = cpu_max(CPU_GRAIN_CHEAP, cpu_ceil_div(s.n, PARTS));
  const int64_t parts = cpu_ceil_div(s.n, s.part);
  tn_status status = TN_OK;
  if (parts) status = args->host->parallel_for(args->host, parts, 1, SEARCH(count, bits), &s);
  for (int64_t p = 0; p < parts; p++) s.first[p + 1] += s.first[p];
  if (parts && status == TN_OK)
    status = args->host->parallel_for(args->host, parts, 1, SEARCH(write, bits), &s);
  *(int64_t *)args->out[1]->data = s.first[parts];
  return status;
}
