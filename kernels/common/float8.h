/*
 * The 8-bit floats of "OCP 8-bit Floating Point Specification" (2023), E4M3 and E5M2, to and from
 * float32: widening is exact, narrowing rounds to nearest even once. What is larger than the
 * largest number becomes that with `saturate`, infinities too, and otherwise infinite, or NaN in
 * E4M3, which has no infinities. NaN becomes 0x7f. Without a branch, so that loops vectorise.
 */
#ifndef TENON_KERNELS_FLOAT8_H
#define TENON_KERNELS_FLOAT8_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define TN_F8_FN static __host__ __device__ inline
#else
#define TN_F8_FN static inline
#endif

TN_F8_FN uint32_t f8_f32_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

TN_F8_FN float f8_f32_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

TN_F8_FN float f8_e4m3_to_f32(uint8_t x) {
  const uint32_t m = x & 0x7fu, sign = (uint32_t)(x & 0x80u) << 24;
  const uint32_t subnormal = f8_f32_bits((float)(int32_t)m * 0x1p-9f);
  uint32_t bits = m < 0x08u ? subnormal : (m << 20) + 0x3c000000u;
  bits = m == 0x7fu ? 0x7fc00000u : bits;
  return f8_f32_of(sign | bits);
}

TN_F8_FN float f8_e5m2_to_f32(uint8_t x) {
  const uint32_t m = x & 0x7fu, sign = (uint32_t)(x & 0x80u) << 24;
  const uint32_t subnormal = f8_f32_bits((float)(int32_t)m * 0x1p-16f);
  const uint32_t normal = (m << 21) + (m > 0x7bu ? 0x70000000u : 0x38000000u);
  uint32_t bits = m < 0x04u ? subnormal : normal;
  bits = m > 0x7cu ? 0x7fc00000u : bits;
  return f8_f32_of(sign | bits);
}

/* Adding 2^14, and 2^7, puts the unit in the last place of a subnormal where float32's is. */
TN_F8_FN uint8_t f8_e4m3_from_f32(float x, bool saturate) {
  const uint32_t u = f8_f32_bits(x), sign = u >> 24 & 0x80u, a = u & 0x7fffffffu;
  const uint32_t subnormal = f8_f32_bits(f8_f32_of(a) + 0x1p14f) - f8_f32_bits(0x1p14f);
  const uint32_t normal = (a - 0x3c000000u + 0x7ffffu + (a >> 20 & 1u)) >> 20;
  uint32_t r = a < 0x3c800000u ? subnormal : normal;
  r = r > 0x7eu ? (saturate ? 0x7eu : 0x7fu) : r;
  return (uint8_t)(a > 0x7f800000u || r == 0x7fu ? 0x7fu : sign | r);
}

TN_F8_FN uint8_t f8_e5m2_from_f32(float x, bool saturate) {
  const uint32_t u = f8_f32_bits(x), sign = u >> 24 & 0x80u, a = u & 0x7fffffffu;
  const uint32_t subnormal = f8_f32_bits(f8_f32_of(a) + 0x1p7f) - f8_f32_bits(0x1p7f);
  const uint32_t normal = (a - 0x38000000u + 0xfffffu + (a >> 21 & 1u)) >> 21;
  uint32_t r = a < 0x38800000u ? subnormal : normal;
  r = r > 0x7bu ? (saturate ? 0x7bu : 0x7cu) : r;
  return (uint8_t)(a > 0x7f800000u ? 0x7fu : sign | r);
}

#endif
