/*
 * Reading one axis at places of contiguous tensors, a thread per element of the result. The
 * gradient gathers: the thread of an element of x visits the outputs that may read it, in order, so
 * nothing is atomic. Places are found in double, as everywhere (kernels/common/resample.h).
 */
#include "kernels/common/resample.h"
#include "kernels/cuda/base/place.cuh"

namespace {

/* [outer, axis, inner] of the tensor that threads walk, and the other one's size along the axis. */
struct walk {
  int64_t inner, axis, other;
};

struct spot {
  int64_t outer, at, inner;
};

__device__ spot spot_of(int64_t i, const walk &w) {
  spot s;
  int64_t line = i / w.inner;
  s.inner = i - line * w.inner;
  s.outer = line / w.axis;
  s.at = line - s.outer * w.axis;
  return s;
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
  resample_reading r = resample_read(&p, s.at);
  C sum = 0;
  for (int64_t j = r.first; j <= r.last; j++) {
    C weight = (C)(resample_weight(&p, r.place, j) / r.total);
    sum += weight * load(x[resample_inside(&p, j) * w.inner]);
  }
  y[i] = stored<T>::from(r.first <= r.last ? sum : (C)value);
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
  span all = readers(p, s.at);
  C sum = 0;
  for (int64_t o = all.begin; o < all.end; o++) {
    resample_reading r = resample_read(&p, o);
    int64_t first = s.at == 0 || r.first > s.at ? r.first : s.at;
    int64_t last = s.at == p.size - 1 || r.last < s.at ? r.last : s.at;
    double weight = 0;
    for (int64_t j = first; j <= last; j++) weight += resample_weight(&p, r.place, j);
    if (first <= last) sum += (C)(weight / r.total) * load(dy[o * w.inner]);
  }
  dx[i] = stored<T>::from(sum);
}

walk walk_of(const tn_kernel_args *args, int64_t axis) {
  const DLTensor *from = args->in[0], *to = args->out[0];
  int at = (int)(axis < 0 ? axis + to->ndim : axis);
  return {cuda_size(to, at + 1, to->ndim), to->shape[at], from->shape[at]};
}

} // namespace

tn_status cuda_run_resample(const tn_kernel_args *args) {
  const tn_resample_attrs *a = (const tn_resample_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  int64_t n = cuda_size(y, 0, y->ndim);
  if (n == 0) return TN_OK;
  walk w = walk_of(args, a->axis);
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
  int64_t n = cuda_size(dx, 0, dx->ndim);
  if (n == 0) return TN_OK;
  walk w = walk_of(args, a->axis);
  resample_plan plan = RESAMPLE_PLAN(a, w.axis, w.other);
  return for_float(args, dx, [&](auto t) {
    using T = decltype(t);
    return launch(args, resample_grad<T>, place_blocks(n), place_threads, 0, (T *)dx->data,
                  (const T *)dy->data, n, w, plan);
  });
}
