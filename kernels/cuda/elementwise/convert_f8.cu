/* Casts between 8-bit floats and float32 and the 16-bit floats, of several elements at once. */
#include "kernels/cuda/base/float8.cuh"
#include "kernels/cuda/base/map.cuh"
#include "kernels/cuda/elementwise/convert_f8.h"

namespace {

template <class From> struct to_f8 {
  using Y = f8_t;
  using A = From;
  using B = From;
  static constexpr int inputs = 1;
  f8_format format;
  __device__ __forceinline__ Y operator()(A a, B) const { return f8_round(load(a), format); }
};

template <class To> struct from_f8 {
  using Y = To;
  using A = f8_t;
  using B = f8_t;
  static constexpr int inputs = 1;
  bool e4m3;
  __device__ __forceinline__ Y operator()(A a, B) const {
    return stored<To>::from(f8_load(a, e4m3));
  }
};

} // namespace

bool cuda_cast_f8(const tn_kernel_args *args, tn_status *status) {
  const tn_dtype from = cuda_dtype(args->in[0]), to = cuda_dtype(args->out[0]);
  const tn_cast_attrs *attrs = (const tn_cast_attrs *)args->attrs;
  const f8_format format = {to == TN_F8_E4M3, TN_FIELD_OR(attrs, tn_cast_attrs, overflow, 0) == 0};
  if (is_f8(to) && from == TN_F32)
    *status = map_run(args, to_f8<float>{format});
  else if (is_f8(to) && from == TN_F16)
    *status = map_run(args, to_f8<half_t>{format});
  else if (is_f8(to) && from == TN_BF16)
    *status = map_run(args, to_f8<bfloat_t>{format});
  else if (is_f8(from) && to == TN_F32)
    *status = map_run(args, from_f8<float>{from == TN_F8_E4M3});
  else if (is_f8(from) && to == TN_F16)
    *status = map_run(args, from_f8<half_t>{from == TN_F8_E4M3});
  else if (is_f8(from) && to == TN_BF16)
    *status = map_run(args, from_f8<bfloat_t>{from == TN_F8_E4M3});
  else
    return false;
  return true;
}
