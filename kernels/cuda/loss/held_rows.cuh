/*
 * cross_entropy of rows that registers hold (base/rows.cuh): logits are read once.
 */
#ifndef KERNELS_CUDA_LOSS_HELD_ROWS_CUH
#define KERNELS_CUDA_LOSS_HELD_ROWS_CUH

#include "kernels/cuda/base/rows.cuh"
#include "kernels/cuda/loss/loss.cuh"

namespace {

enum { most_held_blocks = 2048 };

/* The class of kernels that T's rows take. */
template <class T> struct class_of_type { using type = T; };
template <> struct class_of_type<half_t> { using type = any_half; };
template <> struct class_of_type<bfloat_t> { using type = any_half; };
template <class T> using class_t = typename class_of_type<T>::type;

/* What a row comes to. */
template <class C> struct held_sums { C top, sum; };

/* Reads the row into v and leaves e^(v - top) there. Every thread of the row gets the sums, and in
 * `total` the sum of v - top where that is not NULL. */
template <class T, class C>
__device__ __forceinline__ held_sums<C> hold_row(C (*v)[pack_width<T>()], const T *x,
                                                 const row_plan &p, const row_place &at, C *total) {
  constexpr int V = pack_width<T>();
  pack<T, V> held[row_packs];
  C top = -(C)INFINITY, sum = 0, all = 0;
  read_row(held, x + at.row * p.size, at);
  unpack_row<T>(v, held, at, p.brain);
#pragma unroll
  for (int k = 0; k < row_packs; k++)
#pragma unroll
    for (int j = 0; j < V; j++) top = take_max::join(v[k][j], top);
  top = join_row<take_max>(top, p.lanes);
#pragma unroll
  for (int k = 0; k < row_packs; k++)
#pragma unroll
    for (int j = 0; j < V; j++) {
      const C distance = v[k][j] - top;
      if (total && in_row(at, k, j)) all += distance;
      v[k][j] = exponential<T>(distance);
      sum += v[k][j];
    }
  if (total) *total = join_row<take_sum>(all, p.lanes);
  return {top, join_row<take_sum>(sum, p.lanes)};
}

/* As losses() in loss.cu. */
template <class T>
__global__ void __launch_bounds__(most_row_lanes)
    held_losses(T *y, partial<accumulator_t<T>> *partials, const T *x, const void *target,
                const __grid_constant__ loss_plan p, const __grid_constant__ row_plan rows) {
  using C = accumulator_t<T>;
  C v[row_packs][pack_width<T>()];
  C all = 0, keep = (C)(1 - p.smoothing), share = (C)(p.smoothing / (double)p.classes);
  long long counted = 0;
  const int64_t per_block = rows.block / rows.lanes;
  for (int64_t b = blockIdx.x; b * per_block < p.targets; b += gridDim.x) {
    const row_place at = place_in_row(rows, x, b);
    const bool leads = at.lane == 0 && at.row < p.targets;
    const int64_t t = leads ? class_of(target, at.row, p.wide) : -1;
    const bool valid = t >= 0 && t < p.classes;
    C total = 0;
    const held_sums<C> s = hold_row<T>(v, x, rows, at, p.smoothing > 0 ? &total : (C *)NULL);
    if (!leads) continue; /* to the next turn's joins, with all others */
    /* Read last: a load that waits for the target would keep the row's from starting. */
    const C logit = valid ? (C)load(x[at.row * p.classes + t], rows.brain) : (C)NAN;
    C wanted = s.top - logit;
    if (p.smoothing > 0) wanted = keep * wanted - share * total;
    const C loss = is_ignored(t, p) ? (C)0 : wanted + log(s.sum);
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
__global__ void __launch_bounds__(most_row_lanes)
    held_losses_grad(T *dx, const T *dy, const T *x, const void *target, const long long *counted,
                     const __grid_constant__ loss_plan p, const __grid_constant__ row_plan rows) {
  using C = accumulator_t<T>;
  constexpr int V = pack_width<T>();
  const row_place at = place_in_row(rows, x, blockIdx.x);
  const bool mine = at.row < p.targets;
  const int64_t t = mine ? class_of(target, at.row, p.wide) : -1;
  const bool valid = t >= 0 && t < p.classes && !is_ignored(t, p);
  const C keep = (C)(1 - p.smoothing), share = (C)(p.smoothing / (double)p.classes);
  C scale = mine ? load(dy[p.reduction == TN_REDUCTION_NONE ? at.row : 0], rows.brain) : 0;
  if (p.reduction == TN_REDUCTION_MEAN) scale /= (C)(counted ? *counted : (long long)p.targets);
  C v[row_packs][V];
  const held_sums<C> s = hold_row<T>(v, x, rows, at, (C *)NULL);
  const C part = (C)1 / s.sum;
#pragma unroll
  for (int k = 0; k < row_packs; k++) {
#pragma unroll
    for (int j = 0; j < V; j++) {
      C d = v[k][j] * part;
      if (at.first + k * at.step + j == t) d -= keep;
      d -= share;
      /* A zero slope stays zero under any dy. */
      v[k][j] = valid && d != (C)0 ? d * scale : (C)0;
    }
    write_row(dx + at.row * p.classes, packed<T, V>(v[k], rows.brain), at, k);
  }
}

} // namespace

#endif /* KERNELS_CUDA_LOSS_HELD_ROWS_CUH */
