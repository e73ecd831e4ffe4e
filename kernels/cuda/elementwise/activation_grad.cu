/*
 * Gradients of activations, in float where those of narrow.cuh and single_slopes.cuh serve, else in
 * double whatever the element type: see kernels/common/wide. A functor gets dy and b, which is y or
 * x, as doubles, and b once more in its own type, which says in which precision to compute.
 */
#include "kernels/common/wide/composed.h"
#include "kernels/cuda/elementwise/narrow.cuh"
#include "kernels/cuda/elementwise/single_slopes.cuh"
#include "kernels/cuda/elementwise/softplus.cuh"
#include "kernels/cuda/elementwise/unary.cuh"

/* An expression of dy and b, here called by what it is. */
#define GRADIENT(name, b, expression)                                                              \
  namespace {                                                                                      \
  struct name##_op {                                                                               \
    template <class C>                                                                             \
    __device__ __forceinline__ double operator()(double dy, double b, C) const {                   \
      return expression;                                                                           \
    }                                                                                              \
  };                                                                                               \
  }                                                                                                \
  RUN_GRADIENT(name)

GRADIENT(relu_grad, y, y > 0.0 ? dy : 0.0)
GRADIENT(sigmoid_grad, y, dy *y *(1.0 - y))
/* Without 1 - y^2, which cancels where y is close to 1. */
GRADIENT(tanh_grad, y, dy *((1.0 - y) * (1.0 + y)))
GRADIENT(hardswish_grad, x, x <= -3.0 ? 0.0 : x >= 3.0 ? dy : dy * wide_hardswish_slope(x))
GRADIENT(hardsigmoid_grad, x, fabs(x) < 3.0 ? dy / 6.0 : 0.0)

/* dx = dy slope(x): by a function of narrow.cuh for 16 bits, of single_slopes.cuh for floats and of
 * kernels/common/wide for doubles. */
#define SLOPE_OP(name)                                                                             \
  namespace {                                                                                      \
  struct name##_grad_op {                                                                          \
    static constexpr bool wide_in_half = false;                                                    \
    __device__ __forceinline__ float narrow(float dy, float x) const {                             \
      return dy * narrow_##name##_slope(x);                                                        \
    }                                                                                              \
    __device__ __forceinline__ float single(float dy, float x) const {                             \
      return single_##name##_slope(x).times(dy);                                                   \
    }                                                                                              \
    __device__ __forceinline__ double operator()(double dy, double x, double) const {              \
      return dy * double_##name##_slope(x);                                                        \
    }                                                                                              \
  };                                                                                               \
  }

SLOPE_OP(silu)
RUN_GRADIENT(silu_grad)
SLOPE_OP(mish)
RUN_GRADIENT(mish_grad)
SLOPE_OP(gelu)

namespace {

struct gelu_tanh_grad_op {
  static constexpr bool wide_in_half = false;
  __device__ __forceinline__ double operator()(double dy, double x, float) const {
    return dy * wide_gelu_tanh_slope(x);
  }
  __device__ __forceinline__ double operator()(double dy, double x, double) const {
    return dy * double_gelu_tanh_slope(x);
  }
  __device__ __forceinline__ float narrow(float dy, float x) const {
    return dy * narrow_gelu_tanh_slope(x);
  }
};

struct selu_grad_op {
  static constexpr bool wide_in_half = false;
  narrow_elu_slope slope{SELU_SCALE * SELU_ALPHA, SELU_SCALE};
  __device__ __forceinline__ double operator()(double dy, double x, float) const {
    return dy * wide_selu_slope(x);
  }
  __device__ __forceinline__ double operator()(double dy, double x, double) const {
    return dy * double_selu_slope(x);
  }
  __device__ __forceinline__ float narrow(float dy, float x) const { return slope.times(dy, x); }
};

struct elu_grad_op {
  static constexpr bool wide_in_half = false;
  double alpha;
  narrow_elu_slope slope;
  bool plain; /* whether 16 bits take that slope */
  __device__ __forceinline__ double operator()(double dy, double x, float) const {
    return dy * wide_elu_slope(x, alpha);
  }
  __device__ __forceinline__ double operator()(double dy, double x, double) const {
    return dy * double_elu_slope(x, alpha);
  }
  __device__ __forceinline__ float narrow(float dy, float x) const {
    if (plain) return slope.times(dy, x);
    return (float)(*this)((double)dy, (double)x, x);
  }
};

struct softplus_grad_op {
  static constexpr bool wide_in_half = false;
  double beta, threshold;
  float most; /* no float stands between it and the threshold */
  bool plain; /* beta is 1: a sigmoid in float serves */
  __device__ __forceinline__ double operator()(double dy, double x, float) const {
    return dy * wide_softplus_slope(x, beta, threshold);
  }
  __device__ __forceinline__ double operator()(double dy, double x, double) const {
    return dy * double_softplus_slope(x, beta, threshold);
  }
  __device__ __forceinline__ float single(float dy, float x) const { return narrow(dy, x); }
  __device__ __forceinline__ float narrow(float dy, float x) const {
    if (plain) return x > most ? dy : narrow_sigmoid_times(dy, x);
    return (float)(*this)((double)dy, (double)x, x);
  }
};

struct leaky_relu_grad_op {
  double slope;
  template <class C> __device__ __forceinline__ double operator()(double dy, double x, C) const {
    return x > 0.0 ? dy : dy * slope;
  }
};

} // namespace

RUN_GRADIENT(selu_grad)

tn_status cuda_run_gelu_grad(const tn_kernel_args *args) {
  bool approximate = ((const tn_gelu_grad_attrs *)args->attrs)->tanh;
  return approximate ? run_float<gradient, gelu_tanh_grad_op>(args)
                     : run_float<gradient, gelu_grad_op>(args);
}
tn_status cuda_run_softplus_grad(const tn_kernel_args *args) {
  const auto *k = (const tn_softplus_grad_attrs *)args->attrs;
  const bool plain = k->beta == 1;
  const float most = plain ? float_within(1, k->threshold) : 0;
  return run_float<gradient>(args, softplus_grad_op{k->beta, k->threshold, most, plain});
}
tn_status cuda_run_leaky_relu_grad(const tn_kernel_args *args) {
  const auto *k = (const tn_leaky_relu_grad_attrs *)args->attrs;
  return run_float<gradient>(args, leaky_relu_grad_op{k->slope});
}
tn_status cuda_run_elu_grad(const tn_kernel_args *args) {
  const double alpha = ((const tn_elu_grad_attrs *)args->attrs)->alpha;
  return run_float<gradient>(
      args, elu_grad_op{alpha, {alpha, 1}, is_plain_factor(alpha) && fabs(alpha) <= 2});
}
