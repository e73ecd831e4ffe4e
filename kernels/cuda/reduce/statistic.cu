/*
 * var, std, logsumexp and norm; the frame is in reduce.cuh. All carry doubles.
 */
#include "kernels/cuda/reduce/reduce.cuh"

namespace {

/* Sums of distances from the output's first element and of their squares: the distances
 * are of the size of the deviation, so that nothing cancels. */
struct moments {
  double sum, squares;
};

template <class T> struct variance_of {
  using C = accumulator_t<T>;
  using A = moments;
  int dtype;
  double count, divisor;
  bool root;
  C shift = 0;
  __device__ void start(C first) { shift = first; }
  __device__ A init() const { return {0, 0}; }
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
    add_distances<N, std::is_same_v<T, any_half>>(&a.sum, &a.squares, v, (double)shift);
  }
  __device__ A join(A a, A b) const { return {a.sum + b.sum, a.squares + b.squares}; }
  __device__ void write(void *y, int64_t at, A a) const {
    double rest = a.squares - a.sum * (a.sum / count);
    double v = (rest < 0 ? 0 : rest) / divisor;
    element<T>::write(y, at, (C)(root ? sqrt(v) : v), dtype);
  }
};

template <class C, class S = double> struct scaled {
  C most;
  S sum;
};

__device__ __forceinline__ float greatest(float) { return 0x1.fffffep127f; }
__device__ __forceinline__ double greatest(double) { return 0x1.fffffffffffffp1023; }

/* The largest so far, and the sum of e^(x - largest): that is taken to be finite, so that what is
 * infinite makes the sum infinite, or has no part in it. Sums over 16 bits are as precise as their
 * powers as floats. */
template <class T> struct logsumexp_of {
  using C = accumulator_t<T>;
  using S = std::conditional_t<std::is_same_v<T, any_half>, float, double>;
  using A = scaled<C, S>;
  int dtype;
  __device__ void start(C) {}
  __device__ A init() const { return {-greatest(C()), 0}; }
  static __device__ C power(C x) { return exponential<T>(x); }
  /* NaN is no larger than anything and makes the sum NaN. */
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
    C m = a.most, e[N];
#pragma unroll
    for (int j = 0; j < N; j++) m = fmax(m, v[j]);
    m = fmin(m, greatest(C()));
#pragma unroll
    for (int j = 0; j < N; j++) e[j] = power(v[j] - m);
    if (m > a.most) {
      a.sum *= (S)power(a.most - m);
      a.most = m;
    }
    a.sum += (S)tree_sum<N>(e);
  }
  __device__ A join(A a, A b) const {
    const C most = fmax(a.most, b.most);
    return {most, a.sum * (S)power(a.most - most) + b.sum * (S)power(b.most - most)};
  }
  __device__ void write(void *y, int64_t at, A a) const {
    element<T>::write(y, at, (C)((double)a.most + log((double)a.sum)), dtype);
  }
};

enum norm_kind { norm_1, norm_2, norm_inf };

/* In four parts, as precise as sums in pairs of so few. */
template <int N> __device__ __forceinline__ float sum_squares(const float *v) {
  float part[4] = {0, 0, 0, 0};
#pragma unroll
  for (int j = 0; j < N; j++) part[j % 4] = fmaf(v[j], v[j], part[j % 4]);
  return (part[0] + part[1]) + (part[2] + part[3]);
}
template <int N> __device__ __forceinline__ float sum_sizes(const float *v) {
  float part[4] = {0, 0, 0, 0};
#pragma unroll
  for (int j = 0; j < N; j++) part[j % 4] += fabsf(v[j]);
  return (part[0] + part[1]) + (part[2] + part[3]);
}

/* Squares of floats narrower than double stay inside double's range; those of some floats that
 * float holds are added as such first. */
template <class T> struct norm_of {
  using C = accumulator_t<T>;
  using A = double;
  int dtype;
  int kind;
  __device__ void start(C) {}
  __device__ A init() const { return 0; }
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
    if (kind == norm_inf) {
      C m = fabs(v[0]);
#pragma unroll
      for (int j = 1; j < N; j++) m = larger(m, fabs(v[j]));
      a = larger(a, (double)m);
      return;
    }
    const C sum = kind == norm_2 ? sum_squares<N>(v) : sum_sizes<N>(v);
    if (holds_squares(sum)) {
      a += (double)sum;
      return;
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
      double d = fabs((double)v[j]);
      a += kind == norm_2 ? d * d : d;
    }
  }
  __device__ A join(A a, A b) const { return kind == norm_inf ? larger(a, b) : a + b; }
  __device__ void write(void *y, int64_t at, A a) const {
    element<T>::write(y, at, (C)(kind == norm_2 ? sqrt(a) : a), dtype);
  }
};

/* Of double: the largest magnitude, and the sum of what the kind says of |x| / largest. */
template <> struct norm_of<double> {
  using C = double;
  using A = scaled<double>;
  int dtype;
  int kind;
  __device__ void start(C) {}
  __device__ A init() const { return {0, 0}; }
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
#pragma unroll
    for (int j = 0; j < N; j++) {
      double m = fabs(v[j]);
      a = join(a, {m, m == 0 ? 0.0 : 1.0});
    }
  }
  __device__ A join(A a, A b) const {
    if (a.most == b.most) return {a.most, a.sum + b.sum};
    bool low = b.most < a.most;
    double most = low ? a.most : b.most;
    double less = low ? b.most / a.most : a.most / b.most;
    if (kind == norm_2) less *= less;
    return {most, low ? a.sum + b.sum * less : a.sum * less + b.sum};
  }
  __device__ void write(void *y, int64_t at, A a) const {
    double v = a.most;
    if (a.sum != a.sum)
      v = a.sum;
    else if (v - v == 0 && kind != norm_inf)
      v *= kind == norm_2 ? sqrt(a.sum) : a.sum;
    ((double *)y)[at] = v;
  }
};

tn_status run_variance(const tn_kernel_args *args, bool root) {
  const tn_var_attrs *attrs = (const tn_var_attrs *)args->attrs; /* std has the same layout */
  cuda_reduce_plan plan = plan_of_axes(args);
  double count = (double)plan.reduced.count, divisor = count - attrs->correction;
  return run_float_plan<variance_of>(args, &plan, count, divisor > 0 ? divisor : 0.0, root);
}

} // namespace

tn_status cuda_run_var(const tn_kernel_args *args) { return run_variance(args, false); }

tn_status cuda_run_std(const tn_kernel_args *args) { return run_variance(args, true); }

tn_status cuda_run_logsumexp(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_float_plan<logsumexp_of>(args, &plan);
}

tn_status cuda_run_norm(const tn_kernel_args *args) {
  const tn_norm_attrs *attrs = (const tn_norm_attrs *)args->attrs;
  cuda_reduce_plan plan = plan_of_axes(args);
  int kind = attrs->ord == 1 ? norm_1 : attrs->ord == 2 ? norm_2 : norm_inf;
  return run_float_plan<norm_of>(args, &plan, kind);
}
