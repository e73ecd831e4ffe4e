/* Optimiser steps: in-out arguments come first in out, the gradient is in[0]. */
#include <math.h>

#include "kernels.h"
#include "kernels/common/scalars.h"
#include "map.h"

static void sgd_f64(const run *r, double *const *in, double *const *out) {
  const tn_sgd_step_attrs *attrs = r->attrs;
  double *param = out[0], *velocity = out[1], lr = SCALAR_LR(attrs, tn_sgd_step_attrs);
  for (int64_t i = 0; i < r->n; ++i) {
    double g = in[0][i] + attrs->weight_decay * param[i];
    /* Without momentum the buffer counts for nothing, not even if it holds NaN. */
    double v = attrs->momentum == 0 ? g : attrs->momentum * velocity[i] + g;
    param[i] -= lr * (attrs->nesterov ? g + attrs->momentum * v : v);
    velocity[i] = v;
  }
}

/* Nothing is written where the program's skip_if says so. */
#define KERNEL_STEP(name, body)                                                                    \
  tn_status reference_##name(const tn_kernel_args *args) {                                         \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    return SCALAR_SKIP(attrs, tn_##name##_attrs) ? TN_OK : map_update(args, body);                 \
  }
KERNEL_STEP(sgd_step, sgd_f64)

static void adam_f64(const run *r, double *const *in, double *const *out) {
  const tn_adam_step_attrs *attrs = r->attrs;
  double *param = out[0], *m = out[1], *v = out[2], lr = SCALAR_LR(attrs, tn_adam_step_attrs);
  double step = (double)SCALAR_STEP(attrs, tn_adam_step_attrs);
  double bias1 = 1 - pow(attrs->beta1, step), bias2 = 1 - pow(attrs->beta2, step);
  for (int64_t i = 0; i < r->n; ++i) {
    double g = in[0][i] + attrs->weight_decay * param[i];
    m[i] = attrs->beta1 * m[i] + (1 - attrs->beta1) * g;
    v[i] = attrs->beta2 * v[i] + (1 - attrs->beta2) * g * g;
    param[i] -= lr * (m[i] / bias1) / (sqrt(v[i] / bias2) + attrs->eps);
  }
}

KERNEL_STEP(adam_step, adam_f64)
