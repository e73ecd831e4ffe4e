/*
 * gather, index_select, take_along_axis, scatter, one_hot: by element size. All
 * tensors are dense. An index that is outside its axis reads 0 and writes nothing.
 */
#include <string.h>

#include "kernels/cpu/base/along.h"
#include "kernels/cpu/index/scatter_deal.h"

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
  static void take_column_##suffix(const along *a, const column *c, void *data, int64_t step,      \
                                   bool spare) {                                                   \
    const int64_t n = a->n, part = a->part;                                                        \
    const U *x = data;                                                                             \
    for (int64_t k = c->begin; k < c->end; k++) {                                                  \
      const I *index = (const I *)a->index + c->update + k * part;                                 \
      U *y = (U *)a->to + c->update + k * part;                                                    \
      if (spare) {                                                                                 \
        const int64_t ahead = cpu_min(ALONG_AHEAD, c->end - 1 - k) * part;                         \
        along_fetch(index + ahead, c->width * (int64_t)sizeof(I));                                 \
        CPU_IVDEP for (int64_t j = 0; j < c->width; j++) y[j] =                                    \
            x[along_row(index[j], n) * step + j];                                                  \
        continue;                                                                                  \
      }                                                                                            \
      for (int64_t j = 0; j < c->width; j++) {                                                     \
        const int64_t from = along_place(index[j], n);                                             \
        y[j] = from < 0 ? 0 : x[from * step + j];                                                  \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static void set_column_##suffix(const along *a, const column *c, void *data, int64_t step,       \
                                  bool spare) {                                                    \
    const int64_t n = a->n, part = a->part;                                                        \
    U *y = data;                                                                                   \
    for (int64_t k = c->begin; k < c->end; k++) {                                                  \
      const I *index = (const I *)a->index + c->update + k * part;                                 \
      const U *x = (const U *)a->from + c->update + k * part;                                      \
      if (spare) {                                                                                 \
        const int64_t ahead = cpu_min(ALONG_AHEAD, c->end - 1 - k) * part;                         \
        along_fetch(index + ahead, c->width * (int64_t)sizeof(I));                                 \
        along_fetch(x + ahead, c->width * (int64_t)sizeof(U));                                     \
        for (int64_t j = 0; j < c->width; j++) y[along_row(index[j], n) * step + j] = x[j];        \
        continue;                                                                                  \
      }                                                                                            \
      for (int64_t j = 0; j < c->width; j++) {                                                     \
        const int64_t to = along_place(index[j], n);                                               \
        if (to >= 0) y[to * step + j] = x[j];                                                      \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static tn_status take_##suffix(void *ctx, int64_t begin, int64_t end) {                          \
    const along *a = ctx;                                                                          \
    return along_each(a, begin, end, a->from, sizeof(U), false, take_column_##suffix);             \
  }                                                                                                \
  static tn_status set_##suffix(void *ctx, int64_t begin, int64_t end) {                           \
    const along *a = ctx;                                                                          \
    return along_each(a, begin, end, a->to, sizeof(U), true, set_column_##suffix);                 \
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
  if (along_columns(&a) < 2 * (int64_t)a.host->num_threads) {
    a.splits = cpu_ceil_div(a.count, ALONG_SPLIT);
    a.packed = a.packed && a.splits == 1;
  }
  return along_run(&a, BY_SIZE(take, x->dtype.bits, a.wide));
}

tn_status ISA(scatter_any)(const tn_kernel_args *args) {
  const DLTensor *updates = args->in[0];
  along a = along_of(args, updates, args->in[1], args->out[0], axis_of(args));
  a.from = updates->data;
  a.to = args->out[0]->data;
  return ISA(scatter_run)(&a, BY_SIZE(set, updates->dtype.bits, a.wide), updates->dtype.bits / 8,
                          0);
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
