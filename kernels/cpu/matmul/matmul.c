/*
 * matmul of 16-bit floats, and thin ones of float32, in tiles (matmul_tiles.inc); of others on the
 * BLAS: operands that it can address are used where they lie, others are packed first. The product
 * is cut into blocks that run in parallel, one BLAS call each, with bias and activation applied
 * while the block is in cache.
 */
#include <string.h>

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/matmul/gemm.h"
#include "kernels/cpu/matmul/small.h"
#include "kernels/cpu/matmul/split.h"
#include "kernels/cpu/matmul/tile_amx.h"

typedef struct operand {
  const void *data;
  int64_t rows, cols, row, col; /* extents and steps of one matrix */
  int64_t step[TN_MAX_RANK];    /* of the batch dimensions */
  void *packed;                 /* what it was copied to, or NULL */
} operand;

typedef struct matmul_call {
  const tn_host *host;
  operand a, b, y; /* y may be a temporary in type C */
  const void *bias;
  int64_t bias_step;
  int64_t activation; /* a tn_activation */
  int64_t m, n, k;
  bool deep;      /* is_deep */
  bool registers; /* has_registers */
  int rank;       /* batch dimensions */
  int64_t batch[TN_MAX_RANK], batches;
  int64_t block_m, block_n, blocks_m, blocks_n;
} matmul_call;

/* Elements from the first matrix to matrix `index` of the batch. */
static int64_t batch_offset(const matmul_call *call, const operand *o, int64_t index) {
  int64_t at = 0;
  for (int d = call->rank - 1; d >= 0; d--) {
    at += index % call->batch[d] * o->step[d];
    index /= call->batch[d];
  }
  return at;
}

/* The matrices that an operand has of its own, which matrix `index` of the batch is, and the
 * elements to it: dimensions that it repeats do not count. */
static int64_t own_matrices(const matmul_call *call, const operand *o) {
  int64_t count = 1;
  for (int d = 0; d < call->rank; d++) count *= o->step[d] ? call->batch[d] : 1;
  return count;
}

static int64_t own_matrix(const matmul_call *call, const operand *o, int64_t index) {
  int64_t own = 0, count = 1;
  for (int d = call->rank - 1; d >= 0; d--) {
    if (o->step[d]) own += index % call->batch[d] * count, count *= call->batch[d];
    index /= call->batch[d];
  }
  return own;
}

static int64_t own_offset(const matmul_call *call, const operand *o, int64_t own) {
  int64_t at = 0;
  for (int d = call->rank - 1; d >= 0; d--)
    if (o->step[d]) at += own % call->batch[d] * o->step[d], own /= call->batch[d];
  return at;
}

static bool addressable(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  return (col == 1 && (rows == 1 || row >= cols)) || (row == 1 && (cols == 1 || col >= rows));
}

/* Gives dimensions of one element a step that the BLAS accepts. */
static void tidy(operand *o) {
  if (o->cols == 1 && o->row != 1) o->col = 1;
  if (o->rows == 1 && o->col != 1) o->row = 1;
  if (o->cols == 1 && o->rows == 1) o->row = o->col = 1;
  if (o->col == 1 && o->rows == 1) o->row = cpu_max(1, o->cols);
  if (o->row == 1 && o->cols == 1 && o->col != 1) o->col = cpu_max(1, o->rows);
}

static operand operand_of(const DLTensor *t, bool transposed, const matmul_call *call) {
  const int last = t->ndim - 1, rank = t->ndim - 2;
  operand o = {.data = t->data,
               .rows = t->shape[last - 1],
               .cols = t->shape[last],
               .row = t->strides[last - 1],
               .col = t->strides[last]};
  if (transposed)
    o = (operand){.data = o.data, .rows = o.cols, .cols = o.rows, .row = o.col, .col = o.row};
  for (int d = 0; d < call->rank; d++) {
    const int own = d - (call->rank - rank);
    o.step[d] = own < 0 || t->shape[own] == 1 ? 0 : t->strides[own];
  }
  tidy(&o);
  return o;
}

/* Matrices of a batch that lie below each other are one matrix where all share b. */
static void fold_batch(matmul_call *call) {
  int64_t a = call->a.row * call->m, y = call->y.row * call->m;
  if (call->batches == 1 || call->a.col != 1 || call->y.col != 1) return;
  for (int d = call->rank - 1; d >= 0; d--) {
    if (call->batch[d] == 1) continue;
    if (call->b.step[d] != 0 || call->a.step[d] != a || call->y.step[d] != y) return;
    a *= call->batch[d];
    y *= call->batch[d];
  }
  call->m *= call->batches;
  call->a.rows = call->y.rows = call->m;
  call->batches = 1;
  call->rank = 0;
}

/* How many threads the blocks are for. The BLAS rounds an element by where it stands in its block,
 * so that deterministic bits want blocks which do not depend on how many threads there are. */
static int64_t threads_of(const tn_host *host) {
  if (host->deterministic) return 16;
  return host->num_threads ? host->num_threads : 1;
}

static void choose_blocks(matmul_call *call) {
  const split_work work = {.batches = call->batches,
                           .m = call->m,
                           .n = call->n,
                           .k = cpu_max(1, call->k),
                           .threads = threads_of(call->host),
                           .unpacked = cpu_blas.thin_allocates && call->m > 1 && call->n > 1};
  const split_blocks blocks = call->registers ? split_strips(&work) : split_choose(&work);
  call->block_m = blocks.m;
  call->block_n = blocks.n;
  call->blocks_m = cpu_ceil_div(call->m, call->block_m);
  call->blocks_n = cpu_ceil_div(call->n, call->block_n);
}

static tn_status run_blocks(matmul_call *call, tn_range_fn fn) {
  const double flops = 2.0 * (double)call->m * (double)call->n * (double)call->k;
  const int64_t units = call->batches * call->blocks_m * call->blocks_n;
  const double unit = flops / (double)(call->blocks_m * call->blocks_n);
  const int64_t grain = unit < 2e5 ? (int64_t)(2e5 / (double)cpu_max(1, (int64_t)unit)) : 1;
  if (units <= grain) return fn(call, 0, units);
  return call->host->parallel_for(call->host, units, grain, fn, call);
}

static bool fits_int(const DLTensor *t) {
  for (int d = t->ndim - 2; d < t->ndim; d++)
    if (t->shape[d] > INT32_MAX / 2 || t->strides[d] > INT32_MAX / 2) return false;
  return true;
}

/* The BLAS counts in 32-bit integers. */
bool ISA(matmul_supports)(const tn_kernel_args *args) {
  return fits_int(args->in[0]) && fits_int(args->in[1]) && fits_int(args->out[0]) &&
         cpu_count(args->out[0]) / cpu_max(1, args->out[0]->shape[args->out[0]->ndim - 1]) <
             INT32_MAX / 2;
}

#include "kernels/cpu/matmul/tiled.h"

/* Products of float32 that are faster in tiles than on the BLAS, which packs what it reads once: of
 * few rows by a wide second operand. OpenBLAS's kernels for AVX-512 are slow at long sums too. */
enum { THIN_MOST = 32, THIN_WIDE = 64, DEEP_MOST = 128, DEEP_LEAST = 1024 };
static bool is_thin(const matmul_call *call) {
  const double terms = (double)call->m * (double)call->n * (double)call->k;
  const bool is_turned = call->b.col != 1;
  if (call->m == 1 || call->n < THIN_WIDE || terms <= SPLIT_UNPACKED) return false;
#if TN_ISA_LEVEL == 2
  if (is_turned && call->m <= SMALL_FEW) return false;
  if (call->m <= DEEP_MOST && call->k >= DEEP_LEAST) return true;
  return call->m <= THIN_MOST;
#endif
  return call->m <= THIN_MOST && !is_turned;
}

/* Products of float32 that are faster by vectors along the terms. With fewer rows or columns the
 * BLAS's way has some, which copy nothing (is_thin_block). */
static bool is_deep(const matmul_call *call) {
#if TN_ISA_LEVEL == 2
  const int64_t thin = cpu_min(call->m, call->n);
  const double terms = (double)call->m * (double)call->n * (double)call->k;
  if (call->a.col != 1 || call->b.row != 1 || terms <= SPLIT_UNPACKED) return false;
  return call->k >= DEEP_TERMS && thin > SMALL_FEW && thin <= DEEP_MOST;
#else
  (void)call;
  return false;
#endif
}

/* Whether products of float32 are faster in registers than on the BLAS, whatever their size: its
 * kernels for AVX-512 pack both operands, and every thread does so for itself. */
static bool has_registers(const matmul_call *call) {
  return TN_ISA_LEVEL == 2 && call->m > 1 && call->n > 1;
}

/* Products of float32 that are faster in registers than on the BLAS. */
enum { SMALL_TERMS = 1 << 20, SMALL_EXTENT = 1 << 20, SMALL_COLUMNS = 16 };
static bool is_small(const small_product *p, int64_t terms) {
  if ((p->m | p->n | p->k) >= SMALL_EXTENT) return false; /* terms are counted in 64 bits */
  return p->m * p->n * p->k <= terms;
}

/* Of any size, but for products by one vector. */
static bool is_thin_block(const small_product *p) {
  if (p->m == 1 || p->n == 1) return false;
  return p->n <= SMALL_COLUMNS || (p->m <= SMALL_FEW && p->b_row == 1);
}

/* Two matrices and no more: computed from what the call says, if it is small and no work for more
 * than one thread. */
static bool small_call(const tn_kernel_args *args, const tn_matmul_attrs *attrs) {
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  if (a->ndim != 2 || b->ndim != 2 || attrs->activation) return false;
  if ((args->num_in > 2 && args->in[2]) || y->strides[1] != 1) return false;
  const int ta = attrs->trans_a != 0, tb = attrs->trans_b != 0;
  const small_product p = {.m = y->shape[0],
                           .n = y->shape[1],
                           .k = a->shape[!ta],
                           .a = a->data,
                           .b = b->data,
                           .y = y->data,
                           .a_row = a->strides[ta],
                           .a_col = a->strides[!ta],
                           .b_row = b->strides[tb],
                           .b_col = b->strides[!tb],
                           .y_row = y->strides[0],
                           .y_col = 1};
  if (!is_small(&p, threads_of(args->host) > 1 ? SPLIT_WORTH : SMALL_TERMS)) return false;
  ISA(small_floats)(&p);
  return true;
}

/* A block of a larger one, or of a batch. */
static bool small_block(const matmul_call *call, const float *a, const float *b, float *y,
                        int64_t m, int64_t n) {
  const small_product p = {.m = m,
                           .n = n,
                           .k = call->k,
                           .a = a,
                           .b = b,
                           .y = y,
                           .a_row = call->a.row,
                           .a_col = call->a.col,
                           .b_row = call->b.row,
                           .b_col = call->b.col,
                           .y_row = call->y.row,
                           .y_col = 1};
  if (!call->registers && !is_small(&p, SMALL_TERMS) && !is_thin_block(&p)) return false;
  ISA(small_floats)(&p);
  return true;
}

#define BODY "kernels/cpu/matmul/matmul.inc"
#include "kernels/cpu/base/stamp_float.inc"
