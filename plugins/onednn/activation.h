/*
 * Activations of a convolution's result. oneDNN's own take NaN for 0, so these are applied to each
 * piece while it is in cache.
 */
#ifndef ONEDNN_ACTIVATION_H
#define ONEDNN_ACTIVATION_H

#include <math.h>

#include "compat.h"
#include "tenon/plugin.h"

static inline bool activation_is_ours(int64_t activation) {
  return activation == TN_ACTIVATION_NONE || activation == TN_ACTIVATION_RELU ||
         activation == TN_ACTIVATION_RELU6;
}

/* Loops worth vectors, which GCC makes of such at its third level alone. */
#if defined(__GNUC__) && !defined(__clang__)
#define ACTIVATION_LOOP __attribute__((noinline, optimize("O3", "no-trapping-math")))
#else
#define ACTIVATION_LOOP
#endif

ACTIVATION_LOOP static void relu_f32(float *y, int64_t count, float most) {
  for (int64_t i = 0; i < count; i++) {
    const float low = y[i] < 0 ? 0 : y[i];
    y[i] = low > most ? most : low;
  }
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
static inline void activate_run(int64_t activation, dnnl_data_type_t type, char *y, int64_t count) {
  const bool clips = activation == TN_ACTIVATION_RELU6;
  if (type == dnnl_f32)
    relu_f32((float *)(void *)y, count, clips ? 6 : INFINITY);
  else
    relu_bf16((uint16_t *)(void *)y, count, clips ? 0x40c0 : 0x7f80);
}

#endif
