/*
 * Resizing of contiguous [n, c, h, w] and its gradient. A thread has one place of the result in
 * several planes, for which it finds the weights once; the gradient gathers: the thread of an input
 * element visits the outputs that read it, in order, so nothing is atomic. Places are whole numbers
 * (kernels/common/resize.h), so every device reads the same elements.
 */
#include "kernels/common/resize.h"
#include "kernels/cuda/base/dispatch.cuh"

namespace {

enum { threads = 256, most_planes = 8, held_columns = 4 };

/* Threads that keep the device busy: reading is a chain of few accesses, finding weights for the
 * gradient is work. */
enum { enough_threads = 1 << 19, enough_grad_threads = 1 << 17 };

struct axis {
  int64_t scale, shift, unit;
  int size, out, lead;
  bool narrow;          /* places fit 31 bits */
  cuda_divisor by_unit; /* where narrow */
};

struct resize_shape {
  axis rows, columns;
  int area_in, area_out;
  cuda_divisor by_column, by_row; /* of the plane that threads walk */
  uint32_t planes, group;         /* all of them, and how many a thread takes */
};

/* Where output i reads: elements from `first` on, unbounded, with TAPS weights. */
template <class C, int TAPS> struct reading {
  int first;
  C weight[TAPS];
};

template <class C, int TAPS> __device__ reading<C, TAPS> reading_at(int i, const axis &a) {
  int64_t number = a.scale * i + a.shift;
  bool below = number < 0; /* never by a whole unit */
  if (below) number += a.unit;
  int64_t whole = a.narrow ? (int64_t)quotient((uint32_t)number, a.by_unit) : number / a.unit;
  reading<C, TAPS> r;
  C w[4];
  RESIZE_WEIGHTS(C, TAPS, (C)(number - whole * a.unit) / (C)a.unit, w);
  for (int k = 0; k < TAPS; k++) r.weight[k] = w[k];
  r.first = (int)whole - below - a.lead;
  return r;
}

__device__ int bounded(int i, int size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

/* Row, column and planes of a thread's elements. */
struct spot {
  uint32_t plane;
  int planes;
  int row, column;
};

__device__ spot spot_of(uint32_t i, const resize_shape &s) {
  uint32_t line = quotient(i, s.by_column);
  uint32_t group = quotient(line, s.by_row), plane = group * s.group, left = s.planes - plane;
  return {plane, (int)(left < s.group ? left : s.group), (int)(line - group * s.by_row.value),
          (int)(i - line * s.by_column.value)};
}

template <class T, int TAPS>
__global__ void __launch_bounds__(threads)
    resize(T *y, const T *x, uint32_t count, const __grid_constant__ resize_shape s) {
  using C = compute_t<T>;
  uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  spot o = spot_of(i, s);
  x += (int64_t)o.plane * s.area_in;
  y += (int64_t)o.plane * s.area_out + o.row * s.columns.out + o.column;
  reading<C, TAPS> v = reading_at<C, TAPS>(o.row, s.rows);
  reading<C, TAPS> h = reading_at<C, TAPS>(o.column, s.columns);
  int row[TAPS], column[TAPS];
#pragma unroll
  for (int p = 0; p < TAPS; p++) {
    row[p] = bounded(v.first + p, s.rows.size) * s.columns.size;
    column[p] = bounded(h.first + p, s.columns.size);
  }
  for (int k = 0; k < o.planes; k++, x += s.area_in, y += s.area_out) {
    C sum = 0;
#pragma unroll
    for (int p = 0; p < TAPS; p++) {
      C line = 0;
#pragma unroll
      for (int q = 0; q < TAPS; q++) line += h.weight[q] * load(x[row[p] + column[q]]);
      sum += v.weight[p] * line;
    }
    *y = stored<T>::from(sum);
  }
}

/* begin <= i < end. */
struct span {
  int begin, end;
};

template <class N> __device__ N floor_div(N a, N b) { return a / b - (a % b < 0); }

template <class N, int TAPS> __device__ span readers_as(int i, const axis &a) {
  /* The place of output o is (scale o + shift) / unit; its whole part must lie in
   * i - (TAPS - 1 - lead) .. i + lead. */
  const N unit = (N)a.unit, shift = (N)a.shift, scale = (N)a.scale;
  const N low = (N)(i - (TAPS - 1 - a.lead)) * unit - shift;
  const N high = (N)(i + a.lead + 1) * unit - shift;
  const N begin = i == 0 ? 0 : floor_div<N>(low + scale - 1, scale);
  const N end = i == a.size - 1 ? a.out : floor_div<N>(high + scale - 1, scale);
  return {(int)(begin < 0 ? 0 : begin), (int)(end > a.out ? a.out : end)};
}

/* The outputs that may read input position i: whose first tap is not behind it and whose
 * last is not before it; the border stands for all that lies outside. */
template <int TAPS> __device__ span readers(int i, const axis &a) {
  if (a.scale == 0) return {0, a.out};
  return a.narrow ? readers_as<int32_t, TAPS>(i, a) : readers_as<int64_t, TAPS>(i, a);
}

/* The weights of a reading, and by which of them it reads an element: bit k for tap k. */
template <class C, int TAPS> struct part {
  C weight[TAPS];
  uint32_t reads;
};

template <class C, int TAPS> __device__ part<C, TAPS> part_of(int o, int element, const axis &a) {
  const reading<C, TAPS> r = reading_at<C, TAPS>(o, a);
  part<C, TAPS> p;
  p.reads = 0;
#pragma unroll
  for (int k = 0; k < TAPS; k++) {
    p.weight[k] = r.weight[k];
    p.reads |= (uint32_t)(bounded(r.first + k, a.size) == element) << k;
  }
  return p;
}

/* Each product of weights counts by itself, also where two taps read the same border: so
 * infinite gradients come out as in the definition. Columns are taken a few at a time, whose
 * weights serve all rows. */
template <class T, int TAPS>
__global__ void __launch_bounds__(threads)
    resize_grad(T *dx, const T *dy, uint32_t count, const __grid_constant__ resize_shape s) {
  using C = compute_t<T>;
  uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  spot p = spot_of(i, s);
  dy += (int64_t)p.plane * s.area_out;
  dx += (int64_t)p.plane * s.area_in + p.row * s.columns.size + p.column;
  span rows = readers<TAPS>(p.row, s.rows), columns = readers<TAPS>(p.column, s.columns);
  C sum[most_planes] = {};
  for (int first = columns.begin; first < columns.end; first += held_columns) {
    part<C, TAPS> h[held_columns];
#pragma unroll
    for (int c = 0; c < held_columns; c++) {
      h[c] = part_of<C, TAPS>(first + c, p.column, s.columns);
      if (first + c >= columns.end) h[c].reads = 0;
    }
    for (int r = rows.begin; r < rows.end; r++) {
      const part<C, TAPS> v = part_of<C, TAPS>(r, p.row, s.rows);
      C line[most_planes] = {};
#pragma unroll
      for (int c = 0; c < held_columns; c++) {
        if (!h[c].reads) continue;
        const T *from = dy + r * s.columns.out + first + c;
#pragma unroll
        for (int plane = 0; plane < most_planes; plane++) {
          if (plane >= p.planes) break;
          const C slope = load(from[plane * s.area_out]);
#pragma unroll
          for (int k = 0; k < TAPS; k++)
            if (h[c].reads >> k & 1) line[plane] += h[c].weight[k] * slope;
        }
      }
#pragma unroll
      for (int k = 0; k < TAPS; k++) {
        if (!(v.reads >> k & 1)) continue;
#pragma unroll
        for (int plane = 0; plane < most_planes; plane++) sum[plane] += v.weight[k] * line[plane];
      }
    }
  }
#pragma unroll
  for (int plane = 0; plane < most_planes; plane++)
    if (plane < p.planes) dx[(int64_t)plane * s.area_in] = stored<T>::from(sum[plane]);
}

axis axis_of(int64_t mode, bool align_corners, int64_t size, int64_t out) {
  const resize_axis r = resize_axis_of(mode, align_corners, size, out);
  axis a;
  a.scale = r.scale;
  a.shift = r.shift;
  a.unit = r.unit;
  a.size = (int)size;
  a.out = (int)out;
  a.lead = r.lead;
  /* Places are at most scale (out - 1) + shift + unit. */
  a.narrow = size <= CUDA_MAX_INDEX / 8 / out;
  a.by_unit = cuda_divisor_of(a.narrow ? (uint32_t)r.unit : 1);
  return a;
}

/* How many planes a thread takes: several where that leaves threads enough. */
uint32_t group_of(int64_t planes, int area, int64_t enough) {
  const int64_t spare = planes * area / enough;
  return (uint32_t)(spare < 1 ? 1 : spare > most_planes ? most_planes : spare);
}

/* Pieces of planes that 32 bits index. */
template <class T>
tn_status run_pieces(const tn_kernel_args *args,
                     void (*kernel)(T *, const T *, uint32_t, const resize_shape), resize_shape s,
                     int area_from, int area_to, int64_t enough) {
  const DLTensor *from = args->in[0], *to = args->out[0];
  int64_t planes = to->shape[0] * to->shape[1], piece = CUDA_MAX_INDEX / area_to;
  s.group = group_of(planes, area_to, enough);
  for (int64_t first = 0; first < planes; first += piece) {
    s.planes = (uint32_t)(planes - first < piece ? planes - first : piece);
    uint32_t count = (uint32_t)(ceil_div(s.planes, s.group) * area_to);
    tn_status status = launch(args, kernel, (unsigned)ceil_div(count, threads), threads, 0,
                              (T *)to->data + first * area_to,
                              (const T *)from->data + first * area_from, count, s);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

template <class T>
tn_status resize_as(const tn_kernel_args *args, bool backward, int64_t mode, bool align_corners) {
  const DLTensor *image = backward ? args->out[0] : args->in[0];
  const DLTensor *result = backward ? args->in[0] : args->out[0], *walked = args->out[0];
  resize_shape s;
  s.rows = axis_of(mode, align_corners, image->shape[2], result->shape[2]);
  s.columns = axis_of(mode, align_corners, image->shape[3], result->shape[3]);
  s.area_in = s.rows.size * s.columns.size;
  s.area_out = s.rows.out * s.columns.out;
  s.by_column = cuda_divisor_of((uint32_t)walked->shape[3]);
  s.by_row = cuda_divisor_of((uint32_t)walked->shape[2]);
  bool linear = mode == TN_RESIZE_BILINEAR, cubic = mode == TN_RESIZE_BICUBIC;
  if (backward) {
    auto kernel = cubic ? resize_grad<T, 4> : linear ? resize_grad<T, 2> : resize_grad<T, 1>;
    return run_pieces<T>(args, kernel, s, s.area_out, s.area_in, enough_grad_threads);
  }
  auto kernel = cubic ? resize<T, 4> : linear ? resize<T, 2> : resize<T, 1>;
  return run_pieces<T>(args, kernel, s, s.area_in, s.area_out, enough_threads);
}

tn_status resize_run(const tn_kernel_args *args, bool backward, int64_t mode, bool align_corners) {
  return for_float(args, args->out[0], [&](auto t) {
    return resize_as<decltype(t)>(args, backward, mode, align_corners);
  });
}

} // namespace

tn_status cuda_run_resize(const tn_kernel_args *args) {
  const tn_resize_attrs *a = (const tn_resize_attrs *)args->attrs;
  return resize_run(args, false, a->mode, a->align_corners != 0);
}

tn_status cuda_run_resize_grad(const tn_kernel_args *args) {
  const tn_resize_grad_attrs *a = (const tn_resize_grad_attrs *)args->attrs;
  return resize_run(args, true, a->mode, a->align_corners != 0);
}
