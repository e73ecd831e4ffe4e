/*
 * Functions of floats computed in double: what the other headers of this folder share.
 * The same code serves the CPU kernels and CUDA. It has no branches, tables or calls, so
 * that loops over it vectorise, and its polynomials (fit.py) are good to about 2^-31, so
 * that a result rounded to float once errs by hardly more than half a unit in the last
 * place, with or without fused multiply-add.
 *
 * pre, for all: arguments are doubles that were floats. NaN, infinities and signs of zero
 * come out as C says; results below double's normal numbers may come out as any number
 * that float rounds to zero.
 */
#ifndef TENON_KERNELS_WIDE_WIDE_H
#define TENON_KERNELS_WIDE_WIDE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define WIDE_FN static __device__ __forceinline__
#define WIDE_FMA(a, b, c) fma(a, b, c)
#define WIDE_MUL(a, b) __dmul_rn(a, b) /* never part of a fused multiply-add */
#else
/* A call would keep the loop around it from becoming one of vectors. */
#ifdef __GNUC__
#define WIDE_FN static inline __attribute__((always_inline))
#else
#define WIDE_FN static inline
#endif
#define WIDE_MUL(a, b) ((a) * (b))
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define WIDE_FMA(a, b, c) __builtin_fma(a, b, c)
#else
#define WIDE_FMA(a, b, c) ((a) * (b) + (c))
#endif
#endif

/* Adding it to a number of at most 2^51 rounds to a whole one, which then stands in the
 * low bits of the sum. */
#define WIDE_ROUND 0x1.8p52

WIDE_FN uint64_t wide_bits(double x) {
#ifdef __CUDACC__
  return (uint64_t)__double_as_longlong(x);
#else
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
#endif
}

WIDE_FN double wide_of_bits(uint64_t u) {
#ifdef __CUDACC__
  return __longlong_as_double((long long)u);
#else
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
#endif
}

/* a if yes, else b, both computed: compilers make branches of ?: around a division, which
 * keeps loops from being vectorised. */
WIDE_FN double wide_select(int yes, double a, double b) {
#ifdef __CUDACC__
  return yes ? a : b;
#else
  const uint64_t mask = yes ? UINT64_MAX : 0;
  return wide_of_bits((wide_bits(a) & mask) | (wide_bits(b) & ~mask));
#endif
}

/* NaN stays NaN. */
WIDE_FN double wide_clamp(double x, double low, double high) {
  const double c = x < low ? low : x;
  return c > high ? high : c;
}

#endif
