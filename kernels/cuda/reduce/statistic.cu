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
  using A = moments;
  int dtype;
  double count, divisor;
  bool root;
  double shift = 0;
  __device__ void start(const void *x, int64_t at) {
    shift = (double)element<T>::read(x, at, dtype);
  }
  __device__ A init() const { return {0, 0}; }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    double d = (double)element<T>::read(x, at, dtype) - shift;
    return {d, d * d};
  }
  __device__ A join(A a, A b) const { return {a.sum + b.sum, a.squares + b.squares}; }
  __device__ void write(void *y, int64_t at, A a) const {
    double rest = a.squares - a.sum * (a.sum / count);
    double v = (rest < 0 ? 0 : rest) / divisor;
    element<T>::write(y, at, (accumulator_t<T>)(root ? sqrt(v) : v), dtype);
  }
};

__device__ float exp_of(float x) { return expf(x); }
__device__ double exp_of(double x) { return exp(x); }

/* The largest so far and the sum of e^(x - largest). */
template <class C> struct scaled {
  C most;
  double sum;
};

template <class T> struct logsumexp_of {
  using C = accumulator_t<T>;
  using A = scaled<C>;
  int dtype;
  __device__ void start(const void *, int64_t) {}
  __device__ A init() const { return {(C)-INFINITY, 0}; }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    return {element<T>::read(x, at, dtype), 1};
  }
  /* With NaN among them both the largest and the sum stop being numbers, or the sum does. */
  __device__ A join(A a, A b) const {
    if (a.most == b.most) return {a.most, a.sum + b.sum};
    bool low = b.most < a.most;
    C most = low ? a.most : b.most;
    double less = (double)exp_of(low ? b.most - a.most : a.most - b.most);
    return {most, low ? a.sum + b.sum * less : a.sum * less + b.sum};
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

__device__ double larger(double a, double b) { return a != a || a >= b ? a : b; }

/* Squares of floats narrower than double stay inside double's range. */
template <class T> struct norm_of {
  using A = double;
  int dtype;
  int kind;
  __device__ void start(const void *, int64_t) {}
  __device__ A init() const { return 0; }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    double v = (double)element<T>::read(x, at, dtype);
    return kind == norm_2 ? v * v : fabs(v);
  }
  __device__ A join(A a, A b) const { return kind == norm_inf ? larger(a, b) : a + b; }
  __device__ void write(void *y, int64_t at, A a) const {
    element<T>::write(y, at, (accumulator_t<T>)(kind == norm_2 ? sqrt(a) : a), dtype);
  }
};

/* Of double: the largest magnitude, and the sum of what the kind says of |x| / largest. */
template <> struct norm_of<double> {
  using A = scaled<double>;
  int dtype;
  int kind;
  __device__ void start(const void *, int64_t) {}
  __device__ A init() const { return {0, 0}; }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    double v = fabs(((const double *)x)[at]);
    return {v, v == 0 ? 0.0 : 1.0};
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
