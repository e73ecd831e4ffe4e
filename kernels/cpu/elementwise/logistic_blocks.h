/*
 * The logistic function, and what is made of it, over blocks of floats for processors that look
 * numbers up in registers (AVX-512): e^-x by the powers of exp_blocks.h, and the quotient by the
 * processor's reciprocal of 14 bits and a step of Newton's, in half the time of maths_blocks.h.
 * e^-x is kept in two parts, and so is 1 less the reciprocal, so that little but the last step
 * rounds: 0.6 ULP. Far below 0, where e^-x leaves float's range, numbers are left to maths_blocks.h
 * and slope_blocks.h, 16 at a time.
 */
#ifndef TENON_KERNELS_CPU_LOGISTIC_BLOCKS_H
#define TENON_KERNELS_CPU_LOGISTIC_BLOCKS_H

#include "kernels/cpu/elementwise/exp_blocks.h"
#include "kernels/cpu/elementwise/slope_blocks.h"

#ifdef EXP_IN_BLOCKS

#define LOGISTIC_IN_BLOCKS 1

#define LOGISTIC_FAR (-87.0f)
/* From here on e^-x is nothing beside 1. */
#define LOGISTIC_MOST 30.0f

/* v = 1 / (1 + e^-x), and what it lacks of 1, which is rounded on its own. */
typedef struct logistic_parts {
  __m512 v, rest;
} logistic_parts;

/* Of x from LOGISTIC_FAR to LOGISTIC_MOST. */
static inline logistic_parts logistic_parts_of(__m512 x) {
  const __m512 one = _mm512_set1_ps(1), round = _mm512_set1_ps(EXP_ROUND);
  const __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(-EXP_PARTS), round);
  const __m512 n = _mm512_sub_ps(t, round);
  const __m512 less = _mm512_fmadd_ps(n, _mm512_set1_ps(EXP_LN2), x);
  const __m512 r = _mm512_fmsub_ps(n, _mm512_set1_ps(EXP_LN2_LESS), less);
  const exp_parts e = exp_parts_of(t, n, r);
  const __m512 unit = _mm512_scalef_ps(one, e.k);
  const __m512 v = _mm512_rcp14_ps(_mm512_fmadd_ps(unit, _mm512_add_ps(e.high, e.low), one));
  const __m512 rest = _mm512_sub_ps(one, v), rest_low = _mm512_sub_ps(_mm512_sub_ps(one, rest), v);
  const __m512 w = _mm512_mul_ps(v, unit);
  const __m512 lack = _mm512_fnmadd_ps(w, e.low, _mm512_fnmadd_ps(w, e.high, rest));
  const __m512 by = _mm512_add_ps(lack, rest_low); /* v (1 + by) is the quotient */
  return (logistic_parts){.v = _mm512_fmadd_ps(v, by, v), .rest = _mm512_fnmadd_ps(v, by, rest)};
}

static inline __m512 logistic_within(__m512 x) { return logistic_parts_of(x).v; }

static inline __mmask16 logistic_is_far(__m512 x) {
  return _mm512_cmp_ps_mask(x, _mm512_set1_ps(LOGISTIC_FAR), _CMP_LT_OQ);
}

static __attribute__((noinline)) __m512 logistic_sigmoid_far(__m512 x) { return maths_sigmoid(x); }

static __attribute__((noinline)) __m512 logistic_silu_far(__m512 x) { return maths_silu(x); }

static __attribute__((noinline)) __m512 logistic_softplus_grad_far(__m512 dy, __m512 x) {
  return maths_softplus_grad(dy, x);
}

static __attribute__((noinline)) __m512 logistic_silu_grad_far(__m512 dy, __m512 x) {
  return maths_silu_grad(dy, x);
}

/* y, but of what is far below 0 what `far` says. */
#define LOGISTIC_UNLESS_FAR(x, y, far)                                                             \
  const __mmask16 is_far = logistic_is_far(x);                                                     \
  if (__builtin_expect(is_far != 0, 0)) return _mm512_mask_mov_ps(y, is_far, far);                 \
  return y

/* NaN stays NaN. */
static inline __m512 logistic_bounded(__m512 x) {
  return exp_bounded(x, LOGISTIC_FAR, LOGISTIC_MOST);
}

static inline __m512 logistic_sigmoid(__m512 x) {
  const __m512 y = logistic_within(logistic_bounded(x));
  LOGISTIC_UNLESS_FAR(x, y, logistic_sigmoid_far(x));
}

static inline __m512 logistic_silu(__m512 x) {
  const __m512 y = _mm512_mul_ps(x, logistic_within(logistic_bounded(x)));
  LOGISTIC_UNLESS_FAR(x, y, logistic_silu_far(x));
}

/* dy / (1 + e^-x) */
static inline __m512 logistic_softplus_grad(__m512 dy, __m512 x) {
  const __m512 dx = _mm512_mul_ps(dy, logistic_within(logistic_bounded(x)));
  LOGISTIC_UNLESS_FAR(x, dx, logistic_softplus_grad_far(dy, x));
}

/* dy v (1 + x (1 - v)), v = 1 / (1 + e^-x): within three units in the last place of the greater
 * term. */
static inline __m512 logistic_silu_grad(__m512 dy, __m512 x) {
  const __m512 c = logistic_bounded(x), one = _mm512_set1_ps(1);
  const logistic_parts s = logistic_parts_of(c);
  const __m512 slope = _mm512_mul_ps(s.v, _mm512_fmadd_ps(c, s.rest, one));
  const __m512 dx = _mm512_mul_ps(dy, slope);
  LOGISTIC_UNLESS_FAR(x, dx, logistic_silu_grad_far(dy, x));
}
#undef LOGISTIC_UNLESS_FAR

MATHS_BLOCK(logistic_sigmoid)
MATHS_BLOCK(logistic_silu)
SLOPE_BLOCK_OF(logistic_softplus_grad)
SLOPE_BLOCK_OF(logistic_silu_grad)
#endif

#endif
