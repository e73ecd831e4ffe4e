/*
 * argmax and argmin along one axis: the first extreme, the first NaN before all numbers.
 */
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

/* Outputs computed side by side, and those whose floats fill a line. */
enum { ARGMAX_TILE = 128, ARGMAX_LINE = 16 };

typedef struct argmax_call {
  const void *x;
  int64_t *y;
  cpu_axis_view view;
} argmax_call;

static tn_status argmax_run(const tn_kernel_args *args, tn_range_fn fn) {
  const tn_argmax_attrs *attrs = args->attrs; /* argmin has the same layout */
  argmax_call call = {args->in[0]->data, args->out[0]->data,
                      cpu_view_axis(args->in[0], attrs->axis)};
  const int64_t n = call.view.outer * call.view.inner;
  /* Columns are read by rows, of which a share wants whole lines, and some if there are enough. */
  const int64_t each = cpu_min(ARGMAX_TILE, n / cpu_max(1, (int64_t)args->host->num_threads));
  const int64_t least = call.view.inner > 1 ? cpu_max(ARGMAX_LINE, each) : 1;
  const int64_t grain = cpu_max(least, CPU_GRAIN_MATHS / cpu_max(1, call.view.size));
  if (n <= grain) return fn(&call, 0, n);
  return args->host->parallel_for(args->host, n, grain, fn, &call);
}

#define BODY "kernels/cpu/reduce/argextreme.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
