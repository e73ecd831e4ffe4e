/*
 * Random ones, integers, bounded normal numbers, draws by weight and permutations. Element
 * i takes word i of the sequence, or words 2 i and 2 i + 1; loops go by blocks of words.
 */
#include <math.h>
#include <string.h>

#include "kernels/common/draws.h"
#include "kernels/common/scalars.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/random/philox_block.h"

enum { PAIRS = PHILOX_WORDS / 2 };

typedef struct draw_call {
  void *y;
  int64_t n;
  uint64_t seed, offset;
  uint64_t threshold, one; /* bernoulli: below this are ones; the bits of a one */
  uint64_t low, span;      /* randint */
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

/* -------------------------------------------------------------- bernoulli --- */

#define BERNOULLI(bits, type)                                                                      \
  static tn_status bernoulli_##bits(void *ctx, int64_t begin, int64_t end) {                       \
    const draw_call *call = ctx;                                                                   \
    const type one = (type)call->one;                                                              \
    uint32_t words[PHILOX_WORDS];                                                                  \
    for (int64_t block = begin; block < end; block++) {                                            \
      const int64_t first = block * PHILOX_WORDS, n = cpu_min(PHILOX_WORDS, call->n - first);      \
      type *y = (type *)call->y + first;                                                           \
      draw_words(call, block, words);                                                              \
      for (int64_t i = 0; i < n; i++) y[i] = words[i] < call->threshold ? one : 0;                 \
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
                    .offset = SCALAR_OFFSET(a, tn_bernoulli_attrs),
                    .one = one_of(type)};
  call.threshold = bernoulli_threshold(a->p);
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

typedef struct keyed {
  uint64_t key;
  int64_t place;
} keyed;

static bool comes_before(keyed a, keyed b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}

static void insertion_sort(keyed *list, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    const keyed x = list[i];
    int64_t j = i;
    for (; j > 0 && comes_before(x, list[j - 1]); j--) list[j] = list[j - 1];
    list[j] = x;
  }
}

typedef void (*key_fn)(void *ctx, uint64_t key, int64_t place);

static void each_key(const draw_call *call, key_fn fn, void *ctx) {
  uint32_t words[PHILOX_WORDS];
  for (int64_t i = 0; i < call->n; i++) {
    if (i % PAIRS == 0) draw_words(call, i / PAIRS, words);
    fn(ctx, pair_of(words, i % PAIRS), i);
  }
}

/* Keys dealt into buckets by their upper bits: keys are uniform, so buckets are small. */
typedef struct buckets {
  keyed *list;
  int64_t *start; /* of bucket b at [b + 1] while dealing, at [b] afterwards */
  int shift;
} buckets;

static void count_key(void *ctx, uint64_t key, int64_t place) {
  buckets *b = ctx;
  (void)place;
  b->start[(key >> b->shift) + 2]++;
}

static void deal_key(void *ctx, uint64_t key, int64_t place) {
  buckets *b = ctx;
  b->list[b->start[(key >> b->shift) + 1]++] = (keyed){key, place};
}

static void sort_keys(const draw_call *call, buckets *b, int64_t count) {
  memset(b->start, 0, (size_t)(count + 2) * sizeof *b->start);
  each_key(call, count_key, b);
  for (int64_t i = 2; i < count + 2; i++) b->start[i] += b->start[i - 1];
  each_key(call, deal_key, b);
  for (int64_t i = 0; i < count; i++)
    insertion_sort(b->list + b->start[i], b->start[i + 1] - b->start[i]);
}

tn_status ISA(randperm_any)(const tn_kernel_args *args) {
  const tn_randperm_attrs *a = args->attrs;
  const DLTensor *y = args->out[0];
  const draw_call call = {.n = y->shape[0],
                          .seed = SCALAR_SEED(a, tn_randperm_attrs),
                          .offset = SCALAR_OFFSET(a, tn_randperm_attrs)};
  int bits = 1;
  while ((int64_t)8 << bits < call.n) bits++;
  const int64_t count = (int64_t)1 << bits;
  const size_t list_bytes = (size_t)call.n * sizeof(keyed);
  char *room =
      args->host->alloc(args->host, list_bytes + (size_t)(count + 2) * sizeof(int64_t), 64);
  if (!room)
    return args->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld keys", (long long)call.n);
  buckets b = {(keyed *)(void *)room, (int64_t *)(void *)(room + list_bytes), 64 - bits};
  sort_keys(&call, &b, count);
  for (int64_t i = 0; i < call.n; i++) {
    if (y->dtype.bits == 32)
      ((int32_t *)y->data)[i] = (int32_t)b.list[i].place;
    else
      ((int64_t *)y->data)[i] = b.list[i].place;
  }
  args->host->free(args->host, room);
  return TN_OK;
}

#define BODY "kernels/cpu/random/draw.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
