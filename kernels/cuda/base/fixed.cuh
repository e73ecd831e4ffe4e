/*
 * Sums of floats that go where data says, the same in whatever order threads come: elements are
 * added as whole numbers of one unit, small enough that no sum overflows 63 bits. The unit follows
 * from the largest element, so that sums are right to 2^-40 of it and better.
 */
#ifndef KERNELS_CUDA_FIXED_CUH
#define KERNELS_CUDA_FIXED_CUH

#include "kernels/cuda/base/place.cuh"

/* In workspace: how sums are kept, and the sums. `largest` holds the bits of a double, whose order
 * is theirs; infinite where an element is infinite or NaN, and sums are doubles then. */
struct fixed_sums {
  unsigned long long *largest, *sum;
  int64_t count;
  int slack; /* binary digits that all terms of one sum add to the largest */
};

static inline size_t fixed_bytes(int64_t count) { return (size_t)(count + 1) * sizeof(uint64_t); }

static inline fixed_sums fixed_sums_of(void *workspace, int64_t count, double most_terms) {
  fixed_sums f = {(unsigned long long *)workspace, (unsigned long long *)workspace + 1, count, 1};
  while (most_terms > 1) {
    most_terms /= 2;
    f.slack++;
  }
  return f;
}

/* What elements are multiplied by to be whole numbers; 0 where sums are doubles. */
__device__ inline double fixed_unit(const fixed_sums &f) {
  double largest = __longlong_as_double((long long)*f.largest);
  if (!(largest < INFINITY)) return 0;
  int e = largest > 0 ? ilogb(largest) + 1 : 0;
  int shift = 62 - f.slack - e;
  return scalbn(1.0, shift > 1000 ? 1000 : shift);
}

__device__ inline void fixed_add(const fixed_sums &f, double unit, int64_t at, double term) {
  if (unit != 0)
    atomicAdd(&f.sum[at], (unsigned long long)__double2ll_rn(term * unit));
  else
    atomicAdd((double *)&f.sum[at], term);
}

namespace {

__global__ void __launch_bounds__(place_threads) fixed_clear(const __grid_constant__ fixed_sums f) {
  int64_t i = thread_index<int64_t>();
  if (i <= f.count) f.largest[i] = 0; /* the sums lie behind */
}

template <class T>
__global__ void __launch_bounds__(place_threads)
    fixed_look(const T *x, int64_t n, const __grid_constant__ fixed_sums f) {
  int64_t i = thread_index<int64_t>();
  double v = i < n ? fabs((double)load(x[i])) : 0;
  if (v != v) v = INFINITY;
  unsigned long long bits = (unsigned long long)__double_as_longlong(v);
  for (int step = 16; step > 0; step /= 2) {
    unsigned long long other = __shfl_xor_sync(0xffffffff, bits, step);
    bits = other > bits ? other : bits;
  }
  if (threadIdx.x % 32 == 0 && bits > *f.largest) atomicMax(f.largest, bits);
}

template <class T>
__global__ void __launch_bounds__(place_threads)
    fixed_write(T *y, const __grid_constant__ fixed_sums f) {
  int64_t i = thread_index<int64_t>();
  if (i >= f.count) return;
  double unit = fixed_unit(f);
  double v = unit != 0 ? (double)(long long)f.sum[i] / unit : ((const double *)f.sum)[i];
  y[i] = stored<T>::from((compute_t<T>)v);
}

} // namespace

/* Clears the sums, calls add(), which launches what adds n elements of x times weights, and writes
 * the sums to y. */
template <class T, class Add>
static tn_status fixed_run(const tn_kernel_args *args, const fixed_sums &f, const T *x, int64_t n,
                           T *y, Add add) {
  tn_status status = launch(args, fixed_clear, place_blocks(f.count + 1), place_threads, 0, f);
  if (status == TN_OK && n)
    status = launch(args, fixed_look<T>, place_blocks(n), place_threads, 0, x, n, f);
  if (status == TN_OK && n) status = add();
  if (status == TN_OK && f.count)
    status = launch(args, fixed_write<T>, place_blocks(f.count), place_threads, 0, y, f);
  return status;
}

#endif
