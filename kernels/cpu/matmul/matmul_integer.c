/*
 * matmul_integer, with a zero point for each row and column matmul_zero_points, and with
 * requantisation qlinear_matmul: a is unpacked to int16 by rows and b by columns, once; blocks of
 * the scalar products of both (integer.h) are shared among threads.
 */
#include "kernels/cpu/matmul/integer.h"

/* A block of y is BLOCK_ROWS high and as wide as columns of b stay in a core's cache. */
enum { BLOCK_ROWS = 128, PANEL_BYTES = 256 * 1024 };

typedef struct byte_matrix {
  const uint8_t *data;
  bool is_signed;
  int64_t vectors, length, step, along; /* vectors `step` apart, their elements `along` */
  int64_t batch[TN_MAX_RANK];           /* steps of the batch axes */
  const DLTensor *zero;                 /* of all vectors or of each, NULL: 0 */
  int16_t *wide;                        /* [batches of its own, vectors, pitch] */
} byte_matrix;

typedef struct integer_call {
  const tn_host *host;
  byte_matrix a, b;
  int rank; /* batch axes */
  int64_t size[TN_MAX_RANK];
  int64_t m, n, pitch, block_n, blocks_m, blocks_n;
  integer_sink sink;
  char *y;
  int64_t y_row, y_col, y_batch[TN_MAX_RANK];
} integer_call;

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
                   .zero = zero};
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

static void widen(const byte_matrix *x, const uint8_t *from, int64_t along, int16_t zero,
                  int16_t *to) {
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
    const int16_t zero = (int16_t)integer_zero(x->zero, v % x->vectors);
    for (int d = c->rank - 1; d >= 0; d--) {
      if (x->batch[d] == 0) continue;
      at += item % c->size[d] * x->batch[d];
      item /= c->size[d];
    }
    if (x->along == 1)
      widen(x, x->data + at, 1, zero, to);
    else
      widen(x, x->data + at, x->along, zero, to);
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

static tn_status product_range(void *ctx, int64_t begin, int64_t end) {
  const integer_call *c = ctx;
  const int64_t blocks = c->blocks_m * c->blocks_n;
  for (int64_t unit = begin; unit < end; unit++) {
    const int64_t item = unit / blocks, block = unit % blocks;
    const int64_t i = block / c->blocks_n * BLOCK_ROWS, j = block % c->blocks_n * c->block_n;
    int64_t a, b, own;
    offset_of(c, c->a.batch, item, &a);
    offset_of(c, c->b.batch, item, &b);
    const int64_t at = offset_of(c, c->y_batch, item, &own) + i * c->y_row + j * c->y_col;
    const integer_block y = {c->y + at * c->sink.size, c->y_row, c->y_col, i, j};
    integer_products(&c->sink, c->pitch, c->a.wide + (a * c->m + i) * c->pitch,
                     cpu_min(BLOCK_ROWS, c->m - i), c->b.wide + (b * c->n + j) * c->pitch,
                     cpu_min(c->block_n, c->n - j), &y);
  }
  return TN_OK;
}

/* Blocks for the threads to share; small ones are given out several at a time. */
static tn_status multiply(integer_call *c, int64_t batches) {
  c->block_n = cpu_max(INTEGER_TILE, PANEL_BYTES / 2 / c->pitch / INTEGER_TILE * INTEGER_TILE);
  c->blocks_m = cpu_ceil_div(c->m, BLOCK_ROWS);
  c->blocks_n = cpu_ceil_div(c->n, c->block_n);
  const double block = (double)cpu_min(c->m, BLOCK_ROWS) * (double)cpu_min(c->n, c->block_n);
  const int64_t grain = 1 + (int64_t)(1e6 / (block * (double)c->pitch));
  return c->host->parallel_for(c->host, batches * c->blocks_m * c->blocks_n, grain, product_range,
                               c);
}

/* The product of a and b less their zero points. */
static tn_status run_integer(const tn_kernel_args *args, const DLTensor *a, const DLTensor *a_zero,
                             const DLTensor *b, const DLTensor *b_zero, integer_sink sink) {
  const DLTensor *y = args->out[0];
  integer_call c = {.host = args->host, .rank = y->ndim - 2, .y = y->data, .sink = sink};
  int64_t batches = 1;
  for (int d = 0; d < c.rank; d++) batches *= c.size[d] = y->shape[d];
  batch_steps(y, &c, c.y_batch);
  c.y_row = y->strides[c.rank];
  c.y_col = y->strides[c.rank + 1];
  c.a = matrix_of(a, false, a_zero, &c);
  c.b = matrix_of(b, true, b_zero, &c);
  c.m = c.a.vectors;
  c.n = c.b.vectors;
  c.pitch = integer_pitch(c.a.length);
  if (batches * c.m * c.n == 0) return TN_OK;
  tn_status status = widen_matrix(&c, &c.a);
  if (status == TN_OK) status = widen_matrix(&c, &c.b);
  if (status == TN_OK) status = multiply(&c, batches);
  c.host->free(c.host, c.a.wide);
  c.host->free(c.host, c.b.wide);
  return status;
}

tn_status ISA(matmul_zero_points_any)(const tn_kernel_args *args) {
  return run_integer(args, args->in[0], args->in[2], args->in[1], args->in[3], integer_sums());
}

tn_status ISA(matmul_integer_any)(const tn_kernel_args *args) {
  return ISA(matmul_zero_points_any)(args);
}

tn_status ISA(qlinear_matmul_any)(const tn_kernel_args *args) {
  const DLTensor *const *in = args->in;
  integer_sink sink = integer_requantised(args);
  sink.row = integer_scale_of(in[QUANT_A_SCALE]);
  sink.column = integer_scale_of(in[QUANT_B_SCALE]);
  return run_integer(args, in[QUANT_A], in[QUANT_A_ZERO], in[QUANT_B], in[QUANT_B_ZERO], sink);
}
