/*
 * The elements that a test picks, one after the other, in one pass over the input: each block
 * counts its tile's, learns from the tiles before it where they go, and writes them.
 *
 * P states the test (hit), what is read of an element that passed (V, fetch), and how that is
 * written to place `to` (write).
 */
#ifndef KERNELS_CUDA_INDEX_COMPACT_CUH
#define KERNELS_CUDA_INDEX_COMPACT_CUH

#include "kernels/cuda/base/lookback.cuh"
#include "kernels/cuda/base/place.cuh"

enum {
  compact_rounds = 16, /* elements of a thread, 32 apart */
  compact_batch = 4,   /* of them that are read at once */
  compact_warps = place_threads / 32,
  compact_tile = place_threads * compact_rounds,
};

namespace {

struct compact_sum {
  __device__ __forceinline__ int64_t init() const { return 0; }
  __device__ __forceinline__ int64_t join(int64_t a, int64_t b) const { return a + b; }
};

/* Where this warp's elements go, from the number that each warp has; the last tile writes the
 * total. */
__device__ __forceinline__ int64_t compact_start(const lookback &l, uint32_t tile, int own,
                                                 int64_t *count) {
  __shared__ int in_warp[compact_warps];
  int warp = threadIdx.x / 32, before = 0, all = 0;
  if (threadIdx.x % 32 == 0) in_warp[warp] = own;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < compact_warps; w++) {
    before += w < warp ? in_warp[w] : 0;
    all += in_warp[w];
  }
  int64_t start = lookback_before(compact_sum(), l, 0, tile, (int64_t)all);
  if (threadIdx.x == 0 && tile == l.tiles - 1) *count = start + all;
  return start + before;
}

template <class P>
__global__ void __launch_bounds__(place_threads)
    compact_tiles(int64_t n, int64_t *count, const __grid_constant__ P p,
                  const __grid_constant__ lookback l) {
  uint32_t tile = published_tile(l.results), lane = threadIdx.x % 32, hits[compact_rounds];
  int64_t first = (int64_t)tile * compact_tile + threadIdx.x / 32 * (compact_rounds * 32) + lane;
  bool hit[compact_rounds];
  int own = 0;
#pragma unroll
  for (int k = 0; k < compact_rounds; k++) hit[k] = first + k * 32 < n && p.hit(first + k * 32);
#pragma unroll
  for (int k = 0; k < compact_rounds; k++) {
    hits[k] = __ballot_sync(~0u, hit[k]);
    own += __popc(hits[k]);
  }
  int64_t to = compact_start(l, tile, own, count);
#pragma unroll
  for (int from = 0; from < compact_rounds; from += compact_batch) {
    typename P::V v[compact_batch];
#pragma unroll
    for (int k = 0; k < compact_batch; k++)
      if (hits[from + k] >> lane & 1) v[k] = p.fetch(first + (from + k) * 32);
#pragma unroll
    for (int k = 0; k < compact_batch; k++) {
      uint32_t set = hits[from + k];
      if (set >> lane & 1)
        p.write(to + __popc(set & ((1u << lane) - 1)), first + (from + k) * 32, v[k]);
      to += __popc(set);
    }
  }
}

} // namespace

static inline lookback compact_lookback(void *memory, int64_t n) {
  return lookback_of(memory, 1, ceil_div(n, compact_tile));
}

static inline size_t compact_bytes(int64_t n) {
  return n ? lookback_bytes(compact_lookback(NULL, n), published_words<int64_t>()) : 0;
}

/* Elements of [0, n) that p picks; how many there are goes to count. `memory` has compact_bytes. */
template <class P>
static tn_status compact(const tn_kernel_args *args, void *memory, int64_t n, int64_t *count,
                         const P &p) {
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  if (n == 0) {
    cudaError_t error = cudaMemsetAsync(count, 0, sizeof *count, (cudaStream_t)args->native_stream);
    return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, "cudaMemsetAsync");
  }
  lookback l = compact_lookback(memory, n);
  status = lookback_begin(args, l, published_words<int64_t>());
  if (status != TN_OK) return status;
  return launch(args, compact_tiles<P>, l.tiles, place_threads, 0, n, count, p, l);
}

#endif /* KERNELS_CUDA_INDEX_COMPACT_CUH */
