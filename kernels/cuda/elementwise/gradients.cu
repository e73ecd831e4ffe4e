/*
 * Lists of gradients as a whole: clipping to a norm, and what loss scaling needs. The norm
 * is summed in double in two stages of fixed order; its factor stays on the device.
 */
#include <type_traits>

#include "kernels/cuda/optimiser/multi.cuh"

namespace {

template <class T> __host__ __device__ constexpr int width_of() { return 16 / (int)sizeof(T); }

template <class T> __host__ __device__ constexpr int64_t chunk_of() {
  return (int64_t)multi_threads * multi_rounds * 4 * width_of<T>();
}

/* Calls visit(element, its place in a pack) for every element of the share; with `write`, what it
 * returns is stored. */
template <bool write, class T, class Visit>
__device__ __forceinline__ void each_element(T *x, int64_t n, Visit visit) {
  constexpr int N = width_of<T>();
  int64_t whole = ((uintptr_t)x & 15) ? 0 : n / N * N;
  constexpr int64_t step = multi_threads * N;
#pragma unroll 1
  for (int64_t first = (int64_t)threadIdx.x * N; first < whole; first += multi_rounds * step) {
    pack<T, N> v[multi_rounds];
#pragma unroll
    for (int r = 0; r < multi_rounds; r++)
      if (first + r * step < whole) v[r] = *(const pack<T, N> *)(x + first + r * step);
#pragma unroll
    for (int r = 0; r < multi_rounds; r++) {
      if (first + r * step >= whole) break;
#pragma unroll
      for (int k = 0; k < N; k++) v[r].v[k] = visit(v[r].v[k], k);
      if (write) *(pack<T, N> *)(x + first + r * step) = v[r];
    }
  }
  for (int64_t i = whole + threadIdx.x; i < n; i += multi_threads) {
    T v = visit(x[i], 0);
    if (write) x[i] = v;
  }
}

/* The sum over the block, valid in thread 0; always added in the same order. */
__device__ double block_sum(double x) {
  __shared__ double part[multi_threads / 32];
  for (int shift = 16; shift > 0; shift /= 2) x += __shfl_down_sync(0xffffffffu, x, shift);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < multi_threads / 32; i++) sum += part[i];
  return sum;
}

template <class T, int CAPACITY>
__global__ void __launch_bounds__(multi_threads)
    add_squares(double *partial, const __grid_constant__ multi_table<1, CAPACITY> t) {
  await_earlier();
  multi_share s = multi_find(t, chunk_of<T>(), blockIdx.x);
  double part[4] = {0, 0, 0, 0}; /* none waits for another */
  each_element<false>((T *)t.data[0][s.place] + s.begin, s.n, [&](T v, int k) {
    double x = load(v);
    part[k % 4] += x * x;
    return v;
  });
  const double sum = block_sum((part[0] + part[1]) + (part[2] + part[3]));
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class C>
__global__ void __launch_bounds__(multi_threads)
    finish_norm(const double *partial, int64_t count, double max_norm, C *norm, double *factor) {
  double sum = 0;
  await_earlier();
  for (int64_t i = threadIdx.x; i < count; i += multi_threads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  double root = sqrt(sum), f = max_norm / (root + 1e-6);
  *norm = (C)root;
  *factor = f > 1 ? 1 : f;
}

/* What was read last is still in the cache, so blocks go the other way. */
template <class T, int CAPACITY>
__global__ void __launch_bounds__(multi_threads)
    multiply(const double *factor, const __grid_constant__ multi_table<1, CAPACITY> t) {
  await_earlier();
  double f = *factor;
  if (f == 1) return;
  multi_share s = multi_find(t, chunk_of<T>(), gridDim.x - 1 - blockIdx.x);
  compute_t<T> by = (compute_t<T>)f;
  each_element<true>((T *)t.data[0][s.place] + s.begin, s.n,
                     [&](T v, int) { return stored<T>::from(load(v) * by); });
}

/* Divides elements of 16 bits by a number, to float's last bit or one beside it: a product with the
 * reciprocal, corrected by its remainder where that is one. Where the number is far from 1, it and
 * quotients are taken nearer to it. */
struct short_divisor {
  float by, inverse, nearer;
  __device__ __forceinline__ explicit short_divisor(float given) {
    const float size = fabsf(given);
    nearer = size < 0x1p-100f ? 0x1p60f : size > 0x1p100f ? 0x1p-60f : 1.0f;
    by = given * nearer;
    inverse = 1.0f / by;
  }
  __device__ __forceinline__ float divided(float x) const {
    const float q = x * inverse, rest = fmaf(-q, by, x), y = fmaf(rest, inverse, q);
    return (rest != 0.0f && fabsf(rest) < INFINITY ? y : q) * nearer;
  }
};

template <class T, int CAPACITY>
__global__ void __launch_bounds__(multi_threads)
    unscale(const float *scale, unsigned char *found,
            const __grid_constant__ multi_table<1, CAPACITY> t) {
  using C = compute_t<T>;
  multi_share s = multi_find(t, chunk_of<T>(), blockIdx.x);
  const float given = *scale;
  const C by = given, inverse = (C)1 / by;
  /* A power of two, as scales mostly are: the product is the quotient. */
  const bool exact = (__float_as_uint(given) & 0x7fffffu) == 0 && fabsf(given) >= 0x1p-126f &&
                     fabsf(given) <= 0x1p126f;
  bool bad = false;
  auto each = [&](auto divided) {
    each_element<true>((T *)t.data[0][s.place] + s.begin, s.n, [&](T v, int) {
      const C x = load(v);
      bad |= !(fabs(x) < (C)INFINITY);
      return stored<T>::from(divided(x));
    });
  };
  if (exact) {
    each([&](C x) { return x * inverse; });
  } else if constexpr (sizeof(T) == 2) {
    const short_divisor d(given);
    each([&](C x) { return d.divided(x); });
  } else {
    each([&](C x) { return x / by; });
  }
  if (__syncthreads_or(bad) && threadIdx.x == 0) *found = 1; /* all that write write 1 */
}

constexpr int capacity = multi_capacity(1, multi_small_bytes);
constexpr int capacity_large = multi_capacity(1, multi_large_bytes);

/* Calls start(table, blocks) for every table of the call's gradients. */
template <class T, class Start> tn_status each_table(const tn_kernel_args *args, Start start) {
  const DLTensor *const *lists[1] = {(const DLTensor *const *)args->out};
  int length = args->num_out - 1;
  if (length <= capacity) return multi_each_table<1, capacity>(lists, length, chunk_of<T>(), start);
  return multi_each_table<1, capacity_large>(lists, length, chunk_of<T>(), start);
}

template <class T> tn_status run_clip(const tn_kernel_args *args) {
  auto *attrs = (const tn_clip_grad_norm_attrs *)args->attrs;
  double *factor = (double *)args->workspace, *partial = factor + 1;
  int64_t count = 0;
  tn_status status = each_table<T>(args, [&](const auto &t, unsigned blocks) {
    constexpr int N = std::decay_t<decltype(t)>::capacity;
    double *to = partial + count;
    count += blocks;
    return launch_early(args, add_squares<T, N>, blocks, multi_threads, 0, to, t);
  });
  if (status == TN_OK)
    status =
        launch_early(args, finish_norm<compute_t<T>>, 1, multi_threads, 0, partial, count,
                     attrs->max_norm, (compute_t<T> *)args->out[args->num_out - 1]->data, factor);
  if (status != TN_OK) return status;
  return each_table<T>(args, [&](const auto &t, unsigned blocks) {
    constexpr int N = std::decay_t<decltype(t)>::capacity;
    return launch_early(args, multiply<T, N>, blocks, multi_threads, 0, factor, t);
  });
}

template <class T> tn_status run_unscale(const tn_kernel_args *args) {
  auto *scale = (const float *)args->in[0]->data;
  auto *found = (unsigned char *)args->out[args->num_out - 1]->data;
  return each_table<T>(args, [&](const auto &t, unsigned blocks) {
    constexpr int N = std::decay_t<decltype(t)>::capacity;
    return launch(args, unscale<T, N>, blocks, multi_threads, 0, scale, found, t);
  });
}

template <class T>
__global__ void update(const unsigned char *found, float *scale, T *good_steps, double growth,
                       double backoff, int64_t interval) {
  int64_t steps = *found ? 0 : (int64_t)*good_steps + 1;
  if (*found) *scale = (float)(*scale * backoff);
  if (steps == interval) {
    float grown = (float)(*scale * growth);
    if (isfinite(grown)) *scale = grown;
    steps = 0;
  }
  *good_steps = (T)steps;
}

template <class T> tn_status run_update(const tn_kernel_args *args) {
  auto *a = (const tn_update_loss_scale_attrs *)args->attrs;
  return launch(args, update<T>, 1, 1, 0, (const unsigned char *)args->in[0]->data,
                (float *)args->out[0]->data, (T *)args->out[1]->data, a->growth, a->backoff,
                a->interval);
}

} // namespace

tn_status cuda_clip_workspace(const tn_kernel_args *args, size_t *bytes) {
  int64_t blocks = 0,
          chunk = (int64_t)multi_threads * multi_rounds * 4 * 16 / (args->out[0]->dtype.bits / 8);
  for (int i = 0; i + 1 < args->num_out; i++)
    blocks += ceil_div(cuda_size(args->out[i], 0, args->out[i]->ndim), chunk);
  *bytes = ((size_t)blocks + 1) * sizeof(double);
  return TN_OK;
}

tn_status cuda_run_clip_grad_norm(const tn_kernel_args *args) {
  return for_float(args, args->out[0], [&](auto t) { return run_clip<decltype(t)>(args); });
}

tn_status cuda_run_unscale_grads(const tn_kernel_args *args) {
  return for_float(args, args->out[0], [&](auto t) { return run_unscale<decltype(t)>(args); });
}

tn_status cuda_run_update_loss_scale(const tn_kernel_args *args) {
  return cuda_dtype(args->out[1]) == TN_I32 ? run_update<int32_t>(args) : run_update<int64_t>(args);
}
