/*
 * max, min, argmax and argmin; the frame is in reduce.cuh. Minima are the maxima of what
 * mirrors the order: -x for floats, ~x for integers, which has no overflow.
 */
#include "kernels/cuda/reduce/reduce.cuh"

namespace {

__device__ float lowest(float) { return -INFINITY; }
__device__ double lowest(double) { return -(double)INFINITY; }
__device__ int64_t lowest(int64_t) { return INT64_MIN; }
__device__ float mirrored(float x) { return -x; }
__device__ double mirrored(double x) { return -x; }
__device__ int64_t mirrored(int64_t x) { return ~x; }

template <class T> struct extreme_of {
  using C = accumulator_t<T>;
  using A = C;
  int dtype;
  bool mirror;
  __device__ void start(const void *, int64_t) {}
  __device__ A init() const { return lowest(A()); }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    C v = element<T>::read(x, at, dtype);
    return mirror ? mirrored(v) : v;
  }
  __device__ A join(A a, A b) const { return a != a || a >= b ? a : b; }
  __device__ void write(void *y, int64_t at, A a) const {
    element<T>::write(y, at, mirror ? mirrored(a) : a, dtype);
  }
};

template <class C> struct place {
  C value;
  int64_t index;
};

/* The first of equals wins, and the first NaN over everything. */
template <class T> struct argextreme_of {
  using C = accumulator_t<T>;
  using A = place<C>;
  int dtype;
  bool mirror;
  __device__ void start(const void *, int64_t) {}
  __device__ A init() const { return {lowest(C()), INT64_MAX}; }
  __device__ A read(const void *x, int64_t at, int64_t index) const {
    C v = element<T>::read(x, at, dtype);
    return {mirror ? mirrored(v) : v, index};
  }
  __device__ A join(A a, A b) const {
    bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    bool tie = (a_nan && b_nan) || a.value == b.value;
    bool take_a = tie ? a.index < b.index : a_nan || (!b_nan && a.value > b.value);
    return take_a ? a : b;
  }
  __device__ void write(void *y, int64_t at, A a) const { ((int64_t *)y)[at] = a.index; }
};

} // namespace

tn_status cuda_run_max(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_plan<extreme_of>(args, &plan, false);
}

tn_status cuda_run_min(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_plan<extreme_of>(args, &plan, true);
}

tn_status cuda_run_argmax(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axis(args);
  return run_plan<argextreme_of>(args, &plan, false);
}

tn_status cuda_run_argmin(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axis(args);
  return run_plan<argextreme_of>(args, &plan, true);
}
