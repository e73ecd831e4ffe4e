/*
 * Convolutions of each channel by itself by the common windows, 3 x 3 and 5 x 5, 1 or 2 apart, of
 * images with channels last: a block walks down the rows of a tile, which are copied in the
 * background to a ring in shared memory. A thread holds its weights, and the sums of all rows of
 * results that the row at hand is part of, in registers: it reads each number once for all windows
 * of its columns. Sums are float32's, in the order of the window; what lies outside an image is
 * left out.
 */
#ifndef KERNELS_CUDA_WINDOW_DEPTHWISE_WALK_CUH
#define KERNELS_CUDA_WINDOW_DEPTHWISE_WALK_CUH

#include "kernels/cuda/base/background.cuh"
#include "kernels/cuda/elementwise/activated.cuh"
#include "kernels/cuda/window/depthwise.cuh"

namespace {

enum {
  walk_threads = 128,
  walk_columns = 2,   /* of results, that a thread has */
  walk_channels = 8,  /* of a block, at the least */
  walk_most_lanes = 5 /* threads along the channels, as a power of 2 */
};

/* Blocks: 2^lanes threads along the channels and the others along a row. */
struct walk_shape {
  int lanes, channels, width; /* channels, and columns of results, of a block */
  int columns, line_bytes;    /* that are read of a row, and what they have of the ring */
  int ring_bytes;
};

/* From which image to which: both [n, h, w, channels]. */
struct walk_call {
  int from[2], to[2], channels; /* sizes; of what is read, of the result */
  int pad[2];                   /* before what is read */
  walk_shape shape;
  int rows, segments, tiles; /* of results: rows of a block; blocks down and along an image */
  int64_t weight[3];         /* strides of w along the channels and the window */
  int64_t bias_stride;
  float least, most;     /* of results */
  int activation;        /* of what is not outside of these */
  bool turned, finishes; /* the window, by half a turn; results, by bias or clamp */
};

/* What is the same for all shapes. */
template <class T, int SIDE, int STEP> struct walk {
  static constexpr int channels = SIDE == 3 && STEP == 1 ? 4 : 2; /* of a thread */
  static constexpr int read = (walk_columns - 1) * STEP + SIDE;   /* columns of a thread */
  static constexpr int sums = (SIDE + STEP - 1) / STEP;           /* rows of results at a time */
  static constexpr int stages = STEP == 1 ? 6 : 5;                /* rows of the ring */
  static constexpr int resident = SIDE == 3 && STEP == 2 ? 6 : 4; /* blocks, by registers */
  /* Columns in the ring have 64 bytes or more, but where there are fewer channels. */
  static constexpr int few_lanes = channels == 4 ? 3 : 4, least_lanes = channels == 4 ? 1 : 2;

  static constexpr walk_shape shape(int lanes) {
    const int all = channels << lanes, width = (walk_threads >> lanes) * walk_columns;
    const int columns = (width - 1) * STEP + SIDE;
    const int line_bytes = columns * all * (int)sizeof(T);
    return {lanes, all, width, columns, line_bytes, stages * line_bytes};
  }
  /* Of 16 bytes of a row, that a thread makes at the most. */
  static constexpr int copies(int lanes) {
    const int own = (shape(lanes).line_bytes / 16 + walk_threads - 1) / walk_threads;
    return lanes == walk_most_lanes || own > copies(lanes + 1) ? own : copies(lanes + 1);
  }
  static int bytes(const walk_shape &s) {
    return s.ring_bytes + SIDE * SIDE * s.channels * (int)sizeof(float);
  }
};

/* Keeps the compiler from finding a number again each time, where registers are scarce. */
__device__ __forceinline__ void hold(int &x) { asm volatile("" : "+r"(x)); }

/* Bytes behind a ring's begin of the row behind one. */
__device__ __forceinline__ int next_in_ring(int place, const walk_call &c) {
  place += c.shape.line_bytes;
  return place == c.shape.ring_bytes ? 0 : place;
}

/* Copies the rows of a tile, one after the other, to the ring. */
template <class T, class Walk> struct walk_copies {
  static constexpr int copies = Walk::copies(Walk::least_lanes), part = 16 / (int)sizeof(T);
  const T *from;
  int offset[copies]; /* in a row; -1: nothing to copy */
  int row, end;       /* the next; behind the last */
  unsigned char *const ring;
  int begin, place; /* of the thread's first copy, of the row */

  __device__ __forceinline__ walk_copies(const T *x, unsigned char *ring, int first, int column,
                                         int row, int rows, const walk_call &c)
      : from(x), row(row), end(min(row + rows, c.from[0])), ring(ring),
        begin((int)threadIdx.x * 16), place(0) {
    constexpr int less = part / Walk::channels == 1 ? 0 : part / Walk::channels == 2 ? 1 : 2;
    const int bits = c.shape.lanes - less; /* parts of a column */
#pragma unroll
    for (int j = 0; j < copies; j++) {
      const int i = (int)threadIdx.x + j * walk_threads, q = i >> bits;
      const int channel = first + (i & ((1 << bits) - 1)) * part;
      const bool has =
          q < c.shape.columns && lies_in(column + q, c.from[1]) && channel < c.channels;
      offset[j] = has ? (column + q) * c.channels + channel : -1;
      hold(offset[j]);
    }
    hold(begin);
  }
  __device__ __forceinline__ void next(const walk_call &c) {
    if (lies_in(row, end)) {
#pragma unroll
      for (int j = 0; j < copies; j++)
        if (offset[j] >= 0)
          copy_16(ring + begin + place + j * walk_threads * 16, from + offset[j], true);
    }
    copies_commit();
    row++;
    from += c.from[1] * c.channels;
    place = next_in_ring(place, c);
  }
};

/* The weights of a block's channels, as floats, [tap, channel]. */
template <class T, int SIDE, int V>
__device__ __forceinline__ void stage_walk(float *to, const T *w, int first, const walk_call &c) {
  const int bits = c.shape.lanes + (V == 4 ? 2 : 1), all = 1 << bits;
  static_assert(V == 4 || V == 2, "channels of a thread");
  for (int i = threadIdx.x; i < SIDE * SIDE << bits; i += walk_threads) {
    const int channel = first + (i & (all - 1)), place = i >> bits;
    const int tap = c.turned ? SIDE * SIDE - 1 - place : place;
    if (channel < c.channels)
      to[i] = load(w[channel * c.weight[0] + tap / SIDE * c.weight[1] + tap % SIDE * c.weight[2]]);
  }
}

/* A thread's channels of a column: a pack of T's class, whose type is known here. */
template <class T> constexpr bool is_brain_of = std::is_same_v<T, bfloat_t>;
template <class T, int V> using walk_pack = pack<class_t<T>, V>;

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

/* A thread's results in a row: those of its columns that are bits of `own` go to memory. */
template <class T, int V>
__device__ __forceinline__ void write_walk(T *y, const float (&sum)[walk_columns][V], int own,
                                           const float (&add)[V], const walk_call &c) {
  float v[walk_columns][V];
#pragma unroll
  for (int o = 0; o < walk_columns; o++)
#pragma unroll
    for (int i = 0; i < V; i++) v[o][i] = sum[o][i];
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
#pragma unroll
  for (int o = 0; o < walk_columns; o++)
    if (own >> o & 1)
      *(walk_pack<T, V> *)(y + o * c.channels) = packed<class_t<T>, V>(v[o], is_brain_of<T>);
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

  walk_copies<T, Walk> copies(x + ((int64_t)image * c.from[0] + top) * line, ring, first,
                              tile * s.width * STEP - c.pad[1], top, rows, c);
#pragma unroll
  for (int i = 0; i < Walk::stages - 1; i++) copies.next(c);
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
      copies.next(c);
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
        write_walk(out, sum[behind / STEP % L], own, add, c);
        out += line_y;
      }
#pragma unroll
      for (int o = 0; o < walk_columns; o++)
#pragma unroll
        for (int i = 0; i < V; i++) sum[behind / STEP % L][o][i] = 0;
    }
  }
}

/* Whether windows of w [k, 1, kh, kw] are those that are walked, of c channels. */
static inline bool is_walked(const DLTensor *w, const window_conv &a, int64_t c) {
  const int64_t side = w->shape[2], step = a.stride[1], most_slabs = 65535;
  return w->shape[0] == c && c <= most_slabs * walk_channels && (side == 3 || side == 5) &&
         w->shape[3] == side && (step == 1 || step == 2) && a.stride[2] == step &&
         a.dilation[1] == 1 && a.dilation[2] == 1;
}

static inline int slabs_of(const walk_call &c, const walk_shape &s) {
  return (c.channels + s.channels - 1) / s.channels;
}

/* The shape of blocks that together read fewest columns. */
template <class Walk> walk_shape walk_shape_of(const walk_call &c) {
  walk_shape best = {};
  int64_t least = 0;
  for (int lanes = walk_most_lanes; lanes >= Walk::least_lanes; lanes--) {
    const walk_shape s = Walk::shape(lanes);
    if (lanes < Walk::few_lanes && s.channels < c.channels) break;
    const int64_t tiles = (c.to[1] + s.width - 1) / s.width;
    const int64_t read = tiles * s.columns * slabs_of(c, s) * s.channels;
    if (best.lanes && read > least) continue;
    best = s;
    least = read;
  }
  return best;
}

/* Deals rows out to blocks, of which so many are at work on a multiprocessor at a time: as few rows
 * to read as possible for the multiprocessor that has most, and enough blocks that one is at work
 * while others wait for memory. What more rows and few blocks take was measured on an H200. */
static inline void deal_rows(walk_call *c, int side, int step, int64_t blocks, int processors,
                             int resident) {
  enum { most = 64, a_block = 1 /* takes as long as so many rows, besides */ };
  double best = 0;
  for (int segments = 1; segments <= most && segments <= c->to[0]; segments += 1 + segments / 4) {
    const int rows = (c->to[0] + segments - 1) / segments, dealt = (c->to[0] + rows - 1) / rows;
    const int64_t each = (blocks * dealt + processors - 1) / processors;
    const double few = each < resident ? 0.4 * (double)(resident - each) / resident : 0;
    const double time = (double)each * ((rows - 1) * step + side + a_block) * (1 + few);
    if (segments > 1 && time >= best) continue;
    best = time;
    c->rows = rows;
    c->segments = dealt;
  }
}

template <class T, int SIDE, int STEP>
tn_status start_walk(const tn_kernel_args *args, walk_call c) {
  using Walk = walk<T, SIDE, STEP>;
  const DLTensor *x = args->in[0], *w = args->in[1], *y = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  const int processors = ((const cuda_info *)args->device)->multiprocessors;
  c.shape = walk_shape_of<Walk>(c);
  c.tiles = (c.to[1] + c.shape.width - 1) / c.shape.width;
  const int slabs = slabs_of(c, c.shape);
  deal_rows(&c, SIDE, STEP, y->shape[0] * c.tiles * slabs, processors, Walk::resident);
  const dim3 grid((unsigned)(y->shape[0] * c.segments * c.tiles), (unsigned)slabs);
  return launch(args, depthwise_walk<T, SIDE, STEP>, grid, walk_threads,
                (size_t)Walk::bytes(c.shape), (T *)y->data, (const T *)x->data, (const T *)w->data,
                bias ? (const T *)bias->data : NULL, c);
}

/* pre: is_walked. `c` is whole but for how the work is dealt out. */
template <class T>
tn_status start_walked(const tn_kernel_args *args, int side, int step, const walk_call &c) {
  if (side == 3) return step == 1 ? start_walk<T, 3, 1>(args, c) : start_walk<T, 3, 2>(args, c);
  return step == 1 ? start_walk<T, 5, 1>(args, c) : start_walk<T, 5, 2>(args, c);
}

} // namespace

#endif /* KERNELS_CUDA_WINDOW_DEPTHWISE_WALK_CUH */
