/*
 * matmul_integer: products of 8-bit integers. Operands less their zero points fit 16 bits
 * whatever their signs, so both are unpacked to int16 once, a by rows and b by columns, and
 * every element of y is a scalar product of two dense rows: multiplying pairs of int16 into
 * int32 is one instruction since SSE2. A tile of them is computed together, so that rows of
 * a and b that were loaded are used several times.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

/* A block of y is BLOCK_ROWS high and as wide as columns of b stay in a core's cache. */
enum { TILE = 4, BLOCK_ROWS = 128, PANEL_BYTES = 256 * 1024 };

typedef struct byte_matrix {
  const uint8_t *data;
  bool is_signed;
  int64_t vectors, length, step, along; /* vectors `step` apart, their elements `along` */
  int64_t batch[TN_MAX_RANK];           /* steps of the batch axes */
  int64_t zero;
  int16_t *wide; /* [batches of its own, vectors, pitch] */
} byte_matrix;

typedef struct integer_call {
  const tn_host *host;
  byte_matrix a, b;
  int rank; /* batch axes */
  int64_t size[TN_MAX_RANK];
  int64_t m, n, pitch, block_n, blocks_m, blocks_n;
  int32_t *y;
  int64_t y_row, y_col, y_batch[TN_MAX_RANK];
} integer_call;

static int64_t zero_of(const DLTensor *t) {
  if (!t) return 0;
  return t->dtype.code == kDLInt ? *(const int8_t *)t->data : *(const uint8_t *)t->data;
}

static void batch_steps(const DLTensor *t, const integer_call *c, int64_t *step) {
  const int behind = c->rank - (t->ndim - 2);
  for (int d = 0; d < c->rank; d++)
    step[d] = d < behind || t->shape[d - behind] == 1 ? 0 : t->strides[d - behind];
}

/* The rows of a, or the columns of b. */
static byte_matrix matrix_of(const DLTensor *t, bool columns, const DLTensor *zero,
                             const integer_call *c) {
  const int row = t->ndim - 2, col = t->ndim - 1;
  byte_matrix x = {.data = t->data,
                   .is_signed = t->dtype.code == kDLInt,
                   .vectors = t->shape[columns ? col : row],
                   .length = t->shape[columns ? row : col],
                   .step = t->strides[columns ? col : row],
                   .along = t->strides[columns ? row : col],
                   .zero = zero_of(zero)};
  batch_steps(t, c, x.batch);
  return x;
}

/* Elements from the first matrix to matrix `item`; and which of its own matrices that is. */
static int64_t offset_of(const integer_call *c, const int64_t *step, int64_t item, int64_t *own) {
  int64_t at = 0, count = 1;
  *own = 0;
  for (int d = c->rank - 1; d >= 0; d--) {
    const int64_t i = item % c->size[d];
    item /= c->size[d];
    if (step[d] == 0) continue;
    at += i * step[d];
    *own += i * count;
    count *= c->size[d];
  }
  return at;
}

static int64_t own_batches(const integer_call *c, const byte_matrix *x) {
  int64_t count = 1;
  for (int d = 0; d < c->rank; d++) count *= x->batch[d] ? c->size[d] : 1;
  return count;
}

typedef struct widening {
  const integer_call *call;
  const byte_matrix *from;
} widening;

static void widen(const byte_matrix *x, const uint8_t *from, int64_t along, int16_t *to) {
  const int16_t zero = (int16_t)x->zero;
  if (x->is_signed)
    for (int64_t i = 0; i < x->length; i++) to[i] = (int16_t)((int8_t)from[i * along] - zero);
  else
    for (int64_t i = 0; i < x->length; i++) to[i] = (int16_t)(from[i * along] - zero);
}

/* Vectors begin <= v < end, counted through the matrix's own batches; the rest of the pitch
 * is 0. */
static tn_status widen_range(void *ctx, int64_t begin, int64_t end) {
  const widening *w = ctx;
  const byte_matrix *x = w->from;
  const integer_call *c = w->call;
  for (int64_t v = begin; v < end; v++) {
    int64_t item = v / x->vectors, at = v % x->vectors * x->step;
    int16_t *to = x->wide + v * c->pitch;
    for (int d = c->rank - 1; d >= 0; d--) {
      if (x->batch[d] == 0) continue;
      at += item % c->size[d] * x->batch[d];
      item /= c->size[d];
    }
    if (x->along == 1)
      widen(x, x->data + at, 1, to);
    else
      widen(x, x->data + at, x->along, to);
    memset(to + x->length, 0, (size_t)(c->pitch - x->length) * sizeof *to);
  }
  return TN_OK;
}

static tn_status widen_matrix(const integer_call *c, byte_matrix *x) {
  const int64_t count = own_batches(c, x) * x->vectors;
  x->wide = c->host->alloc(c->host, (size_t)(count * c->pitch) * sizeof *x->wide, 64);
  if (!x->wide)
    return c->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to unpack %lld 8-bit elements",
                         (long long)(count * c->pitch));
  widening job = {c, x};
  return c->host->parallel_for(c->host, count, cpu_max(1, CPU_GRAIN_CHEAP / c->pitch), widen_range,
                               &job);
}

static inline int32_t scalar_product(int64_t k, const int16_t *a, const int16_t *b) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < k; i++) sum += (uint32_t)((int32_t)a[i] * b[i]);
  return (int32_t)sum;
}

/* TILE rows of a by TILE columns of b; every sum by itself, which is what the compiler
 * turns into multiply-add of pairs. */
static void tile_products(int64_t pitch, const int16_t *restrict a, const int16_t *restrict b,
                          int32_t y[TILE][TILE]) {
  const int16_t *a1 = a + pitch, *a2 = a1 + pitch, *a3 = a2 + pitch;
  const int16_t *b1 = b + pitch, *b2 = b1 + pitch, *b3 = b2 + pitch;
  uint32_t s[TILE][TILE] = {{0}};
#define TERM(i, p, j, q) s[i][j] += (uint32_t)((int32_t)(p)[t] * (q)[t])
#define TERMS(i, p) TERM(i, p, 0, b), TERM(i, p, 1, b1), TERM(i, p, 2, b2), TERM(i, p, 3, b3)
  for (int64_t t = 0; t < pitch; t++) {
    TERMS(0, a), TERMS(1, a1), TERMS(2, a2), TERMS(3, a3);
  }
#undef TERMS
#undef TERM
  memcpy(y, s, sizeof s);
}

static void block_products(const integer_call *c, const int16_t *a, const int16_t *b, int32_t *y,
                           int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i += TILE)
    for (int64_t j = 0; j < columns; j += TILE) {
      int32_t tile[TILE][TILE];
      const int64_t r = cpu_min(TILE, rows - i), s = cpu_min(TILE, columns - j);
      if (r == TILE && s == TILE)
        tile_products(c->pitch, a + i * c->pitch, b + j * c->pitch, tile);
      else
        for (int64_t p = 0; p < r; p++)
          for (int64_t q = 0; q < s; q++)
            tile[p][q] = scalar_product(c->pitch, a + (i + p) * c->pitch, b + (j + q) * c->pitch);
      for (int64_t p = 0; p < r; p++)
        for (int64_t q = 0; q < s; q++) y[(i + p) * c->y_row + (j + q) * c->y_col] = tile[p][q];
    }
}

static tn_status product_range(void *ctx, int64_t begin, int64_t end) {
  const integer_call *c = ctx;
  const int64_t blocks = c->blocks_m * c->blocks_n;
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t item = unit / blocks, block = unit % blocks;
    const int64_t i = block / c->blocks_n * BLOCK_ROWS, j = block % c->blocks_n * c->block_n;
    int64_t a, b, own;
    offset_of(c, c->a.batch, item, &a);
    offset_of(c, c->b.batch, item, &b);
    int32_t *y = c->y + offset_of(c, c->y_batch, item, &own) + i * c->y_row + j * c->y_col;
    block_products(c, c->a.wide + (a * c->m + i) * c->pitch, c->b.wide + (b * c->n + j) * c->pitch,
                   y, cpu_min(BLOCK_ROWS, c->m - i), cpu_min(c->block_n, c->n - j));
  }
  return TN_OK;
}

/* Blocks for the threads to share; small ones are given out several at a time. */
static tn_status multiply(integer_call *c, int64_t batches) {
  c->block_n = cpu_max(TILE, PANEL_BYTES / 2 / c->pitch / TILE * TILE);
  c->blocks_m = cpu_ceil_div(c->m, BLOCK_ROWS);
  c->blocks_n = cpu_ceil_div(c->n, c->block_n);
  const double block = (double)cpu_min(c->m, BLOCK_ROWS) * (double)cpu_min(c->n, c->block_n);
  const int64_t grain = 1 + (int64_t)(1e6 / (block * (double)c->pitch));
  return c->host->parallel_for(c->host, batches * c->blocks_m * c->blocks_n, grain, product_range,
                               c);
}

tn_status ISA(matmul_integer_any)(const tn_kernel_args *args) {
  const DLTensor *y = args->out[0];
  integer_call c = {.host = args->host, .rank = y->ndim - 2, .y = y->data};
  int64_t batches = 1;
  for (int d = 0; d < c.rank; d++) batches *= c.size[d] = y->shape[d];
  batch_steps(y, &c, c.y_batch);
  c.y_row = y->strides[c.rank];
  c.y_col = y->strides[c.rank + 1];
  c.a = matrix_of(args->in[0], false, args->in[2], &c);
  c.b = matrix_of(args->in[1], true, args->in[3], &c);
  c.m = c.a.vectors;
  c.n = c.b.vectors;
  c.pitch = cpu_max(32, cpu_ceil_div(c.a.length, 32) * 32);
  if (batches * c.m * c.n == 0) return TN_OK;
  tn_status status = widen_matrix(&c, &c.a);
  if (status == TN_OK) status = widen_matrix(&c, &c.b);
  if (status == TN_OK) status = multiply(&c, batches);
  c.host->free(c.host, c.a.wide);
  c.host->free(c.host, c.b.wide);
  return status;
}
