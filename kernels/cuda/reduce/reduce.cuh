/*
 * The frame of reductions over any axes of any strides. A block holds `lanes` threads for each of
 * several outputs; every thread goes through its share of the elements in fixed order, the block
 * joins what they have in a fixed tree, and where one block per output would leave the device
 * idle, several share an output and a second kernel joins their partial results. Nothing is
 * atomic: the same call gives the same bits.
 *
 * A reduction R over element type T states what it carries (R::A), how it begins (init), how it
 * takes in some elements at a time (take), how two results join, and how the end is written.
 * Before anything else `start` sees the output's first element. Of N elements, G at a time are
 * neighbours: element n has index first + n / G * step + n % G.
 */
#ifndef KERNELS_CUDA_REDUCE_CUH
#define KERNELS_CUDA_REDUCE_CUH

#include "kernels/cuda/reduce/element.cuh"

namespace {

/* i / walk.size[d] for 0 <= i < 2^52: the product with the reciprocal is off by less than 1, so
 * that its whole part is right or one beside it. */
__device__ __forceinline__ int64_t wide_quotient(const cuda_walk &walk, int d, int64_t i) {
  const int64_t q = (int64_t)((double)i * walk.reciprocal[d]), rest = i - q * walk.size[d];
  return q - (rest < 0) + (rest >= walk.size[d]);
}

/* The offset of element i of a walk in operand k. */
__device__ __forceinline__ int64_t offset_of(const cuda_walk &walk, int k, int64_t i) {
  if (walk.rank == 1) return i * walk.stride[k][0];
  int64_t offset = 0;
#pragma unroll 1
  for (int d = walk.rank - 1; d > 0; d--) {
    int64_t q =
        walk.wide ? wide_quotient(walk, d, i) : (int64_t)quotient((uint32_t)i, walk.divisor[d]);
    offset += (i - q * walk.size[d]) * walk.stride[k][d];
    i = q;
  }
  return offset + i * walk.stride[k][0];
}

/* The element type that a reduction reads; void where it is known at run time alone. */
template <class T> struct raw_of_element { using type = T; };
template <> struct raw_of_element<any_int> { using type = void; };
template <class T, class Y> struct raw_of_element<widened<T, Y>> { using type = T; };
template <class R> struct raw_of;
template <template <class> class R, class T> struct raw_of<R<T>> : raw_of_element<T> {
  using element = ::element<T>;
};
template <class R> using raw_t = typename raw_of<R>::type;

/* Joins the lanes of every output of a block, 1 << apart threads from one another, in `shared`,
 * which holds V results of each thread; the result is right in lane 0. */
template <class R, int V>
__device__ __forceinline__ void join_lanes(const R &r, typename R::A *a, typename R::A *shared,
                                           int lanes, int apart) {
  const int lane = threadIdx.x >> apart & (lanes - 1);
  for (int half = lanes / 2; half > 0; half /= 2) {
    if (lane >= half && lane < 2 * half) {
#pragma unroll
      for (int j = 0; j < V; j++) shared[j * threads + threadIdx.x] = a[j];
    }
    __syncthreads();
    if (lane < half) {
#pragma unroll
      for (int j = 0; j < V; j++)
        a[j] = r.join(a[j], shared[j * threads + threadIdx.x + (half << apart)]);
    }
  }
}

/* The same of lanes side by side, 32 or a multiple of it. */
template <class R>
__device__ __forceinline__ typename R::A join_row(const R &r, typename R::A a, int lanes) {
  using A = typename R::A;
  __shared__ __align__(16) unsigned char memory[threads / 32 * sizeof(A)];
  A *shared = (A *)memory;
#pragma unroll
  for (int delta = 16; delta > 0; delta /= 2) a = r.join(a, shuffle_down(a, delta));
  if (lanes == 32) return a;
  int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) shared[warp] = a;
  __syncthreads();
  if ((threadIdx.x & (lanes - 1)) == 0) {
    for (int i = 1; i < lanes / 32; i++) a = r.join(a, shared[warp + i]);
  }
  return a;
}

/* Where a block's output stands, and what of its elements is the block's. */
struct reduce_share {
  int lane, apart; /* the latter: bits of the distance from lane to lane, but of a row */
  int64_t output, begin, end;
  bool mine;
};

/* pre: threads and lanes are powers of two. */
__device__ __forceinline__ reduce_share share_of(const cuda_reduce_plan &p, int width, int64_t n) {
  reduce_share s;
  const int lane_bits = __ffs(p.lanes) - 1, output_bits = __ffs(threads) - 1 - lane_bits;
  const int outputs = 1 << output_bits;
  s.lane = p.by_row ? threadIdx.x & (p.lanes - 1) : threadIdx.x >> output_bits;
  s.output = (int64_t)blockIdx.x << output_bits;
  s.output += p.by_row ? threadIdx.x >> lane_bits : threadIdx.x & (outputs - 1);
  s.output *= width;
  s.apart = output_bits;
  s.mine = s.output < p.kept.count;
  s.begin = blockIdx.y * p.share;
  s.end = s.begin + p.share < n ? s.begin + p.share : n;
  return s;
}

/* Any strides, one element at a time; a thread has four loads in flight. */
template <class R>
__global__ void __launch_bounds__(threads) reduce(R r, const void *x, void *y, void *partials,
                                                  const __grid_constant__ cuda_reduce_plan p) {
  using E = typename raw_of<R>::element;
  using A = typename R::A;
  __shared__ __align__(16) unsigned char memory[threads * sizeof(A)];
  await_earlier();
  const reduce_share s = share_of(p, 1, p.reduced.count);
  A a = r.init();
  if (s.mine && p.reduced.count > 0) {
    const int64_t base = offset_of(p.kept, 0, s.output);
    r.start(E::read(x, base, r.dtype));
    int64_t i = s.begin + s.lane;
    for (; i + 3 * p.lanes < s.end; i += 4 * p.lanes) {
      typename R::C v[4];
#pragma unroll
      for (int k = 0; k < 4; k++)
        v[k] = E::read(x, base + offset_of(p.reduced, 0, i + k * p.lanes), r.dtype);
      r.template take<4, 1>(a, v, i, p.lanes);
    }
    for (; i < s.end; i += p.lanes) {
      typename R::C v = E::read(x, base + offset_of(p.reduced, 0, i), r.dtype);
      r.template take<1, 1>(a, &v, i, 0);
    }
  }
  let_later_begin();
  if (p.by_row)
    a = join_row(r, a, p.lanes);
  else
    join_lanes<R, 1>(r, &a, (A *)memory, p.lanes, s.apart);
  if (!s.mine || s.lane != 0) return;
  if (p.splits > 1)
    ((typename R::A *)partials)[blockIdx.y * p.kept.count + s.output] = a;
  else
    r.write(y, offset_of(p.kept, 1, s.output), a);
}

/* Blocks that a multiprocessor is to hold: as many bytes are under way as memory takes to be busy,
 * which is more than half of its threads of 64 bytes each. */
template <class R> constexpr int row_blocks_of() { return sizeof(typename R::C) == 4 ? 4 : 1; }

/* U packs of reduced elements i, i + step and so on. */
template <class T, int U>
__device__ __forceinline__ void read_packs(held_pack *pk, const T *from, const cuda_reduce_plan &p,
                                           int64_t i, int64_t step) {
  if (p.reduced.rank == 1) {
    const int64_t stride = p.by_row ? 1 : p.reduced.stride[0][0];
    from += i * stride;
#pragma unroll
    for (int k = 0; k < U; k++) pk[k] = *(const held_pack *)(from + k * (step * stride));
  } else {
#pragma unroll
    for (int k = 0; k < U; k++)
      pk[k] = *(const held_pack *)(from + offset_of(p.reduced, 0, i + k * step));
  }
}

/* The packs of a row that are left up to its end, U of them or fewer, and the elements behind the
 * last. */
template <class R, int V, int U>
__device__ __forceinline__ void take_rest(const R &r, typename R::A &a, const raw_t<R> *from,
                                          const cuda_reduce_plan &p, int64_t i, int64_t end) {
  using T = raw_t<R>;
  using C = typename R::C;
  const bool brain = r.dtype == TN_BF16;
  const int64_t step = (int64_t)p.lanes * V;
  held_pack pk[U];
#pragma unroll
  for (int k = 0; k < U; k++)
    if (i + k * step + V <= end) read_packs<T, 1>(pk + k, from, p, i + k * step, 0);
#pragma unroll
  for (int k = 0; k < U; k++) {
    const int64_t at = i + k * step;
    if (at + V <= end) {
      C v[V];
      unpack<T>(v, pk[k], brain);
      r.template take<V, V>(a, v, at, 0);
    } else {
#pragma unroll 1
      for (int64_t j = at; j < end; j++) {
        C one = (C)load(from[j], brain);
        r.template take<1, 1>(a, &one, j, 0);
      }
    }
  }
}

/* Rows by packs of V elements, U of them at a time, while the next U are under way where registers
 * have room for them. A row of one
 * axis may begin and end anywhere: packs lie where 16 bytes do, and the elements of its ends are
 * read one by one. */
template <class R, int V>
__global__ void __launch_bounds__(threads, row_blocks_of<R>())
    reduce_rows(R r, const void *x, void *y, void *partials,
                const __grid_constant__ cuda_reduce_plan p) {
  using T = raw_t<R>;
  using C = typename R::C;
  constexpr int U = cuda_reduce_turn;
  constexpr int together = least(U, 16 / V); /* packs that are taken in at a time */
  constexpr bool ahead = sizeof(typename R::A) <= 8;
  await_earlier();
  const bool brain = r.dtype == TN_BF16;
  const int64_t step = (int64_t)p.lanes * V, turn = p.share * p.splits;
  const reduce_share s = share_of(p, 1, INT64_MAX);
  typename R::A a = r.init();
  if (s.mine) {
    const T *from = (const T *)x + offset_of(p.kept, 0, s.output);
    const int head = (int)((uintptr_t)from / sizeof(T) % V); /* elements in front of the row */
    const int64_t end = p.reduced.count;
    int64_t i = s.begin + s.lane * V - head;
    r.start((C)load(from[0], brain));
    if (i < 0) {
      for (int j = -(int)i; j < V && i + j < end; j++) {
        C v = (C)load(from[i + j], brain);
        r.template take<1, 1>(a, &v, i + j, 0);
      }
#pragma unroll 1
      for (int k = 1; k < U; k++) {
        const int64_t at = i + k * step, others = at + V;
        take_rest<R, V, 1>(r, a, from, p, at, others < end ? others : end);
      }
      i += turn;
    }
    const int64_t last = end - (U - 1) * step - V; /* of beginnings of U packs */
    held_pack pk[U], next[U];
    if (ahead && i <= last) read_packs<T, U>(next, from, p, i, step);
    for (; i <= last; i += turn) {
      if (ahead) {
#pragma unroll
        for (int k = 0; k < U; k++) pk[k] = next[k];
        if (i + turn <= last) read_packs<T, U>(next, from, p, i + turn, step);
      } else {
        read_packs<T, U>(pk, from, p, i, step);
      }
#pragma unroll
      for (int k = 0; k < U; k += together) {
        C v[together * V];
#pragma unroll
        for (int j = 0; j < together; j++) unpack<T>(v + j * V, pk[k + j], brain);
        r.template take<together * V, V>(a, v, i + k * step, step);
      }
    }
    if (i < end) take_rest<R, V, U>(r, a, from, p, i, end);
  }
  let_later_begin();
  a = join_row(r, a, p.lanes);
  if (!s.mine || s.lane != 0) return;
  if (p.splits > 1)
    ((typename R::A *)partials)[blockIdx.y * p.kept.count + s.output] = a;
  else
    r.write(y, offset_of(p.kept, 1, s.output), a);
}

/* Columns side by side: a thread has the V outputs of a pack, and U elements of each at a time.
 * Results so far that registers have no room for beside them wait in shared memory. */
template <class R, int V>
__global__ void __launch_bounds__(threads, row_blocks_of<R>())
    reduce_columns(R r, const void *x, void *y, void *partials,
                   const __grid_constant__ cuda_reduce_plan p) {
  using T = raw_t<R>;
  using A = typename R::A;
  using C = typename R::C;
  constexpr int U = cuda_reduce_ahead;
  constexpr bool waits = sizeof(A) > sizeof(C);
  __shared__ __align__(16) unsigned char memory[threads * V * sizeof(A)];
  A *const own = (A *)memory + threadIdx.x;
  await_earlier();
  const bool brain = r.dtype == TN_BF16;
  const reduce_share s = share_of(p, V, p.reduced.count);
  A a[V];
#pragma unroll
  for (int j = 0; j < V; j++) (waits ? own[j * threads] : a[j]) = r.init();
  if (s.mine && p.reduced.count > 0) {
    const T *from = (const T *)x + offset_of(p.kept, 0, s.output);
    const auto add =
        [&](int j, auto take) { /* for column j; its first element is read again */
                                A so_far = waits ? own[j * threads] : a[j];
                                R one = r;
                                one.start((C)element_of<T>(*(const held_pack *)from, j, brain));
                                take(one, so_far);
                                (waits ? own[j * threads] : a[j]) = so_far;
        };
    int64_t i = s.begin + s.lane;
    for (; i + (U - 1) * p.lanes < s.end; i += U * p.lanes) {
      held_pack pk[U];
      read_packs<T, U>(pk, from, p, i, p.lanes);
      asm volatile("" ::: "memory"); /* results that wait are in no register */
#pragma unroll
      for (int j = 0; j < V; j++) {
        C v[U];
#pragma unroll
        for (int k = 0; k < U; k++) v[k] = (C)element_of<T>(pk[k], j, brain);
        add(j, [&](const R &one, A &to) { one.template take<U, 1>(to, v, i, p.lanes); });
      }
    }
    for (; i < s.end; i += p.lanes) {
      held_pack pk;
      read_packs<T, 1>(&pk, from, p, i, 0);
#pragma unroll
      for (int j = 0; j < V; j++) {
        const C v = (C)element_of<T>(pk, j, brain);
        add(j, [&](const R &one, A &to) { one.template take<1, 1>(to, &v, i, 0); });
      }
    }
  }
  let_later_begin();
#pragma unroll
  for (int j = 0; waits && j < V; j++) a[j] = own[j * threads];
  join_lanes<R, V>(r, a, (A *)memory, p.lanes, s.apart);
  if (!s.mine || s.lane != 0) return;
#pragma unroll
  for (int j = 0; j < V; j++) {
    if (p.splits > 1)
      ((A *)partials)[blockIdx.y * p.kept.count + s.output + j] = a[j];
    else
      r.write(y, offset_of(p.kept, 1, s.output + j), a[j]);
  }
}

/* Joins the partial results: of 1 << apart neighbouring outputs to a block. */
template <class R>
__global__ void __launch_bounds__(threads)
    reduce_partials(R r, const void *partials, void *y, int splits, int apart,
                    const __grid_constant__ cuda_walk kept) {
  using A = typename R::A;
  __shared__ __align__(16) unsigned char memory[threads * sizeof(A)];
  const int lanes = threads >> apart, lane = threadIdx.x >> apart;
  const int64_t output = ((int64_t)blockIdx.x << apart) + (int)(threadIdx.x & ((1u << apart) - 1));
  A a = r.init();
  await_earlier();
  if (output < kept.count) {
#pragma unroll 4
    for (int i = lane; i < splits; i += lanes)
      a = r.join(a, ((const A *)partials)[i * kept.count + output]);
  }
  let_later_begin();
  join_lanes<R, 1>(r, &a, (A *)memory, lanes, apart);
  if (output < kept.count && lane == 0) r.write(y, offset_of(kept, 1, output), a);
}

template <class R>
tn_status run_reduce(const tn_kernel_args *args, R r, const cuda_reduce_plan *plan) {
  static_assert(sizeof(typename R::A) <= cuda_reduce_partial_bytes, "scratch is too small");
  if (plan->kept.count == 0) return TN_OK;
  void *y = args->out[0]->data;
  auto kernel = reduce<R>;
  if constexpr (!std::is_void_v<raw_t<R>>) {
    constexpr int V = pack_width<raw_t<R>>();
    if (plan->packs) kernel = plan->by_row ? reduce_rows<R, V> : reduce_columns<R, V>;
  }
  const dim3 grid((unsigned)plan->blocks, (unsigned)plan->splits);
  tn_status status =
      launch_early(args, kernel, grid, threads, 0, r, args->in[0]->data, y, args->workspace, *plan);
  if (status != TN_OK || plan->splits == 1) return status;
  const int apart = plan->kept.count < 32 ? 0 : 5;
  return launch_early(args, reduce_partials<R>,
                      (unsigned)ceil_div(plan->kept.count, (int64_t)1 << apart), threads, 0, r,
                      args->workspace, y, (int)plan->splits, apart, plan->kept);
}

/* Runs a reduction over elements of the call's class. */
template <template <class> class Reduction, class... P>
tn_status run_plan(const tn_kernel_args *args, const cuda_reduce_plan *plan, P... p) {
  const int dtype = cuda_dtype(args->in[0]);
  switch (dtype) {
  case TN_F16:
  case TN_BF16:
    return run_reduce(args, Reduction<any_half>{dtype, p...}, plan);
  case TN_F32:
    return run_reduce(args, Reduction<float>{dtype, p...}, plan);
  case TN_F64:
    return run_reduce(args, Reduction<double>{dtype, p...}, plan);
  default:
    return run_reduce(args, Reduction<any_int>{dtype, p...}, plan);
  }
}

/* The same with results of the output's type, `to`, where it may not be the input's: sums of 16
 * bits are kept as floats in any case. */
template <template <class> class Reduction, class... P>
tn_status run_widened_plan(const tn_kernel_args *args, const cuda_reduce_plan *plan, P... p) {
  const int from = cuda_dtype(args->in[0]), to = cuda_dtype(args->out[0]);
  if (to == TN_F64 && from == TN_F32)
    return run_reduce(args, Reduction<widened<float, double>>{from, to, p...}, plan);
  if (to == TN_F64 && (from == TN_F16 || from == TN_BF16))
    return run_reduce(args, Reduction<widened<any_half, double>>{from, to, p...}, plan);
  return run_plan<Reduction>(args, plan, to, p...);
}

/* The same over floats alone. */
template <template <class> class Reduction, class... P>
tn_status run_float_plan(const tn_kernel_args *args, const cuda_reduce_plan *plan, P... p) {
  const int dtype = cuda_dtype(args->in[0]);
  return for_class(args, args->in[0], [&](auto t) {
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
