/*
 * Sorting, by merging: stable, with NaN above every number. Elements are compared as
 * doubles or as int64 and carry the place they came from; values are stored as loaded.
 */
#include <string.h>

#include "iterate.h"
#include "kernels.h"

typedef struct item {
  double f64;
  int64_t i64, index;
} item;

/* Whether b must stand before a. */
typedef bool (*before_fn)(const item *b, const item *a);

static bool less_f64(const item *b, const item *a) {
  if (a->f64 != a->f64) return b->f64 == b->f64;
  return b->f64 < a->f64;
}
static bool more_f64(const item *b, const item *a) { return less_f64(a, b); }
static bool less_i64(const item *b, const item *a) { return b->i64 < a->i64; }
static bool more_i64(const item *b, const item *a) { return b->i64 > a->i64; }

static before_fn order_of(tn_dtype dtype, bool descending) {
  if (dtype_is_float(dtype)) return descending ? more_f64 : less_f64;
  return descending ? more_i64 : less_i64;
}

/* Merges the runs [0, half) and [half, n) of `from` into `to`. */
static void merge(const item *from, int64_t half, int64_t n, item *to, before_fn before) {
  int64_t a = 0, b = half;
  for (int64_t i = 0; i < n; ++i) {
    bool second = a == half || (b < n && before(&from[b], &from[a]));
    to[i] = from[second ? b++ : a++];
  }
}

/* Sorts items[0..n-1] by way of room[0..n-1]. */
static void merge_sort(item *items, item *room, int64_t n, before_fn before) {
  if (n < 2) return;
  int64_t half = n / 2;
  merge_sort(items, room, half, before);
  merge_sort(items + half, room + half, n - half, before);
  merge(items, half, n, room, before);
  memcpy(items, room, (size_t)n * sizeof *items);
}

static void load_item(tn_dtype dtype, const void *from, item *to) {
  if (dtype_is_float(dtype))
    load_f64(dtype, from, 1, 1, &to->f64);
  else
    load_i64(dtype, from, 1, 1, &to->i64);
}

static void store_item(tn_dtype dtype, void *to, const item *from) {
  if (dtype_is_float(dtype))
    store_f64(dtype, to, 1, 1, &from->f64);
  else
    store_i64(dtype, to, 1, 1, &from->i64);
}

/* Slices along one axis; y or index may be missing. */
typedef struct sorting {
  const tn_host *host;
  view kept[3]; /* x, y, index without the axis */
  bool has[3];
  int64_t step[3], n, k; /* along the axis: n elements of x, k of y and index */
  before_fn before;
} sorting;

static item *items_alloc(const tn_host *host, int64_t n) {
  item *items = NULL;
  if (n < INT64_MAX / 2 / (int64_t)sizeof *items)
    items = host->alloc(host, (size_t)(2 * n) * sizeof *items, _Alignof(item));
  if (!items) host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to sort %lld elements", (long long)n);
  return items;
}

static void sort_slice(const sorting *s, char *const *at, item *items) {
  tn_dtype dtype = s->kept[0].dtype;
  size_t size = tn_dtype_size(dtype);
  for (int64_t i = 0; i < s->n; ++i) {
    load_item(dtype, at[0] + i * s->step[0] * (int64_t)size, &items[i]);
    items[i].index = i;
  }
  merge_sort(items, items + s->n, s->n, s->before);
  for (int64_t i = 0; i < s->k; ++i) {
    if (s->has[1]) store_item(dtype, at[1] + i * s->step[1] * (int64_t)size, &items[i]);
    if (s->has[2]) ((int64_t *)(void *)at[2])[i * s->step[2]] = items[i].index;
  }
}

static tn_status sort_range(void *ctx, int64_t begin, int64_t end) {
  const sorting *s = ctx;
  item *items = items_alloc(s->host, s->n);
  if (!items) return TN_ERR_OUT_OF_MEMORY;
  walk w = walk_over(s->kept, 3, begin, end);
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) {
      char *at[3];
      for (int v = 0; v < 3; ++v) at[v] = s->has[v] ? walk_at(&w, v, i) : NULL;
      sort_slice(s, at, items);
    }
  s->host->free(s->host, items);
  return TN_OK;
}

static tn_status sort_run(const tn_kernel_args *args, const DLTensor *y, const DLTensor *index,
                          int64_t attr_axis, bool descending) {
  const DLTensor *tensors[3] = {args->in[0], y, index};
  const DLTensor *shown = y ? y : index;
  sorting s = {.host = args->host};
  int axis = axis_index(attr_axis, args->in[0]->ndim);
  s.n = args->in[0]->shape[axis];
  s.k = shown->shape[axis];
  for (int v = 0; v < 3; ++v) {
    s.has[v] = tensors[v] != NULL;
    view whole = view_of(s.has[v] ? tensors[v] : shown);
    s.step[v] = whole.stride[axis];
    s.kept[v] = view_drop(whole, axis);
  }
  s.before = order_of(s.kept[0].dtype, descending);
  int64_t count = s.k ? view_count(&s.kept[0]) : 0, grain = 1 + 1024 / (s.n + 1);
  return count ? s.host->parallel_for(s.host, count, grain, sort_range, &s) : TN_OK;
}

tn_status reference_sort(const tn_kernel_args *args) {
  const tn_sort_attrs *attrs = args->attrs;
  return sort_run(args, args->out[0], args->out[1], attrs->axis, attrs->descending);
}

tn_status reference_argsort(const tn_kernel_args *args) {
  const tn_argsort_attrs *attrs = args->attrs;
  return sort_run(args, NULL, args->out[0], attrs->axis, attrs->descending);
}

tn_status reference_topk(const tn_kernel_args *args) {
  const tn_topk_attrs *attrs = args->attrs;
  return sort_run(args, args->out[0], args->out[1], attrs->axis, attrs->largest);
}

static void load_all(view x, item *items) {
  walk w = walk_over(&x, 1, 0, view_count(&x));
  int64_t at = 0;
  while (walk_next(&w))
    for (int64_t i = 0; i < w.n; ++i) load_item(x.dtype, walk_at(&w, 0, i), &items[at++]);
}

tn_status reference_unique(const tn_kernel_args *args) {
  view x = view_of(args->in[0]), y = view_of(args->out[0]);
  int64_t n = view_count(&x), count = 0;
  int64_t *counts = args->out[1] ? args->out[1]->data : NULL;
  item *items = items_alloc(args->host, n);
  if (!items) return TN_ERR_OUT_OF_MEMORY;
  load_all(x, items);
  before_fn before = order_of(x.dtype, false);
  merge_sort(items, items + n, n, before);
  for (int64_t i = 0; i < n; ++i) {
    if (i == 0 || before(&items[i - 1], &items[i])) {
      store_item(y.dtype, view_at(&y, count * y.stride[0]), &items[i]);
      if (counts) counts[count * args->out[1]->strides[0]] = 0;
      ++count;
    }
    if (counts) ++counts[(count - 1) * args->out[1]->strides[0]];
  }
  *(int64_t *)args->out[2]->data = count;
  args->host->free(args->host, items);
  return TN_OK;
}
