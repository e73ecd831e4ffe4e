/* Shape rules of reductions and of scans. */
#include <math.h>

#include "dispatcher/shape/shape_rules.h"

/* Removes the marked axes of x, or keeps them with size 1. */
static void drop_axes(const DLTensor *x, uint32_t marked, bool keepdims, extents *out) {
  out->rank = 0;
  for (int32_t i = 0; i < x->ndim; ++i) {
    if (!(marked >> i & 1))
      out->dim[out->rank++] = x->shape[i];
    else if (keepdims)
      out->dim[out->rank++] = 1;
  }
}

static bool reduces_nothing(const DLTensor *x, uint32_t marked) {
  for (int32_t i = 0; i < x->ndim; ++i)
    if ((marked >> i & 1) && x->shape[i] == 0) return true;
  return false;
}

tn_status shape_rule_reduce(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_sum_attrs *attrs = q->attrs; /* every reduction begins like this */
  const DLTensor *x = q->in[0];
  uint32_t marked = 0;
  if (attrs->axes.count < 0 || attrs->axes.count > TN_MAX_RANK)
    return shape_refuse(q, "attrs->axes.count is out of range", NULL, NULL);
  for (int32_t i = 0; i < attrs->axes.count; ++i) {
    int32_t axis;
    if (!shape_axis(attrs->axes.axis[i], x->ndim, &axis))
      return shape_refuse(q, "attrs->axes names an axis that x does not have", x, NULL);
    if (marked >> axis & 1) return shape_refuse(q, "attrs->axes names an axis twice", x, NULL);
    marked |= 1u << axis;
  }
  if (attrs->axes.count == 0) marked = (1u << x->ndim) - 1;
  drop_axes(x, marked, attrs->keepdims, out);
  int64_t elements;
  bool empty_out = shape_elements(out->rank, out->dim, 1, &elements) && elements == 0;
  if (q->op->flags & TN_OPERATOR_NEEDS_ELEMENTS && reduces_nothing(x, marked) && !empty_out)
    return shape_refuse(q, "there is no result over no elements", x, NULL);
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_arg_reduce(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_argmax_attrs *attrs = q->attrs; /* argmin has the same layout */
  const DLTensor *x = q->in[0];
  int32_t axis;
  if (!shape_axis(attrs->axis, x->ndim, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of x", x, NULL);
  drop_axes(x, 1u << axis, attrs->keepdims, out);
  int64_t elements;
  bool empty_out = shape_elements(out->rank, out->dim, 1, &elements) && elements == 0;
  if (x->shape[axis] == 0 && !empty_out)
    return shape_refuse(q, "there is no result over no elements", x, NULL);
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_norm(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_norm_attrs *attrs = q->attrs;
  if (!(attrs->ord == 1 || attrs->ord == 2 || attrs->ord == (double)INFINITY))
    return shape_refuse(q, "attrs->ord must be 1, 2 or INFINITY", NULL, NULL);
  return shape_rule_reduce(q, out, num_out);
}

tn_status shape_rule_scan(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_cumsum_attrs *attrs = q->attrs; /* every scan begins like this */
  int32_t axis;
  if (!shape_axis(attrs->axis, q->in[0]->ndim, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of x", q->in[0], NULL);
  for (uint32_t i = 0; i < num_out; ++i) shape_copy(&out[i], q->in[0]);
  return TN_OK;
}
