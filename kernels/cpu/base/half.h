/*
 * 16-bit floats to and from float, rounding to nearest even, NaN kept quiet. Without a
 * branch, so that loops over them vectorise on any instruction set. AArch64 widens halves
 * by an instruction; of the one that narrows them GCC 12 makes no vectors.
 */
#ifndef TENON_KERNELS_CPU_HALF_H
#define TENON_KERNELS_CPU_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_float(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline float float_of_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

#if defined(__aarch64__)
static inline float f16_load(uint16_t h) {
  __fp16 x;
  memcpy(&x, &h, sizeof x);
  return (float)x;
}
#else
static inline float f16_load(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, m = h & 0x7fffu;
  const uint32_t tiny = bits_of_float((float)(int32_t)m * 0x1p-24f);
  const uint32_t wide = (m << 13) + (m > 0x7bffu ? 0x70000000u : 0x38000000u);
  return float_of_bits(sign | (m < 0x400u ? tiny : wide));
}
#endif

static inline uint16_t f16_store(float x) {
  const uint32_t u = bits_of_float(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  /* Adding 1/2 puts the unit in the last place of a subnormal half where float's is. */
  const uint32_t tiny = bits_of_float(float_of_bits(a) + 0.5f) - 0x3f000000u;
  const uint32_t wide = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
  const uint32_t nan = 0x7e00u | (a >> 13 & 0x3ffu);
  uint32_t r = a < 0x38800000u ? tiny : wide;
  r = a > 0x477fefffu ? 0x7c00u : r;
  r = a > 0x7f800000u ? nan : r;
  return (uint16_t)(sign | r);
}

static inline float bf16_load(uint16_t h) { return float_of_bits((uint32_t)h << 16); }

static inline uint16_t bf16_store(float x) {
  const uint32_t u = bits_of_float(x);
  const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16, nan = u >> 16 | 0x40u;
  return (uint16_t)(x == x ? rounded : nan);
}

/* double to float, rounding to odd: a second rounding to fewer bits then comes out as
 * one rounding would (Boldo and Melquiond 2008). The step from an even float is made as a double,
 * which loops of vectors narrow as they narrow x. */
static inline float float_to_odd(double x) {
  const float f = (float)x;
  const double lost = fabs(x) - fabs((double)f);
  const uint32_t u = bits_of_float(f), even = (u & 1u) - 1u;
  const int32_t step = (int32_t)(lost > 0 ? 1.0 : lost < 0 ? -1.0 : 0.0);
  return float_of_bits(u + (even & (uint32_t)step));
}

#endif
