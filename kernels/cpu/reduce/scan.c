/*
 * cumsum, cumprod and cummax along one axis. Lines that lie side by side are worked on
 * together. Floats are summed and multiplied in double.
 */
#include "kernels/cpu/reduce/scan.h"

#include <math.h>

static tn_status scan_run(const tn_kernel_args *args, int64_t axis, bool reverse, bool exclusive,
                          tn_range_fn fn) {
  scan_call call = {.x = args->in[0]->data,
                    .y = args->out[0]->data,
                    .index = args->num_out > 1 && args->out[1] ? args->out[1]->data : NULL,
                    .view = cpu_view_axis(args->in[0], axis),
                    .reverse = reverse,
                    .exclusive = exclusive};
  const cpu_axis_view v = call.view;
  if (v.outer * v.size * v.inner == 0) return TN_OK;
  const int64_t tiles = v.outer * cpu_ceil_div(v.inner, SCAN_TILE);
  const int64_t work = v.size * cpu_min(v.inner, SCAN_TILE);
  const int64_t grain = cpu_max(1, CPU_GRAIN_MATHS / work);
  if (tiles <= grain) return fn(&call, 0, tiles);
  return args->host->parallel_for(args->host, tiles, grain, fn, &call);
}

#define BODY "kernels/cpu/reduce/scan.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
