/*
 * Forward attention: on tensor cores where the element type and the size of the vectors
 * allow (attention_mma.cuh, attention_float.cuh), else by fused multiply-adds on tiles in shared
 * memory. A row's softmax goes on from tile to tile with its maximum and sum (Milakov and
 * Gimelshein 2018).
 */
#include "kernels/cuda/attention/attention_float.cuh"
#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/attention_tile.cuh"

namespace {

/* A reduction over the 16 threads that share rows. */
template <class C> __device__ __forceinline__ C row_max(C x) {
  for (int lanes = 8; lanes > 0; lanes /= 2) {
    C other = __shfl_xor_sync(0xffffffffu, x, lanes);
    x = other > x ? other : x;
  }
  return x;
}
template <class C> __device__ __forceinline__ C row_sum(C x) {
  for (int lanes = 8; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  return x;
}

/* Products become weights; what was summed is rescaled. */
template <class T, class C, int D, int Y>
__device__ __forceinline__ void tile_soften(const attention_params &p, const attention_place &at,
                                            int i0, int j0, tile_scores<C, D, Y> &s, C *top, C *sum,
                                            tile_sums<C, D, Y> &y) {
  using S = tile_sizes<C, D, Y>;
#pragma unroll
  for (int i = 0; i < S::rows; i++) {
    C most = top[i], part = 0;
#pragma unroll
    for (int j = 0; j < S::columns; j++) {
      s.v[i][j] = score_of<T, C>(p, at, i0 + tile_y() + Y * i, j0 + tile_x() + 16 * j, s.v[i][j]);
      most = s.v[i][j] > most ? s.v[i][j] : most;
    }
    most = row_max(most);
    C base = most == -(C)INFINITY ? (C)0 : most, factor = exp(top[i] - base);
#pragma unroll
    for (int j = 0; j < S::columns; j++) part += s.v[i][j] = exp(s.v[i][j] - base);
    top[i] = most;
    sum[i] = sum[i] * factor + row_sum(part);
#pragma unroll
    for (int c = 0; c < S::chunks; c++)
#pragma unroll
      for (int f = 0; f < S::vec; f++) y.v[i][c][f] *= factor;
  }
}

template <class T, class C, int D>
__global__ void __launch_bounds__(16 * forward_y, sizeof(C) * D <= 512 ? 2 : 1)
    attend_tiles(const __grid_constant__ attention_params p) {
  constexpr int Y = forward_y;
  using S = tile_sizes<C, D, Y>;
  extern __shared__ __align__(16) unsigned char memory[];
  C *q = (C *)memory, *k = q + S::vectors, *v = k + S::vectors, *weights = k;
  attention_place at = place_of_head(p, blockIdx.x / p.blocks);
  int first = (p.blocks - 1 - (int)(blockIdx.x % p.blocks)) * S::side;
  int rows = least(S::side, p.s - first), end = keys_seen(p, first + rows);
  const T *keys = (const T *)p.k + at.group * p.t * p.d;
  const T *values = (const T *)p.v + at.group * p.t * p.d;
  C top[S::rows], sum[S::rows];
  tile_sums<C, D, Y> y;
  tile_clear<C, D, Y>(y);
#pragma unroll
  for (int i = 0; i < S::rows; i++) {
    top[i] = -(C)INFINITY;
    sum[i] = 0;
  }
  tile_load<T, C, D, Y>(p, q, (const T *)p.q + (at.head * p.s + first) * p.d, rows);
  for (int j = 0; j < end; j += S::side) {
    tile_scores<C, D, Y> s;
    tile_load<T, C, D, Y>(p, k, keys + (int64_t)j * p.d, p.t - j);
    copies_wait();
    __syncthreads();
    tile_load<T, C, D, Y>(p, v, values + (int64_t)j * p.d, p.t - j);
    tile_products<C, D, Y>(s, q, k);
    tile_soften<T, C, D, Y>(p, at, first, j, s, top, sum, y);
    __syncthreads(); /* the weights take the place of the keys */
    tile_put<C, D, Y>(weights, s, false);
    copies_wait();
    __syncthreads();
    tile_add<C, D, Y>(y, weights, v);
    __syncthreads();
  }
  copies_wait();
  C factor[S::rows];
#pragma unroll
  for (int i = 0; i < S::rows; i++) {
    int row = tile_y() + Y * i;
    factor[i] = sum[i] == 0 ? (C)0 : (C)1 / sum[i];
    if (p.lse && row < rows && tile_x() == 0)
      ((C *)p.lse)[at.head * p.s + first + row] = sum[i] == 0 ? -(C)INFINITY : top[i] + log(sum[i]);
  }
  tile_store<T, C, D, Y>(p, (T *)p.out + (at.head * p.s + first) * p.d, y, factor, rows);
}

template <class T, class C, int D>
tn_status run_tiles(const tn_kernel_args *args, attention_params p) {
  using S = tile_sizes<C, D, forward_y>;
  p.blocks = (int)ceil_div(p.s, S::side);
  return launch_tiles(args, attend_tiles<T, C, D>, p.batch * p.heads * p.blocks, S::threads,
                      3 * S::vectors * sizeof(C), p);
}

template <class T, class C>
tn_status run_tiles_by_size(const tn_kernel_args *args, attention_params p) {
  if (p.d <= 64) return run_tiles<T, C, 64>(args, p);
  return p.d <= 128 ? run_tiles<T, C, 128>(args, p) : run_tiles<T, C, 256>(args, p);
}

template <class T, int D, int W> tn_status run_mma(const tn_kernel_args *args, attention_params p) {
  p.blocks = (int)ceil_div(p.s, 16 * W);
  return launch_tiles(args, attend_mma<T, D, W>, p.batch * p.heads * p.blocks, 32 * W,
                      2 * mma_keys * (D + 8) * sizeof(T), p);
}

/* More queries to a block read keys less often, where there are blocks enough. */
template <class T, int D>
tn_status run_mma_by_count(const tn_kernel_args *args, attention_params p) {
  int64_t blocks = p.batch * p.heads * ceil_div(p.s, 128);
  int processors = ((const cuda_info *)args->device)->multiprocessors;
  return blocks >= processors ? run_mma<T, D, 8>(args, p) : run_mma<T, D, 4>(args, p);
}

template <int D> tn_status run_floats(const tn_kernel_args *args, attention_params p) {
  p.blocks = (int)ceil_div(p.s, float_rows);
  return launch_tiles(args, attend_floats<D>, p.batch * p.heads * p.blocks, float_threads,
                      float_shared_bytes<D>(), p);
}

template <class T> tn_status run_half(const tn_kernel_args *args, attention_params p) {
  if (!suits_tensor_cores(p)) return run_tiles_by_size<any_half, float>(args, p);
  return p.d <= 64 ? run_mma_by_count<T, 64>(args, p) : run_mma_by_count<T, 128>(args, p);
}

} // namespace

/* Vectors fit the kernels' tiles, and indexes 32 bits. */
static bool attention_fits(const DLTensor *q, const DLTensor *k) {
  int64_t blocks = q->shape[0] * q->shape[1] * ceil_div(q->shape[2], 16);
  int64_t key_blocks = k->shape[0] * k->shape[1] * ceil_div(k->shape[2], 16);
  return q->shape[3] <= 256 && q->shape[2] <= CUDA_MAX_INDEX / 2 &&
         k->shape[2] <= CUDA_MAX_INDEX / 2 && blocks <= CUDA_MAX_INDEX &&
         key_blocks <= CUDA_MAX_INDEX;
}

bool cuda_attention_supports(const tn_kernel_args *args) {
  return attention_fits(args->in[0], args->in[1]);
}

bool cuda_attention_grad_supports(const tn_kernel_args *args) {
  return attention_fits(args->in[1], args->in[2]);
}

tn_status cuda_run_scaled_dot_product_attention(const tn_kernel_args *args) {
  attention_params p = attention_params_of(args, 0, 3);
  p.out = args->out[0]->data;
  p.lse = args->out[1] ? args->out[1]->data : NULL;
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    p.wide = has_wide_vectors(p, sizeof(T));
    if constexpr (sizeof(T) == 2)
      return run_half<T>(args, p);
    else if constexpr (sizeof(T) == 4)
      return p.d <= 64    ? run_floats<64>(args, p)
             : p.d <= 128 ? run_floats<128>(args, p)
                          : run_tiles<T, T, 256>(args, p);
    else
      return run_tiles_by_size<T, T>(args, p);
  });
}
