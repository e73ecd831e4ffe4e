/*
 * 16-bit floats to and from floats: halves by the instructions that processors have for it, of
 * which compilers make no loops of vectors, bfloat16 with AVX2 and AVX-512 in fewer steps than
 * compilers find; and elementwise loops over either, that borrow those of floats, block by block,
 * or do it all in registers.
 */
#ifndef TENON_KERNELS_CPU_HALF_BLOCKS_H
#define TENON_KERNELS_CPU_HALF_BLOCKS_H

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#endif

static inline void floats_of_halves(int64_t n, const uint16_t *x, float *y) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
#elif defined(__F16C__)
  for (; i + 32 <= n; i += 32)
#pragma GCC unroll 4
    for (int64_t j = i; j < i + 32; j += 8)
      _mm256_storeu_ps(y + j, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + j))));
#endif
  CPU_IVDEP for (; i < n; i++) y[i] = f16_load(x[i]);
}

static inline void halves_of_floats(int64_t n, const float *x, uint16_t *y) {
  enum { NEAREST = 0 };
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((void *)(y + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), NEAREST));
#elif defined(__F16C__)
  for (; i + 32 <= n; i += 32)
#pragma GCC unroll 4
    for (int64_t j = i; j < i + 32; j += 8)
      _mm_storeu_si128((void *)(y + j), _mm256_cvtps_ph(_mm256_loadu_ps(x + j), NEAREST));
#endif
  CPU_IVDEP for (; i < n; i++) y[i] = f16_store(x[i]);
}

#if defined(__AVX2__) && !defined(__AVX512F__)
#define BF16_BY_EIGHT 1
/* As words, what bf16_store makes of eight floats. */
static inline __m256i bf16_eight(const float *x) {
  const __m256 f = _mm256_loadu_ps(x);
  const __m256i u = _mm256_castps_si256(f), high = _mm256_srli_epi32(u, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd);
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, half), 16);
  const __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256 is_nan = _mm256_cmp_ps(f, f, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(is_nan));
}
#endif

static inline void floats_of_bf16(int64_t n, const uint16_t *x, float *y) {
  int64_t i = 0;
#if defined(BF16_BY_EIGHT)
  for (; i + 32 <= n; i += 32)
#pragma GCC unroll 4
    for (int64_t j = i; j < i + 32; j += 8) {
      const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(x + j)));
      _mm256_storeu_si256((void *)(y + j), _mm256_slli_epi32(words, 16));
    }
#endif
  CPU_IVDEP for (; i < n; i++) y[i] = bf16_load(x[i]);
}

#if defined(__AVX512F__)
static const uint16_t bf16_high_halves[32] = {1,  3,  5,  7,  9,  11, 13, 15,
                                              17, 19, 21, 23, 25, 27, 29, 31};
/* As bf16_store does each. */
static inline void bf16_of_sixteen(const float *x, uint16_t *y) {
  const __m512 f = _mm512_loadu_ps(x);
  const __m512i u = _mm512_castps_si512(f);
  const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
  const __m512i half =
      _mm512_mask_blend_epi32(odd, _mm512_set1_epi32(0x7fff), _mm512_set1_epi32(0x8000));
  const __m512i words =
      _mm512_mask_or_epi32(_mm512_add_epi32(u, half), _mm512_cmp_ps_mask(f, f, _CMP_UNORD_Q), u,
                           _mm512_set1_epi32(0x400000));
  const __m512i packed = _mm512_permutexvar_epi16(_mm512_loadu_si512(bf16_high_halves), words);
  _mm256_storeu_si256((void *)y, _mm512_castsi512_si256(packed));
}
#elif defined(BF16_BY_EIGHT)
static inline void bf16_of_sixteen(const float *x, uint16_t *y) {
  enum { IN_ORDER = 0xd8 }; /* packing takes the vectors' lower halves first */
  const __m256i packed = _mm256_packus_epi32(bf16_eight(x), bf16_eight(x + 8));
  _mm256_storeu_si256((void *)y, _mm256_permute4x64_epi64(packed, IN_ORDER));
}
#endif

static inline void bf16_of_floats(int64_t n, const float *x, uint16_t *y) {
  int64_t i = 0;
#if defined(BF16_BY_EIGHT) || defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) bf16_of_sixteen(x + i, y + i);
#endif
  CPU_IVDEP for (; i < n; i++) y[i] = bf16_store(x[i]);
}

#if defined(__F16C__) && defined(__AVX2__)
#define HALVES_IN_REGISTERS 1
enum { HALVES = 16 };
/* So many at a time, to floats and back: of arrays that live as long as a loop's body the compiler
 * makes registers, where vectors of the loop are as wide as these. */
static inline __attribute__((always_inline)) void take_some_halves(bool bf16, const uint16_t *x,
                                                                   float *y) {
#if defined(__AVX512F__)
  const __m256i h = _mm256_loadu_si256((const void *)x);
  const __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
  _mm512_storeu_ps(y, bf16 ? _mm512_castsi512_ps(wide) : _mm512_cvtph_ps(h));
#else
  for (int j = 0; j < HALVES; j += 8) {
    const __m128i h = _mm_loadu_si128((const void *)(x + j));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
    _mm256_storeu_ps(y + j, bf16 ? _mm256_castsi256_ps(wide) : _mm256_cvtph_ps(h));
  }
#endif
}

static inline __attribute__((always_inline)) void put_some_halves(bool bf16, const float *x,
                                                                  uint16_t *y) {
  enum { NEAREST = 0 };
  if (bf16) {
    bf16_of_sixteen(x, y);
    return;
  }
#if defined(__AVX512F__)
  _mm256_storeu_si256((void *)y, _mm512_cvtps_ph(_mm512_loadu_ps(x), NEAREST));
#else
  for (int j = 0; j < HALVES; j += 8)
    _mm_storeu_si128((void *)(y + j), _mm256_cvtps_ph(_mm256_loadu_ps(x + j), NEAREST));
#endif
}
#endif

static inline void floats_to_odd(int64_t n, const double *restrict x, float *restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] = float_to_odd(x[i]);
}

/* Of a stride, in elements; bf16: they are bfloat16, not halves. */
static inline void take_halves(bool bf16, int64_t n, const uint16_t *x, int64_t stride, float *y) {
  if (stride == 1)
    (bf16 ? floats_of_bf16 : floats_of_halves)(n, x, y);
  else if (bf16)
    for (int64_t i = 0; i < n; i++) y[i] = bf16_load(x[i * stride]);
  else
    for (int64_t i = 0; i < n; i++) y[i] = f16_load(x[i * stride]);
}

static inline void put_halves(bool bf16, int64_t n, const float *x, uint16_t *y, int64_t stride) {
  if (stride == 1)
    (bf16 ? bf16_of_floats : halves_of_floats)(n, x, y);
  else if (bf16)
    for (int64_t i = 0; i < n; i++) y[i * stride] = bf16_store(x[i]);
  else
    for (int64_t i = 0; i < n; i++) y[i * stride] = f16_store(x[i]);
}

#define HALF_BLOCK 512
#define HALF_INPUTS 2

/* One output of one or two inputs of 16 bits, as fn makes it of floats. The output is of their type
 * too, or where `bytes` is not 2 what fn itself writes. */
static inline void half_blocks(bool bf16, elementwise_fn fn, int inputs, size_t bytes, int64_t n,
                               void *const *p, const int64_t *s, const void *ctx) {
  const bool halves = bytes == sizeof(uint16_t);
  float in[HALF_INPUTS][HALF_BLOCK], out[HALF_BLOCK];
  void *at[HALF_INPUTS + 1];
  int64_t step[HALF_INPUTS + 1];
  for (int k = 0; k < inputs; k++) {
    at[k] = in[k];
    step[k] = s[k] != 0;
    if (n > 0 && s[k] == 0) take_halves(bf16, 1, p[k], 1, in[k]);
  }
  step[inputs] = halves ? 1 : s[inputs];
  for (int64_t i = 0; i < n; i += HALF_BLOCK) {
    const int64_t m = cpu_min(HALF_BLOCK, n - i);
    for (int k = 0; k < inputs; k++)
      if (s[k] != 0) take_halves(bf16, m, (const uint16_t *)p[k] + i * s[k], s[k], in[k]);
    char *y = (char *)p[inputs] + i * s[inputs] * (int64_t)bytes;
    at[inputs] = halves ? (void *)out : y;
    fn(m, at, step, ctx);
    if (halves) put_halves(bf16, m, out, (uint16_t *)(void *)y, s[inputs]);
  }
}

/* The loop of operator op over 16 bits: that of floats, which stands in the same file. */
#define BORROWED_LOOP(op, inputs, R)                                                               \
  static void op##_loop_f32(int64_t n, void *const *p, const int64_t *s, const void *ctx);         \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    half_blocks(DT == 8, op##_loop_f32, inputs, sizeof(R), n, p, s, ctx);                          \
  }

#ifdef HALVES_IN_REGISTERS
/* The same from element `done` on. */
static inline void half_rest(int64_t done, bool bf16, elementwise_fn fn, int inputs, int64_t n,
                             void *const *p, const int64_t *s, const void *ctx) {
  void *at[HALF_INPUTS + 1];
  if (done == n) return;
  for (int k = 0; k <= inputs; k++) at[k] = (uint16_t *)p[k] + done * s[k];
  half_blocks(bf16, fn, inputs, sizeof(uint16_t), n - done, at, s, ctx);
}

/* Loops over 16 bits that widen, compute and narrow in registers, for operators whose work is less
 * than what the blocks of a borrowed loop cost, of dense rows and of one number beside such. Other
 * strides and what is left are borrowed: EXPR, over floats a and b, must come to the same 16 bits
 * there, wherever the work is cut, and so says where it is computed in double (test_halves). */
#define FUSED_SOME(from, other, EXPR)                                                              \
  float to[HALVES];                                                                                \
  CPU_SIMD for (int j = 0; j < HALVES; j++) {                                                      \
    const float a = from[j], b = other[j];                                                         \
    (void)b;                                                                                       \
    to[j] = (float)(EXPR);                                                                         \
  }                                                                                                \
  put_some_halves(DT == 8, to, y + i);
#define FUSED_UNARY(op, SETUP, EXPR)                                                               \
  static void op##_loop_f32(int64_t n, void *const *p, const int64_t *s, const void *ctx);         \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    const T *x = p[0];                                                                             \
    T *y = p[1];                                                                                   \
    int64_t i = 0;                                                                                 \
    SETUP;                                                                                         \
    const int64_t dense = s[0] == 1 && s[1] == 1 ? n : 0;                                          \
    for (; i + HALVES <= dense; i += HALVES) {                                                     \
      float from[HALVES];                                                                          \
      take_some_halves(DT == 8, x + i, from);                                                      \
      FUSED_SOME(from, from, EXPR)                                                                 \
    }                                                                                              \
    half_rest(i, DT == 8, op##_loop_f32, 1, n, p, s, ctx);                                         \
  }
#define FUSED_BINARY(op, SETUP, EXPR)                                                              \
  static void op##_loop_f32(int64_t n, void *const *p, const int64_t *s, const void *ctx);         \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    const T *x = p[0], *z = p[1];                                                                  \
    T *y = p[2];                                                                                   \
    int64_t i = 0;                                                                                 \
    SETUP;                                                                                         \
    const int64_t dense = s[0] == 1 && s[1] == 1 && s[2] == 1 ? n : 0;                             \
    for (; i + HALVES <= dense; i += HALVES) {                                                     \
      float from[HALVES], other[HALVES];                                                           \
      take_some_halves(DT == 8, x + i, from);                                                      \
      take_some_halves(DT == 8, z + i, other);                                                     \
      FUSED_SOME(from, other, EXPR)                                                                \
    }                                                                                              \
    if (s[0] == 1 && s[1] == 0 && s[2] == 1 && n >= HALVES) {                                      \
      float one;                                                                                   \
      take_halves(DT == 8, 1, z, 1, &one);                                                         \
      for (; i + HALVES <= n; i += HALVES) {                                                       \
        float from[HALVES], other[HALVES];                                                         \
        take_some_halves(DT == 8, x + i, from);                                                    \
        for (int j = 0; j < HALVES; j++) other[j] = one;                                           \
        FUSED_SOME(from, other, EXPR)                                                              \
      }                                                                                            \
    } else if (s[0] == 0 && s[1] == 1 && s[2] == 1 && n >= HALVES) {                               \
      float one;                                                                                   \
      take_halves(DT == 8, 1, x, 1, &one);                                                         \
      for (; i + HALVES <= n; i += HALVES) {                                                       \
        float from[HALVES], other[HALVES];                                                         \
        for (int j = 0; j < HALVES; j++) from[j] = one;                                            \
        take_some_halves(DT == 8, z + i, other);                                                   \
        FUSED_SOME(from, other, EXPR)                                                              \
      }                                                                                            \
    }                                                                                              \
    half_rest(i, DT == 8, op##_loop_f32, 2, n, p, s, ctx);                                         \
  }
#endif

#endif
