/*
 * The frame of kernels that write a dense y, whatever they make it of: a thread to 16 bytes of y,
 * which lie aligned wherever y begins. Vectors that hang over y's ends are written element by
 * element; all others in one access.
 */
#ifndef KERNELS_CUDA_VECTOR_CUH
#define KERNELS_CUDA_VECTOR_CUH

#include "kernels/cuda/base/place.cuh"

/* Elements of type T in one access. */
template <class T> struct vector_width { static constexpr int value = 16 / (int)sizeof(T); };
template <class T> using vector_of = pack<T, vector_width<T>::value>;

/* The same as words. The compiler would take a store of small elements apart again. */
template <class T> union vector_words {
  vector_of<T> elements;
  pack<uint32_t, 4> words;
};

template <class T> __device__ __forceinline__ void vector_put(T *y, const vector_of<T> &v) {
  vector_words<T> w;
  w.elements = v;
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(y), "r"(w.words.v[0]),
               "r"(w.words.v[1]), "r"(w.words.v[2]), "r"(w.words.v[3])
               : "memory");
}

/* How y is cut: vector v holds elements v N - shift on. */
template <class I> struct vector_cut {
  I n;           /* elements of y */
  int32_t shift; /* elements that an aligned vector at y's begin would have before it */
};

template <class T, class I> static vector_cut<I> vector_cut_of(const T *y, int64_t n) {
  return {(I)n, (int32_t)(((uintptr_t)y & 15) / sizeof(T))};
}

template <class T> static unsigned vector_blocks(const T *y, int64_t n) {
  int64_t shift = (int64_t)(((uintptr_t)y & 15) / sizeof(T));
  return place_blocks(ceil_div(n + shift, vector_width<T>::value));
}

/* Whether 32 bits index y, with what hangs over its ends. */
static inline bool vector_is_narrow(int64_t n) { return n <= CUDA_MAX_INDEX - 64; }

/* What lies where a kernel may read: words that only touch an element of it are read whole. */
struct readable {
  const char *begin, *end;
};

static inline readable readable_of(const DLTensor *x) {
  const char *begin = (const char *)x->data;
  return {begin, begin + cuda_size(x, 0, x->ndim) * (x->dtype.bits / 8)};
}

/* The elements from p on, wherever p lies: aligned in one access, else by words, shifted where
 * elements are smaller than those. In two halves, so that several accesses can be under way: the
 * words, and the elements made of them. */
struct unaligned_words {
  uint32_t w[5], bits;
};

template <class T>
__device__ __forceinline__ unaligned_words vector_begin(const T *p, const readable &from) {
  unaligned_words u;
  const uintptr_t address = (uintptr_t)p;
  u.bits = 0;
  if (address % 16 == 0) {
    const uint4 w = *(const uint4 *)p;
    u.w[0] = w.x;
    u.w[1] = w.y;
    u.w[2] = w.z;
    u.w[3] = w.w;
    return u;
  }
  if (sizeof(T) >= 4 || address % 4 == 0) {
    const uint32_t *words = (const uint32_t *)p;
#pragma unroll
    for (int k = 0; k < 4; k++) u.w[k] = words[k];
    return u;
  }
  const char *first = (const char *)(address & ~(uintptr_t)3);
  if (first >= from.begin && first + 20 <= from.end) {
    const uint32_t *words = (const uint32_t *)first;
    u.bits = (uint32_t)(address & 3) * 8;
#pragma unroll
    for (int k = 0; k < 5; k++) u.w[k] = words[k];
    return u;
  }
  vector_words<T> v;
#pragma unroll
  for (int k = 0; k < vector_width<T>::value; k++) v.elements.v[k] = p[k];
#pragma unroll
  for (int k = 0; k < 4; k++) u.w[k] = v.words.v[k];
  return u;
}

template <class T> __device__ __forceinline__ vector_of<T> vector_end(const unaligned_words &u) {
  vector_words<T> v;
#pragma unroll
  for (int k = 0; k < 4; k++)
    v.words.v[k] = sizeof(T) < 4 && u.bits ? __funnelshift_r(u.w[k], u.w[k + 1], u.bits) : u.w[k];
  return v.elements;
}

template <class T>
__device__ __forceinline__ vector_of<T> vector_at(const T *p, const readable &from) {
  return vector_end<T>(vector_begin(p, from));
}

/* Puts elements lo .. hi - 1 of those from p on there; none beside them need lie in memory. */
template <class T>
__device__ __forceinline__ void vector_piece(vector_of<T> *v, const T *p, int lo, int hi,
                                             const readable &from) {
  constexpr int N = vector_width<T>::value;
  const uintptr_t begin = (uintptr_t)p;
  if (begin >= (uintptr_t)from.begin && begin + 16 <= (uintptr_t)from.end) {
    const vector_of<T> all = vector_at(p, from);
#pragma unroll
    for (int k = 0; k < N; k++)
      if (k >= lo && k < hi) v->v[k] = all.v[k];
  } else {
#pragma unroll
    for (int k = 0; k < N; k++)
      if (k >= lo && k < hi) v->v[k] = p[k];
  }
}

/* Elements that come one after the other, put together without an array that a loop would index:
 * what is taken last lies highest. */
template <class T> struct gathered_vector {
  uint64_t low, high;
  __device__ __forceinline__ void take(uint64_t bits) {
    constexpr int size = 8 * (int)sizeof(T);
    if constexpr (size == 64) {
      low = high;
      high = bits;
    } else {
      low = low >> size | high << (64 - size);
      high = high >> size | bits << (64 - size);
    }
  }
};

/* y[i] for all i, of a maker M that has
 *   fill<N>(I first, T (&v)[N])   elements first .. first + N - 1 of y */
template <class T, class I, class M>
__device__ __forceinline__ void vector_make_one(T *y, I base, vector_cut<I> cut, const M &make) {
  constexpr int N = vector_width<T>::value;
  if (base >= (I)cut.shift && base - cut.shift + N <= cut.n) {
    vector_of<T> v;
    make.fill((I)(base - cut.shift), v.v);
    vector_put(y + (base - cut.shift), v);
    return;
  }
#pragma unroll 1
  for (int k = 0; k < N; k++) {
    if (base + k < (I)cut.shift || base + k - cut.shift >= cut.n) continue;
    T one[1];
    make.fill((I)(base + k - cut.shift), one);
    y[base + k - cut.shift] = one[0];
  }
}

/* Vectors of a thread: of few elements several, for which there would be too many blocks. */
template <class T> struct vector_makes { static constexpr int value = sizeof(T) == 8 ? 2 : 1; };

template <class T, class I, class M>
__global__ void __launch_bounds__(place_threads)
    vector_make(T *y, vector_cut<I> cut, const __grid_constant__ M make) {
  constexpr int V = vector_makes<T>::value, N = vector_width<T>::value;
  const I base = ((I)blockIdx.x * (V * place_threads) + threadIdx.x) * N;
#pragma unroll
  for (int k = 0; k < V; k++) vector_make_one(y, (I)(base + (I)(k * place_threads * N)), cut, make);
}

template <class T> static unsigned vector_make_blocks(const T *y, int64_t n) {
  return (unsigned)ceil_div(vector_blocks(y, n), vector_makes<T>::value);
}

/* pre: n > 0. M is a template over the index type. */
template <class T, template <class> class M, class... P>
static tn_status vector_run(const tn_kernel_args *args, T *y, int64_t n, P... parts) {
  const unsigned blocks = vector_make_blocks(y, n);
  if (vector_is_narrow(n))
    return launch(args, vector_make<T, uint32_t, M<uint32_t>>, blocks, place_threads, 0, y,
                  vector_cut_of<T, uint32_t>(y, n), M<uint32_t>{parts...});
  return launch(args, vector_make<T, uint64_t, M<uint64_t>>, blocks, place_threads, 0, y,
                vector_cut_of<T, uint64_t>(y, n), M<uint64_t>{parts...});
}

#endif
