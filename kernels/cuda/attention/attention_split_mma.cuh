/*
 * A split of the keys on tensor cores, for the 16-bit floats and up to 16 rows to a block. Keys
 * and values go from memory straight to registers, 16 bytes to an access: the sum over a product's
 * inner axis may run in any order, so lanes own what one access gives them, of queries and keys
 * alike, and the columns of y are numbered so that values need only be put in pairs.
 */
#ifndef KERNELS_CUDA_ATTENTION_SPLIT_MMA_CUH
#define KERNELS_CUDA_ATTENTION_SPLIT_MMA_CUH

#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/attention_split.cuh"

namespace {

enum { split_mma_rows = 16, split_mma_keys = 16 /* of a warp's tile */ };

/* Blocks that a multiprocessor has registers for. */
__host__ __device__ constexpr int split_mma_resident(int d) {
  return d <= 64 ? 4 : d <= 128 ? 3 : 2;
}

/* Lane 4 g + c of a warp has rows g and g + 8 of the queries, keys g and g + 8 of a tile, of both
 * columns 32 i + 8 c to 7 further, and of y columns 64 e + 16 c to 15 further. */
template <int D> struct split_keys { uint4 v[2][D / 32]; };
/* Of keys 2 c, 2 c + 1 and 8 further, columns 64 e + 8 g to 7 further. */
template <int D> struct split_values { uint4 v[4][D / 64]; };
template <int D> using split_mma_state = split_state<2, D / 4>;

template <class T, int D>
__device__ __forceinline__ void split_load_keys(split_keys<D> &k, const split_params &p,
                                                const T *from, int key, int to, bool wide) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < 2; n++) {
    const int j = key + 8 * n + lane / 4;
    const T *row = from + j * p.k_step[2];
#pragma unroll
    for (int i = 0; i < D / 32; i++) {
      const int column = 32 * i + lane % 4 * 8;
      k.v[n][i] = split_vector(row + column, j < to && column < p.d, wide);
    }
  }
}

template <class T, int D>
__device__ __forceinline__ void split_load_values(split_values<D> &v, const split_params &p,
                                                  const T *from, int key, int to, bool wide) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int x = 0; x < 4; x++) {
    const int j = key + lane % 4 * 2 + x % 2 + x / 2 * 8;
    const T *row = from + j * p.v_step[2];
#pragma unroll
    for (int e = 0; e < D / 64; e++) {
      const int column = 64 * e + lane / 4 * 8;
      v.v[x][e] = split_vector(row + column, j < to && column < p.d, wide);
    }
  }
}

/* A block's rows in shared memory, as its lanes want them. */
template <int D> struct split_queries { uint4 v[D / 32][2][32]; };

template <class T, int D>
__device__ __forceinline__ void split_stage_queries(split_queries<D> &q, const split_params &p,
                                                    const split_block &at) {
  for (int x = threadIdx.x; x < D / 32 * 64; x += split_threads) {
    const int lane = x % 32, n = x / 32 % 2, i = x / 64;
    const int row = at.row + lane / 4 + 8 * n, column = 32 * i + lane % 4 * 8;
    const split_row r = split_row_of(p, at, row);
    const T *from = (const T *)p.q + split_offset(p.q_step, at.b, r.head, r.i) + column;
    q.v[i][n][lane] = split_vector(from, row < p.rows && column < p.d, p.wide);
  }
}

/* The scores of a lane: of row g and of row g + 8, keys 2 c, 2 c + 1 and 8 further. */
struct split_mma_scores {
  float v[2][4];
};

template <class T, int D>
__device__ __forceinline__ void split_products(split_mma_scores &s, const split_queries<D> &q,
                                               const split_keys<D> &k) {
  float sums[2][4]; /* of keys 8 n to 7 further */
  const int lane = threadIdx.x % 32;
  asm volatile("" ::: "memory"); /* queries stay in shared memory: registers are wanted elsewhere */
#pragma unroll
  for (int n = 0; n < 2; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) sums[n][e] = 0;
#pragma unroll
  for (int i = 0; i < D / 32; i++) {
    const uint4 a = q.v[i][0][lane], b = q.v[i][1][lane];
    const uint32_t low[4] = {a.x, b.x, a.y, b.y}, high[4] = {a.z, b.z, a.w, b.w};
#pragma unroll
    for (int n = 0; n < 2; n++) multiply_add(sums[n], low, k.v[n][i].x, k.v[n][i].y, T());
#pragma unroll
    for (int n = 0; n < 2; n++) multiply_add(sums[n], high, k.v[n][i].z, k.v[n][i].w, T());
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
    for (int c = 0; c < D / 4; c++) w.y[r][c] *= factor;
  }
}

__device__ __forceinline__ uint32_t pair_below(float low, float high, half_t) {
  uint32_t r;
  asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ __forceinline__ uint32_t pair_below(float low, float high, bfloat_t) {
  uint32_t r;
  asm("cvt.rz.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
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

__device__ __forceinline__ uint32_t word_of(const uint4 &v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* y += weights v. */
template <class T, int D>
__device__ __forceinline__ void split_add(split_mma_state<D> &w, const split_mma_scores &s,
                                          const split_values<D> &v) {
  uint32_t high[4], low[4];
#pragma unroll
  for (int x = 0; x < 4; x++)
    split_weights<T>(high[x], low[x], s.v[x % 2][x / 2 * 2], s.v[x % 2][x / 2 * 2 + 1]);
#pragma unroll
  for (int e = 0; e < D / 64; e++)
#pragma unroll
    for (int m = 0; m < 8; m++) {
      const int pick = m % 2 ? 0x7632 : 0x5410, a = 16 * e + m, b = a + 8;
      const uint32_t b0 = __byte_perm(word_of(v.v[0][e], m / 2), word_of(v.v[1][e], m / 2), pick);
      const uint32_t b1 = __byte_perm(word_of(v.v[2][e], m / 2), word_of(v.v[3][e], m / 2), pick);
      float sums[4] = {w.y[0][a], w.y[0][b], w.y[1][a], w.y[1][b]};
      multiply_add(sums, high, b0, b1, T());
      multiply_add(sums, low, b0, b1, T());
      w.y[0][a] = sums[0];
      w.y[0][b] = sums[1];
      w.y[1][a] = sums[2];
      w.y[1][b] = sums[3];
    }
}

/* The warp's tiles. Values arrive while scores are computed, and the next keys while values are
 * summed, as far as there are registers for them. */
template <class T, int D>
__device__ __forceinline__ void split_sum_tiles(split_mma_state<D> &w, const split_queries<D> &q,
                                                const split_params &p, const split_block &at,
                                                bool wide) {
  constexpr int step = split_warps * split_mma_keys;
  constexpr bool ahead = D <= 128;
  const int lane = threadIdx.x % 32;
  const T *keys = (const T *)p.k + split_offset(p.k_step, at.b, at.group, 0);
  const T *values = (const T *)p.v + split_offset(p.v_step, at.b, at.group, 0);
  const split_row row[2] = {split_row_of(p, at, at.row + lane / 4),
                            split_row_of(p, at, at.row + lane / 4 + 8)};
  split_keys<D> k;
  int key = at.from + (int)threadIdx.x / 32 * split_mma_keys;
  if (ahead) split_load_keys<T, D>(k, p, keys, key, at.to, wide);
  for (; key < at.to; key += step) {
    split_values<D> v;
    split_mma_scores s;
    if (!ahead) split_load_keys<T, D>(k, p, keys, key, at.to, wide);
    if (ahead) split_load_values<T, D>(v, p, values, key, at.to, wide);
    split_products<T, D>(s, q, k);
    if (ahead) split_load_keys<T, D>(k, p, keys, key + step, at.to, wide);
    if (!ahead) split_load_values<T, D>(v, p, values, key, at.to, wide);
#pragma unroll
    for (int r = 0; r < 2; r++)
      split_scores<T>(s.v[r], p, at, row[r],
                      [&](int x) { return key + lane % 4 * 2 + x % 2 + x / 2 * 8; });
    split_soften<T, D>(s, w);
    split_add<T, D>(w, s, v);
  }
}

template <class T, int D>
__global__ void __launch_bounds__(split_threads, split_mma_resident(D))
    attend_split_mma(const __grid_constant__ split_params p) {
  using S = split_mma_state<D>;
  __shared__ split_room<S> room;
  __shared__ split_queries<D> q;
  const split_block at = split_block_of(p, split_mma_rows);
  const int lane = threadIdx.x % 32;
  S w;
  split_clear(w);
  split_stage_queries<T, D>(q, p, at);
  __syncthreads();
  if (p.wide)
    split_sum_tiles<T, D>(w, q, p, at, true);
  else
    split_sum_tiles<T, D>(w, q, p, at, false);
  constexpr float lower = std::is_same_v<T, half_t> ? 0x1p-12f : 1.0f;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    w.sum[r] += __shfl_xor_sync(0xffffffffu, w.sum[r], 1);
    w.sum[r] += __shfl_xor_sync(0xffffffffu, w.sum[r], 2);
    w.sum[r] *= lower;
#pragma unroll
    for (int c = 0; c < D / 4; c++) w.y[r][c] *= lower;
  }
  split_merge(room, w);
  if (threadIdx.x >= 32) return;
  const split_columns columns = {lane % 4 * 16, 4, 64};
#pragma unroll
  for (int r = 0; r < 2; r++)
    split_store<any_half>(p, at, at.row + lane / 4 + 8 * r, w.top[r], w.sum[r], w.y[r], columns,
                          lane % 4 == 0);
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_SPLIT_MMA_CUH */
