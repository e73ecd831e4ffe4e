/*
 * Choosing, limiting and blending elements: where, clamp and its gradient, lerp, fma.
 */
#include <math.h>
#include <string.h>

#include <limits>

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

template <template <class> class F> tn_status select_by_size(const tn_kernel_args *args) {
  return for_size(args->out[0], [&](auto t) { return map_run(args, F<decltype(t)>{}); });
}

template <template <class> class F> tn_status select_float(const tn_kernel_args *args) {
  return for_float(args, args->out[0], [&](auto t) { return map_run(args, F<decltype(t)>{}); });
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

template <class T> compute_t<T> float_bound(double x) {
  if constexpr (sizeof(T) == 2)
    return float_to_odd(x);
  else
    return (T)x;
}

template <class T> tn_status run_clamp(const tn_kernel_args *args, double min, double max) {
  if constexpr (std::is_integral_v<T>) {
    using limits = std::numeric_limits<T>;
    return map_run(args,
                   clamp_int<T>{(T)int_bound(min, -(double)INFINITY, limits::min(), limits::max()),
                                (T)int_bound(max, (double)INFINITY, limits::min(), limits::max())});
  } else {
    return map_run(args, clamp_float<T>{float_bound<T>(min), float_bound<T>(max)});
  }
}

template <class T> tn_status run_clamp_grad(const tn_kernel_args *args, double min, double max) {
  if constexpr (sizeof(T) == 8)
    return map_run(args, clamp_slope<T>{min, max});
  else
    return map_run(args, clamp_slope<T>{float_not_below(min), float_not_above(max)});
}

} // namespace

tn_status cuda_run_where(const tn_kernel_args *args) { return select_by_size<where_of>(args); }
tn_status cuda_run_lerp(const tn_kernel_args *args) { return select_float<lerp_of>(args); }

tn_status cuda_run_fma(const tn_kernel_args *args) {
  int code = args->out[0]->dtype.code;
  bool real = code == kDLFloat || code == kDLBfloat;
  return real ? select_float<fma_float>(args) : select_by_size<fma_int>(args);
}

tn_status cuda_run_clamp(const tn_kernel_args *args) {
  const tn_clamp_attrs *k = (const tn_clamp_attrs *)args->attrs;
  return for_number(args, args->out[0],
                    [&](auto t) { return run_clamp<decltype(t)>(args, k->min, k->max); });
}

tn_status cuda_run_clamp_grad(const tn_kernel_args *args) {
  const tn_clamp_grad_attrs *k = (const tn_clamp_grad_attrs *)args->attrs;
  return for_float(args, args->out[0],
                   [&](auto t) { return run_clamp_grad<decltype(t)>(args, k->min, k->max); });
}
