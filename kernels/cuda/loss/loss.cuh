/*
 * What the kernels of nll_loss and cross_entropy share: the plan of a call, targets, and sums over
 * a block.
 */
#ifndef KERNELS_CUDA_LOSS_CUH
#define KERNELS_CUDA_LOSS_CUH

#include "kernels/cuda/base/dispatch.cuh"

namespace {

enum { threads = 256, most_blocks = 512, count_threads = 1024 };

/* Everything but the tensors' element type. */
struct loss_plan {
  int64_t targets, classes, inner;
  int lanes;     /* threads of one target: 32 or 1 */
  bool wide;     /* targets are int64, else int32 */
  int reduction; /* tn_reduction */
  bool ignores;  /* targets that equal `ignored` do not count */
  int64_t ignored;
  double smoothing;
};

/* What a block's targets come to. */
template <class C> struct partial {
  C sum;
  long long counted;
};
enum { bytes_per_partial = 16 };

template <class C> __device__ C join_max(C v, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    C other = __shfl_xor_sync(0xffffffffu, v, mask);
    v = v > other ? v : other;
  }
  return v;
}

template <class C> __device__ C join_sum(C v, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
  return v;
}

__device__ int64_t class_of(const void *target, int64_t i, bool wide) {
  return wide ? ((const int64_t *)target)[i] : (int64_t)((const int32_t *)target)[i];
}

__device__ bool is_ignored(int64_t target, const loss_plan &p) {
  return p.ignores && target == p.ignored;
}

/* Adds up what a block of `threads` has; right in thread 0. */
template <class C> __device__ partial<C> join_block(C total, long long counted) {
  __shared__ C sums[threads];
  __shared__ long long counts[threads];
  sums[threadIdx.x] = total;
  counts[threadIdx.x] = counted;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half) {
      sums[threadIdx.x] += sums[threadIdx.x + half];
      counts[threadIdx.x] += counts[threadIdx.x + half];
    }
    __syncthreads();
  }
  return {sums[0], counts[0]};
}

template <class T, class C> __device__ T finished(partial<C> all, int reduction) {
  return stored<T>::from(reduction == TN_REDUCTION_MEAN ? all.sum / (C)all.counted : all.sum);
}

} // namespace

#endif /* KERNELS_CUDA_LOSS_CUH */
