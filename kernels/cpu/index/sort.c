/*
 * Sorting by keys, least digit first, which is stable. Elements of up to 32 bits travel as one
 * word: key above, place below; 64-bit elements as a pair. Elements are made of their keys
 * again where those tell them. topk first throws away what is beaten: by a list of the best
 * so far where k is small, else by what a histogram of the upper bits shows. Many slices go
 * side by side; a slice alone has all threads. Short slices are sorted by vectors of as many.
 */
#include "kernels/cpu/base/radix.h"
#include "kernels/cpu/index/sort_keys.h"
#include "kernels/cpu/index/sort_rows.h"

enum {
  UPPER = 12,    /* bits of topk's histogram */
  FEW = 64,      /* best ones that are kept in a list */
  SELECT = 4096, /* elements from which on a histogram pays */
};

typedef struct pair {
  uint64_t key, place;
} pair;

#define WORD_KEY(x) ((x) >> 32)
#define PAIR_KEY(x) ((x).key)
#define OWN_KEY(x) (x)
RADIX_SORTER(word, uint64_t, WORD_KEY)
RADIX_SORTER(pair, pair, PAIR_KEY)
RADIX_SORTER(narrow, uint32_t, OWN_KEY)
RADIX_SORTER(wide, uint64_t, OWN_KEY)

/* A call: slices of [outer, n, inner] to k elements each. */
typedef struct sorting {
  const tn_host *host;
  const DLTensor *x, *y, *index; /* y or index may be NULL */
  cpu_axis_view view;
  int64_t k;
  bool descending, words; /* words: items are no pairs */
} sorting;

/* A slice at work. */
typedef struct slice_work {
  const sorting *call;
  slice s;
  int64_t to, parts; /* where in y its first element stands; threads that it has */
  void *items;       /* two arrays of n */
  const void *sorted;
  radix_room *room;
  uint64_t last;              /* topk: the greatest upper bits of the k */
  int64_t taken[RADIX_PARTS]; /* by each part, then by those before it */
} slice_work;

static int64_t first_of(const slice_work *w, int64_t part) {
  return radix_begin(w->s.n, w->parts, part);
}

static tn_status each_part(slice_work *w, tn_range_fn fn) {
  if (w->parts == 1) return fn(w, 0, 1);
  return w->call->host->parallel_for(w->call->host, w->parts, 1, fn, w);
}

/* ------------------------------------------------------------------ items --- */

static void take_range(const slice_work *w, int64_t begin, int64_t end) {
  uint32_t narrow[KEYS];
  uint64_t wide[KEYS], *words = w->items;
  pair *pairs = w->items;
  for (int64_t i = begin; i < end; i += KEYS) {
    const int64_t m = cpu_min(KEYS, end - i);
    if (w->call->words) {
      keys_narrow(&w->s, i, m, narrow);
      for (int64_t j = 0; j < m; j++) words[i + j] = (uint64_t)narrow[j] << 32 | (uint64_t)(i + j);
    } else {
      keys_wide(&w->s, i, m, wide);
      for (int64_t j = 0; j < m; j++) pairs[i + j] = (pair){wide[j], (uint64_t)(i + j)};
    }
  }
}

static tn_status take_part(void *ctx, int64_t begin, int64_t end) {
  const slice_work *w = ctx;
  take_range(w, first_of(w, begin), first_of(w, end));
  return TN_OK;
}

static void sort_items(slice_work *w, int64_t n, int64_t parts) {
  const int bits = w->s.type.bits;
  if (w->call->words) {
    uint64_t *items = w->items;
    w->sorted = word_sort(items, items + w->s.n, n, 0, bits, parts, w->room);
  } else {
    pair *items = w->items;
    w->sorted = pair_sort(items, items + w->s.n, n, 0, bits, parts, w->room);
  }
}

static inline int64_t place_at(const slice_work *w, int64_t i) {
  return w->call->words ? (int64_t)(((const uint64_t *)w->sorted)[i] & UINT32_MAX)
                        : (int64_t)((const pair *)w->sorted)[i].place;
}

/* ---------------------------------------------------------------- results --- */

/* What does not change is read once, for the compiler takes y for any of it. */
#define WRITE_OUT(bits, U)                                                                         \
  static void write_##bits(const slice_work *w, int64_t begin, int64_t end) {                      \
    const slice s = w->s;                                                                          \
    const U *x = (const U *)(const void *)s.x;                                                     \
    const bool in_words = w->call->words;                                                          \
    const uint64_t *words = w->sorted;                                                             \
    const pair *pairs = w->sorted;                                                                 \
    U *y = (U *)w->call->y->data + w->to;                                                          \
    for (int64_t i = begin; i < end; i++) {                                                        \
      const uint64_t key = in_words ? words[i] >> 32 : pairs[i].key;                               \
      const uint64_t place = in_words ? words[i] & UINT32_MAX : pairs[i].place;                    \
      const bool shared = key_is_shared(&s, key);                                                  \
      y[i * s.step] = shared ? x[(int64_t)place * s.step] : (U)element_of_key(&s, key);            \
    }                                                                                              \
  }
WRITE_OUT(8, uint8_t)
WRITE_OUT(16, uint16_t)
WRITE_OUT(32, uint32_t)
WRITE_OUT(64, uint64_t)

static void write_elements(const slice_work *w, int64_t begin, int64_t end) {
  switch (w->s.type.bits) {
  case 8:
    write_8(w, begin, end);
    break;
  case 16:
    write_16(w, begin, end);
    break;
  case 32:
    write_32(w, begin, end);
    break;
  default:
    write_64(w, begin, end);
  }
}

static tn_status write_range(void *ctx, int64_t begin, int64_t end) {
  const slice_work *w = ctx;
  if (w->call->y) write_elements(w, begin, end);
  if (!w->call->index) return TN_OK;
  int64_t *index = (int64_t *)w->call->index->data + w->to;
  const int64_t step = w->s.step;
  for (int64_t i = begin; i < end; i++) index[i * step] = place_at(w, i);
  return TN_OK;
}

static tn_status write_out(slice_work *w) {
  const int64_t k = w->call->k;
  if (w->parts == 1) return write_range(w, 0, k);
  return w->call->host->parallel_for(w->call->host, k, RADIX_PARALLEL / 4, write_range, w);
}

/* ------------------------------------------------------------------- topk --- */

/* The k <= FEW first of a part's elements, as words in their order; fewer where the part has
 * no more. -1 where so many displace others that a histogram is faster. */
static int64_t list_best(const slice_work *w, int64_t begin, int64_t end, uint64_t *list) {
  const int64_t k = w->call->k;
  int64_t count = 0, budget = 8 * k + (end - begin) / 64;
  uint32_t keys[KEYS];
  for (int64_t i = begin; i < end; i += KEYS) {
    const int64_t m = cpu_min(KEYS, end - i);
    uint32_t least = UINT32_MAX;
    keys_narrow(&w->s, i, m, keys);
    for (int64_t j = 0; j < m; j++) least = keys[j] < least ? keys[j] : least;
    if (count == k && least >= list[k - 1] >> 32) continue;
    for (int64_t j = 0; j < m; j++) {
      if (count == k && keys[j] >= list[k - 1] >> 32) continue;
      const uint64_t word = (uint64_t)keys[j] << 32 | (uint64_t)(i + j);
      if (count < k) count++;
      int64_t at = count - 1;
      for (; at > 0 && word < list[at - 1]; at--) list[at] = list[at - 1];
      list[at] = word;
      if (--budget < 0) return -1;
    }
  }
  return count;
}

static tn_status list_part(void *ctx, int64_t begin, int64_t end) {
  slice_work *w = ctx;
  for (int64_t p = begin; p < end; p++) {
    uint64_t *list = (uint64_t *)w->items + p * FEW;
    w->taken[p] = list_best(w, first_of(w, p), first_of(w, p + 1), list);
  }
  return TN_OK;
}

/* Lists the best of all parts one after the other; returns how many, or -1. */
static int64_t take_few(slice_work *w) {
  uint64_t *items = w->items;
  int64_t sum = 0;
  each_part(w, list_part);
  for (int64_t p = 0; p < w->parts; p++) {
    if (w->taken[p] < 0) return -1;
    memmove(items + sum, items + p * FEW, (size_t)w->taken[p] * sizeof *items);
    sum += w->taken[p];
  }
  return sum;
}

static int upper_shift(const slice_work *w) {
  return w->s.type.bits > UPPER ? w->s.type.bits - UPPER : 0;
}

static void count_upper(const slice_work *w, int64_t begin, int64_t end, int64_t *count) {
  uint64_t keys[KEYS];
  const int shift = upper_shift(w);
  for (int64_t i = begin; i < end; i += KEYS) {
    const int64_t m = cpu_min(KEYS, end - i);
    keys_wide(&w->s, i, m, keys);
    for (int64_t j = 0; j < m; j++) count[keys[j] >> shift]++;
  }
}

/* The histogram of each part, in its share of the items. */
static tn_status upper_part(void *ctx, int64_t begin, int64_t end) {
  const slice_work *w = ctx;
  for (int64_t p = begin; p < end; p++) {
    int64_t *count = (int64_t *)w->items + (p << UPPER);
    memset(count, 0, sizeof *count << UPPER);
    count_upper(w, first_of(w, p), first_of(w, p + 1), count);
  }
  return TN_OK;
}

/* Takes the elements of a part whose upper bits do not rule them out. */
static tn_status filter_part(void *ctx, int64_t begin, int64_t end) {
  const slice_work *w = ctx;
  const int shift = upper_shift(w);
  for (int64_t p = begin; p < end; p++) {
    int64_t at = w->taken[p];
    uint64_t keys[KEYS];
    for (int64_t i = first_of(w, p); i < first_of(w, p + 1); i += KEYS) {
      const int64_t m = cpu_min(KEYS, first_of(w, p + 1) - i);
      keys_wide(&w->s, i, m, keys);
      for (int64_t j = 0; j < m; j++) {
        if (keys[j] >> shift > w->last) continue;
        if (w->call->words)
          ((uint64_t *)w->items)[at++] = keys[j] << 32 | (uint64_t)(i + j);
        else
          ((pair *)w->items)[at++] = (pair){keys[j], (uint64_t)(i + j)};
      }
    }
  }
  return TN_OK;
}

/* Takes those of all elements; returns how many they are. pre: parts of SELECT elements. */
static int64_t take_upper(slice_work *w) {
  const int64_t *count = w->items;
  int64_t sum = 0, taken = 0;
  each_part(w, upper_part);
  for (w->last = 0;; w->last++) {
    for (int64_t p = 0; p < w->parts; p++) sum += count[(p << UPPER) + (int64_t)w->last];
    if (sum >= w->call->k) break;
  }
  for (int64_t p = 0; p < w->parts; p++) {
    int64_t own = 0;
    for (uint64_t d = 0; d <= w->last; d++) own += count[(p << UPPER) + (int64_t)d];
    w->taken[p] = taken;
    taken += own;
  }
  each_part(w, filter_part);
  return taken;
}

/* ----------------------------------------------------------------- slices --- */

/* Takes what may be among the first k; returns how many. */
static int64_t take(slice_work *w) {
  const int64_t n = w->s.n, k = w->call->k;
  if (w->call->words && k <= FEW && k < n / 4 && n / w->parts >= FEW) {
    const int64_t taken = take_few(w);
    if (taken >= 0) return taken;
  }
  if (n > SELECT && k < n / 4) return take_upper(w);
  each_part(w, take_part);
  return n;
}

static void begin_slice(const sorting *call, int64_t o, slice_work *w) {
  const cpu_axis_view v = call->view;
  const int64_t outer = o / v.inner, inner = o - outer * v.inner;
  w->call = call;
  w->s = slice_of(call->x, outer * v.size * v.inner + inner, v.size, v.inner, call->descending);
  w->to = outer * call->k * v.inner + inner;
}

static tn_status sort_slice(const sorting *call, int64_t o, int64_t parts, void *items,
                            radix_room *room) {
  slice_work w;
  begin_slice(call, o, &w);
  w.parts = parts, w.items = items, w.room = room;
  const int64_t taken = take(&w);
  sort_items(&w, taken, taken < RADIX_PARALLEL ? 1 : parts);
  return write_out(&w);
}

/* ----------------------------------------------------------- short slices --- */

/* Whether a call's slices are sorted side by side: topk of few is faster without. */
static bool is_short(const sorting *call) {
  const int64_t n = call->view.size;
  return call->words && n > 1 && n <= SORT_SIDE_BY_SIDE && call->k >= n / 4;
}

/* Sorts slices o to o + count - 1, with space for a word of each element of a slice. */
static void sort_lanes(const sorting *call, int64_t o, int64_t count, sort_row *rows,
                       uint64_t *words) {
  const int64_t n = call->view.size;
  uint32_t keys[KEYS];
  slice_work w;
  w.sorted = words;
  for (int64_t l = 0; l < count; l++) {
    begin_slice(call, o + l, &w);
    for (int64_t i = 0; i < n; i += KEYS) {
      const int64_t m = cpu_min(KEYS, n - i);
      keys_narrow(&w.s, i, m, keys);
      for (int64_t j = 0; j < m; j++) rows[i + j][l] = sort_item(keys[j], i + j);
    }
  }
  sort_rows(rows, n);
  for (int64_t l = 0; l < count; l++) {
    begin_slice(call, o + l, &w);
    for (int64_t i = 0; i < call->k; i++) words[i] = sort_word(rows[i][l]);
    write_range(&w, 0, call->k);
  }
}

static tn_status sort_short(void *ctx, int64_t begin, int64_t end) {
  const sorting *call = ctx;
  const int64_t n = call->view.size;
  const size_t bytes = (size_t)n * (sizeof(sort_row) + sizeof(uint64_t));
  sort_row *rows = call->host->alloc(call->host, bytes, 64);
  if (!rows) return call->host->fail(TN_ERR_OUT_OF_MEMORY, "no %zu bytes to sort in", bytes);
  memset(rows, 0, (size_t)n * sizeof *rows); /* lanes without a slice */
  for (int64_t o = begin; o < end; o += SORT_LANES)
    sort_lanes(call, o, cpu_min(SORT_LANES, end - o), rows, (uint64_t *)(void *)(rows + n));
  call->host->free(call->host, rows);
  return TN_OK;
}

/* ------------------------------------------------------------------ calls --- */

static tn_status sort_range(void *ctx, int64_t begin, int64_t end) {
  const sorting *call = ctx;
  const int64_t n = call->view.size;
  const bool alone = end - begin == call->view.outer * call->view.inner;
  const int64_t parts = alone ? radix_parts(call->host, n) : 1;
  const size_t items = 2 * (size_t)cpu_max(n, FEW) * (call->words ? 8 : sizeof(pair));
  const size_t histograms = radix_room_bytes(parts), bytes = histograms + items;
  radix_room *room = call->host->alloc(call->host, bytes, 64);
  if (!room) return call->host->fail(TN_ERR_OUT_OF_MEMORY, "no %zu bytes to sort in", bytes);
  tn_status status = TN_OK;
  room->host = call->host;
  for (int64_t o = begin; o < end && !status; o++)
    status = sort_slice(call, o, parts, (char *)room + histograms, room);
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
  if (n > 1 && is_short(&call)) {
    const int64_t share = cpu_max(SORT_LANES, CPU_GRAIN_MATHS / call.view.size);
    return n <= share ? sort_short(&call, 0, n)
                      : args->host->parallel_for(args->host, n, share, sort_short, &call);
  }
  const int64_t grain = cpu_max(1, CPU_GRAIN_SLOW / cpu_max(1, call.view.size));
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

/* ----------------------------------------------------------------- unique --- */

typedef struct unique_call {
  slice s;
  void *keys;
} unique_call;

static tn_status take_keys(void *ctx, int64_t begin, int64_t end) {
  const unique_call *u = ctx;
  if (u->s.type.bits <= 32)
    keys_narrow(&u->s, begin, end - begin, (uint32_t *)u->keys + begin);
  else
    keys_wide(&u->s, begin, end - begin, (uint64_t *)u->keys + begin);
  return TN_OK;
}

/* Writes each of the sorted keys once, and where its run began in place of its count. */
#define UNIQUE_RUNS(bits, U, K)                                                                    \
  static int64_t runs_##bits(const slice *s, const void *sorted, U *y, int64_t *counts) {          \
    const K *keys = sorted;                                                                        \
    int64_t count = 0;                                                                             \
    for (int64_t i = 0; i < s->n; i++) {                                                           \
      if (i && keys[i] == keys[i - 1]) continue;                                                   \
      y[count] = (U)element_of_key(s, keys[i]);                                                    \
      if (counts) counts[count] = i;                                                               \
      count++;                                                                                     \
    }                                                                                              \
    return count;                                                                                  \
  }
UNIQUE_RUNS(8, uint8_t, uint32_t)
UNIQUE_RUNS(16, uint16_t, uint32_t)
UNIQUE_RUNS(32, uint32_t, uint32_t)
UNIQUE_RUNS(64, uint64_t, uint64_t)

static int64_t write_runs(const slice *s, const void *sorted, void *y, int64_t *counts) {
  switch (s->type.bits) {
  case 8:
    return runs_8(s, sorted, y, counts);
  case 16:
    return runs_16(s, sorted, y, counts);
  case 32:
    return runs_32(s, sorted, y, counts);
  default:
    return runs_64(s, sorted, y, counts);
  }
}

/* pre: tensors are contiguous. */
tn_status ISA(unique_any)(const tn_kernel_args *args) {
  const tn_host *host = args->host;
  const int64_t n = cpu_count(args->in[0]);
  unique_call u = {.s = slice_of(args->in[0], 0, n, 1, false)};
  const int bits = u.s.type.bits;
  const size_t bytes = (size_t)n * (bits <= 32 ? sizeof(uint32_t) : sizeof(uint64_t));
  const int64_t parts = radix_parts(host, n);
  radix_room *room = host->alloc(host, radix_room_bytes(parts) + 2 * bytes, 64);
  if (!room) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to sort in");
  room->host = host;
  u.keys = (char *)room + radix_room_bytes(parts);
  void *space = (char *)u.keys + bytes;
  tn_status status = n ? host->parallel_for(host, n, CPU_GRAIN_CHEAP, take_keys, &u) : TN_OK;
  const void *sorted = bits <= 32 ? (void *)narrow_sort(u.keys, space, n, 0, bits, parts, room)
                                  : (void *)wide_sort(u.keys, space, n, 0, bits, parts, room);
  int64_t *counts = args->out[1] ? args->out[1]->data : NULL;
  const int64_t count = write_runs(&u.s, sorted, args->out[0]->data, counts);
  for (int64_t i = 0; counts && i < count; i++)
    counts[i] = (i + 1 < count ? counts[i + 1] : n) - counts[i];
  *(int64_t *)args->out[2]->data = count;
  host->free(host, room);
  return status;
}
