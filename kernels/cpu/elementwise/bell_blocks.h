/*
 * gelu and its gradient over blocks of floats, for processors that look numbers up in registers
 * (AVX-512): a number's piece gives the coefficients of a polynomial, which takes neither the
 * exponential nor the division of maths_blocks.h, in a third of its time. Positive numbers come
 * from gelu(x) = x + gelu(-x) and slope(x) = 1 - slope(-x). Far below 0, where the pieces end,
 * numbers are left to maths_blocks.h and kernels/common/wide, 16 at a time.
 */
#ifndef TENON_KERNELS_CPU_BELL_BLOCKS_H
#define TENON_KERNELS_CPU_BELL_BLOCKS_H

#include "kernels/common/wide/composed.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/elementwise/maths_blocks.h"

#if defined(__AVX512F__)
#include <immintrin.h>

#define BELL_IN_BLOCKS 1

enum { BELL_PIECES = 32, BELL_ROWS = 9 };

#include "kernels/cpu/elementwise/bell_pieces.inc"

/* Where the last piece ends; from there on gelu(x) = x and the slope is 1. */
#define BELL_MOST 5.9f

static inline __m512 bell_look_up(const float *row, __m512i piece) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(row), piece, _mm512_loadu_ps(row + 16));
}

/* f(-|x|) + more, with one rounding beside that of c0 + more. NaN stays NaN. */
static inline __m512 bell_piece(const float (*f)[BELL_PIECES], __m512 x, __m512 more) {
  const __m512 a = _mm512_min_ps(_mm512_set1_ps(BELL_MOST), _mm512_abs_ps(x));
  const __m512 k = _mm512_fmadd_ps(a, _mm512_set1_ps(16.0f / 3), _mm512_set1_ps(MATHS_ROUND));
  const __m512i piece = _mm512_castps_si512(k); /* of whose bits the last five are looked at */
  const __m512 t = _mm512_sub_ps(a, bell_look_up(f[0], piece));
  __m512 p = bell_look_up(f[BELL_ROWS - 1], piece);
#pragma GCC unroll 8
  for (int row = BELL_ROWS - 2; row > 1; row--)
    p = _mm512_fmadd_ps(p, t, bell_look_up(f[row], piece));
  return _mm512_fmadd_ps(p, t, _mm512_add_ps(more, bell_look_up(f[1], piece)));
}

static inline __mmask16 bell_is_far(__m512 x) {
  return _mm512_cmp_ps_mask(x, _mm512_set1_ps(-BELL_MOST), _CMP_LT_OQ);
}

static __attribute__((noinline)) __m512 bell_gelu_far(__m512 x) { return maths_gelu(x); }

static __attribute__((noinline)) __m512 bell_gelu_grad_far(__m512 dy, __m512 x) {
  float v[16], d[16];
  _mm512_storeu_ps(v, x);
  _mm512_storeu_ps(d, dy);
  for (int i = 0; i < 16; i++) v[i] = (float)((double)d[i] * wide_gelu_slope((double)v[i]));
  return _mm512_loadu_ps(v);
}

static inline __m512 bell_gelu_of(__m512 x) {
  const __mmask16 far = bell_is_far(x);
  __m512 y = bell_piece(bell_gelu_pieces, x, _mm512_max_ps(_mm512_setzero_ps(), x));
  if (__builtin_expect(far != 0, 0)) y = _mm512_mask_mov_ps(y, far, bell_gelu_far(x));
  return y;
}

static inline __m512 bell_gelu_grad_of(__m512 dy, __m512 x) {
  const __m512 none = _mm512_setzero_ps();
  const __mmask16 far = bell_is_far(x), above = _mm512_cmp_ps_mask(x, none, _CMP_GT_OQ);
  const __mmask16 near = _mm512_cmp_ps_mask(x, _mm512_set1_ps(BELL_MOST), _CMP_NGT_UQ);
  const __m512 slope = _mm512_maskz_mov_ps(near, bell_piece(bell_slope_pieces, x, none));
  const __m512 s = _mm512_mask_sub_ps(slope, above, _mm512_set1_ps(1), slope);
  __m512 dx = _mm512_mul_ps(dy, s);
  if (__builtin_expect(far != 0, 0)) dx = _mm512_mask_mov_ps(dx, far, bell_gelu_grad_far(dy, x));
  return dx;
}

/* The first 1 to 16 lanes. */
static inline __mmask16 bell_first(int64_t n) { return (__mmask16)(0xffffu >> (16 - n)); }

/* y may be x. */
static void bell_gelu_block(int64_t n, const float *x, float *y) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, bell_gelu_of(_mm512_loadu_ps(x + i)));
  if (i == n) return;
  const __mmask16 rest = bell_first(n - i);
  _mm512_mask_storeu_ps(y + i, rest, bell_gelu_of(_mm512_maskz_loadu_ps(rest, x + i)));
}

/* dx may be dy or x. */
static void bell_gelu_grad_block(int64_t n, const float *dy, const float *x, float *dx) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(dx + i, bell_gelu_grad_of(_mm512_loadu_ps(dy + i), _mm512_loadu_ps(x + i)));
  if (i == n) return;
  const __mmask16 rest = bell_first(n - i);
  _mm512_mask_storeu_ps(
      dx + i, rest,
      bell_gelu_grad_of(_mm512_maskz_loadu_ps(rest, dy + i), _mm512_maskz_loadu_ps(rest, x + i)));
}
#endif

#endif
