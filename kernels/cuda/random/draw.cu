/*
 * Random ones, integers, bounded normal numbers, draws by weight and permutations. Numbers
 * follow from the seed and the element's place alone, as in kernels/common/draws.h; weights are
 * summed as whole numbers, so every device draws the same.
 */
#include "kernels/common/draws.h"
#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/base/scalars.cuh"
#include "kernels/cuda/index/radix.h"
#include "kernels/cuda/random/philox.cuh"

namespace {

enum {
  threads = 256,
};

/* Words up to `last` are ones. */
template <class V>
__global__ void __launch_bounds__(draw_threads)
    draw_ones(V *y, int64_t n, draw_origin from, int rounds, uint32_t last, V one, bool wide) {
  draw_share<4>(y, n, from, rounds, wide, [&](const philox_words &r, V *v) {
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = r.w[i] <= last ? one : (V)0;
  });
}

/* draw_below for n of 32 bits: the same number by half the products, and mostly by a quarter of
 * them, for what the low word adds hardly ever carries. */
__device__ __forceinline__ uint32_t draw_below_narrow(uint32_t low, uint32_t high, uint32_t n) {
  const uint64_t product = (uint64_t)high * n;
  const uint32_t below = (uint32_t)(product >> 32);
  if ((uint32_t)product < 0u - n) return below;
  return below + ((uint32_t)product + __umulhi(low, n) < (uint32_t)product);
}

template <class T>
__global__ void __launch_bounds__(draw_threads)
    draw_integers(T *y, int64_t n, draw_origin from, int rounds, uint64_t low, uint64_t span,
                  bool wide) {
  draw_share<2>(y, n, from, rounds, wide, [&](const philox_words &r, T *v) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint32_t *w = r.w + 2 * i;
      if (span >> 32)
        v[i] = (T)(low + draw_below((uint64_t)w[1] << 32 | w[0], span));
      else
        v[i] = (T)(low + draw_below_narrow(w[0], w[1], (uint32_t)span));
    }
  });
}

/* The bounds in float, which serves where the stretch is a good part of all probabilities: there
 * its rounding moves numbers by less than they are apart. */
struct truncated_single {
  float from, above; /* Phi(low) and 1 - Phi(high), and half a step */
  float step;        /* 2^-24 of what lies between */
  float low, high;
};

/* The inverse of Phi far out, where `below` or `above`, its rest up to 1, is little: PPND7 of AS
 * 241 (Wichura 1988). */
__device__ __noinline__ float far_quantile_single(float below, float above) {
  float z;
  const float t = sqrtf(-logf(fmaxf(fminf(below, above), 1e-37f)));
  if (t <= 5.0f) {
    const float r = t - 1.6f;
    z = __fdividef(
        fmaf(fmaf(fmaf(1.7023821103e-1f, r, 1.3067284816f), r, 2.7568153900f), r, 1.4234372777f),
        fmaf(fmaf(1.2021132975e-1f, r, 7.3700164250e-1f), r, 1.0f));
  } else {
    const float r = t - 5.0f;
    z = __fdividef(
        fmaf(fmaf(fmaf(1.7337203997e-2f, r, 4.2868294337e-1f), r, 3.0812263860f), r, 6.6579051150f),
        fmaf(fmaf(1.2258202635e-2f, r, 2.4197894225e-1f), r, 1.0f));
  }
  return below < above ? -z : z;
}

/* The inverse of Phi at `below`, of which `above` is the rest up to 1, to some 5e-7: erfinv of
 * Giles 2012 ("Approximating the erfinv function"), whose argument is known on both sides. */
__device__ __forceinline__ float quantile_single(float below, float above) {
  float w, z;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(w) : "f"(below * above));
  w = fmaf(w, -0.693147181f, -3.88629436f); /* -ln(4 below above) - 2.5 */
  if (w < 2.5f) {
    z = fmaf(3.97426023e-08f, w, 4.8546266e-07f);
    z = fmaf(z, w, -4.98282267e-06f);
    z = fmaf(z, w, -6.21052811e-06f);
    z = fmaf(z, w, 0.000309120031f);
    z = fmaf(z, w, -0.00177303494f);
    z = fmaf(z, w, -0.00590813403f);
    z = fmaf(z, w, 0.348802661f);
    z = fmaf(z, w, 2.12331355f);
    return z * (below - above);
  }
  return far_quantile_single(below, above);
}

__device__ __forceinline__ float truncated_single_at(const truncated_single &t, uint32_t word) {
  const float k = (float)(word >> 8), rest = 16777215.0f - k;
  const float z = quantile_single(fmaf(k, t.step, t.from), fmaf(rest, t.step, t.above));
  return fminf(fmaxf(z, t.low), t.high);
}

template <class T>
__global__ void __launch_bounds__(draw_threads)
    draw_truncated_single(T *y, int64_t n, draw_origin from, int rounds, float mean, float std,
                          truncated_single between, bool wide) {
  draw_share<4>(y, n, from, rounds, wide, [&](const philox_words &r, T *v) {
#pragma unroll
    for (int i = 0; i < 4; i += 2)
      draw_put(v + i, fmaf(std, truncated_single_at(between, r.w[i]), mean),
               fmaf(std, truncated_single_at(between, r.w[i + 1]), mean));
  });
}

template <class T>
__global__ void __launch_bounds__(draw_threads)
    draw_truncated(T *y, int64_t n, draw_origin from, int rounds, double mean, double std,
                   truncated between, bool wide) {
  constexpr int per = sizeof(T) == 8 ? 2 : 4;
  draw_share<per>(y, n, from, rounds, wide, [&](const philox_words &r, T *v) {
#pragma unroll 1
    for (int i = 0; i < per; i++) {
      uint64_t pair = (uint64_t)r.w[2 * i % 4 + 1] << 32 | r.w[2 * i % 4];
      double u = per == 2 ? ((double)(pair >> 11) + 0.5) * 0x1p-53
                          : ((double)(r.w[i] >> 8) + 0.5) * 0x1p-24;
      v[i] = stored<T>::from((compute_t<T>)(mean + std * truncated_at(&between, u)));
    }
  });
}

int64_t count_of(const tn_kernel_args *args) {
  return cuda_size(args->out[0], 0, args->out[0]->ndim);
}

template <class V> tn_status run_ones(const tn_kernel_args *args, V one) {
  const tn_bernoulli_attrs *a = (const tn_bernoulli_attrs *)args->attrs;
  V *y = (V *)args->out[0]->data;
  int64_t n = count_of(args);
  if (n == 0) return TN_OK;
  const uint64_t ones = bernoulli_threshold(a->p);
  return launch(args, draw_ones<V>, draw_blocks<V, 4>(n), draw_threads, 0, y, n, origin_of(a),
                draw_rounds(n), ones ? (uint32_t)(ones - 1) : 0, ones ? one : (V)0,
                draw_is_wide<V, 4>(y));
}

template <class T> tn_status run_integers(const tn_kernel_args *args) {
  const tn_randint_attrs *a = (const tn_randint_attrs *)args->attrs;
  T *y = (T *)args->out[0]->data;
  int64_t n = count_of(args);
  if (n == 0) return TN_OK;
  return launch(args, draw_integers<T>, draw_blocks<T, 2>(n), draw_threads, 0, y, n, origin_of(a),
                draw_rounds(n), (uint64_t)a->low, (uint64_t)a->high - (uint64_t)a->low,
                draw_is_wide<T, 2>(y));
}

/* A twentieth of all probabilities, and numbers that float holds. */
bool serves_single(const truncated *t, double mean, double std) {
  return t->width >= 0.05 && fabs(mean) < 1e6 * std && std > 1e-15 && std < 1e15;
}

template <class T> tn_status run_truncated(const tn_kernel_args *args) {
  const tn_truncated_normal_attrs *a = (const tn_truncated_normal_attrs *)args->attrs;
  T *y = (T *)args->out[0]->data;
  int64_t n = count_of(args);
  if (n == 0) return TN_OK;
  const truncated t = truncated_between(a->low, a->high);
  if constexpr (sizeof(T) < 8) {
    if (serves_single(&t, a->mean, a->std)) {
      const double step = t.width * 0x1p-24;
      const truncated_single single = {(float)(t.from + step / 2),
                                       (float)(normal_probability(-t.high) + step / 2), (float)step,
                                       (float)t.low, (float)t.high};
      const double std = t.mirrored ? -a->std : a->std;
      return launch(args, draw_truncated_single<T>, draw_blocks<T, 4>(n), draw_threads, 0, y, n,
                    origin_of(a), draw_rounds(n), (float)a->mean, (float)std, single,
                    draw_is_wide<T, 4>(y));
    }
  }
  constexpr int per = sizeof(T) == 8 ? 2 : 4;
  return launch(args, draw_truncated<T>, draw_blocks<T, per>(n), draw_threads, 0, y, n,
                origin_of(a), draw_rounds(n), a->mean, a->std, t, draw_is_wide<T, per>(y));
}

/* ------------------------------------------------------------ multinomial --- */

enum {
  stretch = 256,       /* weights that share one sum */
  row_threads = 1024,  /* of one row, */
  long_row = 16 * 256, /* where it has more weights; else 256 */
};

__device__ __forceinline__ uint64_t warp_sum(uint64_t x) {
  for (int mask = 16; mask > 0; mask /= 2)
    x += __shfl_xor_sync(0xffffffffu, (unsigned long long)x, mask);
  return x;
}

/* The greatest weight of a row, in every thread of the block. */
template <class T> __device__ double greatest_of(const T *x, int64_t n) {
  __shared__ double parts[row_threads / 32];
  double most = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    double v = (double)load(x[i]);
    if (weight_counts(v) && v > most) most = v;
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    double other = __shfl_xor_sync(0xffffffffu, most, mask);
    most = other > most ? other : most;
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = most;
  __syncthreads();
  for (unsigned i = 0; i < blockDim.x / 32; i++) most = parts[i] > most ? parts[i] : most;
  return most;
}

/* Writes a row's weights as whole numbers, and the sums of its stretches, a warp to each. */
template <class T>
__device__ void take_weights(const T *x, int64_t n, uint64_t *unit, uint64_t *sums) {
  double greatest = greatest_of(x, n);
  int shift = greatest > 0 ? weight_shift(greatest, n) : 0;
  for (int64_t s = threadIdx.x / 32; s * stretch < n; s += blockDim.x / 32) {
    uint64_t sum = 0;
    for (int64_t i = s * stretch + threadIdx.x % 32; i < n && i < (s + 1) * stretch; i += 32)
      sum += unit[i] = weight_units((double)load(x[i]), shift);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) sums[s] = sum;
  }
}

__device__ uint64_t total_of(const uint64_t *sums, int64_t count) {
  uint64_t sum = 0;
  for (int64_t i = threadIdx.x % 32; i < count; i += 32) sum += sums[i];
  return warp_sum(sum);
}

/* The first of n numbers whose sum from 0 on is more than `at`, by one warp; takes the sum
 * of those before it from `at`. pre: there is one. */
__device__ int64_t warp_find(const uint64_t *numbers, int64_t n, uint64_t *at) {
  int lane = threadIdx.x % 32;
  for (int64_t base = 0;; base += 32) {
    uint64_t own = base + lane < n ? numbers[base + lane] : 0, sum = own;
    for (int step = 1; step < 32; step *= 2) {
      uint64_t other = __shfl_up_sync(0xffffffffu, (unsigned long long)sum, step);
      if (lane >= step) sum += other;
    }
    unsigned reached = __ballot_sync(0xffffffffu, sum > *at);
    if (reached) {
      int found = __ffs((int)reached) - 1;
      *at -= __shfl_sync(0xffffffffu, (unsigned long long)(sum - own), found);
      return base + found;
    }
    *at -= __shfl_sync(0xffffffffu, (unsigned long long)sum, 31);
  }
}

/* One block draws for one row: with replacement its warps share the samples, without it the
 * first warp draws them one after the other. */
template <class T>
__global__ void __launch_bounds__(row_threads)
    draw_places(int64_t *y, const T *x, int64_t n, uint64_t *room, int64_t samples,
                bool replacement, draw_origin from) {
  uint64_t seed = from.seed(), offset = from.offset();
  int64_t row = blockIdx.x, stretches = (n + stretch - 1) / stretch;
  uint64_t *unit = room + row * (n + stretches), *sums = unit + n;
  take_weights(x + row * n, n, unit, sums);
  __syncthreads();
  int warp = threadIdx.x / 32;
  if (!replacement && warp > 0) return;
  uint64_t total = total_of(sums, stretches);
  for (int64_t k = warp; k < samples; k += replacement ? blockDim.x / 32 : 1) {
    int64_t place = -1;
    if (total > 0) {
      uint64_t at = draw_below(philox_pair(seed, offset, (uint64_t)(row * samples + k)), total);
      int64_t s = warp_find(sums, stretches, &at), left = n - s * stretch;
      place = s * stretch + warp_find(unit + s * stretch, left < stretch ? left : stretch, &at);
    }
    if (!replacement && place >= 0) {
      uint64_t taken = unit[place];
      total -= taken;
      __syncwarp();
      if (threadIdx.x == 0) {
        sums[place / stretch] -= taken;
        unit[place] = 0;
      }
      __syncwarp();
    }
    if (threadIdx.x % 32 == 0) y[row * samples + k] = place;
  }
}

template <class T> tn_status run_places(const tn_kernel_args *args) {
  const tn_multinomial_attrs *a = (const tn_multinomial_attrs *)args->attrs;
  const DLTensor *x = args->in[0];
  int64_t count = count_of(args);
  if (count == 0) return TN_OK;
  int64_t n = x->shape[x->ndim - 1];
  return launch(args, draw_places<T>, (unsigned)(count / a->samples),
                n > long_row ? (unsigned)row_threads : (unsigned)threads, 0,
                (int64_t *)args->out[0]->data, (const T *)x->data, n, (uint64_t *)args->workspace,
                a->samples, a->replacement != 0, origin_of(a));
}

/* --------------------------------------------------------------- randperm --- */

/* Bits that keys are sorted by: whole digits of the sort, so many that few keys share them. */
int permute_bits(int64_t n) {
  int bits = 8;
  while (bits < 32 && (int64_t)1 << bits < 64 * n) bits += 8;
  return bits;
}

/* The upper `bits` bits of the keys. */
__global__ void __launch_bounds__(threads)
    list_keys(uint32_t *key, uint32_t *place, int64_t n, int bits, draw_origin from) {
  int64_t i = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (i >= n) return;
  key[i] = (uint32_t)(philox_pair(from.seed(), from.offset(), (uint64_t)i) >> (64 - bits));
  place[i] = (uint32_t)i;
}

/* Writes the places, those whose upper bits are the same in order of their whole keys: the first
 * of them does it for all, by insertion, for they are a few. */
template <class I>
__global__ void __launch_bounds__(threads)
    write_places(I *y, const uint32_t *key, uint32_t *place, int64_t n, draw_origin from) {
  const int64_t first = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (first >= n || (first > 0 && key[first - 1] == key[first])) return;
  int64_t end = first + 1;
  for (; end < n && key[end] == key[first]; end++) {
    const uint32_t own = place[end];
    const uint64_t seed = from.seed(), offset = from.offset();
    const uint64_t whole = philox_pair(seed, offset, own);
    int64_t to = end;
    for (; to > first && philox_pair(seed, offset, place[to - 1]) > whole; to--)
      place[to] = place[to - 1];
    place[to] = own;
  }
  for (int64_t i = first; i < end; i++) y[i] = (I)place[i];
}

/* Places by random keys. pre: n < 2^32. */
template <class I> tn_status permute(const tn_kernel_args *args) {
  const tn_randperm_attrs *a = (const tn_randperm_attrs *)args->attrs;
  int64_t n = count_of(args);
  unsigned blocks = (unsigned)ceil_div(n, threads);
  if (n == 0) return TN_OK;
  const int bits = permute_bits(n);
  cuda_radix r;
  tn_status status = cuda_radix_of(args, args->workspace, n, bits, true, &r);
  if (status == TN_OK)
    status = launch(args, list_keys, blocks, threads, 0, (uint32_t *)r.key[0], r.item[0], n, bits,
                    origin_of(a));
  if (status == TN_OK) status = cuda_radix_sort(args, &r, bits);
  if (status != TN_OK) return status;
  return launch(args, write_places<I>, blocks, threads, 0, (I *)args->out[0]->data,
                (const uint32_t *)r.key[0], r.item[0], n, origin_of(a));
}

} // namespace

tn_status cuda_run_bernoulli(const tn_kernel_args *args) {
  const DLTensor *y = args->out[0];
  uint64_t one = cuda_value_bits(cuda_dtype(y), 1);
  return for_size(y, [&](auto t) { return run_ones<decltype(t)>(args, (decltype(t))one); });
}

tn_status cuda_run_randint(const tn_kernel_args *args) {
  return for_int(args, args->out[0],
                 [&](auto t) { return run_integers<std::make_unsigned_t<decltype(t)>>(args); });
}

tn_status cuda_run_truncated_normal(const tn_kernel_args *args) {
  return for_float(args, args->out[0], [&](auto t) { return run_truncated<decltype(t)>(args); });
}

tn_status cuda_multinomial_workspace(const tn_kernel_args *args, size_t *bytes) {
  const DLTensor *x = args->in[0];
  int64_t n = x->shape[x->ndim - 1];
  *bytes =
      (size_t)cuda_size(x, 0, x->ndim - 1) * (size_t)(n + ceil_div(n, stretch)) * sizeof(uint64_t);
  return TN_OK;
}

tn_status cuda_run_multinomial(const tn_kernel_args *args) {
  return for_float(args, args->in[0], [&](auto t) { return run_places<decltype(t)>(args); });
}

tn_status cuda_randperm_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_radix r;
  const int64_t n = count_of(args);
  tn_status status = cuda_radix_of(args, NULL, n, permute_bits(n), true, &r);
  *bytes = status == TN_OK ? r.bytes : 0;
  return status;
}

tn_status cuda_run_randperm(const tn_kernel_args *args) {
  return cuda_dtype(args->out[0]) == TN_I32 ? permute<uint32_t>(args) : permute<uint64_t>(args);
}
