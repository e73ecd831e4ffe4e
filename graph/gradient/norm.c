/*
 * Rules of ops/norm.def's forward operators. A fused operator gives the gradients by way of y;
 * those by way of the statistics, which second derivatives have, are made of others.
 */
#include "graph/gradient/norm.h"

#include "graph/gradient/expressions.h"

/* --- one shape for the family --- */

static int64_t product(const int64_t *size, int32_t count) {
  int64_t n = 1;
  for (int32_t i = 0; i < count; ++i) n *= size[i];
  return n;
}

static bool is_batch(const rule *r) {
  return r->op->id == TN_OP_BATCH_NORM || r->op->id == TN_OP_BATCH_NORM_GRAD ||
         r->op->id == TN_OP_BATCH_NORM_INFERENCE;
}

static int64_t groups_of(const rule *r, int64_t channels) {
  if (is_batch(r) || r->op->id == TN_OP_INSTANCE_NORM || r->op->id == TN_OP_INSTANCE_NORM_GRAD)
    return channels;
  return ((const tn_group_norm_attrs *)r->attrs)->groups; /* group_norm_grad's begin the same */
}

static bool is_by_axis(const rule *r) {
  return r->op->id == TN_OP_LAYER_NORM || r->op->id == TN_OP_LAYER_NORM_GRAD ||
         r->op->id == TN_OP_RMS_NORM || r->op->id == TN_OP_RMS_NORM_GRAD;
}

norm_view norm_view_of(const rule *r) {
  const rule_shape *x = &r->in_shape[0];
  norm_view v = {.set = {.count = 2, .axis = {2, 3}}, .rows = {.count = 2, .axis = {0, 3}}};
  if (is_by_axis(r)) {
    int64_t axis = ((const tn_layer_norm_attrs *)r->attrs)->axis; /* the family's begin the same */
    int32_t first = (int32_t)(axis < 0 ? axis + x->rank : axis);
    v.x[0] = product(x->size, first);
    v.x[1] = v.x[3] = 1;
    v.x[2] = product(x->size + first, x->rank - first);
  } else {
    v.x[0] = x->size[0];
    v.x[1] = groups_of(r, x->size[1]);
    v.x[2] = v.x[1] ? x->size[1] / v.x[1] : 1;
    v.x[3] = product(x->size + 2, x->rank - 2);
  }
  if (is_batch(r)) v.set = (tn_axes){.count = 3, .axis = {0, 2, 3}};
  v.count = 1;
  for (int32_t i = 0; i < v.set.count; ++i) v.count *= (double)v.x[v.set.axis[i]];
  v.wide = tn_dtype_wide(x->dtype);
  return v;
}

const tn_tensor *norm_whole(rule *r, const norm_view *v, const tn_tensor *x) {
  return x ? rule_cast(r, rule_reshape(r, x, 4, v->x), v->wide) : NULL;
}

const tn_tensor *norm_weights(rule *r, const norm_view *v, const tn_tensor *gamma) {
  const int64_t size[4] = {1, v->x[1], v->x[2], 1};
  return gamma ? rule_cast(r, rule_reshape(r, gamma, 4, size), v->wide) : NULL;
}

const tn_tensor *norm_statistics(rule *r, const norm_view *v, const tn_tensor *mean) {
  const int64_t size[4] = {v->set.count == 3 ? 1 : v->x[0], v->x[1], 1, 1};
  return mean ? rule_reshape(r, mean, 4, size) : NULL;
}

/* --- the fused gradients --- */

static uint32_t fused_of(uint32_t op) {
  switch (op) {
  case TN_OP_LAYER_NORM:
    return TN_OP_LAYER_NORM_GRAD;
  case TN_OP_GROUP_NORM:
    return TN_OP_GROUP_NORM_GRAD;
  case TN_OP_INSTANCE_NORM:
    return TN_OP_INSTANCE_NORM_GRAD;
  case TN_OP_RMS_NORM:
    return TN_OP_RMS_NORM_GRAD;
  case TN_OP_BATCH_NORM:
  case TN_OP_BATCH_NORM_INFERENCE:
    return TN_OP_BATCH_NORM_GRAD;
  default:
    return op; /* a gradient's own rule */
  }
}

const tn_tensor *norm_fused(rule *r, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *mean,
                            const tn_tensor *rstd, const tn_tensor *gamma, const tn_tensor **dgamma,
                            const tn_tensor **dbeta) {
  const uint32_t op = fused_of(r->op->id), skip = (dgamma ? 0 : 2) | (dbeta ? 0 : 4);
  const tn_tensor *with_mean[] = {dy, x, mean, rstd, gamma}, *without[] = {dy, x, rstd, gamma};
  const tn_tensor *out[3] = {NULL};
  bool bare = op == TN_OP_BATCH_NORM_GRAD || op == TN_OP_INSTANCE_NORM_GRAD;
  if (op == TN_OP_RMS_NORM_GRAD)
    rule_call(r, op, SAME, 4, without, 2, out, skip & 2);
  else
    rule_call(r, op, bare ? NULL : SAME, 5, with_mean, 3, out, skip);
  if (dgamma) *dgamma = out[1];
  if (dbeta) *dbeta = out[2];
  return out[0];
}

/* --- the rules --- */

/* By way of the statistics: dmean / count - drstd rstd^3 (x - mean) / count. */
static void grad_of_statistics(rule *r, const norm_view *v, const tn_tensor *mean,
                               const tn_tensor *rstd, const tn_tensor *dmean,
                               const tn_tensor *drstd) {
  if (!rule_wants(r, 0)) return;
  if (dmean) {
    const tn_tensor *share = norm_statistics(r, v, rule_scale(r, dmean, 1 / v->count));
    rule_give(r, 0, reshaped(rule_expand(r, share, 4, v->x), &r->in_shape[0]));
  }
  if (!drstd) return;
  const tn_tensor *x = norm_whole(r, v, r->in[0]);
  const tn_tensor *z = mean ? sub(x, norm_statistics(r, v, mean)) : x;
  const tn_tensor *factor = rule_scale(r, mul(drstd, mul(rstd, square(rstd))), -1 / v->count);
  rule_give(r, 0, reshaped(mul(z, norm_statistics(r, v, factor)), &r->in_shape[0]));
}

/* By way of y. A shift beside no scale is of a type that the fused operator cannot know. */
static void grad_of_y(rule *r, const tn_tensor *dy, const tn_tensor *mean, const tn_tensor *rstd) {
  const tn_tensor *gamma = r->in[1], *dx = NULL, *dgamma = NULL, *dbeta = NULL;
  bool shifts = r->op->id != TN_OP_RMS_NORM && rule_wants(r, 2);
  if (rule_wants(r, 0) || rule_wants(r, 1)) {
    dx = norm_fused(r, dy, r->in[0], mean, rstd, gamma, rule_wants(r, 1) ? &dgamma : NULL,
                    shifts && gamma ? &dbeta : NULL);
    if (rule_wants(r, 0)) rule_give(r, 0, dx);
    if (rule_wants(r, 1)) rule_give(r, 1, dgamma);
  }
  if (!shifts) return;
  if (!dbeta) dbeta = is_by_axis(r) ? dy : rule_sum_channels(r, dy);
  rule_give(r, 2, dbeta);
}

/* y, mean and rstd are the outputs from `y` on; rms_norm has no mean. */
static void norm_rule(rule *r, uint32_t y, const tn_tensor *dmean, const tn_tensor *drstd) {
  const norm_view v = norm_view_of(r);
  const bool has_mean = r->op->id != TN_OP_RMS_NORM;
  const tn_tensor *mean = has_mean ? r->out[y + 1] : NULL, *rstd = r->out[y + 1 + has_mean];
  if (r->out_gradient[y]) grad_of_y(r, r->out_gradient[y], mean, rstd);
  grad_of_statistics(r, &v, mean, rstd, dmean, drstd);
}

void gradient_centred_norm(rule *r) { norm_rule(r, 0, r->out_gradient[1], r->out_gradient[2]); }

void gradient_rms_norm(rule *r) { norm_rule(r, 0, NULL, r->out_gradient[1]); }

/* --- batch_norm --- */

enum { RUNNING_MEAN, RUNNING_VAR, BATCH_Y, BATCH_MEAN, BATCH_RSTD }; /* its outputs */
enum { IN_RUNNING_MEAN = 3, IN_RUNNING_VAR };

/* The running statistics before the call, and the share that the batch has in those after it: the
 * mean's, and the unbiased variance's, (rstd^-2 - eps) count / (count - 1). */
static void grad_of_running(rule *r, const norm_view *v, const tn_tensor *rstd,
                            const tn_tensor **dmean, const tn_tensor **drstd) {
  const tn_batch_norm_attrs *attrs = r->attrs;
  const tn_tensor *mean = r->out_gradient[RUNNING_MEAN], *variance = r->out_gradient[RUNNING_VAR];
  const double share = v->count > 0 ? attrs->momentum : 0, one_less = v->count - 1;
  if (mean && rule_wants(r, IN_RUNNING_MEAN))
    rule_give(r, IN_RUNNING_MEAN, rule_scale(r, mean, 1 - share));
  if (variance && rule_wants(r, IN_RUNNING_VAR))
    rule_give(r, IN_RUNNING_VAR, one_less > 0 ? rule_scale(r, variance, 1 - share) : variance);
  if (mean) *dmean = rule_plus(r, *dmean, rule_scale(r, mean, share));
  if (!variance || !(one_less > 0)) return;
  const double factor = -2 * share * v->count / one_less;
  const tn_tensor *by_rstd = div(rule_scale(r, variance, factor), mul(rstd, square(rstd)));
  *drstd = rule_plus(r, *drstd, by_rstd);
}

void gradient_batch_norm(rule *r) {
  const norm_view v = norm_view_of(r);
  const tn_tensor *dmean = r->out_gradient[BATCH_MEAN], *drstd = r->out_gradient[BATCH_RSTD];
  grad_of_running(r, &v, r->out[BATCH_RSTD], &dmean, &drstd);
  norm_rule(r, BATCH_Y, dmean, drstd);
}

enum { GIVEN_X, GIVEN_MEAN, GIVEN_VAR, GIVEN_GAMMA, GIVEN_BETA }; /* inputs of the inference */

/* y = z gamma + beta, z = (x - mean) rstd. */
void gradient_batch_norm_inference(rule *r) {
  const tn_batch_norm_inference_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->out_gradient[0], *x = r->in[GIVEN_X], *mean = r->in[GIVEN_MEAN];
  const tn_tensor *variance = r->in[GIVEN_VAR], *gamma = r->in[GIVEN_GAMMA];
  const tn_dtype wide = tn_dtype_wide(r->in_shape[GIVEN_X].dtype);
  if (rule_wants(r, GIVEN_X)) { /* that of dy, about 0 */
    const tn_tensor *zero = expanded(num(variance, 0), &r->in_shape[GIVEN_MEAN]);
    rule_give(r, GIVEN_X, batch_norm_inference(dy, zero, variance, gamma, NULL, attrs));
  }
  bool scaled = rule_wants(r, GIVEN_VAR) || rule_wants(r, GIVEN_GAMMA);
  if (!scaled && !rule_wants(r, GIVEN_MEAN) && !rule_wants(r, GIVEN_BETA)) return;
  const norm_view v = norm_view_of(r);
  const tn_tensor *rstd = rsqrt(add(variance, num(variance, attrs->eps)));
  const tn_tensor *factor = gamma ? mul(rule_cast(r, gamma, wide), rstd) : rstd;
  const tn_tensor *shift = rule_cast(r, rule_sum_channels(r, dy), wide);
  if (rule_wants(r, GIVEN_BETA)) rule_give(r, GIVEN_BETA, shift);
  if (rule_wants(r, GIVEN_MEAN)) rule_give(r, GIVEN_MEAN, neg(mul(shift, factor)));
  if (!scaled) return;
  const tn_tensor *distance = sub(norm_whole(r, &v, x), norm_statistics(r, &v, mean));
  const tn_tensor *products = reshaped(mul(norm_whole(r, &v, dy), distance), &r->in_shape[GIVEN_X]);
  const tn_tensor *dfactor = mul(rule_sum_channels(r, products), rstd);
  if (rule_wants(r, GIVEN_GAMMA)) rule_give(r, GIVEN_GAMMA, dfactor);
  if (rule_wants(r, GIVEN_VAR))
    rule_give(r, GIVEN_VAR, rule_scale(r, mul(dfactor, mul(factor, rstd)), -0.5));
}
