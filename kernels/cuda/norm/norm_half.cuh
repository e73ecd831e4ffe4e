/*
 * Normalised rows of f16 and bf16 that registers hold: packs of 8 elements, all of a row in flight
 * together and past the caches, where the weights of all rows stay. What a thread does once for
 * its share of a row costs as much as many elements, so shares are long. norm_rows.cu launches it.
 */
#ifndef KERNELS_CUDA_NORM_HALF_CUH
#define KERNELS_CUDA_NORM_HALF_CUH

#include "kernels/cuda/norm/norm.cuh"

namespace {

enum { half_width = 8, half_packs = 8, half_block = 128, half_most_lanes = 256 };

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
  bool each;           /* a channel has one element */
  bool centred, brain;
  double eps;
};

/* What is read or written once. */
__device__ __forceinline__ half_pack read_past(const any_half *from) {
  union {
    uint4 words;
    half_pack elements;
  } p;
  p.words = __ldcs((const uint4 *)from);
  return p.elements;
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
__device__ __forceinline__ void unpack_all(float (*v)[half_width], const half_pack *p, bool brain) {
  if (brain) {
#pragma unroll
    for (int k = 0; k < K; k++) unpack<any_half, half_width>(v[k], p[k], true);
  } else {
#pragma unroll
    for (int k = 0; k < K; k++) unpack<any_half, half_width>(v[k], p[k], false);
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
    unpack<any_half, half_width>(out, *(const half_pack *)((const any_half *)w.data + at), brain);
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

/* K packs per thread. */
template <int K>
__global__ void __launch_bounds__(half_most_lanes)
    rows_of_halves(const __grid_constant__ half_rows a) {
  __shared__ double sums[half_most_lanes / 32], squares[half_most_lanes / 32];
  const int lane = a.lanes == 32 ? threadIdx.x % 32 : threadIdx.x;
  const uint32_t row =
      a.lanes == 32 ? blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32 : blockIdx.x;
  if (row >= a.rows) return; /* whole warps or the whole block */
  const int64_t begin = (int64_t)row * a.size;
  half_pack p[K];
  float v[K][half_width];
#pragma unroll
  for (int k = 0; k < K; k++) {
    const uint32_t i = (uint32_t)(k * a.lanes + lane) * half_width;
    p[k] = {};
    if (i < a.size) p[k] = read_past(a.x + begin + i);
  }
  unpack_all<K>(v, p, a.brain);
  double sum = 0, mean = 0;
  if (a.centred) {
#pragma unroll
    for (int k = 0; k < K; k++) sum += sum_of<half_width>(v[k]);
    mean = join_half_row(sum, a.lanes, sums) / (double)a.size;
  }
  const float high = (float)mean;
  sum = take_distances<K>(v, a, a.x + begin, lane, high);
  const double low = mean - (double)high;
  const double var = join_half_row(sum, a.lanes, squares) / (double)a.size - low * low;
  const centre<float> at(mean, rsqrt((var < 0 ? 0 : var) + a.eps));
  if (lane == 0 && a.mean) a.mean[row] = (float)at.mean;
  if (lane == 0 && a.rstd) a.rstd[row] = (float)at.root;
  write_half_row<K>(a, begin, a.groups == 1 ? 0 : row % a.groups, lane, v, at);
}

/* Packs that a row's threads hold. */
inline bool holds_half_row(int64_t size) {
  return size > 0 && size <= (int64_t)half_most_lanes * half_packs * half_width;
}

/* pre: packs lie where 16 bytes do; a.lanes is yet to be set. */
inline tn_status launch_half_rows(const tn_kernel_args *args, half_rows &a) {
  const int packs = a.size <= 32 * half_width ? 1 : a.size <= 4 * 32 * half_width ? 4 : half_packs;
  a.lanes = (int)(ceil_div(ceil_div(a.size, packs * half_width), 32) * 32);
  const int threads = a.lanes == 32 ? half_block : a.lanes;
  return launch(args,
                packs == 1   ? rows_of_halves<1>
                : packs == 4 ? rows_of_halves<4>
                             : rows_of_halves<half_packs>,
                (unsigned)ceil_div(a.rows, threads / a.lanes), threads, 0, a);
}

} // namespace

#endif /* KERNELS_CUDA_NORM_HALF_CUH */
