/*
 * softmax, log_softmax and their gradients along one axis of contiguous tensors, seen
 * as [outer, size, inner]. Rows (inner 1) belong to a warp or a block and wait in
 * shared memory between the passes where they fit; otherwise a thread owns one column,
 * so that neighbouring threads read neighbouring elements.
 *
 * The maximum is subtracted first. A slice whose maximum is infinite gives NaN, as
 * inf - inf does.
 */
#include "kernels/cuda/base/dispatch.cuh"

namespace {

enum { threads = 256, warp_row = 1024 /* longest row of a single warp */ };

/* Shared memory that every device grants without asking. */
enum { shared_limit = 48 * 1024 - 1024 };

struct take_max {
  template <class C> static __device__ C join(C a, C b) { return a > b ? a : b; }
};
struct take_sum {
  template <class C> static __device__ C join(C a, C b) { return a + b; }
};

/* Joins one value per thread over the `lanes` threads of a row, 32 or all of the block,
 * and gives every one of them the result. */
template <class Op, class C> __device__ C join_row(C v, int lanes) {
  __shared__ C shared[threads / 32];
  for (int mask = 16; mask > 0; mask /= 2) v = Op::join(v, __shfl_xor_sync(0xffffffffu, v, mask));
  if (lanes == 32) return v;
  __syncthreads(); /* the last use of shared is over */
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = shared[0];
  for (int i = 1; i < threads / 32; i++) v = Op::join(v, shared[i]);
  return v;
}

/* How rows are spread over a block. */
struct row_plan {
  int64_t rows, size;
  int lanes;   /* threads of one row */
  bool caches; /* each row waits in shared memory */
};

template <class T, bool logarithm>
__global__ void __launch_bounds__(threads) softmax_rows(T *y, const T *x, row_plan p) {
  using C = accumulator_t<T>;
  extern __shared__ __align__(16) unsigned char memory[];
  int lane = threadIdx.x % p.lanes, local = threadIdx.x / p.lanes;
  int64_t row = (int64_t)blockIdx.x * (threads / p.lanes) + local;
  if (row >= p.rows) return; /* whole rows, so whole warps */
  C *cache = (C *)memory + local * p.size;
  x += row * p.size;
  y += row * p.size;
  C top = -(C)INFINITY, sum = 0;
  for (int64_t i = lane; i < p.size; i += p.lanes) {
    C v = load(x[i]);
    if (p.caches) cache[i] = v;
    top = take_max::join(v, top);
  }
  top = join_row<take_max>(top, p.lanes);
  for (int64_t i = lane; i < p.size; i += p.lanes) {
    C v = (p.caches ? cache[i] : (C)load(x[i])) - top;
    C e = exp(v);
    sum += e;
    if (p.caches) cache[i] = logarithm ? v : e;
  }
  sum = join_row<take_sum>(sum, p.lanes);
  C scale = logarithm ? log(sum) : (C)1 / sum;
  for (int64_t i = lane; i < p.size; i += p.lanes) {
    C v = p.caches ? cache[i] : (C)load(x[i]) - top;
    if (!p.caches && !logarithm) v = exp(v);
    y[i] = stored<T>::from(logarithm ? v - scale : v * scale);
  }
}

/* softmax: dx = y (dy - sum dy y); log_softmax: dx = dy - e^y sum dy. */
template <class T, bool logarithm>
__global__ void __launch_bounds__(threads)
    softmax_rows_grad(T *dx, const T *dy, const T *y, row_plan p) {
  using C = accumulator_t<T>;
  int lane = threadIdx.x % p.lanes, local = threadIdx.x / p.lanes;
  int64_t row = (int64_t)blockIdx.x * (threads / p.lanes) + local;
  if (row >= p.rows) return;
  dx += row * p.size;
  dy += row * p.size;
  y += row * p.size;
  C sum = 0;
  for (int64_t i = lane; i < p.size; i += p.lanes) {
    C g = load(dy[i]);
    sum += logarithm ? g : g * (C)load(y[i]);
  }
  sum = join_row<take_sum>(sum, p.lanes);
  for (int64_t i = lane; i < p.size; i += p.lanes) {
    C g = load(dy[i]), v = load(y[i]);
    dx[i] = stored<T>::from(logarithm ? g - exp(v) * sum : v * (g - sum));
  }
}

template <class T, bool logarithm>
__global__ void __launch_bounds__(threads)
    softmax_columns(T *y, const T *x, int64_t columns, int64_t size, int64_t inner) {
  using C = accumulator_t<T>;
  int64_t column = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (column >= columns) return;
  int64_t base = column / inner * size * inner + column % inner;
  x += base;
  y += base;
  C top = -(C)INFINITY, sum = 0;
  for (int64_t i = 0; i < size; i++) top = take_max::join((C)load(x[i * inner]), top);
  for (int64_t i = 0; i < size; i++) sum += exp((C)load(x[i * inner]) - top);
  C scale = logarithm ? log(sum) : (C)1 / sum;
  for (int64_t i = 0; i < size; i++) {
    C v = (C)load(x[i * inner]) - top;
    y[i * inner] = stored<T>::from(logarithm ? v - scale : exp(v) * scale);
  }
}

template <class T, bool logarithm>
__global__ void __launch_bounds__(threads)
    softmax_columns_grad(T *dx, const T *dy, const T *y, int64_t columns, int64_t size,
                         int64_t inner) {
  using C = accumulator_t<T>;
  int64_t column = (int64_t)blockIdx.x * threads + threadIdx.x;
  if (column >= columns) return;
  int64_t base = column / inner * size * inner + column % inner;
  dx += base;
  dy += base;
  y += base;
  C sum = 0;
  for (int64_t i = 0; i < size; i++) {
    C g = load(dy[i * inner]);
    sum += logarithm ? g : g * (C)load(y[i * inner]);
  }
  for (int64_t i = 0; i < size; i++) {
    C g = load(dy[i * inner]), v = load(y[i * inner]);
    dx[i * inner] = stored<T>::from(logarithm ? g - exp(v) * sum : v * (g - sum));
  }
}

/* The contiguous tensor as [outer, size, inner] around the axis. */
struct slices {
  int64_t outer, size, inner;
};

slices slices_of(const DLTensor *t, int64_t axis) {
  if (t->ndim == 0) return {1, 1, 1};
  int a = (int)(axis < 0 ? axis + t->ndim : axis);
  return {cuda_size(t, 0, a), t->shape[a], cuda_size(t, a + 1, t->ndim)};
}

row_plan rows_of(slices s, size_t element_bytes) {
  row_plan p = {s.outer, s.size, s.size > warp_row ? (int)threads : 32, true};
  p.caches = (threads / p.lanes) * (size_t)s.size * element_bytes <= shared_limit;
  return p;
}

template <class T, bool logarithm> tn_status softmax_as(const tn_kernel_args *args, slices s) {
  using C = accumulator_t<T>;
  T *y = (T *)args->out[0]->data;
  const T *x = (const T *)args->in[0]->data;
  if (s.outer == 0 || s.size == 0 || s.inner == 0) return TN_OK;
  if (s.inner == 1) {
    row_plan p = rows_of(s, sizeof(C));
    int rows = threads / p.lanes;
    size_t shared = p.caches ? rows * (size_t)p.size * sizeof(C) : 0;
    return launch(args, softmax_rows<T, logarithm>, (unsigned)ceil_div(p.rows, rows), threads,
                  shared, y, x, p);
  }
  int64_t columns = s.outer * s.inner;
  return launch(args, softmax_columns<T, logarithm>, (unsigned)ceil_div(columns, threads), threads,
                0, y, x, columns, s.size, s.inner);
}

template <class T, bool logarithm> tn_status softmax_grad_as(const tn_kernel_args *args, slices s) {
  T *dx = (T *)args->out[0]->data;
  const T *dy = (const T *)args->in[0]->data, *y = (const T *)args->in[1]->data;
  if (s.outer == 0 || s.size == 0 || s.inner == 0) return TN_OK;
  if (s.inner == 1) {
    row_plan p = rows_of(s, 0);
    return launch(args, softmax_rows_grad<T, logarithm>,
                  (unsigned)ceil_div(p.rows, threads / p.lanes), threads, 0, dx, dy, y, p);
  }
  int64_t columns = s.outer * s.inner;
  return launch(args, softmax_columns_grad<T, logarithm>, (unsigned)ceil_div(columns, threads),
                threads, 0, dx, dy, y, columns, s.size, s.inner);
}

template <bool logarithm> tn_status softmax_run(const tn_kernel_args *args, int64_t axis) {
  slices s = slices_of(args->out[0], axis);
  return for_float(args, args->out[0],
                   [&](auto t) { return softmax_as<decltype(t), logarithm>(args, s); });
}

template <bool logarithm> tn_status softmax_grad_run(const tn_kernel_args *args, int64_t axis) {
  slices s = slices_of(args->out[0], axis);
  return for_float(args, args->out[0],
                   [&](auto t) { return softmax_grad_as<decltype(t), logarithm>(args, s); });
}

} // namespace

tn_status cuda_run_softmax(const tn_kernel_args *args) {
  return softmax_run<false>(args, ((const tn_softmax_attrs *)args->attrs)->axis);
}
tn_status cuda_run_log_softmax(const tn_kernel_args *args) {
  return softmax_run<true>(args, ((const tn_log_softmax_attrs *)args->attrs)->axis);
}
tn_status cuda_run_softmax_grad(const tn_kernel_args *args) {
  return softmax_grad_run<false>(args, ((const tn_softmax_grad_attrs *)args->attrs)->axis);
}
tn_status cuda_run_log_softmax_grad(const tn_kernel_args *args) {
  return softmax_grad_run<true>(args, ((const tn_log_softmax_grad_attrs *)args->attrs)->axis);
}
