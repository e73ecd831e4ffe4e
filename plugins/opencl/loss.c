/*
 * Losses over classes (cl/class_loss.cl) and of elements in pairs (cl/pair_loss.cl) and their
 * gradients. A loss that is a sum or a mean is added up in two steps: each work-item has a share
 * of the targets or elements, and one (cl/loss.cl) adds what they found.
 */
#include <assert.h>

#include "rows.h"
#include "sources.h"

/* Most work-items that share a sum. */
enum { most_parts = 1024 };

/* Work-item i of `parts` does i first + k step for 0 <= k < each. */
typedef struct share {
  int64_t parts, each, first, step;
} share;

/* Neighbours for a processor, whose work-items run one after the other; one element in turn for
 * each work-item where they run side by side. */
static share share_of(const tn_kernel_args *args, int64_t count, bool one_each) {
  const bool cpu = ocl_device_of(args)->cpu;
  const int64_t most = cpu ? most_parts / 16 : most_parts;
  share s = {.parts = count < most ? count : most};
  if (one_each) return (share){.parts = count, .each = 1, .first = 1, .step = 1};
  s.each = s.parts ? (count + s.parts - 1) / s.parts : 0;
  s.first = cpu ? s.each : 1;
  s.step = cpu ? 1 : s.parts;
  if (cpu && s.each) s.parts = (count + s.each - 1) / s.each;
  return s;
}

static void arg_share(ocl_launch *launch, const share *s) {
  ocl_arg_long(launch, s->parts);
  ocl_arg_long(launch, s->each);
  ocl_arg_long(launch, s->first);
  ocl_arg_long(launch, s->step);
}

static bool is_wide(const tn_kernel_args *args) { return ocl_device_of(args)->fp64; }

/* A number of the type WIDE. */
static void arg_wide(ocl_launch *launch, const tn_kernel_args *args, double value) {
  ocl_arg_number(launch, is_wide(args) ? TN_F64 : TN_F32, value);
}

static void arg_partial(ocl_launch *launch, const tn_kernel_args *args) {
  ocl_arg_workspace(launch, args, 0, is_wide(args) ? 8 : 4);
}

tn_status ocl_loss_workspace(const tn_kernel_args *args, size_t *bytes) {
  (void)args;
  *bytes = (size_t)most_parts * 2 * sizeof(double);
  return TN_OK;
}

/* y = the sum of the parts over the divisor, or over the targets that count where it is 0. */
static tn_status finish(const tn_kernel_args *args, const DLTensor *y, int64_t parts,
                        double divisor) {
  ocl_launch launch;
  const ocl_key key = {
      .source = &ocl_source_loss, .function = "finish", .types = {(uint8_t)ocl_dtype(y)}};
  tn_status status = ocl_begin(&launch, args, &key);
  if (status) return status;
  arg_partial(&launch, args);
  ocl_arg_int(&launch, (cl_int)parts);
  arg_wide(&launch, args, divisor);
  ocl_arg_tensor(&launch, y);
  return ocl_run_grid(&launch, 1, (const size_t[]){1}, (const size_t[]){1});
}

/* ------------------------------------------------------- losses over classes --- */

/* class_t of cl/class_loss.cl. */
typedef struct class_shape {
  cl_long targets, classes, inner, ignored;
  cl_int ignores, reserved;
} class_shape;

static_assert(sizeof(class_shape) == 5 * 8, "no padding");

/* The attributes of these operators begin alike. */
typedef struct class_call {
  const DLTensor *x, *target;
  class_shape shape;
  int64_t reduction;
  double smoothing;
  const char *op;
} class_call;

static class_call class_call_of(const tn_kernel_args *args, int first, const char *op) {
  const tn_nll_loss_attrs *attrs = args->attrs;
  const DLTensor *x = args->in[first], *target = args->in[first + 1];
  class_call c = {.x = x, .target = target, .reduction = attrs->reduction, .op = op};
  c.shape = (class_shape){.targets = (cl_long)ocl_count(target),
                          .classes = x->shape[1],
                          .inner = ocl_size(x, 2, x->ndim),
                          .ignored = attrs->ignore_index,
                          .ignores = attrs->ignore_index != INT64_MIN};
  return c;
}

static tn_status class_begin(ocl_launch *launch, const tn_kernel_args *args, const class_call *c,
                             const char *function) {
  const ocl_key key = {.source = &ocl_source_class_loss,
                       .function = function,
                       .op = c->op,
                       .types = {(uint8_t)ocl_dtype(c->x), (uint8_t)ocl_dtype(c->target)}};
  return ocl_begin(launch, args, &key);
}

static tn_status class_share(const tn_kernel_args *args, const class_call *c, const share *s) {
  ocl_launch launch;
  const bool none = c->reduction == TN_REDUCTION_NONE;
  if (c->shape.targets == 0) return TN_OK;
  tn_status status = class_begin(&launch, args, c, "class_loss");
  if (status) return status;
  ocl_arg_tensor(&launch, c->x);
  ocl_arg_tensor(&launch, c->target);
  ocl_arg_tensor(&launch, args->out[0]);
  arg_partial(&launch, args);
  arg_share(&launch, s);
  ocl_arg_int(&launch, none);
  ocl_arg_int(&launch, !none);
  arg_wide(&launch, args, c->smoothing);
  ocl_arg(&launch, &c->shape, sizeof c->shape);
  return ocl_run(&launch, (uint64_t)s->parts);
}

static tn_status class_forward(const tn_kernel_args *args, const class_call *c) {
  const share s = share_of(args, c->shape.targets, c->reduction == TN_REDUCTION_NONE);
  tn_status status = class_share(args, c, &s);
  if (status || c->reduction == TN_REDUCTION_NONE) return status;
  double divisor = 1;
  if (c->reduction == TN_REDUCTION_MEAN) divisor = 0;
  return finish(args, args->out[0], s.parts, divisor);
}

/* Leaves the targets that count as the first number of the workspace. */
static tn_status count_targets(const tn_kernel_args *args, const class_call *c) {
  ocl_launch launch;
  const share s = share_of(args, c->shape.targets, false);
  tn_status status = class_begin(&launch, args, c, "count_targets");
  if (status) return status;
  ocl_arg_tensor(&launch, c->target);
  arg_partial(&launch, args);
  arg_share(&launch, &s);
  ocl_arg(&launch, &c->shape, sizeof c->shape);
  status = ocl_run(&launch, (uint64_t)s.parts);
  const ocl_key key = {
      .source = &ocl_source_loss, .function = "total", .types = {(uint8_t)ocl_dtype(c->x)}};
  if (!status) status = ocl_begin(&launch, args, &key);
  if (status) return status;
  arg_partial(&launch, args);
  ocl_arg_int(&launch, (cl_int)s.parts);
  return ocl_run_grid(&launch, 1, (const size_t[]){1}, (const size_t[]){1});
}

static tn_status class_backward(const tn_kernel_args *args, const class_call *c) {
  ocl_launch launch;
  const bool mean = c->reduction == TN_REDUCTION_MEAN, counts = mean && c->shape.ignores;
  tn_status status = TN_OK;
  if (ocl_count(c->x) == 0) return TN_OK;
  if (counts) status = count_targets(args, c);
  if (!status) status = class_begin(&launch, args, c, "class_loss_grad");
  if (status) return status;
  ocl_arg_tensor(&launch, args->in[0]);
  ocl_arg_tensor(&launch, c->x);
  ocl_arg_tensor(&launch, c->target);
  ocl_arg_tensor(&launch, args->out[0]);
  arg_partial(&launch, args);
  ocl_arg_int(&launch, c->reduction != TN_REDUCTION_NONE);
  arg_wide(&launch, args, counts ? 0 : mean ? (double)c->shape.targets : 1);
  arg_wide(&launch, args, c->smoothing);
  ocl_arg(&launch, &c->shape, sizeof c->shape);
  return ocl_run(&launch, (uint64_t)c->shape.targets);
}

tn_status ocl_run_nll_loss(const tn_kernel_args *args) {
  const class_call c = class_call_of(args, 0, "nll");
  return class_forward(args, &c);
}

tn_status ocl_run_nll_loss_grad(const tn_kernel_args *args) {
  const class_call c = class_call_of(args, 1, "nll");
  return class_backward(args, &c);
}

tn_status ocl_run_cross_entropy(const tn_kernel_args *args) {
  class_call c = class_call_of(args, 0, "entropy");
  c.smoothing = ((const tn_cross_entropy_attrs *)args->attrs)->label_smoothing;
  return class_forward(args, &c);
}

tn_status ocl_run_cross_entropy_grad(const tn_kernel_args *args) {
  class_call c = class_call_of(args, 1, "entropy");
  c.smoothing = ((const tn_cross_entropy_grad_attrs *)args->attrs)->label_smoothing;
  return class_backward(args, &c);
}

/* ---------------------------------------------------------- losses of pairs --- */

/* As in cl/pair_loss.cl. */
enum { HAS_WEIGHT = 1, HAS_POS_WEIGHT = 2 };

typedef struct pair_call {
  const DLTensor *in[4]; /* x, target, and perhaps weight, pos_weight */
  int64_t count, last;
  int64_t reduction;
  double option;
  const char *op;
  int has;
} pair_call;

/* The attributes of these operators begin alike. */
static pair_call pair_call_of(const tn_kernel_args *args, int first, const char *op,
                              double option) {
  const tn_mse_loss_attrs *attrs = args->attrs;
  pair_call c = {.reduction = attrs->reduction, .op = op, .option = option};
  for (int i = 0; i < 4 && first + i < args->num_in; i++) c.in[i] = args->in[first + i];
  const DLTensor *x = c.in[0];
  c.count = (int64_t)ocl_count(x);
  c.last = x->ndim ? x->shape[x->ndim - 1] : 1;
  c.has = (c.in[2] ? HAS_WEIGHT : 0) | (c.in[3] ? HAS_POS_WEIGHT : 0);
  return c;
}

static tn_status pair_begin(ocl_launch *launch, const tn_kernel_args *args, const pair_call *c,
                            const char *function) {
  const ocl_key key = {.source = &ocl_source_pair_loss,
                       .function = function,
                       .op = c->op,
                       .types = {(uint8_t)ocl_dtype(c->in[0])}};
  return ocl_begin(launch, args, &key);
}

static tn_status pair_share(const tn_kernel_args *args, const pair_call *c, const share *s) {
  ocl_launch launch;
  const bool none = c->reduction == TN_REDUCTION_NONE;
  if (c->count == 0) return TN_OK;
  tn_status status = pair_begin(&launch, args, c, "pair_loss");
  if (status) return status;
  for (int i = 0; i < 4; i++) ocl_arg_tensor(&launch, c->in[i]);
  ocl_arg_tensor(&launch, args->out[0]);
  arg_partial(&launch, args);
  ocl_arg_long(&launch, c->count);
  arg_share(&launch, s);
  ocl_arg_int(&launch, none);
  ocl_arg_int(&launch, !none);
  ocl_arg_int(&launch, c->has);
  ocl_arg_long(&launch, c->last);
  arg_wide(&launch, args, c->option);
  return ocl_run(&launch, (uint64_t)s->parts);
}

static tn_status pair_forward(const tn_kernel_args *args, const char *op, double option) {
  const pair_call c = pair_call_of(args, 0, op, option);
  const share s = share_of(args, c.count, c.reduction == TN_REDUCTION_NONE);
  tn_status status = pair_share(args, &c, &s);
  if (status || c.reduction == TN_REDUCTION_NONE) return status;
  const bool mean = c.reduction == TN_REDUCTION_MEAN;
  return finish(args, args->out[0], s.parts, mean ? (double)c.count : 1);
}

static tn_status pair_backward(const tn_kernel_args *args, const char *op, double option) {
  ocl_launch launch;
  const pair_call c = pair_call_of(args, 1, op, option);
  if (c.count == 0) return TN_OK;
  tn_status status = pair_begin(&launch, args, &c, "pair_loss_grad");
  if (status) return status;
  ocl_arg_tensor(&launch, args->in[0]);
  for (int i = 0; i < 4; i++) ocl_arg_tensor(&launch, c.in[i]);
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_long(&launch, c.count);
  ocl_arg_int(&launch, c.reduction != TN_REDUCTION_NONE);
  arg_wide(&launch, args, c.reduction == TN_REDUCTION_MEAN ? (double)c.count : 1);
  ocl_arg_int(&launch, c.has);
  ocl_arg_long(&launch, c.last);
  arg_wide(&launch, args, c.option);
  return ocl_run(&launch, (uint64_t)c.count);
}

#define PAIR(name, direction, op, option)                                                          \
  tn_status ocl_run_##name(const tn_kernel_args *args) {                                           \
    const tn_##name##_attrs *attrs = args->attrs;                                                  \
    (void)attrs;                                                                                   \
    return direction(args, op, option);                                                            \
  }
PAIR(mse_loss, pair_forward, "mse", 0)
PAIR(mse_loss_grad, pair_backward, "mse", 0)
PAIR(bce_with_logits, pair_forward, "bce", 0)
PAIR(bce_with_logits_grad, pair_backward, "bce", 0)
PAIR(huber_loss, pair_forward, "huber", attrs->delta)
PAIR(huber_loss_grad, pair_backward, "huber", attrs->delta)
PAIR(kl_div, pair_forward, "kl", attrs->log_target)
PAIR(kl_div_grad, pair_backward, "kl", attrs->log_target)
