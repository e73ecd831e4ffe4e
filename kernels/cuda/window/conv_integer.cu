/*
 * conv_integer and qlinear_conv: the weights of a group by what the windows of an image read, as
 * tiles of integer_tiles.cuh. Windows are not laid out: an element of one is found when it is read.
 */
#include "kernels/common/window.h"
#include "kernels/cuda/matmul/integer_tiles.cuh"

namespace {

/* The windows of a group's part of an image: vectors of elements (channel, o, p, q). */
struct window_operand {
  const unsigned char *data;
  vector_numbers<unsigned char> zero; /* one, or NULL */
  unsigned flip;
  int64_t vectors, plane;
  batch_axes batch;
  cuda_divisor out_w, out_h, kernel_w, kernel_h, window;
  int size[3], stride[3], before[3], dilation[3];
  __device__ __forceinline__ bool dense() const { return false; }
  __device__ __forceinline__ int64_t origin(int64_t item) const { return batch.origin(item); }
  __device__ __forceinline__ unsigned char zero_byte(int64_t, int64_t) const {
    return zero.at(0, 0);
  }
  __device__ __forceinline__ unsigned char byte(int64_t at, int64_t vector, int64_t term) const {
    const uint32_t v = (uint32_t)vector, t = (uint32_t)term;
    const uint32_t row = quotient(v, out_w), deep = quotient(row, out_h);
    const uint32_t channel = quotient(t, window), e = t - channel * window.value;
    const uint32_t line = quotient(e, kernel_w), slab = quotient(line, kernel_h);
    const int64_t d = (int64_t)deep * stride[0] + (int64_t)slab * dilation[0] - before[0];
    const int64_t h = (int64_t)(row - deep * out_h.value) * stride[1] +
                      (int64_t)(line - slab * kernel_h.value) * dilation[1] - before[1];
    const int64_t w = (int64_t)(v - row * out_w.value) * stride[2] +
                      (int64_t)(e - line * kernel_w.value) * dilation[2] - before[2];
    if (d < 0 || d >= size[0] || h < 0 || h >= size[1] || w < 0 || w >= size[2])
      return zero.at(0, 0);
    return data[at + channel * plane + (d * size[1] + h) * size[2] + w];
  }
};

/* [images, groups] around matrices, whose steps these are. */
batch_axes image_axes(const DLTensor *x, int64_t groups, int64_t image, int64_t group) {
  batch_axes b = {};
  b.rank = 2;
  b.size[0] = x->shape[0];
  b.size[1] = groups;
  b.stride[0] = image;
  b.stride[1] = group;
  return b;
}

int64_t volume(const int64_t *size) { return size[2] * size[3] * size[4]; }

matrix_operand kernels_of(const DLTensor *x, const DLTensor *w, const DLTensor *w_zero,
                          int64_t groups) {
  matrix_operand a = {};
  a.data = (const unsigned char *)w->data;
  a.zero = numbers_of<unsigned char>(w_zero);
  a.flip = flip_of(w);
  a.vectors = a.group = w->shape[0] / groups;
  a.step = cuda_size(w, 1, w->ndim);
  a.along = 1;
  a.batch = image_axes(x, groups, 0, a.vectors * a.step);
  return a;
}

window_operand windows_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w,
                          const DLTensor *x_zero) {
  const window_shape xs = window_shape_of(x), ws = window_shape_of(w),
                     ys = window_shape_of(args->out[0]);
  const quant_conv at = quant_conv_of(args->attrs, window_axes(x));
  window_operand b = {};
  b.data = (const unsigned char *)x->data;
  b.zero = numbers_of<unsigned char>(x_zero);
  b.flip = flip_of(x);
  b.vectors = volume(ys.size);
  b.plane = volume(xs.size);
  b.batch = image_axes(x, at.groups, xs.size[1] * b.plane, ws.size[1] * b.plane);
  b.out_w = cuda_divisor_of((uint32_t)ys.size[4]);
  b.out_h = cuda_divisor_of((uint32_t)ys.size[3]);
  b.kernel_w = cuda_divisor_of((uint32_t)ws.size[4]);
  b.kernel_h = cuda_divisor_of((uint32_t)ws.size[3]);
  b.window = cuda_divisor_of((uint32_t)volume(ws.size));
  for (int d = 0; d < 3; d++) {
    b.size[d] = (int)xs.size[2 + d];
    b.stride[d] = (int)at.stride[d];
    b.before[d] = (int)at.before[d];
    b.dilation[d] = (int)at.dilation[d];
  }
  return b;
}

template <class Sink>
tn_status convolve(const tn_kernel_args *args, const DLTensor *x, const DLTensor *x_zero,
                   const DLTensor *w, const DLTensor *w_zero, Sink sink) {
  const DLTensor *y = args->out[0];
  const int64_t groups = quant_conv_of(args->attrs, window_axes(x)).groups;
  if (cuda_size(y, 0, y->ndim) == 0) return TN_OK;
  tiles_call<matrix_operand, window_operand, Sink> c = {};
  c.a = kernels_of(x, w, w_zero, groups);
  c.b = windows_of(args, x, w, x_zero);
  c.k = c.a.step;
  c.y = sink;
  c.y.row = c.b.vectors;
  c.y.col = 1;
  c.y.batch = image_axes(x, groups, w->shape[0] * c.b.vectors, c.a.vectors * c.b.vectors);
  return run_tiles(args, c, x->shape[0] * groups);
}

} // namespace

/* What is divided fits 31 bits. */
bool cuda_conv_integer_supports(const tn_kernel_args *args) {
  const bool scales = args->num_in > 4;
  const DLTensor *x = args->in[0], *w = args->in[scales ? QUANT_B : 1], *y = args->out[0];
  return cuda_size(w, 1, w->ndim) <= CUDA_MAX_INDEX && cuda_size(y, 2, y->ndim) <= CUDA_MAX_INDEX &&
         cuda_size(x, 2, x->ndim) <= CUDA_MAX_INDEX;
}

tn_status cuda_run_conv_integer(const tn_kernel_args *args) {
  sum_sink sink = {};
  sink.y = (int32_t *)args->out[0]->data;
  return convolve(args, args->in[0], args->in[2], args->in[1], args->in[3], sink);
}

tn_status cuda_run_qlinear_conv(const tn_kernel_args *args) {
  const DLTensor *const *in = args->in;
  requantising_sink sink = requantising_sink_of(args);
  /* A product of floats, in either order. */
  sink.row_scale = numbers_of<float>(in[QUANT_B_SCALE]);
  sink.col_scale = numbers_of<float>(in[QUANT_A_SCALE]);
  sink.group = in[QUANT_B]->shape[0] / quant_conv_of(args->attrs, window_axes(in[QUANT_A])).groups;
  if (in[QUANT_BIAS]) sink.bias = (const int32_t *)in[QUANT_BIAS]->data;
  return convolve(args, in[QUANT_A], in[QUANT_A_ZERO], in[QUANT_B], in[QUANT_B_ZERO], sink);
}
