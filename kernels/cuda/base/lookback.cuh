/*
 * One pass over tiles of a row that need what the tiles before them come to. A tile publishes its
 * own result and reads those before it (decoupled look-back, Merrill and Garland 2016), but joins
 * them in an order that depends on places alone, so that sums of floats have the same bits every
 * time: 32 tiles make a group and 32 groups a span; the last tile of a group publishes the group's
 * result, and the last tile of a span what the row comes to up to its end. One warp looks at the
 * tiles of the group while another looks at the groups.
 *
 * A result is published in words of 16 bytes, half of each the result's and half the sign that it
 * is there: a word is read and written in one access, so nothing need be ordered.
 *
 * Tiles are numbered as blocks start, so that a block waits only for blocks that run already.
 */
#ifndef KERNELS_CUDA_BASE_LOOKBACK_CUH
#define KERNELS_CUDA_BASE_LOOKBACK_CUH

#include <string.h>

#include "kernels/cuda/base/common.cuh"

/* Words of a result of type A. */
template <class A> __host__ __device__ constexpr int published_words() {
  return ((int)sizeof(A) + 7) / 8;
}

/* Memory of results, zero before the launch, behind a counter of blocks that began. */
struct published {
  uint32_t *started;
  char *words;
};

enum { published_word = 16, published_head = 256 };

static inline published published_of(void *memory) {
  return {(uint32_t *)memory, (char *)memory + published_head};
}

static inline size_t published_bytes(size_t results, int words) {
  return published_head + results * (size_t)words * published_word;
}

/* Clears it, in the call's stream. */
static inline tn_status published_begin(const tn_kernel_args *args, const published &p,
                                        size_t results, int words) {
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  cudaError_t error = cudaMemsetAsync(p.started, 0, published_bytes(results, words),
                                      (cudaStream_t)args->native_stream);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, "cudaMemsetAsync");
}

/* The number of this block's tile, counted over all rows, in every thread. */
__device__ __forceinline__ uint32_t published_tile(const published &p) {
  __shared__ uint32_t number;
  if (threadIdx.x == 0) number = atomicAdd(p.started, 1u);
  __syncthreads();
  return number;
}

template <class A>
__device__ __forceinline__ void published_put(const published &p, size_t at, const A &a) {
  constexpr int words = published_words<A>();
  uint64_t w[words] = {};
  memcpy(w, &a, sizeof a);
#pragma unroll
  for (int i = 0; i < words; i++)
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(
                     p.words + (at * words + (size_t)i) * published_word),
                 "l"(w[i]), "l"((uint64_t)1)
                 : "memory");
}

/* Waits for a result. */
template <class A> __device__ __forceinline__ A published_get(const published &p, size_t at) {
  constexpr int words = published_words<A>();
  uint64_t w[words], set[words], all;
  do {
    all = 1;
#pragma unroll
    for (int i = 0; i < words; i++)
      asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                   : "=l"(w[i]), "=l"(set[i])
                   : "l"(p.words + (at * words + (size_t)i) * published_word)
                   : "memory");
#pragma unroll
    for (int i = 0; i < words; i++) all &= set[i];
  } while (!all);
  A a;
  memcpy(&a, w, sizeof a);
  return a;
}

/* Results of `rows` rows of `tiles` tiles each. */
struct lookback {
  published results;
  uint32_t tiles, groups, spans; /* of a row */
  uint32_t rows;
};

enum { lookback_width = 32 };

static inline lookback lookback_of(void *memory, int64_t rows, int64_t tiles) {
  lookback l = {published_of(memory), (uint32_t)tiles};
  l.groups = (uint32_t)ceil_div(tiles, lookback_width);
  l.spans = (uint32_t)ceil_div(l.groups, lookback_width);
  l.rows = (uint32_t)rows;
  return l;
}

/* Results of all rows. */
static inline size_t lookback_count(const lookback &l) {
  return (size_t)l.rows * ((size_t)l.tiles + l.groups + l.spans);
}

/* For results of so many words. */
static inline size_t lookback_bytes(const lookback &l, int words) {
  return published_bytes(lookback_count(l), words);
}

static inline tn_status lookback_begin(const tn_kernel_args *args, const lookback &l, int words) {
  return published_begin(args, l.results, lookback_count(l), words);
}

template <class A> __device__ __forceinline__ A lookback_shuffle(A a, int lane) {
  constexpr int words = sizeof(A) / 4;
  static_assert(sizeof(A) % 4 == 0, "a result's size");
  int w[words];
  memcpy(w, &a, sizeof a);
#pragma unroll
  for (int i = 0; i < words; i++) w[i] = __shfl_sync(0xffffffffu, w[i], lane);
  memcpy(&a, w, sizeof a);
  return a;
}

/* By one warp: what `count` results from `first` on come to, in every lane; count is at most
 * 32. */
template <class A, class S>
__device__ __forceinline__ A lookback_join(const S &s, const lookback &l, size_t first,
                                           uint32_t count) {
  uint32_t lane = threadIdx.x % 32;
  A a = s.init();
  if (count == 0) return a;
  if (lane < count) a = published_get<A>(l.results, first + lane);
  __syncwarp();
#pragma unroll
  for (uint32_t delta = 1; delta < 32; delta *= 2) {
    A other = lookback_shuffle(a, (int)(lane ^ delta));
    a = lane & delta ? s.join(other, a) : s.join(a, other);
  }
  return a;
}

/* Publishes what tile t of a row comes to, which the first thread knows. */
template <class A>
__device__ __forceinline__ void lookback_tell(const lookback &l, uint32_t row, uint32_t t,
                                              const A &own) {
  if (threadIdx.x == 0)
    published_put(l.results, (size_t)row * (l.tiles + l.groups + l.spans) + t, own);
}

/* By all threads of a block of at least two warps, once, after lookback_tell: what stands before
 * tile t. s joins results, in order, and begins them: s.join(a, b), s.init(). */
template <class A, class S>
__device__ __forceinline__ A lookback_before(const S &s, const lookback &l, uint32_t row,
                                             uint32_t t, const A &own) {
  __shared__ __align__(16) unsigned char memory[2 * sizeof(A)];
  A *part = (A *)memory;
  size_t tiles = (size_t)row * (l.tiles + l.groups + l.spans), groups = tiles + l.tiles;
  size_t spans = groups + l.groups;
  uint32_t group = t / lookback_width, in_group = t % lookback_width;
  uint32_t span = group / lookback_width, in_span = group % lookback_width;
  bool leads = threadIdx.x % 32 == 0, ends_group = in_group == lookback_width - 1;
  if (threadIdx.x < 32) {
    A near = lookback_join<A>(s, l, tiles + t - in_group, in_group);
    if (leads && ends_group) published_put(l.results, groups + group, s.join(near, own));
    if (leads) part[0] = near;
  } else if (threadIdx.x < 64) {
    A far = lookback_join<A>(s, l, groups + group - in_span, in_span);
    if (leads && span) far = s.join(published_get<A>(l.results, spans + span - 1), far);
    if (leads) part[1] = far;
  }
  __syncthreads();
  A before = s.join(part[1], part[0]);
  if (threadIdx.x == 0 && ends_group && in_span == lookback_width - 1)
    published_put(l.results, spans + span, s.join(before, own));
  return before;
}

#endif /* KERNELS_CUDA_BASE_LOOKBACK_CUH */
