/*
 * Rules of ops/pool.def, ops/pool_nd.def and ops/resize.def: linear operators, and maxima that are
 * so once it is known which elements they are. A gradient's number follows on its operator's.
 */
#include "graph/gradient/expressions.h"

_Static_assert(TN_OP_MAX_POOL2D_GRAD == TN_OP_MAX_POOL2D + 1 &&
                   TN_OP_AVG_POOL2D_GRAD == TN_OP_AVG_POOL2D + 1 &&
                   TN_OP_ADAPTIVE_AVG_POOL3D_GRAD == TN_OP_MAX_POOL1D + 19 &&
                   TN_OP_RESIZE_GRAD == TN_OP_RESIZE + 1,
               "an operator, its gradient");

enum { SPACE = 2 }; /* the first spatial axis */

void gradient_max_pool(rule *r) {
  const tn_tensor *in[] = {r->out_gradient[0], r->out[1]}, *dx = NULL;
  rule_call_sized(r, r->op->id + 1, "size", r->in_shape[0].size + SPACE, 2, in, &dx);
  if (rule_wants(r, 0)) rule_give(r, 0, dx);
}

/* x with its spatial axes as one. */
static const tn_tensor *flat(rule *r, const tn_tensor *x, const rule_shape *shape) {
  int64_t size[3] = {shape->size[0], shape->size[1], 1};
  for (int32_t i = SPACE; i < shape->rank; ++i) size[2] *= shape->size[i];
  return rule_reshape(r, x, 3, size);
}

/* dy, index: what arrives at the elements that were the maxima. */
void gradient_max_pool_grad(rule *r) {
  const tn_take_along_axis_attrs space = {.struct_size = sizeof space, .axis = SPACE};
  const tn_tensor *v = flat(r, r->out_gradient[0], &r->out_shape[0]);
  const tn_tensor *index = flat(r, r->in[1], &r->in_shape[1]);
  if (rule_wants(r, 0))
    rule_give(r, 0, reshaped(take_along_axis(v, index, &space), &r->in_shape[0]));
}

/* Those whose gradient needs their input's size. */
void gradient_sized(rule *r) {
  const tn_tensor *dx = NULL;
  rule_call_sized(r, r->op->id + 1, "size", r->in_shape[0].size + SPACE, 1, r->out_gradient, &dx);
  if (rule_wants(r, 0)) rule_give(r, 0, dx);
}

/* Their gradients, whose own is the operator. */
void gradient_pool_grad(rule *r) {
  const tn_tensor *dy = NULL;
  rule_call(r, r->op->id - 1, SAME, 1, r->out_gradient, 1, &dy, 0);
  if (rule_wants(r, 0)) rule_give(r, 0, dy);
}

/* The same where the operator is told its output's size. */
void gradient_sized_grad(rule *r) {
  const tn_tensor *dy = NULL;
  rule_call_sized(r, r->op->id - 1, "output", r->in_shape[0].size + SPACE, 1, r->out_gradient, &dy);
  if (rule_wants(r, 0)) rule_give(r, 0, dy);
}
