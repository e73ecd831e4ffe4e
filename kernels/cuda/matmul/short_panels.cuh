/*
 * Short products as their kernels see them, and how operands come to shared memory. Included by
 * short_sums.cuh and int8_short.cu alone.
 */
#ifndef KERNELS_CUDA_SHORT_PANELS_CUH
#define KERNELS_CUDA_SHORT_PANELS_CUH

#include "kernels/cuda/base/background.cuh"

namespace {

enum {
  line_parts = 8, /* of 16 bytes each: the terms of a vector in a panel */
  steps = 4,      /* of 32 bytes of each vector */
  threads = 128,
  warps = threads / 32,
  adders = 128,        /* threads of a block that adds parts */
  most_split_bits = 3, /* blocks of a cluster, on every device that has them */
  most_splits = 1 << most_split_bits
};

/* Elements of 16 bytes, and terms that a panel has of a vector. */
template <class T> constexpr int part_of = 16 / (int)sizeof(T);
template <class T> constexpr int depth_of = line_parts *part_of<T>;

/* Of an operand: vectors of m or n that have k terms each. `along`: terms lie side by side, else
 * vectors do. `line`: elements from one vector, or term, to the next. */
struct short_operand {
  int64_t line, batch[TN_MAX_RANK];
  bool along;
};

/* Where sums are in 2^part_bits parts, y of the tiles is of float32, [items, parts, m, line_y], and
 * takes 4 at a time; that of add_parts is the result. */
struct short_call {
  const void *a, *b, *bias;
  void *y;
  short_operand of_a, of_b;
  int64_t line_y, batch_y[TN_MAX_RANK], bias_step;
  int m, n, k, split_bits, part_bits, rank, activation;
  int size[TN_MAX_RANK];
  bool whole; /* y takes 4 elements at a time */
  bool wide;  /* or 8 */
  bool plain; /* and the block's sums are all that it takes */
};

/* Tiles of ROWS by COLUMNS of y; DOWN warps share the rows, but of those that are for wgmma, which
 * takes 16 bits; 0 where threads add, not tensor cores. */
template <int ROWS, int COLUMNS, int DOWN, int STAGES> struct short_tile {
  static constexpr int rows = ROWS, columns = COLUMNS, stages = STAGES;
  static constexpr bool by_threads = DOWN == 0;
  static constexpr int down = by_threads ? 1 : DOWN, across = warps / down;
  static constexpr int warp_rows = rows / down, warp_columns = columns / across;
  static constexpr int a_parts = rows * line_parts, parts = a_parts + columns * line_parts;
  static constexpr int pitch = columns + 4; /* of the sums, in floats */
  static constexpr bool grouped = rows == 64 && columns >= 64;
  /* Of shared memory, for so many panels of a block. */
  static int bytes(int panels) {
    return most(least(stages, panels) * parts * 16, rows * pitch * (int)sizeof(float));
  }
};
using flat_tile = short_tile<16, 64, 1, 6>;   /* of few rows */
using tall_tile = short_tile<64, 16, 4, 6>;   /* of few columns */
using middle_tile = short_tile<32, 64, 2, 4>; /* and of floats that are rounded */
using square_tile = short_tile<64, 64, 2, 4>;
using wide_tile = short_tile<64, 128, 2, 4>;
/* Of floats, which threads add. */
using low_tile = short_tile<32, 64, 0, 4>;
using high_tile = short_tile<64, 64, 0, 4>;

/* Where part `column` of a line lies in a panel of V vectors, in bytes: lines are vectors (ALONG)
 * or terms, of which at most 128 bytes lie side by side. Parts are turned by their line's number,
 * so that those which a matrix of 8 by 8 has in 8 lines lie in different banks, and those which 8
 * floats have in 4 terms. */
template <class T, int V, bool ALONG> struct panel_layout {
  static constexpr int parts = ALONG ? (int)line_parts : V / part_of<T>; /* of a line */
  static constexpr int across = least(parts, 8);                         /* side by side */
  static constexpr int line_bytes = across * 16, half_bytes = depth_of<T> * 128;
  static constexpr int turned_by = !ALONG && sizeof(T) == 4 ? 2 : 1; /* from line to line */
  static __device__ __forceinline__ int turn(int line) {
    return line * turned_by / (8 / across) & (across - 1);
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
template <class T, int V, bool ALONG> struct panel_reader {
  using layout = panel_layout<T, V, ALONG>;
  static constexpr int depth = depth_of<T>, part = part_of<T>;
  static constexpr int lines = threads / layout::parts; /* that all threads read at once */
  static constexpr int each = V * line_parts / threads; /* parts of a thread */
  static_assert(lines * layout::turned_by % 8 == 0, "a thread's lines are turned alike");
  const T *from;        /* this thread's first part of the next panel */
  int64_t step, next;   /* to its other parts; to the same of the panel after */
  int first, end, left; /* that part's vector, or term; of all; elements from it on */
  uint32_t to;          /* where it goes, in bytes */

  __device__ __forceinline__ panel_reader(const T *data, const short_operand &o, int vector,
                                          int vectors, int term, int terms) {
    const int line = threadIdx.x / layout::parts, column = threadIdx.x % layout::parts;
    const int place = (ALONG ? term : vector) + column * part;
    first = (ALONG ? vector : term) + line;
    end = ALONG ? vectors : terms;
    left = (ALONG ? terms : vectors) - place;
    step = lines * o.line;
    next = ALONG ? depth : depth * o.line;
    from = data + first * o.line + place;
    to = layout::at(line, column);
  }
  __device__ __forceinline__ void read(uint32_t panel) {
    const T *at = from;
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

} // namespace

#endif /* KERNELS_CUDA_SHORT_PANELS_CUH */
