/*
 * cross_entropy over many classes: a block reads a target's row once, taking the largest logit so
 * far and the sum of e^(x - largest) together (Milakov and Gimelshein 2018), 16 bytes at a time.
 */
#ifndef KERNELS_CUDA_LOSS_LONG_ROWS_CUH
#define KERNELS_CUDA_LOSS_LONG_ROWS_CUH

#include "kernels/cuda/loss/loss.cuh"

namespace {

enum { long_threads = 512, long_classes = 2048, long_unroll = 4 };

inline bool rows_are_long(const loss_plan &p) { return p.inner == 1 && p.classes >= long_classes; }

template <class T> constexpr int pack_of() { return 16 / (int)sizeof(T); }

/* Whether rows are whole packs of 16 bytes. */
template <class T> bool has_packs(const loss_plan &p, const T *x) {
  return p.classes % pack_of<T>() == 0 && is_aligned(x, 16);
}

/* The largest of some numbers, and the sum of e^(number - largest). Where the largest is -infinity
 * e^0 would be wrong: numbers are as far from 0 then. */
template <class C> struct scaled_sum {
  C top, sum;

  __device__ __forceinline__ static C base(C top) { return top == -(C)INFINITY ? (C)0 : top; }

  __device__ __forceinline__ void join(scaled_sum b) {
    C all = b.top > top ? b.top : top, from = base(all);
    sum = sum * exp(top - from) + b.sum * exp(b.top - from);
    top = all;
  }

  template <int N> __device__ __forceinline__ void add(const C *v) {
    C all = top;
#pragma unroll
    for (int j = 0; j < N; j++) all = v[j] > all ? v[j] : all;
    C from = base(all), more = 0;
#pragma unroll
    for (int j = 0; j < N; j++) more += exp(v[j] - from);
    sum = sum * exp(top - from) + more;
    top = all;
  }
};

/* Of all the block's threads; every one gets it. */
template <class C> __device__ scaled_sum<C> join_block(scaled_sum<C> mine) {
  __shared__ scaled_sum<C> shared[long_threads / 32];
  for (int mask = 16; mask > 0; mask /= 2)
    mine.join({__shfl_xor_sync(0xffffffffu, mine.top, mask),
               __shfl_xor_sync(0xffffffffu, mine.sum, mask)});
  __syncthreads(); /* the last use of shared is over */
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  scaled_sum<C> all = shared[0];
  for (int i = 1; i < long_threads / 32; i++) all.join(shared[i]);
  return all;
}

/* The sum over all the block's threads; every one gets it. */
template <class C> __device__ C join_block(C mine) {
  __shared__ C shared[long_threads / 32];
  mine = join_sum(mine, 32);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  C all = 0;
  for (int i = 0; i < long_threads / 32; i++) all += shared[i];
  return all;
}

template <class T, int V, class C> __device__ __forceinline__ void read_pack(C *v, const T *x) {
  pack<T, V> p = *(const pack<T, V> *)x;
#pragma unroll
  for (int j = 0; j < V; j++) v[j] = load(p.v[j]);
}

template <class T, int V>
__device__ scaled_sum<accumulator_t<T>> row_scaled_sum(const T *x, int64_t classes) {
  using C = accumulator_t<T>;
  constexpr int U = long_unroll;
  constexpr int64_t step = (int64_t)long_threads * V;
  scaled_sum<C> s = {-(C)INFINITY, 0};
  int64_t c = (int64_t)threadIdx.x * V;
  for (; c + (U - 1) * step < classes; c += U * step) {
    C v[U * V];
#pragma unroll
    for (int k = 0; k < U; k++) read_pack<T, V>(v + k * V, x + c + k * step);
    s.template add<U * V>(v);
  }
  for (; c < classes; c += step) {
    C v[V];
    read_pack<T, V>(v, x + c);
    s.template add<V>(v);
  }
  return join_block(s);
}

template <class T>
__device__ accumulator_t<T> long_row_total(const T *x, int64_t classes, accumulator_t<T> top) {
  accumulator_t<T> s = 0;
  for (int64_t c = threadIdx.x; c < classes; c += long_threads)
    s += (accumulator_t<T>)load(x[c]) - top;
  return join_block(s);
}

/* As losses() in loss.cu. */
template <class T, int V>
__global__ void __launch_bounds__(long_threads)
    long_losses(T *y, partial<accumulator_t<T>> *partials, const T *x, const void *target,
                loss_plan p) {
  using C = accumulator_t<T>;
  C total = 0, keep = (C)(1 - p.smoothing), share = (C)(p.smoothing / (double)p.classes);
  long long counted = 0;
  for (int64_t i = blockIdx.x; i < p.targets; i += gridDim.x) {
    const T *row = x + i * p.classes;
    int64_t t = class_of(target, i, p.wide);
    scaled_sum<C> s = row_scaled_sum<T, V>(row, p.classes);
    bool valid = t >= 0 && t < p.classes;
    C wanted = valid ? s.top - (C)load(row[t]) : (C)NAN; /* distance from the top */
    if (p.smoothing > 0) wanted = keep * wanted - share * long_row_total(row, p.classes, s.top);
    C loss = is_ignored(t, p) ? (C)0 : wanted + log(s.sum);
    if (p.reduction == TN_REDUCTION_NONE && threadIdx.x == 0) y[i] = stored<T>::from(loss);
    total += loss;
    counted += !is_ignored(t, p);
  }
  if (p.reduction == TN_REDUCTION_NONE || threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    *y = finished<T>(partial<C>{total, counted}, p.reduction);
  } else {
    partials[blockIdx.x] = {total, counted};
  }
}

/* As losses_grad() in loss.cu; a block has a target. The row is read again from the cache. */
template <class T, int V>
__global__ void __launch_bounds__(long_threads)
    long_losses_grad(T *dx, const T *dy, const T *x, const void *target, const long long *counted,
                     loss_plan p) {
  using C = accumulator_t<T>;
  int64_t i = blockIdx.x, base = i * p.classes, t = class_of(target, i, p.wide);
  bool valid = t >= 0 && t < p.classes && !is_ignored(t, p);
  C keep = (C)(1 - p.smoothing), share = (C)(p.smoothing / (double)p.classes);
  C scale = load(dy[p.reduction == TN_REDUCTION_NONE ? i : 0]);
  if (p.reduction == TN_REDUCTION_MEAN) scale /= (C)(counted ? *counted : (long long)p.targets);
  scaled_sum<C> s = row_scaled_sum<T, V>(x + base, p.classes);
  for (int64_t c = (int64_t)threadIdx.x * V; c < p.classes; c += (int64_t)long_threads * V) {
    C v[V];
    pack<T, V> out;
    read_pack<T, V>(v, x + base + c);
#pragma unroll
    for (int j = 0; j < V; j++) {
      C d = exp(v[j] - s.top) / s.sum;
      if (c + j == t) d -= keep;
      d -= share;
      /* A zero slope stays zero under any dy. */
      out.v[j] = stored<T>::from(valid && d != (C)0 ? d * scale : (C)0);
    }
    *(pack<T, V> *)(dx + base + c) = out;
  }
}

} // namespace

#endif /* KERNELS_CUDA_LOSS_LONG_ROWS_CUH */
