/*
 * softmax, log_softmax and their gradients along one axis of contiguous tensors, seen
 * as [outer, size, inner]. Rows (inner 1) wait in registers between the passes where they fit;
 * longer ones are read again by their block. Otherwise a thread owns one column, so that
 * neighbouring threads read neighbouring elements.
 *
 * The maximum is subtracted first. A slice whose maximum is infinite gives NaN, as
 * inf - inf does.
 */
#include "kernels/cuda/base/rows.cuh"

namespace {

enum { threads = row_threads };

template <class T, bool logarithm>
__global__ void __launch_bounds__(most_row_lanes, row_blocks_held)
    softmax_held(T *y, const T *x, const __grid_constant__ row_plan p) {
  using C = accumulator_t<T>;
  constexpr int V = pack_width<T>();
  await_earlier();
  const row_place at = place_in_row(p, x, blockIdx.x);
  held_numbers<T> held;
  read_numbers(held, x + at.row * p.size, at, p.brain);
  const C top = row_top(held, p);
  y += at.row * p.size;
  if constexpr (logarithm) {
    const C less = log(row_powers<T, false>(held, p, top));
#pragma unroll
    for (int k = 0; k < row_packs; k++) {
#pragma unroll
      for (int j = 0; j < V; j++) held.v[k][j] = (held.v[k][j] - top) - less;
      write_row(y, packed<T, V>(held.v[k], p.brain), at, k);
    }
  } else {
    const C scale = (C)1 / row_powers<T, true>(held, p, top);
#pragma unroll
    for (int k = 0; k < row_packs; k++) {
#pragma unroll
      for (int j = 0; j < V; j++) held.v[k][j] *= scale;
      write_row(y, packed<T, V>(held.v[k], p.brain), at, k);
    }
  }
}

/* Rows of any length; a block owns a row. */
template <class T>
__global__ void __launch_bounds__(threads)
    softmax_long(T *y, const T *x, const __grid_constant__ row_plan p, bool logarithm) {
  using C = accumulator_t<T>;
  x += (int64_t)blockIdx.x * p.size;
  y += (int64_t)blockIdx.x * p.size;
  C top = -(C)INFINITY, sum = 0;
  for (int64_t i = threadIdx.x; i < p.size; i += threads)
    top = take_max::join((C)load(x[i], p.brain), top);
  top = join_row<take_max>(top, threads);
  for (int64_t i = threadIdx.x; i < p.size; i += threads)
    sum += exponential<T>((C)load(x[i], p.brain) - top);
  sum = join_row<take_sum>(sum, threads);
  const C scale = logarithm ? log(sum) : (C)1 / sum;
  for (int64_t i = threadIdx.x; i < p.size; i += threads) {
    const C v = (C)load(x[i], p.brain) - top;
    y[i] = rounded<T>(logarithm ? v - scale : exponential<T>(v) * scale, p.brain);
  }
}

/* An element of softmax's gradient: y (dy - sum dy y), or dy - e^y sum dy of log_softmax. */
template <class T, class C> __device__ __forceinline__ C slope(C g, C v, C sum, bool logarithm) {
  return logarithm ? g - exponential<T>(v) * sum : v * (g - sum);
}

template <class T>
__global__ void __launch_bounds__(most_row_lanes, row_blocks_held)
    softmax_held_grad(T *dx, const T *dy, const T *y, const __grid_constant__ row_plan p,
                      bool logarithm) {
  using C = accumulator_t<T>;
  constexpr int V = pack_width<T>();
  await_earlier();
  const row_place at = place_in_row(p, y, blockIdx.x);
  held_pack held_g[row_packs], held_v[row_packs];
  C g[V], v[V], sum = 0;
  read_row(held_g, dy + at.row * p.size, at);
  read_row(held_v, y + at.row * p.size, at);
#pragma unroll
  for (int k = 0; k < row_packs; k++) { /* beside the row both are 0 */
    unpack<T>(g, held_g[k], p.brain);
    unpack<T>(v, held_v[k], p.brain);
    if (!logarithm) {
#pragma unroll
      for (int j = 0; j < V; j++) g[j] *= v[j];
    }
    sum += tree_sum<V>(g);
  }
  sum = join_row<take_sum>(sum, p.lanes);
#pragma unroll
  for (int k = 0; k < row_packs; k++) {
    unpack<T>(g, held_g[k], p.brain);
    unpack<T>(v, held_v[k], p.brain);
    if (logarithm) {
#pragma unroll
      for (int j = 0; j < V; j++) g[j] = slope<T>(g[j], v[j], sum, true);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) g[j] = slope<T>(g[j], v[j], sum, false);
    }
    write_row(dx + at.row * p.size, packed<T, V>(g, p.brain), at, k);
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    softmax_long_grad(T *dx, const T *dy, const T *y, const __grid_constant__ row_plan p,
                      bool logarithm) {
  using C = accumulator_t<T>;
  dx += (int64_t)blockIdx.x * p.size;
  dy += (int64_t)blockIdx.x * p.size;
  y += (int64_t)blockIdx.x * p.size;
  C sum = 0;
  for (int64_t i = threadIdx.x; i < p.size; i += threads) {
    const C g = load(dy[i], p.brain);
    sum += logarithm ? g : g * (C)load(y[i], p.brain);
  }
  sum = join_row<take_sum>(sum, threads);
  for (int64_t i = threadIdx.x; i < p.size; i += threads)
    dx[i] = rounded<T>(slope<T>((C)load(dy[i], p.brain), (C)load(y[i], p.brain), sum, logarithm),
                       p.brain);
}

/* The contiguous tensor as [outer, size, inner] around the axis. */
struct slices {
  int64_t outer, size, inner;
  bool brain;
};

template <class T>
__global__ void __launch_bounds__(threads)
    softmax_columns(T *y, const T *x, const __grid_constant__ slices s, bool logarithm) {
  using C = accumulator_t<T>;
  const int64_t column = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (column >= s.outer * s.inner) return;
  const int64_t base = column / s.inner * s.size * s.inner + column % s.inner;
  x += base;
  y += base;
  C top = -(C)INFINITY, sum = 0;
#pragma unroll 4
  for (int64_t i = 0; i < s.size; i++) top = take_max::join((C)load(x[i * s.inner], s.brain), top);
#pragma unroll 4
  for (int64_t i = 0; i < s.size; i++)
    sum += exponential<T>((C)load(x[i * s.inner], s.brain) - top);
  const C scale = logarithm ? log(sum) : (C)1 / sum;
  for (int64_t i = 0; i < s.size; i++) {
    const C v = (C)load(x[i * s.inner], s.brain) - top;
    y[i * s.inner] = rounded<T>(logarithm ? v - scale : exponential<T>(v) * scale, s.brain);
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    softmax_columns_grad(T *dx, const T *dy, const T *y, const __grid_constant__ slices s,
                         bool logarithm) {
  using C = accumulator_t<T>;
  const int64_t column = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (column >= s.outer * s.inner) return;
  const int64_t base = column / s.inner * s.size * s.inner + column % s.inner;
  dx += base;
  dy += base;
  y += base;
  C sum = 0;
#pragma unroll 4
  for (int64_t i = 0; i < s.size; i++) {
    const C g = load(dy[i * s.inner], s.brain);
    sum += logarithm ? g : g * (C)load(y[i * s.inner], s.brain);
  }
  for (int64_t i = 0; i < s.size; i++) {
    const C g = load(dy[i * s.inner], s.brain), v = load(y[i * s.inner], s.brain);
    dx[i * s.inner] = rounded<T>(slope<T>(g, v, sum, logarithm), s.brain);
  }
}

slices slices_of(const DLTensor *t, int64_t axis) {
  if (t->ndim == 0) return {1, 1, 1, is_brain(t)};
  int a = (int)(axis < 0 ? axis + t->ndim : axis);
  return {cuda_size(t, 0, a), t->shape[a], cuda_size(t, a + 1, t->ndim), is_brain(t)};
}

template <class T> tn_status softmax_as(const tn_kernel_args *args, const slices &s, bool log) {
  T *y = (T *)args->out[0]->data;
  const T *x = (const T *)args->in[0]->data;
  if (s.outer == 0 || s.size == 0 || s.inner == 0) return TN_OK;
  if (s.inner > 1)
    return launch(args, softmax_columns<T>, (unsigned)ceil_div(s.outer * s.inner, threads), threads,
                  0, y, x, s, log);
  const row_plan p = row_plan_of<T>(args->in[0], s.outer, s.size);
  if (!rows_fit(p) || !lie_alike(x, y))
    return launch(args, softmax_long<T>, (unsigned)p.rows, threads, 0, y, x, p, log);
  return launch_early(args, log ? softmax_held<T, true> : softmax_held<T, false>,
                      (unsigned)row_blocks(p), p.block, 0, y, x, p);
}

template <class T>
tn_status softmax_grad_as(const tn_kernel_args *args, const slices &s, bool log) {
  T *dx = (T *)args->out[0]->data;
  const T *dy = (const T *)args->in[0]->data, *y = (const T *)args->in[1]->data;
  if (s.outer == 0 || s.size == 0 || s.inner == 0) return TN_OK;
  if (s.inner > 1)
    return launch(args, softmax_columns_grad<T>, (unsigned)ceil_div(s.outer * s.inner, threads),
                  threads, 0, dx, dy, y, s, log);
  const row_plan p = row_plan_of<T>(args->in[1], s.outer, s.size);
  if (!rows_fit(p) || !lie_alike(dy, y) || !lie_alike(dx, y))
    return launch(args, softmax_long_grad<T>, (unsigned)p.rows, threads, 0, dx, dy, y, p, log);
  return launch_early(args, softmax_held_grad<T>, (unsigned)row_blocks(p), p.block, 0, dx, dy, y, p,
                      log);
}

tn_status softmax_run(const tn_kernel_args *args, int64_t axis, bool log) {
  const slices s = slices_of(args->out[0], axis);
  return for_class(args, args->out[0],
                   [&](auto t) { return softmax_as<decltype(t)>(args, s, log); });
}

tn_status softmax_grad_run(const tn_kernel_args *args, int64_t axis, bool log) {
  const slices s = slices_of(args->out[0], axis);
  return for_class(args, args->out[0],
                   [&](auto t) { return softmax_grad_as<decltype(t)>(args, s, log); });
}

} // namespace

tn_status cuda_run_softmax(const tn_kernel_args *args) {
  return softmax_run(args, ((const tn_softmax_attrs *)args->attrs)->axis, false);
}
tn_status cuda_run_log_softmax(const tn_kernel_args *args) {
  return softmax_run(args, ((const tn_log_softmax_attrs *)args->attrs)->axis, true);
}
tn_status cuda_run_softmax_grad(const tn_kernel_args *args) {
  return softmax_grad_run(args, ((const tn_softmax_grad_attrs *)args->attrs)->axis, false);
}
tn_status cuda_run_log_softmax_grad(const tn_kernel_args *args) {
  return softmax_grad_run(args, ((const tn_log_softmax_grad_attrs *)args->attrs)->axis, true);
}
