/*
 * Elements of reductions and scans: what they are read as and written from.
 */
#ifndef KERNELS_CUDA_REDUCE_ELEMENT_CUH
#define KERNELS_CUDA_REDUCE_ELEMENT_CUH

#include <string.h>

#include "kernels/cuda/base/halves.cuh"
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
template <> struct element<any_half> {
  static __device__ float read(const void *x, int64_t at, int dtype) {
    return load(((const any_half *)x)[at], dtype == TN_BF16);
  }
  static __device__ void write(void *y, int64_t at, float v, int dtype) {
    if (dtype == TN_F32)
      ((float *)y)[at] = v;
    else
      ((any_half *)y)[at] = rounded<any_half>(v, dtype == TN_BF16);
  }
};
template <class Y> struct element<widened<any_half, Y>> {
  static __device__ Y read(const void *x, int64_t at, int dtype) {
    return (Y)element<any_half>::read(x, at, dtype);
  }
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

/* What a scan over T is made of: all integers, and bools, are one. */
template <class T>
using reduced_t =
    std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, bool_t>, any_int, T>;

} // namespace

#endif /* KERNELS_CUDA_REDUCE_ELEMENT_CUH */
