/*
 * Copies between tensors whose elements lie next to one another along different axes.
 * They go tile by tile, so that each line of memory fetched for one element serves its
 * neighbours before it leaves the cache.
 */
#include "kernels/cpu/cpu.h"

enum { TILE = 16, LEAST = 8 };

/* Rows run along the axis dense in x, columns along the one dense in y; the other axes
 * are walked outside. Strides count elements. */
typedef struct transposition {
  const void *x;
  void *y;
  int64_t rows, columns, x_column, y_row;
  int64_t strips; /* of TILE rows, in one matrix */
  int outer;
  int64_t size[TN_MAX_RANK], x_stride[TN_MAX_RANK], y_stride[TN_MAX_RANK];
} transposition;

/* The axis along which neighbours in memory lie, -1 if there is none worth it. */
static int dense_axis(const DLTensor *t) {
  for (int d = t->ndim - 1; d >= 0; d--)
    if (t->strides[d] == 1 && t->shape[d] >= LEAST) return d;
  return -1;
}

static bool plan(const DLTensor *x, const DLTensor *y, transposition *p) {
  const int row = dense_axis(x), column = dense_axis(y);
  if (row < 0 || column < 0 || row == column || x->strides[column] == 1 || y->strides[row] == 1)
    return false;
  *p = (transposition){.x = x->data,
                       .y = y->data,
                       .rows = x->shape[row],
                       .columns = x->shape[column],
                       .x_column = x->strides[column],
                       .y_row = y->strides[row],
                       .strips = cpu_ceil_div(x->shape[row], TILE)};
  for (int d = 0; d < x->ndim; d++) {
    if (d == row || d == column) continue;
    p->size[p->outer] = x->shape[d];
    p->x_stride[p->outer] = x->strides[d];
    p->y_stride[p->outer++] = y->strides[d];
  }
  return true;
}

/* Where matrix `index` of the outer axes begins. */
static void matrix_at(const transposition *p, int64_t index, int64_t *x, int64_t *y) {
  *x = *y = 0;
  for (int d = p->outer - 1; d >= 0; d--) {
    *x += index % p->size[d] * p->x_stride[d];
    *y += index % p->size[d] * p->y_stride[d];
    index /= p->size[d];
  }
}

#define TRANSPOSE(bits, U)                                                                         \
  static tn_status strips_##bits(void *ctx, int64_t begin, int64_t end) {                          \
    const transposition *p = ctx;                                                                  \
    for (int64_t i = begin; i < end; i++) {                                                        \
      int64_t x_at, y_at;                                                                          \
      matrix_at(p, i / p->strips, &x_at, &y_at);                                                   \
      const int64_t first = i % p->strips * TILE, last = cpu_min(first + TILE, p->rows);           \
      const U *x = (const U *)p->x + x_at;                                                         \
      U *y = (U *)p->y + y_at;                                                                     \
      for (int64_t c0 = 0; c0 < p->columns; c0 += TILE) {                                          \
        const int64_t c1 = cpu_min(c0 + TILE, p->columns);                                         \
        for (int64_t r = first; r < last; r++)                                                     \
          for (int64_t c = c0; c < c1; c++) y[r * p->y_row + c] = x[r + c * p->x_column];          \
      }                                                                                            \
    }                                                                                              \
    return TN_OK;                                                                                  \
  }
TRANSPOSE(8, uint8_t)
TRANSPOSE(16, uint16_t)
TRANSPOSE(32, uint32_t)
TRANSPOSE(64, uint64_t)

bool ISA(transpose)(const tn_kernel_args *args, tn_status *status) {
  transposition p;
  if (!plan(args->in[0], args->out[0], &p)) return false;
  int64_t matrices = 1;
  for (int d = 0; d < p.outer; d++) matrices *= p.size[d];
  const int bits = args->out[0]->dtype.bits;
  const tn_range_fn fn = bits == 8    ? strips_8
                         : bits == 16 ? strips_16
                         : bits == 32 ? strips_32
                                      : strips_64;
  const int64_t grain = cpu_max(1, CPU_GRAIN_CHEAP / (TILE * p.columns));
  *status = args->host->parallel_for(args->host, matrices * p.strips, grain, fn, &p);
  return true;
}
