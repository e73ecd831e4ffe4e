/* Rules of ops/gather_nd.def, but for what is written by index: scatter.c. */
#include "graph/gradient/expressions.h"
#include "graph/gradient/parts.h"

/* Attributes of the two have one layout. */
void gradient_gather_nd(rule *r) {
  const rule_shape *x = &r->in_shape[0];
  const tn_tensor *in[] = {r->out_gradient[0], r->in[1]};
  if (!rule_wants(r, 0)) return;
  tn_tensor *dx = rule_zeros(r, x->dtype, x->rank, x->size);
  rule_update(r, TN_OP_SCATTER_ND_ADD, r->attrs, 2, in, dx);
  rule_give(r, 0, dx);
}

/* Element i of x is number (how often the mask held up to i) - 1 of y. */
void gradient_masked_select(rule *r) {
  const rule_shape *x = &r->in_shape[0];
  const int64_t count = (int64_t)rule_count(x, NULL);
  const tn_tensor *mask = rule_reshape(r, r->in[1], 1, &count);
  const tn_cumsum_attrs first = {.struct_size = sizeof first};
  if (!rule_wants(r, 0)) return;
  const tn_tensor *whole = rule_cast(r, mask, TN_I64);
  const tn_tensor *place = sub(cumsum(whole, &first), num(whole, 1));
  const tn_tensor *dx =
      where(mask, gather(r->out_gradient[0], place, NULL), num(r->out_gradient[0], 0));
  rule_give(r, 0, rule_reshape(r, dx, x->rank, x->size));
}
