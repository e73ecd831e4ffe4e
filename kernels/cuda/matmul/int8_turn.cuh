/*
 * Packing columns of bytes that lie side by side, in accesses of 16 bytes: a tile of 128 columns
 * and 256 of their elements turns in shared memory, four by four bytes in registers before. int8.cu
 * launches it where whole accesses fit.
 */
#ifndef KERNELS_CUDA_INT8_TURN_CUH
#define KERNELS_CUDA_INT8_TURN_CUH

#include "kernels/cuda/base/turned_bytes.cuh"
#include "kernels/cuda/matmul/integer_tiles.cuh"

namespace {

enum {
  turn_side = 128,
  turn_depth = 256,
  turn_words = turn_depth / 4,
  turn_threads = 256,
  turn_blocks = 4, /* of a multiprocessor */
  turn_columns = 16,
  turn_parts = turn_depth / 16 /* of a column, in threads */
};

struct turn_call {
  const unsigned char *data;
  unsigned char *out;
  int *sums;                   /* NULL: not wanted */
  int64_t along;               /* between elements of a column */
  int64_t k, padded_k;         /* elements read and written */
  int64_t vectors, padded;     /* columns read and written, of each item */
  cuda_divisor tiles_k, tiles; /* along a column; of an item */
  unsigned flip;               /* 128 in every byte where those are unsigned */
  batch_axes batch;
};

/* Words of a column lie 32 to a row of banks, their groups of four exchanged so that both the
 * threads that write and those that read take different banks. */
__device__ __forceinline__ int turned_place(int column, int word) {
  return column * turn_words + (word ^ column / turn_columns * 4);
}

/* A thread's four elements of 16 columns, twice. */
__device__ __forceinline__ void read_turned(const turn_call &c, const unsigned char *from,
                                            int64_t first, int64_t column, unsigned *tile) {
  const int group = threadIdx.x % 8 * turn_columns;
#pragma unroll
  for (int w = 0; w < turn_words; w += turn_threads / 8) {
    const int word = w + threadIdx.x / 8;
    unsigned v[4][4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const int64_t p = first + word * 4 + r;
      uint4 x = make_uint4(0, 0, 0, 0);
      if (p < c.k && column + group < c.vectors) {
        x = __ldcs((const uint4 *)(from + p * c.along + column + group));
        x = make_uint4(x.x ^ c.flip, x.y ^ c.flip, x.z ^ c.flip, x.w ^ c.flip);
      }
      v[0][r] = x.x;
      v[1][r] = x.y;
      v[2][r] = x.z;
      v[3][r] = x.w;
    }
#pragma unroll
    for (int q = 0; q < 4; q++) {
      unsigned turned[4];
      turn_bytes(v[q], turned);
#pragma unroll
      for (int e = 0; e < 4; e++) tile[turned_place(group + q * 4 + e, word)] = turned[e];
    }
  }
}

/* Sixteen threads write a column's 256 elements and add them up. Every thread is here. */
__device__ __forceinline__ void write_turned(const turn_call &c, int64_t item, int64_t first,
                                             int64_t column, const unsigned *tile) {
  const int part = threadIdx.x % turn_parts, at_once = turn_threads / turn_parts;
#pragma unroll
  for (int r = 0; r < turn_side / at_once; r++) {
    const int n = r * at_once + threadIdx.x / turn_parts;
    const uint4 x = *(const uint4 *)(tile + turned_place(n, part * 4));
    const int64_t vector = item * c.padded + column + n, p = first + part * 16;
    const bool there = column + n < c.padded;
    if (there && p < c.padded_k) *(uint4 *)(c.out + vector * c.padded_k + p) = x;
    if (!c.sums) continue;
    int sum = __dp4a((int)x.x, 0x01010101, __dp4a((int)x.y, 0x01010101, 0));
    sum = __dp4a((int)x.z, 0x01010101, __dp4a((int)x.w, 0x01010101, sum));
    for (int mask = turn_parts / 2; mask > 0; mask /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (part == 0 && there) atomicAdd(&c.sums[vector], sum);
  }
}

__global__ void __launch_bounds__(turn_threads, turn_blocks)
    turn_columns_of(const __grid_constant__ turn_call c) {
  __shared__ alignas(16) unsigned tile[turn_side * turn_words];
  const uint32_t item = quotient(blockIdx.x, c.tiles), at = blockIdx.x - item * c.tiles.value;
  const uint32_t above = quotient(at, c.tiles_k);
  const int64_t first = (int64_t)(at - above * c.tiles_k.value) * turn_depth;
  const int64_t column = (int64_t)above * turn_side;
  read_turned(c, c.data + c.batch.origin(item), first, column, tile);
  __syncthreads();
  write_turned(c, item, first, column, tile);
}

} // namespace

#endif /* KERNELS_CUDA_INT8_TURN_CUH */
