/*
 * Sorting: elements become keys (kernels/common/order_key.h) with the place they stand at, CUB
 * sorts those, and a last kernel picks the elements at their places. Rows that one block
 * can hold are sorted there in one launch. Longer ones are sorted all at once: the row's
 * number stands above a key of up to 32 bits; wider keys are sorted first, then stably
 * by row.
 *
 * Memory is laid out as the same sequence of parts wherever it is measured or used.
 */
#include <cub/block/block_radix_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "kernels/common/order_key.h"
#include "kernels/cuda/base/common.cuh"

namespace {

enum { threads = 256, block_items = 8, block_row = threads * block_items };

/* Rows along one axis of a contiguous tensor seen as [outer, n, inner]; k of the n sorted
 * elements are written. */
struct rows {
  const void *x;
  void *y;        /* or NULL */
  int64_t *index; /* or NULL */
  int64_t outer, n, inner, k;
  order_type type;
};

__device__ __forceinline__ uint64_t bits_at(const void *x, int64_t i, int bits) {
  switch (bits) {
  case 8:
    return ((const uint8_t *)x)[i];
  case 16:
    return ((const uint16_t *)x)[i];
  case 32:
    return ((const uint32_t *)x)[i];
  default:
    return ((const uint64_t *)x)[i];
  }
}

__device__ __forceinline__ void bits_put(void *y, int64_t i, uint64_t value, int bits) {
  switch (bits) {
  case 8:
    ((uint8_t *)y)[i] = (uint8_t)value;
    break;
  case 16:
    ((uint16_t *)y)[i] = (uint16_t)value;
    break;
  case 32:
    ((uint32_t *)y)[i] = (uint32_t)value;
    break;
  default:
    ((uint64_t *)y)[i] = value;
  }
}

/* Where element i of a row lies, in a tensor with `size` elements along the axis. */
__device__ __forceinline__ int64_t place_of(const rows &r, int64_t row, int64_t i, int64_t size) {
  return row / r.inner * size * r.inner + row % r.inner + i * r.inner;
}

__device__ __forceinline__ void write_item(const rows &r, int64_t row, int64_t i, int64_t place) {
  int64_t to = place_of(r, row, i, r.k);
  if (r.y) bits_put(r.y, to, bits_at(r.x, place_of(r, row, place, r.n), r.type.bits), r.type.bits);
  if (r.index) r.index[to] = place;
}

/* One row per block. Places beyond the row get the greatest key; they stay behind real
 * elements that have it too, for the sort is stable. */
template <class K> __global__ void __launch_bounds__(threads) sort_block(rows r) {
  using sorter = cub::BlockRadixSort<K, threads, block_items, uint32_t>;
  __shared__ typename sorter::TempStorage memory;
  for (int64_t row = blockIdx.x; row < r.outer * r.inner; row += gridDim.x) {
    K key[block_items];
    uint32_t place[block_items];
#pragma unroll
    for (int j = 0; j < block_items; j++) {
      int i = threadIdx.x * block_items + j;
      place[j] = i;
      key[j] = (K)(~(uint64_t)0 >> (64 - r.type.bits));
      if (i < r.n)
        key[j] = (K)order_key(bits_at(r.x, place_of(r, row, i, r.n), r.type.bits), r.type);
    }
    sorter(memory).Sort(key, place, 0, r.type.bits);
#pragma unroll
    for (int j = 0; j < block_items; j++) {
      int i = threadIdx.x * block_items + j;
      if (i < r.k) write_item(r, row, i, place[j]);
    }
    __syncthreads(); /* before memory is used again */
  }
}

/* The sort of all rows at once: items are numbered row * n + place. */
__global__ void __launch_bounds__(threads)
    make_keys(rows r, uint64_t *key, uint32_t *item, bool with_row) {
  int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i >= r.outer * r.inner * r.n) return;
  int64_t row = i / r.n;
  uint64_t k = order_key(bits_at(r.x, place_of(r, row, i % r.n, r.n), r.type.bits), r.type);
  key[i] = with_row ? (uint64_t)row << r.type.bits | k : k;
  item[i] = (uint32_t)i;
}

__global__ void __launch_bounds__(threads) row_keys(rows r, uint64_t *key, const uint32_t *item) {
  int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i < r.outer * r.inner * r.n) key[i] = item[i] / r.n;
}

__global__ void __launch_bounds__(threads) write_items(rows r, const uint32_t *item) {
  int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i >= r.outer * r.inner * r.k) return;
  int64_t row = i / r.k;
  write_item(r, row, i % r.k, item[row * r.n + i % r.k] % r.n);
}

/* Scratch memory of n items: two arrays of keys, two of items, and what CUB wants. */
struct scratch {
  uint64_t *key[2];
  uint32_t *item[2];
  void *temp;
  size_t temp_bytes, bytes;
};

size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* pre: n < 2^32. memory may be NULL: only bytes are wanted. */
tn_status scratch_of(scratch *s, void *memory, int64_t n, const tn_kernel_args *args) {
  size_t keys = rounded((size_t)n * 8), items = rounded((size_t)n * 4), sort = 0, scan = 0;
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  cub::DoubleBuffer<uint64_t> key(NULL, NULL);
  cub::DoubleBuffer<uint32_t> item(NULL, NULL);
  cudaError_t error = cub::DeviceRadixSort::SortPairs(NULL, sort, key, item, (uint32_t)n, 0, 64);
  if (error == cudaSuccess)
    error = cub::DeviceScan::InclusiveSum(NULL, scan, (const uint32_t *)NULL, (uint32_t *)NULL,
                                          (uint32_t)n);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cub: size of scratch");
  char *at = (char *)memory;
  s->key[0] = (uint64_t *)at;
  s->key[1] = (uint64_t *)(at + keys);
  s->item[0] = (uint32_t *)(at + 2 * keys);
  s->item[1] = (uint32_t *)(at + 2 * keys + items);
  s->temp = at + 2 * keys + 2 * items;
  s->temp_bytes = sort > scan ? sort : scan;
  s->bytes = 2 * keys + 2 * items + rounded(s->temp_bytes);
  return TN_OK;
}

/* Sorts by bits [0, bits) of the keys; the result is in key[0] and item[0]. */
tn_status sort_keys(const tn_kernel_args *args, scratch *s, int64_t n, int bits) {
  cub::DoubleBuffer<uint64_t> key(s->key[0], s->key[1]);
  cub::DoubleBuffer<uint32_t> item(s->item[0], s->item[1]);
  cudaError_t error = cub::DeviceRadixSort::SortPairs(
      s->temp, s->temp_bytes, key, item, (uint32_t)n, 0, bits, (cudaStream_t)args->native_stream);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cub: radix sort");
  s->key[0] = key.Current();
  s->key[1] = key.Alternate();
  s->item[0] = item.Current();
  s->item[1] = item.Alternate();
  return TN_OK;
}

int bits_for(int64_t values) {
  int bits = 0;
  while (bits < 63 && ((int64_t)1 << bits) < values) bits++;
  return bits;
}

unsigned blocks_for(int64_t n) { return (unsigned)ceil_div(n, threads); }

order_type type_of(const DLTensor *x, bool descending) {
  order_type t = {x->dtype.bits, x->dtype.code == kDLInt, 0, descending};
  if (x->dtype.code == kDLBfloat) t.infinity = 0x7f80;
  if (x->dtype.code == kDLFloat)
    t.infinity = t.bits == 16 ? 0x7c00u : t.bits == 32 ? 0x7f800000u : 0x7ff0000000000000u;
  return t;
}

tn_status sort_together(const tn_kernel_args *args, const rows &r) {
  int64_t count = r.outer * r.inner, total = count * r.n;
  bool with_row = r.type.bits <= 32;
  scratch s = {};
  tn_status status = scratch_of(&s, args->workspace, total, args);
  if (status == TN_OK)
    status =
        launch(args, make_keys, blocks_for(total), threads, 0, r, s.key[0], s.item[0], with_row);
  if (status == TN_OK)
    status = sort_keys(args, &s, total, r.type.bits + (with_row ? bits_for(count) : 0));
  if (status == TN_OK && !with_row && count > 1) {
    status = launch(args, row_keys, blocks_for(total), threads, 0, r, s.key[0], s.item[0]);
    if (status == TN_OK) status = sort_keys(args, &s, total, bits_for(count));
  }
  if (status != TN_OK) return status;
  return launch(args, write_items, blocks_for(count * r.k), threads, 0, r, s.item[0]);
}

rows rows_of(const tn_kernel_args *args, const DLTensor *y, const DLTensor *index,
             int64_t attr_axis, bool descending) {
  const DLTensor *x = args->in[0], *shown = y ? y : index;
  int axis = (int)(attr_axis < 0 ? attr_axis + x->ndim : attr_axis);
  rows r = {x->data, y ? y->data : NULL, index ? (int64_t *)index->data : NULL};
  r.outer = cuda_size(x, 0, axis);
  r.n = x->shape[axis];
  r.inner = cuda_size(x, axis + 1, x->ndim);
  r.k = shown->shape[axis];
  r.type = type_of(x, descending);
  return r;
}

tn_status sort_rows(const tn_kernel_args *args, const rows &r) {
  int64_t count = r.outer * r.inner;
  if (count == 0 || r.k == 0) return TN_OK;
  if (r.n > block_row) return sort_together(args, r);
  unsigned blocks = (unsigned)(count < (1 << 20) ? count : (1 << 20));
  return r.type.bits <= 32 ? launch(args, sort_block<uint32_t>, blocks, threads, 0, r)
                           : launch(args, sort_block<uint64_t>, blocks, threads, 0, r);
}

/* unique: 1 where a sorted item differs from the one before. */
__global__ void __launch_bounds__(threads)
    mark_heads(const uint64_t *key, uint32_t *head, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i < n) head[i] = i == 0 || key[i] != key[i - 1];
}

/* number[i] is how many heads there are up to i; starts gets where each one stands. */
__global__ void __launch_bounds__(threads)
    write_heads(rows r, const uint64_t *key, const uint32_t *item, const uint32_t *number,
                int64_t *starts, int64_t *count, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i >= n) return;
  if (i == n - 1) *count = number[i];
  if (i > 0 && key[i] == key[i - 1]) return;
  int64_t to = number[i] - 1;
  bits_put(r.y, to, bits_at(r.x, item[i], r.type.bits), r.type.bits);
  if (starts) starts[to] = i;
}

/* From where heads stand to how far apart they are. */
__global__ void __launch_bounds__(threads)
    count_heads(const int64_t *starts, int64_t *counts, const int64_t *count, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i >= *count) return;
  counts[i] = (i + 1 < *count ? starts[i + 1] : n) - starts[i];
}

__global__ void put_zero(int64_t *count) { *count = 0; }

} // namespace

tn_status cuda_sort_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *x = args->in[0];
  int64_t axis = args->kernel->op == TN_OP_TOPK ? ((const tn_topk_attrs *)args->attrs)->axis
                                                : ((const tn_sort_attrs *)args->attrs)->axis;
  *bytes = 0;
  if (x->shape[axis < 0 ? axis + x->ndim : axis] <= block_row) return TN_OK;
  scratch s = {};
  tn_status status = scratch_of(&s, NULL, cuda_size(x, 0, x->ndim), args);
  if (status == TN_OK) *bytes = s.bytes;
  return status;
}

tn_status cuda_unique_workspace(const tn_kernel_args *args, size_t *bytes) {
  scratch s = {};
  tn_status status = scratch_of(&s, NULL, cuda_size(args->in[0], 0, args->in[0]->ndim), args);
  *bytes = status == TN_OK ? s.bytes : 0;
  return status;
}

/* Items are numbered with 32 bits. */
bool cuda_sort_supports(const tn_kernel_args *args) {
  return cuda_size(args->in[0], 0, args->in[0]->ndim) < (int64_t)1 << 32;
}

tn_status cuda_run_sort(const tn_kernel_args *args) {
  const tn_sort_attrs *attrs = (const tn_sort_attrs *)args->attrs;
  return sort_rows(args, rows_of(args, args->out[0], args->out[1], attrs->axis, attrs->descending));
}

tn_status cuda_run_argsort(const tn_kernel_args *args) {
  const tn_argsort_attrs *attrs = (const tn_argsort_attrs *)args->attrs;
  return sort_rows(args, rows_of(args, NULL, args->out[0], attrs->axis, attrs->descending));
}

tn_status cuda_run_topk(const tn_kernel_args *args) {
  const tn_topk_attrs *attrs = (const tn_topk_attrs *)args->attrs;
  return sort_rows(args, rows_of(args, args->out[0], args->out[1], attrs->axis, attrs->largest));
}

/* Head numbers lie in the spare items, where heads stand in the spare keys. */
tn_status cuda_run_unique(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  int64_t n = cuda_size(x, 0, x->ndim), *count = (int64_t *)args->out[2]->data;
  rows r = {x->data, args->out[0]->data, NULL, 1, n, 1, n, type_of(x, false)};
  if (n == 0) return launch(args, put_zero, 1, 1, 0, count);
  scratch s = {};
  tn_status status = scratch_of(&s, args->workspace, n, args);
  if (status == TN_OK)
    status = launch(args, make_keys, blocks_for(n), threads, 0, r, s.key[0], s.item[0], false);
  if (status == TN_OK) status = sort_keys(args, &s, n, r.type.bits);
  if (status == TN_OK)
    status = launch(args, mark_heads, blocks_for(n), threads, 0, s.key[0], s.item[1], n);
  if (status != TN_OK) return status;
  cudaError_t error = cub::DeviceScan::InclusiveSum(s.temp, s.temp_bytes, s.item[1], s.item[1],
                                                    (uint32_t)n, (cudaStream_t)args->native_stream);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cub: scan");
  int64_t *starts = args->out[1] ? (int64_t *)s.key[1] : NULL;
  status = launch(args, write_heads, blocks_for(n), threads, 0, r, s.key[0], s.item[0], s.item[1],
                  starts, count, n);
  if (status != TN_OK || !starts) return status;
  return launch(args, count_heads, blocks_for(n), threads, 0, starts, (int64_t *)args->out[1]->data,
                count, n);
}
