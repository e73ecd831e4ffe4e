/*
 * A slice that is sorted: its elements as items of key and place, and what is written of them.
 * Elements of up to 32 bits travel as one word: key above, place below; 64-bit elements as a
 * pair. Elements are made of their keys again where those tell them.
 */
#ifndef TENON_KERNELS_CPU_SORT_WORK_H
#define TENON_KERNELS_CPU_SORT_WORK_H

#include "kernels/cpu/base/radix.h"
#include "kernels/cpu/index/sort_keys.h"

typedef struct pair {
  uint64_t key, place;
} pair;

#define WORD_KEY(x) ((x) >> 32)
#define PAIR_KEY(x) ((x).key)
RADIX_SORTER(word, uint64_t, WORD_KEY)
RADIX_SORTER(pair, pair, PAIR_KEY)

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

static tn_status each_part(const slice_work *w, tn_range_fn fn, void *ctx) {
  if (w->parts == 1) return fn(ctx, 0, 1);
  return w->call->host->parallel_for(w->call->host, w->parts, 1, fn, ctx);
}

/* ------------------------------------------------------------------ items --- */

/* Items of the m elements from i on. */
static inline void take_words(const slice *s, int64_t i, int64_t m, uint64_t *words) {
  uint32_t keys[KEYS];
  keys_narrow(s, i, m, keys);
  for (int64_t j = 0; j < m; j++) words[j] = (uint64_t)keys[j] << 32 | (uint64_t)(i + j);
}

static inline void take_pairs(const slice *s, int64_t i, int64_t m, pair *pairs) {
  uint64_t keys[KEYS];
  keys_wide(s, i, m, keys);
  for (int64_t j = 0; j < m; j++) pairs[j] = (pair){keys[j], (uint64_t)(i + j)};
}

static tn_status take_part(void *ctx, int64_t begin, int64_t end) {
  const slice_work *w = ctx;
  const int64_t last = first_of(w, end);
  for (int64_t i = first_of(w, begin); i < last; i += KEYS) {
    const int64_t m = cpu_min(KEYS, last - i);
    if (w->call->words)
      take_words(&w->s, i, m, (uint64_t *)w->items + i);
    else
      take_pairs(&w->s, i, m, (pair *)w->items + i);
  }
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

/* ---------------------------------------------------------------- results --- */

/* The elements of m <= KEYS items, whose keys and places are made first: a chunk at a time, so that
 * loops vectorise. Those whose keys others share are looked up. */
#define ELEMENTS(bits, U)                                                                          \
  static inline void elements_##bits(const slice *s, const uint64_t *keys, const uint64_t *places, \
                                     int64_t m, U *y) {                                            \
    const U *x = (const U *)(const void *)s->x;                                                    \
    const U sign = (U)((U)1 << (bits - 1)), toggle = toggle_##bits(s), flip = (U)s->flip;          \
    U found[KEYS], shared = 0;                                                                     \
    if (s->type.infinity) {                                                                        \
      for (int64_t j = 0; j < m; j++) {                                                            \
        const U plain = (U)((U)keys[j] ^ flip);                                                    \
        found[j] = (U)(plain & sign ? plain ^ sign : ~plain);                                      \
        shared |= (U)((plain == sign) | (plain == (U) ~(U)0));                                     \
      }                                                                                            \
      for (int64_t j = 0; shared && j < m; j++)                                                    \
        if (key_is_shared(s, keys[j])) found[j] = x[(int64_t)places[j] * s->step];                 \
    } else {                                                                                       \
      for (int64_t j = 0; j < m; j++) found[j] = (U)((U)keys[j] ^ toggle);                         \
    }                                                                                              \
    if (s->step == 1)                                                                              \
      memcpy(y, found, (size_t)m * sizeof *y);                                                     \
    else                                                                                           \
      for (int64_t j = 0; j < m; j++) y[j * s->step] = found[j];                                   \
  }
ELEMENTS(8, uint8_t)
ELEMENTS(16, uint16_t)
ELEMENTS(32, uint32_t)
ELEMENTS(64, uint64_t)

static inline void write_elements(const slice_work *w, int64_t at, const uint64_t *keys,
                                  const uint64_t *places, int64_t m) {
  char *y = w->call->y->data;
  at = w->to + at * w->s.step;
  if (w->s.type.bits == 8)
    elements_8(&w->s, keys, places, m, (uint8_t *)y + at);
  else if (w->s.type.bits == 16)
    elements_16(&w->s, keys, places, m, (uint16_t *)(void *)y + at);
  else if (w->s.type.bits == 32)
    elements_32(&w->s, keys, places, m, (uint32_t *)(void *)y + at);
  else
    elements_64(&w->s, keys, places, m, (uint64_t *)(void *)y + at);
}

static inline void write_places(const slice_work *w, const void *sorted, int64_t at, int64_t n) {
  const int64_t step = w->s.step;
  const uint64_t *words = sorted;
  const pair *pairs = sorted;
  int64_t *index = (int64_t *)w->call->index->data + w->to + at * step;
  if (w->call->words && step == 1)
    for (int64_t i = 0; i < n; i++) index[i] = (int64_t)(words[i] & UINT32_MAX);
  else if (w->call->words)
    for (int64_t i = 0; i < n; i++) index[i * step] = (int64_t)(words[i] & UINT32_MAX);
  else
    for (int64_t i = 0; i < n; i++) index[i * step] = (int64_t)pairs[i].place;
}

/* Writes n sorted items from the slice's element `at` on. */
static void write_items(const slice_work *w, const void *sorted, int64_t at, int64_t n) {
  const uint64_t *words = sorted;
  const pair *pairs = sorted;
  uint64_t keys[KEYS], places[KEYS];
  if (w->call->index) write_places(w, sorted, at, n);
  for (int64_t i = 0; w->call->y && i < n; i += KEYS) {
    const int64_t m = cpu_min(KEYS, n - i);
    if (w->call->words)
      for (int64_t j = 0; j < m; j++)
        keys[j] = words[i + j] >> 32, places[j] = words[i + j] & UINT32_MAX;
    else
      for (int64_t j = 0; j < m; j++) keys[j] = pairs[i + j].key, places[j] = pairs[i + j].place;
    write_elements(w, at + i, keys, places, m);
  }
}

static tn_status write_range(void *ctx, int64_t begin, int64_t end) {
  const slice_work *w = ctx;
  const size_t size = w->call->words ? sizeof(uint64_t) : sizeof(pair);
  write_items(w, (const char *)w->sorted + (size_t)begin * size, begin, end - begin);
  return TN_OK;
}

static tn_status write_out(slice_work *w) {
  const int64_t k = w->call->k;
  if (w->parts == 1) return write_range(w, 0, k);
  return w->call->host->parallel_for(w->call->host, k, RADIX_PARALLEL / 4, write_range, w);
}

#endif
