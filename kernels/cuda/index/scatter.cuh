/* Where updates of the scatter family go: shared by scatter.cu and scatter_sum.cu. A place of y is
 * the number of an element of it; an update outside its axis has none. */
#ifndef KERNELS_CUDA_INDEX_SCATTER_CUH
#define KERNELS_CUDA_INDEX_SCATTER_CUH

#include "kernels/cuda/index/radix.h"
#include "kernels/cuda/index/slices.cuh"
#include "kernels/cuda/index/strips.cuh"

/* The index's shape over y, the axis of y held at 0. */
struct scattering {
  indexes index;
  uint32_t n;                /* updates */
  int64_t step;              /* of y along the axis */
  uint64_t places;           /* elements of y */
  int shared;                /* 1: the index has the axis alone */
  cuda_divisor inner, count; /* of updates behind the axis, along it */
  strips walk;               /* through the updates */
  int rank;
  cuda_divisor size[TN_MAX_RANK];
  int64_t stride[TN_MAX_RANK];
};

/* The axis of y that the index goes along. */
static inline int scatter_axis(const tn_kernel_args *args) {
  int64_t given = ((const tn_gather_attrs *)args->attrs)->axis; /* one layout for all */
  return (int)(given < 0 ? given + args->out[0]->ndim : given);
}

static inline scattering scattering_of(const tn_kernel_args *args, bool shared) {
  const DLTensor *updates = args->in[0], *index = args->in[1], *y = args->out[0];
  int axis = scatter_axis(args);
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
  int64_t inner = cuda_size(updates, axis + 1, updates->ndim);
  s.step = y->strides[axis];
  s.places = (uint64_t)cuda_size(y, 0, y->ndim);
  s.shared = shared;
  s.inner = cuda_divisor_of((uint32_t)inner);
  s.count = cuda_divisor_of((uint32_t)updates->shape[axis]);
  s.walk = shared ? strips_of(1, s.n, 1)
                  : strips_of(cuda_size(updates, 0, axis), updates->shape[axis], inner);
  s.rank = shape.rank;
  for (int d = 0; d < s.rank; d++) {
    s.size[d] = cuda_divisor_of((uint32_t)shape.size[d]);
    s.stride[d] = shape.stride[0][d];
  }
  return s;
}

/* What the index says for update i. */
__device__ __forceinline__ int64_t index_of(const scattering &s, uint32_t i) {
  uint32_t which = i;
  if (s.shared) {
    which = quotient(i, s.inner);
    which -= quotient(which, s.count) * s.count.value;
  }
  return s.shared ? s.index.at(which) : s.index.at_once(which);
}

/* The place of update i, whose index is k; -1 for none. */
__device__ __forceinline__ int64_t place_at(const scattering &s, uint32_t i, int64_t k) {
  if (k < 0) return -1;
  int64_t place = k * s.step;
  uint32_t rest = i;
#pragma unroll 1
  for (int d = s.rank - 1; d >= 0; d--) {
    uint32_t q = quotient(rest, s.size[d]);
    place += (int64_t)(rest - q * s.size[d].value) * s.stride[d];
    rest = q;
  }
  return place;
}

/* The places of a thread's updates; all loads of indexes are under way before one is needed. */
__device__ __forceinline__ void places_of(const scattering &s, const strip_cursor &c,
                                          int64_t place[strip_items]) {
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    place[k] = k < c.left ? index_of(s, c.first + k * c.step) : -1;
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++) place[k] = place_at(s, c.first + k * c.step, place[k]);
}

/* Whether whole rows follow each index, so that threads side by side can take them. */
static inline bool has_rows(const scattering &s) { return s.shared && s.n / s.count.value >= 32; }

/* Calls fn on the call that has numbers of rows as its index, after they were made. */
template <class Fn> static tn_status run_slices(const tn_kernel_args *args, Fn fn) {
  cuda_slices s;
  cuda_slices_begin(args, args->in[0], args->out[0], &s);
  if (cuda_size(&s.part, 0, 2) == 0 || cuda_size(&s.data, 0, 2) == 0) return TN_OK;
  tn_status status = cuda_slices_number(args, args->out[0], &s);
  return status == TN_OK ? fn(&s.args) : status;
}

template <class Fn>
static tn_status slices_workspace(const tn_kernel_args *args, size_t *bytes, Fn fn) {
  cuda_slices s;
  cuda_slices_begin(args, args->in[0], args->out[0], &s);
  *bytes = 0;
  tn_status status = fn(&s.args, bytes);
  *bytes += cuda_slices_bytes(&s);
  return status;
}

/* --- updates sorted by place --- */

/* Sorted keys of either width. */
struct sorted_keys {
  const void *key;
  int wide;
  __device__ __forceinline__ uint64_t at(uint32_t i) const {
    return wide ? ((const uint64_t *)key)[i] : ((const uint32_t *)key)[i];
  }
};

static inline sorted_keys sorted_keys_of(const cuda_radix &r) { return {r.key[0], r.wide}; }

/* An update without a place sorts behind all places. */
static inline int scatter_key_bits(uint64_t places) { return cuda_radix_bits(places + 1); }

namespace {

__global__ void __launch_bounds__(place_threads)
    place_keys(void *key, uint32_t *item, int wide, const __grid_constant__ scattering s) {
  uint32_t i = thread_index<uint32_t>();
  if (i >= s.n) return;
  int64_t place = place_at(s, i, index_of(s, i));
  uint64_t k = place < 0 ? s.places : (uint64_t)place;
  if (wide)
    ((uint64_t *)key)[i] = k;
  else
    ((uint32_t *)key)[i] = (uint32_t)k;
  item[i] = i;
}

} // namespace

/* Sorts the updates by place, but for its lowest `loose` bits, stably, in the call's workspace. */
static inline tn_status sort_updates(const tn_kernel_args *args, const scattering &s, int loose,
                                     cuda_radix *r) {
  int bits = scatter_key_bits(s.places);
  tn_status status = cuda_radix_of(args, args->workspace, s.n, bits, true, r);
  if (status == TN_OK)
    status = launch(args, place_keys, place_blocks(s.n), place_threads, 0, r->key[0], r->item[0],
                    (int)r->wide, s);
  r->first = loose;
  return status == TN_OK ? cuda_radix_sort(args, r, bits) : status;
}

/* --- updates of one element by compare and swap --- */

/* The word that an element is updated through. */
template <class T>
using update_word_t =
    typename std::conditional<sizeof(T) == 8, unsigned long long, unsigned int>::type;

/* Replaces the element `shift` bits up in a word, which was `old` when last seen, by f(it, x). f
 * says whether `next` differs from the element that is there. Returns what the word was then. */
template <class T, class X, class F>
__device__ __forceinline__ update_word_t<T>
update_within(update_word_t<T> *word, update_word_t<T> old, int shift, X x, F f) {
  using W = update_word_t<T>;
  const W mask = (sizeof(T) == sizeof(W) ? ~(W)0 : (((W)1 << (8 * sizeof(T) % 64)) - 1)) << shift;
  for (;;) {
    union {
      W bits;
      T value;
    } element, next;
    element.bits = (old & mask) >> shift;
    next.bits = 0;
    if (!f(element.value, x, &next.value)) return old;
    const W wanted = (old & ~mask) | (next.bits << shift);
    const W seen = atomicCAS(word, old, wanted);
    if (seen == old) return wanted;
    old = seen;
  }
}

/* Replaces one element by f(it, x), through the 4- or 8-byte word that it lies in. */
template <class T, class X, class F> __device__ __forceinline__ void update_word(T *y, X x, F f) {
  using W = update_word_t<T>;
  const uintptr_t at = (uintptr_t)y;
  W *word = (W *)(at & ~(uintptr_t)(sizeof(W) - 1));
  const int shift = (int)(at & (sizeof(W) - 1)) * 8;
  (void)update_within<T>(word, *(volatile W *)word, shift, x, f);
}

namespace {

/* y of type Y, updates of type T. */
template <class Y, class T, class F>
__global__ void __launch_bounds__(place_threads)
    update(Y *y, const T *x, F f, const __grid_constant__ scattering s) {
  strip_cursor c = strips_cursor(s.walk);
  int64_t place[strip_items];
  T v[strip_items];
  places_of(s, c, place);
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    if (place[k] >= 0) v[k] = x[c.first + k * c.step];
#pragma unroll
  for (uint32_t k = 0; k < strip_items; k++)
    if (place[k] >= 0) f.put(y + place[k], v[k]);
}

} // namespace

#endif /* KERNELS_CUDA_INDEX_SCATTER_CUH */
