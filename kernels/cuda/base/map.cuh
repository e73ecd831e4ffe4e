/*
 * Elementwise kernels: y = f(a, b, c) at every place. A functor F states its element
 * types F::Y, F::A, F::B, with three inputs F::Third as well, and how many inputs it
 * reads (F::inputs, 0 to 3); with fewer than three it is called as f(a, b). Tensors
 * that are one dense run, in whatever order, take 16-byte accesses; all others go
 * through strides with 32-bit index arithmetic (map_strided.cuh), in pieces where they
 * are larger.
 *
 * A place is read before it is written and by the same thread, so the output may be
 * one of the inputs.
 */
#ifndef KERNELS_CUDA_MAP_CUH
#define KERNELS_CUDA_MAP_CUH

#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/base/map.h"

enum { map_threads = MAP_THREADS };

template <class F, bool three = (F::inputs > 2)> struct map_third { using type = uint8_t; };
template <class F> struct map_third<F, true> { using type = typename F::Third; };
template <class F> using map_third_t = typename map_third<F>::type;

template <class F>
__device__ __forceinline__ typename F::Y map_apply(const F &f, typename F::A a, typename F::B b,
                                                   map_third_t<F> c) {
  if constexpr (F::inputs > 2)
    return f(a, b, c);
  else
    return f(a, b);
}

/* Functors of f16 and bf16 may say, as `in_float`, what they compute of floats: elements are then
 * converted in pairs, which takes half as many instructions. */
template <class F, class = void> struct map_pairs : std::false_type {};
template <class F>
struct map_pairs<F, std::void_t<decltype(&F::in_float)>>
    : std::bool_constant<std::is_same_v<typename F::Y, half_t> ||
                         std::is_same_v<typename F::Y, bfloat_t>> {};

/* Elements that one thread handles in the dense case. */
template <class F> struct map_width {
  static constexpr int bytes =
      most((int)sizeof(typename F::Y),
           most((int)sizeof(typename F::A),
                most((int)sizeof(typename F::B), (int)sizeof(map_third_t<F>))));
  static constexpr int value = 16 / bytes;
};

/* Accesses of an input that a thread has under way together. Two pay where computing takes about as
 * long as memory, which functors say, `static constexpr int packs`, and with one input of which
 * little is written. */
template <class F, class = void> struct map_packs {
  static constexpr bool is_read = F::inputs == 1 && sizeof(typename F::A) > sizeof(typename F::Y) &&
                                  sizeof(typename F::Y) == 1;
  static constexpr int value = is_read ? 2 : 1;
};
template <class F> struct map_packs<F, std::void_t<decltype(F::packs)>> {
  static constexpr int value = F::packs;
};

/* Whether results may be looked up in a table (table.h). Its kernel makes that of no input: of all
 * bit patterns in order, while the one that looks already starts. */
template <class F> struct map_tabled {
  using A = typename F::A;
  static constexpr bool value = F::inputs == 1 && std::is_same_v<A, typename F::Y> &&
                                (std::is_same_v<A, half_t> || std::is_same_v<A, bfloat_t>);
};

/* What holds N elements: of functors that take them in pairs words, which are not taken apart. */
template <class F, class T, int N>
using map_held = std::conditional_t<map_pairs<F>::value, pack<uint32_t, N / 2>, pack<T, N>>;

template <class H, class T> __device__ __forceinline__ void map_put(H *to, int i, T x) {
  if constexpr (sizeof to->v[0] == sizeof x)
    to->v[i] = x;
  else
    to->v[i / 2] |= (uint32_t)x.bits << i % 2 * 16;
}

template <class T, int N, class H>
__device__ __forceinline__ void map_count_up(H *to, uint32_t first) {
  let_later_begin();
#pragma unroll
  for (int i = 0; i < N; i++) map_put(to, i, T{(unsigned short)(first + i)});
}

/* Elements of a thread's pack, which begin at `first`, or those that there are. */
template <int N, class T, class H>
__device__ __forceinline__ void map_read(H *to, const T *from, int first, int n) {
  if (first + N <= n) {
    *to = *(const H *)(from + first);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; i++)
    if (first + i < n) map_put(to, i, from[first + i]);
}

/* What F makes of N elements. */
template <class F, int N, class A, class B, class C>
__device__ __forceinline__ pack<typename F::Y, N> map_pack(const F &f, const A &a, const B &b,
                                                           const C &c) {
  using T = typename F::Y;
  pack<T, N> y;
  if constexpr (map_pairs<F>::value) {
    uint32_t words[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; i++)
      words[i] = pair_of(f.in_float(low_of_pair(a.v[i], T()), low_of_pair(b.v[i], T())),
                         f.in_float(high_of_pair(a.v[i], T()), high_of_pair(b.v[i], T())), T());
    memcpy(&y, words, sizeof y);
  } else {
#pragma unroll
    for (int i = 0; i < N; i++) y.v[i] = map_apply(f, a.v[i], b.v[i], c.v[i]);
  }
  return y;
}

/* A block's share begins at `begin`, and `left` elements of it are there. */
template <class F>
__global__ void __launch_bounds__(map_threads)
    map_flat(F f, typename F::Y *y, const typename F::A *a, const typename F::B *b,
             const map_third_t<F> *c, int64_t n) {
  constexpr int N = map_width<F>::value, P = map_packs<F>::value, step = map_threads * N;
  const int64_t begin = (int64_t)blockIdx.x * (P * step);
  const int left = n - begin < P * step ? (int)(n - begin) : P * step, first = threadIdx.x * N;
  map_held<F, typename F::A, N> pa[P] = {};
  map_held<F, typename F::B, N> pb[P] = {};
  pack<map_third_t<F>, N> pc[P] = {};
#pragma unroll
  for (int p = 0; p < P; p++) {
    if constexpr (map_tabled<F>::value)
      if (!a) {
        map_count_up<typename F::A, N>(&pa[p], (uint32_t)begin + first + p * step);
        continue;
      }
    if (F::inputs > 0) map_read<N>(&pa[p], a + begin, first + p * step, left);
    if (F::inputs > 1) map_read<N>(&pb[p], b + begin, first + p * step, left);
    if (F::inputs > 2) map_read<N>(&pc[p], c + begin, first + p * step, left);
  }
#pragma unroll
  for (int p = 0; p < P; p++) {
    const int at = first + p * step;
    const pack<typename F::Y, N> py = map_pack<F, N>(f, pa[p], pb[p], pc[p]);
    if (at + N <= left) {
      *(pack<typename F::Y, N> *)(y + begin + at) = py;
      continue;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
      if (at + i < left) y[begin + at + i] = py.v[i];
  }
}

#include "kernels/cuda/base/map_strided.cuh"

/* What runs in place of F over tensors that are no dense run: functors that do the same for several
 * element types may say so, that they share one kernel there. */
template <class F> struct map_shared {
  static F of(const F &f) { return f; }
};

/* With a strided kernel alone. */
template <class F> static map_form map_form_of(const F *f) {
  return {NULL,
          (const void *)map_strided<F>,
          NULL,
          f,
          F::inputs,
          map_width<F>::value,
          map_packs<F>::value,
          map_strided_width<F>::value,
          {sizeof(typename F::Y), sizeof(typename F::A), sizeof(typename F::B),
           sizeof(map_third_t<F>)}};
}

/* As map_run, for what is rare or slow by itself: dense runs take the strided kernel, too. */
template <class F> static tn_status map_run_strided(const tn_kernel_args *args, F f) {
  map_form form = map_form_of(&f);
  form.functor = &f;
  return cuda_map_run(args, &form);
}

/* Runs f over the call's first output and first F::inputs inputs. */
template <class F> static tn_status map_run(const tn_kernel_args *args, F f) {
  const auto shared = map_shared<F>::of(f);
  map_form form = map_form_of(&shared);
  form.flat = (const void *)map_flat<F>;
  form.functor = &f;
  return cuda_map_run(args, &form);
}

#endif /* KERNELS_CUDA_MAP_CUH */
