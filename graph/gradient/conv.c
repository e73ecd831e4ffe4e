/*
 * Rules of ops/conv.def and ops/conv_nd.def. Each convolution has three operators, which close
 * under differentiation: all three are linear in what they read, and the gradients of each are the
 * other two. Their numbers follow on each other.
 */
#include "graph/gradient/expressions.h"
#include "graph/gradient/parts.h"

_Static_assert(TN_OP_CONV2D_GRAD_WEIGHT == TN_OP_CONV2D + 2 &&
                   TN_OP_CONV_TRANSPOSE3D_GRAD_WEIGHT == TN_OP_CONV1D + 14,
               "an operator, its gradient by the input, that by the weight");

enum { SPACE = 2 }; /* the first spatial axis */

static bool is_transposed(uint32_t forward) { return forward >= TN_OP_CONV_TRANSPOSE1D; }

static const tn_tensor *convolve(rule *r, uint32_t forward, const tn_tensor *x,
                                 const tn_tensor *w) {
  const tn_tensor *in[] = {x, w, NULL}, *y = NULL;
  rule_call(r, forward, SAME, 3, in, 1, &y, 0);
  return y;
}

/* x: its shape is what the gradient has. */
static const tn_tensor *by_input(rule *r, uint32_t forward, const tn_tensor *dy, const tn_tensor *w,
                                 const rule_shape *x) {
  const tn_tensor *in[] = {dy, w}, *dx = NULL;
  if (is_transposed(forward)) /* whose input has one size alone */
    rule_call(r, forward + 1, SAME, 2, in, 1, &dx, 0);
  else
    rule_call_sized(r, forward + 1, "size", x->size + SPACE, 2, in, &dx);
  return dx;
}

static const tn_tensor *by_weight(rule *r, uint32_t forward, const tn_tensor *dy,
                                  const tn_tensor *x, const rule_shape *w) {
  const tn_tensor *in[] = {dy, x}, *dw = NULL;
  rule_call_sized(r, forward + 2, "kernel", w->size + SPACE, 2, in, &dw);
  return dw;
}

/* x, w, bias */
void gradient_conv(rule *r) {
  const uint32_t forward = r->op->id;
  const tn_tensor *dy = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, by_input(r, forward, dy, r->in[1], &r->in_shape[0]));
  if (rule_wants(r, 1)) rule_give(r, 1, by_weight(r, forward, dy, r->in[0], &r->in_shape[1]));
  if (rule_wants(r, 2)) rule_give(r, 2, rule_sum_channels(r, dy));
}

/* dy, w */
void gradient_conv_grad_input(rule *r) {
  const uint32_t forward = r->op->id - 1;
  const tn_tensor *v = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, convolve(r, forward, v, r->in[1]));
  if (rule_wants(r, 1)) rule_give(r, 1, by_weight(r, forward, r->in[0], v, &r->in_shape[1]));
}

/* dy, x */
void gradient_conv_grad_weight(rule *r) {
  const uint32_t forward = r->op->id - 2;
  const tn_tensor *v = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, convolve(r, forward, r->in[1], v));
  if (rule_wants(r, 1)) rule_give(r, 1, by_input(r, forward, r->in[0], v, &r->in_shape[1]));
}
