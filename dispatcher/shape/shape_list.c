/* Shape rules of operators with lists of tensors among their arguments. */
#include <inttypes.h>
#include <stdio.h>

#include "dispatcher/shape/shape_rules.h"

/* Whether the shapes are equal along all axes but one. */
static bool alike_but(const DLTensor *a, const DLTensor *b, int32_t axis) {
  if (a->ndim != b->ndim) return false;
  for (int32_t d = 0; d < a->ndim; ++d)
    if (d != axis && a->shape[d] != b->shape[d]) return false;
  return true;
}

tn_status shape_rule_concat(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_concat_attrs *attrs = q->attrs;
  const DLTensor *first = q->in[0];
  int32_t axis;
  (void)num_out;
  if (!shape_axis(attrs->axis, first->ndim, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of the inputs", first, NULL);
  shape_copy(out, first);
  for (uint32_t i = 1; i < q->num_in; ++i) {
    if (!alike_but(first, q->in[i], axis))
      return shape_refuse(q, "the shapes must be equal but for the axis", first, q->in[i]);
    if (__builtin_add_overflow(out->dim[axis], q->in[i]->shape[axis], &out->dim[axis]))
      return shape_refuse(q, "the size of y overflows", first, q->in[i]);
  }
  return TN_OK;
}

tn_status shape_rule_stack(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_stack_attrs *attrs = q->attrs;
  const DLTensor *first = q->in[0];
  int32_t axis;
  (void)num_out;
  if (first->ndim == TN_MAX_RANK)
    return shape_refuse(q, "the inputs have as many axes as there can be", first, NULL);
  if (!shape_axis(attrs->axis, first->ndim + 1, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of y", first, NULL);
  for (uint32_t i = 1; i < q->num_in; ++i)
    if (!shape_same(first, q->in[i]))
      return shape_refuse(q, "the shapes must be equal", first, q->in[i]);
  out->rank = first->ndim + 1;
  for (int32_t d = 0; d < out->rank; ++d)
    out->dim[d] = d == axis ? q->length : first->shape[d - (d > axis)];
  return TN_OK;
}

/* All arguments are lists; tensor k of each has the shape of tensor k of the first. */
tn_status shape_rule_update_lists(const shape_query *q, extents *out, uint32_t num_out) {
  uint32_t all = q->num_in + q->num_inout;
  char what[96];
  (void)out, (void)num_out;
  for (uint32_t i = 0; i < all; ++i) {
    const DLTensor *t = i < q->num_in ? q->in[i] : q->inout[i - q->num_in];
    const DLTensor *like = q->in[i % q->length];
    if (shape_same(t, like)) continue;
    snprintf(what, sizeof what, "tensor %" PRIu32 " of each list must have one shape",
             i % q->length);
    return shape_refuse(q, what, like, t);
  }
  return TN_OK;
}

/* Lists of any shapes; all other arguments are scalars. */
tn_status shape_rule_scalars(const shape_query *q, extents *out, uint32_t num_out) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < q->op->num_args && q->op->args[i].kind < TN_ARG_OUT; ++i) {
    bool list = q->op->args[i].flags & TN_ARG_LIST;
    const DLTensor *t = at < q->num_in ? q->in[at] : q->inout[at - q->num_in];
    char what[96];
    at += list ? q->length : 1;
    if (list || !t || t->ndim == 0) continue;
    snprintf(what, sizeof what, "%s must be a scalar (rank 0)", q->op->args[i].name);
    return shape_refuse(q, what, t, NULL);
  }
  for (uint32_t i = 0; i < num_out; ++i) out[i].rank = 0;
  return TN_OK;
}
