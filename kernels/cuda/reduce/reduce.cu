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
  __device__ void start(const void *, int64_t) {}
  __device__ A init() const { return 0; }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    return element<T>::read(x, at, dtype);
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

template <class T> struct prod_of {
  using C = accumulator_t<T>;
  using A = typename wide<C>::type;
  int dtype, result; /* of x and y */
  __device__ void start(const void *, int64_t) {}
  __device__ A init() const { return 1; }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    return element<T>::read(x, at, dtype);
  }
  __device__ A join(A a, A b) const { return multiply(a, b); }
  __device__ void write(void *y, int64_t at, A a) const { element<T>::write(y, at, (C)a, result); }
};

/* any counts what is not 0 as 1 and takes the larger; all takes the smaller. */
template <class T> struct truth_of {
  using A = int;
  int dtype;
  int all;
  __device__ void start(const void *, int64_t) {}
  __device__ A init() const { return all; }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    return element<T>::read(x, at, dtype) != 0;
  }
  __device__ A join(A a, A b) const { return all ? a & b : a | b; }
  __device__ void write(void *y, int64_t at, A a) const { ((uint8_t *)y)[at] = (uint8_t)a; }
};

} // namespace

static bool is_widened(const tn_kernel_args *args) {
  return cuda_dtype(args->in[0]) != cuda_dtype(args->out[0]);
}

tn_status cuda_run_sum(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  if (is_widened(args)) return run_widened_plan<sum_of>(args, &plan, (int64_t)1);
  return run_plan<sum_of>(args, &plan, cuda_dtype(args->out[0]), (int64_t)1);
}

tn_status cuda_run_mean(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_float_plan<sum_of>(args, &plan, cuda_dtype(args->out[0]), plan.reduced.count);
}

tn_status cuda_run_prod(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  if (is_widened(args)) return run_widened_plan<prod_of>(args, &plan);
  return run_plan<prod_of>(args, &plan, cuda_dtype(args->out[0]));
}

tn_status cuda_run_any(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_plan<truth_of>(args, &plan, 0);
}

tn_status cuda_run_all(const tn_kernel_args *args) {
  cuda_reduce_plan plan = plan_of_axes(args);
  return run_plan<truth_of>(args, &plan, 1);
}
