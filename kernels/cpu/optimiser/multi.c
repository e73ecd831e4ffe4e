/*
 * Optimiser steps over lists: one parallel loop over the elements of all places, as if
 * they were one long tensor, so that many small tensors cost no more than few large ones.
 * Constants are made in double. The state has the parameters' type or is float32.
 */
#include <math.h>

#include "kernels/common/scalars.h"
#include "kernels/cpu/base/vmath.h"
#include "kernels/cpu/optimiser/places.h"

typedef struct multi_sgd {
  double lr, momentum, decay;
  bool nesterov;
} multi_sgd;

typedef struct multi_adam {
  double rate, scale; /* lr / (1 - beta1^step), 1 / (1 - beta2^step) */
  double beta1, beta2, eps, penalty, kept;
  bool penalised; /* wd counts; 0 x is NaN for an infinite x */
} multi_adam;

typedef struct multi_rmsprop {
  double lr, decay, momentum, eps, penalty;
} multi_rmsprop;

typedef struct multi_adagrad {
  double rate, eps, penalty;
} multi_adagrad;

/* Steps n elements; p: parameters, then the states. */
typedef void (*multi_fn)(int64_t n, const void *grads, void *const *p, const void *ctx);

#define BODY "kernels/cpu/optimiser/multi.inc"
#define STATE_IS_WIDE 0
#include "kernels/cpu/base/stamp_float.inc"
#undef STATE_IS_WIDE
#define STATE_IS_WIDE 1
#include "kernels/cpu/base/stamp_half.inc"

typedef struct multi_call {
  const tn_kernel_args *args;
  multi_fn fn;
  const void *ctx;
} multi_call;

static void step_place(void *ctx, int place, int64_t first, int64_t n) {
  const multi_call *call = ctx;
  const tn_kernel_args *args = call->args;
  const int length = args->num_in, lists = args->num_out / length;
  void *p[3];
  for (int k = 0; k < lists; k++) {
    const DLTensor *t = args->out[k * length + place];
    p[k] = (char *)t->data + first * (t->dtype.bits / 8);
  }
  const DLTensor *grad = args->in[place];
  call->fn(n, (const char *)grad->data + first * (grad->dtype.bits / 8), p, call->ctx);
}

static tn_status step_range(void *ctx, int64_t begin, int64_t end) {
  const multi_call *call = ctx;
  places_each(call->args->in, call->args->num_in, begin, end, step_place, ctx);
  return TN_OK;
}

static tn_status multi_run(const tn_kernel_args *args, multi_fn fn, const void *ctx) {
  multi_call call = {args, fn, ctx};
  const int64_t n = places_count(args->in, args->num_in);
  if (n <= CPU_GRAIN_MATHS) return step_range(&call, 0, n);
  return args->host->parallel_for(args->host, n, CPU_GRAIN_MATHS, step_range, &call);
}

/* The step for the call's types, of which the rows take no others. */
static multi_fn pick(const tn_kernel_args *args, const multi_fn *fns) {
  const DLDataType t = args->in[0]->dtype, u = args->out[args->num_in]->dtype;
  const int half = t.code == kDLBfloat;
  if (t.bits != 16) return fns[t.bits == 64];
  return fns[2 + half + (u.bits == 32 ? 2 : 0)];
}

#define STEPS(name)                                                                                \
  static const multi_fn name##_steps[] = {name##_f32,  name##_f64,      name##_f16,                \
                                          name##_bf16, name##_f16_wide, name##_bf16_wide};
STEPS(sgd)
STEPS(adam)
STEPS(rmsprop)
STEPS(adagrad)

tn_status ISA(multi_sgd_any)(const tn_kernel_args *args) {
  const tn_multi_sgd_attrs *a = args->attrs;
  if (SCALAR_SKIP(a, tn_multi_sgd_attrs)) return TN_OK;
  const multi_sgd k = {SCALAR_LR(a, tn_multi_sgd_attrs), a->momentum, a->weight_decay, a->nesterov};
  return multi_run(args, pick(args, sgd_steps), &k);
}

/* The attributes of adam and adamw are alike. */
static tn_status run_adam(const tn_kernel_args *args, bool decoupled) {
  const tn_multi_adam_attrs *a = args->attrs;
  if (SCALAR_SKIP(a, tn_multi_adam_attrs)) return TN_OK;
  const double t = (double)SCALAR_STEP(a, tn_multi_adam_attrs);
  const double lr = SCALAR_LR(a, tn_multi_adam_attrs);
  const multi_adam k = {.rate = lr * (1 / (1 - pow(a->beta1, t))),
                        .scale = 1 / (1 - pow(a->beta2, t)),
                        .beta1 = a->beta1,
                        .beta2 = a->beta2,
                        .eps = a->eps,
                        .penalty = decoupled ? 0 : a->weight_decay,
                        .penalised = !decoupled,
                        .kept = decoupled ? 1 - lr * a->weight_decay : 1};
  return multi_run(args, pick(args, adam_steps), &k);
}

tn_status ISA(multi_adam_any)(const tn_kernel_args *args) { return run_adam(args, false); }
tn_status ISA(multi_adamw_any)(const tn_kernel_args *args) { return run_adam(args, true); }

tn_status ISA(multi_rmsprop_any)(const tn_kernel_args *args) {
  const tn_multi_rmsprop_attrs *a = args->attrs;
  if (SCALAR_SKIP(a, tn_multi_rmsprop_attrs)) return TN_OK;
  const double lr = SCALAR_LR(a, tn_multi_rmsprop_attrs);
  const multi_rmsprop k = {lr, a->alpha, a->momentum, a->eps, a->weight_decay};
  return multi_run(args, pick(args, rmsprop_steps), &k);
}

tn_status ISA(multi_adagrad_any)(const tn_kernel_args *args) {
  const tn_multi_adagrad_attrs *a = args->attrs;
  if (SCALAR_SKIP(a, tn_multi_adagrad_attrs)) return TN_OK;
  const double past = (double)(SCALAR_STEP(a, tn_multi_adagrad_attrs) - 1);
  const double rate = SCALAR_LR(a, tn_multi_adagrad_attrs) / (1 + past * a->lr_decay);
  const multi_adagrad k = {rate, a->eps, a->weight_decay};
  return multi_run(args, pick(args, adagrad_steps), &k);
}

bool ISA(multi_supports)(const tn_kernel_args *args) {
  const DLDataType t = args->in[0]->dtype, u = args->out[args->num_in]->dtype;
  return (t.code == u.code && t.bits == u.bits) ||
         (t.bits == 16 && u.code == kDLFloat && u.bits == 32);
}
