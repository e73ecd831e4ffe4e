/*
 * Attention of few queries to many keys, a decoder's with its cache: bound by the memory of keys
 * and values, which are read once for all queries that share them. The device holds all blocks at
 * once, and each has the same number of keys, wherever heads end; what blocks have of a query is
 * put together by a second kernel, always in the same order.
 */
#include "kernels/cuda/attention/attention_split_float.cuh"
#include "kernels/cuda/attention/attention_split_mma.cuh"

namespace {

enum {
  fewest_split_keys = 128, /* below, one block to a head does */
  most_half_rows = 64,     /* queries that share keys; more are better served by tiles of them */
  most_float_rows = 16,
  least_range = 128, /* keys */
  join_threads = 256,
  join_abreast = 4, /* ranges that a thread of the second kernel reads at once */
};

/* ----------------------------------------------------------- the second kernel --- */

/* Sums of some ranges: the largest score, the weights, and four columns of the values. */
struct join_sums {
  float top, sum;
  float4 y;

  __device__ __forceinline__ void rescale(float most) {
    const float factor = exp2f(top - split_base(most));
    top = most;
    sum *= factor;
    y = make_float4(y.x * factor, y.y * factor, y.z * factor, y.w * factor);
  }
  /* pre: rescaled to no less than `own` has. */
  __device__ __forceinline__ void add(float2 own, const float4 &v) {
    const float weight = exp2f(own.x - split_base(top));
    sum = fmaf(own.y, weight, sum);
    y = make_float4(fmaf(v.x, weight, y.x), fmaf(v.y, weight, y.y), fmaf(v.z, weight, y.z),
                    fmaf(v.w, weight, y.w));
  }
};

/* Adds every `groups`-th range, from the `group`-th on; part(i) is where the i-th one's are. */
template <class Part>
__device__ __forceinline__ void join_ranges(join_sums &w, const split_params &p, int group,
                                            int groups, int count, int column, Part part) {
#pragma unroll 1
  for (int first = group; first < count; first += groups * join_abreast) {
    float2 own[join_abreast];
    float4 v[join_abreast];
#pragma unroll
    for (int x = 0; x < join_abreast; x++) {
      const int i = first + x * groups;
      const bool inside = i < count;
      own[x] = inside ? p.part_sums[part(i)] : make_float2(-INFINITY, 0);
      v[x] = inside && column < p.d ? *(const float4 *)(p.part + part(i) * p.d + column)
                                    : make_float4(0, 0, 0, 0);
    }
    float most = w.top;
#pragma unroll
    for (int x = 0; x < join_abreast; x++) most = fmaxf(most, own[x].x);
    w.rescale(most);
#pragma unroll
    for (int x = 0; x < join_abreast; x++) w.add(own[x], v[x]);
  }
}

/* A block to a query; `across` threads, a power of two from 16 to 64, have four columns each, and
 * every so many-th range. Those whose keys are all of one range have their results. */
template <class T>
__global__ void __launch_bounds__(join_threads)
    attend_join(const __grid_constant__ split_params p, int across) {
  __shared__ float2 sums[join_threads / 16];
  __shared__ float4 all[join_threads];
  const int query = blockIdx.x, row = query % p.rows, granule = query / p.rows * p.unit_granules;
  const int first = split_range_of(p, granule);
  const int count = split_range_of(p, granule + p.unit_granules - 1) - first + 1;
  const int thread = threadIdx.x, column = thread % across * 4, groups = join_threads / across;
  /* In its first range the head is the first segment, or the last; in others it is the first. */
  const bool later = split_begin(p, first) < granule;
  const auto part = [&](int i) {
    return (2 * (first + i) + (i == 0 && later)) * (int64_t)p.rows + row;
  };
  await_earlier();
  if (count == 1) return;
  join_sums w = {-INFINITY};
  join_ranges(w, p, thread / across, groups, count, column, part);
  all[thread] = w.y;
  if (thread % across == 0) sums[thread / across] = make_float2(w.top, w.sum);
  __syncthreads();
  if (thread >= across || column >= p.d) return;
  w = {-INFINITY};
  for (int g = 0; g < groups; g++) w.top = fmaxf(w.top, sums[g].x);
  for (int g = 0; g < groups; g++) w.add(sums[g], all[g * across + thread]);
  const int i = query % p.s, head = query / p.s % p.heads, b = query / p.s / p.heads;
  if (thread == 0 && p.lse)
    ((float *)p.lse)[split_offset(p.lse_step, b, head, i)] = split_lse(w.top, w.sum);
  const float factor = w.sum == 0 ? 0 : 1 / w.sum;
  const float v[4] = {w.y.x * factor, w.y.y * factor, w.y.z * factor, w.y.w * factor};
  split_put((T *)p.y + split_offset(p.y_step, b, head, i) + column, v, p.wide, p.brain);
}

/* -------------------------------------------------------------------- the plan --- */

/* How a call is cut. */
struct split_plan {
  int64_t unit_granules, granules, queries;
  int rows, block_rows, row_blocks, end, granule, ranges;
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

int block_rows_of(const DLTensor *q, int rows) {
  return is_half(q) ? split_mma_rows * split_row_warps(rows) : rows <= 4 ? 4 : 8;
}

int granule_of(const DLTensor *q, int rows) {
  return is_half(q) ? split_mma_keys * split_warps / split_row_warps(rows)
                    : split_warps * split_float_keys;
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
  plan.end = split_end(args);
  plan.granule = granule_of(q, plan.rows);
  plan.unit_granules = ceil_div(plan.end, plan.granule);
  plan.granules = q->shape[0] * k->shape[1] * plan.unit_granules;
  const int resident =
      is_half(q) ? split_mma_resident(d) : split_float_resident(d, plan.block_rows);
  const int64_t most = ceil_div(plan.granules, greater(1, least_range / plan.granule));
  plan.ranges = (int)smaller(greater(1, processors * resident / plan.row_blocks), most);
  const int64_t parts = plan.granules % (plan.ranges * plan.unit_granules) == 0
                            ? 0 /* ranges are of whole heads */
                            : 2 * (int64_t)plan.ranges * plan.rows;
  plan.sums_at = (size_t)(parts * d) * sizeof(float);
  plan.bytes = plan.sums_at + (size_t)parts * sizeof(float2);
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
  p.end = plan.end, p.granule = plan.granule, p.ranges = plan.ranges;
  p.unit_granules = (int)plan.unit_granules;
  p.share = (int)(plan.granules / plan.ranges), p.longer = (int)(plan.granules % plan.ranges);
  p.shift = split_shift(args);
  p.causal = attrs->causal;
  p.brain = is_brain(q);
  const double scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)p.d);
  p.scale = (float)(scale * 1.4426950408889634);
  if (plan.bytes > 0) {
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
  return launch_early(args, is_half(args->in[0]) ? attend_join<any_half> : attend_join<float>,
                      (unsigned)p.queries, join_threads, 0, p, across);
}

/* Few rows to many keys, of sizes that 32 bits count. */
bool split_sizes_fit(const DLTensor *q, const DLTensor *k) {
  const int64_t b = q->shape[0], h = q->shape[1], s = q->shape[2], d = q->shape[3];
  const int64_t g = k->shape[1], t = k->shape[2];
  const int most_rows = is_half(q) ? most_half_rows : most_float_rows;
  if (b < 1 || h < 1 || g < 1 || s < 1 || t < fewest_split_keys || t > CUDA_MAX_INDEX / 2)
    return false;
  if (d < 8 || d > 256 || d % 8 != 0) return false;
  return s <= most_rows && h / g <= most_rows / s && b <= CUDA_MAX_INDEX / (h * s) &&
         b * g <= CUDA_MAX_INDEX / (t / split_mma_keys + 1); /* granules */
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
  const split_kernel kernel = kernel_of(args->in[0], plan);
  const unsigned blocks = (unsigned)(plan.ranges * plan.row_blocks);
  const tn_status status = launch(args, kernel, blocks, split_threads, 0, p);
  return status == TN_OK && plan.bytes > 0 ? join(args, p) : status;
}
