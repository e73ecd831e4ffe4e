/*
 * softplus in float, for any beta that is neither tiny nor huge: numbers that float rounds too
 * coarsely, beta, its inverse and beta x, come in two parts.
 */
#ifndef KERNELS_CUDA_SOFTPLUS_CUH
#define KERNELS_CUDA_SOFTPLUS_CUH

#include "kernels/cuda/elementwise/single.cuh"

namespace {

struct plain_softplus_op {
  using many_steps = void;
  float beta, beta_low, inverse, inverse_low;
  float most;  /* no float stands between it and the threshold */
  float limit; /* beyond, e^-|beta x| / beta is 0 */

  /* max(x, 0) + ln(1 + t) / beta, t = e^-|beta x|: ln(1 + t) = t (1 - t / 2 + t^2 p(t)). */
  __device__ __forceinline__ float operator()(float x) const {
    const float v = fminf(single_at_least(x, -limit), limit), h = __fmul_rn(beta, v);
    const float h_low = fmaf(beta_low, v, fmaf(beta, v, -h));
    const single_power e = single_power_e(-fabsf(h), h > 0.0f ? -h_low : h_low, 48);
    const float t = __fmul_rn(fmaf(e.scale, e.rest, e.scale), 0x1p-48f);
    float p = fmaf(-0.00367690041f, t, 0.0218728315f);
    p = fmaf(p, t, -0.0609165691f);
    p = fmaf(p, t, 0.110246345f);
    p = fmaf(p, t, -0.155692503f);
    p = fmaf(p, t, 0.197742298f);
    p = fmaf(p, t, -0.249750823f);
    p = fmaf(p, t, 0.333322495f);
    const float w = fmaf(-0.5f, t, 1.0f);
    const float part = fmaf(__fmul_rn(t, t), p, fmaf(-0.5f, t, 1.0f - w));
    const float more = fmaf(w, e.rest, fmaf(part, e.rest, part));
    const float y = fmaf(w, inverse, fmaf(w, inverse_low, __fmul_rn(more, inverse)));
    const float low = __fmul_rn(__fmul_rn(y, e.scale), 0x1p-48f);
    return single_reaches(most, x, single_reaches(x, 0.0f, x + low, low), x);
  }
};

/* The greatest float x of which beta x, in double, is not above the threshold. */
inline float float_within(double beta, double threshold) {
  float x = (float)(threshold / beta);
  while ((double)x * beta > threshold) x = nextafterf(x, -INFINITY);
  for (float next; next = nextafterf(x, INFINITY), x < next && (double)next * beta <= threshold;)
    x = next;
  return x;
}

/* pre: is_plain_factor(beta). */
inline plain_softplus_op plain_softplus(double beta, double threshold) {
  plain_softplus_op op = {};
  op.beta = (float)beta;
  op.beta_low = (float)(beta - (double)op.beta);
  op.inverse = (float)(1 / beta);
  op.inverse_low = (float)(1 / beta - (double)op.inverse);
  op.most = float_within(beta, threshold);
  op.limit = (float)(118 / beta);
  return op;
}

} // namespace

#endif /* KERNELS_CUDA_SOFTPLUS_CUH */
