/*
 * sum, mean, prod, any and all; the frame is in reduce.cuh.
 */
#include "kernels/cuda/reduce/reduce.cuh"

namespace {

__device__ float add(float a, float b) { return a + b; }
__device__ double add(double a, double b) { return a + b; }
__device__ int64_t add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

template <class T> struct sum_of {
  using C = accumulator_t<T>;
  using A = C;
  int dtype, result; /* of x and y */
  int64_t divisor;   /* of mean: the count; of sum: 1 */
  __device__ void start(C) {}
  __device__ A init() const { return 0; }
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
    if constexpr (std::is_floating_point_v<C>) {
      a += tree_sum<N>(v);
    } else {
#pragma unroll
      for (int j = 0; j < N; j++) a = add(a, v[j]);
    }
  }
  __device__ A join(A a, A b) const { return add(a, b); }
  __device__ void write(void *y, int64_t at, A a) const {
    element<T>::write(y, at, divisor == 1 ? a : a / (C)divisor, result);
  }
};

/* Products leave float's range and come back: floats are multiplied in double. */
template <class C> struct wide { using type = double; };
template <> struct wide<int64_t> { using type = int64_t; };

__device__ double multiply(double a, double b) { return a * b; }
__device__ int64_t multiply(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* Products of pairs of numbers of 16 bits, which floats hold exactly; false where one may leave
 * their range. */
template <int N> __device__ __forceinline__ bool multiply_pairs(float *y, const float *v) {
  float least = INFINITY, most = 0;
#pragma unroll
  for (int j = 0; j < N / 2; j++) {
    y[j] = v[2 * j] * v[2 * j + 1];
    least = fminf(least, fabsf(y[j]));
    most = fmaxf(most, fabsf(y[j]));
  }
  return least > 0x1p-100f && most < INFINITY;
}

template <class T> struct prod_of {
  using C = accumulator_t<T>;
  using A = typename wide<C>::type;
  int dtype, result; /* of x and y */
  __device__ void start(C) {}
  __device__ A init() const { return 1; }
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
    if constexpr (std::is_same_v<T, any_half> && N > 1) {
      C pair[N / 2];
      if (multiply_pairs<N>(pair, v)) {
#pragma unroll
        for (int j = 0; j < N / 2; j++) a = multiply(a, (A)pair[j]);
        return;
      }
    }
    A part[least(N, 4)];
#pragma unroll
    for (int j = 0; j < N; j++) part[j % 4] = j < 4 ? (A)v[j] : multiply(part[j % 4], (A)v[j]);
#pragma unroll
    for (int j = 1; j < least(N, 4); j++) part[0] = multiply(part[0], part[j]);
    a = multiply(a, part[0]);
  }
  __device__ A join(A a, A b) const { return multiply(a, b); }
  __device__ void write(void *y, int64_t at, A a) const { element<T>::write(y, at, (C)a, result); }
};

/* Whether one of N floats is 0, or is not. */
template <int N> __device__ __forceinline__ bool has_zero(const float *v) {
  float m = fabsf(v[0]);
#pragma unroll
  for (int j = 1; j < N; j++) m = fminf(m, fabsf(v[j]));
  return m == 0.0f;
}
template <int N> __device__ __forceinline__ bool has_other(const float *v) {
  uint32_t bits = 0;
#pragma unroll
  for (int j = 0; j < N; j++) bits |= __float_as_uint(v[j]);
  return bits << 1 != 0;
}

/* any looks for what is not 0, all for what is. */
template <class T> struct truth_of {
  using C = accumulator_t<T>;
  using A = int;
  int dtype;
  bool all;
  __device__ void start(C) {}
  __device__ A init() const { return 0; }
  template <int N, int G> __device__ void take(A &a, const C *v, int64_t, int64_t) const {
    bool found = false;
    if constexpr (sizeof(C) == 4) {
      found = all ? has_zero<N>(v) : has_other<N>(v);
    } else {
#pragma unroll
      for (int j = 0; j < N; j++) found |= (v[j] != 0) != all;
    }
    a |= (int)found;
  }
  __device__ A join(A a, A b) const { return a | b; }
  __device__ void write(void *y, int64_t at, A a) const { ((uint8_t *)y)[at] = (a != 0) != all; }
};

} // namespace

tn_status cuda_run_sum(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_widened_plan<sum_of>(args, &plan, (int64_t)1);
}

tn_status cuda_run_mean(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_float_plan<sum_of>(args, &plan, (int)cuda_dtype(args->out[0]), plan.reduced.count);
}

tn_status cuda_run_prod(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_widened_plan<prod_of>(args, &plan);
}

tn_status cuda_run_any(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_plan<truth_of>(args, &plan, false);
}

tn_status cuda_run_all(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_plan<truth_of>(args, &plan, true);
}
