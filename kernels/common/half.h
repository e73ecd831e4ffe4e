/*
 * The 16-bit floats in portable C, bit exact: widening is exact, narrowing rounds to
 * nearest even exactly once, NaN stays NaN and becomes quiet with its upper payload
 * bits, subnormals are kept.
 */
#ifndef TENON_KERNELS_HALF_H
#define TENON_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float f32_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float bf16_to_f32(uint16_t b) {
  uint32_t bits = (uint32_t)b << 16;
  if ((bits & 0x7fffffff) > 0x7f800000) bits |= 0x00400000;
  return f32_from_bits(bits);
}

static inline uint16_t bf16_from_f32(float x) {
  uint32_t bits = f32_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
  if (magnitude >= 0x7c00) {
    uint32_t quiet = magnitude > 0x7c00 ? 0x00400000 : 0;
    return f32_from_bits(sign | 0x7f800000 | quiet | (magnitude & 0x3ff) << 13);
  }
  if (magnitude >= 0x0400) return f32_from_bits(sign | ((magnitude << 13) + 0x38000000));
  float subnormal = (float)magnitude * 0x1p-24f;
  return f32_from_bits(sign | f32_bits(subnormal));
}

static inline uint16_t f16_from_f32(float x) {
  uint32_t bits = f32_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* from 65520 on */
  if (magnitude < 0x38800000) { /* below 2^-14; beside 0.5 a float counts in steps of 2^-24 */
    uint32_t steps = f32_bits(f32_from_bits(magnitude) + 0.5f) - f32_bits(0.5f);
    return (uint16_t)(sign | steps);
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
}

/* Rounds to odd: inexact results get an odd last bit, which a later rounding to at
 * least two bits fewer cannot mistake for a tie. */
static inline float f32_odd_from_f64(double x) {
  float f = (float)x;
  uint32_t bits = f32_bits(f);
  if (x != x || (double)f == x || (bits & 1)) return f;
  double wide = (double)f;
  int too_large = x < 0 ? wide < x : wide > x;
  return f32_from_bits(too_large ? bits - 1 : bits + 1);
}

static inline uint16_t f16_from_f64(double x) { return f16_from_f32(f32_odd_from_f64(x)); }
static inline uint16_t bf16_from_f64(double x) { return bf16_from_f32(f32_odd_from_f64(x)); }

#endif
