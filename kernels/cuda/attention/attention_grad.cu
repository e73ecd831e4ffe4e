/*
 * The gradient of attention, on tensor cores where the element type and the size of the
 * vectors allow (attention_grad_mma.cuh, attention_grad_float.cuh), else by fused multiply-adds on
 * tiles in shared memory: one pass over queries for dq, one over keys for dk and dv, so that no two
 * blocks add to one number and the sums have one order. Weights are computed anew from the lse.
 */
#include "kernels/cuda/attention/attention_grad_float.cuh"
#include "kernels/cuda/attention/attention_grad_mma.cuh"
#include "kernels/cuda/attention/attention_tile.cuh"

namespace {

enum { delta_threads = 256 };

/* delta = sum dy y, a warp to a query. */
template <class T, class C>
__global__ void __launch_bounds__(delta_threads)
    sum_deltas(C *delta, const T *dy, const T *y, int64_t rows, int d, bool brain) {
  int64_t row = (int64_t)blockIdx.x * (delta_threads / 32) + threadIdx.x / 32;
  if (row >= rows) return; /* whole warps */
  C sum = 0;
  for (int i = threadIdx.x % 32; i < d; i += 32)
    sum += (C)load(dy[row * d + i], brain) * (C)load(y[row * d + i], brain);
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0) delta[row] = sum;
}

/* From products to weights in s and scaled gradients by the scores in ds, which holds
 * products of dy and v. */
template <class T, class C, int D>
__device__ __forceinline__ void tile_grads(const attention_params &p, const attention_place &at,
                                           int i0, int j0, tile_scores<C, D, gradient_y> &s,
                                           tile_scores<C, D, gradient_y> &ds) {
  using S = tile_sizes<C, D, gradient_y>;
#pragma unroll
  for (int i = 0; i < S::rows; i++) {
    int row = i0 + tile_y() + gradient_y * i;
    int64_t query = at.head * p.s + row;
    C lse = row < p.s ? ((const C *)p.lse_in)[query] : (C)0;
    C delta = row < p.s ? ((const C *)p.delta)[query] : (C)0;
#pragma unroll
    for (int j = 0; j < S::columns; j++) {
      C score = score_of<T, C>(p, at, row, j0 + tile_x() + 16 * j, s.v[i][j]);
      C weight = score == -(C)INFINITY ? (C)0 : exp(score - lse);
      ds.v[i][j] = weight == 0 ? (C)0 : (C)p.scale * weight * (ds.v[i][j] - delta);
      s.v[i][j] = weight;
    }
  }
}

template <class C, int D>
__device__ __forceinline__ void all_ones(C (&factor)[tile_sizes<C, D, gradient_y>::rows]) {
#pragma unroll
  for (int i = 0; i < tile_sizes<C, D, gradient_y>::rows; i++) factor[i] = 1;
}

/* Bytes of shared memory: what stays, one or two tiles that pass by, and a tile of scores. */
template <class C, int D> constexpr size_t gradient_bytes(int tiles) {
  using S = tile_sizes<C, D, gradient_y>;
  return (2 * (1 + (size_t)tiles) * S::vectors + S::scores) * sizeof(C);
}

/* A tile that passes by: the same rows of two lists. */
template <class T, class C, int D>
__device__ __forceinline__ void load_pair(const attention_params &p, C *to, const void *a,
                                          const void *b, int64_t from, int rows) {
  constexpr int Y = gradient_y;
  tile_load<T, C, D, Y>(p, to, (const T *)a + from * p.d, rows);
  tile_load<T, C, D, Y>(p, to + tile_sizes<C, D, Y>::vectors, (const T *)b + from * p.d, rows);
}

template <class T, class C, int D>
__global__ void __launch_bounds__(16 * gradient_y)
    query_grad(const __grid_constant__ attention_params p) {
  constexpr int Y = gradient_y;
  using S = tile_sizes<C, D, Y>;
  extern __shared__ __align__(16) unsigned char memory[];
  C *q = (C *)memory, *dy = q + S::vectors, *grads = dy + S::vectors, *tiles = grads + S::scores;
  attention_place at = place_of_head(p, blockIdx.x / p.blocks);
  int first = (p.blocks - 1 - (int)(blockIdx.x % p.blocks)) * S::side;
  int rows = least(S::side, p.s - first), end = keys_seen(p, first + rows), buffer = 0;
  const int64_t keys = at.group * p.t, queries = (at.head * p.s + first) * p.d;
  C factor[S::rows];
  tile_sums<C, D, Y> dq;
  tile_clear<C, D, Y>(dq);
  all_ones<C, D>(factor);
  tile_load<T, C, D, Y>(p, q, (const T *)p.q + queries, rows);
  tile_load<T, C, D, Y>(p, dy, (const T *)p.dy + queries, rows);
  if (end > 0) load_pair<T, C, D>(p, tiles, p.k, p.v, keys, p.t);
  for (int j = 0; j < end; j += S::side) {
    const C *k = tiles + buffer * 2 * S::vectors, *v = k + S::vectors;
    const int next = j + S::side;
    tile_scores<C, D, Y> s, ds;
    copies_wait();
    __syncthreads();
    buffer = (buffer + 1) % p.tiles;
    C *const to = tiles + buffer * 2 * S::vectors;
    if (p.tiles > 1 && next < end) load_pair<T, C, D>(p, to, p.k, p.v, keys + next, p.t - next);
    tile_products<C, D, Y>(s, q, k);
    tile_products<C, D, Y>(ds, dy, v);
    tile_grads<T, C, D>(p, at, first, j, s, ds);
    tile_put<C, D, Y>(grads, ds, false);
    __syncthreads();
    tile_add<C, D, Y>(dq, grads, k);
    if (p.tiles > 1 || next >= end) continue;
    __syncthreads();
    load_pair<T, C, D>(p, to, p.k, p.v, keys + next, p.t - next);
  }
  copies_wait();
  tile_store<T, C, D, Y>(p, (T *)p.out + queries, dq, factor, rows);
}

template <class T, class C, int D>
__global__ void __launch_bounds__(16 * gradient_y)
    key_grad(const __grid_constant__ attention_params p) {
  constexpr int Y = gradient_y;
  using S = tile_sizes<C, D, Y>;
  extern __shared__ __align__(16) unsigned char memory[];
  C *k = (C *)memory, *v = k + S::vectors, *weights = v + S::vectors, *tiles = weights + S::scores;
  const int64_t group = blockIdx.x / p.blocks;
  const int j = (int)(blockIdx.x % p.blocks) * S::side, keys = least(S::side, p.t - j);
  const int64_t from = (group * p.t + j) * p.d;
  const query_tiles list(p, group, j, S::side);
  const int count = list.count(p);
  const auto load_queries = [&](int x, int buffer) {
    const int i = list.first(x);
    load_pair<T, C, D>(p, tiles + buffer * 2 * S::vectors, p.q, p.dy,
                       list.place(p, x).head * p.s + i, p.s - i);
  };
  C factor[S::rows];
  tile_sums<C, D, Y> dk, dv;
  tile_clear<C, D, Y>(dk);
  tile_clear<C, D, Y>(dv);
  all_ones<C, D>(factor);
  tile_load<T, C, D, Y>(p, k, (const T *)p.k + from, keys);
  tile_load<T, C, D, Y>(p, v, (const T *)p.v + from, keys);
  if (count > 0) load_queries(0, 0);
  for (int x = 0, buffer = 0; x < count; x++) {
    const C *q = tiles + buffer * 2 * S::vectors, *dy = q + S::vectors;
    tile_scores<C, D, Y> s, ds;
    copies_wait();
    __syncthreads();
    buffer = (buffer + 1) % p.tiles;
    if (p.tiles > 1 && x + 1 < count) load_queries(x + 1, buffer);
    tile_products<C, D, Y>(s, q, k);
    tile_products<C, D, Y>(ds, dy, v);
    tile_grads<T, C, D>(p, list.place(p, x), list.first(x), j, s, ds);
    tile_put<C, D, Y>(weights, s, true);
    __syncthreads();
    tile_add<C, D, Y>(dv, weights, dy);
    __syncthreads();
    tile_put<C, D, Y>(weights, ds, true);
    __syncthreads();
    tile_add<C, D, Y>(dk, weights, q);
    if (p.tiles > 1 || x + 1 >= count) continue;
    __syncthreads();
    load_queries(x + 1, buffer);
  }
  copies_wait();
  tile_store<T, C, D, Y>(p, (T *)p.dk + from, dk, factor, keys);
  tile_store<T, C, D, Y>(p, (T *)p.dv + from, dv, factor, keys);
}

template <class T, class C>
tn_status run_deltas(const tn_kernel_args *args, const attention_params &p) {
  int64_t rows = p.batch * p.heads * p.s;
  if (rows == 0) return TN_OK;
  using E = std::conditional_t<sizeof(T) == 2, any_half, T>;
  return launch(args, sum_deltas<E, C>, (unsigned)ceil_div(rows, delta_threads / 32), delta_threads,
                0, (C *)p.delta, (const E *)p.dy, (const E *)p.y, rows, p.d, p.brain);
}

/* Two tiles where there is room: the next one comes while one is worked on. */
template <class C, int D> int tiles_of(const tn_kernel_args *args) {
  int room = 0;
  if (cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                             ((const cuda_info *)args->device)->ordinal) != cudaSuccess)
    (void)cudaGetLastError();
  return gradient_bytes<C, D>(2) <= (size_t)room ? 2 : 1;
}

template <class T, class C, int D>
tn_status run_grad(const tn_kernel_args *args, attention_params p) {
  using S = tile_sizes<C, D, gradient_y>;
  p.tiles = tiles_of<C, D>(args);
  const size_t bytes = gradient_bytes<C, D>(p.tiles);
  tn_status status = run_deltas<T, C>(args, p);
  p.blocks = (int)ceil_div(p.s, S::side);
  if (status == TN_OK)
    status =
        launch_tiles(args, query_grad<T, C, D>, p.batch * p.heads * p.blocks, S::threads, bytes, p);
  p.blocks = (int)ceil_div(p.t, S::side);
  if (status == TN_OK)
    status =
        launch_tiles(args, key_grad<T, C, D>, p.batch * p.groups * p.blocks, S::threads, bytes, p);
  return status;
}

template <class T, class C>
tn_status run_grad_by_size(const tn_kernel_args *args, attention_params p) {
  if (p.d <= 64) return run_grad<T, C, 64>(args, p);
  return p.d <= 128 ? run_grad<T, C, 128>(args, p) : run_grad<T, C, 256>(args, p);
}

template <class T, int D> tn_status run_grad_mma(const tn_kernel_args *args, attention_params p) {
  tn_status status = run_deltas<T, float>(args, p);
  p.blocks = (int)ceil_div(p.s, grad_rows);
  if (status == TN_OK)
    status = launch_tiles(args, query_grad_mma<T, D>, p.batch * p.heads * p.blocks, grad_threads,
                          grad_shared_bytes<D>(), p);
  p.blocks = (int)ceil_div(p.t, grad_rows);
  if (status == TN_OK)
    status = launch_tiles(args, key_grad_mma<T, D>, p.batch * p.groups * p.blocks, grad_threads,
                          grad_shared_bytes<D>(), p);
  return status;
}

template <int D> tn_status run_grad_floats(const tn_kernel_args *args, attention_params p) {
  tn_status status = run_deltas<float, float>(args, p);
  p.blocks = (int)ceil_div(p.s, float_rows);
  if (status == TN_OK)
    status = launch_tiles(args, query_grad_floats<D>, p.batch * p.heads * p.blocks, float_threads,
                          float_grad_bytes<D>(), p);
  p.blocks = (int)ceil_div(p.t, float_rows);
  if (status == TN_OK)
    status = launch_tiles(args, key_grad_floats<D>, p.batch * p.groups * p.blocks, float_threads,
                          float_grad_bytes<D>(), p);
  return status;
}

template <class T> tn_status run_grad_half(const tn_kernel_args *args, attention_params p) {
  if (!suits_tensor_cores(p)) return run_grad_by_size<any_half, float>(args, p);
  return p.d <= 64 ? run_grad_mma<T, 64>(args, p) : run_grad_mma<T, 128>(args, p);
}

} // namespace

tn_status cuda_attention_grad_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *lse = args->in[5];
  *bytes = (size_t)cuda_size(lse, 0, lse->ndim) * (lse->dtype.bits / 8);
  return TN_OK;
}

tn_status cuda_run_scaled_dot_product_attention_grad(const tn_kernel_args *args) {
  attention_params p = attention_params_of(args, 1, 6);
  p.dy = args->in[0]->data;
  p.y = args->in[4]->data;
  p.lse_in = args->in[5]->data;
  p.out = args->out[0]->data;
  p.dk = args->out[1]->data;
  p.dv = args->out[2]->data;
  p.delta = args->workspace;
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    p.wide = has_wide_vectors(p, sizeof(T));
    if constexpr (sizeof(T) == 2)
      return run_grad_half<T>(args, p);
    else if constexpr (sizeof(T) == 4)
      return p.d <= 64    ? run_grad_floats<64>(args, p)
             : p.d <= 128 ? run_grad_floats<128>(args, p)
                          : run_grad<T, T, 256>(args, p);
    else
      return run_grad_by_size<T, T>(args, p);
  });
}
