/*
 * Arithmetic of two tensors. Floats have one kernel per operator and type; integers
 * one per type, which takes the operator at run time, because they are not hot and
 * build time counts.
 */
#include "kernels/cuda/base/map.cuh"

namespace {

enum binary_op { op_add, op_sub, op_mul, op_div, op_max, op_min };

/* C is the type computed in; NaN wins in max and min. */
template <binary_op op, class C> __device__ __forceinline__ C compute(C a, C b) {
  if (op == op_add) return a + b;
  if (op == op_sub) return a - b;
  if (op == op_mul) return a * b;
  if (op == op_div) return a / b;
  if (op == op_max) return a != a || a > b ? a : b;
  return a != a || a < b ? a : b;
}

template <binary_op op, class T> struct binary_float {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  __device__ __forceinline__ Y operator()(A a, B b) const {
    return stored<T>::from(compute<op, compute_t<T>>(load(a), load(b)));
  }
};

/* Sums and products wrap, so they are taken without sign; x / 0 is 0, and minimum / -1
 * is minimum. */
template <class T> struct binary_int {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  int op;
  __device__ __forceinline__ Y operator()(A a, B b) const {
    switch (op) {
    case op_add:
      return (T)((uint64_t)a + (uint64_t)b);
    case op_sub:
      return (T)((uint64_t)a - (uint64_t)b);
    case op_mul:
      return (T)((uint64_t)a * (uint64_t)b);
    case op_max:
      return a > b ? a : b;
    case op_min:
      return a < b ? a : b;
    default:
      break;
    }
    if (b == 0) return 0;
    if ((T)-1 < (T)0 && b == (T)-1) return (T)(0 - (uint64_t)a);
    return (T)(a / b);
  }
};

template <binary_op op> tn_status run(const tn_kernel_args *args) {
  switch (cuda_dtype(args->out[0])) {
  case TN_F32:
    return map_run(args, binary_float<op, float>{});
  case TN_F16:
    return map_run(args, binary_float<op, half_t>{});
  case TN_BF16:
    return map_run(args, binary_float<op, bfloat_t>{});
  case TN_F64:
    return map_run(args, binary_float<op, double>{});
  case TN_U8:
    return map_run(args, binary_int<uint8_t>{op});
  case TN_I8:
    return map_run(args, binary_int<int8_t>{op});
  case TN_I16:
    return map_run(args, binary_int<int16_t>{op});
  case TN_I32:
    return map_run(args, binary_int<int32_t>{op});
  case TN_I64:
    return map_run(args, binary_int<int64_t>{op});
  default:
    return bad_dtype(args);
  }
}

} // namespace

tn_status cuda_run_add(const tn_kernel_args *args) { return run<op_add>(args); }
tn_status cuda_run_sub(const tn_kernel_args *args) { return run<op_sub>(args); }
tn_status cuda_run_mul(const tn_kernel_args *args) { return run<op_mul>(args); }
tn_status cuda_run_div(const tn_kernel_args *args) { return run<op_div>(args); }
tn_status cuda_run_maximum(const tn_kernel_args *args) { return run<op_max>(args); }
tn_status cuda_run_minimum(const tn_kernel_args *args) { return run<op_min>(args); }
