/*
 * Exponentials of blocks of floats, for processors that look numbers up in registers (AVX-512), in
 * half the time that doubles take: e^x = 2^k T[j] e^r, where x = (k + j / 32) ln 2 + r and |r| is
 * below ln 2 / 64. T is kept in two parts, so that little but the last addition rounds: 0.54 ULP,
 * and 0.76 where results are subnormal and round once more.
 */
#ifndef TENON_KERNELS_CPU_EXP_BLOCKS_H
#define TENON_KERNELS_CPU_EXP_BLOCKS_H

#include <stdint.h>

#if defined(__AVX512F__)
#include <immintrin.h>

#define EXP_IN_BLOCKS 1

/* 2^(j / 32), and what rounding these leaves. */
static const float exp_powers[32] = {
    0x1.0p+0f,      0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f, 0x1.1d4874p+0f,
    0x1.2387a6p+0f, 0x1.29e9ep+0f,  0x1.306fep+0f,  0x1.371a74p+0f, 0x1.3dea64p+0f, 0x1.44e086p+0f,
    0x1.4bfdaep+0f, 0x1.5342b6p+0f, 0x1.5ab07ep+0f, 0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f,
    0x1.7a1148p+0f, 0x1.82589ap+0f, 0x1.8ace54p+0f, 0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f,
    0x1.ae89fap+0f, 0x1.b7f77p+0f,  0x1.c199bep+0f, 0x1.cb720ep+0f, 0x1.d5818ep+0f, 0x1.dfc974p+0f,
    0x1.ea4afap+0f, 0x1.f50766p+0f,
};
static const float exp_powers_low[32] = {
    0x0.0p+0f,        -0x1.9d4f52p-25f, 0x1.9f3122p-25f,  -0x1.fdb496p-25f, -0x1.c15742p-27f,
    -0x1.d2e8cap-25f, 0x1.ceac48p-25f,  -0x1.5c0424p-25f, 0x1.4636e2p-25f,  -0x1.18aac6p-25f,
    0x1.824684p-25f,  0x1.8624b4p-30f,  -0x1.593abcp-25f, -0x1.2c561p-25f,  -0x1.5bd5ecp-27f,
    -0x1.f8b55p-25f,  0x1.9fcef4p-26f,  0x1.1d8beep-25f,  -0x1.829fdp-25f,  -0x1.accc7cp-26f,
    0x1.15506ep-27f,  -0x1.e64744p-25f, 0x1.51f848p-27f,  -0x1.b83b54p-25f, -0x1.a94b14p-26f,
    -0x1.a09438p-25f, -0x1.3d56b2p-27f, -0x1.8837ccp-27f, -0x1.822dbcp-27f, -0x1.908c94p-25f,
    0x1.52486cp-27f,  -0x1.246ebp-26f,
};

#define EXP_ROUND 0x1.8p23f
#define EXP_PARTS 0x1.715476p+5f /* 32 / ln 2 */
/* ln 2 / 32 in two parts, of which the first has few bits, so that its products with n are exact.
 */
#define EXP_LN2 0x1.63p-6f
#define EXP_LN2_LESS 0x1.bd0106p-18f /* what that is too much */

/* 2^k (high + low) */
typedef struct exp_parts {
  __m512 high, low, k; /* k: to be rounded down */
} exp_parts;

/* 2^(n / 32) e^r from t = n + EXP_ROUND. */
static inline exp_parts exp_parts_of(__m512 t, __m512 n, __m512 r) {
  const __m512i j = _mm512_castps_si512(t); /* of whose bits the last five are looked at */
  const __m512 high =
      _mm512_permutex2var_ps(_mm512_loadu_ps(exp_powers), j, _mm512_loadu_ps(exp_powers + 16));
  const __m512 low = _mm512_permutex2var_ps(_mm512_loadu_ps(exp_powers_low), j,
                                            _mm512_loadu_ps(exp_powers_low + 16));
  const __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.555556p-3f), r, _mm512_set1_ps(0.5f));
  const __m512 rest = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r);
  return (exp_parts){.high = high,
                     .low = _mm512_fmadd_ps(high, rest, low),
                     .k = _mm512_mul_ps(n, _mm512_set1_ps(1.0f / 32))};
}

static inline __m512 exp_from(__m512 t, __m512 n, __m512 r) {
  const exp_parts e = exp_parts_of(t, n, r);
  return _mm512_scalef_ps(_mm512_add_ps(e.high, e.low), e.k);
}

/* Within these bounds, beyond which results are 0 and infinity, n is exact. NaN stays NaN. */
static inline __m512 exp_bounded(__m512 x, float least, float most) {
  return _mm512_min_ps(_mm512_set1_ps(most), _mm512_max_ps(_mm512_set1_ps(least), x));
}

static inline __m512 exp_of(__m512 x) {
  const __m512 c = exp_bounded(x, -104, 89), round = _mm512_set1_ps(EXP_ROUND);
  const __m512 t = _mm512_fmadd_ps(c, _mm512_set1_ps(EXP_PARTS), round);
  const __m512 n = _mm512_sub_ps(t, round);
  const __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2), c);
  return exp_from(t, n, _mm512_fmadd_ps(n, _mm512_set1_ps(EXP_LN2_LESS), r));
}

static inline __m512 exp2_of(__m512 x) {
  const __m512 c = exp_bounded(x, -151, 129), round = _mm512_set1_ps(EXP_ROUND);
  const __m512 t = _mm512_fmadd_ps(c, _mm512_set1_ps(32), round), n = _mm512_sub_ps(t, round);
  const __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-1.0f / 32), c);
  return exp_from(t, n, _mm512_mul_ps(r, _mm512_set1_ps(0.693147181f)));
}

/* y may be x. */
#define EXP_BLOCK(name)                                                                            \
  static inline void name##_block(int64_t n, const float *x, float *y) {                           \
    int64_t i = 0;                                                                                 \
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, name##_of(_mm512_loadu_ps(x + i)));       \
    if (i == n) return;                                                                            \
    const __mmask16 rest = (__mmask16)(0xffffu >> (16 - (n - i)));                                 \
    _mm512_mask_storeu_ps(y + i, rest, name##_of(_mm512_maskz_loadu_ps(rest, x + i)));             \
  }
EXP_BLOCK(exp)
EXP_BLOCK(exp2)
#undef EXP_BLOCK
#endif

#endif
