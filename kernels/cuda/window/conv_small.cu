/*
 * Convolutions of every rank and their gradients so small that a launch is most of what they take:
 * matrix products of which one operand, the windows of an image, is gathered as it is read. A block
 * computes a 16 by 16 tile of the result from panels of both operands in shared memory, a thread
 * two by two of it over a sixteenth of each panel. Sums are in a fixed order.
 *
 *   result        rows                      columns            terms
 *   y             pixels of y               channels of y      channels of x by taps
 *   x             pixels of x               channels of x      channels of y by taps
 *   w             channels of x by taps     channels of y      pixels of y
 */
#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/window/conv.cuh"

namespace {

enum {
  threads = 1024,
  side = 16,
  padded_side = side + 2,
  slices = threads * 4 / (side * side),
  axes = 3
};

/* Multiplications and additions up to which this is the quickest, and terms of one sum. */
const int64_t small_total = (int64_t)1 << 23, small_terms = 2048;
/* Sizes and attributes whose products 32 bits hold, as they do all offsets. */
const int64_t small_number = 1 << 14;

struct strides4 {
  int lead, at[axes];
};

/* From a number to an index of four, the last ones three axes: to the pixels of an image, or to the
 * taps of a channel. `first` and `step` make positions in the gathered image of them, to which
 * those of a pixel and of a tap are added up. */
struct spots {
  cuda_divisor inner, plane, row;
  int lead; /* step of the first in the gathered image */
  int first[axes], step[axes];
};

struct small_conv {
  const void *image, *other, *bias;
  void *result;
  strides4 of_other, of_result; /* of terms; of rows */
  int of_image[axes], size[axes];
  int64_t image_group, other_group, result_group, bias_step;
  int other_column, result_column;
  spots row, term;
  int rows, columns, terms;     /* of a group */
  cuda_divisor by_stride[axes]; /* of a gradient's positions, where they have a stride */
  int activation;
  bool divides, brain;
};

__device__ __forceinline__ int4 index_of(int i, const spots &s) {
  const int lead = (int)quotient((uint32_t)i, s.inner);
  i -= lead * (int)s.inner.value;
  const int slice = (int)quotient((uint32_t)i, s.plane);
  i -= slice * (int)s.plane.value;
  const int line = (int)quotient((uint32_t)i, s.row);
  return make_int4(lead, slice, line, i - line * (int)s.row.value);
}

__device__ __forceinline__ int offset_of(const int4 &i, const strides4 &s) {
  return i.x * s.lead + i.y * s.at[0] + i.z * s.at[1] + i.w * s.at[2];
}

/* Where a pixel or a tap lies: an offset and three positions. */
__device__ __forceinline__ int4 spot_of(const int4 &i, const spots &s) {
  return make_int4(i.x * s.lead, s.first[0] + i.y * s.step[0], s.first[1] + i.z * s.step[1],
                   s.first[2] + i.w * s.step[2]);
}

/* Whether position `at`, which becomes one of the image, is one. */
__device__ __forceinline__ bool settle(int *at, const small_conv &c, int d) {
  if (c.divides) {
    const int whole = *at, q = (int)quotient((uint32_t)whole, c.by_stride[d]);
    *at = q;
    if (whole < 0 || q * (int)c.by_stride[d].value != whole) return false;
  }
  return is_inside(*at, c.size[d]);
}

/* What a window has at a tap: 0 outside the image. Read in any case, so that reads do not wait for
 * one another. */
template <class T>
__device__ __forceinline__ T gathered(const T *image, const small_conv &c, const int4 &row,
                                      const int4 &term, bool wanted) {
  int z = row.y + term.y, y = row.z + term.z, x = row.w + term.w;
  bool there = settle(&z, c, 0);
  there = settle(&y, c, 1) && there;
  there = settle(&x, c, 2) && there && wanted;
  const int offset = row.x + term.x + z * c.of_image[0] + y * c.of_image[1] + x * c.of_image[2];
  const T read = image[there ? offset : 0];
  return there ? read : T{};
}

/* Two panels as a thread reads them: on the left some terms of its row, on the right its term
 * of some columns. */
template <class T> struct panels {
  using V = accumulator_t<T>;
  static constexpr int depth = 512 / (int)sizeof(V), each = depth * side / threads;
  T left[each], right[each];

  __device__ __forceinline__ void read(const small_conv &c, const T *image, const T *other,
                                       const int4 &row, const int4 *spot, bool has_row, int column,
                                       int from) {
    const int first = (int)threadIdx.x / side, t = from + (int)threadIdx.x % depth;
#pragma unroll
    for (int j = 0; j < each; j++) {
      const int k = first + j * (threads / side);
      left[j] = gathered(image, c, row, spot[k], has_row && from + k < c.terms);
    }
    const int at = offset_of(index_of(t, c.term), c.of_other);
#pragma unroll
    for (int j = 0; j < each; j++) {
      const int n = column + (int)threadIdx.x / depth + j * (threads / depth);
      const bool there = t < c.terms && n < c.columns;
      const T read = other[there ? at + n * c.other_column : 0];
      right[j] = there ? read : T{};
    }
  }

  __device__ __forceinline__ void write(V (*l)[side], V (*r)[padded_side], bool brain) const {
#pragma unroll
    for (int j = 0; j < each; j++) {
      l[threadIdx.x / side + j * (threads / side)][threadIdx.x % side] = (V)load(left[j], brain);
      r[threadIdx.x % depth][threadIdx.x / depth + j * (threads / depth)] =
          (V)load(right[j], brain);
    }
  }
};

/* pre: rows, columns and terms are 1 or more, so that each operand's first element is there. */
template <class T>
__global__ void __launch_bounds__(threads) small_windows(const __grid_constant__ small_conv c) {
  using V = accumulator_t<T>;
  using two = pack<V, 2>;
  constexpr int depth = panels<T>::depth;
  __shared__ alignas(16) V room[most(depth * (side + padded_side), slices * side * side)];
  auto *left = (V(*)[side])room;
  auto *right = (V(*)[padded_side])(room + depth * side);
  __shared__ int4 spot[depth]; /* of the terms that are read next */
  const T *image = (const T *)c.image + blockIdx.z * c.image_group;
  const T *other = (const T *)c.other + blockIdx.z * c.other_group;
  const int row = (int)(blockIdx.x * side + threadIdx.x % side), column = blockIdx.y * side;
  const int slice = threadIdx.x / (threads / slices);
  const int z = threadIdx.x % (threads / slices) / 8 * 2, x = threadIdx.x % 8 * 2;
  const int4 of_row = index_of(row, c.row), place = spot_of(of_row, c.row);
  panels<T> next;
  V sum[2][2] = {};
  if (threadIdx.x < depth) spot[threadIdx.x] = spot_of(index_of(threadIdx.x, c.term), c.term);
  __syncthreads();
  next.read(c, image, other, place, spot, row < c.rows, column, 0);
  for (int p = 0; p < c.terms; p += depth) {
    __syncthreads(); /* all have used the panels and the spots before */
    next.write(left, right, c.brain);
    if (threadIdx.x < depth)
      spot[threadIdx.x] = spot_of(index_of(p + depth + threadIdx.x, c.term), c.term);
    __syncthreads();
    if (p + depth < c.terms)
      next.read(c, image, other, place, spot, row < c.rows, column, p + depth);
    const int count = least(depth, c.terms - p);
#pragma unroll 4
    for (int e = slice; e < count; e += slices) {
      const two l = *(const two *)&left[e][z], r = *(const two *)&right[e][x];
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) sum[i][j] += l.v[i] * r.v[j];
    }
  }
  __syncthreads();
  V(*parts)[side][side] = (V(*)[side][side])room; /* slices, columns, rows */
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) parts[slice][x + j][z + i] = sum[i][j];
  __syncthreads();
  const int n = column + (int)threadIdx.x / side;
  if (threadIdx.x >= side * side || row >= c.rows || n >= c.columns) return;
  V all = 0;
#pragma unroll
  for (int s = 0; s < slices; s++) all += parts[s][threadIdx.x / side][threadIdx.x % side];
  const T *bias = (const T *)c.bias;
  if (bias) all += (V)load(bias[(blockIdx.z * c.columns + n) * c.bias_step], c.brain);
  T *to = (T *)c.result + blockIdx.z * c.result_group + offset_of(of_row, c.of_result);
  to[n * c.result_column] = rounded<T>(simply_activated(c.activation, all), c.brain);
}

/* --------------------------------------------------------------- the host --- */

strides4 strides_of(int64_t lead, const int64_t *strides) {
  return {(int)lead, {(int)strides[2], (int)strides[3], (int)strides[4]}};
}

/* Of places over three axes. */
spots spots_of(const int *size, int64_t lead) {
  spots s = {};
  s.inner = cuda_divisor_of((uint32_t)(size[0] * size[1] * size[2]));
  s.plane = cuda_divisor_of((uint32_t)(size[1] * size[2]));
  s.row = cuda_divisor_of((uint32_t)size[2]);
  s.lead = (int)lead;
  return s;
}

/* Pixels of y step by the stride, or taps back from those of x. */
spots pixels_of(const conv_shape &s, int64_t lead, bool backward) {
  spots p = spots_of(backward ? s.size : s.out, lead);
  for (int d = 0; d < axes; d++) {
    p.first[d] = backward ? s.pad[d] : -s.pad[d];
    p.step[d] = backward ? 1 : s.stride[d];
  }
  return p;
}

spots taps_of(const conv_shape &s, int64_t lead, bool backward) {
  spots t = spots_of(s.kernel, lead);
  for (int d = 0; d < axes; d++) t.step[d] = backward ? -s.dilation[d] : s.dilation[d];
  return t;
}

int count_of(int lead, const int *size) { return lead * size[0] * size[1] * size[2]; }

/* `gathered`: strides of the image that is. */
small_conv begin(const conv_shape &s, const int64_t *gathered, bool backward) {
  small_conv c = {};
  c.activation = TN_ACTIVATION_NONE;
  for (int d = 0; d < axes; d++) {
    c.of_image[d] = (int)gathered[2 + d];
    c.size[d] = backward ? s.out[d] : s.size[d];
    c.by_stride[d] = cuda_divisor_of((uint32_t)s.stride[d]);
    c.divides = c.divides || (backward && s.stride[d] > 1);
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

/* Whether 32 bits hold the distance of any two elements. */
bool is_near(const DLTensor *t) {
  int64_t all = 0;
  for (int d = 0; d < t->ndim; d++) {
    const int64_t step = t->strides[d] < 0 ? -t->strides[d] : t->strides[d];
    if (t->shape[d] > 1 && step > CUDA_MAX_INDEX / t->shape[d]) return false;
    all += (t->shape[d] - 1) * step;
  }
  return all <= CUDA_MAX_INDEX;
}

/* Whether a product of so many terms is small: x, w and y by their forward names. */
bool is_small(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w, const DLTensor *y,
              int64_t columns, int64_t terms) {
  const int64_t *numbers = window_numbers(args->attrs);
  const int64_t each = cuda_size(w, 1, w->ndim), results = cuda_size(y, 0, y->ndim);
  if (columns < 1 || terms < 1 || terms > small_terms) return false;
  if (each < 1 || results < 1 || cuda_size(x, 0, x->ndim) < 1) return false;
  /* What columns leave empty of a tile takes time as well. */
  if (results > small_total / each * columns / (columns < side ? side : columns)) return false;
  for (int i = 0; i < 3 * window_axes(x) + 1; i++)
    if (numbers[i] > small_number) return false;
  for (int d = 0; d < x->ndim; d++)
    if (x->shape[d] > small_number) return false;
  if (!is_near(x) || !is_near(w) || !is_near(y)) return false;
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
  if (!(backward ? cuda_conv_backward_is_small(args) : cuda_conv_forward_is_small(args)))
    return false;
  const DLTensor *from = args->in[0], *w = args->in[1], *to = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  const int64_t *of_from = backward ? s.y : s.x, *of_to = backward ? s.x : s.y;
  const int summed = backward ? s.group_k : s.group_c;
  small_conv c = begin(s, of_from, backward);
  c.row = pixels_of(s, of_from[0], backward);
  c.rows = count_of(s.n, backward ? s.size : s.out);
  c.term = taps_of(s, of_from[1], backward);
  c.terms = count_of(summed, s.kernel);
  c.columns = backward ? s.group_c : s.group_k;
  c.image = from->data;
  c.other = w->data;
  c.result = to->data;
  c.bias = bias ? bias->data : NULL;
  c.bias_step = bias ? bias->strides[0] : 0;
  c.image_group = summed * of_from[1];
  c.of_other = strides_of(s.weight[backward ? 0 : 1], s.weight);
  c.other_column = (int)s.weight[backward ? 1 : 0];
  c.other_group = s.group_k * s.weight[0];
  c.of_result = strides_of(of_to[0], of_to);
  c.result_column = (int)of_to[1];
  c.result_group = c.columns * of_to[1];
  c.activation = s.activation;
  c.brain = is_brain(to);
  *status = start(args, c, w->shape[0] / s.group_k);
  return true;
}

bool cuda_conv_small_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *dy,
                            const conv_shape &s, tn_status *status) {
  if (!is_small_weight(args, x, dy)) return false;
  small_conv c = begin(s, s.x, false);
  c.row = taps_of(s, s.x[1], false);
  c.rows = count_of(s.group_c, s.kernel);
  c.term = pixels_of(s, s.x[0], false);
  c.terms = count_of(s.n, s.out);
  c.columns = s.group_k;
  c.image = x->data;
  c.other = dy->data;
  c.result = args->out[0]->data;
  c.image_group = s.group_c * s.x[1];
  c.of_other = strides_of(s.y[0], s.y);
  c.other_column = (int)s.y[1];
  c.other_group = s.group_k * s.y[1];
  c.of_result = strides_of(s.weight[1], s.weight);
  c.result_column = (int)s.weight[0];
  c.result_group = s.group_k * s.weight[0];
  c.brain = is_brain(args->out[0]);
  *status = start(args, c, args->out[0]->shape[0] / s.group_k);
  return true;
}
