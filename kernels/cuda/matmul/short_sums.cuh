/*
 * A tile's sums: what a block adds of each panel, by mma, by wgmma or by threads. Included by
 * short.cuh alone.
 */
#ifndef KERNELS_CUDA_SHORT_SUMS_CUH
#define KERNELS_CUDA_SHORT_SUMS_CUH

#include "kernels/cuda/base/wgmma.cuh"
#include "kernels/cuda/matmul/short_panels.cuh"

namespace {

/* Finds fragments of a warp's vectors in a panel of V: matrices of 8 by 8 of 16 vectors and 16
 * terms; of floats, 8 by 4 of 16 vectors and 8 terms. */
template <class T, int V, int COUNT, bool ALONG, bool OF_A> struct panel_fragments {
  using layout = panel_layout<T, V, ALONG>;
  uint32_t at[COUNT];

  /* OF_A: the second matrix is of the next 8 vectors, not of the next terms. */
  __device__ __forceinline__ panel_fragments(int vector) {
    const int lane = threadIdx.x % 32, near = lane >> 3 & 1, far = lane >> 4;
    const bool swapped = OF_A != ALONG;
    const int line = (lane & 7) + 8 * (swapped ? far : near), column = swapped ? near : far;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      const int v = vector + 16 * i;
      if (ALONG)
        at[i] = layout::at(v + line, column);
      else if (sizeof(T) == 2)
        at[i] = layout::at(line, v / part_of<T> + column);
      else
        at[i] = layout::at(lane % 4, (v + lane / 4) / part_of<T>) + lane / 4 % part_of<T> * 4;
    }
  }
  __device__ __forceinline__ void load(uint32_t (&r)[COUNT][4], uint32_t panel, int step) const {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      if (ALONG)
        load_matrices(r[i], panel + (at[i] ^ step * 32));
      else if (sizeof(T) == 2)
        load_transposed(r[i], panel + at[i] + step * (16 * layout::line_bytes));
      else
        load_terms(r[i], panel + step * (8 * layout::line_bytes), at[i]);
      if (sizeof(T) == 4) {
#pragma unroll
        for (int j = 0; j < 4; j++) r[i][j] = rounded_to_tf32(r[i][j]);
      }
    }
  }
  /* A float at a time, from lines that are terms. */
  static __device__ __forceinline__ void load_terms(uint32_t (&r)[4], uint32_t panel, uint32_t at) {
    constexpr int terms_4 = 4 * layout::line_bytes, vectors_8 = 8 / part_of<T> * 16;
    r[0] = load_word(panel + at);
    r[OF_A ? 2 : 1] = load_word(panel + at + terms_4);
    r[OF_A ? 1 : 2] = load_word(panel + (at ^ vectors_8));
    r[3] = load_word(panel + (at ^ vectors_8) + terms_4);
  }
};

/* A tile's sums where each warp has some of them. */
template <class T, class Tile, bool A_ALONG, bool B_ALONG> struct sums_of_warps {
  static constexpr bool at_once = false;
  static constexpr int R = Tile::warp_rows / 16, C = Tile::warp_columns / 16;
  const int down, across;
  const panel_fragments<T, Tile::rows, R, A_ALONG, true> a;
  const panel_fragments<T, Tile::columns, C, B_ALONG, false> b;
  float sum[R][2 * C][4];

  __device__ __forceinline__ sums_of_warps()
      : down((int)(threadIdx.x / 32) / Tile::across * Tile::warp_rows),
        across((int)(threadIdx.x / 32) % Tile::across * Tile::warp_columns), a(down),
        b(across), sum{} {}
  __device__ __forceinline__ void await() {}
  __device__ __forceinline__ void add(uint32_t panel) {
    uint32_t x[2][R][4], z[2][C][4]; /* of this step and of the next, which comes meanwhile */
    a.load(x[0], panel, 0);
    b.load(z[0], panel + Tile::a_parts * 16, 0);
#pragma unroll
    for (int step = 0; step < steps; step++) {
      if (step + 1 < steps) {
        a.load(x[(step + 1) % 2], panel, step + 1);
        b.load(z[(step + 1) % 2], panel + Tile::a_parts * 16, step + 1);
      }
#pragma unroll
      for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < C; j++) {
          const uint32_t(&own)[4] = z[step % 2][j];
          multiply_add(sum[i][2 * j], x[step % 2][i], own[0], own[1], T());
          multiply_add(sum[i][2 * j + 1], x[step % 2][i], own[2], own[3], T());
        }
    }
  }
  /* To a tile in shared memory. */
  __device__ __forceinline__ void put(float *tile) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
      for (int j = 0; j < 2 * C; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const int row = down + 16 * i + 8 * half + lane / 4, column = across + 8 * j;
          *(float2 *)(tile + row * Tile::pitch + column + 2 * (lane % 4)) =
              make_float2(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
        }
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* The same by the warpgroup that a block is. */
template <class T, class Tile, bool A_ALONG, bool B_ALONG> struct sums_of_group {
  static constexpr bool at_once = true; /* add() comes back before it is done */
  float sum[Tile::columns / 2];

  __device__ __forceinline__ sums_of_group() : sum{} {}
  /* Until the panel that was added last has been read. */
  __device__ __forceinline__ void await() {
    show_to_wgmma();
    wgmma_wait(sum);
  }
  __device__ __forceinline__ void add(uint32_t panel) {
    constexpr uint32_t a_step = A_ALONG ? 32 : 16 * 128, b_step = B_ALONG ? 32 : 16 * 128;
    constexpr uint32_t half = panel_layout<T, Tile::columns, B_ALONG>::half_bytes;
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < steps; step++)
      wgmma_add<!A_ALONG, !B_ALONG>(
          sum, panel_descriptor(panel + step * a_step, half),
          panel_descriptor(panel + Tile::a_parts * 16 + step * b_step, half), T());
    wgmma_commit();
  }
  __device__ __forceinline__ void put(float *tile) const {
    const int lane = threadIdx.x % 32, first = (int)threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < Tile::columns / 8; j++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        *(float2 *)(tile + (first + 8 * half) * Tile::pitch + 8 * j + 2 * (lane % 4)) =
            make_float2(sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]);
  }
};
#endif

__device__ __forceinline__ float4 load_part(uint32_t at) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

/* The same of floats: each thread adds for R rows and 4 columns, of 8 by 16 threads. */
template <class Tile, bool A_ALONG, bool B_ALONG> struct sums_of_threads {
  using layout_a = panel_layout<float, Tile::rows, A_ALONG>;
  using layout_b = panel_layout<float, Tile::columns, B_ALONG>;
  static constexpr bool at_once = false;
  static constexpr int R = Tile::rows / 8;
  const int down, across;
  float sum[R][4];

  __device__ __forceinline__ sums_of_threads()
      : down((int)threadIdx.x % 32 / 4),
        across((int)threadIdx.x / 32 * 4 + (int)threadIdx.x % 4), sum{} {}
  __device__ __forceinline__ void await() {}
  __device__ __forceinline__ int row(int i) const {
    return A_ALONG ? down + 8 * i : i / 4 * 32 + down * 4 + i % 4;
  }
  __device__ __forceinline__ int column(int j) const {
    return B_ALONG ? across + 16 * j : across * 4 + j;
  }
  __device__ __forceinline__ void add(uint32_t panel) {
    const uint32_t of_b = panel + Tile::a_parts * 16;
#pragma unroll
    for (int g = 0; g < line_parts; g++) { /* 4 terms of each vector */
      float a[4][R], b[4][4];
#pragma unroll
      for (int i = 0; i < R; i++) {
        const float4 v =
            load_part(panel + (A_ALONG ? layout_a::at(row(i), g)
                                       : layout_a::at(4 * g + i % 4, down + i / 4 * 8)));
        if (A_ALONG)
          a[0][i] = v.x, a[1][i] = v.y, a[2][i] = v.z, a[3][i] = v.w;
        else
          a[i % 4][i / 4 * 4] = v.x, a[i % 4][i / 4 * 4 + 1] = v.y, a[i % 4][i / 4 * 4 + 2] = v.z,
                           a[i % 4][i / 4 * 4 + 3] = v.w;
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const float4 v = load_part(
            of_b + (B_ALONG ? layout_b::at(column(j), g) : layout_b::at(4 * g + j, across)));
        if (B_ALONG)
          b[0][j] = v.x, b[1][j] = v.y, b[2][j] = v.z, b[3][j] = v.w;
        else
          b[j][0] = v.x, b[j][1] = v.y, b[j][2] = v.z, b[j][3] = v.w;
      }
#pragma unroll
      for (int e = 0; e < 4; e++)
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) sum[i][j] = fmaf(a[e][i], b[e][j], sum[i][j]);
    }
  }
  __device__ __forceinline__ void put(float *tile) const {
#pragma unroll
    for (int i = 0; i < R; i++) {
      float *to = tile + row(i) * Tile::pitch;
#pragma unroll
      for (int j = 0; j < 4; j++) to[column(j)] = sum[i][j];
    }
  }
};

} // namespace

#endif /* KERNELS_CUDA_SHORT_SUMS_CUH */
