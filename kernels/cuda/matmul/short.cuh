/*
 * The kernel of short.cu. A block computes a tile of y on tensor cores, `depth` terms of its sums
 * at a time, from panels of a and b that come to shared memory some stages ahead; operands may lie
 * either way. Where tiles are few, blocks of a cluster share one: each has a stretch of its terms,
 * and adds what all of them found for some of its rows, in their order, so that the same call gives
 * the same bits. Included by short.cu alone.
 */
#ifndef KERNELS_CUDA_SHORT_CUH
#define KERNELS_CUDA_SHORT_CUH

#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/base/wgmma.cuh"
#include "kernels/cuda/elementwise/activated.cuh"

namespace {

enum {
  depth_bits = 6,
  depth = 1 << depth_bits, /* terms of a panel */
  part = 8,                /* elements of 16 bytes */
  steps = depth / 16,
  threads = 128,
  warps = threads / 32,
  most_split_bits = 3, /* blocks of a cluster, on every device that has them */
  most_splits = 1 << most_split_bits
};

/* Of an operand: vectors of m or n that have k terms each. `along`: terms lie side by side, else
 * vectors do. `line`: elements from one vector, or term, to the next. */
struct short_operand {
  int64_t line, batch[TN_MAX_RANK];
  bool along;
};

struct short_call {
  const void *a, *b, *bias;
  void *y;
  short_operand of_a, of_b;
  int64_t line_y, batch_y[TN_MAX_RANK], bias_step;
  int m, n, k, split_bits, rank, activation;
  int size[TN_MAX_RANK];
  bool whole; /* y takes 4 elements at a time */
  bool wide;  /* or 8 */
  bool plain; /* and the block's sums are all that it takes */
};

/* Tiles of ROWS by COLUMNS of y; DOWN warps share the rows, but of those that are for wgmma. */
template <int ROWS, int COLUMNS, int DOWN, int STAGES> struct short_tile {
  static constexpr int rows = ROWS, columns = COLUMNS, stages = STAGES;
  static constexpr int down = DOWN, across = warps / DOWN;
  static constexpr int warp_rows = rows / down, warp_columns = columns / across;
  static constexpr int a_parts = rows * depth / part, parts = a_parts + columns * depth / part;
  static constexpr int pitch = columns + 4; /* of the sums, in floats */
  static constexpr bool grouped = rows == 64 && columns >= 64;
  /* Of shared memory, for so many panels of a block. */
  static int bytes(int panels) {
    return most(least(stages, panels) * parts * 16, rows * pitch * (int)sizeof(float));
  }
};
using flat_tile = short_tile<16, 64, 1, 6>; /* of few rows */
using tall_tile = short_tile<64, 16, 4, 6>; /* of few columns */
using middle_tile = short_tile<32, 64, 2, 4>;
using square_tile = short_tile<64, 64, 2, 4>;
using wide_tile = short_tile<64, 128, 2, 4>;

/* Where part `column` of a line lies in a panel of V vectors, in bytes: lines are vectors (ALONG)
 * or terms, of which at most 64 elements lie side by side. Parts are turned by their line's number,
 * so that those which a matrix of 8 by 8 has in 8 lines lie in different banks. */
template <int V, bool ALONG> struct panel_layout {
  static constexpr int parts = ALONG ? depth / part : V / part; /* of a line */
  static constexpr int across = least(parts, 8);                /* that lie side by side */
  static constexpr int line_bytes = across * 16, half_bytes = depth * 128;
  static __device__ __forceinline__ int turn(int line) {
    return line / (8 / across) & (across - 1);
  }
  static __device__ __forceinline__ int at(int line, int column) {
    return (parts > across ? column / across * half_bytes : 0) + line * line_bytes +
           ((column % across) ^ turn(line)) * 16;
  }
};

/* Copies 16 bytes, or zeros, for which `from` is not looked at. */
__device__ __forceinline__ void copy_part(uint32_t to, const void *from, bool valid) {
  asm volatile("{\n.reg .pred none;\nsetp.eq.b32 none, %2, 0;\n"
               "cp.async.cg.shared.global [%0], [%1], 16, none;\n}" ::"r"(to),
               "l"(from), "r"((int)valid)
               : "memory");
}

/* Brings panels of V vectors to shared memory, one after the other. What is beyond the ends is 0.
 */
template <int V, bool ALONG> struct panel_reader {
  using layout = panel_layout<V, ALONG>;
  static constexpr int lines = threads / layout::parts;   /* that all threads read at once */
  static constexpr int each = V * depth / part / threads; /* parts of a thread */
  static_assert(lines % 8 == 0, "a thread's lines are turned alike");
  const unsigned short *from; /* this thread's first part of the next panel */
  int64_t step, next;         /* to its other parts; to the same of the panel after */
  int first, end, left;       /* that part's vector, or term; of all; elements from it on */
  uint32_t to;                /* where it goes, in bytes */

  __device__ __forceinline__ panel_reader(const void *data, const short_operand &o, int vector,
                                          int vectors, int term, int terms) {
    const int line = threadIdx.x / layout::parts, column = threadIdx.x % layout::parts;
    const int place = (ALONG ? term : vector) + column * part;
    first = (ALONG ? vector : term) + line;
    end = ALONG ? vectors : terms;
    left = (ALONG ? terms : vectors) - place;
    step = lines * o.line;
    next = ALONG ? depth : depth * o.line;
    from = (const unsigned short *)data + first * o.line + place;
    to = layout::at(line, column);
  }
  __device__ __forceinline__ void read(uint32_t panel) {
    const unsigned short *at = from;
#pragma unroll
    for (int j = 0; j < each; j++, at += step)
      copy_part(panel + to + j * (lines * layout::line_bytes), at,
                left > 0 && first + j * lines < end);
    from += next;
    if (ALONG)
      left -= depth;
    else
      first += depth;
  }
};

/* Finds fragments of a warp's vectors in a panel of V: matrices of 8 by 8 of 16 vectors and 16
 * terms. */
template <int V, int COUNT, bool ALONG> struct panel_fragments {
  using layout = panel_layout<V, ALONG>;
  uint32_t at[COUNT];

  /* `of_a`: the second matrix is of the next 8 vectors, not of the next terms. */
  __device__ __forceinline__ panel_fragments(int vector, bool of_a) {
    const int lane = threadIdx.x % 32, near = lane >> 3 & 1, far = lane >> 4;
    const bool swapped = of_a != ALONG;
    const int line = (lane & 7) + 8 * (swapped ? far : near), column = swapped ? near : far;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      const int v = vector + 16 * i;
      at[i] = ALONG ? layout::at(v + line, column) : layout::at(line, v / part + column);
    }
  }
  __device__ __forceinline__ void load(uint32_t (&r)[COUNT][4], uint32_t panel, int step) const {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      if (ALONG)
        load_matrices(r[i], panel + (at[i] ^ step * 32));
      else
        load_transposed(r[i], panel + at[i] + step * (16 * layout::line_bytes));
    }
  }
};

/* A tile's sums where each warp has some of them. */
template <class T, class Tile, bool A_ALONG, bool B_ALONG> struct sums_of_warps {
  static constexpr int R = Tile::warp_rows / 16, C = Tile::warp_columns / 16;
  const int down, across;
  const panel_fragments<Tile::rows, R, A_ALONG> a;
  const panel_fragments<Tile::columns, C, B_ALONG> b;
  float sum[R][2 * C][4];

  __device__ __forceinline__ sums_of_warps()
      : down((int)(threadIdx.x / 32) / Tile::across * Tile::warp_rows),
        across((int)(threadIdx.x / 32) % Tile::across * Tile::warp_columns), a(down, true),
        b(across, false), sum{} {}
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
  float sum[Tile::columns / 2];

  __device__ __forceinline__ sums_of_group() : sum{} {}
  /* Until the panel that was added last has been read. */
  __device__ __forceinline__ void await() {
    show_to_wgmma();
    wgmma_wait(sum);
  }
  __device__ __forceinline__ void add(uint32_t panel) {
    constexpr uint32_t a_step = A_ALONG ? 32 : 16 * 128, b_step = B_ALONG ? 32 : 16 * 128;
    constexpr uint32_t half = panel_layout<Tile::columns, B_ALONG>::half_bytes;
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

template <int GROUPS> __device__ __forceinline__ void await_all_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

/* All threads of a cluster come here before any goes on, and see what was written before. */
__device__ __forceinline__ void meet_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
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

/* Where a block's tile is, and which panels of it are the block's. */
struct short_place {
  int64_t a, b, y; /* of the matrices */
  int row, column, rank, begin, end;

  __device__ __forceinline__ short_place(const short_call &c, int rows, int columns) {
    const int all = (c.k + depth - 1) / depth;
    uint32_t item = blockIdx.z;
    rank = (int)(blockIdx.x & ((1u << c.split_bits) - 1));
    column = (int)(blockIdx.x >> c.split_bits) * columns;
    row = (int)blockIdx.y * rows;
    begin = all * rank >> c.split_bits;
    end = all * (rank + 1) >> c.split_bits;
    a = b = y = 0;
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

/* Four sums of a row that stand at `own` in each block, from column `n` on, to y. */
template <class T>
__device__ __forceinline__ void put_four(const short_call &c, T *y, const float *own, int n) {
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
  float sum[4] = {v[0].x, v[0].y, v[0].z, v[0].w};
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
    *(uint2 *)y = make_uint2(pair_of(sum[0], sum[1], T()), pair_of(sum[2], sum[3], T()));
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
  constexpr int across = Tile::columns / part, lines = threads / across;
  const int line = threadIdx.x / across, column = threadIdx.x % across * part;
  const float *from = sums + line * Tile::pitch + column;
  T *y = (T *)c.y + place.y + (place.row + line) * c.line_y + place.column + column;
  if (place.column + column >= c.n) return;
#pragma unroll
  for (int i = 0; i < (Tile::rows + lines - 1) / lines; i++) {
    const int r = i * lines + line;
    if (r >= Tile::rows || place.row + r >= c.m) return;
    const float4 low = *(const float4 *)(from + i * lines * Tile::pitch);
    const float4 high = *(const float4 *)(from + i * lines * Tile::pitch + 4);
    *(uint4 *)(y + i * lines * c.line_y) =
        make_uint4(pair_of(low.x, low.y, T()), pair_of(low.z, low.w, T()),
                   pair_of(high.x, high.y, T()), pair_of(high.z, high.w, T()));
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
    put_four(c, (T *)c.y + place.y + m * c.line_y + n, sums + r * Tile::pitch + column, n);
  }
}

template <class T, class Tile, bool A_ALONG, bool B_ALONG, class Sums>
__device__ __forceinline__ void multiply(const short_call &c, Sums &sums) {
  extern __shared__ __align__(1024) uint4 short_memory[];
  constexpr int stages = Tile::stages, panel_bytes = Tile::parts * 16;
  const short_place place(c, Tile::rows, Tile::columns);
  const uint32_t room = shared_address(short_memory);
  panel_reader<Tile::rows, A_ALONG> a((const T *)c.a + place.a, c.of_a, place.row, c.m,
                                      place.begin * depth, c.k);
  panel_reader<Tile::columns, B_ALONG> b((const T *)c.b + place.b, c.of_b, place.column, c.n,
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
    await_all_but<stages - 2>();
    sums.await();
    __syncthreads(); /* the panel is there, and all have used the one that is read to now */
    if (Tile::grouped) sums.add(room + now * panel_bytes);
    if (s + stages - 1 < count) read(ahead);
    copies_commit();
    if (!Tile::grouped) sums.add(room + now * panel_bytes);
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
  if constexpr (!Tile::grouped) {
    sums_of_warps<T, Tile, A_ALONG, B_ALONG> sums;
    multiply<T, Tile, A_ALONG, B_ALONG>(c, sums);
  } else {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    sums_of_group<T, Tile, A_ALONG, B_ALONG> sums;
    multiply<T, Tile, A_ALONG, B_ALONG>(c, sums);
#endif
  }
}

} // namespace

#endif /* KERNELS_CUDA_SHORT_CUH */
