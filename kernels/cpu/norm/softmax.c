/*
 * softmax, log_softmax and their gradients along one axis, seen as [outer, size, inner].
 * Slices that lie side by side (inner > 1) are worked on together.
 */
#include "kernels/cpu/base/exp_row.h"
#include "kernels/cpu/cpu.h"

#define SOFTMAX_TILE 64
#define SOFTMAX_KEPT 4096 /* exponentials of a row of 16 bits that are kept as floats */

typedef struct softmax_call {
  const void *a, *b;
  void *y;
  cpu_axis_view view;
} softmax_call;

/* Tiles of SOFTMAX_TILE slices; one slice where they do not lie side by side. */
static tn_status softmax_run(const tn_kernel_args *args, int64_t axis, tn_range_fn fn) {
  softmax_call call = {.a = args->in[0]->data,
                       .b = args->num_in > 1 ? args->in[1]->data : NULL,
                       .y = args->out[0]->data,
                       .view = cpu_view_axis(args->in[0], axis)};
  const cpu_axis_view v = call.view;
  if (v.outer * v.size * v.inner == 0) return TN_OK;
  const int64_t tiles = v.outer * cpu_ceil_div(v.inner, SOFTMAX_TILE);
  const int64_t work = v.size * cpu_min(v.inner, SOFTMAX_TILE);
  const int64_t grain = cpu_max(1, CPU_GRAIN_MATHS / work);
  if (tiles <= grain) return fn(&call, 0, tiles);
  return args->host->parallel_for(args->host, tiles, grain, fn, &call);
}

/* Where tile t of a view begins, and how many slices it has. */
static inline int64_t softmax_tile(const cpu_axis_view *v, int64_t t, int64_t *slices) {
  const int64_t per = cpu_ceil_div(v->inner, SOFTMAX_TILE), at = t % per * SOFTMAX_TILE;
  *slices = cpu_min(SOFTMAX_TILE, v->inner - at);
  return t / per * v->size * v->inner + at;
}

#define BODY "kernels/cpu/norm/softmax.inc"
#include "kernels/cpu/base/stamp_float.inc"
