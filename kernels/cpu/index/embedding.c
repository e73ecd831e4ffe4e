/*
 * Rows of a table by their numbers, the gradient of that, and rotary positions. The
 * gradient sorts the places by row first, so that each row is summed by one thread in the
 * order of its places.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

enum { GRAD_STRETCH = 32 /* places that are summed by themselves */ };

static int64_t number_at(const DLTensor *t, int64_t i) {
  return t->dtype.bits == 32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

typedef struct embedding_call {
  const char *table;
  const DLTensor *index;
  char *y;
  int64_t rows, row_bytes;
} embedding_call;

static tn_status embedding_range(void *ctx, int64_t begin, int64_t end) {
  const embedding_call *c = ctx;
  for (int64_t i = begin; i < end; i++) {
    const int64_t row = number_at(c->index, i);
    char *to = c->y + i * c->row_bytes;
    if (row >= 0 && row < c->rows)
      memcpy(to, c->table + row * c->row_bytes, (size_t)c->row_bytes);
    else
      memset(to, 0, (size_t)c->row_bytes);
  }
  return TN_OK;
}

tn_status ISA(embedding_any)(const tn_kernel_args *args) {
  const DLTensor *table = args->in[0], *index = args->in[1];
  embedding_call c = {.table = table->data,
                      .index = index,
                      .y = args->out[0]->data,
                      .rows = table->shape[0],
                      .row_bytes = table->shape[1] * ((table->dtype.bits + 7) / 8)};
  const int64_t n = cpu_count(index), grain = 1 + 131072 / (c.row_bytes + 1);
  if (c.row_bytes == 0 || n == 0) return TN_OK;
  if (n <= grain) return embedding_range(&c, 0, n);
  return args->host->parallel_for(args->host, n, grain, embedding_range, &c);
}

/* The places of each row in order: those of row r stand at start[r] .. start[r + 1]. */
typedef struct places {
  int64_t *start, *place;
} places;

typedef struct embedding_grad_call {
  const tn_host *host;
  const void *dy;
  void *dtable;
  int64_t rows, d;
  places by_row;
} embedding_grad_call;

/* The rows of a table, which of them has no gradient, and how they are numbered. */
typedef struct numbering {
  int64_t rows, skip;
  bool from_end;
} numbering;

static bool counts(const DLTensor *index, int64_t i, const numbering *n, int64_t *row) {
  *row = number_at(index, i);
  if (n->from_end && *row < 0 && *row >= -n->rows) *row += n->rows;
  return *row >= 0 && *row < n->rows && *row != n->skip;
}

/* A counting sort. start has rows + 2 elements: counts are kept one place further on until
 * the places have been dealt out. */
static void sort_places(const DLTensor *index, const numbering *how, places *p) {
  const int64_t n = cpu_count(index), rows = how->rows;
  int64_t row;
  memset(p->start, 0, (size_t)(rows + 2) * sizeof *p->start);
  for (int64_t i = 0; i < n; i++)
    if (counts(index, i, how, &row)) p->start[row + 2]++;
  for (int64_t r = 2; r < rows + 2; r++) p->start[r] += p->start[r - 1];
  for (int64_t i = 0; i < n; i++)
    if (counts(index, i, how, &row)) p->place[p->start[row + 1]++] = i;
}

static tn_status embedding_grad_run(const tn_kernel_args *args, tn_range_fn fn) {
  const tn_embedding_grad_attrs *attrs = args->attrs;
  const DLTensor *dtable = args->out[0];
  embedding_grad_call c = {.host = args->host,
                           .dy = args->in[0]->data,
                           .dtable = dtable->data,
                           .rows = dtable->shape[0],
                           .d = dtable->shape[1]};
  const int64_t n = cpu_count(args->in[1]);
  if (c.rows * c.d == 0) return TN_OK;
  c.by_row.start = c.host->alloc(c.host, (size_t)(c.rows + 2 + n) * sizeof(int64_t), 64);
  if (!c.by_row.start)
    return c.host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to sort %lld rows", (long long)n);
  c.by_row.place = c.by_row.start + c.rows + 2;
  const numbering how = {c.rows, attrs->padding_index,
                         TN_FIELD_OR(attrs, tn_embedding_grad_attrs, from_end, 0)};
  sort_places(args->in[1], &how, &c.by_row);
  const int64_t grain = 1 + CPU_GRAIN_CHEAP / c.d;
  tn_status status =
      c.rows <= grain ? fn(&c, 0, c.rows) : c.host->parallel_for(c.host, c.rows, grain, fn, &c);
  c.host->free(c.host, c.by_row.start);
  return status;
}

typedef struct rope_call {
  const void *x, *cosine, *sine;
  void *y;
  const DLTensor *positions; /* or NULL */
  int64_t heads, s, d, half, rows;
  bool interleaved, inverse;
} rope_call;

/* The row of the tables for vector v, -1 if there is none. */
static int64_t rope_row(const rope_call *c, int64_t v) {
  const int64_t i = v % c->s, b = v / c->s / c->heads;
  const int64_t row = c->positions ? number_at(c->positions, b * c->s + i) : i;
  return row >= 0 && row < c->rows ? row : -1;
}

static tn_status rope_run(const tn_kernel_args *args, tn_range_fn fn) {
  const tn_rope_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[0], *cosine = args->in[1];
  rope_call c = {.x = x->data,
                 .cosine = cosine->data,
                 .sine = args->in[2]->data,
                 .y = args->out[0]->data,
                 .positions = args->in[3],
                 .heads = x->shape[1],
                 .s = x->shape[2],
                 .d = x->shape[3],
                 .half = cosine->shape[1],
                 .rows = cosine->shape[0],
                 .interleaved = attrs->interleaved,
                 .inverse = attrs->inverse};
  const int64_t vectors = x->shape[0] * c.heads * c.s, grain = 1 + CPU_GRAIN_CHEAP / (c.d + 1);
  if (vectors * c.d == 0) return TN_OK;
  if (vectors <= grain) return fn(&c, 0, vectors);
  return args->host->parallel_for(args->host, vectors, grain, fn, &c);
}

#define BODY "kernels/cpu/index/embedding.inc"
#include "kernels/cpu/base/stamp_float.inc"
