/*
 * Rules of ops/pair_loss.def. A loss is the sum of its elements' times a share: dy, in a mean over
 * their count. What is left of each rule is the derivative of an element.
 */
#include "graph/gradient/expressions.h"
#include "graph/gradient/parts.h"

static int64_t reduction_of(const rule *r) {
  return ((const tn_mse_loss_attrs *)r->attrs)->reduction; /* the family's begin the same */
}

/* x: of the elements. dy: NULL is 1. Where there are none, there is nothing to share. */
static const tn_tensor *share_of(rule *r, const tn_tensor *dy, const rule_shape *x,
                                 const tn_tensor *like) {
  double count = rule_count(x, NULL);
  double share = reduction_of(r) == TN_REDUCTION_MEAN && count > 0 ? 1 / count : 1;
  if (!dy) return num(like, share);
  return share == 1 ? dy : rule_scale(r, dy, share);
}

/* Of a gradient's rule: by dy, from what the gradient is at dy = 1 and what arrives. */
static void give_by_dy(rule *r, const tn_tensor *at_one) {
  const tn_tensor *products = mul(r->out_gradient[0], at_one);
  rule_give(r, 0, reduction_of(r) == TN_REDUCTION_NONE ? products : sum(products, NULL));
}

/* The dy of that: 1, of the loss's shape. */
static const tn_tensor *one_of(rule *r) {
  if (reduction_of(r) != TN_REDUCTION_NONE) return NULL;
  return expanded(num(r->out_gradient[0], 1), &r->in_shape[1]);
}

/* --- of differences --- */

/* By target it is the gradient by x with its sign turned. */
static void give_both(rule *r, uint32_t x, const tn_tensor *dx) {
  if (rule_wants(r, x)) rule_give(r, x, dx);
  if (rule_wants(r, x + 1)) rule_give(r, x + 1, neg(dx));
}

void gradient_mse_loss(rule *r) {
  give_both(r, 0, mse_loss_grad(r->out_gradient[0], r->in[0], r->in[1], SAME));
}

void gradient_huber_loss(rule *r) {
  give_both(r, 0, huber_loss_grad(r->out_gradient[0], r->in[0], r->in[1], SAME));
}

void gradient_mse_loss_grad(rule *r) {
  const tn_tensor *v = r->out_gradient[0];
  const tn_tensor *share = share_of(r, r->in[0], &r->in_shape[1], v);
  if (rule_wants(r, 0)) give_by_dy(r, mse_loss_grad(one_of(r), r->in[1], r->in[2], SAME));
  if (rule_wants(r, 1) || rule_wants(r, 2)) give_both(r, 1, mul(v, rule_scale(r, share, 2)));
}

void gradient_huber_loss_grad(rule *r) {
  const double delta = ((const tn_huber_loss_grad_attrs *)r->attrs)->delta;
  const tn_clamp_grad_attrs between = {.struct_size = sizeof between, .min = -delta, .max = delta};
  const tn_tensor *v = r->out_gradient[0], *x = r->in[1], *target = r->in[2];
  const tn_tensor *share = share_of(r, r->in[0], &r->in_shape[1], v);
  if (rule_wants(r, 0)) give_by_dy(r, huber_loss_grad(one_of(r), x, target, SAME));
  if (rule_wants(r, 1) || rule_wants(r, 2))
    give_both(r, 1, clamp_grad(mul(v, share), sub(x, target), &between));
}

/* --- kl_div --- */

/* d/dt t (ln t - x) = ln t + 1 - x, 0 where t is 0, or of e^t (t - x), e^t (t - x + 1). */
void gradient_kl_div(rule *r) {
  const tn_kl_div_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->out_gradient[0], *x = r->in[0], *t = r->in[1];
  if (rule_wants(r, 0)) rule_give(r, 0, kl_div_grad(dy, x, t, SAME));
  if (!rule_wants(r, 1)) return;
  const tn_tensor *one = num(t, 1), *zero = num(t, 0), *each;
  if (attrs->log_target)
    each = mul(exp(t), add(sub(t, x), one));
  else
    each = where(equal(t, zero), zero, sub(add(log(t), one), x));
  rule_give(r, 1, mul(each, share_of(r, dy, &r->in_shape[0], t)));
}

/* dx = -t share, or -e^t share; x has no part in it. */
void gradient_kl_div_grad(rule *r) {
  const tn_kl_div_grad_attrs *attrs = r->attrs;
  const tn_tensor *v = r->out_gradient[0], *t = r->in[2];
  if (rule_wants(r, 0)) give_by_dy(r, kl_div_grad(one_of(r), r->in[1], t, SAME));
  if (!rule_wants(r, 2)) return;
  const tn_tensor *dt = neg(mul(v, share_of(r, r->in[0], &r->in_shape[1], v)));
  rule_give(r, 2, attrs->log_target ? mul(dt, exp(t)) : dt);
}

/* --- bce_with_logits --- */

/* Inputs from `x` on: x, target, weight, pos_weight. */
typedef struct logits {
  const tn_tensor *x, *target, *weight, *pos_weight;
  uint32_t first;
} logits;

static logits logits_of(const rule *r, uint32_t first) {
  return (logits){r->in[first], r->in[first + 1], r->in[first + 2], r->in[first + 3], first};
}

static const tn_tensor *weighted(rule *r, const logits *l, const tn_tensor *t) {
  return l->weight ? mul(t, l->weight) : t;
}

/* What pos_weight multiplies ln(1 + e^-x) or its derivative by beyond 1: pos_weight - 1. */
static const tn_tensor *beyond_one(rule *r, const logits *l, const tn_tensor *t) {
  return l->pos_weight ? mul(t, sub(l->pos_weight, num(t, 1))) : NULL;
}

/* y = weight ((1 - target) x + (1 + (pos_weight - 1) target) softplus(-x)) */
void gradient_bce_with_logits(rule *r) {
  const tn_bce_with_logits_attrs none = {.struct_size = sizeof none,
                                         .reduction = TN_REDUCTION_NONE};
  const logits l = logits_of(r, 0);
  const tn_tensor *dy = r->out_gradient[0];
  if (rule_wants(r, 0))
    rule_give(r, 0, bce_with_logits_grad(dy, l.x, l.target, l.weight, l.pos_weight, SAME));
  if (!rule_wants(r, 1) && !rule_wants(r, 2) && !rule_wants(r, 3)) return;
  const tn_tensor *share = share_of(r, dy, &r->in_shape[0], l.x);
  if (rule_wants(r, 2)) {
    const tn_tensor *each = bce_with_logits(l.x, l.target, NULL, l.pos_weight, &none);
    rule_give(r, 2, mul(each, share));
  }
  if (!rule_wants(r, 1) && !rule_wants(r, 3)) return;
  const tn_softplus_attrs exact = {.struct_size = sizeof exact, .beta = 1, .threshold = 40};
  const tn_tensor *plus = softplus(neg(l.x), &exact);
  if (rule_wants(r, 1)) {
    const tn_tensor *more = beyond_one(r, &l, plus);
    const tn_tensor *each = more ? sub(more, l.x) : neg(l.x);
    rule_give(r, 1, mul(weighted(r, &l, each), share));
  }
  if (rule_wants(r, 3)) rule_give(r, 3, mul(weighted(r, &l, mul(l.target, plus)), share));
}

/* dx = weight (1 - target - c s) share, c = 1 + (pos_weight - 1) target, s = 1 / (1 + e^x) */
void gradient_bce_with_logits_grad(rule *r) {
  const logits l = logits_of(r, 1);
  const tn_tensor *v = r->out_gradient[0], *one = num(v, 1);
  if (rule_wants(r, 0))
    give_by_dy(r, bce_with_logits_grad(one_of(r), l.x, l.target, l.weight, l.pos_weight, SAME));
  const tn_tensor *arrives = mul(v, share_of(r, r->in[0], &r->in_shape[1], v));
  const tn_tensor *s = sigmoid(neg(l.x)), *more = beyond_one(r, &l, l.target);
  const tn_tensor *c = more ? add(more, one) : one;
  if (rule_wants(r, 3)) rule_give(r, 3, mul(arrives, sub(sub(one, l.target), mul(c, s))));
  arrives = weighted(r, &l, arrives);
  if (rule_wants(r, 1)) rule_give(r, 1, mul(sigmoid_grad(arrives, s), c));
  if (rule_wants(r, 2)) {
    const tn_tensor *beyond = beyond_one(r, &l, s);
    rule_give(r, 2, neg(mul(arrives, beyond ? add(beyond, one) : one)));
  }
  if (rule_wants(r, 4)) rule_give(r, 4, neg(mul(arrives, mul(l.target, s))));
}
