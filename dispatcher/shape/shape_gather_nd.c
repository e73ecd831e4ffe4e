/* Shape rules of indexes of several axes, and of masks. */
#include "dispatcher/shape/shape_rules.h"

/* The shape of what an index picks from data, or of what it writes there. */
static tn_status picked(const shape_query *q, const DLTensor *data, const DLTensor *index,
                        extents *out) {
  const int64_t batch = ((const tn_gather_nd_attrs *)q->attrs)->batch_dims; /* one layout for all */
  if (data->ndim < 1 || index->ndim < 1)
    return shape_refuse(q, "the data and index need at least 1 axis", data, index);
  if (batch >= index->ndim || batch > data->ndim)
    return shape_refuse(q, "attrs->batch_dims leaves the index no axis", data, index);
  const int64_t axes = index->shape[index->ndim - 1], rest = batch + axes;
  if (axes < 1 || axes > data->ndim - batch)
    return shape_refuse(q, "index's last axis must number 1 or more of the data's axes", data,
                        index);
  for (int32_t d = 0; d < batch; ++d)
    if (data->shape[d] != index->shape[d])
      return shape_refuse(q, "the data and index must be alike along attrs->batch_dims axes", data,
                          index);
  if (index->ndim - 1 + data->ndim - rest > TN_MAX_RANK)
    return shape_refuse(q, "what the index picks would have too many axes", data, index);
  out->rank = 0;
  for (int32_t d = 0; d < index->ndim - 1; ++d) out->dim[out->rank++] = index->shape[d];
  for (int32_t d = (int32_t)rest; d < data->ndim; ++d) out->dim[out->rank++] = data->shape[d];
  return TN_OK;
}

tn_status shape_rule_gather_nd(const shape_query *q, extents *out, uint32_t num_out) {
  (void)num_out;
  return picked(q, q->in[0], q->in[1], out);
}

tn_status shape_rule_scatter_nd(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *updates = q->in[0], *index = q->in[1], *y = q->inout[0];
  extents want = {0};
  tn_status status = picked(q, y, index, &want);
  (void)out, (void)num_out;
  if (status) return status;
  bool fits = updates->ndim == want.rank;
  for (int32_t d = 0; fits && d < want.rank; ++d) fits = updates->shape[d] == want.dim[d];
  if (fits) return TN_OK;
  return shape_refuse(q, "updates must have index's shape but for its last axis, then y's rest",
                      updates, index);
}

/* The largest shape there can be; the count cuts it. */
tn_status shape_rule_masked_select(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0], *mask = q->in[1];
  int64_t elements;
  (void)num_out;
  if (!shape_same(x, mask)) return shape_refuse(q, "x and mask must have one shape", x, mask);
  if (!shape_elements(x->ndim, x->shape, 1, &elements))
    return shape_refuse(q, "x has too many elements", x, NULL);
  out[0] = (extents){.rank = 1, .dim = {elements}};
  out[1].rank = 0;
  return TN_OK;
}
