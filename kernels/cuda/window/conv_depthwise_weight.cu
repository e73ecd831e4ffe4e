/*
 * Gradients by the weights of convolutions of each channel by itself, of images with channels last
 * (depthwise.cuh). Images are walked where windows are common (depthwise_weight_walk.cuh); for
 * others a thread adds products of its channels over strips of y, for three taps of a row
 * of the window; a block joins its threads' sums in a fixed tree, and where several blocks share
 * the strips, a second pass joins theirs in order. So results are the same every time.
 */
#include "kernels/cuda/window/depthwise_weight_walk.cuh"

namespace {

enum {
  taps = 3,   /* of a thread, along a row of the window */
  waves = 6,  /* blocks to a multiprocessor */
  strips = 2, /* that a thread has at least, before blocks share them */
  joined_columns = 32,
  joined_rows = 8
};

struct weight_gradient {
  depthwise_shape of;
  int groups; /* of taps of a row of the window */
  int count;  /* weights */
};

/* Any windows: `first` is the first of the thread's taps. */
template <class T>
__device__ __forceinline__ void add_any(float (*sum)[pack_width<T>()], const T *dy, const T *x,
                                        int column, int channel, int first,
                                        const depthwise_shape &s) {
  constexpr int width = pack_width<T>();
#pragma unroll 1
  for (int o = 0; o < depthwise_pixels && column + o < s.y[1]; o++) {
    float d[width];
    unpack(d, *(const pack<T, width> *)(dy + (int64_t)(column + o) * s.k + channel), s.brain);
    const int left = (column + o) * s.stride[1] - s.pad[1];
#pragma unroll
    for (int q = 0; q < taps; q++) {
      const int from = left + (first + q) * s.dilation[1];
      if (first + q >= s.kernel[1] || !lies_in(from, s.x[1])) continue;
      float v[width];
      read_channels(v, x + (int64_t)from * s.c, channel, s.multiplier, s.brain);
#pragma unroll
      for (int c = 0; c < width; c++) sum[q][c] += d[c] * v[c];
    }
  }
}

/* Adds up the sums of threads that have the same channels; those of the block's first lanes and of
 * all of its warps, by taps, are in `shared`. Every thread is here. */
template <class T>
__device__ void join_block(float *shared, float (*sum)[pack_width<T>()], int lanes) {
  constexpr int width = pack_width<T>();
  const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x / 32, own = 1 << lanes;
#pragma unroll
  for (int q = 0; q < taps; q++) {
#pragma unroll
    for (int c = 0; c < width; c++) {
      float all = sum[q][c];
      for (int step = own; step < 32; step *= 2) all += __shfl_xor_sync(0xffffffffu, all, step);
      if (lane < own) shared[((warp * taps + q) << lanes) * width + lane * width + c] = all;
    }
  }
  __syncthreads();
}

/* Parts are [share, weight], weights [k, kh, kw] in a row. */
template <class T>
__global__ void __launch_bounds__(depthwise_threads, 2)
    depthwise_weight(T *dw, float *parts, const T *dy, const T *x,
                     const __grid_constant__ weight_gradient g) {
  constexpr int width = pack_width<T>(), warps = depthwise_threads / 32;
  __shared__ float shared[warps * taps * depthwise_lanes * width];
  const depthwise_shape &s = g.of;
  const int p = (int)blockIdx.z / g.groups, first = (int)blockIdx.z % g.groups * taps;
  const int channel = own_channel<T>(s), workers = depthwise_threads >> s.lanes;
  float sum[taps][width] = {};
  for (uint32_t i = blockIdx.x * workers + (threadIdx.x >> s.lanes); i < s.strips && channel < s.k;
       i += gridDim.x * workers) {
    const depthwise_strip at = strip_of(i, s);
    const int row = at.row * s.stride[0] - s.pad[0] + p * s.dilation[0];
    if (!lies_in(row, s.x[0])) continue;
    const T *from = x + ((int64_t)at.image * s.x[0] + row) * s.x[1] * s.c;
    const T *by = dy + ((int64_t)at.image * s.y[0] + at.row) * s.y[1] * s.k;
    add_any(sum, by, from, at.column, channel, first, s);
  }
  join_block<T>(shared, sum, s.lanes);
  const int all = width << s.lanes, begin = (int)blockIdx.y * all;
  for (int i = threadIdx.x; i < taps * all; i += depthwise_threads) {
    const int q = first + i / all, k = begin + i % all;
    if (q >= s.kernel[1] || k >= s.k) continue;
    float total = 0;
    for (int warp = 0; warp < warps; warp++) total += shared[warp * taps * all + i];
    if (parts)
      parts[(int64_t)blockIdx.x * g.count + (k * s.kernel[0] + p) * s.kernel[1] + q] = total;
    else
      dw[k * s.weight[0] + p * s.weight[1] + q * s.weight[2]] = rounded<T>(total, s.brain);
  }
}

template <class T>
__global__ void __launch_bounds__(joined_columns *joined_rows)
    join_shares(T *dw, const float *parts, int shares, const __grid_constant__ weight_gradient g) {
  __shared__ float shared[joined_rows][joined_columns];
  const int column = (int)threadIdx.x % joined_columns, row = (int)threadIdx.x / joined_columns;
  const int i = (int)blockIdx.x * joined_columns + column;
  float sum = 0;
  await_earlier();
  if (i < g.count) {
#pragma unroll 4
    for (int k = row; k < shares; k += joined_rows) sum += parts[(int64_t)k * g.count + i];
  }
  shared[row][column] = sum;
  __syncthreads();
  if (row > 0 || i >= g.count) return;
  for (int k = 1; k < joined_rows; k++) sum += shared[k][column];
  const int window = g.of.kernel[0] * g.of.kernel[1], tap = i % window;
  dw[i / window * g.of.weight[0] + tap / g.of.kernel[1] * g.of.weight[1] +
     tap % g.of.kernel[1] * g.of.weight[2]] = rounded<T>(sum, g.of.brain);
}

weight_gradient gradient_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *y) {
  weight_gradient g;
  g.of = depthwise_of(args, x, args->out[0], y, y);
  g.groups = (int)ceil_div(g.of.kernel[1], taps);
  g.count = g.of.k * g.of.kernel[0] * g.of.kernel[1];
  return g;
}

/* Blocks that share the strips: as many as fill the device, with some strips to each thread. */
unsigned shares_of(const tn_kernel_args *args, const weight_gradient &g, const DLTensor *y) {
  const int64_t others = (int64_t)channel_blocks(g.of, y) * g.of.kernel[0] * g.groups;
  const int64_t blocks = waves * (int64_t)((const cuda_info *)args->device)->multiprocessors;
  const int64_t wanted = ceil_div(blocks, others);
  const int64_t useful = ceil_div(g.of.strips, (int64_t)strips * workers_of(g.of));
  return (unsigned)(wanted < useful ? wanted : useful);
}

size_t bytes_of(const weight_gradient &g, unsigned shares) {
  return shares > 1 ? shares * (size_t)g.count * sizeof(float) : 0;
}

template <class T>
tn_status join(const tn_kernel_args *args, const float *parts, int shares,
               const weight_gradient &g) {
  return launch_early(args, join_shares<T>, (unsigned)ceil_div(g.count, joined_columns),
                      joined_columns * joined_rows, 0, (T *)args->out[0]->data, parts, shares, g);
}

template <class T>
tn_status start(const tn_kernel_args *args, const weight_gradient &g, const DLTensor *x,
                const DLTensor *y) {
  T *dw = (T *)args->out[0]->data;
  unsigned shares = shares_of(args, g, y);
  if (args->workspace_bytes < bytes_of(g, shares)) shares = 1;
  float *parts = shares > 1 ? (float *)args->workspace : NULL;
  const dim3 grid(shares, channel_blocks(g.of, y), (unsigned)(g.of.kernel[0] * g.groups));
  const tn_status status = launch(args, depthwise_weight<T>, grid, depthwise_threads, 0, dw, parts,
                                  (const T *)y->data, (const T *)x->data, g);
  return status != TN_OK || !parts ? status : join<T>(args, parts, (int)shares, g);
}

bool is_walked_weight(const tn_kernel_args *args, const DLTensor *x) {
  return is_walked(args->out[0], window_conv_of(args->attrs, 2), x->shape[1]);
}

/* `bytes`, if not NULL, becomes those of the workspace, and nothing runs. */
template <class T, int SIDE, int STEP>
tn_status walk_by(const tn_kernel_args *args, const weight_gradient &g, const DLTensor *x,
                  const DLTensor *y, size_t *bytes) {
  walk_call c = {};
  for (int d = 0; d < 2; d++) c.from[d] = g.of.x[d], c.to[d] = g.of.y[d], c.pad[d] = g.of.pad[d];
  c.channels = g.of.c;
  const weight_plan plan = weight_plan_of<T, SIDE, STEP>(args, c, x->shape[0]);
  const size_t wanted = (size_t)plan.shares * (size_t)g.count * sizeof(float);
  if (bytes) {
    *bytes = wanted;
    return TN_OK;
  }
  if (args->workspace_bytes < wanted)
    return args->host->fail(TN_ERR_INTERNAL,
                            "depthwise gradient: %zu bytes of workspace, needs %zu",
                            args->workspace_bytes, wanted);
  float *parts = (float *)args->workspace;
  const tn_status status = start_weight_walk<T, SIDE, STEP>(args, parts, x, y, plan);
  return status == TN_OK ? join<class_t<T>>(args, parts, plan.shares, g) : status;
}

template <class T>
tn_status walk(const tn_kernel_args *args, const weight_gradient &g, const DLTensor *x,
               const DLTensor *y, size_t *bytes) {
  const bool small = g.of.kernel[0] == 3, near = g.of.stride[0] == 1;
  if (small)
    return near ? walk_by<T, 3, 1>(args, g, x, y, bytes) : walk_by<T, 3, 2>(args, g, x, y, bytes);
  return near ? walk_by<T, 5, 1>(args, g, x, y, bytes) : walk_by<T, 5, 2>(args, g, x, y, bytes);
}

tn_status run(const tn_kernel_args *args, const DLTensor *x, const DLTensor *y, size_t *bytes) {
  const weight_gradient g = gradient_of(args, x, y);
  const bool half = x->dtype.bits == 16;
  if (is_walked_weight(args, x)) {
    if (!half) return walk<float>(args, g, x, y, bytes);
    return g.of.brain ? walk<bfloat_t>(args, g, x, y, bytes) : walk<half_t>(args, g, x, y, bytes);
  }
  if (!bytes) return half ? start<any_half>(args, g, x, y) : start<float>(args, g, x, y);
  *bytes = bytes_of(g, shares_of(args, g, y));
  return TN_OK;
}

} // namespace

bool cuda_conv_weight_is_depthwise(const tn_kernel_args *args) {
  return is_depthwise(args, args->in[1], args->out[0], args->in[0], args->in[0]);
}

bool cuda_conv_transpose_weight_is_depthwise(const tn_kernel_args *args) {
  return is_depthwise(args, args->in[0], args->out[0], args->in[1], args->in[1]);
}

bool cuda_conv_weight_is_walked(const tn_kernel_args *args) {
  return is_walked_weight(args, args->in[1]);
}

bool cuda_conv_transpose_weight_is_walked(const tn_kernel_args *args) {
  return is_walked_weight(args, args->in[0]);
}

tn_status cuda_conv_depthwise_workspace(const tn_kernel_args *args, size_t *bytes) {
  return run(args, args->in[1], args->in[0], bytes);
}

tn_status cuda_conv_transpose_depthwise_workspace(const tn_kernel_args *args, size_t *bytes) {
  return run(args, args->in[0], args->in[1], bytes);
}

tn_status cuda_run_conv_depthwise_weight(const tn_kernel_args *args) {
  return run(args, args->in[1], args->in[0], NULL);
}

tn_status cuda_run_conv_depthwise_transpose_weight(const tn_kernel_args *args) {
  return run(args, args->in[0], args->in[1], NULL);
}
