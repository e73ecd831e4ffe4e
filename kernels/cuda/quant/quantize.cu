/* Quantising and back by scales and zero points that are given, several elements to a thread. */
#include "kernels/common/quant.h"
#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/base/float8.cuh"
#include "kernels/cuda/elementwise/convert.cuh"
#include "kernels/cuda/quant/quant.cuh"

namespace {

enum { threads = 256 };

template <class C> __device__ __forceinline__ C times(C a, C b) { return a * b; }
template <> __device__ __forceinline__ float times(float a, float b) { return __fmul_rn(a, b); }

template <class T, class U> struct quant_call {
  const T *scale;
  const U *zero; /* or NULL */
  int64_t count;
  quant_place place;
  quant_range range;
  f8_format format;                /* of 8-bit floats */
  bool one, narrow;                /* scale for all; whether 32 bits index everything */
  bool packed;                     /* many neighbours share a scale, and lie aligned */
  cuda_divisor size, inner, block; /* of place, where narrow */
};

/* Where an element's scale lies, and how many elements from it on have the same. */
struct scale_place {
  int64_t at, left;
};

/* Where 32 bits do not do. */
__device__ __noinline__ scale_place far_scale_place(const quant_place &p, int64_t i) {
  const int64_t rest = i / p.inner, along = i - rest * p.inner, outer = rest / p.size;
  const int64_t d = rest - outer * p.size;
  return {outer * p.steps[0] + d / p.block * p.steps[1] + along * p.steps[2], p.inner - along};
}

template <class T, class U>
__device__ __forceinline__ scale_place scale_place_of(const quant_call<T, U> &c, int64_t i) {
  if (!c.narrow) return far_scale_place(c.place, i);
  const uint32_t rest = quotient((uint32_t)i, c.inner), outer = quotient(rest, c.size);
  const uint32_t d = rest - outer * c.size.value, along = (uint32_t)i - rest * c.inner.value;
  return {outer * (uint32_t)c.place.steps[0] + quotient(d, c.block) * (uint32_t)c.place.steps[1] +
              along * (uint32_t)c.place.steps[2],
          c.inner.value - along};
}

template <class T, class U> struct level {
  compute_t<T> scale;
  U zero;
};

template <class T, class U>
__device__ __forceinline__ level<T, U> level_at(const quant_call<T, U> &c, int64_t at) {
  return {load(c.scale[at]), c.zero ? c.zero[at] : U{}};
}

/* Many floats by one scale and zero point. What would leave the range is held at its ends, a
 * quarter of a step beyond, before it is divided: no quotient is infinite, and all of them are near
 * enough for the last bits of a float. */
struct quick_level {
  float by, part, least, most;
  int zero;
  __device__ __forceinline__ quick_level(float scale, int zero, int low, int high)
      : by(scale), part(1 / scale), least(((float)(low - zero) - 0.25f) * scale),
        most(((float)(high - zero) + 0.25f) * scale), zero(zero) {}
  static __device__ __forceinline__ bool serves(float scale) {
    return scale > 0x1p-60f && scale < 0x1p60f;
  }
  /* Right to the last bit as divisor_of (dynamic.cu) is. The sum with 3 * 2^22 is rounded to a
   * whole number, an even one of two as near, which its last bits hold. pre: v is no NaN */
  __device__ __forceinline__ int operator()(float v) const {
    constexpr float rounds = 0x1.8p23f;
    v = fminf(fmaxf(v, least), most);
    const float q = v * part, y = fmaf(fmaf(-q, by, v), part, q);
    return __float_as_int(__fadd_rn(y, rounds)) - __float_as_int(rounds) + zero;
  }
};

/* How those do it that make each element by itself. */
template <class Op, class C, class X, class Y, int N>
__device__ __forceinline__ bool each_of(const Op &op, const C &c, const pack<X, N> &x,
                                        pack<Y, N> *y) {
#pragma unroll
  for (int e = 0; e < N; e++) y->v[e] = op.any(c, x.v[e]);
  return true;
}

/* What one level makes of elements: any(call, x) of one; all(call, x, y) of some, which is faster,
 * unless it says that it is not for these. */
template <class T, class U> struct quantise {
  using X = T;
  using Y = U;
  using C = compute_t<T>;
  level<T, U> l;

  __device__ __forceinline__ U of(const quant_call<T, U> &c, C quotient) const {
    return (U)saturated(quotient, (int)l.zero, c.range.low, c.range.high);
  }
  __device__ __forceinline__ U any(const quant_call<T, U> &c, T x) const {
    return of(c, divide<C>(load(x), l.scale));
  }
  template <int N>
  __device__ __forceinline__ bool all(const quant_call<T, U> &c, const pack<T, N> &x,
                                      pack<U, N> *y) const {
    if constexpr (sizeof(C) == 8) {
      return each_of(*this, c, x, y);
    } else {
      if (!quick_level::serves(l.scale)) return false;
      const quick_level quick(l.scale, (int)l.zero, c.range.low, c.range.high);
      float sum = 0; /* NaN where one is */
#pragma unroll
      for (int e = 0; e < N; e++) sum += load(x.v[e]);
      if (sum != sum) return false;
#pragma unroll
      for (int e = 0; e < N; e++) y->v[e] = (U)quick(load(x.v[e]));
    }
    return true;
  }
};

/* A difference of 32-bit integers has 33 bits. */
template <class T, class U> struct dequantise {
  using X = U;
  using Y = T;
  level<T, U> l;

  __device__ __forceinline__ T any(const quant_call<T, U> &, U x) const {
    using C = compute_t<T>;
    if (sizeof(U) == 4)
      return stored<T>::from(times<C>((C)((int64_t)x - (int64_t)l.zero), l.scale));
    return stored<T>::from(times<C>((C)((int)x - (int)l.zero), l.scale));
  }
  template <int N>
  __device__ __forceinline__ bool all(const quant_call<T, U> &c, const pack<U, N> &x,
                                      pack<T, N> *y) const {
    return each_of(*this, c, x, y);
  }
};

__device__ __forceinline__ float sum_of(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float sum_of(double a, double b) { return odd_float(a + b); }

/* U is f8_t, of the call's format. */
template <class T, class U> struct quantise_f8 {
  using X = T;
  using Y = U;
  level<T, U> l;

  __device__ __forceinline__ U any(const quant_call<T, U> &c, T x) const {
    using C = compute_t<T>;
    const C zero = f8_load(l.zero, c.format.e4m3);
    return f8_round(sum_of(divide<C>(load(x), l.scale), zero), c.format);
  }
  template <int N>
  __device__ __forceinline__ bool all(const quant_call<T, U> &c, const pack<T, N> &x,
                                      pack<U, N> *y) const {
    return each_of(*this, c, x, y);
  }
};

template <class T, class U> struct dequantise_f8 {
  using X = U;
  using Y = T;
  level<T, U> l;

  __device__ __forceinline__ T any(const quant_call<T, U> &c, U x) const {
    using C = compute_t<T>;
    const C zero = f8_load(l.zero, c.format.e4m3);
    return stored<T>::from(times<C>((C)f8_load(x, c.format.e4m3) - zero, l.scale));
  }
  template <int N>
  __device__ __forceinline__ bool all(const quant_call<T, U> &c, const pack<U, N> &x,
                                      pack<T, N> *y) const {
    return each_of(*this, c, x, y);
  }
};

/* Elements of a thread's access, and how many such accesses it has under way together. */
template <class T> struct quant_width {
  static constexpr int value = sizeof(T) <= 4 ? 8 : 4, packs = 16 / value;
};

/* Elements side by side, 16 bytes at a time; p begins where so many may be accessed. */
template <class E, int N> __device__ __forceinline__ pack<E, N> some_of(const E *p) {
  constexpr int each = least(N, 16 / (int)sizeof(E));
  pack<E, N> v;
#pragma unroll
  for (int k = 0; k < N; k += each) {
    const pack<E, each> part = *(const pack<E, each> *)(p + k);
#pragma unroll
    for (int e = 0; e < each; e++) v.v[k + e] = part.v[e];
  }
  return v;
}
template <class E, int N> __device__ __forceinline__ void put_some(E *p, const pack<E, N> &v) {
  constexpr int each = least(N, 16 / (int)sizeof(E));
#pragma unroll
  for (int k = 0; k < N; k += each) {
    pack<E, each> part;
#pragma unroll
    for (int e = 0; e < each; e++) part.v[e] = v.v[k + e];
    *(pack<E, each> *)(p + k) = part;
  }
}

/* Element by element, each with its own level: neighbouring threads take neighbours, a thread those
 * a `step` apart. */
template <class Op, int N, class T, class U>
__device__ __forceinline__ void quant_single(const quant_call<T, U> &c, const typename Op::X *x,
                                             typename Op::Y *y, int64_t first, int step) {
  typename Op::X from[N];
  level<T, U> l[N];
#pragma unroll
  for (int e = 0; e < N; e++) {
    const int64_t i = first + e * step;
    if (i >= c.count) continue;
    from[e] = x[i];
    l[e] = level_at(c, scale_place_of(c, i).at);
  }
#pragma unroll
  for (int e = 0; e < N; e++)
    if (first + e * step < c.count) y[first + e * step] = Op{l[e]}.any(c, from[e]);
}

template <template <class, class> class Op, class T, class U>
__global__ void __launch_bounds__(threads)
    quant_flat(const typename Op<T, U>::X *x, typename Op<T, U>::Y *y,
               const __grid_constant__ quant_call<T, U> c) {
  using X = typename Op<T, U>::X;
  using Y = typename Op<T, U>::Y;
  constexpr int N = quant_width<T>::value, P = quant_width<T>::packs, step = threads * N;
  const int64_t block = (int64_t)blockIdx.x * P * step, first = block + threadIdx.x * N;
  if (!c.packed) {
#pragma unroll 1
    for (int e = 0; e < P * N; e += 4)
      quant_single<Op<T, U>, 4>(c, x, y, block + e * threads + threadIdx.x, threads);
    return;
  }
  pack<X, N> from[P];
#pragma unroll
  for (int p = 0; p < P; p++)
    if (first + p * step + N <= c.count) from[p] = some_of<X, N>(x + first + p * step);
#pragma unroll
  for (int p = 0; p < P; p++) {
    const int64_t i = first + p * step;
    if (i >= c.count) return;
    const scale_place s = c.one ? scale_place{0, N} : scale_place_of(c, i);
    const Op<T, U> op{level_at(c, s.at)};
    pack<Y, N> to;
    if (s.left < N || i + N > c.count || !op.all(c, from[p], &to)) {
#pragma unroll 1
      for (int e = 0; e < N; e++) quant_single<Op<T, U>, 1>(c, x, y, i + e, 0);
      continue;
    }
    put_some(y + i, to);
  }
}

template <template <class, class> class Op, class T, class U>
tn_status run_flat(const tn_kernel_args *args, f8_format format = {}) {
  using X = typename Op<T, U>::X;
  using Y = typename Op<T, U>::Y;
  const tn_dequantize_linear_attrs *attrs = (const tn_dequantize_linear_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *scale = args->in[1], *zero = args->in[2];
  quant_call<T, U> c = {};
  c.count = cuda_size(x, 0, x->ndim);
  if (c.count == 0) return TN_OK;
  c.scale = (const T *)scale->data;
  c.zero = zero ? (const U *)zero->data : nullptr;
  c.place =
      quant_place_of(x, scale, attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis, attrs->block);
  c.one = c.place.steps[1] == 0;
  c.format = format;
  c.range = quant_range_of(cuda_dtype(args->out[0]));
  c.narrow = c.count <= CUDA_MAX_INDEX;
  if (c.narrow) {
    c.size = cuda_divisor_of((uint32_t)c.place.size);
    c.inner = cuda_divisor_of((uint32_t)c.place.inner);
    c.block = cuda_divisor_of((uint32_t)c.place.block);
  }
  constexpr int N = quant_width<T>::value;
  const X *from = (const X *)x->data;
  Y *to = (Y *)args->out[0]->data;
  const int64_t inner = c.place.inner; /* that have one scale */
  c.packed = (c.one || (c.place.steps[2] == 0 && (inner >= 8 * N || inner % N == 0))) &&
             is_aligned(from, (size_t)least(16, sizeof(X) * N)) &&
             is_aligned(to, (size_t)least(16, sizeof(Y) * N));
  const int64_t blocks = ceil_div(c.count, (int64_t)threads * N * quant_width<T>::packs);
  return launch(args, quant_flat<Op, T, U>, (unsigned)blocks, threads, 0, from, to, c);
}

} // namespace

tn_status cuda_run_quantize_linear(const tn_kernel_args *args) {
  return for_float(args, args->in[0], [&](auto t) {
    using T = decltype(t);
    const tn_dtype to = cuda_dtype(args->out[0]);
    const tn_quantize_linear_attrs *attrs = (const tn_quantize_linear_attrs *)args->attrs;
    const bool saturate = TN_FIELD_OR(attrs, tn_quantize_linear_attrs, overflow, 0) == 0;
    if (is_f8(to)) return run_flat<quantise_f8, T, f8_t>(args, {to == TN_F8_E4M3, saturate});
    switch (to) {
    case TN_U8:
      return run_flat<quantise, T, uint8_t>(args);
    case TN_I8:
      return run_flat<quantise, T, int8_t>(args);
    default:
      return run_flat<quantise, T, int16_t>(args);
    }
  });
}

tn_status cuda_run_dequantize_linear(const tn_kernel_args *args) {
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    const tn_dtype from = cuda_dtype(args->in[0]);
    if (is_f8(from)) return run_flat<dequantise_f8, T, f8_t>(args, {from == TN_F8_E4M3, true});
    switch (from) {
    case TN_U8:
      return run_flat<dequantise, T, uint8_t>(args);
    case TN_I8:
      return run_flat<dequantise, T, int8_t>(args);
    case TN_I16:
      return run_flat<dequantise, T, int16_t>(args);
    default:
      return run_flat<dequantise, T, int32_t>(args);
    }
  });
}
