/*
 * scatter, scatter_min, scatter_max, and scatter_nd with each of these: the same bits every time.
 *
 *   scatter      every place keeps the number of the last update to it (a maximum, so the
 *                order of the threads does not matter), and gets that one's element. Where few
 *                updates go to many places they are sorted by place instead; where they are rows,
 *                rows keep numbers; where many go to columns of a matrix, places keep numbers and
 *                elements together, as much of the matrix at a time as the cache holds.
 *   extremes     a maximum needs no order; NaN becomes one NaN and +0 beats -0, so that
 *                the bits need none either.
 */
#include "kernels/cuda/index/scatter.cuh"

namespace {

/* --- scatter: the last update to a place writes --- */

/* How the last update to each place is found. */
enum way { BY_UPDATES, BY_PLACES, BY_SORTING, BY_ROWS, BY_STRIPS };

/* Places that the L2 cache holds numbers for, updates that are worth a sort, and elements of a row
 * that are worth a number of their own. */
enum { places_in_cache = 1 << 23, worth_sorting = 1 << 18, worth_numbering = 4 };

/* What the cache holds of what places keep, in bytes. */
enum { held_in_cache = 1 << 24 };

/* y as [outer, count, inner]: its strips. */
strips walk_of_places(const tn_kernel_args *args, const scattering &s) {
  const DLTensor *y = args->out[0];
  int axis = scatter_axis(args);
  if (s.shared) return strips_of(1, (int64_t)s.places, 1);
  return strips_of(cuda_size(y, 0, axis), y->shape[axis], cuda_size(y, axis + 1, y->ndim));
}

/* Strips of y whose numbers and elements the cache holds. */
uint32_t strips_at_once(const strips &walk) {
  const int64_t held = held_in_cache / ((int64_t)walk.count * strip_width * 8);
  return (uint32_t)(held < strips_count(walk) ? held : strips_count(walk));
}

/* Whether updates have the strips of y. */
bool has_strips(const tn_kernel_args *args, const scattering &s) {
  const DLTensor *updates = args->in[0], *y = args->out[0];
  if (s.shared || y->dtype.bits > 32 || !s.walk.across) return false;
  for (int d = 0; d < y->ndim; d++)
    if (d != scatter_axis(args) && updates->shape[d] != y->shape[d]) return false;
  const strips walk = walk_of_places(args, s);
  return walk.across && strips_at_once(walk) > 0;
}

way way_of(const tn_kernel_args *args, const scattering &s) {
  if (s.shared && s.n / s.count.value >= worth_numbering) return BY_ROWS;
  if (s.n >= s.places / 2 && s.places <= CUDA_MAX_INDEX)
    return has_strips(args, s) ? BY_STRIPS : BY_PLACES;
  bool sparse = s.n <= s.places / 4 && s.n >= worth_sorting && s.places > places_in_cache;
  return sparse ? BY_SORTING : BY_UPDATES;
}

__global__ void __launch_bounds__(place_threads)
    forget(uint32_t *last, const __grid_constant__ scattering s) {
  strip_cursor c = strips_cursor(s.walk);
  int64_t place[strip_items];
  places_of(s, c, place);
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    if (place[k] >= 0) last[place[k]] = 0;
}

/* Numbers count from 1; 0 is none. */
__global__ void __launch_bounds__(place_threads)
    remember(uint32_t *last, const __grid_constant__ scattering s) {
  strip_cursor c = strips_cursor(s.walk);
  int64_t place[strip_items];
  places_of(s, c, place);
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    if (place[k] >= 0) atomicMax(&last[place[k]], c.first + k * c.step + 1);
}

template <class U>
__global__ void __launch_bounds__(place_threads)
    put(U *y, const U *x, const uint32_t *last, const __grid_constant__ scattering s) {
  strip_cursor c = strips_cursor(s.walk);
  int64_t place[strip_items];
  places_of(s, c, place);
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++) {
    uint32_t i = c.first + k * c.step;
    if (place[k] >= 0 && last[place[k]] == i + 1) y[place[k]] = x[i];
  }
}

/* The same from the places' side: `walk` goes through y. */
template <class U>
__global__ void __launch_bounds__(place_threads)
    put_places(U *y, const U *x, const uint32_t *last, const __grid_constant__ strips walk) {
  strip_cursor c = strips_cursor(walk);
  uint32_t from[strip_items];
  U v[strip_items];
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++) from[k] = k < c.left ? last[c.first + k * c.step] : 0;
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    if (from[k]) v[k] = x[from[k] - 1];
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    if (from[k]) y[c.first + k * c.step] = v[k];
}

/* --- by rows: y as [outer, n, block], updates as [outer, count, block], block in accesses --- */

struct row_walk {
  indexes index;
  cuda_divisor count, block;
};

__global__ void __launch_bounds__(place_threads)
    remember_rows(uint32_t *last, uint32_t count, const __grid_constant__ indexes index) {
  const uint32_t i = thread_index<uint32_t>();
  const int64_t k = i < count ? index.at(i) : -1;
  if (k >= 0) atomicMax(&last[k], i + 1);
}

template <class U>
__global__ void __launch_bounds__(place_threads)
    put_rows(U *y, const U *x, const uint32_t *last, uint32_t n,
             const __grid_constant__ row_walk w) {
  const uint32_t i = thread_index<uint32_t>();
  if (i >= n) return;
  const uint32_t row = quotient(i, w.block), at = i - row * w.block.value;
  const uint32_t outer = quotient(row, w.count), which = row - outer * w.count.value;
  const int64_t k = w.index.at(which);
  if (k < 0 || last[k] != which + 1) return;
  y[((int64_t)outer * w.index.n + k) * w.block.value + at] = x[i];
}

template <class U>
tn_status run_put_rows(const tn_kernel_args *args, const scattering &s, int64_t block) {
  const row_walk w = {s.index, s.count, cuda_divisor_of((uint32_t)block)};
  const uint32_t n = s.n / s.inner.value * (uint32_t)block;
  return launch(args, put_rows<U>, place_blocks(n), place_threads, 0, (U *)args->out[0]->data,
                (const U *)args->in[0]->data, (const uint32_t *)args->workspace, n, w);
}

tn_status run_rows(const tn_kernel_args *args, const scattering &s) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  const int64_t size = y->dtype.bits / 8, bytes = s.inner.value * size;
  const int64_t w = most((int)size, (int)widest_access(bytes, x->data, y->data));
  uint32_t *last = (uint32_t *)args->workspace;
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  cudaError_t error =
      cudaMemsetAsync(last, 0, (size_t)s.index.n * sizeof *last, (cudaStream_t)args->native_stream);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cudaMemsetAsync");
  status = launch(args, remember_rows, place_blocks(s.count.value), place_threads, 0, last,
                  s.count.value, s.index);
  return status == TN_OK ? BY_BYTES(w, run_put_rows, args, s, bytes / w) : status;
}

/* --- by strips: of a group of them, places [strip, row, column] keep the number of the last update
 * above its element --- */

typedef unsigned long long kept_t;

__device__ __forceinline__ uint32_t kept_place(const strip_cursor &c, uint32_t first_strip,
                                               uint32_t rows, uint32_t row) {
  return ((c.strip - first_strip) * rows + row) * strip_width + threadIdx.x % strip_width;
}

template <class U>
__global__ void __launch_bounds__(place_threads)
    keep(kept_t *kept, const U *x, uint32_t first_strip, uint32_t rows,
         const __grid_constant__ strips walk, const __grid_constant__ indexes index) {
  const strip_cursor c = strips_cursor(walk, first_strip * walk.row_blocks.value + blockIdx.x);
  int64_t row[strip_items];
  U v[strip_items];
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    row[k] = k < c.left ? index.at_once(c.first + k * c.step) : -1;
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    if (k < c.left) v[k] = __ldcs(x + c.first + k * c.step);
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++) {
    const kept_t number = c.first + k * c.step + 1;
    if (row[k] >= 0)
      atomicMax(kept + kept_place(c, first_strip, rows, (uint32_t)row[k]), number << 32 | v[k]);
  }
}

/* Moves what was kept to y; `walk` goes through y. */
template <class U>
__global__ void __launch_bounds__(place_threads)
    put_kept(U *y, kept_t *kept, uint32_t first_strip, const __grid_constant__ strips walk) {
  const strip_cursor c = strips_cursor(walk, first_strip * walk.row_blocks.value + blockIdx.x);
  kept_t v[strip_items];
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    v[k] = k < c.left ? kept[kept_place(c, first_strip, walk.count, c.row + k * strip_rows)] : 0;
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++) {
    if (!v[k]) continue;
    __stcs(y + c.first + k * c.step, (U)v[k]);
    kept[kept_place(c, first_strip, walk.count, c.row + k * strip_rows)] = 0;
  }
}

template <class U> tn_status run_strips(const tn_kernel_args *args, const scattering &s) {
  const strips walk = walk_of_places(args, s);
  const uint32_t all = strips_count(walk), group = strips_at_once(walk);
  kept_t *kept = (kept_t *)args->workspace;
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  cudaError_t error = cudaMemsetAsync(kept, 0, (size_t)group * walk.count * strip_width * 8,
                                      (cudaStream_t)args->native_stream);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cudaMemsetAsync");
  for (uint32_t first = 0; first < all && status == TN_OK; first += group) {
    const uint32_t strips = all - first < group ? all - first : group;
    status = launch(args, keep<U>, strips * s.walk.row_blocks.value, place_threads, 0, kept,
                    (const U *)args->in[0]->data, first, walk.count, s.walk, s.index);
    if (status == TN_OK)
      status = launch(args, put_kept<U>, strips * walk.row_blocks.value, place_threads, 0,
                      (U *)args->out[0]->data, kept, first, walk);
  }
  return status;
}

/* --- by sorting --- */

/* Bits of places that a digit less sorts by: few updates share the others, among which the last to
 * a place is looked for. */
int loose_bits(const scattering &s) {
  const int over = scatter_key_bits(s.places) % 8;
  return over <= 3 ? over : 0;
}

template <class U>
__global__ void __launch_bounds__(place_threads)
    put_sorted(U *y, const U *x, sorted_keys key, const uint32_t *item, uint32_t n, uint64_t places,
               int loose) {
  uint32_t i = thread_index<uint32_t>();
  if (i >= n) return;
  const uint64_t place = key.at(i);
  if (place >= places) return;
  for (uint32_t k = i + 1; k < n; k++) {
    const uint64_t next = key.at(k);
    if (next == place) return;
    if (next >> loose != place >> loose) break;
  }
  const U v = x[item[i]];
  if (y[place] != v) y[place] = v; /* a sector that was read is written faster */
}

template <class U>
tn_status run_put(const tn_kernel_args *args, const scattering &s, const cuda_radix *sorted) {
  U *y = (U *)args->out[0]->data;
  const U *x = (const U *)args->in[0]->data;
  const uint32_t *last = (const uint32_t *)args->workspace;
  if (sorted)
    return launch(args, put_sorted<U>, place_blocks(s.n), place_threads, 0, y, x,
                  sorted_keys_of(*sorted), (const uint32_t *)sorted->item[0], s.n, s.places,
                  loose_bits(s));
  if (way_of(args, s) == BY_UPDATES)
    return launch(args, put<U>, strips_blocks(s.walk), place_threads, 0, y, x, last, s);
  strips walk = walk_of_places(args, s);
  return launch(args, put_places<U>, strips_blocks(walk), place_threads, 0, y, x, last, walk);
}

tn_status remember_all(const tn_kernel_args *args, const scattering &s) {
  uint32_t *last = (uint32_t *)args->workspace;
  tn_status status = cuda_make_current(args->host, (const cuda_info *)args->device);
  if (status != TN_OK) return status;
  if (way_of(args, s) == BY_UPDATES) {
    status = launch(args, forget, strips_blocks(s.walk), place_threads, 0, last, s);
  } else {
    cudaError_t error = cudaMemsetAsync(last, 0, (size_t)s.places * sizeof *last,
                                        (cudaStream_t)args->native_stream);
    if (error != cudaSuccess) return cuda_status(args->host, (int)error, "cudaMemsetAsync");
  }
  if (status != TN_OK) return status;
  return launch(args, remember, strips_blocks(s.walk), place_threads, 0, last, s);
}

tn_status run_set(const tn_kernel_args *args, bool shared) {
  scattering s = scattering_of(args, shared);
  if (s.n == 0 || s.places == 0) return TN_OK;
  const way by = way_of(args, s);
  if (by == BY_ROWS) return run_rows(args, s);
  if (by == BY_STRIPS) {
    const int bits = args->out[0]->dtype.bits;
    return bits == 8    ? run_strips<uint8_t>(args, s)
           : bits == 16 ? run_strips<uint16_t>(args, s)
                        : run_strips<uint32_t>(args, s);
  }
  cuda_radix sorted;
  bool by_sorting = by == BY_SORTING;
  tn_status status =
      by_sorting ? sort_updates(args, s, loose_bits(s), &sorted) : remember_all(args, s);
  if (status != TN_OK) return status;
  return for_size(args->out[0], [&](auto t) {
    return run_put<decltype(t)>(args, s, by_sorting ? &sorted : NULL);
  });
}

tn_status set_workspace(const tn_kernel_args *args, bool shared, size_t *bytes) {
  scattering s = scattering_of(args, shared);
  *bytes = 0;
  if (s.n == 0 || s.places == 0) return TN_OK;
  const way by = way_of(args, s);
  *bytes = (size_t)(by == BY_ROWS ? s.index.n : (int64_t)s.places) * sizeof(uint32_t);
  if (by == BY_STRIPS) {
    const strips walk = walk_of_places(args, s);
    *bytes = (size_t)strips_at_once(walk) * walk.count * strip_width * sizeof(kept_t);
  }
  if (by != BY_SORTING) return TN_OK;
  cuda_radix r;
  tn_status status = cuda_radix_of(args, NULL, s.n, scatter_key_bits(s.places), true, &r);
  *bytes = r.bytes;
  return status;
}

/* --- extremes: atomic updates --- */

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

template <class T> struct larger {
  __device__ __forceinline__ void put(T *y, T x) const { update_word(y, x, *this); }
  __device__ __forceinline__ bool operator()(T there, T x, T *next) const {
    compute_t<T> a = load(there), b = load(x);
    if (is_nan(a)) return false;
    *next = is_nan(b) ? quiet_nan<T>::of(x) : x;
    return is_nan(b) || b > a || (b == a && is_minus(a) && !is_minus(b));
  }
};
template <class T> struct smaller {
  __device__ __forceinline__ void put(T *y, T x) const { update_word(y, x, *this); }
  __device__ __forceinline__ bool operator()(T there, T x, T *next) const {
    compute_t<T> a = load(there), b = load(x);
    if (is_nan(a)) return false;
    *next = is_nan(b) ? quiet_nan<T>::of(x) : x;
    return is_nan(b) || b < a || (b == a && is_minus(b) && !is_minus(a));
  }
};

/* Extremes by rows: y and updates as of put_rows, `block` in packs of 16 bytes, of which a thread
 * takes `extreme_packs`. What is there is read once for all of a pack; should it be old by the time
 * that it is used, the extreme has only moved further. */
enum { extreme_packs = 2 };

template <class T, class F>
__global__ void __launch_bounds__(place_threads)
    update_rows(T *y, const T *x, F f, uint32_t n, const __grid_constant__ row_walk w) {
  using W = update_word_t<T>;
  constexpr int N = 16 / (int)sizeof(T), words = 16 / (int)sizeof(W), each = N / words;
  constexpr uint32_t P = extreme_packs;
  const uint32_t first = blockIdx.x * (P * place_threads) + threadIdx.x;
  pack<W, words> *to[P], there[P];
  pack<T, N> v[P];
#pragma unroll
  for (uint32_t p = 0; p < P; p++) {
    const uint32_t i = first + p * place_threads;
    const uint32_t row = quotient(i, w.block), outer = quotient(row, w.count);
    const int64_t k = i < n ? w.index.at(row - outer * w.count.value) : -1;
    const int64_t at = ((int64_t)outer * w.index.n + k) * w.block.value + i - row * w.block.value;
    to[p] = k < 0 ? NULL : (pack<W, words> *)y + at;
  }
#pragma unroll
  for (uint32_t p = 0; p < P; p++) {
    if (!to[p]) continue;
    v[p] = ((const pack<T, N> *)x)[first + p * place_threads];
    there[p] = *to[p];
  }
#pragma unroll
  for (uint32_t p = 0; p < P; p++) {
    if (!to[p]) continue;
#pragma unroll
    for (int e = 0; e < N; e++) {
      W *word = &there[p].v[e / each];
      *word =
          update_within<T>(&to[p]->v[e / each], *word, e % each * 8 * (int)sizeof(T), v[p].v[e], f);
    }
  }
}

/* Whether rows are of whole packs that can be accessed at once; bytes go one by one, being too
 * many. */
template <class T> bool has_packs(const tn_kernel_args *args, const scattering &s) {
  return s.shared && sizeof(T) > 1 && s.inner.value * sizeof(T) % 16 == 0 &&
         is_aligned(args->in[0]->data, 16) && is_aligned(args->out[0]->data, 16);
}

template <template <class> class F> tn_status run_extreme(const tn_kernel_args *args, bool shared) {
  scattering s = scattering_of(args, shared);
  if (s.n == 0 || s.places == 0) return TN_OK;
  return for_number(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    T *y = (T *)args->out[0]->data;
    const T *x = (const T *)args->in[0]->data;
    if constexpr (sizeof(T) > 1) {
      constexpr uint32_t N = 16 / sizeof(T);
      if (has_packs<T>(args, s)) {
        const row_walk w = {s.index, s.count, cuda_divisor_of(s.inner.value / N)};
        return launch(args, update_rows<T, F<T>>,
                      (unsigned)ceil_div(s.n / N, extreme_packs * place_threads), place_threads, 0,
                      y, x, F<T>{}, s.n / N, w);
      }
    }
    return launch(args, update<T, T, F<T>>, strips_blocks(s.walk), place_threads, 0, y, x, F<T>{},
                  s);
  });
}

} // namespace

bool cuda_scatter_supports(const tn_kernel_args *args) {
  return cuda_size(args->in[0], 0, args->in[0]->ndim) <= CUDA_MAX_INDEX;
}

tn_status cuda_scatter_workspace(const tn_kernel_args *args, size_t *bytes) {
  return set_workspace(args, false, bytes);
}
tn_status cuda_run_scatter(const tn_kernel_args *args) { return run_set(args, false); }
tn_status cuda_run_scatter_max(const tn_kernel_args *args) {
  return run_extreme<larger>(args, false);
}
tn_status cuda_run_scatter_min(const tn_kernel_args *args) {
  return run_extreme<smaller>(args, false);
}

tn_status cuda_scatter_nd_workspace(const tn_kernel_args *args, size_t *bytes) {
  return slices_workspace(args, bytes, [](const tn_kernel_args *call, size_t *more) {
    return set_workspace(call, true, more);
  });
}
tn_status cuda_scatter_nd_max_workspace(const tn_kernel_args *args, size_t *bytes) {
  return slices_workspace(args, bytes,
                          [](const tn_kernel_args *, size_t *) { return (tn_status)TN_OK; });
}
tn_status cuda_run_scatter_nd(const tn_kernel_args *args) {
  return run_slices(args, [](const tn_kernel_args *call) { return run_set(call, true); });
}
tn_status cuda_run_scatter_nd_min(const tn_kernel_args *args) {
  return run_slices(args,
                    [](const tn_kernel_args *call) { return run_extreme<smaller>(call, true); });
}
tn_status cuda_run_scatter_nd_max(const tn_kernel_args *args) {
  return run_slices(args,
                    [](const tn_kernel_args *call) { return run_extreme<larger>(call, true); });
}
