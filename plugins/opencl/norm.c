/*
 * Normalisation over rows, groups of channels and batches, and gradients: cl/norm.cl. All are
 * one computation over sets of elements and channels; norm_shape says which.
 */
#include <assert.h>

#include "rows.h"
#include "sources.h"

/* norm_t of cl/norm.cl. */
typedef struct norm_shape {
  cl_long sets, segments, length, gap, set_step;
  cl_long groups, set_channels, segment_channels, element_channels;
  cl_long samples, channels, inner;
} norm_shape;

static_assert(sizeof(norm_shape) == 12 * 8, "no padding");

/* As in cl/norm.cl. */
enum { CENTRED = 1, HAS_GAMMA = 2, HAS_BETA = 4, HAS_MEAN = 8, HAS_RSTD = 16, HAS_RUNNING = 32 };

/* ------------------------------------------------------------------- shapes --- */

/* One set per channel. */
static norm_shape by_batch(const DLTensor *x) {
  norm_shape s = {.samples = x->shape[0], .channels = x->shape[1]};
  s.inner = ocl_size(x, 2, x->ndim);
  s.sets = s.groups = s.channels;
  s.set_channels = 1;
  s.segments = s.samples;
  s.length = s.set_step = s.inner;
  s.gap = s.channels * s.inner;
  return s;
}

/* `groups` sets per sample, each some channels. */
static norm_shape by_group(const DLTensor *x, int64_t groups) {
  norm_shape s = {.samples = x->shape[0], .channels = x->shape[1], .groups = groups};
  s.inner = ocl_size(x, 2, x->ndim);
  s.sets = s.samples * groups;
  s.segments = s.set_channels = groups ? s.channels / groups : 0;
  s.segment_channels = 1;
  s.length = s.gap = s.inner;
  s.set_step = s.segments * s.inner;
  return s;
}

/* One set per row, the axes from `axis` on. */
static norm_shape by_row(const DLTensor *x, int64_t axis) {
  const int32_t first = (int32_t)(axis < 0 ? axis + x->ndim : axis);
  norm_shape s = {.samples = ocl_size(x, 0, first), .channels = ocl_size(x, first, x->ndim)};
  s.inner = s.groups = s.segments = s.element_channels = 1;
  s.sets = s.samples;
  s.length = s.set_step = s.channels;
  return s;
}

/* ------------------------------------------------------------------ launches --- */

static bool is_wide(const tn_kernel_args *args) { return ocl_device_of(args)->fp64; }

/* A number of the type WIDE. */
static void arg_wide(ocl_launch *launch, const tn_kernel_args *args, double value) {
  ocl_arg_number(launch, is_wide(args) ? TN_F64 : TN_F32, value);
}

/* `weight` is any tensor of the weights' type, NULL where the call has none. */
static tn_status begin(ocl_launch *launch, const tn_kernel_args *args, const char *function,
                       const DLTensor *x, const DLTensor *weight) {
  const tn_dtype type = ocl_dtype(x), of_weight = weight ? ocl_dtype(weight) : type;
  const ocl_key key = {.source = &ocl_source_norm,
                       .function = function,
                       .types = {(uint8_t)type, (uint8_t)of_weight, (uint8_t)tn_dtype_wide(type)},
                       .constants = {ocl_device_of(args)->cpu ? 8 : 1}};
  return ocl_begin(launch, args, &key);
}

/* A processor's group is one work-item; others share runs of `length` elements. */
static size_t group_for(const tn_kernel_args *args, int64_t length) {
  size_t group = ocl_group(ocl_device_of(args), 256);
  if (ocl_device_of(args)->cpu) return 1;
  while (group > 1 && (int64_t)group / 2 >= length) group /= 2;
  return group;
}

/* The last argument is the group's room where it has one. */
static tn_status norm_run(ocl_launch *launch, const tn_kernel_args *args, int64_t groups,
                          size_t local, bool has_room) {
  const size_t count = (size_t)groups;
  if (has_room) ocl_arg_local(launch, local * (is_wide(args) ? 8 : 4));
  return ocl_run_grid(launch, 1, &count, &local);
}

/* ------------------------------------------------------------------ forward --- */

/* A forward call, its tensors by name; those absent are NULL. */
typedef struct forward_call {
  const DLTensor *x, *gamma, *beta, *y, *mean, *rstd, *running_mean, *running_var;
  double eps, momentum;
  int has; /* CENTRED; the rest follows */
} forward_call;

static tn_status forward(const tn_kernel_args *args, const forward_call *c, const norm_shape *s) {
  ocl_launch launch;
  const int has = c->has | (c->gamma ? HAS_GAMMA : 0) | (c->beta ? HAS_BETA : 0) |
                  (c->mean ? HAS_MEAN : 0) | (c->rstd ? HAS_RSTD : 0) |
                  (c->running_mean ? HAS_RUNNING : 0);
  if (s->sets == 0) return TN_OK;
  tn_status status = begin(&launch, args, "norm_forward", c->x, c->gamma ? c->gamma : c->beta);
  if (status) return status;
  ocl_arg_tensor(&launch, c->x);
  ocl_arg_tensor(&launch, c->gamma);
  ocl_arg_tensor(&launch, c->beta);
  ocl_arg_tensor(&launch, c->y);
  ocl_arg_tensor(&launch, c->mean);
  ocl_arg_tensor(&launch, c->rstd);
  ocl_arg_tensor(&launch, c->running_mean);
  ocl_arg_tensor(&launch, c->running_var);
  ocl_arg_int(&launch, has);
  arg_wide(&launch, args, c->eps);
  arg_wide(&launch, args, c->momentum);
  ocl_arg(&launch, s, sizeof *s);
  return norm_run(&launch, args, s->sets, group_for(args, s->length), true);
}

/* Inputs x, gamma, beta; outputs y, mean, rstd. */
static forward_call forward_of(const tn_kernel_args *args, double eps) {
  return (forward_call){.x = args->in[0],
                        .gamma = args->in[1],
                        .beta = args->in[2],
                        .y = args->out[0],
                        .mean = args->out[1],
                        .rstd = args->out[2],
                        .eps = eps,
                        .has = CENTRED};
}

tn_status ocl_run_batch_norm(const tn_kernel_args *args) {
  const tn_batch_norm_attrs *attrs = args->attrs;
  const norm_shape s = by_batch(args->in[0]);
  forward_call c = forward_of(args, attrs->eps);
  c.running_mean = args->out[0]; /* in-out arguments stand first */
  c.running_var = args->out[1];
  c.y = args->out[2];
  c.mean = args->out[3];
  c.rstd = args->out[4];
  c.momentum = attrs->momentum;
  return forward(args, &c, &s);
}

tn_status ocl_run_layer_norm(const tn_kernel_args *args) {
  const tn_layer_norm_attrs *attrs = args->attrs;
  const norm_shape s = by_row(args->in[0], attrs->axis);
  const forward_call c = forward_of(args, attrs->eps);
  return forward(args, &c, &s);
}

tn_status ocl_run_group_norm(const tn_kernel_args *args) {
  const tn_group_norm_attrs *attrs = args->attrs;
  const norm_shape s = by_group(args->in[0], attrs->groups);
  const forward_call c = forward_of(args, attrs->eps);
  return forward(args, &c, &s);
}

tn_status ocl_run_instance_norm(const tn_kernel_args *args) {
  const tn_instance_norm_attrs *attrs = args->attrs;
  const norm_shape s = by_group(args->in[0], args->in[0]->shape[1]);
  const forward_call c = forward_of(args, attrs->eps);
  return forward(args, &c, &s);
}

tn_status ocl_run_rms_norm(const tn_kernel_args *args) {
  const tn_rms_norm_attrs *attrs = args->attrs;
  const norm_shape s = by_row(args->in[0], attrs->axis);
  const forward_call c = {.x = args->in[0],
                          .gamma = args->in[1],
                          .y = args->out[0],
                          .rstd = args->out[1],
                          .eps = attrs->eps};
  return forward(args, &c, &s);
}

tn_status ocl_run_batch_norm_inference(const tn_kernel_args *args) {
  const tn_batch_norm_inference_attrs *attrs = args->attrs;
  ocl_launch launch;
  const DLTensor *x = args->in[0], *gamma = args->in[3], *beta = args->in[4];
  const norm_shape s = by_batch(x);
  if (s.sets == 0) return TN_OK;
  tn_status status = begin(&launch, args, "norm_inference", x, gamma ? gamma : beta);
  if (status) return status;
  for (int i = 0; i < 5; i++) ocl_arg_tensor(&launch, args->in[i]);
  ocl_arg_tensor(&launch, args->out[0]);
  ocl_arg_int(&launch, (gamma ? HAS_GAMMA : 0) | (beta ? HAS_BETA : 0));
  arg_wide(&launch, args, attrs->eps);
  ocl_arg(&launch, &s, sizeof s);
  return norm_run(&launch, args, s.sets, group_for(args, s.length), false);
}

/* ---------------------------------------------------------------- gradients --- */

/* A gradient's tensors by name; those absent are NULL. */
typedef struct grad_call {
  const DLTensor *dy, *x, *mean, *rstd, *gamma, *dx, *dgamma, *dbeta;
} grad_call;

static tn_status grad_input(const tn_kernel_args *args, const grad_call *c, const norm_shape *s) {
  ocl_launch launch;
  const int has = (c->gamma ? HAS_GAMMA : 0) | (c->mean ? HAS_MEAN | CENTRED : 0);
  if (ocl_count(c->dx) == 0) return TN_OK;
  tn_status status = begin(&launch, args, "norm_grad_input", c->x, c->gamma);
  if (status) return status;
  ocl_arg_tensor(&launch, c->dy);
  ocl_arg_tensor(&launch, c->x);
  ocl_arg_tensor(&launch, c->mean);
  ocl_arg_tensor(&launch, c->rstd);
  ocl_arg_tensor(&launch, c->gamma);
  ocl_arg_tensor(&launch, c->dx);
  ocl_arg_int(&launch, has);
  ocl_arg(&launch, s, sizeof *s);
  return norm_run(&launch, args, s->sets, group_for(args, s->length), true);
}

static tn_status grad_weight(const tn_kernel_args *args, const grad_call *c, const norm_shape *s) {
  ocl_launch launch;
  const DLTensor *weight = c->dgamma ? c->dgamma : c->dbeta;
  const int has =
      (c->dgamma ? HAS_GAMMA : 0) | (c->dbeta ? HAS_BETA : 0) | (c->mean ? HAS_MEAN : 0);
  const bool batch = s->set_channels == 1 && s->segment_channels == 0;
  if (!weight || s->channels == 0) return TN_OK;
  tn_status status = begin(&launch, args, "norm_grad_weight", c->x, weight);
  if (status) return status;
  ocl_arg_tensor(&launch, c->dy);
  ocl_arg_tensor(&launch, c->x);
  ocl_arg_tensor(&launch, c->mean);
  ocl_arg_tensor(&launch, c->rstd);
  ocl_arg_tensor(&launch, c->dgamma);
  ocl_arg_tensor(&launch, c->dbeta);
  ocl_arg_int(&launch, has);
  ocl_arg_int(&launch, batch);
  ocl_arg(&launch, s, sizeof *s);
  return norm_run(&launch, args, s->channels, group_for(args, s->inner), true);
}

static tn_status backward(const tn_kernel_args *args, const grad_call *c, const norm_shape *s) {
  tn_status status = grad_input(args, c, s);
  return status ? status : grad_weight(args, c, s);
}

/* Inputs dy, x, mean, rstd, gamma; outputs dx, dgamma, dbeta. */
static grad_call grad_of(const tn_kernel_args *args) {
  return (grad_call){.dy = args->in[0],
                     .x = args->in[1],
                     .mean = args->in[2],
                     .rstd = args->in[3],
                     .gamma = args->in[4],
                     .dx = args->out[0],
                     .dgamma = args->out[1],
                     .dbeta = args->out[2]};
}

tn_status ocl_run_batch_norm_grad(const tn_kernel_args *args) {
  const norm_shape s = by_batch(args->in[1]);
  const grad_call c = grad_of(args);
  return backward(args, &c, &s);
}

tn_status ocl_run_layer_norm_grad(const tn_kernel_args *args) {
  const tn_layer_norm_grad_attrs *attrs = args->attrs;
  const norm_shape s = by_row(args->in[1], attrs->axis);
  const grad_call c = grad_of(args);
  return backward(args, &c, &s);
}

tn_status ocl_run_group_norm_grad(const tn_kernel_args *args) {
  const tn_group_norm_grad_attrs *attrs = args->attrs;
  const norm_shape s = by_group(args->in[1], attrs->groups);
  const grad_call c = grad_of(args);
  return backward(args, &c, &s);
}

tn_status ocl_run_instance_norm_grad(const tn_kernel_args *args) {
  const norm_shape s = by_group(args->in[1], args->in[1]->shape[1]);
  const grad_call c = grad_of(args);
  return backward(args, &c, &s);
}

tn_status ocl_run_rms_norm_grad(const tn_kernel_args *args) {
  const tn_rms_norm_grad_attrs *attrs = args->attrs;
  const norm_shape s = by_row(args->in[1], attrs->axis);
  const grad_call c = {.dy = args->in[0],
                       .x = args->in[1],
                       .rstd = args->in[2],
                       .gamma = args->in[3],
                       .dx = args->out[0],
                       .dgamma = args->out[1]};
  return backward(args, &c, &s);
}
