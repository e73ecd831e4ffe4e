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

enum { map_threads = 256 };

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

template <class F>
static tn_status map_run_flat(const tn_kernel_args *args, F f, typename F::Y *y,
                              const typename F::A *a, const typename F::B *b,
                              const map_third_t<F> *c, int64_t n) {
  unsigned blocks = (unsigned)ceil_div(n, (int64_t)map_threads * map_width<F>::value);
  return launch(args, map_flat<F>, blocks, map_threads, 0, f, y, a, b, c, n);
}

/* Runs f over the call's first output and first F::inputs inputs. */
template <class F> static tn_status map_run(const tn_kernel_args *args, F f) {
  constexpr int N = map_width<F>::value;
  const DLTensor *tensors[4] = {args->out[0], NULL, NULL, NULL};
  for (int i = 0; i < F::inputs; i++) tensors[1 + i] = args->in[i];
  cuda_shape shape;
  cuda_shape_of(&shape, 1 + F::inputs, tensors, true);
  int64_t n = cuda_shape_count(&shape);
  if (n == 0) return TN_OK;
  auto *y = (typename F::Y *)tensors[0]->data;
  auto *a = F::inputs > 0 ? (const typename F::A *)tensors[1]->data : NULL;
  auto *b = F::inputs > 1 ? (const typename F::B *)tensors[2]->data : NULL;
  auto *c = F::inputs > 2 ? (const map_third_t<F> *)tensors[3]->data : NULL;
  bool wide = is_aligned(y, sizeof(typename F::Y) * N) &&
              is_aligned(a, sizeof(typename F::A) * N) &&
              is_aligned(b, sizeof(typename F::B) * N) && is_aligned(c, sizeof(map_third_t<F>) * N);
  if (wide && cuda_shape_is_flat(&shape, 1 + F::inputs))
    return map_run_flat(args, f, y, a, b, c, n);
  return map_run_strided(args, f, y, a, b, c, &shape);
}

#endif /* KERNELS_CUDA_MAP_CUH */
