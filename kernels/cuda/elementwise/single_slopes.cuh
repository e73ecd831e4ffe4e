/*
 * Slopes of activations in float's own arithmetic, for gradients that are judged over a tensor:
 * right to some 4e-7 of themselves, also where they are tiny, but about their roots, where that
 * holds of the terms that cancel.
 */
#ifndef KERNELS_CUDA_SINGLE_SLOPES_CUH
#define KERNELS_CUDA_SINGLE_SLOPES_CUH

#include "kernels/cuda/elementwise/single.cuh"

namespace {

/* A slope is value times unit, which keeps tiny values normal. */
struct single_slope {
  float value, unit;
  __device__ __forceinline__ float times(float dy) const {
    return __fmul_rn(__fmul_rn(dy, value), unit);
  }
};

/* e^-a, a >= 0: of it `near` is in float's range, 0 far out, and `scaled` times unit is never 0
 * before a double's exponential is, so that infinities multiply it. */
struct single_decay {
  float near, scaled, unit;
};

SINGLE_FN single_decay single_decay_of(float a) {
  const bool far = a > 40.0f;
  const single_power e = single_power_e(fmaxf(-a, -120.0f), 0.0f, 48);
  const float t = a > 745.2f ? 0.0f : fmaf(e.scale, e.rest, e.scale);
  single_decay y;
  y.near = __fmul_rn(t, 0x1p-48f);
  y.scaled = far ? t : y.near;
  y.unit = far ? 0x1p-48f : 1.0f;
  return y;
}

SINGLE_FN single_slope single_silu_slope(float x) {
  const float a = fabsf(x), c = copysignf(fminf(a, 800.0f), x);
  const single_decay e = single_decay_of(a);
  const float r = single_quotient(1.0f, 1.0f + e.near, 0.0f);
  const bool below = x < 0.0f;
  single_slope y;
  y.value = __fmul_rn(r, fmaf(__fmul_rn(c, below ? e.scaled : e.near), r, below ? e.scaled : 1.0f));
  y.unit = below ? e.unit : 1.0f;
  if (x != x) y.value = x;
  return y;
}

/* With t = e^-|x|: below 0 n = t (t + 2) and the slope is (n + 4 x t (1 + t) / (n + 2)) / (n + 2);
 * above, all is divided by e^(2 x). */
SINGLE_FN single_slope single_mish_slope(float x) {
  const float a = fabsf(x), c = copysignf(fminf(a, 800.0f), x);
  const single_decay e = single_decay_of(a);
  const float t = e.near, square = __fmul_rn(t, t);
  const bool below = x < 0.0f;
  const float n = below ? t + 2.0f : fmaf(2.0f, t, 1.0f);
  const float d = below ? fmaf(t, n, 2.0f) : fmaf(2.0f, square, n);
  const float r = single_quotient(1.0f, d, 0.0f);
  const float by = __fmul_rn(4.0f * c, below ? 1.0f + t : fmaf(square, t, square));
  single_slope y;
  y.value = __fmul_rn(__fmul_rn(below ? e.scaled : 1.0f, r), fmaf(by, r, n));
  y.unit = below ? e.unit : 1.0f;
  if (x != x) y.value = x;
  return y;
}

/* The slope at -a is e^(-a^2 / 2) (m - a / sqrt(2 pi)), m being Phi(-a) e^(a^2 / 2), a polynomial
 * of 1 / (1 + 0.35 a); that at a is what is left of 1. */
SINGLE_FN single_slope single_gelu_slope(float x) {
  const float a = fminf(fabsf(x), 40.0f), h = __fmul_rn(a, a), low = fmaf(a, a, -h);
  const bool far = a > 9.0f, below = x < 0.0f;
  const single_power e = single_power_e(fmaxf(-0.5f * h, -120.0f), -0.5f * low, 48);
  const float d = fmaf(0.35f, a, 1.0f), t = single_quotient(1.0f, d, fmaf(0.35f, a, 1.0f - d));
  float m = fmaf(-0.0190612523f, t, 0.0893227351f);
  m = fmaf(m, t, -0.127427253f);
  m = fmaf(m, t, -0.0117470416f);
  m = fmaf(m, t, 0.119079344f);
  m = fmaf(m, t, 0.0290384864f);
  m = fmaf(m, t, 0.146382731f);
  m = fmaf(m, t, 0.134129255f);
  m = fmaf(m, t, 0.14031953f);
  m = fmaf(m, t, -3.65366704e-05f);
  const float g = fmaf(a, -0.39894228f, m), fallen = __fmul_rn(e.scale, fmaf(g, e.rest, g));
  const float v = a > 38.6f ? 0.0f : fallen, near = __fmul_rn(v, 0x1p-48f);
  single_slope y;
  y.value = below ? far ? v : near : 1.0f - near;
  y.unit = below && far ? 0x1p-48f : 1.0f;
  if (x != x) y.value = x;
  return y;
}

} // namespace

#endif /* KERNELS_CUDA_SINGLE_SLOPES_CUH */
