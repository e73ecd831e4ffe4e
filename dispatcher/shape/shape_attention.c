/*
 * Shape rules of vector products, embeddings, rotary positions and attention.
 */
#include "dispatcher/shape/shape_rules.h"

/* The batch axes of a and b, all but the last, broadcast together. */
static tn_status vector_batch(const shape_query *q, extents *out) {
  const DLTensor *a = q->in[0], *b = q->in[1];
  if (a->ndim < 1 || b->ndim < 1) return shape_refuse(q, "a and b need at least 1 axis", a, b);
  DLTensor batch_a = *a, batch_b = *b;
  batch_a.ndim -= 1;
  batch_b.ndim -= 1;
  shape_copy(out, &batch_a);
  if (!shape_broadcast(out, &batch_b))
    return shape_refuse(q, "the batch axes do not broadcast together", a, b);
  return TN_OK;
}

static int64_t last_size(const DLTensor *t) { return t->shape[t->ndim - 1]; }

tn_status shape_rule_dot(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *a = q->in[0], *b = q->in[1];
  tn_status status = vector_batch(q, out);
  if (status) return status;
  if (last_size(a) != last_size(b))
    return shape_refuse(q, "the last axes of a and b must be equal", a, b);
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_outer(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *a = q->in[0], *b = q->in[1];
  tn_status status = vector_batch(q, out);
  if (status) return status;
  if (out->rank + 2 > TN_MAX_RANK) return shape_refuse(q, "y would have too many axes", a, b);
  out->dim[out->rank++] = last_size(a);
  out->dim[out->rank++] = last_size(b);
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_embedding(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *table = q->in[0], *index = q->in[1];
  if (table->ndim != 2) return shape_refuse(q, "table must be [v, d]", table, NULL);
  if (index->ndim + 1 > TN_MAX_RANK)
    return shape_refuse(q, "y would have too many axes", index, NULL);
  shape_copy(out, index);
  out->dim[out->rank++] = table->shape[1];
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_embedding_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_embedding_grad_attrs *attrs = q->attrs;
  const DLTensor *dy = q->in[0], *index = q->in[1];
  DLTensor places = *dy;
  places.ndim -= 1;
  if (dy->ndim < 1 || !shape_same(&places, index))
    return shape_refuse(q, "dy must have index's shape and one axis more", dy, index);
  *out = (extents){.rank = 2, .dim = {attrs->rows, last_size(dy)}};
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_rope(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0], *cos = q->in[1], *sin = q->in[2], *positions = q->in[3];
  if (x->ndim != 4) return shape_refuse(q, "x must be [b, h, s, d]", x, NULL);
  if (cos->ndim != 2 || !shape_same(cos, sin))
    return shape_refuse(q, "cos and sin must both be [p, r / 2]", cos, sin);
  if (cos->shape[1] > x->shape[3] / 2)
    return shape_refuse(q, "cos has more columns than x has pairs", cos, x);
  if (positions && (positions->ndim != 2 || positions->shape[0] != x->shape[0] ||
                    positions->shape[1] != x->shape[2]))
    return shape_refuse(q, "positions must be [b, s] for x", positions, x);
  shape_copy(out, x);
  (void)num_out;
  return TN_OK;
}

/* Checks that t broadcasts to the scores [b, h, s, t] of q and k. */
static tn_status check_scores(const shape_query *q, const DLTensor *query, const DLTensor *key,
                              const DLTensor *t) {
  const int64_t scores[] = {query->shape[0], query->shape[1], query->shape[2], key->shape[2]};
  if (!t) return TN_OK;
  bool fits = t->ndim <= 4;
  for (int32_t i = 1; fits && i <= t->ndim; ++i)
    fits = t->shape[t->ndim - i] == 1 || t->shape[t->ndim - i] == scores[4 - i];
  return fits ? TN_OK : shape_refuse(q, "mask and bias must broadcast to [b, h, s, t]", t, query);
}

static tn_status check_attention(const shape_query *q, const DLTensor *query, const DLTensor *key,
                                 const DLTensor *value, const DLTensor *mask,
                                 const DLTensor *bias) {
  if (query->ndim != 4) return shape_refuse(q, "q must be [b, h, s, d]", query, NULL);
  if (key->ndim != 4 || key->shape[0] != query->shape[0] || key->shape[3] != query->shape[3])
    return shape_refuse(q, "k must be [b, g, t, d] for q [b, h, s, d]", key, query);
  if (!shape_same(key, value)) return shape_refuse(q, "k and v must have one shape", key, value);
  int64_t heads = query->shape[1], groups = key->shape[1];
  if (groups == 0 ? heads != 0 : heads % groups != 0)
    return shape_refuse(q, "q's heads must be a multiple of k's", query, key);
  tn_status status = check_scores(q, query, key, mask);
  if (!status) status = check_scores(q, query, key, bias);
  return status;
}

tn_status shape_rule_attention(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *query = q->in[0];
  tn_status status = check_attention(q, query, q->in[1], q->in[2], q->in[3], q->in[4]);
  if (status) return status;
  shape_copy(&out[0], query);
  if (num_out > 1) {
    shape_copy(&out[1], query);
    out[1].rank = 3;
  }
  return TN_OK;
}

tn_status shape_rule_attention_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *dy = q->in[0], *query = q->in[1], *y = q->in[4], *lse = q->in[5];
  tn_status status = check_attention(q, query, q->in[2], q->in[3], q->in[6], q->in[7]);
  if (status) return status;
  if (!shape_same(dy, query) || !shape_same(y, query))
    return shape_refuse(q, "dy and y must have q's shape", dy, y);
  DLTensor rows = *query;
  rows.ndim = 3;
  if (!shape_same(&rows, lse)) return shape_refuse(q, "lse must be [b, h, s]", lse, query);
  for (uint32_t i = 0; i < num_out; ++i) shape_copy(&out[i], q->in[1 + i]);
  return TN_OK;
}
