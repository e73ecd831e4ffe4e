/*
 * gather_nd, masked_select, and the numbering of rows that scatter.cu uses too: an index of several
 * axes becomes the number of a row, and the operators of one axis do the rest.
 */
#include "kernels/cuda/index/slices.cuh"

namespace {

struct numbering {
  const void *index;
  int wide, axes;
  int64_t size[TN_MAX_RANK], step[TN_MAX_RANK]; /* of the axes that the index names, in rows */
  int64_t per_batch, batch_step, count;
  int64_t *rows;
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
  u.rows[i] = inside ? row : INT64_MIN;
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
  return ((size_t)s->count * sizeof(int64_t) + 255) / 256 * 256;
}

void cuda_slices_begin(const tn_kernel_args *args, const DLTensor *part, const DLTensor *data,
                       cuda_slices *s) {
  const DLTensor *index = args->in[1];
  const int used = batch_of(args) + (int)index->shape[index->ndim - 1];
  const DLDataType whole = {kDLInt, 64, 1};
  s->count = cuda_size(index, 0, index->ndim - 1);
  s->one = 1;
  const int64_t block = cuda_size(data, used, data->ndim);
  s->data_shape[0] = cuda_size(data, 0, used);
  s->part_shape[0] = s->count;
  s->data_shape[1] = s->part_shape[1] = s->strides[0] = block;
  s->strides[1] = 1;
  s->data = tensor_of(data->dtype, 2, s->data_shape, s->strides, data->data);
  s->part = tensor_of(part->dtype, 2, s->part_shape, s->strides, part->data);
  s->index = tensor_of(whole, 1, &s->count, &s->one, args->workspace);
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
  u.rows = (int64_t *)s->index.data;
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

/* --- masked_select in three launches, as nonzero: counts of parts, places, writes --- */

namespace {

enum { STEPS = 16, PART = place_threads * STEPS, WARPS = place_threads / 32 };

__global__ void __launch_bounds__(place_threads)
    count_part(const uint8_t *mask, int64_t *first, int64_t n) {
  int64_t at = (int64_t)blockIdx.x * PART + threadIdx.x;
  int hits = 0;
#pragma unroll
  for (int k = 0; k < STEPS; k++, at += place_threads)
    hits += __syncthreads_count(at < n && mask[at] != 0);
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

template <class U>
__global__ void __launch_bounds__(place_threads)
    write_part(const U *x, const uint8_t *mask, const int64_t *first, U *y, int64_t n) {
  __shared__ int in_warp[2][WARPS];
  int64_t at = (int64_t)blockIdx.x * PART + threadIdx.x, row = first[blockIdx.x];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
  for (int k = 0; k < STEPS; k++, at += place_threads) {
    bool hit = at < n && mask[at] != 0;
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
    if (hit) y[row + before] = x[at];
    row += all;
  }
}

template <class U> tn_status run_selection(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  const uint8_t *mask = (const uint8_t *)args->in[1]->data;
  int64_t n = cuda_size(x, 0, x->ndim), parts = ceil_div(n, PART);
  int64_t *first = (int64_t *)args->workspace;
  tn_status status = TN_OK;
  if (parts) status = launch(args, count_part, (unsigned)parts, place_threads, 0, mask, first, n);
  if (status == TN_OK)
    status = launch(args, sum_parts, 1, 1024, 0, first, parts, (int64_t *)args->out[1]->data);
  if (status == TN_OK && parts)
    status = launch(args, write_part<U>, (unsigned)parts, place_threads, 0, (const U *)x->data,
                    mask, (const int64_t *)first, (U *)args->out[0]->data, n);
  return status;
}

} // namespace

tn_status cuda_masked_select_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = (size_t)ceil_div(cuda_size(args->in[0], 0, args->in[0]->ndim), PART) * sizeof(int64_t);
  return TN_OK;
}

tn_status cuda_run_masked_select(const tn_kernel_args *args) {
  return for_size(args->in[0], [&](auto t) { return run_selection<decltype(t)>(args); });
}
