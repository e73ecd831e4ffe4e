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

/* dx = (softmax(x) - q) w, w the weights of samples. By dy it is dx at dy = 1; by x it is that of
 * the softmax. */
void gradient_cross_entropy_grad(rule *r) {
  const tn_cross_entropy_grad_attrs *attrs = r->attrs;
  const tn_softmax_attrs classes = {.struct_size = sizeof classes, .axis = CLASSES};
  const tn_softmax_grad_attrs same = {.struct_size = sizeof same, .axis = CLASSES};
  const tn_tensor *dy = r->in[0], *x = r->in[1], *target = r->in[2], *v = r->out_gradient[0];
  if (rule_wants(r, 0)) {
    bool each = attrs->reduction == TN_REDUCTION_NONE;
    const tn_sum_attrs over = {.struct_size = sizeof over,
                               .axes = {.count = each, .axis = {CLASSES}}};
    const rule_shape *shape = &r->in_shape[0];
    const tn_tensor *one = each ? rule_expand(r, num(v, 1), shape->rank, shape->size) : NULL;
    rule_give(r, 0, sum(mul(v, cross_entropy_grad(one, x, target, SAME)), &over));
  }
  if (rule_wants(r, 1)) {
    const tn_tensor *w = sample_weights(r, dy, x, target);
    rule_give(r, 1, softmax_grad(mul(v, w), softmax(x, &classes), &same));
  }
}
