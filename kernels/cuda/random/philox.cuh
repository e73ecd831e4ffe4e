/*
 * Filling a tensor with draws, in memory order: the words of a counter give so many elements, and a
 * thread has several counters under way, whose products it else would wait for. Philox's wide
 * products bound what draws little else; the two that a counter's low word does not reach are made
 * once a block. Tensors come contiguous.
 */
#ifndef KERNELS_CUDA_PHILOX_CUH
#define KERNELS_CUDA_PHILOX_CUH

#include "kernels/common/philox.h"
#include "kernels/cuda/base/common.cuh"
#include "kernels/cuda/base/scalars.cuh"

namespace {

enum { draw_threads = 256, philox_rounds = 10 };

struct philox_keys {
  uint32_t a[philox_rounds], b[philox_rounds];
};

/* Kept in registers: to make them anew for each counter would take as long as half its products. */
__device__ __forceinline__ philox_keys philox_keys_of(uint64_t seed) {
  philox_keys k;
#pragma unroll
  for (int i = 0; i < philox_rounds; i++) {
    k.a[i] = (uint32_t)seed + (uint32_t)i * 0x9E3779B9u;
    k.b[i] = (uint32_t)(seed >> 32) + (uint32_t)i * 0xBB67AE85u;
    asm volatile("" : "+r"(k.a[i]), "+r"(k.b[i]));
  }
  return k;
}

/* The rounds from number i on. */
__device__ __forceinline__ philox_words philox_from(const philox_keys &k, philox_words c, int i) {
#pragma unroll
  for (; i < philox_rounds; i++) c = philox4x32_round(c, k.a[i], k.b[i]);
  return c;
}

/* philox_at for the counters of a block. */
struct philox_block {
  philox_keys keys;
  uint64_t first;
  uint32_t high, low; /* of the second round's product of what the counter's high word gives */

  __device__ __forceinline__ philox_block(const draw_origin &from, uint64_t counter)
      : keys(philox_keys_of(from.seed())), first(from.offset() + counter) {
    const philox_words c = {{0, (uint32_t)(first >> 32), 0, 0}};
    const uint64_t product = (uint64_t)0xD2511F53u * (c.w[1] ^ keys.a[0]);
    high = (uint32_t)(product >> 32) ^ keys.b[1];
    low = (uint32_t)product;
    asm volatile("" : "+r"(high), "+r"(low));
  }
  /* Whether counter number i has the high word of the first. */
  __device__ __forceinline__ bool is_near(uint32_t i) const {
    return (uint32_t)first + i >= (uint32_t)first;
  }
  /* pre: is_near(i) */
  __device__ __forceinline__ philox_words near(uint32_t i) const {
    const uint64_t p = (uint64_t)0xD2511F53u * ((uint32_t)first + i);
    const uint64_t q = (uint64_t)0xCD9E8D57u * ((uint32_t)(p >> 32) ^ keys.b[0]);
    const philox_words c = {
        {(uint32_t)(q >> 32) ^ keys.a[1], (uint32_t)q, high ^ (uint32_t)p, low}};
    return philox_from(keys, c, 2);
  }
  __device__ __forceinline__ philox_words any(uint32_t i) const {
    const uint64_t counter = first + i;
    return philox_from(keys, {{(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}}, 0);
  }
};

/* Elements that a thread writes in one access, and its accesses under way together. */
template <class T, int PER> __host__ __device__ constexpr int draw_width() {
  return PER * most(1, 16 / ((int)sizeof(T) * PER));
}
template <class T, int PER> __host__ __device__ constexpr int draw_packs() {
  return draw_width<T, PER>() == PER ? 2 : 1;
}

template <class T, int PER> static bool draw_is_wide(const T *y) {
  return is_aligned(y, sizeof(T) * draw_width<T, PER>());
}

/* How often a thread does that, and the elements of a block. */
static int draw_rounds(int64_t n) { return n >= 1 << 22 ? 8 : 1; }

template <class T, int PER> __host__ __device__ constexpr int draw_step() {
  return draw_threads * draw_width<T, PER>() * draw_packs<T, PER>();
}

template <class T, int PER> static unsigned draw_blocks(int64_t n) {
  return (unsigned)ceil_div(n, (int64_t)draw_step<T, PER>() * draw_rounds(n));
}

/* A block's share: `whole` elements from `begin` on, `left` of them there. */
template <class T, int PER> struct draw_part {
  int64_t begin;
  int whole, left;
  __device__ __forceinline__ draw_part(int64_t n, int rounds) {
    whole = draw_step<T, PER>() * rounds;
    begin = (int64_t)blockIdx.x * whole;
    left = n - begin < whole ? (int)(n - begin) : whole;
  }
  __device__ __forceinline__ bool is_plain(const philox_block &source, bool wide) const {
    return wide && left == whole && source.is_near(whole / PER);
  }
  /* Elements of the thread's access number p of a round. */
  __device__ __forceinline__ int at(int round, int p) const {
    constexpr int N = draw_width<T, PER>(), P = draw_packs<T, PER>();
    return ((round * P + p) * draw_threads + (int)threadIdx.x) * N;
  }
};

/* draw(words, y) makes the PER elements of a counter. */
template <int PER, class T, class Draw>
__device__ __forceinline__ void draw_share(T *y, int64_t n, const draw_origin &from, int rounds,
                                           bool wide, Draw draw) {
  constexpr int N = draw_width<T, PER>(), P = draw_packs<T, PER>();
  const draw_part<T, PER> part(n, rounds);
  const philox_block source(from, (uint64_t)part.begin / PER);
  y += part.begin;
  if (!part.is_plain(source, wide)) {
#pragma unroll 1
    for (int i = threadIdx.x * PER; i < part.left; i += draw_threads * PER) {
      T v[PER];
      draw(source.any(i / PER), v);
#pragma unroll
      for (int k = 0; k < PER; k++)
        if (i + k < part.left) y[i + k] = v[k];
    }
    return;
  }
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    pack<T, N> v[P];
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
      for (int k = 0; k < N; k += PER) draw(source.near((part.at(round, p) + k) / PER), v[p].v + k);
#pragma unroll
    for (int p = 0; p < P; p++) *(pack<T, N> *)(y + part.at(round, p)) = v[p];
  }
}

/* Two floats side by side as T has them. */
template <class T> __device__ __forceinline__ void draw_put(T *v, float even, float odd) {
  if constexpr (sizeof(T) == 2) {
    const uint32_t pair = pair_of(even, odd, T());
    v[0].bits = (unsigned short)pair;
    v[1].bits = (unsigned short)(pair >> 16);
  } else {
    v[0] = even;
    v[1] = odd;
  }
}

} // namespace

#endif /* KERNELS_CUDA_PHILOX_CUH */
