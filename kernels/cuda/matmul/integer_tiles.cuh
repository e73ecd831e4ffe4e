/*
 * Products of 8-bit integers less their zero points: a block computes a 64 by 64 tile of one matrix
 * of y from panels of a and b in shared memory, four bytes of a row or column to a word, which dp4a
 * multiplies and adds at once. Bytes are brought to one signedness by an exclusive or with 128;
 * zero points are taken off the sums, and elements beyond the edges are read as zero points: sum (a
 * - za) (b - zb) = sum a b - zb sum a - za sum b + k za zb. Sums wrap, as unsigned integers do.
 *
 * Operands and what becomes of sums are types, so that convolutions read their windows here, too:
 * an operand has origin(item), of one of the products that are batched, byte(origin, vector, p),
 * element p of a vector, zero_byte(item, vector), vectors, flip and dense; a sink has
 * put(item, m, n, sum).
 */
#ifndef KERNELS_CUDA_INTEGER_TILES_CUH
#define KERNELS_CUDA_INTEGER_TILES_CUH

#include "kernels/common/quant.h"
#include "kernels/cuda/base/common.cuh"

enum {
  tile_side = 64,
  tile_words = 8,
  tile_depth = 4 * tile_words,
  tile_threads = 256,
  tile_per_thread = 4
};

/* Steps of the axes around matrices. */
struct batch_axes {
  int rank;
  int64_t size[TN_MAX_RANK], stride[TN_MAX_RANK];
  __device__ __forceinline__ int64_t origin(int64_t item) const {
    int64_t at = 0;
    for (int d = rank - 1; d >= 0; d--) {
      at += item % size[d] * stride[d];
      item /= size[d];
    }
    return at;
  }
};

/* Numbers of vectors: none (NULL), one for all (step 0) or one for each. */
template <class T> struct vector_numbers {
  const T *data;
  int64_t step;
  __device__ __forceinline__ T at(int64_t vector, T otherwise) const {
    return data ? data[vector * step] : otherwise;
  }
};

/* Rows of a or columns of b: vectors `step` elements apart, whose elements are `along` apart. */
struct matrix_operand {
  const unsigned char *data;
  vector_numbers<unsigned char> zero;
  unsigned flip;                       /* 128 where bytes are unsigned */
  int64_t vectors, step, along, group; /* group: vectors from one item to the next that count on */
  batch_axes batch;
  __device__ __forceinline__ bool dense() const { return along == 1; }
  __device__ __forceinline__ int64_t origin(int64_t item) const { return batch.origin(item); }
  __device__ __forceinline__ int64_t number(int64_t item, int64_t vector) const {
    return group ? item % batch.size[batch.rank - 1] * group + vector : vector;
  }
  __device__ __forceinline__ unsigned char byte(int64_t at, int64_t vector, int64_t p) const {
    return data[at + vector * step + p * along];
  }
  __device__ __forceinline__ unsigned char zero_byte(int64_t item, int64_t vector) const {
    return zero.at(number(item, vector), 0);
  }
};

struct sum_sink {
  int32_t *y;
  int64_t row, col;
  batch_axes batch;
  __device__ __forceinline__ void put(int64_t item, int64_t m, int64_t n, unsigned sum) const {
    y[batch.origin(item) + m * row + n * col] = (int32_t)sum;
  }
};

/* Sums times (row scale * column scale) / y's, rounded to y's integers. */
struct requantising_sink {
  unsigned char *y;
  int64_t row, col, group;
  batch_axes batch;
  vector_numbers<float> row_scale, col_scale;
  const float *y_scale;
  const unsigned char *y_zero;
  const int32_t *bias; /* of rows, or NULL */
  quant_range range;
  __device__ __forceinline__ void put(int64_t item, int64_t m, int64_t n, unsigned sum) const {
    const int64_t r = group ? item % batch.size[batch.rank - 1] * group + m : m;
    const int zero = range.low < 0 ? (signed char)*y_zero : *y_zero;
    if (bias) sum += (unsigned)bias[r];
    const float scale = __fdiv_rn(__fmul_rn(row_scale.at(r, 1), col_scale.at(n, 1)), *y_scale);
    float v = __fmul_rn((float)(int)sum, scale);
    v = v == v ? v : 0;
    v = fminf(fmaxf(v, (float)(range.low - zero)), (float)(range.high - zero));
    y[batch.origin(item) + m * row + n * col] = (unsigned char)(__float2int_rn(v) + zero);
  }
};

template <class A, class B, class Y> struct tiles_call {
  A a;
  B b;
  Y y;
  int64_t k, tiles_m, tiles_n, tiles;
};

/* Elements first <= e < first + tile_depth of tile_side vectors from `vector` on, as words. */
template <class X>
__device__ void load_panel(const X &x, int64_t item, int64_t at, int64_t vector, int64_t first,
                           int64_t k, int (*panel)[tile_words + 1]) {
  for (int i = threadIdx.x; i < tile_side * tile_words; i += tile_threads) {
    /* Neighbouring threads read neighbouring elements, whichever way they lie. */
    const int v = x.dense() ? i / tile_words : i % tile_side;
    const int w = x.dense() ? i % tile_words : i / tile_side;
    const bool is_vector = vector + v < x.vectors;
    unsigned word = 0;
    for (int e = 0; e < 4; e++) {
      const int64_t p = first + 4 * w + e;
      unsigned byte = 0;
      if (is_vector) byte = p < k ? x.byte(at, vector + v, p) : x.zero_byte(item, vector + v);
      word |= ((byte ^ x.flip) & 255u) << 8 * e;
    }
    panel[v][w] = (int)word;
  }
}

/* The zero points of the vectors that a thread has in a tile. */
template <class X>
__device__ __forceinline__ void load_zeros(const X &x, int64_t item, int64_t vector,
                                           unsigned (&zeros)[tile_per_thread]) {
  for (int r = 0; r < tile_per_thread; r++) {
    const int64_t v = vector + 16 * r;
    const unsigned byte = v < x.vectors ? x.zero_byte(item, v) : 0;
    zeros[r] = (unsigned)(int)(signed char)(byte ^ x.flip);
  }
}

template <class A, class B, class Y>
__global__ void __launch_bounds__(tile_threads)
    integer_tiles(const __grid_constant__ tiles_call<A, B, Y> c) {
  __shared__ int panel_a[tile_side][tile_words + 1], panel_b[tile_side][tile_words + 1];
  const int row = threadIdx.x / 16, col = threadIdx.x % 16;
  for (int64_t tile = blockIdx.x; tile < c.tiles; tile += gridDim.x) {
    const int64_t item = tile / (c.tiles_m * c.tiles_n);
    const int64_t i = tile / c.tiles_n % c.tiles_m * tile_side, j = tile % c.tiles_n * tile_side;
    const int64_t at_a = c.a.origin(item), at_b = c.b.origin(item);
    int product[tile_per_thread][tile_per_thread] = {};
    int sum_a[tile_per_thread] = {}, sum_b[tile_per_thread] = {};
    for (int64_t p = 0; p < c.k; p += tile_depth) {
      load_panel(c.a, item, at_a, i, p, c.k, panel_a);
      load_panel(c.b, item, at_b, j, p, c.k, panel_b);
      __syncthreads();
      for (int w = 0; w < tile_words; w++) {
        int a[tile_per_thread], b[tile_per_thread];
        for (int r = 0; r < tile_per_thread; r++) {
          a[r] = panel_a[row + 16 * r][w];
          b[r] = panel_b[col + 16 * r][w];
          sum_a[r] = __dp4a(a[r], 0x01010101, sum_a[r]);
          sum_b[r] = __dp4a(b[r], 0x01010101, sum_b[r]);
        }
        for (int r = 0; r < tile_per_thread; r++)
          for (int s = 0; s < tile_per_thread; s++)
            product[r][s] = __dp4a(a[r], b[s], product[r][s]);
      }
      __syncthreads();
    }
    unsigned za[tile_per_thread], zb[tile_per_thread];
    load_zeros(c.a, item, i + row, za);
    load_zeros(c.b, item, j + col, zb);
    const unsigned terms = (unsigned)((c.k + tile_depth - 1) / tile_depth * tile_depth);
    for (int r = 0; r < tile_per_thread; r++)
      for (int s = 0; s < tile_per_thread; s++) {
        const int64_t m = i + row + 16 * r, n = j + col + 16 * s;
        if (m >= c.a.vectors || n >= c.b.vectors) continue;
        const unsigned value = (unsigned)product[r][s] - zb[s] * (unsigned)sum_a[r] -
                               za[r] * (unsigned)sum_b[s] + terms * za[r] * zb[s];
        c.y.put(item, m, n, value);
      }
  }
}

template <class A, class B, class Y>
static tn_status run_tiles(const tn_kernel_args *args, tiles_call<A, B, Y> c, int64_t items) {
  c.tiles_m = ceil_div(c.a.vectors, tile_side);
  c.tiles_n = ceil_div(c.b.vectors, tile_side);
  c.tiles = items * c.tiles_m * c.tiles_n;
  if (c.tiles == 0) return TN_OK;
  const int64_t blocks = c.tiles < 1 << 20 ? c.tiles : 1 << 20;
  return launch(args, integer_tiles<A, B, Y>, (unsigned)blocks, tile_threads, 0, c);
}

/* Numbers that are one or as many as there are vectors. */
template <class T> static vector_numbers<T> numbers_of(const DLTensor *t) {
  if (!t) return {nullptr, 0};
  const bool one = cuda_size(t, 0, t->ndim) == 1;
  return {(const T *)t->data, one ? 0 : t->strides[t->ndim - 1]};
}

/* The batch of matrices `t` as y walks it: steps of 0 where they are shared. */
static inline batch_axes matrix_batch_of(const DLTensor *t, const DLTensor *y) {
  batch_axes b = {};
  b.rank = y->ndim - 2;
  const int behind = b.rank - (t->ndim - 2);
  for (int d = 0; d < b.rank; d++) {
    b.size[d] = y->shape[d];
    b.stride[d] = d < behind || t->shape[d - behind] == 1 ? 0 : t->strides[d - behind];
  }
  return b;
}

static inline unsigned flip_of(const DLTensor *t) { return t->dtype.code == kDLInt ? 0u : 128u; }

/* What requantises, but for y's place and the scales. */
static inline requantising_sink requantising_sink_of(const tn_kernel_args *args) {
  requantising_sink s = {};
  s.y = (unsigned char *)args->out[0]->data;
  s.y_scale = (const float *)args->in[QUANT_Y_SCALE]->data;
  s.y_zero = (const unsigned char *)args->in[QUANT_Y_ZERO]->data;
  s.range = quant_range_of(cuda_dtype(args->out[0]));
  return s;
}

#endif
