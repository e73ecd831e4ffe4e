/*
 * Segments of keys on tensor cores, for the 16-bit floats: keys and values go from memory straight
 * to the registers of the products' left operands, which take any order of columns and of keys so
 * long as the other side has the same. So a warp has much of memory under way and no barrier until
 * a segment's end. A warp has 8 rows; where there are more, others have the same keys at the same
 * time, which the first cache then reads once.
 */
#ifndef KERNELS_CUDA_ATTENTION_SPLIT_MMA_CUH
#define KERNELS_CUDA_ATTENTION_SPLIT_MMA_CUH

#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/attention_split.cuh"

namespace {

enum { split_mma_rows = 8, split_mma_keys = 16 /* of a warp's tile */ };

/* Blocks that a multiprocessor gets: more hide no more of memory's latency. */
__host__ __device__ constexpr int split_mma_resident(int d) { return d <= 64 ? 3 : 2; }

/* Warps of a block for different rows of the same keys: 1, 2 or 4. */
__host__ __device__ constexpr int split_row_warps(int rows) {
  return rows <= split_mma_rows ? 1 : rows <= 2 * split_mma_rows ? 2 : 4;
}

/* Tiles that are read ahead, and accesses to a row of keys and of values. */
template <int D> struct split_mma_sizes {
  static constexpr int ahead = D <= 64 ? 2 : 1;
  static constexpr int key_parts = D / 32, value_parts = D / 64;
};

/* Lane 4 g + c has keys g and g + 8, of which it has columns 8 c of every 32 on; and of keys 2 c,
 * 2 c + 1 and 8 further the columns 8 g of every 64 on. */
template <int D> struct split_mma_tile {
  uint4 k[2][split_mma_sizes<D>::key_parts], v[4][split_mma_sizes<D>::value_parts];
};

/* Of rows 2 c and 2 c + 1: the largest scores, the lane's part of the sums of their weights, and
 * columns 64 z + 8 g + 2 i and one further of y, of the first row at e = 0 and 2. */
template <int D> struct split_mma_state {
  float top[2], sum[2], y[split_mma_sizes<D>::value_parts][4][4];
};

/* ------------------------------------------------------------------- reading --- */

/* Where a warp reads. */
template <class T, int D> struct split_reader {
  const T *k, *v; /* at the lane's first key and columns */
  int key, step;  /* the tile's first key; how far apart tiles of the warp are */

  __device__ __forceinline__ split_reader(const split_params &p, const split_block &at, int first,
                                          int step)
      : key(first), step(step) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
    k = (const T *)p.k + split_offset(p.k_step, at.b, at.group, first + g) + 8 * c;
    v = (const T *)p.v + split_offset(p.v_step, at.b, at.group, first + 2 * c) + 8 * g;
  }

  template <bool wide>
  __device__ __forceinline__ void keys(split_mma_tile<D> &tile, const split_params &p, int to) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int x = 0; x < split_mma_sizes<D>::key_parts; x++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        tile.k[h][x] = split_vector(k + 8 * h * p.k_step[2] + 32 * x,
                                    key + g + 8 * h < to && 32 * x + 8 * c < p.d, wide);
    k += step * p.k_step[2];
  }
  template <bool wide>
  __device__ __forceinline__ void values(split_mma_tile<D> &tile, const split_params &p, int to) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 4; h++)
#pragma unroll
      for (int z = 0; z < split_mma_sizes<D>::value_parts; z++) {
        const int row = h % 2 + h / 2 * 8;
        tile.v[h][z] = split_vector(v + row * p.v_step[2] + 64 * z,
                                    key + 2 * c + row < to && 64 * z + 8 * g < p.d, wide);
      }
    v += step * p.v_step[2];
    key += step;
  }
};

template <class T, int D>
__device__ __forceinline__ void split_read_keys(split_reader<T, D> &from, split_mma_tile<D> &tile,
                                                const split_params &p, int to) {
  if (p.wide)
    from.template keys<true>(tile, p, to);
  else
    from.template keys<false>(tile, p, to);
}
template <class T, int D>
__device__ __forceinline__ void split_read_values(split_reader<T, D> &from, split_mma_tile<D> &tile,
                                                  const split_params &p, int to) {
  if (p.wide)
    from.template values<true>(tile, p, to);
  else
    from.template values<false>(tile, p, to);
}

__device__ __forceinline__ uint32_t word_of(const uint4 &v, int i) {
  return ((const uint32_t *)&v)[i];
}

/* A warp's rows of queries, as right operands: zeros where there are none. */
template <class T, int D> struct split_mma_queries {
  uint4 q[split_mma_sizes<D>::key_parts];

  __device__ __forceinline__ split_mma_queries(const split_params &p, const split_block &at,
                                               int row) {
    const int own = row + (int)threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 8;
    const split_row r = split_row_of(p, at, own);
    const T *from = (const T *)p.q + split_offset(p.q_step, at.b, r.head, r.i) + column;
#pragma unroll
    for (int x = 0; x < split_mma_sizes<D>::key_parts; x++)
      q[x] = split_vector(from + 32 * x, own < p.rows && 32 * x + column < p.d, p.wide);
  }
};

/* ------------------------------------------------------------------- summing --- */

/* Scores of keys g and g + 8, in this order, for rows 2 c and 2 c + 1. */
template <class T, int D>
__device__ __forceinline__ void split_products(float (&s)[2][2], const split_mma_queries<T, D> &q,
                                               const split_mma_tile<D> &tile) {
  float sums[2][4]; /* two, for neither waits for the other */
#pragma unroll
  for (int n = 0; n < 2; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) sums[n][e] = 0;
#pragma unroll
  for (int x = 0; x < split_mma_sizes<D>::key_parts; x++)
#pragma unroll
    for (int n = 0; n < 2; n++) {
      const uint32_t a[4] = {word_of(tile.k[0][x], 2 * n), word_of(tile.k[1][x], 2 * n),
                             word_of(tile.k[0][x], 2 * n + 1), word_of(tile.k[1][x], 2 * n + 1)};
      multiply_add(sums[n], a, word_of(q.q[x], 2 * n), word_of(q.q[x], 2 * n + 1), T());
    }
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int h = 0; h < 2; h++) s[r][h] = sums[0][2 * h + r] + sums[1][2 * h + r];
}

/* Weights are 2^this at the most: the least of float16 is then 2^-36 of the largest weight. */
template <class T> __device__ constexpr float split_lift() {
  return std::is_same_v<T, half_t> ? 12.0f : 0.0f;
}

/* Scores become weights; sums of earlier keys are rescaled. */
template <class T, int D>
__device__ __forceinline__ void split_soften(float (&s)[2][2], split_mma_state<D> &w) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float top = fmaxf(s[r][0], s[r][1]);
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2)
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
    top = fmaxf(top, w.top[r]);
    const float base = split_base(top), factor = exp2f(w.top[r] - base);
#pragma unroll
    for (int h = 0; h < 2; h++) s[r][h] = exp2f(s[r][h] - base + split_lift<T>());
    w.top[r] = top;
    w.sum[r] = w.sum[r] * factor + (s[r][0] + s[r][1]);
#pragma unroll
    for (int z = 0; z < split_mma_sizes<D>::value_parts; z++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        w.y[z][i][r] *= factor;
        w.y[z][i][2 + r] *= factor;
      }
  }
}

/* What is left of a weight: no less than the type has, lest an infinite value be taken 0 times. */
template <class T> __device__ __forceinline__ float split_rest(float weight, uint32_t bits) {
  constexpr float least = std::is_same_v<T, half_t> ? 0x1p-24f : 0x1p-126f;
  const float rest = weight - load(T{(unsigned short)bits});
  return weight > 0 ? fmaxf(rest, least) : 0;
}

/* An 8 by 8 matrix of 16-bit numbers, turned: lane 4 g + c has columns 2 c and 2 c + 1 of row g. */
__device__ __forceinline__ uint32_t split_turned(uint32_t x) {
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

/* y += values' weights, which are two numbers of 16 bits, together nearly as exact as the float. */
template <class T, int D>
__device__ __forceinline__ void split_add(split_mma_state<D> &w, const float (&s)[2][2],
                                          const split_mma_tile<D> &tile) {
  uint32_t high[2], low[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const uint32_t first = pair_below(s[0][h], s[1][h], T());
    const uint32_t rest =
        pair_of(split_rest<T>(s[0][h], first & 0xffff), split_rest<T>(s[1][h], first >> 16), T());
    high[h] = split_turned(first);
    low[h] = split_turned(rest);
  }
#pragma unroll
  for (int z = 0; z < split_mma_sizes<D>::value_parts; z++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      uint32_t a[4]; /* pairs of keys, of an even column and of the odd one behind it */
#pragma unroll
      for (int x = 0; x < 4; x++)
        a[x] = __byte_perm(word_of(tile.v[x / 2 * 2][z], i), word_of(tile.v[x / 2 * 2 + 1][z], i),
                           x % 2 ? 0x7632 : 0x5410);
      multiply_add(w.y[z][i], a, high[0], high[1], T());
      multiply_add(w.y[z][i], a, low[0], low[1], T());
    }
}

/* ------------------------------------------------------------------- results --- */

/* What the warps of a block have of a segment. */
template <int D> struct split_mma_room {
  float y[split_warps][split_mma_rows][D + 4];
  float2 sums[split_warps][split_mma_rows]; /* the largest score, the sum of weights */
};

template <class T, int D>
__device__ __forceinline__ void split_mma_give(split_mma_room<D> &room,
                                               const split_mma_state<D> &w) {
  constexpr float lower = std::is_same_v<T, half_t> ? 0x1p-12f : 1.0f;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float sum = w.sum[r];
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (g == 0) room.sums[warp][2 * c + r] = make_float2(w.top[r], sum * lower);
#pragma unroll
    for (int z = 0; z < split_mma_sizes<D>::value_parts; z++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        *(float2 *)&room.y[warp][2 * c + r][64 * z + 8 * g + 2 * i] =
            make_float2(w.y[z][i][r] * lower, w.y[z][i][2 + r] * lower);
  }
}

/* Puts together what warps have of a segment, in their order, and stores it. Each thread has four
 * columns of some rows. */
template <int D>
__device__ __forceinline__ void split_mma_finish(const split_mma_room<D> &room, int row_warps,
                                                 const split_params &p, const split_block &at) {
  const int rows = least(split_mma_rows * row_warps, p.rows - at.row);
  for (int x = threadIdx.x; x < rows * (D / 4); x += split_threads) {
    const int row = x / (D / 4), column = x % (D / 4) * 4, own = row % split_mma_rows;
    if (column >= p.d) continue;
    float top = -INFINITY, sum = 0;
    for (int i = row / split_mma_rows; i < split_warps; i += row_warps)
      top = fmaxf(top, room.sums[i][own].x);
    float4 y = make_float4(0, 0, 0, 0);
    for (int i = row / split_mma_rows; i < split_warps; i += row_warps) {
      const float2 theirs = room.sums[i][own];
      const float factor = exp2f(theirs.x - split_base(top));
      const float4 v = *(const float4 *)&room.y[i][own][column];
      sum = fmaf(theirs.y, factor, sum);
      y = make_float4(fmaf(v.x, factor, y.x), fmaf(v.y, factor, y.y), fmaf(v.z, factor, y.z),
                      fmaf(v.w, factor, y.w));
    }
    const split_row place = split_row_of(p, at, at.row + row);
    split_store_four<any_half>(p, at, at.row + row, place, column, y, sum);
    if (column == 0) split_store_sums(p, at, at.row + row, place, top, sum);
  }
}

/* -------------------------------------------------------------------- kernel --- */

/* A warp's keys of a segment. */
template <class T, int D>
__device__ __forceinline__ void split_mma_segment(split_mma_state<D> &w, const split_params &p,
                                                  const split_block &at, int row_warps) {
  constexpr int ahead = split_mma_sizes<D>::ahead;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
  const int first = at.from + warp / row_warps * split_mma_keys;
  const int own = at.row + warp % row_warps * split_mma_rows;
  split_reader<T, D> reader(p, at, first, p.granule);
  split_mma_tile<D> tiles[ahead];
#pragma unroll
  for (int n = 0; n < ahead; n++) {
    split_read_keys(reader, tiles[n], p, at.to);
    split_read_values(reader, tiles[n], p, at.to);
  }
  const split_mma_queries<T, D> q(p, at, own);
  const split_row row[2] = {split_row_of(p, at, own + 2 * c), split_row_of(p, at, own + 2 * c + 1)};
#pragma unroll 1
  for (int key = first; key < at.to;) {
#pragma unroll
    for (int n = 0; n < ahead; n++, key += p.granule) {
      if (n > 0 && key >= at.to) break;
      float s[2][2];
      split_products<T, D>(s, q, tiles[n]);
      split_read_keys(reader, tiles[n], p, at.to);
#pragma unroll
      for (int r = 0; r < 2; r++)
        split_scores<T>(s[r], p, at, row[r], [&](int x) { return key + g + 8 * x; });
      split_soften<T, D>(s, w);
      split_add<T, D>(w, s, tiles[n]);
      split_read_values(reader, tiles[n], p, at.to);
    }
  }
}

template <class T, int D>
__global__ void __launch_bounds__(split_threads, split_mma_resident(D))
    attend_split_mma(const __grid_constant__ split_params p) {
  __shared__ __align__(16) split_mma_room<D> room;
  const int row_warps = split_row_warps(p.rows);
  const int range = split_range(p), end = split_begin(p, range + 1);
  let_later_begin();
#pragma unroll 1
  for (int granule = split_begin(p, range); granule < end;) {
    const split_block at = split_block_of(p, granule, split_mma_rows * row_warps);
    split_mma_state<D> w = {{-INFINITY, -INFINITY}};
    split_mma_segment<T, D>(w, p, at, row_warps);
    __syncthreads(); /* the last segment's sums are no longer wanted */
    split_mma_give<T, D>(room, w);
    __syncthreads();
    split_mma_finish<D>(room, row_warps, p, at);
    granule = at.next;
  }
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_SPLIT_MMA_CUH */
