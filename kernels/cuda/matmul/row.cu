/*
 * Products of one row and a large matrix of 16-bit numbers, as decoders have them: what there is to
 * do is to read the matrix once, and a launch does it. Where the matrix' rows lie along those of
 * the result, a block has 64 bytes of them and its threads take the sums' terms by turns; where its
 * columns do, a warp has one of them. Sums are in a fixed order.
 */
#include "kernels/cuda/base/halves.cuh"
#include "kernels/cuda/elementwise/activated.cuh"

namespace {

enum {
  across = 4, /* packs of a block's columns */
  threads = 512,
  turn = threads / across, /* terms that a block takes at once */
  warps = threads / 32,
  column_warps = 8,
  ahead = 8, /* packs that a thread has under way */
  least_blocks = 64
};
/* Bytes of the matrix below which a product is a launch of any kernel. */
const int64_t least_bytes = (int64_t)1 << 20;

struct row_call {
  const void *a, *b, *bias;
  void *y;
  int64_t step_a, step_b, step_y, step_bias; /* of b: between its rows or its columns */
  int n, k, activation;
  bool brain;
};

template <class T> __device__ __forceinline__ void store(const row_call &c, int n, float sum) {
  if (c.bias) sum += load(((const T *)c.bias)[n * c.step_bias], c.brain);
  ((T *)c.y)[n * c.step_y] = rounded<T>(simply_activated(c.activation, sum), c.brain);
}

/* b's rows lie along y. */
template <class T>
__global__ void __launch_bounds__(threads) row_along(const __grid_constant__ row_call c) {
  constexpr int N = pack_width<T>(), columns = across * N;
  __shared__ float parts[warps][columns];
  const int part = threadIdx.x % across, first = threadIdx.x / across;
  const int column = blockIdx.x * columns + part * N;
  const T *a = (const T *)c.a, *b = (const T *)c.b + column;
  float sum[N] = {};
  for (int k = first; k < c.k && column < c.n; k += ahead * turn) {
    pack<T, N> p[ahead];
    T x[ahead];
#pragma unroll
    for (int i = 0; i < ahead; i++) {
      const int at = k + i * turn < c.k ? k + i * turn : k;
      p[i] = *(const pack<T, N> *)(b + at * c.step_b);
      x[i] = a[at * c.step_a];
    }
#pragma unroll
    for (int i = 0; i < ahead; i++) {
      float v[N];
      if (k + i * turn >= c.k) break;
      unpack<T, N>(v, p[i], c.brain);
#pragma unroll
      for (int j = 0; j < N; j++) sum[j] += load(x[i], c.brain) * v[j];
    }
  }
#pragma unroll
  for (int j = 0; j < N; j++) {
    for (int mask = across; mask < 32; mask *= 2) sum[j] += __shfl_xor_sync(~0u, sum[j], mask);
    if (threadIdx.x % 32 < across) parts[threadIdx.x / 32][part * N + j] = sum[j];
  }
  __syncthreads();
  const int n = blockIdx.x * columns + threadIdx.x;
  if (threadIdx.x >= columns || n >= c.n) return;
  float all = 0;
#pragma unroll
  for (int w = 0; w < warps; w++) all += parts[w][threadIdx.x];
  store<T>(c, n, all);
}

/* b's columns lie along a. */
template <class T>
__global__ void __launch_bounds__(32 * column_warps)
    row_across(const __grid_constant__ row_call c) {
  constexpr int N = pack_width<T>(), step = 32 * N;
  const int n = blockIdx.x * column_warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (n >= c.n) return; /* whole warps */
  const T *a = (const T *)c.a, *b = (const T *)c.b + n * c.step_b;
  float sum[2] = {};
  for (int k = lane * N; k < c.k; k += ahead * step) {
    pack<T, N> p[ahead], x[ahead];
#pragma unroll
    for (int i = 0; i < ahead; i++) {
      const int at = k + i * step < c.k ? k + i * step : k;
      p[i] = *(const pack<T, N> *)(b + at);
      x[i] = *(const pack<T, N> *)(a + at);
    }
#pragma unroll
    for (int i = 0; i < ahead; i++) {
      float v[N], u[N];
      if (k + i * step >= c.k) break;
      unpack<T, N>(v, p[i], c.brain);
      unpack<T, N>(u, x[i], c.brain);
#pragma unroll
      for (int j = 0; j < N; j++) sum[j % 2] += u[j] * v[j];
    }
  }
  float all = sum[0] + sum[1];
  for (int mask = 16; mask > 0; mask /= 2) all += __shfl_xor_sync(~0u, all, mask);
  if (lane == 0) store<T>(c, n, all);
}

/* --------------------------------------------------------------- the host --- */

/* How a call's operands lie; `along` says which kernel takes it. */
struct geometry {
  int64_t n, k, step_a, step_b;
  bool along;
};

/* False where neither does. */
bool describe(geometry *g, const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *y = args->out[0];
  const tn_matmul_attrs *attrs = (const tn_matmul_attrs *)args->attrs;
  const int of_a = a->ndim - (attrs->trans_a ? 2 : 1), of_b = b->ndim - (attrs->trans_b ? 1 : 2);
  const int along = b->ndim - (attrs->trans_b ? 2 : 1);
  const int64_t pack = pack_width<any_half>(), bytes = sizeof(any_half);
  if (y->dtype.bits != 16 || cuda_size(y, 0, y->ndim - 1) != 1) return false;
  if (cuda_size(a, 0, a->ndim - 2) != 1 || cuda_size(b, 0, b->ndim - 2) != 1) return false;
  *g = {y->shape[y->ndim - 1], a->shape[of_a], a->strides[of_a], 0, b->strides[along] == 1};
  if (g->n < 1 || g->n > CUDA_MAX_INDEX / 2 || g->k < 1 || g->k > CUDA_MAX_INDEX / 2) return false;
  g->step_b = b->strides[g->along ? of_b : along];
  const int64_t whole = g->along ? g->n : g->k;
  const int64_t blocks = g->along ? g->n / (across * pack) : g->n / column_warps;
  if (!g->along && (g->step_a != 1 || b->strides[of_b] != 1 || !is_aligned(a->data, 16)))
    return false;
  return whole % pack == 0 && g->step_b % pack == 0 && is_aligned(b->data, 16) &&
         blocks >= least_blocks && g->n * bytes >= least_bytes / g->k &&
         is_simple_activation((int)attrs->activation);
}

} // namespace

bool cuda_matmul_row_supports(const tn_kernel_args *args) {
  geometry g;
  return describe(&g, args);
}

tn_status cuda_run_matmul_row(const tn_kernel_args *args) {
  const DLTensor *bias = args->in[2], *y = args->out[0];
  geometry g;
  if (!describe(&g, args))
    return args->host->fail(TN_ERR_INTERNAL, "%s: no row of a product", args->kernel->name);
  row_call c = {};
  c.a = args->in[0]->data;
  c.b = args->in[1]->data;
  c.bias = bias ? bias->data : NULL;
  c.y = y->data;
  c.step_a = g.step_a;
  c.step_b = g.step_b;
  c.step_y = y->strides[y->ndim - 1];
  c.step_bias = bias && bias->shape[0] > 1 ? bias->strides[0] : 0;
  c.n = (int)g.n;
  c.k = (int)g.k;
  c.activation = (int)((const tn_matmul_attrs *)args->attrs)->activation;
  c.brain = is_brain(y);
  const int64_t each = g.along ? across * pack_width<any_half>() : column_warps;
  return launch(args, g.along ? row_along<any_half> : row_across<any_half>,
                (unsigned)ceil_div(g.n, each), g.along ? threads : 32 * column_warps, 0, c);
}
