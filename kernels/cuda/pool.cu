/*
 * Two-dimensional pooling of contiguous [n, c, h, w] and its gradients. Gradients
 * gather: the thread of an input element visits the windows that read it, in order, so
 * nothing is atomic. Planes (n times c) are taken in pieces that 32 bits index.
 */
#include "kernels/cuda/common.cuh"

namespace {

enum { threads = 256 };

struct pool_shape {
  int h, w, oh, ow;
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  bool count_padding;
  cuda_divisor by_w, by_h; /* of the plane that threads walk */
  cuda_divisor by_stride_h, by_stride_w;
};

/* Row, column and plane of a thread's element in planes of by_h.value by by_w.value. */
struct spot {
  uint32_t plane;
  int row, column;
};

__device__ spot spot_of(uint32_t i, const pool_shape &s) {
  uint32_t line = quotient(i, s.by_w);
  uint32_t plane = quotient(line, s.by_h);
  return {plane, (int)(line - plane * s.by_h.value), (int)(i - line * s.by_w.value)};
}

/* begin <= i < end. */
struct span {
  int begin, end;
};

/* Input positions of window o, cut to the plane. */
__device__ span inside(int o, int stride, int pad, int kernel, int size) {
  int begin = o * stride - pad, end = begin + kernel;
  return {begin < 0 ? 0 : begin, end > size ? size : end};
}

/* Windows that read input position i. */
__device__ span windows(int i, cuda_divisor stride, int pad, int kernel, int count) {
  int last = (int)quotient((uint32_t)(i + pad), stride) + 1;
  int before = i + pad - kernel; /* a window that starts here or earlier ends too early */
  int first = before < 0 ? 0 : (int)quotient((uint32_t)before, stride) + 1;
  return {first, last > count ? count : last};
}

template <class T>
__global__ void __launch_bounds__(threads)
    max_pool(T *y, int32_t *index, const T *x, uint32_t count,
             const __grid_constant__ pool_shape s) {
  uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  spot o = spot_of(i, s);
  x += (int64_t)o.plane * s.h * s.w;
  span rows = inside(o.row, s.stride_h, s.pad_h, s.kernel_h, s.h);
  span columns = inside(o.column, s.stride_w, s.pad_w, s.kernel_w, s.w);
  int at = rows.begin * s.w + columns.begin;
  T best = x[at];
  for (int r = rows.begin; r < rows.end; r++) {
    for (int c = columns.begin; c < columns.end; c++) {
      T v = x[r * s.w + c];
      bool best_is_nan = load(best) != load(best);
      if (!best_is_nan && (load(v) > load(best) || load(v) != load(v))) {
        best = v;
        at = r * s.w + c;
      }
    }
  }
  y[i] = best;
  if (index) index[i] = at;
}

template <class T>
__global__ void __launch_bounds__(threads)
    max_pool_grad(T *dx, const T *dy, const int32_t *index, uint32_t count,
                  const __grid_constant__ pool_shape s) {
  uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  spot p = spot_of(i, s);
  dy += (int64_t)p.plane * s.oh * s.ow;
  index += (int64_t)p.plane * s.oh * s.ow;
  span rows = windows(p.row, s.by_stride_h, s.pad_h, s.kernel_h, s.oh);
  span columns = windows(p.column, s.by_stride_w, s.pad_w, s.kernel_w, s.ow);
  int at = p.row * s.w + p.column;
  compute_t<T> sum = 0;
  for (int r = rows.begin; r < rows.end; r++) {
    for (int c = columns.begin; c < columns.end; c++) {
      if (index[r * s.ow + c] == at) sum += load(dy[r * s.ow + c]);
    }
  }
  dx[i] = stored<T>::from(sum);
}

template <class T>
__global__ void __launch_bounds__(threads)
    avg_pool(T *y, const T *x, uint32_t count, const __grid_constant__ pool_shape s) {
  uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  spot o = spot_of(i, s);
  x += (int64_t)o.plane * s.h * s.w;
  span rows = inside(o.row, s.stride_h, s.pad_h, s.kernel_h, s.h);
  span columns = inside(o.column, s.stride_w, s.pad_w, s.kernel_w, s.w);
  compute_t<T> sum = 0;
  for (int r = rows.begin; r < rows.end; r++) {
    for (int c = columns.begin; c < columns.end; c++) sum += load(x[r * s.w + c]);
  }
  int divisor = s.count_padding ? s.kernel_h * s.kernel_w
                                : (rows.end - rows.begin) * (columns.end - columns.begin);
  y[i] = stored<T>::from(sum / (compute_t<T>)divisor);
}

template <class T>
__global__ void __launch_bounds__(threads)
    avg_pool_grad(T *dx, const T *dy, uint32_t count, const __grid_constant__ pool_shape s) {
  uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= count) return;
  spot p = spot_of(i, s);
  dy += (int64_t)p.plane * s.oh * s.ow;
  span rows = windows(p.row, s.by_stride_h, s.pad_h, s.kernel_h, s.oh);
  span columns = windows(p.column, s.by_stride_w, s.pad_w, s.kernel_w, s.ow);
  compute_t<T> sum = 0;
  for (int r = rows.begin; r < rows.end; r++) {
    for (int c = columns.begin; c < columns.end; c++) {
      int divisor = s.kernel_h * s.kernel_w;
      if (!s.count_padding) {
        span y = inside(r, s.stride_h, s.pad_h, s.kernel_h, s.h);
        span x = inside(c, s.stride_w, s.pad_w, s.kernel_w, s.w);
        divisor = (y.end - y.begin) * (x.end - x.begin);
      }
      sum += load(dy[r * s.ow + c]) / (compute_t<T>)divisor;
    }
  }
  dx[i] = stored<T>::from(sum);
}

/* `small` is the pooled tensor, `large` the other; `walked` the one that threads walk. */
pool_shape shape_of(const DLTensor *large, const DLTensor *small, const DLTensor *walked,
                    const int64_t *kernel, const int64_t *stride, const int64_t *padding,
                    bool count_padding) {
  pool_shape s;
  s.h = (int)large->shape[2];
  s.w = (int)large->shape[3];
  s.oh = (int)small->shape[2];
  s.ow = (int)small->shape[3];
  s.kernel_h = (int)kernel[0];
  s.kernel_w = (int)kernel[1];
  s.stride_h = (int)(stride[0] ? stride[0] : kernel[0]);
  s.stride_w = (int)(stride[1] ? stride[1] : kernel[1]);
  s.pad_h = (int)padding[0];
  s.pad_w = (int)padding[1];
  s.count_padding = count_padding;
  s.by_h = cuda_divisor_of((uint32_t)walked->shape[2]);
  s.by_w = cuda_divisor_of((uint32_t)walked->shape[3]);
  s.by_stride_h = cuda_divisor_of((uint32_t)s.stride_h);
  s.by_stride_w = cuda_divisor_of((uint32_t)s.stride_w);
  return s;
}

/* Calls piece(first plane, elements walked) for pieces that 32 bits index. */
template <class Piece>
tn_status for_pieces(const tn_kernel_args *args, const DLTensor *large, const DLTensor *walked,
                     Piece piece) {
  int64_t planes = walked->shape[0] * walked->shape[1], area = walked->shape[2] * walked->shape[3];
  if (planes == 0 || area == 0) return TN_OK;
  if (area > CUDA_MAX_INDEX || cuda_size(large, 2, 4) > CUDA_MAX_INDEX) {
    return args->host->fail(TN_ERR_UNSUPPORTED, "%s: a plane of %lld elements, at most %d",
                            args->kernel->name, (long long)cuda_size(large, 2, 4), CUDA_MAX_INDEX);
  }
  int64_t most = CUDA_MAX_INDEX / area;
  for (int64_t first = 0; first < planes; first += most) {
    int64_t taken = planes - first < most ? planes - first : most;
    tn_status status = piece(first, (uint32_t)(taken * area));
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

unsigned blocks_for(uint32_t count) { return (unsigned)ceil_div(count, threads); }

template <class T> tn_status run_max(const tn_kernel_args *args) {
  const tn_max_pool2d_attrs *a = (const tn_max_pool2d_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0], *index = args->out[1];
  pool_shape s = shape_of(x, y, y, a->kernel, a->stride, a->padding, true);
  int64_t in_area = (int64_t)s.h * s.w, out_area = (int64_t)s.oh * s.ow;
  return for_pieces(args, x, y, [&](int64_t plane, uint32_t count) {
    int32_t *indexes = index ? (int32_t *)index->data + plane * out_area : NULL;
    return launch(args, max_pool<T>, blocks_for(count), threads, 0, (T *)y->data + plane * out_area,
                  indexes, (const T *)x->data + plane * in_area, count, s);
  });
}

template <class T> tn_status run_max_grad(const tn_kernel_args *args) {
  const tn_max_pool2d_grad_attrs *a = (const tn_max_pool2d_grad_attrs *)args->attrs;
  const DLTensor *dy = args->in[0], *index = args->in[1], *dx = args->out[0];
  pool_shape s = shape_of(dx, dy, dx, a->kernel, a->stride, a->padding, true);
  int64_t in_area = (int64_t)s.h * s.w, out_area = (int64_t)s.oh * s.ow;
  return for_pieces(args, dx, dx, [&](int64_t plane, uint32_t count) {
    return launch(args, max_pool_grad<T>, blocks_for(count), threads, 0,
                  (T *)dx->data + plane * in_area, (const T *)dy->data + plane * out_area,
                  (const int32_t *)index->data + plane * out_area, count, s);
  });
}

template <class T> tn_status run_avg(const tn_kernel_args *args) {
  const tn_avg_pool2d_attrs *a = (const tn_avg_pool2d_attrs *)args->attrs;
  const DLTensor *x = args->in[0], *y = args->out[0];
  pool_shape s = shape_of(x, y, y, a->kernel, a->stride, a->padding, a->count_padding != 0);
  int64_t in_area = (int64_t)s.h * s.w, out_area = (int64_t)s.oh * s.ow;
  return for_pieces(args, x, y, [&](int64_t plane, uint32_t count) {
    return launch(args, avg_pool<T>, blocks_for(count), threads, 0, (T *)y->data + plane * out_area,
                  (const T *)x->data + plane * in_area, count, s);
  });
}

template <class T> tn_status run_avg_grad(const tn_kernel_args *args) {
  const tn_avg_pool2d_grad_attrs *a = (const tn_avg_pool2d_grad_attrs *)args->attrs;
  const DLTensor *dy = args->in[0], *dx = args->out[0];
  pool_shape s = shape_of(dx, dy, dx, a->kernel, a->stride, a->padding, a->count_padding != 0);
  int64_t in_area = (int64_t)s.h * s.w, out_area = (int64_t)s.oh * s.ow;
  return for_pieces(args, dx, dx, [&](int64_t plane, uint32_t count) {
    return launch(args, avg_pool_grad<T>, blocks_for(count), threads, 0,
                  (T *)dx->data + plane * in_area, (const T *)dy->data + plane * out_area, count,
                  s);
  });
}

} // namespace

#define POOL_BY_DTYPE(function)                                                                    \
  switch (cuda_dtype(args->out[0])) {                                                              \
  case TN_F32:                                                                                     \
    return function<float>(args);                                                                  \
  case TN_F16:                                                                                     \
    return function<half_t>(args);                                                                 \
  case TN_BF16:                                                                                    \
    return function<bfloat_t>(args);                                                               \
  case TN_F64:                                                                                     \
    return function<double>(args);                                                                 \
  default:                                                                                         \
    return bad_dtype(args);                                                                        \
  }

tn_status cuda_run_max_pool2d(const tn_kernel_args *args){POOL_BY_DTYPE(run_max)} tn_status
    cuda_run_max_pool2d_grad(const tn_kernel_args *args){POOL_BY_DTYPE(run_max_grad)} tn_status
    cuda_run_avg_pool2d(const tn_kernel_args *args){POOL_BY_DTYPE(run_avg)} tn_status
    cuda_run_avg_pool2d_grad(const tn_kernel_args *args) {
  POOL_BY_DTYPE(run_avg_grad)
}
