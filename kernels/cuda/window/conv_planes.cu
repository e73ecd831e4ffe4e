/*
 * Convolutions of each channel by itself over images whose rows are dense, and, with windows a
 * pixel apart, their gradients by the input: a convolution with the window turned around. A thread
 * has a band of a few rows of one column, lanes of a warp lie along the columns, and what a window
 * shares with the one below it is read once. Sums are in the order of the window; what lies outside
 * an image is left out rather than multiplied by zero.
 */
#include "kernels/cuda/window/conv.cuh"

namespace {

enum { threads = 256, band = 7 /* rows: divides the sizes of common images */ };

/* From which image to which: planes [n, channels]. */
struct planes {
  uint32_t count;                          /* of threads that have a band */
  cuda_divisor by_row, by_plane, by_image; /* columns, bands of a plane, channels */
  int from[2], to[2], pad[2];
  int64_t of_from[3], of_to[3]; /* steps of images, channels and rows */
  int64_t of_weight[3];         /* and of channels, rows and columns */
  int64_t of_bias;
  int activation;
};

/* Columns of a row that a window has, without those outside. */
template <int SIDE, class V>
__device__ __forceinline__ void add_row(V *sum, const V *v, const bool *there, const V *k) {
#pragma unroll
  for (int q = 0; q < SIDE; q++)
    if (there[q]) *sum += v[q] * k[q];
}

template <class T, int SIDE, int STRIDE>
__global__ void __launch_bounds__(threads)
    bands(T *y, const T *x, const T *w, const T *bias, const __grid_constant__ planes s) {
  using V = compute_t<T>;
  constexpr int rows = (band - 1) * STRIDE + SIDE;
  const uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= s.count) return;
  const uint32_t line = quotient(i, s.by_row), plane = quotient(line, s.by_plane);
  const int column = (int)(i - line * s.by_row.value);
  const int first = (int)(line - plane * s.by_plane.value) * band;
  const int n = (int)quotient(plane, s.by_image), c = (int)plane - n * (int)s.by_image.value;
  const int left = column * STRIDE - s.pad[1], top = first * STRIDE - s.pad[0];
  V k[SIDE][SIDE], sum[band] = {};
  bool there[SIDE];
#pragma unroll
  for (int p = 0; p < SIDE; p++)
#pragma unroll
    for (int q = 0; q < SIDE; q++)
      k[p][q] = load(w[c * s.of_weight[0] + p * s.of_weight[1] + q * s.of_weight[2]]);
#pragma unroll
  for (int q = 0; q < SIDE; q++) there[q] = is_inside(left + q, s.from[1]);
  const T *from = x + n * s.of_from[0] + c * s.of_from[1] + top * s.of_from[2] + left;
#pragma unroll
  for (int r = 0; r < rows; r++, from += s.of_from[2]) {
    if (!is_inside(top + r, s.from[0])) continue;
    V v[SIDE];
#pragma unroll
    for (int q = 0; q < SIDE; q++) v[q] = there[q] ? (V)load(from[q]) : (V)0;
#pragma unroll
    for (int o = 0; o < band; o++)
      if (r >= o * STRIDE && r < o * STRIDE + SIDE)
        add_row<SIDE>(&sum[o], v, there, k[r - o * STRIDE]);
  }
  const V add = bias ? (V)load(bias[c * s.of_bias]) : (V)0;
  T *to = y + n * s.of_to[0] + c * s.of_to[1] + first * s.of_to[2] + column;
#pragma unroll
  for (int o = 0; o < band; o++, to += s.of_to[2]) {
    if (first + o >= s.to[0]) break;
    if (bias) sum[o] += add;
    *to = stored<T>::from(activated_for<T>(s.activation, sum[o]));
  }
}

bool has_dense_rows(const DLTensor *t) { return t->shape[3] == 1 || t->strides[3] == 1; }

/* Whether there are kernels for the window: of y and x, or of x and y for a gradient. */
bool are_taken(const DLTensor *from, const DLTensor *w, const DLTensor *to, const conv_shape &s,
               bool backward) {
  const int side = s.kernel[1], stride = s.stride[1];
  const int64_t bands_of_all =
      to->ndim == 4 ? to->shape[0] * to->shape[1] * ceil_div(to->shape[2], band) : 0;
  return bands_of_all > 0 && w->shape[1] == 1 && s.group_k == 1 && has_dense_rows(from) &&
         has_dense_rows(to) && (side == 3 || side == 5) && s.kernel[2] == side &&
         s.stride[2] == stride && (stride == 1 || (stride == 2 && !backward)) &&
         s.dilation[1] == 1 && s.dilation[2] == 1 && s.pad[1] < CUDA_MAX_INDEX / 2 &&
         s.pad[2] < CUDA_MAX_INDEX / 2 && bands_of_all <= CUDA_MAX_INDEX / to->shape[3];
}

planes planes_of(const DLTensor *from, const DLTensor *to, const conv_shape &s, bool backward) {
  planes p;
  const int64_t bands_of_plane = ceil_div(to->shape[2], band);
  p.count = (uint32_t)(to->shape[0] * to->shape[1] * bands_of_plane * to->shape[3]);
  p.by_row = cuda_divisor_of((uint32_t)to->shape[3]);
  p.by_plane = cuda_divisor_of((uint32_t)bands_of_plane);
  p.by_image = cuda_divisor_of((uint32_t)to->shape[1]);
  for (int d = 0; d < 2; d++) {
    p.from[d] = (int)from->shape[2 + d];
    p.to[d] = (int)to->shape[2 + d];
    p.pad[d] = backward ? s.kernel[1 + d] - 1 - s.pad[1 + d] : s.pad[1 + d];
  }
  for (int d = 0; d < 3; d++) {
    p.of_from[d] = from->strides[d];
    p.of_to[d] = to->strides[d];
  }
  p.of_weight[0] = s.weight[0];
  for (int d = 1; d < 3; d++) p.of_weight[d] = backward ? -s.weight[2 + d] : s.weight[2 + d];
  p.activation = s.activation;
  return p;
}

template <int SIDE, int STRIDE>
tn_status start(const tn_kernel_args *args, const planes &p, int64_t first_weight) {
  const DLTensor *x = args->in[0], *w = args->in[1], *y = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  return for_float(args, y, [&](auto t) {
    using T = decltype(t);
    return launch(args, bands<T, SIDE, STRIDE>, (unsigned)ceil_div(p.count, threads), threads, 0,
                  (T *)y->data, (const T *)x->data, (const T *)w->data + first_weight,
                  bias ? (const T *)bias->data : NULL, p);
  });
}

} // namespace

bool cuda_conv_planes(const tn_kernel_args *args, const conv_shape &s, bool backward,
                      tn_status *status) {
  const DLTensor *from = args->in[0], *w = args->in[1], *to = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  if (!are_taken(from, w, to, s, backward)) return false;
  planes p = planes_of(from, to, s, backward);
  p.of_bias = bias ? bias->strides[0] : 0;
  const int last = s.kernel[1] - 1;
  const int64_t first = backward ? last * (s.weight[3] + s.weight[4]) : 0;
  if (last == 2)
    *status = s.stride[1] == 1 ? start<3, 1>(args, p, first) : start<3, 2>(args, p, first);
  else
    *status = s.stride[1] == 1 ? start<5, 1>(args, p, first) : start<5, 2>(args, p, first);
  return true;
}

bool cuda_conv_backward_is_planes(const tn_kernel_args *args) {
  const DLTensor *dy = args->in[0], *w = args->in[1], *dx = args->out[0];
  return dx->ndim == 4 && cuda_size(dx, 0, 4) > 0 &&
         are_taken(dy, w, dx, shape_of(args, dx, w, dy, dx), true);
}
