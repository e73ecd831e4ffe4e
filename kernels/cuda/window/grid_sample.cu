/*
 * Reading contiguous images at the places of a grid, and the gradients. A thread has one place and
 * reads it from channel after channel; the gradient by the images adds to where the grid says, in
 * whole numbers, so that the order of threads does not matter.
 */
#include "kernels/common/grid_sample.h"
#include "kernels/cuda/base/fixed.cuh"

namespace {

enum { grid_threads = 128, slope_places = 32, slope_shares = 8, most_channels = 4 };

struct sampling {
  grid_plan plan;
  int64_t images, channels, area, points, size[3];
};

/* One function for all kernels that the compiler knows no plan of. */
__device__ __noinline__ void read_axis(grid_reading *reading, const grid_plan &plan, double place,
                                       int64_t size) {
  *reading = grid_read(&plan, place, size);
}

/* What the place of a thread reads along each axis; one that there is not reads its one element.
 * PLAIN: two elements along each of two axes, which the compiler knows then. */
template <bool PLAIN> struct around {
  grid_reading r[3];
  int taps, axes;

  template <class T> __device__ around(const T *place, const sampling &s) {
    grid_plan p = s.plan;
    if (PLAIN) {
      p.axes = 2;
      p.taps = 2;
      p.mode = TN_GRID_LINEAR;
    }
    taps = p.taps;
    axes = p.axes;
#pragma unroll(PLAIN ? 3 : 1)
    for (int d = 0; d < 3; d++) {
      if (d >= axes)
        r[d] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 0}};
      else if (PLAIN)
        r[d] = grid_read(&p, (double)load(place[axes - 1 - d]), s.size[d]);
      else
        read_axis(&r[d], s.plan, (double)load(place[axes - 1 - d]), s.size[d]);
    }
  }

  /* Calls visit(element, i, j, k) for what lies in the image, by taps i, j and k. */
  template <class Visit> __device__ void each(const sampling &s, Visit visit) const {
#pragma unroll(PLAIN ? 2 : 1)
    for (int i = 0; i < taps; i++) {
      if (r[0].at[i] < 0) continue;
#pragma unroll(PLAIN ? 2 : 1)
      for (int j = 0; j < (axes > 1 ? taps : 1); j++) {
        if (r[1].at[j] < 0) continue;
        int64_t row = (r[0].at[i] * s.size[1] + r[1].at[j]) * s.size[2];
#pragma unroll 1
        for (int k = 0; k < (axes > 2 ? taps : 1); k++)
          if (r[2].at[k] >= 0) visit(row + r[2].at[k], i, j, k);
      }
    }
  }

  __device__ double weight(int i, int j, int k) const {
    return r[0].weight[i] * r[1].weight[j] * r[2].weight[k];
  }
};

template <class T, bool PLAIN>
__global__ void __launch_bounds__(grid_threads)
    sample(T *y, const T *x, const T *grid, const __grid_constant__ sampling s) {
  using C = compute_t<T>;
  int64_t i = (int64_t)blockIdx.x * grid_threads + threadIdx.x;
  if (i >= s.images * s.points) return;
  int64_t image = i / s.points, point = i - image * s.points;
  around<PLAIN> a(grid + i * (PLAIN ? 2 : s.plan.axes), s);
  for (int64_t c = blockIdx.y; c < s.channels; c += gridDim.y) {
    const T *plane = x + (image * s.channels + c) * s.area;
    C sum = 0;
    a.each(s, [&](int64_t element, int p, int q, int r) {
      sum += (C)a.weight(p, q, r) * load(plane[element]);
    });
    y[(image * s.channels + c) * s.points + point] = stored<T>::from(sum);
  }
}

/* A block has slope_places places next to each other, whose channels its rows of threads share. */
template <class T, bool PLAIN>
__global__ void __launch_bounds__(slope_places *slope_shares)
    slope(T *dgrid, const T *dy, const T *x, const T *grid, const __grid_constant__ sampling s) {
  __shared__ double parts[slope_shares][3][slope_places];
  const int64_t i = (int64_t)blockIdx.x * slope_places + threadIdx.x;
  const bool has = i < s.images * s.points;
  const int axes = PLAIN ? 2 : s.plan.axes;
  double sum[3] = {};
  if (has) {
    int64_t image = i / s.points, point = i - image * s.points;
    around<PLAIN> a(grid + i * axes, s);
    for (int64_t c = threadIdx.y; c < s.channels; c += slope_shares) {
      const T *plane = x + (image * s.channels + c) * s.area;
      double d = (double)load(dy[(image * s.channels + c) * s.points + point]);
      a.each(s, [&](int64_t element, int p, int q, int r) {
        double v = d * (double)load(plane[element]);
        double w0 = a.r[0].weight[p], w1 = a.r[1].weight[q], w2 = a.r[2].weight[r];
        sum[0] += a.r[0].slope[p] * w1 * w2 * v;
        sum[1] += w0 * a.r[1].slope[q] * w2 * v;
        sum[2] += w0 * w1 * a.r[2].slope[r] * v;
      });
    }
  }
  for (int d = 0; d < 3; d++) parts[threadIdx.y][d][threadIdx.x] = sum[d];
  __syncthreads();
  const int d = threadIdx.y;
  if (!has || d >= axes) return;
  double all = 0;
  for (int k = 0; k < slope_shares; k++) all += parts[k][d][threadIdx.x];
  dgrid[i * axes + axes - 1 - d] = stored<T>::from((compute_t<T>)all);
}

template <class T>
__global__ void __launch_bounds__(grid_threads)
    spread(const T *dy, const T *grid, const __grid_constant__ fixed_sums f,
           const __grid_constant__ sampling s) {
  int64_t i = (int64_t)blockIdx.x * grid_threads + threadIdx.x;
  if (i >= s.images * s.points) return;
  int64_t image = i / s.points, point = i - image * s.points;
  double unit = fixed_unit(f);
  around<false> a(grid + i * s.plan.axes, s);
  for (int64_t c = blockIdx.y; c < s.channels; c += gridDim.y) {
    int64_t plane = image * s.channels + c;
    double d = (double)load(dy[plane * s.points + point]);
    a.each(s, [&](int64_t element, int p, int q, int r) {
      fixed_add(f, unit, plane * s.area + element, a.weight(p, q, r) * d);
    });
  }
}

/* The same by blocks that hold some channels of an image in shared memory: most_channels at the
 * most, image blockIdx.y. */
template <class T>
__global__ void __launch_bounds__(fixed_threads)
    spread_held(T *dx, const T *dy, const T *grid, int slack, int group,
                const __grid_constant__ sampling s) {
  extern __shared__ unsigned long long held[];
  const int64_t image = blockIdx.y, first = (int64_t)blockIdx.x * group;
  const int channels = (int)(s.channels - first < group ? s.channels - first : group);
  const int area = (int)s.area;
  dy += (image * s.channels + first) * s.points;
  grid += image * s.points * 2;
  fixed_block(
      held, channels * area, slack, dx + (image * s.channels + first) * s.area,
      [&] {
        double largest = 0;
        for (int64_t i = threadIdx.x; i < channels * s.points; i += fixed_threads) {
          const double size = fabs((double)load(dy[i]));
          if (!(size <= largest)) largest = size;
        }
        return largest;
      },
      [&](double unit) {
        for (int64_t point = threadIdx.x; point < s.points; point += fixed_threads) {
          around<true> a(grid + point * 2, s);
          double d[most_channels];
#pragma unroll
          for (int k = 0; k < most_channels; k++)
            d[k] =
                k < channels ? (double)load(dy[k * s.points + point]) * (unit != 0 ? unit : 1) : 0;
          a.each(s, [&](int64_t element, int p, int q, int r) {
            const double weight = a.weight(p, q, r);
#pragma unroll
            for (int k = 0; k < most_channels; k++)
              if (k < channels) fixed_put(held + k * area + element, unit, weight * d[k]);
          });
        }
      });
}

/* Few places share channels among more threads. */
dim3 grid_of(const sampling &s) {
  int64_t places = s.images * s.points, shares = ceil_div(1 << 18, places);
  if (shares > s.channels) shares = s.channels;
  return dim3((unsigned)ceil_div(places, grid_threads), (unsigned)(shares > 4096 ? 4096 : shares));
}

bool is_plain(const sampling &s) { return s.plan.axes == 2 && s.plan.taps == 2; }

template <class T> tn_status run_spread(const tn_kernel_args *args, const sampling &s) {
  const T *dy = (const T *)args->in[0]->data, *grid = (const T *)args->in[1]->data;
  T *dx = (T *)args->out[0]->data;
  /* One of a place's weights is at most 1, or 1.32 along an axis of four. */
  double terms = (double)s.points * 2.5;
  for (int d = 0; d < s.plan.axes; d++) terms *= s.plan.taps;
  const int64_t count = s.images * s.channels * s.area;
  const int group = count ? fixed_channels(args, s.images, s.channels, s.area, most_channels) : 0;
  if (group && is_plain(s) && s.images < 65536) {
    const size_t bytes = (size_t)group * (size_t)s.area * 8;
    const tn_status status = allow_shared(args, spread_held<T>, bytes);
    if (status != TN_OK) return status;
    return launch(args, spread_held<T>,
                  dim3((unsigned)ceil_div(s.channels, group), (unsigned)s.images), fixed_threads,
                  bytes, dx, dy, grid, fixed_slack(terms), group, s);
  }
  const fixed_sums f = fixed_sums_of(args->workspace, count, terms);
  return fixed_run(args, f, dy, s.images * s.channels * s.points, dx, [&] {
    return launch(args, spread<T>, grid_of(s), grid_threads, 0, dy, grid, f, s);
  });
}

enum direction { FORWARD, BY_GRID, BY_INPUT };

template <class T> tn_status run_as(const tn_kernel_args *args, const sampling &s, direction way) {
  const T *in[2] = {(const T *)args->in[0]->data, (const T *)args->in[1]->data};
  T *out = (T *)args->out[0]->data;
  if (way == BY_INPUT) return run_spread<T>(args, s);
  if (s.images * s.points == 0) return TN_OK;
  if (way == BY_GRID) {
    auto by_grid = is_plain(s) ? slope<T, true> : slope<T, false>;
    return launch(args, by_grid, (unsigned)ceil_div(s.images * s.points, slope_places),
                  dim3(slope_places, slope_shares), 0, out, in[0], in[1],
                  (const T *)args->in[2]->data, s);
  }
  if (s.channels == 0) return TN_OK;
  auto kernel = is_plain(s) ? sample<T, true> : sample<T, false>;
  return launch(args, kernel, grid_of(s), grid_threads, 0, out, in[0], in[1], s);
}

sampling sampling_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *grid) {
  /* The gradients' attributes begin with the operator's. */
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
  return s;
}

tn_status run(const tn_kernel_args *args, const DLTensor *x, const DLTensor *grid, direction way) {
  const sampling s = sampling_of(args, x, grid);
  return for_float(args, args->out[0], [&](auto t) { return run_as<decltype(t)>(args, s, way); });
}

} // namespace

tn_status cuda_run_grid_sample(const tn_kernel_args *args) {
  return run(args, args->in[0], args->in[1], FORWARD);
}

tn_status cuda_run_grid_sample_grad_grid(const tn_kernel_args *args) {
  return run(args, args->in[1], args->in[2], BY_GRID);
}

/* Workspaces of gradients that add where data says: of their output. */
tn_status cuda_fixed_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = fixed_bytes(cuda_size(args->out[0], 0, args->out[0]->ndim));
  return TN_OK;
}

tn_status cuda_run_grid_sample_grad_input(const tn_kernel_args *args) {
  return run(args, args->out[0], args->in[1], BY_INPUT);
}
