/*
 * Sums of floats that go where data says, the same in whatever order threads come: elements are
 * added as whole numbers of one unit, small enough that no sum overflows 63 bits. The unit follows
 * from the largest element, so that sums are right to 2^-40 of it and better. Sums of images that
 * shared memory holds are a block's, each block's with a unit of its own; others are in workspace.
 */
#ifndef KERNELS_CUDA_FIXED_CUH
#define KERNELS_CUDA_FIXED_CUH

#include "kernels/cuda/base/background.cuh"
#include "kernels/cuda/base/place.cuh"

/* In workspace: how sums are kept, and the sums. `largest` holds the bits of a double, whose order
 * is theirs; infinite where an element is infinite or NaN, and sums are doubles then. */
struct fixed_sums {
  unsigned long long *largest, *sum;
  int64_t count;
  int slack; /* binary digits that all terms of one sum add to the largest */
};

static inline size_t fixed_bytes(int64_t count) { return (size_t)(count + 1) * sizeof(uint64_t); }

/* Binary digits that so many terms add. */
static inline int fixed_slack(double most_terms) {
  int slack = 1;
  for (; most_terms > 1; most_terms /= 2) slack++;
  return slack;
}

static inline fixed_sums fixed_sums_of(void *workspace, int64_t count, double most_terms) {
  return {(unsigned long long *)workspace, (unsigned long long *)workspace + 1, count,
          fixed_slack(most_terms)};
}

/* What elements are multiplied by to be whole numbers; 0 where sums are doubles. */
__device__ inline double fixed_unit_of(double largest, int slack) {
  if (!(largest < INFINITY)) return 0;
  int e = largest > 0 ? ilogb(largest) + 1 : 0;
  int shift = 62 - slack - e;
  return scalbn(1.0, shift > 1000 ? 1000 : shift);
}
__device__ inline double fixed_unit(const fixed_sums &f) {
  return fixed_unit_of(__longlong_as_double((long long)*f.largest), f.slack);
}

__device__ inline void fixed_add(const fixed_sums &f, double unit, int64_t at, double term) {
  if (unit != 0)
    atomicAdd(&f.sum[at], (unsigned long long)__double2ll_rn(term * unit));
  else
    atomicAdd((double *)&f.sum[at], term);
}

/* The bits of a warp's largest size; infinite for NaN, too. */
__device__ inline unsigned long long fixed_largest(double size) {
  if (size != size) size = INFINITY;
  unsigned long long bits = (unsigned long long)__double_as_longlong(size);
  for (int step = 16; step > 0; step /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffff, bits, step);
    bits = other > bits ? other : bits;
  }
  return bits;
}

__device__ inline double fixed_value(unsigned long long sum, double unit) {
  return unit != 0 ? (double)(long long)sum / unit : __longlong_as_double((long long)sum);
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
  const unsigned long long bits = fixed_largest(i < n ? fabs((double)load(x[i])) : 0);
  if (threadIdx.x % 32 == 0 && bits > *f.largest) atomicMax(f.largest, bits);
}

template <class T>
__global__ void __launch_bounds__(place_threads)
    fixed_write(T *y, const __grid_constant__ fixed_sums f) {
  int64_t i = thread_index<int64_t>();
  if (i >= f.count) return;
  double unit = fixed_unit(f);
  y[i] = stored<T>::from((compute_t<T>)fixed_value(f.sum[i], unit));
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

/* --- sums in shared memory --- */

enum { fixed_threads = 512, fixed_room = 100 * 1024 }; /* room: of two blocks side by side */

/* How many channels of one image of so many elements a block has; 0 where it can hold none. */
static inline int fixed_channels(const tn_kernel_args *args, int64_t images, int64_t channels,
                                 int64_t area, int most) {
  const int64_t room = fixed_room / 8 / area,
                blocks = ((const cuda_info *)args->device)->multiprocessors;
  int64_t group = room < most ? room : most;
  if (group > channels) group = channels;
  while (group > 1 && images * ceil_div(channels, group) < blocks) group--;
  return (int)group;
}

/* By a block of fixed_threads: sums of `count` elements of y. look() is the largest size that the
 * thread sees of what is added; add(sum, unit) adds, to sum[i] by fixed_put. */
template <class T, class Look, class Add>
__device__ __forceinline__ void fixed_block(unsigned long long *sum, int count, int slack, T *y,
                                            Look look, Add add) {
  __shared__ unsigned long long largest;
  if (threadIdx.x == 0) largest = 0;
  for (int i = threadIdx.x; i < count; i += fixed_threads) sum[i] = 0;
  __syncthreads();
  const unsigned long long bits = fixed_largest(look());
  if (threadIdx.x % 32 == 0) atomicMax(&largest, bits);
  __syncthreads();
  const double unit = fixed_unit_of(__longlong_as_double((long long)largest), slack);
  add(unit);
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += fixed_threads)
    y[i] = stored<T>::from((compute_t<T>)fixed_value(sum[i], unit));
}

/* Adds a term that was multiplied by the unit, or is a double where `unit` is 0. Shared memory adds
 * two halves faster than 64 bits. */
__device__ __forceinline__ void fixed_put(unsigned long long *sum, double unit, double term) {
  if (unit == 0) {
    atomicAdd((double *)sum, term);
    return;
  }
  const unsigned long long whole = (unsigned long long)__double2ll_rn(term);
  const uint32_t low = (uint32_t)whole, before = atomicAdd((uint32_t *)sum, low);
  const uint32_t high = (uint32_t)(whole >> 32) + (before + low < low);
  if (high) atomicAdd((uint32_t *)sum + 1, high);
}

#endif
