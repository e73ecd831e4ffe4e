/*
 * Sorting: elements become keys (kernels/common/order_key.h) with the place they stand at, those
 * are sorted, and a last kernel makes elements of keys again; only zeros and NaN are looked up at
 * their places, for their keys do not tell them apart. Rows that one block can hold are sorted
 * there in one launch. Longer ones are sorted all at once: the row's number stands above a key of
 * up to 32 bits; wider keys are sorted first, then stably by row. Of long rows of which few
 * elements are wanted, those are selected first (select_top.cu).
 */
#include <cub/block/block_radix_sort.cuh>

#include "kernels/cuda/base/background.cuh"
#include "kernels/cuda/base/table.h"
#include "kernels/cuda/index/compact.cuh"
#include "kernels/cuda/index/radix.h"
#include "kernels/cuda/index/sort.cuh"

namespace {

enum { threads = 256, block_items = 8, block_row = threads * block_items };

/* Where element 0 of a row lies in x and in what is written, and how far apart the others are. */
struct row_place {
  int64_t x, y, step;
};

__device__ __forceinline__ row_place place_of_row(const rows &r, int64_t row) {
  return {place_of(r, row, 0, r.n), place_of(r, row, 0, r.k), r.inner};
}

/* Element i of the sorted row, which has `key` and stood at `place`. */
__device__ __forceinline__ void write_item(const rows &r, const row_place &at, int i, uint64_t key,
                                           uint32_t place) {
  const int64_t to = at.y + i * at.step;
  if (r.index) r.index[to] = place;
  if (!r.y) return;
  uint64_t x;
  if (!element_of(key, r.type, &x)) x = bits_at(r.x, at.x + place * at.step, r.type.bits);
  bits_put(r.y, to, x, r.type.bits);
}

/* One row per block of BLOCK threads. Places beyond the row get the greatest key; they stay behind
 * real elements that have it too, for the sort is stable. */
template <class K, int BLOCK> __global__ void __launch_bounds__(BLOCK) sort_block(rows r) {
  using sorter = cub::BlockRadixSort<K, BLOCK, block_items, uint32_t>;
  __shared__ typename sorter::TempStorage memory;
  for (int64_t row = blockIdx.x; row < r.outer * r.inner; row += gridDim.x) {
    const row_place at = place_of_row(r, row);
    K key[block_items];
    uint32_t place[block_items];
#pragma unroll
    for (int j = 0; j < block_items; j++) {
      int i = threadIdx.x * block_items + j;
      place[j] = i;
      key[j] = (K)(~(uint64_t)0 >> (64 - r.type.bits));
      if (i < r.n) key[j] = (K)order_key(bits_at(r.x, at.x + i * at.step, r.type.bits), r.type);
    }
    sorter(memory).SortBlockedToStriped(key, place, 0, r.type.bits);
#pragma unroll
    for (int j = 0; j < block_items; j++) {
      int i = j * BLOCK + threadIdx.x;
      if (i < r.k) write_item(r, at, i, key[j], place[j]);
    }
    __syncthreads(); /* before memory is used again */
  }
}

/* The sort of all rows at once: items are numbered row * n + place, in 32 bits. A thread has four
 * of them next to each other. */
enum { each = 4 };

template <class K> __device__ __forceinline__ K key_of(uint64_t x, const order_type &t) {
  if constexpr (sizeof(K) == 4) return narrow_key((uint32_t)x, t);
  return (K)order_key(x, t);
}

template <class K>
__global__ void __launch_bounds__(threads)
    make_keys(const __grid_constant__ rows r, K *key, uint32_t *item, bool with_row) {
  const int64_t first = ((int64_t)blockIdx.x * threads + threadIdx.x) * each;
  const int64_t total = r.outer * r.inner * r.n;
  if (r.flat && first + each <= total) {
    uint64_t x[each], place[each];
    four_bits_at(r.x, first, r.type.bits, x);
#pragma unroll
    for (int k = 0; k < each; k++) {
      x[k] = key_of<K>(x[k], r.type);
      place[k] = (uint64_t)(first + k);
    }
    four_put(key, first, x);
    if (item) four_put(item, first, place);
    return;
  }
#pragma unroll
  for (int64_t i = first; i < first + each && i < total; i++) {
    const int64_t row = (uint32_t)i / (uint32_t)r.n;
    const uint64_t x = bits_at(r.x, place_of(r, row, i - row * r.n, r.n), r.type.bits);
    const uint64_t k = order_key(x, r.type);
    key[i] = (K)(with_row ? (uint64_t)row << r.type.bits | k : k);
    if (item) item[i] = (uint32_t)i;
  }
}

__global__ void __launch_bounds__(threads) row_keys(rows r, uint64_t *key, const uint32_t *item) {
  int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i < r.outer * r.inner * r.n) key[i] = item[i] / r.n;
}

/* `key` may be NULL: elements are looked up then. So may `item`, where no key has several. */
template <class K>
__global__ void __launch_bounds__(threads)
    write_items(const __grid_constant__ rows r, const K *key, const uint32_t *item) {
  const int64_t first = ((int64_t)blockIdx.x * threads + threadIdx.x) * each;
  const int64_t total = r.outer * r.inner * r.k;
  if (r.flat && key && first + each <= total) {
    uint64_t place[each] = {}, x[each];
    if (item) four_at(item, first, place);
    if (r.index) four_put((uint64_t *)r.index, first, place);
    if (!r.y) return;
    four_at(key, first, x);
#pragma unroll
    for (int k = 0; k < each; k++)
      if (!element_of(x[k], r.type, &x[k])) x[k] = bits_at(r.x, (int64_t)place[k], r.type.bits);
    four_bits_put(r.y, first, r.type.bits, x);
    return;
  }
#pragma unroll
  for (int64_t i = first; i < first + each && i < total; i++) {
    const int64_t row = (uint32_t)i / (uint32_t)r.k, at = i - row * r.k, from = row * r.n + at;
    const int64_t place = item ? (int64_t)item[from] - row * r.n : 0;
    const int64_t to = place_of(r, row, at, r.k);
    if (r.index) r.index[to] = place;
    if (!r.y) continue;
    uint64_t x = 0;
    if (!key || !element_of(key[from], r.type, &x))
      x = bits_at(r.x, place_of(r, row, place, r.n), r.type.bits);
    bits_put(r.y, to, x, r.type.bits);
  }
}

unsigned blocks_for(int64_t n) { return (unsigned)ceil_div(n, threads); }

order_type type_of(const DLTensor *x, bool descending) {
  order_type t = {x->dtype.bits, x->dtype.code == kDLInt, 0, descending};
  if (x->dtype.code == kDLBfloat) t.infinity = 0x7f80;
  if (x->dtype.code == kDLFloat)
    t.infinity = t.bits == 16 ? 0x7c00u : t.bits == 32 ? 0x7f800000u : 0x7ff0000000000000u;
  return t;
}

/* How rows are sorted together. */
struct together {
  int key_bits;  /* of what is sorted first */
  bool with_row; /* whether that has the row's number above the key */
  bool items;
};

together together_of(const rows &r) {
  int row_bits = cuda_radix_bits((uint64_t)(r.outer * r.inner));
  together t = {r.type.bits, r.type.bits <= 32, r.indexed || r.type.infinity};
  if (t.with_row)
    t.key_bits += row_bits;
  else
    t.items = t.items || row_bits > 0;
  return t;
}

template <class K>
tn_status sort_as(const tn_kernel_args *args, const rows &r, const together &t, cuda_radix *s) {
  int64_t count = r.outer * r.inner, total = count * r.n;
  tn_status status = launch(args, make_keys<K>, blocks_for(ceil_div(total, each)), threads, 0, r,
                            (K *)s->key[0], s->item[0], t.with_row);
  if (status == TN_OK) status = cuda_radix_sort(args, s, t.key_bits);
  if (status != TN_OK) return status;
  const K *key = (const K *)s->key[0];
  if (!t.with_row && count > 1) {
    status =
        launch(args, row_keys, blocks_for(total), threads, 0, r, (uint64_t *)s->key[0], s->item[0]);
    if (status == TN_OK) status = cuda_radix_sort(args, s, cuda_radix_bits((uint64_t)count));
    if (status != TN_OK) return status;
    key = NULL;
  }
  return launch(args, write_items<K>, blocks_for(ceil_div(count * r.k, each)), threads, 0, r, key,
                (const uint32_t *)s->item[0]);
}

tn_status sort_together(const tn_kernel_args *args, const rows &r) {
  together t = together_of(r);
  cuda_radix s;
  tn_status status =
      cuda_radix_of(args, args->workspace, r.outer * r.inner * r.n, t.key_bits, t.items, &s);
  if (status != TN_OK) return status;
  return s.wide ? sort_as<uint64_t>(args, r, t, &s) : sort_as<uint32_t>(args, r, t, &s);
}

bool is_flat(const rows &r) {
  return r.outer * r.inner == 1 && is_aligned(r.x, 32) && is_aligned(r.y, 32) &&
         is_aligned(r.index, 32);
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
  r.indexed = index != NULL;
  r.flat = is_flat(r);
  return r;
}

/* The outputs and attributes of each operator of the family. */
rows rows_of_call(const tn_kernel_args *args) {
  const tn_sort_attrs *sort = (const tn_sort_attrs *)args->attrs; /* argsort has the same */
  const tn_topk_attrs *top = (const tn_topk_attrs *)args->attrs;
  if (args->kernel->op == TN_OP_TOPK)
    return rows_of(args, args->out[0], args->out[1], top->axis, top->largest);
  bool alone = args->kernel->op == TN_OP_ARGSORT;
  return rows_of(args, alone ? NULL : args->out[0], args->out[alone ? 0 : 1], sort->axis,
                 sort->descending);
}

tn_status sort_rows(const tn_kernel_args *args, const rows &r) {
  int64_t count = r.outer * r.inner;
  if (count == 0 || r.k == 0) return TN_OK;
  if (cuda_select_takes(r)) return cuda_select_run(args, r);
  if (r.n > block_row) return sort_together(args, r);
  unsigned blocks = (unsigned)(count < (1 << 20) ? count : (1 << 20));
  if (r.type.bits > 32) return launch(args, sort_block<uint64_t, threads>, blocks, threads, 0, r);
  if (r.n > block_row / 2)
    return launch(args, sort_block<uint32_t, threads>, blocks, threads, 0, r);
  return launch(args, sort_block<uint32_t, threads / 2>, blocks, threads / 2, 0, r);
}

rows rows_of_unique(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  const int64_t n = cuda_size(x, 0, x->ndim);
  rows r = {x->data, args->out[0]->data, NULL, 1, n, 1, n, type_of(x, false)};
  r.flat = is_flat(r);
  return r;
}

/* unique: of up to 16 bits, by counting how often each key comes. Counters of a block have 16 bits,
 * two to a word, and are emptied before they may overflow. */
enum {
  counting_threads = 1024,
  counted_at_once = 49152, /* whole rounds of a block of any type */
  least_counted = 1 << 16,
};

int64_t counted_keys(const rows &r) { return (int64_t)1 << r.type.bits; }

__device__ __forceinline__ void count_key(uint32_t *pairs, uint32_t x, const order_type &t) {
  const uint32_t key = narrow_key(x, t);
  atomicAdd(&pairs[key >> 1], 1u << 16 * (key & 1));
}

__global__ void __launch_bounds__(counting_threads)
    count_keys(const __grid_constant__ rows r, uint32_t *counts, int64_t chunk) {
  extern __shared__ uint32_t pairs[];
  const int bits = r.type.bits, words = 1 << (bits - 1), in_access = 128 / bits;
  const uint32_t mask = ~0u >> (32 - bits);
  const int64_t begin = blockIdx.x * chunk, end = begin + chunk < r.n ? begin + chunk : r.n;
  for (int w = threadIdx.x; w < words; w += counting_threads) pairs[w] = 0;
  __syncthreads();
  for (int64_t at = begin; at < end; at += counted_at_once) {
    const int64_t stop = at + counted_at_once < end ? at + counted_at_once : end;
    for (int64_t i = at + threadIdx.x * in_access; i < stop; i += counting_threads * in_access) {
      if (!r.flat || i + in_access > stop) {
        for (int64_t k = i; k < i + in_access && k < stop; k++)
          count_key(pairs, (uint32_t)bits_at(r.x, k, bits), r.type);
        continue;
      }
      const uint4 v = *(const uint4 *)((const char *)r.x + i * (bits / 8));
      const uint32_t four[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int w = 0; w < 4; w++)
        for (int shift = 0; shift < 32; shift += bits)
          count_key(pairs, four[w] >> shift & mask, r.type);
    }
    __syncthreads();
    for (int w = threadIdx.x; w < words; w += counting_threads) {
      const uint32_t two = pairs[w];
      if (!two) continue;
      pairs[w] = 0;
      if (two & 0xffff) atomicAdd(&counts[2 * w], two & 0xffff);
      if (two >> 16) atomicAdd(&counts[2 * w + 1], two >> 16);
    }
    __syncthreads();
  }
}

/* The element that a key of a rising sort stands for: 0 has the sign's key, NaN the last. */
__device__ __forceinline__ uint64_t element_for(uint64_t key, const order_type &t) {
  uint64_t x;
  if (element_of(key, t, &x)) return x;
  return (key & 1) == 0 ? 0 : t.infinity | t.infinity >> 1;
}

/* Keys that come at all. */
struct counted {
  using U = uint32_t;
  using V = uint32_t;
  rows r;
  const uint32_t *tested; /* how often each comes */
  int64_t *counts;        /* or NULL */
  __device__ __forceinline__ uint32_t hits(const vector_of<U> &v, int64_t) const {
    return compact_bits<U>([&](int e) { return v.v[e] != 0; });
  }
  __device__ __forceinline__ V fetch(int64_t i) const { return tested[i]; }
  __device__ __forceinline__ void write(int64_t to, int64_t i, V k) const {
    bits_put(r.y, to, element_for((uint64_t)i, r.type), r.type.bits);
    if (counts) counts[to] = k;
  }
};

/* Whether keys are counted. Makes the device current. */
bool counts_keys(const tn_kernel_args *args, const rows &r) {
  if (r.type.bits > 16 || r.n < least_counted) return false;
  if (cuda_make_current(args->host, (const cuda_info *)args->device) != TN_OK) return false;
  return r.type.bits < 16 || cuda_table_fits(); /* which is as large */
}

tn_status run_counted(const tn_kernel_args *args, const rows &r) {
  const int64_t keys = counted_keys(r);
  const int64_t each_block = ceil_div(r.n, ((const cuda_info *)args->device)->multiprocessors);
  const int64_t chunk = ceil_div(each_block, counted_at_once) * counted_at_once;
  uint32_t *times = (uint32_t *)args->workspace;
  cudaError_t error =
      cudaMemsetAsync(times, 0, (size_t)keys * sizeof *times, (cudaStream_t)args->native_stream);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cudaMemsetAsync");
  const size_t shared = (size_t)keys * 2;
  tn_status status = allow_shared(args, count_keys, shared);
  if (status == TN_OK)
    status = launch(args, count_keys, (unsigned)ceil_div(r.n, chunk), counting_threads, shared, r,
                    times, chunk);
  if (status != TN_OK) return status;
  return compact(args, times + keys, keys, (int64_t *)args->out[2]->data,
                 counted{r, times, args->out[1] ? (int64_t *)args->out[1]->data : NULL});
}

/* Of others: sorted keys that differ from the one before. */
template <class K> struct heads {
  using U = K;
  using V = K;
  rows r;
  const K *tested; /* the keys */
  int64_t *starts; /* or NULL */
  __device__ __forceinline__ uint32_t hits(const vector_of<K> &v, int64_t i) const {
    const K before = i ? tested[i - 1] : (K)~v.v[0];
    return compact_bits<K>([&](int e) { return v.v[e] != (e ? v.v[e - 1] : before); });
  }
  __device__ __forceinline__ V fetch(int64_t i) const { return tested[i]; }
  __device__ __forceinline__ void write(int64_t to, int64_t i, V k) const {
    bits_put(r.y, to, element_for(k, r.type), r.type.bits);
    if (starts) starts[to] = i;
  }
};

/* From where heads stand to how far apart they are. Blocks are as many as run at once, for heads
 * may be few. */
enum { head_blocks = 8 };

__global__ void __launch_bounds__(threads)
    count_heads(const int64_t *starts, int64_t *counts, const int64_t *count, int64_t n) {
  const int64_t heads = *count, step = (int64_t)gridDim.x * threads;
  for (int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x; i < heads; i += step)
    counts[i] = (i + 1 < heads ? starts[i + 1] : n) - starts[i];
}

} // namespace

tn_status cuda_sort_workspace(const tn_kernel_args *args, size_t *bytes) {
  rows r = rows_of_call(args);
  int64_t count = r.outer * r.inner;
  *bytes = 0;
  if (count == 0 || r.k == 0 || r.n == 0) return TN_OK;
  if (cuda_select_takes(r)) return cuda_select_workspace(args, r, bytes);
  if (r.n <= block_row) return TN_OK;
  together t = together_of(r);
  cuda_radix s;
  tn_status status = cuda_radix_of(args, NULL, count * r.n, t.key_bits, t.items, &s);
  if (status == TN_OK) *bytes = s.bytes;
  return status;
}

/* Keys, then where heads stand, then what compact() wants. */
tn_status cuda_unique_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *x = args->in[0];
  int64_t n = cuda_size(x, 0, x->ndim);
  const rows r = rows_of_unique(args);
  if (counts_keys(args, r)) {
    *bytes = (size_t)counted_keys(r) * sizeof(uint32_t) + compact_bytes(counted_keys(r));
    return TN_OK;
  }
  cuda_radix s;
  tn_status status = cuda_radix_of(args, NULL, n, x->dtype.bits, false, &s);
  *bytes = s.bytes + cuda_radix_rounded((size_t)n * sizeof(int64_t)) + compact_bytes(n);
  return status;
}

/* Items are numbered with 32 bits. */
bool cuda_sort_supports(const tn_kernel_args *args) {
  return cuda_size(args->in[0], 0, args->in[0]->ndim) < (int64_t)1 << 32;
}

tn_status cuda_run_sort(const tn_kernel_args *args) { return sort_rows(args, rows_of_call(args)); }
tn_status cuda_run_argsort(const tn_kernel_args *args) {
  return sort_rows(args, rows_of_call(args));
}
tn_status cuda_run_topk(const tn_kernel_args *args) { return sort_rows(args, rows_of_call(args)); }

namespace {

template <class K> tn_status run_unique(const tn_kernel_args *args, const rows &r, cuda_radix *s) {
  int64_t n = r.n, *count = (int64_t *)args->out[2]->data;
  int64_t *counts = args->out[1] ? (int64_t *)args->out[1]->data : NULL;
  int64_t *starts = (int64_t *)((char *)args->workspace + s->bytes);
  void *rest = (char *)starts + cuda_radix_rounded((size_t)n * sizeof(int64_t));
  tn_status status = launch(args, make_keys<K>, blocks_for(ceil_div(n, each)), threads, 0, r,
                            (K *)s->key[0], (uint32_t *)NULL, false);
  if (status == TN_OK) status = cuda_radix_sort(args, s, r.type.bits);
  if (status == TN_OK)
    status = compact(args, rest, n, count,
                     heads<K>{r, (const K *)s->key[0], counts ? starts : (int64_t *)NULL});
  if (status != TN_OK || !counts) return status;
  const unsigned most = head_blocks * (unsigned)((const cuda_info *)args->device)->multiprocessors;
  const unsigned blocks = blocks_for(n);
  return launch(args, count_heads, blocks < most ? blocks : most, threads, 0,
                (const int64_t *)starts, counts, (const int64_t *)count, n);
}

} // namespace

tn_status cuda_run_unique(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0];
  int64_t n = cuda_size(x, 0, x->ndim), *count = (int64_t *)args->out[2]->data;
  const rows r = rows_of_unique(args);
  cuda_radix s;
  if (n == 0) return compact(args, NULL, 0, count, heads<uint32_t>{});
  if (counts_keys(args, r)) return run_counted(args, r);
  tn_status status = cuda_radix_of(args, args->workspace, n, r.type.bits, false, &s);
  if (status != TN_OK) return status;
  return s.wide ? run_unique<uint64_t>(args, r, &s) : run_unique<uint32_t>(args, r, &s);
}
