/*
 * Rules of ops/conv.def and ops/conv_nd.def. Each convolution has three operators, which close
 * under differentiation: all three are linear in what they read, and the gradients of each are the
 * other two. Their numbers follow on each other.
 */
#include <string.h>

#include "dispatcher/base/limits.h"
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

static int64_t activation_of(const rule *r) {
  switch (r->op->id) {
  case TN_OP_CONV1D:
    return ((const tn_conv1d_attrs *)r->attrs)->activation;
  case TN_OP_CONV2D:
    return ((const tn_conv2d_attrs *)r->attrs)->activation;
  case TN_OP_CONV2D_ADD:
    return ((const tn_conv2d_add_attrs *)r->attrs)->activation;
  case TN_OP_CONV3D:
    return ((const tn_conv3d_attrs *)r->attrs)->activation;
  default:
    return TN_ACTIVATION_NONE;
  }
}

/* What the activation was applied to, computed again. */
static const tn_tensor *before_activation(rule *r) {
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
  const gradient_rule *how = gradient_rule_of(r->op);
  const tn_tensor *x = NULL;
  memcpy(attrs, r->attrs, r->op->attrs_size);
  memset(attrs + how->activation, 0, sizeof(int64_t));
  rule_call(r, r->op->id, attrs, r->num_in, r->in, 1, &x, 0);
  return x;
}

/* The gradient by what the activation was applied to. */
static const tn_tensor *through_activation(rule *r, const tn_tensor *dy) {
  const int64_t activation = activation_of(r);
  const tn_gelu_grad_attrs gelu = {sizeof gelu, activation == TN_ACTIVATION_GELU_TANH};
  tn_clamp_grad_attrs relu6 = TN_CLAMP_GRAD_DEFAULTS;
  relu6.min = 0, relu6.max = 6;
  switch (activation) {
  case TN_ACTIVATION_NONE:
    return dy;
  case TN_ACTIVATION_RELU:
    return relu_grad(dy, r->out[0]);
  case TN_ACTIVATION_SIGMOID:
    return sigmoid_grad(dy, r->out[0]);
  case TN_ACTIVATION_RELU6:
    return clamp_grad(dy, before_activation(r), &relu6);
  case TN_ACTIVATION_HARDSWISH:
    return hardswish_grad(dy, before_activation(r));
  case TN_ACTIVATION_SILU:
    return silu_grad(dy, before_activation(r));
  default:
    return gelu_grad(dy, before_activation(r), &gelu);
  }
}

/* x, w, bias, addend */
void gradient_conv(rule *r) {
  const uint32_t forward = r->op->id == TN_OP_CONV2D_ADD ? TN_OP_CONV2D : r->op->id;
  const tn_tensor *dy = through_activation(r, r->out_gradient[0]);
  if (rule_wants(r, 0)) rule_give(r, 0, by_input(r, forward, dy, r->in[1], &r->in_shape[0]));
  if (rule_wants(r, 1)) rule_give(r, 1, by_weight(r, forward, dy, r->in[0], &r->in_shape[1]));
  if (rule_wants(r, 2)) rule_give(r, 2, rule_sum_channels(r, dy));
  if (rule_wants(r, 3)) rule_give(r, 3, dy);
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
