/*
 * What the kernels of few queries and many keys share ("flash decoding"): a block sums one split
 * of the keys of one head of k for all the queries that share it, its rows; splits are put
 * together in their order by a second kernel. A warp sums tiles of keys of its own, and what
 * warps have is put together lane by lane. Scores are in units of log 2.
 */
#ifndef KERNELS_CUDA_ATTENTION_SPLIT_CUH
#define KERNELS_CUDA_ATTENTION_SPLIT_CUH

#include "kernels/cuda/attention/attention.cuh"

namespace {

enum { split_warps = 4, split_threads = 32 * split_warps, most_splits = split_threads };

struct split_params {
  const void *q, *k, *v;
  void *y, *lse;
  const bool_t *mask; /* or NULL */
  const void *bias;   /* or NULL */
  float *part;        /* of several splits: sums of values [split, query, d], ... */
  float2 *part_sums;  /* ... and [split, query]: the largest score, the sum of weights */
  int64_t q_step[3], k_step[3], v_step[3], y_step[3], lse_step[3], mask_step[4], bias_step[4];
  int64_t queries; /* b h s */
  int heads, groups, s, d;
  int rows, row_blocks; /* queries that share a head of k, and blocks of them */
  int end;              /* the keys that some query sees */
  int splits, split_keys;
  int shift; /* of a causal call: query i sees keys up to i + shift */
  bool causal, wide, brain;
  float scale; /* of products, to units of log 2 */
};

/* What a block works on. */
struct split_block {
  int64_t b, unit; /* unit: the head of k, counted through the batch */
  int group, split;
  int from, to; /* keys */
  int row;      /* the first of its rows */
};

/* Blocks of the same keys are neighbours, so that one reads what is in the cache for the other. */
__device__ __forceinline__ split_block split_block_of(const split_params &p, int block_rows) {
  split_block at;
  const unsigned keys = blockIdx.x / p.row_blocks;
  at.row = (int)(blockIdx.x % p.row_blocks) * block_rows;
  at.split = (int)(keys % p.splits);
  at.unit = keys / p.splits;
  at.b = at.unit / p.groups;
  at.group = (int)(at.unit % p.groups);
  at.from = at.split * p.split_keys;
  at.to = p.end - at.from < p.split_keys ? p.end : at.from + p.split_keys;
  return at;
}

/* A query of a block. Rows behind the last one stand for it, and are not stored. */
struct split_row {
  int head, i;
  int seen; /* keys of the split, and those before it, that it sees */
};

__device__ __forceinline__ split_row split_row_of(const split_params &p, const split_block &at,
                                                  int row) {
  split_row r;
  row = least(row, p.rows - 1);
  r.head = at.group * (p.rows / p.s) + row / p.s;
  r.i = row % p.s;
  const int64_t seen = (int64_t)r.i + 1 + p.shift;
  r.seen = p.causal && seen < at.to ? (int)seen : at.to;
  return r;
}

__device__ __forceinline__ int64_t split_offset(const int64_t *step, int64_t b, int head, int i) {
  return b * step[0] + head * step[1] + i * step[2];
}

/* N products of a row's become scores; -infinity where a key is hidden. All that is read of mask
 * and bias is read at once; key(x) is that of s[x]. */
template <class T, int N, class Key>
__device__ __forceinline__ void split_scores(float (&s)[N], const split_params &p,
                                             const split_block &at, const split_row &r, Key key) {
#pragma unroll
  for (int x = 0; x < N; x++) s[x] *= p.scale;
  if (p.bias) {
    const T *bias = (const T *)p.bias + split_offset(p.bias_step, at.b, r.head, r.i);
    T read[N];
#pragma unroll
    for (int x = 0; x < N; x++) read[x] = bias[least(key(x), at.to - 1) * p.bias_step[3]];
#pragma unroll
    for (int x = 0; x < N; x++) s[x] = fmaf(load(read[x]), 1.44269504f, s[x]);
  }
  if (p.mask) {
    const bool_t *mask = p.mask + split_offset(p.mask_step, at.b, r.head, r.i);
    bool_t read[N];
#pragma unroll
    for (int x = 0; x < N; x++) read[x] = mask[least(key(x), at.to - 1) * p.mask_step[3]];
#pragma unroll
    for (int x = 0; x < N; x++) s[x] = read[x].byte ? s[x] : -INFINITY;
  }
#pragma unroll
  for (int x = 0; x < N; x++) s[x] = key(x) < r.seen ? s[x] : -INFINITY;
}

/* ------------------------------------------------------------------ accesses --- */

/* 16 bytes that are read once; zeros if not `valid`. */
__device__ __forceinline__ uint4 split_fetch(const void *at, bool valid) {
  uint4 v;
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
               "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
               "@p ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
               : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
               : "l"(at), "r"((int)valid));
  return v;
}

/* The same of rows that do not lie at multiples of 16 bytes. */
template <class T> __device__ __forceinline__ uint4 split_fetch_any(const T *at, bool valid) {
  union {
    pack<T, 16 / (int)sizeof(T)> elements;
    uint4 words;
  } v;
  v.words = make_uint4(0, 0, 0, 0);
  if (valid) {
#pragma unroll
    for (int e = 0; e < 16 / (int)sizeof(T); e++) v.elements.v[e] = at[e];
  }
  return v.words;
}

template <class T>
__device__ __forceinline__ uint4 split_vector(const T *at, bool valid, bool wide) {
  return wide ? split_fetch(at, valid) : split_fetch_any(at, valid);
}

/* Four elements of y. */
template <class T>
__device__ __forceinline__ void split_put(T *to, const float *v, bool wide, bool brain) {
  pack<T, 4> four;
#pragma unroll
  for (int e = 0; e < 4; e++) four.v[e] = rounded<T>(v[e], brain);
  if (wide) {
    *(pack<T, 4> *)to = four;
    return;
  }
#pragma unroll
  for (int e = 0; e < 4; e++) to[e] = four.v[e];
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

/* What scores are taken from before they become weights: where there are none, anything. */
__device__ __forceinline__ float split_base(float top) { return top == -INFINITY ? 0 : top; }

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

/* ------------------------------------------------------------------- results --- */

/* Fours of columns that a lane has: those from `first` on come `run` at a time, `step` apart. */
struct split_columns {
  int first, run, step;
  __device__ __forceinline__ int at(int four) const {
    return first + four / run * step + four % run * 4;
  }
};

__device__ __forceinline__ float split_lse(float top, float sum) {
  return sum == 0 ? -INFINITY : 0.69314718f * top + logf(sum);
}

/* Stores a row of a state: as results, or for the second kernel. `speaks` for one lane of those
 * that have the row. */
template <class T, int COLUMNS>
__device__ __forceinline__ void split_store(const split_params &p, const split_block &at, int row,
                                            float top, float sum, const float (&y)[COLUMNS],
                                            const split_columns &columns, bool speaks) {
  if (row >= p.rows) return;
  const int64_t query = at.unit * p.rows + row;
  const split_row r = split_row_of(p, at, row);
  const bool last = p.splits == 1;
  const float factor = !last ? 1.0f : sum == 0 ? 0.0f : 1 / sum;
  float *part = p.part + (at.split * p.queries + query) * p.d;
  T *result = (T *)p.y + split_offset(p.y_step, at.b, r.head, r.i);
#pragma unroll
  for (int f = 0; f < COLUMNS / 4; f++) {
    const int column = columns.at(f);
    if (column >= p.d) continue;
    const float v[4] = {y[4 * f] * factor, y[4 * f + 1] * factor, y[4 * f + 2] * factor,
                        y[4 * f + 3] * factor};
    if (last)
      split_put(result + column, v, p.wide, p.brain);
    else
      *(float4 *)(part + column) = make_float4(v[0], v[1], v[2], v[3]);
  }
  if (!speaks) return;
  if (!last)
    p.part_sums[at.split * p.queries + query] = make_float2(top, sum);
  else if (p.lse)
    ((float *)p.lse)[split_offset(p.lse_step, at.b, r.head, r.i)] = split_lse(top, sum);
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_SPLIT_CUH */
