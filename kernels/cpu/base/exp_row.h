/*
 * What rows of exponentials have in common, of softmax, losses and logsumexp; exp_row.inc has the
 * functions of a row.
 */
#ifndef TENON_KERNELS_CPU_EXP_ROW_H
#define TENON_KERNELS_CPU_EXP_ROW_H

#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/base/vmath.h"

enum { EXP_BLOCK = 256 }; /* elements of a row at a time */

#if defined(__AVX512F__)
#include <immintrin.h>

/* e^x of numbers that are at most 0, by the steps of exp_f but the scale, which one instruction
 * applies with one rounding. NaN stays NaN. */
static inline __m512 exp_most(__m512 x) {
  const __m512 c = _mm512_max_ps(_mm512_set1_ps(-104.0f), x), round = _mm512_set1_ps(0x1.8p23f);
  const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(c, _mm512_set1_ps(1.44269504f), round), round);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e4p-1f), c);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-1.42860682e-6f), r);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(1.392691806e-3f), r, _mm512_set1_ps(8.363767023e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.166655016e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.666657342e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  const __m512 y = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r);
  return _mm512_scalef_ps(_mm512_add_ps(y, _mm512_set1_ps(1.0f)), n);
}

static inline __m512d exp_row_add(__m512d sum, __m512 terms) {
  const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(terms, 1));
  return _mm512_add_pd(_mm512_add_pd(sum, high), _mm512_cvtps_pd(_mm512_castps512_ps256(terms)));
}
#endif

#endif
