/*
 * Selection by one block among items of 64 bits, of which ~0 stands for none: a bound that those
 * that are needed are within, by counting them in equal parts of the range that they lie in.
 * Included by select_delegates.cu.
 */
#ifndef KERNELS_CUDA_INDEX_SELECT_BLOCK_CUH
#define KERNELS_CUDA_INDEX_SELECT_BLOCK_CUH

#include "kernels/cuda/base/common.cuh"

typedef unsigned long long u64;

enum { part_bits = 11, parts_count = 1 << part_bits };

/* Shared memory of a block. */
struct block_room {
  uint32_t parts[parts_count];
  u64 least[32], most[32]; /* of warps */
  uint32_t warps[32];
  uint32_t part, before, inside, count;
};

/* From `least` to `most`; of no items, the other way round. */
struct range {
  u64 least, most;
};

__device__ __forceinline__ range no_range() { return {~(u64)0, 0}; }
__device__ __forceinline__ void extend(range *r, u64 item) {
  r->least = item < r->least ? item : r->least;
  r->most = item > r->most ? item : r->most;
}

__device__ __forceinline__ range range_of_warp(range r) {
#pragma unroll
  for (int step = 16; step; step /= 2) {
    const u64 least = __shfl_xor_sync(~0u, r.least, step),
              most = __shfl_xor_sync(~0u, r.most, step);
    r.least = least < r.least ? least : r.least;
    r.most = most > r.most ? most : r.most;
  }
  return r;
}

/* The range of all threads' ranges, by T threads. */
template <int T> __device__ __forceinline__ range range_of_block(block_room &m, range r) {
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  r = range_of_warp(r);
  __syncthreads(); /* what was there has been read */
  if (lane == 0) {
    m.least[warp] = r.least;
    m.most[warp] = r.most;
  }
  __syncthreads();
  return range_of_warp({m.least[lane % (T / 32)], m.most[lane % (T / 32)]});
}

/* In each lane the sum of the lanes up to it. */
__device__ __forceinline__ uint32_t sum_upto(uint32_t own) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t step = 1; step < 32; step *= 2) {
    const uint32_t left = __shfl_up_sync(~0u, own, step);
    if (lane >= step) own += left;
  }
  return own;
}

/* Counts the thread's items in r, by parts of 2^shift; equal neighbours are added at once. */
template <int T, class Item>
__device__ __forceinline__ void count_parts(block_room &m, Item item, uint32_t count,
                                            const range &r, int shift) {
  uint32_t last = ~0u, run = 0;
  for (uint32_t i = threadIdx.x; i < count; i += T) {
    const u64 x = item(i);
    if (x < r.least || x > r.most) continue;
    const uint32_t part = (uint32_t)((x - r.least) >> shift);
    if (part != last) {
      if (run) atomicAdd(&m.parts[last], run);
      last = part;
      run = 0;
    }
    run++;
  }
  if (run) atomicAdd(&m.parts[last], run);
}

/* Into m: the part that the need-th item lies in, how many stand in front of it, `base` of them
 * before all parts, and how many lie in it. */
template <int T>
__device__ __forceinline__ void find_part(block_room &m, uint32_t base, uint32_t need) {
  constexpr int each = parts_count / T;
  static_assert(each >= 1 && parts_count % T == 0 && T % 32 == 0 && T <= 1024, "threads");
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t own[each], sum = 0;
#pragma unroll
  for (int e = 0; e < each; e++) {
    own[e] = m.parts[threadIdx.x * each + e];
    sum += own[e];
  }
  const uint32_t upto = sum_upto(sum);
  if (lane == 31) m.warps[warp] = upto;
  __syncthreads();
  const uint32_t in_front = __reduce_add_sync(~0u, lane < warp ? m.warps[lane] : 0);
  uint32_t before = base + in_front + upto - sum;
  if (before >= need || need > before + sum) return;
#pragma unroll
  for (int e = 0; e < each; e++) {
    if (before < need && need <= before + own[e]) {
      m.part = threadIdx.x * each + e;
      m.before = before;
      m.inside = own[e];
    }
    before += own[e];
  }
}

/* A bound that the `need` least of items 0 .. count - 1 are within, and no more than `most` are,
 * unless several items are equal. item(i) is asked by thread i % T alone. All items lie from r on,
 * and those that are needed in r. idle: this thread has none of them. By T threads. */
template <int T, class Item>
__device__ __forceinline__ u64 bound_of(block_room &m, Item item, uint32_t count, uint32_t need,
                                        uint32_t most, range r, bool idle) {
  uint32_t base = 0;
  for (;;) {
    const int bits = 64 - __clzll((long long)(r.most - r.least));
    const int shift = bits > part_bits ? bits - part_bits : 0;
    for (uint32_t p = threadIdx.x; p < parts_count; p += T) m.parts[p] = 0;
    __syncthreads();
    if (!idle) count_parts<T>(m, item, count, r, shift);
    __syncthreads();
    find_part<T>(m, base, need);
    __syncthreads();
    const u64 from = r.least + ((u64)m.part << shift);
    u64 upto = from + (((u64)1 << shift) - 1);
    if (upto > r.most || upto < from) upto = r.most;
    if (m.before + m.inside <= most || shift == 0) return upto;
    base = m.before;
    range own = no_range();
    if (!idle)
      for (uint32_t i = threadIdx.x; i < count; i += T) {
        const u64 x = item(i);
        if (x >= from && x <= upto) extend(&own, x);
      }
    r = range_of_block<T>(m, own);
  }
}

/* By T threads: puts s[0 .. count) in order (bitonic); count is a power of two. Pairs less than 32
 * apart are a warp's own. */
template <int T> __device__ __forceinline__ void sort_items(u64 *s, uint32_t count) {
  __syncthreads();
  for (uint32_t size = 2; size <= count; size *= 2)
    for (uint32_t step = size / 2; step; step /= 2) {
      if (step >= 32)
        __syncthreads();
      else
        __syncwarp();
      for (uint32_t i = threadIdx.x; i < count / 2; i += T) {
        const uint32_t a = i / step * 2 * step + i % step, b = a + step;
        const u64 u = s[a], v = s[b];
        if ((u > v) == ((a & size) == 0)) {
          s[a] = v;
          s[b] = u;
        }
      }
    }
  __syncthreads();
}

#endif /* KERNELS_CUDA_INDEX_SELECT_BLOCK_CUH */
