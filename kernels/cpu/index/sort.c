/*
 * Sorting by key (kernels/common/order_key.h), least digit first, which is stable. Elements of
 * up to 32 bits travel as one word: key above, place below; 64-bit elements as a pair.
 * topk first throws away all that a histogram of the upper digits shows to be beaten.
 */
#include <string.h>

#include "kernels/common/order_key.h"
#include "kernels/cpu/cpu.h"

enum {
  DIGIT = 8,
  DIGITS = 1 << DIGIT,
  SHORT_ROW = 48, /* up to here insertion is faster */
  UPPER = 12,     /* bits of topk's histogram */
};

typedef struct pair {
  uint64_t key, place;
} pair;

static order_type type_of(const DLTensor *x, bool descending) {
  order_type t = {.bits = x->dtype.bits, .descending = descending};
  t.is_signed = x->dtype.code == kDLInt;
  if (x->dtype.code == kDLBfloat) t.infinity = 0x7f80;
  if (x->dtype.code == kDLFloat)
    t.infinity = t.bits == 16 ? 0x7c00u : t.bits == 32 ? 0x7f800000u : 0x7ff0000000000000u;
  return t;
}

static inline uint64_t bits_at(const char *x, int64_t i, int bits) {
  switch (bits) {
  case 8:
    return ((const uint8_t *)x)[i];
  case 16:
    return ((const uint16_t *)(const void *)x)[i];
  case 32:
    return ((const uint32_t *)(const void *)x)[i];
  default:
    return ((const uint64_t *)(const void *)x)[i];
  }
}

static inline void bits_copy(char *y, int64_t to, const char *x, int64_t from, int bits) {
  switch (bits) {
  case 8:
    ((uint8_t *)y)[to] = ((const uint8_t *)x)[from];
    break;
  case 16:
    ((uint16_t *)(void *)y)[to] = ((const uint16_t *)(const void *)x)[from];
    break;
  case 32:
    ((uint32_t *)(void *)y)[to] = ((const uint32_t *)(const void *)x)[from];
    break;
  default:
    ((uint64_t *)(void *)y)[to] = ((const uint64_t *)(const void *)x)[from];
  }
}

/* Sorters over two kinds of items: KEY(item) is the key, of BITS bits from bit FIRST. */
#define SORTER(name, item, KEY)                                                                    \
  static void name##_insert(item *a, int64_t n) {                                                  \
    for (int64_t i = 1; i < n; i++) {                                                              \
      const item x = a[i];                                                                         \
      int64_t k = i;                                                                               \
      for (; k > 0 && KEY(x) < KEY(a[k - 1]); k--) a[k] = a[k - 1];                                \
      a[k] = x;                                                                                    \
    }                                                                                              \
  }                                                                                                \
  /* Sorts a by its keys of `bits` bits, with room for as many; returns where the result is. */    \
  static item *name##_sort(item *a, item *room, int64_t n, int bits) {                             \
    if (n <= SHORT_ROW) return name##_insert(a, n), a;                                             \
    int64_t count[8][DIGITS];                                                                      \
    const int digits = bits / DIGIT;                                                               \
    memset(count, 0, (size_t)digits * sizeof *count);                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
      for (int d = 0; d < digits; d++) count[d][KEY(a[i]) >> d * DIGIT & (DIGITS - 1)]++;          \
    for (int d = 0; d < digits; d++) {                                                             \
      int64_t sum = 0;                                                                             \
      if (count[d][KEY(a[0]) >> d * DIGIT & (DIGITS - 1)] == n) continue;                          \
      for (int j = 0; j < DIGITS; j++) {                                                           \
        const int64_t c = count[d][j];                                                             \
        count[d][j] = sum;                                                                         \
        sum += c;                                                                                  \
      }                                                                                            \
      for (int64_t i = 0; i < n; i++)                                                              \
        room[count[d][KEY(a[i]) >> d * DIGIT & (DIGITS - 1)]++] = a[i];                            \
      item *const swap = a;                                                                        \
      a = room;                                                                                    \
      room = swap;                                                                                 \
    }                                                                                              \
    return a;                                                                                      \
  }
#define WORD_KEY(x) ((x) >> 32)
#define PAIR_KEY(x) ((x).key)
SORTER(word, uint64_t, WORD_KEY)
SORTER(pair, pair, PAIR_KEY)

/* One slice at work: n elements `step` apart. */
typedef struct slice {
  const char *x;
  int64_t n, step;
  order_type type;
  void *room; /* two arrays of n items */
  bool words; /* items are words */
} slice;

static bool fits_words(int bits, int64_t n) { return bits <= 32 && n <= UINT32_MAX; }

static size_t room_bytes(int bits, int64_t n) {
  return 2 * (size_t)cpu_max(n, 1) * (fits_words(bits, n) ? sizeof(uint64_t) : sizeof(pair));
}

static inline void put_item(const slice *s, int64_t at, uint64_t key, int64_t place) {
  if (s->words)
    ((uint64_t *)s->room)[at] = key << 32 | (uint64_t)place;
  else
    ((pair *)s->room)[at] = (pair){key, (uint64_t)place};
}

static inline uint64_t key_of(const slice *s, int64_t i) {
  return order_key(bits_at(s->x, i * s->step, s->type.bits), s->type);
}

static void take_all(const slice *s) {
  for (int64_t i = 0; i < s->n; i++) put_item(s, i, key_of(s, i), i);
}

/* Takes the elements whose upper digits do not rule them out of the first k; returns how
 * many those are. */
static int64_t take_best(const slice *s, int64_t k) {
  int64_t count[1 << UPPER] = {0}, taken = 0, sum = 0;
  const int shift = s->type.bits > UPPER ? s->type.bits - UPPER : 0;
  uint64_t last = 0;
  for (int64_t i = 0; i < s->n; i++) count[key_of(s, i) >> shift]++;
  while ((sum += count[last]) < k) last++;
  for (int64_t i = 0; i < s->n; i++) {
    const uint64_t key = key_of(s, i);
    if (key >> shift <= last) put_item(s, taken++, key, i);
  }
  return taken;
}

/* Sorts the `taken` items; place_at then tells where item i stood. */
static const void *sort_items(const slice *s, int64_t taken) {
  if (s->words) {
    uint64_t *items = s->room;
    return word_sort(items, items + s->n, taken, s->type.bits);
  }
  pair *items = s->room;
  return pair_sort(items, items + s->n, taken, s->type.bits);
}

static inline int64_t place_at(const slice *s, const void *sorted, int64_t i) {
  return s->words ? (int64_t)(((const uint64_t *)sorted)[i] & UINT32_MAX)
                  : (int64_t)((const pair *)sorted)[i].place;
}

static inline uint64_t key_at(const slice *s, const void *sorted, int64_t i) {
  return s->words ? ((const uint64_t *)sorted)[i] >> 32 : ((const pair *)sorted)[i].key;
}

/* A call: slices of [outer, n, inner] to k elements each. */
typedef struct sorting {
  const tn_host *host;
  const DLTensor *x, *y, *index; /* y or index may be NULL */
  cpu_axis_view view;
  int64_t k;
  bool descending;
} sorting;

static void sort_slice(const sorting *call, int64_t o, void *room) {
  const cpu_axis_view v = call->view;
  const int bits = call->x->dtype.bits;
  const int64_t from = o / v.inner * v.size * v.inner + o % v.inner;
  const int64_t to = o / v.inner * call->k * v.inner + o % v.inner;
  slice s = {.x = (const char *)call->x->data + from * (bits / 8), .n = v.size, .step = v.inner};
  s.type = type_of(call->x, call->descending);
  s.room = room;
  s.words = fits_words(bits, v.size);
  const bool few = v.size > 1 << UPPER && call->k < v.size / 4;
  int64_t taken = v.size;
  if (few)
    taken = take_best(&s, call->k);
  else
    take_all(&s);
  const void *sorted = sort_items(&s, taken);
  for (int64_t i = 0; i < call->k; i++) {
    const int64_t place = place_at(&s, sorted, i), at = to + i * v.inner;
    if (call->y) bits_copy(call->y->data, at, s.x, place * s.step, bits);
    if (call->index) ((int64_t *)call->index->data)[at] = place;
  }
}

static tn_status sort_range(void *ctx, int64_t begin, int64_t end) {
  const sorting *call = ctx;
  const size_t bytes = room_bytes(call->x->dtype.bits, call->view.size);
  void *room = call->host->alloc(call->host, bytes, 64);
  if (!room) return call->host->fail(TN_ERR_OUT_OF_MEMORY, "no %zu bytes to sort in", bytes);
  for (int64_t o = begin; o < end; o++) sort_slice(call, o, room);
  call->host->free(call->host, room);
  return TN_OK;
}

static tn_status sort_run(const tn_kernel_args *args, const DLTensor *y, const DLTensor *index,
                          int64_t axis, bool descending) {
  sorting call = {args->host, args->in[0], y, index, cpu_view_axis(args->in[0], axis),
                  0,          descending};
  const DLTensor *shown = y ? y : index;
  call.k = shown->shape[axis < 0 ? axis + shown->ndim : axis];
  const int64_t n = call.k ? call.view.outer * call.view.inner : 0;
  const int64_t grain = cpu_max(1, CPU_GRAIN_SLOW / cpu_max(1, call.view.size));
  if (n <= grain) return n ? sort_range(&call, 0, n) : TN_OK;
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

/* pre: tensors are contiguous. */
tn_status ISA(unique_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  const int bits = x->dtype.bits;
  slice s = {.x = x->data, .n = cpu_count(x), .step = 1, .type = type_of(x, false)};
  int64_t *counts = args->out[1] ? args->out[1]->data : NULL, count = 0;
  s.words = fits_words(bits, s.n);
  s.room = args->host->alloc(args->host, room_bytes(bits, s.n), 64);
  if (!s.room) return args->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to sort in");
  take_all(&s);
  const void *sorted = sort_items(&s, s.n);
  for (int64_t i = 0; i < s.n; i++) {
    if (i == 0 || key_at(&s, sorted, i) != key_at(&s, sorted, i - 1)) {
      bits_copy(args->out[0]->data, count, s.x, place_at(&s, sorted, i), bits);
      if (counts) counts[count] = 0;
      count++;
    }
    if (counts) counts[count - 1]++;
  }
  *(int64_t *)args->out[2]->data = count;
  args->host->free(args->host, s.room);
  return TN_OK;
}
