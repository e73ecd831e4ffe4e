/*
 * Comparison of two tensors into bools. One kernel per element type, which takes the
 * operator at run time: the branch is the same in every thread.
 */
#include "kernels/cuda/base/map.cuh"

namespace {

enum compare_op { op_equal, op_not_equal, op_less, op_less_equal, op_greater, op_greater_equal };

template <class T> struct compare {
  using Y = bool_t;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  int op;
  __device__ __forceinline__ Y operator()(A x, B y) const {
    compute_t<T> a = load(x), b = load(y);
    switch (op) {
    case op_equal:
      return stored<bool_t>::from(a == b);
    case op_not_equal:
      return stored<bool_t>::from(a != b);
    case op_less:
      return stored<bool_t>::from(a < b);
    case op_less_equal:
      return stored<bool_t>::from(a <= b);
    case op_greater:
      return stored<bool_t>::from(a > b);
    default:
      return stored<bool_t>::from(a >= b);
    }
  }
};

tn_status compare_run(const tn_kernel_args *args, int op) {
  return for_all(args, args->in[0],
                 [&](auto t) { return map_run(args, compare<byte_for_bool_t<decltype(t)>>{op}); });
}

} // namespace

tn_status cuda_run_equal(const tn_kernel_args *args) { return compare_run(args, op_equal); }
tn_status cuda_run_not_equal(const tn_kernel_args *args) { return compare_run(args, op_not_equal); }
tn_status cuda_run_less(const tn_kernel_args *args) { return compare_run(args, op_less); }
tn_status cuda_run_less_equal(const tn_kernel_args *args) {
  return compare_run(args, op_less_equal);
}
tn_status cuda_run_greater(const tn_kernel_args *args) { return compare_run(args, op_greater); }
tn_status cuda_run_greater_equal(const tn_kernel_args *args) {
  return compare_run(args, op_greater_equal);
}
