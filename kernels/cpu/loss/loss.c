/*
 * nll_loss and cross_entropy over [n, c, inner] and their gradients. The loss of each
 * target is computed in parallel into a row of doubles, which is then summed in order.
 */
#include "kernels/cpu/base/exp_row.h"
#include "kernels/cpu/cpu.h"

typedef struct loss_call {
  const void *x, *dy;
  const void *target;
  bool wide; /* targets are 64-bit */
  void *y;
  double *terms;
  int64_t reduction;
  int64_t ignored;  /* a target that does not count */
  double smoothing; /* of labels */
  double counted;   /* targets that count */
  int64_t n, classes, inner;
} loss_call;

/* Targets that are no class. */
enum { LOSS_OUTSIDE = -1, LOSS_IGNORED = -2 };

static inline int64_t loss_target(const loss_call *call, int64_t i) {
  return call->wide ? ((const int64_t *)call->target)[i] : ((const int32_t *)call->target)[i];
}

/* The class of target i, negative where it is none. */
static inline int64_t loss_class(const loss_call *call, int64_t i) {
  const int64_t c = loss_target(call, i);
  if (c == call->ignored && c != INT64_MIN) return LOSS_IGNORED;
  return c >= 0 && c < call->classes ? c : LOSS_OUTSIDE;
}

/* nll_loss's attributes begin those of the whole family. */
static loss_call loss_open(const DLTensor *x, const DLTensor *target,
                           const tn_nll_loss_attrs *attrs, double smoothing) {
  loss_call call = {.x = x->data,
                    .target = target->data,
                    .wide = target->dtype.bits == 64,
                    .reduction = attrs->reduction,
                    .ignored = attrs->ignore_index,
                    .smoothing = smoothing,
                    .n = x->shape[0],
                    .classes = x->shape[1],
                    .inner = 1};
  for (int d = 2; d < x->ndim; d++) call.inner *= x->shape[d];
  int64_t ignored = 0;
  if (call.ignored != INT64_MIN)
    for (int64_t i = 0; i < call.n * call.inner; i++)
      ignored += loss_target(&call, i) == call.ignored;
  call.counted = (double)(call.n * call.inner - ignored);
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
  return call->reduction == TN_REDUCTION_MEAN ? sum / call->counted : sum;
}

#define BODY "kernels/cpu/loss/loss.inc"
#include "kernels/cpu/base/stamp_float.inc"
