/*
 * Division with remainder, powers, angles and lengths. Floats are computed in float where that is
 * exact or right to less than the rows' bounds, else in double: CUDA's functions of float32 are out
 * by up to 4 units in the last place. Quotients come out as on every device.
 */
#include <math_constants.h>

#include "kernels/common/wide/exp.h"
#include "kernels/cuda/base/map.cuh"
#include "kernels/cuda/base/narrow.cuh"
#include "kernels/cuda/elementwise/log2_table.cuh"
#include "kernels/cuda/elementwise/single_powers.cuh"

namespace {

enum power_op { op_floor_div, op_mod, op_fmod, op_pow, op_atan2, op_hypot };

/* sqrt(a^2 + b^2) with its rounding put right by what the squares lost (Borges 2019, arXiv
 * 1904.09481). The vendor's function errs by 2 ULP, which overflows at the greatest double. */
__device__ double length(double a, double b) {
  double x = fmax(fabs(a), fabs(b)), y = fmin(fabs(a), fabs(b));
  if (isinf(a) || isinf(b)) return CUDART_INF;
  if (isnan(a) || isnan(b) || y == 0) return a != a || b != b ? a + b : x;
  double scale = x > 0x1p500 ? 0x1p-600 : x < 0x1p-500 ? 0x1p600 : 1;
  x *= scale;
  y *= scale;
  double h = sqrt(fma(x, x, y * y)), h2 = __dmul_rn(h, h), x2 = __dmul_rn(x, x);
  double lost = fma(-y, y, h2 - x2) + fma(h, h, -h2) - fma(x, x, -x2);
  return (h - lost / (2 * h)) / scale;
}

/* The same of floats whose greater square and its root stay normal, within 1.3 ULP. */
__device__ __forceinline__ bool single_length_serves(float a, float b) {
  const float big = fmaxf(fabsf(a), fabsf(b));
  return ((big >= 0x1p-60f && big <= 0x1p60f) || big == 0.0f) && a == a && b == b;
}
__device__ __forceinline__ float single_length(float a, float b) {
  const float big = fmaxf(fabsf(a), fabsf(b)), small = fminf(fabsf(a), fabsf(b));
  return single_root(fmaf(big, big, __fmul_rn(small, small)));
}

__device__ __forceinline__ double modulo(double rest, double b) {
  if (rest == 0) return copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

__device__ __forceinline__ double floor_quotient(double a, double b, double rest) {
  if (b == 0) return a / b;
  double quotient = __ddiv_rn(__dsub_rn(a, rest), b);
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  return quotient == 0 ? copysign(0.0, a / b) : rint(quotient);
}

__device__ __forceinline__ double remainder_of(int op, double a, double b) {
  double rest = fmod(a, b);
  if (op == op_fmod) return rest;
  return op == op_mod ? modulo(rest, b) : floor_quotient(a, b, rest);
}

/* The same in float. The remainder lies within 3/4 of b and is right or one b off. */
__device__ __forceinline__ float remainder_single(int op, float a, float b) {
  const single_division d = single_divide(a, b);
  const float like = op == op_fmod ? a : b; /* whose sign the remainder has */
  const bool off = d.rest != 0 && (d.rest < 0) != (like < 0);
  if (op != op_floor_div)
    return copysignf(off ? __fadd_rn(d.rest, copysignf(b, like)) : d.rest, like);
  const float whole = off ? d.whole - 1.0f : d.whole;
  return whole == 0 ? copysignf(0.0f, copysignf(1.0f, a) * copysignf(1.0f, b)) : whole;
}

/* The three remainders share one kernel per type. */
template <class T> struct remainder_float {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  int op;
  __device__ __forceinline__ compute_t<T> in_float(compute_t<T> a, compute_t<T> b) const {
    if constexpr (sizeof(T) < 8)
      if (single_divides(a, b)) return remainder_single(op, a, b);
    return before_narrowing<T>(remainder_of(op, (double)a, (double)b));
  }
  __device__ __forceinline__ Y operator()(A a, B b) const {
    return stored<T>::from(in_float(load(a), load(b)));
  }
};

/* 1 / x to 2^-40. */
__device__ __forceinline__ double reciprocal_of(double x) {
  double y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return fma(y, fma(-x, y, 1.0), y);
}

/* ln x to 2^-31 of it, x being a normal number: as wide_log. */
__device__ __forceinline__ double logarithm_of(double x) {
  const int high = __double2hiint(x), power = (high - 0x3fe6a09e) >> 20;
  const double f = __hiloint2double(high - (power << 20), __double2loint(x)) - 1.0;
  const double k = __hiloint2double(0x43300000, power ^ (int)0x80000000) - (0x1p52 + 0x1p31);
  const double s = f * reciprocal_of(2.0 + f), z = s * s;
  double p = fma(0.23330581938280376, z, 0.28550816599709566);
  p = fma(p, z, 0.40000121876972028);
  p = fma(p, z, 0.66666666554451648);
  return fma(k, 0.69314718055994531, fma(s * z, p, 2.0 * s));
}

/* a^b of numbers that were floats; what is left to pow has no logarithm or power of its own. */
__device__ __forceinline__ double power_of(double a, double b) {
  const double size = fabs(a);
  if (size == 0 && b != 0 && fabs(b) < 0x1p22) { /* common among numbers, as others here are not */
    const double y = b > 0 ? 0 : CUDART_INF;
    return rint(b) == b && rint(0.5 * b) != 0.5 * b ? copysign(y, a) : y;
  }
  if (!(size > 0 && size < CUDART_INF && fabs(b) < CUDART_INF)) return pow(a, b);
  const double y = wide_exp(b * logarithm_of(size)), half = 0.5 * b;
  if (a > 0) return y;
  return rint(b) != b ? CUDART_NAN : rint(half) != half ? -y : y;
}

/* As single_pow, of bfloat16, whose logarithms are in a table. */
__device__ __forceinline__ single_powered short_pow(float a, float b) {
  const uint32_t bits = __float_as_uint(a);
  const float2 l = __ldg(&log2_table[bits >> 16 & 127u]);
  const int power = (int)(bits & 0x7f800000u) - 0x3f800000;
  const float whole = fmaf((float)power, 0x1p-23f, l.x), e = __fmul_rn(b, whole);
  return single_pow_of(a, b, e, fmaf(b, l.y, fmaf(b, whole, -e)));
}

/* Of numbers that were floats, where float does not serve. Called, since it is long and rare. */
template <power_op op> __device__ __noinline__ double rare_power(float x, float y) {
  const double a = (double)x, b = (double)y;
  return op == op_pow ? power_of(a, b) : op == op_atan2 ? atan2(a, b) : hypot(a, b);
}

template <power_op op, class T> struct power_float {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  __device__ __forceinline__ compute_t<T> in_float(compute_t<T> x, compute_t<T> y) const {
    if constexpr (sizeof(T) == 8) {
      return op == op_pow ? pow(x, y) : op == op_atan2 ? atan2(x, y) : length(x, y);
    } else if constexpr (op == op_pow) {
      constexpr bool is_short = std::is_same_v<T, bfloat_t>;
      const single_powered p = is_short ? short_pow(x, y) : single_pow(x, y);
      return p.serves ? p.value : (float)rare_power<op>(x, y);
    } else {
      if (op == op_atan2 && single_atan2_serves(x, y)) return single_atan2(x, y);
      if (op == op_hypot && single_length_serves(x, y)) return single_length(x, y);
      return before_narrowing<T>(rare_power<op>(x, y));
    }
  }
  __device__ __forceinline__ Y operator()(A a, B b) const {
    return stored<T>::from(in_float(load(a), load(b)));
  }
};

template <class T> __device__ __forceinline__ bool is_negative(T x) {
  if constexpr ((T)-1 > (T)1)
    return false;
  else
    return x < 0;
}

/* By squaring; 1 / a^-b towards zero. */
template <class T> __device__ T power_int(T a, T b) {
  if (is_negative(b)) return a == 1 ? (T)1 : a == (T)-1 ? ((b & 1) ? (T)-1 : (T)1) : (T)0;
  uint64_t y = 1, square = (uint64_t)a;
  for (T rest = b; rest; rest = (T)(rest >> 1)) {
    if (rest & 1) y *= square;
    square *= square;
  }
  return (T)y;
}

template <class T> struct power_integer {
  using Y = T;
  using A = T;
  using B = T;
  static constexpr int inputs = 2;
  int op;
  __device__ __forceinline__ Y operator()(A a, B b) const {
    if (op == op_pow) return power_int(a, b);
    if (b == 0) return 0;
    bool minus_one = is_negative((T)-1) && b == (T)-1;
    if (minus_one) return op == op_floor_div ? (T)(0 - (uint64_t)a) : (T)0;
    T rest = (T)(a % b);
    bool off = rest != 0 && is_negative(rest) != is_negative(b);
    if (op == op_fmod) return rest;
    if (op == op_mod) return off ? (T)(rest + b) : rest;
    return (T)(a / b - (off ? 1 : 0));
  }
};

tn_status remainder_run(const tn_kernel_args *args, int op) {
  return for_number(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T>)
      return map_run(args, power_integer<T>{op});
    else
      return map_run(args, remainder_float<T>{op});
  });
}

template <power_op op> tn_status power_run(const tn_kernel_args *args) {
  return for_number(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T>)
      return map_run(args, power_integer<T>{op});
    else
      return map_run(args, power_float<op, T>{});
  });
}

} // namespace

tn_status cuda_run_floor_div(const tn_kernel_args *args) {
  return remainder_run(args, op_floor_div);
}
tn_status cuda_run_mod(const tn_kernel_args *args) { return remainder_run(args, op_mod); }
tn_status cuda_run_fmod(const tn_kernel_args *args) { return remainder_run(args, op_fmod); }
tn_status cuda_run_pow(const tn_kernel_args *args) { return power_run<op_pow>(args); }
tn_status cuda_run_atan2(const tn_kernel_args *args) { return power_run<op_atan2>(args); }
tn_status cuda_run_hypot(const tn_kernel_args *args) { return power_run<op_hypot>(args); }
