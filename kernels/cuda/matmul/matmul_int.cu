/*
 * matmul_int: products of integers in their own type. A block computes a 32 by 32 tile of one
 * matrix of y from panels of a and b in shared memory, in unsigned integers, which wrap.
 */
#include "kernels/common/broadcast.h"
#include "kernels/cuda/base/dispatch.cuh"

namespace {

enum { side = 32, rows = 8, per_thread = side / rows };

struct int_call {
  const void *a, *b;
  void *y;
  int64_t m, n, k, tiles_m, tiles_n, tiles;
  int rank;
  int64_t size[TN_MAX_RANK], step_a[TN_MAX_RANK], step_b[TN_MAX_RANK];
};

/* Unsigned integers in which products of T wrap as T's do. */
template <class T> struct wrapping { using type = unsigned; };
template <> struct wrapping<int64_t> { using type = unsigned long long; };

template <class T>
__global__ void __launch_bounds__(side *rows) int_tiles(const __grid_constant__ int_call c) {
  using W = typename wrapping<T>::type;
  __shared__ W panel_a[side][side + 1], panel_b[side][side + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  for (int64_t tile = blockIdx.x; tile < c.tiles; tile += gridDim.x) {
    const int64_t first = tile / (c.tiles_m * c.tiles_n);
    const int64_t i = tile / c.tiles_n % c.tiles_m * side, j = tile % c.tiles_n * side;
    int64_t item = first;
    const T *a = (const T *)c.a, *b = (const T *)c.b;
    for (int d = c.rank - 1; d >= 0; d--) {
      a += item % c.size[d] * c.step_a[d];
      b += item % c.size[d] * c.step_b[d];
      item /= c.size[d];
    }
    W sum[per_thread] = {};
    for (int64_t p = 0; p < c.k; p += side) {
      for (int r = 0; r < per_thread; r++) {
        const int at = y + r * rows;
        panel_a[at][x] = i + at < c.m && p + x < c.k ? (W)a[(i + at) * c.k + p + x] : 0;
        panel_b[at][x] = p + at < c.k && j + x < c.n ? (W)b[(p + at) * c.n + j + x] : 0;
      }
      __syncthreads();
      for (int e = 0; e < side; e++)
        for (int r = 0; r < per_thread; r++) sum[r] += panel_a[y + r * rows][e] * panel_b[e][x];
      __syncthreads();
    }
    for (int r = 0; r < per_thread; r++) {
      const int64_t m = i + y + r * rows;
      if (m < c.m && j + x < c.n) ((T *)c.y)[(first * c.m + m) * c.n + j + x] = (T)sum[r];
    }
  }
}

} // namespace

tn_status cuda_run_matmul_int(const tn_kernel_args *args) {
  const DLTensor *y = args->out[0];
  DLTensor a = *args->in[0], b = *args->in[1];
  int_call c = {};
  c.a = a.data;
  c.b = b.data;
  c.y = y->data;
  c.k = a.shape[a.ndim - 1];
  c.rank = y->ndim - 2;
  c.m = y->shape[c.rank];
  c.n = y->shape[c.rank + 1];
  a.ndim -= 1; /* batch_steps leaves out the last axis */
  b.ndim -= 1;
  batch_steps(&a, y, c.rank, c.step_a);
  batch_steps(&b, y, c.rank, c.step_b);
  for (int d = 0; d < c.rank; d++) c.size[d] = y->shape[d];
  c.tiles_m = ceil_div(c.m, side);
  c.tiles_n = ceil_div(c.n, side);
  c.tiles = cuda_size(y, 0, c.rank) * c.tiles_m * c.tiles_n;
  if (c.tiles == 0) return TN_OK;
  const int64_t blocks = c.tiles < 1 << 20 ? c.tiles : 1 << 20;
  return for_int(args, y, [&](auto t) {
    return launch(args, int_tiles<decltype(t)>, (unsigned)blocks, dim3(side, rows), 0, c);
  });
}
