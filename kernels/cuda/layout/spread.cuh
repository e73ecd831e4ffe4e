/*
 * tile and repeat where 16 bytes of x go somewhere as they are, aligned: a thread reads them once
 * and writes each of their copies, so that the second cache moves little more than memory does.
 * Elements that are repeated one by one are read by those threads that write a vector of copies.
 * Included by arrange.cu alone.
 */
#ifndef KERNELS_CUDA_LAYOUT_SPREAD_CUH
#define KERNELS_CUDA_LAYOUT_SPREAD_CUH

#include "kernels/cuda/base/vector.cuh"

namespace {

enum {
  spread_items = 2,   /* vectors of a thread: their loads are under way together */
  spread_copies = 32, /* of a vector, at the most */
  spread_blocks = 4,  /* of a multiprocessor, which are enough */
};

/* Counted in vectors of 16 bytes. */
struct spread_plan {
  int rank, copies;
  uint32_t n, each;               /* vectors of x; copies that a block writes */
  cuda_divisor size[TN_MAX_RANK]; /* of x */
  uint32_t step[TN_MAX_RANK];     /* of y, for a step of x along an axis */
  uint32_t far[spread_copies];    /* from the first copy to each */
};

__global__ void __launch_bounds__(place_threads)
    spread(uint4 *y, const uint4 *x, const __grid_constant__ spread_plan p) {
  const uint32_t base = blockIdx.x * (spread_items * place_threads) + threadIdx.x;
  uint4 v[spread_items];
  uint32_t to[spread_items];
#pragma unroll
  for (int k = 0; k < spread_items; k++) {
    uint32_t i = base + k * place_threads;
    if (i < p.n) v[k] = x[i];
    to[k] = 0;
    for (int d = p.rank - 1; d > 0; d--) {
      const uint32_t q = quotient(i, p.size[d]);
      to[k] += (i - q * p.size[d].value) * p.step[d];
      i = q;
    }
    to[k] += i * p.step[0];
  }
  const int first = (int)(blockIdx.y * p.each), last = min(first + (int)p.each, p.copies);
#pragma unroll 1
  for (int c = first; c < last; c++) {
    const uint32_t far = p.far[c];
#pragma unroll
    for (int k = 0; k < spread_items; k++)
      if (base + k * place_threads < p.n) y[to[k] + far] = v[k];
  }
}

/* Of E elements, each as often as makes 16 bytes of them; vectors of y that show the same elements
 * follow each other, `times` of them. */
template <class U, int E>
__global__ void __launch_bounds__(place_threads)
    repeat_each(vector_of<U> *y, const pack<U, E> *x, uint32_t n, cuda_divisor times) {
  constexpr int N = vector_width<U>::value;
  const uint32_t base = blockIdx.x * (spread_items * place_threads) + threadIdx.x;
  pack<U, E> from[spread_items];
#pragma unroll
  for (int k = 0; k < spread_items; k++) {
    const uint32_t i = base + k * place_threads;
    if (i < n) from[k] = x[quotient(i, times)];
  }
#pragma unroll
  for (int k = 0; k < spread_items; k++) {
    vector_of<U> v;
#pragma unroll
    for (int e = 0; e < N; e++) v.v[e] = from[k].v[e * E / N];
    if (base + k * place_threads < n) vector_put(y[base + k * place_threads].v, v);
  }
}

unsigned spread_grid(int64_t n) {
  return (unsigned)ceil_div(n, (int64_t)spread_items * place_threads);
}

/* One axis of x: `copies` of it stand as a whole behind each other, or each element's do. */
struct spread_axis {
  int64_t in, copies;
  bool whole;
};

/* Whether x is spread so, of elements of `size` bytes; `list` has the outermost axis first. */
bool is_spread(const tn_kernel_args *args, const spread_axis *list, int rank, int64_t size) {
  const DLTensor *y = args->out[0];
  const spread_axis *last = &list[rank - 1];
  int64_t copies = 1;
  for (int d = 0; d < rank; d++)
    copies = list[d].copies > spread_copies ? spread_copies + 1 : copies * list[d].copies;
  return copies > 1 && copies <= spread_copies && (last->whole || last->copies == 1) &&
         last->in * size % 16 == 0 && is_aligned(args->in[0]->data, 16) &&
         is_aligned(y->data, 16) && cuda_size(y, 0, y->ndim) * size / 16 <= CUDA_MAX_INDEX;
}

/* pre: is_spread */
tn_status run_spread(const tn_kernel_args *args, const spread_axis *list, int rank, int64_t size) {
  const int multiprocessors = ((const cuda_info *)args->device)->multiprocessors;
  spread_plan p = {};
  p.rank = rank;
  p.n = p.copies = 1;
  uint32_t behind = 1; /* vectors of y from one of its places along an axis to the next */
  for (int d = rank - 1; d >= 0; d--) {
    const uint32_t in = (uint32_t)(d == rank - 1 ? list[d].in * size / 16 : list[d].in);
    const uint32_t copies = (uint32_t)list[d].copies;
    p.size[d] = cuda_divisor_of(in);
    p.step[d] = list[d].whole ? behind : behind * copies;
    for (uint32_t c = copies; c-- > 0;)
      for (int k = 0; k < p.copies; k++)
        p.far[c * p.copies + k] = p.far[k] + c * behind * (list[d].whole ? in : 1);
    p.copies *= (int)copies;
    p.n *= in;
    behind *= in * copies;
  }
  const unsigned blocks = spread_grid(p.n);
  const int64_t wanted = ceil_div((int64_t)spread_blocks * multiprocessors, blocks);
  p.each = (uint32_t)ceil_div(p.copies, wanted < p.copies ? wanted : p.copies);
  const dim3 grid(blocks, (unsigned)ceil_div(p.copies, p.each));
  return launch(args, spread, grid, place_threads, 0, (uint4 *)args->out[0]->data,
                (const uint4 *)args->in[0]->data, p);
}

/* Elements of `size` bytes in a vector of copies; 0 where that is no number of them. */
int64_t repeated_elements(int64_t copies, int64_t size) {
  return copies * size % 16 == 0                   ? 1
         : copies > 1 && 16 % (copies * size) == 0 ? 16 / (copies * size)
                                                   : 0;
}

/* The same of elements that are each repeated. */
bool is_repeat_each(const tn_kernel_args *args, int64_t copies, int64_t size) {
  const DLTensor *y = args->out[0];
  const int64_t elements = repeated_elements(copies, size), n = cuda_size(y, 0, y->ndim);
  return elements > 0 && n * size % 16 == 0 && n * size / 16 <= CUDA_MAX_INDEX &&
         is_aligned(args->in[0]->data, (size_t)(elements * size)) && is_aligned(y->data, 16);
}

template <class U, int E> tn_status run_each(const tn_kernel_args *args, int64_t copies) {
  const DLTensor *y = args->out[0];
  const int64_t n = cuda_size(y, 0, y->ndim) / vector_width<U>::value;
  const int64_t times = copies * E / vector_width<U>::value;
  return launch(args, repeat_each<U, E>, spread_grid(n), place_threads, 0, (vector_of<U> *)y->data,
                (const pack<U, E> *)args->in[0]->data, (uint32_t)n,
                cuda_divisor_of((uint32_t)times));
}

template <class U> tn_status run_each_of(const tn_kernel_args *args, int64_t copies) {
  constexpr int N = vector_width<U>::value;
  const int64_t elements = repeated_elements(copies, sizeof(U));
  if constexpr (N >= 16)
    if (elements == 8) return run_each<U, 8>(args, copies);
  if constexpr (N >= 8)
    if (elements == 4) return run_each<U, 4>(args, copies);
  if constexpr (N >= 4)
    if (elements == 2) return run_each<U, 2>(args, copies);
  return run_each<U, 1>(args, copies);
}

/* pre: is_repeat_each */
tn_status run_repeat_each(const tn_kernel_args *args, int64_t copies, int64_t size) {
  return size == 1   ? run_each_of<uint8_t>(args, copies)
         : size == 2 ? run_each_of<uint16_t>(args, copies)
         : size == 4 ? run_each_of<uint32_t>(args, copies)
                     : run_each_of<uint64_t>(args, copies);
}

} // namespace

#endif /* KERNELS_CUDA_LAYOUT_SPREAD_CUH */
