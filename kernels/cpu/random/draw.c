/*
 * Random ones, integers, bounded normal numbers, draws by weight and permutations. Element
 * i takes word i of the sequence, or words 2 i and 2 i + 1; loops go by blocks of words.
 */
#include <math.h>
#include <string.h>

#include "kernels/common/draws.h"
#include "kernels/common/scalars.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/radix.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/random/philox_block.h"
#include "kernels/cpu/random/quantile.h"

enum { PAIRS = PHILOX_WORDS / 2 };

typedef struct draw_call {
  void *y;
  int64_t n;
  uint64_t seed, offset;
  uint32_t most;      /* bernoulli: words up to this are ones */
  uint64_t one;       /* bernoulli: the bits of a one; of 0 where there are none */
  uint64_t low, span; /* randint */
  double mean, std;
  truncated between;
} draw_call;

/* One index of fn is one block, of `per_block` elements. */
static tn_status draw_run(const tn_kernel_args *args, draw_call *call, int64_t per_block,
                          tn_range_fn fn) {
  call->n = cpu_count(args->out[0]);
  call->y = args->out[0]->data;
  return philox_run(args, call->n, per_block, fn, call);
}

static void draw_words(const draw_call *call, int64_t block, uint32_t *words) {
  philox_block(call->seed, call->offset + (uint64_t)block * PHILOX_COUNTERS, words);
}

static uint64_t pair_of(const uint32_t *words, int64_t i) {
  return (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
}

/* draw_below of the pair of words i for n below 2^32, in fewer products. */
static inline uint32_t below_narrow(const uint32_t *words, int64_t i, uint32_t n) {
  return (uint32_t)(((uint64_t)words[2 * i + 1] * n + ((uint64_t)words[2 * i] * n >> 32)) >> 32);
}

/* -------------------------------------------------------------- bernoulli --- */

#define BERNOULLI(bits, type)                                                                      \
  static tn_status bernoulli_##bits(void *ctx, int64_t begin, int64_t end) {                       \
    const draw_call *call = ctx;                                                                   \
    const type one = (type)call->one;                                                              \
    const uint32_t most = call->most;                                                              \
    uint32_t words[PHILOX_WORDS];                                                                  \
    for (int64_t block = begin; block < end; block++) {                                            \
      const int64_t first = block * PHILOX_WORDS, n = cpu_min(PHILOX_WORDS, call->n - first);      \
      type *y = (type *)call->y + first;                                                           \
      draw_words(call, block, words);                                                              \
      for (int64_t i = 0; i < n; i++) y[i] = words[i] <= most ? one : 0;                           \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
BERNOULLI(8, uint8_t)
BERNOULLI(16, uint16_t)
BERNOULLI(32, uint32_t)
BERNOULLI(64, uint64_t)

/* The bits of the number one. */
static uint64_t one_of(DLDataType type) {
  if (type.code == kDLBfloat) return 0x3f80;
  if (type.code != kDLFloat) return 1;
  return type.bits == 16 ? 0x3c00 : type.bits == 32 ? 0x3f800000 : 0x3ff0000000000000;
}

tn_status ISA(bernoulli_any)(const tn_kernel_args *args) {
  const tn_bernoulli_attrs *a = args->attrs;
  const DLDataType type = args->out[0]->dtype;
  draw_call call = {.seed = SCALAR_SEED(a, tn_bernoulli_attrs),
                    .offset = SCALAR_OFFSET(a, tn_bernoulli_attrs)};
  const uint64_t threshold = bernoulli_threshold(a->p);
  call.one = threshold ? one_of(type) : 0;
  call.most = (uint32_t)(threshold - 1);
  tn_range_fn fn = type.bits == 64   ? bernoulli_64
                   : type.bits == 32 ? bernoulli_32
                   : type.bits == 16 ? bernoulli_16
                                     : bernoulli_8;
  return draw_run(args, &call, PHILOX_WORDS, fn);
}

/* ------------------------------------------------------------ multinomial --- */

enum { STRETCH = 256 /* weights that share one sum */ };

/* A row's weights as whole numbers, and their sums by stretches. */
typedef struct weights {
  int64_t n;
  uint64_t *unit, *stretch, sum;
} weights;

static void sum_stretches(weights *w) {
  w->sum = 0;
  for (int64_t s = 0; s * STRETCH < w->n; s++) {
    const int64_t end = cpu_min(w->n, (s + 1) * STRETCH);
    uint64_t sum = 0;
    for (int64_t i = s * STRETCH; i < end; i++) sum += w->unit[i];
    w->stretch[s] = sum;
    w->sum += sum;
  }
}

/* The first place whose sum from 0 on is more than `at`. pre: at < w->sum */
static int64_t place_of(const weights *w, uint64_t at) {
  int64_t s = 0;
  for (; at >= w->stretch[s]; s++) at -= w->stretch[s];
  int64_t i = s * STRETCH;
  for (; at >= w->unit[i]; i++) at -= w->unit[i];
  return i;
}

static void take_out(weights *w, int64_t place) {
  const uint64_t units = w->unit[place];
  w->sum -= units;
  w->stretch[place / STRETCH] -= units;
  w->unit[place] = 0;
}

static void draw_row(const tn_multinomial_attrs *a, int64_t row, weights *w, int64_t *y) {
  const uint64_t seed = SCALAR_SEED(a, tn_multinomial_attrs);
  const uint64_t offset = SCALAR_OFFSET(a, tn_multinomial_attrs);
  for (int64_t k = 0; k < a->samples; k++) {
    const uint64_t number = (uint64_t)(row * a->samples + k);
    y[k] = -1;
    if (w->sum == 0) continue;
    y[k] = place_of(w, draw_below(philox_pair(seed, offset, number), w->sum));
    if (!a->replacement) take_out(w, y[k]);
  }
}

typedef struct multinomial_call {
  const tn_host *host;
  const tn_multinomial_attrs *attrs;
  const void *x;
  int64_t *y, n;
} multinomial_call;

static bool weights_make(const tn_host *host, int64_t n, weights *w) {
  const int64_t room = n + cpu_ceil_div(n, STRETCH);
  *w = (weights){.n = n, .unit = host->alloc(host, (size_t)room * sizeof(uint64_t), 64)};
  w->stretch = w->unit + n;
  if (!w->unit) host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld weights", (long long)n);
  return w->unit;
}

static tn_status multinomial_run(const tn_kernel_args *args, tn_range_fn fn) {
  const DLTensor *x = args->in[0];
  multinomial_call c = {.host = args->host, .attrs = args->attrs, .x = x->data};
  c.y = args->out[0]->data;
  c.n = x->shape[x->ndim - 1];
  const int64_t count = cpu_count(args->out[0]);
  if (count == 0) return TN_OK;
  const int64_t rows = count / c.attrs->samples, grain = 1 + 4096 / (c.n + 1);
  if (rows <= grain) return fn(&c, 0, rows);
  return args->host->parallel_for(args->host, rows, grain, fn, &c);
}

/* --------------------------------------------------------------- randperm --- */

/*
 * Keys are uniform, so that their upper bits deal them into buckets of about as many, which fit
 * a cache. An item is the next bits of a key, 32 in general, above its place; where those are
 * equal, all of the two keys decide, which are then drawn again. A bucket is sorted by its items'
 * upper 16 bits, which leaves little to insertion.
 */
enum {
  BUCKET = 8,            /* keys, where there are few */
  MOST_BUCKET_BITS = 10, /* more would be too many places to write to at a time */
  DEALT = 1 << 16,       /* keys that are drawn and dealt by one thread at the least */
};

typedef struct permuting {
  draw_call draw;
  int bits, low; /* bits that name a bucket; of an item, those that are its place */
  int64_t parts, longest;
  int64_t *at;    /* [parts, buckets]: keys of a part in a bucket, then where they go */
  int64_t *start; /* [buckets + 1] */
  uint64_t *items;
  int wide; /* y is of 64 bits */
  const tn_host *host;
} permuting;

static inline uint64_t item_of(const permuting *p, uint64_t key, int64_t place) {
  return key << p->bits >> p->low << p->low | (uint64_t)place;
}

static inline uint64_t place_of_item(const permuting *p, uint64_t item) {
  return item & (((uint64_t)1 << p->low) - 1);
}

static bool comes_before(const permuting *p, uint64_t a, uint64_t b) {
  if (a >> p->low != b >> p->low) return a < b;
  const uint64_t i = place_of_item(p, a), j = place_of_item(p, b);
  const uint64_t x = philox_pair(p->draw.seed, p->draw.offset, i);
  const uint64_t y = philox_pair(p->draw.seed, p->draw.offset, j);
  return x < y || (x == y && i < j);
}

/* pre: p->parts share all blocks of words. */
static int64_t first_block(const permuting *p, int64_t part) {
  return radix_begin(cpu_ceil_div(p->draw.n, PAIRS), p->parts, part);
}

static tn_status count_keys(void *ctx, int64_t begin, int64_t end) {
  const permuting *p = ctx;
  uint32_t words[PHILOX_WORDS];
  for (int64_t part = begin; part < end; part++) {
    int64_t *at = p->at + (part << p->bits);
    memset(at, 0, sizeof *at << p->bits);
    for (int64_t b = first_block(p, part); b < first_block(p, part + 1); b++) {
      const int64_t n = cpu_min(PAIRS, p->draw.n - b * PAIRS);
      draw_words(&p->draw, b, words);
      for (int64_t i = 0; i < n; i++) at[words[2 * i + 1] >> (32 - p->bits)]++;
    }
  }
  return TN_OK;
}

static tn_status deal_keys(void *ctx, int64_t begin, int64_t end) {
  const permuting *p = ctx;
  uint32_t words[PHILOX_WORDS];
  for (int64_t part = begin; part < end; part++) {
    int64_t *at = p->at + (part << p->bits);
    for (int64_t b = first_block(p, part); b < first_block(p, part + 1); b++) {
      const int64_t first = b * PAIRS, n = cpu_min(PAIRS, p->draw.n - first);
      draw_words(&p->draw, b, words);
      for (int64_t i = 0; i < n; i++) {
        const int64_t place = at[words[2 * i + 1] >> (32 - p->bits)]++;
        __builtin_prefetch(p->items + place + 8, 1);
        p->items[place] = item_of(p, pair_of(words, i), first + i);
      }
    }
  }
  return TN_OK;
}

/* Where each part's first key of a bucket goes. */
static void place_keys(permuting *p) {
  int64_t sum = 0;
  for (int64_t b = 0; b < (int64_t)1 << p->bits; b++) {
    p->start[b] = sum;
    for (int64_t part = 0; part < p->parts; part++) {
      int64_t *at = &p->at[(part << p->bits) + b];
      const int64_t count = *at;
      *at = sum;
      sum += count;
    }
    p->longest = cpu_max(p->longest, sum - p->start[b]);
  }
  p->start[(int64_t)1 << p->bits] = sum;
}

#define OWN_KEY(x) (x)
RADIX_SORTER(item, uint64_t, OWN_KEY)

static void sort_bucket(const permuting *p, int64_t b, uint64_t *space, radix_room *room) {
  const int64_t first = p->start[b], n = p->start[b + 1] - first;
  uint64_t *a = p->items + first;
  if (n > RADIX_SHORT) a = item_sort(a, space, n, 48, 16, 1, room);
  for (int64_t i = 1; i < n; i++) {
    const uint64_t x = a[i];
    int64_t k = i;
    for (; k > 0 && comes_before(p, x, a[k - 1]); k--) a[k] = a[k - 1];
    a[k] = x;
  }
  for (int64_t i = 0; i < n; i++) {
    const int64_t place = (int64_t)place_of_item(p, a[i]);
    if (p->wide)
      ((int64_t *)p->draw.y)[first + i] = place;
    else
      ((int32_t *)p->draw.y)[first + i] = (int32_t)place;
  }
}

static tn_status sort_buckets(void *ctx, int64_t begin, int64_t end) {
  const permuting *p = ctx;
  const size_t histograms = radix_room_bytes(1);
  char *room = p->host->alloc(p->host, histograms + (size_t)p->longest * sizeof(uint64_t), 64);
  if (!room) return p->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to sort keys in");
  for (int64_t b = begin; b < end; b++)
    sort_bucket(p, b, (uint64_t *)(void *)(room + histograms), (radix_room *)(void *)room);
  p->host->free(p->host, room);
  return TN_OK;
}

static tn_status permute(permuting *p) {
  const tn_host *host = p->host;
  const int64_t buckets = (int64_t)1 << p->bits;
  tn_status status = host->parallel_for(host, p->parts, 1, count_keys, p);
  if (status) return status;
  place_keys(p);
  status = host->parallel_for(host, p->parts, 1, deal_keys, p);
  if (status) return status;
  return host->parallel_for(host, buckets, cpu_max(1, DEALT * buckets / cpu_max(1, p->draw.n)),
                            sort_buckets, p);
}

tn_status ISA(randperm_any)(const tn_kernel_args *args) {
  const tn_randperm_attrs *a = args->attrs;
  const tn_host *host = args->host;
  const DLTensor *y = args->out[0];
  permuting p = {.host = host, .wide = y->dtype.bits == 64, .bits = 1};
  p.draw = (draw_call){.y = y->data,
                       .n = y->shape[0],
                       .seed = SCALAR_SEED(a, tn_randperm_attrs),
                       .offset = SCALAR_OFFSET(a, tn_randperm_attrs)};
  p.low = p.draw.n <= UINT32_MAX ? 32 : 44;
  while (p.bits < MOST_BUCKET_BITS && (int64_t)BUCKET << p.bits < p.draw.n) p.bits++;
  p.parts = cpu_min(cpu_max(1, p.draw.n / DEALT), (int64_t)host->num_threads);
  const int64_t buckets = (int64_t)1 << p.bits;
  const int64_t numbers = p.draw.n + p.parts * buckets + buckets + 1;
  p.items = host->alloc(host, (size_t)numbers * sizeof(int64_t), 64);
  if (!p.items)
    return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld keys", (long long)p.draw.n);
  p.at = (int64_t *)p.items + p.draw.n;
  p.start = p.at + p.parts * buckets;
  const tn_status status = permute(&p);
  host->free(host, p.items);
  return status;
}

#define BODY "kernels/cpu/random/draw.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
