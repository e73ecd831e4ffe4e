/*
 * Segments of keys on tensor cores, for the 16-bit floats and up to 16 rows to a block. Each warp
 * has a ring of tiles in shared memory to itself, which is filled in the background across the
 * ends of segments: memory never waits for what a block does between them, and warps wait for one
 * another only there.
 */
#ifndef KERNELS_CUDA_ATTENTION_SPLIT_MMA_CUH
#define KERNELS_CUDA_ATTENTION_SPLIT_MMA_CUH

#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/attention_split.cuh"

namespace {

enum {
  split_mma_rows = 16,
  split_mma_keys = 16, /* of a warp's tile */
  split_mma_granule = split_warps * split_mma_keys,
  split_most_stages = 4,
};

/* Blocks that a multiprocessor has registers for, and shared memory where it has much. */
__host__ __device__ constexpr int split_mma_resident(int d) {
  return d <= 64 ? 3 : d <= 128 ? 2 : 1;
}

/* A warp's tile; at a segment's end what the warp has summed takes its place. */
template <class T, int D> union split_tile {
  static constexpr int pitch = D + 8; /* so that eight rows lie in different banks */
  struct {
    T k[split_mma_keys][pitch], v[split_mma_keys][pitch];
  } in;
  float y[split_mma_rows][pitch];
};

/* Bytes of a block's tiles. */
template <class T, int D> constexpr size_t split_ring_bytes(int stages) {
  return sizeof(split_tile<T, D>) * split_warps * (size_t)stages;
}

/* ------------------------------------------------------------------- reading --- */

/* Where the warp reads next, of a line of granules. */
template <class T, int D> struct split_reader {
  static constexpr int across = D / 8, abreast = 32 / across; /* accesses of a row, rows at once */
  const T *k, *v;                                             /* the head's, at the lane's column */
  int64_t unit, left;
  int64_t granule; /* of the head */

  __device__ __forceinline__ void enter(const split_params &p) {
    const int64_t b = unit / p.groups;
    const int group = (int)(unit % p.groups), column = threadIdx.x % across * 8;
    k = (const T *)p.k + split_offset(p.k_step, b, group, 0) + column;
    v = (const T *)p.v + split_offset(p.v_step, b, group, 0) + column;
  }

  __device__ __forceinline__ void begin(const split_params &p, int64_t first, int64_t end) {
    left = end - first;
    unit = first / p.unit_granules;
    granule = first % p.unit_granules;
    enter(p);
  }

  static __device__ __forceinline__ void put(T *to, const T *from, bool valid, bool wide) {
    if (wide)
      copy_16(to, from, valid);
    else
      *(uint4 *)to = split_fetch_any(from, valid);
  }

  /* Begins to fill a tile, if there is one left, and goes on to the next. */
  __device__ __forceinline__ void fill(split_tile<T, D> &tile, const split_params &p) {
    if (left > 0) {
      const int lane = threadIdx.x % 32, row = lane / across, column = lane % across * 8;
      const int key = ((int)granule * split_warps + (int)threadIdx.x / 32) * split_mma_keys + row;
      const bool inside = column < p.d;
#pragma unroll
      for (int x = 0; x < split_mma_keys; x += abreast) {
        const bool valid = inside && key + x < p.end;
        const int64_t at = valid ? key + x : 0;
        put(&tile.in.k[row + x][column], inside ? k + at * p.k_step[2] : k - column, valid, p.wide);
      }
#pragma unroll
      for (int x = 0; x < split_mma_keys; x += abreast) {
        const bool valid = inside && key + x < p.end;
        const int64_t at = valid ? key + x : 0;
        put(&tile.in.v[row + x][column], inside ? v + at * p.v_step[2] : v - column, valid, p.wide);
      }
      left--;
      if (++granule == p.unit_granules) {
        granule = 0;
        unit++;
        if (left > 0) enter(p);
      }
    }
    copies_commit();
  }
};

/* A block's rows of queries; zeros where there are none. */
template <class T, int D>
__device__ __forceinline__ void split_stage_queries(T (*q)[D + 8], const split_params &p,
                                                    const split_block &at) {
  for (int x = threadIdx.x; x < split_mma_rows * D / 8; x += split_threads) {
    const int n = x / (D / 8), row = at.row + n, column = x % (D / 8) * 8;
    const split_row r = split_row_of(p, at, row);
    const T *from = (const T *)p.q + split_offset(p.q_step, at.b, r.head, r.i) + column;
    *(uint4 *)&q[n][column] = split_vector(from, row < p.rows && column < p.d, p.wide);
  }
}

/* ------------------------------------------------------------------- summing --- */

/* Lane 4 g + c has rows g and g + 8: their largest scores, its part of the sums of their weights,
 * and columns 8 n + 2 c and one further of y, of row g first. */
template <int D> struct split_mma_state { float top[2], sum[2], y[D / 8][4]; };

/* The scores of a lane: of row g and of row g + 8, keys 2 c, 2 c + 1 and 8 further. */
struct split_mma_scores {
  float v[2][4];
};

template <class T, int D>
__device__ __forceinline__ void split_products(split_mma_scores &s, const T (*q)[D + 8],
                                               const T (*k)[D + 8]) {
  float sums[2][4]; /* of keys 8 n to 7 further */
  const int lane = threadIdx.x % 32, low = lane & 7, middle = lane >> 3 & 1, high = lane >> 4;
#pragma unroll
  for (int n = 0; n < 2; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) sums[n][e] = 0;
#pragma unroll
  for (int x = 0; x < D; x += 16) {
    uint32_t a[4], b[4];
    load_matrices(a, &q[low + 8 * middle][x + 8 * high]);
    load_matrices(b, &k[low + 8 * high][x + 8 * middle]);
    multiply_add(sums[0], a, b[0], b[1], T());
    multiply_add(sums[1], a, b[2], b[3], T());
  }
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int x = 0; x < 4; x++) s.v[r][x] = sums[x / 2][2 * r + x % 2];
}

/* Weights are 2^this at the most: the least of float16 is then 2^-36 of the largest weight. */
template <class T> __device__ constexpr float split_lift() {
  return std::is_same_v<T, half_t> ? 12.0f : 0.0f;
}

/* Scores become weights; sums of earlier keys are rescaled. */
template <class T, int D>
__device__ __forceinline__ void split_soften(split_mma_scores &s, split_mma_state<D> &w) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float top = fmaxf(fmaxf(s.v[r][0], s.v[r][1]), fmaxf(s.v[r][2], s.v[r][3]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    top = fmaxf(top, w.top[r]);
    const float base = split_base(top), factor = exp2f(w.top[r] - base);
    float sum = 0;
#pragma unroll
    for (int x = 0; x < 4; x++) {
      s.v[r][x] = exp2f(s.v[r][x] - base + split_lift<T>());
      sum += s.v[r][x];
    }
    w.top[r] = top;
    w.sum[r] = w.sum[r] * factor + sum;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
      w.y[n][2 * r] *= factor;
      w.y[n][2 * r + 1] *= factor;
    }
  }
}

/* What is left of a weight: no less than the type has, lest an infinite value be taken 0 times. */
template <class T> __device__ __forceinline__ float split_rest(float weight, uint32_t bits) {
  constexpr float least = std::is_same_v<T, half_t> ? 0x1p-24f : 0x1p-126f;
  const float rest = weight - load(T{(unsigned short)bits});
  return weight > 0 ? fmaxf(rest, least) : 0;
}

/* Weights as two numbers of 16 bits, which together are nearly as exact as the float. */
template <class T>
__device__ __forceinline__ void split_weights(uint32_t &high, uint32_t &low, float a, float b) {
  high = pair_below(a, b, T());
  low = pair_of(split_rest<T>(a, high & 0xffff), split_rest<T>(b, high >> 16), T());
}

/* y += weights v. */
template <class T, int D>
__device__ __forceinline__ void split_add(split_mma_state<D> &w, const split_mma_scores &s,
                                          const T (*v)[D + 8]) {
  const int lane = threadIdx.x % 32;
  uint32_t high[4], low[4];
#pragma unroll
  for (int x = 0; x < 4; x++)
    split_weights<T>(high[x], low[x], s.v[x % 2][x / 2 * 2], s.v[x % 2][x / 2 * 2 + 1]);
#pragma unroll
  for (int n = 0; n < D / 8; n += 2) {
    uint32_t b[4];
    load_transposed(b, &v[lane & 15][8 * n + (lane >> 4) * 8]);
#pragma unroll
    for (int m = 0; m < 2; m++) multiply_add(w.y[n + m], high, b[2 * m], b[2 * m + 1], T());
#pragma unroll
    for (int m = 0; m < 2; m++) multiply_add(w.y[n + m], low, b[2 * m], b[2 * m + 1], T());
  }
}

/* ------------------------------------------------------------------- results --- */

/* The largest score and the sum of weights of each warp's rows. */
using split_mma_sums = float2[split_warps][split_mma_rows];

/* A warp's state to memory that the block shares. */
template <class T, int D>
__device__ __forceinline__ void split_mma_give(split_tile<T, D> &tile, split_mma_sums &sums,
                                               split_mma_state<D> &w) {
  constexpr float lower = std::is_same_v<T, half_t> ? 0x1p-12f : 1.0f;
  const int lane = threadIdx.x % 32;
  __syncwarp();
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int row = lane / 4 + 8 * r;
    float sum = w.sum[r];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (lane % 4 == 0) sums[threadIdx.x / 32][row] = make_float2(w.top[r], sum * lower);
#pragma unroll
    for (int n = 0; n < D / 8; n++)
      *(float2 *)&tile.y[row][8 * n + lane % 4 * 2] =
          make_float2(w.y[n][2 * r] * lower, w.y[n][2 * r + 1] * lower);
  }
}

/* Puts together what warps have of a segment, in their order, and stores it. Each thread has four
 * columns of some rows; tiles of a warp are `stages` apart. */
template <class T, int D>
__device__ __forceinline__ void split_mma_finish(const split_tile<T, D> *tiles, int stages,
                                                 const split_mma_sums &sums, const split_params &p,
                                                 const split_block &at) {
  const int rows = least(split_mma_rows, p.rows - at.row);
  for (int x = threadIdx.x; x < rows * (D / 4); x += split_threads) {
    const int row = x / (D / 4), column = x % (D / 4) * 4;
    if (column >= p.d) continue;
    float top = sums[0][row].x, sum = 0;
#pragma unroll
    for (int i = 1; i < split_warps; i++) top = fmaxf(top, sums[i][row].x);
    float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < split_warps; i++) {
      const float2 own = sums[i][row];
      const float factor = exp2f(own.x - split_base(top));
      const float4 v = *(const float4 *)&tiles[i * stages].y[row][column];
      sum = fmaf(own.y, factor, sum);
      y = make_float4(fmaf(v.x, factor, y.x), fmaf(v.y, factor, y.y), fmaf(v.z, factor, y.z),
                      fmaf(v.w, factor, y.w));
    }
    const split_row place = split_row_of(p, at, at.row + row);
    split_store_four<any_half>(p, at, at.row + row, place, column, y, sum);
    if (column == 0) split_store_sums(p, at, at.row + row, place, top, sum);
  }
}

/* -------------------------------------------------------------------- kernel --- */

/* A tile of the warp, which begins at a key. */
template <class T, int D>
__device__ __forceinline__ void
split_mma_tile(split_mma_state<D> &w, const T (*q)[D + 8], const split_tile<T, D> &tile,
               const split_params &p, const split_block &at, const split_row (&row)[2], int key) {
  const int lane = threadIdx.x % 32;
  split_mma_scores s;
  split_products<T, D>(s, q, tile.in.k);
#pragma unroll
  for (int r = 0; r < 2; r++)
    split_scores<T>(s.v[r], p, at, row[r],
                    [&](int x) { return key + lane % 4 * 2 + x % 2 + x / 2 * 8; });
  split_soften<T, D>(s, w);
  split_add<T, D>(w, s, tile.in.v);
}

template <class T, int D>
__global__ void __launch_bounds__(split_threads, split_mma_resident(D))
    attend_split_mma(const __grid_constant__ split_params p) {
  extern __shared__ __align__(16) char ring[];
  __shared__ __align__(16) T q[split_mma_rows][D + 8];
  __shared__ split_mma_sums sums;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, stages = p.stages;
  split_tile<T, D> *const tiles = (split_tile<T, D> *)ring, *const own = tiles + warp * stages;
  const int64_t range = split_range(p), end = split_begin(p, range + 1);
  int64_t granule = split_begin(p, range);
  split_reader<T, D> reader;
  reader.begin(p, granule, end);
  for (int x = 0; x < stages - 1; x++) reader.fill(own[x], p);
  int slot = 0, free = stages - 1;
#pragma unroll 1
  while (granule < end) {
    const split_block at = split_block_of(p, granule, split_mma_rows);
    const split_row row[2] = {split_row_of(p, at, at.row + lane / 4),
                              split_row_of(p, at, at.row + lane / 4 + 8)};
    split_mma_state<D> w = {{-INFINITY, -INFINITY}};
    __syncthreads(); /* the last segment's queries and states are no longer wanted */
    split_stage_queries<T, D>(q, p, at);
    __syncthreads();
    int key = at.from + warp * split_mma_keys;
#pragma unroll 1
    for (; granule < at.next; granule++, key += split_mma_granule) {
      copies_wait_but(stages - 2);
      __syncwarp(); /* the tile is there for all lanes, and the one before it read by all */
      reader.fill(own[free], p);
      split_mma_tile<T, D>(w, q, own[slot], p, at, row, key);
      free = slot;
      slot = slot + 1 == stages ? 0 : slot + 1;
    }
    split_mma_give<T, D>(own[free], sums, w);
    __syncthreads();
    split_mma_finish<T, D>(tiles + free, stages, sums, p, at);
  }
  split_release();
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_SPLIT_MMA_CUH */
