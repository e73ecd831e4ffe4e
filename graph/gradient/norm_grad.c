/*
 * Rules of ops/norm.def's gradients, which second derivatives go through. With z = (x - mean) rstd
 * and g = dy gamma, means E over the normalised set,
 *     dx = rstd (g - E g - z E(g z)), dgamma = sum dy z, dbeta = sum dy;
 * rms_norm has neither mean, E g nor dbeta. x, mean and rstd count as independent: what arrives at
 * the statistics passes on by the forward operator's rule.
 */
#include "graph/gradient/expressions.h"
#include "graph/gradient/norm.h"

/* Tensors in the view. */
typedef struct norm_call {
  norm_view view;
  bool has_mean;
  const tn_tensor *dy, *distance, *rstd, *gamma, *z, *g; /* distance: x - mean */
  const tn_tensor *v, *u, *w; /* what arrives by dx, dgamma, dbeta; NULL: nothing */
  uint32_t at_rstd;           /* number of that input */
} norm_call;

static norm_call call_of(rule *r) {
  norm_call c = {.view = norm_view_of(r), .has_mean = r->op->id != TN_OP_RMS_NORM_GRAD};
  const norm_view *v = &c.view;
  c.at_rstd = 2 + c.has_mean;
  c.dy = norm_whole(r, v, r->in[0]);
  c.distance = norm_whole(r, v, r->in[1]);
  if (c.has_mean) c.distance = sub(c.distance, norm_statistics(r, v, r->in[2]));
  c.rstd = norm_statistics(r, v, r->in[c.at_rstd]);
  c.gamma = norm_weights(r, v, r->in[c.at_rstd + 1]);
  c.z = mul(c.distance, c.rstd);
  c.g = c.gamma ? mul(c.dy, c.gamma) : c.dy;
  c.v = norm_whole(r, v, r->out_gradient[0]);
  c.u = norm_weights(r, v, r->out_gradient[1]);
  c.w = c.has_mean ? norm_weights(r, v, r->out_gradient[2]) : NULL;
  return c;
}

/* The derivative of dx / rstd by g, at what arrives: the same form, v - E v - z E(v z). */
static const tn_tensor *without_parts(rule *r, const norm_call *c, const tn_tensor *v,
                                      const tn_tensor **with_z) {
  const tn_tensor *rest = v;
  *with_z = rule_mean_keepdims(r, mul(v, c->z), &c->view.set);
  if (c->has_mean) rest = sub(rest, rule_mean_keepdims(r, v, &c->view.set));
  return sub(rest, mul(c->z, *with_z));
}

static void give(rule *r, uint32_t i, const tn_tensor *t) {
  if (rule_wants(r, i)) rule_give(r, i, reshaped(t, &r->in_shape[i]));
}

static void give_statistics(rule *r, const norm_call *c, uint32_t i, const tn_tensor *each) {
  if (rule_wants(r, i)) give(r, i, rule_sum_keepdims(r, each, &c->view.set));
}

/* By what the fused operator takes as dy and gamma. */
static void grad_of_scaled(rule *r, const norm_call *c, const tn_tensor *by_g) {
  const uint32_t gamma = c->at_rstd + 1;
  const tn_tensor *by_dy = by_g && c->gamma ? mul(by_g, c->gamma) : by_g;
  if (c->u) by_dy = rule_plus(r, by_dy, mul(c->z, c->u));
  if (c->w) by_dy = rule_plus(r, by_dy, rule_expand(r, c->w, 4, c->view.x));
  give(r, 0, by_dy);
  if (by_g && rule_wants(r, gamma))
    give(r, gamma, rule_sum_keepdims(r, mul(by_g, c->dy), &c->view.rows));
}

/* By z, and by way of it by x, mean and rstd, which dx has as a factor too. */
static void grad_of_normalised(rule *r, const norm_call *c, const tn_tensor *with_z) {
  const tn_tensor *by_z = c->u ? mul(c->dy, c->u) : NULL, *by_rstd = NULL;
  if (c->v) {
    const tn_tensor *g_with_z, *rest = without_parts(r, c, c->g, &g_with_z);
    const tn_tensor *parts = add(mul(c->v, g_with_z), mul(c->g, with_z));
    by_z = rule_plus(r, by_z, neg(mul(parts, c->rstd)));
    by_rstd = mul(c->v, rest);
  }
  if (!by_z) return;
  const tn_tensor *by_x = mul(by_z, c->rstd);
  give(r, 1, by_x);
  if (c->has_mean) give_statistics(r, c, 2, neg(by_x));
  give_statistics(r, c, c->at_rstd, rule_plus(r, by_rstd, mul(by_z, c->distance)));
}

void gradient_norm_grad(rule *r) {
  const norm_call c = call_of(r);
  const tn_tensor *with_z = NULL, *by_g = NULL;
  if (c.v) by_g = mul(without_parts(r, &c, c.v, &with_z), c.rstd);
  grad_of_scaled(r, &c, by_g);
  grad_of_normalised(r, &c, with_z);
}
