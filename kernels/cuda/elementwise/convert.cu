/*
 * Moving and converting: copy, cast, fill. Copies move bits by element size. Casts
 * between the types that programs convert in bulk have kernels of their own; all
 * others, and all strided ones, go through one kernel that carries a float as float64
 * and an integer as int64, which holds every source exactly, so that the one rounding
 * is the last step.
 */
#include "kernels/cuda/base/float8.cuh"
#include "kernels/cuda/base/map.cuh"
#include "kernels/cuda/elementwise/convert.cuh"
#include "kernels/cuda/elementwise/convert_f8.h"

namespace {

/* Conversions among float32 and smaller types, without the detour. */
template <class From, class To> struct quick_cast {
  using Y = To;
  using A = From;
  using B = From;
  static constexpr int inputs = 1;
  __device__ __forceinline__ Y operator()(A a, B) const {
    return stored<To>::from((compute_t<To>)load(a));
  }
};
template <class From> struct quick_to_bool {
  using Y = bool_t;
  using A = From;
  using B = From;
  static constexpr int inputs = 1;
  __device__ __forceinline__ Y operator()(A a, B) const {
    return stored<bool_t>::from(load(a) != 0);
  }
};
/* Where the target is a 32- or 64-bit integer, the source a float32 or smaller. */
template <class From, class To> struct quick_to_int {
  using Y = To;
  using A = From;
  using B = From;
  static constexpr int inputs = 1;
  __device__ __forceinline__ Y operator()(A a, B) const {
    float x = load(a);
    if (x != x) return 0;
    return sizeof(To) == 8 ? (To)__float2ll_rz(x) : (To)__float2int_rz(x);
  }
};

/* From int64 to 16 bits, with one rounding. */
template <class To> struct wide_cast {
  using Y = To;
  using A = int64_t;
  using B = int64_t;
  static constexpr int inputs = 1;
  __device__ __forceinline__ Y operator()(A a, B) const { return convert<To>::from(a); }
};

/* --- the general cast: element types at run time --- */

/* An element type, and whether values too large for an 8-bit float become its largest. */
struct cast_target {
  int dtype;
  bool saturate;
};

__device__ void store_f8(void *y, int64_t at, cast_target to, float odd) {
  ((f8_t *)y)[at] = f8_round(odd, {to.dtype == TN_F8_E4M3, to.saturate});
}

__device__ void store_as(void *y, int64_t at, cast_target to, double x) {
  switch (to.dtype) {
  case TN_F8_E4M3:
  case TN_F8_E5M2:
    store_f8(y, at, to, odd_float(x));
    break;
  case TN_F64:
    ((double *)y)[at] = x;
    break;
  case TN_F32:
    ((float *)y)[at] = convert<float>::from(x);
    break;
  case TN_F16:
    ((half_t *)y)[at] = convert<half_t>::from(x);
    break;
  case TN_BF16:
    ((bfloat_t *)y)[at] = convert<bfloat_t>::from(x);
    break;
  case TN_I64:
    ((int64_t *)y)[at] = convert<int64_t>::from(x);
    break;
  case TN_I32:
    ((int32_t *)y)[at] = convert<int32_t>::from(x);
    break;
  case TN_I16:
    ((int16_t *)y)[at] = convert<int16_t>::from(x);
    break;
  case TN_I8:
    ((int8_t *)y)[at] = convert<int8_t>::from(x);
    break;
  case TN_U8:
    ((uint8_t *)y)[at] = convert<uint8_t>::from(x);
    break;
  default:
    ((bool_t *)y)[at] = convert<bool_t>::from(x);
    break;
  }
}

__device__ void store_as(void *y, int64_t at, cast_target to, int64_t x) {
  switch (to.dtype) {
  case TN_F8_E4M3:
  case TN_F8_E5M2:
    store_f8(y, at, to, odd_float(x));
    break;
  case TN_F64:
    ((double *)y)[at] = convert<double>::from(x);
    break;
  case TN_F32:
    ((float *)y)[at] = convert<float>::from(x);
    break;
  case TN_F16:
    ((half_t *)y)[at] = convert<half_t>::from(x);
    break;
  case TN_BF16:
    ((bfloat_t *)y)[at] = convert<bfloat_t>::from(x);
    break;
  case TN_I64:
    ((int64_t *)y)[at] = x;
    break;
  case TN_I32:
    ((int32_t *)y)[at] = (int32_t)x;
    break;
  case TN_I16:
    ((int16_t *)y)[at] = (int16_t)x;
    break;
  case TN_I8:
    ((int8_t *)y)[at] = (int8_t)x;
    break;
  case TN_U8:
    ((uint8_t *)y)[at] = (uint8_t)x;
    break;
  default:
    ((bool_t *)y)[at] = convert<bool_t>::from(x);
    break;
  }
}

__device__ void cast_one(void *y, int64_t to_at, cast_target to, const void *x, int64_t at,
                         int from) {
  switch (from) {
  case TN_F8_E4M3:
  case TN_F8_E5M2:
    return store_as(y, to_at, to, (double)f8_load(((const f8_t *)x)[at], from == TN_F8_E4M3));
  case TN_F64:
    return store_as(y, to_at, to, ((const double *)x)[at]);
  case TN_F32:
    return store_as(y, to_at, to, (double)((const float *)x)[at]);
  case TN_F16:
    return store_as(y, to_at, to, (double)load(((const half_t *)x)[at]));
  case TN_BF16:
    return store_as(y, to_at, to, (double)load(((const bfloat_t *)x)[at]));
  case TN_I64:
    return store_as(y, to_at, to, ((const int64_t *)x)[at]);
  case TN_I32:
    return store_as(y, to_at, to, (int64_t)((const int32_t *)x)[at]);
  case TN_I16:
    return store_as(y, to_at, to, (int64_t)((const int16_t *)x)[at]);
  case TN_I8:
    return store_as(y, to_at, to, (int64_t)((const int8_t *)x)[at]);
  default:
    return store_as(y, to_at, to, (int64_t)((const uint8_t *)x)[at]);
  }
}

enum { cast_items = 4 };

/* base_y and base_x count elements from the tensors' first ones. Neighbours take neighbouring
 * elements, and each of them several, a block apart. */
__global__ void __launch_bounds__(map_threads)
    any_cast(void *y, int64_t base_y, cast_target to, const void *x, int64_t base_x, int from,
             const __grid_constant__ cuda_layout l) {
#pragma unroll 1
  for (int k = 0; k < cast_items; k++) {
    uint32_t rest = (blockIdx.x * cast_items + k) * map_threads + threadIdx.x;
    int64_t at_y = base_y, at_x = base_x;
    if (rest >= l.count) return;
    for (int d = l.rank - 1; d >= 0; d--) {
      const uint32_t q = d > 0 ? quotient(rest, l.size[d]) : 0;
      const int64_t r = rest - q * l.size[d].value;
      rest = q;
      at_y += r * l.stride[0][d];
      at_x += r * l.stride[1][d];
    }
    cast_one(y, at_y, to, x, at_x, from);
  }
}

tn_status run_any_cast(const tn_kernel_args *args, int64_t base_y, int64_t base_x,
                       const cuda_shape *shape) {
  if (cuda_shape_count(shape) <= CUDA_MAX_INDEX) {
    const tn_cast_attrs *attrs = (const tn_cast_attrs *)args->attrs;
    const cast_target to = {(int)cuda_dtype(args->out[0]),
                            TN_FIELD_OR(attrs, tn_cast_attrs, overflow, 0) == 0};
    cuda_layout l;
    cuda_layout_of(&l, shape, 2);
    return launch(args, any_cast, (unsigned)ceil_div(l.count, map_threads * cast_items),
                  map_threads, 0, args->out[0]->data, base_y, to, args->in[0]->data, base_x,
                  (int)cuda_dtype(args->in[0]), l);
  }
  cuda_shape part = *shape;
  int dim = 0;
  while (part.size[dim] < 2) dim++;
  int64_t half = part.size[dim] / 2;
  part.size[dim] = half;
  tn_status status = run_any_cast(args, base_y, base_x, &part);
  if (status != TN_OK) return status;
  part.size[dim] = shape->size[dim] - half;
  return run_any_cast(args, base_y + half * part.stride[0][dim],
                      base_x + half * part.stride[1][dim], &part);
}

template <class T> struct same {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 1;
  __device__ __forceinline__ Y operator()(A a, B) const { return a; }
};

tn_status run_copy(const tn_kernel_args *args) {
  tn_status status;
  if (cuda_copy_apart(args, &status)) return status;
  return for_size(args->out[0], [&](auto t) { return map_run(args, same<decltype(t)>{}); });
}

template <class T> struct constant {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 0;
  double value;
  __device__ __forceinline__ Y operator()(A, B) const { return convert<T>::from(value); }
};

/* A pair of element types as one number. */
constexpr int pair_of(int from, int to) { return from * TN_DTYPE_SLOTS + to; }

tn_status run_cast(const tn_kernel_args *args) {
  tn_dtype from = cuda_dtype(args->in[0]), to = cuda_dtype(args->out[0]);
  tn_status status;
  const bool saturates =
      TN_FIELD_OR((const tn_cast_attrs *)args->attrs, tn_cast_attrs, overflow, 0) == 0;
  if (from == to && !(to == TN_F8_E5M2 && saturates)) return run_copy(args);
  if (cuda_cast_f8(args, &status)) return status;
  switch (pair_of(from, to)) {
  case pair_of(TN_F32, TN_F16):
    return map_run(args, quick_cast<float, half_t>{});
  case pair_of(TN_F32, TN_BF16):
    return map_run(args, quick_cast<float, bfloat_t>{});
  case pair_of(TN_F32, TN_F64):
    return map_run(args, quick_cast<float, double>{});
  case pair_of(TN_F16, TN_F32):
    return map_run(args, quick_cast<half_t, float>{});
  case pair_of(TN_F16, TN_BF16):
    return map_run(args, quick_cast<half_t, bfloat_t>{});
  case pair_of(TN_BF16, TN_F32):
    return map_run(args, quick_cast<bfloat_t, float>{});
  case pair_of(TN_BF16, TN_F16):
    return map_run(args, quick_cast<bfloat_t, half_t>{});
  case pair_of(TN_F64, TN_F32):
    return map_run(args, quick_cast<double, float>{});
  case pair_of(TN_BOOL, TN_F32):
  case pair_of(TN_U8, TN_F32):
    return map_run(args, quick_cast<uint8_t, float>{});
  case pair_of(TN_I32, TN_F32):
    return map_run(args, quick_cast<int32_t, float>{});
  case pair_of(TN_I64, TN_F32):
    return map_run(args, quick_cast<int64_t, float>{});
  case pair_of(TN_BOOL, TN_I64):
  case pair_of(TN_U8, TN_I64):
    return map_run(args, quick_cast<uint8_t, int64_t>{});
  case pair_of(TN_I32, TN_I64):
    return map_run(args, quick_cast<int32_t, int64_t>{});
  case pair_of(TN_I64, TN_I32):
    return map_run(args, quick_cast<int64_t, int32_t>{});
  case pair_of(TN_F16, TN_I64):
    return map_run(args, quick_to_int<half_t, int64_t>{});
  case pair_of(TN_BF16, TN_I64):
    return map_run(args, quick_to_int<bfloat_t, int64_t>{});
  case pair_of(TN_I64, TN_F16):
    return map_run(args, wide_cast<half_t>{});
  case pair_of(TN_I64, TN_BF16):
    return map_run(args, wide_cast<bfloat_t>{});
  case pair_of(TN_U8, TN_F16):
  case pair_of(TN_BOOL, TN_F16):
    return map_run(args, quick_cast<uint8_t, half_t>{});
  case pair_of(TN_U8, TN_BF16):
  case pair_of(TN_BOOL, TN_BF16):
    return map_run(args, quick_cast<uint8_t, bfloat_t>{});
  case pair_of(TN_F16, TN_BOOL):
    return map_run(args, quick_to_bool<half_t>{});
  case pair_of(TN_BF16, TN_BOOL):
    return map_run(args, quick_to_bool<bfloat_t>{});
  case pair_of(TN_F32, TN_I32):
    return map_run(args, quick_to_int<float, int32_t>{});
  case pair_of(TN_F32, TN_I64):
    return map_run(args, quick_to_int<float, int64_t>{});
  case pair_of(TN_F32, TN_BOOL):
    return map_run(args, quick_to_bool<float>{});
  default:
    break;
  }
  const DLTensor *tensors[] = {args->out[0], args->in[0]};
  cuda_shape shape;
  cuda_shape_of(&shape, 2, tensors, true);
  return cuda_shape_count(&shape) == 0 ? TN_OK : run_any_cast(args, 0, 0, &shape);
}

} // namespace

tn_status cuda_run_copy(const tn_kernel_args *args) { return run_copy(args); }
tn_status cuda_run_cast(const tn_kernel_args *args) { return run_cast(args); }

tn_status cuda_run_fill(const tn_kernel_args *args) {
  double value = ((const tn_fill_attrs *)args->attrs)->value;
  const tn_dtype dtype = cuda_dtype(args->out[0]);
  if (is_f8(dtype)) /* by its bits */
    return map_run(args, constant<uint8_t>{(double)cuda_value_bits(dtype, value)});
  return for_all(args, args->out[0],
                 [&](auto t) { return map_run(args, constant<decltype(t)>{value}); });
}
