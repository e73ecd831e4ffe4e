/*
 * Functions of one tensor and their gradients. exp, log, tanh, erfc come from CUDA's
 * maths library at its full precision; the forms below are chosen so that no
 * intermediate overflows or cancels where the result does not.
 */
#include "kernels/cuda/map.cuh"

namespace {

struct negate {
  template <class C> __device__ __forceinline__ C operator()(C x) const { return -x; }
};
struct rectify { /* NaN stays NaN */
  template <class C> __device__ __forceinline__ C operator()(C x) const {
    return x <= (C)0 ? (C)0 : x;
  }
};
struct exponential {
  template <class C> __device__ __forceinline__ C operator()(C x) const { return exp(x); }
};
struct logarithm {
  template <class C> __device__ __forceinline__ C operator()(C x) const { return log(x); }
};
struct square_root {
  template <class C> __device__ __forceinline__ C operator()(C x) const { return sqrt(x); }
};
struct hyperbolic_tangent {
  template <class C> __device__ __forceinline__ C operator()(C x) const { return tanh(x); }
};
/* e^-|x| never overflows, and a small result keeps its relative precision. */
struct logistic {
  template <class C> __device__ __forceinline__ C operator()(C x) const {
    C e = exp(-fabs(x));
    return (x < (C)0 ? e : (C)1) / ((C)1 + e);
  }
};

/* x Phi(x); Phi is 0 far below, also at -Inf. */
struct gelu_exact {
  template <class C> __device__ __forceinline__ C operator()(C x) const {
    C phi = (C)0.5 * erfc(-x * (C)0.70710678118654752440);
    return phi == (C)0 ? (C)0 : x * phi;
  }
};
/* With the tanh approximation Phi is (1 + tanh u) / 2, which is the logistic function of
 * 2 u and as such loses nothing to cancellation where tanh u is close to -1. */
template <class C> __device__ __forceinline__ C tanh_argument(C x) {
  return (C)0.79788456080286535588 * (x + (C)0.044715 * x * x * x);
}
struct gelu_tanh {
  template <class C> __device__ __forceinline__ C operator()(C x) const {
    C phi = logistic{}((C)2 * tanh_argument(x));
    return phi == (C)0 ? (C)0 : x * phi;
  }
};

/* Gradients take (dy, y) or, for gelu, (dy, x). */
struct rectify_grad {
  template <class C> __device__ __forceinline__ C operator()(C dy, C y) const {
    return y > (C)0 ? dy : (C)0;
  }
};
struct logistic_grad {
  template <class C> __device__ __forceinline__ C operator()(C dy, C y) const {
    return dy * y * ((C)1 - y);
  }
};
struct tanh_grad {
  template <class C> __device__ __forceinline__ C operator()(C dy, C y) const {
    return dy * ((C)1 - y * y);
  }
};
struct gelu_exact_grad {
  template <class C> __device__ __forceinline__ C operator()(C dy, C x) const {
    C cdf = (C)0.5 * erfc(-x * (C)0.70710678118654752440);
    C pdf = (C)0.39894228040143267794 * exp((C)-0.5 * x * x);
    return dy * (pdf == (C)0 ? cdf : cdf + x * pdf);
  }
};
struct gelu_tanh_grad {
  template <class C> __device__ __forceinline__ C operator()(C dy, C x) const {
    C u = tanh_argument(x), e = exp((C)-2 * fabs(u));
    C phi = logistic{}((C)2 * u), slope = e / (((C)1 + e) * ((C)1 + e)); /* of phi by 2 u */
    C inner = (C)0.79788456080286535588 * ((C)1 + (C)0.134145 * x * x);
    return dy * (slope == (C)0 ? phi : phi + (C)2 * x * slope * inner); /* 0 at infinities */
  }
};

template <class Op, class T> struct unary {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 1;
  __device__ __forceinline__ Y operator()(A a, B) const { return stored<T>::from(Op{}(load(a))); }
};

template <class Op, class T> struct gradient {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  __device__ __forceinline__ Y operator()(A a, B b) const {
    return stored<T>::from(Op{}(load(a), load(b)));
  }
};

template <class T> struct unary_int {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 1;
  bool rectifies; /* else negates, which wraps */
  __device__ __forceinline__ Y operator()(A a, B) const {
    return rectifies ? (a > 0 ? a : 0) : (T)(0 - (uint64_t)a);
  }
};

template <template <class, class> class Form, class Op>
tn_status run_float(const tn_kernel_args *args) {
  switch (cuda_dtype(args->out[0])) {
  case TN_F32:
    return map_run(args, Form<Op, float>{});
  case TN_F16:
    return map_run(args, Form<Op, half_t>{});
  case TN_BF16:
    return map_run(args, Form<Op, bfloat_t>{});
  case TN_F64:
    return map_run(args, Form<Op, double>{});
  default:
    return bad_dtype(args);
  }
}

template <class Op> tn_status run_any(const tn_kernel_args *args, bool rectifies) {
  switch (cuda_dtype(args->out[0])) {
  case TN_U8:
    return map_run(args, unary_int<uint8_t>{rectifies});
  case TN_I8:
    return map_run(args, unary_int<int8_t>{rectifies});
  case TN_I16:
    return map_run(args, unary_int<int16_t>{rectifies});
  case TN_I32:
    return map_run(args, unary_int<int32_t>{rectifies});
  case TN_I64:
    return map_run(args, unary_int<int64_t>{rectifies});
  default:
    return run_float<unary, Op>(args);
  }
}

} // namespace

tn_status cuda_run_neg(const tn_kernel_args *args) { return run_any<negate>(args, false); }
tn_status cuda_run_relu(const tn_kernel_args *args) { return run_any<rectify>(args, true); }
tn_status cuda_run_exp(const tn_kernel_args *args) { return run_float<unary, exponential>(args); }
tn_status cuda_run_log(const tn_kernel_args *args) { return run_float<unary, logarithm>(args); }
tn_status cuda_run_sqrt(const tn_kernel_args *args) { return run_float<unary, square_root>(args); }
tn_status cuda_run_tanh(const tn_kernel_args *args) {
  return run_float<unary, hyperbolic_tangent>(args);
}
tn_status cuda_run_sigmoid(const tn_kernel_args *args) { return run_float<unary, logistic>(args); }
tn_status cuda_run_gelu(const tn_kernel_args *args) {
  bool approximate = ((const tn_gelu_attrs *)args->attrs)->tanh;
  return approximate ? run_float<unary, gelu_tanh>(args) : run_float<unary, gelu_exact>(args);
}
tn_status cuda_run_relu_grad(const tn_kernel_args *args) {
  return run_float<gradient, rectify_grad>(args);
}
tn_status cuda_run_sigmoid_grad(const tn_kernel_args *args) {
  return run_float<gradient, logistic_grad>(args);
}
tn_status cuda_run_tanh_grad(const tn_kernel_args *args) {
  return run_float<gradient, tanh_grad>(args);
}
tn_status cuda_run_gelu_grad(const tn_kernel_args *args) {
  bool approximate = ((const tn_gelu_grad_attrs *)args->attrs)->tanh;
  return approximate ? run_float<gradient, gelu_tanh_grad>(args)
                     : run_float<gradient, gelu_exact_grad>(args);
}
