/*
 * Scalar products, a warp to each short one and a block to each long one, and outer
 * products: of two vectors of floats 16 bytes of a row at a time, else as elementwise products of
 * tensors expanded along each other's axis.
 */
#include "kernels/common/broadcast.h"
#include "kernels/cuda/base/vector.cuh"

namespace {

enum { threads = 256, long_vector = 8192 };

/* What products are summed in: double for float32, whose sums may cancel. */
template <class T> struct sum_of { using type = T; };
template <> struct sum_of<half_t> { using type = float; };
template <> struct sum_of<bfloat_t> { using type = float; };
template <> struct sum_of<float> { using type = double; };
template <> struct sum_of<int8_t> { using type = uint32_t; };
template <> struct sum_of<uint8_t> { using type = uint32_t; };
template <> struct sum_of<int16_t> { using type = uint32_t; };
template <> struct sum_of<int32_t> { using type = uint32_t; };
template <> struct sum_of<int64_t> { using type = uint64_t; };

template <class T, class S> __device__ __forceinline__ T result_of(S sum) { return (T)sum; }
template <> __device__ __forceinline__ half_t result_of<half_t, float>(float sum) {
  return stored<half_t>::from(sum);
}
template <> __device__ __forceinline__ bfloat_t result_of<bfloat_t, float>(float sum) {
  return stored<bfloat_t>::from(sum);
}

/* Operands y, a, b around the vectors; `lanes` threads, 32 or all of a block, to each. */
template <class T>
__global__ void __launch_bounds__(threads)
    dot_rows(T *y, const T *a, const T *b, int64_t k, int64_t step_a, int64_t step_b, int lanes,
             const __grid_constant__ cuda_layout l) {
  using S = typename sum_of<T>::type;
  __shared__ S parts[threads / 32];
  uint32_t row = blockIdx.x * (threads / lanes) + threadIdx.x / lanes;
  if (row >= l.count) return; /* whole rows, so whole warps */
  for (int d = l.rank - 1; d >= 0; d--) {
    uint32_t q = d > 0 ? quotient(row, l.size[d]) : 0;
    int64_t r = row - q * l.size[d].value;
    row = q;
    y += r * l.stride[0][d];
    a += r * l.stride[1][d];
    b += r * l.stride[2][d];
  }
  S sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x % lanes; i < k; i += lanes)
    sum += (S)load(a[i * step_a]) * (S)load(b[i * step_b]);
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  if (lanes > 32) {
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < threads / 32; i++) sum += parts[i];
  }
  if (threadIdx.x % lanes == 0) *y = result_of<T, S>(sum);
}

template <class T> tn_status run_dot(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  cuda_shape shape;
  cuda_layout l;
  int64_t k = a->shape[a->ndim - 1];
  shape.rank = y->ndim;
  for (int d = 0; d < y->ndim; d++) {
    shape.size[d] = y->shape[d];
    shape.stride[0][d] = y->strides[d];
  }
  batch_steps(a, y, y->ndim, shape.stride[1]);
  batch_steps(b, y, y->ndim, shape.stride[2]);
  if (cuda_size(y, 0, y->ndim) == 0) return TN_OK;
  cuda_shape_simplify(&shape, 3, true);
  cuda_layout_of(&l, &shape, 3);
  int lanes = k > long_vector ? threads : 32;
  unsigned blocks = (unsigned)ceil_div(l.count, threads / lanes);
  return launch(args, dot_rows<T>, blocks, threads, 0, (T *)y->data, (const T *)a->data,
                (const T *)b->data, k, a->strides[a->ndim - 1], b->strides[b->ndim - 1], lanes, l);
}

/* a b^T of two vectors, row by row: rows share a number of a. */
template <class T> struct outer_product {
  template <class I> struct by {
    const T *a, *b;
    int64_t step_a;
    readable from; /* b */
    place_divisor columns;
    template <int N> __device__ __forceinline__ void fill(I first, T (&v)[N]) const {
      I row, column;
      split(first, columns, &row, &column);
      compute_t<T> x = load(a[(int64_t)row * step_a]);
      if constexpr (N > 1) {
        if (column + N <= (I)columns.value) {
          const vector_of<T> y = vector_at(b + column, from);
#pragma unroll
          for (int k = 0; k < N; k++) v[k] = stored<T>::from(x * load(y.v[k]));
          return;
        }
      }
#pragma unroll
      for (int k = 0; k < N; k++) {
        v[k] = stored<T>::from(x * load(b[column]));
        if (k == N - 1 || ++column < (I)columns.value) continue;
        column = 0;
        x = load(a[(int64_t)++row * step_a]);
      }
    }
  };
};

/* Whether one matrix of floats lies row by row, and the vector along its rows as they do. */
bool is_plain_outer(const DLTensor *b, const DLTensor *y) {
  const int rank = y->ndim;
  const int64_t columns = y->shape[rank - 1];
  return (TN_SET(cuda_dtype(y)) & TN_SET_FLOAT) && cuda_size(y, 0, rank - 2) == 1 && columns > 0 &&
         y->strides[rank - 1] == 1 &&
         (y->strides[rank - 2] == columns || y->shape[rank - 2] == 1) &&
         (b->strides[b->ndim - 1] == 1 || columns == 1) &&
         vector_is_narrow(y->shape[rank - 2] * columns);
}

template <class T> tn_status run_outer(const tn_kernel_args *args) {
  using M = typename outer_product<T>::template by<uint32_t>;
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  const int64_t n = cuda_size(y, 0, y->ndim);
  if (n == 0) return TN_OK;
  T *to = (T *)y->data;
  const M make = {(const T *)a->data, (const T *)b->data, a->strides[a->ndim - 1], readable_of(b),
                  place_divisor_of(y->shape[y->ndim - 1])};
  return launch(args, vector_make<T, uint32_t, M>, vector_make_blocks(to, n), place_threads, 0, to,
                vector_cut_of<T, uint32_t>(to, n), make);
}

} // namespace

bool cuda_dot_supports(const tn_kernel_args *args) {
  return cuda_size(args->out[0], 0, args->out[0]->ndim) <= CUDA_MAX_INDEX;
}

tn_status cuda_run_dot(const tn_kernel_args *args) {
  return for_number(args, args->out[0], [&](auto t) { return run_dot<decltype(t)>(args); });
}

tn_status cuda_run_outer(const tn_kernel_args *args) {
  if (!is_plain_outer(args->in[1], args->out[0])) return outer_by(args, cuda_run_mul);
  return for_float(args, args->out[0], [&](auto t) { return run_outer<decltype(t)>(args); });
}
