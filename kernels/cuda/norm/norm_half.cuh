/*
 * Normalised rows of f16 and bf16 that registers hold: packs of 8 elements. norm_rows.cu launches
 * it. What a thread does once for its share of a row costs as much as many elements, so shares are
 * long.
 *
 * Threads of short and very long rows have one, and all of it is in flight together. Between, where
 * rows are many, threads have several, of which the next is read while one is worked on: memory
 * never waits for sums over a row.
 */
#ifndef KERNELS_CUDA_NORM_HALF_CUH
#define KERNELS_CUDA_NORM_HALF_CUH

#include "kernels/cuda/norm/norm.cuh"

namespace {

enum {
  half_width = 8,
  half_packs = 4, /* of a thread, in short rows and in those that come ahead */
  half_most_packs = 8,
  half_block = 128,
  half_most_lanes = 256,
  half_most_rows = 8, /* of the same threads */
  half_stages = 2,    /* rows that these have at least */
  half_blocks = 3,    /* of half_most_lanes, that a multiprocessor is to hold */
};

using half_pack = pack<any_half, half_width>;

struct half_rows {
  const any_half *x;
  any_half *y;
  norm_weight gamma, beta;
  float *mean, *rstd; /* written unless NULL */
  uint32_t rows, size, groups;
  int64_t per;
  cuda_divisor divide; /* by the elements of a channel */
  int lanes;           /* threads of a row: 32, or all of the block */
  uint32_t step;       /* from a row of the same threads to the next */
  bool each;           /* a channel has one element */
  bool centred, brain;
  double eps;
  double share; /* of an element in the mean */
};

/* What is read or written once. */
__device__ __forceinline__ held_pack read_past(const any_half *from) {
  const uint4 words = __ldcs((const uint4 *)from);
  return {{words.x, words.y, words.z, words.w}};
}
__device__ __forceinline__ void write_past(any_half *to, const half_pack &elements) {
  union {
    half_pack elements;
    uint4 words;
  } p;
  p.elements = elements;
  __stcs((uint4 *)to, p.words);
}

template <int K>
__device__ __forceinline__ void unpack_all(float (*v)[half_width], const held_pack *p, bool brain) {
  if (brain) {
#pragma unroll
    for (int k = 0; k < K; k++) unpack<any_half>(v[k], p[k], true);
  } else {
#pragma unroll
    for (int k = 0; k < K; k++) unpack<any_half>(v[k], p[k], false);
  }
}

/* The sum over the threads of a row, which has `shared` to itself. Every one gets it. */
__device__ __forceinline__ double join_half_row(double v, int lanes, double *shared) {
  for (int mask = 16; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
  if (lanes == 32) return v;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = shared[0];
#pragma unroll 1
  for (int i = 1; i < lanes / 32; i++) v += shared[i];
  return v;
}

__device__ __forceinline__ void read_half_weights(float *out, norm_weight w, int64_t at, bool each,
                                                  bool brain, float otherwise) {
  if (w.data == NULL || !each) {
    float one = otherwise;
    if (w.data != NULL)
      one = w.wide ? ((const float *)w.data)[at] : load(((const any_half *)w.data)[at], brain);
#pragma unroll
    for (int j = 0; j < half_width; j++) out[j] = one;
  } else if (w.wide) {
    read_pack<float, half_width>(out, (const float *)w.data + at);
  } else {
    unpack<any_half>(out, *(const held_pack *)((const any_half *)w.data + at), brain);
  }
}

/* A pack's sum of squared distances where floats do not hold it. */
__device__ __noinline__ double far_squares(const any_half *x, bool brain, double high) {
  double sum = 0;
  for (int j = 0; j < half_width; j++) {
    const double d = (double)load(x[j], brain) - high;
    sum += d * d;
  }
  return sum;
}

/* Distances from `high`, in place of the numbers, and the sum of their squares. That of distances
 * from the mean is less by the square of the two's distance, for each number. */
template <int K>
__device__ __forceinline__ double take_distances(float (*v)[half_width], const half_rows &a,
                                                 const any_half *x, int lane, float high) {
  double sum = 0;
#pragma unroll
  for (int k = 0; k < K; k++) {
    const uint32_t i = (uint32_t)(k * a.lanes + lane) * half_width;
    float q[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < half_width; j++) {
      v[k][j] -= high;
      q[j % 2] = fmaf(v[k][j], v[k][j], q[j % 2]);
    }
    q[0] += q[1];
    if (i >= a.size) continue;
    sum += holds_squares(q[0]) ? (double)q[0] : far_squares(x + i, a.brain, (double)high);
  }
  return sum;
}

/* A pack's results in double, of what a thread reads once more. */
__device__ __noinline__ void write_far(const half_rows &a, int64_t at, int64_t channel, double mean,
                                       double root) {
  for (int j = 0; j < half_width; j++) {
    float gamma[half_width], beta[half_width];
    read_half_weights(gamma, a.gamma, a.each ? channel + j : channel, false, a.brain, 1.0f);
    read_half_weights(beta, a.beta, a.each ? channel + j : channel, false, a.brain, 0.0f);
    const double z = ((double)load(a.x[at + j], a.brain) - mean) * root;
    a.y[at + j] = rounded<any_half>((float)(z * (double)gamma[0] + (double)beta[0]), a.brain);
  }
}

/* Of distances. */
template <int K>
__device__ __forceinline__ void write_half_row(const half_rows &a, int64_t begin, uint32_t group,
                                               int lane, const float (*v)[half_width],
                                               const centre<float> &at) {
  const float low = -at.low * at.rstd;
#pragma unroll
  for (int k = 0; k < K; k++) {
    const uint32_t i = (uint32_t)(k * a.lanes + lane) * half_width;
    if (i >= a.size) continue;
    const int64_t channel = (int64_t)group * a.per + (a.each ? i : quotient(i, a.divide));
    if (!at.fits) {
      write_far(a, begin + i, channel, at.mean, at.root);
      continue;
    }
    float gamma[half_width], beta[half_width];
    read_half_weights(gamma, a.gamma, channel, a.each, a.brain, 1.0f);
    read_half_weights(beta, a.beta, channel, a.each, a.brain, 0.0f);
#pragma unroll
    for (int j = 0; j < half_width; j++)
      gamma[j] = fmaf(fmaf(v[k][j], at.rstd, low), gamma[j], beta[j]);
    write_past(a.y + begin + i, packed<any_half, half_width>(gamma, a.brain));
  }
}

/* Begins to read a thread's share of a row, if there is such a row. */
template <int K>
__device__ __forceinline__ void read_half_row(held_pack *p, const half_rows &a, uint32_t row,
                                              int lane) {
  const any_half *const from = a.x + (int64_t)row * a.size;
#pragma unroll
  for (int k = 0; k < K; k++) {
    const uint32_t i = (uint32_t)(k * a.lanes + lane) * half_width;
    p[k] = {};
    if (row < a.rows && i < a.size) p[k] = read_past(from + i);
  }
}

/* A row whose elements are there. `sums` are two places for what warps have. */
template <int K>
__device__ __forceinline__ void normalise_half_row(float (*v)[half_width], const half_rows &a,
                                                   uint32_t row, int lane,
                                                   double (*sums)[half_most_lanes / 32]) {
  const int64_t begin = (int64_t)row * a.size;
  double sum = 0, mean = 0;
  if (a.centred) {
#pragma unroll
    for (int k = 0; k < K; k++) sum += sum_of<half_width>(v[k]);
    mean = join_half_row(sum, a.lanes, sums[0]) * a.share;
  }
  const float high = (float)mean;
  sum = take_distances<K>(v, a, a.x + begin, lane, high);
  const double low = mean - (double)high;
  const double var = join_half_row(sum, a.lanes, sums[1]) * a.share - low * low;
  const centre<float> at(mean, rsqrt((var < 0 ? 0 : var) + a.eps));
  if (lane == 0 && a.mean) a.mean[row] = (float)at.mean;
  if (lane == 0 && a.rstd) a.rstd[row] = (float)at.root;
  write_half_row<K>(a, begin, a.groups == 1 ? 0 : row % a.groups, lane, v, at);
}

/* Of a thread's first row. */
__device__ __forceinline__ uint32_t first_half_row(const half_rows &a) {
  return a.lanes == 32 ? blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32 : blockIdx.x;
}

/* K packs per thread, of one row. Warps that have none leave; a block's whole rows are its own. */
template <int K>
__global__ void __launch_bounds__(half_most_lanes)
    rows_of_halves(const __grid_constant__ half_rows a) {
  __shared__ double sums[2][half_most_lanes / 32];
  const int lane = a.lanes == 32 ? threadIdx.x % 32 : threadIdx.x;
  const uint32_t row = first_half_row(a);
  await_earlier();
  if (row >= a.rows) return;
  held_pack p[K];
  float v[K][half_width];
  read_half_row<K>(p, a, row, lane);
  unpack_all<K>(v, p, a.brain);
  normalise_half_row<K>(v, a, row, lane, sums);
}

/* The same of several rows, each of all threads of a block, of which the next comes ahead. */
__global__ void __launch_bounds__(half_most_lanes, half_blocks)
    rows_of_halves_ahead(const __grid_constant__ half_rows a) {
  constexpr int K = half_packs;
  __shared__ double sums[2][2][half_most_lanes / 32]; /* of rows in turn: none waits for another */
  const int lane = threadIdx.x;
  uint32_t row = blockIdx.x;
  held_pack p[K];
  await_earlier();
  read_half_row<K>(p, a, row, lane);
#pragma unroll 1
  for (int turn = 0; row < a.rows; row += a.step, turn ^= 1) {
    float v[K][half_width];
    unpack_all<K>(v, p, a.brain);
    read_half_row<K>(p, a, row + a.step, lane);
    normalise_half_row<K>(v, a, row, lane, sums[turn]);
  }
}

/* Whether registers hold a row. */
inline bool holds_half_row(int64_t size) {
  return size > 0 && size <= (int64_t)half_most_lanes * half_most_packs * half_width;
}

/* Rows that each block has, so that the last ones cost little; 0 where one at a time is better. */
inline int64_t rows_ahead(const tn_kernel_args *args, const half_rows &a) {
  constexpr int64_t least = 32 * half_packs * half_width;
  const int64_t processors = ((const cuda_info *)args->device)->multiprocessors;
  if (a.size <= least || a.size > half_most_lanes * half_packs * half_width) return 0;
  const int64_t lanes = ceil_div(a.size, least) * 32, each = a.rows * lanes / (processors * 2048);
  return each < half_stages ? 0 : each < half_most_rows ? each : half_most_rows;
}

template <int K> tn_status launch_half_packs(const tn_kernel_args *args, half_rows &a) {
  a.lanes = (int)(ceil_div(ceil_div(a.size, K * half_width), 32) * 32);
  const int threads = a.lanes == 32 ? half_block : a.lanes;
  return launch_early(args, rows_of_halves<K>, (unsigned)ceil_div(a.rows, threads / a.lanes),
                      threads, 0, a);
}

/* pre: packs lie where 16 bytes do; a.lanes is yet to be set. */
inline tn_status launch_half_rows(const tn_kernel_args *args, half_rows &a) {
  const int64_t each = rows_ahead(args, a);
  if (each) {
    const int64_t blocks = ceil_div(a.rows, each);
    a.lanes = (int)(ceil_div(ceil_div(a.size, half_packs * half_width), 32) * 32);
    a.step = (uint32_t)blocks;
    return launch_early(args, rows_of_halves_ahead, (unsigned)blocks, a.lanes, 0, a);
  }
  if (a.size <= 32 * half_width) return launch_half_packs<1>(args, a);
  if (a.size <= 32 * half_packs * half_width) return launch_half_packs<half_packs>(args, a);
  return launch_half_packs<half_most_packs>(args, a);
}

} // namespace

#endif /* KERNELS_CUDA_NORM_HALF_CUH */
