/*
 * matmul_integer, with a zero point for each row and column matmul_zero_points, and with
 * requantisation qlinear_matmul: a is laid out in panels once; columns of b in blocks of one panel,
 * by whoever multiplies them (integer.h). Blocks of y are shared among threads.
 */
#include "kernels/cpu/matmul/integer.h"

/* Rows of a block at the least where there are enough for all threads, and with matrix units. */
enum { LEAST_ROWS = 16 * TILE_ROWS, LEAST_ROWS_OF_UNITS = 2 * INTEGER_UNIT_ROWS };

/* Bytes of b that need not be laid out again if each is once for all blocks of rows: fewer are not
 * worth the memory. */
enum { ONCE_LEAST = 1 << 17 };

typedef struct byte_matrix {
  integer_vectors of;
  int64_t vectors, length;
  int64_t batch[TN_MAX_RANK]; /* steps of the batch axes */
} byte_matrix;

typedef struct integer_call {
  const tn_host *host;
  byte_matrix a, b;
  char *panels;  /* [batches of a's own] of a's rows */
  char *columns; /* [batches of b's own, blocks_n], or NULL: laid out for every block again */
  int rank;      /* batch axes */
  int64_t size[TN_MAX_RANK], batches;
  int64_t m, n;
  integer_words words;
  int64_t block_m, blocks_m, blocks_n;
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
  const int row = t->ndim - 2, col = t->ndim - 1, across = columns ? col : row;
  const int along = columns ? row : col;
  byte_matrix x = {.of = {t->data, t->strides[across], t->strides[along], t->dtype.code == kDLInt,
                          columns, zero, 0},
                   .vectors = t->shape[across],
                   .length = t->shape[along]};
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

/* Elements from the first matrix to matrix `item` of those that x has of its own. */
static int64_t own_offset(const integer_call *c, const byte_matrix *x, int64_t item) {
  int64_t at = 0;
  for (int d = c->rank - 1; d >= 0; d--) {
    if (x->batch[d] == 0) continue;
    at += item % c->size[d] * x->batch[d];
    item /= c->size[d];
  }
  return at;
}

/* Matrices of a batch that lie below each other are one where all share b, and rows a zero point
 * and a scale. */
static void fold_batch(integer_call *c) {
  int64_t a = c->a.of.step * c->m, y = c->y_row * c->m;
  if (c->batches == 1 || c->sink.row.step || (c->a.of.zero && cpu_count(c->a.of.zero) > 1)) return;
  for (int d = c->rank - 1; d >= 0; d--) {
    if (c->size[d] == 1) continue;
    if (c->b.batch[d] != 0 || c->a.batch[d] != a || c->y_batch[d] != y) return;
    a *= c->size[d];
    y *= c->size[d];
  }
  c->m = c->a.vectors = c->m * c->batches;
  c->batches = 1;
  c->rank = 0;
}

static int64_t row_panels(const integer_call *c) {
  return own_batches(c, &c->a) * cpu_ceil_div(c->m, integer_panel_rows(&c->words));
}

static void pack_rows(const integer_call *c, int64_t unit) {
  const int64_t most = integer_panel_rows(&c->words), panels = cpu_ceil_div(c->m, most);
  const int64_t item = unit / panels, panel = unit % panels, first = panel * most;
  integer_vectors x = c->a.of;
  x.data += own_offset(c, &c->a, item);
  const integer_panel to = integer_rows_at(&c->words, c->m, panel,
                                           c->panels + item * integer_rows_bytes(&c->words, c->m));
  ISA(integer_pack)(&c->words, &x, first, cpu_min(most, c->m - first), &to);
}

static integer_panel columns_at(const integer_call *c, int64_t own, int64_t j, void *memory) {
  const int64_t at =
      (own * c->blocks_n + j / TILE_WIDTH) * integer_panel_bytes(&c->words, TILE_WIDTH);
  return integer_panel_at(&c->words, tile_width(c->n - j), memory ? memory : c->columns + at);
}

/* From column j on of the matrix that lies `offset` behind the first. */
static void pack_columns(const integer_call *c, int64_t offset, int64_t j,
                         const integer_panel *to) {
  integer_vectors x = c->b.of;
  x.data += offset;
  ISA(integer_pack)(&c->words, &x, j, cpu_min(TILE_WIDTH, c->n - j), to);
}

/* The range counts panels of all of a's own batches, then of b's, if these are laid out once. */
static tn_status pack_range(void *ctx, int64_t begin, int64_t end) {
  const integer_call *c = ctx;
  const int64_t rows = row_panels(c);
  for (int64_t unit = begin; unit < end; unit++) {
    if (unit < rows) {
      pack_rows(c, unit);
      continue;
    }
    const int64_t own = (unit - rows) / c->blocks_n, j = (unit - rows) % c->blocks_n * TILE_WIDTH;
    const integer_panel to = columns_at(c, own, j, NULL);
    pack_columns(c, own_offset(c, &c->b, own), j, &to);
  }
  return TN_OK;
}

static tn_status no_memory(const tn_host *host, int64_t bytes) {
  return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %lld bytes of 8-bit matrices",
                    (long long)bytes);
}

/* Panels of columns that are worth laying out once. */
static int64_t column_panels(const integer_call *c) {
  const int64_t own = own_batches(c, &c->b), again = c->batches * c->blocks_m - own;
  const double bytes = (double)again * (double)c->n * (double)c->words.length;
  return bytes >= ONCE_LEAST ? own * c->blocks_n : 0;
}

/* Columns are laid out again and again where there is no memory for all. */
static tn_status pack(integer_call *c) {
  const int64_t most = integer_panel_rows(&c->words), panel = integer_panel_bytes(&c->words, most);
  const int64_t items = own_batches(c, &c->a);
  const int64_t rows = cpu_ceil_div(items * integer_rows_bytes(&c->words, c->m), 64) * 64;
  int64_t columns = column_panels(c);
  const int64_t all = rows + columns * integer_panel_bytes(&c->words, TILE_WIDTH);
  c->panels = c->host->alloc(c->host, (size_t)all, 64);
  if (!c->panels && columns) {
    columns = 0;
    c->panels = c->host->alloc(c->host, (size_t)rows, 64);
  }
  if (!c->panels) return no_memory(c->host, rows);
  if (columns) c->columns = c->panels + rows;
  return c->host->parallel_for(c->host, row_panels(c) + columns, 1 + CPU_GRAIN_CHEAP / panel,
                               pack_range, c);
}

/* Unit: some rows of one panel of columns of a matrix. memory: for these, unless they are laid out.
 */
static void multiply_unit(const integer_call *c, int64_t unit, void *memory) {
  const int64_t blocks = c->blocks_m * c->blocks_n, item = unit / blocks;
  const int64_t i = unit % blocks / c->blocks_n * c->block_m;
  const int64_t j = unit % c->blocks_n * TILE_WIDTH, columns = cpu_min(TILE_WIDTH, c->n - j);
  int64_t own_a, own;
  offset_of(c, c->a.batch, item, &own_a);
  const int64_t offset = offset_of(c, c->b.batch, item, &own);
  const integer_panel b = columns_at(c, own, j, memory);
  if (memory) pack_columns(c, offset, j, &b);
  const int64_t at = offset_of(c, c->y_batch, item, &own) + i * c->y_row + j * c->y_col;
  const integer_block y = {c->y + at * c->sink.size, c->y_row, c->y_col, i, j};
  ISA(integer_products)
  (&c->words, &c->sink, c->panels + own_a * integer_rows_bytes(&c->words, c->m), c->m,
   i / integer_panel_rows(&c->words), cpu_min(c->block_m, c->m - i), &b, columns, &y);
}

static tn_status product_range(void *ctx, int64_t begin, int64_t end) {
  const integer_call *c = ctx;
  const int64_t bytes = integer_panel_bytes(&c->words, TILE_WIDTH);
  void *memory = c->columns ? NULL : c->host->alloc(c->host, (size_t)bytes, 64);
  if (!memory && !c->columns) return no_memory(c->host, bytes);
  for (int64_t unit = begin; unit < end; unit++) multiply_unit(c, unit, memory);
  c->host->free(c->host, memory);
  return TN_OK;
}

/* For the threads to share. */
static void choose_blocks(integer_call *c) {
  const int64_t threads = c->host->num_threads ? c->host->num_threads : 1;
  c->blocks_n = cpu_ceil_div(c->n, TILE_WIDTH);
  const int64_t wanted = threads > 1 ? cpu_ceil_div(4 * threads, c->batches * c->blocks_n) : 1;
  const int64_t side = integer_panel_rows(&c->words);
  const int64_t least = c->words.units ? LEAST_ROWS_OF_UNITS : LEAST_ROWS;
  c->block_m = cpu_max(least, cpu_ceil_div(c->m, wanted * side) * side);
  c->blocks_m = cpu_ceil_div(c->m, c->block_m);
}

/* Small blocks are given out several at a time. */
static tn_status multiply(integer_call *c) {
  const double block = (double)cpu_min(c->m, c->block_m) + 16;
  const double work = block * (double)cpu_min(c->n, TILE_WIDTH) * (double)(c->words.length + 8);
  return c->host->parallel_for(c->host, c->batches * c->blocks_m * c->blocks_n,
                               1 + (int64_t)(1e6 / work), product_range, c);
}

/* The product of a and b less their zero points. */
static tn_status run_integer(const tn_kernel_args *args, const DLTensor *a, const DLTensor *a_zero,
                             const DLTensor *b, const DLTensor *b_zero, integer_sink sink) {
  const DLTensor *y = args->out[0];
  integer_call c = {.host = args->host, .rank = y->ndim - 2, .y = y->data, .sink = sink};
  c.batches = 1;
  for (int d = 0; d < c.rank; d++) c.batches *= c.size[d] = y->shape[d];
  batch_steps(y, &c, c.y_batch);
  c.y_row = y->strides[c.rank];
  c.y_col = y->strides[c.rank + 1];
  c.a = matrix_of(a, false, a_zero, &c);
  c.b = matrix_of(b, true, b_zero, &c);
  c.m = c.a.vectors;
  c.n = c.b.vectors;
  c.words = ISA(integer_words_of)(c.a.length, &c.a.of, &c.b.of);
  if (c.batches * c.m * c.n == 0) return TN_OK;
  fold_batch(&c);
  ISA(integer_take_units)(&c.words, c.m, &c.b.of);
  choose_blocks(&c);
  tn_status status = pack(&c);
  if (status == TN_OK) status = multiply(&c);
  c.host->free(c.host, c.panels);
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
