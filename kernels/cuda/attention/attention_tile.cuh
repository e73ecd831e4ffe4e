/*
 * Attention by fused multiply-adds on tiles in shared memory, for any float type: what the
 * forward pass and the gradient have in common. A block is Y by 16 threads; thread (y, x)
 * owns elements (y + Y i, x + 16 j) of a tile of scores and columns x V + 16 V c of a tile
 * of vectors, V elements to 16 bytes.
 */
#ifndef KERNELS_CUDA_ATTENTION_TILE_CUH
#define KERNELS_CUDA_ATTENTION_TILE_CUH

#include "kernels/cuda/attention/attention.cuh"

namespace {

/* Fewer threads own more of a tile, and read shared memory less for it: the forward pass has
 * registers for that. */
enum { forward_y = 8, gradient_y = 16 };

/* Sizes for vectors of up to D elements computed in C. */
template <class C, int D, int Y> struct tile_sizes {
  static constexpr int vec = 16 / (int)sizeof(C);
  static constexpr bool narrow = sizeof(C) == 4;
  static constexpr int side = D <= 128 ? (narrow ? 64 : 32) : (narrow ? 32 : 16); /* of scores */
  static constexpr int threads = 16 * Y;
  static constexpr int rows = side / Y, columns = side / 16; /* of scores, a thread's */
  static constexpr int chunks = D / (16 * vec);
  static constexpr int pitch = D + vec; /* of vectors; odd in units of 16 bytes */
  static constexpr int score_pitch = side + vec;
  static constexpr int vectors = side * pitch, scores = side * score_pitch; /* elements */
};

template <class C, int D, int Y> struct tile_sums {
  using S = tile_sizes<C, D, Y>;
  C v[S::rows][S::chunks][S::vec];
};
template <class C, int D, int Y> struct tile_scores {
  using S = tile_sizes<C, D, Y>;
  C v[S::rows][S::columns];
};

__device__ __forceinline__ int tile_x() { return threadIdx.x % 16; }
__device__ __forceinline__ int tile_y() { return threadIdx.x / 16; }

/* Begins to put rows of d elements into shared memory, zeros behind the last row and column. */
template <class T, class C, int D, int Y>
__device__ void tile_load(const attention_params &p, C *to, const T *from, int rows) {
  using S = tile_sizes<C, D, Y>;
  const int d = p.d;
  if (std::is_same_v<T, C> && p.wide) {
    constexpr int across = D / S::vec;
#pragma unroll 4
    for (int i = threadIdx.x; i < S::side * across; i += S::threads) {
      const int r = i / across, c = i % across * S::vec;
      const bool valid = r < rows && c < d;
      copy_16(to + r * S::pitch + c, valid ? from + (int64_t)r * d + c : from, valid);
    }
    copies_commit();
    return;
  }
  for (int i = threadIdx.x; i < S::side * D; i += S::threads) {
    int r = i / D, c = i % D;
    to[r * S::pitch + c] = r < rows && c < d ? (C)load_of(p, from[(int64_t)r * d + c]) : (C)0;
  }
}

/* s = a b^T. */
template <class C, int D, int Y>
__device__ __forceinline__ void tile_products(tile_scores<C, D, Y> &s, const C *a, const C *b) {
  using S = tile_sizes<C, D, Y>;
  using V = pack<C, S::vec>;
#pragma unroll
  for (int i = 0; i < S::rows; i++)
#pragma unroll
    for (int j = 0; j < S::columns; j++) s.v[i][j] = 0;
#pragma unroll 4
  for (int k = 0; k < D; k += S::vec) {
    V left[S::rows], right[S::columns];
#pragma unroll
    for (int i = 0; i < S::rows; i++) left[i] = *(const V *)(a + (tile_y() + Y * i) * S::pitch + k);
#pragma unroll
    for (int j = 0; j < S::columns; j++)
      right[j] = *(const V *)(b + (tile_x() + 16 * j) * S::pitch + k);
#pragma unroll
    for (int i = 0; i < S::rows; i++)
#pragma unroll
      for (int j = 0; j < S::columns; j++)
#pragma unroll
        for (int e = 0; e < S::vec; e++) s.v[i][j] += left[i].v[e] * right[j].v[e];
  }
}

/* y += p x for a tile p of scores in shared memory. */
template <class C, int D, int Y>
__device__ __forceinline__ void tile_add(tile_sums<C, D, Y> &y, const C *p, const C *x) {
  using S = tile_sizes<C, D, Y>;
  using V = pack<C, S::vec>;
#pragma unroll 2
  for (int k = 0; k < S::side; k += S::vec) {
    V left[S::rows];
#pragma unroll
    for (int i = 0; i < S::rows; i++)
      left[i] = *(const V *)(p + (tile_y() + Y * i) * S::score_pitch + k);
#pragma unroll
    for (int e = 0; e < S::vec; e++)
#pragma unroll
      for (int c = 0; c < S::chunks; c++) {
        V right = *(const V *)(x + (k + e) * S::pitch + (tile_x() + 16 * c) * S::vec);
#pragma unroll
        for (int i = 0; i < S::rows; i++)
#pragma unroll
          for (int f = 0; f < S::vec; f++) y.v[i][c][f] += left[i].v[e] * right.v[f];
      }
  }
}

template <class C, int D, int Y> __device__ __forceinline__ void tile_clear(tile_sums<C, D, Y> &y) {
  using S = tile_sizes<C, D, Y>;
#pragma unroll
  for (int i = 0; i < S::rows; i++)
#pragma unroll
    for (int c = 0; c < S::chunks; c++)
#pragma unroll
      for (int f = 0; f < S::vec; f++) y.v[i][c][f] = 0;
}

/* Writes the thread's part of `rows` rows, each times its factor. */
template <class T, class C, int D, int Y>
__device__ void tile_store(const attention_params &p, T *to, const tile_sums<C, D, Y> &y,
                           const C *factor, int rows) {
  const int d = p.d;
  using S = tile_sizes<C, D, Y>;
#pragma unroll
  for (int i = 0; i < S::rows; i++) {
    int r = tile_y() + Y * i;
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
template <class C, int D, int Y>
__device__ __forceinline__ void tile_put(C *to, const tile_scores<C, D, Y> &s, bool transposed) {
  using S = tile_sizes<C, D, Y>;
#pragma unroll
  for (int i = 0; i < S::rows; i++)
#pragma unroll
    for (int j = 0; j < S::columns; j++) {
      int r = tile_y() + Y * i, c = tile_x() + 16 * j;
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
