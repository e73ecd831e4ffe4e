/*
 * Products of signed bytes with few rows, or few of all, summed in 32 bits: a block has 32 columns
 * of y and its warps take the sums' terms by turns, so that b, which is what there is to read, is
 * read once and as it lies. Four by four bytes of it turn in registers to be what the matrix units
 * take; the columns of their tiles are every fourth of the block's, so that a thread's results lie
 * together. Sums of integers are the same in any order.
 */
#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/base/turned_bytes.cuh"
#include "kernels/cuda/matmul/int8_skinny.h"

namespace {

enum {
  tile_rows = 16,
  most_tiles = 4, /* of rows */
  columns = 32,
  tiles = columns / 8, /* of columns */
  warps = 16,
  threads = 32 * warps,
  step = 32,      /* terms of a tile's product */
  own = step / 4, /* of a thread: eight in a row */
  results = 4 * tiles,
  most_terms = 131071 /* 128 * 128 * k fits 31 bits */
};
/* Bytes of b from which on it pays to read them as they lie, and products up to which that is so
 * where blocks one below the other each do. */
const int64_t least_bytes = (int64_t)1 << 14, most_products = (int64_t)1 << 28;

static_assert(results == warps, "a thread stores one result of each tile of rows");

struct product {
  int *y;
  const unsigned char *a, *b;
  int64_t step_y, step_a, step_b; /* between rows */
  int m, n, k;
};

__device__ __forceinline__ void multiply_tile(int *sum, const unsigned *a, unsigned low,
                                              unsigned high) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}

/* Eight terms of a row, zeros outside. */
__device__ __forceinline__ uint2 read_row(const product &p, int row, int first) {
  if (row >= p.m || first >= p.k) return make_uint2(0, 0);
  return *(const uint2 *)(p.a + row * p.step_a + first);
}

/* Eight terms of four columns, those of a column in two words; `column` may lie outside. */
__device__ __forceinline__ void read_columns(unsigned (*low)[tiles], const product &p, int first,
                                             int column) {
  unsigned row[own];
#pragma unroll
  for (int r = 0; r < own; r++) {
    const bool inside = first < p.k && column < p.n;
    row[r] = inside ? __ldg((const unsigned *)(p.b + (first + r) * p.step_b + column)) : 0;
  }
  turn_bytes(row, low[0]);
  turn_bytes(row + 4, low[1]);
}

/* ROWS tiles of rows. */
template <int ROWS>
__global__ void __launch_bounds__(threads) skinny(const __grid_constant__ product p) {
  __shared__ int part[warps][results][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, place = lane % 4;
  const int begin = (int)blockIdx.x * columns, top = (int)blockIdx.y * ROWS * tile_rows;
  int sum[ROWS][tiles][4] = {};
#pragma unroll(ROWS > 1 ? 2 : 4)
  for (int k = warp * step; k < p.k; k += warps * step) {
    unsigned b[2][tiles];
    const int first = k + place * own;
    read_columns(b, p, first, begin + 4 * group);
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
      const uint2 upper = read_row(p, top + i * tile_rows + group, first);
      const uint2 lower = read_row(p, top + i * tile_rows + 8 + group, first);
      const unsigned a[4] = {upper.x, lower.x, upper.y, lower.y};
#pragma unroll
      for (int j = 0; j < tiles; j++) multiply_tile(sum[i][j], a, b[0][j], b[1][j]);
    }
  }
  /* Warp w adds up result w % 4 of the tile w / 4 of columns. */
  const int row = group + warp % 4 / 2 * 8;
  const int column = begin + 8 * place + warp % 2 * 4 + warp / 4;
#pragma unroll
  for (int i = 0; i < ROWS; i++) {
    if (i > 0) __syncthreads();
#pragma unroll
    for (int r = 0; r < results; r++) part[warp][r][lane] = sum[i][r / 4][r % 4];
    __syncthreads();
    int all = 0;
#pragma unroll
    for (int w = 0; w < warps; w++) all += part[w][warp][lane];
    const int at = top + i * tile_rows + row;
    if (at < p.m && column < p.n) p.y[at * p.step_y + column] = all;
  }
}

bool is_matrix(const DLTensor *t) {
  return t->ndim >= 2 && cuda_size(t, 0, t->ndim - 2) == 1 && t->strides[t->ndim - 1] == 1;
}

int64_t row_step(const DLTensor *t) { return t->strides[t->ndim - 2]; }

} // namespace

bool cuda_matmul_integer_is_skinny(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  if (args->in[2] || args->in[3]) return false;
  if (!is_matrix(a) || !is_matrix(b) || !is_matrix(y)) return false;
  const int64_t m = y->shape[y->ndim - 2], n = y->shape[y->ndim - 1], k = a->shape[a->ndim - 1];
  return cuda_dtype(a) == TN_I8 && cuda_dtype(b) == TN_I8 && m >= 1 &&
         (m <= tile_rows * most_tiles || m <= most_products / k / n) && k >= 1 && k <= most_terms &&
         k % own == 0 && n >= 1 && n <= CUDA_MAX_INDEX - columns && n % 4 == 0 &&
         k * n >= least_bytes && row_step(a) % 8 == 0 && row_step(b) % 4 == 0 &&
         is_aligned(a->data, 8) && is_aligned(b->data, 4);
}

tn_status cuda_run_matmul_integer_skinny(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  const product p = {(int *)y->data,
                     (const unsigned char *)a->data,
                     (const unsigned char *)b->data,
                     row_step(y),
                     row_step(a),
                     row_step(b),
                     (int)y->shape[y->ndim - 2],
                     (int)y->shape[y->ndim - 1],
                     (int)a->shape[a->ndim - 1]};
  auto kernel = p.m <= tile_rows       ? skinny<1>
                : p.m <= 2 * tile_rows ? skinny<2>
                                       : skinny<most_tiles>;
  const int rows = least(p.m, tile_rows * most_tiles);
  const int height = tile_rows * (rows <= tile_rows ? 1 : rows <= 2 * tile_rows ? 2 : most_tiles);
  const dim3 grid((unsigned)ceil_div(p.n, columns), (unsigned)ceil_div(p.m, height));
  return launch(args, kernel, grid, threads, 0, p);
}
