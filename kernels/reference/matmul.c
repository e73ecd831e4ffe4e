/*
 * Batched matrix products: shares of rows, each gathered with its operands into dense
 * doubles, which hold sums of 8-bit products exactly, too.
 */
#include "activation.h"
#include "iterate.h"
#include "kernels.h"
#include "product.h"
#include "requantise.h"

enum {
  ROWS = 64,   /* most rows of one product */
  DEPTH = 512, /* most terms of one product */
};

/* Zero points and scales of vectors: one, or one for each. */
typedef struct quantum {
  view zero, scale; /* without data: 0 and 1 */
} quantum;

typedef struct matmul_call {
  const tn_host *host;
  view a, b, y; /* [m, k], [k, n], [m, n] under the same batch axes */
  view bias;    /* [n], or without data */
  int64_t m, n, k, activation;
  bool scaled;           /* of 8-bit floats: by the scales of rows and columns */
  bool integer;          /* of quantised numbers: */
  quantum rows, columns; /* of a and b */
  requantisation to;
} matmul_call;

/* The last two axes swapped. */
static view transpose(view v) {
  int order[TN_MAX_RANK];
  for (int a = 0; a < v.ndim; ++a) order[a] = a;
  order[v.ndim - 1] = v.ndim - 2;
  order[v.ndim - 2] = v.ndim - 1;
  return view_permute(v, v.ndim, order);
}

/* v under y's batch axes. */
static view batched(view v, bool transposed, const view *y) {
  int64_t shape[TN_MAX_RANK];
  if (transposed) v = transpose(v);
  for (int a = 0; a < y->ndim - 2; ++a) shape[a] = y->shape[a];
  shape[y->ndim - 2] = v.shape[v.ndim - 2];
  shape[y->ndim - 1] = v.shape[v.ndim - 1];
  return view_broadcast(v, y->ndim, shape);
}

/* The matrix of one batch item, as a view of two axes. */
static view matrix_of(view v, int64_t item) {
  int order[2] = {v.ndim - 2, v.ndim - 1};
  for (int a = v.ndim - 3; a >= 0; --a) {
    int64_t size = v.shape[a];
    v = view_slice(v, a, item % size, 1);
    item /= size;
  }
  return view_permute(v, 2, order);
}

/* The number of vector i; `otherwise` where there are none. */
static double number_of(view v, int64_t i, double otherwise) {
  if (!v.data) return otherwise;
  const int64_t at = view_count(&v) == 1 ? 0 : i * v.stride[v.ndim - 1];
  load_f64(v.dtype, view_at(&v, at), 1, 1, &otherwise);
  return otherwise;
}

/* The zero points of vectors, `step` apart, of elements `along` apart. */
static void subtract(view zero, int64_t first, int64_t vectors, int64_t step, int64_t length,
                     int64_t along, double *x) {
  for (int64_t i = 0; zero.data && i < vectors; ++i) {
    const double number = number_of(zero, first + i, 0);
    for (int64_t p = 0; number != 0 && p < length; ++p) x[i * step + p * along] -= number;
  }
}

/* Sums of rows from `first` on as the int32 that they are, or as quantised numbers. */
static void finish_integers(const matmul_call *c, int64_t first, int64_t rows, double *sums) {
  for (int64_t i = 0; i < rows * c->n; ++i) sums[i] = wrapped(sums[i]);
  for (int64_t i = 0; c->to.wanted && i < rows; ++i) {
    const double scale = number_of(c->rows.scale, first + i, 1);
    for (int64_t j = 0; j < c->n; ++j)
      sums[i * c->n + j] =
          requantised(&c->to, sums[i * c->n + j], scale, number_of(c->columns.scale, j, 1));
  }
}

static void finish_scaled(const matmul_call *c, int64_t first, int64_t rows, double *sums) {
  for (int64_t i = 0; i < rows; ++i) {
    const double scale = number_of(c->rows.scale, first + i, 1);
    for (int64_t j = 0; j < c->n; ++j)
      sums[i * c->n + j] *= scale * number_of(c->columns.scale, j, 1);
  }
}

static void finish(const matmul_call *c, int64_t first, int64_t rows, double *sums) {
  if (c->scaled)
    finish_scaled(c, first, rows, sums);
  else if (c->integer)
    finish_integers(c, first, rows, sums);
  else
    activate(c->activation, rows * c->n, sums);
}

/* Rows first <= i < first + rows of one batch item; room holds the three operands. */
static void matmul_rows(const matmul_call *c, int64_t item, int64_t first, int64_t rows,
                        double *room) {
  view a = view_slice(matrix_of(c->a, item), 0, first, rows), b = matrix_of(c->b, item);
  double *sums = room, *left = sums + rows * c->n, *right = left + ROWS * DEPTH;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < c->n; ++j) sums[i * c->n + j] = 0;
    if (c->bias.data) gather(c->bias, sums + i * c->n);
  }
  for (int64_t p = 0; p < c->k; p += DEPTH) {
    int64_t depth = c->k - p < DEPTH ? c->k - p : DEPTH;
    gather(view_slice(a, 1, p, depth), left);
    gather(view_slice(b, 0, p, depth), right);
    subtract(c->rows.zero, first, rows, depth, depth, 1, left);
    subtract(c->columns.zero, 0, c->n, 1, depth, c->n, right);
    product_add(rows, c->n, depth, left, right, sums);
  }
  finish(c, first, rows, sums);
  scatter(view_slice(matrix_of(c->y, item), 0, first, rows), sums);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The range counts the rows of all batch items. */
static tn_status matmul_range(void *ctx, int64_t begin, int64_t end) {
  const matmul_call *c = ctx;
  int64_t size, depth = least(c->k, DEPTH);
  if (__builtin_mul_overflow(c->n, ROWS + depth, &size)) size = INT64_MAX - ROWS * DEPTH;
  double *room = scratch_alloc(c->host, size + ROWS * DEPTH);
  if (!room) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t row = begin; row < end;) {
    int64_t first = row % c->m, rows = least(least(c->m - first, ROWS), end - row);
    matmul_rows(c, row / c->m, first, rows, room);
    row += rows;
  }
  c->host->free(c->host, room);
  return TN_OK;
}

/* Runs a call of which all but y, a, b and the sizes is filled in. */
static tn_status multiply(const tn_kernel_args *args, const DLTensor *a, bool trans_a,
                          const DLTensor *b, bool trans_b, matmul_call *c) {
  c->host = args->host;
  c->y = view_of(args->out[0]);
  c->a = batched(view_of(a), trans_a, &c->y);
  c->b = batched(view_of(b), trans_b, &c->y);
  c->m = c->y.shape[c->y.ndim - 2];
  c->n = c->y.shape[c->y.ndim - 1];
  c->k = c->a.shape[c->a.ndim - 1];
  int64_t count = view_count(&c->y);
  if (count == 0) return TN_OK;
  return c->host->parallel_for(c->host, count / c->n, ROWS, matmul_range, c);
}

tn_status reference_matmul(const tn_kernel_args *args) {
  const tn_matmul_attrs *attrs = args->attrs;
  matmul_call c = {.activation = attrs->activation};
  if (args->in[2]) c.bias = view_of(args->in[2]);
  return multiply(args, args->in[0], attrs->trans_a, args->in[1], attrs->trans_b, &c);
}

static view view_if(const DLTensor *t) { return t ? view_of(t) : (view){.data = NULL}; }

tn_status reference_matmul_zero_points(const tn_kernel_args *args) {
  matmul_call c = {.integer = true};
  c.rows.zero = view_if(args->in[2]);
  c.columns.zero = view_if(args->in[3]);
  return multiply(args, args->in[0], false, args->in[1], false, &c);
}

tn_status reference_matmul_scaled(const tn_kernel_args *args) {
  matmul_call c = {.scaled = true};
  c.rows.scale = view_if(args->in[2]);
  c.columns.scale = view_if(args->in[3]);
  return multiply(args, args->in[0], false, args->in[1], false, &c);
}

tn_status reference_matmul_integer(const tn_kernel_args *args) {
  return reference_matmul_zero_points(args);
}

tn_status reference_qlinear_matmul(const tn_kernel_args *args) {
  const DLTensor *const *in = args->in;
  matmul_call c = {.integer = true, .to = requantisation_of(args)};
  c.rows = (quantum){view_of(in[QUANT_A_ZERO]), view_of(in[QUANT_A_SCALE])};
  c.columns = (quantum){view_of(in[QUANT_B_ZERO]), view_of(in[QUANT_B_SCALE])};
  return multiply(args, in[QUANT_A], false, in[QUANT_B], false, &c);
}
