/*
 * Exact and correctly rounded functions of one tensor, and questions about an element.
 */
#include "kernels/cuda/elementwise/unary.cuh"

PLAIN_UNARY(reciprocal, (C)1 / x)
/* Roots of numbers of 8 bits lie 2^-18 of them or more from the middle of two such, and the
 * device's approximate root errs by far less: bfloat16 comes out correctly rounded. */
namespace {
struct sqrt_op {
  static constexpr bool wide_in_half = true;
  __device__ __forceinline__ float narrow(float x) const {
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  template <class C> __device__ __forceinline__ C operator()(C x) const { return sqrt(x); }
};
} // namespace
RUN_UNARY(sqrt)
PLAIN_UNARY(rsqrt, rsqrt(x))

/* Of integers too, which have kernels of their own below. */
PLAIN_OP(neg, -x)
PLAIN_OP(abs, fabs(x))
PLAIN_OP(sign, x > (C)0 ? (C)1 : x < (C)0 ? (C)-1 : x)
PLAIN_OP(square, x *x)
PLAIN_OP(relu, x <= (C)0 ? (C)0 : x) /* NaN stays NaN */
PLAIN_OP(floor, floor(x))
PLAIN_OP(ceil, ceil(x))
PLAIN_OP(round, rint(x))
PLAIN_OP(trunc, trunc(x))

namespace {

enum question_kind { is_nan, is_infinite, is_finite, is_zero };

struct asks {
  int kind;
  template <class C> __device__ __forceinline__ bool operator()(C x) const {
    const C top = (C)INFINITY;
    switch (kind) {
    case is_nan:
      return x != x;
    case is_infinite:
      return x == top || x == -top;
    case is_finite:
      return x < top && x > -top;
    default:
      return x == (C)0;
    }
  }
};

struct equals_zero {
  template <class C> __device__ __forceinline__ bool operator()(C x) const { return x == (C)0; }
};

enum integer_kind { int_neg, int_relu, int_abs, int_sign, int_square, int_not };

/* The branch is the same in every thread. Arithmetic wraps in the type's own width. */
struct integer_op {
  int kind;
  template <class C> __device__ __forceinline__ C operator()(C x) const {
    const uint64_t u = (uint64_t)x;
    switch (kind) {
    case int_neg:
      return (C)(0 - u);
    case int_relu:
      return x > 0 ? x : 0;
    case int_abs:
      return (int64_t)x < 0 ? (C)(0 - u) : x;
    case int_sign:
      return (C)((x > 0) - ((int64_t)x < 0));
    case int_square:
      return (C)(u * u);
    default:
      return (C)~u;
    }
  }
};

struct opposite {
  __device__ __forceinline__ bool operator()(unsigned char x) const { return !x; }
};

/* Integers of any type; other types are an error. */
template <template <class, class> class Form, class Op>
tn_status run_integer(const tn_kernel_args *args, Op op) {
  return for_int(args, args->in[0],
                 [&](auto t) { return map_run(args, Form<Op, decltype(t)>{op}); });
}

bool is_integer(const tn_kernel_args *args) { return TN_SET(cuda_dtype(args->in[0])) & TN_SET_INT; }

bool is_bool(const tn_kernel_args *args) { return cuda_dtype(args->in[0]) == TN_BOOL; }

} // namespace

#define RUN_NUMBER(name)                                                                           \
  tn_status cuda_run_##name(const tn_kernel_args *args) {                                          \
    return is_integer(args) ? run_integer<unary>(args, integer_op{int_##name})                     \
                            : run_float<unary, name##_op>(args);                                   \
  }
RUN_NUMBER(neg)
RUN_NUMBER(relu)
RUN_NUMBER(abs)
RUN_NUMBER(sign)
RUN_NUMBER(square)

/* Integers are whole already. */
#define RUN_WHOLE(name)                                                                            \
  tn_status cuda_run_##name(const tn_kernel_args *args) {                                          \
    return is_integer(args) ? cuda_run_copy(args) : run_float<unary, name##_op>(args);             \
  }
RUN_WHOLE(floor)
RUN_WHOLE(ceil)
RUN_WHOLE(round)
RUN_WHOLE(trunc)

tn_status cuda_run_isnan(const tn_kernel_args *args) {
  return run_float<question>(args, asks{is_nan});
}
tn_status cuda_run_isinf(const tn_kernel_args *args) {
  return run_float<question>(args, asks{is_infinite});
}
tn_status cuda_run_isfinite(const tn_kernel_args *args) {
  return run_float<question>(args, asks{is_finite});
}
tn_status cuda_run_logical_not(const tn_kernel_args *args) {
  if (is_bool(args)) return map_run(args, question<equals_zero, bool_t>{});
  if (is_integer(args)) return run_integer<question>(args, equals_zero{});
  return run_float<question>(args, asks{is_zero});
}
tn_status cuda_run_bitwise_not(const tn_kernel_args *args) {
  if (is_bool(args)) return map_run(args, unary<opposite, bool_t>{});
  return run_integer<unary>(args, integer_op{int_not});
}
