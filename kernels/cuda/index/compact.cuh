/*
 * The elements that a test picks, one after the other, in one pass over the input: each block
 * tests its tile, 16 bytes of a thread at a time, publishes how many passed, writes down where
 * those stand while it waits for what the tiles before it found, and then moves them, neighbours
 * by neighbouring threads.
 *
 * P states what is tested (U, tested), of how many elements from i on, a bit for each, which
 * passed (hits), what is read of one that did (V, fetch), and how that is written to place `to`
 * (write).
 */
#ifndef KERNELS_CUDA_INDEX_COMPACT_CUH
#define KERNELS_CUDA_INDEX_COMPACT_CUH

#include "kernels/cuda/base/lookback.cuh"
#include "kernels/cuda/base/vector.cuh"

enum {
  compact_items = 32, /* elements of a thread that have bits in a word */
  compact_words = 2,
  compact_loads = 8, /* of 16 bytes that it has under way */
  compact_batch = 4, /* elements that it moves at once */
  compact_warps = place_threads / 32,
  compact_piece = 32 * compact_items, /* elements of a warp in a word of each thread */
  compact_share = compact_words * compact_piece,
  compact_tile = compact_warps * compact_share,
};

namespace {

struct compact_sum {
  __device__ __forceinline__ int64_t init() const { return 0; }
  __device__ __forceinline__ int64_t join(int64_t a, int64_t b) const { return a + b; }
};

/* How a piece of a warp's share is dealt out: unit r of a lane is the N elements from (32 r + lane)
 * N on, and bits r N and after of its word. */
template <class U> struct compact_units {
  static constexpr int N = vector_width<U>::value, count = compact_items / N;
  /* Counts that a word holds: of as many units those of the whole warp. */
  static constexpr int fields = 32 * N < 256 ? 4 : 2, field_bits = 32 / fields;
  static constexpr uint32_t mask = N == 32 ? ~0u : (1u << N) - 1;
  static_assert(count % fields == 0 && compact_items == 32, "a word of bits");

  static __device__ __forceinline__ int place(int r) {
    return (r * 32 + (int)(threadIdx.x % 32)) * N;
  }
};

/* Bit e for each element e of a vector for which test(e) holds. */
template <class U, class Test> __device__ __forceinline__ uint32_t compact_bits(Test test) {
  uint32_t bits = 0;
#pragma unroll
  for (int e = 0; e < vector_width<U>::value; e++) bits |= test(e) ? 1u << e : 0;
  return bits;
}

/* Which of this thread's elements passed, of a piece that lies within the input. */
template <class P> __device__ __forceinline__ uint32_t compact_test(const P &p, int64_t first) {
  using U = typename P::U;
  using Units = compact_units<U>;
  constexpr int batch = least(Units::count, compact_loads);
  uint32_t bits = 0;
#pragma unroll
  for (int from = 0; from < Units::count; from += batch) {
    vector_of<U> v[batch];
#pragma unroll
    for (int r = 0; r < batch; r++)
      v[r] = *(const vector_of<U> *)(p.tested + first + Units::place(from + r));
#pragma unroll
    for (int r = 0; r < batch; r++)
      bits |= p.hits(v[r], first + Units::place(from + r)) << (from + r) * Units::N;
  }
  return bits;
}

/* The same where the input ends or does not lie aligned. */
template <class P>
__device__ __forceinline__ uint32_t compact_test_any(const P &p, int64_t first, int64_t n) {
  using U = typename P::U;
  using Units = compact_units<U>;
  constexpr int N = Units::N;
  uint32_t bits = 0;
#pragma unroll 1
  for (int r = 0; r < Units::count; r++) {
    const int64_t i = first + Units::place(r), left = n - i;
    if (left <= 0) break;
    vector_of<U> v;
#pragma unroll
    for (int e = 0; e < N; e++) v.v[e] = e < left ? p.tested[i + e] : (U)0;
    bits |= (p.hits(v, i) & (left < N ? (1u << left) - 1 : Units::mask)) << r * N;
  }
  return bits;
}

/* Where those of a piece that passed stand from `first` on, one after the other behind the `before`
 * of earlier pieces; how many there are then. */
template <class U>
__device__ __forceinline__ int compact_stage(uint32_t bits, int first, int before,
                                             uint16_t *stands) {
  using Units = compact_units<U>;
  constexpr int fields = Units::fields, width = Units::field_bits, N = Units::N;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int from = 0; from < Units::count; from += fields) {
    uint32_t own = 0;
#pragma unroll
    for (int f = 0; f < fields; f++)
      own |= (uint32_t)__popc(bits >> (from + f) * N & Units::mask) << f * width;
    uint32_t upto = own;
#pragma unroll
    for (int delta = 1; delta < 32; delta *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, upto, delta);
      if (lane >= delta) upto += other;
    }
    const uint32_t all = __shfl_sync(~0u, upto, 31), lead = upto - own;
#pragma unroll
    for (int f = 0; f < fields; f++) {
      const uint32_t field = fields == 4 ? 0xff : 0xffff;
      int to = before + (int)(lead >> f * width & field);
#pragma unroll
      for (int e = 0; e < N; e++)
        if (bits >> ((from + f) * N + e) & 1)
          stands[to++] = (uint16_t)(first + Units::place(from + f) + e);
      before += (int)(all >> f * width & field);
    }
  }
  return before;
}

/* The number that each warp has, `own`, to the other tiles: what the warps before this one have,
 * and the whole tile. */
__device__ __forceinline__ int compact_tell(const lookback &l, uint32_t tile, int own, int *all) {
  __shared__ int in_warp[compact_warps];
  const int warp = threadIdx.x / 32;
  int before = 0;
  if (threadIdx.x % 32 == 0) in_warp[warp] = own;
  __syncthreads();
  *all = 0;
#pragma unroll
  for (int w = 0; w < compact_warps; w++) {
    before += w < warp ? in_warp[w] : 0;
    *all += in_warp[w];
  }
  lookback_tell(l, 0, tile, (int64_t)*all);
  return before;
}

template <class P>
__global__ void __launch_bounds__(place_threads, 5)
    compact_tiles(int64_t n, int64_t *count, const __grid_constant__ P p,
                  const __grid_constant__ lookback l, bool packs) {
  __shared__ uint16_t places[compact_warps][compact_share];
  const uint32_t tile = published_tile(l.results);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t first = (int64_t)tile * compact_tile + warp * compact_share;
  const bool whole = packs && first + compact_share <= n;
  uint32_t bits[compact_words];
  int own = 0, all, staged = 0;
#pragma unroll
  for (int w = 0; w < compact_words; w++) {
    const int64_t at = first + w * compact_piece;
    bits[w] = whole ? compact_test(p, at) : compact_test_any(p, at, n);
    own += __popc(bits[w]);
  }
  own = (int)__reduce_add_sync(~0u, (unsigned)own);
  const int before = compact_tell(l, tile, own, &all);
#pragma unroll 1
  for (int w = 0; w < compact_words; w++)
    staged = compact_stage<typename P::U>(bits[w], w * compact_piece, staged, places[warp]);
  const int64_t start = lookback_before(compact_sum(), l, 0, tile, (int64_t)all);
  if (threadIdx.x == 0 && tile == l.tiles - 1) *count = start + all;
  const int64_t to = start + before;
#pragma unroll 1
  for (int k = lane; k < own; k += 32 * compact_batch) {
    typename P::V v[compact_batch];
    int64_t i[compact_batch];
#pragma unroll
    for (int b = 0; b < compact_batch; b++) {
      if (k + b * 32 >= own) continue;
      i[b] = first + places[warp][k + b * 32];
      v[b] = p.fetch(i[b]);
    }
#pragma unroll
    for (int b = 0; b < compact_batch; b++)
      if (k + b * 32 < own) p.write(to + k + b * 32, i[b], v[b]);
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
  return launch(args, compact_tiles<P>, l.tiles, place_threads, 0, n, count, p, l,
                is_aligned(p.tested, 16));
}

#endif /* KERNELS_CUDA_INDEX_COMPACT_CUH */
