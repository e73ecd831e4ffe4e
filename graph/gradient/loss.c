/* Rules of ops/loss.def. */
#include "graph/gradient/expressions.h"
#include "graph/gradient/parts.h"

enum { CLASSES = 1 }; /* the axis of x */

/* What each sample's gradient is multiplied by, [n, 1, ...]: dy, over the count in a mean, 0 for
 * targets that do not count. */
static const tn_tensor *sample_weights(rule *r, const tn_tensor *dy, const tn_tensor *x,
                                       const tn_tensor *target) {
  const tn_axes classes = {.count = 1, .axis = {CLASSES}};
  return neg(rule_sum_keepdims(r, nll_loss_grad(dy, x, target, SAME), &classes));
}

/* A gradient is linear in dy: its own by dy is what it is at dy = 1, times what arrives. */
static void grad_of_dy(rule *r, const tn_tensor *(*at)(rule *, const tn_tensor *, const tn_tensor *,
                                                       const tn_tensor *, const void *)) {
  const tn_nll_loss_grad_attrs *attrs = r->attrs; /* the family's begin the same */
  bool each = attrs->reduction == TN_REDUCTION_NONE;
  const tn_sum_attrs over = {.struct_size = sizeof over,
                             .axes = {.count = each, .axis = {CLASSES}}};
  const rule_shape *shape = &r->in_shape[0];
  const tn_tensor *v = r->out_gradient[0];
  const tn_tensor *one = each ? expanded(num(v, 1), shape) : NULL;
  if (rule_wants(r, 0)) rule_give(r, 0, sum(mul(v, at(r, one, r->in[1], r->in[2], SAME)), &over));
}

void gradient_nll_loss_grad(rule *r) { grad_of_dy(r, expr_nll_loss_grad); }

/* dx = (softmax(x) - q) w, w the weights of samples: by x it is the gradient of the softmax. */
void gradient_cross_entropy_grad(rule *r) {
  const tn_softmax_attrs classes = {.struct_size = sizeof classes, .axis = CLASSES};
  const tn_softmax_grad_attrs same = {.struct_size = sizeof same, .axis = CLASSES};
  const tn_tensor *x = r->in[1], *v = r->out_gradient[0];
  grad_of_dy(r, expr_cross_entropy_grad);
  if (!rule_wants(r, 1)) return;
  const tn_tensor *w = sample_weights(r, r->in[0], x, r->in[2]);
  rule_give(r, 1, softmax_grad(mul(v, w), softmax(x, &classes), &same));
}
