/*
 * concat and stack: every input is rows of equal length that go, one after the other, to
 * rows of the output. Moves units as wide as all lengths and addresses allow.
 */
#include "kernels/cuda/base/common.cuh"

namespace {

enum { threads = 256, rounds = 4, chunk = threads * rounds, small = 120, large = 1100 };

/* Lengths are in units. */
template <int CAPACITY> struct join_table {
  int count;
  const void *data[CAPACITY];
  int64_t length[CAPACITY], offset[CAPACITY]; /* of a row: in the input, and where in y's */
  uint32_t first[CAPACITY];                   /* block */
};

struct join_shape {
  int64_t rows, pitch; /* pitch: of y's rows */
};

__device__ __forceinline__ int64_t place_of(int64_t i, int64_t length, int64_t pitch) {
  if (i < length) return i;
  int64_t row = (i | length) >> 32 ? i / length : (int64_t)((uint32_t)i / (uint32_t)length);
  return row * pitch + (i - row * length);
}

template <class V, int CAPACITY>
__global__ void __launch_bounds__(threads)
    join(V *y, join_shape shape, const __grid_constant__ join_table<CAPACITY> t) {
  int low = 0, high = t.count;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (t.first[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle;
  }
  const V *x = (const V *)t.data[low];
  int64_t length = t.length[low], n = length * shape.rows;
  int64_t first = (int64_t)(blockIdx.x - t.first[low]) * chunk + threadIdx.x;
  y += t.offset[low];
  V v[rounds];
#pragma unroll
  for (int r = 0; r < rounds; r++)
    if (first + r * threads < n) v[r] = x[first + r * threads];
#pragma unroll
  for (int r = 0; r < rounds; r++)
    if (first + r * threads < n) y[place_of(first + r * threads, length, shape.pitch)] = v[r];
}

/* An input as rows, in bytes. */
typedef struct joined {
  int64_t rows, length;
} joined;

joined joined_of(const tn_kernel_args *args, int i, int axis) {
  const DLTensor *x = args->in[i];
  int64_t bytes = x->dtype.bits / 8;
  return {cuda_size(x, 0, axis), cuda_size(x, axis, x->ndim) * bytes};
}

template <class V, int CAPACITY> tn_status run_units(const tn_kernel_args *args, int axis) {
  join_table<CAPACITY> t;
  join_shape shape = {joined_of(args, 0, axis).rows, 0};
  int64_t offset = 0;
  tn_status status = TN_OK;
  for (int i = 0; i < args->num_in; i++)
    shape.pitch += joined_of(args, i, axis).length / (int64_t)sizeof(V);
  for (int i = 0; i < args->num_in && status == TN_OK;) {
    int64_t blocks = 0;
    t.count = 0;
    for (; i < args->num_in && t.count < CAPACITY && blocks < CUDA_MAX_INDEX / 2; i++) {
      int64_t length = joined_of(args, i, axis).length / (int64_t)sizeof(V);
      if (length == 0) continue;
      t.data[t.count] = args->in[i]->data;
      t.length[t.count] = length;
      t.offset[t.count] = offset;
      t.first[t.count++] = (uint32_t)blocks;
      blocks += ceil_div(length * shape.rows, chunk);
      offset += length;
    }
    if (t.count > 0)
      status = launch(args, join<V, CAPACITY>, (unsigned)blocks, threads, 0,
                      (V *)args->out[0]->data, shape, t);
  }
  return status;
}

template <class V> tn_status run_width(const tn_kernel_args *args, int axis) {
  return args->num_in <= small ? run_units<V, small>(args, axis) : run_units<V, large>(args, axis);
}

struct alignas(16) wide {
  uint64_t half[2];
};

/* axis: where a row of each input begins. */
tn_status run_join(const tn_kernel_args *args, int axis) {
  uintptr_t odd = (uintptr_t)args->out[0]->data;
  if (cuda_size(args->out[0], 0, args->out[0]->ndim) == 0) return TN_OK;
  for (int i = 0; i < args->num_in; i++) {
    odd |= (uintptr_t)joined_of(args, i, axis).length;
    if (joined_of(args, i, axis).length) odd |= (uintptr_t)args->in[i]->data;
  }
  if (odd % 16 == 0) return run_width<wide>(args, axis);
  if (odd % 8 == 0) return run_width<uint64_t>(args, axis);
  if (odd % 4 == 0) return run_width<uint32_t>(args, axis);
  return odd % 2 == 0 ? run_width<uint16_t>(args, axis) : run_width<uint8_t>(args, axis);
}

int axis_of(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

} // namespace

tn_status cuda_run_concat(const tn_kernel_args *args) {
  return run_join(args, axis_of(((const tn_concat_attrs *)args->attrs)->axis, args->out[0]->ndim));
}

tn_status cuda_run_stack(const tn_kernel_args *args) {
  return run_join(args, axis_of(((const tn_stack_attrs *)args->attrs)->axis, args->out[0]->ndim));
}
