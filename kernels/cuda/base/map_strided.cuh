/*
 * Elementwise kernels over tensors that are no dense run: map_strided, which handles several
 * elements a thread in one of the three ways that map.h tells and map.c chooses. Every functor has
 * one, so that it is kept short: offsets are of 32 bits, and what modes share is written once.
 * Included by map.cuh alone.
 */
#ifndef KERNELS_CUDA_MAP_STRIDED_CUH
#define KERNELS_CUDA_MAP_STRIDED_CUH

/* Elements that one thread handles. */
template <class F> struct map_strided_width {
  static constexpr int value = least(4, map_width<F>::value);
};

/* Offsets of a place; returns its index along the dimension that is split. What wraps lies outside,
 * and nobody reads it. */
template <int operands>
__device__ __forceinline__ uint32_t map_offsets(const map_walk &w, uint32_t place,
                                                uint32_t (&offset)[CUDA_MAX_OPERANDS]) {
  uint32_t along = 0;
#pragma unroll
  for (int o = 0; o < operands; o++) offset[o] = 0;
#pragma unroll 1
  for (int d = w.rank - 1; d >= 0; d--) {
    const uint32_t q = d > 0 ? quotient(place, w.size[d]) : 0, r = place - q * w.size[d].value;
    place = q;
    if (d == w.split) along = r;
#pragma unroll
    for (int o = 0; o < operands; o++) offset[o] += r * (uint32_t)w.stride[d][o];
  }
  return along;
}

/* A tile is MAP_TILE columns by R rows. */
template <class T, int N> struct map_tile_of {
  static constexpr int R = MAP_TILE_ROWS * N;
  T v[MAP_TILE][R + 1];
};

/* Where a block's tile begins. */
struct map_corner {
  uint32_t row, column;
};

/* Along its rows into the tile; `base` is the offset of the tile's corner. */
template <class T, int N>
__device__ __forceinline__ void map_fill_tile(map_tile_of<T, N> &tile, const T *x,
                                              const map_walk &w, int operand, map_corner at,
                                              uint32_t base) {
  constexpr int R = map_tile_of<T, N>::R, columns = map_threads / R;
  const uint32_t r = threadIdx.x % R, first = threadIdx.x / R;
  if (w.how[operand] != MAP_TURNED) return;
#pragma unroll
  for (int k = 0; k < N; k++) {
    const uint32_t c = first + k * columns;
    if (at.row + r < w.limit && at.column + c < w.columns)
      tile.v[c][r] = x[(int32_t)(base + r + c * (uint32_t)w.column_step[operand])];
  }
}

/* The thread's elements of an input from an offset on. `live` has a bit for each that there is. */
template <class T, int N>
__device__ __forceinline__ void map_read(pack<T, N> &p, const T *x, const map_walk &w, int operand,
                                         uint32_t live, uint32_t at,
                                         const map_tile_of<T, N> &tile) {
  const int how = w.how[operand];
  if (how == MAP_AT_ONCE) {
    p = *(const pack<T, N> *)(x + (int32_t)at);
  } else if (how == MAP_TURNED) {
#pragma unroll
    for (int k = 0; k < N; k++)
      p.v[k] = tile.v[threadIdx.x % MAP_TILE][threadIdx.x / MAP_TILE + k * MAP_TILE_ROWS];
  } else {
#pragma unroll
    for (int k = 0; k < N; k++) {
      if (k > 0 && how == MAP_STILL)
        p.v[k] = p.v[0];
      else if (live >> k & 1)
        p.v[k] = x[(int32_t)(at + k * (uint32_t)w.pitch[operand])];
    }
  }
}

/* Tiles begin where blocks say; the matrix is what is left of the block's number. */
__device__ __forceinline__ uint32_t map_corner_of(const map_walk &w, int height, map_corner *at) {
  const uint32_t q = quotient(blockIdx.x, w.across), matrix = quotient(q, w.down);
  at->column = (blockIdx.x - q * w.across.value) * MAP_TILE;
  at->row = (q - matrix * w.down.value) * height;
  return matrix;
}

template <int operands>
__device__ __forceinline__ void map_step(uint32_t (&at)[CUDA_MAX_OPERANDS], const map_walk &w,
                                         uint32_t rows, uint32_t columns) {
#pragma unroll
  for (int o = 0; o < operands; o++)
    at[o] += rows * (uint32_t)w.row_step[o] + columns * (uint32_t)w.column_step[o];
}

template <class F>
__global__ void __launch_bounds__(map_threads)
    map_strided(F f, typename F::Y *y, const typename F::A *a, const typename F::B *b,
                const map_third_t<F> *c, const __grid_constant__ map_walk w) {
  constexpr int N = map_strided_width<F>::value, operands = 1 + F::inputs;
  __shared__ map_tile_of<typename F::A, N> tile_a;
  __shared__ map_tile_of<typename F::B, N> tile_b;
  __shared__ map_tile_of<map_third_t<F>, N> tile_c;
  pack<typename F::A, N> pa{};
  pack<typename F::B, N> pb{};
  pack<map_third_t<F>, N> pc{};
  pack<typename F::Y, N> py;
  const uint32_t thread = blockIdx.x * map_threads + threadIdx.x;
  uint32_t at[CUDA_MAX_OPERANDS], along, live = 0;
  bool inside = true;
  if (w.mode == MAP_TILED) {
    map_corner corner;
    map_offsets<operands>(w, map_corner_of(w, MAP_TILE_ROWS * N, &corner), at);
    map_step<operands>(at, w, corner.row, corner.column);
    if (F::inputs > 0) map_fill_tile(tile_a, a, w, 1, corner, at[1]);
    if (F::inputs > 1) map_fill_tile(tile_b, b, w, 2, corner, at[2]);
    if (F::inputs > 2) map_fill_tile(tile_c, c, w, 3, corner, at[3]);
    __syncthreads();
    map_step<operands>(at, w, threadIdx.x / MAP_TILE, threadIdx.x % MAP_TILE);
    along = corner.row + threadIdx.x / MAP_TILE;
    inside = corner.column + threadIdx.x % MAP_TILE < w.columns;
  } else {
    if (thread >= w.count) return;
    along = map_offsets<operands>(w, thread, at);
  }
#pragma unroll
  for (int k = 0; k < N; k++) live |= (uint32_t)(inside && along + k * w.each < w.limit) << k;
  if (F::inputs > 0) map_read(pa, a, w, 1, live, at[1], tile_a);
  if (F::inputs > 1) map_read(pb, b, w, 2, live, at[2], tile_b);
  if (F::inputs > 2) map_read(pc, c, w, 3, live, at[3], tile_c);
#pragma unroll
  for (int k = 0; k < N; k++) py.v[k] = map_apply(f, pa.v[k], pb.v[k], pc.v[k]);
  if (w.how[0] == MAP_AT_ONCE) {
    *(pack<typename F::Y, N> *)(y + (int32_t)at[0]) = py;
    return;
  }
#pragma unroll
  for (int k = 0; k < N; k++)
    if (live >> k & 1) y[(int32_t)(at[0] + k * (uint32_t)w.pitch[0])] = py.v[k];
}

#endif /* KERNELS_CUDA_MAP_STRIDED_CUH */
