/*
 * Sorting of a slice that is longer than a cache. Its items are dealt into buckets of rising keys,
 * each of which is sorted and written while it is in the cache: what is as long as the slice is
 * read three times and written twice, where each digit of a plain sort does both once more. The
 * keys' range is that of a sample; a histogram of it says where buckets end, so that they come out
 * about as long whatever the distribution is. What lies outside goes with the first and the last.
 */
#ifndef TENON_KERNELS_CPU_SORT_SPLIT_H
#define TENON_KERNELS_CPU_SORT_SPLIT_H

#include "kernels/cpu/index/sort_work.h"

enum {
  SPLIT_WORDS = 1 << 19, /* items from which on it pays, of one word */
  SPLIT_PAIRS = 1 << 16, /* of whole numbers, whose range is often small */
  SPLIT_REALS = 1 << 14, /* of float64 */
  SPLIT_SAMPLE = 1024,   /* keys whose least and greatest are taken for the range */
  SPLIT_BIN_BITS = 14,   /* of the histogram */
  SPLIT_BINS = 1 << SPLIT_BIN_BITS,
  SPLIT_BUCKETS = 256, /* the most less one, for so many places are written to at a time */
  SPLIT_FILLED = 4096, /* items up to which a bucket is filled at the least */
  SPLIT_DIGIT = 11,    /* the most bits that a bucket is sorted by at a time */
  SPLIT_INSERTED = 32, /* items that are inserted faster */
};

typedef struct bucket {
  int64_t first;  /* of its items */
  uint64_t least; /* that a key of it can be */
  int bits;       /* of what its keys can be above that */
} bucket;

typedef struct split {
  slice_work *w;
  uint64_t low, span; /* the sample's least key, and its greatest less that */
  int shift;          /* from a key in the range to its bin */
  int64_t buckets, longest;
  uint32_t *count; /* [parts, SPLIT_BINS] */
  uint32_t *at;    /* [parts, SPLIT_BUCKETS + 1]: where a part's next item of a bucket goes */
  bucket bucket[SPLIT_BUCKETS + 2]; /* and one behind the last */
  uint16_t bucket_of[SPLIT_BINS];
} split;

static inline int split_bits(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }

static void split_range(split *p) {
  const slice *s = &p->w->s;
  const int64_t step = cpu_max(1, s->n / SPLIT_SAMPLE);
  uint64_t low = UINT64_MAX, high = 0, key;
  for (int64_t i = 0; i < s->n; i += step) {
    keys_wide(s, i, 1, &key);
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  p->low = low;
  p->span = high - low;
  p->shift = split_bits(p->span) > SPLIT_BIN_BITS ? split_bits(p->span) - SPLIT_BIN_BITS : 0;
}

/* ---------------------------------------------------------------- buckets --- */

/* Ends a bucket that begins with bin `from`, before bin `to`. */
static void split_close(split *p, int64_t from, int64_t to, int64_t first) {
  const uint64_t greatest = UINT64_MAX >> (64 - p->w->s.type.bits);
  const int64_t bins = (int64_t)(p->span >> p->shift) + 1;
  const uint64_t least = from ? p->low + ((uint64_t)from << p->shift) : 0;
  const uint64_t most = to == bins ? greatest : p->low + ((uint64_t)to << p->shift) - 1;
  for (int64_t b = from; b < to; b++) p->bucket_of[b] = (uint16_t)p->buckets;
  p->bucket[p->buckets++] = (bucket){first, least, split_bits(most - least)};
}

/* Two buckets side by side have more than 2 n / SPLIT_BUCKETS items, which bounds their number. */
static void split_buckets(split *p) {
  const int64_t n = p->w->s.n, bins = (int64_t)(p->span >> p->shift) + 1;
  const int64_t filled = cpu_max(SPLIT_FILLED, 2 * n / SPLIT_BUCKETS);
  int64_t sum = 0, from = 0, first = 0;
  for (int64_t b = 0; b < bins; b++) {
    int64_t count = 0;
    for (int64_t part = 0; part < p->w->parts; part++) count += p->count[part * SPLIT_BINS + b];
    if (sum && sum + count > filled) {
      split_close(p, from, b, first);
      from = b, first += sum, sum = 0;
    }
    sum += count;
    p->longest = cpu_max(p->longest, sum);
  }
  split_close(p, from, bins, first);
  p->bucket[p->buckets].first = n;
}

/* Where the first item of each bucket of each part goes. */
static void split_places(split *p) {
  const int64_t bins = (int64_t)(p->span >> p->shift) + 1, parts = p->w->parts;
  memset(p->at, 0, (size_t)parts * (SPLIT_BUCKETS + 1) * sizeof *p->at);
  for (int64_t part = 0; part < parts; part++)
    for (int64_t b = 0; b < bins; b++)
      p->at[part * (SPLIT_BUCKETS + 1) + p->bucket_of[b]] += p->count[part * SPLIT_BINS + b];
  for (int64_t k = 0; k < p->buckets; k++) {
    int64_t place = p->bucket[k].first;
    for (int64_t part = 0; part < parts; part++) {
      uint32_t *at = &p->at[part * (SPLIT_BUCKETS + 1) + k];
      const int64_t count = *at;
      *at = (uint32_t)place;
      place += count;
    }
  }
}

/* ------------------------------------------------------------------ items --- */

/* What goes through all items, of keys of type K: counts the bins of some parts, deals their items,
 * sorts a bucket. TAKE makes items, KEY(item) is the key of one. */
#define SPLIT_ITEMS(name, item, K, FILL, KEY, TAKE)                                                \
  static inline void name##_bins(const split *p, int64_t i, int64_t m, uint32_t *bins) {           \
    const K low = (K)p->low, span = (K)p->span;                                                    \
    const int shift = p->shift;                                                                    \
    K keys[KEYS];                                                                                  \
    FILL(&p->w->s, i, m, keys);                                                                    \
    for (int64_t j = 0; j < m; j++) {                                                              \
      const K above = keys[j] > low ? (K)(keys[j] - low) : 0;                                      \
      bins[j] = (uint32_t)((above < span ? above : span) >> shift);                                \
    }                                                                                              \
  }                                                                                                \
  static tn_status name##_split_count(void *ctx, int64_t begin, int64_t end) {                     \
    const split *p = ctx;                                                                          \
    uint32_t bins[KEYS];                                                                           \
    for (int64_t part = begin; part < end; part++) {                                               \
      uint32_t *count = p->count + part * SPLIT_BINS;                                              \
      const int64_t last = first_of(p->w, part + 1);                                               \
      memset(count, 0, SPLIT_BINS * sizeof *count);                                                \
      for (int64_t i = first_of(p->w, part); i < last; i += KEYS) {                                \
        const int64_t m = cpu_min(KEYS, last - i);                                                 \
        name##_bins(p, i, m, bins);                                                                \
        for (int64_t j = 0; j < m; j++) count[bins[j]]++;                                          \
      }                                                                                            \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }                                                                                                \
  static tn_status name##_split_deal(void *ctx, int64_t begin, int64_t end) {                      \
    const split *p = ctx;                                                                          \
    uint32_t bins[KEYS];                                                                           \
    item items[KEYS], *to = p->w->items;                                                           \
    for (int64_t part = begin; part < end; part++) {                                               \
      uint32_t *at = p->at + part * (SPLIT_BUCKETS + 1);                                           \
      const int64_t last = first_of(p->w, part + 1);                                               \
      for (int64_t i = first_of(p->w, part); i < last; i += KEYS) {                                \
        const int64_t m = cpu_min(KEYS, last - i);                                                 \
        name##_bins(p, i, m, bins);                                                                \
        TAKE(&p->w->s, i, m, items);                                                               \
        for (int64_t j = 0; j < m; j++) {                                                          \
          const uint32_t place = at[p->bucket_of[bins[j]]]++;                                      \
          __builtin_prefetch(to + place + 64 / sizeof(item), 1);                                   \
          to[place] = items[j];                                                                    \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }                                                                                                \
  /* By `digits` digits of `digit` bits, from bit `low` on of what keys are above the least;       \
   * returns where the result is. */                                                               \
  static item *name##_split_digits(item *a, item *space, int64_t n, uint64_t least, int low,       \
                                   int digit, int digits) {                                        \
    uint32_t at[1 << SPLIT_DIGIT];                                                                 \
    const uint64_t mask = ((uint64_t)1 << digit) - 1;                                              \
    for (int d = 0; d < digits; d++) {                                                             \
      const int shift = low + d * digit;                                                           \
      uint32_t sum = 0;                                                                            \
      memset(at, 0, sizeof *at << digit);                                                          \
      for (int64_t i = 0; i < n; i++) at[(KEY(a[i]) - least) >> shift & mask]++;                   \
      for (uint64_t k = 0; k <= mask; k++) {                                                       \
        const uint32_t count = at[k];                                                              \
        at[k] = sum;                                                                               \
        sum += count;                                                                              \
      }                                                                                            \
      for (int64_t i = 0; i < n; i++) space[at[(KEY(a[i]) - least) >> shift & mask]++] = a[i];     \
      item *const swap = a;                                                                        \
      a = space;                                                                                   \
      space = swap;                                                                                \
    }                                                                                              \
    return a;                                                                                      \
  }                                                                                                \
  /* Inserts each item among those before it; false, with some of it done, where that takes more   \
   * than n moves. */                                                                              \
  static bool name##_insert_few(item *a, int64_t n) {                                              \
    int64_t moves = n;                                                                             \
    for (int64_t i = 1; i < n && moves >= 0; i++) {                                                \
      const item x = a[i];                                                                         \
      int64_t k = i;                                                                               \
      for (; k > 0 && moves >= 0 && KEY(x) < KEY(a[k - 1]); k--, moves--) a[k] = a[k - 1];         \
      a[k] = x;                                                                                    \
    }                                                                                              \
    return moves >= 0;                                                                             \
  }                                                                                                \
  /* Sorts a bucket; returns where the result is. After two digits few items are left to move as a \
   * rule; where that is not so, all digits come. Each step is stable, and so is the whole. */     \
  static const item *name##_split_sort(item *a, item *space, int64_t n, const bucket *b) {         \
    const int digits = (b->bits + SPLIT_DIGIT - 1) / SPLIT_DIGIT;                                  \
    item *const own = a;                                                                           \
    if (n <= SPLIT_INSERTED) return name##_insert(a, n), a;                                        \
    if (digits > 2) {                                                                              \
      const int low = b->bits - 2 * SPLIT_DIGIT;                                                   \
      a = name##_split_digits(a, space, n, b->least, low, SPLIT_DIGIT, 2);                         \
      if (name##_insert_few(a, n)) return a;                                                       \
    }                                                                                              \
    const int digit = digits ? (b->bits + digits - 1) / digits : 0;                                \
    return name##_split_digits(a, a == own ? space : own, n, b->least, 0, digit, digits);          \
  }
SPLIT_ITEMS(word, uint64_t, uint32_t, keys_narrow, WORD_KEY, take_words)
SPLIT_ITEMS(pair, pair, uint64_t, keys_wide, PAIR_KEY, take_pairs)

/* ------------------------------------------------------------------ slices --- */

static size_t split_item(const split *p) {
  return p->w->call->words ? sizeof(uint64_t) : sizeof(pair);
}

static tn_status split_write(void *ctx, int64_t begin, int64_t end) {
  const split *p = ctx;
  const slice_work *w = p->w;
  const tn_host *host = w->call->host;
  const size_t bytes = (size_t)p->longest * split_item(p);
  void *space = host->alloc(host, bytes, 64);
  if (!space) return host->fail(TN_ERR_OUT_OF_MEMORY, "no %zu bytes to sort in", bytes);
  for (int64_t k = begin; k < end; k++) {
    const bucket *b = &p->bucket[k];
    const int64_t n = b[1].first - b->first;
    const void *sorted =
        w->call->words ? (const void *)word_split_sort((uint64_t *)w->items + b->first, space, n, b)
                       : (const void *)pair_split_sort((pair *)w->items + b->first, space, n, b);
    write_items(w, sorted, b->first, n);
  }
  host->free(host, space);
  return TN_OK;
}

/* Deals the slice into buckets, and sorts and writes them; *done: false, and nothing done, where so
 * many threads could not share them. */
static tn_status split_run(split *p, bool *done) {
  slice_work *w = p->w;
  const tn_host *host = w->call->host;
  split_range(p);
  each_part(w, w->call->words ? word_split_count : pair_split_count, p);
  split_buckets(p);
  *done = w->parts == 1 || p->longest <= w->s.n / w->parts;
  if (!*done) return TN_OK;
  split_places(p);
  each_part(w, w->call->words ? word_split_deal : pair_split_deal, p);
  if (w->parts == 1) return split_write(p, 0, p->buckets);
  return host->parallel_for(host, p->buckets, 1 + p->buckets / w->parts / 16, split_write, p);
}

static bool split_pays(const sorting *call) {
  const int64_t n = call->view.size;
  const int64_t pairs = call->x->dtype.code == kDLFloat ? SPLIT_REALS : SPLIT_PAIRS;
  return n >= (call->words ? SPLIT_WORDS : pairs) && n <= UINT32_MAX && call->k == n;
}

/* pre: split_pays() */
static tn_status split_slice(slice_work *w, bool *done) {
  const tn_host *host = w->call->host;
  split p = {.w = w};
  const size_t items = (size_t)w->s.n * split_item(&p);
  const size_t counts = (size_t)w->parts * (SPLIT_BINS + SPLIT_BUCKETS + 1) * sizeof(uint32_t);
  w->items = host->alloc(host, items + counts, 64);
  if (!w->items) return host->fail(TN_ERR_OUT_OF_MEMORY, "no %zu bytes to sort in", items + counts);
  p.count = (uint32_t *)(void *)((char *)w->items + items);
  p.at = p.count + w->parts * SPLIT_BINS;
  const tn_status status = split_run(&p, done);
  host->free(host, w->items);
  return status;
}

#endif
