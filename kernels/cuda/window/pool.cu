/*
 * Pooling of contiguous [n, c, d, h, w] or fewer spatial axes, adaptive too, and the
 * gradients. Gradients gather: the thread of an input element visits the windows that
 * read it, in order, so nothing is atomic. Planes (n times c) are taken in pieces that 32
 * bits index. Kernels are made for DEEP planes of three axes and for planes of two, of
 * which one axis is a row; a large window is shared by a warp.
 */
#include "kernels/common/window.h"
#include "kernels/cuda/base/dispatch.cuh"

namespace {

enum { threads = 256, warp = 32, wide_window = 64 };

struct pool_shape {
  int size[3], out[3];
  int area_in, area_out; /* products of the above */
  int kernel[3], stride[3], pad[3];
  bool count_padding;
  bool narrow[3];     /* adaptive: size times out fits 31 bits */
  cuda_divisor by[3]; /* sizes of the plane that threads walk */
  cuda_divisor by_size[3], by_out[3];
  cuda_divisor by_stride[3]; /* unless adaptive */
};

/* A thread's element: its plane and its place there. */
struct spot {
  uint32_t plane;
  int at[3];
};

template <bool DEEP> __device__ spot spot_of(uint32_t i, const pool_shape &s) {
  spot p;
  uint32_t q = quotient(i, s.by[2]);
  p.at[2] = (int)(i - q * s.by[2].value);
  p.plane = quotient(q, s.by[1]);
  p.at[1] = (int)(q - p.plane * s.by[1].value);
  p.at[0] = 0;
  if (DEEP) {
    q = p.plane;
    p.plane = quotient(q, s.by[0]);
    p.at[0] = (int)(q - p.plane * s.by[0].value);
  }
  return p;
}

/* begin <= i < end, and how many elements an average counts. */
struct span {
  int begin, end, count;
};

/* floor(o size / out), o <= out. */
__device__ int share(uint32_t o, uint32_t size, cuda_divisor out, bool narrow) {
  return narrow ? (int)quotient(o * size, out) : (int)((uint64_t)o * size / out.value);
}

/* ceil(o size / out) for o >= 1: the floor of one less, and one. */
__device__ int share_up(uint32_t o, uint32_t size, cuda_divisor out, bool narrow) {
  return (narrow ? (int)quotient(o * size - 1, out) : (int)(((uint64_t)o * size - 1) / out.value)) +
         1;
}

/* Input positions of window o along axis d, cut to the plane. */
template <bool ADAPTIVE> __device__ span inside(int o, int d, const pool_shape &s) {
  if (ADAPTIVE) {
    int begin = share((uint32_t)o, (uint32_t)s.size[d], s.by_out[d], s.narrow[d]);
    int end = share_up((uint32_t)o + 1, (uint32_t)s.size[d], s.by_out[d], s.narrow[d]);
    return {begin, end, end - begin};
  }
  int begin = o * s.stride[d] - s.pad[d];
  int count = least(s.kernel[d], s.size[d] + s.pad[d] - begin);
  span i = {most(begin, 0), least(begin + count, s.size[d]), count};
  if (!s.count_padding) i.count = i.end - i.begin;
  return i;
}

/* Windows that read input position i along axis d. Shares are symmetric: o reads i where
 * sharing out the windows among the elements would give i o. */
template <bool ADAPTIVE> __device__ span windows(int i, int d, const pool_shape &s) {
  if (ADAPTIVE) {
    return {share((uint32_t)i, (uint32_t)s.out[d], s.by_size[d], s.narrow[d]),
            share_up((uint32_t)i + 1, (uint32_t)s.out[d], s.by_size[d], s.narrow[d]), 0};
  }
  int last = (int)quotient((uint32_t)(i + s.pad[d]), s.by_stride[d]) + 1;
  int before = i + s.pad[d] - s.kernel[d]; /* a window that starts here or earlier ends too early */
  int first = before < 0 ? 0 : (int)quotient((uint32_t)before, s.by_stride[d]) + 1;
  return {first, least(last, s.out[d]), 0};
}

struct box {
  span a[3];
};

template <bool DEEP, bool ADAPTIVE> __device__ box window_at(const spot &o, const pool_shape &s) {
  box b;
  b.a[0] = DEEP ? inside<ADAPTIVE>(o.at[0], 0, s) : span{0, 1, 1};
  b.a[1] = inside<ADAPTIVE>(o.at[1], 1, s);
  b.a[2] = inside<ADAPTIVE>(o.at[2], 2, s);
  return b;
}

/* Calls visit(place) for the plane's elements in a window, in order; of LANES threads each
 * takes every LANES-th. */
template <bool DEEP, int LANES, class Visit>
__device__ void each_in(const box &b, const int size[3], int lane, Visit visit) {
  if (LANES == 1) {
    for (int z = b.a[0].begin; z < (DEEP ? b.a[0].end : 1); z++) {
      for (int r = b.a[1].begin; r < b.a[1].end; r++) {
        int row = ((DEEP ? z * size[1] : 0) + r) * size[2];
        for (int c = b.a[2].begin; c < b.a[2].end; c++) visit(row + c);
      }
    }
    return;
  }
  int columns = b.a[2].end - b.a[2].begin, rows = b.a[1].end - b.a[1].begin;
  int total = columns * rows * (b.a[0].end - b.a[0].begin);
  for (int k = lane; k < total; k += LANES) {
    int line = k / columns, c = b.a[2].begin + k - line * columns;
    int z = DEEP ? line / rows : 0, r = b.a[1].begin + line - z * rows;
    visit(((DEEP ? (b.a[0].begin + z) * size[1] : 0) + r) * size[2] + c);
  }
}

/* Whether element (v, i) comes before (best, at) as a window's maximum: NaN is the
 * largest, and of equals the first counts. */
template <class C> __device__ bool is_better(C v, int i, C best, int at) {
  bool v_is_nan = v != v, best_is_nan = best != best;
  if (v_is_nan || best_is_nan) return v_is_nan && (!best_is_nan || i < at);
  return v > best || (v == best && i < at);
}

template <class T, bool DEEP, bool ADAPTIVE, int LANES>
__global__ void __launch_bounds__(threads)
    max_pool(T *y, int32_t *index, const T *x, uint32_t count,
             const __grid_constant__ pool_shape s) {
  uint32_t i = blockIdx.x * (threads / LANES) + threadIdx.x / LANES;
  if (i >= count) return;
  spot o = spot_of<DEEP>(i, s);
  x += (int64_t)o.plane * s.area_in;
  box b = window_at<DEEP, ADAPTIVE>(o, s);
  int at = ((DEEP ? b.a[0].begin * s.size[1] : 0) + b.a[1].begin) * s.size[2] + b.a[2].begin;
  compute_t<T> best = load(x[at]);
  each_in<DEEP, LANES>(b, s.size, threadIdx.x % LANES, [&](int place) {
    compute_t<T> v = load(x[place]);
    if (is_better(v, place, best, at)) {
      best = v;
      at = place;
    }
  });
  for (int step = LANES / 2; step > 0; step /= 2) {
    compute_t<T> v = __shfl_xor_sync(0xffffffff, best, step);
    int place = __shfl_xor_sync(0xffffffff, at, step);
    if (is_better(v, place, best, at)) {
      best = v;
      at = place;
    }
  }
  if (threadIdx.x % LANES != 0) return;
  y[i] = x[at];
  if (index) index[i] = at;
}

template <class T, bool DEEP, bool ADAPTIVE, int LANES>
__global__ void __launch_bounds__(threads)
    avg_pool(T *y, const T *x, uint32_t count, const __grid_constant__ pool_shape s) {
  uint32_t i = blockIdx.x * (threads / LANES) + threadIdx.x / LANES;
  if (i >= count) return;
  spot o = spot_of<DEEP>(i, s);
  x += (int64_t)o.plane * s.area_in;
  box b = window_at<DEEP, ADAPTIVE>(o, s);
  compute_t<T> sum = 0;
  each_in<DEEP, LANES>(b, s.size, threadIdx.x % LANES, [&](int place) { sum += load(x[place]); });
  for (int step = LANES / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (threadIdx.x % LANES != 0) return;
  compute_t<T> divisor = (compute_t<T>)b.a[1].count * (compute_t<T>)b.a[2].count;
  if (DEEP) divisor *= (compute_t<T>)b.a[0].count;
  y[i] = stored<T>::from(sum / divisor);
}

/* The windows that read a thread's element. */
template <bool DEEP, bool ADAPTIVE> __device__ box readers_of(const spot &p, const pool_shape &s) {
  box b;
  b.a[0] = DEEP ? windows<ADAPTIVE>(p.at[0], 0, s) : span{0, 1, 0};
  b.a[1] = windows<ADAPTIVE>(p.at[1], 1, s);
  b.a[2] = windows<ADAPTIVE>(p.at[2], 2, s);
  return b;
}

template <class T, bool DEEP, bool ADAPTIVE>
__global__ void __launch_bounds__(threads)
    max_pool_grad(T *dx, const T *dy, const int32_t *index, uint32_t count,
                  const __grid_constant__ pool_shape s) {
  uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  spot p = spot_of<DEEP>(i, s);
  dy += (int64_t)p.plane * s.area_out;
  index += (int64_t)p.plane * s.area_out;
  int at = ((DEEP ? p.at[0] * s.size[1] : 0) + p.at[1]) * s.size[2] + p.at[2];
  compute_t<T> sum = 0;
  each_in<DEEP, 1>(readers_of<DEEP, ADAPTIVE>(p, s), s.out, 0, [&](int window) {
    if (index[window] == at) sum += load(dy[window]);
  });
  dx[i] = stored<T>::from(sum);
}

template <class T, bool DEEP, bool ADAPTIVE>
__global__ void __launch_bounds__(threads)
    avg_pool_grad(T *dx, const T *dy, uint32_t count, const __grid_constant__ pool_shape s) {
  using C = compute_t<T>;
  uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  spot p = spot_of<DEEP>(i, s);
  dy += (int64_t)p.plane * s.area_out;
  box b = readers_of<DEEP, ADAPTIVE>(p, s);
  C sum = 0;
  for (int z = b.a[0].begin; z < (DEEP ? b.a[0].end : 1); z++) {
    C depth = DEEP ? (C)inside<ADAPTIVE>(z, 0, s).count : (C)1;
    for (int r = b.a[1].begin; r < b.a[1].end; r++) {
      C area = depth * (C)inside<ADAPTIVE>(r, 1, s).count;
      int row = ((DEEP ? z * s.out[1] : 0) + r) * s.out[2];
      for (int c = b.a[2].begin; c < b.a[2].end; c++) {
        sum += load(dy[row + c]) / (area * (C)inside<ADAPTIVE>(c, 2, s).count);
      }
    }
  }
  dx[i] = stored<T>::from(sum);
}

/* `pooled` is the smaller tensor, `image` the other; `walked` the one that threads walk. */
pool_shape shape_of(const tn_kernel_args *args, const DLTensor *image, const DLTensor *pooled,
                    const DLTensor *walked, bool adaptive, bool average) {
  const window_shape large = window_shape_of(image), small = window_shape_of(pooled);
  const window_shape by = window_shape_of(walked);
  pool_shape s = {};
  window_pool w = {};
  if (!adaptive) w = window_pool_of(args->attrs, window_axes(image), average);
  s.area_in = s.area_out = 1;
  s.count_padding = w.count_padding != 0;
  for (int d = 0; d < 3; d++) {
    s.size[d] = (int)large.size[2 + d];
    s.out[d] = (int)small.size[2 + d];
    s.area_in *= s.size[d];
    s.area_out *= s.out[d];
    s.kernel[d] = (int)w.kernel[d];
    s.stride[d] = (int)w.stride[d];
    s.pad[d] = (int)w.padding[d];
    s.narrow[d] = large.size[2 + d] * small.size[2 + d] <= CUDA_MAX_INDEX;
    s.by_size[d] = cuda_divisor_of((uint32_t)large.size[2 + d]);
    s.by_out[d] = cuda_divisor_of((uint32_t)small.size[2 + d]);
    s.by[d] = cuda_divisor_of((uint32_t)by.size[2 + d]);
    s.by_stride[d] = cuda_divisor_of((uint32_t)s.stride[d]);
  }
  return s;
}

/* Whether windows have so many elements that a warp shares one. */
bool is_wide(const pool_shape &s, bool adaptive) {
  int64_t elements = 1;
  for (int d = 0; d < 3; d++) {
    elements *= adaptive ? ceil_div(s.size[d], s.out[d]) : least(s.kernel[d], s.size[d]);
  }
  return elements >= wide_window;
}

/* Calls piece(first plane, elements walked) for pieces that 32 bits index. */
template <class Piece> tn_status for_pieces(const DLTensor *walked, int64_t area, Piece piece) {
  int64_t planes = walked->shape[0] * walked->shape[1];
  if (planes == 0 || area == 0) return TN_OK;
  int64_t most_planes = CUDA_MAX_INDEX / area;
  for (int64_t first = 0; first < planes; first += most_planes) {
    int64_t taken = planes - first < most_planes ? planes - first : most_planes;
    tn_status status = piece(first, (uint32_t)(taken * area));
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

unsigned blocks_for(uint32_t count, int lanes) {
  return (unsigned)ceil_div(count, threads / lanes);
}

template <class T, bool ADAPTIVE> tn_status run_max(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *y = args->out[0], *index = args->out[1];
  pool_shape s = shape_of(args, x, y, y, ADAPTIVE, false);
  bool deep = x->ndim == 5, wide = is_wide(s, ADAPTIVE);
  auto kernel =
      wide ? (deep ? max_pool<T, true, ADAPTIVE, warp> : max_pool<T, false, ADAPTIVE, warp>)
           : (deep ? max_pool<T, true, ADAPTIVE, 1> : max_pool<T, false, ADAPTIVE, 1>);
  return for_pieces(y, s.area_out, [&](int64_t plane, uint32_t count) {
    int32_t *indexes = index ? (int32_t *)index->data + plane * s.area_out : NULL;
    return launch(args, kernel, blocks_for(count, wide ? warp : 1), threads, 0,
                  (T *)y->data + plane * s.area_out, indexes,
                  (const T *)x->data + plane * s.area_in, count, s);
  });
}

template <class T, bool ADAPTIVE> tn_status run_avg(const tn_kernel_args *args) {
  const DLTensor *x = args->in[0], *y = args->out[0];
  pool_shape s = shape_of(args, x, y, y, ADAPTIVE, true);
  bool deep = x->ndim == 5, wide = is_wide(s, ADAPTIVE);
  auto kernel =
      wide ? (deep ? avg_pool<T, true, ADAPTIVE, warp> : avg_pool<T, false, ADAPTIVE, warp>)
           : (deep ? avg_pool<T, true, ADAPTIVE, 1> : avg_pool<T, false, ADAPTIVE, 1>);
  return for_pieces(y, s.area_out, [&](int64_t plane, uint32_t count) {
    return launch(args, kernel, blocks_for(count, wide ? warp : 1), threads, 0,
                  (T *)y->data + plane * s.area_out, (const T *)x->data + plane * s.area_in, count,
                  s);
  });
}

template <class T, bool ADAPTIVE> tn_status run_max_grad(const tn_kernel_args *args) {
  const DLTensor *dy = args->in[0], *index = args->in[1], *dx = args->out[0];
  pool_shape s = shape_of(args, dx, dy, dx, ADAPTIVE, false);
  auto kernel =
      dx->ndim == 5 ? max_pool_grad<T, true, ADAPTIVE> : max_pool_grad<T, false, ADAPTIVE>;
  return for_pieces(dx, s.area_in, [&](int64_t plane, uint32_t count) {
    return launch(args, kernel, blocks_for(count, 1), threads, 0, (T *)dx->data + plane * s.area_in,
                  (const T *)dy->data + plane * s.area_out,
                  (const int32_t *)index->data + plane * s.area_out, count, s);
  });
}

template <class T, bool ADAPTIVE> tn_status run_avg_grad(const tn_kernel_args *args) {
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  pool_shape s = shape_of(args, dx, dy, dx, ADAPTIVE, true);
  auto kernel =
      dx->ndim == 5 ? avg_pool_grad<T, true, ADAPTIVE> : avg_pool_grad<T, false, ADAPTIVE>;
  return for_pieces(dx, s.area_in, [&](int64_t plane, uint32_t count) {
    return launch(args, kernel, blocks_for(count, 1), threads, 0, (T *)dx->data + plane * s.area_in,
                  (const T *)dy->data + plane * s.area_out, count, s);
  });
}

} // namespace

#define POOL_RUN(name, function, adaptive)                                                         \
  tn_status cuda_run_##name(const tn_kernel_args *args) {                                          \
    return for_float(args, args->out[0],                                                           \
                     [&](auto t) { return function<decltype(t), adaptive>(args); });               \
  }
#define POOL_KERNEL(name, function)                                                                \
  POOL_RUN(name, function, false)                                                                  \
  POOL_RUN(adaptive_##name, function, true)
#define POOL_RANK(rank)                                                                            \
  POOL_KERNEL(max_pool##rank, run_max)                                                             \
  POOL_KERNEL(max_pool##rank##_grad, run_max_grad)                                                 \
  POOL_KERNEL(avg_pool##rank, run_avg)                                                             \
  POOL_KERNEL(avg_pool##rank##_grad, run_avg_grad)

POOL_RANK(1d)
POOL_RANK(2d)
POOL_RANK(3d)
