/*
 * Rows of contiguous tensors that registers hold: 4 to 512 threads side by side own a row
 * and keep up to row_packs packs of 16 bytes of it each, all in flight together. Packs lie
 * where 16 bytes do, so that a row may begin and end anywhere; elements of a pack that belong to
 * other rows are neither read nor written.
 */
#ifndef KERNELS_CUDA_ROWS_CUH
#define KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/base/halves.cuh"

namespace {

enum { row_packs = 4, row_threads = 256, most_row_lanes = 512 };

/* Of the longest rows' blocks, a multiprocessor is to hold two: half of its threads have enough
 * bytes under way. */
enum { row_blocks_held = 2 };

struct row_plan {
  int64_t rows, size;
  int lanes; /* threads of a row, a power of two */
  int block; /* threads of a block */
  bool brain;
};

/* Tensors that are walked together must lie alike within 16 bytes. */
inline bool lie_alike(const void *a, const void *b) {
  return (((uintptr_t)a ^ (uintptr_t)b) & 15) == 0;
}

/* Of rows of x; more lanes than most_row_lanes where they do not fit. */
template <class T> row_plan row_plan_of(const DLTensor *x, int64_t rows, int64_t size) {
  constexpr int V = pack_width<T>();
  const bool whole = is_aligned(x->data, 16) && size % V == 0;
  row_plan p = {rows, size, 4, 0, is_brain(x)};
  const int64_t packs = ceil_div(size + (whole ? 0 : V - 1), V);
  while (p.lanes <= most_row_lanes && (int64_t)p.lanes * row_packs < packs) p.lanes *= 2;
  /* Of more than a warp, a block each: its barriers then keep no other row waiting. */
  p.block = p.lanes > 32 ? p.lanes : row_threads;
  return p;
}

inline bool rows_fit(const row_plan &p) { return p.lanes <= most_row_lanes; }

inline int64_t row_blocks(const row_plan &p) { return ceil_div(p.rows, p.block / p.lanes); }

/* The place of a thread in a row: pack k begins at element first + k * step, in front of the row
 * where that is negative. */
struct row_place {
  int64_t row;
  int lane, first, step, size;
};

template <class T>
__device__ __forceinline__ row_place place_in_row(const row_plan &p, const T *x, int64_t block) {
  constexpr int V = pack_width<T>();
  row_place at;
  at.lane = threadIdx.x & (p.lanes - 1);
  at.row = block * (p.block / p.lanes) + threadIdx.x / p.lanes;
  at.size = at.row < p.rows ? (int)p.size : 0;
  const int head = (int)((uintptr_t)(x + at.row * p.size) / sizeof(T) % V);
  at.first = at.lane * V - head;
  at.step = p.lanes * V;
  return at;
}

/* Whether all of pack k, of V elements, belongs to the row. */
template <int V> __device__ __forceinline__ bool is_whole(const row_place &at, int k) {
  const int i = at.first + k * at.step;
  return i >= 0 && i + V <= at.size;
}

/* What of a pack's elements belongs to the row, which ends at `size`; the others are `beside`. */
template <class T>
__device__ __forceinline__ held_pack read_part(const T *row, int i, int size, T beside) {
  constexpr int V = pack_width<T>();
  held_pack p = {};
#pragma unroll
  for (int j = 0; j < V; j++) put_element(p, j, i + j >= 0 && i + j < size ? row[i + j] : beside);
  return p;
}

/* Reads the thread's packs of a row; elements outside it are `beside`. */
template <class T>
__device__ __forceinline__ void read_row(held_pack *p, const T *row, const row_place &at,
                                         T beside = {}) {
  constexpr int V = pack_width<T>();
  held_pack empty = {};
#pragma unroll
  for (int j = 0; j < V; j++) put_element(empty, j, beside);
#pragma unroll
  for (int k = 0; k < row_packs; k++) {
    const int i = at.first + k * at.step;
    p[k] = empty;
    if (is_whole<V>(at, k))
      p[k] = *(const held_pack *)(row + i);
    else if (i + V > 0 && i < at.size)
      p[k] = read_part(row, i, at.size, beside);
  }
}

template <class T, int V>
__device__ __forceinline__ void write_row(T *row, const pack<T, V> &p, const row_place &at, int k) {
  const int i = at.first + k * at.step;
  if (is_whole<V>(at, k)) {
    *(pack<T, V> *)(row + i) = p;
  } else if (i + V > 0 && i < at.size) {
#pragma unroll
    for (int j = 0; j < V; j++)
      if (i + j >= 0 && i + j < at.size) row[i + j] = p.v[j];
  }
}

/* Whether element j of pack k belongs to the row. */
__device__ __forceinline__ bool in_row(const row_place &at, int k, int j) {
  return (unsigned)(at.first + k * at.step + j) < (unsigned)at.size;
}

/* A thread's elements of a row as numbers. */
template <class T> struct held_numbers { accumulator_t<T> v[row_packs][pack_width<T>()]; };

template <class T>
__device__ __forceinline__ void unpack_row(held_numbers<T> &x, const held_pack *p, bool brain) {
#pragma unroll
  for (int k = 0; k < row_packs; k++) unpack<T>(x.v[k], p[k], brain);
}

/* Reads them, all packs before the first is used; what is not of the row is -inf. */
template <class T>
__device__ __forceinline__ void read_numbers(held_numbers<T> &x, const T *row, const row_place &at,
                                             bool brain) {
  held_pack p[row_packs];
  if constexpr (std::is_same_v<T, any_half>) {
    read_row(p, row, at, any_half{(unsigned short)(brain ? 0xff80 : 0xfc00)});
    if (brain) /* asked once, not for every pair */
      unpack_row(x, p, true);
    else
      unpack_row(x, p, false);
  } else {
    read_row(p, row, at, -(T)INFINITY);
    unpack_row(x, p, false);
  }
}

struct take_max {
  static __device__ __forceinline__ float join(float a, float b) { return fmaxf(a, b); }
  static __device__ __forceinline__ double join(double a, double b) { return a > b ? a : b; }
};
struct take_sum {
  template <class C> static __device__ __forceinline__ C join(C a, C b) { return a + b; }
};

/* Joins one value per thread over the lanes of a row, and gives every one of them the result.
 * All threads of the block call it. */
template <class Op, class C> __device__ __forceinline__ C join_row(C v, int lanes) {
  __shared__ C shared[most_row_lanes / 32];
  for (int mask = least(lanes, 32) / 2; mask > 0; mask /= 2)
    v = Op::join(v, __shfl_xor_sync(0xffffffffu, v, mask));
  if (lanes <= 32) return v;
  __syncthreads(); /* the last use of shared is over */
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  const int begin = (threadIdx.x & ~(lanes - 1)) / 32;
  v = shared[begin];
  for (int i = 1; i < lanes / 32; i++) v = Op::join(v, shared[begin + i]);
  return v;
}

/* The row's largest element. NaN does not count. */
template <class T>
__device__ __forceinline__ accumulator_t<T> row_top(const held_numbers<T> &x, const row_plan &p) {
  using C = accumulator_t<T>;
  C top = -(C)INFINITY;
#pragma unroll
  for (int k = 0; k < row_packs; k++) {
#pragma unroll
    for (int j = 0; j < pack_width<T>(); j++) top = take_max::join(x.v[k][j], top);
  }
  return join_row<take_max>(top, p.lanes);
}

/* The row's sum of e^(x - top); with `keep`, these take the numbers' place. */
template <class T, bool keep, class C>
__device__ __forceinline__ C row_powers(held_numbers<T> &x, const row_plan &p, C top) {
  constexpr int V = pack_width<T>();
  C sum = 0;
#pragma unroll
  for (int k = 0; k < row_packs; k++) {
    C v[V], *power = keep ? x.v[k] : v;
#pragma unroll
    for (int j = 0; j < V; j++) power[j] = exponential<T>(x.v[k][j] - top);
    sum += tree_sum<V>(power);
  }
  return join_row<take_sum>(sum, p.lanes);
}

} // namespace

#endif /* KERNELS_CUDA_ROWS_CUH */
