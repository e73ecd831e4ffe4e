/*
 * Vectors of floats by the instructions of each set, where loops are not what a compiler makes them
 * of: FLOATS is a register, FLOATS_BESIDE as many as a row of a tile has; FLOATS_DOT(sum, a, b) is
 * sum + a b, rounded once where the processor can.
 */
#ifndef TENON_KERNELS_CPU_FLOATS_H
#define TENON_KERNELS_CPU_FLOATS_H

#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define FLOATS __m512
#define FLOATS_BESIDE 4
#define FLOATS_LOAD(p) _mm512_loadu_ps(p)
#define FLOATS_SPREAD(x) _mm512_set1_ps(x)
#define FLOATS_KEEP(p, v) _mm512_storeu_ps(p, v)
#define FLOATS_DOT(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define FLOATS_AND(a, b) _mm512_and_ps(a, b)
#elif defined(__AVX2__)
#define FLOATS __m256
#define FLOATS_BESIDE 2
#define FLOATS_LOAD(p) _mm256_loadu_ps(p)
#define FLOATS_SPREAD(x) _mm256_set1_ps(x)
#define FLOATS_KEEP(p, v) _mm256_storeu_ps(p, v)
#define FLOATS_DOT(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define FLOATS_AND(a, b) _mm256_and_ps(a, b)
#elif defined(__SSE2__)
#define FLOATS __m128
#define FLOATS_BESIDE 2
#define FLOATS_LOAD(p) _mm_loadu_ps(p)
#define FLOATS_SPREAD(x) _mm_set1_ps(x)
#define FLOATS_KEEP(p, v) _mm_storeu_ps(p, v)
#define FLOATS_DOT(sum, a, b) _mm_add_ps(sum, _mm_mul_ps(a, b))
#define FLOATS_AND(a, b) _mm_and_ps(a, b)
#elif defined(__aarch64__)
#define FLOATS float32x4_t
#define FLOATS_BESIDE 4
#define FLOATS_LOAD(p) vld1q_f32(p)
#define FLOATS_SPREAD(x) vdupq_n_f32(x)
#define FLOATS_KEEP(p, v) vst1q_f32(p, v)
#define FLOATS_DOT(sum, a, b) vfmaq_f32(sum, a, b)
#define FLOATS_AND(a, b)                                                                           \
  vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)))
#else
typedef int32_t floats_bits __attribute__((vector_size(16)));
typedef float floats_lanes __attribute__((vector_size(16), aligned(4), may_alias));
#define FLOATS floats_lanes
#define FLOATS_BESIDE 2
#define FLOATS_LOAD(p) (*(const floats_lanes *)(const void *)(p))
#define FLOATS_SPREAD(x) ((floats_lanes){0} + (x))
#define FLOATS_KEEP(p, v) (*(floats_lanes *)(void *)(p) = (v))
#define FLOATS_DOT(sum, a, b) ((sum) + (a) * (b))
#define FLOATS_AND(a, b) ((floats_lanes)((floats_bits)(a) & (floats_bits)(b)))
#endif

/* Loops of constant counts over registers. */
#if defined(__clang__)
#define FLOATS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FLOATS_UNROLL _Pragma("GCC unroll 8")
#endif

#endif
