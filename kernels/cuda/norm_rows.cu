/*
 * layer_norm, group_norm, instance_norm, rms_norm and their gradients by x: a set is a
 * contiguous row of x. A warp or a block owns a row; it keeps the row in registers between
 * the passes where it fits, and else reads it twice. The gradients of the weights are in
 * norm_sums.cu.
 */
#include "kernels/cuda/norm.cuh"

namespace {

enum { warp_threads = 128, most_threads = 1024, most_held = 16 };

template <class T> struct row_args {
  const T *x, *dy;
  T *y; /* or dx */
  norm_weight gamma, beta;
  accumulator_t<T> *mean, *rstd; /* written by the forward kernels unless NULL */
  const accumulator_t<T> *mean_in, *rstd_in;
  int64_t rows, size, inner, groups, per;
  cuda_divisor divide; /* by inner, where a row is short enough */
  int lanes;           /* threads of a row: 32, or all of the block */
  bool centred;
  accumulator_t<T> eps;
};

/* The channel of element i of a row of group `group`; `held` rows are short. */
template <class T, bool held>
__device__ __forceinline__ int64_t channel_at(const row_args<T> &a, int64_t group, int64_t i) {
  if (a.inner == 1) return group * a.per + i;
  return group * a.per + (held ? (int64_t)quotient((uint32_t)i, a.divide) : i / a.inner);
}

template <class T, int V, bool held, class C>
__device__ __forceinline__ void write_normal(const row_args<T> &a, T *y, int64_t group, int64_t i,
                                             const C *v, C mean, C rstd) {
  C gamma[V], beta[V], out[V];
  int64_t channel = channel_at<T, held>(a, group, i);
  read_weights<T, V>(gamma, a.gamma, channel, a.inner == 1, (C)1);
  read_weights<T, V>(beta, a.beta, channel, a.inner == 1, (C)0);
#pragma unroll
  for (int j = 0; j < V; j++) out[j] = (v[j] - mean) * rstd * gamma[j] + beta[j];
  write_elements<T, V>(y + i, out);
}

template <class T, class C>
__device__ __forceinline__ void keep(const row_args<T> &a, int64_t row, C mean, C rstd) {
  if (a.mean) a.mean[row] = mean;
  if (a.rstd) a.rstd[row] = rstd;
}

/* E elements per thread, V of them side by side. */
template <class T, int V, int E>
__global__ void __launch_bounds__(most_threads) rows_held(const __grid_constant__ row_args<T> a) {
  using C = accumulator_t<T>;
  constexpr int K = E / V;
  int lane = threadIdx.x % a.lanes;
  int64_t row = (int64_t)blockIdx.x * (blockDim.x / a.lanes) + threadIdx.x / a.lanes;
  if (row >= a.rows) return; /* whole warps or the whole block */
  const T *x = a.x + row * a.size;
  C v[K][V], sum = 0, mean = 0, count = (C)a.size;
  C first = a.centred ? (C)load(x[0]) : (C)0;
#pragma unroll
  for (int k = 0; k < K; k++) {
    int i = (k * a.lanes + lane) * V;
    if (i < a.size) read_elements<T, V>(v[k], x + i);
#pragma unroll
    for (int j = 0; j < V; j++) {
      if (i >= a.size) v[k][j] = first;
      sum += v[k][j] - first;
    }
  }
  if (a.centred) {
    mean = first + join_lanes(sum, a.lanes) / count;
    if (!isfinite(mean)) { /* a first element that is no number has no distances */
      sum = 0;
#pragma unroll
      for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < V; j++) sum += (k * a.lanes + lane) * V < a.size ? v[k][j] : (C)0;
      mean = join_lanes(sum, a.lanes) / count;
    }
  }
  sum = 0;
#pragma unroll
  for (int k = 0; k < K; k++)
#pragma unroll
    for (int j = 0; j < V; j++) {
      C d = v[k][j] - mean;
      sum += (k * a.lanes + lane) * V < a.size ? d * d : (C)0;
    }
  C rstd = (C)1 / sqrt(join_lanes(sum, a.lanes) / count + a.eps);
  if (lane == 0) keep(a, row, mean, rstd);
#pragma unroll
  for (int k = 0; k < K; k++) {
    int i = (k * a.lanes + lane) * V;
    if (i < a.size)
      write_normal<T, V, true>(a, a.y + row * a.size, row % a.groups, i, v[k], mean, rstd);
  }
}

/* Rows of any length, also none; a block owns a row. */
template <class T, int V>
__global__ void __launch_bounds__(most_threads) rows_long(const __grid_constant__ row_args<T> a) {
  using C = accumulator_t<T>;
  __shared__ C told[2];
  int64_t row = blockIdx.x;
  const T *x = a.x + row * a.size;
  moments<C> m = {0, 0, 0, 0};
  C v[V], square = 0;
  for (int64_t i = (int64_t)threadIdx.x * V; i < a.size; i += (int64_t)blockDim.x * V) {
    read_elements<T, V>(v, x + i);
    if (a.centred) {
      m.template add<V>(v);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) square += v[j] * v[j];
    }
  }
  if (a.centred) {
    m = join_block(m);
  } else {
    m = {(C)a.size, 0, join_lanes(square, (int)blockDim.x), 0};
  }
  if (threadIdx.x == 0) {
    told[0] = a.centred ? m.final_mean() : (C)0;
    told[1] = (C)1 / sqrt(m.variance() + a.eps);
    keep(a, row, told[0], told[1]);
  }
  __syncthreads();
  C mean = told[0], rstd = told[1];
  for (int64_t i = (int64_t)threadIdx.x * V; i < a.size; i += (int64_t)blockDim.x * V) {
    read_elements<T, V>(v, x + i);
    write_normal<T, V, false>(a, a.y + row * a.size, row % a.groups, i, v, mean, rstd);
  }
}

/* g = dy gamma and z = (x - mean) rstd of V elements. */
template <class T, int V, bool held, class C>
__device__ __forceinline__ void read_slopes(const row_args<T> &a, int64_t row, int64_t i, C mean,
                                            C rstd, C *g, C *z) {
  C gamma[V];
  int64_t channel = channel_at<T, held>(a, row % a.groups, i);
  read_elements<T, V>(g, a.dy + row * a.size + i);
  read_elements<T, V>(z, a.x + row * a.size + i);
  read_weights<T, V>(gamma, a.gamma, channel, a.inner == 1, (C)1);
#pragma unroll
  for (int j = 0; j < V; j++) {
    g[j] *= gamma[j];
    z[j] = (z[j] - mean) * rstd;
  }
}

template <class T, int V, class C>
__device__ __forceinline__ void write_slopes(T *dx, const C *g, const C *z, C rstd, C shift,
                                             C slope) {
  C out[V];
#pragma unroll
  for (int j = 0; j < V; j++) out[j] = rstd * (g[j] - shift - z[j] * slope);
  write_elements<T, V>(dx, out);
}

/* dx = rstd (g - mean g - z mean(g z)) of rows that registers hold. */
template <class T, int V, int E>
__global__ void __launch_bounds__(E > 8 ? most_threads / 2 : most_threads)
    rows_grad_held(const __grid_constant__ row_args<T> a) {
  using C = accumulator_t<T>;
  constexpr int K = E / V;
  int lane = threadIdx.x % a.lanes;
  int64_t row = (int64_t)blockIdx.x * (blockDim.x / a.lanes) + threadIdx.x / a.lanes;
  if (row >= a.rows) return;
  C g[K][V], z[K][V], sum = 0, sum_z = 0;
  C mean = a.centred ? a.mean_in[row] : (C)0, rstd = a.rstd_in[row], count = (C)a.size;
#pragma unroll
  for (int k = 0; k < K; k++) {
    int i = (k * a.lanes + lane) * V;
    if (i >= a.size) continue;
    read_slopes<T, V, true>(a, row, i, mean, rstd, g[k], z[k]);
#pragma unroll
    for (int j = 0; j < V; j++) {
      sum += g[k][j];
      sum_z += g[k][j] * z[k][j];
    }
  }
  C shift = a.centred ? join_lanes(sum, a.lanes) / count : (C)0;
  C slope = join_lanes(sum_z, a.lanes) / count;
#pragma unroll
  for (int k = 0; k < K; k++) {
    int i = (k * a.lanes + lane) * V;
    if (i < a.size) write_slopes<T, V>(a.y + row * a.size + i, g[k], z[k], rstd, shift, slope);
  }
}

template <class T, int V>
__global__ void __launch_bounds__(most_threads)
    rows_grad_long(const __grid_constant__ row_args<T> a) {
  using C = accumulator_t<T>;
  int64_t row = blockIdx.x;
  C g[V], z[V], sum = 0, sum_z = 0;
  C mean = a.centred ? a.mean_in[row] : (C)0, rstd = a.rstd_in[row], count = (C)a.size;
  for (int64_t i = (int64_t)threadIdx.x * V; i < a.size; i += (int64_t)blockDim.x * V) {
    read_slopes<T, V, false>(a, row, i, mean, rstd, g, z);
#pragma unroll
    for (int j = 0; j < V; j++) {
      sum += g[j];
      sum_z += g[j] * z[j];
    }
  }
  C shift = a.centred ? join_lanes(sum, (int)blockDim.x) / count : (C)0;
  C slope = join_lanes(sum_z, (int)blockDim.x) / count;
  for (int64_t i = (int64_t)threadIdx.x * V; i < a.size; i += (int64_t)blockDim.x * V) {
    read_slopes<T, V, false>(a, row, i, mean, rstd, g, z);
    write_slopes<T, V>(a.y + row * a.size + i, g, z, rstd, shift, slope);
  }
}

/* Rows of up to 32 E elements belong to a warp, longer ones to a block. */
template <class T>
tn_status launch_held(const tn_kernel_args *args, void (*kernel)(row_args<T>), row_args<T> &a,
                      int held) {
  int threads = warp_threads;
  a.lanes = 32;
  if (a.size > 32 * held) {
    a.lanes = threads = (int)(ceil_div(ceil_div(a.size, held), 32) * 32);
  }
  return launch(args, kernel, (unsigned)ceil_div(a.rows, threads / a.lanes), threads, 0, a);
}

template <class T, int V>
tn_status launch_rows(const tn_kernel_args *args, row_args<T> &a, bool backward) {
  if (backward) {
    if (a.size <= 8 * 32) return launch_held(args, rows_grad_held<T, V, 8>, a, 8);
    if (a.size <= most_held * most_threads / 2)
      return launch_held(args, rows_grad_held<T, V, most_held>, a, most_held);
    return launch(args, rows_grad_long<T, V>, (unsigned)a.rows, most_threads, 0, a);
  }
  if (a.size == 0) return launch(args, rows_long<T, V>, (unsigned)a.rows, 32, 0, a);
  if (a.size <= 8 * 32) return launch_held(args, rows_held<T, V, 8>, a, 8);
  if (a.size <= most_held * most_threads)
    return launch_held(args, rows_held<T, V, most_held>, a, most_held);
  return launch(args, rows_long<T, V>, (unsigned)a.rows, most_threads, 0, a);
}

/* Packs of 16 bytes where every row and weight allows. */
template <class T> tn_status run_rows(const tn_kernel_args *args, row_args<T> &a, bool backward) {
  constexpr int V = 16 / (int)sizeof(T);
  if (a.rows == 0 || (backward && a.size == 0)) return TN_OK;
  if (a.rows > CUDA_MAX_INDEX)
    return args->host->fail(TN_ERR_UNSUPPORTED, "%s: more than 2^31 sets", args->kernel->name);
  a.divide = cuda_divisor_of((uint32_t)(a.inner <= CUDA_MAX_INDEX ? a.inner : 0));
  bool wide = a.size % V == 0 && (a.inner == 1 || a.inner % V == 0) &&
              all_aligned(a.x, a.y, a.dy, a.gamma.data, a.beta.data);
  if (wide && a.inner == 1 && a.per % V != 0) wide = false;
  return wide ? launch_rows<T, V>(args, a, backward) : launch_rows<T, 1>(args, a, backward);
}

template <class T> row_args<T> rows_of(const norm_shape &s) {
  row_args<T> a = {};
  a.rows = s.n * s.groups;
  a.size = s.size;
  a.inner = s.inner;
  a.groups = s.groups > 0 ? s.groups : 1;
  a.per = s.per;
  a.centred = s.centred;
  return a;
}

tn_status forward(const tn_kernel_args *args, const norm_shape &s, double eps) {
  return with_float(args, args->in[0], [&](auto element) {
    using T = decltype(element);
    using C = accumulator_t<T>;
    row_args<T> a = rows_of<T>(s);
    DLTensor *mean = s.centred ? args->out[1] : NULL, *rstd = args->out[s.centred ? 2 : 1];
    a.x = (const T *)args->in[0]->data;
    a.y = (T *)args->out[0]->data;
    a.gamma = weight_of(args->in[1], args->in[0]);
    if (s.centred) a.beta = weight_of(args->in[2], args->in[0]);
    a.mean = mean ? (C *)mean->data : NULL;
    a.rstd = rstd ? (C *)rstd->data : NULL;
    a.eps = (C)eps;
    return run_rows(args, a, false);
  });
}

tn_status backward(const tn_kernel_args *args, const norm_shape &s) {
  tn_status status = cuda_norm_weight_grads(args, s);
  if (status != TN_OK) return status;
  return with_float(args, args->in[0], [&](auto element) {
    using T = decltype(element);
    using C = accumulator_t<T>;
    row_args<T> a = rows_of<T>(s);
    a.dy = (const T *)args->in[0]->data;
    a.x = (const T *)args->in[1]->data;
    a.y = (T *)args->out[0]->data;
    a.mean_in = s.centred ? (const C *)args->in[2]->data : NULL;
    a.rstd_in = (const C *)args->in[s.centred ? 3 : 2]->data;
    a.gamma = weight_of(args->in[s.centred ? 4 : 3], args->in[1]);
    return run_rows(args, a, true);
  });
}

norm_shape by_row(const DLTensor *x, int64_t axis, bool centred) {
  norm_shape s = norm_shape_of(x, (int)(axis < 0 ? axis + x->ndim : axis), x->ndim, 1);
  s.centred = centred;
  return s;
}

norm_shape by_channel(const DLTensor *x, int64_t groups) { return norm_shape_of(x, 1, 2, groups); }

norm_shape layer_shape(const tn_kernel_args *args) {
  return by_row(args->in[1], ((const tn_layer_norm_grad_attrs *)args->attrs)->axis, true);
}
norm_shape rms_shape(const tn_kernel_args *args) {
  return by_row(args->in[1], ((const tn_rms_norm_grad_attrs *)args->attrs)->axis, false);
}
norm_shape group_shape(const tn_kernel_args *args) {
  return by_channel(args->in[1], ((const tn_group_norm_grad_attrs *)args->attrs)->groups);
}
norm_shape instance_shape(const tn_kernel_args *args) {
  return by_channel(args->in[1], args->in[1]->shape[1]);
}

} // namespace

tn_status cuda_run_layer_norm(const tn_kernel_args *args) {
  const tn_layer_norm_attrs *attrs = (const tn_layer_norm_attrs *)args->attrs;
  return forward(args, by_row(args->in[0], attrs->axis, true), attrs->eps);
}
tn_status cuda_run_rms_norm(const tn_kernel_args *args) {
  const tn_rms_norm_attrs *attrs = (const tn_rms_norm_attrs *)args->attrs;
  return forward(args, by_row(args->in[0], attrs->axis, false), attrs->eps);
}
tn_status cuda_run_group_norm(const tn_kernel_args *args) {
  const tn_group_norm_attrs *attrs = (const tn_group_norm_attrs *)args->attrs;
  return forward(args, by_channel(args->in[0], attrs->groups), attrs->eps);
}
tn_status cuda_run_instance_norm(const tn_kernel_args *args) {
  const tn_instance_norm_attrs *attrs = (const tn_instance_norm_attrs *)args->attrs;
  return forward(args, by_channel(args->in[0], args->in[0]->shape[1]), attrs->eps);
}

#define GRADIENT(name, shape)                                                                      \
  tn_status cuda_run_##name##_grad(const tn_kernel_args *args) {                                   \
    return backward(args, shape(args));                                                            \
  }                                                                                                \
  tn_status cuda_##name##_grad_workspace(const tn_kernel_args *args, size_t *bytes) {              \
    *bytes = cuda_norm_weight_workspace(args, shape(args));                                        \
    return TN_OK;                                                                                  \
  }
GRADIENT(layer_norm, layer_shape)
GRADIENT(rms_norm, rms_shape)
GRADIENT(group_norm, group_shape)
GRADIENT(instance_norm, instance_shape)
