/*
 * Elementwise kernels over tensors that are no dense run: map_strided, which handles several
 * elements a thread in one of three ways.
 *   wide    rows of y take whole accesses: so does each input that runs along them; others are
 *           read once where they stand still and element by element where they step
 *   spread  anything: neighbours take neighbouring elements, each with its own indices
 *   tiled   an input runs along another axis than y: it goes through shared memory, so that both
 *           see whole lines
 * Included by map.cuh alone.
 */
#ifndef KERNELS_CUDA_MAP_STRIDED_CUH
#define KERNELS_CUDA_MAP_STRIDED_CUH

enum map_mode { MAP_WIDE, MAP_SPREAD, MAP_TILED };
/* How an input is read. */
enum map_reading { MAP_AT_ONCE, MAP_STILL, MAP_STEPPING, MAP_TURNED };
/* Columns of a tile, which lie along y's innermost axis; the least size of an axis worth tiles. */
enum { map_tile = 32, map_tile_least = 16 };

/* In mode wide, the innermost axis of the layout counts accesses; in mode tiled it lacks the
 * tile's two axes. `step`, of operands as in the layout, is along the innermost axis. */
struct map_walk {
  cuda_layout layout;
  int mode;
  int how[CUDA_MAX_OPERANDS];
  int64_t step[CUDA_MAX_OPERANDS];
  int64_t row_step[CUDA_MAX_OPERANDS]; /* along the axis of a tile's rows */
  uint32_t rows, columns;
  cuda_divisor down, across; /* tiles along them */
};

/* Elements that one thread handles. */
template <class F> struct map_strided_width {
  static constexpr int value = least(4, map_width<F>::value);
};

/* Offsets of N places at once, whose divisions then do not wait for one another. */
template <int operands, int N>
__device__ __forceinline__ void map_offsets(const cuda_layout &l, uint32_t (&rest)[N],
                                            int64_t (&offset)[N][CUDA_MAX_OPERANDS]) {
#pragma unroll
  for (int k = 0; k < N; k++)
#pragma unroll
    for (int o = 0; o < CUDA_MAX_OPERANDS; o++) offset[k][o] = 0;
#pragma unroll 1
  for (int d = l.rank - 1; d >= 0; d--) {
#pragma unroll
    for (int k = 0; k < N; k++) {
      uint32_t q = d > 0 ? quotient(rest[k], l.size[d]) : 0;
      int64_t r = rest[k] - q * l.size[d].value;
      rest[k] = q;
#pragma unroll
      for (int o = 0; o < operands; o++) offset[k][o] += r * l.stride[o][d];
    }
  }
}

template <class T, int N>
__device__ __forceinline__ void map_read_wide(pack<T, N> &p, const T *x, int how, int64_t step) {
  if (how == MAP_AT_ONCE) {
    p = *(const pack<T, N> *)x;
  } else if (how == MAP_STILL) {
    const T v = *x;
#pragma unroll
    for (int k = 0; k < N; k++) p.v[k] = v;
  } else {
#pragma unroll
    for (int k = 0; k < N; k++) p.v[k] = x[k * step];
  }
}

/* A tile is map_tile columns by R rows. */
template <class T, int N> struct map_tile_of {
  static constexpr int R = map_threads / map_tile * N;
  T v[map_tile][R + 1];
};

/* Along its rows into the tile. */
template <class T, int N>
__device__ __forceinline__ void map_fill_tile(map_tile_of<T, N> &tile, const T *x,
                                              const map_walk &w, int operand, uint32_t row,
                                              uint32_t column, int64_t base) {
  constexpr int R = map_tile_of<T, N>::R;
#pragma unroll
  for (int k = 0; k < N; k++) {
    uint32_t i = threadIdx.x + k * map_threads, r = i % R, c = i / R;
    if (row + r < w.rows && column + c < w.columns)
      tile.v[c][r] = x[base + (row + r) + (column + c) * w.step[operand]];
  }
}

/* The thread's elements: N rows, map_threads / map_tile apart, of one column. */
template <class T, int N>
__device__ __forceinline__ void
map_read_places(pack<T, N> &p, const T *x, const int64_t (&at)[N][CUDA_MAX_OPERANDS], int operand,
                uint32_t live, bool turned, const map_tile_of<T, N> &tile) {
  const uint32_t c = threadIdx.x % map_tile, r = threadIdx.x / map_tile;
#pragma unroll
  for (int k = 0; k < N; k++)
    if (live >> k & 1)
      p.v[k] = turned ? tile.v[c][r + k * (map_threads / map_tile)] : x[at[k][operand]];
}

/* In mode wide: the place of y in return; NULL for none. */
template <class F, int N>
__device__ __forceinline__ typename F::Y *
map_read_row(typename F::Y *y, const typename F::A *a, const typename F::B *b,
             const map_third_t<F> *c, const map_walk &w, pack<typename F::A, N> &pa,
             pack<typename F::B, N> &pb, pack<map_third_t<F>, N> &pc) {
  uint32_t i[1] = {blockIdx.x * map_threads + threadIdx.x};
  int64_t at[1][CUDA_MAX_OPERANDS];
  if (i[0] >= w.layout.count) return nullptr;
  map_offsets<1 + F::inputs, 1>(w.layout, i, at);
  if (F::inputs > 0) map_read_wide(pa, a + at[0][1], w.how[1], w.step[1]);
  if (F::inputs > 1) map_read_wide(pb, b + at[0][2], w.how[2], w.step[2]);
  if (F::inputs > 2) map_read_wide(pc, c + at[0][3], w.how[3], w.step[3]);
  return y + at[0][0];
}

/* Where the block's tile begins and the thread's places in it lie; `base` is that of the whole
 * matrix, and `live` has a bit for each place inside it. */
template <int operands, int N>
__device__ __forceinline__ void
map_places_of_tile(const map_walk &w, uint32_t *row, uint32_t *column, uint32_t *live,
                   int64_t (&at)[N][CUDA_MAX_OPERANDS], int64_t (&base)[1][CUDA_MAX_OPERANDS]) {
  const uint32_t q = quotient(blockIdx.x, w.across), rest = quotient(q, w.down);
  *column = (blockIdx.x - q * w.across.value) * map_tile;
  *row = (q - rest * w.down.value) * (map_threads / map_tile * N);
  uint32_t outer[1] = {rest};
  map_offsets<operands, 1>(w.layout, outer, base);
  const uint32_t c = *column + threadIdx.x % map_tile;
#pragma unroll
  for (int k = 0; k < N; k++) {
    const uint32_t r = *row + threadIdx.x / map_tile + k * (map_threads / map_tile);
    *live |= (uint32_t)(r < w.rows && c < w.columns) << k;
#pragma unroll
    for (int o = 0; o < operands; o++) at[k][o] = base[0][o] + r * w.row_step[o] + c * w.step[o];
  }
}

template <int operands, int N>
__device__ __forceinline__ void map_places_of_spread(const map_walk &w, uint32_t *live,
                                                     int64_t (&at)[N][CUDA_MAX_OPERANDS]) {
  uint32_t i[N];
#pragma unroll
  for (int k = 0; k < N; k++) {
    i[k] = (blockIdx.x * N + k) * map_threads + threadIdx.x;
    *live |= (uint32_t)(i[k] < w.layout.count) << k;
  }
  map_offsets<operands, N>(w.layout, i, at); /* beyond the count too: nothing is read there */
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
  int64_t at[N][CUDA_MAX_OPERANDS];
  uint32_t live = 0;
  typename F::Y *whole = nullptr;
  bool turned[CUDA_MAX_OPERANDS] = {};
  if (w.mode == MAP_WIDE) {
    whole = map_read_row<F, N>(y, a, b, c, w, pa, pb, pc);
    if (!whole) return;
  } else if (w.mode == MAP_SPREAD) {
    map_places_of_spread<operands, N>(w, &live, at);
  } else {
    uint32_t row, column;
    int64_t base[1][CUDA_MAX_OPERANDS];
    map_places_of_tile<operands, N>(w, &row, &column, &live, at, base);
#pragma unroll
    for (int o = 1; o < operands; o++) turned[o] = w.how[o] == MAP_TURNED;
    if (F::inputs > 0 && turned[1]) map_fill_tile(tile_a, a, w, 1, row, column, base[0][1]);
    if (F::inputs > 1 && turned[2]) map_fill_tile(tile_b, b, w, 2, row, column, base[0][2]);
    if (F::inputs > 2 && turned[3]) map_fill_tile(tile_c, c, w, 3, row, column, base[0][3]);
    __syncthreads();
  }
  if (F::inputs > 0) map_read_places(pa, a, at, 1, live, turned[1], tile_a);
  if (F::inputs > 1) map_read_places(pb, b, at, 2, live, turned[2], tile_b);
  if (F::inputs > 2) map_read_places(pc, c, at, 3, live, turned[3], tile_c);
#pragma unroll
  for (int k = 0; k < N; k++) py.v[k] = map_apply(f, pa.v[k], pb.v[k], pc.v[k]);
  if (whole) {
    *(pack<typename F::Y, N> *)whole = py;
    return;
  }
#pragma unroll
  for (int k = 0; k < N; k++)
    if (live >> k & 1) y[at[k][0]] = py.v[k];
}

/* --- which way, on the host --- */

/* Whether an operand takes accesses of N elements wherever its rows begin. */
static inline bool map_is_wide(const cuda_shape *s, int k, const void *x, int64_t size, int N) {
  int last = s->rank - 1;
  bool wide = s->stride[k][last] == 1 && is_aligned(x, (size_t)(size * N));
  for (int d = 0; d < last; d++) wide = wide && s->stride[k][d] % N == 0;
  return wide;
}

/* The axis along which an input runs that y does not run along; -1 for none that is worth it. */
static inline int map_rows_of(const cuda_shape *s, int operands) {
  int last = s->rank - 1;
  if (s->stride[0][last] != 1 || s->size[last] < map_tile_least) return -1;
  for (int k = 1; k < operands; k++) {
    if (s->stride[k][last] == 1 || s->stride[k][last] == 0) continue;
    for (int d = 0; d < last; d++)
      if (s->stride[k][d] == 1 && s->size[d] >= map_tile_least) return d;
  }
  return -1;
}

/* Blocks of tiles of `height` rows; 0 where they are too many. */
static inline int64_t map_plan_tiles(map_walk *w, const cuda_shape *s, int operands, int row,
                                     int height) {
  int last = s->rank - 1;
  cuda_shape outer = {};
  for (int d = 0; d < last; d++) {
    if (d == row) continue;
    outer.size[outer.rank] = s->size[d];
    for (int k = 0; k < operands; k++) outer.stride[k][outer.rank] = s->stride[k][d];
    outer.rank++;
  }
  int64_t across = ceil_div(s->size[last], map_tile), down = ceil_div(s->size[row], height);
  int64_t blocks = across * down * cuda_shape_count(&outer);
  if (blocks > CUDA_MAX_INDEX) return 0;
  cuda_layout_of(&w->layout, &outer, operands);
  w->mode = MAP_TILED;
  w->rows = (uint32_t)s->size[row];
  w->columns = (uint32_t)s->size[last];
  w->across = cuda_divisor_of((uint32_t)across);
  w->down = cuda_divisor_of((uint32_t)down);
  for (int k = 0; k < operands; k++) {
    w->row_step[k] = s->stride[k][row];
    bool along = s->stride[k][last] == 1 || s->stride[k][last] == 0;
    w->how[k] = w->row_step[k] == 1 && !along ? MAP_TURNED : MAP_STEPPING;
  }
  return blocks;
}

/* Fills w for a shape of at most CUDA_MAX_INDEX elements, N to a thread; returns the blocks. */
static inline int64_t map_plan(map_walk *w, const cuda_shape *s, int operands,
                               const void *const *data, const int64_t *size, int N) {
  int last = s->rank - 1, row = map_rows_of(s, operands);
  for (int k = 0; k < operands; k++) w->step[k] = s->stride[k][last];
  int64_t blocks = row < 0 ? 0 : map_plan_tiles(w, s, operands, row, map_threads / map_tile * N);
  if (blocks) return blocks;
  bool wide = s->size[last] % N == 0 && map_is_wide(s, 0, data[0], size[0], N);
  w->mode = wide ? MAP_WIDE : MAP_SPREAD;
  cuda_shape walked = *s;
  for (int k = 0; wide && k < operands; k++) {
    walked.stride[k][last] *= N;
    w->how[k] = map_is_wide(s, k, data[k], size[k], N) ? MAP_AT_ONCE
                : s->stride[k][last] == 0              ? MAP_STILL
                                                       : MAP_STEPPING;
  }
  if (wide) walked.size[last] /= N;
  cuda_layout_of(&w->layout, &walked, operands);
  return ceil_div(w->layout.count, wide ? map_threads : map_threads * N);
}

/* Halves the outermost dimension until 32 bits index every piece. */
template <class F>
static tn_status map_run_strided(const tn_kernel_args *args, F f, typename F::Y *y,
                                 const typename F::A *a, const typename F::B *b,
                                 const map_third_t<F> *c, const cuda_shape *shape) {
  if (cuda_shape_count(shape) <= CUDA_MAX_INDEX) {
    const void *data[] = {y, a, b, c};
    const int64_t size[] = {sizeof(typename F::Y), sizeof(typename F::A), sizeof(typename F::B),
                            sizeof(map_third_t<F>)};
    map_walk w;
    int64_t blocks = map_plan(&w, shape, 1 + F::inputs, data, size, map_strided_width<F>::value);
    return launch(args, map_strided<F>, (unsigned)blocks, map_threads, 0, f, y, a, b, c, w);
  }
  cuda_shape part = *shape;
  int dim = 0; /* one of a large size: an outermost size of 1 cannot be halved */
  while (part.size[dim] < 2) dim++;
  int64_t half = part.size[dim] / 2;
  part.size[dim] = half;
  tn_status status = map_run_strided(args, f, y, a, b, c, &part);
  if (status != TN_OK) return status;
  part.size[dim] = shape->size[dim] - half;
  return map_run_strided(args, f, y + half * part.stride[0][dim],
                         F::inputs > 0 ? a + half * part.stride[1][dim] : a,
                         F::inputs > 1 ? b + half * part.stride[2][dim] : b,
                         F::inputs > 2 ? c + half * part.stride[3][dim] : c, &part);
}

#endif /* KERNELS_CUDA_MAP_STRIDED_CUH */
