/*
 * nll_loss, cross_entropy and their gradients. x is contiguous [n, c, inner], a target
 * stands at (n, inner). Where inner is 1 a warp owns a target and reads its row
 * together; otherwise a thread does and neighbours read neighbouring elements. Rows of logits wait
 * in registers (held_rows.cuh) or, where they are too long, have a block each (long_rows.cuh). Sums
 * over targets are taken in two kernels, in fixed order.
 */
#include "kernels/cuda/loss/held_rows.cuh"
#include "kernels/cuda/loss/long_rows.cuh"

namespace {

/* The sum of x - top over a target's row. */
template <class T, class C>
__device__ C row_total(const T *x, const loss_plan &p, int lane, C top) {
  C s = 0;
  for (int64_t c = lane; c < p.classes; c += p.lanes) s += (C)load(x[c * p.inner]) - top;
  return join_sum(s, p.lanes);
}

/* The largest logit of a target's row and the sum of e^(x - top). */
template <class T, class C>
__device__ void row_sums(const T *x, const loss_plan &p, int lane, C *top, C *sum) {
  C t = -(C)INFINITY, s = 0;
  for (int64_t c = lane; c < p.classes; c += p.lanes) {
    C v = load(x[c * p.inner]);
    t = v > t ? v : t;
  }
  t = join_max(t, p.lanes);
  for (int64_t c = lane; c < p.classes; c += p.lanes) s += exp((C)load(x[c * p.inner]) - t);
  *top = t;
  *sum = join_sum(s, p.lanes);
}

/* Per target its loss; without reduction to y, else one sum per block to partials. */
template <class T, bool from_logits>
__global__ void __launch_bounds__(threads)
    losses(T *y, partial<accumulator_t<T>> *partials, const T *x, const void *target, loss_plan p) {
  using C = accumulator_t<T>;
  int lane = threadIdx.x % p.lanes, per_block = threads / p.lanes;
  int64_t stride = (int64_t)gridDim.x * per_block;
  C total = 0, keep = (C)(1 - p.smoothing), share = (C)(p.smoothing / (double)p.classes);
  long long counted = 0;
  /* A warp's threads take the same number of turns, for the shuffles' sake. */
  for (int64_t first = (int64_t)blockIdx.x * per_block; first < p.targets; first += stride) {
    int64_t i = first + threadIdx.x / p.lanes;
    if (i >= p.targets) continue; /* lanes 32: the whole warp; lanes 1: no shuffles */
    const T *row = x + i / p.inner * p.classes * p.inner + i % p.inner;
    int64_t t = class_of(target, i, p.wide);
    bool valid = t >= 0 && t < p.classes;
    C loss = valid ? -(C)load(row[t * p.inner]) : (C)NAN;
    if (from_logits) {
      C top, sum;
      row_sums(row, p, lane, &top, &sum);
      C wanted = loss + top; /* its distance from the top, turned round */
      if (p.smoothing > 0) wanted = keep * wanted - share * row_total(row, p, lane, top);
      loss = wanted + log(sum);
    }
    if (lane != 0) continue;
    if (is_ignored(t, p)) loss = 0;
    if (p.reduction == TN_REDUCTION_NONE) y[i] = stored<T>::from(loss);
    total += loss;
    counted += !is_ignored(t, p);
  }
  if (p.reduction == TN_REDUCTION_NONE) return;
  partial<C> all = join_block(total, counted);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    *y = finished<T>(all, p.reduction);
  } else {
    partials[blockIdx.x] = all;
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    sum_partials(T *y, const partial<accumulator_t<T>> *partials, int count, int reduction) {
  using C = accumulator_t<T>;
  C total = 0;
  long long counted = 0;
  await_earlier();
  for (int i = threadIdx.x; i < count; i += threads) {
    total += partials[i].sum;
    counted += partials[i].counted;
  }
  partial<C> all = join_block(total, counted);
  if (threadIdx.x == 0) *y = finished<T>(all, reduction);
}

/* How many targets count, for gradients of the mean; one block. */
__global__ void __launch_bounds__(count_threads)
    count_targets(long long *counted, const void *target, loss_plan p) {
  __shared__ long long counts[count_threads];
  long long mine = 0;
  for (int64_t i = threadIdx.x; i < p.targets; i += count_threads) {
    mine += !is_ignored(class_of(target, i, p.wide), p);
  }
  counts[threadIdx.x] = mine;
  __syncthreads();
  for (int half = count_threads / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half) counts[threadIdx.x] += counts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *counted = counts[0];
}

/* dx = (p - q) dy / N with p the softmax, or 0 without logits, and q the smoothed target. N
 * is `counted` where some targets are ignored, else all of them. */
template <class T, bool from_logits>
__global__ void __launch_bounds__(threads)
    losses_grad(T *dx, const T *dy, const T *x, const void *target, const long long *counted,
                loss_plan p) {
  using C = accumulator_t<T>;
  int lane = threadIdx.x % p.lanes;
  int64_t i = (int64_t)blockIdx.x * (threads / p.lanes) + threadIdx.x / p.lanes;
  if (i >= p.targets) return; /* lanes 32: whole warps */
  int64_t base = i / p.inner * p.classes * p.inner + i % p.inner;
  int64_t t = class_of(target, i, p.wide);
  bool valid = t >= 0 && t < p.classes && !is_ignored(t, p);
  C keep = (C)(1 - p.smoothing), share = (C)(p.smoothing / (double)p.classes);
  C scale = load(dy[p.reduction == TN_REDUCTION_NONE ? i : 0]);
  if (p.reduction == TN_REDUCTION_MEAN) scale /= (C)(counted ? *counted : (long long)p.targets);
  C top = 0, sum = 1;
  if (from_logits) row_sums(x + base, p, lane, &top, &sum);
  for (int64_t c = lane; c < p.classes; c += p.lanes) {
    int64_t at = base + c * p.inner;
    C v = from_logits ? exp((C)load(x[at]) - top) / sum : (C)0;
    if (c == t) v -= keep;
    v -= share;
    /* A zero slope stays zero under any dy. */
    dx[at] = stored<T>::from(valid && v != (C)0 ? v * scale : (C)0);
  }
}

/* nll_loss's attributes begin those of the whole family. */
loss_plan plan_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *target,
                  double smoothing) {
  const tn_nll_loss_attrs *attrs = (const tn_nll_loss_attrs *)args->attrs;
  loss_plan p;
  p.targets = cuda_size(target, 0, target->ndim);
  p.classes = x->shape[1];
  p.inner = cuda_size(x, 2, x->ndim);
  p.lanes = p.inner > 1 ? 1 : 32;
  p.wide = cuda_dtype(target) == TN_I64;
  p.reduction = (int)attrs->reduction;
  p.ignores = attrs->ignore_index != INT64_MIN;
  p.ignored = attrs->ignore_index;
  p.smoothing = smoothing;
  return p;
}

unsigned loss_blocks(const loss_plan &p) {
  int64_t blocks = rows_are_long(p) ? p.targets : ceil_div(p.targets, threads / p.lanes);
  if (p.reduction != TN_REDUCTION_NONE || rows_are_long(p)) {
    if (p.targets * p.classes <= 4096) return 1; /* a second kernel costs more */
    if (blocks > most_blocks) return most_blocks;
  }
  return (unsigned)(blocks < 1 ? 1 : blocks);
}

/* Blocks for `all` blocks' worth of held rows. */
unsigned held_blocks(const loss_plan &p, int64_t all) {
  if (p.reduction == TN_REDUCTION_NONE) return (unsigned)all;
  if (p.targets * p.classes <= 4096) return 1;
  return (unsigned)(all < most_held_blocks ? all : most_held_blocks);
}

template <class T> tn_status held_loss(const tn_kernel_args *args, const loss_plan &p) {
  using H = class_t<T>;
  using C = accumulator_t<T>;
  const row_plan rows = row_plan_of<H>(args->in[0], p.targets, p.classes);
  const unsigned blocks = held_blocks(p, row_blocks(rows));
  partial<C> *partials = (partial<C> *)args->workspace;
  tn_status status =
      launch_early(args, held_losses<H>, blocks, rows.block, 0, (H *)args->out[0]->data, partials,
                   (const H *)args->in[0]->data, args->in[1]->data, p, rows);
  if (status != TN_OK || blocks == 1 || p.reduction == TN_REDUCTION_NONE) return status;
  return launch_early(args, sum_partials<T>, 1, threads, 0, (T *)args->out[0]->data, partials,
                      (int)blocks, p.reduction);
}

/* Whether registers hold rows of x, and of `out` where it has them as well. */
template <class T> bool holds_rows(const loss_plan &p, const DLTensor *x, const void *out) {
  return p.inner == 1 && p.classes > 0 && p.targets > 0 && p.targets <= CUDA_MAX_INDEX &&
         rows_fit(row_plan_of<class_t<T>>(x, p.targets, p.classes)) && lie_alike(x->data, out);
}

template <class T, bool from_logits>
tn_status loss_as(const tn_kernel_args *args, const loss_plan &p) {
  using C = accumulator_t<T>;
  if (p.reduction == TN_REDUCTION_NONE && p.targets == 0) return TN_OK;
  if constexpr (from_logits) {
    if (holds_rows<T>(p, args->in[0], args->in[0]->data)) return held_loss<T>(args, p);
  }
  T *y = (T *)args->out[0]->data;
  partial<C> *partials = (partial<C> *)args->workspace;
  unsigned blocks = loss_blocks(p);
  const T *x = (const T *)args->in[0]->data;
  auto kernel = losses<T, from_logits>;
  unsigned block = threads;
  if (from_logits && rows_are_long(p)) {
    kernel = has_packs(p, x) ? long_losses<T, pack_of<T>()> : long_losses<T, 1>;
    block = long_threads;
  }
  tn_status status = launch(args, kernel, blocks, block, 0, y, partials, x, args->in[1]->data, p);
  if (status != TN_OK || blocks == 1 || p.reduction == TN_REDUCTION_NONE) return status;
  return launch_early(args, sum_partials<T>, 1, threads, 0, y, partials, (int)blocks, p.reduction);
}

/* Whether a gradient must first find out how many targets count. */
bool counts_apart(const loss_plan &p) { return p.ignores && p.reduction == TN_REDUCTION_MEAN; }

template <class T, bool from_logits>
tn_status loss_grad_as(const tn_kernel_args *args, const loss_plan &p) {
  if (p.targets == 0 || p.classes == 0) return TN_OK;
  unsigned blocks = (unsigned)ceil_div(p.targets, threads / p.lanes);
  long long *counted = counts_apart(p) ? (long long *)args->workspace : NULL;
  if (counted) {
    tn_status status =
        launch(args, count_targets, 1, count_threads, 0, counted, args->in[2]->data, p);
    if (status != TN_OK) return status;
  }
  T *dx = (T *)args->out[0]->data;
  const T *dy = (const T *)args->in[0]->data, *x = (const T *)args->in[1]->data;
  const void *target = args->in[2]->data;
  if constexpr (from_logits) {
    if (holds_rows<T>(p, args->in[1], dx)) {
      using H = class_t<T>;
      const row_plan rows = row_plan_of<H>(args->in[1], p.targets, p.classes);
      return launch_early(args, held_losses_grad<H>, (unsigned)row_blocks(rows), rows.block, 0,
                          (H *)dx, (const H *)dy, (const H *)x, target, counted, p, rows);
    }
  }
  if (from_logits && rows_are_long(p) && p.targets <= CUDA_MAX_INDEX) {
    bool packs = has_packs(p, x) && is_aligned(dx, 16);
    auto kernel = packs ? long_losses_grad<T, pack_of<T>()> : long_losses_grad<T, 1>;
    return launch(args, kernel, (unsigned)p.targets, long_threads, 0, dx, dy, x, target, counted,
                  p);
  }
  return launch(args, losses_grad<T, from_logits>, blocks, threads, 0, dx, dy, x, target, counted,
                p);
}

template <bool from_logits> tn_status loss_run(const tn_kernel_args *args, double smoothing) {
  loss_plan p = plan_of(args, args->in[0], args->in[1], smoothing);
  return for_float(args, args->in[0],
                   [&](auto t) { return loss_as<decltype(t), from_logits>(args, p); });
}

template <bool from_logits> tn_status loss_grad_run(const tn_kernel_args *args, double smoothing) {
  loss_plan p = plan_of(args, args->in[1], args->in[2], smoothing);
  return for_float(args, args->in[1],
                   [&](auto t) { return loss_grad_as<decltype(t), from_logits>(args, p); });
}

} // namespace

tn_status cuda_run_nll_loss(const tn_kernel_args *args) { return loss_run<false>(args, 0); }
tn_status cuda_run_cross_entropy(const tn_kernel_args *args) {
  return loss_run<true>(args, ((const tn_cross_entropy_attrs *)args->attrs)->label_smoothing);
}
tn_status cuda_run_nll_loss_grad(const tn_kernel_args *args) {
  return loss_grad_run<false>(args, 0);
}
tn_status cuda_run_cross_entropy_grad(const tn_kernel_args *args) {
  return loss_grad_run<true>(args,
                             ((const tn_cross_entropy_grad_attrs *)args->attrs)->label_smoothing);
}

tn_status cuda_loss_workspace(const tn_kernel_args *args, size_t *bytes) {
  static_assert(sizeof(partial<double>) <= bytes_per_partial, "scratch is too small");
  loss_plan p = plan_of(args, args->in[0], args->in[1], 0);
  bool sums = p.reduction != TN_REDUCTION_NONE;
  int64_t blocks = p.targets < most_held_blocks ? p.targets : most_held_blocks; /* or fewer */
  if (loss_blocks(p) > blocks) blocks = loss_blocks(p);
  *bytes = sums && p.targets * p.classes > 4096 ? (size_t)blocks * bytes_per_partial : 0;
  return TN_OK;
}

tn_status cuda_loss_grad_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = counts_apart(plan_of(args, args->in[1], args->in[2], 0)) ? sizeof(long long) : 0;
  return TN_OK;
}
