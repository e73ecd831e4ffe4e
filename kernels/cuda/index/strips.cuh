/*
 * The order in which threads go through a tensor seen as [outer, count, inner] whose elements go,
 * or come from, anywhere along the middle axis. In rows of memory such accesses fall all over the
 * other tensor, which no cache holds; strips of 32 columns, one after the other, keep to the same
 * columns of it, which the L2 cache does hold.
 */
#ifndef KERNELS_CUDA_INDEX_STRIPS_CUH
#define KERNELS_CUDA_INDEX_STRIPS_CUH

#include "kernels/cuda/base/place.cuh"

enum {
  strip_width = 32,
  strip_rows = place_threads / strip_width,
  strip_items = 4, /* elements of a thread */
  strip_least_width = 2 * strip_width,
};

/* pre: at most CUDA_MAX_INDEX elements. */
struct strips {
  uint32_t n, count, inner;
  int across; /* 0: in rows of memory */
  cuda_divisor row_blocks, per_outer;
};

static inline strips strips_of(int64_t outer, int64_t count, int64_t inner) {
  strips s = {(uint32_t)(outer * count * inner), (uint32_t)count, (uint32_t)inner};
  s.across = inner >= strip_least_width && count >= strip_rows * strip_items;
  if (!s.across) return s;
  s.row_blocks = cuda_divisor_of((uint32_t)ceil_div(count, strip_rows * strip_items));
  s.per_outer = cuda_divisor_of((uint32_t)ceil_div(inner, strip_width));
  return s;
}

/* Strips there are, where elements lie in strips. */
static inline uint32_t strips_count(const strips &s) {
  return s.n / s.count / s.inner * s.per_outer.value;
}

static inline unsigned strips_blocks(const strips &s) {
  if (!s.across) return (unsigned)ceil_div(s.n, place_threads * strip_items);
  return strips_count(s) * s.row_blocks.value;
}

/* A thread's elements: first + k * step for k < left. Where they lie in strips: rows row + k *
 * strip_rows of strip `strip`. */
struct strip_cursor {
  uint32_t first, step, left, strip, row;
};

__device__ __forceinline__ strip_cursor strips_cursor(const strips &s, uint32_t block) {
  if (!s.across) {
    uint32_t first = block * (place_threads * strip_items) + threadIdx.x;
    uint32_t left = first < s.n ? (s.n - first + place_threads - 1) / place_threads : 0;
    return {first, place_threads, left, 0, 0};
  }
  uint32_t strip = quotient(block, s.row_blocks);
  uint32_t rows = block - strip * s.row_blocks.value, outer = quotient(strip, s.per_outer);
  uint32_t column = (strip - outer * s.per_outer.value) * strip_width + threadIdx.x % strip_width;
  uint32_t row = rows * (strip_rows * strip_items) + threadIdx.x / strip_width;
  bool any = row < s.count && column < s.inner;
  return {(outer * s.count + row) * s.inner + column, strip_rows * s.inner,
          any ? (s.count - row + strip_rows - 1) / strip_rows : 0, strip, row};
}

__device__ __forceinline__ strip_cursor strips_cursor(const strips &s) {
  return strips_cursor(s, blockIdx.x);
}

#endif /* KERNELS_CUDA_INDEX_STRIPS_CUH */
