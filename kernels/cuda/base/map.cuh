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

/* Elements of a thread's pack, which begin at `first`, or those that there are. */
template <class T, int N>
__device__ __forceinline__ void map_read(pack<T, N> *to, const T *from, int64_t first, int64_t n) {
  if (first + N <= n) {
    *to = *(const pack<T, N> *)(from + first);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; i++)
    if (first + i < n) to->v[i] = from[first + i];
}

template <class F>
__global__ void __launch_bounds__(map_threads)
    map_flat(F f, typename F::Y *y, const typename F::A *a, const typename F::B *b,
             const map_third_t<F> *c, int64_t n) {
  constexpr int N = map_width<F>::value, P = map_packs<F>::value, step = map_threads * N;
  const int64_t first = ((int64_t)blockIdx.x * P * map_threads + threadIdx.x) * N;
  pack<typename F::A, N> pa[P] = {};
  pack<typename F::B, N> pb[P] = {};
  pack<map_third_t<F>, N> pc[P] = {};
#pragma unroll
  for (int p = 0; p < P; p++) {
    if (F::inputs > 0) map_read(&pa[p], a, first + p * step, n);
    if (F::inputs > 1) map_read(&pb[p], b, first + p * step, n);
    if (F::inputs > 2) map_read(&pc[p], c, first + p * step, n);
  }
#pragma unroll
  for (int p = 0; p < P; p++) {
    const int64_t at = first + p * step;
    pack<typename F::Y, N> py;
#pragma unroll
    for (int i = 0; i < N; i++) py.v[i] = map_apply(f, pa[p].v[i], pb[p].v[i], pc[p].v[i]);
    if (at + N <= n) {
      *(pack<typename F::Y, N> *)(y + at) = py;
      continue;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
      if (at + i < n) y[at + i] = py.v[i];
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
