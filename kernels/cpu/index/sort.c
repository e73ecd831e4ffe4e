/*
 * Sorting by keys, least digit first, which is stable. Many slices go side by side; a slice
 * alone has all threads. Long slices are dealt into buckets first that fit a cache, short ones
 * are sorted by vectors of as many.
 */
#include "kernels/cpu/index/sort_rows.h"
#include "kernels/cpu/index/sort_select.h"
#include "kernels/cpu/index/sort_split.h"

/* ----------------------------------------------------------------- slices --- */

/* Takes what may be among the first k; returns how many. */
static int64_t take(slice_work *w) {
  const int64_t n = w->s.n, k = w->call->k;
  if (w->call->words && k <= FEW && k < n / 4 && n / w->parts >= FEW) {
    const int64_t taken = take_few(w);
    if (taken >= 0) return taken;
  }
  if (n > SELECT && k < n / 4) return take_upper(w);
  each_part(w, take_part, w);
  return n;
}

static void begin_slice(const sorting *call, int64_t o, slice_work *w) {
  const cpu_axis_view v = call->view;
  const int64_t outer = o / v.inner, inner = o - outer * v.inner;
  w->call = call;
  w->s = slice_of(call->x, outer * v.size * v.inner + inner, v.size, v.inner, call->descending);
  w->to = outer * call->k * v.inner + inner;
}

/* Pairs that fit a cache are a bucket: of the digits of their range two mostly do. */
static void sort_pairs(slice_work *w, int64_t n) {
  pair *items = w->items;
  uint64_t least = UINT64_MAX, most = 0;
  for (int64_t i = 0; i < n; i++) {
    least = items[i].key < least ? items[i].key : least;
    most = items[i].key > most ? items[i].key : most;
  }
  const bucket all = {0, least, split_bits(most - least)};
  w->sorted = pair_split_sort(items, items + w->s.n, n, &all);
}

static tn_status sort_slice(slice_work *w, void *items, radix_room *room) {
  w->items = items, w->room = room;
  const int64_t taken = take(w);
  if (!w->call->words && taken > RADIX_SHORT && taken < RADIX_PARALLEL)
    sort_pairs(w, taken);
  else
    sort_items(w, taken, taken < RADIX_PARALLEL ? 1 : w->parts);
  return write_out(w);
}

/* The items' two arrays and the histograms of so many parts; fails with a message. */
static radix_room *sort_room(const sorting *call, int64_t parts, void **items) {
  const size_t size = call->words ? sizeof(uint64_t) : sizeof(pair);
  const size_t histograms = radix_room_bytes(parts);
  const size_t bytes = histograms + 2 * (size_t)cpu_max(call->view.size, FEW) * size;
  radix_room *room = call->host->alloc(call->host, bytes, 64);
  if (!room) {
    call->host->fail(TN_ERR_OUT_OF_MEMORY, "no %zu bytes to sort in", bytes);
    return NULL;
  }
  room->host = call->host;
  *items = (char *)room + histograms;
  return room;
}

static tn_status sort_long(const sorting *call, int64_t o, int64_t parts) {
  slice_work w;
  bool done = false;
  void *items;
  begin_slice(call, o, &w);
  w.parts = parts;
  tn_status status = split_slice(&w, &done);
  if (done || status) return status;
  radix_room *room = sort_room(call, parts, &items);
  status = room ? sort_slice(&w, items, room) : TN_ERR_OUT_OF_MEMORY;
  call->host->free(call->host, room);
  return status;
}

/* ----------------------------------------------------------- short slices --- */

enum {
  SORT_TAKEN = 1024, /* rows that are filled and read at a time */
  SORT_VERY_SHORT = 128,
};

/* Slices of one share where each is sorted by itself. */
static int64_t sort_grain(const sorting *call) {
  return cpu_max(1, CPU_GRAIN_SLOW / cpu_max(1, call->view.size));
}

/* Whether a call's n slices are sorted side by side: topk of few is faster without, and so are
 * slices that leave many lanes empty or threads idle. By itself a slice takes about one and a half
 * times as long, a very short one four times. */
static bool is_short(const sorting *call, int64_t n) {
  const int64_t size = call->view.size, threads = call->host->num_threads;
  if (!call->words || n < 2 || size < 2 || call->k < size / 4) return false;
  if (size > sort_side_by_side(call->x->dtype.bits)) return false;
  const int64_t lanes = cpu_ceil_div(cpu_ceil_div(n, SORT_LANES), threads) * SORT_LANES;
  const int64_t slices = cpu_max(cpu_ceil_div(n, threads), cpu_min(n, sort_grain(call)));
  return 2 * lanes <= (size <= SORT_VERY_SHORT ? 8 : 3) * slices;
}

/* Sorts slices o to o + count - 1. Some rows at a time are filled and read, for each line of
 * memory has several lanes. */
static void sort_lanes(const sorting *call, int64_t o, int64_t count, sort_row *rows) {
  const int64_t n = call->view.size;
  slice_work w[SORT_LANES];
  uint32_t keys[SORT_TAKEN];
  uint64_t words[SORT_TAKEN];
  for (int64_t l = 0; l < count; l++) begin_slice(call, o + l, &w[l]);
  for (int64_t i = 0; i < n; i += SORT_TAKEN) {
    const int64_t m = cpu_min(SORT_TAKEN, n - i);
    for (int64_t l = 0; l < count; l++) {
      keys_narrow(&w[l].s, i, m, keys);
      for (int64_t j = 0; j < m; j++) rows[i + j][l] = sort_item(keys[j], i + j);
    }
  }
  sort_rows(rows, n);
  for (int64_t i = 0; i < call->k; i += SORT_TAKEN) {
    const int64_t m = cpu_min(SORT_TAKEN, call->k - i);
    for (int64_t l = 0; l < count; l++) {
      for (int64_t j = 0; j < m; j++) words[j] = sort_word(rows[i + j][l]);
      write_items(&w[l], words, i, m);
    }
  }
}

static tn_status sort_short(void *ctx, int64_t begin, int64_t end) {
  const sorting *call = ctx;
  const int64_t n = call->view.size;
  const size_t bytes = (size_t)sort_space(n) * sizeof(sort_row);
  sort_row *rows = call->host->alloc(call->host, bytes, 64);
  if (!rows) return call->host->fail(TN_ERR_OUT_OF_MEMORY, "no %zu bytes to sort in", bytes);
  memset(rows, 0, (size_t)n * sizeof *rows); /* lanes without a slice */
  for (int64_t o = begin; o < end; o += SORT_LANES)
    sort_lanes(call, o, cpu_min(SORT_LANES, end - o), rows);
  call->host->free(call->host, rows);
  return TN_OK;
}

/* ------------------------------------------------------------------ calls --- */

static tn_status sort_range(void *ctx, int64_t begin, int64_t end) {
  const sorting *call = ctx;
  const bool alone = end - begin == call->view.outer * call->view.inner;
  const int64_t parts = alone ? radix_parts(call->host, call->view.size) : 1;
  tn_status status = TN_OK;
  if (split_pays(call)) {
    for (int64_t o = begin; o < end && !status; o++) status = sort_long(call, o, parts);
    return status;
  }
  void *items;
  radix_room *room = sort_room(call, parts, &items);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t o = begin; o < end && !status; o++) {
    slice_work w;
    begin_slice(call, o, &w);
    w.parts = parts;
    status = sort_slice(&w, items, room);
  }
  call->host->free(call->host, room);
  return status;
}

static tn_status sort_run(const tn_kernel_args *args, const DLTensor *y, const DLTensor *index,
                          int64_t axis, bool descending) {
  sorting call = {.host = args->host,
                  .x = args->in[0],
                  .y = y,
                  .index = index,
                  .view = cpu_view_axis(args->in[0], axis),
                  .descending = descending};
  const DLTensor *shown = y ? y : index;
  call.k = shown->shape[axis < 0 ? axis + shown->ndim : axis];
  call.words = call.x->dtype.bits <= 32 && call.view.size <= UINT32_MAX;
  const int64_t n = call.k ? call.view.outer * call.view.inner : 0;
  if (is_short(&call, n)) {
    const int64_t share = cpu_max(SORT_LANES, CPU_GRAIN_MATHS / call.view.size);
    return n <= share ? sort_short(&call, 0, n)
                      : args->host->parallel_for(args->host, n, share, sort_short, &call);
  }
  const int64_t grain = sort_grain(&call);
  const bool long_ones = call.view.size >= RADIX_PARALLEL && n < (int64_t)args->host->num_threads;
  if (n <= grain || long_ones) return n ? sort_range(&call, 0, n) : TN_OK;
  return args->host->parallel_for(args->host, n, grain, sort_range, &call);
}

tn_status ISA(sort_any)(const tn_kernel_args *args) {
  const tn_sort_attrs *attrs = args->attrs;
  return sort_run(args, args->out[0], args->out[1], attrs->axis, attrs->descending);
}

tn_status ISA(argsort_any)(const tn_kernel_args *args) {
  const tn_argsort_attrs *attrs = args->attrs;
  return sort_run(args, NULL, args->out[0], attrs->axis, attrs->descending);
}

tn_status ISA(topk_any)(const tn_kernel_args *args) {
  const tn_topk_attrs *attrs = args->attrs;
  return sort_run(args, args->out[0], args->out[1], attrs->axis, attrs->largest);
}
