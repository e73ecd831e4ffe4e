/*
 * topk first throws away what is beaten: by a list of the best so far where k is small, else by
 * what a histogram of the upper bits shows.
 */
#ifndef TENON_KERNELS_CPU_SORT_SELECT_H
#define TENON_KERNELS_CPU_SORT_SELECT_H

#include "kernels/cpu/index/sort_work.h"

enum {
  UPPER = 12,    /* bits of the histogram */
  FEW = 64,      /* best ones that are kept in a list */
  SELECT = 4096, /* elements from which on a histogram pays */
};

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
  each_part(w, list_part, w);
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
  each_part(w, upper_part, w);
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
  each_part(w, filter_part, w);
  return taken;
}

#endif
