/*
 * Forward attention on tensor cores for the 16-bit floats and vectors of up to 128 elements,
 * after FlashAttention-2 (Dao 2023, arXiv 2307.08691): a warp owns 16 queries, a block W
 * warps; keys and values pass through shared memory 64 at a time, values arriving while
 * scores are computed and the next keys while values are summed. Scores, maxima and sums
 * stay in float32 registers.
 */
#ifndef KERNELS_CUDA_ATTENTION_MMA_CUH
#define KERNELS_CUDA_ATTENTION_MMA_CUH

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/base/mma.cuh"

namespace {

enum { mma_keys = 64 };

/* `count` rows of D elements to shared memory, the first `rows` of them from `from`. */
template <class T, int D>
__device__ __forceinline__ void stage_rows(T *to, const T *from, int rows, int count,
                                           const attention_params &p) {
  constexpr int pitch = D + 8, across = D / 8;
  for (int i = threadIdx.x; i < count * across; i += blockDim.x) {
    int r = i / across, c = i % across * 8;
    T *at = to + r * pitch + c;
    bool valid = r < rows && c < p.d;
    if (p.wide) {
      copy_16(at, valid ? from + (int64_t)r * p.d + c : from, valid);
      continue;
    }
#pragma unroll
    for (int e = 0; e < 8; e++) {
      T zero = {0};
      at[e] = r < rows && c + e < p.d ? from[(int64_t)r * p.d + c + e] : zero;
    }
  }
  copies_commit();
}

/* A warp's 16 queries: what is summed so far. Element e of a fragment belongs to row
 * lane / 4, or 8 further where e >= 2, and column 2 (lane % 4) + e % 2. */
template <int D> struct warp_sums {
  float y[D / 8][4];
  float top[2], sum[2]; /* of this thread's two rows; sum of its own columns only */
};

/* s = q k^T for the 64 keys in shared memory. */
template <class T, int D>
__device__ __forceinline__ void warp_products(float (&s)[mma_keys / 8][4],
                                              const uint32_t (&q)[D / 16][4], const T *k) {
  constexpr int pitch = D + 8;
  int lane = threadIdx.x % 32;
  const T *at = k + ((lane & 7) + (lane >> 4) * 8) * pitch + (lane >> 3 & 1) * 8;
#pragma unroll
  for (int n = 0; n < mma_keys / 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) s[n][e] = 0;
#pragma unroll
  for (int x = 0; x < D / 16; x++)
#pragma unroll
    for (int n = 0; n < mma_keys / 8; n += 2) {
      uint32_t r[4];
      load_matrices(r, at + n * 8 * pitch + x * 16);
      multiply_add(s[n], q[x], r[0], r[1], T());
      multiply_add(s[n + 1], q[x], r[2], r[3], T());
    }
}

/* Products become scores in units of log 2. */
template <class T>
__device__ __forceinline__ void warp_scores(float (&s)[mma_keys / 8][4], const attention_params &p,
                                            const attention_place &at, int i, int j, bool plain) {
  constexpr float log2_e = 1.44269504f;
  float scale = (float)(p.scale * 1.4426950408889634);
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < mma_keys / 8; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      if (plain)
        s[n][e] *= scale;
      else
        s[n][e] = log2_e * score_of<T>(p, at, i + lane / 4 + e / 2 * 8,
                                       j + n * 8 + lane % 4 * 2 + e % 2, s[n][e]);
    }
}

/* Scores become weights; sums of earlier keys are rescaled. */
template <int D>
__device__ __forceinline__ void warp_soften(float (&s)[mma_keys / 8][4], warp_sums<D> &w) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float top = w.top[half], sum = 0;
#pragma unroll
    for (int n = 0; n < mma_keys / 8; n++)
      top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    float base = top == -INFINITY ? 0 : top, factor = exp2f(w.top[half] - base);
#pragma unroll
    for (int n = 0; n < mma_keys / 8; n++)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; e++) {
        s[n][e] = exp2f(s[n][e] - base);
        sum += s[n][e];
      }
    w.top[half] = top;
    w.sum[half] = w.sum[half] * factor + sum;
#pragma unroll
    for (int c = 0; c < D / 8; c++) {
      w.y[c][2 * half] *= factor;
      w.y[c][2 * half + 1] *= factor;
    }
  }
}

/* y += s v: an accumulator's fragment is laid out as a left operand's is. */
template <class T, int D>
__device__ __forceinline__ void warp_add(warp_sums<D> &w, const float (&s)[mma_keys / 8][4],
                                         const T *v) {
  constexpr int pitch = D + 8;
  int lane = threadIdx.x % 32;
  const T *at = v + (lane & 15) * pitch + (lane >> 4) * 8;
#pragma unroll
  for (int x = 0; x < mma_keys / 16; x++) {
    uint32_t a[4] = {pair_of(s[2 * x][0], s[2 * x][1], T()), pair_of(s[2 * x][2], s[2 * x][3], T()),
                     pair_of(s[2 * x + 1][0], s[2 * x + 1][1], T()),
                     pair_of(s[2 * x + 1][2], s[2 * x + 1][3], T())};
#pragma unroll
    for (int c = 0; c < D / 8; c += 2) {
      uint32_t r[4];
      load_transposed(r, at + x * 16 * pitch + c * 8);
      multiply_add(w.y[c], a, r[0], r[1], T());
      multiply_add(w.y[c + 1], a, r[2], r[3], T());
    }
  }
}

template <class T, int D>
__device__ __forceinline__ void warp_store(const warp_sums<D> &w, const attention_params &p,
                                           const attention_place &at, int i) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float sum = w.sum[half];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    int row = i + lane / 4 + half * 8;
    if (row >= p.s) continue;
    float factor = sum == 0 ? 0 : 1 / sum;
    T *to = (T *)p.out + (at.head * p.s + row) * p.d;
#pragma unroll
    for (int c = 0; c < D / 8; c++) {
      int column = c * 8 + lane % 4 * 2;
      float low = w.y[c][2 * half] * factor, high = w.y[c][2 * half + 1] * factor;
      if (p.wide && column < p.d) {
        *(uint32_t *)(to + column) = pair_of(low, high, T());
      } else {
        if (column < p.d) to[column] = stored<T>::from(low);
        if (column + 1 < p.d) to[column + 1] = stored<T>::from(high);
      }
    }
    if (p.lse && lane % 4 == 0)
      ((float *)p.lse)[at.head * p.s + row] =
          sum == 0 ? -INFINITY : 0.69314718f * w.top[half] + logf(sum);
  }
}

/* One block computes 16 W queries of a head; late ones, which may see most, come first. */
template <class T, int D, int W>
__global__ void __launch_bounds__(32 * W) attend_mma(const __grid_constant__ attention_params p) {
  constexpr int pitch = D + 8, queries = 16 * W;
  extern __shared__ __align__(16) unsigned char memory[];
  T *k = (T *)memory, *v = k + mma_keys * pitch;
  attention_place at = place_of_head(p, blockIdx.x / p.blocks);
  int first = (p.blocks - 1 - (int)(blockIdx.x % p.blocks)) * queries;
  int i = first + (int)threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  const T *keys = (const T *)p.k + at.group * p.t * p.d;
  const T *values = (const T *)p.v + at.group * p.t * p.d;
  const T *q_rows = (const T *)p.q + (at.head * p.s + first) * p.d;
  int q_count = least(queries, p.s - first), end = keys_seen(p, first + q_count);

  uint32_t q[D / 16][4];
  stage_rows<T, D>(k, q_rows, q_count, queries, p);
  copies_wait();
  __syncthreads();
#pragma unroll
  for (int x = 0; x < D / 16; x++)
    load_matrices(q[x], k + (i - first + (lane & 15)) * pitch + x * 16 + (lane >> 4) * 8);
  __syncthreads();

  warp_sums<D> w;
  w.top[0] = w.top[1] = -INFINITY;
  w.sum[0] = w.sum[1] = 0;
#pragma unroll
  for (int c = 0; c < D / 8; c++)
#pragma unroll
    for (int e = 0; e < 4; e++) w.y[c][e] = 0;

  if (end > 0) stage_rows<T, D>(k, keys, least(mma_keys, p.t), mma_keys, p);
  for (int j = 0; j < end; j += mma_keys) {
    float s[mma_keys / 8][4];
    copies_wait();
    __syncthreads(); /* keys are there, and the last values no longer needed */
    stage_rows<T, D>(v, values + (int64_t)j * p.d, least(mma_keys, p.t - j), mma_keys, p);
    warp_products<T, D>(s, q, k);
    copies_wait();
    __syncthreads();
    if (j + mma_keys < end)
      stage_rows<T, D>(k, keys + (int64_t)(j + mma_keys) * p.d, least(mma_keys, p.t - j - mma_keys),
                       mma_keys, p);
    bool plain = !p.mask && !p.bias && j + mma_keys <= keys_seen(p, first + 1);
    warp_scores<T>(s, p, at, i, j, plain);
    warp_soften<D>(s, w);
    warp_add<T, D>(w, s, v);
  }
  warp_store<T, D>(w, p, at, i);
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_MMA_CUH */
