/*
 * dynamic_quantize_linear, by the extremes: partial ones a block, then one block that makes scale
 * and zero point of them, then a pass that quantises by these.
 */
#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/quant/quant.cuh"

namespace {

enum { threads = 256, most_partials = 1024 };

/* Divides by one number often: right to the last bit where the quotient is neither tiny nor huge
 * (Markstein 1990), as those by scales are that hold what they are made for. */
template <class C> struct divisor_of {
  C by, part;
  bool plain;
  __device__ __forceinline__ explicit divisor_of(C d) : by(d), part((C)1 / d) {
    plain = sizeof(C) == 8 || !(d > (C)0x1p-60 && d < (C)0x1p60);
  }
  __device__ __forceinline__ C operator()(C v) const {
    if (plain) return divide<C>(v, by);
    return nearly(v);
  }
  /* pre: !plain */
  __device__ __forceinline__ C nearly(C v) const {
    const C q = v * part, y = fma(fma(-q, by, v), part, q);
    return fabs(q) < (C)0x1p60 ? y : q; /* infinities leave no remainder */
  }
};

template <class C> struct extremes {
  C low, high;
  __device__ __forceinline__ void take(C l, C h) { /* NaN is neither */
    low = fmin(low, l);
    high = fmax(high, h);
  }
};

/* Those of a block's threads, in thread 0. */
template <class C> __device__ extremes<C> block_extremes(extremes<C> e) {
  __shared__ C low[threads], high[threads];
  low[threadIdx.x] = e.low;
  high[threadIdx.x] = e.high;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if ((int)threadIdx.x >= half) continue;
    e.take(low[threadIdx.x + half], high[threadIdx.x + half]);
    low[threadIdx.x] = e.low;
    high[threadIdx.x] = e.high;
  }
  return e;
}

/* Elements that a thread reads at a time. */
enum { dynamic_width = 8 };

template <class T>
__device__ __forceinline__ void read_some(compute_t<T> *v, const T *x, int64_t n, bool packs) {
  constexpr int V = least(dynamic_width, 16 / (int)sizeof(T));
  if (packs && n >= dynamic_width) {
#pragma unroll
    for (int k = 0; k < dynamic_width / V; k++) {
      const pack<T, V> p = ((const pack<T, V> *)x)[k];
#pragma unroll
      for (int j = 0; j < V; j++) v[k * V + j] = load(p.v[j]);
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < dynamic_width; j++) v[j] = j < n ? (compute_t<T>)load(x[j]) : 0;
}

template <class T>
__global__ void __launch_bounds__(threads)
    part_extremes(const T *x, int64_t count, bool packs, extremes<compute_t<T>> *partials) {
  extremes<compute_t<T>> e = {0, 0};
  await_earlier();
  const int64_t step = (int64_t)gridDim.x * threads * dynamic_width;
  for (int64_t i = ((int64_t)blockIdx.x * threads + threadIdx.x) * dynamic_width; i < count;
       i += 2 * step) {
    compute_t<T> v[2][dynamic_width];
    read_some(v[0], x + i, count - i, packs);
    if (i + step < count)
      read_some(v[1], x + i + step, count - i - step, packs);
    else
#pragma unroll
      for (int j = 0; j < dynamic_width; j++) v[1][j] = 0;
#pragma unroll
    for (int j = 0; j < dynamic_width; j++) {
      e.take(v[0][j], v[0][j]);
      e.take(v[1][j], v[1][j]);
    }
  }
  e = block_extremes(e);
  if (threadIdx.x == 0) partials[blockIdx.x] = e;
}

template <class C>
__global__ void __launch_bounds__(threads)
    choose_scale(const extremes<C> *partials, int count, C *scale, uint8_t *zero) {
  extremes<C> e = {0, 0};
  await_earlier();
  for (int i = threadIdx.x; i < count; i += threads) e.take(partials[i].low, partials[i].high);
  e = block_extremes(e);
  if (threadIdx.x != 0) return;
  const C s = e.high == e.low ? 1 : divide<C>(e.high - e.low, 255);
  *scale = s;
  *zero = (uint8_t)saturated(divide<C>(-e.low, s), 0, 0, 255);
}

template <class T>
__global__ void __launch_bounds__(threads)
    quantise_by(const T *x, uint8_t *y, int64_t count, bool packs, const compute_t<T> *scale,
                const uint8_t *zero) {
  await_earlier();
  const divisor_of<compute_t<T>> over(*scale);
  const int z = *zero;
  constexpr int64_t pitch = threads * dynamic_width;
  /* The end of x was read last: the cache still has it. */
  const int64_t step = 2 * pitch * gridDim.x, block = gridDim.x - 1 - blockIdx.x;
  for (int64_t i = 2 * pitch * block + threadIdx.x * dynamic_width; i < count; i += step) {
    compute_t<T> v[2][dynamic_width];
#pragma unroll
    for (int k = 0; k < 2; k++) read_some(v[k], x + i + k * pitch, count - i - k * pitch, packs);
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const int64_t at = i + k * pitch;
      pack<uint8_t, dynamic_width> to;
#pragma unroll
      for (int j = 0; j < dynamic_width; j++)
        to.v[j] = (uint8_t)saturated(over(v[k][j]), z, 0, 255);
      if (packs && at + dynamic_width <= count) {
        *(pack<uint8_t, dynamic_width> *)(y + at) = to;
      } else {
#pragma unroll
        for (int j = 0; j < dynamic_width; j++)
          if (at + j < count) y[at + j] = to.v[j];
      }
    }
  }
}

int partials_of(int64_t count) {
  const int64_t blocks = ceil_div(count, threads * dynamic_width);
  return (int)(blocks < most_partials ? blocks : most_partials);
}

template <class T> tn_status run_dynamic(const tn_kernel_args *args) {
  using C = compute_t<T>;
  const DLTensor *x = args->in[0];
  const int64_t count = cuda_size(x, 0, x->ndim);
  const int partials = partials_of(count);
  const T *from = (const T *)x->data;
  extremes<C> *room = (extremes<C> *)args->workspace;
  C *scale = (C *)args->out[1]->data;
  uint8_t *zero = (uint8_t *)args->out[2]->data;
  uint8_t *to = (uint8_t *)args->out[0]->data;
  const bool packs = is_aligned(from, 16) && is_aligned(to, dynamic_width);
  tn_status status = TN_OK;
  if (partials)
    status = launch_early(args, part_extremes<T>, partials, threads, 0, from, count, packs, room);
  if (!status)
    status = launch_early(args, choose_scale<C>, 1, threads, 0, room, partials, scale, zero);
  if (status || count == 0) return status;
  const int64_t blocks = ceil_div(count, 2 * threads * dynamic_width);
  return launch_early(args, quantise_by<T>, (unsigned)(blocks < 1 << 16 ? blocks : 1 << 16),
                      threads, 0, from, to, count, packs, scale, zero);
}

} // namespace

tn_status cuda_run_dynamic_quantize_linear(const tn_kernel_args *args) {
  return for_float(args, args->in[0], [&](auto t) { return run_dynamic<decltype(t)>(args); });
}

tn_status cuda_dynamic_quantize_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *x = args->in[0];
  *bytes = 2 * sizeof(double) * (size_t)partials_of(cuda_size(x, 0, x->ndim));
  return TN_OK;
}
