/*
 * Logic on elements and on their bits. One kernel per element type, which takes the
 * operator at run time: the branch is the same in every thread.
 */
#include "kernels/cuda/base/map.cuh"

namespace {

enum logic_op { op_and, op_or, op_xor, op_left, op_right };

template <class T> struct logical {
  using Y = bool_t;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  int op;
  __device__ __forceinline__ Y operator()(A x, B y) const {
    bool a = load(x) != 0, b = load(y) != 0;
    return stored<bool_t>::from(op == op_and ? a && b : op == op_or ? a || b : a != b);
  }
};

/* All bits are the sign's. */
template <class T> __device__ __forceinline__ T sign_of(T x) {
  if constexpr ((T)-1 > (T)1)
    return 0;
  else
    return x < 0 ? (T)-1 : (T)0;
}

/* x shifted by so many places, of which those outside 0 .. width - 1 shift everything out: as the
 * device's own shifts of 32 bits do, which is more than narrower types have. */
template <class T> __device__ __forceinline__ T shifted(T x, T places, bool left) {
  if constexpr (sizeof(T) <= 4) {
    uint32_t y;
    if (left)
      asm("shl.b32 %0, %1, %2;" : "=r"(y) : "r"((uint32_t)x), "r"((uint32_t)places));
    else if ((T)-1 > (T)1)
      asm("shr.u32 %0, %1, %2;" : "=r"(y) : "r"((uint32_t)x), "r"((uint32_t)places));
    else
      asm("shr.s32 %0, %1, %2;" : "=r"(y) : "r"((int32_t)x), "r"((uint32_t)places));
    return (T)y;
  } else {
    const bool outside = (uint64_t)places >= sizeof(T) * 8;
    if (left) return outside ? (T)0 : (T)((uint64_t)x << (int)places);
    return outside ? sign_of(x) : (T)(x >> (int)places);
  }
}

template <class T> struct bits {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  int op;
  __device__ __forceinline__ Y operator()(A a, B b) const {
    switch (op) {
    case op_and:
      return (T)(a & b);
    case op_or:
      return (T)(a | b);
    case op_xor:
      return (T)(a ^ b);
    default:
      return shifted(a, b, op == op_left);
    }
  }
};

tn_status run_logical(const tn_kernel_args *args, int op) {
  return for_all(args, args->in[0],
                 [&](auto t) { return map_run(args, logical<byte_for_bytes_t<decltype(t)>>{op}); });
}

tn_status run_bits(const tn_kernel_args *args, int op) {
  return for_bits(args, args->in[0],
                  [&](auto t) { return map_run(args, bits<byte_for_bool_t<decltype(t)>>{op}); });
}

} // namespace

tn_status cuda_run_logical_and(const tn_kernel_args *args) { return run_logical(args, op_and); }
tn_status cuda_run_logical_or(const tn_kernel_args *args) { return run_logical(args, op_or); }
tn_status cuda_run_logical_xor(const tn_kernel_args *args) { return run_logical(args, op_xor); }
tn_status cuda_run_bitwise_and(const tn_kernel_args *args) { return run_bits(args, op_and); }
tn_status cuda_run_bitwise_or(const tn_kernel_args *args) { return run_bits(args, op_or); }
tn_status cuda_run_bitwise_xor(const tn_kernel_args *args) { return run_bits(args, op_xor); }
tn_status cuda_run_left_shift(const tn_kernel_args *args) { return run_bits(args, op_left); }
tn_status cuda_run_right_shift(const tn_kernel_args *args) { return run_bits(args, op_right); }
