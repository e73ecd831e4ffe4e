/*
 * Direct convolution over two axes where the window is small and known to the compiler: a thread
 * reads what its window covers once, for several output channels; for weight gradients it sums all
 * of a channel's weights at a time.
 */
#include "kernels/cuda/window/conv.cuh"

namespace {

enum { threads = 256, channels = 8, most_splits = 64 };

/* A pixel of y among all images'. */
struct pixels {
  uint32_t count;
  cuda_divisor image, row;
};

struct place3 {
  int n, row, column;
};

__device__ __forceinline__ place3 place_of(uint32_t at, const pixels &p) {
  int n = (int)quotient(at, p.image), inside = (int)(at - (uint32_t)n * p.image.value);
  int row = (int)quotient((uint32_t)inside, p.row);
  return {n, row, inside - row * (int)p.row.value};
}

/* Reads the window of C channels from `first` on; bit t of the result says that number t is there.
 */
template <class T, int C, int H, int W, class V>
__device__ __forceinline__ uint32_t read_window(V *v, const T *x, const conv_shape &s, place3 at,
                                                int first) {
  int top = at.row * s.stride[1] - s.pad[1], left = at.column * s.stride[2] - s.pad[2];
  uint32_t there = 0;
#pragma unroll
  for (int c = 0; c < C; c++)
#pragma unroll
    for (int p = 0; p < H; p++)
#pragma unroll
      for (int q = 0; q < W; q++) {
        int row = top + p * s.dilation[1], column = left + q * s.dilation[2];
        int t = (c * H + p) * W + q;
        bool is_there = is_inside(row, s.size[1]) && is_inside(column, s.size[2]);
        v[t] =
            is_there
                ? (V)load(x[at.n * s.x[0] + (first + c) * s.x[1] + row * s.x[3] + column * s.x[4]])
                : (V)0;
        there |= (uint32_t)is_there << t;
      }
  return there;
}

/* Blocks along y have `channels` output channels each, of one group. */
template <class T, int C, int H, int W>
__global__ void __launch_bounds__(threads)
    forward(T *y, const T *x, const T *w, const T *bias, int64_t bias_stride, const pixels of,
            const __grid_constant__ conv_shape s) {
  using V = compute_t<T>;
  constexpr int taps = C * H * W, padded = (taps + 3) / 4 * 4;
  constexpr uint32_t whole = taps == 32 ? ~0u : (1u << taps) - 1;
  __shared__ __align__(16) V weights[channels][padded];
  int per_group = (s.group_k + channels - 1) / channels;
  int group = (int)blockIdx.y / per_group;
  int first = group * s.group_k + (int)blockIdx.y % per_group * channels;
  int count = least(channels, (group + 1) * s.group_k - first);
  for (int i = threadIdx.x; i < count * taps; i += threads) {
    int k = i / taps, t = i % taps, c = t / (H * W), p = t / W % H, q = t % W;
    weights[k][t] =
        load(w[(first + k) * s.weight[0] + c * s.weight[1] + p * s.weight[3] + q * s.weight[4]]);
  }
  __syncthreads();
  uint32_t i = blockIdx.x * threads + threadIdx.x;
  if (i >= of.count) return;
  place3 at = place_of(i, of);
  V v[padded];
  uint32_t there = read_window<T, C, H, W>(v, x, s, at, group * C);
  T *out = y + at.n * s.y[0] + at.row * s.y[3] + at.column * s.y[4];
  for (int k = 0; k < count; k++) {
    V sum = 0;
    if (there == whole) {
#pragma unroll
      for (int t = 0; t < taps; t++) sum += v[t] * weights[k][t];
    } else {
#pragma unroll
      for (int t = 0; t < taps; t++)
        if (there >> t & 1) sum += v[t] * weights[k][t];
    }
    if (bias) sum += load(bias[(first + k) * bias_stride]);
    out[(first + k) * s.y[1]] = stored<T>::from(activated_for<T>(s.activation, sum));
  }
}

template <class V> __device__ V join_warp(V v) {
  for (int mask = 16; mask > 0; mask /= 2) v += __shfl_xor_sync(0xffffffffu, v, mask);
  return v;
}

/* A block has an output channel and a share of the pixels; what it sums goes to dw where there is
 * one share, else to `parts` [share, k, taps]. */
template <class T, int H, int W>
__global__ void __launch_bounds__(threads)
    weight(T *dw, compute_t<T> *parts, const T *dy, const T *x, const pixels of,
           const __grid_constant__ conv_shape s) {
  using V = compute_t<T>;
  constexpr int taps = H * W;
  __shared__ V shared[threads / 32][taps];
  int k = blockIdx.x, warp = threadIdx.x / 32;
  uint32_t share = (of.count + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * share;
  uint32_t end = begin + share < of.count ? begin + share : of.count;
  V sum[taps] = {};
  for (uint32_t i = begin + threadIdx.x; i < end; i += threads) {
    place3 at = place_of(i, of);
    V v[taps];
    uint32_t there = read_window<T, 1, H, W>(v, x, s, at, k / s.group_k);
    V g = load(dy[at.n * s.y[0] + k * s.y[1] + at.row * s.y[3] + at.column * s.y[4]]);
#pragma unroll
    for (int t = 0; t < taps; t++)
      if (there >> t & 1) sum[t] += g * v[t];
  }
#pragma unroll
  for (int t = 0; t < taps; t++) {
    V all = join_warp(sum[t]);
    if (threadIdx.x % 32 == 0) shared[warp][t] = all;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < taps; t += threads) {
    V all = 0;
    for (int i = 0; i < threads / 32; i++) all += shared[i][t];
    if (gridDim.y > 1)
      parts[((int64_t)blockIdx.y * gridDim.x + k) * taps + t] = all;
    else
      dw[k * s.weight[0] + t / W * s.weight[3] + t % W * s.weight[4]] = stored<T>::from(all);
  }
}

template <class T, int H, int W>
__global__ void __launch_bounds__(threads)
    join_shares(T *dw, const compute_t<T> *parts, int shares, int count,
                const __grid_constant__ conv_shape s) {
  int i = (int)(blockIdx.x * threads + threadIdx.x);
  if (i >= count) return;
  compute_t<T> all = 0;
  for (int k = 0; k < shares; k++) all += parts[(int64_t)k * count + i];
  int t = i % (H * W);
  dw[i / (H * W) * s.weight[0] + t / W * s.weight[3] + t % W * s.weight[4]] = stored<T>::from(all);
}

/* False where there are too many. */
bool pixels_of(const DLTensor *y, pixels *p) {
  int64_t image = cuda_size(y, 2, y->ndim), count = y->shape[0] * image;
  if (y->ndim != 4 || count == 0 || count > CUDA_MAX_INDEX) return false;
  *p = {(uint32_t)count, cuda_divisor_of((uint32_t)image), cuda_divisor_of((uint32_t)y->shape[3])};
  return true;
}

bool has_window(const conv_shape &s, int c, int h, int w) {
  return s.group_c == c && s.kernel[1] == h && s.kernel[2] == w;
}

template <int C, int H, int W>
tn_status run_forward(const tn_kernel_args *args, const conv_shape &s, const pixels &p) {
  const DLTensor *x = args->in[0], *w = args->in[1], *y = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  int64_t groups = w->shape[0] / s.group_k;
  const dim3 grid((unsigned)ceil_div(p.count, threads),
                  (unsigned)(groups * ceil_div(s.group_k, channels)));
  return for_float(args, y, [&](auto t) {
    using T = decltype(t);
    return launch(args, forward<T, C, H, W>, grid, threads, 0, (T *)y->data, (const T *)x->data,
                  (const T *)w->data, bias ? (const T *)bias->data : NULL,
                  bias ? bias->strides[0] : 0, p, s);
  });
}

/* As many shares as fill the device, of so many pixels that a thread has several. */
unsigned shares_of(const tn_kernel_args *args, int64_t out_channels, const pixels &p) {
  int64_t blocks = 8 * (int64_t)((const cuda_info *)args->device)->multiprocessors;
  int64_t shares = ceil_div(blocks, out_channels), useful = ceil_div(p.count, 4 * threads);
  if (shares > useful) shares = useful;
  return (unsigned)(shares > most_splits ? most_splits : shares);
}

template <int H, int W>
tn_status run_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *dy,
                     const conv_shape &s, const pixels &p) {
  const DLTensor *dw = args->out[0];
  unsigned k = (unsigned)dw->shape[0], shares = 1;
  /* Rows that only fall back to this have none, or none as large. */
  size_t bytes = cuda_conv_patch_workspace(args, dy);
  if (args->workspace && args->workspace_bytes >= bytes) shares = shares_of(args, k, p);
  return for_float(args, dw, [&](auto t) {
    using T = decltype(t);
    compute_t<T> *parts = (compute_t<T> *)args->workspace;
    tn_status status = launch(args, weight<T, H, W>, dim3(k, shares), threads, 0, (T *)dw->data,
                              parts, (const T *)dy->data, (const T *)x->data, p, s);
    if (status != TN_OK || shares == 1) return status;
    int count = (int)k * H * W;
    return launch(args, join_shares<T, H, W>, (unsigned)ceil_div(count, threads), threads, 0,
                  (T *)dw->data, parts, (int)shares, count, s);
  });
}

} // namespace

bool cuda_conv_patch_forward(const tn_kernel_args *args, const conv_shape &s, tn_status *status) {
  pixels p;
  int64_t blocks = args->in[1]->shape[0] / channels + args->in[1]->shape[0] / s.group_k;
  if (!pixels_of(args->out[0], &p) || blocks > 65535) return false;
  if (has_window(s, 1, 3, 3))
    *status = run_forward<1, 3, 3>(args, s, p);
  else if (has_window(s, 3, 3, 3))
    *status = run_forward<3, 3, 3>(args, s, p);
  else if (has_window(s, 1, 5, 5))
    *status = run_forward<1, 5, 5>(args, s, p);
  else
    return false;
  return true;
}

bool cuda_conv_patch_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *dy,
                            const conv_shape &s, tn_status *status) {
  pixels p;
  if (!pixels_of(dy, &p)) return false;
  if (has_window(s, 1, 3, 3))
    *status = run_weight<3, 3>(args, x, dy, s, p);
  else if (has_window(s, 1, 5, 5))
    *status = run_weight<5, 5>(args, x, dy, s, p);
  else
    return false;
  return true;
}

size_t cuda_conv_patch_workspace(const tn_kernel_args *args, const DLTensor *dy) {
  const DLTensor *dw = args->out[0];
  pixels p;
  if (!pixels_of(dy, &p)) return 0;
  unsigned shares = shares_of(args, dw->shape[0], p);
  size_t element = dw->dtype.bits == 64 ? 8 : 4;
  return shares > 1 ? shares * (size_t)cuda_size(dw, 0, dw->ndim) * element : 0;
}
