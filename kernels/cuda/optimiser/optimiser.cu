/*
 * Optimiser steps, in place, one pass over all state. Scalars are made from the
 * attributes in double, on the host; where the program keeps some of them in device memory,
 * by one thread of each block from what it reads there. Tensors come contiguous.
 */
#include <math.h>

#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/base/scalars.cuh"

namespace {

enum { threads = 256, width = 4 };

__host__ __device__ int64_t number_of(const tn_sgd_step_attrs &) { return 0; }
__host__ __device__ int64_t number_of(const tn_adam_step_attrs &a) { return a.step; }

template <class C> struct sgd {
  static constexpr int states = 1;
  using attrs = tn_sgd_step_attrs;
  C lr, momentum, weight_decay;
  bool nesterov;
  static __host__ __device__ sgd of(const attrs &a, double lr, int64_t) {
    return {(C)lr, (C)a.momentum, (C)a.weight_decay, a.nesterov != 0};
  }
  __device__ __forceinline__ void operator()(C grad, C &param, C *state) const {
    C g = grad + weight_decay * param;
    C v = momentum == (C)0 ? g : momentum * state[0] + g; /* the buffer may hold anything then */
    state[0] = v;
    param -= lr * (nesterov ? g + momentum * v : v);
  }
};

/* rate = lr / (1 - b1^t), scale = 1 / (1 - b2^t). The decays and the rate act in double:
 * rounded to float they would be off by the same 1e-8 for every element of every step,
 * which training amplifies. The quotient needs float only. */
template <class C> struct adam {
  static constexpr int states = 2;
  using attrs = tn_adam_step_attrs;
  double rate, scale, beta1, rest1, beta2, rest2;
  C eps, weight_decay;
  static __host__ __device__ adam of(const attrs &a, double lr, int64_t number) {
    double t = (double)number;
    return {lr / (1 - pow(a.beta1, t)),
            1 / (1 - pow(a.beta2, t)),
            a.beta1,
            1 - a.beta1,
            a.beta2,
            1 - a.beta2,
            (C)a.eps,
            (C)a.weight_decay};
  }
  __device__ __forceinline__ void operator()(C grad, C &param, C *state) const {
    double g = grad + weight_decay * param;
    double m = beta1 * state[0] + rest1 * g, v = beta2 * state[1] + rest2 * (g * g);
    state[0] = (C)m;
    state[1] = (C)v;
    param = (C)(param - rate * ((C)m / (sqrt((C)(v * scale)) + eps)));
  }
};

template <class T, class Rule>
__device__ __forceinline__ void step_threads(const Rule &rule, T *param, T *s0, T *s1,
                                             const T *grad, int64_t n, bool wide) {
  int64_t first = ((int64_t)blockIdx.x * threads + threadIdx.x) * width;
  if (first >= n) return;
  T *tensors[3] = {param, s0, s1};
  pack<T, width> g{}, v[3] = {};
  bool whole = wide && first + width <= n;
  if (whole) {
    g = *(const pack<T, width> *)(grad + first);
#pragma unroll
    for (int k = 0; k <= Rule::states; k++) v[k] = *(pack<T, width> *)(tensors[k] + first);
  } else {
#pragma unroll
    for (int i = 0; i < width; i++) {
      if (first + i >= n) continue;
      g.v[i] = grad[first + i];
#pragma unroll
      for (int k = 0; k <= Rule::states; k++) v[k].v[i] = tensors[k][first + i];
    }
  }
#pragma unroll
  for (int i = 0; i < width; i++) {
    compute_t<T> p = load(v[0].v[i]), state[2] = {};
#pragma unroll
    for (int k = 0; k < Rule::states; k++) state[k] = load(v[k + 1].v[i]);
    rule(load(g.v[i]), p, state);
    v[0].v[i] = stored<T>::from(p);
#pragma unroll
    for (int k = 0; k < Rule::states; k++) v[k + 1].v[i] = stored<T>::from(state[k]);
  }
  if (whole) {
#pragma unroll
    for (int k = 0; k <= Rule::states; k++) *(pack<T, width> *)(tensors[k] + first) = v[k];
    return;
  }
#pragma unroll
  for (int i = 0; i < width; i++) {
    if (first + i >= n) continue;
#pragma unroll
    for (int k = 0; k <= Rule::states; k++) tensors[k][first + i] = v[k].v[i];
  }
}

template <class T, class Rule>
__global__ void __launch_bounds__(threads)
    step(Rule rule, T *param, T *s0, T *s1, const T *grad, int64_t n, bool wide) {
  step_threads(rule, param, s0, s1, grad, n, wide);
}

/* The same with a rule that the block makes. */
template <class T, class Rule>
__global__ void __launch_bounds__(threads)
    step_from(step_scalars from, typename Rule::attrs attrs, T *param, T *s0, T *s1, const T *grad,
              int64_t n, bool wide) {
  __shared__ Rule rule;
  if (from.skips()) return;
  if (threadIdx.x == 0) rule = Rule::of(attrs, from.rate(attrs.lr), from.number(number_of(attrs)));
  __syncthreads();
  step_threads(rule, param, s0, s1, grad, n, wide);
}

template <class T, class Rule>
tn_status run_step(const tn_kernel_args *args, const step_scalars &from) {
  T *state[3] = {};
  const T *grad = (const T *)args->in[0]->data;
  bool wide = is_aligned(grad, sizeof(T) * width);
  for (int k = 0; k <= Rule::states; k++) {
    state[k] = (T *)args->out[k]->data;
    wide = wide && is_aligned(state[k], sizeof(T) * width);
  }
  int64_t n = cuda_size(args->out[0], 0, args->out[0]->ndim);
  if (n == 0) return TN_OK;
  const auto attrs = attrs_copy<typename Rule::attrs>(args->attrs);
  const unsigned blocks = (unsigned)ceil_div(n, threads * width);
  if (from.any())
    return launch(args, step_from<T, Rule>, blocks, threads, 0, from, attrs, state[0], state[1],
                  state[2], grad, n, wide);
  return launch(args, step<T, Rule>, blocks, threads, 0,
                Rule::of(attrs, attrs.lr, number_of(attrs)), state[0], state[1], state[2], grad, n,
                wide);
}

} // namespace

tn_status cuda_run_sgd_step(const tn_kernel_args *args) {
  const step_scalars from = scalars_of((const tn_sgd_step_attrs *)args->attrs);
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    return run_step<T, sgd<compute_t<T>>>(args, from);
  });
}

tn_status cuda_run_adam_step(const tn_kernel_args *args) {
  const step_scalars from = counted_scalars_of((const tn_adam_step_attrs *)args->attrs);
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    return run_step<T, adam<compute_t<T>>>(args, from);
  });
}
