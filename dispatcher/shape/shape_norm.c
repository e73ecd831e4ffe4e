/*
 * Shape rules of normalisation and of losses of elements in pairs. The first letters of
 * an argument's name say whether it has x's shape, the weights' or the statistics'.
 */
#include <string.h>

#include "dispatcher/shape/shape_rules.h"

typedef struct norm_shapes {
  extents weights, statistics;
} norm_shapes;

static bool has_shape(const DLTensor *t, const extents *s) {
  return t->ndim == s->rank &&
         (s->rank == 0 || memcmp(t->shape, s->dim, (size_t)s->rank * sizeof *s->dim) == 0);
}

static bool is_weight(const char *name) {
  if (name[0] == 'd') ++name;
  return name[0] == 'g' || name[0] == 'b'; /* gamma, beta and their gradients */
}

static bool is_statistic(const char *name) {
  return name[0] == 'm' || name[0] == 'r' || name[0] == 'v'; /* mean, rstd, running_.., var */
}

/* Weights are of x's type, or float32 beside 16-bit x. */
static bool fits_type(const DLTensor *weight, const DLTensor *x) {
  bool same = weight->dtype.code == x->dtype.code && weight->dtype.bits == x->dtype.bits;
  return same ||
         (x->dtype.bits == 16 && weight->dtype.code == kDLFloat && weight->dtype.bits == 32);
}

static tn_status check_input(const shape_query *q, const norm_shapes *s, const DLTensor *t,
                             const char *name) {
  const DLTensor *x = q->in[0];
  if (is_weight(name)) {
    if (!has_shape(t, &s->weights)) return shape_refuse(q, "gamma and beta do not fit x", t, x);
    if (!fits_type(t, x))
      return shape_refuse(q, "gamma and beta must be of x's type, or float32 beside 16-bit x", NULL,
                          NULL);
  } else if (is_statistic(name)) {
    if (!has_shape(t, &s->statistics)) return shape_refuse(q, "statistics do not fit x", t, x);
  } else if (!shape_same(t, x)) {
    return shape_refuse(q, "the shapes must be equal", t, x);
  }
  return TN_OK;
}

static tn_status apply(const shape_query *q, const norm_shapes *s, extents *out, uint32_t num_out) {
  tn_status status = TN_OK;
  const tn_arg *args = q->op->args;
  for (uint32_t i = 0; !status && i < q->num_in; ++i)
    if (q->in[i]) status = check_input(q, s, q->in[i], args[i].name);
  args += q->num_in;
  for (uint32_t i = 0; !status && i < q->num_inout; ++i)
    status = check_input(q, s, q->inout[i], args[i].name);
  args += q->num_inout;
  for (uint32_t i = 0; !status && i < num_out; ++i) {
    if (is_weight(args[i].name))
      out[i] = s->weights;
    else if (is_statistic(args[i].name))
      out[i] = s->statistics;
    else
      shape_copy(&out[i], q->in[0]);
  }
  return status;
}

/* Statistics are [n, groups], or [c] where groups is WHOLE_BATCH. */
enum { WHOLE_BATCH = -1 };

static tn_status by_channel(const shape_query *q, extents *out, uint32_t num_out, int64_t groups) {
  const DLTensor *x = q->in[0];
  norm_shapes s = {.weights = {.rank = 1}};
  if (x->ndim < 2) return shape_refuse(q, "x must be [n, c, ...]", x, NULL);
  s.weights.dim[0] = x->shape[1];
  s.statistics = s.weights;
  if (groups != WHOLE_BATCH) {
    if (groups ? x->shape[1] % groups : x->shape[1])
      return shape_refuse(q, "attrs->groups must divide the channels", x, NULL);
    if (x->shape[1] == 0 && groups > 1)
      return shape_refuse(q, "there is no channel to divide into attrs->groups", x, NULL);
    s.statistics = (extents){.rank = 2, .dim = {x->shape[0], groups}};
  }
  return apply(q, &s, out, num_out);
}

tn_status shape_rule_batch_norm(const shape_query *q, extents *out, uint32_t num_out) {
  return by_channel(q, out, num_out, WHOLE_BATCH);
}

tn_status shape_rule_batch_norm_inference(const shape_query *q, extents *out, uint32_t num_out) {
  return by_channel(q, out, num_out, WHOLE_BATCH);
}

tn_status shape_rule_batch_norm_grad(const shape_query *q, extents *out, uint32_t num_out) {
  return by_channel(q, out, num_out, WHOLE_BATCH);
}

tn_status shape_rule_group_norm(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_group_norm_attrs *attrs = q->attrs; /* group_norm_grad's begins the same */
  bool instance = q->op->id == TN_OP_INSTANCE_NORM || q->op->id == TN_OP_INSTANCE_NORM_GRAD;
  const DLTensor *x = q->in[0];
  int64_t channels = x->ndim < 2 ? 1 : x->shape[1];
  return by_channel(q, out, num_out, instance ? channels : attrs->groups);
}

tn_status shape_rule_group_norm_grad(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_group_norm(q, out, num_out);
}

tn_status shape_rule_layer_norm(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_layer_norm_attrs *attrs = q->attrs; /* the family's begin the same */
  const DLTensor *x = q->in[0];
  norm_shapes s;
  int32_t axis;
  if (!shape_axis(attrs->axis, x->ndim, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of x", x, NULL);
  s.statistics.rank = axis;
  memcpy(s.statistics.dim, x->shape, (size_t)axis * sizeof *x->shape);
  s.weights.rank = x->ndim - axis;
  memcpy(s.weights.dim, x->shape + axis, (size_t)s.weights.rank * sizeof *x->shape);
  return apply(q, &s, out, num_out);
}

tn_status shape_rule_layer_norm_grad(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_layer_norm(q, out, num_out);
}

/* x, target, weight of one shape; pos_weight along the last axis. */
static tn_status check_pair(const shape_query *q, const DLTensor *const *in, uint32_t num_in) {
  const DLTensor *x = in[0], *target = in[1];
  if (!shape_same(x, target)) return shape_refuse(q, "the shapes must be equal", x, target);
  const DLTensor *weight = num_in > 2 ? in[2] : NULL, *pos = num_in > 3 ? in[3] : NULL;
  if (weight && !shape_same(x, weight))
    return shape_refuse(q, "weight must have x's shape", weight, x);
  if (pos && (x->ndim == 0 || pos->ndim != 1 || pos->shape[0] != x->shape[x->ndim - 1]))
    return shape_refuse(q, "pos_weight must be as long as x's last axis", pos, x);
  return TN_OK;
}

static bool is_reduced(const shape_query *q) { /* the family's attributes begin the same */
  return ((const tn_mse_loss_attrs *)q->attrs)->reduction != TN_REDUCTION_NONE;
}

tn_status shape_rule_pair_loss(const shape_query *q, extents *out, uint32_t num_out) {
  tn_status status = check_pair(q, q->in, q->num_in);
  out->rank = 0;
  if (!is_reduced(q)) shape_copy(out, q->in[0]);
  (void)num_out;
  return status;
}

tn_status shape_rule_pair_loss_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *dy = q->in[0], *x = q->in[1];
  tn_status status = check_pair(q, q->in + 1, q->num_in - 1);
  if (status) return status;
  if (is_reduced(q) ? dy->ndim != 0 : !shape_same(dy, x))
    return shape_refuse(q,
                        is_reduced(q) ? "dy must be a scalar (rank 0)"
                                      : "dy must have x's shape without reduction; it may be left "
                                        "out only where the loss is a scalar",
                        dy, x);
  shape_copy(out, x);
  (void)num_out;
  return TN_OK;
}
