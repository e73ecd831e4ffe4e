/*
 * Vectors of floats by the instructions of each set, where loops are not what a compiler makes them
 * of: FLOATS is a register, FLOATS_BESIDE as many as a row of a tile has; FLOATS_DOT(sum, a, b) is
 * sum + a b, rounded once where the processor can. FLOATS_FIRST(count) says which lanes
 * FLOATS_LOAD_FIRST reads, the others being 0, and FLOATS_KEEP_FIRST writes: the first 1 to all.
 * FLOATS_HALF is a register of half the lanes where that is faster; its DOT takes the lower half of
 * a. FLOATS_TOTAL adds up all lanes. FLOATS_MIN and FLOATS_MAX give b where a or b is NaN, and
 * FLOATS_PICK(mask, a, b) the lanes of a where those of a mask of integers are -1, and else of b,
 * where they are 0: what comparing vectors gives. FLOATS_ANY says whether a lane of an OR of
 * FLOATS_UNORDERED is set: a pair of these had a NaN. FLOATS_STREAM writes to an aligned place past
 * the caches, where the processor can; FLOATS_STREAMED() stands behind the last of these.
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
#define FLOATS_LANES __mmask16
#define FLOATS_FIRST(count) ((__mmask16)(0xffffu >> (16 - (count))))
#define FLOATS_LOAD_FIRST(p, lanes) _mm512_maskz_loadu_ps(lanes, p)
#define FLOATS_KEEP_FIRST(p, lanes, v) _mm512_mask_storeu_ps(p, lanes, v)
#define FLOATS_TOTAL(v) _mm512_reduce_add_ps(v)
#define FLOATS_HALF __m256
#define FLOATS_HALF_LOAD_FIRST(p, lanes) _mm256_maskz_loadu_ps((__mmask8)(lanes), p)
#define FLOATS_HALF_KEEP_FIRST(p, lanes, v) _mm256_mask_storeu_ps(p, (__mmask8)(lanes), v)
#define FLOATS_HALF_DOT(sum, a, b) _mm256_fmadd_ps(_mm512_castps512_ps256(a), b, sum)
#define FLOATS_STREAM(p, v) _mm512_stream_ps(p, v)
#define FLOATS_MIN(a, b) _mm512_min_ps(a, b)
#define FLOATS_MAX(a, b) _mm512_max_ps(a, b)
#elif defined(__AVX2__)
#define FLOATS __m256
#define FLOATS_BESIDE 2
#define FLOATS_LOAD(p) _mm256_loadu_ps(p)
#define FLOATS_SPREAD(x) _mm256_set1_ps(x)
#define FLOATS_KEEP(p, v) _mm256_storeu_ps(p, v)
#define FLOATS_DOT(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define FLOATS_AND(a, b) _mm256_and_ps(a, b)
#define FLOATS_LANES __m256i
#define FLOATS_FIRST(count)                                                                        \
  _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define FLOATS_LOAD_FIRST(p, lanes) _mm256_maskload_ps(p, lanes)
#define FLOATS_KEEP_FIRST(p, lanes, v) _mm256_maskstore_ps(p, lanes, v)
#define FLOATS_STREAM(p, v) _mm256_stream_ps(p, v)
#define FLOATS_MAX(a, b) _mm256_max_ps(a, b)
#define FLOATS_MIN(a, b) _mm256_min_ps(a, b)
#define FLOATS_PICK(mask, a, b) _mm256_blendv_ps(b, a, (FLOATS)(mask))
#define FLOATS_OR(a, b) _mm256_or_ps(a, b)
#define FLOATS_UNORDERED(a, b) _mm256_cmp_ps(a, b, _CMP_UNORD_Q)
#define FLOATS_ANY(v) (_mm256_movemask_ps(v) != 0)
#elif defined(__SSE2__)
#define FLOATS __m128
#define FLOATS_BESIDE 2
#define FLOATS_LOAD(p) _mm_loadu_ps(p)
#define FLOATS_SPREAD(x) _mm_set1_ps(x)
#define FLOATS_KEEP(p, v) _mm_storeu_ps(p, v)
#define FLOATS_DOT(sum, a, b) _mm_add_ps(sum, _mm_mul_ps(a, b))
#define FLOATS_STREAM(p, v) _mm_stream_ps(p, v)
#define FLOATS_MAX(a, b) _mm_max_ps(a, b)
#define FLOATS_MIN(a, b) _mm_min_ps(a, b)
#define FLOATS_OR(a, b) _mm_or_ps(a, b)
#define FLOATS_UNORDERED(a, b) _mm_cmpunord_ps(a, b)
#define FLOATS_ANY(v) (_mm_movemask_ps(v) != 0)
#define FLOATS_AND(a, b) _mm_and_ps(a, b)
#elif defined(__aarch64__)
#define FLOATS float32x4_t
#define FLOATS_BESIDE 4
#define FLOATS_LOAD(p) vld1q_f32(p)
#define FLOATS_SPREAD(x) vdupq_n_f32(x)
#define FLOATS_KEEP(p, v) vst1q_f32(p, v)
#define FLOATS_DOT(sum, a, b) vfmaq_f32(sum, a, b)
#define FLOATS_TOTAL(v) vaddvq_f32(v)
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

typedef int32_t floats_ints __attribute__((vector_size(sizeof(FLOATS))));
#ifndef FLOATS_PICK
#define FLOATS_PICK(mask, a, b)                                                                    \
  ((FLOATS)(((floats_ints)(a) & (mask)) | ((floats_ints)(b) & ~(mask))))
#endif
#ifndef FLOATS_MIN
#define FLOATS_MIN(a, b) FLOATS_PICK((floats_ints)((a) < (b)), a, b)
#define FLOATS_MAX(a, b) FLOATS_PICK((floats_ints)((a) > (b)), a, b)
#endif

#ifdef FLOATS_STREAM
#define FLOATS_STREAMED() _mm_sfence()
#endif

/* Where no instruction leaves lanes out, they go through memory. */
#ifndef FLOATS_LANES
#define FLOATS_LANES int64_t
#define FLOATS_FIRST(count) (count)
#define FLOATS_LOAD_FIRST(p, lanes) floats_load_first(p, lanes)
#define FLOATS_KEEP_FIRST(p, lanes, v) floats_keep_first(p, lanes, v)
static inline FLOATS floats_load_first(const float *p, int64_t count) {
  float lane[sizeof(FLOATS) / sizeof(float)] = {0};
  for (int64_t i = 0; i < count; i++) lane[i] = p[i];
  return FLOATS_LOAD(lane);
}
static inline void floats_keep_first(float *p, int64_t count, FLOATS v) {
  float lane[sizeof(FLOATS) / sizeof(float)];
  FLOATS_KEEP(lane, v);
  for (int64_t i = 0; i < count; i++) p[i] = lane[i];
}
#endif

#ifndef FLOATS_TOTAL
#define FLOATS_TOTAL(v) floats_total(v)
static inline float floats_total(FLOATS v) {
  enum { LANES = sizeof(FLOATS) / sizeof(float) };
  float lane[LANES];
  FLOATS_KEEP(lane, v);
  for (int beside = LANES / 2; beside > 0; beside /= 2)
    for (int i = 0; i < beside; i++) lane[i] += lane[i + beside];
  return lane[0];
}
#endif

/* Loops of constant counts over registers. */
#if defined(__clang__)
#define FLOATS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FLOATS_UNROLL _Pragma("GCC unroll 8")
#endif

#endif
