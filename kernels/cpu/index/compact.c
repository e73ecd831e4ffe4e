/*
 * nonzero and masked_select: hits are counted in parts, then each part writes where its
 * predecessors end. Every element is written to the place of the next hit, which it keeps if it
 * is one: there is no branch to guess wrong. All tensors are dense.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

enum {
  PARTS = 64,
  COUNTED = 128, /* elements whose hits are counted in their own type */
  CHUNK = 256,   /* elements whose hits are found before they are written */
  SPARSE = 16,   /* elements for a hit, from which on eight at a time are passed over */
};

typedef struct compaction {
  const void *x;
  const DLTensor *shape;
  const uint8_t *mask; /* or NULL: x is its own */
  void *y;
  uint64_t keep; /* the bits of x that are not all 0 in a hit */
  int64_t n, part;
  int64_t first[PARTS + 1]; /* hits in a part, then hits before it */
} compaction;

static int64_t part_end(const compaction *c, int64_t part) {
  return cpu_min((part + 1) * c->part, c->n);
}

#define COUNT_HITS(bits, U)                                                                        \
  static int64_t hits_##bits(const U *x, int64_t n, U mask) {                                      \
    int64_t sum = 0;                                                                               \
    for (int64_t i = 0; i < n; i += COUNTED) {                                                     \
      const int64_t m = cpu_min(COUNTED, n - i);                                                   \
      U hits = 0;                                                                                  \
      for (int64_t j = 0; j < m; j++) hits = (U)(hits + ((x[i + j] & mask) != 0));                 \
      sum += (int64_t)hits;                                                                        \
    }                                                                                              \
    return sum;                                                                                    \
  }                                                                                                \
  static tn_status count_##bits(void *ctx, int64_t begin, int64_t end) {                           \
    compaction *c = ctx;                                                                           \
    const U *x = c->mask ? (const void *)c->mask : c->x;                                           \
    for (int64_t p = begin; p < end; p++) {                                                        \
      const int64_t from = p * c->part;                                                            \
      c->first[p + 1] = hits_##bits(x + from, part_end(c, p) - from, (U)c->keep);                  \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
COUNT_HITS(8, uint8_t)
COUNT_HITS(16, uint16_t)
COUNT_HITS(32, uint32_t)
COUNT_HITS(64, uint64_t)

#define BY_BITS(name, bits)                                                                        \
  ((bits) == 8 ? name##_8 : (bits) == 16 ? name##_16 : (bits) == 32 ? name##_32 : name##_64)

/* Counts, then writes; the number of hits goes to `count`. */
static tn_status compact(const tn_host *host, compaction *c, tn_range_fn hits, tn_range_fn write,
                         int64_t *count) {
  c->part = cpu_max(CPU_GRAIN_CHEAP, cpu_ceil_div(c->n, PARTS));
  const int64_t parts = cpu_ceil_div(c->n, c->part);
  tn_status status = parts ? host->parallel_for(host, parts, 1, hits, c) : TN_OK;
  for (int64_t p = 0; p < parts; p++) c->first[p + 1] += c->first[p];
  if (parts && status == TN_OK) status = host->parallel_for(host, parts, 1, write, c);
  *count = c->first[parts];
  return status;
}

/* ---------------------------------------------------------- masked_select --- */

/* select: all hits of a part. Once the last is written nothing is, for the next place is
 * another part's. pick: the same where there are few. */
#define SELECT_LOOPS(bits, U)                                                                      \
  static void select_##bits(const U *x, const uint8_t *mask, int64_t hits, U *y) {                 \
    int64_t at = 0;                                                                                \
    for (int64_t i = 0; at < hits; i++) {                                                          \
      y[at] = x[i];                                                                                \
      at += mask[i] != 0;                                                                          \
    }                                                                                              \
  }                                                                                                \
  static void pick_##bits(const U *x, const uint8_t *mask, int64_t n, U *y) {                      \
    for (int64_t i = 0; i < n; i += 8) {                                                           \
      const int64_t m = cpu_min(8, n - i);                                                         \
      uint64_t any = 0;                                                                            \
      memcpy(&any, mask + i, (size_t)m);                                                           \
      for (int64_t j = 0; any && j < m; j++)                                                       \
        if (mask[i + j]) *y++ = x[i + j];                                                          \
    }                                                                                              \
  }                                                                                                \
  static tn_status take_##bits(void *ctx, int64_t begin, int64_t end) {                            \
    const compaction *c = ctx;                                                                     \
    for (int64_t p = begin; p < end; p++) {                                                        \
      const int64_t from = p * c->part, n = part_end(c, p) - from;                                 \
      const int64_t hits = c->first[p + 1] - c->first[p];                                          \
      const U *x = (const U *)c->x + from;                                                         \
      U *y = (U *)c->y + c->first[p];                                                              \
      if (hits == n)                                                                               \
        memcpy(y, x, (size_t)n * sizeof(U));                                                       \
      else if (hits < n / SPARSE)                                                                  \
        pick_##bits(x, c->mask + from, n, y);                                                      \
      else                                                                                         \
        select_##bits(x, c->mask + from, hits, y);                                                 \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
SELECT_LOOPS(8, uint8_t)
SELECT_LOOPS(16, uint16_t)
SELECT_LOOPS(32, uint32_t)
SELECT_LOOPS(64, uint64_t)

tn_status ISA(masked_select_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  compaction c = {.x = x->data, .mask = args->in[1]->data, .y = args->out[0]->data};
  c.keep = UINT8_MAX;
  c.n = cpu_count(x);
  return compact(args->host, &c, count_8, BY_BITS(take, x->dtype.bits), args->out[1]->data);
}

/* ---------------------------------------------------------------- nonzero --- */

/* The coordinates of one row of x, from one hit in it to the next. */
typedef struct row {
  int64_t first, last; /* flat indexes of the row */
  int64_t at[TN_MAX_RANK];
} row;

/* Goes to the row that holds flat index i. pre: i is in a later row */
static void find_row(const DLTensor *x, int64_t i, row *r) {
  const int inner = x->ndim - 1;
  const int64_t width = x->shape[inner];
  if (r->last && i < r->last + width) {
    int d = inner - 1;
    for (; ++r->at[d] == x->shape[d]; d--) r->at[d] = 0;
    r->first = r->last;
  } else {
    int64_t rest = i / width;
    r->first = rest * width;
    for (int d = inner - 1; d >= 0; d--) {
      r->at[d] = rest % x->shape[d];
      rest /= x->shape[d];
    }
  }
  r->last = r->first + width;
}

/* Writes the coordinates of the `hits` elements first + place[k]; returns the end. */
static int64_t *write_places(const DLTensor *x, row *r, int64_t first, const uint16_t *place,
                             int64_t hits, int64_t *y) {
  const int inner = x->ndim - 1;
  if (inner == 0)
    for (int64_t k = 0; k < hits; k++) y[k] = first + place[k];
  for (int64_t k = 0; inner > 0 && k < hits; k++) {
    const int64_t i = first + place[k];
    int64_t *to = y + k * x->ndim;
    if (i >= r->last) find_row(x, i, r);
    for (int d = 0; d < inner; d++) to[d] = r->at[d];
    to[inner] = i - r->first;
  }
  return y + hits * x->ndim;
}

#define FIND_LOOPS(bits, U)                                                                        \
  static tn_status find_##bits(void *ctx, int64_t begin, int64_t end) {                            \
    const compaction *c = ctx;                                                                     \
    const U *x = c->x, mask = (U)c->keep;                                                          \
    uint16_t place[CHUNK];                                                                         \
    for (int64_t p = begin; p < end; p++) {                                                        \
      const int64_t last = part_end(c, p);                                                         \
      int64_t *y = (int64_t *)c->y + c->first[p] * c->shape->ndim;                                 \
      row r = {0};                                                                                 \
      for (int64_t i = p * c->part; i < last; i += CHUNK) {                                        \
        const int64_t m = cpu_min(CHUNK, last - i);                                                \
        int64_t hits = 0;                                                                          \
        for (int64_t j = 0; j < m; j++) {                                                          \
          place[hits] = (uint16_t)j;                                                               \
          hits += (x[i + j] & mask) != 0;                                                          \
        }                                                                                          \
        y = write_places(c->shape, &r, i, place, hits, y);                                         \
      }                                                                                            \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
FIND_LOOPS(8, uint8_t)
FIND_LOOPS(16, uint16_t)
FIND_LOOPS(32, uint32_t)
FIND_LOOPS(64, uint64_t)

tn_status ISA(nonzero_any)(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  const int bits = x->dtype.bits;
  const bool real = x->dtype.code == kDLFloat || x->dtype.code == kDLBfloat;
  compaction c = {.x = x->data, .shape = x, .y = args->out[0]->data, .n = cpu_count(x)};
  c.keep = real ? ~(UINT64_C(1) << (bits - 1)) : ~UINT64_C(0);
  return compact(args->host, &c, BY_BITS(count, bits), BY_BITS(find, bits), args->out[1]->data);
}
