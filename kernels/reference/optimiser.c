/* Optimiser steps: in-out arguments come first in out, the gradient is in[0]. */
#include <math.h>

#include "kernels.h"
#include "map.h"

static void sgd_f64(const run *r, double *const *in, double *const *out) {
  const tn_sgd_step_attrs *attrs = r->attrs;
  double *param = out[0], *velocity = out[1];
  for (int64_t i = 0; i < r->n; ++i) {
    double g = in[0][i] + attrs->weight_decay * param[i];
    /* Without momentum the buffer counts for nothing, not even if it holds NaN. */
    double v = attrs->momentum == 0 ? g : attrs->momentum * velocity[i] + g;
    param[i] -= attrs->lr * (attrs->nesterov ? g + attrs->momentum * v : v);
    velocity[i] = v;
  }
}

tn_status reference_sgd_step(const tn_kernel_args *args) { return map_update(args, sgd_f64); }

static void adam_f64(const run *r, double *const *in, double *const *out) {
  const tn_adam_step_attrs *attrs = r->attrs;
  double *param = out[0], *m = out[1], *v = out[2];
  double bias1 = 1 - pow(attrs->beta1, (double)attrs->step);
  double bias2 = 1 - pow(attrs->beta2, (double)attrs->step);
  for (int64_t i = 0; i < r->n; ++i) {
    double g = in[0][i] + attrs->weight_decay * param[i];
    m[i] = attrs->beta1 * m[i] + (1 - attrs->beta1) * g;
    v[i] = attrs->beta2 * v[i] + (1 - attrs->beta2) * g * g;
    param[i] -= attrs->lr * (m[i] / bias1) / (sqrt(v[i] / bias2) + attrs->eps);
  }
}

tn_status reference_adam_step(const tn_kernel_args *args) { return map_update(args, adam_f64); }
