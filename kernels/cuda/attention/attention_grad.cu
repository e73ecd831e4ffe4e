/*
 * The gradient of attention, on tensor cores where the element type and the size of the
 * vectors allow (attention_grad_mma.cuh), else by fused multiply-adds on tiles in shared
 * memory: one pass over queries for dq, one over keys for dk and dv, so that no two blocks
 * add to one number and the sums have one order. Weights are computed anew from the lse.
 */
#include "kernels/cuda/attention/attention_grad_mma.cuh"
#include "kernels/cuda/attention/attention_tile.cuh"

namespace {

/* delta = sum dy y, a warp to a query. */
template <class T, class C>
__global__ void __launch_bounds__(tile_threads)
    sum_deltas(C *delta, const T *dy, const T *y, int64_t rows, int d, bool brain) {
  int64_t row = (int64_t)blockIdx.x * (tile_threads / 32) + threadIdx.x / 32;
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
                                           int i0, int j0, tile_scores<C, D> &s,
                                           tile_scores<C, D> &ds) {
  using S = tile_sizes<C, D>;
#pragma unroll
  for (int i = 0; i < S::own; i++) {
    int row = i0 + tile_y() + 16 * i;
    int64_t query = at.head * p.s + row;
    C lse = row < p.s ? ((const C *)p.lse_in)[query] : (C)0;
    C delta = row < p.s ? ((const C *)p.delta)[query] : (C)0;
#pragma unroll
    for (int j = 0; j < S::own; j++) {
      C score = score_of<T, C>(p, at, row, j0 + tile_x() + 16 * j, s.v[i][j]);
      C weight = score == -(C)INFINITY ? (C)0 : exp(score - lse);
      ds.v[i][j] = weight == 0 ? (C)0 : (C)p.scale * weight * (ds.v[i][j] - delta);
      s.v[i][j] = weight;
    }
  }
}

template <class C, int D>
__device__ __forceinline__ void all_ones(C (&factor)[tile_sizes<C, D>::own]) {
#pragma unroll
  for (int i = 0; i < tile_sizes<C, D>::own; i++) factor[i] = 1;
}

template <class T, class C, int D>
__global__ void __launch_bounds__(tile_threads)
    query_grad(const __grid_constant__ attention_params p) {
  using S = tile_sizes<C, D>;
  extern __shared__ __align__(16) unsigned char memory[];
  C *q = (C *)memory, *dy = q + S::vectors, *k = dy + S::vectors, *v = k + S::vectors,
    *grads = v + S::vectors;
  attention_place at = place_of_head(p, blockIdx.x / p.blocks);
  int first = (p.blocks - 1 - (int)(blockIdx.x % p.blocks)) * S::side;
  int rows = least(S::side, p.s - first), end = keys_seen(p, first + rows);
  int64_t queries = (at.head * p.s + first) * p.d;
  C factor[S::own];
  tile_sums<C, D> dq;
  tile_clear<C, D>(dq);
  all_ones<C, D>(factor);
  tile_load<T, C, D>(p, q, (const T *)p.q + queries, rows);
  tile_load<T, C, D>(p, dy, (const T *)p.dy + queries, rows);
  for (int j = 0; j < end; j += S::side) {
    tile_scores<C, D> s, ds;
    int64_t from = (at.group * p.t + j) * p.d;
    tile_load<T, C, D>(p, k, (const T *)p.k + from, p.t - j);
    tile_load<T, C, D>(p, v, (const T *)p.v + from, p.t - j);
    __syncthreads();
    tile_products<C, D>(s, q, k);
    tile_products<C, D>(ds, dy, v);
    tile_grads<T, C, D>(p, at, first, j, s, ds);
    tile_put<C, D>(grads, ds, false);
    __syncthreads();
    tile_add<C, D>(dq, grads, k);
    __syncthreads();
  }
  tile_store<T, C, D>(p, (T *)p.out + queries, dq, factor, rows);
}

template <class T, class C, int D>
__global__ void __launch_bounds__(tile_threads)
    key_grad(const __grid_constant__ attention_params p) {
  using S = tile_sizes<C, D>;
  extern __shared__ __align__(16) unsigned char memory[];
  C *q = (C *)memory, *dy = q + S::vectors, *k = dy + S::vectors, *v = k + S::vectors,
    *weights = v + S::vectors;
  int64_t group = blockIdx.x / p.blocks, b = group / p.groups;
  int shared = p.heads / p.groups, g = (int)(group % p.groups);
  int j = (int)(blockIdx.x % p.blocks) * S::side, keys = least(S::side, p.t - j);
  int64_t from = (group * p.t + j) * p.d;
  C factor[S::own];
  tile_sums<C, D> dk, dv;
  tile_clear<C, D>(dk);
  tile_clear<C, D>(dv);
  all_ones<C, D>(factor);
  tile_load<T, C, D>(p, k, (const T *)p.k + from, keys);
  tile_load<T, C, D>(p, v, (const T *)p.v + from, keys);
  for (int h = g * shared; h < (g + 1) * shared; h++) {
    attention_place at = place_of_head(p, b * p.heads + h);
    for (int i = 0; i < p.s; i += S::side) {
      tile_scores<C, D> s, ds;
      int rows = least(S::side, p.s - i);
      int64_t queries = (at.head * p.s + i) * p.d;
      if (keys_seen(p, i + rows) <= j) continue;
      tile_load<T, C, D>(p, q, (const T *)p.q + queries, rows);
      tile_load<T, C, D>(p, dy, (const T *)p.dy + queries, rows);
      __syncthreads();
      tile_products<C, D>(s, q, k);
      tile_products<C, D>(ds, dy, v);
      tile_grads<T, C, D>(p, at, i, j, s, ds);
      tile_put<C, D>(weights, s, true);
      __syncthreads();
      tile_add<C, D>(dv, weights, dy);
      __syncthreads();
      tile_put<C, D>(weights, ds, true);
      __syncthreads();
      tile_add<C, D>(dk, weights, q);
      __syncthreads();
    }
  }
  tile_store<T, C, D>(p, (T *)p.dk + from, dk, factor, keys);
  tile_store<T, C, D>(p, (T *)p.dv + from, dv, factor, keys);
}

template <class T, class C>
tn_status run_deltas(const tn_kernel_args *args, const attention_params &p) {
  int64_t rows = p.batch * p.heads * p.s;
  if (rows == 0) return TN_OK;
  using E = std::conditional_t<sizeof(T) == 2, any_half, T>;
  return launch(args, sum_deltas<E, C>, (unsigned)ceil_div(rows, tile_threads / 32), tile_threads,
                0, (C *)p.delta, (const E *)p.dy, (const E *)p.y, rows, p.d, p.brain);
}

template <class T, class C, int D>
tn_status run_grad(const tn_kernel_args *args, attention_params p) {
  using S = tile_sizes<C, D>;
  size_t bytes = (4 * S::vectors + S::scores) * sizeof(C);
  tn_status status = run_deltas<T, C>(args, p);
  p.blocks = (int)ceil_div(p.s, S::side);
  if (status == TN_OK)
    status = launch_tiles(args, query_grad<T, C, D>, p.batch * p.heads * p.blocks, tile_threads,
                          bytes, p);
  p.blocks = (int)ceil_div(p.t, S::side);
  if (status == TN_OK)
    status = launch_tiles(args, key_grad<T, C, D>, p.batch * p.groups * p.blocks, tile_threads,
                          bytes, p);
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

template <class T> tn_status run_grad_half(const tn_kernel_args *args, attention_params p) {
  p.wide = p.d % 8 == 0 && is_aligned(p.q, 16) && is_aligned(p.k, 16) && is_aligned(p.v, 16) &&
           is_aligned(p.dy, 16) && is_aligned(p.out, 16) && is_aligned(p.dk, 16) &&
           is_aligned(p.dv, 16);
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
    if constexpr (sizeof(T) == 2)
      return run_grad_half<T>(args, p);
    else
      return run_grad_by_size<T, T>(args, p);
  });
}
