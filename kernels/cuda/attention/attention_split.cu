/*
 * Attention of few queries to many keys, a decoder's with its cache: bound by the memory of keys
 * and values, which are read once for all queries that share them. Keys are split so that there
 * are blocks enough for the device; the splits of a query are put together by a second kernel,
 * always in the same order.
 */
#include "kernels/cuda/attention/attention_split_float.cuh"
#include "kernels/cuda/attention/attention_split_mma.cuh"

namespace {

enum {
  fewest_split_keys = 128, /* below, one block to a head does */
  most_half_rows = 64,     /* queries that share keys; more are better served by tiles of them */
  most_float_rows = 16,
  least_split = 128,    /* keys of a split where blocks are few, */
  moderate_split = 512, /* and where they are not: results of splits cost memory too */
  waves = 3,            /* of blocks over the device, so that the last one costs little */
};

/* ----------------------------------------------------------- the second kernel --- */

/* Largest of a block, sum of a block: the same in all threads. */
__device__ __forceinline__ float block_top(float x, float *room) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  x = fmaxf(fmaxf(room[0], room[1]), fmaxf(room[2], room[3]));
  __syncthreads();
  return x;
}
__device__ __forceinline__ float block_sum(float x, float *room) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  return (room[0] + room[1]) + (room[2] + room[3]);
}

/* A block to a query; `across` threads, a power of two from 16 to 64, have four columns each, and
 * every so many-th split. */
template <class T>
__global__ void __launch_bounds__(split_threads)
    attend_join(const __grid_constant__ split_params p, int across) {
  __shared__ float room[split_warps], weight[most_splits];
  __shared__ float4 sums[split_threads];
  const int64_t query = blockIdx.x;
  const int thread = threadIdx.x, column = thread % across * 4, groups = split_threads / across;
  float2 own = make_float2(-INFINITY, 0);
  if (thread < p.splits) own = p.part_sums[thread * p.queries + query];
  const float top = block_top(own.x, room);
  weight[thread] = exp2f(own.x - split_base(top));
  const float sum = block_sum(own.y * weight[thread], room); /* all weights are there, too */
  float4 y = make_float4(0, 0, 0, 0);
  if (column < p.d) {
#pragma unroll 4
    for (int split = thread / across; split < p.splits; split += groups) {
      const float4 v = *(const float4 *)(p.part + (split * p.queries + query) * p.d + column);
      y.x += weight[split] * v.x;
      y.y += weight[split] * v.y;
      y.z += weight[split] * v.z;
      y.w += weight[split] * v.w;
    }
  }
  sums[thread] = y;
  __syncthreads();
  const int i = (int)(query % p.s), head = (int)(query / p.s % p.heads);
  const int64_t b = query / p.s / p.heads;
  if (thread == 0 && p.lse)
    ((float *)p.lse)[split_offset(p.lse_step, b, head, i)] = split_lse(top, sum);
  if (thread >= across || column >= p.d) return;
  for (int g = 1; g < groups; g++) {
    const float4 v = sums[g * across + thread];
    y.x += v.x;
    y.y += v.y;
    y.z += v.z;
    y.w += v.w;
  }
  const float factor = sum == 0 ? 0 : 1 / sum;
  const float v[4] = {y.x * factor, y.y * factor, y.z * factor, y.w * factor};
  split_put((T *)p.y + split_offset(p.y_step, b, head, i) + column, v, p.wide, p.brain);
}

/* -------------------------------------------------------------------- the plan --- */

/* How a call is cut. */
struct split_plan {
  int64_t units, queries;
  int rows, block_rows, row_blocks, end, splits, split_keys;
  size_t sums_at, bytes; /* of the workspace */
};

int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

bool is_half(const DLTensor *x) { return x->dtype.bits == 16; }

int split_shift(const tn_kernel_args *args) {
  const tn_scaled_dot_product_attention_attrs *attrs =
      (const tn_scaled_dot_product_attention_attrs *)args->attrs;
  const bool upper =
      TN_FIELD_OR(attrs, tn_scaled_dot_product_attention_attrs, causal_upper_left, 0) != 0;
  return upper ? 0 : (int)(args->in[1]->shape[2] - args->in[0]->shape[2]);
}

/* The keys that the last query sees; at least one, for there are more keys than queries. */
int split_end(const tn_kernel_args *args) {
  const int t = (int)args->in[1]->shape[2], s = (int)args->in[0]->shape[2];
  const bool causal = ((const tn_scaled_dot_product_attention_attrs *)args->attrs)->causal;
  return causal ? least(t, s + split_shift(args)) : t;
}

int block_rows_of(const DLTensor *q, int64_t rows) {
  return is_half(q) ? split_mma_rows : rows <= 4 ? 4 : 8;
}

split_plan split_plan_of(const tn_kernel_args *args) {
  const DLTensor *q = args->in[0], *k = args->in[1];
  const int64_t processors = ((const cuda_info *)args->device)->multiprocessors;
  const int d = (int)q->shape[3];
  split_plan plan = {};
  plan.queries = q->shape[0] * q->shape[1] * q->shape[2];
  plan.rows = (int)(q->shape[1] / k->shape[1] * q->shape[2]);
  plan.block_rows = block_rows_of(q, plan.rows);
  plan.row_blocks = (int)ceil_div(plan.rows, plan.block_rows);
  plan.units = q->shape[0] * k->shape[1];
  plan.end = split_end(args);
  const int resident =
      is_half(q) ? split_mma_resident(d) : split_float_resident(d, plan.block_rows);
  const int64_t blocks = plan.units * plan.row_blocks, wave = processors * resident;
  const int granule = split_warps * (is_half(q) ? (int)split_mma_keys : (int)split_float_keys);
  const int64_t few = greater(1, wave / blocks), many = ceil_div(waves * wave, blocks);
  int64_t splits = smaller(few, ceil_div(plan.end, least_split));
  splits = greater(splits, smaller(many, plan.end / moderate_split));
  splits = smaller(splits, most_splits);
  plan.split_keys = (int)(ceil_div(ceil_div(plan.end, splits), granule) * granule);
  plan.splits = (int)ceil_div(plan.end, plan.split_keys);
  plan.sums_at = (size_t)plan.splits * plan.queries * d * sizeof(float);
  plan.bytes =
      plan.splits == 1 ? 0 : plan.sums_at + (size_t)plan.splits * plan.queries * sizeof(float2);
  return plan;
}

/* ------------------------------------------------------------------ the launch --- */

void split_steps(int64_t *step, const DLTensor *x) {
  for (int axis = 0; axis < 3; axis++) step[axis] = x->strides[axis];
}

split_params split_params_of(const tn_kernel_args *args, const split_plan &plan) {
  const DLTensor *q = args->in[0], *k = args->in[1], *v = args->in[2], *y = args->out[0];
  const DLTensor *lse = args->out[1];
  const tn_scaled_dot_product_attention_attrs *attrs =
      (const tn_scaled_dot_product_attention_attrs *)args->attrs;
  split_params p = {};
  p.q = q->data, p.k = k->data, p.v = v->data, p.y = y->data;
  split_steps(p.q_step, q);
  split_steps(p.k_step, k);
  split_steps(p.v_step, v);
  split_steps(p.y_step, y);
  if (lse) {
    p.lse = lse->data;
    split_steps(p.lse_step, lse);
  }
  p.mask = (const bool_t *)scores_like(args->in[3], p.mask_step);
  p.bias = scores_like(args->in[4], p.bias_step);
  p.queries = plan.queries;
  p.heads = (int)q->shape[1];
  p.groups = (int)k->shape[1];
  p.s = (int)q->shape[2];
  p.d = (int)q->shape[3];
  p.rows = plan.rows, p.row_blocks = plan.row_blocks;
  p.end = plan.end, p.splits = plan.splits, p.split_keys = plan.split_keys;
  p.shift = split_shift(args);
  p.causal = attrs->causal;
  p.brain = is_brain(q);
  const double scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)p.d);
  p.scale = (float)(scale * 1.4426950408889634);
  if (plan.splits > 1) {
    p.part = (float *)args->workspace;
    p.part_sums = (float2 *)((char *)args->workspace + plan.sums_at);
  }
  return p;
}

/* Rows begin at multiples of 16 bytes; steps of axes of one element do not matter. */
bool has_wide_rows(const DLTensor *x) {
  const int64_t granule = 128 / x->dtype.bits;
  for (int axis = 0; axis < 3; axis++)
    if (x->shape[axis] > 1 && x->strides[axis] % granule != 0) return false;
  return true;
}

bool is_wide(const tn_kernel_args *args) {
  const DLTensor *x[] = {args->in[0], args->in[1], args->in[2], args->out[0]};
  for (const DLTensor *t : x)
    if (!has_wide_rows(t) || !is_aligned(t->data, 16)) return false;
  return true;
}

using split_kernel = void (*)(split_params);

template <class T> split_kernel kernel_of_half(int d) {
  if (d <= 64) return attend_split_mma<T, 64>;
  return d <= 128 ? attend_split_mma<T, 128> : attend_split_mma<T, 256>;
}

template <int R> split_kernel kernel_of_floats(int d) {
  if (d <= 64) return attend_split_float<64, R>;
  return d <= 128 ? attend_split_float<128, R> : attend_split_float<256, R>;
}

split_kernel kernel_of(const DLTensor *q, const split_plan &plan) {
  const int d = (int)q->shape[3];
  switch (cuda_dtype(q)) {
  case TN_F16:
    return kernel_of_half<half_t>(d);
  case TN_BF16:
    return kernel_of_half<bfloat_t>(d);
  default:
    return plan.block_rows == 4 ? kernel_of_floats<4>(d) : kernel_of_floats<8>(d);
  }
}

tn_status join(const tn_kernel_args *args, const split_params &p) {
  const int across = p.d <= 64 ? 16 : p.d <= 128 ? 32 : 64;
  const unsigned blocks = (unsigned)p.queries;
  return is_half(args->in[0])
             ? launch(args, attend_join<any_half>, blocks, split_threads, 0, p, across)
             : launch(args, attend_join<float>, blocks, split_threads, 0, p, across);
}

/* Few rows to many keys, of sizes that 32 bits count. */
bool split_sizes_fit(const DLTensor *q, const DLTensor *k) {
  const int64_t b = q->shape[0], h = q->shape[1], s = q->shape[2], d = q->shape[3];
  const int64_t g = k->shape[1], t = k->shape[2];
  const int most_rows = is_half(q) ? most_half_rows : most_float_rows;
  if (b < 1 || h < 1 || g < 1 || s < 1 || t < fewest_split_keys || t > CUDA_MAX_INDEX / 2)
    return false;
  if (d < 8 || d > 256 || d % 8 != 0) return false;
  return s <= most_rows && h / g <= most_rows / s && b <= CUDA_MAX_INDEX / (h * s);
}

} // namespace

bool cuda_attention_split_supports(const tn_kernel_args *args) {
  if (!split_sizes_fit(args->in[0], args->in[1])) return false;
  const DLTensor *x[] = {args->in[0], args->in[1], args->in[2], args->out[0]};
  for (const DLTensor *t : x)
    if (t->strides[3] != 1 || !has_wide_rows(t)) return false;
  return true;
}

tn_status cuda_attention_split_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = split_plan_of(args).bytes;
  return TN_OK;
}

tn_status cuda_run_attention_split(const tn_kernel_args *args) {
  const split_plan plan = split_plan_of(args);
  split_params p = split_params_of(args, plan);
  p.wide = is_wide(args);
  const int64_t blocks = plan.units * plan.row_blocks * plan.splits;
  tn_status status =
      launch(args, kernel_of(args->in[0], plan), (unsigned)blocks, split_threads, 0, p);
  return status == TN_OK && plan.splits > 1 ? join(args, p) : status;
}
