/*
 * The kernels of short.cu. A block computes a tile of y, on tensor cores but where floats must not
 * be rounded, from panels of a and b that come to shared memory some stages ahead: 128 bytes of the
 * terms of each vector. Operands may lie either way. Where tiles are few, blocks of a cluster share
 * one: each has a stretch of its terms, and adds what all of them found for some of its rows, in
 * their order, so that the same call gives the same bits. Included by short.cu alone.
 */
#ifndef KERNELS_CUDA_SHORT_CUH
#define KERNELS_CUDA_SHORT_CUH

#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/elementwise/activated.cuh"
#include "kernels/cuda/matmul/short_sums.cuh"

namespace {

/* All threads of a cluster come here before any goes on, and see what was written before. */
__device__ __forceinline__ void meet_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
#endif
}

/* 4 floats of the shared memory of a block of the cluster, by their place in one's own. */
__device__ __forceinline__ float4 of_neighbour(const float *own, int block) {
  float4 v = *(const float4 *)own;
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %4, %5;\n"
               "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(shared_address(own)), "r"(block));
#endif
  return v;
}

/* Where the matrices of an item of the batch are. */
struct short_item {
  int64_t a, b, y;

  __device__ __forceinline__ short_item(const short_call &c, uint32_t item) : a(0), b(0), y(0) {
#pragma unroll 1
    for (int d = c.rank - 1; d >= 0; d--) {
      const uint32_t rest = item / (uint32_t)c.size[d];
      const int64_t at = item - rest * (uint32_t)c.size[d];
      item = rest;
      a += at * c.of_a.batch[d];
      b += at * c.of_b.batch[d];
      y += at * c.batch_y[d];
    }
  }
};

/* Where a block's tile is, and which panels of it are the block's. */
struct short_place : short_item {
  int row, column, rank, begin, end;

  __device__ __forceinline__ short_place(const short_call &c, int rows, int columns, int depth)
      : short_item(c, blockIdx.z >> c.part_bits) {
    const int64_t all = (c.k + depth - 1) / depth;
    const int shares = c.split_bits + c.part_bits, parts = 1 << c.part_bits;
    rank = (int)(blockIdx.x & ((1u << c.split_bits) - 1));
    column = (int)(blockIdx.x >> c.split_bits) * columns;
    row = (int)blockIdx.y * rows;
    const int share = (int)(blockIdx.z & (parts - 1)) << c.split_bits | rank;
    begin = (int)(all * share >> shares);
    end = (int)(all * (share + 1) >> shares);
    if (c.part_bits) y = (int64_t)blockIdx.z * c.m * c.line_y;
  }
};

/* 4 numbers in one access. */
__device__ __forceinline__ void put_numbers(float *y, float4 v) { *(float4 *)y = v; }
template <class T> __device__ __forceinline__ void put_numbers(T *y, float4 v) {
  *(uint2 *)y = make_uint2(pair_of(v.x, v.y, T()), pair_of(v.z, v.w, T()));
}
/* 8 numbers, in as few accesses as they take. */
__device__ __forceinline__ void put_numbers(float *y, float4 v, float4 w) {
  put_numbers(y, v);
  put_numbers(y + 4, w);
}
template <class T> __device__ __forceinline__ void put_numbers(T *y, float4 v, float4 w) {
  *(uint4 *)y = make_uint4(pair_of(v.x, v.y, T()), pair_of(v.z, v.w, T()), pair_of(w.x, w.y, T()),
                           pair_of(w.z, w.w, T()));
}

/* Four sums of a row that stand at `own` in each block, from column `n` on, to y at `to`. */
template <class T>
__device__ __forceinline__ void put_four(const short_call &c, int64_t to, const float *own, int n) {
  const int splits = 1 << c.split_bits;
  float4 v[most_splits];
  if (splits == 1) {
    v[0] = *(const float4 *)own;
  } else {
#pragma unroll
    for (int block = 0; block < most_splits; block++)
      if (block < splits) v[block] = of_neighbour(own, block);
#pragma unroll
    for (int block = 1; block < most_splits; block++) {
      if (block >= splits) break;
      v[0].x += v[block].x, v[0].y += v[block].y, v[0].z += v[block].z, v[0].w += v[block].w;
    }
  }
  if (c.part_bits) {
    put_numbers((float *)c.y + to, v[0]);
    return;
  }
  float sum[4] = {v[0].x, v[0].y, v[0].z, v[0].w};
  T *y = (T *)c.y + to;
  if (c.bias) {
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (n + j < c.n) sum[j] += load(((const T *)c.bias)[(n + j) * c.bias_step]);
  }
  if (c.activation) {
#pragma unroll
    for (int j = 0; j < 4; j++) sum[j] = simply_activated(c.activation, sum[j]);
  }
  if (c.whole) {
    put_numbers(y, make_float4(sum[0], sum[1], sum[2], sum[3]));
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; j++)
    if (n + j < c.n) y[j] = stored<T>::from(sum[j]);
}

/* A tile of sums of this block alone to y, with nothing else to do. */
template <class T, class Tile>
__device__ __forceinline__ void put_plainly(const short_call &c, const short_place &place,
                                            const float *sums) {
  constexpr int across = Tile::columns / 8, lines = threads / across;
  const int line = threadIdx.x / across, column = threadIdx.x % across * 8;
  const float *from = sums + line * Tile::pitch + column;
  T *y = (T *)c.y + place.y + (place.row + line) * c.line_y + place.column + column;
  if (place.column + column >= c.n) return;
#pragma unroll
  for (int i = 0; i < (Tile::rows + lines - 1) / lines; i++) {
    const int r = i * lines + line;
    if (r >= Tile::rows || place.row + r >= c.m) return;
    const float4 low = *(const float4 *)(from + i * lines * Tile::pitch);
    const float4 high = *(const float4 *)(from + i * lines * Tile::pitch + 4);
    put_numbers(y + i * lines * c.line_y, low, high);
  }
}

/* Rows of a tile of sums, of all blocks that share it, to y. */
template <class T, class Tile>
__device__ __forceinline__ void put_rows(const short_call &c, const short_place &place,
                                         const float *sums) {
  constexpr int across = Tile::columns / 4;
  const int rows = Tile::rows >> c.split_bits;
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * across; i += threads) {
    const int r = place.rank * rows + i / across, column = i % across * 4;
    const int m = place.row + r, n = place.column + column;
    if (m >= c.m || n >= c.n) continue;
    put_four<T>(c, place.y + m * c.line_y + n, sums + r * Tile::pitch + column, n);
  }
}

template <class T, class Tile, bool A_ALONG, bool B_ALONG, class Sums>
__device__ __forceinline__ void multiply(const short_call &c, Sums &sums) {
  extern __shared__ __align__(1024) uint4 short_memory[];
  constexpr int stages = Tile::stages, panel_bytes = Tile::parts * 16;
  constexpr int depth = depth_of<T>;
  const short_place place(c, Tile::rows, Tile::columns, depth);
  const uint32_t room = shared_address(short_memory);
  panel_reader<T, Tile::rows, A_ALONG> a((const T *)c.a + place.a, c.of_a, place.row, c.m,
                                         place.begin * depth, c.k);
  panel_reader<T, Tile::columns, B_ALONG> b((const T *)c.b + place.b, c.of_b, place.column, c.n,
                                            place.begin * depth, c.k);
  const int count = place.end - place.begin;
  auto read = [&](int stage) {
    const uint32_t to = room + stage * panel_bytes;
    a.read(to);
    b.read(to + Tile::a_parts * 16);
  };
  await_earlier();
#pragma unroll 1
  for (int s = 0; s < stages - 1; s++) {
    if (s < count) read(s);
    copies_commit();
  }
#pragma unroll 1
  for (int s = 0, now = 0, ahead = stages - 1; s < count; s++) {
    copies_wait_but<stages - 2>();
    sums.await();
    __syncthreads(); /* the panel is there, and all have used the one that is read to now */
    if (Sums::at_once) sums.add(room + now * panel_bytes);
    if (s + stages - 1 < count) read(ahead);
    copies_commit();
    if (!Sums::at_once) sums.add(room + now * panel_bytes);
    now = now + 1 == stages ? 0 : now + 1;
    ahead = ahead + 1 == stages ? 0 : ahead + 1;
  }
  copies_wait();
  sums.await();
  __syncthreads(); /* all have used their panels, whose place the sums take */
  float *tile = (float *)short_memory;
  sums.put(tile);
  if (c.split_bits)
    meet_cluster();
  else
    __syncthreads();
  if (c.plain)
    put_plainly<T, Tile>(c, place, tile);
  else
    put_rows<T, Tile>(c, place, tile);
  if (c.split_bits) meet_cluster(); /* nobody ends whose sums others read */
}

template <class T, class Tile, bool A_ALONG, bool B_ALONG>
__global__ void __launch_bounds__(threads) short_product(const __grid_constant__ short_call c) {
  if constexpr (Tile::by_threads) {
    sums_of_threads<Tile, A_ALONG, B_ALONG> sums;
    multiply<T, Tile, A_ALONG, B_ALONG>(c, sums);
  } else if constexpr (std::is_same_v<T, float> || !Tile::grouped) {
    sums_of_warps<T, Tile, A_ALONG, B_ALONG> sums;
    multiply<T, Tile, A_ALONG, B_ALONG>(c, sums);
  } else {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    sums_of_group<T, Tile, A_ALONG, B_ALONG> sums;
    multiply<T, Tile, A_ALONG, B_ALONG>(c, sums);
#else
    __trap(); /* PTX that the driver was told to prefer */
#endif
  }
}

/* Adds the parts of each sum in their order, a thread for each; their rows have so many floats. */
template <class T>
__global__ void __launch_bounds__(adders)
    add_parts(const __grid_constant__ short_call c, const float *sums, int line) {
  const int64_t all = (int64_t)c.m * line, at = (int64_t)blockIdx.x * adders + threadIdx.x;
  const short_item item(c, blockIdx.y);
  const int row = (int)(at / line), column = (int)(at - (int64_t)row * line);
  const int parts = 1 << c.part_bits;
  const float *from = sums + blockIdx.y * parts * all + at;
  float sum = 0;
  if (at >= all || column >= c.n) return;
  await_earlier();
#pragma unroll 16
  for (int part = 0; part < parts; part++) sum += from[part * all];
  if (c.bias) sum += load(((const T *)c.bias)[column * c.bias_step]);
  if (c.activation) sum = simply_activated(c.activation, sum);
  ((T *)c.y)[item.y + row * c.line_y + column] = stored<T>::from(sum);
}

} // namespace

#endif /* KERNELS_CUDA_SHORT_CUH */
