/*
 * Optimiser steps over lists. Scalars are made from the attributes in double on the host;
 * where the program keeps some of them in device memory, by one thread of each block. A thread
 * reads what it needs of all tensors, steps, and writes; tensors come contiguous.
 */
#include <math.h>

#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/base/scalars.cuh"
#include "kernels/cuda/optimiser/multi.cuh"

namespace {

/* What decays act in: double for the wide types, since constants rounded to float would be
 * off by the same 1e-8 for every element of every step, which training amplifies; float
 * where parameters have no more than 11 bits. */
template <class T> struct decay_of { using type = double; };
template <> struct decay_of<any_half> { using type = float; };

template <class C, class D> struct sgd_rule {
  static constexpr int states = 1;
  C lr, momentum, weight_decay;
  bool nesterov;
  __device__ __forceinline__ void operator()(C grad, C &param, C *state) const {
    C g = grad + weight_decay * param;
    C v = momentum == (C)0 ? g : momentum * state[0] + g; /* the buffer may hold anything then */
    state[0] = v;
    param -= lr * (nesterov ? g + momentum * v : v);
  }
};

/* rate = lr / (1 - b1^t), scale = 1 / (1 - b2^t), kept = 1 - lr wd. */
template <class C, class D, bool decoupled> struct adam_rule {
  static constexpr int states = 2;
  D rate, scale, beta1, rest1, beta2, rest2, kept;
  C eps, weight_decay;
  __device__ __forceinline__ void operator()(C grad, C &param, C *state) const {
    D g = decoupled ? grad : grad + weight_decay * param;
    D m = beta1 * state[0] + rest1 * g, v = beta2 * state[1] + rest2 * (g * g);
    state[0] = (C)m;
    state[1] = (C)v;
    D step = rate * ((C)m / (sqrt((C)(v * scale)) + eps));
    param = (C)(decoupled ? param * kept - step : param - step);
  }
};

template <class C, class D> struct rmsprop_rule {
  static constexpr int states = 2;
  D lr, decay, rest;
  C momentum, eps, weight_decay;
  __device__ __forceinline__ void operator()(C grad, C &param, C *state) const {
    C g = grad + weight_decay * param;
    D v = decay * state[0] + rest * ((D)g * g);
    C step = g / (sqrt((C)v) + eps);
    state[0] = (C)v;
    state[1] = momentum == (C)0 ? step : momentum * state[1] + step;
    param = (C)(param - lr * state[1]);
  }
};

template <class C, class D> struct adagrad_rule {
  static constexpr int states = 1;
  D rate;
  C eps, weight_decay;
  __device__ __forceinline__ void operator()(C grad, C &param, C *state) const {
    C g = grad + weight_decay * param;
    state[0] += g * g;
    param = (C)(param - rate * (g / (sqrt(state[0]) + eps)));
  }
};

/* --- the kernel --- */

/* Elements of one place in all lists: gradient, parameter, states. */
template <class T, class U, int states, int N> struct elements {
  pack<T, N> grad, param;
  pack<U, N> state[states];
};

template <class T, class U, class Rule, int N>
__device__ __forceinline__ void step_pack(const Rule &rule, elements<T, U, Rule::states, N> &e,
                                          bool brain) {
  compute_t<T> grad[N], param[N], state[Rule::states][N];
  unpack(grad, e.grad, brain);
  unpack(param, e.param, brain);
#pragma unroll
  for (int k = 0; k < Rule::states; k++) unpack(state[k], e.state[k], brain);
#pragma unroll
  for (int i = 0; i < N; i++) {
    compute_t<T> s[Rule::states];
#pragma unroll
    for (int k = 0; k < Rule::states; k++) s[k] = state[k][i];
    rule(grad[i], param[i], s);
#pragma unroll
    for (int k = 0; k < Rule::states; k++) state[k][i] = s[k];
  }
  e.param = packed<T, N>(param, brain);
#pragma unroll
  for (int k = 0; k < Rule::states; k++) e.state[k] = packed<U, N>(state[k], brain);
}

/* The tensors of one block's share. */
template <class T, class U, int states> struct places {
  const T *grad;
  T *param;
  U *state[states];
};

template <int N, class T, class U, int states>
__device__ __forceinline__ elements<T, U, states, N> fetch(const places<T, U, states> &p,
                                                           int64_t i) {
  elements<T, U, states, N> e;
  e.grad = *(const pack<T, N> *)(p.grad + i);
  e.param = *(const pack<T, N> *)(p.param + i);
#pragma unroll
  for (int k = 0; k < states; k++) e.state[k] = *(const pack<U, N> *)(p.state[k] + i);
  return e;
}

template <int N, class T, class U, int states>
__device__ __forceinline__ void put(const places<T, U, states> &p, int64_t i,
                                    const elements<T, U, states, N> &e) {
  *(pack<T, N> *)(p.param + i) = e.param;
#pragma unroll
  for (int k = 0; k < states; k++) *(pack<U, N> *)(p.state[k] + i) = e.state[k];
}

template <class T, class U> __host__ __device__ constexpr int width_of() {
  return 16 / most((int)sizeof(T), (int)sizeof(U));
}

template <class T, class U> __host__ __device__ constexpr int64_t chunk_of() {
  return (int64_t)multi_threads * multi_rounds * width_of<T, U>();
}

template <class T, class U, class Rule, int CAPACITY>
__device__ __forceinline__ void step_share(const Rule &rule, bool brain,
                                           const multi_table<2 + Rule::states, CAPACITY> &t) {
  constexpr int N = width_of<T, U>(), states = Rule::states;
  multi_share share = multi_find(t, chunk_of<T, U>(), blockIdx.x);
  places<T, U, states> p = {(const T *)t.data[0][share.place] + share.begin,
                            (T *)t.data[1][share.place] + share.begin};
  uintptr_t odd = ((uintptr_t)p.grad | (uintptr_t)p.param) & (sizeof(T) * N - 1);
#pragma unroll
  for (int k = 0; k < states; k++) {
    p.state[k] = (U *)t.data[2 + k][share.place] + share.begin;
    odd |= (uintptr_t)p.state[k] & (sizeof(U) * N - 1);
  }
  int64_t whole = odd ? 0 : share.n / N * N; /* elements that packs cover */
  for (int64_t i = (int64_t)threadIdx.x * N; i < whole; i += 2 * multi_threads * N) {
    int64_t j = i + multi_threads * N;
    auto a = fetch<N>(p, i), b = a;
    if (j < whole) b = fetch<N>(p, j);
    step_pack<T, U, Rule, N>(rule, a, brain);
    put<N>(p, i, a);
    if (j >= whole) break;
    step_pack<T, U, Rule, N>(rule, b, brain);
    put<N>(p, j, b);
  }
  for (int64_t i = whole + threadIdx.x; i < share.n; i += multi_threads) {
    auto e = fetch<1>(p, i);
    step_pack<T, U, Rule, 1>(rule, e, brain);
    put<1>(p, i, e);
  }
}

/* A call's attributes, and its rule where all of them are known. */
template <class Make> struct step_call {
  using attrs_t = typename Make::attrs;
  attrs_t attrs;
  step_scalars from;
};

template <class T, class U, class Rule, int CAPACITY>
__global__ void __launch_bounds__(multi_threads)
    step(const __grid_constant__ Rule rule, bool brain,
         const __grid_constant__ multi_table<2 + Rule::states, CAPACITY> t) {
  step_share<T, U>(rule, brain, t);
}

/* The same with a rule that the block makes: with small tables alone, of which long lists take
 * several. */
template <class T, class U, class Make, int CAPACITY>
__global__ void __launch_bounds__(multi_threads)
    step_from(const __grid_constant__ step_call<Make> call, bool brain,
              const __grid_constant__ multi_table<2 + Make::rule::states, CAPACITY> t) {
  __shared__ typename Make::rule rule;
  if (call.from.skips()) return;
  if (threadIdx.x == 0)
    rule = Make::of(call.attrs, call.from.rate(call.attrs.lr),
                    call.from.number(Make::number(call.attrs)));
  __syncthreads();
  step_share<T, U>(rule, brain, t);
}

template <int BYTES, class T, class U, class Make>
tn_status run_tables(const tn_kernel_args *args, const step_call<Make> &call) {
  using Rule = typename Make::rule;
  constexpr int LISTS = 2 + Rule::states, CAPACITY = multi_capacity(LISTS, BYTES - sizeof(Rule));
  const DLTensor *const *lists[LISTS] = {args->in};
  for (int k = 1; k < LISTS; k++)
    lists[k] = (const DLTensor *const *)args->out + (k - 1) * args->num_in;
  const Rule rule = Make::of(call.attrs, call.attrs.lr, Make::number(call.attrs));
  return multi_each_table<LISTS, CAPACITY>(
      lists, args->num_in, chunk_of<T, U>(),
      [&](const multi_table<LISTS, CAPACITY> &t, unsigned blocks) {
        if constexpr (BYTES == multi_small_bytes)
          if (call.from.any())
            return launch(args, step_from<T, U, Make, CAPACITY>, blocks, multi_threads, 0, call,
                          is_brain(args->in[0]), t);
        return launch(args, step<T, U, Rule, CAPACITY>, blocks, multi_threads, 0, rule,
                      is_brain(args->in[0]), t);
      });
}

template <class T, class U, class Make>
tn_status run_step(const tn_kernel_args *args, const step_scalars &from) {
  const step_call<Make> call = {attrs_copy<typename Make::attrs>(args->attrs), from};
  constexpr int lists = 2 + Make::rule::states, bytes = multi_small_bytes;
  bool small =
      from.any() || args->num_in <= multi_capacity(lists, bytes - (int)sizeof(typename Make::rule));
  return small ? run_tables<multi_small_bytes, T, U>(args, call)
               : run_tables<multi_large_bytes, T, U>(args, call);
}

/* Runs the rule of Make<C, D> for the call's types: the state has the parameters' type, or is
 * float beside 16-bit parameters. */
template <template <class, class> class Make>
tn_status run_typed(const tn_kernel_args *args, const step_scalars &from) {
  bool same = cuda_dtype(args->in[0]) == cuda_dtype(args->out[args->num_in]);
  return for_class(args, args->in[0], [&](auto t) {
    using T = decltype(t);
    using Made = Make<compute_t<T>, typename decay_of<T>::type>;
    if (sizeof(T) > 2 || same) return run_step<T, T, Made>(args, from);
    return run_step<T, compute_t<T>, Made>(args, from);
  });
}

/* --- rules from attributes, a rate and a number of the step --- */

template <class C, class D> struct make_sgd {
  using attrs = tn_multi_sgd_attrs;
  using rule = sgd_rule<C, D>;
  static __host__ __device__ int64_t number(const attrs &) { return 0; }
  static __host__ __device__ rule of(const attrs &a, double lr, int64_t) {
    return {(C)lr, (C)a.momentum, (C)a.weight_decay, a.nesterov != 0};
  }
};

/* The attributes of adam and adamw are alike. */
template <class C, class D, bool decoupled> struct make_any_adam {
  using attrs = tn_multi_adam_attrs;
  using rule = adam_rule<C, D, decoupled>;
  static __host__ __device__ int64_t number(const attrs &a) { return a.step; }
  static __host__ __device__ rule of(const attrs &a, double lr, int64_t number) {
    double t = (double)number;
    return {(D)(lr / (1 - pow(a.beta1, t))),
            (D)(1 / (1 - pow(a.beta2, t))),
            (D)a.beta1,
            (D)(1 - a.beta1),
            (D)a.beta2,
            (D)(1 - a.beta2),
            (D)(1 - lr * a.weight_decay),
            (C)a.eps,
            (C)a.weight_decay};
  }
};
template <class C, class D> using make_adam = make_any_adam<C, D, false>;
template <class C, class D> using make_adamw = make_any_adam<C, D, true>;

template <class C, class D> struct make_rmsprop {
  using attrs = tn_multi_rmsprop_attrs;
  using rule = rmsprop_rule<C, D>;
  static __host__ __device__ int64_t number(const attrs &) { return 0; }
  static __host__ __device__ rule of(const attrs &a, double lr, int64_t) {
    return {(D)lr, (D)a.alpha, (D)(1 - a.alpha), (C)a.momentum, (C)a.eps, (C)a.weight_decay};
  }
};

template <class C, class D> struct make_adagrad {
  using attrs = tn_multi_adagrad_attrs;
  using rule = adagrad_rule<C, D>;
  static __host__ __device__ int64_t number(const attrs &a) { return a.step; }
  static __host__ __device__ rule of(const attrs &a, double lr, int64_t number) {
    return {(D)(lr / (1 + (double)(number - 1) * a.lr_decay)), (C)a.eps, (C)a.weight_decay};
  }
};

} // namespace

/* The state has the parameters' type, or is float32 beside 16-bit parameters. */
bool cuda_multi_supports(const tn_kernel_args *args) {
  tn_dtype t = cuda_dtype(args->in[0]), u = cuda_dtype(args->out[args->num_in]);
  return u == t || u == tn_dtype_wide(t);
}

tn_status cuda_run_multi_sgd(const tn_kernel_args *args) {
  return run_typed<make_sgd>(args, scalars_of((const tn_multi_sgd_attrs *)args->attrs));
}
tn_status cuda_run_multi_adam(const tn_kernel_args *args) {
  return run_typed<make_adam>(args, counted_scalars_of((const tn_multi_adam_attrs *)args->attrs));
}
tn_status cuda_run_multi_adamw(const tn_kernel_args *args) {
  return run_typed<make_adamw>(args, counted_scalars_of((const tn_multi_adamw_attrs *)args->attrs));
}
tn_status cuda_run_multi_rmsprop(const tn_kernel_args *args) {
  return run_typed<make_rmsprop>(args, scalars_of((const tn_multi_rmsprop_attrs *)args->attrs));
}
tn_status cuda_run_multi_adagrad(const tn_kernel_args *args) {
  return run_typed<make_adagrad>(args,
                                 counted_scalars_of((const tn_multi_adagrad_attrs *)args->attrs));
}
