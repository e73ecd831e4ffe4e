/*
 * Elementwise functions of one tensor and gradients, made of a functor over an element's
 * computing type (float or double): shared by the files of that family.
 */
#ifndef KERNELS_CUDA_UNARY_CUH
#define KERNELS_CUDA_UNARY_CUH

#include "kernels/cuda/base/map.cuh"

/* y = op(x) */
template <class Op, class T> struct unary {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 1;
  Op op;
  __device__ __forceinline__ Y operator()(A a, B) const { return stored<T>::from(op(load(a))); }
};

/* y is whether op(x) */
template <class Op, class T> struct question {
  using Y = bool_t;
  using A = T;
  using B = T;
  static constexpr int inputs = 1;
  Op op;
  __device__ __forceinline__ Y operator()(A a, B) const {
    return stored<bool_t>::from(op(load(a)));
  }
};

/* dx = op(dy, b), b being y or x */
template <class Op, class T> struct gradient {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  Op op;
  __device__ __forceinline__ Y operator()(A a, B b) const {
    return stored<T>::from((compute_t<T>)op((double)load(a), (double)load(b), load(b)));
  }
};

template <template <class, class> class Form, class Op>
static tn_status run_float(const tn_kernel_args *args, Op op = Op{}) {
  switch (cuda_dtype(args->in[0])) {
  case TN_F32:
    return map_run(args, Form<Op, float>{op});
  case TN_F16:
    return map_run(args, Form<Op, half_t>{op});
  case TN_BF16:
    return map_run(args, Form<Op, bfloat_t>{op});
  case TN_F64:
    return map_run(args, Form<Op, double>{op});
  default:
    return bad_dtype(args);
  }
}

/* A function of kernels/common/wide: in double with short polynomials where x was a float, which
 * then rounds once, and by the maths library where it is a double. */
#define WIDE_UNARY(name)                                                                           \
  struct name##_op {                                                                               \
    __device__ __forceinline__ float operator()(float x) const {                                   \
      return (float)wide_##name((double)x);                                                        \
    }                                                                                              \
    __device__ __forceinline__ double operator()(double x) const { return double_##name(x); }      \
  };

/* A function of CUDA's maths library, whose bound for float is the row's or less. */
#define PLAIN_UNARY(name, expression)                                                              \
  struct name##_op {                                                                               \
    template <class C> __device__ __forceinline__ C operator()(C x) const { return expression; }   \
  };

#define RUN_UNARY(name)                                                                            \
  tn_status cuda_run_##name(const tn_kernel_args *args) {                                          \
    return run_float<unary, name##_op>(args);                                                      \
  }

#endif /* KERNELS_CUDA_UNARY_CUH */
