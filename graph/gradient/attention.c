/* Rules of ops/attention.def. */
#include <math.h>

#include "graph/gradient/expressions.h"
#include "graph/gradient/parts.h"

/* --- embeddings --- */

void gradient_embedding(rule *r) {
  const tn_embedding_grad_attrs attrs = {
      .struct_size = sizeof attrs, .rows = r->in_shape[0].size[0], .padding_index = -1};
  if (rule_wants(r, 0)) rule_give(r, 0, embedding_grad(r->out_gradient[0], r->in[1], &attrs));
}

/* Linear: what arrives by the table's rows is looked up, but for the row whose gradient is 0. */
void gradient_embedding_grad(rule *r) {
  const tn_embedding_grad_attrs *attrs = r->attrs;
  const tn_tensor *index = r->in[1], *dtable = r->out_gradient[0];
  const rule_shape *shape = &r->in_shape[1];
  int64_t size[TN_MAX_RANK] = {0};
  if (!rule_wants(r, 0)) return;
  const tn_tensor *rows = attrs->from_end ? gather(dtable, index, NULL) : embedding(dtable, index);
  if (attrs->padding_index < 0 || attrs->padding_index >= attrs->rows) {
    rule_give(r, 0, rows);
    return;
  }
  const tn_tensor *padding = equal(index, num(index, (double)attrs->padding_index));
  if (attrs->from_end)
    padding =
        logical_or(padding, equal(index, num(index, (double)(attrs->padding_index - attrs->rows))));
  for (int32_t i = 0; i < shape->rank; ++i) size[i] = shape->size[i];
  size[shape->rank] = 1;
  rule_give(r, 0, where(rule_reshape(r, padding, shape->rank + 1, size), num(dtable, 0), rows));
}

/* --- rotary positions --- */

enum { ROPE_X, ROPE_COS, ROPE_SIN, ROPE_POSITIONS };

/* Half of the elements that are turned, the first ones of each pair or the second ones. */
static const tn_tensor *half_of_pairs(rule *r, const tn_tensor *x, int second) {
  const tn_rope_attrs *attrs = r->attrs;
  int64_t pairs = r->in_shape[ROPE_COS].size[1];
  if (attrs->interleaved && pairs) return rule_slice(r, x, 3, second, 2 * pairs, 2);
  return rule_slice(r, x, 3, second * pairs, (second + 1) * pairs, 1);
}

/* [b, h, s, r / 2], of each place, to the rows of a table. */
static const tn_tensor *to_table(rule *r, const tn_tensor *places) {
  const rule_shape *x = &r->in_shape[ROPE_X], *table = &r->in_shape[ROPE_COS];
  const tn_tensor *positions = r->in[ROPE_POSITIONS];
  const tn_embedding_grad_attrs rows = {
      .struct_size = sizeof rows, .rows = table->size[0], .padding_index = -1};
  const tn_pad_attrs behind = {.struct_size = sizeof behind,
                               .after = {.count = 2, .dim = {table->size[0] - x->size[2], 0}}};
  const tn_sum_attrs heads = {.struct_size = sizeof heads,
                              .axes = {.count = positions ? 1 : 2, .axis = {positions ? 1 : 0, 1}}};
  const tn_tensor *by_place = sum(rule_cast(r, places, table->dtype), &heads);
  return positions ? embedding_grad(by_place, positions, &rows) : pad(by_place, &behind);
}

/* x is turned back; the tables get what each of their rows turned. */
void gradient_rope(rule *r) {
  const tn_rope_attrs *forward = r->attrs;
  const tn_rope_attrs back = {.struct_size = sizeof back,
                              .interleaved = forward->interleaved,
                              .inverse = !forward->inverse};
  const tn_tensor *x = r->in[ROPE_X], *dy = r->out_gradient[0];
  if (rule_wants(r, ROPE_X))
    rule_give(r, ROPE_X, rope(dy, r->in[ROPE_COS], r->in[ROPE_SIN], r->in[ROPE_POSITIONS], &back));
  if (!rule_wants(r, ROPE_COS) && !rule_wants(r, ROPE_SIN)) return;
  const tn_tensor *x1 = half_of_pairs(r, x, 0), *x2 = half_of_pairs(r, x, 1);
  const tn_tensor *dy1 = half_of_pairs(r, dy, 0), *dy2 = half_of_pairs(r, dy, 1);
  if (rule_wants(r, ROPE_COS)) rule_give(r, ROPE_COS, to_table(r, add(mul(dy1, x1), mul(dy2, x2))));
  if (!rule_wants(r, ROPE_SIN)) return;
  const tn_tensor *turned = to_table(r, sub(mul(dy2, x1), mul(dy1, x2)));
  rule_give(r, ROPE_SIN, forward->inverse ? neg(turned) : turned);
}

/* --- attention --- */

typedef struct attention {
  const tn_tensor *q, *k, *v, *mask, *bias, *y, *lse;
  const rule_shape *query, *key;
  double scale;
} attention;

static attention attention_of(const rule *r) {
  const tn_scaled_dot_product_attention_attrs *attrs = r->attrs;
  attention a = {.q = r->in[0],
                 .k = r->in[1],
                 .v = r->in[2],
                 .mask = r->in[3],
                 .bias = r->in[4],
                 .y = r->out[0],
                 .lse = r->out[1],
                 .query = &r->in_shape[0],
                 .key = &r->in_shape[1],
                 .scale = attrs->scale};
  if (a.scale == 0 && a.query->size[3]) a.scale = 1 / (sqrt)((double)a.query->size[3]);
  return a;
}

static void grad_of_values(rule *r, const attention *a, const tn_tensor *dy) {
  const tn_tensor *d[3] = {NULL};
  scaled_dot_product_attention_grad(dy, a->q, a->k, a->v, a->y, a->lse, a->mask, a->bias, SAME,
                                    &d[0], &d[1], &d[2]);
  for (uint32_t i = 0; i < 3; ++i)
    if (rule_wants(r, i)) rule_give(r, i, d[i]);
}

/* The gradient of lse by the scores is the weights: dq = dlse scale (weights k), which is the
 * attention with keys as values, and dk = scale weights^T (dlse q), which is the gradient of the
 * values of the one whose dy is dlse scale q. */
static void grad_of_lse(rule *r, const attention *a, const tn_tensor *dlse) {
  const rule_shape *s = a->query;
  const int64_t column[4] = {s->size[0], s->size[1], s->size[2], 1};
  const tn_tensor *scaled =
      rule_cast(r, rule_reshape(r, rule_scale(r, dlse, a->scale), 4, column), s->dtype);
  const tn_tensor *keys = NULL, *ignored[2] = {NULL}, *dk = NULL;
  if (rule_wants(r, 0)) {
    scaled_dot_product_attention(a->q, a->k, a->k, a->mask, a->bias, SAME, &keys, NULL);
    rule_give(r, 0, mul(keys, scaled));
  }
  if (!rule_wants(r, 1)) return;
  scaled_dot_product_attention_grad(mul(a->q, scaled), a->q, a->k, a->v, a->y, a->lse, a->mask,
                                    a->bias, SAME, &ignored[0], &ignored[1], &dk);
  rule_give(r, 1, dk);
}

/* a b^T for each head: those of `a` that share one of `b`'s are as one with more rows. */
static const tn_tensor *by_heads(rule *r, const attention *at, const tn_tensor *a,
                                 const tn_tensor *b) {
  const int64_t *q = at->query->size, *k = at->key->size;
  const int64_t shared[4] = {q[0], k[1], k[1] ? q[1] / k[1] * q[2] : 0, q[3]};
  const int64_t scores[4] = {q[0], q[1], q[2], k[2]};
  const tn_matmul_attrs attrs = {.struct_size = sizeof attrs, .trans_b = 1};
  const tn_dtype wide = tn_dtype_wide(at->query->dtype);
  const tn_tensor *rows = rule_cast(r, rule_reshape(r, a, 4, shared), wide);
  return rule_reshape(r, matmul(rows, rule_cast(r, b, wide), NULL, &attrs), 4, scores);
}

/* e^(scores - lse), 0 where a key is hidden. */
static const tn_tensor *weights_of(rule *r, const attention *a) {
  const tn_scaled_dot_product_attention_attrs *attrs = r->attrs;
  const tn_tril_attrs seen = {
      .struct_size = sizeof seen,
      .diagonal = attrs->causal_upper_left ? 0 : a->key->size[2] - a->query->size[2]};
  const tn_tensor *lse = unsqueezed(a->lse, 3), *nothing = num(a->lse, -INFINITY);
  const tn_tensor *scores = rule_scale(r, by_heads(r, a, a->q, a->k), a->scale);
  const tn_tensor *bias = rule_cast(r, a->bias, tn_dtype_wide(a->query->dtype));
  const tn_tensor *p = exp(sub(add(scores, bias), lse)), *zero = num(a->lse, 0);
  p = where(equal(lse, nothing), zero, p);
  if (a->mask) p = where(a->mask, p, zero);
  return attrs->causal ? tril(p, &seen) : p;
}

/* By the scores, which have as many elements as the fused operator avoids to keep. */
static void grad_of_bias(rule *r, const attention *a, const tn_tensor *dy, const tn_tensor *dlse) {
  const tn_axes last = {.count = 1, .axis = {3}};
  const tn_dtype wide = tn_dtype_wide(a->query->dtype);
  const tn_tensor *each = dlse ? unsqueezed(dlse, 3) : NULL;
  if (dy) {
    const tn_tensor *products = mul(rule_cast(r, dy, wide), rule_cast(r, a->y, wide));
    const tn_tensor *mean = neg(rule_sum_keepdims(r, products, &last));
    each = add(by_heads(r, a, dy, a->v), rule_plus(r, mean, each));
  }
  rule_give(r, 4, mul(weights_of(r, a), each));
}

void gradient_attention(rule *r) {
  const tn_tensor *dy = r->out_gradient[0], *dlse = r->out_gradient[1];
  const attention a = attention_of(r);
  if (dy && (rule_wants(r, 0) || rule_wants(r, 1) || rule_wants(r, 2))) grad_of_values(r, &a, dy);
  if (dlse) grad_of_lse(r, &a, dlse);
  if (rule_wants(r, 4)) grad_of_bias(r, &a, dy, dlse);
}
