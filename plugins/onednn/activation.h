/*
 * Activations of a convolution's result. oneDNN's own take NaN for 0, so these are applied to each
 * piece while it is in cache.
 */
#ifndef ONEDNN_ACTIVATION_H
#define ONEDNN_ACTIVATION_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "compat.h"
#include "onednn.h"
#include "tenon/plugin.h"

/* Clamping a number of 16 bits gives the clamped sum, rounded; what bends would round it twice. */
static inline bool activation_is_ours(int64_t activation, dnnl_data_type_t type) {
  switch (activation) {
  case TN_ACTIVATION_NONE:
  case TN_ACTIVATION_RELU:
  case TN_ACTIVATION_RELU6:
    return true;
  case TN_ACTIVATION_HARDSWISH:
  case TN_ACTIVATION_SILU:
  case TN_ACTIVATION_SIGMOID:
    return type == dnnl_f32;
  default:
    return false;
  }
}

/* Loops worth vectors, which GCC makes of such at its third level alone. */
#if defined(__GNUC__) && !defined(__clang__)
#define ACTIVATION_LOOP __attribute__((noinline, optimize("O3", "no-trapping-math")))
#else
#define ACTIVATION_LOOP
#endif
/* Into loops of either kind. */
#define ACTIVATION_OF __attribute__((always_inline)) static inline
#define ACTIVATION_WIDE __attribute__((target("avx512f,avx512dq,avx512vl")))

ACTIVATION_OF float relu_of(float x, float most) {
  const float low = x < 0 ? 0 : x;
  return low > most ? most : low;
}

ACTIVATION_OF float hardswish_of(float x, float most) {
  const float y = x >= most ? x : x * (x + most) * (1.0F / 6);
  return x <= -most ? 0 : y;
}

/* e^x for x <= 88: Cephes' expf (Moshier 1992), the power of two by the bits of a sum whose last
 * place is 1. Below -87 it is that of -87, 1e-38. */
ACTIVATION_OF float exp_of(float x) {
  const float clamped = x < -87 ? -87 : x, whole = 12582912; /* 1.5 2^23 */
  const float sum = clamped * 1.44269504F + whole, n = sum - whole;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1;
  uint32_t bits;
  float power;
  memcpy(&bits, &sum, sizeof bits);
  bits = (bits << 23) + 0x3f800000;
  memcpy(&power, &bits, sizeof power);
  return p * power;
}

/* By e^-|x|, which is never large. */
ACTIVATION_OF float sigmoid_of(float x, float most) {
  const float e = exp_of(-fabsf(x));
  (void)most;
  return (x < 0 ? e : 1) / (1 + e);
}

/* 0 at -infinity, as the operator's. */
ACTIVATION_OF float silu_of(float x, float most) {
  const float y = x * sigmoid_of(x, most);
  return x < -FLT_MAX ? 0 : y;
}

/* A loop for any machine, and a wide one where oneDNN may use AVX-512. */
#define ACTIVATION_LOOPS(name)                                                                     \
  ACTIVATION_LOOP static void name##_any(float *y, int64_t count, float most) {                    \
    for (int64_t i = 0; i < count; i++) y[i] = name##_of(y[i], most);                              \
  }                                                                                                \
  ACTIVATION_WIDE ACTIVATION_LOOP static void name##_wide(float *y, int64_t count, float most) {   \
    for (int64_t i = 0; i < count; i++) y[i] = name##_of(y[i], most);                              \
  }                                                                                                \
  static inline void name##_f32(bool is_wide, float *y, int64_t count, float most) {               \
    (is_wide ? name##_wide : name##_any)(y, count, most);                                          \
  }
ACTIVATION_LOOPS(relu)
ACTIVATION_LOOPS(hardswish)
ACTIVATION_LOOPS(sigmoid)
ACTIVATION_LOOPS(silu)

static inline void activate_f32(int64_t activation, bool is_wide, float *y, int64_t count) {
  switch (activation) {
  case TN_ACTIVATION_HARDSWISH:
    hardswish_f32(is_wide, y, count, 3);
    break;
  case TN_ACTIVATION_SILU:
    silu_f32(is_wide, y, count, 0);
    break;
  case TN_ACTIVATION_SIGMOID:
    sigmoid_f32(is_wide, y, count, 0);
    break;
  default:
    relu_f32(is_wide, y, count, activation == TN_ACTIVATION_RELU6 ? 6 : INFINITY);
    break;
  }
}

/* What is added before, likewise while the result is in cache. */
ACTIVATION_LOOP static void add_run_any(float *y, const float *addend, int64_t count) {
  for (int64_t i = 0; i < count; i++) y[i] += addend[i];
}

ACTIVATION_WIDE ACTIVATION_LOOP static void add_run_wide(float *y, const float *addend,
                                                         int64_t count) {
  for (int64_t i = 0; i < count; i++) y[i] += addend[i];
}

static inline void add_run(bool is_wide, float *y, const float *addend, int64_t count) {
  (is_wide ? add_run_wide : add_run_any)(y, addend, count);
}

/* In the order of their bits positive numbers come first, then NaN, then negative ones. */
ACTIVATION_LOOP static void relu_bf16(uint16_t *y, int64_t count, uint16_t most) {
  enum { INFINITE = 0x7f80, SIGN = 0x8000 };
  for (int64_t i = 0; i < count; i++) {
    const uint16_t magnitude = y[i] & (SIGN - 1), above = magnitude > most ? most : magnitude;
    const uint16_t number = y[i] & SIGN ? 0 : above;
    y[i] = magnitude > INFINITE ? y[i] : number;
  }
}

/* A run of elements in f32 or bf16. */
static inline void activate_run(int64_t activation, bool is_wide, dnnl_data_type_t type, char *y,
                                int64_t count) {
  if (type == dnnl_f32)
    activate_f32(activation, is_wide, (float *)(void *)y, count);
  else
    relu_bf16((uint16_t *)(void *)y, count, activation == TN_ACTIVATION_RELU6 ? 0x40c0 : 0x7f80);
}

#endif
