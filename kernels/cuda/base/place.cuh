/* What the kernels that move elements by rule or by index share. */
#ifndef KERNELS_CUDA_PLACE_CUH
#define KERNELS_CUDA_PLACE_CUH

#include "kernels/cuda/base/dispatch.cuh"

enum { place_threads = 256 };

/* A size to divide by: 32 bits by multiplication where everything is small enough, else
 * 64 bits by dividing. */
struct place_divisor {
  cuda_divisor narrow;
  uint64_t value;
};

static inline place_divisor place_divisor_of(int64_t value) {
  return {cuda_divisor_of((uint32_t)(value <= CUDA_MAX_INDEX ? value : 0)), (uint64_t)value};
}

/* n / d and the rest of it. */
__device__ __forceinline__ void split(uint32_t n, place_divisor d, uint32_t *q, uint32_t *r) {
  *q = quotient(n, d.narrow);
  *r = n - *q * d.narrow.value;
}
__device__ __forceinline__ void split(uint64_t n, place_divisor d, uint64_t *q, uint64_t *r) {
  *q = n / d.value;
  *r = n - *q * d.value;
}

/* The index of the thread's element, in a grid of one dimension. */
template <class I> __device__ __forceinline__ I thread_index() {
  return (I)blockIdx.x * place_threads + threadIdx.x;
}

static inline unsigned place_blocks(int64_t n) { return (unsigned)ceil_div(n, place_threads); }

/* An index tensor of i32 or i64. */
struct indexes {
  const void *data;
  int wide;
  int64_t n; /* size of the axis that it goes along */

  /* A place on the axis; -1 outside it. */
  __device__ __forceinline__ int64_t at(int64_t i) const {
    return inside(wide ? ((const int64_t *)data)[i] : (int64_t)((const int32_t *)data)[i]);
  }

  /* The same of what is read no second time soon. */
  __device__ __forceinline__ int64_t at_once(int64_t i) const {
    return inside(wide ? __ldcs((const long long *)data + i)
                       : (int64_t)__ldcs((const int32_t *)data + i));
  }

  __device__ __forceinline__ int64_t inside(int64_t k) const {
    if (k < 0) k += n;
    return k >= 0 && k < n ? k : -1;
  }
};

static inline indexes indexes_of(const DLTensor *index, int64_t n) {
  return indexes{index->data, index->dtype.bits == 64, n};
}

/* Bits of 16 bytes. */
typedef pack<uint64_t, 2> wide_bits;

/* The widest access, in bytes, that divides `bytes` and suits both pointers. */
static inline int64_t widest_access(int64_t bytes, const void *a, const void *b) {
  int64_t w = 16;
  while (bytes % w || !is_aligned(a, (size_t)w) || !is_aligned(b, (size_t)w)) w /= 2;
  return w;
}

/* Calls fn<U> for an access of `bytes` bytes. */
#define BY_BYTES(bytes, fn, ...)                                                                   \
  ((bytes) == 1   ? fn<uint8_t>(__VA_ARGS__)                                                       \
   : (bytes) == 2 ? fn<uint16_t>(__VA_ARGS__)                                                      \
   : (bytes) == 4 ? fn<uint32_t>(__VA_ARGS__)                                                      \
   : (bytes) == 8 ? fn<uint64_t>(__VA_ARGS__)                                                      \
                  : fn<wide_bits>(__VA_ARGS__))

#endif
