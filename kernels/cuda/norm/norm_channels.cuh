/*
 * Sums over channels, the kernels: blocks sum their share of a channel, or of a tile of channels
 * where these lie side by side (inner 1); a warp per channel joins the shares in fixed order.
 * norm_sums.cu launches them.
 */
#ifndef KERNELS_CUDA_NORM_CHANNELS_CUH
#define KERNELS_CUDA_NORM_CHANNELS_CUH

#include "kernels/cuda/norm/norm.cuh"

namespace {

enum { threads = 256, column_lanes = 8, most_splits = 1024 };

/* sum dy and sum dy z. */
struct pair_sum {
  double one, by_z;
};

template <class T> struct channel_args {
  using C = accumulator_t<T>;
  const T *x, *dy;
  const C *mean, *rstd;                    /* of sets, for sums */
  int64_t n, c, inner, groups, per, count; /* count: elements of a channel */
  cuda_divisor divide;                     /* by inner */
  bool small;                              /* count is below 2^31 */
  bool batch, centred;
  int splits;
  statistics_t<C> *moments_out; /* of split, channel */
  pair_sum *sums_out;
};

template <class T>
__device__ __forceinline__ int64_t sample_of(const channel_args<T> &a, int64_t i) {
  return a.small ? (int64_t)quotient((uint32_t)i, a.divide) : i / a.inner;
}

template <class T>
__device__ __forceinline__ int64_t set_at(const channel_args<T> &a, int64_t sample,
                                          int64_t channel) {
  return a.batch ? channel : sample * a.groups + channel / a.per;
}

/* The share of a channel's elements that falls to a split, a multiple of V. */
template <int V> __device__ __forceinline__ int64_t share_of(int64_t count, int splits) {
  return ((count + splits - 1) / splits + V - 1) / V * V;
}

template <class T, int V>
__global__ void __launch_bounds__(threads)
    channel_moments(const __grid_constant__ channel_args<T> a) {
  using C = accumulator_t<T>;
  int64_t channel = blockIdx.x / a.splits, split = blockIdx.x % a.splits;
  int64_t share = share_of<V>(a.count, a.splits), end = (split + 1) * share;
  if (end > a.count) end = a.count;
  statistics_t<C> m = {};
  double shift = a.count > 0 ? shift_of(a.x + channel * a.inner) : 0;
  for (int64_t i = split * share + threadIdx.x * V; i < end; i += threads * V) {
    int64_t sample = sample_of(a, i);
    C v[V];
    read_elements<T, V>(v, a.x + (sample * a.c + channel) * a.inner + i - sample * a.inner);
    m.template add<V>(v, shift);
  }
  m = join_block(m);
  if (threadIdx.x == 0) a.moments_out[split * a.c + channel] = m;
}

template <class T, int V>
__global__ void __launch_bounds__(threads) channel_sums(const __grid_constant__ channel_args<T> a) {
  using C = accumulator_t<T>;
  int64_t channel = blockIdx.x / a.splits, split = blockIdx.x % a.splits;
  int64_t share = share_of<V>(a.count, a.splits), end = (split + 1) * share;
  if (end > a.count) end = a.count;
  double one = 0, by_z = 0;
  for (int64_t i = split * share + threadIdx.x * V; i < end; i += threads * V) {
    int64_t sample = sample_of(a, i), set = set_at(a, sample, channel);
    int64_t at = (sample * a.c + channel) * a.inner + i - sample * a.inner;
    C g[V], v[V];
    const C mean = a.centred ? a.mean[set] : (C)0, rstd = a.rstd[set];
    read_elements<T, V>(g, a.dy + at);
    read_elements<T, V>(v, a.x + at);
    if constexpr (adds_floats<T, V>) {
#pragma unroll
      for (int j = 0; j < V; j++) v[j] = g[j] * ((v[j] - mean) * rstd);
      one += (double)tree_sum<V>(g);
      by_z += (double)tree_sum<V>(v);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) {
        one += (double)g[j];
        by_z += (double)g[j] * (((double)v[j] - (double)mean) * (double)rstd);
      }
    }
  }
  one = join_lanes(one, threads);
  by_z = join_lanes(by_z, threads);
  if (threadIdx.x == 0) a.sums_out[split * a.c + channel] = {one, by_z};
}

/* Channels side by side: 32 times V of them to a block, whose column_lanes rows of threads
 * take every column_lanes-th sample of the block's share. */
template <class T, int V>
__global__ void __launch_bounds__(threads)
    column_moments(const __grid_constant__ channel_args<T> a) {
  using C = accumulator_t<T>;
  constexpr int R = 4; /* samples at a time */
  __shared__ statistics_t<C> shared[column_lanes][32 * V];
  int64_t channel = ((int64_t)blockIdx.x * 32 + threadIdx.x) * V;
  int64_t share = (a.n + a.splits - 1) / a.splits, begin = blockIdx.y * share, end = begin + share;
  if (end > a.n) end = a.n;
  statistics_t<C> m[V] = {};
  double shift[V];
  int64_t r = begin + threadIdx.y;
  if (channel < a.c && r < end) {
#pragma unroll
    for (int j = 0; j < V; j++) shift[j] = shift_of(a.x + channel + j);
    for (; r + (R - 1) * column_lanes < end; r += R * column_lanes) {
      C v[R][V];
#pragma unroll
      for (int k = 0; k < R; k++)
        read_elements<T, V>(v[k], a.x + (r + k * column_lanes) * a.c + channel);
#pragma unroll
      for (int j = 0; j < V; j++) {
        C list[R] = {v[0][j], v[1][j], v[2][j], v[3][j]};
        m[j].template add<R>(list, shift[j]);
      }
    }
    for (; r < end; r += column_lanes) {
      C v[V];
      read_elements<T, V>(v, a.x + r * a.c + channel);
#pragma unroll
      for (int j = 0; j < V; j++) m[j].template add<1>(&v[j], shift[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < V; j++) shared[threadIdx.y][threadIdx.x * V + j] = m[j];
  __syncthreads();
  for (int j = threadIdx.y * 32 + threadIdx.x; j < 32 * V; j += threads) {
    int64_t mine = (int64_t)blockIdx.x * 32 * V + j;
    statistics_t<C> all = shared[0][j];
    for (int k = 1; k < column_lanes; k++) all.join(shared[k][j]);
    if (mine < a.c) a.moments_out[blockIdx.y * a.c + mine] = all;
  }
}

/* Takes 4 rows at a time, as many as there are, in float; says which row is next. */
template <class T, int V>
__device__ __forceinline__ int64_t add_rows(const channel_args<T> &a, int64_t channel, int64_t r,
                                            int64_t end, double *one, double *by_z) {
  constexpr int R = 4;
  for (; r + (R - 1) * column_lanes < end; r += R * column_lanes) {
    float g[R][V], v[R][V], mean[R], rstd[R];
#pragma unroll
    for (int k = 0; k < R; k++) {
      const int64_t row = r + k * column_lanes;
      mean[k] = a.centred ? a.mean[row] : 0.0f;
      rstd[k] = a.rstd[row];
      read_elements<T, V>(g[k], a.dy + row * a.c + channel);
      read_elements<T, V>(v[k], a.x + row * a.c + channel);
    }
#pragma unroll
    for (int j = 0; j < V; j++) {
      float s = 0, z = 0;
#pragma unroll
      for (int k = 0; k < R; k++) {
        s += g[k][j];
        z += g[k][j] * ((v[k][j] - mean[k]) * rstd[k]);
      }
      one[j] += (double)s;
      by_z[j] += (double)z;
    }
  }
  return r;
}

template <class T, int V>
__global__ void __launch_bounds__(threads) column_sums(const __grid_constant__ channel_args<T> a) {
  using C = accumulator_t<T>;
  __shared__ pair_sum shared[column_lanes][32 * V];
  int64_t channel = ((int64_t)blockIdx.x * 32 + threadIdx.x) * V;
  int64_t share = (a.n + a.splits - 1) / a.splits, begin = blockIdx.y * share, end = begin + share;
  if (end > a.n) end = a.n;
  double one[V] = {}, by_z[V] = {};
  bool by_row = !a.batch && a.groups == 1;
  if (channel < a.c) {
    int64_t r = begin + threadIdx.y;
    if constexpr (adds_floats<T, V>) {
      if (by_row) r = add_rows<T, V>(a, channel, r, end, one, by_z);
    }
#pragma unroll 4
    for (; r < end; r += column_lanes) {
      C g[V], v[V];
      read_elements<T, V>(g, a.dy + r * a.c + channel);
      read_elements<T, V>(v, a.x + r * a.c + channel);
#pragma unroll
      for (int j = 0; j < V; j++) {
        int64_t set = by_row ? r : set_at(a, r, channel + j);
        double mean = a.centred ? (double)a.mean[set] : 0, rstd = (double)a.rstd[set];
        one[j] += (double)g[j];
        by_z[j] += (double)g[j] * (((double)v[j] - mean) * rstd);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < V; j++) shared[threadIdx.y][threadIdx.x * V + j] = {one[j], by_z[j]};
  __syncthreads();
  for (int j = threadIdx.y * 32 + threadIdx.x; j < 32 * V; j += threads) {
    int64_t mine = (int64_t)blockIdx.x * 32 * V + j;
    pair_sum all = shared[0][j];
    for (int k = 1; k < column_lanes; k++) {
      all.one += shared[k][j].one;
      all.by_z += shared[k][j].by_z;
    }
    if (mine < a.c) a.sums_out[blockIdx.y * a.c + mine] = all;
  }
}

/* What batch norm keeps of its channels: mean and rstd as doubles for the last pass, and as the
 * caller wants them, or NULL. */
template <class C> struct kept_args {
  double *mean, *rstd;
  C *mean_out, *rstd_out, *running_mean, *running_var;
  double eps, momentum;
  int64_t size;
};

/* A warp joins the splits of a channel. One value has no unbiased variance. */
template <class T, class C = accumulator_t<T>>
__global__ void __launch_bounds__(threads)
    finish_moments(const statistics_t<C> *parts, const T *x, int64_t inner, int64_t c, int splits,
                   const __grid_constant__ kept_args<C> k) {
  int64_t channel = ((int64_t)blockIdx.x * threads + threadIdx.x) / 32;
  if (channel >= c) return; /* whole warps */
  statistics_t<C> m = {};
  for (int64_t i = threadIdx.x % 32; i < splits; i += 32) m.join(parts[i * c + channel]);
  join_warp(m);
  if (threadIdx.x % 32 != 0) return;
  norm_stat s = m.finish(k.size, k.size > 0 ? shift_of(x + channel * inner) : 0);
  double rstd = 1.0 / sqrt(s.var + k.eps);
  k.mean[channel] = s.mean;
  k.rstd[channel] = rstd;
  if (k.mean_out) k.mean_out[channel] = (C)s.mean;
  if (k.rstd_out) k.rstd_out[channel] = (C)rstd;
  if (k.size == 0) return;
  C *mean = k.running_mean + channel, *var = k.running_var + channel;
  *mean = (C)((double)*mean + k.momentum * (s.mean - (double)*mean));
  if (k.size == 1) return;
  double unbiased = s.var * ((double)k.size / (double)(k.size - 1));
  *var = (C)((double)*var + k.momentum * (unbiased - (double)*var));
}

template <class T, class C> __device__ void put_weight(norm_weight_out w, int64_t at, C value) {
  if (w.data == NULL) return;
  if (w.wide) {
    ((C *)w.data)[at] = value;
  } else {
    ((T *)w.data)[at] = stored<T>::from(value);
  }
}

/* dgamma, dbeta and, where `means` is not NULL, the means of g and of g z over a channel. */
template <class T, class C>
__global__ void __launch_bounds__(threads)
    finish_sums(const pair_sum *parts, int64_t c, int splits, norm_weight_out dgamma,
                norm_weight_out dbeta, norm_weight gamma, double size, pair_sum *means) {
  int64_t channel = ((int64_t)blockIdx.x * threads + threadIdx.x) / 32;
  if (channel >= c) return;
  double one = 0, by_z = 0;
  for (int64_t k = threadIdx.x % 32; k < splits; k += 32) {
    one += parts[k * c + channel].one;
    by_z += parts[k * c + channel].by_z;
  }
  one = join_lanes(one, 32);
  by_z = join_lanes(by_z, 32);
  if (threadIdx.x % 32 != 0) return;
  put_weight<T>(dgamma, channel, (C)by_z);
  put_weight<T>(dbeta, channel, (C)one);
  if (means == NULL) return;
  C weight;
  read_weights<T, 1>(&weight, gamma, channel, false, (C)1);
  means[channel] = {one * (double)weight / size, by_z * (double)weight / size};
}

} // namespace

#endif /* KERNELS_CUDA_NORM_CHANNELS_CUH */
