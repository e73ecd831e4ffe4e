/*
 * Direct convolution: the definition, one thread (or, for weights, one block) per
 * output, in fixed order. It takes what cuDNN does not, empty tensors included, and is
 * the faster one where there are few channels and so little to reuse: a first layer's
 * forward pass and weight gradient. Any strides are taken.
 */
#include "kernels/cuda/common.cuh"

namespace {

enum { threads = 256, weight_threads = 512 };

/* One tensor's strides, in elements. */
struct strides4 {
  int64_t d[4];
};

/* x [n, c, h, w], w [k, c / groups, kh, kw], y [n, k, oh, ow]. */
struct conv_shape {
  int64_t count; /* of the result's elements */
  int n, c, h, w, k, kh, kw, oh, ow;
  int group_c, group_k; /* channels of one group on either side */
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  strides4 x, weight, y;
  bool narrow;        /* count fits 31 bits: divide by multiplication */
  cuda_divisor by[4]; /* sizes of the result */
};

struct place4 {
  int i[4];
};

/* Row-major position of a result's element. */
__device__ place4 place_of(int64_t at, const conv_shape &s) {
  place4 p;
#pragma unroll
  for (int d = 3; d > 0; d--) {
    int64_t q = s.narrow ? (int64_t)quotient((uint32_t)at, s.by[d]) : at / s.by[d].value;
    p.i[d] = (int)(at - q * s.by[d].value);
    at = q;
  }
  p.i[0] = (int)at;
  return p;
}

__device__ int64_t offset_of(const strides4 &s, int a, int b, int c, int d) {
  return a * s.d[0] + b * s.d[1] + c * s.d[2] + d * s.d[3];
}

template <class T>
__global__ void __launch_bounds__(threads)
    forward(T *y, const T *x, const T *w, const T *bias, int64_t bias_stride,
            const __grid_constant__ conv_shape s) {
  int64_t at = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (at >= s.count) return;
  place4 o = place_of(at, s);
  int first_c = o.i[1] / s.group_k * s.group_c;
  int top = o.i[2] * s.stride_h - s.pad_h, left = o.i[3] * s.stride_w - s.pad_w;
  compute_t<T> sum = 0;
  for (int c = 0; c < s.group_c; c++) {
    for (int p = 0; p < s.kh; p++) {
      int row = top + p * s.dilation_h;
      if (row < 0 || row >= s.h) continue;
      for (int q = 0; q < s.kw; q++) {
        int column = left + q * s.dilation_w;
        if (column < 0 || column >= s.w) continue;
        sum += load(x[offset_of(s.x, o.i[0], first_c + c, row, column)]) *
               load(w[offset_of(s.weight, o.i[1], c, p, q)]);
      }
    }
  }
  if (bias) sum += load(bias[o.i[1] * bias_stride]);
  y[offset_of(s.y, o.i[0], o.i[1], o.i[2], o.i[3])] = stored<T>::from(sum);
}

template <class T>
__global__ void __launch_bounds__(threads)
    grad_input(T *dx, const T *dy, const T *w, const __grid_constant__ conv_shape s) {
  int64_t at = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (at >= s.count) return;
  place4 o = place_of(at, s);
  int group = o.i[1] / s.group_c, c = o.i[1] - group * s.group_c;
  compute_t<T> sum = 0;
  for (int k = group * s.group_k; k < (group + 1) * s.group_k; k++) {
    for (int p = 0; p < s.kh; p++) {
      int row = o.i[2] + s.pad_h - p * s.dilation_h;
      if (row < 0 || row % s.stride_h != 0 || row / s.stride_h >= s.oh) continue;
      for (int q = 0; q < s.kw; q++) {
        int column = o.i[3] + s.pad_w - q * s.dilation_w;
        if (column < 0 || column % s.stride_w != 0 || column / s.stride_w >= s.ow) continue;
        sum += load(dy[offset_of(s.y, o.i[0], k, row / s.stride_h, column / s.stride_w)]) *
               load(w[offset_of(s.weight, k, c, p, q)]);
      }
    }
  }
  dx[offset_of(s.x, o.i[0], o.i[1], o.i[2], o.i[3])] = stored<T>::from(sum);
}

/* A block per weight: threads stride over images and window positions, whose products
 * are then added in a fixed tree. Images are taken so many at a time that 32 bits index
 * their positions. */
template <class T>
__global__ void __launch_bounds__(weight_threads)
    grad_weight(T *dw, const T *dy, const T *x, cuda_divisor by_area, cuda_divisor by_column,
                const __grid_constant__ conv_shape s) {
  using C = compute_t<T>;
  __shared__ C shared[weight_threads];
  place4 o = place_of(blockIdx.x, s);
  int channel = o.i[0] / s.group_k * s.group_c + o.i[1];
  int top = o.i[2] * s.dilation_h - s.pad_h, left = o.i[3] * s.dilation_w - s.pad_w;
  int turn = CUDA_MAX_INDEX / most((int)by_area.value, 1);
  C sum = 0;
  for (int first = 0; first < s.n; first += turn) {
    uint32_t end = (uint32_t)least(turn, s.n - first) * by_area.value;
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < end; i += weight_threads) {
      uint32_t image = quotient(i, by_area), inside = i - image * by_area.value;
      int line = (int)quotient(inside, by_column), column = (int)inside - line * s.ow;
      int row = line * s.stride_h + top, x_column = column * s.stride_w + left;
      bool valid = row >= 0 && row < s.h && x_column >= 0 && x_column < s.w;
      int from = first + (int)image;
      C a = load(dy[offset_of(s.y, from, o.i[0], line, column)]);
      C b = valid ? load(x[offset_of(s.x, from, channel, row, x_column)]) : (C)0;
      if (valid) sum += a * b;
    }
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int half = weight_threads / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    dw[offset_of(s.weight, o.i[0], o.i[1], o.i[2], o.i[3])] = stored<T>::from(shared[0]);
  }
}

strides4 strides_of(const DLTensor *t) {
  return {{t->strides[0], t->strides[1], t->strides[2], t->strides[3]}};
}

/* The three operators' attributes begin alike. */
conv_shape shape_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w,
                    const DLTensor *y, const DLTensor *result) {
  const tn_conv2d_attrs *a = (const tn_conv2d_attrs *)args->attrs;
  conv_shape s;
  s.count = cuda_size(result, 0, 4);
  s.narrow = s.count <= CUDA_MAX_INDEX;
  for (int d = 0; d < 4; d++) s.by[d] = cuda_divisor_of((uint32_t)result->shape[d]);
  s.n = (int)x->shape[0];
  s.c = (int)x->shape[1];
  s.h = (int)x->shape[2];
  s.w = (int)x->shape[3];
  s.k = (int)w->shape[0];
  s.kh = (int)w->shape[2];
  s.kw = (int)w->shape[3];
  s.oh = (int)y->shape[2];
  s.ow = (int)y->shape[3];
  s.group_c = (int)w->shape[1];
  s.group_k = (int)(w->shape[0] / a->groups);
  s.stride_h = (int)a->stride[0];
  s.stride_w = (int)a->stride[1];
  s.pad_h = (int)a->padding[0];
  s.pad_w = (int)a->padding[1];
  s.dilation_h = (int)a->dilation[0];
  s.dilation_w = (int)a->dilation[1];
  s.x = strides_of(x);
  s.weight = strides_of(w);
  s.y = strides_of(y);
  return s;
}

unsigned blocks_for(int64_t count) { return (unsigned)ceil_div(count, threads); }

template <class T> tn_status run_forward(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *w = args->in[1], *bias = args->in[2], *y = args->out[0];
  conv_shape s = shape_of(args, x, w, y, y);
  if (s.count == 0) return TN_OK;
  return launch(args, forward<T>, blocks_for(s.count), threads, 0, (T *)y->data, (const T *)x->data,
                (const T *)w->data, bias ? (const T *)bias->data : NULL,
                bias ? bias->strides[0] : 0, s);
}

template <class T> tn_status run_grad_input(const tn_kernel_args *args) {
  const DLTensor *dy = args->in[0], *w = args->in[1], *dx = args->out[0];
  conv_shape s = shape_of(args, dx, w, dy, dx);
  if (s.count == 0) return TN_OK;
  return launch(args, grad_input<T>, blocks_for(s.count), threads, 0, (T *)dx->data,
                (const T *)dy->data, (const T *)w->data, s);
}

template <class T> tn_status run_grad_weight(const tn_kernel_args *args) {
  const DLTensor *dy = args->in[0], *x = args->in[1], *dw = args->out[0];
  conv_shape s = shape_of(args, x, dw, dy, dw);
  if (s.count == 0) return TN_OK;
  int64_t area = dy->shape[2] * dy->shape[3];
  if (area > CUDA_MAX_INDEX || s.count > CUDA_MAX_INDEX) {
    return args->host->fail(TN_ERR_UNSUPPORTED, "%s: a plane of %lld elements, at most %d",
                            args->kernel->name, (long long)area, CUDA_MAX_INDEX);
  }
  return launch(args, grad_weight<T>, (unsigned)s.count, weight_threads, 0, (T *)dw->data,
                (const T *)dy->data, (const T *)x->data, cuda_divisor_of((uint32_t)area),
                cuda_divisor_of((uint32_t)s.ow), s);
}

} // namespace

#define CONV_BY_DTYPE(function)                                                                    \
  switch (cuda_dtype(args->out[0])) {                                                              \
  case TN_F32:                                                                                     \
    return function<float>(args);                                                                  \
  case TN_F16:                                                                                     \
    return function<half_t>(args);                                                                 \
  case TN_BF16:                                                                                    \
    return function<bfloat_t>(args);                                                               \
  case TN_F64:                                                                                     \
    return function<double>(args);                                                                 \
  default:                                                                                         \
    return bad_dtype(args);                                                                        \
  }

tn_status cuda_run_conv2d(const tn_kernel_args *args){CONV_BY_DTYPE(run_forward)} tn_status
    cuda_run_conv2d_grad_input(const tn_kernel_args *args){CONV_BY_DTYPE(run_grad_input)} tn_status
    cuda_run_conv2d_grad_weight(const tn_kernel_args *args) {
  CONV_BY_DTYPE(run_grad_weight)
}

/* Little reuse: few products per output, so the tiles of a matrix kernel stay empty. */
bool cuda_conv2d_is_thin(const tn_kernel_args *args) {
  const DLTensor *w = args->in[1];
  return cuda_size(w, 1, 4) <= 32;
}

/* Few weights, each a sum over all images: a block each fills the device. */
bool cuda_conv2d_grad_weight_is_thin(const tn_kernel_args *args) {
  const DLTensor *dw = args->out[0];
  return dw->shape[1] == 1 && cuda_size(dw, 0, 4) <= 1024;
}
