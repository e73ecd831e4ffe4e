/* Where vectors of pad, tile, repeat, flip and roll read, axis by axis: the device's part of
 * arrange.cu. */
#ifndef KERNELS_CUDA_LAYOUT_ARRANGE_CUH
#define KERNELS_CUDA_LAYOUT_ARRANGE_CUH

#include "kernels/cuda/base/vector.cuh"

namespace {

enum axis_kind { AXIS_SAME, AXIS_PAD, AXIS_TILE, AXIS_REPEAT, AXIS_FLIP, AXIS_ROLL };

struct arrangement {
  int rank, mode;
  int kind[TN_MAX_RANK];
  place_divisor out[TN_MAX_RANK]; /* sizes of y */
  place_divisor by[TN_MAX_RANK];  /* size of x for tile, repeats for repeat */
  int64_t in[TN_MAX_RANK];        /* sizes of x */
  int64_t shift[TN_MAX_RANK];     /* before of pad, shift of roll */
  int64_t step[TN_MAX_RANK];      /* of x, in units */
  uint64_t value;                 /* bits of one element, repeated to 8 bytes */
  readable from;                  /* x */
};

/* Places of x: as wide as those of y, which has no fewer elements. */
template <class I> using offset_t = std::make_signed_t<I>;

template <class S> __device__ __forceinline__ S pad_source(S i, S n, int mode) {
  if (i >= 0 && i < n) return i;
  if (mode == TN_PAD_CONSTANT) return -1;
  if (mode == TN_PAD_EDGE) return i < 0 ? 0 : n - 1;
  return i < 0 ? -i : 2 * (n - 1) - i;
}

/* The indices of x along axis d that indices `at` of y read; -1 for none. */
template <class I, int V>
__device__ __forceinline__ void sources(const arrangement &a, int d, const I (&at)[V],
                                        offset_t<I> (&from)[V]) {
  using S = offset_t<I>;
  const S shift = (S)a.shift[d], size = (S)a.in[d];
  I q, r;
  switch (a.kind[d]) {
  case AXIS_PAD:
#pragma unroll
    for (int k = 0; k < V; k++) from[k] = pad_source<S>((S)at[k] - shift, size, a.mode);
    break;
  case AXIS_TILE:
  case AXIS_REPEAT:
#pragma unroll
    for (int k = 0; k < V; k++) {
      split(at[k], a.by[d], &q, &r);
      from[k] = (S)(a.kind[d] == AXIS_TILE ? r : q);
    }
    break;
  case AXIS_FLIP:
#pragma unroll
    for (int k = 0; k < V; k++) from[k] = size - 1 - (S)at[k];
    break;
  default:
#pragma unroll
    for (int k = 0; k < V; k++) {
      from[k] = (S)at[k] - (a.kind[d] == AXIS_ROLL ? shift : 0);
      if (from[k] < 0) from[k] += size;
    }
  }
}

template <class I> __device__ __forceinline__ int64_t source(const arrangement &a, int d, I i) {
  const I at[1] = {i};
  offset_t<I> from[1];
  sources(a, d, at, from);
  return from[0];
}

/* Places of y: their indices along the innermost axis, and the rows of x that are read along it. */
template <class I, int V> struct spots {
  I i[V];
  offset_t<I> row[V]; /* -1 for none */
};

template <class I, int V>
__device__ __forceinline__ spots<I, V> spots_of(const arrangement &a, const I (&flat)[V]) {
  const int last = a.rank - 1;
  spots<I, V> s;
  I rest[V], at[V];
  bool found[V];
#pragma unroll
  for (int k = 0; k < V; k++) {
    s.i[k] = flat[k];
    s.row[k] = 0;
    found[k] = true;
    if (last > 0) split(flat[k], a.out[last], &rest[k], &s.i[k]);
  }
#pragma unroll 1
  for (int d = last - 1; d >= 0; d--) {
    offset_t<I> from[V];
#pragma unroll
    for (int k = 0; k < V; k++) {
      at[k] = rest[k];
      if (d > 0) split(at[k], a.out[d], &rest[k], &at[k]);
    }
    sources(a, d, at, from);
    const offset_t<I> step = (offset_t<I>)a.step[d];
#pragma unroll
    for (int k = 0; k < V; k++) {
      found[k] = found[k] && from[k] >= 0;
      s.row[k] += from[k] * step;
    }
  }
#pragma unroll
  for (int k = 0; k < V; k++)
    if (!found[k]) s.row[k] = -1;
  return s;
}

/* One of them. */
template <class I> struct spot {
  I i;
  int64_t row;
};

template <class I> __device__ __forceinline__ spot<I> spot_of(const arrangement &a, I flat) {
  const I one[1] = {flat};
  const spots<I, 1> s = spots_of(a, one);
  return {s.i[0], s.row[0]};
}

/* Elements whose sources do not lie in a row. */
template <class U, class I>
__device__ __forceinline__ vector_of<U> scattered(const U *x, const arrangement &a, spot<I> s,
                                                  I flat) {
  constexpr int N = vector_width<U>::value;
  int last = a.rank - 1;
  gathered_vector<U> v = {0, 0};
#pragma unroll 1
  for (int k = 0; k < N; k++, s.i++) {
    if (s.i == (I)a.out[last].value) s = spot_of(a, (I)(flat + k));
    int64_t from = s.row < 0 ? -1 : source(a, last, s.i);
    v.take(from < 0 ? (uint64_t)(U)a.value : (uint64_t)x[s.row + from]);
  }
  union {
    gathered_vector<U> bits;
    vector_of<U> elements;
  } all = {v};
  return all.elements;
}

/* Whether the innermost axis goes through x in stretches, most of which are not too short. */
template <class U> __device__ __forceinline__ bool has_stretches(const arrangement &a) {
  const int last = a.rank - 1, kind = a.kind[last];
  const bool goes_on = kind == AXIS_SAME || kind == AXIS_ROLL || kind == AXIS_TILE ||
                       (kind == AXIS_PAD && a.mode == TN_PAD_CONSTANT);
  const int64_t size = kind == AXIS_TILE ? a.in[last] : (int64_t)a.out[last].value;
  return goes_on && 2 * size >= vector_width<U>::value;
}

/* Elements from a place on along which x is read in a row, up to the row's end, and where. */
struct stretch {
  int64_t from, count;
};

template <class I> __device__ __forceinline__ stretch stretch_of(const arrangement &a, int d, I i) {
  const int64_t left = (int64_t)((I)a.out[d].value - i), at = (int64_t)i - a.shift[d];
  if (a.kind[d] == AXIS_TILE) {
    I q, r;
    split(i, a.by[d], &q, &r);
    const int64_t count = a.in[d] - (int64_t)r;
    return {(int64_t)r, count < left ? count : left};
  }
  if (a.kind[d] == AXIS_ROLL && at < 0) return {at + a.in[d], -at};
  return {a.kind[d] == AXIS_SAME ? (int64_t)i : at, left};
}

/* Elements of several stretches, of rows behind one another as well. What no element of x is read
 * for is the value. */
template <class U, class I>
__device__ __forceinline__ vector_of<U> stretched(const U *x, const arrangement &a, spot<I> s,
                                                  I flat) {
  constexpr int N = vector_width<U>::value;
  const int last = a.rank - 1;
  vector_of<U> v;
#pragma unroll
  for (int k = 0; k < N; k++) v.v[k] = (U)a.value;
  int k = 0;
#pragma unroll 1
  for (;;) {
    const stretch t = stretch_of(a, last, s.i);
    const int count = (int)(t.count < N - k ? t.count : N - k);
    const int64_t inside = a.in[last] - t.from; /* up to the end of x */
    const int lo = t.from >= 0 ? k : t.from > -N ? k - (int)t.from : N;
    const int hi = k + (int)(inside <= 0 ? 0 : inside < count ? inside : count);
    if (s.row >= 0 && lo < hi)
      vector_piece(&v, (const U *)((uintptr_t)x + (uintptr_t)(s.row + t.from - k) * sizeof(U)), lo,
                   hi, a.from);
    k += count;
    if (k == N) return v;
    s.i += (I)count;
    if (s.i == (I)a.out[last].value) s = spot_of(a, (I)(flat + k));
  }
}

/* Elements each of which is read several times: the first one `left` times, those behind it `by`
 * times. */
template <class U>
__device__ __forceinline__ vector_of<U> repeated(const unaligned_words &words, int left, int by) {
  constexpr int N = vector_width<U>::value, bits = 8 * (int)sizeof(U);
  vector_words<U> from;
  from.elements = vector_end<U>(words);
  uint64_t low = (uint64_t)from.words.v[1] << 32 | from.words.v[0];
  uint64_t high = (uint64_t)from.words.v[3] << 32 | from.words.v[2];
  vector_of<U> v;
#pragma unroll
  for (int k = 0; k < N; k++) {
    v.v[k] = (U)low;
    if (--left) continue;
    left = by;
    low = bits == 64 ? high : low >> bits % 64 | high << (64 - bits) % 64;
    high = bits == 64 ? 0 : high >> bits % 64;
  }
  return v;
}

/* What a vector in one row of y reads: x from `from` on along the row, its elements lo .. hi - 1;
 * the others are the value. */
template <class I> struct piece {
  offset_t<I> from;
  int lo, hi;
  bool is_one; /* false: what it reads does not lie so */
};

template <class I, int N>
__device__ __forceinline__ piece<I> piece_of(const arrangement &a, I i, offset_t<I> row) {
  using S = offset_t<I>;
  const int last = a.rank - 1, kind = a.kind[last];
  const S size = (S)a.in[last], shift = (S)a.shift[last];
  piece<I> p = {(S)i, 0, N, i + N <= (I)a.out[last].value};
  I q, r;
  switch (kind) {
  case AXIS_PAD:
    p.from -= shift;
    if (a.mode == TN_PAD_CONSTANT) {
      p.lo = p.from >= 0 ? 0 : p.from > -N ? (int)-p.from : N;
      p.hi = size - p.from >= N ? N : size > p.from ? (int)(size - p.from) : 0;
    } else {
      p.is_one = p.is_one && p.from >= 0 && p.from + N <= size;
    }
    break;
  case AXIS_TILE:
    split(i, a.by[last], &q, &r);
    p.from = (S)r;
    p.is_one = p.is_one && p.from + N <= size;
    break;
  case AXIS_FLIP:
    p.from = size - N - p.from;
    break;
  case AXIS_ROLL:
    p.from -= shift;
    if (p.from < 0) p.from += size;
    p.is_one = p.is_one && p.from + N <= size;
    break;
  case AXIS_REPEAT: /* `lo` elements of the first one, or as many as there are of each */
    split(i, a.by[last], &q, &r);
    p.from = (S)q;
    p.lo = r + N > (I)a.by[last].value ? (int)((I)a.by[last].value - r) : 0;
    return p;
  default:
    break;
  }
  if (row < 0 || p.lo >= p.hi) p.lo = p.hi = 0;
  return p;
}

/* Reads for a piece; one that reads what lies outside x is none. */
template <class U, class I>
__device__ __forceinline__ unaligned_words begin_piece(const arrangement &a, const U *row,
                                                       piece<I> *p) {
  constexpr int N = vector_width<U>::value;
  const U *from = row + p->from;
  const int last = a.rank - 1;
  const bool is_read = a.kind[last] != AXIS_REPEAT || a.by[last].value < N;
  if (!is_read) {
    union {
      U value[2];
      uint32_t words[4];
    } two = {};
    two.value[0] = from[0];
    two.value[1] = p->lo ? from[1] : from[0];
    return {{two.words[0], two.words[1], two.words[2], two.words[3], 0}, 0};
  }
  if (p->hi - p->lo < N &&
      ((const char *)from < a.from.begin || (const char *)from + N * sizeof(U) > a.from.end)) {
    p->is_one = false;
    return {};
  }
  return vector_begin(from, a.from);
}

/* The vector of a piece, of what was read for it. */
template <class U, class I>
__device__ __forceinline__ vector_of<U> vector_of_piece(const arrangement &a, const piece<I> &p,
                                                        const unaligned_words &words) {
  constexpr int N = vector_width<U>::value;
  const int kind = a.kind[a.rank - 1];
  const vector_of<U> read = vector_end<U>(words);
  vector_of<U> v = read;
  if (kind == AXIS_FLIP) {
#pragma unroll
    for (int k = 0; k < N; k++) v.v[k] = read.v[N - 1 - k];
  } else if (kind == AXIS_REPEAT) {
    v = repeated<U>(words, p.lo ? p.lo : N, (int)a.by[a.rank - 1].value);
  } else if (p.hi - p.lo < N) {
#pragma unroll
    for (int k = 0; k < N; k++)
      if (k < p.lo || k >= p.hi) v.v[k] = (U)a.value;
  }
  return v;
}

/* Any vector: `base` counts from an aligned place on. */
template <class U, class I>
__device__ __forceinline__ void put_any(U *y, const U *x, I base, vector_cut<I> cut,
                                        const arrangement &a) {
  constexpr int N = vector_width<U>::value;
  const int last = a.rank - 1;
  const I flat = base - cut.shift;
  if (base < (I)cut.shift || flat + N > cut.n) {
#pragma unroll 1
    for (int k = 0; k < N; k++) {
      if (base + k < (I)cut.shift || base + k - cut.shift >= cut.n) continue;
      const spot<I> s = spot_of(a, (I)(flat + k));
      const int64_t from = s.row < 0 ? -1 : source(a, last, s.i);
      y[base + k - cut.shift] = from < 0 ? (U)a.value : x[s.row + from];
    }
    return;
  }
  const spot<I> s = spot_of(a, flat);
  vector_of<U> v;
  if (has_stretches<U>(a))
    v = stretched(x, a, s, flat);
  else
    v = scattered(x, a, s, flat);
  vector_put(y + flat, v);
}

} // namespace

#endif /* KERNELS_CUDA_LAYOUT_ARRANGE_CUH */
