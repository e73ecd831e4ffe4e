/*
 * Segments of keys in float32, by fused multiply-adds: eight lanes share a key's products with
 * all rows, a lane then softens the scores of one key, and each lane sums columns of its own over
 * the values.
 */
#ifndef KERNELS_CUDA_ATTENTION_SPLIT_FLOAT_CUH
#define KERNELS_CUDA_ATTENTION_SPLIT_FLOAT_CUH

#include "kernels/cuda/attention/attention_split.cuh"

namespace {

enum { split_float_keys = 32 /* of a warp's tile */ };

/* Blocks that a multiprocessor has registers for. */
__host__ __device__ constexpr int split_float_resident(int d, int rows) {
  return rows <= 4 ? 4 : d <= 128 ? 3 : 2;
}

/* -------------------------------------------------------------------- states --- */

/* What a lane has summed: of each of its rows the largest score, the weights and its own columns
 * of the values. All warps of a block give a lane the same rows and columns. */
template <int ROWS, int COLUMNS> struct split_state {
  static constexpr int words = ROWS * (COLUMNS + 2);
  float top[ROWS], sum[ROWS], y[ROWS][COLUMNS];
};

/* States of two warps on their way to two others. */
template <class S> struct split_room { float v[2][S::words][32]; };

template <int ROWS, int COLUMNS>
__device__ __forceinline__ void split_clear(split_state<ROWS, COLUMNS> &w) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    w.top[r] = -INFINITY;
    w.sum[r] = 0;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) w.y[r][c] = 0;
  }
}

template <int ROWS, int COLUMNS>
__device__ __forceinline__ void split_give(float (*room)[32], const split_state<ROWS, COLUMNS> &w) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    room[r][lane] = w.top[r];
    room[ROWS + r][lane] = w.sum[r];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) room[2 * ROWS + r * COLUMNS + c][lane] = w.y[r][c];
  }
}

template <int ROWS, int COLUMNS>
__device__ __forceinline__ void split_take(const float (*room)[32], split_state<ROWS, COLUMNS> &w) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const float theirs = room[r][lane], top = fmaxf(w.top[r], theirs), base = split_base(top);
    const float mine = exp2f(w.top[r] - base), other = exp2f(theirs - base);
    w.top[r] = top;
    w.sum[r] = w.sum[r] * mine + room[ROWS + r][lane] * other;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
      w.y[r][c] = w.y[r][c] * mine + room[2 * ROWS + r * COLUMNS + c][lane] * other;
  }
}

/* Warp 0 gets what all warps have, in an order that never changes. */
template <class S> __device__ __forceinline__ void split_merge(split_room<S> &room, S &w) {
  const int warp = threadIdx.x / 32;
  if (warp >= 2) split_give(room.v[warp - 2], w);
  __syncthreads();
  if (warp < 2) split_take(room.v[warp], w);
  __syncthreads();
  if (warp == 1) split_give(room.v[0], w);
  __syncthreads();
  if (warp == 0) split_take(room.v[0], w);
}

/* -------------------------------------------------------------------- kernel --- */

/* Sizes for vectors of up to D elements and R rows. */
template <int D, int R> struct split_float {
  static constexpr int batch = 2;                       /* chunks of 32 columns read at once */
  static constexpr int abreast = D < 128 ? 128 / D : 1; /* values that a warp reads at once */
  static constexpr int runs = D > 128 ? D / 128 : 1;    /* fours of columns of a lane */
  static constexpr int group = runs > 1 ? 4 : 8;        /* reads of values under way */
  using state = split_state<R, 4 * runs>;
};

__device__ __forceinline__ float4 as_floats(const uint4 &v) {
  return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                     __uint_as_float(v.w));
}

template <int D, int R>
__device__ void split_stage_rows(float (&q)[R][D], const split_params &p, const split_block &at) {
  for (int x = threadIdx.x; x < R * D; x += split_threads) {
    const int row = at.row + x / D, column = x % D;
    const split_row r = split_row_of(p, at, row);
    const float *from = (const float *)p.q + split_offset(p.q_step, at.b, r.head, r.i);
    q[x / D][column] = row < p.rows && column < p.d ? from[column] : 0;
  }
}

/* v[x] summed over eight lanes: lane c of them is left with N / 8 sums, the first of which is
 * that of x = c' N / 8, where c' is c with its bits as they are. */
template <int N> __device__ __forceinline__ void share_sums(float (&v)[N]) {
  const int lane = threadIdx.x;
#pragma unroll
  for (int bit = 4; bit > 0; bit /= 2) {
    const int half = N * bit / 8;
    const bool upper = lane & bit;
#pragma unroll
    for (int x = 0; x < half; x++) {
      const float keep = upper ? v[x + half] : v[x], send = upper ? v[x] : v[x + half];
      v[x] = keep + __shfl_xor_sync(0xffffffffu, send, bit);
    }
  }
}

/* Products of 16 keys and all rows: to[key R + row]. */
template <int D, int R>
__device__ __forceinline__ void split_float_products(float *to, const float (&q)[R][D],
                                                     const split_params &p, const float *from,
                                                     int key, int end, bool wide) {
  using S = split_float<D, R>;
  const int c = threadIdx.x % 8, g = threadIdx.x % 32 / 8;
  float sums[4 * R];
#pragma unroll
  for (int x = 0; x < 4 * R; x++) sums[x] = 0;
#pragma unroll
  for (int i = 0; i < D / 32; i += S::batch) {
    uint4 k[S::batch][4];
#pragma unroll
    for (int x = 0; x < S::batch; x++)
#pragma unroll
      for (int n = 0; n < 4; n++) {
        const int column = 32 * (i + x) + 4 * c, j = key + 4 * n + g;
        k[x][n] = split_vector(from + j * p.k_step[2] + column, j < end && column < p.d, wide);
      }
#pragma unroll
    for (int x = 0; x < S::batch; x++)
#pragma unroll
      for (int r = 0; r < R; r++) {
        const float4 a = *(const float4 *)&q[r][32 * (i + x) + 4 * c];
#pragma unroll
        for (int n = 0; n < 4; n++) {
          const float4 b = as_floats(k[x][n]);
          float &sum = sums[n * R + r];
          sum = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
        }
      }
  }
  share_sums(sums);
  const int first = c * (R / 2), n = first / R;
#pragma unroll
  for (int x = 0; x < R / 2; x++) to[(4 * n + g) * R + first % R + x] = sums[x];
}

/* A lane's key: products become weights, and sums of earlier keys are rescaled. */
template <int D, int R>
__device__ __forceinline__ void split_float_soften(float *weights, const split_params &p,
                                                   const split_block &at, const int (&seen)[R],
                                                   int key, typename split_float<D, R>::state &w) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < R; r++) {
    const split_row row = split_row_of(p, at, at.row + r);
    float one[1] = {weights[lane * R + r]};
    split_scores<float>(one, p, at, {row.head, row.i, seen[r]}, [&](int) { return key + lane; });
    const float score = one[0];
    float top = score;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
    top = fmaxf(top, w.top[r]);
    const float base = split_base(top), factor = exp2f(w.top[r] - base);
    const float weight = exp2f(score - base);
    weights[lane * R + r] = weight;
    w.top[r] = top;
    w.sum[r] = w.sum[r] * factor + weight;
#pragma unroll
    for (int x = 0; x < 4 * split_float<D, R>::runs; x++) w.y[r][x] *= factor;
  }
}

/* y += weights v of 32 keys. */
template <int D, int R>
__device__ __forceinline__ void split_float_add(typename split_float<D, R>::state &w,
                                                const float *weights, const split_params &p,
                                                const float *from, int key, int end, bool wide) {
  using S = split_float<D, R>;
  constexpr int across = 32 / S::abreast;
  const int lane = threadIdx.x % 32, mine = lane / across, first = lane % across * 4;
#pragma unroll 1
  for (int j = 0; j < split_float_keys; j += S::group * S::abreast) {
    uint4 v[S::group][S::runs];
#pragma unroll
    for (int x = 0; x < S::group; x++)
#pragma unroll
      for (int f = 0; f < S::runs; f++) {
        const int at = key + j + x * S::abreast + mine, column = first + 128 * f;
        v[x][f] = split_vector(from + at * p.v_step[2] + column, at < end && column < p.d, wide);
      }
#pragma unroll
    for (int x = 0; x < S::group; x++) {
      float weight[R];
#pragma unroll
      for (int r = 0; r < R; r += 4)
        *(float4 *)&weight[r] = *(const float4 *)&weights[(j + x * S::abreast + mine) * R + r];
#pragma unroll
      for (int f = 0; f < S::runs; f++) {
        const float4 b = as_floats(v[x][f]);
#pragma unroll
        for (int r = 0; r < R; r++) {
          w.y[r][4 * f] = fmaf(weight[r], b.x, w.y[r][4 * f]);
          w.y[r][4 * f + 1] = fmaf(weight[r], b.y, w.y[r][4 * f + 1]);
          w.y[r][4 * f + 2] = fmaf(weight[r], b.z, w.y[r][4 * f + 2]);
          w.y[r][4 * f + 3] = fmaf(weight[r], b.w, w.y[r][4 * f + 3]);
        }
      }
    }
  }
}

/* The warp's tiles. */
template <int D, int R>
__device__ __forceinline__ void
split_float_tiles(typename split_float<D, R>::state &w, const float (&q)[R][D], float *weights,
                  const split_params &p, const split_block &at, bool wide) {
  const float *keys = (const float *)p.k + split_offset(p.k_step, at.b, at.group, 0);
  const float *values = (const float *)p.v + split_offset(p.v_step, at.b, at.group, 0);
  int seen[R], key = at.from + (int)threadIdx.x / 32 * split_float_keys;
#pragma unroll
  for (int r = 0; r < R; r++) seen[r] = split_row_of(p, at, at.row + r).seen;
#pragma unroll 1
  for (; key < at.to; key += split_warps * split_float_keys) {
#pragma unroll 1
    for (int half = 0; half < split_float_keys; half += 16)
      split_float_products<D, R>(weights + half * R, q, p, keys, key + half, at.to, wide);
    __syncwarp();
    split_float_soften<D, R>(weights, p, at, seen, key, w);
    __syncwarp();
    split_float_add<D, R>(w, weights, p, values, key, at.to, wide);
    __syncwarp();
  }
}

/* What the block's warps have of a segment, put together and stored. */
template <int D, int R>
__device__ __forceinline__ void
split_float_finish(split_room<typename split_float<D, R>::state> &room,
                   typename split_float<D, R>::state &w, const split_params &p,
                   const split_block &at) {
  using S = split_float<D, R>;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < R; r++) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
      w.sum[r] += __shfl_xor_sync(0xffffffffu, w.sum[r], lanes);
#pragma unroll
    for (int c = 0; c < 4 * S::runs && S::abreast > 1; c++)
      w.y[r][c] += __shfl_xor_sync(0xffffffffu, w.y[r][c], 16);
  }
  split_merge(room, w);
  if (threadIdx.x >= 128 / (4 * S::abreast)) return;
#pragma unroll
  for (int r = 0; r < R; r++) {
    const int row = at.row + r;
    if (row >= p.rows) break;
    const split_row place = split_row_of(p, at, row);
#pragma unroll
    for (int f = 0; f < S::runs; f++) {
      const int column = 4 * lane + 128 * f;
      const float *y = &w.y[r][4 * f];
      if (column < p.d)
        split_store_four<float>(p, at, row, place, column, make_float4(y[0], y[1], y[2], y[3]),
                                w.sum[r]);
    }
    if (lane == 0) split_store_sums(p, at, row, place, w.top[r], w.sum[r]);
  }
}

template <int D, int R>
__global__ void __launch_bounds__(split_threads, split_float_resident(D, R))
    attend_split_float(const __grid_constant__ split_params p) {
  using state = typename split_float<D, R>::state;
  __shared__ split_room<state> room;
  __shared__ __align__(16) float q[R][D], weights[split_warps][split_float_keys * R];
  const int range = split_range(p), end = split_begin(p, range + 1);
  const int warp = threadIdx.x / 32;
  let_later_begin();
#pragma unroll 1
  for (int granule = split_begin(p, range); granule < end;) {
    const split_block at = split_block_of(p, granule, R);
    state w;
    split_clear(w);
    __syncthreads(); /* the last segment's queries and states are no longer wanted */
    split_stage_rows<D, R>(q, p, at);
    __syncthreads();
    if (p.wide)
      split_float_tiles<D, R>(w, q, weights[warp], p, at, true);
    else
      split_float_tiles<D, R>(w, q, weights[warp], p, at, false);
    split_float_finish<D, R>(room, w, p, at);
    granule = at.next;
  }
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_SPLIT_FLOAT_CUH */
