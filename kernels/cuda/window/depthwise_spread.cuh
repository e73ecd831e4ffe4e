/*
 * Gradients by the input of convolutions of each channel by itself, of windows of 3 x 3 and 5 x 5
 * that are 2 apart, of images with channels last: a block walks down the rows of y
 * (depthwise_ring.cuh). A row of y is part of SIDE rows of x, and with it the upper two of these
 * are whole; a thread holds the sums of its pixels in all of them in registers. Sums are float32's;
 * what lies outside y is left out.
 */
#ifndef KERNELS_CUDA_WINDOW_DEPTHWISE_SPREAD_CUH
#define KERNELS_CUDA_WINDOW_DEPTHWISE_SPREAD_CUH

#include "kernels/cuda/window/depthwise_ring.cuh"

namespace {

/* Two columns of a thread's are a pair, and so are two rows: those that padding makes even and odd.
 * A pair takes part in as many windows along an axis as `read`, the latest of its own number. */
template <class T, int SIDE> struct spread {
  using number = T;
  static constexpr int channels = SIDE == 3 ? 4 : 2; /* of a thread */
  static constexpr int read = (SIDE + 1) / 2;        /* columns of a thread */
  static constexpr int sums = SIDE + 1;              /* rows of results at a time */
  static constexpr int stages = 5;                   /* rows of the ring */
  static constexpr int resident = 4;                 /* by registers */
  static constexpr double a_block = 10, idle = 0.2;

  static constexpr int columns(int width) { return width / walk_columns + read - 1; }
  static constexpr int line(int width) { return columns(width); }
};

/* Adds a row's columns, those that are bits of `inside`, to the sums of the rows that it is part
 * of; row u of a turn, at the end of which sums are in the same places again. */
template <int SIDE, int L, int N, int V>
__device__ __forceinline__ void add_spread(float (&sum)[L][walk_columns][V], const float (&v)[N][V],
                                           const float (&k)[SIDE * SIDE][V], int inside, int u) {
#pragma unroll
  for (int q = 0; q < N; q++) {
    if (!(inside >> q & 1)) continue;
#pragma unroll
    for (int p = 0; p < SIDE; p++) {
#pragma unroll
      for (int o = 0; o < walk_columns; o++) {
        const int tap = (N - 1 - q) * 2 + o;
        if (tap >= SIDE) continue;
#pragma unroll
        for (int i = 0; i < V; i++) sum[(2 * u + p) % L][o][i] += v[q][i] * k[p * SIDE + tap][i];
      }
    }
  }
}

template <class T, int SIDE>
__global__ void __launch_bounds__(walk_threads, spread<T, SIDE>::resident)
    depthwise_spread(T *x, const T *y, const T *w, const T *bias,
                     const __grid_constant__ walk_call c) {
  using Walk = spread<T, SIDE>;
  constexpr int V = Walk::channels, N = Walk::read, L = Walk::sums, turn = L / 2;
  extern __shared__ __align__(16) unsigned char ring[];
  const walk_shape &s = c.shape;
  float *const weights = (float *)(ring + s.ring_bytes);
  const int lane = (int)threadIdx.x & ((1 << s.lanes) - 1), worker = (int)threadIdx.x >> s.lanes;
  const int first = (int)blockIdx.y * s.channels, channel = first + lane * V;
  const int tile = (int)blockIdx.x % c.tiles, segment = (int)blockIdx.x / c.tiles % c.segments;
  const int image = (int)blockIdx.x / c.tiles / c.segments;
  /* Of pairs; rows and columns of y have the numbers of the pairs that they are the latest of. */
  const int begin = c.pad[0] / 2 + segment * c.rows;
  const int rows = min(c.rows, (c.to[0] + c.pad[0] + 1) / 2 - begin) + N - 1; /* that are read */
  const int top = begin - (N - 1), left = c.pad[1] / 2 + tile * (s.width / walk_columns) - (N - 1);
  const int line = c.from[1] * c.channels, line_x = c.to[1] * c.channels;
  const int column = (left + N - 1 + worker) * 2 - c.pad[1]; /* of x */

  walk_copies<T, walk_copies_read<Walk>> copies(Walk(),
                                                y + ((int64_t)image * c.from[0] + top) * line,
                                                c.from, ring, first, left, s.columns, top, rows, c);
  int next = 0; /* where the next row goes */
  const auto copy = [&]() {
    copies.next(next, line);
    copies_commit();
    next = next_in_ring(next, c);
  };
#pragma unroll
  for (int i = 0; i < Walk::stages - 1; i++) copy();
  stage_walk<T, SIDE, V>(weights, w, first, c);
  __syncthreads();

  float k[SIDE * SIDE][V], add[V] = {}, sum[L][walk_columns][V];
#pragma unroll
  for (int t = 0; t < SIDE * SIDE; t++)
#pragma unroll
    for (int i = 0; i < V; i++) k[t][i] = weights[t * s.channels + lane * V + i];
#pragma unroll
  for (int i = 0; bias && channel < c.channels && i < V; i++)
    add[i] = load(bias[(channel + i) * c.bias_stride]);
#pragma unroll
  for (int t = 0; t < L * walk_columns; t++)
#pragma unroll
    for (int i = 0; i < V; i++) sum[t / walk_columns][t % walk_columns][i] = add[i];
  int own = 0, inside = 0; /* a bit for each column, of results and of what is read */
#pragma unroll
  for (int o = 0; o < walk_columns; o++)
    own |= (channel < c.channels && lies_in(column + o, c.to[1])) << o;
#pragma unroll
  for (int q = 0; q < N; q++) inside |= lies_in(left + worker + q, c.from[1]) << q;
  hold(own), hold(inside);
  int row = top * 2 - c.pad[0]; /* of x: the upper of the pair at hand */
  T *out = x + ((int64_t)image * c.to[0] + row) * line_x + (int64_t)column * c.channels + channel;
  int mine = (worker * s.channels + lane * V) * (int)sizeof(T), place = 0;
  int apart = s.channels * (int)sizeof(T); /* columns in the ring */
  hold(mine), hold(apart);

  for (int r = 0; r < rows; r += turn) {
#pragma unroll
    for (int u = 0; u < turn; u++) { /* row r + u, whose sums' places in registers are constants */
      if (r + u >= rows) break;
      copies_wait_but<Walk::stages - 2>();
      __syncthreads();
      copy();
      if (lies_in(top + r + u, c.from[0])) {
        float v[N][V];
#pragma unroll
        for (int q = 0; q < N; q++)
          unpack(v[q], *(const walk_pack<T, V> *)(ring + mine + place + q * apart), is_brain_of<T>);
        add_spread<SIDE>(sum, v, k, inside, u);
      }
      place = next_in_ring(place, c);
#pragma unroll
      for (int o = 0; o < 2; o++) { /* rows of the pair */
        float(&whole)[walk_columns][V] = sum[(2 * u + o) % L];
        if (r + u >= N - 1 && lies_in(row + o, c.to[0])) /* else the pair is above the block's */
          write_walk(out + o * line_x, whole, own, c);
#pragma unroll
        for (int q = 0; q < walk_columns; q++)
#pragma unroll
          for (int i = 0; i < V; i++) whole[q][i] = add[i];
      }
      row += 2;
      out += 2 * line_x;
    }
  }
}

template <class T, int SIDE> tn_status start_spread(const tn_kernel_args *args, walk_call c) {
  using Walk = spread<T, SIDE>;
  const DLTensor *y = args->in[0], *w = args->in[1], *x = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  /* Pairs, those that begin in the padding among them. */
  const int rows = (c.to[0] + c.pad[0] + 1) / 2 - c.pad[0] / 2;
  const int columns = (c.to[1] + c.pad[1] + 1) / 2 - c.pad[1] / 2;
  c.shape = walk_shape_of<Walk>(c, columns * walk_columns);
  c.tiles = (columns * walk_columns + c.shape.width - 1) / c.shape.width;
  const int slabs = slabs_of(c, c.shape);
  deal_rows<Walk>(&c, rows, Walk::read, 1, x->shape[0] * c.tiles * slabs,
                  ((const cuda_info *)args->device)->multiprocessors);
  const dim3 grid((unsigned)(x->shape[0] * c.segments * c.tiles), (unsigned)slabs);
  return launch(args, depthwise_spread<T, SIDE>, grid, walk_threads, walk_bytes<SIDE>(c.shape),
                (T *)x->data, (const T *)y->data, (const T *)w->data,
                bias ? (const T *)bias->data : NULL, c);
}

} // namespace

#endif /* KERNELS_CUDA_WINDOW_DEPTHWISE_SPREAD_CUH */
