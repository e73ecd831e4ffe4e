/*
 * matmul_integer: a block computes a 64 by 64 tile of one matrix of y from panels of a and
 * b in shared memory, four bytes of a row or column to a word, which dp4a multiplies and
 * adds at once. Bytes are brought to one signedness by an exclusive or with 128; zero points
 * are taken off the sums, and elements beyond the edges are read as zero points:
 *   sum (a - za) (b - zb) = sum a b - zb sum a - za sum b + k za zb.
 * Sums wrap, as unsigned integers do.
 */
#include "kernels/cuda/base/common.cuh"

namespace {

enum { side = 64, words = 8, depth = 4 * words, threads = 256, per_thread = 4 };

/* Rows of a or columns of b of one batch: `vectors` of them `step` elements apart, whose
 * elements are `along` apart. */
struct operand {
  const unsigned char *data;
  const unsigned char *zero; /* NULL: 0 */
  unsigned flip;             /* 128 where bytes are unsigned */
  int64_t vectors, step, along;
};

struct integer_call {
  operand a, b;
  int32_t *y;
  int64_t k, y_row, y_col, tiles_m, tiles_n, tiles;
  int rank;
  int64_t size[TN_MAX_RANK], stride[3][TN_MAX_RANK]; /* batch axes of a, b, y */
};

__device__ __forceinline__ int zero_of(const operand &x) {
  return (signed char)((x.zero ? *x.zero : 0) ^ x.flip);
}

/* Elements first <= e < first + depth of `side` vectors from `vector` on, as words. */
__device__ void load_panel(const operand &x, const unsigned char *data, int64_t vector,
                           int64_t first, int64_t k, int (*panel)[words + 1]) {
  const unsigned char beyond = x.zero ? *x.zero : 0;
  for (int i = threadIdx.x; i < side * words; i += threads) {
    /* Neighbouring threads read neighbouring elements, whichever way they lie. */
    const int v = x.along == 1 ? i / words : i % side, w = x.along == 1 ? i % words : i / side;
    const unsigned char *at = data + (vector + v) * x.step;
    unsigned word = 0;
    for (int e = 0; e < 4; e++) {
      const int64_t p = first + 4 * w + e;
      const bool inside = vector + v < x.vectors && p < k;
      word |= ((inside ? at[p * x.along] : beyond) ^ x.flip) << 8 * e;
    }
    panel[v][w] = (int)word;
  }
}

__global__ void __launch_bounds__(threads) integer_tiles(const __grid_constant__ integer_call c) {
  __shared__ int panel_a[side][words + 1], panel_b[side][words + 1];
  const int row = threadIdx.x / 16, col = threadIdx.x % 16;
  const unsigned za = zero_of(c.a), zb = zero_of(c.b);
  for (int64_t tile = blockIdx.x; tile < c.tiles; tile += gridDim.x) {
    int64_t item = tile / (c.tiles_m * c.tiles_n), at[3] = {0, 0, 0};
    const int64_t i = tile / c.tiles_n % c.tiles_m * side, j = tile % c.tiles_n * side;
    for (int d = c.rank - 1; d >= 0; d--) {
      for (int t = 0; t < 3; t++) at[t] += item % c.size[d] * c.stride[t][d];
      item /= c.size[d];
    }
    int product[per_thread][per_thread] = {}, sum_a[per_thread] = {}, sum_b[per_thread] = {};
    for (int64_t p = 0; p < c.k; p += depth) {
      load_panel(c.a, c.a.data + at[0], i, p, c.k, panel_a);
      load_panel(c.b, c.b.data + at[1], j, p, c.k, panel_b);
      __syncthreads();
      for (int w = 0; w < words; w++) {
        int a[per_thread], b[per_thread];
        for (int r = 0; r < per_thread; r++) {
          a[r] = panel_a[row + 16 * r][w];
          b[r] = panel_b[col + 16 * r][w];
          sum_a[r] = __dp4a(a[r], 0x01010101, sum_a[r]);
          sum_b[r] = __dp4a(b[r], 0x01010101, sum_b[r]);
        }
        for (int r = 0; r < per_thread; r++)
          for (int s = 0; s < per_thread; s++) product[r][s] = __dp4a(a[r], b[s], product[r][s]);
      }
      __syncthreads();
    }
    const unsigned terms = (unsigned)((c.k + depth - 1) / depth * depth);
    for (int r = 0; r < per_thread; r++)
      for (int s = 0; s < per_thread; s++) {
        const int64_t m = i + row + 16 * r, n = j + col + 16 * s;
        if (m >= c.a.vectors || n >= c.b.vectors) continue;
        const unsigned value = (unsigned)product[r][s] - zb * (unsigned)sum_a[r] -
                               za * (unsigned)sum_b[s] + terms * za * zb;
        c.y[at[2] + m * c.y_row + n * c.y_col] = (int32_t)value;
      }
  }
}

operand operand_of(const DLTensor *t, const DLTensor *zero, int vector_axis, int along_axis) {
  operand x = {(const unsigned char *)t->data,
               zero ? (const unsigned char *)zero->data : NULL,
               t->dtype.code == kDLInt ? 0u : 128u,
               t->shape[vector_axis],
               t->strides[vector_axis],
               t->strides[along_axis]};
  return x;
}

void batch_strides(const DLTensor *t, int rank, int64_t *stride) {
  const int behind = rank - (t->ndim - 2);
  for (int d = 0; d < rank; d++)
    stride[d] = d < behind || t->shape[d - behind] == 1 ? 0 : t->strides[d - behind];
}

} // namespace

tn_status cuda_run_matmul_integer(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  integer_call c = {};
  c.a = operand_of(a, args->in[2], a->ndim - 2, a->ndim - 1);
  c.b = operand_of(b, args->in[3], b->ndim - 1, b->ndim - 2);
  c.y = (int32_t *)y->data;
  c.k = a->shape[a->ndim - 1];
  c.rank = y->ndim - 2;
  c.y_row = y->strides[c.rank];
  c.y_col = y->strides[c.rank + 1];
  batch_strides(a, c.rank, c.stride[0]);
  batch_strides(b, c.rank, c.stride[1]);
  batch_strides(y, c.rank, c.stride[2]);
  for (int d = 0; d < c.rank; d++) c.size[d] = y->shape[d];
  c.tiles_m = ceil_div(c.a.vectors, side);
  c.tiles_n = ceil_div(c.b.vectors, side);
  c.tiles = cuda_size(y, 0, c.rank) * c.tiles_m * c.tiles_n;
  if (c.tiles == 0) return TN_OK;
  const int64_t blocks = c.tiles < 1 << 20 ? c.tiles : 1 << 20;
  return launch(args, integer_tiles, (unsigned)blocks, threads, 0, c);
}
