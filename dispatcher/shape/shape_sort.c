/* Shape rules of sorting and of what follows from it. */
#include "dispatcher/shape/shape_rules.h"

static tn_status find_axis(const shape_query *q, int64_t attr, int32_t *axis) {
  const DLTensor *x = q->in[0];
  if (shape_axis(attr, x->ndim, axis)) return TN_OK;
  return shape_refuse(q, "attrs->axis is not an axis of x", x, NULL);
}

tn_status shape_rule_sort(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_sort_attrs *attrs = q->attrs; /* argsort has the same layout */
  int32_t axis;
  tn_status status = find_axis(q, attrs->axis, &axis);
  if (status) return status;
  for (uint32_t i = 0; i < num_out; ++i) shape_copy(&out[i], q->in[0]);
  return TN_OK;
}

tn_status shape_rule_topk(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_topk_attrs *attrs = q->attrs;
  int32_t axis;
  tn_status status = find_axis(q, attrs->axis, &axis);
  if (status) return status;
  if (attrs->k > q->in[0]->shape[axis])
    return shape_refuse(q, "attrs->k is larger than x along attrs->axis", q->in[0], NULL);
  for (uint32_t i = 0; i < num_out; ++i) {
    shape_copy(&out[i], q->in[0]);
    out[i].dim[axis] = attrs->k;
  }
  return TN_OK;
}

/* The largest shapes there can be; the count cuts them. */
tn_status shape_rule_unique(const shape_query *q, extents *out, uint32_t num_out) {
  int64_t elements;
  if (!shape_elements(q->in[0]->ndim, q->in[0]->shape, 1, &elements))
    return shape_refuse(q, "x has too many elements", q->in[0], NULL);
  for (uint32_t i = 0; i + 1 < num_out; ++i) {
    out[i].rank = 1;
    out[i].dim[0] = elements;
  }
  out[num_out - 1].rank = 0;
  return TN_OK;
}
