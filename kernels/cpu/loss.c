/*
 * nll_loss and cross_entropy over [n, c, inner] and their gradients. The loss of each
 * target is computed in parallel into a row of doubles, which is then summed in order.
 */
#include "cpu.h"
#include "vmath.h"

typedef struct loss_call {
  const void *x, *dy;
  const void *target;
  bool wide; /* targets are 64-bit */
  void *y;
  double *terms;
  int64_t reduction;
  int64_t n, classes, inner;
} loss_call;

/* The class of target i, -1 where it is none. */
static inline int64_t loss_class(const loss_call *call, int64_t i) {
  const int64_t c =
      call->wide ? ((const int64_t *)call->target)[i] : ((const int32_t *)call->target)[i];
  return c >= 0 && c < call->classes ? c : -1;
}

static loss_call loss_open(const DLTensor *x, const DLTensor *target, int64_t reduction) {
  loss_call call = {.x = x->data,
                    .target = target->data,
                    .wide = target->dtype.bits == 64,
                    .reduction = reduction,
                    .n = x->shape[0],
                    .classes = x->shape[1],
                    .inner = 1};
  for (int d = 2; d < x->ndim; d++) call.inner *= x->shape[d];
  return call;
}

static tn_status loss_parallel(const tn_host *host, loss_call *call, tn_range_fn fn) {
  const int64_t targets = call->n * call->inner;
  const int64_t grain = cpu_max(1, CPU_GRAIN_MATHS / cpu_max(1, call->classes));
  if (targets <= grain) return fn(call, 0, targets);
  return host->parallel_for(host, targets, grain, fn, call);
}

/* The sum of the terms, or their mean. */
static double loss_reduce(const loss_call *call) {
  const int64_t targets = call->n * call->inner;
  double sum = 0;
  for (int64_t i = 0; i < targets; i++) sum += call->terms[i];
  return call->reduction == TN_REDUCTION_MEAN ? sum / (double)targets : sum;
}

#define BODY "loss.inc"
#include "stamp_float.inc"
