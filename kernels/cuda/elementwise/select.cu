/*
 * Choosing, limiting and blending elements: where, clamp and its gradient, lerp, fma.
 */
#include <math.h>
#include <string.h>

#include "kernels/cuda/base/map.cuh"
#include "kernels/cuda/base/narrow.cuh"

namespace {

/* By the size of the elements alone: bits are moved. */
template <class T> struct where_of {
  using Y = T;
  using A = uint8_t;
  using B = T;
  using Third = T;
  static constexpr int inputs = 3;
  __device__ __forceinline__ Y operator()(A condition, B a, Third b) const {
    return condition ? a : b;
  }
};

/* Bounds rounded to T by the store, which keeps order. */
template <class T> struct clamp_float {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 1;
  compute_t<T> min, max;
  __device__ __forceinline__ Y operator()(A a, B) const {
    compute_t<T> x = load(a);
    x = x < min ? min : x;
    return stored<T>::from(x > max ? max : x);
  }
};

template <class T> struct clamp_int {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 1;
  T min, max;
  __device__ __forceinline__ Y operator()(A x, B) const {
    x = x < min ? min : x;
    return x > max ? max : x;
  }
};

/* Bounds in T's own grid: nothing of T lies between them and those that were given. */
template <class T> struct clamp_slope {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  compute_t<T> min, max;
  __device__ __forceinline__ Y operator()(A dy, B b) const {
    compute_t<T> x = load(b);
    return x < min || x > max ? T{} : dy;
  }
};

/* In double and not contracted, as on every device. */
template <class T> struct lerp_of {
  using Y = T;
  using A = T;
  using B = T;
  using Third = T;
  static constexpr int inputs = 3;
  __device__ __forceinline__ Y operator()(A x, B y, Third z) const {
    double a = (double)load(x), b = (double)load(y), t = (double)load(z), way = __dsub_rn(b, a);
    double low = __dadd_rn(a, __dmul_rn(t, way));
    double high = __dsub_rn(b, __dmul_rn(__dsub_rn(1, t), way));
    double between = t < 0.5 ? low : high;
    return narrowed<T>::from(t == 0 ? a : t == 1 ? b : between);
  }
};

/* The product of two 16-bit floats is a double; its sum with c is rounded to odd, so that
 * narrowing it is the one rounding. */
template <class T> struct fma_float {
  using Y = T;
  using A = T;
  using B = T;
  using Third = T;
  static constexpr int inputs = 3;
  __device__ __forceinline__ Y operator()(A x, B y, Third z) const {
    double product = __dmul_rn((double)load(x), (double)load(y)), c = (double)load(z);
    double sum = __dadd_rn(product, c), from_c = __dsub_rn(sum, product);
    double error = __dadd_rn(__dsub_rn(product, __dsub_rn(sum, from_c)), __dsub_rn(c, from_c));
    long long bits = __double_as_longlong(sum);
    if ((error < 0 || error > 0) && (bits & 1) == 0) bits += (error > 0) != (sum < 0) ? 1 : -1;
    return narrowed<T>::from(__longlong_as_double(bits));
  }
};
template <> struct fma_float<float> {
  using Y = float;
  using A = float;
  using B = float;
  using Third = float;
  static constexpr int inputs = 3;
  __device__ __forceinline__ float operator()(float a, float b, float c) const {
    return __fmaf_rn(a, b, c);
  }
};
template <> struct fma_float<double> {
  using Y = double;
  using A = double;
  using B = double;
  using Third = double;
  static constexpr int inputs = 3;
  __device__ __forceinline__ double operator()(double a, double b, double c) const {
    return __fma_rn(a, b, c);
  }
};

/* Modulo 2^bits, so by size alone. */
template <class T> struct fma_int {
  using Y = T;
  using A = T;
  using B = T;
  using Third = T;
  static constexpr int inputs = 3;
  __device__ __forceinline__ Y operator()(A a, B b, Third c) const {
    return (T)((uint64_t)a * (uint64_t)b + (uint64_t)c);
  }
};

template <template <class> class F> tn_status run_by_size(const tn_kernel_args *args) {
  switch (args->out[0]->dtype.bits) {
  case 8:
    return map_run(args, F<uint8_t>{});
  case 16:
    return map_run(args, F<uint16_t>{});
  case 32:
    return map_run(args, F<uint32_t>{});
  default:
    return map_run(args, F<uint64_t>{});
  }
}

template <template <class> class F> tn_status run_float(const tn_kernel_args *args) {
  switch (cuda_dtype(args->out[0])) {
  case TN_F32:
    return map_run(args, F<float>{});
  case TN_F16:
    return map_run(args, F<half_t>{});
  case TN_BF16:
    return map_run(args, F<bfloat_t>{});
  case TN_F64:
    return map_run(args, F<double>{});
  default:
    return bad_dtype(args);
  }
}

float float_not_below(double x) {
  float f = (float)x;
  return (double)f < x ? nextafterf(f, INFINITY) : f;
}

float float_not_above(double x) {
  float f = (float)x;
  return (double)f > x ? nextafterf(f, -INFINITY) : f;
}

/* Rounded to odd, so that the store's rounding of a bound to 16 bits is the only one. */
float float_to_odd(double x) {
  float down = float_not_above(x);
  if ((double)down == x || x != x) return down;
  float up = float_not_below(x);
  uint32_t bits;
  memcpy(&bits, &down, sizeof bits);
  return bits & 1 ? down : up;
}

/* Towards zero, saturating; NaN: none. */
int64_t int_bound(double x, double none, int64_t low, int64_t high) {
  if (x != x) x = none;
  if (x <= (double)low) return low;
  if (x >= (double)high) return high;
  return (int64_t)x;
}

template <class T>
tn_status run_clamp_int(const tn_kernel_args *args, double min, double max, int64_t low,
                        int64_t high) {
  return map_run(args, clamp_int<T>{(T)int_bound(min, -(double)INFINITY, low, high),
                                    (T)int_bound(max, (double)INFINITY, low, high)});
}

} // namespace

tn_status cuda_run_where(const tn_kernel_args *args) { return run_by_size<where_of>(args); }
tn_status cuda_run_lerp(const tn_kernel_args *args) { return run_float<lerp_of>(args); }

tn_status cuda_run_fma(const tn_kernel_args *args) {
  int code = args->out[0]->dtype.code;
  bool real = code == kDLFloat || code == kDLBfloat;
  return real ? run_float<fma_float>(args) : run_by_size<fma_int>(args);
}

tn_status cuda_run_clamp(const tn_kernel_args *args) {
  const tn_clamp_attrs *attrs = (const tn_clamp_attrs *)args->attrs;
  double min = attrs->min, max = attrs->max;
  switch (cuda_dtype(args->out[0])) {
  case TN_F32:
    return map_run(args, clamp_float<float>{(float)min, (float)max});
  case TN_F16:
    return map_run(args, clamp_float<half_t>{float_to_odd(min), float_to_odd(max)});
  case TN_BF16:
    return map_run(args, clamp_float<bfloat_t>{float_to_odd(min), float_to_odd(max)});
  case TN_F64:
    return map_run(args, clamp_float<double>{min, max});
  case TN_U8:
    return run_clamp_int<uint8_t>(args, min, max, 0, UINT8_MAX);
  case TN_I8:
    return run_clamp_int<int8_t>(args, min, max, INT8_MIN, INT8_MAX);
  case TN_I16:
    return run_clamp_int<int16_t>(args, min, max, INT16_MIN, INT16_MAX);
  case TN_I32:
    return run_clamp_int<int32_t>(args, min, max, INT32_MIN, INT32_MAX);
  default:
    return run_clamp_int<int64_t>(args, min, max, INT64_MIN, INT64_MAX);
  }
}

tn_status cuda_run_clamp_grad(const tn_kernel_args *args) {
  const tn_clamp_grad_attrs *attrs = (const tn_clamp_grad_attrs *)args->attrs;
  float min = float_not_below(attrs->min), max = float_not_above(attrs->max);
  switch (cuda_dtype(args->out[0])) {
  case TN_F32:
    return map_run(args, clamp_slope<float>{min, max});
  case TN_F16:
    return map_run(args, clamp_slope<half_t>{min, max});
  case TN_BF16:
    return map_run(args, clamp_slope<bfloat_t>{min, max});
  case TN_F64:
    return map_run(args, clamp_slope<double>{attrs->min, attrs->max});
  default:
    return bad_dtype(args);
  }
}
