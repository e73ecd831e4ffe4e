/*
 * One pass over tiles of a row that need what the tiles before them come to. A tile publishes its
 * own result and reads those before it (decoupled look-back, Merrill and Garland 2016), but joins
 * them in an order that depends on places alone, so that sums of floats have the same bits every
 * time: 32 tiles make a group and 32 groups a span; the last tile of a group publishes the group's
 * result, and the last tile of a span what the row comes to up to its end.
 *
 * Tiles are numbered as blocks start, so that a block waits only for blocks that run already.
 */
#ifndef KERNELS_CUDA_BASE_LOOKBACK_CUH
#define KERNELS_CUDA_BASE_LOOKBACK_CUH

#include <string.h>

#include "kernels/cuda/base/common.cuh"

/* Memory of `rows` rows of `tiles` tiles each: a counter and flags, which are zero before the
 * launch, and results of up to 16 bytes. */
struct lookback {
  uint32_t *started, *flags;
  char *results;
  uint32_t tiles, groups, spans; /* of a row */
  uint32_t rows;
};

enum { lookback_width = 32, lookback_result_bytes = 16 };

static inline size_t lookback_rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

static inline lookback lookback_of(void *memory, int64_t rows, int64_t tiles) {
  lookback l = {(uint32_t *)memory, (uint32_t *)memory + 1, NULL, (uint32_t)tiles};
  l.groups = (uint32_t)ceil_div(tiles, lookback_width);
  l.spans = (uint32_t)ceil_div(l.groups, lookback_width);
  l.rows = (uint32_t)rows;
  return l;
}

/* Flags, and results, of all rows. */
static inline size_t lookback_count(const lookback &l) {
  return (size_t)l.rows * ((size_t)l.tiles + l.groups + l.spans);
}

static inline size_t lookback_flag_bytes(const lookback &l) {
  return lookback_rounded((lookback_count(l) + 1) * sizeof(uint32_t));
}

static inline size_t lookback_bytes(const lookback &l) {
  return lookback_flag_bytes(l) + lookback_count(l) * lookback_result_bytes;
}

/* Clears the flags, in the call's stream. */
static inline tn_status lookback_begin(const tn_kernel_args *args, lookback *l) {
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  l->results = (char *)l->started + lookback_flag_bytes(*l);
  cudaError_t error =
      cudaMemsetAsync(l->started, 0, lookback_flag_bytes(*l), (cudaStream_t)args->native_stream);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, "cudaMemsetAsync");
}

/* The number of this block's tile, counted over all rows, in every thread. */
__device__ __forceinline__ uint32_t lookback_tile(const lookback &l) {
  __shared__ uint32_t number;
  if (threadIdx.x == 0) number = atomicAdd(l.started, 1u);
  __syncthreads();
  return number;
}

template <class A> __device__ __forceinline__ void lookback_put(const lookback &l, size_t at, A a) {
  *(A *)(l.results + at * lookback_result_bytes) = a;
  __threadfence();
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(l.flags + at), "r"(1u) : "memory");
}

/* Waits for a result. It is read past the first-level cache. */
template <class A> __device__ __forceinline__ A lookback_get(const lookback &l, size_t at) {
  static_assert(sizeof(A) <= lookback_result_bytes && sizeof(A) % 4 == 0, "a result's size");
  constexpr int words = sizeof(A) / 4;
  uint32_t set, w[words];
  do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(set) : "l"(l.flags + at) : "memory");
  while (!set);
  const uint32_t *from = (const uint32_t *)(l.results + at * lookback_result_bytes);
#pragma unroll
  for (int i = 0; i < words; i++) w[i] = __ldcg(from + i);
  A a;
  memcpy(&a, w, sizeof a);
  return a;
}

template <class A> __device__ __forceinline__ A lookback_shuffle(A a, int lane) {
  constexpr int words = sizeof(A) / 4;
  int w[words];
  memcpy(w, &a, sizeof a);
#pragma unroll
  for (int i = 0; i < words; i++) w[i] = __shfl_sync(0xffffffffu, w[i], lane);
  memcpy(&a, w, sizeof a);
  return a;
}

/* What `count` results from `first` on come to, in every lane; count is at most 32. */
template <class A, class S>
__device__ __forceinline__ A lookback_join(const S &s, const lookback &l, size_t first,
                                           uint32_t count) {
  uint32_t lane = threadIdx.x % 32;
  A a = s.init();
  if (lane < count) a = lookback_get<A>(l, first + lane);
  __syncwarp();
#pragma unroll
  for (uint32_t delta = 1; delta < 32; delta *= 2) {
    A other = lookback_shuffle(a, (int)(lane ^ delta));
    a = lane & delta ? s.join(other, a) : s.join(a, other);
  }
  return a;
}

/* By all lanes of one warp: publishes what tile t of a row comes to, and returns what stands
 * before it. s joins results, in order, and begins them: s.join(a, b), s.init(). */
template <class A, class S>
__device__ A lookback_before(const S &s, const lookback &l, uint32_t row, uint32_t t, A own) {
  size_t tiles = (size_t)row * (l.tiles + l.groups + l.spans), groups = tiles + l.tiles;
  size_t spans = groups + l.groups;
  uint32_t group = t / lookback_width, in_group = t % lookback_width;
  uint32_t span = group / lookback_width, in_span = group % lookback_width;
  bool leads = threadIdx.x % 32 == 0;
  if (leads) lookback_put(l, tiles + t, own);
  A before = s.init();
  if (in_group) before = lookback_join<A>(s, l, tiles + t - in_group, in_group);
  bool ends_group = in_group == lookback_width - 1;
  bool ends_span = ends_group && in_span == lookback_width - 1;
  A all = s.join(before, own);
  if (ends_group && leads) lookback_put(l, groups + group, all);
  if (in_span) {
    A joined = lookback_join<A>(s, l, groups + group - in_span, in_span);
    before = s.join(joined, before);
    all = s.join(joined, all);
  }
  if (span) {
    A joined = lookback_get<A>(l, spans + span - 1);
    before = s.join(joined, before);
    all = s.join(joined, all);
  }
  if (ends_span && leads) lookback_put(l, spans + span, all);
  __syncwarp();
  return before;
}

#endif /* KERNELS_CUDA_BASE_LOOKBACK_CUH */
