/*
 * Convolutions of each channel by itself by the common windows, 3 x 3 and 5 x 5, 1 or 2 apart, of
 * images with channels last: a block walks down the rows of a tile (depthwise_ring.cuh). A thread
 * holds its weights, and the sums of all rows of results that the row at hand is part of, in
 * registers: it reads each number once for all windows of its columns. Sums are float32's, in the
 * order of the window; what lies outside an image is left out.
 */
#ifndef KERNELS_CUDA_WINDOW_DEPTHWISE_WALK_CUH
#define KERNELS_CUDA_WINDOW_DEPTHWISE_WALK_CUH

#include "kernels/cuda/elementwise/activated.cuh"
#include "kernels/cuda/window/depthwise_ring.cuh"

namespace {

/* What is the same for all shapes. */
template <class T, int SIDE, int STEP> struct walk {
  using number = T;
  static constexpr int channels = SIDE == 3 && STEP == 1 ? 4 : 2; /* of a thread */
  static constexpr int read = (walk_columns - 1) * STEP + SIDE;   /* columns of a thread */
  static constexpr int sums = (SIDE + STEP - 1) / STEP;           /* rows of results at a time */
  static constexpr int stages = STEP == 1 ? 6 : 5;                /* rows of the ring */
  static constexpr int resident = SIDE == 3 && STEP == 2 ? 6 : 4; /* by registers */
  static constexpr double a_block = 1, idle = 0.2;

  static constexpr int columns(int width) { return (width - 1) * STEP + SIDE; }
  static constexpr int line(int width) { return columns(width); }
};

/* Adds a row's columns, those that are bits of `inside`, to the sums of the rows of results that it
 * is part of; row u of a turn, at the end of which sums are in the same places again. */
template <int SIDE, int STEP, int L, int N, int V>
__device__ __forceinline__ void add_walk(float (&sum)[L][walk_columns][V], const float (&v)[N][V],
                                         const float (&k)[SIDE * SIDE][V], int inside, int u) {
#pragma unroll
  for (int q = 0; q < N; q++) {
    if (!(inside >> q & 1)) continue;
#pragma unroll
    for (int p = 0; p < SIDE; p++) {
      const int behind = u - p + L * STEP * SIDE;
      if (behind % STEP != 0) continue;
#pragma unroll
      for (int o = 0; o < walk_columns; o++) {
        const int tap = q - o * STEP;
        if (tap < 0 || tap >= SIDE) continue;
#pragma unroll
        for (int i = 0; i < V; i++) sum[behind / STEP % L][o][i] += v[q][i] * k[p * SIDE + tap][i];
      }
    }
  }
}

/* x, but for what is outside from `least` to `most`; NaN stays. */
__device__ __forceinline__ float clamped(float x, float least, float most) {
  asm("max.NaN.f32 %0, %0, %1;\nmin.NaN.f32 %0, %0, %2;" : "+f"(x) : "f"(least), "f"(most));
  return x;
}

/* Called, so that it is there once: the loop that this is part of has to be short. */
template <class T> __device__ __noinline__ float walk_activation(int activation, float x) {
  return activated_for<T>(activation, x);
}

/* A thread's results in a row, behind the sums. */
template <class T, int V>
__device__ __forceinline__ void finish_walk(float (&v)[walk_columns][V], const float (&add)[V],
                                            const walk_call &c) {
  if (c.finishes) {
#pragma unroll
    for (int o = 0; o < walk_columns; o++)
#pragma unroll
      for (int i = 0; i < V; i++) v[o][i] = clamped(v[o][i] + add[i], c.least, c.most);
  }
  if (c.activation != TN_ACTIVATION_NONE) {
#pragma unroll
    for (int o = 0; o < walk_columns; o++)
#pragma unroll
      for (int i = 0; i < V; i++) v[o][i] = walk_activation<class_t<T>>(c.activation, v[o][i]);
  }
}

template <class T, int SIDE, int STEP>
__global__ void __launch_bounds__(walk_threads, walk<T, SIDE, STEP>::resident)
    depthwise_walk(T *y, const T *x, const T *w, const T *bias,
                   const __grid_constant__ walk_call c) {
  using Walk = walk<T, SIDE, STEP>;
  constexpr int V = Walk::channels, N = Walk::read, L = Walk::sums, turn = L * STEP;
  extern __shared__ __align__(16) unsigned char ring[];
  const walk_shape &s = c.shape;
  float *const weights = (float *)(ring + s.ring_bytes);
  const int lane = (int)threadIdx.x & ((1 << s.lanes) - 1), worker = (int)threadIdx.x >> s.lanes;
  const int first = (int)blockIdx.y * s.channels, channel = first + lane * V;
  const int tile = (int)blockIdx.x % c.tiles, segment = (int)blockIdx.x / c.tiles % c.segments;
  const int image = (int)blockIdx.x / c.tiles / c.segments;
  const int begin = segment * c.rows, top = begin * STEP - c.pad[0];
  const int rows = (min(c.rows, c.to[0] - begin) - 1) * STEP + SIDE; /* that are read */
  const int column = tile * s.width + worker * walk_columns, left = column * STEP - c.pad[1];
  const int line = c.from[1] * c.channels, line_y = c.to[1] * c.channels;

  walk_copies<T, walk_copies_read<Walk>> copies(
      Walk(), x + ((int64_t)image * c.from[0] + top) * line, c.from, ring, first,
      tile * s.width * STEP - c.pad[1], s.columns, top, rows, c);
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

  float k[SIDE * SIDE][V], add[V] = {}, sum[L][walk_columns][V] = {};
#pragma unroll
  for (int t = 0; t < SIDE * SIDE; t++)
#pragma unroll
    for (int i = 0; i < V; i++) k[t][i] = weights[t * s.channels + lane * V + i];
#pragma unroll
  for (int i = 0; bias && channel < c.channels && i < V; i++)
    add[i] = load(bias[(channel + i) * c.bias_stride]);
  int own = 0, inside = 0; /* a bit for each column, of results and of what is read */
#pragma unroll
  for (int o = 0; o < walk_columns; o++) own |= (channel < c.channels && column + o < c.to[1]) << o;
#pragma unroll
  for (int q = 0; q < N; q++) inside |= lies_in(left + q, c.from[1]) << q;
  hold(own), hold(inside);
  T *out = y + ((int64_t)image * c.to[0] + begin) * line_y + (int64_t)column * c.channels + channel;
  int mine = (worker * walk_columns * STEP * s.channels + lane * V) * (int)sizeof(T), place = 0;
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
        add_walk<SIDE, STEP>(sum, v, k, inside, u);
      }
      place = next_in_ring(place, c);
      const int behind = u - (SIDE - 1) + turn * SIDE;
      if (behind % STEP != 0) continue;
      if (r + u >= SIDE - 1) { /* else the row is above the block's */
        finish_walk<T>(sum[behind / STEP % L], add, c);
        write_walk(out, sum[behind / STEP % L], own, c);
        out += line_y;
      }
#pragma unroll
      for (int o = 0; o < walk_columns; o++)
#pragma unroll
        for (int i = 0; i < V; i++) sum[behind / STEP % L][o][i] = 0;
    }
  }
}

template <class T, int SIDE, int STEP>
tn_status start_walk(const tn_kernel_args *args, walk_call c) {
  using Walk = walk<T, SIDE, STEP>;
  const DLTensor *x = args->in[0], *w = args->in[1], *y = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  const int processors = ((const cuda_info *)args->device)->multiprocessors;
  c.shape = walk_shape_of<Walk>(c, c.to[1]);
  c.tiles = (c.to[1] + c.shape.width - 1) / c.shape.width;
  const int slabs = slabs_of(c, c.shape);
  deal_rows<Walk>(&c, c.to[0], SIDE, STEP, y->shape[0] * c.tiles * slabs, processors);
  const dim3 grid((unsigned)(y->shape[0] * c.segments * c.tiles), (unsigned)slabs);
  return launch(args, depthwise_walk<T, SIDE, STEP>, grid, walk_threads, walk_bytes<SIDE>(c.shape),
                (T *)y->data, (const T *)x->data, (const T *)w->data,
                bias ? (const T *)bias->data : NULL, c);
}

} // namespace

#endif /* KERNELS_CUDA_WINDOW_DEPTHWISE_WALK_CUH */
