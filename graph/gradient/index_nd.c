/* Rules of ops/gather_nd.def. */
#include "graph/gradient/expressions.h"
#include "graph/gradient/parts.h"

/* What products by index are written and read with: along several axes, or along one. */
typedef struct access {
  uint32_t mul;
  const tn_tensor *(*read)(rule *r, const tn_tensor *x, const tn_tensor *index);
} access;

static const tn_tensor *read_slices(rule *r, const tn_tensor *x, const tn_tensor *index) {
  return gather_nd(x, index, SAME);
}

static const tn_tensor *read_elements(rule *r, const tn_tensor *x, const tn_tensor *index) {
  return take_along_axis(x, index, SAME);
}

static access access_of(const rule *r) {
  if (r->op->shape == TN_SHAPE_SCATTER) return (access){TN_OP_SCATTER_MUL, read_elements};
  return (access){TN_OP_SCATTER_ND_MUL, read_slices};
}

/* The operators of a family have one layout of attributes, so that those of the call are all's. */
void gradient_gather_nd(rule *r) {
  const rule_shape *x = &r->in_shape[0];
  const tn_tensor *in[] = {r->out_gradient[0], r->in[1]};
  if (!rule_wants(r, 0)) return;
  tn_tensor *dx = rule_zeros(r, x->dtype, x->rank, x->size);
  rule_update(r, TN_OP_SCATTER_ND_ADD, r->attrs, 2, in, dx);
  rule_give(r, 0, dx);
}

/* Which elements of the updates are still there at the end: each writes its number, and looks
 * whether it stays. */
static const tn_tensor *last_ones(rule *r, const tn_tensor *index) {
  const rule_shape *updates = &r->in_shape[0], *y = &r->in_shape[2];
  tn_tensor *number = rule_zeros(r, TN_I64, updates->rank, updates->size);
  tn_tensor *place = rule_zeros(r, TN_I64, y->rank, y->size);
  const tn_arange_attrs count = {sizeof count, 1, 1};
  const tn_tensor *in[] = {number, index};
  rule_update(r, TN_OP_ARANGE, &count, 0, NULL, number);
  rule_update(r, TN_OP_SCATTER_ND, r->attrs, 2, in, place);
  return equal(gather_nd(place, index, SAME), number);
}

void gradient_scatter_nd(rule *r) {
  const tn_tensor *index = r->in[1], *dy = r->out_gradient[0];
  if (rule_wants(r, 0))
    rule_give(r, 0, where(last_ones(r, index), gather_nd(dy, index, SAME), num(dy, 0)));
  if (!rule_wants(r, 2) || r->status) return;
  const rule_shape *updates = &r->in_shape[0];
  tn_tensor *rest = NULL;
  tn_status status = tn_copy(r->stream, dy, &rest);
  if (!rule_keep(r, status, rest)) return;
  const tn_tensor *in[] = {rule_zeros(r, updates->dtype, updates->rank, updates->size), index};
  rule_update(r, TN_OP_SCATTER_ND, r->attrs, 2, in, rest);
  rule_give(r, 2, rest);
}

/* y = before times all updates of a place. */
void gradient_scatter_product(rule *r) {
  const access a = access_of(r);
  const tn_tensor *updates = r->in[0], *index = r->in[1], *dy = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, div(a.read(r, mul(dy, r->out[0]), index), updates));
  if (!rule_wants(r, 2) || r->status) return;
  tn_tensor *factor = NULL;
  tn_status status = tn_copy(r->stream, dy, &factor);
  if (!rule_keep(r, status, factor)) return;
  const tn_tensor *in[] = {updates, index};
  rule_update(r, a.mul, r->attrs, 2, in, factor);
  rule_give(r, 2, factor);
}

/* As of scatter_max: what equals the result shares its gradient, and what was there before has it
 * where no update does. */
void gradient_scatter_nd_extreme(rule *r) {
  const rule_shape *y = &r->in_shape[2];
  const tn_tensor *updates = r->in[0], *index = r->in[1], *dy = r->out_gradient[0];
  const tn_tensor *zero = num(dy, 0), *one = num(dy, 1);
  const tn_tensor *wins = where(equal(updates, gather_nd(r->out[0], index, SAME)), one, zero);
  const tn_tensor *in[] = {wins, index};
  tn_tensor *count = rule_zeros(r, y->dtype, y->rank, y->size);
  rule_update(r, TN_OP_SCATTER_ND_ADD, r->attrs, 2, in, count);
  const tn_tensor *untouched = equal(count, zero);
  if (rule_wants(r, 0)) {
    const tn_tensor *share = div(dy, where(untouched, one, count));
    rule_give(r, 0, mul(wins, gather_nd(share, index, SAME)));
  }
  if (rule_wants(r, 2)) rule_give(r, 2, where(untouched, dy, zero));
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
