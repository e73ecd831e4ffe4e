/*
 * Arithmetic of two tensors. Floats have one kernel per operator and type; integers
 * one per type, which takes the operator at run time, because they are not hot and
 * build time counts.
 */
#include "kernels/cuda/base/halves.cuh"
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
  __device__ __forceinline__ compute_t<T> in_float(compute_t<T> a, compute_t<T> b) const {
    return compute<op, compute_t<T>>(a, b);
  }
  __device__ __forceinline__ Y operator()(A a, B b) const {
    return stored<T>::from(in_float(load(a), load(b)));
  }
};

/* Of f16 and bf16, which share it where tensors are no dense run. */
template <binary_op op> struct binary_float<op, any_half> {
  using Y = any_half;
  using A = any_half;
  using B = any_half;
  static constexpr int inputs = 2;
  bool brain;
  __device__ __forceinline__ Y operator()(A a, B b) const {
    return rounded<any_half>(compute<op, float>(load(a, brain), load(b, brain)), brain);
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

} // namespace

template <binary_op op> struct map_shared<binary_float<op, half_t>> {
  static binary_float<op, any_half> of(const binary_float<op, half_t> &) { return {false}; }
};
template <binary_op op> struct map_shared<binary_float<op, bfloat_t>> {
  static binary_float<op, any_half> of(const binary_float<op, bfloat_t> &) { return {true}; }
};

namespace {

template <binary_op op> tn_status binary_run(const tn_kernel_args *args) {
  return for_number(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T>)
      return map_run(args, binary_int<T>{op});
    else
      return map_run(args, binary_float<op, T>{});
  });
}

} // namespace

tn_status cuda_run_add(const tn_kernel_args *args) { return binary_run<op_add>(args); }
tn_status cuda_run_sub(const tn_kernel_args *args) { return binary_run<op_sub>(args); }
tn_status cuda_run_mul(const tn_kernel_args *args) { return binary_run<op_mul>(args); }
tn_status cuda_run_div(const tn_kernel_args *args) { return binary_run<op_div>(args); }
tn_status cuda_run_maximum(const tn_kernel_args *args) { return binary_run<op_max>(args); }
tn_status cuda_run_minimum(const tn_kernel_args *args) { return binary_run<op_min>(args); }
