/* Shape rules of gathering and scattering by index. */
#include "dispatcher/shape/shape_rules.h"

/* The operators with an attribute axis and nothing else share one layout. */
static tn_status axis_of(const shape_query *q, const DLTensor *data, int32_t *axis) {
  if (shape_axis(((const tn_gather_attrs *)q->attrs)->axis, data->ndim, axis)) return TN_OK;
  return shape_refuse(q, "attrs->axis is not an axis of the data", data, NULL);
}

tn_status shape_rule_gather(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0], *index = q->in[1];
  int32_t axis, rank = 0;
  tn_status status = axis_of(q, x, &axis);
  if (status) return status;
  if (q->op->id == TN_OP_INDEX_SELECT && index->ndim != 1)
    return shape_refuse(q, "index must have one axis; tn_gather takes any", x, index);
  if (x->ndim - 1 + index->ndim > TN_MAX_RANK)
    return shape_refuse(q, "the output would have too many axes", x, index);
  for (int32_t d = 0; d < axis; ++d) out->dim[rank++] = x->shape[d];
  for (int32_t d = 0; d < index->ndim; ++d) out->dim[rank++] = index->shape[d];
  for (int32_t d = axis + 1; d < x->ndim; ++d) out->dim[rank++] = x->shape[d];
  out->rank = rank;
  (void)num_out;
  return TN_OK;
}

/* Whether `part` lies inside `whole` along all axes but one. */
static tn_status check_inside(const shape_query *q, const DLTensor *part, const DLTensor *whole,
                              int32_t axis) {
  bool fits = part->ndim == whole->ndim;
  for (int32_t d = 0; fits && d < whole->ndim; ++d)
    fits = d == axis || part->shape[d] <= whole->shape[d];
  if (fits) return TN_OK;
  return shape_refuse(q, "index must have the data's rank and be no larger except along axis", part,
                      whole);
}

tn_status shape_rule_take_along_axis(const shape_query *q, extents *out, uint32_t num_out) {
  int32_t axis;
  tn_status status = axis_of(q, q->in[0], &axis);
  if (!status) status = check_inside(q, q->in[1], q->in[0], axis);
  if (!status) shape_copy(out, q->in[1]);
  (void)num_out;
  return status;
}

tn_status shape_rule_scatter(const shape_query *q, extents *out, uint32_t num_out) {
  int32_t axis;
  tn_status status = axis_of(q, q->inout[0], &axis);
  (void)out, (void)num_out;
  if (status) return status;
  if (!shape_same(q->in[0], q->in[1]))
    return shape_refuse(q, "updates and index must have one shape", q->in[0], q->in[1]);
  return check_inside(q, q->in[1], q->inout[0], axis);
}

tn_status shape_rule_index_add(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *updates = q->in[0], *index = q->in[1], *y = q->inout[0];
  int32_t axis;
  tn_status status = axis_of(q, y, &axis);
  (void)out, (void)num_out;
  if (status) return status;
  bool fits = updates->ndim == y->ndim && index->ndim == 1;
  for (int32_t d = 0; fits && d < y->ndim; ++d)
    fits = updates->shape[d] == (d == axis ? index->shape[0] : y->shape[d]);
  if (fits) return TN_OK;
  return shape_refuse(q, "updates must have y's shape with the index's size along axis", updates,
                      y);
}

tn_status shape_rule_one_hot(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_one_hot_attrs *attrs = q->attrs;
  const DLTensor *index = q->in[0];
  int32_t axis, rank = 0;
  (void)num_out;
  if (index->ndim == TN_MAX_RANK)
    return shape_refuse(q, "the output would have too many axes", index, NULL);
  if (!shape_axis(attrs->axis, index->ndim + 1, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of the output", index, NULL);
  for (int32_t d = 0; d <= index->ndim; ++d) {
    if (d == axis) out->dim[rank++] = attrs->classes;
    if (d < index->ndim) out->dim[rank++] = index->shape[d];
  }
  out->rank = rank;
  return TN_OK;
}

tn_status shape_rule_nonzero(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0];
  int64_t elements;
  (void)num_out;
  if (!shape_elements(x->ndim, x->shape, 1, &elements))
    return shape_refuse(q, "x has too many elements", x, NULL);
  out[0] = (extents){.rank = 2, .dim = {elements, x->ndim}};
  out[1].rank = 0;
  return TN_OK;
}
