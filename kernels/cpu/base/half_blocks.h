/*
 * Halves to and from floats by the instructions that processors have for it, of which compilers make
 * no loops of vectors; and elementwise loops over halves that borrow those of floats, block by block.
 */
#ifndef TENON_KERNELS_CPU_HALF_BLOCKS_H
#define TENON_KERNELS_CPU_HALF_BLOCKS_H

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

static inline void floats_of_halves(int64_t n, const uint16_t *x, float *y) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
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
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((void *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), NEAREST));
#endif
  CPU_IVDEP for (; i < n; i++) y[i] = f16_store(x[i]);
}

#define HALF_BLOCK 512
#define HALF_INPUTS 2

/* One output as fn makes it of floats, of one or two inputs that are halves. The output is halves
 * too, or where `bytes` is not 2 what fn itself writes. */
static inline void half_blocks(elementwise_fn fn, int inputs, size_t bytes, int64_t n,
                               void *const *p, const int64_t *s, const void *ctx) {
  float room[HALF_INPUTS + 1][HALF_BLOCK];
  void *q[HALF_INPUTS + 1];
  int64_t step[HALF_INPUTS + 1];
  for (int k = 0; k < inputs; k++) {
    q[k] = room[k];
    step[k] = s[k] != 0;
    if (n > 0) room[k][0] = f16_load(*(const uint16_t *)p[k]);
  }
  for (int64_t i = 0; i < n; i += HALF_BLOCK) {
    const int64_t m = cpu_min(HALF_BLOCK, n - i), by = s[inputs];
    for (int k = 0; k < inputs; k++) {
      const uint16_t *x = (const uint16_t *)p[k] + i * s[k];
      if (s[k] == 1) floats_of_halves(m, x, room[k]);
      for (int64_t j = 0; s[k] >> 1 && j < m; j++) room[k][j] = f16_load(x[j * s[k]]);
    }
    char *y = (char *)p[inputs] + i * by * (int64_t)bytes;
    const bool halves = bytes == sizeof(uint16_t);
    q[inputs] = halves ? (void *)room[inputs] : y;
    step[inputs] = halves ? 1 : by;
    fn(m, q, step, ctx);
    if (halves && by == 1) halves_of_floats(m, room[inputs], (uint16_t *)(void *)y);
    for (int64_t j = 0; halves && by != 1 && j < m; j++)
      ((uint16_t *)(void *)y)[j * by] = f16_store(room[inputs][j]);
  }
}

/* The loop of operator op over halves; fits where a loop of floats with the same name follows or
 * stands before. */
#define BORROWED_LOOP(op, inputs, R)                                                               \
  static void op##_loop_f32(int64_t n, void *const *p, const int64_t *s, const void *ctx);         \
  static void NAME(op##_loop)(int64_t n, void *const *p, const int64_t *s, const void *ctx) {      \
    half_blocks(op##_loop_f32, inputs, sizeof(R), n, p, s, ctx);                                   \
  }

#endif
