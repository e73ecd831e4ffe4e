/*
 * What the kernels of few queries and many keys share ("flash decoding"): the keys of all heads of
 * k are one line of granules, of which each block sums an equal range, for all the queries that
 * share a head, its rows. What a range has of a head's keys is a segment: one that is whole makes
 * results, and the others are put together in their order by a second kernel. A warp sums tiles of
 * keys of its own. Scores are in units of log 2.
 */
#ifndef KERNELS_CUDA_ATTENTION_SPLIT_CUH
#define KERNELS_CUDA_ATTENTION_SPLIT_CUH

#include "kernels/cuda/attention/attention.cuh"

namespace {

enum { split_warps = 4, split_threads = 32 * split_warps };

struct split_params {
  const void *q, *k, *v;
  void *y, *lse;
  const bool_t *mask; /* or NULL */
  const void *bias;   /* or NULL */
  float *part;        /* of segments: sums of values [2 ranges, rows, d], ... */
  float2 *part_sums;  /* ... and [2 ranges, rows]: the largest score, the sum of weights */
  int64_t q_step[3], k_step[3], v_step[3], y_step[3], lse_step[3], mask_step[4], bias_step[4];
  int64_t queries; /* b h s */
  int heads, groups, s, d;
  int rows, row_blocks;       /* queries that share a head of k, and blocks of them */
  int end;                    /* the keys that some query sees */
  int granule, unit_granules; /* keys of a granule; granules of a head of k */
  int ranges, share, longer;  /* granules of a range; the first ranges have one more */
  int shift;                  /* of a causal call: query i sees keys up to i + shift */
  bool causal, wide, brain;
  float scale; /* of products, to units of log 2 */
};

/* The first granule of a range, and the range of a granule. */
__device__ __forceinline__ int split_begin(const split_params &p, int range) {
  return p.share * range + least(range, p.longer);
}
__device__ __forceinline__ int split_range_of(const split_params &p, int granule) {
  const int long_end = (p.share + 1) * p.longer;
  return granule < long_end ? granule / (p.share + 1) : p.longer + (granule - long_end) / p.share;
}

/* What a block works on: a segment. */
struct split_block {
  int64_t b, part; /* part: where its first row is kept for the second kernel */
  int group;
  int next;     /* the granule behind it */
  int from, to; /* keys */
  int row;      /* the first of its rows */
  bool whole;   /* all keys of the head */
};

/* Blocks of the same keys are neighbours, so that one reads what is in the cache for the other. */
__device__ __forceinline__ int split_range(const split_params &p) {
  return blockIdx.x / p.row_blocks;
}

/* The segment of the block's range that begins at a granule. A range has two at the most that are
 * not whole, its first and its last. */
__device__ __forceinline__ split_block split_block_of(const split_params &p, int granule,
                                                      int block_rows) {
  split_block at;
  const int range = split_range(p), begin = split_begin(p, range), end = split_begin(p, range + 1);
  const int unit = granule / p.unit_granules;
  const int first = unit * p.unit_granules, behind = first + p.unit_granules;
  at.b = unit / p.groups;
  at.group = unit % p.groups;
  at.next = least(end, behind);
  at.whole = granule == first && at.next == behind;
  at.part = (2 * range + (granule != begin)) * (int64_t)p.rows;
  at.row = (int)(blockIdx.x % p.row_blocks) * block_rows;
  at.from = (granule - first) * p.granule;
  at.to = at.next == behind ? p.end : (at.next - first) * p.granule;
  return at;
}

/* A query of a block. Rows behind the last one stand for it, and are not stored. */
struct split_row {
  int head, i;
  int seen; /* keys of the segment, and those before it, that it sees */
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

/* ------------------------------------------------------------------- results --- */

/* What scores are taken from before they become weights: where there are none, anything. */
__device__ __forceinline__ float split_base(float top) { return top == -INFINITY ? 0 : top; }

__device__ __forceinline__ float split_lse(float top, float sum) {
  return sum == 0 ? -INFINITY : 0.69314718f * top + logf(sum);
}

/* Stores four columns of a row: as results, or for the second kernel. */
template <class T>
__device__ __forceinline__ void split_store_four(const split_params &p, const split_block &at,
                                                 int row, const split_row &r, int column, float4 v,
                                                 float sum) {
  if (!at.whole) {
    *(float4 *)(p.part + (at.part + row) * p.d + column) = v;
    return;
  }
  const float factor = sum == 0 ? 0.0f : 1 / sum;
  const float y[4] = {v.x * factor, v.y * factor, v.z * factor, v.w * factor};
  T *result = (T *)p.y + split_offset(p.y_step, at.b, r.head, r.i);
  split_put(result + column, y, p.wide, p.brain);
}

/* The same of what a row's weights are. */
__device__ __forceinline__ void split_store_sums(const split_params &p, const split_block &at,
                                                 int row, const split_row &r, float top,
                                                 float sum) {
  if (!at.whole)
    p.part_sums[at.part + row] = make_float2(top, sum);
  else if (p.lse)
    ((float *)p.lse)[split_offset(p.lse_step, at.b, r.head, r.i)] = split_lse(top, sum);
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_SPLIT_CUH */
