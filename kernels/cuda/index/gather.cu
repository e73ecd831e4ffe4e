/*
 * gather, index_select, take_along_axis: one thread for each access of y. An
 * index outside its axis reads 0.
 */
#include "kernels/cuda/index/strips.cuh"

namespace {

/* --- gather, index_select: x as [outer, n, block], y as [outer, count, block] --- */

struct gathering {
  indexes index;
  place_divisor count, block; /* block in accesses */
};

template <class U, class I>
__global__ void __launch_bounds__(place_threads)
    gather(U *y, const U *x, I n, const __grid_constant__ gathering g) {
  I i = thread_index<I>(), row, at, outer, which;
  if (i >= n) return;
  split(i, g.block, &row, &at);
  split(row, g.count, &outer, &which);
  int64_t k = g.index.at((int64_t)which);
  U value{};
  if (k >= 0) value = x[((int64_t)outer * g.index.n + k) * (int64_t)g.block.value + (int64_t)at];
  y[i] = value;
}

template <class U> tn_status run_gather(const tn_kernel_args *args, int64_t n, const gathering &g) {
  U *y = (U *)args->out[0]->data;
  const U *x = (const U *)args->in[0]->data;
  if (n <= CUDA_MAX_INDEX)
    return launch(args, gather<U, uint32_t>, place_blocks(n), place_threads, 0, y, x, (uint32_t)n,
                  g);
  return launch(args, gather<U, uint64_t>, place_blocks(n), place_threads, 0, y, x, (uint64_t)n, g);
}

int axis_of(const tn_kernel_args *args, const DLTensor *data) {
  int64_t axis = ((const tn_gather_attrs *)args->attrs)->axis; /* one layout for all */
  return (int)(axis < 0 ? axis + data->ndim : axis);
}

tn_status run_rows(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *index = args->in[1], *y = args->out[0];
  int64_t n = cuda_size(y, 0, y->ndim), size = y->dtype.bits / 8;
  int axis = axis_of(args, x);
  int64_t block = cuda_size(x, axis + 1, x->ndim);
  if (n == 0) return TN_OK;
  int64_t w = most((int)size, (int)widest_access(block * size, x->data, y->data));
  gathering g = {indexes_of(index, x->shape[axis]),
                 place_divisor_of(cuda_size(index, 0, index->ndim)),
                 place_divisor_of(block * size / w)};
  return BY_BYTES(w, run_gather, args, n * size / w, g);
}

/* --- take_along_axis: the data seen in the index's shape, its axis held at 0 --- */

struct taking {
  indexes index;
  int64_t step; /* of x along the axis */
  int rank;
  place_divisor size[TN_MAX_RANK];
  int64_t stride[TN_MAX_RANK];
};

template <class I> __device__ __forceinline__ int64_t offset_of(const taking &t, I i) {
  int64_t offset = 0;
#pragma unroll 1
  for (int d = t.rank - 1; d > 0; d--) {
    I q, at;
    split(i, t.size[d], &q, &at);
    i = q;
    offset += (int64_t)at * t.stride[d];
  }
  return offset + (int64_t)i * t.stride[0];
}

/* In strips, with all loads of a thread under way at once. What is read and written once leaves
 * the cache to x. */
template <class U>
__global__ void __launch_bounds__(place_threads)
    take(U *y, const U *x, const __grid_constant__ taking t, const __grid_constant__ strips walk) {
  strip_cursor c = strips_cursor(walk);
  int64_t at[strip_items];
  U v[strip_items];
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    at[k] = k < c.left ? t.index.at_once(c.first + k * c.step) : -1;
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    if (at[k] >= 0) at[k] = at[k] * t.step + offset_of(t, c.first + k * c.step);
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++) v[k] = at[k] >= 0 ? x[at[k]] : U(0);
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    if (k < c.left) __stcs(y + c.first + k * c.step, v[k]);
}

/* More elements than 32 bits index. */
template <class U>
__global__ void __launch_bounds__(place_threads)
    take_far(U *y, const U *x, uint64_t n, const __grid_constant__ taking t) {
  uint64_t i = thread_index<uint64_t>();
  if (i >= n) return;
  int64_t k = t.index.at((int64_t)i);
  y[i] = k < 0 ? U(0) : x[k * t.step + offset_of(t, i)];
}

template <class U>
tn_status run_take(const tn_kernel_args *args, int64_t n, const taking &t, int axis) {
  const DLTensor *index = args->in[1];
  U *y = (U *)args->out[0]->data;
  const U *x = (const U *)args->in[0]->data;
  if (n > CUDA_MAX_INDEX)
    return launch(args, take_far<U>, place_blocks(n), place_threads, 0, y, x, (uint64_t)n, t);
  strips walk = strips_of(cuda_size(index, 0, axis), index->shape[axis],
                          cuda_size(index, axis + 1, index->ndim));
  return launch(args, take<U>, strips_blocks(walk), place_threads, 0, y, x, t, walk);
}

} // namespace

tn_status cuda_run_gather(const tn_kernel_args *args) { return run_rows(args); }
tn_status cuda_run_index_select(const tn_kernel_args *args) { return run_rows(args); }

tn_status cuda_run_take_along_axis(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *index = args->in[1], *y = args->out[0];
  int64_t n = cuda_size(y, 0, y->ndim);
  int axis = axis_of(args, x);
  if (n == 0) return TN_OK;
  cuda_shape s = {};
  s.rank = x->ndim;
  for (int d = 0; d < x->ndim; d++) {
    s.size[d] = index->shape[d];
    s.stride[0][d] = d == axis ? 0 : x->strides[d];
  }
  cuda_shape_simplify(&s, 1, false);
  taking t = {indexes_of(index, x->shape[axis]), x->strides[axis], s.rank};
  for (int d = 0; d < s.rank; d++) {
    t.size[d] = place_divisor_of(s.size[d]);
    t.stride[d] = s.stride[0][d];
  }
  return for_size(y, [&](auto e) { return run_take<decltype(e)>(args, n, t, axis); });
}
