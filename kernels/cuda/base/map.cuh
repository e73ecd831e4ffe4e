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

template <class F>
__global__ void __launch_bounds__(map_threads)
    map_flat(F f, typename F::Y *y, const typename F::A *a, const typename F::B *b,
             const map_third_t<F> *c, int64_t n) {
  constexpr int N = map_width<F>::value;
  const int64_t first = ((int64_t)blockIdx.x * map_threads + threadIdx.x) * N;
  const bool whole = first + N <= n;
  pack<typename F::A, N> pa{};
  pack<typename F::B, N> pb{};
  pack<map_third_t<F>, N> pc{};
  pack<typename F::Y, N> py;
  if (whole) {
    if (F::inputs > 0) pa = *(const pack<typename F::A, N> *)(a + first);
    if (F::inputs > 1) pb = *(const pack<typename F::B, N> *)(b + first);
    if (F::inputs > 2) pc = *(const pack<map_third_t<F>, N> *)(c + first);
  } else {
#pragma unroll
    for (int i = 0; i < N; i++) {
      if (first + i >= n) break;
      if (F::inputs > 0) pa.v[i] = a[first + i];
      if (F::inputs > 1) pb.v[i] = b[first + i];
      if (F::inputs > 2) pc.v[i] = c[first + i];
    }
  }
#pragma unroll
  for (int i = 0; i < N; i++) py.v[i] = map_apply(f, pa.v[i], pb.v[i], pc.v[i]);
  if (whole) {
    *(pack<typename F::Y, N> *)(y + first) = py;
    return;
  }
#pragma unroll
  for (int i = 0; i < N; i++)
    if (first + i < n) y[first + i] = py.v[i];
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
