/*
 * Rows of a table by their numbers, the gradient of that, and rotary positions. The
 * gradient sorts the places by row, stably, so that a row's gradients are summed in the order of
 * their places whatever the threads do; few places need no sort.
 */
#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/index/radix.h"

namespace {

enum { threads = 256 };
/* Places that are summed by themselves, so that errors do not grow with their number. */
constexpr uint32_t grad_stretch = 32;

/* Blocks whose x runs along a row of `width` units and whose y counts rows. */
dim3 row_block(int64_t width) {
  unsigned x = 1;
  while (x < width && x < threads) x *= 2;
  return dim3(x, threads / x);
}
unsigned row_blocks(int64_t rows, dim3 block) { return (unsigned)ceil_div(rows, block.y); }
__device__ __forceinline__ int64_t row_index() {
  return (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
}

template <class I, class V>
__global__ void __launch_bounds__(threads)
    take_rows(V *y, const V *table, const I *index, int64_t count, int64_t rows, int64_t width) {
  int64_t i = row_index();
  if (i >= count) return;
  int64_t row = index[i];
  bool inside = row >= 0 && row < rows;
  V zero = {};
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x)
    y[i * width + c] = inside ? table[row * width + c] : zero;
}

template <class V> tn_status run_take(const tn_kernel_args *args, int64_t width) {
  const DLTensor *table = args->in[0], *index = args->in[1];
  int64_t count = cuda_size(index, 0, index->ndim), rows = table->shape[0];
  dim3 block = row_block(width);
  V *y = (V *)args->out[0]->data;
  if (index->dtype.bits == 32)
    return launch(args, take_rows<int32_t, V>, row_blocks(count, block), block, 0, y,
                  (const V *)table->data, (const int32_t *)index->data, count, rows, width);
  return launch(args, take_rows<int64_t, V>, row_blocks(count, block), block, 0, y,
                (const V *)table->data, (const int64_t *)index->data, count, rows, width);
}

/* -------------------------------------------------------------- gradient --- */

/* The row that an index means; what counts for nothing comes behind the last one. */
__device__ __forceinline__ uint32_t key_of(int64_t row, int64_t rows, int64_t skip, bool from_end) {
  if (from_end && row < 0 && row >= -rows) row += rows;
  return row >= 0 && row < rows && row != skip ? (uint32_t)row : (uint32_t)rows;
}

/* The row of each place. */
template <class I>
__global__ void __launch_bounds__(threads)
    list_places(uint32_t *key, uint32_t *place, const I *index, int64_t count, int64_t rows,
                int64_t skip, bool from_end) {
  int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  key[i] = key_of(index[i], rows, skip, from_end);
  place[i] = (uint32_t)i;
}

/* The first of n sorted keys that is at least `row`. */
__device__ uint32_t first_place(const uint32_t *key, uint32_t n, uint32_t row) {
  uint32_t low = 0, high = n;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (key[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Where each row's places begin; start[rows] is where those of no row do. */
__global__ void __launch_bounds__(threads)
    find_starts(uint32_t *start, const uint32_t *key, uint32_t count, int64_t rows) {
  int64_t row = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (row <= rows) start[row] = first_place(key, count, (uint32_t)row);
}

/* A row of the table from its places, by the threads of one y; N elements to an access. */
template <class T, int N>
__device__ __forceinline__ void sum_row(T *to, const T *dy, const uint32_t *place, uint32_t first,
                                        uint32_t last, int64_t d) {
  using C = compute_t<T>;
  using V = pack<T, N>;
  for (int64_t c = (int64_t)threadIdx.x * N; c < d; c += (int64_t)blockDim.x * N) {
    C sum[N], part[N];
    V result;
#pragma unroll
    for (int e = 0; e < N; e++) sum[e] = 0;
    for (uint32_t stretch = first; stretch < last; stretch += grad_stretch) {
      uint32_t end = last - stretch < grad_stretch ? last : stretch + grad_stretch;
#pragma unroll
      for (int e = 0; e < N; e++) part[e] = 0;
#pragma unroll 4
      for (uint32_t p = stretch; p < end; p++) {
        V v = *(const V *)(dy + place[p] * d + c);
#pragma unroll
        for (int e = 0; e < N; e++) part[e] += load(v.v[e]);
      }
#pragma unroll
      for (int e = 0; e < N; e++) sum[e] += part[e];
    }
#pragma unroll
    for (int e = 0; e < N; e++) result.v[e] = stored<T>::from(sum[e]);
    *(V *)(to + c) = result;
  }
}

template <class T, int N>
__global__ void __launch_bounds__(threads)
    sum_rows(T *dtable, const T *dy, const uint32_t *start, const uint32_t *place, int64_t rows,
             int64_t d) {
  const int64_t row = row_index();
  if (row < rows) sum_row<T, N>(dtable + row * d, dy, place, start[row], start[row + 1], d);
}

/* Rows that have places, of a table of zeros, each by the threads of the first of its keys. */
template <class T, int N>
__global__ void __launch_bounds__(threads)
    sum_rows_with_places(T *dtable, const T *dy, const uint32_t *key, const uint32_t *place,
                         int64_t count, int64_t rows, int64_t d) {
  const int64_t first = row_index();
  if (first >= count) return;
  const uint32_t row = key[first];
  if (row >= rows || (first > 0 && key[first - 1] == row)) return;
  const uint32_t last = first_place(key, (uint32_t)count, row + 1);
  sum_row<T, N>(dtable + row * d, dy, place, (uint32_t)first, last, d);
}

__global__ void __launch_bounds__(threads) write_zeros(uint4 *y, int64_t n) {
  const int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i < n) y[i] = make_uint4(0, 0, 0, 0);
}

/* Makes the table zeros, which all types write as bits of 0. */
tn_status clear_table(const tn_kernel_args *args) {
  const DLTensor *dtable = args->out[0];
  const int64_t bytes = cuda_size(dtable, 0, 2) * (dtable->dtype.bits / 8);
  if (bytes % 16 == 0 && is_aligned(dtable->data, 16))
    return launch(args, write_zeros, (unsigned)ceil_div(bytes / 16, threads), threads, 0,
                  (uint4 *)dtable->data, bytes / 16);
  const cudaError_t error =
      cudaMemsetAsync(dtable->data, 0, (size_t)bytes, (cudaStream_t)args->native_stream);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, "cudaMemsetAsync");
}

/* The sorted places, and where rows begin among them. */
struct grad_scratch {
  cuda_radix sort;
  uint32_t *start;
  int bits;
  size_t bytes;
};

/* Whether most rows have no place: what is not 0 is written over zeros then, and no row is asked
 * where its places begin. */
bool has_few_places(const tn_kernel_args *args) {
  const DLTensor *index = args->in[1];
  return 2 * cuda_size(index, 0, index->ndim) <= args->out[0]->shape[0];
}

/* Lays the scratch memory out; `memory` may be NULL to ask for its size. */
tn_status scratch_of(const tn_kernel_args *args, int64_t count, int64_t rows, void *memory,
                     grad_scratch *s) {
  s->bits = cuda_radix_bits((uint64_t)rows + 1);
  tn_status status = cuda_radix_of(args, memory, count, s->bits, true, &s->sort);
  s->start = (uint32_t *)((char *)memory + s->sort.bytes);
  s->bytes = s->sort.bytes;
  if (!has_few_places(args)) s->bytes += (size_t)(rows + 1) * sizeof(uint32_t);
  return status;
}

template <class T, int N> tn_status run_sum_as(const tn_kernel_args *args, const grad_scratch &s) {
  const DLTensor *dtable = args->out[0], *index = args->in[1];
  const int64_t rows = dtable->shape[0], d = dtable->shape[1];
  const dim3 block = row_block(d / N);
  if (has_few_places(args)) {
    const int64_t count = cuda_size(index, 0, index->ndim);
    const tn_status status = clear_table(args);
    if (status != TN_OK || count == 0) return status;
    return launch(args, sum_rows_with_places<T, N>, row_blocks(count, block), block, 0,
                  (T *)dtable->data, (const T *)args->in[0]->data, (const uint32_t *)s.sort.key[0],
                  (const uint32_t *)s.sort.item[0], count, rows, d);
  }
  return launch(args, sum_rows<T, N>, row_blocks(rows, block), block, 0, (T *)dtable->data,
                (const T *)args->in[0]->data, (const uint32_t *)s.start,
                (const uint32_t *)s.sort.item[0], rows, d);
}

/* Whether all rows begin where 16 bytes do. */
template <class T> bool has_wide_rows(const tn_kernel_args *args) {
  return args->out[0]->shape[1] % (16 / (int)sizeof(T)) == 0 &&
         is_aligned(args->out[0]->data, 16) && is_aligned(args->in[0]->data, 16);
}

template <class T> tn_status run_sum(const tn_kernel_args *args, const grad_scratch &s) {
  constexpr int N = 16 / (int)sizeof(T);
  const bool wide = has_wide_rows<T>(args);
  return wide ? run_sum_as<T, N>(args, s) : run_sum_as<T, 1>(args, s);
}

bool counts_from_end(const tn_embedding_grad_attrs *attrs) {
  return TN_FIELD_OR(attrs, tn_embedding_grad_attrs, from_end, 0) != 0;
}

tn_status sort_places(const tn_kernel_args *args, grad_scratch *s, int64_t count, int64_t rows) {
  const DLTensor *index = args->in[1];
  const tn_embedding_grad_attrs *attrs = (const tn_embedding_grad_attrs *)args->attrs;
  int64_t skip = attrs->padding_index;
  bool from_end = counts_from_end(attrs);
  unsigned blocks = (unsigned)ceil_div(count, threads);
  uint32_t *key = (uint32_t *)s->sort.key[0], *place = s->sort.item[0];
  tn_status status = TN_OK;
  if (count && index->dtype.bits == 32)
    status = launch(args, list_places<int32_t>, blocks, threads, 0, key, place,
                    (const int32_t *)index->data, count, rows, skip, from_end);
  else if (count)
    status = launch(args, list_places<int64_t>, blocks, threads, 0, key, place,
                    (const int64_t *)index->data, count, rows, skip, from_end);
  if (status == TN_OK) status = cuda_radix_sort(args, &s->sort, s->bits);
  if (status != TN_OK || has_few_places(args)) return status;
  return launch(args, find_starts, (unsigned)ceil_div(rows + 1, threads), threads, 0, s->start,
                (const uint32_t *)s->sort.key[0], (uint32_t)count, rows);
}

/* ------------------------------------------------- gradient of few places --- */

/* So few that each row's threads look at all of them, some at a time: one launch in place of a
 * sort's. A table of so many elements is faster written as zeros first. */
constexpr int few_places = 64, few_at_once = 16;
constexpr int64_t few_table = (int64_t)1 << 22;

/* Which of the keys from here on are the row's. */
__device__ __forceinline__ uint32_t matches_of(const uint32_t *key, uint32_t row) {
  uint32_t found = 0;
#pragma unroll
  for (int i = 0; i < few_at_once; i += 4) {
    const uint4 k = *(const uint4 *)(key + i);
    found |= (uint32_t)(k.x == row) << i | (uint32_t)(k.y == row) << (i + 1) |
             (uint32_t)(k.z == row) << (i + 2) | (uint32_t)(k.w == row) << (i + 3);
  }
  return found;
}

/* As sum_row, and to the bit the same. */
template <class T, int N>
__device__ __forceinline__ void sum_row_of_few(T *to, const T *dy, const uint32_t *key, int count,
                                               uint32_t row, int64_t d) {
  using C = compute_t<T>;
  using V = pack<T, N>;
  for (int64_t c = (int64_t)threadIdx.x * N; c < d; c += (int64_t)blockDim.x * N) {
    C sum[N], part[N];
    V result;
    uint32_t terms = 0;
#pragma unroll
    for (int e = 0; e < N; e++) sum[e] = part[e] = 0;
    for (int first = 0; first < count; first += few_at_once) {
      for (uint32_t left = matches_of(key + first, row); left; left &= left - 1) {
        const V v = *(const V *)(dy + (first + __ffs((int)left) - 1) * d + c);
#pragma unroll
        for (int e = 0; e < N; e++) part[e] += load(v.v[e]);
        if (++terms % grad_stretch != 0) continue;
#pragma unroll
        for (int e = 0; e < N; e++) {
          sum[e] += part[e];
          part[e] = 0;
        }
      }
    }
#pragma unroll
    for (int e = 0; e < N; e++) result.v[e] = stored<T>::from(sum[e] + part[e]);
    *(V *)(to + c) = result;
  }
}

/* Every row of the table, or, where that is zeros already, those of a first place. */
template <class T, int N, class I>
__global__ void __launch_bounds__(threads)
    sum_rows_of_few(T *dtable, const T *dy, const I *index, int count, int64_t rows, int64_t d,
                    int64_t skip, bool from_end, bool zeros) {
  __shared__ alignas(16) uint32_t key[few_places];
  const int padded = (count + few_at_once - 1) / few_at_once * few_at_once;
  for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < padded; i += threads)
    key[i] = i < count ? key_of(index[i], rows, skip, from_end) : (uint32_t)rows;
  __syncthreads();
  int64_t row = row_index();
  if (zeros) {
    const int64_t place = row;
    if (place >= count) return;
    row = key[place];
    for (int i = 0; i < (int)place; i++)
      if (key[i] == (uint32_t)row) return;
  }
  if (row < rows) sum_row_of_few<T, N>(dtable + row * d, dy, key, padded, (uint32_t)row, d);
}

template <class T, int N, class I> tn_status run_few_as(const tn_kernel_args *args) {
  const DLTensor *index = args->in[1], *dtable = args->out[0];
  const tn_embedding_grad_attrs *attrs = (const tn_embedding_grad_attrs *)args->attrs;
  const int64_t rows = dtable->shape[0], d = dtable->shape[1];
  const int64_t count = cuda_size(index, 0, index->ndim);
  const bool zeros = rows * d >= few_table && has_few_places(args);
  const dim3 block = row_block(d / N);
  tn_status status = zeros ? clear_table(args) : TN_OK;
  if (status != TN_OK || (zeros && count == 0)) return status;
  return launch(args, sum_rows_of_few<T, N, I>, row_blocks(zeros ? count : rows, block), block, 0,
                (T *)dtable->data, (const T *)args->in[0]->data, (const I *)index->data, (int)count,
                rows, d, attrs->padding_index, counts_from_end(attrs), zeros);
}

/* ------------------------------------------------------------------ rope --- */

struct rope_params {
  int64_t vectors, s, heads, d, half, rows;
  bool interleaved;
  float sign;
};

/* Threads along x take one pair each, or one element behind the pairs. */
template <class T, class W, class I>
__global__ void __launch_bounds__(threads)
    turn(T *y, const T *x, const W *cosine, const W *sine, const I *positions, rope_params p) {
  int64_t v = row_index();
  if (v >= p.vectors) return;
  int64_t i = v % p.s, b = v / p.s / p.heads, row = positions ? (int64_t)positions[b * p.s + i] : i;
  bool inside = row >= 0 && row < p.rows;
  x += v * p.d;
  y += v * p.d;
  for (int64_t c = threadIdx.x; c < p.d - p.half; c += blockDim.x) {
    if (c >= p.half) {
      y[c + p.half] = inside ? x[c + p.half] : stored<T>::from((W)NAN);
      continue;
    }
    int64_t first = p.interleaved ? 2 * c : c, second = p.interleaved ? first + 1 : c + p.half;
    W re = load(x[first]), im = load(x[second]);
    W cs = inside ? cosine[row * p.half + c] : (W)NAN;
    W sn = inside ? (W)p.sign * sine[row * p.half + c] : (W)NAN;
    y[first] = stored<T>::from(re * cs - im * sn);
    y[second] = stored<T>::from(im * cs + re * sn);
  }
}

/* N pairs to a thread, where pairs are all of a vector, lie half a vector apart and fill whole
 * accesses. */
struct rope_walk {
  uint32_t count;                /* threads */
  cuda_divisor chunks, s, heads; /* chunks: threads of a vector */
};

template <class T, class W, class I, int N>
__global__ void __launch_bounds__(threads)
    turn_wide(T *y, const T *x, const W *cosine, const W *sine, const I *positions, rope_params p,
              rope_walk w) {
  const uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= w.count) return;
  const uint32_t v = quotient(i, w.chunks), c = (i - v * w.chunks.value) * N;
  const uint32_t line = quotient(v, w.s), place = v - line * w.s.value;
  const int64_t b = quotient(line, w.heads);
  const int64_t row = positions ? (int64_t)positions[b * p.s + place] : (int64_t)place;
  const bool inside = row >= 0 && row < p.rows;
  x += (int64_t)v * p.d + c;
  y += (int64_t)v * p.d + c;
  const pack<T, N> first = *(const pack<T, N> *)x, second = *(const pack<T, N> *)(x + p.half);
  pack<W, N> cs, sn;
  if (inside) {
    cs = *(const pack<W, N> *)(cosine + row * p.half + c);
    sn = *(const pack<W, N> *)(sine + row * p.half + c);
  } else {
#pragma unroll
    for (int k = 0; k < N; k++) cs.v[k] = sn.v[k] = (W)NAN;
  }
  pack<T, N> a, e;
#pragma unroll
  for (int k = 0; k < N; k++) {
    const W re = load(first.v[k]), im = load(second.v[k]), turned = (W)p.sign * sn.v[k];
    a.v[k] = stored<T>::from(re * cs.v[k] - im * turned);
    e.v[k] = stored<T>::from(im * cs.v[k] + re * turned);
  }
  *(pack<T, N> *)y = a;
  *(pack<T, N> *)(y + p.half) = e;
}

template <class T, class W, class I>
tn_status run_turn(const tn_kernel_args *args, const rope_params &p, const I *positions) {
  constexpr int N = 16 / (int)sizeof(T);
  T *y = (T *)args->out[0]->data;
  const T *x = (const T *)args->in[0]->data;
  const W *cosine = (const W *)args->in[1]->data, *sine = (const W *)args->in[2]->data;
  const bool fits = !p.interleaved && p.d == 2 * p.half && p.half % N == 0 && is_aligned(x, 16) &&
                    is_aligned(y, 16) && is_aligned(cosine, sizeof(W) * N) &&
                    is_aligned(sine, sizeof(W) * N) && p.vectors * p.d <= CUDA_MAX_INDEX;
  if (fits) {
    const int64_t chunks = p.half / N;
    const rope_walk w = {(uint32_t)(p.vectors * chunks), cuda_divisor_of((uint32_t)chunks),
                         cuda_divisor_of((uint32_t)p.s), cuda_divisor_of((uint32_t)p.heads)};
    return launch(args, turn_wide<T, W, I, N>, (unsigned)ceil_div(w.count, threads), threads, 0, y,
                  x, cosine, sine, positions, p, w);
  }
  dim3 block = row_block(p.d - p.half);
  return launch(args, turn<T, W, I>, row_blocks(p.vectors, block), block, 0, y, x, cosine, sine,
                positions, p);
}

template <class T, class W> tn_status run_rope(const tn_kernel_args *args) {
  const tn_rope_attrs *attrs = (const tn_rope_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *cosine = args->in[1], *positions = args->in[3];
  rope_params p = {x->shape[0] * x->shape[1] * x->shape[2],
                   x->shape[2],
                   x->shape[1],
                   x->shape[3],
                   cosine->shape[1],
                   cosine->shape[0],
                   attrs->interleaved != 0,
                   attrs->inverse ? -1.f : 1.f};
  if (p.vectors * p.d == 0) return TN_OK;
  if (positions && positions->dtype.bits == 64)
    return run_turn<T, W, int64_t>(args, p, (const int64_t *)positions->data);
  return run_turn<T, W, int32_t>(args, p, positions ? (const int32_t *)positions->data : NULL);
}

} // namespace

tn_status cuda_run_embedding(const tn_kernel_args *args) {
  const DLTensor *table = args->in[0], *y = args->out[0];
  int64_t bytes = table->shape[1] * ((table->dtype.bits + 7) / 8);
  if (cuda_size(y, 0, y->ndim) == 0) return TN_OK;
  uint64_t mixed =
      (uint64_t)bytes | (uint64_t)(uintptr_t)table->data | (uint64_t)(uintptr_t)y->data;
  if (mixed % 16 == 0) return run_take<uint4>(args, bytes / 16);
  if (mixed % 4 == 0) return run_take<uint32_t>(args, bytes / 4);
  return mixed % 2 == 0 ? run_take<uint16_t>(args, bytes / 2) : run_take<uint8_t>(args, bytes);
}

bool cuda_embedding_grad_supports(const tn_kernel_args *args) {
  const DLTensor *index = args->in[1];
  return cuda_size(index, 0, index->ndim) <= CUDA_MAX_INDEX &&
         args->out[0]->shape[0] < CUDA_MAX_INDEX;
}

bool cuda_embedding_grad_few_supports(const tn_kernel_args *args) {
  const DLTensor *index = args->in[1];
  return cuda_size(index, 0, index->ndim) <= few_places && args->out[0]->shape[0] < CUDA_MAX_INDEX;
}

tn_status cuda_run_embedding_grad_few(const tn_kernel_args *args) {
  const DLTensor *dtable = args->out[0];
  if (cuda_size(dtable, 0, 2) == 0) return TN_OK;
  return for_float(args, dtable, [&](auto t) {
    using T = decltype(t);
    constexpr int N = 16 / (int)sizeof(T);
    const bool wide = has_wide_rows<T>(args);
    if (args->in[1]->dtype.bits == 32)
      return wide ? run_few_as<T, N, int32_t>(args) : run_few_as<T, 1, int32_t>(args);
    return wide ? run_few_as<T, N, int64_t>(args) : run_few_as<T, 1, int64_t>(args);
  });
}

tn_status cuda_embedding_grad_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *index = args->in[1];
  grad_scratch s;
  tn_status status =
      scratch_of(args, cuda_size(index, 0, index->ndim), args->out[0]->shape[0], NULL, &s);
  *bytes = status == TN_OK ? s.bytes : 0;
  return status;
}

tn_status cuda_run_embedding_grad(const tn_kernel_args *args) {
  const DLTensor *index = args->in[1], *dtable = args->out[0];
  int64_t count = cuda_size(index, 0, index->ndim), rows = dtable->shape[0];
  grad_scratch s;
  if (rows * dtable->shape[1] == 0) return TN_OK;
  tn_status status = scratch_of(args, count, rows, args->workspace, &s);
  if (status == TN_OK) status = sort_places(args, &s, count, rows);
  if (status != TN_OK) return status;
  return for_float(args, dtable, [&](auto t) { return run_sum<decltype(t)>(args, s); });
}

tn_status cuda_run_rope(const tn_kernel_args *args) {
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    return run_rope<T, compute_t<T>>(args);
  });
}
