/*
 * Scans of rows, in tiles of 128 bytes to a thread: what is under way beside it hides how long a
 * tile waits for those before it. A tile is read and written by neighbouring threads side by side,
 * but scanned by threads that have neighbouring elements each: a warp's share of it lies in shared
 * memory in between, where each thread finds its own. A block has the tiles of a row one after the
 * other, or one of them and looks back at those of others (base/lookback.cuh); of shorter rows each
 * warp has its own. Included by scan.cu alone.
 */
#ifndef KERNELS_CUDA_REDUCE_SCAN_ROWS_CUH
#define KERNELS_CUDA_REDUCE_SCAN_ROWS_CUH

#include "kernels/cuda/reduce/scan.cuh"

namespace {

enum {
  tile_units = 8,            /* of 16 bytes, of a thread */
  tile_warps = threads / 32, /* of a block, at the most */
  tile_least_warps = 2,      /* that look back */
};

template <class S> struct tile_of : scanned<S> {
  using raw = typename scanned<S>::raw;
  using wrote = typename scanned<S>::wrote;
  static constexpr int width = 16 / (int)sizeof(raw); /* of a unit */
  static constexpr int items = width * tile_units;    /* of a thread */
  static constexpr int per_warp = 32 * items;
  /* Results take the place of what was read where they are as wide; others go out in parts. */
  static constexpr bool in_place = sizeof(raw) == sizeof(wrote);
  static constexpr int out_bytes = in_place ? (int)sizeof(uint32_t) : (int)sizeof(wrote);
  static constexpr int part = most(width, (in_place ? 64 : 32) / out_bytes);
  static constexpr int out_units = in_place && !S::places ? 0 : 32 * part * out_bytes / 16;
  static constexpr int warp_units = 32 * tile_units + out_units;
};

/* tile_of<S>::per_warp, from types known at run time. */
int64_t tile_share(const tn_kernel_args *args) {
  const DLDataType type = args->in[0]->dtype;
  bool real = type.code == kDLFloat || type.code == kDLBfloat;
  return 32 * tile_units * 16 / (real ? type.bits / 8 : 8);
}

/* Where element e of a warp's share lies: units are dealt out so that neither threads with
 * neighbouring units nor those with every fourth one meet in a bank. */
template <class V> __device__ __forceinline__ V *tile_place(uint4 *room, int e) {
  constexpr int width = 16 / (int)sizeof(V);
  int unit = e / width;
  return (V *)(room + (unit ^ (unit >> 3 & 7))) + e % width;
}

/* Where unit r * 32 + lane lies, of a warp's share: as tile_place, which need not be asked for
 * each. */
struct tile_units_of_lane {
  int even, odd;
  __device__ __forceinline__ tile_units_of_lane() {
    const int lane = threadIdx.x % 32;
    even = lane ^ lane >> 3, odd = even ^ 4;
  }
  __device__ __forceinline__ uint4 *at(uint4 *room, int r) const {
    return room + r * 32 + (r & 1 ? odd : even);
  }
};

/* Whether all of a warp's share from place i0 on is there, forwards, in units that memory takes. */
template <class S> __device__ __forceinline__ bool tile_is_whole(int64_t i0, const scan_plan &p) {
  return !tile_of<S>::any && p.packs && !p.reverse && i0 + tile_of<S>::per_warp <= p.n;
}

/* A warp's share of a row that begins at `base`, from place i0 of the scan on. */
template <class S>
__device__ __forceinline__ void tile_read(const S &s, const void *x, int64_t base, int64_t i0,
                                          const scan_plan &p, uint4 *room) {
  using Tile = tile_of<S>;
  using raw = typename Tile::raw;
  constexpr int N = Tile::width;
  const int lane = threadIdx.x % 32;
  const raw neutral = Tile::neutral(s);
  if (tile_is_whole<S>(i0, p)) {
    const tile_units_of_lane units;
    const raw *from = (const raw *)x + base + i0 + lane * N;
#pragma unroll
    for (int r = 0; r < tile_units; r++) copy_16(units.at(room, r), from + r * 32 * N, true);
    copies_wait();
  } else if (!Tile::any && p.packs) {
#pragma unroll 1
    for (int r = 0; r < tile_units; r++) {
      const int64_t i = i0 + (r * 32 + lane) * N;
      pack<raw, N> *to = (pack<raw, N> *)tile_place<raw>(room, (r * 32 + lane) * N);
      if (i < p.n) {
        copy_16(to, (const raw *)x + base + (p.reverse ? p.n - N - i : i), true);
        continue;
      }
#pragma unroll
      for (int e = 0; e < N; e++) to->v[e] = neutral;
    }
    copies_wait();
#pragma unroll 1
    for (int r = 0; p.reverse && r < tile_units; r++)
      turn_round((pack<raw, N> *)tile_place<raw>(room, (r * 32 + lane) * N));
  } else {
#pragma unroll 4
    for (int e = lane; e < Tile::per_warp; e += 32) {
      const int64_t i = i0 + e;
      raw v = neutral;
      if (i < p.n) v = Tile::fetch(s, x, base + (p.reverse ? p.n - 1 - i : i));
      *tile_place<raw>(room, e) = v;
    }
  }
  __syncwarp();
}

/* Calls put(i, v) with pieces of `part` elements from `from` on of every thread of the warp, which
 * lie in `room`: v is the N of them that belong to place i of the scan and after, N being 1 where
 * memory cannot take more. */
template <class S, class V, int PART, int N, class Put>
__device__ __forceinline__ void tile_flush(int64_t i0, int from, const scan_plan &p, uint4 *room,
                                           Put put) {
  using Tile = tile_of<S>;
  const int lane = threadIdx.x % 32;
  __syncwarp();
  if (!Tile::any && p.packs) {
#pragma unroll
    for (int r = 0; r < PART / N; r++) {
      const int q = (r * 32 + lane) * N;
      const int64_t i = i0 + q / PART * Tile::items + from + q % PART;
      if (i < p.n) put(i, *(const pack<V, N> *)tile_place<V>(room, q));
    }
  } else {
#pragma unroll 4
    for (int q = lane; q < 32 * PART; q += 32) {
      const int64_t i = i0 + q / PART * Tile::items + from + q % PART;
      if (i < p.n) put(i, pack<V, 1>{{*tile_place<V>(room, q)}});
    }
  }
  __syncwarp();
}

/* Results of type V as they stand in `room`, to y. */
template <class S, int PART>
__device__ __forceinline__ void tile_put(const S &s, void *y, int64_t base, int64_t i0, int from,
                                         const scan_plan &p, uint4 *room) {
  using Tile = tile_of<S>;
  using wrote = typename Tile::wrote;
  constexpr int M = 16 / (int)sizeof(wrote), units = PART / M;
  /* Others would keep too much in registers. */
  if (S::nears && tile_is_whole<S>(i0, p)) {
    const tile_units_of_lane places;
    const int lane = threadIdx.x % 32;
    wrote *to = (wrote *)y + base + i0 + from + lane / units * Tile::items + lane % units * M;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < units; r++)
      *(pack<wrote, M> *)(to + r * (32 / units * Tile::items)) =
          *(const pack<wrote, M> *)places.at(room, r);
    __syncwarp();
    return;
  }
  tile_flush<S, wrote, PART, M>(i0, from, p, room, [&](int64_t i, auto v) {
    constexpr int N = sizeof v.v / sizeof *v.v;
    const int64_t at = base + (p.reverse ? p.n - N - i : i);
    if constexpr (N == 1) {
      Tile::put(s, y, at, v.v[0]);
    } else {
      if (p.reverse) turn_round(&v);
      *(pack<wrote, N> *)((wrote *)y + at) = v;
    }
  });
}

/* The same of places, which are counted along the scan in `room` and along the row in memory: two
 * of a thread, so that a warp writes whole sectors. */
template <class S, int PART>
__device__ __forceinline__ void tile_put_places(int64_t *index, int64_t base, int64_t i0, int from,
                                                const scan_plan &p, uint4 *room) {
  tile_flush<S, uint32_t, PART, 2>(i0, from, p, room, [&](int64_t i, auto v) {
    constexpr int N = sizeof v.v / sizeof *v.v;
    const int64_t at = base + (p.reverse ? p.n - N - i : i);
    if (p.reverse) turn_round(&v);
    pack<int64_t, N> w;
#pragma unroll
    for (int e = 0; e < N; e++) w.v[e] = p.reverse ? p.n - 1 - (int64_t)v.v[e] : (int64_t)v.v[e];
    *(pack<int64_t, N> *)(index + at) = w;
  });
}

/* This thread's elements of the tile: what they come to. */
template <class S>
__device__ __forceinline__ typename S::A tile_total(const S &s, int64_t i, uint4 *room) {
  using Tile = tile_of<S>;
  using raw = typename Tile::raw;
  constexpr int N = Tile::width;
  const int first = (int)(threadIdx.x % 32) * Tile::items;
  typename S::A total = s.init();
  s.each_way([&](auto how) {
    if constexpr (S::nears) {
      near_join<decltype(how)> near;
      near.begin(s.neutral());
#pragma unroll
      for (int r = 0; r < tile_units; r++) {
        const pack<raw, N> v = *(const pack<raw, N> *)tile_place<raw>(room, first + r * N);
#pragma unroll
        for (int e = 0; e < N; e++) near.take(load(v.v[e]));
      }
      total = near.value;
      if (near.holds()) return;
    }
#pragma unroll(S::nears ? 1 : tile_units)
    for (int r = 0; r < tile_units; r++) {
      const pack<raw, N> v = *(const pack<raw, N> *)tile_place<raw>(room, first + r * N);
#pragma unroll
      for (int e = 0; e < N; e++) {
        const typename S::A own = Tile::read(s, v.v[e], i + r * N + e);
        total = r + e == 0 ? own : how.take(total, own);
      }
    }
  });
  return total;
}

/* Scans elements first .. first + part - 1 of the room, in float, from `carry` on; false if that
 * does not hold what comes of it. */
template <class S, class How>
__device__ __forceinline__ bool tile_near(How, int first, bool exclusive, uint4 *room,
                                          typename S::A *carry) {
  using Tile = tile_of<S>;
  using raw = typename Tile::raw;
  constexpr int N = Tile::width, units = Tile::part / N;
  pack<raw, N> v[units];
  near_join<How> near;
  near.begin((float)*carry);
#pragma unroll
  for (int r = 0; r < units; r++) {
    v[r] = *(const pack<raw, N> *)tile_place<raw>(room, first + r * N);
#pragma unroll
    for (int e = 0; e < N; e++) {
      const float before = near.value;
      near.take(load(v[r].v[e]));
      v[r].v[e] = stored<raw>::from(exclusive ? before : near.value);
    }
  }
  if (!near.holds()) return false;
#pragma unroll
  for (int r = 0; r < units; r++) *(pack<raw, N> *)tile_place<raw>(room, first + r * N) = v[r];
  *carry = near.value;
  return true;
}

/* Scans this thread's elements from `carry` on, and writes the warp's. */
template <class S>
__device__ __forceinline__ void tile_write(const S &s, void *y, int64_t *index, int64_t base,
                                           int64_t i0, typename S::A carry, const scan_plan &p,
                                           uint4 *room, uint4 *out) {
  using Tile = tile_of<S>;
  using raw = typename Tile::raw;
  using wrote = typename Tile::wrote;
  constexpr int N = Tile::width, PART = Tile::part;
  const int lane = threadIdx.x % 32, first = lane * Tile::items;
#pragma unroll 1
  for (int from = 0; from < Tile::items; from += PART) {
    s.each_way([&](auto how) {
      if constexpr (S::nears) {
        if (tile_near<S>(how, first + from, p.exclusive, room, &carry)) return;
      }
#pragma unroll(S::nears ? 1 : PART / N)
      for (int r = 0; r < PART; r += N) {
        raw *own = tile_place<raw>(room, first + from + r);
        const pack<raw, N> v = *(const pack<raw, N> *)own;
        pack<wrote, N> w;
        [[maybe_unused]] pack<uint32_t, least(N, 4)> place;
#pragma unroll
        for (int e = 0; e < N; e++) {
          const typename S::A before = carry;
          carry = how.take(carry, Tile::read(s, v.v[e], i0 + first + from + r + e));
          w.v[e] = Tile::written(s, p.exclusive ? before : carry);
          if constexpr (S::places) {
            constexpr int M = sizeof place / sizeof *place.v;
            place.v[e % M] = s.where(carry);
            if (e % M == M - 1)
              *(pack<uint32_t, M> *)tile_place<uint32_t>(out, lane * PART + r + e + 1 - M) = place;
          }
        }
        if constexpr (Tile::in_place) {
          *(pack<wrote, N> *)own = w;
        } else {
          constexpr int M = 16 / (int)sizeof(wrote);
#pragma unroll
          for (int e = 0; e < N; e += M) {
            pack<wrote, M> unit;
#pragma unroll
            for (int k = 0; k < M; k++) unit.v[k] = w.v[e + k];
            *(pack<wrote, M> *)tile_place<wrote>(out, lane * PART + r + e) = unit;
          }
        }
      }
    });
    if constexpr (!Tile::in_place) tile_put<S, PART>(s, y, base, i0, from, p, out);
    if constexpr (S::places) {
      if (index) tile_put_places<S, PART>(index, base, i0, from, p, out);
    }
  }
  if constexpr (Tile::in_place) tile_put<S, Tile::items>(s, y, base, i0, 0, p, room);
}

/* What stands before this warp's part of its tile; onto `carry` what the row comes to after the
 * tile, unless the block has only this one. `odd` turns from tile to tile. */
template <class S>
__device__ __forceinline__ typename S::A before_warp(const S &s, typename S::A own, uint32_t row,
                                                     uint32_t t, bool odd, const lookback &l,
                                                     typename S::A *carry) {
  using A = typename S::A;
  __shared__ __align__(16) unsigned char memory[2 * tile_warps * sizeof(A)];
  A *shared = (A *)memory + (odd ? tile_warps : 0), before = s.init(), all = s.init();
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) shared[warp] = own;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < tile_warps; w++) {
    if (w == warps) break;
    if (w == warp) before = all;
    all = s.join(all, shared[w]);
  }
  if (l.tiles > 1) {
    lookback_tell(l, row, t, all);
    return s.join(lookback_before(s, l, row, t, all), before);
  }
  before = s.join(*carry, before);
  *carry = s.join(*carry, all);
  return before;
}

template <class S>
__global__ void __launch_bounds__(threads, sizeof(typename S::A) > 8 ? 3
                                           : S::places || S::nears   ? 4
                                                                     : 5)
    scan_tiles(S s, const void *x, void *y, int64_t *index, const __grid_constant__ scan_plan p,
               const __grid_constant__ lookback l) {
  using Tile = tile_of<S>;
  using A = typename S::A;
  extern __shared__ uint4 tile_memory[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint4 *room = tile_memory + warp * Tile::warp_units, *out = room + 32 * tile_units;
  const bool alone = p.way == scan_by_warps;
  const int size = (alone ? 1 : p.warps) * Tile::per_warp;
  int64_t row = alone ? (int64_t)blockIdx.x * p.warps + warp : blockIdx.x, at = 0, end = p.n;
  if (row >= p.outer && alone) return; /* whole warps, that wait for nobody */
  uint32_t t = 0;
  if (l.tiles > 1) {
    const uint32_t tile = published_tile(l.results);
    row = tile / l.tiles;
    t = tile - (uint32_t)row * l.tiles;
    at = (int64_t)t * size;
    end = at + size < p.n ? at + size : p.n;
  }
  const int64_t base = row * p.n;
  A carry = s.init();
  bool odd = false;
#pragma unroll 1
  for (; at < end; at += size, odd = !odd) {
    const int64_t i0 = at + (alone ? 0 : warp * Tile::per_warp);
    tile_read(s, x, base, i0, p, room);
    const A upto = scan_warp(s, tile_total(s, i0 + lane * Tile::items, room));
    const A lead = shuffle_from(upto, lane - 1), total = shuffle_from(upto, 31);
    A before = carry;
    if (alone)
      carry = s.join(carry, total);
    else
      before = before_warp(s, total, (uint32_t)row, t, odd, l, &carry);
    if (lane) before = s.join(before, lead);
    tile_write(s, y, index, base, i0, before, p, room, out);
    __syncwarp();
  }
}

template <class S>
tn_status run_tiles(const tn_kernel_args *args, S s, scan_plan p, const void *x, void *y,
                    int64_t *index) {
  using Tile = tile_of<S>;
  constexpr int words = published_words<typename S::A>();
  p.packs = !Tile::any && p.n % most(Tile::width, 4) == 0 && is_aligned(x, 16) &&
            is_aligned(y, 16) && is_aligned(index, 16);
  lookback l = lookback_of(args->workspace, p.outer, p.walks ? 1 : p.tiles);
  tn_status status = l.tiles > 1 ? lookback_begin(args, l, words) : TN_OK;
  if (status != TN_OK) return status;
  int64_t blocks = p.outer * (int64_t)l.tiles;
  if (p.way == scan_by_warps) blocks = ceil_div(p.outer, p.warps);
  const size_t shared = (size_t)p.warps * Tile::warp_units * sizeof(uint4);
  status = allow_shared(args, scan_tiles<S>, shared);
  if (status != TN_OK) return status;
  return launch(args, scan_tiles<S>, (unsigned)blocks, (unsigned)p.warps * 32, shared, s, x, y,
                index, p, l);
}

} // namespace

#endif /* KERNELS_CUDA_REDUCE_SCAN_ROWS_CUH */
