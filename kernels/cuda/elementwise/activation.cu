/*
 * Activations, in float where attributes allow: see single.cuh; the others in double as in the CPU
 * kernels: see kernels/common/wide.
 */
#include "kernels/common/wide/composed.h"
#include "kernels/cuda/elementwise/narrow.cuh"
#include "kernels/cuda/elementwise/softplus.cuh"
#include "kernels/cuda/elementwise/unary.cuh"

NARROWED_SINGLE_OP(sigmoid, false)
NARROWED_SINGLE_OP(silu, false)
SINGLE_OP(gelu)
NARROWED_OP(gelu_tanh, true)
RUN_UNARY(sigmoid)
RUN_UNARY(silu)
SINGLE_UNARY(mish)
NARROWED_SINGLE_OP(selu, true)
RUN_UNARY(selu)
WIDE_UNARY(hardswish)
WIDE_UNARY(hardsigmoid)

namespace {

struct softplus_op {
  double beta, threshold;
  __device__ __forceinline__ float operator()(float x) const {
    return (float)wide_softplus((double)x, beta, threshold);
  }
  __device__ __forceinline__ double operator()(double x) const {
    return double_softplus(x, beta, threshold);
  }
};

struct leaky_relu_op {
  double slope;
  template <class C> __device__ __forceinline__ C operator()(C x) const {
    return (C)wide_leaky_relu((double)x, slope);
  }
};

struct plain_elu_op {
  float alpha;
  __device__ __forceinline__ float operator()(float x) const { return single_elu(x, alpha); }
};

/* Of alpha 1, which bfloat16 computes by narrow.cuh. */
struct unit_elu_op {
  static constexpr bool wide_in_half = true;
  __device__ __forceinline__ float narrow(float x) const { return narrow_elu(x); }
  __device__ __forceinline__ float operator()(float x) const { return single_elu(x, 1.0f); }
  __device__ __forceinline__ double operator()(double x) const { return double_elu(x, 1); }
};

struct elu_op {
  double alpha;
  __device__ __forceinline__ float operator()(float x) const {
    return (float)wide_elu((double)x, alpha);
  }
  __device__ __forceinline__ double operator()(double x) const { return double_elu(x, alpha); }
};

} // namespace

tn_status cuda_run_gelu(const tn_kernel_args *args) {
  bool approximate = ((const tn_gelu_attrs *)args->attrs)->tanh;
  return approximate ? run_float<unary, gelu_tanh_op>(args) : run_float<unary, gelu_op>(args);
}
tn_status cuda_run_softplus(const tn_kernel_args *args) {
  const auto *k = (const tn_softplus_attrs *)args->attrs;
  const bool plain = is_plain_factor(k->beta);
  return run_plain_or<unary>(args, plain, plain_softplus(plain ? k->beta : 1, k->threshold),
                             softplus_op{k->beta, k->threshold});
}
tn_status cuda_run_leaky_relu(const tn_kernel_args *args) {
  return run_float<unary>(args, leaky_relu_op{((const tn_leaky_relu_attrs *)args->attrs)->slope});
}
tn_status cuda_run_elu(const tn_kernel_args *args) {
  const double alpha = ((const tn_elu_attrs *)args->attrs)->alpha;
  if (alpha == 1) return run_float<unary, unit_elu_op>(args);
  return run_plain_or<unary>(args, is_plain_factor(alpha), plain_elu_op{(float)alpha},
                             elu_op{alpha});
}
