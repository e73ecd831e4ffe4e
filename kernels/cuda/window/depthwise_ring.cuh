/*
 * What kernels have in common that walk down images with channels last, each channel by itself, by
 * windows of 3 x 3 and 5 x 5: rows of a tile are copied in the background to a ring in shared
 * memory, of which a row is read while the next ones come. Threads lie along the channels and along
 * a row, and have a few columns of results each.
 */
#ifndef KERNELS_CUDA_WINDOW_DEPTHWISE_RING_CUH
#define KERNELS_CUDA_WINDOW_DEPTHWISE_RING_CUH

#include "kernels/cuda/base/background.cuh"
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
  int columns, line_bytes;    /* that are read of a row; what the ring has for each row */
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

/* A kernel's Walk says: `number`, the type; `channels` of a thread; `stages`, rows of the ring;
 * `columns(width)` that are read for so many of results, and `line(width)`, those of the ring. */
template <class Walk> constexpr walk_shape walk_shape_by(int lanes) {
  const int all = Walk::channels << lanes, width = (walk_threads >> lanes) * walk_columns;
  const int line_bytes = Walk::line(width) * all * (int)sizeof(typename Walk::number);
  return {lanes, all, width, Walk::columns(width), line_bytes, Walk::stages * line_bytes};
}
/* Columns in the ring have 64 bytes or more, but where there are fewer channels. */
template <class Walk> constexpr int walk_few_lanes = Walk::channels == 4 ? 3 : 4;
template <class Walk> constexpr int walk_least_lanes = Walk::channels == 4 ? 1 : 2;

/* Copies of 16 bytes of `columns` that a thread makes at the most. */
template <class Walk> constexpr int walk_most_copies(int lanes, bool results) {
  const walk_shape s = walk_shape_by<Walk>(lanes);
  const int columns = results ? s.width : s.columns;
  const int parts = columns * s.channels * (int)sizeof(typename Walk::number) / 16;
  const int own = (parts + walk_threads - 1) / walk_threads;
  const int others = lanes == walk_most_lanes ? 0 : walk_most_copies<Walk>(lanes + 1, results);
  return own > others ? own : others;
}
template <class Walk>
constexpr int walk_copies_read = walk_most_copies<Walk>(walk_least_lanes<Walk>, false);
template <class Walk>
constexpr int walk_copies_results = walk_most_copies<Walk>(walk_least_lanes<Walk>, true);

/* Bytes of the ring at the most. */
template <class Walk> constexpr int walk_most_ring(int lanes) {
  const int own = walk_shape_by<Walk>(lanes).ring_bytes;
  const int others = lanes == walk_most_lanes ? 0 : walk_most_ring<Walk>(lanes + 1);
  return own > others ? own : others;
}

/* Keeps the compiler from finding a number again each time, where registers are scarce. */
__device__ __forceinline__ void hold(int &x) { asm volatile("" : "+r"(x)); }

/* Bytes behind a ring's begin of the row behind one. */
__device__ __forceinline__ int next_in_ring(int place, const walk_call &c) {
  place += c.shape.line_bytes;
  return place == c.shape.ring_bytes ? 0 : place;
}

/* Where the thread's copy j, of 16 bytes, of a row of a tile comes from: its column of the tile and
 * its first number in a row of the image, if it lies inside. */
struct walk_part {
  int column, offset;
  bool inside;
};
template <class T, class Walk>
__device__ __forceinline__ walk_part walk_part_of(int j, int first, int column, int width,
                                                  const walk_call &c) {
  constexpr int part = 16 / (int)sizeof(T);
  constexpr int less = part / Walk::channels == 1 ? 0 : part / Walk::channels == 2 ? 1 : 2;
  const int bits = c.shape.lanes - less; /* parts of a column */
  const int i = (int)threadIdx.x + j * walk_threads, q = i >> bits;
  const int channel = first + (i & ((1 << bits) - 1)) * part;
  const bool inside = lies_in(column + q, width) && channel < c.channels;
  return {q, inside ? (column + q) * c.channels + channel : 0, inside};
}

/* Copies rows of a tile of an image, one after the other, to a ring. */
template <class T, int COPIES> struct walk_copies {
  const T *from;
  int offset[COPIES]; /* in a row; -1: nothing to copy */
  int row, end;       /* the next; behind the last */
  unsigned char *const ring;
  int begin; /* of the thread's first copy, in a row of the ring */

  /* `from`: row `row`, which may be above the image, of which there are [h, w] `size`. */
  template <class Walk>
  __device__ __forceinline__ walk_copies(Walk, const T *from, const int (&size)[2],
                                         unsigned char *ring, int first, int column, int columns,
                                         int row, int rows, const walk_call &c)
      : from(from), row(row), end(min(row + rows, size[0])), ring(ring),
        begin((int)threadIdx.x * 16) {
#pragma unroll
    for (int j = 0; j < COPIES; j++) {
      const walk_part at = walk_part_of<T, Walk>(j, first, column, size[1], c);
      offset[j] = at.column < columns && at.inside ? at.offset : -1;
      hold(offset[j]);
    }
    hold(begin);
  }
  /* Of the next row, whose numbers are `line`, to what is `place` bytes behind the ring's begin. */
  __device__ __forceinline__ void next(int place, int line) {
    if (lies_in(row, end)) {
#pragma unroll
      for (int j = 0; j < COPIES; j++)
        if (offset[j] >= 0)
          copy_16(ring + begin + place + j * walk_threads * 16, from + offset[j], true);
    }
    row++;
    from += line;
  }
};

/* Likewise, but what lies outside the image becomes zeros in the ring. */
template <class T, int COPIES> struct walk_zeroing_copies {
  const T *const any, *from;         /* memory that may be read; the next row */
  int offset[COPIES], bytes[COPIES]; /* in a row; 0 of what lies outside */
  int places;                        /* a bit for each copy that has one in the ring */
  int row, end;

  template <class Walk>
  __device__ __forceinline__ walk_zeroing_copies(Walk, const T *any, const T *from,
                                                 const int (&size)[2], int first, int column,
                                                 int columns, int row, int rows, const walk_call &c)
      : any(any), from(from), places(0), row(row), end(min(row + rows, size[0])) {
#pragma unroll
    for (int j = 0; j < COPIES; j++) {
      const walk_part at = walk_part_of<T, Walk>(j, first, column, size[1], c);
      offset[j] = at.offset;
      bytes[j] = at.inside ? 16 : 0;
      places |= (at.column < columns) << j;
      hold(offset[j]), hold(bytes[j]);
    }
    hold(places);
  }
  /* `to`: of the thread's first copy. */
  __device__ __forceinline__ void next(unsigned char *to, int line) {
    const bool inside = lies_in(row, end);
    const T *const source = inside ? from : any;
#pragma unroll
    for (int j = 0; j < COPIES; j++)
      if (places >> j & 1)
        copy_16_of(to + j * walk_threads * 16, source + (inside ? offset[j] : 0),
                   inside ? bytes[j] : 0);
    row++;
    from += line;
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

/* A thread's results in a row: those of its columns that are bits of `own` go to memory. */
template <class T, int V>
__device__ __forceinline__ void write_walk(T *y, const float (&v)[walk_columns][V], int own,
                                           const walk_call &c) {
#pragma unroll
  for (int o = 0; o < walk_columns; o++)
    if (own >> o & 1)
      *(walk_pack<T, V> *)(y + o * c.channels) = packed<class_t<T>, V>(v[o], is_brain_of<T>);
}

/* Whether windows of w [k, 1, kh, kw] are those that are walked, of c channels. */
static inline bool is_walked(const DLTensor *w, const window_conv &a, int64_t c) {
  const int64_t side = w->shape[2], step = a.stride[1], most_slabs = 65535;
  return w->shape[0] == c && c <= most_slabs * walk_channels && (side == 3 || side == 5) &&
         w->shape[3] == side && (step == 1 || step == 2) && a.stride[2] == step &&
         a.dilation[1] == 1 && a.dilation[2] == 1;
}

/* Shared memory: the ring, and the weights of a block's channels. */
template <int SIDE> size_t walk_bytes(const walk_shape &s) {
  return (size_t)(s.ring_bytes + SIDE * SIDE * s.channels * (int)sizeof(float));
}

static inline int slabs_of(const walk_call &c, const walk_shape &s) {
  return (c.channels + s.channels - 1) / s.channels;
}

/* The shape of blocks that together read fewest columns for so many of results. */
template <class Walk> walk_shape walk_shape_of(const walk_call &c, int columns) {
  walk_shape best = {};
  int64_t least = 0;
  for (int lanes = walk_most_lanes; lanes >= walk_least_lanes<Walk>; lanes--) {
    const walk_shape s = walk_shape_by<Walk>(lanes);
    if (lanes < walk_few_lanes<Walk> && s.channels < c.channels) break;
    const int64_t tiles = (columns + s.width - 1) / s.width;
    const int64_t read = tiles * s.columns * slabs_of(c, s) * s.channels;
    if (best.lanes && read > least) continue;
    best = s;
    least = read;
  }
  return best;
}

/* Deals rows of results out to blocks: as few rows to read as possible for the multiprocessor that
 * has most, and enough blocks that one is at work while others wait for memory. A kernel's Walk
 * says what was measured on an H200: blocks that are at work on a multiprocessor at a time,
 * `resident`, rows that take as long as a block does besides, `a_block`, and what part of a block's
 * time its place takes while none is there, `idle`. */
template <class Walk>
void deal_rows(walk_call *c, int all, int side, int step, int64_t blocks, int processors) {
  enum { most = 64 };
  double best = 0;
  for (int segments = 1; segments <= most && segments <= all; segments += 1 + segments / 4) {
    const int rows = (all + segments - 1) / segments, dealt = (all + rows - 1) / rows;
    const int64_t each = (blocks * dealt + processors - 1) / processors;
    const int64_t places = (each + Walk::resident - 1) / Walk::resident * Walk::resident;
    const double share = (double)each + Walk::idle * (double)(places - each);
    const double time = share * ((rows - 1) * step + side + Walk::a_block);
    if (segments > 1 && time >= best) continue;
    best = time;
    c->rows = rows;
    c->segments = dealt;
  }
}

} // namespace

#endif /* KERNELS_CUDA_WINDOW_DEPTHWISE_RING_CUH */
