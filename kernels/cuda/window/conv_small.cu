/*
 * Convolutions of every rank and their gradients so small that a launch is most of what they take:
 * matrix products of which one operand, the windows of an image, is gathered as it is read. A block
 * computes a 16 by 16 tile of the result from panels of both operands in shared memory, a thread
 * two by two of it over a quarter of each panel. Sums are in a fixed order.
 *
 *   result        rows                      columns            terms
 *   y             pixels of y               channels of y      channels of x by taps
 *   x             pixels of x               channels of x      channels of y by taps
 *   w             channels of x by taps     channels of y      pixels of y
 */
#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/window/conv.cuh"

namespace {

enum { threads = 256, side = 16, padded_side = side + 2, slices = 4, axes = 3 };

/* Multiplications and additions up to which this is the quickest, and terms of one sum. */
const int64_t small_total = (int64_t)1 << 23, small_terms = 2048;
/* Sizes and attributes whose products 32 bits hold. */
const int64_t small_number = 1 << 14;
/* Fewer columns leave most of a tile empty. */
const int64_t least_columns = 4;

/* A pixel of one of the images, or a tap of one of the channels. */
struct place4 {
  int lead, at[axes];
};
struct divisors4 {
  cuda_divisor inner, plane, row;
};
struct strides4 {
  int64_t lead, at[axes];
};

struct small_conv {
  const void *image, *other, *bias;
  void *result;
  strides4 of_image, of_other, of_result; /* of_other: of terms; of_result: of rows */
  int64_t image_channel, other_column, result_column, bias_step;
  int64_t image_group, other_group, result_group;
  divisors4 by_row, by_term;
  int rows, columns, terms; /* of a group */
  int size[axes], stride[axes], pad[axes], dilation[axes];
  cuda_divisor by_stride[axes];
  int activation;
  bool backward, sums_pixels, brain;
};

__device__ __forceinline__ place4 place_at(int i, const divisors4 &by) {
  place4 p;
  uint32_t rest = (uint32_t)i, q = quotient(rest, by.inner);
  p.lead = (int)q;
  rest -= q * by.inner.value;
  q = quotient(rest, by.plane);
  p.at[0] = (int)q;
  rest -= q * by.plane.value;
  q = quotient(rest, by.row);
  p.at[1] = (int)q;
  p.at[2] = (int)(rest - q * by.row.value);
  return p;
}

__device__ __forceinline__ int64_t offset_at(const place4 &p, const strides4 &s) {
  return p.lead * s.lead + p.at[0] * s.at[0] + p.at[1] * s.at[1] + p.at[2] * s.at[2];
}

/* What the window of a pixel has at a tap: 0 outside the image. */
template <class T>
__device__ __forceinline__ accumulator_t<T> gathered(const T *image, const small_conv &c,
                                                     const place4 &pixel, const place4 &tap) {
  int64_t offset = pixel.lead * c.of_image.lead + tap.lead * c.image_channel;
  bool there = true;
#pragma unroll
  for (int d = 0; d < axes; d++) {
    int at = pixel.at[d] * c.stride[d] - c.pad[d] + tap.at[d] * c.dilation[d];
    if (c.backward) {
      const int from = pixel.at[d] + c.pad[d] - tap.at[d] * c.dilation[d];
      at = (int)quotient((uint32_t)from, c.by_stride[d]);
      there = there && from >= 0 && at * c.stride[d] == from;
    }
    there = there && is_inside(at, c.size[d]);
    offset += at * c.of_image.at[d];
  }
  return there ? (accumulator_t<T>)load(image[offset], c.brain) : (accumulator_t<T>)0;
}

/* Two panels as a thread reads them: on the left its row's every 16th term, on the right its term
 * of some columns. */
template <class T> struct panels {
  using V = accumulator_t<T>;
  static constexpr int depth = 512 / (int)sizeof(V), each = depth * side / threads;
  V left[each], right[each];

  __device__ __forceinline__ void read(const small_conv &c, const T *image, const T *other,
                                       const place4 &row, bool has_row, int first_column,
                                       int from) {
#pragma unroll
    for (int j = 0; j < each; j++) {
      const int t = from + (int)threadIdx.x / side + j * (threads / side);
      left[j] = 0;
      if (!has_row || t >= c.terms) continue;
      const place4 term = place_at(t, c.by_term);
      left[j] = gathered(image, c, c.sums_pixels ? term : row, c.sums_pixels ? row : term);
    }
    const int t = from + (int)threadIdx.x % depth;
    const T *at = other + offset_at(place_at(t, c.by_term), c.of_other);
#pragma unroll
    for (int j = 0; j < each; j++) {
      const int n = first_column + (int)threadIdx.x / depth + j * (threads / depth);
      right[j] = t < c.terms && n < c.columns ? (V)load(at[n * c.other_column], c.brain) : (V)0;
    }
  }

  __device__ __forceinline__ void write(V (*l)[side], V (*r)[padded_side]) const {
#pragma unroll
    for (int j = 0; j < each; j++) {
      l[threadIdx.x / side + j * (threads / side)][threadIdx.x % side] = left[j];
      r[threadIdx.x % depth][threadIdx.x / depth + j * (threads / depth)] = right[j];
    }
  }
};

template <class T>
__global__ void __launch_bounds__(threads) small_windows(const __grid_constant__ small_conv c) {
  using V = accumulator_t<T>;
  using two = pack<V, 2>;
  constexpr int depth = panels<T>::depth;
  __shared__ alignas(16) V left[depth][side], right[depth][padded_side];
  const T *image = (const T *)c.image + blockIdx.z * c.image_group;
  const T *other = (const T *)c.other + blockIdx.z * c.other_group;
  const int row = (int)(blockIdx.x * side + threadIdx.x % side), column = blockIdx.y * side;
  const int slice = threadIdx.x / (threads / slices);
  const int z = threadIdx.x % (threads / slices) / 8 * 2, x = threadIdx.x % 8 * 2;
  const place4 place = place_at(row, c.by_row);
  panels<T> next;
  V sum[2][2] = {};
  next.read(c, image, other, place, row < c.rows, column, 0);
  for (int p = 0; p < c.terms; p += depth) {
    if (p > 0) __syncthreads(); /* all have used the panels before */
    next.write(left, right);
    __syncthreads();
    if (p + depth < c.terms) next.read(c, image, other, place, row < c.rows, column, p + depth);
    const int count = least(depth, c.terms - p);
#pragma unroll 4
    for (int e = slice; e < count; e += slices) {
      const two l = *(const two *)&left[e][z], r = *(const two *)&right[e][x];
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) sum[i][j] += l.v[i] * r.v[j];
    }
  }
  __syncthreads();
  V(*parts)[side][side] = (V(*)[side][side])left; /* slices, columns, rows */
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) parts[slice][x + j][z + i] = sum[i][j];
  __syncthreads();
  const int n = column + (int)threadIdx.x / side;
  if (row >= c.rows || n >= c.columns) return;
  V all = 0;
#pragma unroll
  for (int s = 0; s < slices; s++) all += parts[s][threadIdx.x / side][threadIdx.x % side];
  if (c.bias)
    all += (V)load(((const T *)c.bias)[(blockIdx.z * c.columns + n) * c.bias_step], c.brain);
  T *to = (T *)c.result + blockIdx.z * c.result_group + offset_at(place, c.of_result);
  to[n * c.result_column] = rounded<T>(simply_activated(c.activation, all), c.brain);
}

/* --------------------------------------------------------------- the host --- */

strides4 strides_of(int64_t lead, const int64_t *strides) {
  return {lead, {strides[2], strides[3], strides[4]}};
}

/* Of places over three axes. */
divisors4 divisors_of(const int *size) {
  return {cuda_divisor_of((uint32_t)(size[0] * size[1] * size[2])),
          cuda_divisor_of((uint32_t)(size[1] * size[2])), cuda_divisor_of((uint32_t)size[2])};
}

int count_of(int lead, const int *size) { return lead * size[0] * size[1] * size[2]; }

small_conv begin(const conv_shape &s, bool backward) {
  small_conv c = {};
  c.backward = backward;
  c.activation = TN_ACTIVATION_NONE;
  for (int d = 0; d < axes; d++) {
    c.size[d] = backward ? s.out[d] : s.size[d];
    c.stride[d] = s.stride[d];
    c.pad[d] = s.pad[d];
    c.dilation[d] = s.dilation[d];
    c.by_stride[d] = cuda_divisor_of((uint32_t)s.stride[d]);
  }
  return c;
}

tn_status start(const tn_kernel_args *args, const small_conv &c, int64_t groups) {
  const dim3 grid((unsigned)ceil_div(c.rows, side), (unsigned)ceil_div(c.columns, side),
                  (unsigned)groups);
  return for_class(args, args->out[0], [&](auto t) {
    return launch(args, small_windows<decltype(t)>, grid, threads, 0, c);
  });
}

/* Whether a product of so many terms is small: x, w and y by their forward names. */
bool is_small(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w, const DLTensor *y,
              int64_t columns, int64_t terms) {
  const int64_t *numbers = window_numbers(args->attrs);
  const int64_t each = cuda_size(w, 1, w->ndim), results = cuda_size(y, 0, y->ndim);
  if (columns < least_columns || terms < 1 || terms > small_terms) return false;
  if (each < 1 || results < 1 || results > small_total / each || cuda_size(x, 0, x->ndim) < 1)
    return false;
  for (int i = 0; i < 3 * window_axes(x) + 1; i++)
    if (numbers[i] > small_number) return false;
  for (int d = 0; d < x->ndim; d++)
    if (x->shape[d] > small_number) return false;
  return is_simple_activation((int)window_activation(args));
}

int64_t groups_of(const tn_kernel_args *args, const DLTensor *x) {
  return window_numbers(args->attrs)[3 * window_axes(x)];
}

bool is_small_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *y) {
  const DLTensor *w = args->out[0];
  return is_small(args, x, w, y, w->shape[0] / groups_of(args, x),
                  y->shape[0] * cuda_size(y, 2, y->ndim));
}

} // namespace

bool cuda_conv_forward_is_small(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *w = args->in[1];
  return is_small(args, x, w, args->out[0], w->shape[0] / groups_of(args, x),
                  cuda_size(w, 1, w->ndim));
}

bool cuda_conv_backward_is_small(const tn_kernel_args *args) {
  const DLTensor *y = args->in[0], *w = args->in[1], *x = args->out[0];
  return is_small(args, x, w, y, w->shape[1],
                  w->shape[0] / groups_of(args, x) * cuda_size(w, 2, w->ndim));
}

bool cuda_conv_weight_is_small(const tn_kernel_args *args) {
  return is_small_weight(args, args->in[1], args->in[0]);
}

bool cuda_conv_transpose_weight_is_small(const tn_kernel_args *args) {
  return is_small_weight(args, args->in[0], args->in[1]);
}

bool cuda_conv_small_image(const tn_kernel_args *args, const conv_shape &s, bool backward,
                           tn_status *status) {
  if (!(backward ? cuda_conv_backward_is_small(args) : cuda_conv_forward_is_small(args))) return false;
  const DLTensor *from = args->in[0], *w = args->in[1], *to = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  const int64_t *of_from = backward ? s.y : s.x, *of_to = backward ? s.x : s.y;
  const int summed = backward ? s.group_k : s.group_c;
  small_conv c = begin(s, backward);
  c.columns = backward ? s.group_c : s.group_k;
  c.image = from->data;
  c.other = w->data;
  c.result = to->data;
  c.bias = bias ? bias->data : NULL;
  c.bias_step = bias ? bias->strides[0] : 0;
  c.of_image = strides_of(of_from[0], of_from);
  c.image_channel = of_from[1];
  c.image_group = summed * of_from[1];
  c.of_other = strides_of(s.weight[backward ? 0 : 1], s.weight);
  c.other_column = s.weight[backward ? 1 : 0];
  c.other_group = s.group_k * s.weight[0];
  c.of_result = strides_of(of_to[0], of_to);
  c.result_column = of_to[1];
  c.result_group = c.columns * of_to[1];
  const int *pixels = backward ? s.size : s.out;
  c.by_row = divisors_of(pixels);
  c.rows = count_of(s.n, pixels);
  c.by_term = divisors_of(s.kernel);
  c.terms = count_of(summed, s.kernel);
  c.activation = s.activation;
  c.brain = is_brain(to);
  *status = start(args, c, w->shape[0] / s.group_k);
  return true;
}

bool cuda_conv_small_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *dy,
                            const conv_shape &s, tn_status *status) {
  if (!is_small_weight(args, x, dy)) return false;
  small_conv c = begin(s, false);
  c.sums_pixels = true;
  c.columns = s.group_k;
  c.image = x->data;
  c.other = dy->data;
  c.result = args->out[0]->data;
  c.of_image = strides_of(s.x[0], s.x);
  c.image_channel = s.x[1];
  c.image_group = s.group_c * s.x[1];
  c.of_other = strides_of(s.y[0], s.y);
  c.other_column = s.y[1];
  c.other_group = s.group_k * s.y[1];
  c.of_result = strides_of(s.weight[1], s.weight);
  c.result_column = s.weight[0];
  c.result_group = s.group_k * s.weight[0];
  c.by_row = divisors_of(s.kernel);
  c.rows = count_of(s.group_c, s.kernel);
  c.by_term = divisors_of(s.out);
  c.terms = count_of(s.n, s.out);
  c.brain = is_brain(args->out[0]);
  *status = start(args, c, args->out[0]->shape[0] / s.group_k);
  return true;
}
