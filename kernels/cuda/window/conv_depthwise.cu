/*
 * Convolutions of each channel by itself, 3 x 3, of 16-bit images with channels last: a thread has
 * eight channels of two pixels of a row, so that memory is read and written 16 bytes at a time and
 * what both windows cover once. Sums are float32's, in the order of the window, rounded once behind
 * bias and activation. What lies outside the image is left out rather than multiplied by zero.
 */
#include "kernels/common/window.h"
#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/elementwise/activated.cuh"

namespace {

enum { threads = 128, channels = 8, pixels = 2, side = 3, taps = side * side };

using pixel_pack = pack<any_half, channels>;

/* Threads count eighths of the channels, pairs of columns, rows and images. */
struct walk {
  uint32_t count;
  cuda_divisor eighths, pairs, rows;
  int height, width, out_width, pad[2], activation;
  bool brain;
};

/* Eight channels' weights, [8, 3, 3] in a row. */
struct weights {
  pixel_pack v[taps];
  __device__ __forceinline__ any_half at(int channel, int tap) const {
    const int i = channel * taps + tap;
    return v[i / channels].v[i % channels];
  }
};

template <int STRIDE>
__global__ void __launch_bounds__(threads)
    depthwise(any_half *y, const any_half *x, const any_half *w, const any_half *bias,
              const __grid_constant__ walk of) {
  constexpr int columns = side + STRIDE * (pixels - 1);
  const uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= of.count) return;
  uint32_t rest = quotient(i, of.eighths);
  const int first = (int)(i - rest * of.eighths.value) * channels;
  const int all = (int)of.eighths.value * channels;
  const uint32_t line = quotient(rest, of.pairs);
  const int to = (int)(rest - line * of.pairs.value) * pixels;
  const uint32_t image = quotient(line, of.rows);
  const int top = (int)(line - image * of.rows.value) * STRIDE - of.pad[0];
  const int left = to * STRIDE - of.pad[1];
  weights k;
#pragma unroll
  for (int t = 0; t < taps; t++) k.v[t] = ((const pixel_pack *)(w + (int64_t)first * taps))[t];
  float sum[pixels][channels] = {};
  x += (int64_t)image * of.height * of.width * all + first;
#pragma unroll
  for (int p = 0; p < side; p++) {
    const int row = top + p;
    if (row < 0 || row >= of.height) continue;
    pixel_pack line_of[columns];
#pragma unroll
    for (int q = 0; q < columns; q++) {
      const int column = left + q;
      if (column >= 0 && column < of.width)
        line_of[q] = *(const pixel_pack *)(x + ((int64_t)row * of.width + column) * all);
    }
#pragma unroll
    for (int q = 0; q < columns; q++) {
      if (left + q < 0 || left + q >= of.width) continue;
      float v[channels];
      unpack(v, line_of[q], of.brain);
#pragma unroll
      for (int o = 0; o < pixels; o++) {
        const int t = q - o * STRIDE;
        if (t < 0 || t >= side) continue;
#pragma unroll
        for (int c = 0; c < channels; c++)
          sum[o][c] += v[c] * load(k.at(c, p * side + t), of.brain);
      }
    }
  }
  y += ((int64_t)line * of.out_width + to) * all + first;
#pragma unroll
  for (int o = 0; o < pixels; o++) {
    if (to + o >= of.out_width) break;
#pragma unroll
    for (int c = 0; c < channels; c++) {
      if (bias) sum[o][c] += load(bias[first + c], of.brain);
      sum[o][c] = activated(of.activation, sum[o][c]);
    }
    *(pixel_pack *)(y + (int64_t)o * all) = packed<any_half, channels>(sum[o], of.brain);
  }
}

/* Memory [n, h, w, c], and not row-major as well. */
bool is_channels_last(const DLTensor *t) {
  const int64_t *n = t->shape, *s = t->strides;
  const bool last = (n[1] == 1 || s[1] == 1) && (n[3] == 1 || s[3] == n[1]) &&
                    (n[2] == 1 || s[2] == n[1] * n[3]) && (n[0] == 1 || s[0] == n[1] * n[3] * n[2]);
  return last && n[1] > 1 && n[2] * n[3] > 1;
}

bool is_aligned(const DLTensor *t) { return ((uintptr_t)t->data & 15) == 0; }

/* [k, 1, 3, 3] in a row. */
bool has_window(const DLTensor *w) {
  const int64_t *n = w->shape, *s = w->strides;
  return n[1] == 1 && n[2] == side && n[3] == side && s[3] == 1 && s[2] == side &&
         (n[0] == 1 || s[0] == taps);
}

} // namespace

bool cuda_conv_is_depthwise(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *w = args->in[1], *y = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  const int64_t elements = cuda_size(y, 0, y->ndim);
  if (y->ndim != 4 || y->dtype.bits != 16 || elements == 0 || elements > CUDA_MAX_INDEX ||
      x->shape[1] != w->shape[0] || x->shape[1] % channels != 0 || !has_window(w))
    return false;
  const window_conv a = window_conv_of(args->attrs, 2);
  return is_channels_last(x) && is_channels_last(y) && is_aligned(x) && is_aligned(w) &&
         is_aligned(y) && (!bias || bias->strides[0] == 1) && a.stride[1] == a.stride[2] &&
         a.stride[1] <= 2 && a.dilation[1] == 1 && a.dilation[2] == 1 &&
         x->shape[2] <= CUDA_MAX_INDEX / 2 && x->shape[3] <= CUDA_MAX_INDEX / 2 &&
         a.padding[1] <= CUDA_MAX_INDEX / 2 && a.padding[2] <= CUDA_MAX_INDEX / 2;
}

tn_status cuda_run_conv_depthwise(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *w = args->in[1], *y = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  const window_conv a = window_conv_of(args->attrs, 2);
  walk of;
  const int64_t pairs = ceil_div(y->shape[3], (int64_t)pixels);
  of.eighths = cuda_divisor_of((uint32_t)(y->shape[1] / channels));
  of.pairs = cuda_divisor_of((uint32_t)pairs);
  of.rows = cuda_divisor_of((uint32_t)y->shape[2]);
  of.count = (uint32_t)(y->shape[0] * y->shape[2] * pairs * (y->shape[1] / channels));
  of.height = (int)x->shape[2];
  of.width = (int)x->shape[3];
  of.out_width = (int)y->shape[3];
  of.pad[0] = (int)a.padding[1];
  of.pad[1] = (int)a.padding[2];
  of.activation = (int)window_activation(args);
  of.brain = cuda_dtype(y) == TN_BF16;
  return launch(args, a.stride[1] == 1 ? depthwise<1> : depthwise<2>,
                (unsigned)ceil_div((int64_t)of.count, (int64_t)threads), threads, 0,
                (any_half *)y->data, (const any_half *)x->data, (const any_half *)w->data,
                bias ? (const any_half *)bias->data : NULL, of);
}
