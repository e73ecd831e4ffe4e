/*
 * gather_nd, masked_select, and the numbering of rows that scatter.cu uses too: an index of several
 * axes becomes the number of a row, and the operators of one axis do the rest.
 */
#include "kernels/cuda/index/slices.cuh"

#include "kernels/cuda/index/compact.cuh"

namespace {

struct numbering {
  const void *index;
  int wide, axes;
  int64_t size[TN_MAX_RANK], step[TN_MAX_RANK]; /* of the axes that the index names, in rows */
  int64_t per_batch, batch_step, count;
  void *rows; /* as wide as their numbers want */
  int rows_wide;
};

/* What is outside gets a number that is no row from the end either. */
__global__ void __launch_bounds__(place_threads) number_rows(const __grid_constant__ numbering u) {
  const int64_t i = (int64_t)blockIdx.x * place_threads + threadIdx.x;
  if (i >= u.count) return;
  int64_t row = i / u.per_batch * u.batch_step;
  bool inside = true;
#pragma unroll 1
  for (int a = 0; a < u.axes; a++) {
    const indexes along = {u.index, u.wide, u.size[a]};
    const int64_t k = along.at(i * u.axes + a);
    inside = inside && k >= 0;
    row += k * u.step[a];
  }
  if (u.rows_wide)
    ((int64_t *)u.rows)[i] = inside ? row : INT64_MIN;
  else
    ((int32_t *)u.rows)[i] = inside ? (int32_t)row : INT32_MIN;
}

DLTensor tensor_of(DLDataType dtype, int rank, int64_t *shape, int64_t *strides, void *data) {
  DLTensor t = {};
  t.data = data;
  t.dtype = dtype;
  t.ndim = rank;
  t.shape = shape;
  t.strides = strides;
  return t;
}

int batch_of(const tn_kernel_args *args) {
  return (int)((const tn_gather_nd_attrs *)args->attrs)->batch_dims; /* one layout for all */
}

} // namespace

size_t cuda_slices_bytes(const cuda_slices *s) {
  return ((size_t)s->count * (s->index.dtype.bits / 8) + 255) / 256 * 256;
}

void cuda_slices_begin(const tn_kernel_args *args, const DLTensor *part, const DLTensor *data,
                       cuda_slices *s) {
  const DLTensor *index = args->in[1];
  const int used = batch_of(args) + (int)index->shape[index->ndim - 1];
  s->count = cuda_size(index, 0, index->ndim - 1);
  s->one = 1;
  const int64_t block = cuda_size(data, used, data->ndim);
  s->data_shape[0] = cuda_size(data, 0, used);
  s->part_shape[0] = s->count;
  s->data_shape[1] = s->part_shape[1] = s->strides[0] = block;
  s->strides[1] = 1;
  s->data = tensor_of(data->dtype, 2, s->data_shape, s->strides, data->data);
  s->part = tensor_of(part->dtype, 2, s->part_shape, s->strides, part->data);
  const bool wide = s->data_shape[0] > CUDA_MAX_INDEX;
  const DLDataType number = {kDLInt, (uint8_t)(wide ? 64 : 32), 1};
  s->index = tensor_of(number, 1, &s->count, &s->one, args->workspace);
  s->attrs = tn_gather_attrs{sizeof(tn_gather_attrs), 0};
  s->args = *args;
  s->args.attrs = &s->attrs;
  s->args.in = s->in;
  s->args.out = s->out;
  s->args.workspace = args->workspace ? (char *)args->workspace + cuda_slices_bytes(s) : NULL;
  s->in[1] = &s->index;
  s->in[0] = data == args->in[0] ? &s->data : &s->part;
  s->out[0] = data == args->in[0] ? &s->part : &s->data;
}

tn_status cuda_slices_number(const tn_kernel_args *args, const DLTensor *data,
                             const cuda_slices *s) {
  const DLTensor *index = args->in[1];
  const int batch = batch_of(args);
  numbering u = {index->data, index->dtype.bits == 64, (int)index->shape[index->ndim - 1]};
  u.batch_step = 1;
  for (int a = u.axes - 1; a >= 0; a--) {
    u.size[a] = data->shape[batch + a];
    u.step[a] = u.batch_step;
    u.batch_step *= u.size[a];
  }
  const int64_t batches = cuda_size(data, 0, batch);
  u.count = s->count;
  u.per_batch = batches ? s->count / batches : s->count;
  u.rows = s->index.data;
  u.rows_wide = s->index.dtype.bits == 64;
  if (u.count == 0) return TN_OK;
  return launch(args, number_rows, place_blocks(u.count), place_threads, 0, u);
}

tn_status cuda_gather_nd_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_slices s;
  cuda_slices_begin(args, args->out[0], args->in[0], &s);
  *bytes = cuda_slices_bytes(&s);
  return TN_OK;
}

tn_status cuda_run_gather_nd(const tn_kernel_args *args) {
  cuda_slices s;
  cuda_slices_begin(args, args->out[0], args->in[0], &s);
  if (cuda_size(&s.part, 0, 2) == 0) return TN_OK;
  tn_status status = cuda_slices_number(args, args->in[0], &s);
  return status == TN_OK ? cuda_run_gather(&s.args) : status;
}

/* --- masked_select --- */

namespace {

template <class T> struct masked_elements {
  using U = uint8_t;
  using V = T;
  const U *tested; /* the mask */
  const T *x;
  T *y;
  __device__ __forceinline__ uint32_t hits(const vector_of<U> &v, int64_t) const {
    return compact_bits<U>([&](int e) { return v.v[e] != 0; });
  }
  __device__ __forceinline__ V fetch(int64_t i) const { return x[i]; }
  __device__ __forceinline__ void write(int64_t to, int64_t, V v) const { y[to] = v; }
};

} // namespace

tn_status cuda_masked_select_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = compact_bytes(cuda_size(args->in[0], 0, args->in[0]->ndim));
  return TN_OK;
}

tn_status cuda_run_masked_select(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  const uint8_t *mask = (const uint8_t *)args->in[1]->data;
  int64_t n = cuda_size(x, 0, x->ndim), *count = (int64_t *)args->out[1]->data;
  return for_size(x, [&](auto t) {
    using U = decltype(t);
    return compact(args, args->workspace, n, count,
                   masked_elements<U>{mask, (const U *)x->data, (U *)args->out[0]->data});
  });
}
