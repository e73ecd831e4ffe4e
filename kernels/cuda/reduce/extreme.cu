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

/* The largest of some, NaN where one is. */
template <int N, class C> __device__ __forceinline__ C largest(const C *v, bool mirror) {
  C m = mirror ? mirrored(v[0]) : v[0];
  if (mirror) {
#pragma unroll
    for (int j = 1; j < N; j++) m = larger(m, mirrored(v[j]));
  } else {
#pragma unroll
    for (int j = 1; j < N; j++) m = larger(m, v[j]);
  }
  return m;
}

template <class T> struct extreme_of {
  using C = accumulator_t<T>;
  using A = C;
  int dtype;
  bool mirror;
  __device__ void start(C) {}
  __device__ A init() const { return lowest(A()); }
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
    a = larger(a, largest<N>(v, mirror));
  }
  __device__ A join(A a, A b) const { return larger(a, b); }
  __device__ void write(void *y, int64_t at, A a) const {
    element<T>::write(y, at, mirror ? mirrored(a) : a, dtype);
  }
};

template <class C> struct place {
  C value;
  int64_t index;
};

/* The first of equals wins, and the first NaN over everything. Which of some elements it is
 * matters only where their largest is above all before. */
template <class T> struct argextreme_of {
  using C = accumulator_t<T>;
  using A = place<C>;
  int dtype;
  bool mirror;
  __device__ void start(C) {}
  __device__ A init() const { return {lowest(C()), INT64_MAX}; }
  template <int N, int G>
  __device__ void take(A &a, const C *v, int64_t first, int64_t step) const {
    const C m = largest<N>(v, mirror);
    const bool above = m > a.value || m != m || a.index == INT64_MAX;
    if (!above || a.value != a.value) return;
    const C sought = mirror ? mirrored(m) : m;
    int at = 0;
    if (m == m) {
#pragma unroll
      for (int n = N - 1; n >= 0; n--)
        if (v[n] == sought) at = n;
    } else {
#pragma unroll
      for (int n = N - 1; n >= 0; n--)
        if (v[n] != v[n]) at = n;
    }
    a = {m, first + at / G * step + at % G};
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
