/*
 * Stable sorting of items by the digits of a key, least digit first: in one thread, or in all
 * of them, each with a part of the items and a histogram of its own. RADIX_SORTER(name, item,
 * KEY) makes the sorter of one kind of items, whose keys KEY(item) gives.
 */
#ifndef TENON_KERNELS_CPU_RADIX_H
#define TENON_KERNELS_CPU_RADIX_H

#include <string.h>

#include "kernels/cpu/cpu.h"

enum {
  RADIX_BITS = 8,
  RADIX = 1 << RADIX_BITS,
  RADIX_SHORT = 48,         /* up to here insertion is faster */
  RADIX_PARALLEL = 1 << 16, /* items from which on all threads sort */
  RADIX_PARTS = 64,         /* the most parts */
};

/* What a sort needs besides its items: a histogram for each part. */
typedef struct radix_room {
  _Alignas(64) const tn_host *host;
  int64_t count[][RADIX];
} radix_room;

typedef struct radix_pass {
  const void *from;
  void *to;
  int64_t n, parts;
  int shift;
  radix_room *room;
} radix_pass;

static inline int64_t radix_parts(const tn_host *host, int64_t n) {
  if (n < RADIX_PARALLEL) return 1;
  return cpu_min(cpu_min((int64_t)host->num_threads, RADIX_PARTS), n / (RADIX_PARALLEL / 4));
}

/* One thread has a histogram for each digit of a key. */
static inline size_t radix_room_bytes(int64_t parts) {
  const size_t histograms = (size_t)cpu_max(parts, 64 / RADIX_BITS);
  return sizeof(radix_room) + histograms * RADIX * sizeof(int64_t);
}

static inline int64_t radix_begin(int64_t n, int64_t parts, int64_t part) {
  return n / parts * part + cpu_min(part, n % parts);
}

/* Turns the histograms from `first` on, one for each part, into where the parts' first items of
 * each digit go. False, where all items have the same digit: they stay. */
static inline bool radix_places(const radix_pass *p, int64_t first) {
  int64_t(*count)[RADIX] = p->room->count + first, sum = 0;
  for (int d = 0; d < RADIX; d++) {
    const int64_t before = sum;
    for (int64_t k = 0; k < p->parts; k++) {
      const int64_t c = count[k][d];
      count[k][d] = sum;
      sum += c;
    }
    if (sum - before == p->n) return false;
  }
  return true;
}

#define RADIX_DIGIT(key, shift) ((key) >> (shift) & (RADIX - 1))

#define RADIX_SORTER(name, item, KEY)                                                              \
  static void name##_insert(item *a, int64_t n) {                                                  \
    for (int64_t i = 1; i < n; i++) {                                                              \
      const item x = a[i];                                                                         \
      int64_t k = i;                                                                               \
      for (; k > 0 && KEY(x) < KEY(a[k - 1]); k--) a[k] = a[k - 1];                                \
      a[k] = x;                                                                                    \
    }                                                                                              \
  }                                                                                                \
  /* The line behind the one that is written is fetched early: a store waits for its line. */      \
  static void name##_deal_run(const item *a, int64_t n, int shift, int64_t *at, item *to) {        \
    for (int64_t i = 0; i < n; i++) {                                                              \
      const int64_t place = at[RADIX_DIGIT(KEY(a[i]), shift)]++;                                   \
      __builtin_prefetch(to + place + 64 / sizeof(item), 1);                                       \
      to[place] = a[i];                                                                            \
    }                                                                                              \
  }                                                                                                \
  static tn_status name##_count(void *ctx, int64_t begin, int64_t end) {                           \
    const radix_pass *p = ctx;                                                                     \
    for (int64_t k = begin; k < end; k++) {                                                        \
      const int64_t last = radix_begin(p->n, p->parts, k + 1);                                     \
      int64_t *count = p->room->count[k];                                                          \
      memset(count, 0, sizeof p->room->count[k]);                                                  \
      for (int64_t i = radix_begin(p->n, p->parts, k); i < last; i++)                              \
        count[RADIX_DIGIT(KEY(((const item *)p->from)[i]), p->shift)]++;                           \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }                                                                                                \
  static tn_status name##_deal(void *ctx, int64_t begin, int64_t end) {                            \
    const radix_pass *p = ctx;                                                                     \
    for (int64_t k = begin; k < end; k++) {                                                        \
      const int64_t first = radix_begin(p->n, p->parts, k);                                        \
      const int64_t n = radix_begin(p->n, p->parts, k + 1) - first;                                \
      name##_deal_run((const item *)p->from + first, n, p->shift, p->room->count[k], p->to);       \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }                                                                                                \
  static inline void name##_count_digits(const item *a, int64_t n, int low, int digits,            \
                                         radix_room *room) {                                       \
    memset(room->count, 0, (size_t)digits * sizeof room->count[0]);                                \
    for (int64_t i = 0; i < n; i++)                                                                \
      for (int d = 0; d < digits; d++)                                                             \
        room->count[d][RADIX_DIGIT(KEY(a[i]), low + d * RADIX_BITS)]++;                            \
  }                                                                                                \
  static void name##_count_all(const item *a, int64_t n, int low, int digits, radix_room *room) {  \
    if (digits == 1)                                                                               \
      name##_count_digits(a, n, low, 1, room);                                                     \
    else if (digits == 2)                                                                          \
      name##_count_digits(a, n, low, 2, room);                                                     \
    else if (digits == 4)                                                                          \
      name##_count_digits(a, n, low, 4, room);                                                     \
    else                                                                                           \
      name##_count_digits(a, n, low, digits, room);                                                \
  }                                                                                                \
  /* Sorts a by `bits` bits of its keys from bit `low` on, with space for as many; returns where   \
   * the result is. `parts` of radix_parts, or 1. */                                               \
  static item *name##_sort(item *a, item *space, int64_t n, int low, int bits, int64_t parts,      \
                           radix_room *room) {                                                     \
    if (n <= RADIX_SHORT && low == 0) return name##_insert(a, n), a;                               \
    if (parts == 1) name##_count_all(a, n, low, bits / RADIX_BITS, room);                          \
    for (int d = 0; d < bits / RADIX_BITS; d++) {                                                  \
      radix_pass p = {a, space, n, parts, low + d * RADIX_BITS, room};                             \
      if (parts > 1) room->host->parallel_for(room->host, parts, 1, name##_count, &p);             \
      if (!radix_places(&p, parts > 1 ? 0 : d)) continue;                                          \
      if (parts > 1)                                                                               \
        room->host->parallel_for(room->host, parts, 1, name##_deal, &p);                           \
      else                                                                                         \
        name##_deal_run(a, n, p.shift, room->count[d], space);                                     \
      item *const swap = a;                                                                        \
      a = space;                                                                                   \
      space = swap;                                                                                \
    }                                                                                              \
    return a;                                                                                      \
  }

#endif
