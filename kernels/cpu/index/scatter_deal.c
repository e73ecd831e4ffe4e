/* Scattering along the one axis of a vector by all threads; see scatter_deal.h. */
#include "kernels/cpu/index/scatter_deal.h"

#include "kernels/cpu/base/radix.h"

enum {
  DEALT = 1 << 16,      /* updates from which on it pays */
  DEALT_EACH = 1 << 14, /* of them that a thread deals at the least */
  COPIED_BYTES =
      4 << 20,       /* copies from which on it pays for any threads, for they miss the cache */
  MANY_THREADS = 16, /* for which it pays without: to deal takes up to ten times as long */
  STRETCHES = 256,   /* the most, for so many places are written to at a time */
  STRETCHES_OF_THREAD = 4,   /* so that none waits long for the others */
  STRETCH_BYTES = 256 << 10, /* which fit a cache */
};

typedef struct dealing {
  const along *a;
  tn_range_fn fn;
  int64_t parts, stretches, size; /* threads that deal; bytes of an element */
  int shift;                      /* from a place to its stretch */
  int64_t *at;                    /* [parts, STRETCHES]: where a part's next update goes */
  int64_t start[STRETCHES + 1];   /* of the stretches among the dealt updates */
  char *updates, *index;          /* in that order; places count from the stretch's first */
} dealing;

#define COUNT_LOOPS(suffix, I)                                                                     \
  static tn_status count_##suffix(void *ctx, int64_t begin, int64_t end) {                         \
    const dealing *d = ctx;                                                                        \
    const int64_t n = d->a->n;                                                                     \
    const I *index = d->a->index;                                                                  \
    for (int64_t part = begin; part < end; part++) {                                               \
      int64_t *count = d->at + part * STRETCHES;                                                   \
      const int64_t last = radix_begin(d->a->count, d->parts, part + 1);                           \
      memset(count, 0, STRETCHES * sizeof *count);                                                 \
      for (int64_t i = radix_begin(d->a->count, d->parts, part); i < last; i++) {                  \
        const int64_t place = along_place(index[i], n);                                            \
        if (place >= 0) count[place >> d->shift]++;                                                \
      }                                                                                            \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
COUNT_LOOPS(narrow, int32_t)
COUNT_LOOPS(wide, int64_t)

#define DEAL_LOOPS(suffix, U, I)                                                                   \
  static tn_status deal_##suffix(void *ctx, int64_t begin, int64_t end) {                          \
    const dealing *d = ctx;                                                                        \
    const int64_t n = d->a->n, mask = ((int64_t)1 << d->shift) - 1;                                \
    const I *index = d->a->index;                                                                  \
    const U *x = d->a->from;                                                                       \
    U *updates = (U *)(void *)d->updates;                                                          \
    I *places = (I *)(void *)d->index;                                                             \
    for (int64_t part = begin; part < end; part++) {                                               \
      int64_t *at = d->at + part * STRETCHES;                                                      \
      const int64_t last = radix_begin(d->a->count, d->parts, part + 1);                           \
      for (int64_t i = radix_begin(d->a->count, d->parts, part); i < last; i++) {                  \
        const int64_t place = along_place(index[i], n);                                            \
        if (place < 0) continue;                                                                   \
        const int64_t to = at[place >> d->shift]++;                                                \
        updates[to] = x[i];                                                                        \
        places[to] = (I)(place & mask);                                                            \
      }                                                                                            \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
DEAL_LOOPS(8_narrow, uint8_t, int32_t)
DEAL_LOOPS(8_wide, uint8_t, int64_t)
DEAL_LOOPS(16_narrow, uint16_t, int32_t)
DEAL_LOOPS(16_wide, uint16_t, int64_t)
DEAL_LOOPS(32_narrow, uint32_t, int32_t)
DEAL_LOOPS(32_wide, uint32_t, int64_t)
DEAL_LOOPS(64_narrow, uint64_t, int32_t)
DEAL_LOOPS(64_wide, uint64_t, int64_t)

static tn_range_fn deal_fn(const dealing *d) {
  const bool wide = d->a->wide;
  if (d->size == 1) return wide ? deal_8_wide : deal_8_narrow;
  if (d->size == 2) return wide ? deal_16_wide : deal_16_narrow;
  if (d->size == 4) return wide ? deal_32_wide : deal_32_narrow;
  return wide ? deal_64_wide : deal_64_narrow;
}

static void place_updates(dealing *d) {
  int64_t sum = 0;
  for (int64_t k = 0; k < d->stretches; k++) {
    d->start[k] = sum;
    for (int64_t part = 0; part < d->parts; part++) {
      int64_t *at = &d->at[part * STRETCHES + k];
      const int64_t count = *at;
      *at = sum;
      sum += count;
    }
  }
  d->start[d->stretches] = sum;
}

static tn_status scatter_stretches(void *ctx, int64_t begin, int64_t end) {
  const dealing *d = ctx;
  tn_status status = TN_OK;
  for (int64_t k = begin; k < end && !status; k++) {
    const int64_t first = k << d->shift, start = d->start[k];
    along a = *d->a;
    a.n = cpu_min((int64_t)1 << d->shift, d->a->n - first);
    a.count = a.size[a.axis] = d->start[k + 1] - start;
    a.index = d->index + start * (a.wide ? 8 : 4);
    a.from = d->updates + start * d->size;
    a.to = (char *)d->a->to + first * d->size;
    if (a.count) status = d->fn(&a, 0, 1);
  }
  return status;
}

/* Stretches are powers of two places long, so that a shift tells which one a place is of. */
static void choose_stretches(dealing *d, int64_t bytes) {
  const int64_t threads = d->a->host->num_threads;
  const int64_t most = cpu_max(STRETCHES_OF_THREAD * threads, bytes / STRETCH_BYTES);
  while ((d->a->n - 1) >> d->shift >= cpu_min(most, STRETCHES)) d->shift++;
  d->stretches = ((d->a->n - 1) >> d->shift) + 1;
  d->parts = cpu_min(threads, cpu_min(RADIX_PARTS, d->a->count / DEALT_EACH));
}

static tn_status scatter_dealt(const along *a, tn_range_fn fn, int64_t size, int64_t copied) {
  const tn_host *host = a->host;
  dealing d = {.a = a, .fn = fn, .size = size};
  choose_stretches(&d, a->n * cpu_max(size, copied));
  const size_t counts = (size_t)(d.parts * STRETCHES) * sizeof *d.at;
  /* Updates behind an odd number of narrow places would not lie as their type must. */
  const size_t places = (size_t)cpu_ceil_div(a->count * (a->wide ? 8 : 4), 64) * 64;
  const size_t updates = (size_t)(a->count * size);
  d.at = host->alloc(host, counts + places + updates, 64);
  if (!d.at) return fn((void *)(uintptr_t)a, 0, 1);
  d.index = (char *)d.at + counts;
  d.updates = d.index + places;
  tn_status status = host->parallel_for(host, d.parts, 1, a->wide ? count_wide : count_narrow, &d);
  place_updates(&d);
  if (!status) status = host->parallel_for(host, d.parts, 1, deal_fn(&d), &d);
  if (!status) status = host->parallel_for(host, d.stretches, 1, scatter_stretches, &d);
  host->free(host, d.at);
  return status;
}

tn_status ISA(scatter_run)(along *a, tn_range_fn fn, int64_t size, int64_t copied) {
  const bool vector = a->part == 1 && a->step == 1 && a->splits == 1 && along_columns(a) == 1;
  const bool pays = a->n * copied >= COPIED_BYTES || a->host->num_threads >= MANY_THREADS;
  if (vector && pays && a->n > 1 && a->count >= DEALT) return scatter_dealt(a, fn, size, copied);
  return along_run(a, fn);
}
