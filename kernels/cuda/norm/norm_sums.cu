/*
 * Batch norm and its gradient, and the gradients of the weights of every normalisation:
 * whatever is summed over a channel, by the kernels of norm_channels.cuh; a last kernel goes
 * over the elements.
 */
#include "kernels/cuda/norm/norm_channels.cuh"

namespace {

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
  if (!each) { /* one channel's: a root for all */
    read_statistics<T, 1>(a, channel, false, mean, rstd);
    read_weights<T, 1>(gamma, a.gamma, channel, false, (C)1);
    read_weights<T, 1>(beta, a.beta, channel, false, (C)0);
    const centre<C> at(mean[0], rstd[0]);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = at.normal(v[j], gamma[0], beta[0]);
    write_elements<T, V>(a.y + i, v);
    return;
  }
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
  if (!each) {
    read_weights<T, 1>(gamma, a.gamma, channel, false, (C)1);
    const pair_sum m = a.means[channel];
    const C high = (C)m.one, slope = (C)m.by_z, middle = a.mean[channel], root = a.rstd[channel];
    const C low = isfinite(high) ? (C)(m.one - (double)high) : (C)0;
#pragma unroll
    for (int j = 0; j < V; j++)
      v[j] = root * ((fma(g[j], gamma[0], -high) - low) - (v[j] - middle) * root * slope);
    write_elements<T, V>(a.y + i, v);
    return;
  }
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
  return for_float(args, x, [&](auto element) {
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
  return for_float(args, x, [&](auto element) {
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
  return for_float(args, x, [&](auto element) {
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
  return for_float(args, x, [&](auto element) {
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
