/*
 * Attention by fused multiply-adds on tiles in shared memory, for any float type: what the
 * forward pass and the gradient have in common. A block is 16 by 16 threads; thread (y, x)
 * owns elements (y + 16 i, x + 16 j) of a tile of scores and columns x V + 16 V c of a tile
 * of vectors, V elements to 16 bytes.
 */
#ifndef KERNELS_CUDA_ATTENTION_TILE_CUH
#define KERNELS_CUDA_ATTENTION_TILE_CUH

#include "kernels/cuda/attention/attention.cuh"

namespace {

enum { tile_threads = 256 };

/* Sizes for vectors of up to D elements computed in C. */
template <class C, int D> struct tile_sizes {
  static constexpr int vec = 16 / (int)sizeof(C);
  static constexpr bool narrow = sizeof(C) == 4;
  static constexpr int side = D <= 128 ? (narrow ? 64 : 32) : (narrow ? 32 : 16); /* of scores */
  static constexpr int own = side / 16;
  static constexpr int chunks = D / (16 * vec);
  static constexpr int pitch = D + vec; /* of vectors; odd in units of 16 bytes */
  static constexpr int score_pitch = side + vec;
  static constexpr int vectors = side * pitch, scores = side * score_pitch; /* elements */
};

template <class C, int D> struct tile_sums {
  C v[tile_sizes<C, D>::own][tile_sizes<C, D>::chunks][tile_sizes<C, D>::vec];
};
template <class C, int D> struct tile_scores { C v[tile_sizes<C, D>::own][tile_sizes<C, D>::own]; };

__device__ __forceinline__ int tile_x() { return threadIdx.x % 16; }
__device__ __forceinline__ int tile_y() { return threadIdx.x / 16; }

/* Rows of d elements to shared memory, zeros behind the last row and column. */
template <class T, class C, int D>
__device__ void tile_load(const attention_params &p, C *to, const T *from, int rows) {
  const int d = p.d;
  using S = tile_sizes<C, D>;
  for (int i = threadIdx.x; i < S::side * D; i += tile_threads) {
    int r = i / D, c = i % D;
    to[r * S::pitch + c] = r < rows && c < d ? (C)load_of(p, from[(int64_t)r * d + c]) : (C)0;
  }
}

/* s = a b^T. */
template <class C, int D>
__device__ __forceinline__ void tile_products(tile_scores<C, D> &s, const C *a, const C *b) {
  using S = tile_sizes<C, D>;
  using V = pack<C, S::vec>;
#pragma unroll
  for (int i = 0; i < S::own; i++)
#pragma unroll
    for (int j = 0; j < S::own; j++) s.v[i][j] = 0;
#pragma unroll 4
  for (int k = 0; k < D; k += S::vec) {
    V left[S::own], right[S::own];
#pragma unroll
    for (int i = 0; i < S::own; i++) left[i] = *(const V *)(a + (tile_y() + 16 * i) * S::pitch + k);
#pragma unroll
    for (int j = 0; j < S::own; j++)
      right[j] = *(const V *)(b + (tile_x() + 16 * j) * S::pitch + k);
#pragma unroll
    for (int i = 0; i < S::own; i++)
#pragma unroll
      for (int j = 0; j < S::own; j++)
#pragma unroll
        for (int e = 0; e < S::vec; e++) s.v[i][j] += left[i].v[e] * right[j].v[e];
  }
}

/* y += p x for a tile p of scores in shared memory. */
template <class C, int D>
__device__ __forceinline__ void tile_add(tile_sums<C, D> &y, const C *p, const C *x) {
  using S = tile_sizes<C, D>;
  using V = pack<C, S::vec>;
#pragma unroll 2
  for (int k = 0; k < S::side; k += S::vec) {
    V left[S::own];
#pragma unroll
    for (int i = 0; i < S::own; i++)
      left[i] = *(const V *)(p + (tile_y() + 16 * i) * S::score_pitch + k);
#pragma unroll
    for (int e = 0; e < S::vec; e++)
#pragma unroll
      for (int c = 0; c < S::chunks; c++) {
        V right = *(const V *)(x + (k + e) * S::pitch + (tile_x() + 16 * c) * S::vec);
#pragma unroll
        for (int i = 0; i < S::own; i++)
#pragma unroll
          for (int f = 0; f < S::vec; f++) y.v[i][c][f] += left[i].v[e] * right.v[f];
      }
  }
}

template <class C, int D> __device__ __forceinline__ void tile_clear(tile_sums<C, D> &y) {
  using S = tile_sizes<C, D>;
#pragma unroll
  for (int i = 0; i < S::own; i++)
#pragma unroll
    for (int c = 0; c < S::chunks; c++)
#pragma unroll
      for (int f = 0; f < S::vec; f++) y.v[i][c][f] = 0;
}

/* Writes the thread's part of `rows` rows, each times its factor. */
template <class T, class C, int D>
__device__ void tile_store(const attention_params &p, T *to, const tile_sums<C, D> &y,
                           const C *factor, int rows) {
  const int d = p.d;
  using S = tile_sizes<C, D>;
#pragma unroll
  for (int i = 0; i < S::own; i++) {
    int r = tile_y() + 16 * i;
#pragma unroll
    for (int c = 0; c < S::chunks; c++)
#pragma unroll
      for (int f = 0; f < S::vec; f++) {
        int column = (tile_x() + 16 * c) * S::vec + f;
        if (r < rows && column < d)
          to[(int64_t)r * d + column] = rounded<T>(y.v[i][c][f] * factor[i], p.brain);
      }
  }
}

/* Puts scores into shared memory, transposed or not. */
template <class C, int D>
__device__ __forceinline__ void tile_put(C *to, const tile_scores<C, D> &s, bool transposed) {
  using S = tile_sizes<C, D>;
#pragma unroll
  for (int i = 0; i < S::own; i++)
#pragma unroll
    for (int j = 0; j < S::own; j++) {
      int r = tile_y() + 16 * i, c = tile_x() + 16 * j;
      to[transposed ? c * S::score_pitch + r : r * S::score_pitch + c] = s.v[i][j];
    }
}

/* Makes the device current, grants shared memory, and launches. */
template <class... P>
tn_status launch_tiles(const tn_kernel_args *args, void (*kernel)(P...), int64_t blocks,
                       int block_threads, size_t bytes, attention_params p) {
  if (blocks == 0) return TN_OK;
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status == TN_OK) status = allow_shared(args, kernel, bytes);
  if (status != TN_OK) return status;
  return launch(args, kernel, (unsigned)blocks, block_threads, bytes, p);
}

} // namespace

#endif /* KERNELS_CUDA_ATTENTION_TILE_CUH */
