/*
 * pad_grad: each element of dx sums what was read from it. Along an axis those are its own place,
 * and the places behind an edge that repeat or mirror it. A thread has a few vectors of dx, of 16
 * bytes: away from the edges each element has one reader, and these lie in a row, or in two where
 * the vector does.
 */
#include "kernels/cuda/base/vector.cuh"

namespace {

struct unpadding {
  int rank, mode;
  place_divisor size[TN_MAX_RANK];                                    /* of dx */
  int64_t before[TN_MAX_RANK], after[TN_MAX_RANK], step[TN_MAX_RANK]; /* step of dy */
  readable from;                                                      /* dy */
};

/* Places of dy along one axis: from begin on, `count` of them; then up to two more. */
struct readers {
  int64_t begin, count, more[2];
  int num_more;
};

__device__ __forceinline__ readers readers_of(const unpadding &u, int d, int64_t j) {
  int64_t n = (int64_t)u.size[d].value, before = u.before[d], after = u.after[d];
  readers r = {j + before, 1, {0, 0}, 0};
  if (u.mode == TN_PAD_EDGE) {
    if (j == n - 1) r.count += after;
    if (j == 0) r.begin = 0, r.count += before;
  } else if (u.mode == TN_PAD_REFLECT) {
    int64_t back = n - 1 - j; /* how far from the far edge */
    bool mirrored = j > 0 && j <= before, far = back > 0 && back <= after;
    r.more[0] = mirrored ? before - j : before + n - 1 + back;
    r.more[1] = before + n - 1 + back;
    r.num_more = (int)mirrored + (int)far;
  }
  return r;
}

/* Whether no place but its own reads any of j .. last along an axis. */
__device__ __forceinline__ bool is_alone(const unpadding &u, int d, int64_t j, int64_t last) {
  int64_t n = (int64_t)u.size[d].value;
  if (u.mode == TN_PAD_CONSTANT || (u.before[d] == 0 && u.after[d] == 0)) return true;
  if (u.mode == TN_PAD_EDGE)
    return (j > 0 || u.before[d] == 0) && (last < n - 1 || u.after[d] == 0);
  return j > u.before[d] && last < n - 1 - u.after[d];
}

/* Where the first readers of an element lie in dy, and whether it and the elements up to `more`
 * behind it along the innermost axis have no others. */
template <class I> struct read_place {
  int64_t offset;
  bool alone;
};

template <class I>
__device__ __forceinline__ read_place<I> read_place_of(const unpadding &u, I flat, int more) {
  read_place<I> p = {0, true};
  I rest = flat;
#pragma unroll 1
  for (int d = u.rank - 1; d >= 0; d--) {
    I q = 0, j = rest;
    if (d > 0) split(rest, u.size[d], &q, &j);
    rest = q;
    int64_t last = (int64_t)j + (d == u.rank - 1 ? more : 0);
    p.alone = p.alone && last < (int64_t)u.size[d].value && is_alone(u, d, (int64_t)j, last);
    p.offset += ((int64_t)j + u.before[d]) * u.step[d];
  }
  return p;
}

/* Sums over the readers of all axes, the innermost axis' fastest: each one's number is taken
 * apart into a number along each axis. */
template <class T, class I>
__device__ __noinline__ T sum_of_readers(const T *dy, const unpadding &u, I flat) {
  compute_t<T> sum = 0;
  int64_t all = 1;
#pragma unroll 1
  for (int64_t t = 0; t < all; t++) {
    int64_t left = t, offset = 0, combined = 1;
    I rest = flat;
#pragma unroll 1
    for (int d = u.rank - 1; d >= 0; d--) {
      I q = 0, j = rest;
      if (d > 0) split(rest, u.size[d], &q, &j);
      rest = q;
      const readers r = readers_of(u, d, (int64_t)j);
      const int64_t count = r.count + r.num_more;
      int64_t k = 0;
      if (count > 1) {
        k = (int64_t)((uint64_t)left % (uint64_t)count);
        left = (int64_t)((uint64_t)left / (uint64_t)count);
        combined *= count;
      }
      offset += (k < r.count ? r.begin + k : k == r.count ? r.more[0] : r.more[1]) * u.step[d];
    }
    all = combined;
    sum += load(dy[offset]);
  }
  return stored<T>::from(sum);
}

template <class T, class I>
__device__ __forceinline__ T element_of(const T *dy, const unpadding &u, I flat) {
  const read_place<I> p = read_place_of(u, flat, 0);
  return p.alone ? dy[p.offset] : sum_of_readers(dy, u, flat);
}

template <class T> struct word_of { using type = T; };
template <> struct word_of<half_t> { using type = uint16_t; };
template <> struct word_of<bfloat_t> { using type = uint16_t; };
template <> struct word_of<float> { using type = uint32_t; };
template <> struct word_of<double> { using type = uint64_t; };

__device__ __forceinline__ uint64_t bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ uint64_t bits_of(double x) { return (uint64_t)__double_as_longlong(x); }
__device__ __forceinline__ uint64_t bits_of(half_t x) { return x.bits; }
__device__ __forceinline__ uint64_t bits_of(bfloat_t x) { return x.bits; }

/* The vector at `flat` of what lies in several rows, each element having one reader; false where
 * one has more. */
template <class U, class I>
__device__ __forceinline__ bool unpad_across(vector_of<U> *v, const U *dy, const unpadding &u,
                                             I flat) {
  constexpr int N = vector_width<U>::value;
  int k = 0;
#pragma unroll 1
  while (k < N) {
    I row, j;
    split((I)(flat + k), u.size[u.rank - 1], &row, &j);
    const int64_t left = (int64_t)u.size[u.rank - 1].value - (int64_t)j;
    const int count = (int)(left < N - k ? left : N - k);
    const read_place<I> p = read_place_of(u, (I)(flat + k), count - 1);
    if (!p.alone) return false;
    vector_piece(v, (const U *)((uintptr_t)dy + (uintptr_t)(p.offset - k) * sizeof(U)), k,
                 k + count, u.from);
    k += count;
  }
  return true;
}

/* Any vector: `base` counts from an aligned place on. */
template <class T, class I>
__device__ __forceinline__ void put_any(T *dx, const T *dy, I base, vector_cut<I> cut,
                                        const unpadding &u) {
  using U = typename word_of<T>::type;
  constexpr int N = vector_width<T>::value;
  const I flat = base - cut.shift;
  if (base < (I)cut.shift || flat + N > cut.n) {
#pragma unroll 1
    for (int k = 0; k < N; k++)
      if (base + k >= (I)cut.shift && base + k - cut.shift < cut.n)
        dx[base + k - cut.shift] = element_of(dy, u, (I)(flat + k));
    return;
  }
  union {
    gathered_vector<U> bits;
    vector_of<U> elements;
  } v = {{0, 0}};
  if ((int64_t)u.size[u.rank - 1].value >= N && unpad_across(&v.elements, (const U *)dy, u, flat)) {
    vector_put((U *)dx + flat, v.elements);
    return;
  }
  v.bits = {0, 0};
#pragma unroll 1
  for (int k = 0; k < N; k++) v.bits.take(bits_of(element_of(dy, u, (I)(flat + k))));
  vector_put((U *)dx + flat, v.elements);
}

/* Where vectors are read: N elements from `offset` on, the last ones from `skip` elements farther
 * on where `head`, those in the first row, are fewer. */
template <class I, int V> struct read_places {
  std::make_signed_t<I> offset[V], skip;
  int head[V];
  bool is_one[V]; /* false: not so */
};

template <class I, int N, int V>
__device__ __forceinline__ read_places<I, V> read_places_of(const unpadding &u,
                                                            const I (&flat)[V]) {
  using S = std::make_signed_t<I>;
  const int last = u.rank - 1;
  const S width = (S)u.size[last].value;
  read_places<I, V> p;
  I rest[V], j[V];
  /* Vectors in two rows are read as such where no element has several readers, and the rows are
   * neighbours along one axis. */
  const bool joins = last > 0 && u.mode == TN_PAD_CONSTANT && width >= N;
  p.skip = last > 0 ? (S)u.step[last - 1] - width : 0;
#pragma unroll
  for (int k = 0; k < V; k++) {
    j[k] = flat[k];
    rest[k] = 0;
    if (last > 0) split(flat[k], u.size[last], &rest[k], &j[k]);
    p.head[k] = width - (S)j[k] < N ? (int)(width - (S)j[k]) : N;
    p.offset[k] = (S)j[k] + (S)u.before[last];
    p.is_one[k] = (p.head[k] == N || joins) &&
                  is_alone(u, last, (int64_t)j[k], (int64_t)j[k] + p.head[k] - 1);
  }
#pragma unroll 1
  for (int d = last - 1; d >= 0; d--) {
    const S step = (S)u.step[d], before = (S)u.before[d];
#pragma unroll
    for (int k = 0; k < V; k++) {
      j[k] = rest[k];
      if (d > 0) split(j[k], u.size[d], &rest[k], &j[k]);
      p.offset[k] += ((S)j[k] + before) * step;
      p.is_one[k] = p.is_one[k] && is_alone(u, d, (int64_t)j[k], (int64_t)j[k]) &&
                    (d < last - 1 || p.head[k] == N || (uint64_t)j[k] + 1 < u.size[d].value);
    }
  }
  return p;
}

/* Vectors of a thread: their loads are under way together. */
template <class I> struct unpad_items { static constexpr int value = sizeof(I) == 8 ? 1 : 4; };

template <class T, class I>
__global__ void __launch_bounds__(place_threads)
    unpad(T *dx, const T *dy, vector_cut<I> cut, const __grid_constant__ unpadding u) {
  using U = typename word_of<T>::type;
  constexpr int N = vector_width<T>::value, V = unpad_items<I>::value;
  const I base = ((I)blockIdx.x * (V * place_threads) + threadIdx.x) * N;
  const U *from = (const U *)dy;
  I flat[V];
  unaligned_words words[V], more[V];
#pragma unroll
  for (int k = 0; k < V; k++) flat[k] = base + (I)(k * place_threads * N) - cut.shift;
  read_places<I, V> p = read_places_of<I, N>(u, flat);
  uint32_t left = 0; /* vectors that take more */
#pragma unroll
  for (int k = 0; k < V; k++) {
    p.is_one[k] = p.is_one[k] && flat[k] + cut.shift >= (I)cut.shift && flat[k] + (I)N <= cut.n;
    left |= (uint32_t)!p.is_one[k] << k;
    if (!p.is_one[k]) continue;
    words[k] = vector_begin(from + p.offset[k], u.from);
    if (p.head[k] < N) more[k] = vector_begin(from + (p.offset[k] + p.skip), u.from);
  }
#pragma unroll
  for (int k = 0; k < V; k++) {
    if (!p.is_one[k]) continue;
    vector_of<U> v = vector_end<U>(words[k]);
    if (p.head[k] < N) {
      const vector_of<U> behind = vector_end<U>(more[k]);
#pragma unroll
      for (int e = 0; e < N; e++)
        if (e >= p.head[k]) v.v[e] = behind.v[e];
    }
    vector_put((U *)dx + flat[k], v);
  }
#pragma unroll 1
  for (int k = 0; left; k++, left >>= 1)
    if (left & 1) put_any(dx, dy, base + (I)(k * place_threads * N), cut, u);
}

template <class T> tn_status run_unpad(const tn_kernel_args *args, int64_t n, const unpadding &u) {
  T *dx = (T *)args->out[0]->data;
  const T *dy = (const T *)args->in[0]->data;
  const int64_t blocks = vector_blocks(dx, n);
  if (vector_is_narrow(n) && vector_is_narrow(cuda_size(args->in[0], 0, args->in[0]->ndim)))
    return launch(args, unpad<T, uint32_t>,
                  (unsigned)ceil_div(blocks, unpad_items<uint32_t>::value), place_threads, 0, dx,
                  dy, vector_cut_of<T, uint32_t>(dx, n), u);
  return launch(args, unpad<T, uint64_t>, (unsigned)ceil_div(blocks, unpad_items<uint64_t>::value),
                place_threads, 0, dx, dy, vector_cut_of<T, uint64_t>(dx, n), u);
}

} // namespace

tn_status cuda_run_pad_grad(const tn_kernel_args *args) {
  const tn_pad_grad_attrs *attrs = (const tn_pad_grad_attrs *)args->attrs;
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  int64_t n = cuda_size(dx, 0, dx->ndim);
  if (n == 0) return TN_OK;
  unpadding u = {0, (int)attrs->mode};
  u.from = readable_of(dy);
  for (int d = 0; d < dx->ndim; d++) {
    int64_t before = attrs->before.count ? attrs->before.dim[d] : 0;
    int64_t after = attrs->after.count ? attrs->after.dim[d] : 0, size = dx->shape[d];
    int64_t step = cuda_size(dy, d + 1, dy->ndim);
    int last = u.rank - 1;
    bool joins = last >= 0 && before == 0 && after == 0 && dy->shape[d] == size &&
                 (u.mode == TN_PAD_CONSTANT || (u.before[last] == 0 && u.after[last] == 0));
    if (!joins) {
      u.size[u.rank] = place_divisor_of(size);
      u.before[u.rank] = before;
      u.after[u.rank] = after;
      u.step[u.rank++] = step;
      continue;
    }
    u.size[last] = place_divisor_of((int64_t)u.size[last].value * size);
    u.before[last] *= size;
    u.after[last] *= size;
    u.step[last] = step;
  }
  if (u.rank == 0) {
    u.rank = 1;
    u.size[0] = place_divisor_of(1);
    u.step[0] = 1;
  }
  return for_float(args, dx, [&](auto t) { return run_unpad<decltype(t)>(args, n, u); });
}
