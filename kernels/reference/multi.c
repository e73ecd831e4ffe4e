/*
 * Optimisers over lists, one tensor after the other, and what mixed precision needs. The
 * gradients are the inputs; out holds the parameters, then each list of the state.
 */
#include <math.h>

#include "kernels.h"
#include "kernels/common/scalars.h"
#include "map.h"

/* Runs a body of map.h on the tensors of one place in all lists. */
static tn_status each_place(const tn_kernel_args *args, body_f64 body) {
  uint16_t length = args->num_in, lists = args->num_out / length;
  tn_status status = TN_OK;
  for (uint16_t i = 0; !status && i < length; ++i) {
    DLTensor *out[TN_MAX_ARGS];
    for (uint16_t k = 0; k < lists; ++k) out[k] = args->out[k * length + i];
    tn_kernel_args one = *args;
    one.num_in = 1;
    one.num_out = lists;
    one.in = &args->in[i];
    one.out = out;
    status = map_update(&one, body);
  }
  return status;
}

static void multi_sgd_f64(const run *r, double *const *in, double *const *out) {
  const tn_multi_sgd_attrs *attrs = r->attrs;
  double *param = out[0], *velocity = out[1], lr = SCALAR_LR(attrs, tn_multi_sgd_attrs);
  for (int64_t i = 0; i < r->n; ++i) {
    double g = in[0][i] + attrs->weight_decay * param[i];
    /* Without momentum the buffer counts for nothing, not even if it holds NaN. */
    double v = attrs->momentum == 0 ? g : attrs->momentum * velocity[i] + g;
    param[i] -= lr * (attrs->nesterov ? g + attrs->momentum * v : v);
    velocity[i] = v;
  }
}

/* Adam, with an L2 penalty or with decoupled weight decay; the attributes are alike. */
static void adam(const run *r, double *const *in, double *const *out, bool decoupled) {
  const tn_multi_adam_attrs *attrs = r->attrs;
  double *param = out[0], *m = out[1], *v = out[2], lr = SCALAR_LR(attrs, tn_multi_adam_attrs);
  double step = (double)SCALAR_STEP(attrs, tn_multi_adam_attrs);
  double bias1 = 1 - pow(attrs->beta1, step), bias2 = 1 - pow(attrs->beta2, step);
  double penalty = attrs->weight_decay;
  double kept = decoupled ? 1 - lr * attrs->weight_decay : 1;
  for (int64_t i = 0; i < r->n; ++i) {
    double g = decoupled ? in[0][i] : in[0][i] + penalty * param[i];
    m[i] = attrs->beta1 * m[i] + (1 - attrs->beta1) * g;
    v[i] = attrs->beta2 * v[i] + (1 - attrs->beta2) * g * g;
    param[i] = param[i] * kept - lr * (m[i] / bias1) / (sqrt(v[i] / bias2) + attrs->eps);
  }
}

static void multi_adam_f64(const run *r, double *const *in, double *const *out) {
  adam(r, in, out, false);
}

static void multi_adamw_f64(const run *r, double *const *in, double *const *out) {
  adam(r, in, out, true);
}

static void multi_rmsprop_f64(const run *r, double *const *in, double *const *out) {
  const tn_multi_rmsprop_attrs *attrs = r->attrs;
  double *param = out[0], *v = out[1], *velocity = out[2];
  double lr = SCALAR_LR(attrs, tn_multi_rmsprop_attrs);
  for (int64_t i = 0; i < r->n; ++i) {
    double g = in[0][i] + attrs->weight_decay * param[i];
    v[i] = attrs->alpha * v[i] + (1 - attrs->alpha) * g * g;
    double step = g / (sqrt(v[i]) + attrs->eps);
    velocity[i] = attrs->momentum == 0 ? step : attrs->momentum * velocity[i] + step;
    param[i] -= lr * velocity[i];
  }
}

static void multi_adagrad_f64(const run *r, double *const *in, double *const *out) {
  const tn_multi_adagrad_attrs *attrs = r->attrs;
  double *param = out[0], *sum = out[1];
  double past = (double)(SCALAR_STEP(attrs, tn_multi_adagrad_attrs) - 1);
  double rate = SCALAR_LR(attrs, tn_multi_adagrad_attrs) / (1 + past * attrs->lr_decay);
  for (int64_t i = 0; i < r->n; ++i) {
    double g = in[0][i] + attrs->weight_decay * param[i];
    sum[i] += g * g;
    param[i] -= rate * g / (sqrt(sum[i]) + attrs->eps);
  }
}

#define KERNEL_MULTI(name)                                                                         \
  tn_status reference_##name(const tn_kernel_args *args) {                                         \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    return SCALAR_SKIP(attrs, tn_##name##_attrs) ? TN_OK : each_place(args, name##_f64);           \
  }
KERNEL_MULTI(multi_sgd)
KERNEL_MULTI(multi_adam)
KERNEL_MULTI(multi_adamw)
KERNEL_MULTI(multi_rmsprop)
KERNEL_MULTI(multi_adagrad)

/* --- gradients as a whole --- */

/* Changes a run of elements; ctx is what the pass collects or needs. */
typedef void (*pass_fn)(void *ctx, double *x, int64_t n);

static void pass(const DLTensor *t, pass_fn fn, void *ctx, bool store) {
  view v = view_of(t);
  walk w = walk_over(&v, 1, 0, view_count(&v));
  double x[WALK_RUN];
  while (walk_next(&w)) {
    load_f64(v.dtype, w.at[0], w.step[0], w.n, x);
    fn(ctx, x, w.n);
    if (store) store_f64(v.dtype, w.at[0], w.step[0], w.n, x);
  }
}

static void add_squares(void *ctx, double *x, int64_t n) {
  double part = 0;
  for (int64_t i = 0; i < n; ++i) part += x[i] * x[i];
  *(double *)ctx += part;
}

static void multiply(void *ctx, double *x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= *(double *)ctx;
}

tn_status reference_clip_grad_norm(const tn_kernel_args *args) {
  const tn_clip_grad_norm_attrs *attrs = args->attrs;
  int length = args->num_out - 1;
  double total = 0;
  for (int i = 0; i < length; ++i) pass(args->out[i], add_squares, &total, false);
  double norm = sqrt(total), factor = attrs->max_norm / (norm + 1e-6);
  store_f64(tn_dtype_of(args->out[length]->dtype), args->out[length]->data, 1, 1, &norm);
  if (factor > 1) factor = 1;
  for (int i = 0; i < length; ++i) pass(args->out[i], multiply, &factor, true);
  return TN_OK;
}

typedef struct unscaling {
  double scale;
  bool found;
} unscaling;

static void unscale(void *ctx, double *x, int64_t n) {
  unscaling *u = ctx;
  for (int64_t i = 0; i < n; ++i) {
    u->found = u->found || !isfinite(x[i]);
    x[i] /= u->scale;
  }
}

tn_status reference_unscale_grads(const tn_kernel_args *args) {
  int length = args->num_out - 1;
  uint8_t *found = args->out[length]->data;
  unscaling u = {.found = *found};
  load_f64(TN_F32, args->in[0]->data, 1, 1, &u.scale);
  for (int i = 0; i < length; ++i) pass(args->out[i], unscale, &u, true);
  *found = u.found;
  return TN_OK;
}

tn_status reference_update_loss_scale(const tn_kernel_args *args) {
  const tn_update_loss_scale_attrs *attrs = args->attrs;
  tn_dtype dtype = tn_dtype_of(args->out[1]->dtype);
  bool found = *(const uint8_t *)args->in[0]->data;
  float *scale = args->out[0]->data;
  int64_t steps;
  load_i64(dtype, args->out[1]->data, 1, 1, &steps);
  steps = found ? 0 : steps + 1;
  if (found) *scale = (float)(*scale * attrs->backoff);
  if (steps == attrs->interval) {
    float grown = (float)(*scale * attrs->growth);
    if (isfinite(grown)) *scale = grown;
    steps = 0;
  }
  store_i64(dtype, args->out[1]->data, 1, 1, &steps);
  return TN_OK;
}
