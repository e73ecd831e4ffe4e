/*
 * nonzero in three launches: each block counts its part, one block turns counts into
 * places, each block writes its indices there. Bits are looked at, without the sign of a
 * float.
 */
#include "kernels/cuda/base/place.cuh"

namespace {

enum { STEPS = 16, PART = place_threads * STEPS, WARPS = place_threads / 32 };

struct search {
  int64_t n;
  uint64_t mask; /* all bits but the sign of a float */
  int rank;
  place_divisor size[TN_MAX_RANK];
};

template <class U> __device__ __forceinline__ bool is_set(const U *x, int64_t i, const search &s) {
  return i < s.n && (x[i] & (U)s.mask) != 0;
}

template <class U>
__global__ void __launch_bounds__(place_threads)
    count_part(const U *x, int64_t *first, const __grid_constant__ search s) {
  int64_t at = (int64_t)blockIdx.x * PART + threadIdx.x;
  int hits = 0;
#pragma unroll
  for (int k = 0; k < STEPS; k++) hits += __syncthreads_count(is_set(x, at + k * place_threads, s));
  if (threadIdx.x == 0) first[blockIdx.x] = hits;
}

/* One block: counts become the number of hits before each part; the total goes to count. */
__global__ void __launch_bounds__(1024) sum_parts(int64_t *first, int64_t parts, int64_t *count) {
  __shared__ int64_t sum[1024];
  int64_t each = (parts + 1023) / 1024, begin = threadIdx.x * each, total = 0;
  int64_t end = begin + each < parts ? begin + each : parts;
  for (int64_t i = begin; i < end; i++) total += first[i];
  sum[threadIdx.x] = total;
  __syncthreads();
  for (int step = 1; step < 1024; step *= 2) {
    int64_t left = threadIdx.x >= step ? sum[threadIdx.x - step] : 0;
    __syncthreads();
    sum[threadIdx.x] += left;
    __syncthreads();
  }
  int64_t before = sum[threadIdx.x] - total;
  for (int64_t i = begin; i < end; i++) {
    int64_t hits = first[i];
    first[i] = before;
    before += hits;
  }
  if (threadIdx.x == 1023) *count = sum[1023];
}

__device__ __forceinline__ void write_index(int64_t *y, int64_t flat, const search &s) {
  uint64_t rest = (uint64_t)flat;
  for (int d = s.rank - 1; d >= 0; d--) {
    uint64_t q, at;
    if (s.n <= CUDA_MAX_INDEX) {
      uint32_t q32, at32;
      split((uint32_t)rest, s.size[d], &q32, &at32);
      q = q32;
      at = at32;
    } else {
      split(rest, s.size[d], &q, &at);
    }
    y[d] = (int64_t)at;
    rest = q;
  }
}

template <class U>
__global__ void __launch_bounds__(place_threads)
    write_part(const U *x, const int64_t *first, int64_t *y, const __grid_constant__ search s) {
  __shared__ int in_warp[2][WARPS];
  int64_t at = (int64_t)blockIdx.x * PART + threadIdx.x, row = first[blockIdx.x];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
  for (int k = 0; k < STEPS; k++, at += place_threads) {
    bool hit = is_set(x, at, s);
    unsigned hits = __ballot_sync(~0u, hit);
    int *counts = in_warp[k % 2]; /* two, so that one barrier a step is enough */
    if (lane == 0) counts[warp] = __popc(hits);
    __syncthreads();
    int before = __popc(hits & ((1u << lane) - 1)), all = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
      before += w < warp ? counts[w] : 0;
      all += counts[w];
    }
    if (hit) write_index(y + (row + before) * s.rank, at, s);
    row += all;
  }
}

template <class U> tn_status run_search(const tn_kernel_args *args, const search &s) {
  const U *x = (const U *)args->in[0]->data;
  int64_t *y = (int64_t *)args->out[0]->data, *count = (int64_t *)args->out[1]->data;
  int64_t *first = (int64_t *)args->workspace, parts = ceil_div(s.n, PART);
  tn_status status = TN_OK;
  if (parts) status = launch(args, count_part<U>, (unsigned)parts, place_threads, 0, x, first, s);
  if (status == TN_OK) status = launch(args, sum_parts, 1, 1024, 0, first, parts, count);
  if (status == TN_OK && parts)
    status = launch(args, write_part<U>, (unsigned)parts, place_threads, 0, x,
                    (const int64_t *)first, y, s);
  return status;
}

} // namespace

tn_status cuda_nonzero_workspace(const tn_kernel_args *args, size_t *bytes) {
  int64_t n = cuda_size(args->in[0], 0, args->in[0]->ndim);
  *bytes = (size_t)ceil_div(n, PART) * sizeof(int64_t);
  return TN_OK;
}

tn_status cuda_run_nonzero(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  int bits = x->dtype.bits;
  bool real = x->dtype.code == kDLFloat || x->dtype.code == kDLBfloat;
  search s = {cuda_size(x, 0, x->ndim), ~(uint64_t)0, x->ndim};
  if (real) s.mask = ~((uint64_t)1 << (bits - 1));
  for (int d = 0; d < x->ndim; d++) s.size[d] = place_divisor_of(x->shape[d]);
  switch (bits) {
  case 8:
    return run_search<uint8_t>(args, s);
  case 16:
    return run_search<uint16_t>(args, s);
  case 32:
    return run_search<uint32_t>(args, s);
  default:
    return run_search<uint64_t>(args, s);
  }
}
