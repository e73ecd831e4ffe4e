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
  double shift = 0;
  __device__ void start(C first) { shift = (double)first; }
  __device__ A init() const { return {0, 0}; }
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
    add_distances<N>(&a.sum, &a.squares, v, shift);
  }
  __device__ A join(A a, A b) const { return {a.sum + b.sum, a.squares + b.squares}; }
  __device__ void write(void *y, int64_t at, A a) const {
    double rest = a.squares - a.sum * (a.sum / count);
    double v = (rest < 0 ? 0 : rest) / divisor;
    element<T>::write(y, at, (C)(root ? sqrt(v) : v), dtype);
  }
};

/* The largest so far and the sum of e^(x - base), its base being the largest, or 0 where that is
 * infinite. */
template <class C> struct scaled {
  C most;
  double sum;
};

template <class T> struct logsumexp_of {
  using C = accumulator_t<T>;
  using A = scaled<C>;
  int dtype;
  __device__ void start(C) {}
  __device__ A init() const { return {(C)-INFINITY, 0}; }
  static __device__ C base(C most) { return most - most == 0 ? most : (C)0; }
  static __device__ C power(C x) { return exponential<T>(x); }
  /* What is -infinity has no part in a sum that is still 0, and infinity times 0 is none. */
  static __device__ double moved(A a, C to) {
    return a.sum == 0 ? a.sum : a.sum * (double)power(base(a.most) - to);
  }
  /* NaN is no larger than anything and makes the sum NaN. */
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
    C m = a.most, e[N];
#pragma unroll
    for (int j = 0; j < N; j++) m = v[j] > m ? v[j] : m;
    const C from = base(m);
    if (m > a.most) {
      a.sum = moved(a, from);
      a.most = m;
    }
#pragma unroll
    for (int j = 0; j < N; j++) e[j] = power(v[j] - from);
    a.sum += (double)tree_sum<N>(e);
  }
  __device__ A join(A a, A b) const {
    C most = b.most > a.most ? b.most : a.most, to = base(most);
    return {most, moved(a, to) + moved(b, to)};
  }
  __device__ void write(void *y, int64_t at, A a) const {
    double v = (double)a.most;
    if (a.sum != a.sum)
      v = a.sum;
    else if (v - v == 0)
      v += log(a.sum);
    element<T>::write(y, at, (C)v, dtype);
  }
};

enum norm_kind { norm_1, norm_2, norm_inf };

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
    C part[N];
    if (kind == norm_inf) {
      C m = fabs(v[0]);
#pragma unroll
      for (int j = 1; j < N; j++) m = larger(m, fabs(v[j]));
      a = larger(a, (double)m);
      return;
    }
#pragma unroll
    for (int j = 0; j < N; j++) part[j] = kind == norm_2 ? v[j] * v[j] : fabs(v[j]);
    const C sum = tree_sum<N>(part);
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
