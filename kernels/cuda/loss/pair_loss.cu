/*
 * Losses of elements in pairs and their gradients over contiguous tensors. Sums are taken
 * in two kernels, in fixed order.
 */
#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/loss/pair_terms.cuh"

namespace {

enum { threads = 256, most_blocks = 1024, few_elements = 16384 };

/* A pair with its weight of positive targets, and the operator's own attribute. */
template <class T> struct pair {
  using C = accumulator_t<T>;
  C x, t, pos, option;
};
template <class T> using computed = typename pair<T>::C;

/* Losses that are to be added up: where they may be had with less, an operator says so. */
template <class Op> struct terms_as_losses {
  template <class T> static __device__ computed<T> term(pair<T> p) { return Op::loss(p); }
};

struct squared : terms_as_losses<squared> {
  template <class T> static __device__ computed<T> loss(pair<T> p) {
    return (p.x - p.t) * (p.x - p.t);
  }
  template <class T> static __device__ computed<T> slope(pair<T> p) {
    return (computed<T>)2 * (p.x - p.t);
  }
};
struct cross_entropy {
  /* From the tail of softplus, in parts that do not cancel: see the reference. */
  template <class T> static __device__ computed<T> of_tail(pair<T> p, computed<T> tail) {
    using C = computed<T>;
    return ((C)1 - p.t) * (p.x > (C)0 ? p.x + tail : tail) +
           p.pos * p.t * (p.x < (C)0 ? tail - p.x : tail);
  }
  template <class T> static __device__ computed<T> loss(pair<T> p) {
    if constexpr (sizeof(T) == 2)
      return of_tail(p, softplus_tail_short(p.x));
    else
      return of_tail(p, softplus_tail(p.x));
  }
  template <class T> static __device__ computed<T> term(pair<T> p) {
    if constexpr (sizeof(T) == 4)
      return of_tail(p, softplus_tail_near(p.x));
    else
      return loss(p);
  }
  template <class T> static __device__ computed<T> slope(pair<T> p) {
    if constexpr (sizeof(T) == 2)
      return entropy_slope_short(p.x, p.t, p.pos);
    else
      return entropy_slope(p.x, p.t, p.pos);
  }
};
struct huber : terms_as_losses<huber> {
  template <class T> static __device__ computed<T> loss(pair<T> p) {
    using C = computed<T>;
    C d = fabs(p.x - p.t);
    return d <= p.option ? (C)0.5 * d * d : p.option * (d - (C)0.5 * p.option);
  }
  template <class T> static __device__ computed<T> slope(pair<T> p) {
    computed<T> d = p.x - p.t;
    return d > p.option ? p.option : d < -p.option ? -p.option : d;
  }
};
struct divergence { /* option: target holds logarithms */
  template <class T> static __device__ computed<T> loss(pair<T> p) {
    using C = computed<T>;
    if (p.option != (C)0) return exp(p.t) * (p.t - p.x);
    if constexpr (sizeof(T) == 2)
      return p.t == (C)0 ? (C)0 : p.t * single_log_less<!std::is_same_v<T, half_t>>(p.t, p.x);
    else
      return p.t == (C)0 ? (C)0 : (C)((double)p.t * (log_of(p.t) - (double)p.x));
  }
  /* Beside the sum hardly anything is lost where a term's two parts nearly cancel. */
  template <class T> static __device__ computed<T> term(pair<T> p) {
    if constexpr (sizeof(T) <= 4) {
      if (p.option == 0.0f) {
        const float less =
            sizeof(T) == 2 ? single_log_short(p.t) - p.x : single_log_less<true>(p.t, p.x);
        return p.t == 0.0f ? 0.0f : p.t * less;
      }
    }
    return loss(p);
  }
  template <class T> static __device__ computed<T> slope(pair<T> p) {
    return p.option != (computed<T>)0 ? -exp(p.t) : -p.t;
  }
};

template <class T> struct pair_args {
  using C = accumulator_t<T>;
  const T *x, *target, *weight, *pos, *dy; /* weight, pos: NULL where absent */
  T *y;                                    /* the loss, or dx */
  C *partials;
  int64_t count, c; /* elements, and the length of pos */
  C option, scale;
  bool one_dy; /* dy is one number for all */
  bool packs;  /* all lie so that packs are read and written at once */
};

/* What there is of a pack of elements from i on, at once where they are all there. */
template <class T>
__device__ __forceinline__ held_pack fetch(const T *x, int64_t i, const pair_args<T> &a) {
  constexpr int V = pack_width<T>();
  held_pack p = {};
  if (a.packs && i + V <= a.count) {
    p = *(const held_pack *)(x + i);
  } else {
#pragma unroll
    for (int j = 0; j < V; j++)
      if (i + j < a.count) put_element(p, j, x[i + j]);
  }
  return p;
}

/* Element j of a pack. */
template <class T> __device__ __forceinline__ computed<T> number(const held_pack &p, int j) {
  if constexpr (sizeof(T) == 2)
    return element_of<any_half>(p, j, std::is_same_v<T, bfloat_t>);
  else
    return element_of<T>(p, j, false);
}

/* What a pack's pairs come to: losses, losses that are to be added up, or slopes. */
enum pair_kind { pair_losses, pair_terms, pair_slopes };

/* V weighted values of x and t from element i on; beyond the last they mean nothing. */
template <class T, class Op, pair_kind kind, class C>
__device__ __forceinline__ void values_of(const pair_args<T> &a, int64_t i, const held_pack &x,
                                          const held_pack &t, C *out) {
  constexpr int V = pack_width<T>();
  C pos[V];
#pragma unroll
  for (int j = 0; j < V; j++) pos[j] = (C)1;
  if (a.pos) {
    int64_t at = i % a.c;
#pragma unroll
    for (int j = 0; j < V; j++) {
      pos[j] = load(a.pos[at]);
      at = at + 1 < a.c ? at + 1 : 0;
    }
  }
#pragma unroll
  for (int j = 0; j < V; j++) {
    const pair<T> p = {number<T>(x, j), number<T>(t, j), pos[j], a.option};
    out[j] = kind == pair_slopes ? Op::slope(p) : kind == pair_terms ? Op::term(p) : Op::loss(p);
  }
  if (!a.weight) return;
  const held_pack w = fetch(a.weight, i, a);
#pragma unroll
  for (int j = 0; j < V; j++) out[j] *= number<T>(w, j);
}

template <class T, class Op, pair_kind kind, class C>
__device__ __forceinline__ void values(const pair_args<T> &a, int64_t i, C *out) {
  const held_pack x = fetch(a.x, i, a), t = fetch(a.target, i, a);
  values_of<T, Op, kind>(a, i, x, t, out);
}

/* Adds up a block's; right in thread 0. */
template <class C> __device__ C join_block(C v) {
  __shared__ C shared[threads / 32];
  for (int mask = 16; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = shared[0];
  for (int i = 1; i < threads / 32; i++) v += shared[i];
  return v;
}

template <class T, int V, class Op>
__global__ void __launch_bounds__(threads) sum_losses(const __grid_constant__ pair_args<T> a) {
  using C = accumulator_t<T>;
  C total = 0;
  await_earlier();
  int64_t stride = (int64_t)gridDim.x * threads * V;
  int64_t i = ((int64_t)blockIdx.x * threads + threadIdx.x) * V;
  /* Two packs of either tensor are under way together. */
  for (; a.packs && i + stride + V <= a.count; i += 2 * stride) {
    held_pack x[2], t[2];
    C v[V];
#pragma unroll
    for (int k = 0; k < 2; k++) {
      x[k] = *(const held_pack *)(a.x + i + k * stride);
      t[k] = *(const held_pack *)(a.target + i + k * stride);
    }
#pragma unroll
    for (int k = 0; k < 2; k++) {
      values_of<T, Op, pair_terms>(a, i + k * stride, x[k], t[k], v);
      total += tree_sum<V>(v);
    }
  }
  for (; i < a.count; i += stride) {
    C v[V];
    values<T, Op, pair_terms>(a, i, v);
#pragma unroll
    for (int j = 0; j < V; j++)
      if (i + j < a.count) total += v[j];
  }
  total = join_block(total);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    *a.y = stored<T>::from(total / a.scale);
  } else {
    a.partials[blockIdx.x] = total;
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    sum_partials(T *y, const accumulator_t<T> *partials, int count, accumulator_t<T> scale) {
  accumulator_t<T> total = 0;
  await_earlier();
  for (int i = threadIdx.x; i < count; i += threads) total += partials[i];
  total = join_block(total);
  if (threadIdx.x == 0) *y = stored<T>::from(total / scale);
}

/* Every loss by itself, or every gradient. */
template <class T, int V, class Op, bool slopes>
__global__ void __launch_bounds__(threads) each_pair(const __grid_constant__ pair_args<T> a) {
  using C = accumulator_t<T>;
  int64_t i = ((int64_t)blockIdx.x * threads + threadIdx.x) * V;
  await_earlier();
  if (i >= a.count) return;
  C v[V];
  values<T, Op, slopes ? pair_slopes : pair_losses>(a, i, v);
  held_pack dy = {};
  if (slopes && !a.one_dy) dy = fetch(a.dy, i, a);
  C all = slopes && a.one_dy ? (C)load(*a.dy) / a.scale : (C)1;
#pragma unroll
  for (int j = 0; j < V; j++) {
    if (slopes) v[j] *= a.one_dy ? all : number<T>(dy, j);
  }
  if (a.packs && i + V <= a.count) {
    *(pack<class_t<T>, V> *)(a.y + i) = packed<class_t<T>, V>(v, std::is_same_v<T, bfloat_t>);
    return;
  }
#pragma unroll
  for (int j = 0; j < V; j++)
    if (i + j < a.count) a.y[i + j] = stored<T>::from(v[j]);
}

template <class T> constexpr int width_of() { return 16 / (int)sizeof(T); }

/* Blocks that share a sum. */
int64_t sum_blocks(int64_t count, int width) {
  if (count <= few_elements) return 1; /* a second kernel costs more */
  int64_t blocks = ceil_div(count, (int64_t)threads * width * 4);
  return blocks < most_blocks ? blocks : most_blocks;
}

/* in: x, target and, of some operators, weight and pos_weight. */
template <class T>
pair_args<T> pairs_of(const tn_kernel_args *args, const DLTensor *const *in, int num_in,
                      int64_t reduction, double option) {
  pair_args<T> a = {};
  a.x = (const T *)in[0]->data;
  a.target = (const T *)in[1]->data;
  if (num_in > 2 && in[2]) a.weight = (const T *)in[2]->data;
  if (num_in > 3 && in[3]) a.pos = (const T *)in[3]->data;
  a.y = (T *)args->out[0]->data;
  a.count = cuda_size(in[0], 0, in[0]->ndim);
  a.c = in[0]->ndim ? in[0]->shape[in[0]->ndim - 1] : 1;
  a.option = (accumulator_t<T>)option;
  a.scale = (accumulator_t<T>)(reduction == TN_REDUCTION_MEAN ? a.count : 1);
  return a;
}

template <class T> bool fits_packs(const pair_args<T> &a, const void *y) {
  return is_aligned(a.x, 16) && is_aligned(a.target, 16) && is_aligned(a.weight, 16) &&
         is_aligned(y, 16);
}

template <class T, class Op, bool slopes>
tn_status launch_each(const tn_kernel_args *args, pair_args<T> &a) {
  constexpr int V = width_of<T>();
  if (a.count == 0) return TN_OK;
  a.packs = fits_packs(a, a.y) && (!slopes || a.one_dy || is_aligned(a.dy, 16));
  int64_t blocks = ceil_div(a.count, (int64_t)threads * V);
  if (blocks > CUDA_MAX_INDEX)
    return args->host->fail(TN_ERR_UNSUPPORTED, "%s: too many elements", args->kernel->name);
  return launch_early(args, each_pair<T, V, Op, slopes>, (unsigned)blocks, threads, 0, a);
}

template <class T, class Op>
tn_status forward_as(const tn_kernel_args *args, int64_t reduction, double option) {
  constexpr int V = width_of<T>();
  pair_args<T> a = pairs_of<T>(args, args->in, args->num_in, reduction, option);
  if (reduction == TN_REDUCTION_NONE) return launch_each<T, Op, false>(args, a);
  a.partials = (accumulator_t<T> *)args->workspace;
  unsigned blocks = (unsigned)sum_blocks(a.count, V);
  a.packs = fits_packs(a, NULL);
  tn_status status = launch_early(args, sum_losses<T, V, Op>, blocks, threads, 0, a);
  if (status != TN_OK || blocks == 1) return status;
  return launch_early(args, sum_partials<T>, 1, threads, 0, a.y, a.partials, (int)blocks, a.scale);
}

template <class T, class Op>
tn_status backward_as(const tn_kernel_args *args, int64_t reduction, double option) {
  pair_args<T> a = pairs_of<T>(args, args->in + 1, args->num_in - 1, reduction, option);
  a.dy = (const T *)args->in[0]->data;
  a.one_dy = reduction != TN_REDUCTION_NONE;
  return launch_each<T, Op, true>(args, a);
}

template <class Op, bool slopes>
tn_status pair_loss_run(const tn_kernel_args *args, int64_t reduction, double option) {
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    return slopes ? backward_as<T, Op>(args, reduction, option)
                  : forward_as<T, Op>(args, reduction, option);
  });
}

} // namespace

#define PAIR_LOSS(name, Op, slopes, option)                                                        \
  tn_status cuda_run_##name(const tn_kernel_args *args) {                                          \
    const tn_##name##_attrs *attrs = (const tn_##name##_attrs *)args->attrs;                       \
    return pair_loss_run<Op, slopes>(args, attrs->reduction, option);                              \
  }
PAIR_LOSS(mse_loss, squared, false, 0)
PAIR_LOSS(mse_loss_grad, squared, true, 0)
PAIR_LOSS(bce_with_logits, cross_entropy, false, 0)
PAIR_LOSS(bce_with_logits_grad, cross_entropy, true, 0)
PAIR_LOSS(huber_loss, huber, false, attrs->delta)
PAIR_LOSS(huber_loss_grad, huber, true, attrs->delta)
PAIR_LOSS(kl_div, divergence, false, attrs->log_target)
PAIR_LOSS(kl_div_grad, divergence, true, attrs->log_target)

/* The family's attributes begin the same. */
tn_status cuda_pair_loss_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *x = args->in[0];
  int64_t reduction = ((const tn_mse_loss_attrs *)args->attrs)->reduction;
  int64_t blocks = sum_blocks(cuda_size(x, 0, x->ndim), 16 / (x->dtype.bits / 8));
  *bytes = reduction == TN_REDUCTION_NONE || blocks == 1 ? 0 : (size_t)blocks * sizeof(double);
  return TN_OK;
}
