/*
 * What the files of normalisation share: x as [n, c, inner], the sets that statistics are
 * taken over (see kernels/reference/norm.c), weights of either type, joining over the
 * threads of a row or block, and means and variances that can be joined.
 */
#ifndef KERNELS_CUDA_NORM_CUH
#define KERNELS_CUDA_NORM_CUH

#include "kernels/cuda/base/halves.cuh"

enum { norm_batch = -1 };

struct norm_shape {
  int64_t n, c, inner;
  int64_t groups, per; /* groups of a sample or norm_batch; channels of a group */
  int64_t size;        /* elements of a set */
  bool centred;        /* rms_norm is not */
};

namespace {

/* An element is normalised in accumulator_t, and statistics are stored as that. Sums are of
 * doubles: they hold the square of every float, and a mean that is large beside the deviation. */

static norm_shape norm_shape_of(const DLTensor *x, int first, int last, int64_t groups) {
  norm_shape s = {};
  s.n = cuda_size(x, 0, first);
  s.c = cuda_size(x, first, last);
  s.inner = cuda_size(x, last, x->ndim);
  s.groups = groups;
  s.per = groups > 0 ? s.c / groups : s.c;
  s.size = groups == norm_batch ? s.n * s.inner : s.per * s.inner;
  s.centred = true;
  return s;
}

/* gamma or beta: of type T, or of the wide type; absent where data is NULL. */
struct norm_weight {
  const void *data;
  bool wide;
};

static norm_weight weight_of(const DLTensor *t, const DLTensor *x) {
  if (t == NULL) return {NULL, false};
  return {t->data, t->dtype.bits != x->dtype.bits};
}

/* Their gradients, written. */
struct norm_weight_out {
  void *data;
  bool wide;
};

/* N neighbouring numbers from `at` on, which is a multiple of N; 16-byte aligned if N > 1. */
template <class C, int N> __device__ __forceinline__ void read_pack(C *out, const C *from) {
  constexpr int width = least(N, 16 / (int)sizeof(C));
#pragma unroll
  for (int k = 0; k < N / width; k++) {
    pack<C, width> p = ((const pack<C, width> *)from)[k];
#pragma unroll
    for (int j = 0; j < width; j++) out[k * width + j] = p.v[j];
  }
}

/* N elements, as numbers. */
template <class T, int N, class C>
__device__ __forceinline__ void read_elements(C *out, const T *from) {
  pack<T, N> p = *(const pack<T, N> *)from;
#pragma unroll
  for (int j = 0; j < N; j++) out[j] = load(p.v[j]);
}

template <class T, int N, class C>
__device__ __forceinline__ void write_elements(T *to, const C *from) {
  pack<T, N> p;
#pragma unroll
  for (int j = 0; j < N; j++) p.v[j] = stored<T>::from(from[j]);
  *(pack<T, N> *)to = p;
}

/* The weights of N neighbouring elements: of channels at, at + 1, ... where `each`, else all
 * of channel `at`. */
template <class T, int N, class C>
__device__ __forceinline__ void read_weights(C *out, norm_weight w, int64_t at, bool each,
                                             C otherwise) {
  if (w.data == NULL || !each) {
    C one = otherwise;
    if (w.data != NULL) one = w.wide ? ((const C *)w.data)[at] : (C)load(((const T *)w.data)[at]);
#pragma unroll
    for (int j = 0; j < N; j++) out[j] = one;
  } else if (w.wide) {
    read_pack<C, N>(out, (const C *)w.data + at);
  } else {
    read_elements<T, N>(out, (const T *)w.data + at);
  }
}

/* The same of statistics, which are there and of type C. */
template <class C, int N>
__device__ __forceinline__ void read_numbers(C *out, const C *from, int64_t at, bool each) {
  if (each) return read_pack<C, N>(out, from + at);
#pragma unroll
  for (int j = 0; j < N; j++) out[j] = from[at];
}

/* Sums of what 16 bits made are added as floats first, some neighbours at a time. */
template <class T, int N> constexpr bool adds_floats = sizeof(T) == 2 && N > 1;

/* The sum of squared distances from a mean. */
template <int N> __device__ __forceinline__ double squares_of(const float *v, double mean) {
  const float high = (float)mean, low = (float)(mean - (double)high);
  float d[N], q;
#pragma unroll
  for (int j = 0; j < N; j++) {
    d[j] = (v[j] - high) - low;
    d[j] *= d[j];
  }
  q = tree_sum<N>(d);
  if (holds_squares(q)) return (double)q;
  double sum = 0;
#pragma unroll
  for (int j = 0; j < N; j++) sum += ((double)v[j] - mean) * ((double)v[j] - mean);
  return sum;
}

/* The sum of N floats, which may be more than a float holds. */
template <int N> __device__ __forceinline__ double sum_of(const float *v) {
  const float s = tree_sum<N>(v);
  if (fabsf(s) < 0x1p120f) return (double)s;
  double sum = 0;
#pragma unroll
  for (int j = 0; j < N; j++) sum += (double)v[j];
  return sum;
}

/* The sum over `lanes` threads side by side: 32, or all of the block. Every one gets it. */
template <class C> __device__ C join_lanes(C v, int lanes) {
  __shared__ C shared[32];
  for (int mask = 16; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
  if (lanes == 32) return v;
  __syncthreads(); /* the last use of shared is over */
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : (C)0;
  for (int mask = 16; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
  return v;
}

struct norm_stat {
  double mean, var;
};

/* Of doubles: mean and sum of squared distances from it, of parts that can be joined (Chan,
 * Golub and LeVeque 1983), all taken from a shift that parts share, some element of the set: the
 * mean is then off by one rounding, however far from 0 it lies. Equal numbers have themselves as
 * mean and no distance. The plain sum says what the mean is where some number is not finite. */
struct moments {
  double count, mean, squares, sum;

  __device__ __forceinline__ void join(moments b) {
    if (b.count == 0) return;
    double all = count + b.count, share = b.count / all, d = b.mean - mean;
    mean += d * share;
    squares += b.squares + d * d * count * share;
    sum += b.sum;
    count = all;
  }

  template <int N> __device__ __forceinline__ void add(const double *v, double shift) {
    moments b = {(double)N, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < N; j++) {
      b.mean += v[j] - v[0];
      b.sum += v[j];
    }
    b.mean = (v[0] - shift) + b.mean * (1.0 / N);
#pragma unroll
    for (int j = 0; j < N; j++) {
      double d = (v[j] - shift) - b.mean;
      b.squares += d * d;
    }
    join(b);
  }

  __device__ __forceinline__ moments from_lane(int mask) const {
    return {__shfl_xor_sync(0xffffffffu, count, mask), __shfl_xor_sync(0xffffffffu, mean, mask),
            __shfl_xor_sync(0xffffffffu, squares, mask), __shfl_xor_sync(0xffffffffu, sum, mask)};
  }

  __device__ __forceinline__ norm_stat finish(int64_t, double shift) const {
    return {isfinite(mean) && count > 0 ? shift + mean : sum / count, squares / count};
  }
};

/* Of floats: sums of distances from a shift that all parts share, some element of the set, and
 * of their squares. A double has bits enough for the difference of the two. */
struct shifted_sums {
  double sum, squares;

  __device__ __forceinline__ void join(shifted_sums b) {
    sum += b.sum;
    squares += b.squares;
  }

  template <int N> __device__ __forceinline__ void add(const float *v, double shift) {
    add_distances<N>(&sum, &squares, v, shift);
  }

  __device__ __forceinline__ shifted_sums from_lane(int mask) const {
    return {__shfl_xor_sync(0xffffffffu, sum, mask), __shfl_xor_sync(0xffffffffu, squares, mask)};
  }

  __device__ __forceinline__ norm_stat finish(int64_t count, double shift) const {
    double mean = sum / (double)count, var = squares / (double)count - mean * mean;
    return {shift + mean, var < 0 ? 0 : var};
  }
};

template <class C> struct statistics { using type = shifted_sums; };
template <> struct statistics<double> { using type = moments; };
template <class C> using statistics_t = typename statistics<C>::type;

/* What the distances of a set are taken from: its first element, if that is a number. */
template <class T> __device__ __forceinline__ double shift_of(const T *x) {
  double first = (double)load(*x);
  return isfinite(first) ? first : 0;
}

/* Joins a warp's; right in lane 0. */
template <class M> __device__ __forceinline__ void join_warp(M &m) {
  for (int mask = 1; mask < 32; mask *= 2) {
    M b = m.from_lane(mask);
    m.join(b);
  }
}

/* Joins a block's; right in every thread of warp 0. */
template <class M> __device__ M join_block(M m) {
  __shared__ M shared[32];
  join_warp(m);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = m;
  __syncthreads();
  m = {};
  if (threadIdx.x % 32 < blockDim.x / 32) m = shared[threadIdx.x % 32];
  join_warp(m);
  return m;
}

/* A mean in two parts, and the root. What float does not hold is computed in double: x is
 * within sqrt(size) / rstd of the mean. */
template <class C> struct centre {
  double mean, root;
  C high, low, rstd;
  bool fits;

  __device__ __forceinline__ centre(double m, double r) : mean(m), root(r) {
    high = (C)m;
    low = (C)(m - (double)high);
    rstd = (C)r;
    fits = sizeof(C) == 8 || (fabs(high) < (C)0x1p100 && rstd > (C)0x1p-60 && rstd < (C)0x1p60);
  }

  __device__ __forceinline__ C normal(C x, C gamma, C beta) const {
    if (sizeof(C) == 8) return (x - high) * rstd * gamma + beta;
    if (fits) return ((x - high) - low) * rstd * gamma + beta;
    return (C)(((double)x - mean) * root * (double)gamma + (double)beta);
  }
};

static bool all_aligned(const void *a, const void *b, const void *c, const void *d, const void *e) {
  return is_aligned(a, 16) && is_aligned(b, 16) && is_aligned(c, 16) && is_aligned(d, 16) &&
         is_aligned(e, 16);
}

} // namespace

/* Called between the files: the gradients of weights, and of x where sets are channels. */
tn_status cuda_norm_weight_grads(const tn_kernel_args *args, const norm_shape &s);
size_t cuda_norm_weight_workspace(const tn_kernel_args *args, const norm_shape &s);

#endif /* KERNELS_CUDA_NORM_CUH */
