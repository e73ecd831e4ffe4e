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

tn_status run(const tn_kernel_args *args, int op) {
  switch (cuda_dtype(args->in[0])) {
  case TN_F32:
    return map_run(args, compare<float>{op});
  case TN_F16:
    return map_run(args, compare<half_t>{op});
  case TN_BF16:
    return map_run(args, compare<bfloat_t>{op});
  case TN_F64:
    return map_run(args, compare<double>{op});
  case TN_BOOL:
  case TN_U8:
    return map_run(args, compare<uint8_t>{op});
  case TN_I8:
    return map_run(args, compare<int8_t>{op});
  case TN_I16:
    return map_run(args, compare<int16_t>{op});
  case TN_I32:
    return map_run(args, compare<int32_t>{op});
  case TN_I64:
    return map_run(args, compare<int64_t>{op});
  default:
    return bad_dtype(args);
  }
}

} // namespace

tn_status cuda_run_equal(const tn_kernel_args *args) { return run(args, op_equal); }
tn_status cuda_run_not_equal(const tn_kernel_args *args) { return run(args, op_not_equal); }
tn_status cuda_run_less(const tn_kernel_args *args) { return run(args, op_less); }
tn_status cuda_run_less_equal(const tn_kernel_args *args) { return run(args, op_less_equal); }
tn_status cuda_run_greater(const tn_kernel_args *args) { return run(args, op_greater); }
tn_status cuda_run_greater_equal(const tn_kernel_args *args) { return run(args, op_greater_equal); }
