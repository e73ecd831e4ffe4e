/*
 * The frame of reductions over any axes of any strides. A block holds `lanes` threads for
 * each of several outputs; every thread goes through its share of the elements in fixed
 * order, the block combines them in a fixed tree, and where one block per output would
 * leave the device idle, several share an output and a second kernel combines their
 * partial results. Nothing is atomic: the same call gives the same bits.
 *
 * A reduction R over element type T states what it carries (R::A), how it begins (init),
 * what one element is (read), how two results join, and how the end is written. Before
 * anything else `start` sees the output's first element.
 */
#ifndef KERNELS_CUDA_REDUCE_CUH
#define KERNELS_CUDA_REDUCE_CUH

#include <string.h>

#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/reduce/reduce.h"

namespace {

enum { threads = cuda_reduce_threads };

/* Integers of every width are reduced as int64: one kernel serves all. */
struct any_int {};

/* Floats T whose results are wider: Y. */
template <class T, class Y> struct widened {};

} // namespace

template <> struct accumulator<any_int> { using type = int64_t; };
template <class T, class Y> struct accumulator<widened<T, Y>> { using type = Y; };

namespace {

template <class T> struct element {
  static __device__ accumulator_t<T> read(const void *x, int64_t at, int) {
    return load(((const T *)x)[at]);
  }
  static __device__ void write(void *y, int64_t at, accumulator_t<T> v, int) {
    ((T *)y)[at] = stored<T>::from(v);
  }
};
template <class T, class Y> struct element<widened<T, Y>> {
  static __device__ Y read(const void *x, int64_t at, int) { return (Y)load(((const T *)x)[at]); }
  static __device__ void write(void *y, int64_t at, Y v, int) { ((Y *)y)[at] = v; }
};
template <> struct element<any_int> {
  static __device__ int64_t read(const void *x, int64_t at, int dtype) {
    switch (dtype) {
    case TN_I64:
      return ((const int64_t *)x)[at];
    case TN_I32:
      return ((const int32_t *)x)[at];
    case TN_I16:
      return ((const int16_t *)x)[at];
    case TN_I8:
      return ((const int8_t *)x)[at];
    default:
      return ((const uint8_t *)x)[at];
    }
  }
  static __device__ void write(void *y, int64_t at, int64_t v, int dtype) {
    switch (dtype) {
    case TN_I64:
      ((int64_t *)y)[at] = v;
      break;
    case TN_I32:
      ((int32_t *)y)[at] = (int32_t)v;
      break;
    case TN_I16:
      ((int16_t *)y)[at] = (int16_t)v;
      break;
    case TN_I8:
      ((int8_t *)y)[at] = (int8_t)v;
      break;
    default:
      ((uint8_t *)y)[at] = (uint8_t)v;
      break;
    }
  }
};

template <class A> __device__ A shuffle_down(A a, int delta) {
  constexpr int words = sizeof(A) / 4;
  int w[words];
  memcpy(w, &a, sizeof a);
#pragma unroll
  for (int i = 0; i < words; i++) w[i] = __shfl_down_sync(0xffffffffu, w[i], delta);
  memcpy(&a, w, sizeof a);
  return a;
}

/* The offset of element i of a walk in operand k. */
__device__ __forceinline__ int64_t offset_of(const cuda_walk &walk, int k, int64_t i) {
  if (walk.rank == 1) return i * walk.stride[k][0];
  int64_t offset = 0;
#pragma unroll 1
  for (int d = walk.rank - 1; d > 0; d--) {
    int64_t q = walk.wide ? i / walk.size[d] : (int64_t)quotient((uint32_t)i, walk.divisor[d]);
    offset += (i - q * walk.size[d]) * walk.stride[k][d];
    i = q;
  }
  return offset + i * walk.stride[k][0];
}

/* One thread's share of an output's elements: first, first + step, ... below end. Four
 * loads are in flight at a time. */
template <class R>
__device__ typename R::A gather(const R &r, const void *x, int64_t base, const cuda_walk &walk,
                                int64_t first, int64_t end, int64_t step) {
  typename R::A a[4] = {r.init(), r.init(), r.init(), r.init()};
  int64_t i = first;
  for (; i + 3 * step < end; i += 4 * step) {
    typename R::A v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      v[k] = r.read(x, base + offset_of(walk, 0, i + k * step), i + k * step);
    }
#pragma unroll
    for (int k = 0; k < 4; k++) a[k] = r.join(a[k], v[k]);
  }
  for (; i < end; i += step) a[0] = r.join(a[0], r.read(x, base + offset_of(walk, 0, i), i));
  return r.join(r.join(a[0], a[1]), r.join(a[2], a[3]));
}

/* The element type that a reduction reads; void where it is known at run time alone. */
template <class T> struct raw_of_element { using type = T; };
template <> struct raw_of_element<any_int> { using type = void; };
template <class T, class Y> struct raw_of_element<widened<T, Y>> { using type = T; };
template <class R> struct raw_of;
template <template <class> class R, class T> struct raw_of<R<T>> : raw_of_element<T> {};
template <class R> using raw_t = typename raw_of<R>::type;

template <class R> constexpr int pack_size() {
  if constexpr (std::is_void_v<raw_t<R>>) {
    return 1;
  } else {
    return 16 / (int)sizeof(raw_t<R>);
  }
}

/* The same by packs of V, from a multiple of V on; a last pack may be short. */
template <class R, int V>
__device__ typename R::A gather_packs(const R &r, const void *x, int64_t base,
                                      const cuda_walk &walk, int64_t first, int64_t end,
                                      int64_t step) {
  using T = raw_t<R>;
  using P = pack<T, V>;
  constexpr int U = 4;
  typename R::A a[V];
#pragma unroll
  for (int j = 0; j < V; j++) a[j] = r.init();
  const T *from = (const T *)x + base;
  int64_t i = first;
  for (; i + (U - 1) * step + V <= end; i += U * step) {
    P p[U];
#pragma unroll
    for (int k = 0; k < U; k++) p[k] = *(const P *)(from + offset_of(walk, 0, i + k * step));
#pragma unroll
    for (int k = 0; k < U; k++)
#pragma unroll
      for (int j = 0; j < V; j++) a[j] = r.join(a[j], r.read(p[k].v, j, i + k * step + j));
  }
  for (; i < end; i += step) {
    if (i + V <= end) {
      P p = *(const P *)(from + offset_of(walk, 0, i));
#pragma unroll
      for (int j = 0; j < V; j++) a[j] = r.join(a[j], r.read(p.v, j, i + j));
    } else {
      for (int64_t j = i; j < end; j++) a[0] = r.join(a[0], r.read(x, base + j, j)); /* one axis */
    }
  }
#pragma unroll
  for (int half = V / 2; half > 0; half /= 2)
#pragma unroll
    for (int j = 0; j < half; j++) a[j] = r.join(a[j], a[j + half]);
  return a[0];
}

/* Joins the lanes of every output of a block; the result is right in lane 0. Row
 * blocks have lanes side by side (32 or all threads), column blocks lanes `outputs`
 * threads apart. */
template <class R>
__device__ typename R::A join_lanes(const R &r, typename R::A a, int lanes, bool by_row) {
  using A = typename R::A;
  __shared__ __align__(16) unsigned char memory[threads * sizeof(A)];
  A *shared = (A *)memory;
  if (by_row) {
    for (int delta = 16; delta > 0; delta /= 2) a = r.join(a, shuffle_down(a, delta));
    if (lanes == 32) return a;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = a;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 1; i < threads / 32; i++) a = r.join(a, shared[i]);
    }
    return a;
  }
  if (lanes == 1) return a;
  int outputs = threads / lanes;
  shared[threadIdx.x] = a;
  __syncthreads();
  if ((int)threadIdx.x < outputs) {
    for (int i = 1; i < lanes; i++) a = r.join(a, shared[threadIdx.x + i * outputs]);
  }
  return a;
}

/* V: elements that are read at a time. */
template <class R, int V>
__global__ void __launch_bounds__(threads) reduce(R given, const void *x, void *y, void *partials,
                                                  const __grid_constant__ cuda_reduce_plan p) {
  int outputs = threads / p.lanes;
  int lane = p.by_row ? threadIdx.x % p.lanes : threadIdx.x / outputs;
  int local = p.by_row ? threadIdx.x / p.lanes : threadIdx.x % outputs;
  int64_t split = blockIdx.x % p.splits;
  int64_t output = blockIdx.x / p.splits * outputs + local;
  bool mine = output < p.kept.count;
  R r = given;
  typename R::A a = r.init();
  if (mine) {
    int64_t share = (p.reduced.count + p.splits - 1) / p.splits;
    if (V > 1) share = (share + V - 1) / V * V;
    int64_t begin = split * share, end = begin + share;
    if (end > p.reduced.count) end = p.reduced.count;
    int64_t base = offset_of(p.kept, 0, output);
    if (p.reduced.count > 0) r.start(x, base);
    if constexpr (V > 1) {
      a = gather_packs<R, V>(r, x, base, p.reduced, begin + lane * V, end, p.lanes * V);
    } else {
      a = gather(r, x, base, p.reduced, begin + lane, end, p.lanes);
    }
  }
  a = join_lanes(r, a, p.lanes, p.by_row);
  if (!mine || lane != 0) return;
  if (p.splits > 1) {
    ((typename R::A *)partials)[output * p.splits + split] = a;
  } else {
    r.write(y, offset_of(p.kept, 1, output), a);
  }
}

/* Columns side by side: a thread has V outputs, whose elements it reads together. */
template <class R, int V>
__global__ void __launch_bounds__(threads)
    reduce_columns(R given, const void *x, void *y, void *partials,
                   const __grid_constant__ cuda_reduce_plan p) {
  using T = raw_t<R>;
  using A = typename R::A;
  using P = pack<T, V>;
  constexpr int U = 4;
  __shared__ __align__(16) unsigned char memory[threads * V * sizeof(A)];
  A *shared = (A *)memory;
  const int outputs = threads / p.lanes, lane = threadIdx.x / outputs;
  const int64_t split = blockIdx.x % p.splits;
  const int64_t output = (blockIdx.x / p.splits * outputs + threadIdx.x % outputs) * V;
  const bool mine = output < p.kept.count;
  R r[V];
  A a[V];
#pragma unroll
  for (int j = 0; j < V; j++) {
    r[j] = given;
    a[j] = given.init();
  }
  if (mine) {
    const int64_t share = (p.reduced.count + p.splits - 1) / p.splits;
    int64_t i = split * share + lane, end = (split + 1) * share;
    if (end > p.reduced.count) end = p.reduced.count;
#pragma unroll
    for (int j = 0; j < V; j++)
      if (p.reduced.count > 0) r[j].start(x, output + j);
    const T *from = (const T *)x + output;
    for (; i + (U - 1) * p.lanes < end; i += U * p.lanes) {
      P v[U];
#pragma unroll
      for (int k = 0; k < U; k++)
        v[k] = *(const P *)(from + offset_of(p.reduced, 0, i + k * p.lanes));
#pragma unroll
      for (int k = 0; k < U; k++)
#pragma unroll
        for (int j = 0; j < V; j++) a[j] = r[j].join(a[j], r[j].read(v[k].v, j, i + k * p.lanes));
    }
    for (; i < end; i += p.lanes) {
      P v = *(const P *)(from + offset_of(p.reduced, 0, i));
#pragma unroll
      for (int j = 0; j < V; j++) a[j] = r[j].join(a[j], r[j].read(v.v, j, i));
    }
  }
#pragma unroll
  for (int j = 0; j < V; j++) shared[j * threads + threadIdx.x] = a[j];
  __syncthreads();
  if (!mine || lane != 0) return;
#pragma unroll
  for (int j = 0; j < V; j++) {
    for (int k = 1; k < p.lanes; k++)
      a[j] = r[j].join(a[j], shared[j * threads + threadIdx.x + k * outputs]);
    if (p.splits > 1) {
      ((A *)partials)[(output + j) * p.splits + split] = a[j];
    } else {
      r[j].write(y, offset_of(p.kept, 1, output + j), a[j]);
    }
  }
}

/* One warp joins the partial results of one output. */
template <class R>
__global__ void __launch_bounds__(threads)
    reduce_partials(R r, const void *partials, void *y, int64_t splits,
                    const __grid_constant__ cuda_walk kept) {
  int64_t output = ((int64_t)blockIdx.x * threads + threadIdx.x) / 32;
  if (output >= kept.count) return; /* whole warps */
  const typename R::A *list = (const typename R::A *)partials + output * splits;
  typename R::A a = r.init();
  for (int64_t i = threadIdx.x % 32; i < splits; i += 32) a = r.join(a, list[i]);
  for (int delta = 16; delta > 0; delta /= 2) a = r.join(a, shuffle_down(a, delta));
  if (threadIdx.x % 32 == 0) r.write(y, offset_of(kept, 1, output), a);
}

template <class R>
tn_status run_reduce(const tn_kernel_args *args, R r, const cuda_reduce_plan *plan) {
  static_assert(sizeof(typename R::A) <= cuda_reduce_partial_bytes, "scratch is too small");
  if (plan->kept.count == 0) return TN_OK;
  void *y = args->out[0]->data;
  constexpr int V = pack_size<R>();
  auto kernel = reduce<R, 1>;
  if constexpr (V > 1) {
    if (plan->packs) kernel = plan->by_row ? reduce<R, V> : reduce_columns<R, V>;
  }
  tn_status status = launch(args, kernel, (unsigned)(plan->blocks * plan->splits), threads, 0, r,
                            args->in[0]->data, y, args->workspace, *plan);
  if (status != TN_OK || plan->splits == 1) return status;
  unsigned blocks = (unsigned)ceil_div(plan->kept.count * 32, threads);
  return launch(args, reduce_partials<R>, blocks, threads, 0, r, args->workspace, y, plan->splits,
                plan->kept);
}

/* What a reduction over T is made of: all integers, and bools, are one. */
template <class T>
using reduced_t =
    std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, bool_t>, any_int, T>;

/* Runs a reduction over elements of the call's type. */
template <template <class> class Reduction, class... P>
tn_status run_plan(const tn_kernel_args *args, const cuda_reduce_plan *plan, P... p) {
  int dtype = cuda_dtype(args->in[0]);
  return for_all(args, args->in[0], [&](auto t) {
    return run_reduce(args, Reduction<reduced_t<decltype(t)>>{dtype, p...}, plan);
  });
}

/* The same with results of the output's type, where it is not the input's. */
template <template <class> class Reduction, class... P>
tn_status run_widened_plan(const tn_kernel_args *args, const cuda_reduce_plan *plan, P... p) {
  int from = cuda_dtype(args->in[0]), to = cuda_dtype(args->out[0]);
  if (from == TN_F32)
    return run_reduce(args, Reduction<widened<float, double>>{from, to, p...}, plan);
  if (from == TN_F16 && to == TN_F64)
    return run_reduce(args, Reduction<widened<half_t, double>>{from, to, p...}, plan);
  if (from == TN_F16)
    return run_reduce(args, Reduction<widened<half_t, float>>{from, to, p...}, plan);
  if (from == TN_BF16 && to == TN_F64)
    return run_reduce(args, Reduction<widened<bfloat_t, double>>{from, to, p...}, plan);
  if (from == TN_BF16)
    return run_reduce(args, Reduction<widened<bfloat_t, float>>{from, to, p...}, plan);
  return run_reduce(args, Reduction<any_int>{from, to, p...}, plan);
}

/* The same over floats alone. */
template <template <class> class Reduction, class... P>
tn_status run_float_plan(const tn_kernel_args *args, const cuda_reduce_plan *plan, P... p) {
  int dtype = cuda_dtype(args->in[0]);
  return for_float(args, args->in[0], [&](auto t) {
    return run_reduce(args, Reduction<decltype(t)>{dtype, p...}, plan);
  });
}

/* The plan of a call whose attributes begin as those of tn_sum do. */
inline cuda_reduce_plan plan_of_axes(const tn_kernel_args *args) {
  cuda_reduce_plan plan;
  const tn_sum_attrs *attrs = (const tn_sum_attrs *)args->attrs;
  cuda_reduce_plan_of(&plan, args->in[0], args->out[0], &attrs->axes, attrs->keepdims != 0,
                      (const cuda_info *)args->device);
  return plan;
}

/* The plan of a call whose attributes are those of tn_argmax. */
inline cuda_reduce_plan plan_of_axis(const tn_kernel_args *args) {
  cuda_reduce_plan plan;
  const tn_argmax_attrs *attrs = (const tn_argmax_attrs *)args->attrs;
  tn_axes axes = {1, {(int32_t)attrs->axis}};
  cuda_reduce_plan_of(&plan, args->in[0], args->out[0], &axes, attrs->keepdims != 0,
                      (const cuda_info *)args->device);
  return plan;
}

} // namespace

#endif /* KERNELS_CUDA_REDUCE_CUH */
