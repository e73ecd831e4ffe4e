/*
 * Reading one axis at places of contiguous tensors. A thread has one place of the axis in several
 * lines, for which it finds the weights once. The gradient gathers: the thread of an element of x
 * visits the outputs that may read it, in order, so nothing is atomic. Places are found in double,
 * as everywhere (kernels/common/resample.h).
 */
#include "kernels/common/resample.h"
#include "kernels/cuda/base/place.cuh"

namespace {

enum { most_lines = 8, enough_threads = 1 << 17 };

/* [outer, axis, inner] of the tensor that threads walk, and the other one's size along the axis.
 * A thread takes `group` of the outer ones. */
struct walk {
  int64_t inner, axis, other, outer;
  int group;
  bool narrow; /* all threads are counted by 31 bits */
  place_divisor by_inner, by_axis;
};

struct spot {
  int64_t outer, at, inner;
  int lines;
};

template <class I> __device__ spot spot_by(I i, const walk &w) {
  I line, inner, group, at;
  split(i, w.by_inner, &line, &inner);
  split(line, w.by_axis, &group, &at);
  spot s = {(int64_t)group * w.group, (int64_t)at, (int64_t)inner, w.group};
  if (w.outer - s.outer < s.lines) s.lines = (int)(w.outer - s.outer);
  return s;
}

__device__ spot spot_of(int64_t i, const walk &w) {
  return w.narrow ? spot_by((uint32_t)i, w) : spot_by((uint64_t)i, w);
}

template <class T>
__global__ void __launch_bounds__(place_threads)
    resample(T *y, const T *x, int64_t count, double value, const __grid_constant__ walk w,
             const __grid_constant__ resample_plan p) {
  using C = compute_t<T>;
  int64_t i = thread_index<int64_t>();
  if (i >= count) return;
  spot s = spot_of(i, w);
  x += s.outer * w.other * w.inner + s.inner;
  y += (s.outer * w.axis + s.at) * w.inner + s.inner;
  resample_reading r = resample_read(&p, s.at);
  C sum[most_lines] = {};
  for (int64_t j = r.first; j <= r.last; j++) {
    C weight = (C)(resample_weight(&p, r.place, j) / r.total);
    const T *from = x + resample_inside(&p, j) * w.inner;
#pragma unroll
    for (int k = 0; k < most_lines; k++)
      if (k < s.lines) sum[k] += weight * load(from[k * w.other * w.inner]);
  }
#pragma unroll
  for (int k = 0; k < most_lines; k++)
    if (k < s.lines)
      y[k * w.axis * w.inner] = stored<T>::from(r.first <= r.last ? sum[k] : (C)value);
}

/* begin <= i < end. */
struct span {
  int64_t begin, end;
};

/* The outputs that may read element j: those whose place is near enough, and at an end of x all
 * that lie beyond. */
__device__ span readers(const resample_plan &p, int64_t j) {
  const double reach = resample_reach(&p) + 1, slope = p.span / p.count, out = (double)p.out;
  if (slope == 0) return {0, p.out};
  double near = ((double)j - reach - p.start) / slope - p.shift;
  double far = ((double)j + reach - p.start) / slope - p.shift;
  if (j == 0) near = slope > 0 ? -1 : out;
  if (j == p.size - 1) far = slope > 0 ? out : -1;
  double begin = floor(fmin(near, far)) - 1, end = ceil(fmax(near, far)) + 2;
  return {(int64_t)fmin(fmax(begin, 0.0), out), (int64_t)fmin(fmax(end, 0.0), out)};
}

template <class T>
__global__ void __launch_bounds__(place_threads)
    resample_grad(T *dx, const T *dy, int64_t count, const __grid_constant__ walk w,
                  const __grid_constant__ resample_plan p) {
  using C = compute_t<T>;
  int64_t i = thread_index<int64_t>();
  if (i >= count) return;
  spot s = spot_of(i, w);
  dy += s.outer * w.other * w.inner + s.inner;
  dx += (s.outer * w.axis + s.at) * w.inner + s.inner;
  span all = readers(p, s.at);
  C sum[most_lines] = {};
  for (int64_t o = all.begin; o < all.end; o++) {
    resample_reading r = resample_read(&p, o);
    int64_t first = s.at == 0 || r.first > s.at ? r.first : s.at;
    int64_t last = s.at == p.size - 1 || r.last < s.at ? r.last : s.at;
    if (first > last) continue;
    double parts = 0;
    for (int64_t j = first; j <= last; j++) parts += resample_weight(&p, r.place, j);
    const C weight = (C)(parts / r.total);
    const T *from = dy + o * w.inner;
#pragma unroll
    for (int k = 0; k < most_lines; k++)
      if (k < s.lines) sum[k] += weight * load(from[k * w.other * w.inner]);
  }
#pragma unroll
  for (int k = 0; k < most_lines; k++)
    if (k < s.lines) dx[k * w.axis * w.inner] = stored<T>::from(sum[k]);
}

walk walk_of(const tn_kernel_args *args, int64_t axis) {
  const DLTensor *from = args->in[0], *to = args->out[0];
  int at = (int)(axis < 0 ? axis + to->ndim : axis);
  walk w = {};
  w.inner = cuda_size(to, at + 1, to->ndim);
  w.axis = to->shape[at];
  w.other = from->shape[at];
  w.outer = cuda_size(to, 0, at);
  const int64_t spare = cuda_size(to, 0, to->ndim) / enough_threads;
  w.group = (int)(spare < 1 ? 1 : spare > most_lines ? most_lines : spare);
  w.by_inner = place_divisor_of(w.inner);
  w.by_axis = place_divisor_of(w.axis);
  return w;
}

/* How many threads walk. */
int64_t threads_of(walk *w) {
  const int64_t n = ceil_div(w->outer, w->group) * w->axis * w->inner;
  w->narrow = n <= CUDA_MAX_INDEX;
  return n;
}

} // namespace

tn_status cuda_run_resample(const tn_kernel_args *args) {
  const tn_resample_attrs *a = (const tn_resample_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  if (cuda_size(y, 0, y->ndim) == 0) return TN_OK;
  walk w = walk_of(args, a->axis);
  const int64_t n = threads_of(&w);
  resample_plan plan = RESAMPLE_PLAN(a, w.other, w.axis);
  return for_float(args, y, [&](auto t) {
    using T = decltype(t);
    return launch(args, resample<T>, place_blocks(n), place_threads, 0, (T *)y->data,
                  (const T *)x->data, n, a->value, w, plan);
  });
}

tn_status cuda_run_resample_grad(const tn_kernel_args *args) {
  const tn_resample_grad_attrs *a = (const tn_resample_grad_attrs *)args->attrs;
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  if (cuda_size(dx, 0, dx->ndim) == 0) return TN_OK;
  walk w = walk_of(args, a->axis);
  const int64_t n = threads_of(&w);
  resample_plan plan = RESAMPLE_PLAN(a, w.axis, w.other);
  return for_float(args, dx, [&](auto t) {
    using T = decltype(t);
    return launch(args, resample_grad<T>, place_blocks(n), place_threads, 0, (T *)dx->data,
                  (const T *)dy->data, n, w, plan);
  });
}
