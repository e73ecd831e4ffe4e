/*
 * cross_entropy of rows that registers hold (base/rows.cuh): logits are read once.
 */
#ifndef KERNELS_CUDA_LOSS_HELD_ROWS_CUH
#define KERNELS_CUDA_LOSS_HELD_ROWS_CUH

#include "kernels/cuda/base/rows.cuh"
#include "kernels/cuda/loss/loss.cuh"

namespace {

enum { most_held_blocks = 2048 };

/* The sum of the row's distances from the top. */
template <class T, class C>
__device__ __forceinline__ C row_distances(const held_numbers<T> &held, const row_place &at,
                                           const row_plan &p, C top) {
  C all = 0;
#pragma unroll
  for (int k = 0; k < row_packs; k++) {
#pragma unroll
    for (int j = 0; j < pack_width<T>(); j++)
      if (in_row(at, k, j)) all += held.v[k][j] - top;
  }
  return join_row<take_sum>(all, p.lanes);
}

/* As losses() in loss.cu. */
template <class T>
__global__ void __launch_bounds__(most_row_lanes, row_blocks_held)
    held_losses(T *y, partial<accumulator_t<T>> *partials, const T *x, const void *target,
                const __grid_constant__ loss_plan p, const __grid_constant__ row_plan rows) {
  using C = accumulator_t<T>;
  await_earlier();
  held_numbers<T> held;
  C all = 0, keep = (C)(1 - p.smoothing), share = (C)(p.smoothing / (double)p.classes);
  long long counted = 0;
  const int64_t per_block = rows.block / rows.lanes;
  for (int64_t b = blockIdx.x; b * per_block < p.targets; b += gridDim.x) {
    const row_place at = place_in_row(rows, x, b);
    const bool leads = at.lane == 0 && at.row < p.targets;
    const int64_t t = leads ? class_of(target, at.row, p.wide) : -1;
    const bool valid = t >= 0 && t < p.classes;
    read_numbers(held, x + at.row * p.classes, at, rows.brain);
    const C top = row_top(held, rows);
    const C total = p.smoothing > 0 ? row_distances(held, at, rows, top) : (C)0;
    const C sum = row_powers<T, false>(held, rows, top);
    if (!leads) continue; /* to the next turn's joins, with all others */
    /* Read last: a load that waits for the target would keep the row's from starting. */
    const C logit = valid ? (C)load(x[at.row * p.classes + t], rows.brain) : (C)NAN;
    C wanted = top - logit;
    if (p.smoothing > 0) wanted = keep * wanted - share * total;
    const C loss = is_ignored(t, p) ? (C)0 : wanted + log(sum);
    if (p.reduction == TN_REDUCTION_NONE) y[at.row] = rounded<T>(loss, rows.brain);
    all += loss;
    counted += !is_ignored(t, p);
  }
  if (p.reduction == TN_REDUCTION_NONE) return;
  all = join_row<take_sum>(all, rows.block);
  counted = join_row<take_sum>(counted, rows.block);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1)
    *y = rounded<T>(p.reduction == TN_REDUCTION_MEAN ? all / (C)counted : all, rows.brain);
  else
    partials[blockIdx.x] = {all, counted};
}

/* As losses_grad() in loss.cu. */
template <class T>
__global__ void __launch_bounds__(most_row_lanes, row_blocks_held)
    held_losses_grad(T *dx, const T *dy, const T *x, const void *target, const long long *counted,
                     const __grid_constant__ loss_plan p, const __grid_constant__ row_plan rows) {
  using C = accumulator_t<T>;
  constexpr int V = pack_width<T>();
  await_earlier();
  const row_place at = place_in_row(rows, x, blockIdx.x);
  const bool mine = at.row < p.targets;
  const int64_t t = mine ? class_of(target, at.row, p.wide) : -1;
  const bool valid = t >= 0 && t < p.classes && !is_ignored(t, p);
  const C keep = (C)(1 - p.smoothing), share = (C)(p.smoothing / (double)p.classes);
  C scale = mine ? load(dy[p.reduction == TN_REDUCTION_NONE ? at.row : 0], rows.brain) : 0;
  if (p.reduction == TN_REDUCTION_MEAN) scale /= (C)(counted ? *counted : (long long)p.targets);
  held_numbers<T> held;
  read_numbers(held, x + at.row * p.classes, at, rows.brain);
  const C top = row_top(held, rows), part = (C)1 / row_powers<T, true>(held, rows, top);
  const int sought = (int)t - at.first; /* from the thread's first element on */
#pragma unroll
  for (int k = 0; k < row_packs; k++) {
#pragma unroll
    for (int j = 0; j < V; j++) {
      C d = held.v[k][j] * part;
      if (sought - k * at.step == j) d -= keep;
      d -= share;
      /* A zero slope stays zero under any dy. */
      held.v[k][j] = valid && d != (C)0 ? d * scale : (C)0;
    }
    write_row(dx + at.row * p.classes, packed<T, V>(held.v[k], rows.brain), at, k);
  }
}

} // namespace

#endif /* KERNELS_CUDA_LOSS_HELD_ROWS_CUH */
