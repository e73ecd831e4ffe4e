/*
 * scatter_add, scatter_mul, index_add, and scatter_nd with these. Integers wrap, so that updates
 * may come in any order. Floats have two rows each:
 *
 *   the row of the operator's name sorts updates by place, stably, and sums each place in the order
 *   of its updates: the same bits every time;
 *   the `atomic` row, which promises no order, updates each place as threads come; places of 16
 *   bits are floats in workspace meanwhile, those of 32 bits doubles where there are many updates
 *   to each, and rounded once.
 */
#include "kernels/cuda/index/scatter.cuh"

namespace {

template <class T> struct times {
  __device__ __forceinline__ bool operator()(T there, T x, T *next) const {
    *next = (T)((uint64_t)there * (uint64_t)x);
    return x != 1;
  }
  __device__ __forceinline__ void put(T *y, T x) const { update_word(y, x, *this); }
};
template <class T> struct plus {
  __device__ __forceinline__ bool operator()(T there, T x, T *next) const {
    *next = (T)((uint64_t)there + (uint64_t)x);
    return x != 0;
  }
  __device__ __forceinline__ void put(T *y, T x) const { update_word(y, x, *this); }
};
template <> struct plus<uint32_t> {
  __device__ __forceinline__ void put(uint32_t *y, uint32_t x) const { atomicAdd(y, x); }
};
template <> struct plus<unsigned long long> {
  __device__ __forceinline__ void put(unsigned long long *y, unsigned long long x) const {
    atomicAdd(y, x);
  }
};

template <class T, class F> tn_status run_update(const tn_kernel_args *args, const scattering &s) {
  return launch(args, update<T, T, F>, strips_blocks(s.walk), place_threads, 0,
                (T *)args->out[0]->data, (const T *)args->in[0]->data, F{}, s);
}

/* --- floats, sorted by place --- */

template <bool product, class C> __device__ __forceinline__ C joined(C a, C b) {
  return product ? a * b : a + b;
}

/* Updates of a place that are joined in the type computed in: those behind these are in double, for
 * an error would grow with their number. */
enum { near_terms = 16 };

/* The thread at the first update of a place sums them all, or multiplies. */
template <class T, bool product>
__global__ void __launch_bounds__(place_threads)
    add_places(T *y, const T *x, sorted_keys key, const uint32_t *item, uint32_t n,
               uint64_t places) {
  uint32_t i = thread_index<uint32_t>();
  if (i >= n) return;
  uint64_t place = key.at(i);
  if (place >= places || (i > 0 && key.at(i - 1) == place)) return;
  double sum = load(y[place]);
  do sum = joined<product>(sum, (double)load(x[item[i]]));
  while (++i < n && key.at(i) == place);
  y[place] = stored<T>::from((compute_t<T>)sum);
}

__global__ void __launch_bounds__(place_threads)
    index_keys(uint32_t *key, uint32_t *item, uint32_t n, const __grid_constant__ indexes index) {
  uint32_t i = thread_index<uint32_t>();
  if (i >= n) return;
  int64_t k = index.at(i);
  key[i] = (uint32_t)(k < 0 ? index.n : k);
  item[i] = i;
}

/* y as [outer, n, inner], updates as [outer, count, inner], inner in accesses of N elements. */
struct row_sums {
  sorted_keys key;
  const uint32_t *item;
  uint32_t count, n;
  int64_t inner, all; /* all: outer * inner */
};

/* The threads of one y of a block at the first update of an index sum that index's rows, or
 * multiply them. */
template <class T, int N, bool product>
__global__ void __launch_bounds__(place_threads)
    add_rows(T *y, const T *x, const __grid_constant__ row_sums r) {
  using V = pack<T, N>;
  uint32_t first = blockIdx.x * blockDim.y + threadIdx.y;
  if (first >= r.count) return;
  uint64_t place = r.key.at(first);
  if (place >= r.n || (first > 0 && r.key.at(first - 1) == place)) return;
  for (int64_t j = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; j < r.all;
       j += (int64_t)gridDim.y * blockDim.x) {
    int64_t o = r.all == r.inner ? 0 : j / r.inner, at = j - o * r.inner;
    V *to = (V *)y + (o * (int64_t)r.n + (int64_t)place) * r.inner + at;
    const V *from = (const V *)x + o * (int64_t)r.count * r.inner + at;
    compute_t<T> near[N];
    V v = *to;
#pragma unroll
    for (int e = 0; e < N; e++) near[e] = load(v.v[e]);
    uint32_t i = first;
    /* Reads an update; whether there is another. */
    auto next = [&]() {
      v = from[(int64_t)r.item[i] * r.inner];
      return ++i < r.count && r.key.at(i) == place;
    };
    bool more = true;
    for (int k = 0; k < near_terms && more; k++) {
      more = next();
#pragma unroll
      for (int e = 0; e < N; e++) near[e] = joined<product>(near[e], (compute_t<T>)load(v.v[e]));
    }
    if (more) {
      double all[N];
#pragma unroll
      for (int e = 0; e < N; e++) all[e] = near[e];
      while (more) {
        more = next();
#pragma unroll
        for (int e = 0; e < N; e++) all[e] = joined<product>(all[e], (double)load(v.v[e]));
      }
#pragma unroll
      for (int e = 0; e < N; e++) near[e] = (compute_t<T>)all[e];
    }
#pragma unroll
    for (int e = 0; e < N; e++) v.v[e] = stored<T>::from(near[e]);
    *to = v;
  }
}

template <class T, bool product>
tn_status run_sum(const tn_kernel_args *args, const scattering &s) {
  cuda_radix r;
  tn_status status = sort_updates(args, s, 0, &r);
  if (status != TN_OK) return status;
  return launch(args, add_places<T, product>, place_blocks(s.n), place_threads, 0,
                (T *)args->out[0]->data, (const T *)args->in[0]->data, sorted_keys_of(r),
                (const uint32_t *)r.item[0], s.n, s.places);
}

template <class T, int N, bool product>
tn_status run_add_rows(const tn_kernel_args *args, row_sums r) {
  r.inner /= N;
  r.all /= N;
  unsigned x = 32;
  while (x < place_threads && x < r.all) x *= 2;
  if (x > 64 && r.all % x) x = 64; /* fewer idle threads at the end of a row */
  dim3 block(x, place_threads / x);
  int64_t across = ceil_div(r.all, (int64_t)x * 4);
  return launch(
      args, add_rows<T, N, product>,
      dim3((unsigned)ceil_div(r.count, block.y), (unsigned)(across < 65535 ? across : 65535)),
      block, 0, (T *)args->out[0]->data, (const T *)args->in[0]->data, r);
}

/* Rows are numbered with 32 bits: pre: s.index.n < 2^32. */
template <class T, bool product>
tn_status run_row_sum(const tn_kernel_args *args, const scattering &s) {
  uint32_t count = s.count.value;
  int64_t inner = s.inner.value, outer = s.n / ((int64_t)count * inner);
  int bits = scatter_key_bits((uint64_t)s.index.n);
  cuda_radix m;
  tn_status status = cuda_radix_of(args, args->workspace, count, bits, true, &m);
  if (status == TN_OK)
    status = launch(args, index_keys, place_blocks(count), place_threads, 0, (uint32_t *)m.key[0],
                    m.item[0], count, s.index);
  if (status == TN_OK) status = cuda_radix_sort(args, &m, bits);
  if (status != TN_OK) return status;
  row_sums r = {sorted_keys_of(m), m.item[0], count, (uint32_t)s.index.n, inner, outer * inner};
  constexpr int N = 16 / (int)sizeof(T);
  bool packs =
      inner % N == 0 && is_aligned(args->out[0]->data, 16) && is_aligned(args->in[0]->data, 16);
  return packs ? run_add_rows<T, N, product>(args, r) : run_add_rows<T, 1, product>(args, r);
}

/* Whether updates are summed row by row. */
bool by_rows(const scattering &s) { return has_rows(s) && s.index.n < CUDA_MAX_INDEX; }

template <bool product> tn_status run_fold(const tn_kernel_args *args, bool shared) {
  scattering s = scattering_of(args, shared);
  if (s.n == 0 || s.places == 0) return TN_OK;
  bool rows = by_rows(s);
  return for_number(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T>) {
      /* The sign of an integer makes no difference to what wraps. */
      using U = std::conditional_t<sizeof(T) == 8, unsigned long long, std::make_unsigned_t<T>>;
      return run_update<U, std::conditional_t<product, times<U>, plus<U>>>(args, s);
    } else {
      return rows ? run_row_sum<T, product>(args, s) : run_sum<T, product>(args, s);
    }
  });
}

tn_status sum_workspace(const tn_kernel_args *args, bool shared, size_t *bytes) {
  *bytes = 0;
  scattering s = scattering_of(args, shared);
  if (s.n == 0 || s.places == 0 || !(TN_SET(cuda_dtype(args->out[0])) & TN_SET_FLOAT)) return TN_OK;
  bool rows = by_rows(s);
  cuda_radix r;
  tn_status status =
      cuda_radix_of(args, NULL, rows ? s.count.value : s.n,
                    scatter_key_bits(rows ? (uint64_t)s.index.n : s.places), true, &r);
  if (status == TN_OK) *bytes = r.bytes;
  return status;
}

/* --- floats, as threads come --- */

/* The atomic addition of floats takes subnormals for zeros. What is at least 2^-100 adds to no
 * subnormal so that it shows, and sums to none; smaller terms go by compare and swap. */
template <class C, class T> struct atomic_plus {
  __device__ __forceinline__ bool operator()(C there, C x, C *next) const {
    *next = there + x;
    return x != 0 || there == 0;
  }
  __device__ __forceinline__ void put(C *y, T element) const {
    C x = (C)load(element);
    if (sizeof(C) == 8 || !(fabsf((float)x) < 0x1p-100f))
      atomicAdd(y, x);
    else
      update_word(y, x, *this);
  }
};

template <class C, class T> struct atomic_times {
  __device__ __forceinline__ bool operator()(C there, C x, C *next) const {
    *next = there * x;
    return x != 1;
  }
  __device__ __forceinline__ void put(C *y, T element) const {
    update_word(y, (C)load(element), *this);
  }
};

/* Between y and its wider numbers, `most_wide` elements to a thread; both begin where all may be
 * accessed at once, or N is 1. */
enum { most_wide = 8 };

template <class T, class W, int N>
__global__ void __launch_bounds__(place_threads) widen(W *wide, const T *y, int64_t n) {
  const int64_t i = thread_index<int64_t>() * N;
  if (i + N > n) {
    for (int64_t k = i; k < n; k++) wide[k] = load(y[k]);
    return;
  }
  constexpr int part = least(N, 16 / (int)sizeof(W)), own = least(N, 16 / (int)sizeof(T));
#pragma unroll
  for (int first = 0; first < N; first += own) {
    const pack<T, own> from = *(const pack<T, own> *)(y + i + first);
#pragma unroll
    for (int at = 0; at < own; at += part) {
      pack<W, part> to;
#pragma unroll
      for (int k = 0; k < part; k++) to.v[k] = load(from.v[at + k]);
      *(pack<W, part> *)(wide + i + first + at) = to;
    }
  }
}

template <class T, class W, int N>
__global__ void __launch_bounds__(place_threads) narrow(T *y, const W *wide, int64_t n) {
  const int64_t i = thread_index<int64_t>() * N;
  if (i + N > n) {
    for (int64_t k = i; k < n; k++) y[k] = stored<T>::from((compute_t<T>)wide[k]);
    return;
  }
  constexpr int part = least(N, 16 / (int)sizeof(W)), own = least(N, 16 / (int)sizeof(T));
#pragma unroll
  for (int first = 0; first < N; first += own) {
    pack<T, own> to;
#pragma unroll
    for (int at = 0; at < own; at += part) {
      const pack<W, part> from = *(const pack<W, part> *)(wide + i + first + at);
#pragma unroll
      for (int k = 0; k < part; k++) to.v[at + k] = stored<T>::from((compute_t<T>)from.v[k]);
    }
    *(pack<T, own> *)(y + i + first) = to;
  }
}

template <class W, class T, class F>
tn_status run_wide(const tn_kernel_args *args, const scattering &s, F f) {
  T *y = (T *)args->out[0]->data;
  W *wide = (W *)args->workspace;
  const int64_t n = (int64_t)s.places;
  const bool packs = is_aligned(y, 16) && is_aligned(wide, 16);
  const unsigned blocks = place_blocks(packs ? ceil_div(n, most_wide) : n);
  auto to_wide = packs ? widen<T, W, most_wide> : widen<T, W, 1>;
  auto to_narrow = packs ? narrow<T, W, most_wide> : narrow<T, W, 1>;
  tn_status status = launch(args, to_wide, blocks, place_threads, 0, wide, y, n);
  if (status == TN_OK)
    status = launch(args, update<W, T, F>, strips_blocks(s.walk), place_threads, 0, wide,
                    (const T *)args->in[0]->data, f, s);
  if (status != TN_OK) return status;
  return launch(args, to_narrow, blocks, place_threads, 0, y, wide, n);
}

/* Whether places of a float32 have so many updates that they are doubles meanwhile. */
bool goes_by_double(const tn_kernel_args *args, const scattering &s) {
  return args->out[0]->dtype.bits == 32 && s.n > 0 && s.n / near_terms >= s.places;
}

template <template <class, class> class F>
tn_status run_atomic(const tn_kernel_args *args, bool shared) {
  scattering s = scattering_of(args, shared);
  if (s.n == 0 || s.places == 0) return TN_OK;
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    if constexpr (sizeof(T) == 2) return run_wide<float, T>(args, s, F<float, T>{});
    if constexpr (sizeof(T) == 4)
      if (goes_by_double(args, s)) return run_wide<double, T>(args, s, F<double, T>{});
    if constexpr (sizeof(T) > 2)
      return launch(args, update<T, T, F<T, T>>, strips_blocks(s.walk), place_threads, 0,
                    (T *)args->out[0]->data, (const T *)args->in[0]->data, F<T, T>{}, s);
  });
}

/* Rows are as fast sorted; few updates in 16 bits do not pay for a copy of y. */
bool atomic_pays(const tn_kernel_args *args, bool shared) {
  scattering s = scattering_of(args, shared);
  if (s.n == 0) return true;
  return !by_rows(s) && (args->out[0]->dtype.bits > 16 || s.n >= s.places / 2);
}

tn_status atomic_workspace(const tn_kernel_args *args, bool shared, size_t *bytes) {
  const DLTensor *y = args->out[0];
  const bool wider = goes_by_double(args, scattering_of(args, shared));
  const size_t each = wider ? sizeof(double) : y->dtype.bits == 16 ? sizeof(float) : 0;
  *bytes = (size_t)cuda_size(y, 0, y->ndim) * each;
  return TN_OK;
}

tn_status atomic_slices_workspace(const tn_kernel_args *args, size_t *bytes) {
  return atomic_workspace(args, true, bytes);
}

} // namespace

tn_status cuda_scatter_add_workspace(const tn_kernel_args *args, size_t *bytes) {
  return sum_workspace(args, false, bytes);
}
tn_status cuda_index_add_workspace(const tn_kernel_args *args, size_t *bytes) {
  return sum_workspace(args, true, bytes);
}
tn_status cuda_run_scatter_add(const tn_kernel_args *args) { return run_fold<false>(args, false); }
tn_status cuda_run_index_add(const tn_kernel_args *args) { return run_fold<false>(args, true); }
tn_status cuda_run_scatter_mul(const tn_kernel_args *args) { return run_fold<true>(args, false); }

tn_status cuda_scatter_nd_add_workspace(const tn_kernel_args *args, size_t *bytes) {
  return slices_workspace(args, bytes, cuda_index_add_workspace);
}
tn_status cuda_run_scatter_nd_add(const tn_kernel_args *args) {
  return run_slices(args, [](const tn_kernel_args *call) { return run_fold<false>(call, true); });
}
tn_status cuda_run_scatter_nd_mul(const tn_kernel_args *args) {
  return run_slices(args, [](const tn_kernel_args *call) { return run_fold<true>(call, true); });
}

bool cuda_scatter_atomic_supports(const tn_kernel_args *args) {
  return cuda_scatter_supports(args) && atomic_pays(args, false);
}
bool cuda_scatter_nd_atomic_supports(const tn_kernel_args *args) {
  if (!cuda_scatter_supports(args)) return false;
  cuda_slices s;
  cuda_slices_begin(args, args->in[0], args->out[0], &s);
  return atomic_pays(&s.args, true);
}
tn_status cuda_scatter_atomic_workspace(const tn_kernel_args *args, size_t *bytes) {
  return atomic_workspace(args, false, bytes);
}
tn_status cuda_scatter_nd_atomic_workspace(const tn_kernel_args *args, size_t *bytes) {
  return slices_workspace(args, bytes, atomic_slices_workspace);
}
tn_status cuda_run_scatter_add_atomic(const tn_kernel_args *args) {
  return run_atomic<atomic_plus>(args, false);
}
tn_status cuda_run_scatter_mul_atomic(const tn_kernel_args *args) {
  return run_atomic<atomic_times>(args, false);
}
tn_status cuda_run_scatter_nd_add_atomic(const tn_kernel_args *args) {
  return run_slices(args,
                    [](const tn_kernel_args *call) { return run_atomic<atomic_plus>(call, true); });
}
tn_status cuda_run_scatter_nd_mul_atomic(const tn_kernel_args *args) {
  return run_slices(
      args, [](const tn_kernel_args *call) { return run_atomic<atomic_times>(call, true); });
}
