/*
 * Activations with a learnt slope or a threshold, and signs: as in the CPU kernels, numbers of
 * attributes are compared and added in double.
 */
#include "kernels/common/wide/composed.h"
#include "kernels/cuda/elementwise/single.cuh"
#include "kernels/cuda/elementwise/unary.cuh"

PLAIN_UNARY(softsign, isinf(x) ? copysign((C)1, x) : x / ((C)1 + fabs(x)))

namespace {

/* Where alpha is above 0 and is_plain_factor: x / alpha comes in two parts. */
struct plain_celu_op {
  float alpha, inverse, inverse_low;
  float least; /* below, the result is -alpha */
  explicit plain_celu_op(double from) {
    alpha = (float)from;
    inverse = (float)(1 / from);
    inverse_low = (float)(1 / from - (double)inverse);
    least = (float)(-30 * from);
  }
  __device__ __forceinline__ float operator()(float x) const {
    const float v = fminf(single_at_least(x, least), 0.0f), z = __fmul_rn(v, inverse);
    const single_power e = single_power_e(z, fmaf(v, inverse_low, fmaf(v, inverse, -z)), 0);
    const float y = __fmul_rn(alpha, fmaf(e.scale, e.rest, e.scale - 1.0f));
    return single_reaches(x, 0.0f, x, x != x ? x : y);
  }
};

struct celu_op {
  double alpha;
  __device__ __forceinline__ float operator()(float x) const {
    return x > 0 ? x : (float)wide_elu((double)x / alpha, alpha);
  }
  __device__ __forceinline__ double operator()(double x) const {
    return x > 0 ? x : double_elu(x / alpha, alpha);
  }
};

struct shrink_op {
  double lambd, bias;
  template <class C> __device__ __forceinline__ C operator()(C x) const {
    const double a = (double)x;
    return a < -lambd ? (C)(a + bias) : a > lambd ? (C)(a - bias) : x == x ? (C)0 : x;
  }
};

struct threshold_op {
  double alpha;
  template <class C> __device__ __forceinline__ C operator()(C x) const {
    return (double)x <= alpha ? (C)0 : x;
  }
};

template <class T> struct prelu_op {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  __device__ __forceinline__ Y operator()(A a, B b) const {
    const compute_t<T> x = load(a);
    return x > 0 ? a : stored<T>::from(load(b) * x);
  }
};

/* Signs are bits: those of a NaN would not survive a conversion. */
__device__ __forceinline__ half_t with_sign(half_t a, half_t b) {
  return {(unsigned short)((a.bits & 0x7fff) | (b.bits & 0x8000))};
}
__device__ __forceinline__ bfloat_t with_sign(bfloat_t a, bfloat_t b) {
  return {(unsigned short)((a.bits & 0x7fff) | (b.bits & 0x8000))};
}
__device__ __forceinline__ float with_sign(float a, float b) { return copysignf(a, b); }
__device__ __forceinline__ double with_sign(double a, double b) { return copysign(a, b); }

template <class T> struct copysign_op {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  __device__ __forceinline__ Y operator()(A a, B b) const { return with_sign(a, b); }
};

} // namespace

tn_status cuda_run_celu(const tn_kernel_args *args) {
  const double alpha = ((const tn_celu_attrs *)args->attrs)->alpha;
  return run_plain_or<unary>(args, alpha > 0 && is_plain_factor(alpha), plain_celu_op{alpha},
                             celu_op{alpha});
}
tn_status cuda_run_shrink(const tn_kernel_args *args) {
  const auto *k = (const tn_shrink_attrs *)args->attrs;
  return run_float<unary>(args, shrink_op{k->lambd, k->bias});
}
tn_status cuda_run_thresholded_relu(const tn_kernel_args *args) {
  const auto *k = (const tn_thresholded_relu_attrs *)args->attrs;
  return run_float<unary>(args, threshold_op{k->alpha});
}
tn_status cuda_run_prelu(const tn_kernel_args *args) {
  return for_float(args, args->out[0],
                   [&](auto t) { return map_run(args, prelu_op<decltype(t)>{}); });
}
tn_status cuda_run_copysign(const tn_kernel_args *args) {
  return for_float(args, args->out[0],
                   [&](auto t) { return map_run(args, copysign_op<decltype(t)>{}); });
}
