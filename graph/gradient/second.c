/* Second derivatives: rules of the operators that are gradients of others. `ddx` is the gradient
 * by such an operator's result, and dy ddx what both of its factors have in common. */
#include <math.h>

#include "graph/gradient/expressions.h"

#define ROOT_TWO_BY_PI 0.79788456080286535588
#define ONE_BY_ROOT_TWO_PI 0.39894228040143267794
#define GELU_CUBE 0.044715

/* factor x^2 + constant */
static const tn_tensor *square_term(rule *r, const tn_tensor *x, double factor, double constant) {
  return fma(mul(x, num(x, factor)), x, num(x, constant));
}

/* x where the result is no 0 yet: squares of larger ones may be infinite. */
static const tn_tensor *within(rule *r, const tn_tensor *x, double limit) {
  return clamp(x, (&(tn_clamp_attrs){sizeof(tn_clamp_attrs), -limit, limit}));
}

/* d2/dx2 of x Phi(x): phi(x) (2 - x^2) */
static const tn_tensor *exact_gelu(rule *r, const tn_tensor *any) {
  const tn_tensor *x = within(r, any, 40);
  const tn_tensor *density = mul(exp(square_term(r, x, -0.5, 0)), num(x, ONE_BY_ROOT_TWO_PI));
  return mul(density, square_term(r, x, -1, 2));
}

/* That of x (1 + t) / 2, t = tanh(u): (1 - t^2) (u' + x u'' / 2 - x t u'^2) */
static const tn_tensor *tanh_gelu(rule *r, const tn_tensor *any) {
  const double k = ROOT_TWO_BY_PI;
  const tn_tensor *x = within(r, any, 10);
  const tn_tensor *t = tanh(mul(x, square_term(r, x, k * GELU_CUBE, k)));
  const tn_tensor *du = square_term(r, x, 3 * k * GELU_CUBE, k);
  const tn_tensor *bend = square_term(r, x, 3 * k * GELU_CUBE, 0);
  const tn_tensor *turned = mul(mul(x, t), square(du));
  return mul(one_less_square(t), sub(add(du, bend), turned));
}

void gradient_gelu_grad(rule *r) {
  const tn_gelu_grad_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->in[0], *x = r->in[1], *ddx = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, gelu_grad(ddx, x, SAME));
  if (!rule_wants(r, 1)) return;
  rule_give(r, 1, mul(mul(dy, ddx), attrs->tanh ? tanh_gelu(r, x) : exact_gelu(r, x)));
}

/* That of x s: s (1 - s) (2 + x (1 - 2 s)) */
void gradient_silu_grad(rule *r) {
  const tn_tensor *dy = r->in[0], *x = r->in[1], *ddx = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, silu_grad(ddx, x));
  if (!rule_wants(r, 1)) return;
  const tn_tensor *s = sigmoid(x), *lean = fma(s, num(x, -2), num(x, 1));
  rule_give(r, 1, mul(sigmoid_grad(mul(dy, ddx), s), fma(x, lean, num(x, 2))));
}

/* That of x t, t = tanh(softplus(x)): (1 - t^2) s (2 + x (1 - s - 2 t s)) */
void gradient_mish_grad(rule *r) {
  const tn_tensor *dy = r->in[0], *x = r->in[1], *ddx = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, mish_grad(ddx, x));
  if (!rule_wants(r, 1)) return;
  const tn_softplus_attrs exact = {sizeof exact, 1, INFINITY};
  const tn_tensor *s = sigmoid(x), *t = tanh(softplus(x, &exact));
  const tn_tensor *lean = sub(sub(num(x, 1), s), mul(mul(t, s), num(x, 2)));
  const tn_tensor *slope = mul(tanh_grad(mul(dy, ddx), t), s);
  rule_give(r, 1, mul(slope, fma(x, lean, num(x, 2))));
}

/* 0 beyond the threshold, below it beta s (1 - s). */
void gradient_softplus_grad(rule *r) {
  const tn_softplus_grad_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->in[0], *x = r->in[1], *ddx = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, softplus_grad(ddx, x, SAME));
  if (!rule_wants(r, 1)) return;
  const tn_tensor *scaled = mul(x, num(x, attrs->beta));
  const tn_tensor *slope = sigmoid_grad(mul(dy, ddx), sigmoid(scaled));
  rule_give(
      r, 1,
      where(greater(scaled, num(x, attrs->threshold)), num(x, 0), mul(slope, num(x, attrs->beta))));
}

/* --- over an axis --- */

static const tn_tensor *along(rule *r, const tn_tensor *x, int64_t axis) {
  return sum(x, (&(tn_sum_attrs){sizeof(tn_sum_attrs), {1, {(int32_t)axis}}, 1, 0}));
}

/* dx = y (dy - sum(dy y)) */
void gradient_softmax_grad(rule *r) {
  const tn_softmax_grad_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->in[0], *y = r->in[1], *ddx = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, softmax_grad(ddx, y, SAME));
  if (!rule_wants(r, 1)) return;
  const tn_tensor *centred = sub(dy, along(r, mul(dy, y), attrs->axis));
  rule_give(r, 1, sub(mul(ddx, centred), mul(dy, along(r, mul(ddx, y), attrs->axis))));
}

/* dx = dy - e^y sum(dy) */
void gradient_log_softmax_grad(rule *r) {
  const tn_log_softmax_grad_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->in[0], *y = r->in[1], *ddx = r->out_gradient[0];
  const tn_tensor *weighted = mul(ddx, exp(y));
  if (rule_wants(r, 0)) rule_give(r, 0, sub(ddx, along(r, weighted, attrs->axis)));
  if (rule_wants(r, 1)) rule_give(r, 1, neg(mul(weighted, along(r, dy, attrs->axis))));
}
