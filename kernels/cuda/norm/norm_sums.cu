/*
 * Batch norm and its gradient, and the gradients of the weights of every normalisation:
 * whatever is summed over a channel. Blocks sum their share of a channel, or of a tile of
 * channels where these lie side by side (inner 1); a warp per channel joins the shares in
 * fixed order; a last kernel goes over the elements.
 */
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
    double mean = a.centred ? (double)a.mean[set] : 0, rstd = (double)a.rstd[set];
    read_elements<T, V>(g, a.dy + at);
    read_elements<T, V>(v, a.x + at);
#pragma unroll
    for (int j = 0; j < V; j++) {
      one += (double)g[j];
      by_z += (double)g[j] * (((double)v[j] - mean) * rstd);
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
#pragma unroll 4
    for (int64_t r = begin + threadIdx.y; r < end; r += column_lanes) {
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

/* Batch norm's last pass over the elements. */
template <class T> struct apply_args {
  using C = accumulator_t<T>;
  const T *x, *dy;
  T *y;
  const double *wide_mean, *wide_rstd; /* of this batch */
  const C *mean, *rstd;                /* given: rstd is the variance where `infers` */
  norm_weight gamma, beta;
  const pair_sum *means; /* backward */
  int64_t count, c, inner;
  cuda_divisor by_inner, by_c;
  bool small, infers;
  double eps;
};

template <class T>
__device__ __forceinline__ int64_t channel_of(const apply_args<T> &a, int64_t i) {
  if (!a.small) return i / a.inner % a.c;
  uint32_t plane = a.inner == 1 ? (uint32_t)i : quotient((uint32_t)i, a.by_inner);
  return plane - quotient(plane, a.by_c) * (uint32_t)a.c;
}

/* Statistics of V elements' channels. A root that float does not hold well is one of double. */
template <class T, int V>
__device__ __forceinline__ void read_statistics(const apply_args<T> &a, int64_t channel, bool each,
                                                double *mean, double *rstd) {
  using C = accumulator_t<T>;
  if (!a.infers) {
    read_numbers<double, V>(mean, a.wide_mean, channel, each);
    read_numbers<double, V>(rstd, a.wide_rstd, channel, each);
    return;
  }
  C m[V], var[V];
  read_numbers<C, V>(m, a.mean, channel, each);
  read_numbers<C, V>(var, a.rstd, channel, each);
#pragma unroll
  for (int j = 0; j < V; j++) {
    C root = (C)1 / sqrt(var[j] + (C)a.eps);
    bool fits = root > (C)0x1p-60 && root < (C)0x1p60;
    mean[j] = (double)m[j];
    rstd[j] = fits ? (double)root : 1.0 / sqrt((double)var[j] + a.eps);
  }
}

template <class T, int V>
__global__ void __launch_bounds__(threads) apply(const __grid_constant__ apply_args<T> a) {
  using C = accumulator_t<T>;
  int64_t i = ((int64_t)blockIdx.x * threads + threadIdx.x) * V;
  if (i >= a.count) return;
  bool each = a.inner == 1;
  int64_t channel = channel_of(a, i);
  C v[V], gamma[V], beta[V];
  double mean[V], rstd[V];
  read_elements<T, V>(v, a.x + i);
  read_statistics<T, V>(a, channel, each, mean, rstd);
  read_weights<T, V>(gamma, a.gamma, channel, each, (C)1);
  read_weights<T, V>(beta, a.beta, channel, each, (C)0);
#pragma unroll
  for (int j = 0; j < V; j++) v[j] = centre<C>(mean[j], rstd[j]).normal(v[j], gamma[j], beta[j]);
  write_elements<T, V>(a.y + i, v);
}

template <class T, int V>
__global__ void __launch_bounds__(threads) apply_grad(const __grid_constant__ apply_args<T> a) {
  using C = accumulator_t<T>;
  int64_t i = ((int64_t)blockIdx.x * threads + threadIdx.x) * V;
  if (i >= a.count) return;
  bool each = a.inner == 1;
  int64_t channel = channel_of(a, i);
  C v[V], g[V], mean[V], rstd[V], gamma[V];
  read_elements<T, V>(v, a.x + i);
  read_elements<T, V>(g, a.dy + i);
  read_numbers<C, V>(mean, a.mean, channel, each);
  read_numbers<C, V>(rstd, a.rstd, channel, each);
  read_weights<T, V>(gamma, a.gamma, channel, each, (C)1);
#pragma unroll
  for (int j = 0; j < V; j++) {
    pair_sum m = a.means[channel + (each ? j : 0)];
    C z = (v[j] - mean[j]) * rstd[j], high = (C)m.one;
    C low = isfinite(high) ? (C)(m.one - (double)high) : (C)0;
    v[j] = rstd[j] * ((fma(g[j], gamma[j], -high) - low) - z * (C)m.by_z);
  }
  write_elements<T, V>(a.y + i, v);
}

/* How many blocks share a channel or a tile of channels. */
int splits_of(const tn_kernel_args *args, const norm_shape &s, int width) {
  int64_t busy = 8 * (int64_t)((const cuda_info *)args->device)->multiprocessors;
  int64_t tiles = s.inner == 1 ? ceil_div(s.c, 32 * width) : s.c;
  int64_t most =
      s.inner == 1 ? ceil_div(s.n, 4 * column_lanes) : ceil_div(s.n * s.inner, 2 * threads * width);
  int64_t wanted = ceil_div(busy, tiles < 1 ? 1 : tiles);
  if (wanted > most) wanted = most;
  if (wanted > most_splits) wanted = most_splits;
  return (int)(wanted < 1 ? 1 : wanted);
}

template <class T> constexpr int width_of() { return 16 / (int)sizeof(T); }

template <class T>
channel_args<T> channels_of(const tn_kernel_args *args, const norm_shape &s, const DLTensor *x,
                            const DLTensor *dy) {
  channel_args<T> a = {};
  a.x = (const T *)x->data;
  a.dy = dy ? (const T *)dy->data : NULL;
  a.n = s.n;
  a.c = s.c;
  a.inner = s.inner;
  a.batch = s.groups == norm_batch;
  a.groups = a.batch ? 1 : s.groups;
  a.per = s.per > 0 ? s.per : 1;
  a.count = s.n * s.inner;
  a.small = a.count <= CUDA_MAX_INDEX;
  a.divide = cuda_divisor_of((uint32_t)(s.inner <= CUDA_MAX_INDEX ? s.inner : 0));
  a.centred = s.centred;
  a.splits = splits_of(args, s, width_of<T>());
  return a;
}

/* Whether rows of channels, or runs of a channel's elements, are whole packs of 16 bytes. */
template <class T>
bool fits_packs(const norm_shape &s, const void *x, const void *dy, const void *y,
                const void *gamma, const void *beta) {
  int64_t run = s.inner == 1 ? s.c : s.inner;
  return run % width_of<T>() == 0 && all_aligned(x, dy, y, gamma, beta);
}

template <class T>
tn_status launch_channels(const tn_kernel_args *args, const channel_args<T> &a, bool columns,
                          bool packs, bool sums) {
  constexpr int V = width_of<T>();
  if (!columns) {
    unsigned blocks = (unsigned)(a.c * a.splits);
    auto kernel = sums ? (packs ? channel_sums<T, V> : channel_sums<T, 1>)
                       : (packs ? channel_moments<T, V> : channel_moments<T, 1>);
    return launch(args, kernel, blocks, threads, 0, a);
  }
  auto kernel = sums ? (packs ? column_sums<T, V> : column_sums<T, 1>)
                     : (packs ? column_moments<T, V> : column_moments<T, 1>);
  unsigned tiles = (unsigned)ceil_div(a.c, 32 * (packs ? V : 1));
  return launch(args, kernel, dim3(tiles, (unsigned)a.splits), dim3(32, column_lanes), 0, a);
}

unsigned warps_for(int64_t channels) { return (unsigned)ceil_div(channels * 32, threads); }

template <class T>
tn_status launch_apply(const tn_kernel_args *args, const norm_shape &s, apply_args<T> &a,
                       bool backward) {
  constexpr int V = width_of<T>();
  a.count = s.n * s.c * s.inner;
  if (a.count == 0) return TN_OK;
  a.c = s.c;
  a.inner = s.inner;
  a.small = a.count <= CUDA_MAX_INDEX;
  a.by_inner = cuda_divisor_of((uint32_t)(a.small ? s.inner : 0));
  a.by_c = cuda_divisor_of((uint32_t)(a.small ? s.c : 0));
  bool packs = fits_packs<T>(s, a.x, a.dy, a.y, a.gamma.data, a.beta.data) &&
               is_aligned(a.mean, 16) && is_aligned(a.rstd, 16) && is_aligned(a.wide_mean, 16);
  auto kernel = backward ? (packs ? apply_grad<T, V> : apply_grad<T, 1>)
                         : (packs ? apply<T, V> : apply<T, 1>);
  int64_t blocks = ceil_div(a.count, (int64_t)threads * (packs ? V : 1));
  if (blocks > CUDA_MAX_INDEX)
    return args->host->fail(TN_ERR_UNSUPPORTED, "%s: too many elements", args->kernel->name);
  return launch(args, kernel, (unsigned)blocks, threads, 0, a);
}

norm_shape batch_shape(const DLTensor *x) { return norm_shape_of(x, 1, 2, norm_batch); }

/* Channels, rounded up so that what stands behind c numbers stays aligned. */
int64_t padded(int64_t c) { return ceil_div(c, 16) * 16; }

/* Sums over channels, and what follows from them; means may be NULL. */
template <class T>
tn_status sum_up(const tn_kernel_args *args, const norm_shape &s, norm_weight_out dgamma,
                 norm_weight_out dbeta, pair_sum *means, pair_sum *parts) {
  using C = accumulator_t<T>;
  const DLTensor *dy = args->in[0], *x = args->in[1];
  channel_args<T> a = channels_of<T>(args, s, x, dy);
  a.mean = s.centred ? (const C *)args->in[2]->data : NULL;
  a.rstd = (const C *)args->in[s.centred ? 3 : 2]->data;
  a.sums_out = parts;
  norm_weight gamma = weight_of(args->in[s.centred ? 4 : 3], x);
  bool packs = fits_packs<T>(s, x->data, dy->data, NULL, NULL, NULL);
  tn_status status = launch_channels(args, a, s.inner == 1, packs, true);
  if (status != TN_OK) return status;
  return launch(args, finish_sums<T, C>, warps_for(s.c), threads, 0, parts, s.c, a.splits, dgamma,
                dbeta, gamma, (double)s.size, means);
}

size_t parts_bytes(const tn_kernel_args *args, const norm_shape &s, const DLTensor *x,
                   bool of_moments) {
  size_t element = x->dtype.bits / 8, part = sizeof(pair_sum);
  int splits = splits_of(args, s, (int)(16 / element));
  if (of_moments) part = element == 8 ? sizeof(moments) : sizeof(shifted_sums);
  return (size_t)splits * (size_t)s.c * part;
}

/* Gradients of weights that the kernels can write: of x's type or the wide one. */
tn_status check_weight_grad(const tn_kernel_args *args, const DLTensor *t, const DLTensor *x,
                            norm_weight_out *out) {
  *out = {NULL, false};
  if (t == NULL) return TN_OK;
  bool same = t->dtype.bits == x->dtype.bits && t->dtype.code == x->dtype.code;
  bool wide = x->dtype.bits == 16 && t->dtype.bits == 32;
  if (!same && !wide)
    return args->host->fail(TN_ERR_UNSUPPORTED,
                            "%s: dgamma and dbeta must be of x's type, or float32 beside 16-bit x",
                            args->kernel->name);
  *out = {t->data, !same};
  return TN_OK;
}

} // namespace

tn_status cuda_norm_weight_grads(const tn_kernel_args *args, const norm_shape &s) {
  const DLTensor *x = args->in[1];
  norm_weight_out dgamma, dbeta = {NULL, false};
  tn_status status = check_weight_grad(args, args->out[1], x, &dgamma);
  if (status == TN_OK && s.centred) status = check_weight_grad(args, args->out[2], x, &dbeta);
  if (status != TN_OK || s.c == 0 || (dgamma.data == NULL && dbeta.data == NULL)) return status;
  return with_float(args, x, [&](auto element) {
    using T = decltype(element);
    using C = accumulator_t<T>;
    return sum_up<T>(args, s, dgamma, dbeta, NULL, (pair_sum *)args->workspace);
  });
}

size_t cuda_norm_weight_workspace(const tn_kernel_args *args, const norm_shape &s) {
  bool wanted = args->out[1] != NULL || (s.centred && args->out[2] != NULL);
  return wanted ? parts_bytes(args, s, args->in[1], false) : 0;
}

/* In the workspace: mean and rstd as doubles, then the parts. */
tn_status cuda_batch_norm_workspace(const tn_kernel_args *args, size_t *bytes) {
  norm_shape s = batch_shape(args->in[0]);
  *bytes = (size_t)padded(s.c) * 16 + parts_bytes(args, s, args->in[0], true);
  return TN_OK;
}

tn_status cuda_run_batch_norm(const tn_kernel_args *args) {
  const tn_batch_norm_attrs *attrs = (const tn_batch_norm_attrs *)args->attrs;
  const DLTensor *x = args->in[0];
  norm_shape s = batch_shape(x);
  if (s.c == 0) return TN_OK;
  return with_float(args, x, [&](auto element) {
    using T = decltype(element);
    using C = accumulator_t<T>;
    kept_args<C> k = {};
    k.mean = (double *)args->workspace;
    k.rstd = k.mean + padded(s.c);
    k.mean_out = args->out[3] ? (C *)args->out[3]->data : NULL;
    k.rstd_out = args->out[4] ? (C *)args->out[4]->data : NULL;
    k.running_mean = (C *)args->out[0]->data;
    k.running_var = (C *)args->out[1]->data;
    k.eps = attrs->eps;
    k.momentum = attrs->momentum;
    k.size = s.size;
    channel_args<T> a = channels_of<T>(args, s, x, NULL);
    a.moments_out = (statistics_t<C> *)(k.rstd + padded(s.c));
    bool packs = fits_packs<T>(s, x->data, NULL, NULL, NULL, NULL);
    tn_status status = launch_channels(args, a, s.inner == 1, packs, false);
    if (status != TN_OK) return status;
    status = launch(args, finish_moments<T>, warps_for(s.c), threads, 0, a.moments_out, a.x,
                    s.inner, s.c, a.splits, k);
    if (status != TN_OK) return status;
    apply_args<T> last = {};
    last.x = a.x;
    last.y = (T *)args->out[2]->data;
    last.wide_mean = k.mean;
    last.wide_rstd = k.rstd;
    last.gamma = weight_of(args->in[1], x);
    last.beta = weight_of(args->in[2], x);
    return launch_apply(args, s, last, false);
  });
}

tn_status cuda_run_batch_norm_inference(const tn_kernel_args *args) {
  const tn_batch_norm_inference_attrs *attrs = (const tn_batch_norm_inference_attrs *)args->attrs;
  const DLTensor *x = args->in[0];
  norm_shape s = batch_shape(x);
  return with_float(args, x, [&](auto element) {
    using T = decltype(element);
    using C = accumulator_t<T>;
    apply_args<T> a = {};
    a.x = (const T *)x->data;
    a.y = (T *)args->out[0]->data;
    a.mean = (const C *)args->in[1]->data;
    a.rstd = (const C *)args->in[2]->data;
    a.gamma = weight_of(args->in[3], x);
    a.beta = weight_of(args->in[4], x);
    a.infers = true;
    a.eps = attrs->eps;
    return launch_apply(args, s, a, false);
  });
}

/* In the workspace: the channels' means of g and of g z, then the parts. */
tn_status cuda_batch_norm_grad_workspace(const tn_kernel_args *args, size_t *bytes) {
  norm_shape s = batch_shape(args->in[1]);
  *bytes = (size_t)padded(s.c) * 16 + parts_bytes(args, s, args->in[1], false);
  return TN_OK;
}

tn_status cuda_run_batch_norm_grad(const tn_kernel_args *args) {
  const DLTensor *x = args->in[1];
  norm_shape s = batch_shape(x);
  norm_weight_out dgamma, dbeta;
  tn_status status = check_weight_grad(args, args->out[1], x, &dgamma);
  if (status == TN_OK) status = check_weight_grad(args, args->out[2], x, &dbeta);
  if (status != TN_OK || s.c == 0) return status;
  return with_float(args, x, [&](auto element) {
    using T = decltype(element);
    using C = accumulator_t<T>;
    pair_sum *means = (pair_sum *)args->workspace, *parts = means + padded(s.c);
    tn_status done = sum_up<T>(args, s, dgamma, dbeta, means, parts);
    if (done != TN_OK) return done;
    apply_args<T> a = {};
    a.x = (const T *)x->data;
    a.dy = (const T *)args->in[0]->data;
    a.y = (T *)args->out[0]->data;
    a.mean = (const C *)args->in[2]->data;
    a.rstd = (const C *)args->in[3]->data;
    a.gamma = weight_of(args->in[4], x);
    a.means = means;
    return launch_apply(args, s, a, true);
  });
}
