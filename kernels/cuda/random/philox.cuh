/*
 * Filling a tensor with draws, in memory order: the words of a counter give so many elements, a
 * thread writes 16 bytes or one counter's elements at a time, several times, and the keys of all
 * rounds are made once. Tensors come contiguous.
 */
#ifndef KERNELS_CUDA_PHILOX_CUH
#define KERNELS_CUDA_PHILOX_CUH

#include "kernels/common/philox.h"
#include "kernels/cuda/base/common.cuh"
#include "kernels/cuda/base/scalars.cuh"

namespace {

enum { draw_threads = 256, draw_rounds = 4, philox_rounds = 10 };

struct philox_keys {
  uint32_t a[philox_rounds], b[philox_rounds];
};

__device__ __forceinline__ philox_keys philox_keys_of(uint64_t seed) {
  philox_keys k;
#pragma unroll
  for (int i = 0; i < philox_rounds; i++) {
    k.a[i] = (uint32_t)seed + (uint32_t)i * 0x9E3779B9u;
    k.b[i] = (uint32_t)(seed >> 32) + (uint32_t)i * 0xBB67AE85u;
  }
  return k;
}

/* philox_at, whose keys are made. */
__device__ __forceinline__ philox_words philox_with(const philox_keys &k, uint64_t counter) {
  philox_words c = {{(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}};
#pragma unroll
  for (int i = 0; i < philox_rounds; i++) c = philox4x32_round(c, k.a[i], k.b[i]);
  return c;
}

/* Elements that a thread writes in one access. */
template <class T, int PER> __host__ __device__ constexpr int draw_width() {
  return PER * most(1, 16 / ((int)sizeof(T) * PER));
}

template <class T, int PER> static bool draw_is_wide(const T *y) {
  return is_aligned(y, sizeof(T) * draw_width<T, PER>());
}

template <class T, int PER> static unsigned draw_blocks(int64_t n) {
  return (unsigned)ceil_div(n, (int64_t)draw_threads * draw_rounds * draw_width<T, PER>());
}

/* draw(words, y) makes the PER elements of a counter. */
template <int PER, class T, class Draw>
__device__ __forceinline__ void draw_share(T *y, int64_t n, const draw_origin &from, bool wide,
                                           Draw draw) {
  constexpr int N = draw_width<T, PER>();
  const uint64_t offset = from.offset();
  const philox_keys keys = philox_keys_of(from.seed());
#pragma unroll 1
  for (int round = 0; round < draw_rounds; round++) {
    const int64_t place = ((int64_t)blockIdx.x * draw_rounds + round) * draw_threads + threadIdx.x;
    const int64_t first = place * N;
    if (first >= n) return;
    pack<T, N> v;
#pragma unroll
    for (int k = 0; k < N / PER; k++)
      draw(philox_with(keys, offset + (uint64_t)(place * (N / PER) + k)), v.v + k * PER);
    if (wide && first + N <= n) {
      *(pack<T, N> *)(y + first) = v;
    } else {
#pragma unroll
      for (int i = 0; i < N; i++)
        if (first + i < n) y[first + i] = v.v[i];
    }
  }
}

} // namespace

#endif /* KERNELS_CUDA_PHILOX_CUH */
