/*
 * Elementwise functions of one tensor and gradients, made of a functor over an element's
 * computing type (float or double): shared by the files of that family.
 */
#ifndef KERNELS_CUDA_UNARY_CUH
#define KERNELS_CUDA_UNARY_CUH

#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/base/map.cuh"

/* Functors may say apart, as `narrow`, what they compute in float where the result is rounded to 16
 * bits: there an error of a few units of float's last place is far below what rounding makes. */
template <class T, class Op, class = void> struct is_narrowed : std::false_type {};
template <class T, class Op>
struct is_narrowed<T, Op, std::void_t<decltype(&Op::narrow)>>
    : std::bool_constant<std::is_same_v<T, bfloat_t> || (sizeof(T) == 2 && !Op::wide_in_half)> {};

/* Functors of gradients may say apart, as `single`, what they compute in float for floats. */
template <class Op, class = void> struct has_single : std::false_type {};
template <class Op> struct has_single<Op, std::void_t<decltype(&Op::single)>> : std::true_type {};

/* Functors say, by a type `many_steps`, that they compute for about as long as float's memory
 * takes. */
template <class Op, class = void> struct has_many_steps : std::false_type {};
template <class Op>
struct has_many_steps<Op, std::void_t<typename Op::many_steps>> : std::true_type {};

/* y = op(x) */
template <class Op, class T> struct unary {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 1;
  static constexpr int packs = std::is_same_v<T, float> && has_many_steps<Op>::value ? 2 : 1;
  Op op;
  __device__ __forceinline__ compute_t<T> in_float(compute_t<T> x, compute_t<T>) const {
    if constexpr (is_narrowed<T, Op>::value) {
      return op.narrow(x);
    } else {
      return op(x);
    }
  }
  __device__ __forceinline__ Y operator()(A a, B) const {
    return stored<T>::from(in_float(load(a), 0));
  }
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
  __device__ __forceinline__ compute_t<T> in_float(compute_t<T> dy, compute_t<T> b) const {
    if constexpr (is_narrowed<T, Op>::value) {
      return op.narrow(dy, b);
    } else if constexpr (std::is_same_v<T, float> && has_single<Op>::value) {
      return op.single(dy, b);
    } else {
      return (compute_t<T>)op((double)dy, (double)b, b);
    }
  }
  __device__ __forceinline__ Y operator()(A a, B b) const {
    return stored<T>::from(in_float(load(a), load(b)));
  }
};

/* The same of f16 and bf16, which share them where tensors are no dense run. */
template <class Op> struct unary<Op, any_half> {
  using Y = any_half;
  using A = any_half;
  using B = any_half;
  static constexpr int inputs = 1;
  Op op;
  bool brain;
  __device__ __forceinline__ Y operator()(A a, B) const {
    const float x = load(a, brain);
    if constexpr (is_narrowed<any_half, Op>::value) {
      return rounded<any_half>(op.narrow(x), brain);
    } else {
      return rounded<any_half>(op(x), brain);
    }
  }
};
template <class Op> struct question<Op, any_half> {
  using Y = bool_t;
  using A = any_half;
  using B = any_half;
  static constexpr int inputs = 1;
  Op op;
  bool brain;
  __device__ __forceinline__ Y operator()(A a, B) const {
    return stored<bool_t>::from(op(load(a, brain)));
  }
};
template <class Op> struct gradient<Op, any_half> {
  using Y = any_half;
  using A = any_half;
  using B = any_half;
  static constexpr int inputs = 2;
  Op op;
  bool brain;
  __device__ __forceinline__ Y operator()(A a, B b) const {
    const float dy = load(a, brain), x = load(b, brain);
    if constexpr (is_narrowed<any_half, Op>::value) {
      return rounded<any_half>(op.narrow(dy, x), brain);
    } else {
      return rounded<any_half>((float)op((double)dy, (double)x, x), brain);
    }
  }
};
template <template <class, class> class Form, class Op> struct map_shared_half {
  static Form<Op, any_half> of(const Form<Op, half_t> &f) { return {f.op, false}; }
  static Form<Op, any_half> of(const Form<Op, bfloat_t> &f) { return {f.op, true}; }
};
template <template <class, class> class Form, class Op>
struct map_shared<Form<Op, half_t>> : map_shared_half<Form, Op> {};
template <template <class, class> class Form, class Op>
struct map_shared<Form<Op, bfloat_t>> : map_shared_half<Form, Op> {};

template <template <class, class> class Form, class Op>
static tn_status run_float(const tn_kernel_args *args, Op op = Op{}) {
  return for_float(args, args->in[0],
                   [&](auto t) { return map_run(args, Form<Op, decltype(t)>{op}); });
}

/* The same of an operator whose common attributes allow a functor in float, `plain`. The other one
 * takes what those do not allow, and double; f16 and bf16 share it. */
template <template <class, class> class Form, class Plain, class Op>
static tn_status run_plain_or(const tn_kernel_args *args, bool is_plain, Plain plain, Op op) {
  const DLTensor *x = args->in[0];
  const tn_dtype type = is_plain ? cuda_dtype(x) : TN_F64;
  if (type == TN_F32) return map_run(args, Form<Plain, float>{plain});
  if (type == TN_F16) return map_run(args, Form<Plain, half_t>{plain});
  if (type == TN_BF16) return map_run(args, Form<Plain, bfloat_t>{plain});
  return for_class(args, x, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_same_v<T, any_half>)
      return map_run_strided(args, Form<Op, T>{op, is_brain(x)});
    else if constexpr (std::is_same_v<T, float>)
      return map_run_strided(args, Form<Op, T>{op});
    else
      return map_run(args, Form<Op, T>{op});
  });
}

/* What an operator computes of an element. WIDE_OP is a function of kernels/common/wide: in double
 * with short polynomials where x was a float, which then rounds once, and by the maths library
 * where it is a double. PLAIN_OP is an expression of x in the element's computing type C, as a
 * rule a function of CUDA's maths library whose bound for float is the row's or less. */
#define WIDE_OP(name)                                                                              \
  namespace {                                                                                      \
  struct name##_op {                                                                               \
    using many_steps = void;                                                                       \
    __device__ __forceinline__ float operator()(float x) const {                                   \
      return (float)wide_##name((double)x);                                                        \
    }                                                                                              \
    __device__ __forceinline__ double operator()(double x) const { return double_##name(x); }      \
  };                                                                                               \
  }
/* WIDE_OP, and a function of kernels/cuda/elementwise/narrow.cuh for bfloat16, and float16 unless
 * `half_is_wide`: where some result of 16 bits lies so close to the middle of two that float is not
 * enough. */
#define NARROWED_OP(name, half_is_wide)                                                            \
  namespace {                                                                                      \
  struct name##_op {                                                                               \
    using many_steps = void;                                                                       \
    static constexpr bool wide_in_half = half_is_wide;                                             \
    __device__ __forceinline__ float narrow(float x) const { return narrow_##name(x); }            \
    __device__ __forceinline__ float operator()(float x) const {                                   \
      return (float)wide_##name((double)x);                                                        \
    }                                                                                              \
    __device__ __forceinline__ double operator()(double x) const { return double_##name(x); }      \
  };                                                                                               \
  }
/* A function of kernels/cuda/elementwise/single.cuh, in double the maths library's. */
#define SINGLE_OP(name)                                                                            \
  namespace {                                                                                      \
  struct name##_op {                                                                               \
    using many_steps = void;                                                                       \
    __device__ __forceinline__ float operator()(float x) const { return single_##name(x); }        \
    __device__ __forceinline__ double operator()(double x) const { return double_##name(x); }      \
  };                                                                                               \
  }
/* The same with a function of narrow.cuh as NARROWED_OP has it. */
#define NARROWED_SINGLE_OP(name, half_is_wide)                                                     \
  namespace {                                                                                      \
  struct name##_op {                                                                               \
    using many_steps = void;                                                                       \
    static constexpr bool wide_in_half = half_is_wide;                                             \
    __device__ __forceinline__ float narrow(float x) const { return narrow_##name(x); }            \
    __device__ __forceinline__ float operator()(float x) const { return single_##name(x); }        \
    __device__ __forceinline__ double operator()(double x) const { return double_##name(x); }      \
  };                                                                                               \
  }
#define PLAIN_OP(name, expression)                                                                 \
  namespace {                                                                                      \
  struct name##_op {                                                                               \
    template <class C> __device__ __forceinline__ C operator()(C x) const { return expression; }   \
  };                                                                                               \
  }

/* cuda_run_<name>, of an operator of floats that has no attributes. */
#define RUN_UNARY(name)                                                                            \
  tn_status cuda_run_##name(const tn_kernel_args *args) {                                          \
    return run_float<unary, name##_op>(args);                                                      \
  }
#define RUN_GRADIENT(name)                                                                         \
  tn_status cuda_run_##name(const tn_kernel_args *args) {                                          \
    return run_float<gradient, name##_op>(args);                                                   \
  }

/* A whole operator: what it computes, and its run function. */
#define WIDE_UNARY(name) WIDE_OP(name) RUN_UNARY(name)
#define SINGLE_UNARY(name) SINGLE_OP(name) RUN_UNARY(name)
#define PLAIN_UNARY(name, expression) PLAIN_OP(name, expression) RUN_UNARY(name)

#endif /* KERNELS_CUDA_UNARY_CUH */
