/*
 * Random numbers: dropout, uniform, normal. Philox4x32-10 (Salmon et al. 2011), keyed
 * by the seed and counted in the tensor's row-major order, so that every device draws
 * the same numbers. Tensors come contiguous: memory order is the logical order. One
 * thread computes whole counters and writes all elements that they serve.
 */
#include <math.h>

#include "kernels/common/uniform.h"
#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/base/scalars.cuh"
#include "kernels/cuda/random/philox.cuh"

namespace {

enum { threads = 256 };

__device__ uint4 philox(uint64_t seed, uint64_t counter) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  uint4 c = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
#pragma unroll
  for (int round = 0; round < 10; round++) {
    uint32_t lo0 = 0xD2511F53u * c.x, hi0 = __umulhi(0xD2511F53u, c.x);
    uint32_t lo1 = 0xCD9E8D57u * c.z, hi1 = __umulhi(0xCD9E8D57u, c.z);
    c = {hi1 ^ c.y ^ k0, lo1, hi0 ^ c.w ^ k1, lo0};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/* 24 random bits of a lane as a number in [0, 1). */
__device__ float unit24(uint32_t w) { return (float)(w >> 8) * 0x1p-24f; }
/* 53 bits of two lanes. */
__device__ uint64_t bits53(uint32_t low, uint32_t high) {
  return (((uint64_t)high << 32) | low) >> 11;
}

/* Writes up to N of v at y + first, in one access where all fit. */
template <class T, int N>
__device__ void write(T *y, int64_t first, int64_t n, const pack<T, N> &v, bool wide) {
  if (wide && first + N <= n) {
    *(pack<T, N> *)(y + first) = v;
    return;
  }
#pragma unroll
  for (int i = 0; i < N; i++) {
    if (first + i < n) y[first + i] = v.v[i];
  }
}

template <class T, int N>
__device__ pack<T, N> read(const T *x, int64_t first, int64_t n, bool wide) {
  if (wide && first + N <= n) return *(const pack<T, N> *)(x + first);
  pack<T, N> v{};
#pragma unroll
  for (int i = 0; i < N; i++) {
    if (first + i < n) v.v[i] = x[first + i];
  }
  return v;
}

/* An element is kept where its 24 bits reach threshold = ceil(p 2^24): u >= p. */
template <class T>
__device__ __forceinline__ void drop(const philox_words &r, uint32_t threshold, compute_t<T> scale,
                                     T *v, bool_t *kept) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const bool keep = (r.w[i] >> 8) >= threshold;
    kept[i].byte = keep;
    v[i] = stored<T>::from(keep ? load(v[i]) * scale : (compute_t<T>)0);
  }
}

template <class T>
__global__ void __launch_bounds__(draw_threads)
    dropout(T *y, bool_t *mask, const T *x, int64_t n, draw_origin from, int rounds,
            uint32_t threshold, compute_t<T> scale, bool wide) {
  constexpr int N = draw_width<T, 4>(), P = draw_packs<T, 4>();
  const draw_part<T, 4> part(n, rounds);
  const philox_block source(from, (uint64_t)part.begin / 4);
  y += part.begin, mask += part.begin, x += part.begin;
  if (!part.is_plain(source, wide)) {
#pragma unroll 1
    for (int i = threadIdx.x * 4; i < part.left; i += draw_threads * 4) {
      pack<T, 4> v = read<T, 4>(x, i, part.left, false);
      pack<bool_t, 4> kept;
      drop<T>(source.any(i / 4), threshold, scale, v.v, kept.v);
      write<T, 4>(y, i, part.left, v, false);
      write<bool_t, 4>(mask, i, part.left, kept, false);
    }
    return;
  }
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    pack<T, N> v[P];
    pack<bool_t, N> kept[P];
#pragma unroll
    for (int p = 0; p < P; p++) v[p] = *(const pack<T, N> *)(x + part.at(round, p));
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
      for (int k = 0; k < N; k += 4)
        drop<T>(source.near((part.at(round, p) + k) / 4), threshold, scale, v[p].v + k,
                kept[p].v + k);
#pragma unroll
    for (int p = 0; p < P; p++) {
      *(pack<T, N> *)(y + part.at(round, p)) = v[p];
      *(pack<bool_t, N> *)(mask + part.at(round, p)) = kept[p];
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    dropout_grad(T *dx, const T *dy, const bool_t *mask, int64_t n, compute_t<T> scale, bool wide) {
  constexpr int N = draw_width<T, 4>();
  int64_t first = ((int64_t)blockIdx.x * threads + threadIdx.x) * N;
  if (first >= n) return;
  pack<T, N> v = read<T, N>(dy, first, n, wide);
  pack<bool_t, N> kept = read<bool_t, N>(mask, first, n, wide);
#pragma unroll
  for (int i = 0; i < N; i++) {
    v.v[i] = stored<T>::from(kept.v[i].byte ? load(v.v[i]) * scale : (compute_t<T>)0);
  }
  write<T, N>(dx, first, n, v, wide);
}

/* The attributes of both distributions: low and width, or mean and std; uniform numbers then
 * stay within bounds, see kernels/common/uniform.h. */
template <class C> struct draw_params {
  C a, b, back, least, most;
  draw_origin from;

  /* v is a number. */
  __device__ __forceinline__ C within(C v) const { return fmin(fmax(back * v, least), most); }
};

/* -2 ln(k 2^-24) for 1 <= k <= 2^24, to some 3e-7 of it: k is (1 + f) 2^n. */
__device__ __forceinline__ float twice_log24(uint32_t k) {
  const int bits = __float_as_int((float)k), power = (bits - 0x3f3504f3) & (int)0xff800000;
  const float f = __int_as_float(bits - power) - 1.0f, n = (float)(power - (24 << 23)); /* 2^23 n */
  float p = fmaf(-0.100822598f, f, 0.161804914f);
  p = fmaf(p, f, -0.172432482f);
  p = fmaf(p, f, 0.199068815f);
  p = fmaf(p, f, -0.249712273f);
  p = fmaf(p, f, 0.333347142f);
  p = fmaf(p, f, -0.500003219f);
  return -2.0f * fmaf(n, 8.26295829e-08f, fmaf(f * f, p, f));
}

/* Sine and cosine of a turn times the word's first 24 bits: a quarter turn, and a rest of it from
 * -1/2 to 1/2. */
__device__ __forceinline__ void turned(uint32_t word, float *sine, float *cosine) {
  const uint32_t quarter = word + 0x20000000u; /* in its first two bits */
  const float t = (float)(int32_t)(word << 2 & 0xfffffc00u) * 0x1p-32f, z = t * t;
  float s = fmaf(-0.00460165786f, z, 0.079680033f), c = fmaf(-0.0203985814f, z, 0.253594935f);
  s = fmaf(s, z, -0.645963490f);
  c = fmaf(c, z, -1.23369670f);
  s = fmaf(s, z, 1.57079637f) * t;
  c = fmaf(c, z, 0.99999994f);
  const bool odd = quarter & 0x40000000u;
  *sine = __uint_as_float(__float_as_uint(odd ? c : s) ^ (quarter & 0x80000000u));
  *cosine = __uint_as_float(__float_as_uint(odd ? s : c) ^ ((quarter + 0x40000000u) & 0x80000000u));
}

/* Two numbers of the normal distribution by Box and Muller. */
__device__ __forceinline__ void normal_pair(uint32_t first, uint32_t second, float *even,
                                            float *odd) {
  float radius, s, c;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(radius) : "f"(twice_log24((first >> 8) + 1))); /* 1 ULP */
  turned(second, &s, &c);
  *even = radius * c;
  *odd = radius * s;
}

/* The same for 16 bits by the device's approximations, which err by some 2^-21: squares of radii
 * near 0, where that shows, come from the series of the logarithm. */
__device__ __forceinline__ void short_normal_pair(uint32_t first, uint32_t second, float *even,
                                                  float *odd) {
  const float u = (float)((first >> 8) + 1) * 0x1p-24f;
  const float turn = (float)(second >> 8) * 3.74507027e-07f, rest = 1.0f - u;
  float square, radius, s, c;
  asm("lg2.approx.f32 %0, %1;" : "=f"(square) : "f"(u));
  square = rest < 0x1p-8f ? fmaf(rest, rest, 2.0f * rest) : -1.38629436f * square;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(radius) : "f"(square));
  asm("sin.approx.f32 %0, %1;" : "=f"(s) : "f"(turn));
  asm("cos.approx.f32 %0, %1;" : "=f"(c) : "f"(turn));
  *even = radius * c;
  *odd = radius * s;
}

template <class T, bool normal>
__global__ void __launch_bounds__(draw_threads)
    draw(T *y, int64_t n, const __grid_constant__ draw_params<float> p, int rounds, bool wide) {
  draw_share<4>(y, n, p.from, rounds, wide, [&](const philox_words &r, T *v) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      float even, odd;
      if (!normal) {
        even = p.within(fmaf(p.b, unit24(r.w[i]), p.a));
        odd = p.within(fmaf(p.b, unit24(r.w[i + 1]), p.a));
      } else {
        if (sizeof(T) == 2)
          short_normal_pair(r.w[i], r.w[i + 1], &even, &odd);
        else
          normal_pair(r.w[i], r.w[i + 1], &even, &odd);
        even = fmaf(p.b, even, p.a);
        odd = fmaf(p.b, odd, p.a);
      }
      draw_put(v + i, even, odd);
    }
  });
}

template <bool normal>
__global__ void __launch_bounds__(threads)
    draw_double(double *y, int64_t n, const __grid_constant__ draw_params<double> p, bool wide) {
  int64_t group = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (group * 2 >= n) return;
  uint4 r = philox(p.from.seed(), p.from.offset() + (uint64_t)group);
  uint64_t first = bits53(r.x, r.y), second = bits53(r.z, r.w);
  double even = (double)first * 0x1p-53, odd = (double)second * 0x1p-53;
  if (normal) {
    double radius = sqrt(-2. * log((double)(first + 1) * 0x1p-53)), s, c;
    sincospi(2. * odd, &s, &c);
    even = radius * c;
    odd = radius * s;
  }
  /* Two roundings, as on the CPU. */
  even = __dadd_rn(p.a, __dmul_rn(p.b, even));
  odd = __dadd_rn(p.a, __dmul_rn(p.b, odd));
  pack<double, 2> v = {{normal ? even : p.within(even), normal ? odd : p.within(odd)}};
  write<double, 2>(y, group * 2, n, v, wide);
}

unsigned blocks_for(int64_t n, int per_thread) {
  return (unsigned)ceil_div(n, (int64_t)threads * per_thread);
}

/* How often a thread of dropout does it: longer ways through three tensors at once are slower. */
template <class T> int dropout_rounds(int64_t n) { return sizeof(T) < 4 && n >= 1 << 22 ? 2 : 1; }

template <class T> tn_status run_dropout(const tn_kernel_args *args) {
  const tn_dropout_attrs *attrs = (const tn_dropout_attrs *)args->attrs;
  T *y = (T *)args->out[0]->data;
  bool_t *mask = (bool_t *)args->out[1]->data;
  const T *x = (const T *)args->in[0]->data;
  int64_t n = cuda_size(args->out[0], 0, args->out[0]->ndim);
  if (n == 0) return TN_OK;
  constexpr int N = draw_width<T, 4>();
  bool wide = is_aligned(y, sizeof(T) * N) && is_aligned(x, sizeof(T) * N) && is_aligned(mask, N);
  uint32_t threshold = (uint32_t)ceil(attrs->p * 0x1p24);
  const int rounds = dropout_rounds<T>(n);
  const int64_t blocks = ceil_div(n, (int64_t)draw_step<T, 4>() * rounds);
  return launch(args, dropout<T>, (unsigned)blocks, draw_threads, 0, y, mask, x, n,
                origin_of(attrs), rounds, threshold, (compute_t<T>)(1 / (1 - attrs->p)), wide);
}

template <class T> tn_status run_dropout_grad(const tn_kernel_args *args) {
  double p = ((const tn_dropout_grad_attrs *)args->attrs)->p;
  T *dx = (T *)args->out[0]->data;
  const T *dy = (const T *)args->in[0]->data;
  const bool_t *mask = (const bool_t *)args->in[1]->data;
  int64_t n = cuda_size(args->out[0], 0, args->out[0]->ndim);
  if (n == 0) return TN_OK;
  constexpr int N = draw_width<T, 4>();
  bool wide = is_aligned(dx, sizeof(T) * N) && is_aligned(dy, sizeof(T) * N) && is_aligned(mask, N);
  return launch(args, dropout_grad<T>, blocks_for(n, N), threads, 0, dx, dy, mask, n,
                (compute_t<T>)(1 / (1 - p)), wide);
}

template <class C> draw_params<C> params_of(uniform_range r, const draw_origin &from) {
  return {(C)r.low, (C)r.width, (C)r.back, (C)r.least, (C)r.most, from};
}

template <class T, bool normal>
tn_status run_draw_as(const tn_kernel_args *args, int64_t n, const draw_params<float> &p) {
  T *y = (T *)args->out[0]->data;
  return launch(args, draw<T, normal>, draw_blocks<T, 4>(n), draw_threads, 0, y, n, p,
                draw_rounds(n), draw_is_wide<T, 4>(y));
}

template <bool normal>
tn_status run_draw(const tn_kernel_args *args, uniform_range r, const draw_origin &from) {
  int64_t n = cuda_size(args->out[0], 0, args->out[0]->ndim);
  if (n == 0) return TN_OK;
  double *y = (double *)args->out[0]->data;
  draw_params<float> p = params_of<float>(r, from);
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    if constexpr (sizeof(T) == 8)
      return launch(args, draw_double<normal>, blocks_for(n, 2), threads, 0, y, n,
                    params_of<double>(r, from), is_aligned(y, 16));
    else
      return run_draw_as<T, normal>(args, n, p);
  });
}

uniform_type uniform_type_of(const DLTensor *t) {
  switch (cuda_dtype(t)) {
  case TN_F16:
    return uniform_type_f16();
  case TN_BF16:
    return uniform_type_bf16();
  case TN_F64:
    return uniform_type_f64();
  default:
    return uniform_type_f32();
  }
}

} // namespace

tn_status cuda_run_dropout(const tn_kernel_args *args) {
  return for_float(args, args->out[0], [&](auto t) { return run_dropout<decltype(t)>(args); });
}

tn_status cuda_run_dropout_grad(const tn_kernel_args *args) {
  return for_float(args, args->out[0], [&](auto t) { return run_dropout_grad<decltype(t)>(args); });
}

tn_status cuda_run_uniform(const tn_kernel_args *args) {
  const tn_uniform_attrs *attrs = (const tn_uniform_attrs *)args->attrs;
  uniform_range r = uniform_range_of(attrs->low, attrs->high, uniform_type_of(args->out[0]));
  return run_draw<false>(args, r, origin_of(attrs));
}

tn_status cuda_run_normal(const tn_kernel_args *args) {
  const tn_normal_attrs *attrs = (const tn_normal_attrs *)args->attrs;
  return run_draw<true>(args, {attrs->mean, attrs->std, 1, 0, 0}, origin_of(attrs));
}
