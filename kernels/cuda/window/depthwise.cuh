/*
 * What convolutions of each channel by itself share, for images with channels last: their shapes,
 * how threads are spread, and how channels are read. A thread has the channels of one pack of 16
 * bytes and strips of a few results of a row; lanes of a warp lie along the channels. What lies
 * outside an image is left out rather than multiplied by zero.
 */
#ifndef KERNELS_CUDA_WINDOW_DEPTHWISE_CUH
#define KERNELS_CUDA_WINDOW_DEPTHWISE_CUH

#include "kernels/common/window.h"
#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/window/depthwise.h"

namespace {

enum {
  depthwise_threads = 256,
  depthwise_pixels = 4, /* of a strip */
  depthwise_lanes = 8,  /* at most, so that they read 128 bytes together */
  depthwise_most_taps = 128,
  depthwise_most_number = 1 << 23 /* of sizes and attributes, so that products fit 31 bits */
};

/* x [n, c, h, w], w [k, 1, kh, kw] with k = c * multiplier, y [n, k, oh, ow]. Strips are of y, or
 * of x where that is the result. */
struct depthwise_shape {
  uint32_t strips;
  cuda_divisor by_strip, by_row; /* strips of a row, rows of an image */
  cuda_divisor step[2];          /* the stride, to divide by */
  int x[2], y[2], kernel[2], stride[2], pad[2], dilation[2];
  int c, k, multiplier;
  int lanes;         /* as a power of 2 */
  int64_t weight[3]; /* strides of w along k, kh and kw */
  bool brain;
};

/* Where a strip begins. */
struct depthwise_strip {
  int image, row, column;
};

__device__ __forceinline__ depthwise_strip strip_of(uint32_t i, const depthwise_shape &s) {
  const uint32_t line = quotient(i, s.by_strip), image = quotient(line, s.by_row);
  return {(int)image, (int)(line - image * s.by_row.value),
          (int)(i - line * s.by_strip.value) * depthwise_pixels};
}

__device__ __forceinline__ bool lies_in(int i, int size) { return i >= 0 && i < size; }

/* The first channel of the thread's pack, of all of a result's. */
template <class T> __device__ __forceinline__ int own_channel(const depthwise_shape &s) {
  const int lane = (int)threadIdx.x & ((1 << s.lanes) - 1);
  return ((int)(blockIdx.y << s.lanes) + lane) * pack_width<T>();
}

/* Channels of a pixel as numbers: where `each` is 1 those from `channel` on, else one in place of
 * every `each`. */
template <class T>
__device__ __forceinline__ void read_channels(float *v, const T *pixel, int channel, int each,
                                              bool brain) {
  constexpr int width = pack_width<T>();
  if (each == 1) {
    unpack(v, *(const pack<T, width> *)(pixel + channel), brain);
    return;
  }
#pragma unroll
  for (int c = 0; c < width; c++) v[c] = load(pixel[(channel + c) / each], brain);
}

/* Memory [n, h, w, c], and not row-major as well. */
static inline bool is_channels_last(const DLTensor *t) {
  const int64_t *n = t->shape, *s = t->strides;
  const bool last = (n[1] == 1 || s[1] == 1) && (n[3] == 1 || s[3] == n[1]) &&
                    (n[2] == 1 || s[2] == n[1] * n[3]) && (n[0] == 1 || s[0] == n[1] * n[3] * n[2]);
  return last && n[1] > 1 && n[2] * n[3] > 1;
}

static inline bool is_moderate(const int64_t *number, int count) {
  for (int i = 0; i < count; i++)
    if (number[i] > depthwise_most_number) return false;
  return true;
}

/* Whether the kernels take x, w and y. `result` is the image whose strips threads have, or y. */
static inline bool is_depthwise(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w,
                                const DLTensor *y, const DLTensor *result) {
  if (x->ndim != 4 || x->dtype.bits > 32 || w->shape[1] != 1) return false;
  const window_conv a = window_conv_of(args->attrs, 2);
  const int64_t of_x = cuda_size(x, 0, 4), of_y = cuda_size(y, 0, 4), taps = cuda_size(w, 2, 4);
  const int64_t width = 128 / x->dtype.bits,
                multiplier = x->shape[1] ? y->shape[1] / x->shape[1] : 0;
  if (of_x == 0 || of_y == 0 || of_x > CUDA_MAX_INDEX || of_y > CUDA_MAX_INDEX ||
      a.groups != x->shape[1] || taps == 0 || taps * multiplier > depthwise_most_taps ||
      result->shape[1] % width != 0 || result->shape[1] / width > 65535 * depthwise_lanes)
    return false;
  return is_channels_last(x) && is_channels_last(y) && is_aligned(x->data, 16) &&
         is_aligned(y->data, 16) && is_moderate(x->shape + 1, 3) && is_moderate(y->shape + 1, 3) &&
         is_moderate(a.stride + 1, 2) && is_moderate(a.padding + 1, 2) &&
         is_moderate(a.dilation + 1, 2);
}

/* pre: is_depthwise. */
static inline depthwise_shape depthwise_of(const tn_kernel_args *args, const DLTensor *x,
                                           const DLTensor *w, const DLTensor *y,
                                           const DLTensor *result) {
  const window_conv a = window_conv_of(args->attrs, 2);
  depthwise_shape s;
  const int64_t strips = ceil_div(result->shape[3], depthwise_pixels);
  const int packs = (int)result->shape[1] * (int)(result->dtype.bits / 8) / 16;
  s.strips = (uint32_t)(result->shape[0] * result->shape[2] * strips);
  s.by_strip = cuda_divisor_of((uint32_t)strips);
  s.by_row = cuda_divisor_of((uint32_t)result->shape[2]);
  for (int d = 0; d < 2; d++) {
    s.x[d] = (int)x->shape[2 + d];
    s.y[d] = (int)y->shape[2 + d];
    s.kernel[d] = (int)w->shape[2 + d];
    s.stride[d] = (int)a.stride[1 + d];
    s.pad[d] = (int)a.padding[1 + d];
    s.dilation[d] = (int)a.dilation[1 + d];
    s.step[d] = cuda_divisor_of((uint32_t)a.stride[1 + d]);
    s.weight[1 + d] = w->strides[2 + d];
  }
  s.weight[0] = w->strides[0];
  s.c = (int)x->shape[1];
  s.k = (int)y->shape[1];
  s.multiplier = s.k / s.c;
  for (s.lanes = 0; 1 << s.lanes < packs && 1 << s.lanes < depthwise_lanes;) s.lanes++;
  s.brain = is_brain(result);
  return s;
}

/* Blocks that lie along the channels. */
static inline unsigned channel_blocks(const depthwise_shape &s, const DLTensor *result) {
  const int64_t packs = result->shape[1] * (result->dtype.bits / 8) / 16;
  return (unsigned)ceil_div(packs, (int64_t)1 << s.lanes);
}

/* Strips that a block has at a time. */
static inline int workers_of(const depthwise_shape &s) { return depthwise_threads >> s.lanes; }

} // namespace

#endif /* KERNELS_CUDA_WINDOW_DEPTHWISE_CUH */
