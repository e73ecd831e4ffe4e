/*
 * Direct convolution over one to three spatial axes: the definition, one thread (or, for
 * weights, one block) per output, in fixed order. It takes what cuDNN does not, empty
 * tensors included, and is the faster one where there are few channels and so little to
 * reuse: a first layer's forward pass and weight gradient, for the commonest of which conv_patch.cu
 * has kernels, as conv_small.cu has for what is small. Any strides are taken. Kernels are made
 * twice: DEEP ones for three axes, the others with a depth of 1.
 */
#include "kernels/cuda/window/conv.cuh"

namespace {

enum { threads = 256, weight_threads = 512 };

struct place5 {
  int i[5];
};

struct strides5 {
  int64_t stride[5];
};

/* Row-major position of a result's element. */
template <bool DEEP> __device__ place5 place_of(int64_t at, const conv_shape &s) {
  place5 p;
  p.i[2] = 0;
#pragma unroll
  for (int d = 4; d > 0; d--) {
    if (!DEEP && d == 2) continue;
    int64_t q = s.narrow ? (int64_t)quotient((uint32_t)at, s.by[d]) : at / s.by[d].value;
    p.i[d] = (int)(at - q * s.by[d].value);
    at = q;
  }
  p.i[0] = (int)at;
  return p;
}

template <bool DEEP>
__device__ int64_t offset_of(const int64_t *stride, int a, int b, int z, int r, int c) {
  int64_t offset = a * stride[0] + b * stride[1] + r * stride[3] + c * stride[4];
  return DEEP ? offset + z * stride[2] : offset;
}

template <bool DEEP> __device__ int64_t offset_of(const int64_t *stride, const place5 &p) {
  return offset_of<DEEP>(stride, p.i[0], p.i[1], p.i[2], p.i[3], p.i[4]);
}

template <class T, bool DEEP>
__global__ void __launch_bounds__(threads)
    forward(T *y, const T *x, const T *w, const T *bias, int64_t bias_stride, const T *addend,
            const __grid_constant__ strides5 by, const __grid_constant__ conv_shape s) {
  int64_t at = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (at >= s.count) return;
  place5 o = place_of<DEEP>(at, s);
  int first_c = o.i[1] / s.group_k * s.group_c;
  int front = DEEP ? o.i[2] * s.stride[0] - s.pad[0] : 0;
  int top = o.i[3] * s.stride[1] - s.pad[1], left = o.i[4] * s.stride[2] - s.pad[2];
  compute_t<T> sum = 0;
  for (int c = 0; c < s.group_c; c++) {
    for (int m = 0; m < (DEEP ? s.kernel[0] : 1); m++) {
      int depth = DEEP ? front + m * s.dilation[0] : 0;
      if (DEEP && !is_inside(depth, s.size[0])) continue;
      for (int p = 0; p < s.kernel[1]; p++) {
        int row = top + p * s.dilation[1];
        if (!is_inside(row, s.size[1])) continue;
        for (int q = 0; q < s.kernel[2]; q++) {
          int column = left + q * s.dilation[2];
          if (!is_inside(column, s.size[2])) continue;
          sum += load(x[offset_of<DEEP>(s.x, o.i[0], first_c + c, depth, row, column)]) *
                 load(w[offset_of<DEEP>(s.weight, o.i[1], c, m, p, q)]);
        }
      }
    }
  }
  if (bias) sum += load(bias[o.i[1] * bias_stride]);
  if (addend) sum += load(addend[offset_of<DEEP>(by.stride, o)]);
  y[offset_of<DEEP>(s.y, o)] = stored<T>::from(activated_for<T>(s.activation, sum));
}

/* The window along one axis that reads input `at` through kernel element `tap`; false if
 * none does. */
__device__ bool window_of(const conv_shape &s, int axis, int at, int tap, int *window) {
  int from = at + s.pad[axis] - tap * s.dilation[axis];
  if (from < 0 || from % s.stride[axis] != 0) return false;
  *window = from / s.stride[axis];
  return *window < s.out[axis];
}

template <class T, bool DEEP>
__global__ void __launch_bounds__(threads)
    grad_input(T *dx, const T *dy, const T *w, const T *bias, int64_t bias_stride,
               const __grid_constant__ conv_shape s) {
  int64_t at = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (at >= s.count) return;
  place5 o = place_of<DEEP>(at, s);
  int group = o.i[1] / s.group_c, c = o.i[1] - group * s.group_c;
  compute_t<T> sum = 0;
  for (int k = group * s.group_k; k < (group + 1) * s.group_k; k++) {
    for (int m = 0; m < (DEEP ? s.kernel[0] : 1); m++) {
      int depth = 0, row, column;
      if (DEEP && !window_of(s, 0, o.i[2], m, &depth)) continue;
      for (int p = 0; p < s.kernel[1]; p++) {
        if (!window_of(s, 1, o.i[3], p, &row)) continue;
        for (int q = 0; q < s.kernel[2]; q++) {
          if (!window_of(s, 2, o.i[4], q, &column)) continue;
          sum += load(dy[offset_of<DEEP>(s.y, o.i[0], k, depth, row, column)]) *
                 load(w[offset_of<DEEP>(s.weight, k, c, m, p, q)]);
        }
      }
    }
  }
  if (bias) sum += load(bias[o.i[1] * bias_stride]);
  dx[offset_of<DEEP>(s.x, o)] = stored<T>::from(sum);
}

/* Divisors of positions among the windows of an image. */
struct window_divisors {
  cuda_divisor image, slice, row;
};

/* A block per weight: threads stride over images and window positions, whose products
 * are then added in a fixed tree. Images are taken so many at a time that 32 bits index
 * their positions. */
template <class T, bool DEEP>
__global__ void __launch_bounds__(weight_threads)
    grad_weight(T *dw, const T *dy, const T *x, const window_divisors by,
                const __grid_constant__ conv_shape s) {
  using C = compute_t<T>;
  __shared__ C shared[weight_threads];
  place5 o = place_of<DEEP>(blockIdx.x, s);
  int channel = o.i[0] / s.group_k * s.group_c + o.i[1];
  int front = DEEP ? o.i[2] * s.dilation[0] - s.pad[0] : 0;
  int top = o.i[3] * s.dilation[1] - s.pad[1], left = o.i[4] * s.dilation[2] - s.pad[2];
  int turn = CUDA_MAX_INDEX / most((int)by.image.value, 1);
  C sum = 0;
  for (int first = 0; first < s.n; first += turn) {
    uint32_t end = (uint32_t)least(turn, s.n - first) * by.image.value;
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < end; i += weight_threads) {
      uint32_t image = quotient(i, by.image), inside = i - image * by.image.value;
      int slice = DEEP ? (int)quotient(inside, by.slice) : 0;
      if (DEEP) inside -= (uint32_t)slice * by.slice.value;
      int line = (int)quotient(inside, by.row), column = (int)inside - line * s.out[2];
      int depth = DEEP ? slice * s.stride[0] + front : 0;
      int row = line * s.stride[1] + top, x_column = column * s.stride[2] + left;
      bool valid = is_inside(row, s.size[1]) && is_inside(x_column, s.size[2]) &&
                   (!DEEP || is_inside(depth, s.size[0]));
      int from = first + (int)image;
      C a = load(dy[offset_of<DEEP>(s.y, from, o.i[0], slice, line, column)]);
      C b = valid ? load(x[offset_of<DEEP>(s.x, from, channel, depth, row, x_column)]) : (C)0;
      if (valid) sum += a * b;
    }
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int half = weight_threads / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) dw[offset_of<DEEP>(s.weight, o)] = stored<T>::from(shared[0]);
}

bool is_deep(const DLTensor *t) { return t->ndim == 5; }

unsigned blocks_for(int64_t count) { return (unsigned)ceil_div(count, threads); }

/* y from x, w and what there is of a bias and an addend, an output a thread. */
template <class T> tn_status run_forward(const tn_kernel_args *args, const conv_shape &s) {
  const DLTensor *x = args->in[0], *w = args->in[1], *y = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  const DLTensor *addend = args->num_in > 3 ? args->in[3] : NULL;
  strides5 by = {};
  if (addend) copy_strides(by.stride, window_shape_of(addend));
  return launch(args, is_deep(y) ? forward<T, true> : forward<T, false>, blocks_for(s.count),
                threads, 0, (T *)y->data, (const T *)x->data, (const T *)w->data,
                bias ? (const T *)bias->data : NULL, bias ? bias->strides[0] : 0,
                addend ? (const T *)addend->data : NULL, by, s);
}

/* y from x, w and perhaps a bias; with `backward`, x from y, w and perhaps a bias. */
template <class T> tn_status run_image(const tn_kernel_args *args, bool backward) {
  const DLTensor *from = args->in[0], *w = args->in[1], *to = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  conv_shape s = backward ? shape_of(args, to, w, from, to) : shape_of(args, from, w, to, to);
  tn_status status;
  if (s.count == 0) return TN_OK;
  if (cuda_conv_planes(args, s, backward, &status)) return status;
  if (!backward && cuda_conv_patch_forward(args, s, &status)) return status;
  if (cuda_conv_small_image(args, s, backward, &status)) return status;
  if (!backward) return run_forward<T>(args, s);
  auto kernel = is_deep(to) ? grad_input<T, true> : grad_input<T, false>;
  return launch(args, kernel, blocks_for(s.count), threads, 0, (T *)to->data, (const T *)from->data,
                (const T *)w->data, bias ? (const T *)bias->data : NULL,
                bias ? bias->strides[0] : 0, s);
}

/* Few weights, each a sum of so many products that a block has work and not so many that it lasts
 * longer than a library's call of three launches. */
bool is_few_of_many(const DLTensor *dw, const DLTensor *dy) {
  enum { weights = 512, least_terms = 512, most_terms = 16384 };
  const int64_t terms = dy->shape[0] * cuda_size(dy, 2, dy->ndim);
  return cuda_size(dw, 0, dw->ndim) <= weights && terms >= least_terms && terms <= most_terms;
}

template <class T>
tn_status run_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *dy) {
  const DLTensor *dw = args->out[0];
  conv_shape s = shape_of(args, x, dw, dy, dw);
  tn_status status;
  if (s.count == 0) return TN_OK;
  if (cuda_conv_patch_weight(args, x, dy, s, &status)) return status;
  if (!is_few_of_many(dw, dy) && cuda_conv_small_weight(args, x, dy, s, &status)) return status;
  int64_t image = cuda_size(dy, 2, dy->ndim);
  if (image > CUDA_MAX_INDEX || s.count > CUDA_MAX_INDEX) {
    return args->host->fail(TN_ERR_UNSUPPORTED, "%s: an image of %lld elements, at most %d",
                            args->kernel->name, (long long)image, CUDA_MAX_INDEX);
  }
  window_divisors by = {cuda_divisor_of((uint32_t)image),
                        cuda_divisor_of((uint32_t)(s.out[1] * (int64_t)s.out[2])),
                        cuda_divisor_of((uint32_t)s.out[2])};
  return launch(args, is_deep(dw) ? grad_weight<T, true> : grad_weight<T, false>, (unsigned)s.count,
                weight_threads, 0, (T *)dw->data, (const T *)dy->data, (const T *)x->data, by, s);
}

} // namespace

tn_status cuda_run_conv_forward(const tn_kernel_args *args) {
  const int activation = (int)window_activation(args);
  tn_status status =
      for_float(args, args->out[0], [&](auto t) { return run_image<decltype(t)>(args, false); });
  if (status != TN_OK || stores_activated(args, activation)) return status;
  return cuda_conv_activate(args, activation);
}

tn_status cuda_run_conv_forward_once(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *w = args->in[1], *y = args->out[0];
  if (cuda_size(y, 0, y->ndim) == 0) return TN_OK;
  return for_float(
      args, y, [&](auto t) { return run_forward<decltype(t)>(args, shape_of(args, x, w, y, y)); });
}

tn_status cuda_run_conv_backward(const tn_kernel_args *args) {
  return for_float(args, args->out[0], [&](auto t) { return run_image<decltype(t)>(args, true); });
}

tn_status cuda_run_conv_weight(const tn_kernel_args *args) {
  return for_float(args, args->out[0],
                   [&](auto t) { return run_weight<decltype(t)>(args, args->in[1], args->in[0]); });
}

tn_status cuda_run_conv_transpose_weight(const tn_kernel_args *args) {
  return for_float(args, args->out[0],
                   [&](auto t) { return run_weight<decltype(t)>(args, args->in[0], args->in[1]); });
}

/* Little reuse: few products per output, so the tiles of a matrix kernel stay empty. */
bool cuda_conv_is_thin(const tn_kernel_args *args) {
  const DLTensor *w = args->in[1];
  return cuda_size(w, 1, w->ndim) <= 32;
}

/* Few weights, each a sum over all images: a block each fills the device. */
bool cuda_conv_weight_is_thin(const tn_kernel_args *args) {
  const DLTensor *dw = args->out[0];
  return is_few_of_many(dw, args->in[0]) ||
         (dw->shape[1] == 1 && cuda_size(dw, 0, dw->ndim) <= 1024);
}

tn_status cuda_conv_weight_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = cuda_conv_patch_workspace(args, args->in[0]);
  return TN_OK;
}
