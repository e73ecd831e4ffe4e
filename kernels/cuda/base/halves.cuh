/*
 * Element types by class: f16 and bf16 share kernels that compute in float and ask at run time
 * which of the two they read and write, once per pack. Beside them stand float and double.
 */
#ifndef KERNELS_CUDA_HALVES_CUH
#define KERNELS_CUDA_HALVES_CUH

#include <string.h>

#include "kernels/cuda/base/dispatch.cuh"

/* An element of f16 or bf16. */
struct any_half {
  unsigned short bits;
};
template <> struct compute_of<any_half> { using type = float; };

/* Elements of a pack of 16 bytes. */
template <class T> __host__ __device__ constexpr int pack_width() { return 16 / (int)sizeof(T); }

__device__ __forceinline__ float load(any_half x, bool brain) {
  return brain ? load(bfloat_t{x.bits}) : load(half_t{x.bits});
}
__device__ __forceinline__ float load(float x, bool) { return x; }
__device__ __forceinline__ double load(double x, bool) { return x; }

template <class T> __device__ __forceinline__ T rounded(accumulator_t<T> v, bool brain) {
  if constexpr (std::is_same_v<T, any_half>) {
    return {brain ? stored<bfloat_t>::from(v).bits : stored<half_t>::from(v).bits};
  } else {
    return v;
  }
}

/* Two elements side by side in one word, as numbers. */
__device__ __forceinline__ void unpack_pair(float *v, uint32_t pair, bool brain) {
  if (brain) {
    v[0] = __uint_as_float(pair << 16);
    v[1] = __uint_as_float(pair & 0xffff0000u);
  } else {
    asm("{\n.reg .f16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
        : "=f"(v[0]), "=f"(v[1])
        : "r"(pair));
  }
}

__device__ __forceinline__ uint32_t packed_pair(const float *v, bool brain) {
  uint32_t pair;
  if (brain)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(v[1]), "f"(v[0]));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(v[1]), "f"(v[0]));
  return pair;
}

/* A pack as numbers. `brain`: of bf16. */
template <class T, int N, class C>
__device__ __forceinline__ void unpack(C *v, pack<T, N> p, bool brain) {
  if constexpr (std::is_same_v<T, any_half> && N % 2 == 0) {
    uint32_t pair[N / 2];
    float pairs[N];
    memcpy(pair, &p, sizeof p);
#pragma unroll
    for (int j = 0; j < N / 2; j++) unpack_pair(pairs + 2 * j, pair[j], brain);
#pragma unroll
    for (int j = 0; j < N; j++) v[j] = (C)pairs[j];
  } else {
#pragma unroll
    for (int j = 0; j < N; j++) v[j] = (C)load(p.v[j], brain);
  }
}

template <class T, int N>
__device__ __forceinline__ pack<T, N> packed(const accumulator_t<T> *v, bool brain) {
  pack<T, N> p;
  if constexpr (std::is_same_v<T, any_half> && N % 2 == 0) {
    uint32_t pair[N / 2];
#pragma unroll
    for (int j = 0; j < N / 2; j++) pair[j] = packed_pair(v + 2 * j, brain);
    memcpy(&p, pair, sizeof p);
  } else {
#pragma unroll
    for (int j = 0; j < N; j++) p.v[j] = rounded<T>(v[j], brain);
  }
  return p;
}

/* A pack in registers. Its elements are taken out of words where they are used: the compiler would
 * keep each of 16 bits in a register of its own. */
struct alignas(16) held_pack {
  uint32_t word[4];
};

/* Element j of a pack in registers. */
template <class T>
__device__ __forceinline__ accumulator_t<T> element_of(const held_pack &p, int j, bool brain) {
  if constexpr (std::is_same_v<T, any_half>) {
    const uint32_t pair = p.word[j / 2];
    float v;
    if (brain)
      v = __uint_as_float(j % 2 ? pair & 0xffff0000u : pair << 16);
    else if (j % 2)
      asm("{\n.reg .f16 a, b;\nmov.b32 {a, b}, %1;\ncvt.f32.f16 %0, b;\n}" : "=f"(v) : "r"(pair));
    else
      asm("{\n.reg .f16 a, b;\nmov.b32 {a, b}, %1;\ncvt.f32.f16 %0, a;\n}" : "=f"(v) : "r"(pair));
    return v;
  } else if constexpr (sizeof(T) == 4) {
    return __uint_as_float(p.word[j]);
  } else {
    return __hiloint2double((int)p.word[2 * j + 1], (int)p.word[2 * j]);
  }
}

/* Puts an element where there is 0, or anything if it has words of its own. */
template <class T> __device__ __forceinline__ void put_element(held_pack &p, int j, T element) {
  if constexpr (sizeof(T) == 2) {
    p.word[j / 2] |= (uint32_t)element.bits << j % 2 * 16;
  } else if constexpr (sizeof(T) == 4) {
    p.word[j] = __float_as_uint(element);
  } else {
    p.word[2 * j] = (uint32_t)__double2loint(element);
    p.word[2 * j + 1] = (uint32_t)__double2hiint(element);
  }
}

/* The class of kernels that elements of type T take. */
template <class T> struct class_of_type { using type = T; };
template <> struct class_of_type<half_t> { using type = any_half; };
template <> struct class_of_type<bfloat_t> { using type = any_half; };
template <class T> using class_t = typename class_of_type<T>::type;

/* A pack in registers as numbers. */
template <class T, class C>
__device__ __forceinline__ void unpack(C *v, const held_pack &p, bool brain) {
  if constexpr (std::is_same_v<T, any_half>) {
    float pair[2];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      unpack_pair(pair, p.word[j], brain);
      v[2 * j] = (C)pair[0];
      v[2 * j + 1] = (C)pair[1];
    }
  } else {
#pragma unroll
    for (int j = 0; j < pack_width<T>(); j++) v[j] = (C)element_of<T>(p, j, brain);
  }
}

/* Sums in pairs; N is a power of two. */
template <int N, class C> __device__ __forceinline__ C tree_sum(const C *v) {
  if constexpr (N == 1) {
    return v[0];
  } else {
    return tree_sum<N / 2>(v) + tree_sum<N / 2>(v + N / 2);
  }
}

/* Squares of floats of such a size are floats as well, and so are sums of some of them. */
__device__ __forceinline__ bool holds_squares(float sum) {
  return sum > 0x1p-80f && sum < 0x1p100f;
}

/* Floats add the distances of N of them from a number in their middle, and doubles move the sums to
 * the shift; false, with nothing done, where float does not hold them. */
template <int N>
__device__ __forceinline__ bool add_near_distances(double *sum, double *squares, const float *v,
                                                   double shift) {
  float c = 0, d[N], s, q;
#pragma unroll
  for (int j = 0; j < N; j++) c = fmaf(v[j], 1.0f / N, c);
#pragma unroll
  for (int j = 0; j < N; j++) d[j] = v[j] - c;
  s = tree_sum<N>(d);
#pragma unroll
  for (int j = 0; j < N; j++) d[j] *= d[j];
  q = tree_sum<N>(d);
  if (!holds_squares(q)) return false;
  double far = (double)c - shift, all = N * far;
  *sum += s + all;
  *squares += q + far * (2.0 * s + all);
  return true;
}

/* The same of numbers that 16 bits made, in fewer steps: from the first of them, of whose distances
 * floats hold enough. Equal numbers that are not tiny have none. */
template <int N>
__device__ __forceinline__ bool add_short_distances(double *sum, double *squares, const float *v,
                                                    double shift) {
  const float c = v[0];
  float s[2] = {0, 0}, q[2] = {0, 0};
#pragma unroll
  for (int j = 1; j < N; j++) {
    const float d = v[j] - c;
    s[j % 2] += d;
    q[j % 2] = fmaf(d, d, q[j % 2]);
  }
  s[0] += s[1];
  q[0] += q[1];
  if (!holds_squares(q[0]) && !(q[0] == 0.0f && fabsf(c) > 0x1p-60f)) return false;
  const double far = (double)c - shift, all = N * far;
  *sum += (double)s[0] + all;
  *squares += (double)q[0] + far * (2.0 * (double)s[0] + all);
  return true;
}

/* Adds the distances of N numbers from a shift, and their squares. `few`: 16 bits made them. */
template <int N, bool few = false, class C>
__device__ __forceinline__ void add_distances(double *sum, double *squares, const C *v,
                                              double shift) {
  if constexpr (N > 1 && few) {
    if (add_short_distances<N>(sum, squares, v, shift)) return;
  } else if constexpr (N > 1 && sizeof(C) == 4) {
    if (add_near_distances<N>(sum, squares, v, shift)) return;
  }
#pragma unroll
  for (int j = 0; j < N; j++) {
    double far = (double)v[j] - shift;
    *sum += far;
    *squares += far * far;
  }
}

/* The larger, and NaN where either is. */
__device__ __forceinline__ float larger(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a != a || a >= b ? a : b;
#endif
}
__device__ __forceinline__ double larger(double a, double b) { return a != a || a >= b ? a : b; }
__device__ __forceinline__ int64_t larger(int64_t a, int64_t b) { return a >= b ? a : b; }

/* e^x: of what comes from 16 bits to 2^-20 of it, which their rounding hides. */
template <class T> __device__ __forceinline__ accumulator_t<T> exponential(accumulator_t<T> x) {
  if constexpr (std::is_same_v<T, any_half>) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
  } else {
    return exp(x);
  }
}

/* Calls fn with an element of the tensor's class. */
template <class Fn>
static tn_status for_class(const tn_kernel_args *args, const DLTensor *tensor, Fn fn) {
  switch (cuda_dtype(tensor)) {
  case TN_F16:
  case TN_BF16:
    return fn(any_half());
  case TN_F32:
    return fn(float());
  case TN_F64:
    return fn(double());
  default:
    return bad_dtype(args);
  }
}

static inline bool is_brain(const DLTensor *tensor) { return cuda_dtype(tensor) == TN_BF16; }

#endif /* KERNELS_CUDA_HALVES_CUH */
