/*
 * Reading contiguous images at the places of a grid, and the gradient by the grid. A thread has one
 * place and reads it from channel after channel; the gradient by the images has no kernel here: its
 * sums go where the grid says, which no order of threads gives twice the same.
 */
#include "kernels/common/grid_sample.h"
#include "kernels/cuda/base/place.cuh"

namespace {

enum { grid_threads = 128 };

struct sampling {
  grid_plan plan;
  int64_t images, channels, area, points, size[3];
};

/* What the place of a thread reads along each axis. */
template <int AXES, int TAPS> struct around {
  grid_reading r[AXES];

  template <class T> __device__ around(const T *place, const sampling &s) {
    grid_plan p = s.plan;
    p.taps = TAPS;
    p.mode = TAPS == 4 ? TN_GRID_CUBIC : TAPS == 2 ? TN_GRID_LINEAR : TN_GRID_NEAREST;
#pragma unroll
    for (int d = 0; d < AXES; d++)
      r[d] = grid_read(&p, (double)load(place[AXES - 1 - d]), s.size[d]);
  }

  /* Calls visit(element, tap along each axis) for what lies in the image. */
  template <class Visit> __device__ void each(const sampling &s, Visit visit) const {
    constexpr int all = AXES == 3 ? TAPS * TAPS * TAPS : AXES == 2 ? TAPS * TAPS : TAPS;
#pragma unroll(all <= 16 ? all : 1)
    for (int n = 0; n < all; n++) {
      int k[3] = {0, 0, 0}, rest = n;
      int64_t element = 0;
      bool there = true;
#pragma unroll
      for (int d = AXES - 1; d >= 0; d--) {
        k[d] = rest % TAPS;
        rest /= TAPS;
      }
#pragma unroll
      for (int d = 0; d < AXES; d++) {
        there = there && r[d].at[k[d]] >= 0;
        element = element * s.size[d] + r[d].at[k[d]];
      }
      if (there) visit(element, k);
    }
  }

  /* The weight of taps k, or how it changes with the number of the grid for axis `by`. */
  __device__ double weight(const int k[3], int by) const {
    double w = 1;
#pragma unroll
    for (int d = 0; d < AXES; d++) w *= d == by ? r[d].slope[k[d]] : r[d].weight[k[d]];
    return w;
  }
};

template <class T, int AXES, int TAPS>
__global__ void __launch_bounds__(grid_threads)
    sample(T *y, const T *x, const T *grid, const __grid_constant__ sampling s) {
  using C = compute_t<T>;
  int64_t i = (int64_t)blockIdx.x * grid_threads + threadIdx.x;
  if (i >= s.images * s.points) return;
  int64_t image = i / s.points, point = i - image * s.points;
  around<AXES, TAPS> a(grid + i * AXES, s);
  for (int64_t c = blockIdx.y; c < s.channels; c += gridDim.y) {
    const T *plane = x + (image * s.channels + c) * s.area;
    C sum = 0;
    a.each(s, [&](int64_t element, const int k[3]) {
      sum += (C)a.weight(k, -1) * load(plane[element]);
    });
    y[(image * s.channels + c) * s.points + point] = stored<T>::from(sum);
  }
}

template <class T, int AXES, int TAPS>
__global__ void __launch_bounds__(grid_threads)
    slope(T *dgrid, const T *dy, const T *x, const T *grid, const __grid_constant__ sampling s) {
  int64_t i = (int64_t)blockIdx.x * grid_threads + threadIdx.x;
  if (i >= s.images * s.points) return;
  int64_t image = i / s.points, point = i - image * s.points;
  around<AXES, TAPS> a(grid + i * AXES, s);
  double sum[AXES] = {};
  for (int64_t c = 0; c < s.channels; c++) {
    const T *plane = x + (image * s.channels + c) * s.area;
    double d = (double)load(dy[(image * s.channels + c) * s.points + point]);
    a.each(s, [&](int64_t element, const int k[3]) {
      double v = d * (double)load(plane[element]);
#pragma unroll
      for (int axis = 0; axis < AXES; axis++) sum[axis] += a.weight(k, axis) * v;
    });
  }
#pragma unroll
  for (int axis = 0; axis < AXES; axis++)
    dgrid[i * AXES + AXES - 1 - axis] = stored<T>::from((compute_t<T>)sum[axis]);
}

template <class T, int AXES, int TAPS>
tn_status run_as(const tn_kernel_args *args, const sampling &s, bool backward) {
  int64_t places = s.images * s.points;
  unsigned blocks = (unsigned)ceil_div(places, grid_threads);
  if (places == 0) return TN_OK;
  if (backward)
    return launch(args, slope<T, AXES, TAPS>, blocks, grid_threads, 0, (T *)args->out[0]->data,
                  (const T *)args->in[0]->data, (const T *)args->in[1]->data,
                  (const T *)args->in[2]->data, s);
  if (s.channels == 0) return TN_OK;
  /* Few places share channels among more threads. */
  int64_t shares = ceil_div(1 << 18, places);
  if (shares > s.channels) shares = s.channels;
  return launch(args, sample<T, AXES, TAPS>,
                dim3(blocks, (unsigned)(shares > 4096 ? 4096 : shares)), grid_threads, 0,
                (T *)args->out[0]->data, (const T *)args->in[0]->data, (const T *)args->in[1]->data,
                s);
}

template <class T, int AXES>
tn_status run_axes(const tn_kernel_args *args, const sampling &s, bool backward) {
  if (s.plan.taps == 1) return run_as<T, AXES, 1>(args, s, backward);
  if (s.plan.taps == 2) return run_as<T, AXES, 2>(args, s, backward);
  return run_as<T, AXES, 4>(args, s, backward);
}

/* The gradient's attributes are the operator's. */
tn_status run(const tn_kernel_args *args, const DLTensor *x, const DLTensor *grid, bool backward) {
  const tn_grid_sample_attrs *a = (const tn_grid_sample_attrs *)args->attrs;
  sampling s = {grid_plan_of(a->mode, a->padding, a->align_corners, x->ndim - 2),
                x->shape[0],
                x->shape[1],
                1,
                1,
                {1, 1, 1}};
  for (int d = 0; d < s.plan.axes; d++) {
    s.size[d] = x->shape[2 + d];
    s.area *= x->shape[2 + d];
    s.points *= grid->shape[1 + d];
  }
  return for_float(args, args->out[0], [&](auto t) {
    using T = decltype(t);
    if (s.plan.axes == 1) return run_axes<T, 1>(args, s, backward);
    if (s.plan.axes == 2) return run_axes<T, 2>(args, s, backward);
    return run_axes<T, 3>(args, s, backward);
  });
}

} // namespace

tn_status cuda_run_grid_sample(const tn_kernel_args *args) {
  return run(args, args->in[0], args->in[1], false);
}

tn_status cuda_run_grid_sample_grad_grid(const tn_kernel_args *args) {
  return run(args, args->in[1], args->in[2], true);
}
