/*
 * Optimisers, of one parameter or of lists, one launch per parameter: cl/optimise.cl. And what is
 * done to gradients as a whole: cl/gradients.cl.
 */
#include <math.h>

#include "rows.h"
#include "sources.h"

enum { NUMBERS = 8 };

/* A step: which optimiser, and its numbers as cl/optimise.cl wants them. */
typedef struct rule {
  const char *op;
  double number[NUMBERS];
} rule;

/* ------------------------------------------------------------------ one step --- */

/* One parameter with its gradient and state; t is NULL for optimisers with one tensor of it. */
static tn_status step(const tn_kernel_args *args, const rule *r, const DLTensor *grad,
                      const DLTensor *param, const DLTensor *s, const DLTensor *t) {
  ocl_launch launch;
  const tn_dtype type = ocl_dtype(param), of_state = ocl_dtype(s);
  const tn_dtype real = type == TN_F64 || of_state == TN_F64 ? TN_F64 : TN_F32;
  const uint64_t count = ocl_count(param);
  if (count == 0) return TN_OK;
  const ocl_key key = {.source = &ocl_source_optimise,
                       .function = "optimise",
                       .op = r->op,
                       .types = {(uint8_t)type, (uint8_t)of_state}};
  tn_status status = ocl_begin(&launch, args, &key);
  if (status) return status;
  ocl_arg_tensor(&launch, grad);
  ocl_arg_tensor(&launch, param);
  ocl_arg_tensor(&launch, s);
  ocl_arg_tensor(&launch, t);
  ocl_arg_long(&launch, (cl_long)count);
  ocl_arg_int(&launch, t != NULL);
  for (int i = 0; i < NUMBERS; i++) ocl_arg_number(&launch, real, r->number[i]);
  return ocl_run(&launch, count);
}

/* Each parameter of the lists: gradients are the inputs; out holds the parameters, then each
 * list of the state. A single parameter is a list of one. */
static tn_status steps(const tn_kernel_args *args, const rule *r) {
  const int length = args->num_in, lists = args->num_out / length;
  tn_status status = TN_OK;
  for (int i = 0; i < length && !status; i++)
    status = step(args, r, args->in[i], args->out[i], args->out[length + i],
                  lists > 2 ? args->out[2 * length + i] : NULL);
  return status;
}

static tn_status sgd(const tn_kernel_args *args, const tn_multi_sgd_attrs *a) {
  const rule r = {"sgd", {a->lr, a->momentum, a->weight_decay, a->nesterov}};
  return steps(args, &r);
}

static tn_status adam(const tn_kernel_args *args, const tn_multi_adam_attrs *a, bool decoupled) {
  const double bias1 = 1 - pow(a->beta1, (double)a->step);
  const double bias2 = 1 - pow(a->beta2, (double)a->step);
  const double decay = decoupled ? 1 - a->lr * a->weight_decay : a->weight_decay;
  const rule r = {
      decoupled ? "adamw" : "adam",
      {a->beta1, 1 - a->beta1, a->beta2, 1 - a->beta2, a->eps, bias2, a->lr / bias1, decay}};
  return steps(args, &r);
}

tn_status ocl_run_multi_sgd(const tn_kernel_args *args) { return sgd(args, args->attrs); }
tn_status ocl_run_multi_adam(const tn_kernel_args *args) { return adam(args, args->attrs, false); }
tn_status ocl_run_multi_adamw(const tn_kernel_args *args) { return adam(args, args->attrs, true); }

/* The operators on one parameter have the attributes of those on lists. */
tn_status ocl_run_sgd_step(const tn_kernel_args *args) { return sgd(args, args->attrs); }
tn_status ocl_run_adam_step(const tn_kernel_args *args) { return adam(args, args->attrs, false); }

tn_status ocl_run_multi_rmsprop(const tn_kernel_args *args) {
  const tn_multi_rmsprop_attrs *a = args->attrs;
  const rule r = {"rmsprop", {a->lr, a->alpha, 1 - a->alpha, a->momentum, a->eps, a->weight_decay}};
  return steps(args, &r);
}

tn_status ocl_run_multi_adagrad(const tn_kernel_args *args) {
  const tn_multi_adagrad_attrs *a = args->attrs;
  const double rate = a->lr / (1 + (double)(a->step - 1) * a->lr_decay);
  const rule r = {"adagrad", {rate, a->eps, a->weight_decay}};
  return steps(args, &r);
}

/* --------------------------------------------------------- gradients together --- */

enum { parts_of_each = 64 };

static tn_status begin(ocl_launch *launch, const tn_kernel_args *args, const char *function,
                       tn_dtype type) {
  const ocl_key key = {.source = &ocl_source_gradients,
                       .function = function,
                       .types = {(uint8_t)type, (uint8_t)tn_dtype_wide(type)}};
  return ocl_begin(launch, args, &key);
}

/* The i-th number of the workspace. */
static void arg_partial(ocl_launch *launch, const tn_kernel_args *args, int64_t i) {
  const size_t size = ocl_device_of(args)->fp64 ? 8 : 4;
  ocl_arg_workspace(launch, args, (size_t)i * size, size);
}

static tn_status one_item(ocl_launch *launch) {
  return ocl_run_grid(launch, 1, (const size_t[]){1}, (const size_t[]){1});
}

tn_status ocl_clip_grad_norm_workspace(const tn_kernel_args *args, size_t *bytes) {
  *bytes = (size_t)args->num_out * parts_of_each * sizeof(double);
  return TN_OK;
}

/* The squares of a gradient, in the workspace from number `at` on; moves `at` on. */
static tn_status add_squares(const tn_kernel_args *args, const DLTensor *x, int64_t *at) {
  ocl_launch launch;
  const int64_t count = (int64_t)ocl_count(x);
  const int parts = count < parts_of_each ? (int)count : parts_of_each;
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "squares", ocl_dtype(x));
  if (status) return status;
  ocl_arg_tensor(&launch, x);
  arg_partial(&launch, args, *at);
  ocl_arg_long(&launch, count);
  ocl_arg_long(&launch, (count + parts - 1) / parts);
  ocl_arg_int(&launch, parts);
  *at += parts;
  return ocl_run(&launch, (uint64_t)parts);
}

static tn_status clip(const tn_kernel_args *args, int64_t parts, const DLTensor *norm) {
  const tn_clip_grad_norm_attrs *attrs = args->attrs;
  ocl_launch launch;
  tn_status status = begin(&launch, args, "clip", ocl_dtype(args->out[0]));
  if (status) return status;
  arg_partial(&launch, args, 0);
  ocl_arg_long(&launch, parts);
  ocl_arg_number(&launch, ocl_device_of(args)->fp64 ? TN_F64 : TN_F32, attrs->max_norm);
  ocl_arg_tensor(&launch, norm);
  return one_item(&launch);
}

static tn_status scale(const tn_kernel_args *args, const DLTensor *x) {
  ocl_launch launch;
  const uint64_t count = ocl_count(x);
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "scale", ocl_dtype(x));
  if (status) return status;
  ocl_arg_tensor(&launch, x);
  arg_partial(&launch, args, 0);
  ocl_arg_long(&launch, (cl_long)count);
  return ocl_run(&launch, count);
}

tn_status ocl_run_clip_grad_norm(const tn_kernel_args *args) {
  const int length = args->num_out - 1;
  int64_t parts = 0;
  tn_status status = TN_OK;
  for (int i = 0; i < length && !status; i++) status = add_squares(args, args->out[i], &parts);
  if (!status) status = clip(args, parts, args->out[length]);
  for (int i = 0; i < length && !status; i++) status = scale(args, args->out[i]);
  return status;
}

static tn_status unscale(const tn_kernel_args *args, const DLTensor *x, const DLTensor *found) {
  ocl_launch launch;
  const uint64_t count = ocl_count(x);
  if (count == 0) return TN_OK;
  tn_status status = begin(&launch, args, "unscale", ocl_dtype(x));
  if (status) return status;
  ocl_arg_tensor(&launch, x);
  ocl_arg_tensor(&launch, args->in[0]);
  ocl_arg_tensor(&launch, found);
  ocl_arg_long(&launch, (cl_long)count);
  return ocl_run(&launch, count);
}

tn_status ocl_run_unscale_grads(const tn_kernel_args *args) {
  const int length = args->num_out - 1;
  tn_status status = TN_OK;
  for (int i = 0; i < length && !status; i++)
    status = unscale(args, args->out[i], args->out[length]);
  return status;
}

tn_status ocl_run_update_loss_scale(const tn_kernel_args *args) {
  const tn_update_loss_scale_attrs *attrs = args->attrs;
  ocl_launch launch;
  tn_status status = begin(&launch, args, "update_scale", ocl_dtype(args->out[1]));
  if (status) return status;
  ocl_arg_tensor(&launch, args->in[0]);
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_tensor(&launch, args->out[1]);
  ocl_arg_number(&launch, TN_F64, attrs->growth);
  ocl_arg_number(&launch, TN_F64, attrs->backoff);
  ocl_arg_long(&launch, attrs->interval);
  return one_item(&launch);
}
