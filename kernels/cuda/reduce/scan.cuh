/* Scans: what they join, and rows in tiles of one pass. Included by scan.cu alone. */
#ifndef KERNELS_CUDA_REDUCE_SCAN_CUH
#define KERNELS_CUDA_REDUCE_SCAN_CUH

#include "kernels/cuda/base/lookback.cuh"
#include "kernels/cuda/reduce/reduce.cuh"

namespace {

enum {
  scan_items = 4,                   /* elements of a thread in one tile */
  scan_warp_tile = 32 * scan_items, /* of a warp */
  scan_column_row = 32,             /* longest row of a single thread */
  scan_ahead = 8,                   /* elements that a thread loads at once */
  scan_warp_row = 512,              /* longest row of a single warp */
  scan_least_piece = 8 * threads * scan_items,
};

struct scan_plan {
  int64_t outer, n, inner;
  int64_t pieces, piece; /* of each line, and elements of one */
  int lanes;             /* threads of a row: 32 or all of a block; 0: a thread per line */
  int reverse, exclusive, first_pass;
  int64_t tiles; /* of each row, where rows are scanned in tiles; else 0 */
  int packs;     /* 1: tiles are read and written 16 bytes at a time */
};

/* Sums and products. `i` counts along the axis as it lies in memory. */
template <class C> struct scan_wide { using type = double; };
template <> struct scan_wide<int64_t> { using type = int64_t; };

template <class T> struct running_join {
  using C = accumulator_t<T>;
  using A = typename scan_wide<C>::type;
  int dtype, result; /* of x and y */
  bool product;
  __device__ A init() const { return product ? 1 : 0; }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    return element<T>::read(x, at, dtype);
  }
  __device__ double joined(double a, double b) const { return product ? a * b : a + b; }
  __device__ int64_t joined(int64_t a, int64_t b) const {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    return (int64_t)(product ? x * y : x + y);
  }
  __device__ A join(A a, A b) const { return joined(a, b); }
  __device__ void write(void *y, int64_t *, int64_t at, A a) const {
    element<T>::write(y, at, (C)a, result);
  }
  __device__ int64_t where(A) const { return 0; }
};

template <class C> struct running_place {
  C value;
  int64_t index; /* below 0: nothing yet */
};

/* Maxima. Of equals the first stays; nothing exceeds NaN. */
template <class T> struct running_max {
  using C = accumulator_t<T>;
  using A = running_place<C>;
  int dtype;
  __device__ A init() const { return {0, -1}; }
  __device__ A read(const void *x, int64_t at, int64_t i) const {
    return {element<T>::read(x, at, dtype), i};
  }
  __device__ A join(A a, A b) const {
    if (a.index < 0) return b;
    bool exceeds = b.index >= 0 && a.value == a.value && !(b.value <= a.value);
    return exceeds ? b : a;
  }
  __device__ void write(void *y, int64_t *index, int64_t at, A a) const {
    element<T>::write(y, at, a.value, dtype);
    if (index) index[at] = a.index;
  }
  __device__ int64_t where(A a) const { return a.index; }
};

template <class A> __device__ A shuffle_from(A a, int lane) {
  constexpr int words = sizeof(A) / 4;
  int w[words];
  memcpy(w, &a, sizeof a);
#pragma unroll
  for (int i = 0; i < words; i++) w[i] = __shfl_sync(0xffffffffu, w[i], lane);
  memcpy(&a, w, sizeof a);
  return a;
}

/* Lane l gets what lanes 0 to l come to. */
template <class S> __device__ typename S::A scan_warp(const S &s, typename S::A a) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int delta = 1; delta < 32; delta *= 2) {
    typename S::A before = shuffle_from(a, lane - delta);
    if (lane >= delta) a = s.join(before, a);
  }
  return a;
}

/* --- rows in tiles of one pass --- */

/* What is written: void where it is known at run time alone. */
template <class T> struct wrote_of { using type = T; };
template <> struct wrote_of<any_int> { using type = void; };
template <class T, class Y> struct wrote_of<widened<T, Y>> { using type = Y; };
template <class S> struct wrote_by;
template <template <class> class S, class T> struct wrote_by<S<T>> : wrote_of<T> {};

enum { tile_rounds = 4 };

/* A warp's part of a tile is `rounds` rounds of 32 packs; elements wait in registers as they were
 * read. */
template <class S> struct tile_of {
  static constexpr bool any = std::is_void_v<raw_t<S>>; /* integers, as int64_t */
  using raw = std::conditional_t<any, int64_t, raw_t<S>>;
  using wrote = std::conditional_t<any, int64_t, typename wrote_by<S>::type>;
  static constexpr int width = 16 / (int)sizeof(raw);
  static constexpr int rounds = tile_rounds;
  /* Of a multiprocessor: as many as registers allow. */
  static constexpr int least_blocks = width <= 4 && sizeof(typename S::A) <= 8 ? 3 : 2;
  static constexpr int per_warp = 32 * width * rounds;
  static constexpr int size = threads * width * rounds;
  using pack_in = pack<raw, width>;
  using pack_out = pack<wrote, width>;
};

/* tile_of<S>::size, from types known at run time. */
int64_t tile_size(const tn_kernel_args *args) {
  const DLDataType type = args->in[0]->dtype;
  bool real = type.code == kDLFloat || type.code == kDLBfloat;
  int width = real ? 128 / type.bits : 2;
  return threads * width * tile_rounds;
}

template <class P> __device__ __forceinline__ void turn_round(P *v) {
  constexpr int N = sizeof v->v / sizeof *v->v;
#pragma unroll
  for (int e = 0; e < N / 2; e++) {
    auto other = v->v[e];
    v->v[e] = v->v[N - 1 - e];
    v->v[N - 1 - e] = other;
  }
}

/* Elements i, i + 1, ... of a row in the order of the scan. */
template <class S>
__device__ __forceinline__ void read_pack(const S &s, const void *x, int64_t base, int64_t i,
                                          const scan_plan &p, typename tile_of<S>::pack_in *v) {
  using Tile = tile_of<S>;
  using raw = typename Tile::raw;
  constexpr int N = Tile::width;
  if (!Tile::any && p.packs) {
    if (i >= p.n) return;
    *v = *(const typename Tile::pack_in *)((const raw *)x + base + (p.reverse ? p.n - N - i : i));
    if (p.reverse) turn_round(v);
    return;
  }
#pragma unroll
  for (int e = 0; e < N; e++) {
    int64_t at = base + (p.reverse ? p.n - 1 - i - e : i + e);
    if (i + e >= p.n) continue;
    if constexpr (Tile::any)
      v->v[e] = element<any_int>::read(x, at, s.dtype);
    else
      v->v[e] = ((const raw *)x)[at];
  }
}

/* The scan of one pack from `carry` on. */
template <class S>
__device__ __forceinline__ void
write_pack(const S &s, const S &kept, void *y, int64_t *index, int64_t base, int64_t i,
           typename S::A carry, const typename tile_of<S>::pack_in &v, const scan_plan &p) {
  using Tile = tile_of<S>;
  using A = typename S::A;
  constexpr int N = Tile::width;
  typename Tile::pack_out out;
  pack<int64_t, N> places;
#pragma unroll
  for (int e = 0; e < N; e++) {
    if (i + e >= p.n) break;
    int64_t place = p.reverse ? p.n - 1 - i - e : i + e;
    A before = carry;
    carry = s.join(carry, kept.read(&v, e, place));
    A result = p.exclusive ? before : carry;
    if (Tile::any || !p.packs) {
      s.write(y, index, base + place, result);
    } else {
      kept.write(&out, (int64_t *)NULL, e, result);
      places.v[e] = s.where(result);
    }
  }
  if (Tile::any || !p.packs || i >= p.n) return;
  int64_t at = base + (p.reverse ? p.n - N - i : i);
  if (p.reverse) turn_round(&out);
  *(typename Tile::pack_out *)((typename Tile::wrote *)y + at) = out;
  if (!index) return;
  if (p.reverse) turn_round(&places);
#pragma unroll
  for (int e = 0; e < N; e += 2)
    *(pack<int64_t, 2> *)(index + at + e) = {places.v[e], places.v[e + 1]};
}

/* What stands before this warp's part of the tile in its row. */
template <class S>
__device__ __forceinline__ typename S::A before_warp(const S &s, typename S::A own, uint32_t row,
                                                     uint32_t t, const lookback &l) {
  using A = typename S::A;
  constexpr int warps = threads / 32;
  __shared__ __align__(16) unsigned char memory[(warps + 1) * sizeof(A)];
  A *shared = (A *)memory, before = s.init(), all = s.init();
  int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) shared[warp] = own;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < warps; w++) {
    if (w == warp) before = all;
    all = s.join(all, shared[w]);
  }
  if (l.tiles == 1) return before;
  if (warp == 0) {
    A first = lookback_before<A>(s, l, row, t, all);
    if (threadIdx.x == 0) shared[warps] = first;
  }
  __syncthreads();
  return s.join(shared[warps], before);
}

/* Has elements read again from the registers where they wait, in 16 bytes, instead of being kept in
 * what they are summed in, which takes up to four times as many. */
template <class P> __device__ __forceinline__ void forget_reads(P *v) {
  uint32_t w[sizeof(P) / 4];
  memcpy(w, v, sizeof(P));
#pragma unroll
  for (int i = 0; i < (int)sizeof(P) / 4; i++) asm volatile("" : "+r"(w[i]));
  memcpy(v, w, sizeof(P));
}

template <class S>
__global__ void __launch_bounds__(threads, tile_of<S>::least_blocks)
    scan_tiles(S s, const void *x, void *y, int64_t *index, const __grid_constant__ scan_plan p,
               const __grid_constant__ lookback l) {
  using Tile = tile_of<S>;
  using A = typename S::A;
  constexpr int N = Tile::width, R = Tile::rounds;
  S kept = s; /* reads what waits in registers */
  if constexpr (Tile::any) kept.dtype = TN_I64;
  uint32_t tile = l.tiles > 1 ? lookback_tile(l) : blockIdx.x, row = tile / l.tiles;
  uint32_t t = tile - row * l.tiles, lane = threadIdx.x % 32;
  int64_t base = (int64_t)row * p.n;
  int64_t first = (int64_t)t * Tile::size + threadIdx.x / 32 * Tile::per_warp + lane * N;
  typename Tile::pack_in v[R];
  A lead[R], total = s.init();
#pragma unroll
  for (int r = 0; r < R; r++) read_pack(s, x, base, first + r * 32 * N, p, &v[r]);
#pragma unroll
  for (int r = 0; r < R; r++) {
    int64_t i = first + r * 32 * N;
    A sum = s.init();
#pragma unroll
    for (int e = 0; e < N; e++)
      if (i + e < p.n) sum = s.join(sum, kept.read(&v[r], e, p.reverse ? p.n - 1 - i - e : i + e));
    sum = scan_warp(s, sum);
    A left = shuffle_from(sum, (int)lane - 1);
    lead[r] = lane ? s.join(total, left) : total;
    total = s.join(total, shuffle_from(sum, 31));
  }
  A before = before_warp(s, total, row, t, l);
#pragma unroll
  for (int r = 0; r < R; r++) forget_reads(&v[r]);
#pragma unroll
  for (int r = 0; r < R; r++)
    write_pack(s, kept, y, index, base, first + r * 32 * N, s.join(before, lead[r]), v[r], p);
}

template <class S>
tn_status run_tiles(const tn_kernel_args *args, S s, scan_plan p, const void *x, void *y,
                    int64_t *index) {
  using Tile = tile_of<S>;
  p.packs = !Tile::any && p.n % Tile::width == 0 && is_aligned(x, 16) &&
            is_aligned(y, sizeof(typename Tile::pack_out)) && is_aligned(index, 16);
  lookback l = lookback_of(args->workspace, p.outer, p.tiles);
  tn_status status = p.tiles > 1 ? lookback_begin(args, &l) : TN_OK;
  if (status != TN_OK) return status;
  unsigned blocks = (unsigned)(p.outer * p.tiles);
  return launch(args, scan_tiles<S>, blocks, threads, 0, s, x, y, index, p, l);
}

} // namespace

#endif /* KERNELS_CUDA_REDUCE_SCAN_CUH */
