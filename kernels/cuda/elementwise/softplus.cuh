/*
 * softplus in float, for any beta that is neither tiny nor huge: numbers that float rounds too
 * coarsely, beta, its inverse and beta x, come in two parts.
 */
#ifndef KERNELS_CUDA_SOFTPLUS_CUH
#define KERNELS_CUDA_SOFTPLUS_CUH

#include "kernels/cuda/elementwise/single.cuh"

namespace {

struct plain_softplus_op {
  float beta, beta_low, inverse, inverse_low;
  float most;  /* no float stands between it and the threshold */
  float limit; /* beyond, e^-|beta x| / beta is 0 */

  __device__ __forceinline__ float operator()(float x) const {
    const float v = fminf(fmaxf(x, -limit), limit), h = __fmul_rn(beta, v);
    const float h_low = fmaf(beta_low, v, fmaf(beta, v, -h));
    const single_power e = single_power_e(-fabsf(h), h > 0.0f ? -h_low : h_low, 48);
    const float z = fmaf(e.scale, e.rest, e.scale); /* e^-|beta x| 2^48 */
    const float lost = fmaf(e.scale, e.rest, e.scale - z), t = __fmul_rn(z, 0x1p-48f);
    const bool far = t > 0.41421356f;
    const float f = far ? fmaf(0.5f, t, -0.5f) : t;
    const float low = __fmul_rn(lost, far ? 0x1p-49f : 0x1p-48f);
    const single_parts l = single_log_parts(far ? 1.0f : 0.0f, f, fmaf(-f, low, low));
    const float left = fmaf(l.whole, inverse_low, __fmul_rn(l.rest, inverse));
    const float y = fmaf(l.whole, inverse, left);
    const float tail = fmaf(z, inverse, fmaf(z, inverse_low, __fmul_rn(lost, inverse)));
    if (x > most || x != x) return x;
    return x > 0.0f ? x + y : h < -17.0f ? __fmul_rn(tail, 0x1p-48f) : y;
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
