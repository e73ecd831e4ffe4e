/* Scans: their plan, what they join, and a warp's scan. Included by scan.cu alone. */
#ifndef KERNELS_CUDA_REDUCE_SCAN_CUH
#define KERNELS_CUDA_REDUCE_SCAN_CUH

#include <float.h>

#include "kernels/cuda/base/background.cuh"
#include "kernels/cuda/base/lookback.cuh"
#include "kernels/cuda/reduce/reduce.cuh"

namespace {

enum {
  scan_column_row = 32, /* longest row of a single thread */
  scan_ahead = 8,       /* elements that a thread loads at once */
};

/* Which kernel scans the lines. */
enum scan_way {
  scan_by_tiles,  /* rows: tiles of blocks */
  scan_by_warps,  /* rows: a warp to each */
  scan_by_strips, /* columns side by side: tiles of blocks */
  scan_by_lines,  /* a thread to each line, or to a piece of it */
};

struct scan_plan {
  int64_t outer, n, inner;
  int64_t pieces, piece; /* of each line, and elements of one: by lines */
  int64_t tiles;         /* of each line: by tiles and strips */
  int64_t across;        /* strips that lie side by side */
  int way;
  int warps; /* of a block: of rows */
  int walks; /* 1: a block goes through all tiles of its line */
  int reverse, exclusive, first_pass;
  int packs; /* 1: tiles are read and written several elements at a time */
};

/* Sums and products, of which element a stands before element b. */
struct scan_adds {
  static constexpr bool shrinks = false;
  template <class A> static __device__ __forceinline__ A take(A a, A b) { return a + b; }
  static __device__ __forceinline__ int64_t take(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
  }
};
struct scan_multiplies {
  static constexpr bool shrinks = true;
  template <class A> static __device__ __forceinline__ A take(A a, A b) { return a * b; }
  static __device__ __forceinline__ int64_t take(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
  }
};

/* Some neighbours of 16 bits, joined in float: a double would show no other results, unless what
 * they come to on the way is too large or too small for a float. */
template <class How> struct near_join {
  float value, least; /* least: of what they came to, where that shrinks */

  __device__ __forceinline__ void begin(float first) {
    value = first;
    least = fabsf(first);
  }
  __device__ __forceinline__ void take(float x) {
    value = How::take(value, x);
    if (How::shrinks) least = fminf(least, fabsf(value));
  }
  __device__ __forceinline__ bool holds() const {
    return fabsf(value) <= FLT_MAX && (!How::shrinks || least >= FLT_MIN);
  }
};

template <class C> struct scan_wide { using type = double; };
template <> struct scan_wide<int64_t> { using type = int64_t; };

/* `i` counts along the axis as it lies in memory. */
template <class T> struct running_join {
  using C = accumulator_t<T>;
  using A = typename scan_wide<C>::type;
  static constexpr bool places = false;
  static constexpr bool nears = std::is_same_v<T, half_t> || std::is_same_v<T, bfloat_t>;
  int dtype, result; /* of x and y */
  bool product;
  __device__ A init() const { return product ? 1 : 0; }
  __device__ A read(const void *x, int64_t at, int64_t) const {
    return element<T>::read(x, at, dtype);
  }
  __device__ A join(A a, A b) const {
    return product ? scan_multiplies::take(a, b) : scan_adds::take(a, b);
  }
  __device__ __forceinline__ A take(A a, A b) const { return join(a, b); }
  /* Calls fn with what takes an element after others, as take does, but knows what it does. */
  template <class Fn> __device__ __forceinline__ void each_way(Fn fn) const {
    if (product)
      fn(scan_multiplies());
    else
      fn(scan_adds());
  }
  __device__ C neutral() const { return product ? 1 : 0; }
  __device__ C value(A a) const { return (C)a; }
  __device__ uint32_t where(A) const { return 0; }
  __device__ void write(void *y, int64_t *, int64_t at, A a) const {
    element<T>::write(y, at, (C)a, result);
  }
};

/* Of a maximum I counts where it stands; all bits set: there is none yet. */
template <class C, class I> struct running_place {
  C value;
  I index;
};

/* Maxima. Of equals the first stays; nothing exceeds NaN. */
template <class T, class I> struct running_max_of {
  using C = accumulator_t<T>;
  using A = running_place<C, I>;
  static constexpr bool places = true, nears = false;
  static constexpr I none = (I)-1;
  int dtype, result;
  __device__ A init() const { return {0, none}; }
  __device__ A read(const void *x, int64_t at, int64_t i) const {
    return {element<T>::read(x, at, dtype), (I)i};
  }
  static __device__ __forceinline__ bool exceeds(C a, C b) { return a == a && !(b <= a); }
  __device__ A join(A a, A b) const {
    if (a.index == none) return b;
    return b.index != none && exceeds(a.value, b.value) ? b : a;
  }
  static __device__ __forceinline__ A take(A a, A b) {
    return a.index == none || exceeds(a.value, b.value) ? b : a;
  }
  template <class Fn> __device__ __forceinline__ void each_way(Fn fn) const { fn(*this); }
  __device__ C neutral() const {
    if constexpr (std::is_integral_v<C>)
      return INT64_MIN;
    else
      return (C)-INFINITY;
  }
  __device__ C value(A a) const { return a.value; }
  __device__ uint32_t where(A a) const { return (uint32_t)a.index; }
  __device__ void write(void *y, int64_t *index, int64_t at, A a) const {
    element<T>::write(y, at, a.value, dtype);
    if (index) index[at] = (int64_t)a.index;
  }
};

template <class T> struct running_max : running_max_of<T, int64_t> {};
/* Of lines that 32 bits count. */
template <class T> struct running_max_near : running_max_of<T, uint32_t> {};

template <class A> __device__ A shuffle_from(A a, int lane) { return lookback_shuffle(a, lane); }

/* Lane l gets what lanes 0 to l come to. */
template <class S> __device__ __forceinline__ typename S::A scan_warp(const S &s, typename S::A a) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int delta = 1; delta < 32; delta *= 2) {
    typename S::A before = shuffle_from(a, lane - delta), joined = s.join(before, a);
    if (lane >= delta) a = joined;
  }
  return a;
}

/* What is written: void where it is known at run time alone. */
template <class T> struct wrote_of { using type = T; };
template <> struct wrote_of<any_int> { using type = void; };
template <class T, class Y> struct wrote_of<widened<T, Y>> { using type = Y; };
template <class S> struct wrote_by;
template <template <class> class S, class T> struct wrote_by<S<T>> : wrote_of<T> {};

/* Elements of a scan as they wait in registers and shared memory: integers as int64_t. */
template <class S> struct scanned {
  static constexpr bool any = std::is_void_v<raw_t<S>>;
  using raw = std::conditional_t<any, int64_t, raw_t<S>>;
  using wrote = std::conditional_t<any, int64_t, typename wrote_by<S>::type>;
  using element = typename raw_of<S>::element;
  using A = typename S::A;

  static __device__ __forceinline__ A read(const S &s, const raw &v, int64_t i) {
    S kept = s;
    if constexpr (any) kept.dtype = TN_I64;
    return kept.read(&v, 0, i);
  }
  static __device__ __forceinline__ wrote written(const S &s, A a) {
    wrote w;
    element::write(&w, 0, s.value(a), any ? TN_I64 : s.result);
    return w;
  }
  /* An element that changes no result: those beyond the end. */
  static __device__ __forceinline__ raw neutral(const S &s) {
    if constexpr (any)
      return s.neutral();
    else
      return stored<raw>::from((compute_t<raw>)s.neutral());
  }
  /* From and to memory. */
  static __device__ __forceinline__ raw fetch(const S &s, const void *x, int64_t at) {
    if constexpr (any)
      return element::read(x, at, s.dtype);
    else
      return ((const raw *)x)[at];
  }
  static __device__ __forceinline__ void put(const S &s, void *y, int64_t at, const wrote &v) {
    if constexpr (any)
      element::write(y, at, v, s.result);
    else
      ((wrote *)y)[at] = v;
  }
};

template <class T, int N> __device__ __forceinline__ void turn_round(pack<T, N> *v) {
#pragma unroll
  for (int e = 0; e < N / 2; e++) {
    T other = v->v[e];
    v->v[e] = v->v[N - 1 - e];
    v->v[N - 1 - e] = other;
  }
}

} // namespace

#endif /* KERNELS_CUDA_REDUCE_SCAN_CUH */
