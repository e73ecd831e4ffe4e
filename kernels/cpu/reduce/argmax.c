/*
 * argmax and argmin along one axis: the first extreme, the first NaN before all numbers.
 */
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

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
  const int64_t grain = cpu_max(1, CPU_GRAIN_MATHS / cpu_max(1, call.view.size));
  if (n <= grain) return fn(&call, 0, n);
  return args->host->parallel_for(args->host, n, grain, fn, &call);
}

#define BODY "kernels/cpu/reduce/argextreme.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
