/*
 * Element types by class: f16 and bf16 share kernels that compute in float and ask at run time
 * which of the two they read and write, once per pack. Beside them stand float and double.
 */
#ifndef KERNELS_CUDA_HALVES_CUH
#define KERNELS_CUDA_HALVES_CUH

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

/* A pack as numbers. `brain`: of bf16. */
template <class T, int N, class C>
__device__ __forceinline__ void unpack(C *v, const pack<T, N> &p, bool brain) {
  if constexpr (std::is_same_v<T, any_half>) {
    if (brain) {
#pragma unroll
      for (int j = 0; j < N; j++) v[j] = (C)load(bfloat_t{p.v[j].bits});
    } else {
#pragma unroll
      for (int j = 0; j < N; j++) v[j] = (C)load(half_t{p.v[j].bits});
    }
  } else {
#pragma unroll
    for (int j = 0; j < N; j++) v[j] = (C)p.v[j];
  }
}

template <class T, int N>
__device__ __forceinline__ pack<T, N> packed(const accumulator_t<T> *v, bool brain) {
  pack<T, N> p;
  if constexpr (std::is_same_v<T, any_half>) {
    if (brain) {
#pragma unroll
      for (int j = 0; j < N; j++) p.v[j].bits = stored<bfloat_t>::from(v[j]).bits;
    } else {
#pragma unroll
      for (int j = 0; j < N; j++) p.v[j].bits = stored<half_t>::from(v[j]).bits;
    }
  } else {
#pragma unroll
    for (int j = 0; j < N; j++) p.v[j] = v[j];
  }
  return p;
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

/* Adds the distances of N numbers from a shift, and their squares. */
template <int N, class C>
__device__ __forceinline__ void add_distances(double *sum, double *squares, const C *v,
                                              double shift) {
  if constexpr (N > 1 && sizeof(C) == 4) {
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
