/*
 * What a convolution ends with where nothing fuses it: the bias of each channel, what is added and
 * the activation, in one pass over its result, in place, or over sums of float32 that the result is
 * rounded from. Threads store 16 bytes each where the result, and the addend, begin at a multiple
 * of that.
 */
#include "kernels/cuda/base/dispatch.cuh"
#include "kernels/cuda/elementwise/activated.cuh"

namespace {

enum { threads = 256 };

/* Elements of the result, [outer, channels, inner]. */
struct channel_walk {
  uint32_t count;
  cuda_divisor inner, channels;
};

template <class T, int N> struct alignas(N * sizeof(T)) run_of { T v[N]; };

/* The first `count` of N elements. */
template <class T, int N> __device__ run_of<T, N> read_run(const T *from, int count) {
  if (count == N) return *(const run_of<T, N> *)from;
  run_of<T, N> run = {};
  for (int i = 0; i < count; i++) run.v[i] = from[i];
  return run;
}

/* A thread has elements first .. first + N; those that begin the last thread's run are there. */
template <class T, class S, int N>
__global__ void __launch_bounds__(threads)
    finish(T *y, const S *sums, const T *bias, const T *addend, int activation,
           const channel_walk of) {
  const uint64_t begin = ((uint64_t)blockIdx.x * threads + threadIdx.x) * N;
  if (begin >= of.count) return;
  const uint32_t first = (uint32_t)begin, row = quotient(first, of.inner);
  uint32_t at = first - row * of.inner.value;
  uint32_t channel = row - quotient(row, of.channels) * of.channels.value;
  const int here = of.count - first < (uint32_t)N ? (int)(of.count - first) : N;
  const run_of<S, N> sum = read_run<S, N>(sums + first, here);
  run_of<T, N> run, plus = {};
  if (addend) plus = read_run<T, N>(addend + first, here);
  float more = bias ? load(bias[channel]) : 0.0f;
#pragma unroll
  for (int i = 0; i < N; i++) {
    const float all = load(sum.v[i]) + more + load(plus.v[i]);
    if (i < here) run.v[i] = stored<T>::from(activated(activation, all));
    if (++at == of.inner.value) {
      at = 0;
      if (++channel == of.channels.value) channel = 0;
      more = bias ? load(bias[channel]) : 0.0f;
    }
  }
  if (here == N) {
    *(run_of<T, N> *)(y + first) = run;
  } else {
    for (int i = 0; i < here; i++) y[first + i] = run.v[i];
  }
}

template <class T, class S>
void launch_finish(const cuda_conv_result *r, const S *sums, const channel_walk &of) {
  constexpr int wide = 16 / (int)sizeof(T);
  T *y = (T *)r->y;
  const T *bias = (const T *)r->bias, *addend = (const T *)r->addend;
  cudaStream_t stream = (cudaStream_t)r->stream;
  const bool aligned = (((uintptr_t)y | (uintptr_t)addend) & 15) == 0;
  const int64_t runs = ceil_div((int64_t)of.count, aligned ? wide : 1);
  const unsigned blocks = (unsigned)ceil_div(runs, (int64_t)threads);
  if (aligned)
    finish<T, S, wide><<<blocks, threads, 0, stream>>>(y, sums, bias, addend, r->activation, of);
  else
    finish<T, S, 1><<<blocks, threads, 0, stream>>>(y, sums, bias, addend, r->activation, of);
}

template <class T> void launch_finish(const cuda_conv_result *r, const channel_walk &of) {
  if (r->sums)
    launch_finish<T>(r, r->sums, of);
  else
    launch_finish<T>(r, (const T *)r->y, of);
}

} // namespace

int cuda_conv_finish(const cuda_conv_result *r) {
  const int64_t count = r->outer * r->channels * r->inner;
  if (count == 0) return 0;
  const channel_walk of = {(uint32_t)count, cuda_divisor_of((uint32_t)r->inner),
                           cuda_divisor_of((uint32_t)r->channels)};
  if (r->dtype == TN_F16)
    launch_finish<half_t>(r, of);
  else if (r->dtype == TN_BF16)
    launch_finish<bfloat_t>(r, of);
  else
    launch_finish<float>(r, (const float *)(r->sums ? r->sums : r->y), of);
  return (int)cudaGetLastError();
}

tn_status cuda_conv_activate(const tn_kernel_args *args, int64_t activation) {
  const DLTensor *in[] = {args->out[0]};
  tn_gelu_attrs gelu = TN_GELU_DEFAULTS;
  tn_clamp_attrs relu6 = TN_CLAMP_DEFAULTS;
  tn_kernel_args sub = *args;
  sub.in = in;
  sub.num_in = 1;
  sub.attrs = NULL;
  switch (activation) {
  case TN_ACTIVATION_RELU:
    return cuda_run_relu(&sub);
  case TN_ACTIVATION_RELU6:
    relu6.min = 0, relu6.max = 6;
    sub.attrs = &relu6;
    return cuda_run_clamp(&sub);
  case TN_ACTIVATION_HARDSWISH:
    return cuda_run_hardswish(&sub);
  case TN_ACTIVATION_SILU:
    return cuda_run_silu(&sub);
  case TN_ACTIVATION_SIGMOID:
    return cuda_run_sigmoid(&sub);
  case TN_ACTIVATION_GELU:
  case TN_ACTIVATION_GELU_TANH:
    gelu.tanh = activation == TN_ACTIVATION_GELU_TANH;
    sub.attrs = &gelu;
    return cuda_run_gelu(&sub);
  default:
    return TN_OK;
  }
}
