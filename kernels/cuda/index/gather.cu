/*
 * gather, index_select, take_along_axis: one thread for each access of y. An
 * index outside its axis reads 0.
 */
#include "kernels/cuda/base/place.cuh"

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

template <class U, class I>
__global__ void __launch_bounds__(place_threads)
    take(U *y, const U *x, I n, const __grid_constant__ taking t) {
  I i = thread_index<I>(), rest = i;
  if (i >= n) return;
  int64_t k = t.index.at((int64_t)i);
#pragma unroll 1
  for (int d = t.rank - 1; d >= 0; d--) {
    I q, at;
    split(rest, t.size[d], &q, &at);
    rest = q;
    x += (int64_t)at * t.stride[d];
  }
  y[i] = k < 0 ? U(0) : x[k * t.step];
}

template <class U> tn_status run_take(const tn_kernel_args *args, int64_t n, const taking &t) {
  U *y = (U *)args->out[0]->data;
  const U *x = (const U *)args->in[0]->data;
  if (n <= CUDA_MAX_INDEX)
    return launch(args, take<U, uint32_t>, place_blocks(n), place_threads, 0, y, x, (uint32_t)n, t);
  return launch(args, take<U, uint64_t>, place_blocks(n), place_threads, 0, y, x, (uint64_t)n, t);
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
  return for_size(y, [&](auto e) { return run_take<decltype(e)>(args, n, t); });
}
