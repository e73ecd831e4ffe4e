/*
 * Convolutions of each channel by itself, and their gradients by the input, of images with channels
 * last (depthwise.cuh). Common windows are walked (depthwise_walk.cuh); of others, the weights of a
 * block's channels lie in shared memory as floats. Sums are float32's, in the order of the window,
 * rounded once behind bias and activation.
 *
 * The gradient by the input of stride 1 is a convolution with the window turned around; of common
 * windows of stride 2 a row of y is spread over rows of x (depthwise_spread.cuh); of others it
 * takes the windows that a pixel lies in.
 */
#include "kernels/cuda/window/depthwise_spread.cuh"
#include "kernels/cuda/window/depthwise_walk.cuh"

namespace {

enum { quad = 4, waves = 4 };

/* From which image to which: both [n, h, w, channels]. */
struct gathering {
  depthwise_shape of;
  int from[2], to[2], from_channels, channels; /* sizes; of what is read, of the result */
  int pad[2];                                  /* before what is read */
  int parts; /* channels that one of the result is summed of: the multiplier of a gradient */
  int each;  /* channels of the result that one is read for: the multiplier of a forward pass */
  int activation;
  bool backward, turned;
};

/* The place of a channel's weight in shared memory, [tap, part, quads of a pack, lane, quad]. */
template <class T>
__device__ __forceinline__ int place_in_block(int row, int channel, const gathering &g) {
  constexpr int width = pack_width<T>();
  const int inside = channel % width;
  const int quads = row * (width / quad) + inside / quad;
  return ((quads << g.of.lanes) + channel / width) * quad + inside % quad;
}

template <class T> __device__ void stage_weights(float *to, const T *w, const gathering &g) {
  const int all = pack_width<T>() << g.of.lanes, first = (int)blockIdx.y * all;
  const int taps = g.of.kernel[0] * g.of.kernel[1], count = taps * g.parts * all;
  for (int i = threadIdx.x; i < count; i += depthwise_threads) {
    const int channel = i % all, row = i / all, part = row % g.parts;
    const int tap = g.turned ? taps - 1 - row / g.parts : row / g.parts;
    if (first + channel >= g.channels) continue;
    const int64_t at = (int64_t)((first + channel) * g.parts + part) * g.of.weight[0] +
                       tap / g.of.kernel[1] * g.of.weight[1] +
                       tap % g.of.kernel[1] * g.of.weight[2];
    to[place_in_block<T>(row, channel, g)] = load(w[at], g.of.brain);
  }
}

/* A thread's weights of a tap and part. */
template <class T>
__device__ __forceinline__ void read_weights(float *k, const float *weights, int row,
                                             const gathering &g) {
  const int lane = (int)threadIdx.x & ((1 << g.of.lanes) - 1);
#pragma unroll
  for (int i = 0; i < pack_width<T>(); i += quad) {
    const int at = place_in_block<T>(row, lane * pack_width<T>() + i, g);
    const float4 v = *(const float4 *)(weights + at);
    k[i] = v.x, k[i + 1] = v.y, k[i + 2] = v.z, k[i + 3] = v.w;
  }
}

/* What is read along an axis for a result and a tap; false where that lies outside. */
__device__ __forceinline__ bool source_of(int *from, int to, int tap, int axis,
                                          const gathering &g) {
  if (!g.backward) {
    *from = to * g.of.stride[axis] - g.pad[axis] + tap * g.of.dilation[axis];
    return lies_in(*from, g.from[axis]);
  }
  const int at = to + g.pad[axis] - tap * g.of.dilation[axis];
  if (at < 0) return false;
  *from = (int)quotient((uint32_t)at, g.of.step[axis]);
  return *from * g.of.stride[axis] == at && *from < g.from[axis];
}

/* A part's channels of a pixel. */
template <class T>
__device__ __forceinline__ void read_part(float *v, const T *pixel, int channel, int part,
                                          const gathering &g) {
  if (g.parts == 1) {
    read_channels(v, pixel, channel, g.each, g.of.brain);
    return;
  }
#pragma unroll
  for (int c = 0; c < pack_width<T>(); c++)
    v[c] = load(pixel[(channel + c) * g.parts + part], g.of.brain);
}

/* Any windows. */
template <class T>
__device__ __forceinline__ void sum_any(float (*sum)[pack_width<T>()], const T *x,
                                        const float *weights, const depthwise_strip &at,
                                        int channel, const gathering &g) {
  constexpr int width = pack_width<T>();
#pragma unroll 1
  for (int p = 0; p < g.of.kernel[0]; p++) {
    int row;
    if (!source_of(&row, at.row, p, 0, g)) continue;
    const int64_t line = ((int64_t)at.image * g.from[0] + row) * g.from[1];
#pragma unroll 1
    for (int i = 0; i < g.of.kernel[1] * g.parts; i++) {
      const int q = g.parts == 1 ? i : i / g.parts, part = i - q * g.parts;
      float k[width];
      read_weights<T>(k, weights, p * g.of.kernel[1] * g.parts + i, g);
#pragma unroll
      for (int o = 0; o < depthwise_pixels; o++) {
        int column;
        float v[width];
        if (!source_of(&column, at.column + o, q, 1, g)) continue;
        read_part(v, x + (line + column) * g.from_channels, channel, part, g);
#pragma unroll
        for (int c = 0; c < width; c++) sum[o][c] += v[c] * k[c];
      }
    }
  }
}

/* Rounds a strip to memory. */
template <class T>
__device__ __forceinline__ void write_strip(T *y, float (*sum)[pack_width<T>()], const T *bias,
                                            int64_t bias_stride, const depthwise_strip &at,
                                            int channel, const gathering &g) {
  constexpr int width = pack_width<T>();
  const int64_t pixel = ((int64_t)at.image * g.to[0] + at.row) * g.to[1] + at.column;
  float add[width] = {};
  if (bias) {
#pragma unroll
    for (int c = 0; c < width; c++) add[c] = load(bias[(channel + c) * bias_stride], g.of.brain);
  }
#pragma unroll
  for (int o = 0; o < depthwise_pixels; o++) {
    if (at.column + o >= g.to[1]) break;
#pragma unroll
    for (int c = 0; c < width; c++) {
      if (bias) sum[o][c] += add[c];
      sum[o][c] = activated_for<T>(g.activation, sum[o][c]);
    }
    *(pack<T, width> *)(y + (pixel + o) * g.channels + channel) =
        packed<T, width>(sum[o], g.of.brain);
  }
}

template <class T>
__global__ void __launch_bounds__(depthwise_threads, 2)
    depthwise(T *y, const T *x, const T *w, const T *bias, int64_t bias_stride,
              const __grid_constant__ gathering g) {
  extern __shared__ __align__(16) float weights[];
  stage_weights(weights, w, g);
  __syncthreads();
  const int channel = own_channel<T>(g.of), workers = depthwise_threads >> g.of.lanes;
  if (channel >= g.channels) return;
  for (uint32_t i = blockIdx.x * workers + (threadIdx.x >> g.of.lanes); i < g.of.strips;
       i += gridDim.x * workers) {
    const depthwise_strip at = strip_of(i, g.of);
    float sum[depthwise_pixels][pack_width<T>()] = {};
    sum_any(sum, x, weights, at, channel, g);
    write_strip(y, sum, bias, bias_stride, at, channel, g);
  }
}

template <class T> tn_status start(const tn_kernel_args *args, const gathering &g) {
  const DLTensor *x = args->in[0], *w = args->in[1], *y = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  const int64_t wanted = ceil_div(g.of.strips, workers_of(g.of));
  const int64_t enough = waves * (int64_t)((const cuda_info *)args->device)->multiprocessors;
  const dim3 grid((unsigned)(wanted < enough ? wanted : enough), channel_blocks(g.of, y));
  const size_t shared = sizeof(float) * (size_t)(g.of.kernel[0] * g.of.kernel[1] * g.parts) *
                        (size_t)(pack_width<T>() << g.of.lanes);
  return launch(args, depthwise<T>, grid, depthwise_threads, shared, (T *)y->data,
                (const T *)x->data, (const T *)w->data, bias ? (const T *)bias->data : NULL,
                bias ? bias->strides[0] : 0, g);
}

walk_call walk_of(const tn_kernel_args *args, const gathering &g) {
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  walk_call c = {};
  for (int d = 0; d < 2; d++) c.from[d] = g.from[d], c.to[d] = g.to[d], c.pad[d] = g.pad[d];
  for (int d = 0; d < 3; d++) c.weight[d] = g.of.weight[d];
  c.channels = g.channels;
  c.bias_stride = bias ? bias->strides[0] : 0;
  const bool clamps = g.activation == TN_ACTIVATION_RELU || g.activation == TN_ACTIVATION_RELU6;
  c.least = clamps ? 0 : -INFINITY;
  c.most = g.activation == TN_ACTIVATION_RELU6 ? 6 : INFINITY;
  c.activation = clamps ? TN_ACTIVATION_NONE : g.activation;
  c.turned = g.turned;
  c.finishes = bias || clamps;
  return c;
}

/* pre: is_walked. `c` is whole but for how the work is dealt out. */
template <class T>
tn_status start_walked(const tn_kernel_args *args, const gathering &g, const walk_call &c) {
  const bool small = g.of.kernel[0] == 3;
  if (g.backward) return small ? start_spread<T, 3>(args, c) : start_spread<T, 5>(args, c);
  if (g.of.stride[0] == 1 || g.turned)
    return small ? start_walk<T, 3, 1>(args, c) : start_walk<T, 5, 1>(args, c);
  return small ? start_walk<T, 3, 2>(args, c) : start_walk<T, 5, 2>(args, c);
}

tn_status start_typed(const tn_kernel_args *args, const gathering &g, bool walks) {
  const bool half = args->out[0]->dtype.bits == 16;
  if (!walks) return half ? start<any_half>(args, g) : start<float>(args, g);
  const walk_call c = walk_of(args, g);
  if (!half) return start_walked<float>(args, g, c);
  return g.of.brain ? start_walked<bfloat_t>(args, g, c) : start_walked<half_t>(args, g, c);
}

/* Fills in what both directions have, and leaves the window as the forward pass has it. */
gathering gathering_of(const depthwise_shape &s, const DLTensor *from, const DLTensor *to) {
  gathering g = {};
  g.of = s;
  for (int d = 0; d < 2; d++) {
    g.from[d] = (int)from->shape[2 + d];
    g.to[d] = (int)to->shape[2 + d];
    g.pad[d] = s.pad[d];
  }
  g.from_channels = (int)from->shape[1];
  g.channels = (int)to->shape[1];
  g.parts = g.each = 1;
  return g;
}

bool is_turnable(const depthwise_shape &s) { return s.stride[0] == 1 && s.stride[1] == 1; }

} // namespace

bool cuda_conv_is_depthwise(const tn_kernel_args *args) {
  return is_depthwise(args, args->in[0], args->in[1], args->out[0], args->out[0]);
}

bool cuda_conv_backward_is_depthwise(const tn_kernel_args *args) {
  return is_depthwise(args, args->out[0], args->in[1], args->in[0], args->out[0]);
}

bool cuda_conv_is_walked(const tn_kernel_args *args) {
  return is_walked(args->in[1], window_conv_of(args->attrs, 2), args->in[0]->shape[1]);
}

bool cuda_conv_backward_is_walked(const tn_kernel_args *args) {
  return is_walked(args->in[1], window_conv_of(args->attrs, 2), args->out[0]->shape[1]);
}

tn_status cuda_run_conv_depthwise(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  const int activation = (int)window_activation(args);
  const bool stores = y->dtype.bits == 16 || is_simple_activation(activation);
  gathering g = gathering_of(depthwise_of(args, x, args->in[1], y, y), x, y);
  g.each = g.of.multiplier;
  g.activation = stores ? activation : TN_ACTIVATION_NONE;
  const tn_status status = start_typed(args, g, cuda_conv_is_walked(args));
  return status != TN_OK || stores ? status : cuda_conv_activate(args, activation);
}

tn_status cuda_run_conv_depthwise_backward(const tn_kernel_args *args) {
  const DLTensor *y = args->in[0], *x = args->out[0];
  gathering g = gathering_of(depthwise_of(args, x, args->in[1], y, x), y, x);
  g.parts = g.of.multiplier;
  g.activation = TN_ACTIVATION_NONE;
  g.turned = is_turnable(g.of);
  g.backward = !g.turned;
  for (int d = 0; d < 2 && g.turned; d++)
    g.pad[d] = g.of.dilation[d] * (g.of.kernel[d] - 1) - g.of.pad[d];
  return start_typed(args, g, cuda_conv_backward_is_walked(args));
}
