/*
 * scatter, scatter_add, _mul, _min and _max, index_add, and scatter_nd with each of these: the
 * same bits every time. A place of y is
 * the number of an element of it; an update outside its axis has none.
 *
 *   scatter      every place keeps the number of the last update to it (a maximum, so the
 *                order of the threads does not matter), which then alone writes.
 *   extremes     a maximum needs no order; NaN becomes one NaN and +0 beats -0, so that
 *                the bits need none either.
 *   sums         integers wrap, so their order does not matter either. Floats are sorted by
 *                place, stably, and each place is summed in the order of its updates.
 */
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/index/slices.cuh"

namespace {

/* Where updates go: the index's shape over y, the axis of y held at 0. */
struct scattering {
  indexes index;
  uint32_t n;                /* updates */
  int64_t step;              /* of y along the axis */
  uint64_t places;           /* elements of y */
  int shared;                /* 1: the index has the axis alone */
  cuda_divisor inner, count; /* of updates behind the axis, along it */
  int rank;
  cuda_divisor size[TN_MAX_RANK];
  int64_t stride[TN_MAX_RANK];
};

/* The place of update i; -1 for none. */
__device__ __forceinline__ int64_t place_of(const scattering &s, uint32_t i) {
  uint32_t which = i, rest = i;
  if (s.shared) {
    which = quotient(i, s.inner);
    which -= quotient(which, s.count) * s.count.value;
  }
  int64_t k = s.index.at(which), place = k * s.step;
  if (k < 0) return -1;
#pragma unroll 1
  for (int d = s.rank - 1; d >= 0; d--) {
    uint32_t q = quotient(rest, s.size[d]);
    place += (int64_t)(rest - q * s.size[d].value) * s.stride[d];
    rest = q;
  }
  return place;
}

scattering scattering_of(const tn_kernel_args *args, bool shared) {
  const DLTensor *updates = args->in[0], *index = args->in[1], *y = args->out[0];
  int64_t given = ((const tn_gather_attrs *)args->attrs)->axis;
  int axis = (int)(given < 0 ? given + y->ndim : given);
  cuda_shape shape = {};
  shape.rank = y->ndim;
  for (int d = 0; d < y->ndim; d++) {
    shape.size[d] = updates->shape[d];
    shape.stride[0][d] = d == axis ? 0 : y->strides[d];
  }
  scattering s = {indexes_of(index, y->shape[axis])};
  s.n = (uint32_t)cuda_size(updates, 0, updates->ndim);
  if (s.n == 0) return s; /* sizes may be anything */
  cuda_shape_simplify(&shape, 1, false);
  s.step = y->strides[axis];
  s.places = (uint64_t)cuda_size(y, 0, y->ndim);
  s.shared = shared;
  s.inner = cuda_divisor_of((uint32_t)cuda_size(updates, axis + 1, updates->ndim));
  s.count = cuda_divisor_of((uint32_t)updates->shape[axis]);
  s.rank = shape.rank;
  for (int d = 0; d < s.rank; d++) {
    s.size[d] = cuda_divisor_of((uint32_t)shape.size[d]);
    s.stride[d] = shape.stride[0][d];
  }
  return s;
}

/* --- scatter: the last update to a place writes --- */

__global__ void __launch_bounds__(place_threads)
    forget(uint32_t *last, const __grid_constant__ scattering s) {
  uint32_t i = thread_index<uint32_t>();
  int64_t place = i < s.n ? place_of(s, i) : -1;
  if (place >= 0) last[place] = 0;
}

__global__ void __launch_bounds__(place_threads)
    remember(uint32_t *last, const __grid_constant__ scattering s) {
  uint32_t i = thread_index<uint32_t>();
  int64_t place = i < s.n ? place_of(s, i) : -1;
  if (place >= 0) atomicMax(&last[place], i);
}

template <class U>
__global__ void __launch_bounds__(place_threads)
    put(U *y, const U *x, const uint32_t *last, const __grid_constant__ scattering s) {
  uint32_t i = thread_index<uint32_t>();
  int64_t place = i < s.n ? place_of(s, i) : -1;
  if (place >= 0 && last[place] == i) y[place] = x[i];
}

template <class U> tn_status run_put(const tn_kernel_args *args, const scattering &s) {
  return launch(args, put<U>, place_blocks(s.n), place_threads, 0, (U *)args->out[0]->data,
                (const U *)args->in[0]->data, (const uint32_t *)args->workspace, s);
}

/* --- scatter_max and sums of integers: atomic updates --- */

/* Replaces one element by f(it, x), through the 4- or 8-byte word that it lies in. */
template <class T, class F> __device__ __forceinline__ void update_word(T *y, T x, F f) {
  using W = typename std::conditional<sizeof(T) == 8, unsigned long long, unsigned int>::type;
  uintptr_t at = (uintptr_t)y;
  W *word = (W *)(at & ~(uintptr_t)(sizeof(W) - 1));
  int shift = (int)(at & (sizeof(W) - 1)) * 8;
  W mask = (sizeof(T) == sizeof(W) ? ~(W)0 : (((W)1 << (8 * sizeof(T) % 64)) - 1)) << shift;
  W old = *(volatile W *)word;
  for (;;) {
    union {
      W bits;
      T value;
    } element, next;
    element.bits = (old & mask) >> shift;
    next.bits = 0;
    if (!f(element.value, x, &next.value)) return;
    W wanted = (old & ~mask) | (next.bits << shift);
    W seen = atomicCAS(word, old, wanted);
    if (seen == old) return;
    old = seen;
  }
}

template <class C> __device__ __forceinline__ bool is_nan(C x) { return x != x; }
__device__ __forceinline__ bool is_minus(float x) { return signbit(x); }
__device__ __forceinline__ bool is_minus(double x) { return signbit(x); }
template <class C> __device__ __forceinline__ bool is_minus(C) { return false; }

template <class T> struct quiet_nan {
  static __device__ __forceinline__ T of(T x) { return x; }
};
template <> struct quiet_nan<float> {
  static __device__ __forceinline__ float of(float) { return __int_as_float(0x7fc00000); }
};
template <> struct quiet_nan<double> {
  static __device__ __forceinline__ double of(double) {
    return __longlong_as_double(0x7ff8000000000000ll);
  }
};
template <> struct quiet_nan<half_t> {
  static __device__ __forceinline__ half_t of(half_t) { return {0x7e00}; }
};
template <> struct quiet_nan<bfloat_t> {
  static __device__ __forceinline__ bfloat_t of(bfloat_t) { return {0x7fc0}; }
};

/* f of update_word: whether `next` differs from the element that is there. */
template <class T> struct larger {
  __device__ __forceinline__ bool operator()(T there, T x, T *next) const {
    compute_t<T> a = load(there), b = load(x);
    if (is_nan(a)) return false;
    *next = is_nan(b) ? quiet_nan<T>::of(x) : x;
    return is_nan(b) || b > a || (b == a && is_minus(a) && !is_minus(b));
  }
};
template <class T> struct smaller {
  __device__ __forceinline__ bool operator()(T there, T x, T *next) const {
    compute_t<T> a = load(there), b = load(x);
    if (is_nan(a)) return false;
    *next = is_nan(b) ? quiet_nan<T>::of(x) : x;
    return is_nan(b) || b < a || (b == a && is_minus(b) && !is_minus(a));
  }
};
template <class T> struct times {
  __device__ __forceinline__ bool operator()(T there, T x, T *next) const {
    *next = (T)((uint64_t)there * (uint64_t)x);
    return x != 1;
  }
};
template <class T> struct plus {
  __device__ __forceinline__ bool operator()(T there, T x, T *next) const {
    *next = (T)((uint64_t)there + (uint64_t)x);
    return x != 0;
  }
};

template <class T, class F>
__global__ void __launch_bounds__(place_threads)
    update(T *y, const T *x, F f, const __grid_constant__ scattering s) {
  uint32_t i = thread_index<uint32_t>();
  int64_t place = i < s.n ? place_of(s, i) : -1;
  if (place >= 0) update_word(y + place, x[i], f);
}

template <class T, class F> tn_status run_update(const tn_kernel_args *args, const scattering &s) {
  return launch(args, update<T, F>, place_blocks(s.n), place_threads, 0, (T *)args->out[0]->data,
                (const T *)args->in[0]->data, F{}, s);
}

template <template <class> class F>
tn_status run_extreme(const tn_kernel_args *args, const scattering &s) {
  if (s.n == 0 || s.places == 0) return TN_OK;
  return for_number(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    return run_update<T, F<T>>(args, s);
  });
}

/* --- sums of floats: sorted by place --- */

/* Keys are places for scatter_add, indexes along the axis for index_add. */
struct sums {
  uint64_t *key[2];
  uint32_t *item[2];
  void *temp;
  size_t temp_bytes, bytes;
  uint32_t n;
  int end_bit;
};

size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* The sort's memory, in one sequence of parts from `base` on. */
tn_status sums_of(const tn_kernel_args *args, char *base, uint32_t n, uint64_t keys, sums *s) {
  size_t key_bytes = padded(8 * (size_t)n), item_bytes = padded(4 * (size_t)n), at = 0;
  for (int k = 0; k < 2; k++, at += key_bytes) s->key[k] = (uint64_t *)(base + at);
  for (int k = 0; k < 2; k++, at += item_bytes) s->item[k] = (uint32_t *)(base + at);
  s->n = n;
  s->end_bit = 1;
  while (s->end_bit < 64 && keys >> s->end_bit) s->end_bit++;
  cub::DoubleBuffer<uint64_t> key(NULL, NULL);
  cub::DoubleBuffer<uint32_t> item(NULL, NULL);
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  s->temp_bytes = 0;
  cudaError_t error =
      cub::DeviceRadixSort::SortPairs(NULL, s->temp_bytes, key, item, n, 0, s->end_bit);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cub: size of scratch");
  s->temp = base + at;
  s->bytes = at + padded(s->temp_bytes);
  return TN_OK;
}

/* Sorts; key[0] and item[0] hold the result. */
tn_status sort_sums(const tn_kernel_args *args, sums *s) {
  cub::DoubleBuffer<uint64_t> key(s->key[0], s->key[1]);
  cub::DoubleBuffer<uint32_t> item(s->item[0], s->item[1]);
  cudaError_t error = cub::DeviceRadixSort::SortPairs(
      s->temp, s->temp_bytes, key, item, s->n, 0, s->end_bit, (cudaStream_t)args->native_stream);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cub: radix sort");
  s->key[0] = key.Current();
  s->item[0] = item.Current();
  return TN_OK;
}

__global__ void __launch_bounds__(place_threads)
    place_keys(uint64_t *key, uint32_t *item, const __grid_constant__ scattering s) {
  uint32_t i = thread_index<uint32_t>();
  if (i >= s.n) return;
  int64_t place = place_of(s, i);
  key[i] = place < 0 ? s.places : (uint64_t)place;
  item[i] = i;
}

__global__ void __launch_bounds__(place_threads)
    index_keys(uint64_t *key, uint32_t *item, uint32_t n, const __grid_constant__ indexes index) {
  uint32_t i = thread_index<uint32_t>();
  if (i >= n) return;
  int64_t k = index.at(i);
  key[i] = k < 0 ? (uint64_t)index.n : (uint64_t)k;
  item[i] = i;
}

template <bool product, class C> __device__ __forceinline__ C joined(C a, C b) {
  return product ? a * b : a + b;
}

/* The thread at the first update of a place sums them all, or multiplies. */
template <class T, bool product>
__global__ void __launch_bounds__(place_threads)
    add_places(T *y, const T *x, const uint64_t *key, const uint32_t *item, uint32_t n,
               uint64_t places) {
  uint32_t i = thread_index<uint32_t>();
  if (i >= n) return;
  uint64_t place = key[i];
  if (place >= places || (i > 0 && key[i - 1] == place)) return;
  compute_t<T> sum = load(y[place]);
  do sum = joined<product>(sum, (compute_t<T>)load(x[item[i]]));
  while (++i < n && key[i] == place);
  y[place] = stored<T>::from(sum);
}

/* y as [outer, n, inner], updates as [outer, count, inner]: one row of a block's threads
 * at the first update of an index sums that index's rows, or multiplies them. */
template <class T, bool product>
__global__ void __launch_bounds__(place_threads)
    add_rows(T *y, const T *x, const uint64_t *key, const uint32_t *item, uint32_t count,
             uint64_t n, int64_t inner, int64_t outer) {
  uint32_t first = blockIdx.x;
  uint64_t place = key[first];
  if (place >= n || (first > 0 && key[first - 1] == place)) return;
  int64_t all = inner * outer;
  for (int64_t j = (int64_t)blockIdx.y * place_threads + threadIdx.x; j < all;
       j += (int64_t)gridDim.y * place_threads) {
    int64_t o = outer == 1 ? 0 : j / inner, at = j - o * inner;
    T *to = y + (o * (int64_t)n + (int64_t)place) * inner + at;
    const T *from = x + o * count * inner + at;
    compute_t<T> sum = load(*to);
    uint32_t i = first;
    do sum = joined<product>(sum, (compute_t<T>)load(from[(int64_t)item[i] * inner]));
    while (++i < count && key[i] == place);
    *to = stored<T>::from(sum);
  }
}

template <class T, bool product>
tn_status run_sum(const tn_kernel_args *args, const scattering &s) {
  sums m;
  tn_status status = sums_of(args, (char *)args->workspace, s.n, s.places, &m);
  if (status == TN_OK)
    status = launch(args, place_keys, place_blocks(s.n), place_threads, 0, m.key[0], m.item[0], s);
  if (status == TN_OK) status = sort_sums(args, &m);
  if (status != TN_OK) return status;
  return launch(args, add_places<T, product>, place_blocks(s.n), place_threads, 0,
                (T *)args->out[0]->data, (const T *)args->in[0]->data, (const uint64_t *)m.key[0],
                (const uint32_t *)m.item[0], s.n, s.places);
}

template <class T, bool product>
tn_status run_row_sum(const tn_kernel_args *args, const scattering &s) {
  const DLTensor *y = args->out[0];
  uint32_t count = s.count.value;
  int64_t inner = s.inner.value, outer = s.n / ((int64_t)count * inner);
  sums m;
  tn_status status = sums_of(args, (char *)args->workspace, count, (uint64_t)s.index.n, &m);
  if (status == TN_OK)
    status = launch(args, index_keys, place_blocks(count), place_threads, 0, m.key[0], m.item[0],
                    count, s.index);
  if (status == TN_OK) status = sort_sums(args, &m);
  if (status != TN_OK) return status;
  int64_t across = ceil_div(inner * outer, place_threads);
  return launch(args, add_rows<T, product>,
                dim3(count, (unsigned)(across < 65535 ? across : 65535)), place_threads, 0,
                (T *)y->data, (const T *)args->in[0]->data, (const uint64_t *)m.key[0],
                (const uint32_t *)m.item[0], count, (uint64_t)s.index.n, inner, outer);
}

/* Whether whole rows follow each index, so that a block can sum them side by side. */
bool has_rows(const scattering &s) { return s.shared && s.n / s.count.value >= 32; }

template <bool product> tn_status run_fold(const tn_kernel_args *args, bool shared) {
  scattering s = scattering_of(args, shared);
  if (s.n == 0 || s.places == 0) return TN_OK;
  bool rows = has_rows(s);
  return for_number(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T>)
      return run_update<T, std::conditional_t<product, times<T>, plus<T>>>(args, s);
    else
      return rows ? run_row_sum<T, product>(args, s) : run_sum<T, product>(args, s);
  });
}

tn_status sum_workspace(const tn_kernel_args *args, bool shared, size_t *bytes) {
  *bytes = 0;
  scattering s = scattering_of(args, shared);
  sums m;
  if (s.n == 0 || s.places == 0 || !(TN_SET(cuda_dtype(args->out[0])) & TN_SET_FLOAT)) return TN_OK;
  bool rows = has_rows(s);
  tn_status status =
      sums_of(args, NULL, rows ? s.count.value : s.n, rows ? (uint64_t)s.index.n : s.places, &m);
  if (status == TN_OK) *bytes = m.bytes;
  return status;
}

tn_status run_set(const tn_kernel_args *args, bool shared) {
  scattering s = scattering_of(args, shared);
  uint32_t *last = (uint32_t *)args->workspace;
  if (s.n == 0 || s.places == 0) return TN_OK;
  tn_status status = launch(args, forget, place_blocks(s.n), place_threads, 0, last, s);
  if (status == TN_OK)
    status = launch(args, remember, place_blocks(s.n), place_threads, 0, last, s);
  if (status != TN_OK) return status;
  return for_size(args->out[0], [&](auto t) { return run_put<decltype(t)>(args, s); });
}

/* --- by indexes of several axes --- */

/* Makes the numbers of rows, then runs `fn` on the call that has them as its index. */
template <class Fn> tn_status run_slices(const tn_kernel_args *args, Fn fn) {
  cuda_slices s;
  cuda_slices_begin(args, args->in[0], args->out[0], &s);
  if (cuda_size(&s.part, 0, 2) == 0 || cuda_size(&s.data, 0, 2) == 0) return TN_OK;
  tn_status status = cuda_slices_number(args, args->out[0], &s);
  return status == TN_OK ? fn(&s.args) : status;
}

template <class Fn> tn_status slices_workspace(const tn_kernel_args *args, size_t *bytes, Fn fn) {
  cuda_slices s;
  cuda_slices_begin(args, args->in[0], args->out[0], &s);
  *bytes = 0;
  tn_status status = fn(&s.args, bytes);
  *bytes += cuda_slices_bytes(&s);
  return status;
}

} // namespace

bool cuda_scatter_supports(const tn_kernel_args *args) {
  return cuda_size(args->in[0], 0, args->in[0]->ndim) <= CUDA_MAX_INDEX;
}

tn_status cuda_scatter_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = (size_t)cuda_size(args->out[0], 0, args->out[0]->ndim) * sizeof(uint32_t);
  return TN_OK;
}

tn_status cuda_run_scatter(const tn_kernel_args *args) { return run_set(args, false); }
tn_status cuda_run_scatter_max(const tn_kernel_args *args) {
  return run_extreme<larger>(args, scattering_of(args, false));
}
tn_status cuda_run_scatter_min(const tn_kernel_args *args) {
  return run_extreme<smaller>(args, scattering_of(args, false));
}

tn_status cuda_scatter_add_workspace(const tn_kernel_args *args, size_t *bytes) {
  return sum_workspace(args, false, bytes);
}
tn_status cuda_index_add_workspace(const tn_kernel_args *args, size_t *bytes) {
  return sum_workspace(args, true, bytes);
}
tn_status cuda_run_scatter_add(const tn_kernel_args *args) { return run_fold<false>(args, false); }
tn_status cuda_run_index_add(const tn_kernel_args *args) { return run_fold<false>(args, true); }
tn_status cuda_run_scatter_mul(const tn_kernel_args *args) { return run_fold<true>(args, false); }

tn_status cuda_scatter_nd_workspace(const tn_kernel_args *args, size_t *bytes) {
  return slices_workspace(args, bytes, cuda_scatter_workspace);
}
tn_status cuda_scatter_nd_add_workspace(const tn_kernel_args *args, size_t *bytes) {
  return slices_workspace(args, bytes, cuda_index_add_workspace);
}
tn_status cuda_scatter_nd_max_workspace(const tn_kernel_args *args, size_t *bytes) {
  return slices_workspace(args, bytes,
                          [](const tn_kernel_args *, size_t *) { return (tn_status)TN_OK; });
}
tn_status cuda_run_scatter_nd(const tn_kernel_args *args) {
  return run_slices(args, [](const tn_kernel_args *call) { return run_set(call, true); });
}
tn_status cuda_run_scatter_nd_add(const tn_kernel_args *args) {
  return run_slices(args, [](const tn_kernel_args *call) { return run_fold<false>(call, true); });
}
tn_status cuda_run_scatter_nd_mul(const tn_kernel_args *args) {
  return run_slices(args, [](const tn_kernel_args *call) { return run_fold<true>(call, true); });
}
tn_status cuda_run_scatter_nd_min(const tn_kernel_args *args) {
  return run_slices(args, [](const tn_kernel_args *call) {
    return run_extreme<smaller>(call, scattering_of(call, true));
  });
}
tn_status cuda_run_scatter_nd_max(const tn_kernel_args *args) {
  return run_slices(args, [](const tn_kernel_args *call) {
    return run_extreme<larger>(call, scattering_of(call, true));
  });
}
