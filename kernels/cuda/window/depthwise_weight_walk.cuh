/*
 * Gradients by the weights of convolutions of each channel by itself, of windows of 3 x 3 and 5 x 5
 * that are 1 or 2 apart, of images with channels last: a block walks down the rows of x and y
 * together (depthwise_ring.cuh). A thread holds the sums of its channels' whole window in
 * registers, and its numbers of the rows of y that the row of x at hand takes part in: it reads
 * each number once. Sums are float32's; what lies outside an image is left out. A block has several
 * tiles, one after the other, and joins its threads' sums in a fixed tree.
 */
#ifndef KERNELS_CUDA_WINDOW_DEPTHWISE_WEIGHT_WALK_CUH
#define KERNELS_CUDA_WINDOW_DEPTHWISE_WEIGHT_WALK_CUH

#include "kernels/cuda/window/depthwise_ring.cuh"

namespace {

template <class T, int SIDE, int STEP> struct weight_walk {
  using number = T;
  static constexpr int channels = SIDE == 3 ? 4 : 2;            /* of a thread */
  static constexpr int read = (walk_columns - 1) * STEP + SIDE; /* columns of x of a thread */
  static constexpr int held = (SIDE + STEP - 1) / STEP;         /* rows of y at a time */
  /* Rows of the ring: as many as there is shared memory for in four blocks. */
  static constexpr int stages = SIDE == 3 && STEP == 2 && sizeof(T) == 4 ? 3 : 5;
  static constexpr int resident = 4; /* by registers */
  static constexpr double a_block = 10, idle = 0.1;

  /* A row of the ring has one of x, and one of y behind it. */
  static constexpr int columns(int width) { return (width - 1) * STEP + SIDE; }
  static constexpr int line(int width) { return columns(width) + width; }
};

/* Adds products of a row's columns to the sums of the window; row u of a turn, at the end of which
 * rows of y are in the same places again. */
template <int SIDE, int STEP, int L, int N, int V>
__device__ __forceinline__ void add_weights(float (&sum)[SIDE * SIDE][V], const float (&v)[N][V],
                                            const float (&dy)[L][walk_columns][V], int u) {
#pragma unroll
  for (int p = 0; p < SIDE; p++) {
    const int behind = u - p + L * STEP * SIDE;
    if (behind % STEP != 0) continue;
#pragma unroll
    for (int tap = 0; tap < SIDE; tap++)
#pragma unroll
      for (int o = 0; o < walk_columns; o++)
#pragma unroll
        for (int i = 0; i < V; i++)
          sum[p * SIDE + tap][i] += v[tap + o * STEP][i] * dy[behind / STEP % L][o][i];
  }
}

/* Where a tile lies. */
struct weight_tile {
  int image, row, rows, column; /* of y; of a thread's columns the first */
};
__device__ __forceinline__ weight_tile weight_tile_of(int item, const walk_call &c) {
  const int tile = item % c.tiles, segment = item / c.tiles % c.segments, row = segment * c.rows;
  return {item / c.tiles / c.segments, row, min(c.rows, c.to[0] - row),
          tile * c.shape.width + ((int)threadIdx.x >> c.shape.lanes) * walk_columns};
}

template <int N, int V> __device__ __forceinline__ bool has_nan(const float (&sum)[N][V]) {
  bool is = false;
#pragma unroll
  for (int t = 0; t < N; t++)
#pragma unroll
    for (int i = 0; i < V; i++) is |= isnan(sum[t][i]);
  return is;
}

/* The sums of a thread once more, of what lies in the images alone, and in the same order. */
template <int SIDE, int STEP, class T, int V>
__device__ __noinline__ void sum_inside(float (*sum)[V], const T *dy, const T *x, int channel,
                                        int items, const walk_call &c) {
  for (int t = 0; t < SIDE * SIDE; t++)
    for (int i = 0; i < V; i++) sum[t][i] = 0;
  for (int item = blockIdx.x; item < items && channel < c.channels; item += gridDim.x) {
    const weight_tile at = weight_tile_of(item, c);
    for (int k = 0; k < at.rows * walk_columns; k++) {
      const int row = at.row + k / walk_columns, column = at.column + k % walk_columns;
      if (column >= c.to[1]) continue;
      const T *of = dy + (((int64_t)at.image * c.to[0] + row) * c.to[1] + column) * c.channels;
      for (int t = 0; t < SIDE * SIDE; t++) {
        const int y = row * STEP - c.pad[0] + t / SIDE, z = column * STEP - c.pad[1] + t % SIDE;
        if (!lies_in(y, c.from[0]) || !lies_in(z, c.from[1])) continue;
        const T *by = x + (((int64_t)at.image * c.from[0] + y) * c.from[1] + z) * c.channels;
        for (int i = 0; i < V; i++) sum[t][i] += load(by[channel + i]) * load(of[channel + i]);
      }
    }
  }
}

/* Adds up the sums of a block's threads that have the same channels, and writes them to [channel,
 * tap] `to`. Every thread is here; `shared` has room for the sums of all. */
template <int TAPS, int V>
__device__ __forceinline__ void join_walk(float *to, float *shared, const float (&sum)[TAPS][V],
                                          const walk_call &c) {
  const int bits = c.shape.lanes + (V == 4 ? 2 : 1), all = 1 << bits; /* channels */
  const int lane = (int)threadIdx.x & ((1 << c.shape.lanes) - 1);
  const int worker = (int)threadIdx.x >> c.shape.lanes, first = (int)blockIdx.y << bits;
  float *const own = shared + worker * TAPS * all + lane * V;
#pragma unroll
  for (int t = 0; t < TAPS; t++)
    *(pack<float, V> *)(own + t * all) = packed<float, V>(sum[t], false);
  __syncthreads();
  for (int i = threadIdx.x; i < TAPS << bits; i += walk_threads) {
    const int channel = first + (i & (all - 1));
    if (channel >= c.channels) continue;
    float total = 0;
#pragma unroll 4
    for (int k = 0; k < walk_threads >> c.shape.lanes; k++) total += shared[k * TAPS * all + i];
    to[(int64_t)channel * TAPS + (i >> bits)] = total;
  }
}

/* Parts are [share, channel, tap]. `items`: tiles of all images. */
template <class T, int SIDE, int STEP>
__global__ void __launch_bounds__(walk_threads, weight_walk<T, SIDE, STEP>::resident)
    depthwise_weight_walk(float *parts, const T *dy, const T *x, int items,
                          const __grid_constant__ walk_call c) {
  using Walk = weight_walk<T, SIDE, STEP>;
  constexpr int V = Walk::channels, N = Walk::read, L = Walk::held, turn = L * STEP;
  extern __shared__ __align__(16) unsigned char ring[];
  const walk_shape &s = c.shape;
  const int lane = (int)threadIdx.x & ((1 << s.lanes) - 1), worker = (int)threadIdx.x >> s.lanes;
  const int first = (int)blockIdx.y * s.channels, channel = first + lane * V;
  const int line = c.from[1] * c.channels, line_y = c.to[1] * c.channels;
  const int bytes_x = s.columns * s.channels * (int)sizeof(T); /* of a row of the ring */
  int mine = (worker * walk_columns * STEP * s.channels + lane * V) * (int)sizeof(T);
  int mine_y = bytes_x + (worker * walk_columns * s.channels + lane * V) * (int)sizeof(T);
  int apart = s.channels * (int)sizeof(T); /* columns in the ring */
  hold(mine), hold(mine_y), hold(apart);

  float sum[SIDE * SIDE][V] = {};
  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    const weight_tile at = weight_tile_of(item, c);
    const int top = at.row * STEP - c.pad[0], rows = (at.rows - 1) * STEP + SIDE; /* of x */
    const int column = at.column - worker * walk_columns;                         /* the block's */
    walk_zeroing_copies<T, walk_copies_read<Walk>> copies(
        Walk(), x, x + ((int64_t)at.image * c.from[0] + top) * line, c.from, first,
        column * STEP - c.pad[1], s.columns, top, rows, c);
    walk_zeroing_copies<T, walk_copies_results<Walk>> copies_y(
        Walk(), dy, dy + ((int64_t)at.image * c.to[0] + at.row) * line_y, c.to, first, column,
        s.width, at.row, at.rows, c);
    int next = 0, place = 0;           /* where the next row goes, where the row at hand is */
    int begin = (int)threadIdx.x * 16; /* of the thread's first copy, in a row of the ring */
    hold(begin);
    /* Row u of x, and its row of y. */
    const auto copy = [&](int u) {
      unsigned char *const to = ring + begin + next;
      if (u % STEP == 0) copies_y.next(to + bytes_x, line_y);
      copies.next(to, line);
      copies_commit();
      next = next_in_ring(next, c);
    };
    copies_wait();   /* zeros of the tile before may be under way */
    __syncthreads(); /* the ring is no longer read */
#pragma unroll
    for (int i = 0; i < Walk::stages - 1; i++) copy(i);

    float d[L][walk_columns][V] = {};
    for (int r = 0; r < rows; r += turn) {
#pragma unroll
      for (int u = 0; u < turn; u++) { /* row r + u, whose rows of y have constant places */
        if (r + u >= rows) break;
        copies_wait_but<Walk::stages - 2>();
        __syncthreads();
        copy(u + Walk::stages - 1);
        if (u % STEP == 0) {
#pragma unroll
          for (int o = 0; o < walk_columns; o++)
            unpack(d[u / STEP % L][o],
                   *(const walk_pack<T, V> *)(ring + mine_y + place + o * apart), is_brain_of<T>);
        }
        float v[N][V];
#pragma unroll
        for (int q = 0; q < N; q++)
          unpack(v[q], *(const walk_pack<T, V> *)(ring + mine + place + q * apart), is_brain_of<T>);
        add_weights<SIDE, STEP>(sum, v, d, u);
        place = next_in_ring(place, c);
      }
    }
  }
  copies_wait();
  /* Zeros outside of images and tiles make NaN of what is infinite. */
  if (__syncthreads_or(has_nan(sum))) {
    float inside[SIDE * SIDE][V];
    sum_inside<SIDE, STEP>(inside, dy, x, channel, items, c);
#pragma unroll
    for (int t = 0; t < SIDE * SIDE; t++)
#pragma unroll
      for (int i = 0; i < V; i++) sum[t][i] = inside[t][i];
  }
  join_walk(parts + (int64_t)blockIdx.x * c.channels * (SIDE * SIDE), (float *)ring, sum, c);
}

/* How blocks lie: so many share the tiles of their channels. */
struct weight_plan {
  walk_call call;
  int items, shares, slabs;
};

template <class T, int SIDE, int STEP>
weight_plan weight_plan_of(const tn_kernel_args *args, walk_call c, int64_t images) {
  using Walk = weight_walk<T, SIDE, STEP>;
  static_assert(walk_most_ring<Walk>(walk_least_lanes<Walk>) <= 47 * 1024, "needs no asking");
  const int processors = ((const cuda_info *)args->device)->multiprocessors;
  c.shape = walk_shape_of<Walk>(c, c.to[1]);
  c.tiles = (c.to[1] + c.shape.width - 1) / c.shape.width;
  const int slabs = slabs_of(c, c.shape);
  deal_rows<Walk>(&c, c.to[0], SIDE, STEP, images * c.tiles * slabs, processors);
  const int items = (int)images * c.segments * c.tiles;
  const int most = (Walk::resident * processors + slabs - 1) / slabs;
  const int each = (items + most - 1) / most; /* of a block */
  return {c, items, (items + each - 1) / each, slabs};
}

/* The ring, where sums are joined as well. */
template <int SIDE> size_t weight_bytes(const walk_shape &s) {
  const size_t joined = sizeof(float) * SIDE * SIDE * s.channels * (walk_threads >> s.lanes);
  return joined > (size_t)s.ring_bytes ? joined : (size_t)s.ring_bytes;
}

/* Writes [share, channel, tap] to `parts`. */
template <class T, int SIDE, int STEP>
tn_status start_weight_walk(const tn_kernel_args *args, float *parts, const DLTensor *x,
                            const DLTensor *y, const weight_plan &plan) {
  const dim3 grid((unsigned)plan.shares, (unsigned)plan.slabs);
  return launch(args, depthwise_weight_walk<T, SIDE, STEP>, grid, walk_threads,
                weight_bytes<SIDE>(plan.call.shape), parts, (const T *)y->data, (const T *)x->data,
                plan.items, plan.call);
}

} // namespace

#endif /* KERNELS_CUDA_WINDOW_DEPTHWISE_WEIGHT_WALK_CUH */
