/*
 * layer_norm, group_norm, instance_norm, rms_norm and their gradients by x: a set is a
 * contiguous row of x. A warp or a block owns a row; it keeps the row in registers between
 * the passes where it fits, and else reads it twice. The gradients of the weights are in
 * norm_sums.cu.
 */
#include "kernels/cuda/norm/norm_half.cuh"

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
  double eps;
};

/* Rows and groups are fewer than 2^31. */
template <class T> __device__ __forceinline__ int64_t group_of(const row_args<T> &a, int64_t row) {
  return a.groups == 1 ? 0 : (uint32_t)row % (uint32_t)a.groups;
}

/* The channel of element i of a row of group `group`; `held` rows are short. */
template <class T, bool held>
__device__ __forceinline__ int64_t channel_at(const row_args<T> &a, int64_t group, int64_t i) {
  if (a.inner == 1) return group * a.per + i;
  return group * a.per + (held ? (int64_t)quotient((uint32_t)i, a.divide) : i / a.inner);
}

template <class T, int V, bool held, class C>
__device__ __forceinline__ void write_normal(const row_args<T> &a, T *y, int64_t group, int64_t i,
                                             const C *v, const centre<C> &at) {
  C gamma[V], beta[V], out[V];
  int64_t channel = channel_at<T, held>(a, group, i);
  read_weights<T, V>(gamma, a.gamma, channel, a.inner == 1, (C)1);
  read_weights<T, V>(beta, a.beta, channel, a.inner == 1, (C)0);
#pragma unroll
  for (int j = 0; j < V; j++) out[j] = at.normal(v[j], gamma[j], beta[j]);
  write_elements<T, V>(y + i, out);
}

template <class T>
__device__ __forceinline__ void keep(const row_args<T> &a, int64_t row, double mean, double rstd) {
  using C = accumulator_t<T>;
  if (a.mean) a.mean[row] = (C)mean;
  if (a.rstd) a.rstd[row] = (C)rstd;
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
  C v[K][V];
  double sum = 0, mean = 0, count = (double)a.size;
  /* Equal floats have an exact sum; doubles are summed as distances from the first. */
  C first = a.centred && sizeof(C) == 8 ? (C)load(x[0]) : (C)0;
#pragma unroll
  for (int k = 0; k < K; k++) {
    int i = (k * a.lanes + lane) * V;
    if (i < a.size) read_elements<T, V>(v[k], x + i);
#pragma unroll
    for (int j = 0; j < V; j++)
      if (i >= a.size) v[k][j] = first;
    if constexpr (adds_floats<T, V>) {
      sum += sum_of<V>(v[k]);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) sum += (double)v[k][j] - (double)first;
    }
  }
  if (a.centred) {
    mean = (double)first + join_lanes(sum, a.lanes) / count;
    if (sizeof(C) == 8 && !isfinite(mean)) { /* a first that is no number has no distances */
      sum = 0;
#pragma unroll
      for (int k = 0; k < K; k++)
#pragma unroll
        for (int j = 0; j < V; j++)
          sum += (k * a.lanes + lane) * V < a.size ? (double)v[k][j] : 0.0;
      mean = join_lanes(sum, a.lanes) / count;
    }
  }
  sum = 0;
#pragma unroll
  for (int k = 0; k < K; k++) {
    if ((k * a.lanes + lane) * V >= a.size) continue;
    if constexpr (adds_floats<T, V>) {
      sum += squares_of<V>(v[k], mean);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) {
        double d = (double)v[k][j] - mean;
        sum += d * d;
      }
    }
  }
  centre<C> at(mean, 1.0 / sqrt(join_lanes(sum, a.lanes) / count + a.eps));
  if (lane == 0) keep(a, row, at.mean, at.root);
  const int64_t group = group_of(a, row);
#pragma unroll
  for (int k = 0; k < K; k++) {
    int i = (k * a.lanes + lane) * V;
    if (i < a.size) write_normal<T, V, true>(a, a.y + row * a.size, group, i, v[k], at);
  }
}

/* Rows of any length, also none; a block owns a row. */
template <class T, int V>
__global__ void __launch_bounds__(most_threads) rows_long(const __grid_constant__ row_args<T> a) {
  using C = accumulator_t<T>;
  __shared__ double told[2];
  int64_t row = blockIdx.x;
  const T *x = a.x + row * a.size;
  statistics_t<C> m = {};
  double shift = a.size > 0 ? shift_of(x) : 0, square = 0;
  C v[V];
  for (int64_t i = (int64_t)threadIdx.x * V; i < a.size; i += (int64_t)blockDim.x * V) {
    read_elements<T, V>(v, x + i);
    if (a.centred) {
      m.template add<V>(v, shift);
    } else if constexpr (adds_floats<T, V>) {
      square += squares_of<V>(v, 0);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) square += (double)v[j] * (double)v[j];
    }
  }
  norm_stat s = {0, 0};
  if (a.centred) {
    m = join_block(m);
    s = m.finish(a.size, shift);
  } else {
    s.var = join_lanes(square, (int)blockDim.x) / (double)a.size;
  }
  if (threadIdx.x == 0) {
    told[0] = s.mean;
    told[1] = 1.0 / sqrt(s.var + a.eps);
    keep(a, row, told[0], told[1]);
  }
  __syncthreads();
  centre<C> at(told[0], told[1]);
  const int64_t group = group_of(a, row);
  for (int64_t i = (int64_t)threadIdx.x * V; i < a.size; i += (int64_t)blockDim.x * V) {
    read_elements<T, V>(v, x + i);
    write_normal<T, V, false>(a, a.y + row * a.size, group, i, v, at);
  }
}

/* g = dy gamma, in two parts, and z = (x - mean) rstd of V elements. */
template <class C, int V> struct slopes { C g[V], g_low[V], z[V]; };

/* The two sums of a row, and what they make of its elements. */
struct row_sums {
  double g, gz;
};

template <class T, int V, bool held, class C>
__device__ __forceinline__ void read_slopes(const row_args<T> &a, int64_t row, int64_t group,
                                            int64_t i, C mean, C rstd, slopes<C, V> &s,
                                            row_sums &sum) {
  C gamma[V];
  int64_t channel = channel_at<T, held>(a, group, i);
  read_elements<T, V>(s.g, a.dy + row * a.size + i);
  read_elements<T, V>(s.z, a.x + row * a.size + i);
  read_weights<T, V>(gamma, a.gamma, channel, a.inner == 1, (C)1);
  if constexpr (adds_floats<T, V>) {
    C by_z[V];
#pragma unroll
    for (int j = 0; j < V; j++) {
      const C dy = s.g[j];
      s.g[j] = dy * gamma[j];
      s.g_low[j] = fmaf(dy, gamma[j], -s.g[j]);
      s.z[j] = (s.z[j] - mean) * rstd;
      by_z[j] = s.g[j] * s.z[j];
    }
    sum.g += (double)tree_sum<V>(s.g);
    sum.gz += (double)tree_sum<V>(by_z);
  } else {
#pragma unroll
    for (int j = 0; j < V; j++) {
      C dy = s.g[j];
      double z = ((double)s.z[j] - (double)mean) * (double)rstd, g;
      s.g[j] = dy * gamma[j];
      s.g_low[j] = sizeof(C) == 8 ? (C)0 : (C)fma(dy, gamma[j], -s.g[j]);
      g = sizeof(C) == 8 ? (double)s.g[j] : (double)dy * (double)gamma[j];
      sum.g += g;
      sum.gz += g * z;
      s.z[j] = (s.z[j] - mean) * rstd;
    }
  }
}

/* What dx takes off g: a mean in two parts, and a multiple of z. */
template <class C> struct row_means {
  C high, low, slope;

  __device__ __forceinline__ row_means(row_sums sum, int64_t size, bool centred, int lanes) {
    double count = (double)size, shift = 0;
    if (centred) shift = join_lanes(sum.g, lanes) / count;
    slope = (C)(join_lanes(sum.gz, lanes) / count);
    high = (C)shift;
    low = isfinite(high) ? (C)(shift - (double)high) : (C)0;
  }
};

template <class T, int V, class C>
__device__ __forceinline__ void write_slopes(T *dx, const slopes<C, V> &s, C rstd,
                                             const row_means<C> &m) {
  C out[V];
#pragma unroll
  for (int j = 0; j < V; j++)
    out[j] = rstd * (((s.g[j] - m.high) + (s.g_low[j] - m.low)) - s.z[j] * m.slope);
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
  const int64_t group = group_of(a, row);
  slopes<C, V> held[K];
  row_sums sum = {0, 0};
  C mean = a.centred ? a.mean_in[row] : (C)0, rstd = a.rstd_in[row];
#pragma unroll
  for (int k = 0; k < K; k++) {
    int i = (k * a.lanes + lane) * V;
    if (i < a.size) read_slopes<T, V, true>(a, row, group, i, mean, rstd, held[k], sum);
  }
  row_means<C> m(sum, a.size, a.centred, a.lanes);
#pragma unroll
  for (int k = 0; k < K; k++) {
    int i = (k * a.lanes + lane) * V;
    if (i < a.size) write_slopes<T, V>(a.y + row * a.size + i, held[k], rstd, m);
  }
}

template <class T, int V>
__global__ void __launch_bounds__(most_threads)
    rows_grad_long(const __grid_constant__ row_args<T> a) {
  using C = accumulator_t<T>;
  int64_t row = blockIdx.x;
  const int64_t group = group_of(a, row);
  slopes<C, V> s;
  row_sums sum = {0, 0}, again = {0, 0};
  C mean = a.centred ? a.mean_in[row] : (C)0, rstd = a.rstd_in[row];
  for (int64_t i = (int64_t)threadIdx.x * V; i < a.size; i += (int64_t)blockDim.x * V)
    read_slopes<T, V, false>(a, row, group, i, mean, rstd, s, sum);
  row_means<C> m(sum, a.size, a.centred, (int)blockDim.x);
  for (int64_t i = (int64_t)threadIdx.x * V; i < a.size; i += (int64_t)blockDim.x * V) {
    read_slopes<T, V, false>(a, row, group, i, mean, rstd, s, again);
    write_slopes<T, V>(a.y + row * a.size + i, s, rstd, m);
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
  if constexpr (sizeof(T) != 2 || V == 1) { /* else norm_half.cuh has them */
    if (a.size <= 8 * 32) return launch_held(args, rows_held<T, V, 8>, a, 8);
    if (a.size <= most_held * most_threads)
      return launch_held(args, rows_held<T, V, most_held>, a, most_held);
  }
  return launch(args, rows_long<T, V>, (unsigned)a.rows, most_threads, 0, a);
}

/* Where norm_half.cuh takes the rows. */
template <class T> tn_status launch_halves(const tn_kernel_args *args, const row_args<T> &a) {
  half_rows h = {};
  h.x = (const any_half *)a.x;
  h.y = (any_half *)a.y;
  h.gamma = a.gamma;
  h.beta = a.beta;
  h.mean = (float *)a.mean;
  h.rstd = (float *)a.rstd;
  h.rows = (uint32_t)a.rows;
  h.size = (uint32_t)a.size;
  h.groups = (uint32_t)a.groups;
  h.per = a.per;
  h.divide = a.divide;
  h.each = a.inner == 1;
  h.centred = a.centred;
  h.brain = is_brain(args->in[0]);
  h.eps = a.eps;
  h.share = 1 / (double)a.size;
  return launch_half_rows(args, h);
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
  if constexpr (sizeof(T) == 2) {
    if (wide && !backward && holds_half_row(a.size)) return launch_halves(args, a);
  }
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
  return for_float(args, args->in[0], [&](auto element) {
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
    a.eps = eps;
    return run_rows(args, a, false);
  });
}

tn_status backward(const tn_kernel_args *args, const norm_shape &s) {
  tn_status status = cuda_norm_weight_grads(args, s);
  if (status != TN_OK) return status;
  return for_float(args, args->in[0], [&](auto element) {
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
