/*
 * Rules of what is written by index: of elements along one axis (ops/index.def), and of slices
 * along several (ops/gather_nd.def). The operators of a family have one layout of attributes, so
 * that those of the call are all's.
 */
#include "graph/gradient/expressions.h"

/* The operators that write, add and multiply as the call does, and what reads so. */
typedef struct access {
  uint32_t write, add, mul;
  const tn_tensor *(*read)(rule *r, const tn_tensor *x, const tn_tensor *index);
} access;

static const tn_tensor *read_slices(rule *r, const tn_tensor *x, const tn_tensor *index) {
  return gather_nd(x, index, SAME);
}

static const tn_tensor *read_elements(rule *r, const tn_tensor *x, const tn_tensor *index) {
  return take_along_axis(x, index, SAME);
}

static access access_of(const rule *r) {
  static const access elements = {TN_OP_SCATTER, TN_OP_SCATTER_ADD, TN_OP_SCATTER_MUL,
                                  read_elements},
                      slices = {TN_OP_SCATTER_ND, TN_OP_SCATTER_ND_ADD, TN_OP_SCATTER_ND_MUL,
                                read_slices};
  return r->op->shape == TN_SHAPE_SCATTER ? elements : slices;
}

/* dy with `updates` written over it, or multiplied into it, as `op` does; NULL on failure. */
static const tn_tensor *updated(rule *r, uint32_t op, const tn_tensor *updates) {
  tn_tensor *copy = NULL;
  tn_status status = tn_copy(r->stream, r->out_gradient[0], &copy);
  if (!rule_keep(r, status, copy)) return NULL;
  const tn_tensor *in[] = {updates, r->in[1]};
  rule_update(r, op, r->attrs, 2, in, copy);
  return copy;
}

/* Which elements of the updates are still there at the end: each writes its number, and looks
 * whether it stays. */
static const tn_tensor *last_ones(rule *r, const access *a, const tn_tensor *index) {
  const rule_shape *updates = &r->in_shape[0], *y = &r->in_shape[2];
  tn_tensor *number = rule_zeros(r, TN_I64, updates->rank, updates->size);
  tn_tensor *place = rule_zeros(r, TN_I64, y->rank, y->size);
  const tn_arange_attrs count = {sizeof count, 1, 1};
  const tn_tensor *in[] = {number, index};
  rule_update(r, TN_OP_ARANGE, &count, 0, NULL, number);
  rule_update(r, a->write, r->attrs, 2, in, place);
  return equal(a->read(r, place, index), number);
}

void gradient_scatter(rule *r) {
  const access a = access_of(r);
  const rule_shape *updates = &r->in_shape[0];
  const tn_tensor *index = r->in[1], *dy = r->out_gradient[0];
  if (rule_wants(r, 0))
    rule_give(r, 0, where(last_ones(r, &a, index), a.read(r, dy, index), num(dy, 0)));
  if (!rule_wants(r, 2) || r->status) return;
  rule_give(r, 2, updated(r, a.write, rule_zeros(r, updates->dtype, updates->rank, updates->size)));
}

/* y = before times all updates of a place. */
void gradient_scatter_product(rule *r) {
  const access a = access_of(r);
  const tn_tensor *updates = r->in[0], *index = r->in[1], *dy = r->out_gradient[0];
  if (rule_wants(r, 0)) rule_give(r, 0, div(a.read(r, mul(dy, r->out[0]), index), updates));
  if (!rule_wants(r, 2) || r->status) return;
  rule_give(r, 2, updated(r, a.mul, updates));
}

/* What equals the result shares its gradient, and what was there before has it where no update
 * does. */
void gradient_scatter_extreme(rule *r) {
  const access a = access_of(r);
  const rule_shape *y = &r->in_shape[2];
  const tn_tensor *updates = r->in[0], *index = r->in[1], *dy = r->out_gradient[0];
  const tn_tensor *zero = num(dy, 0), *one = num(dy, 1);
  const tn_tensor *wins = where(equal(updates, a.read(r, r->out[0], index)), one, zero);
  const tn_tensor *in[] = {wins, index};
  tn_tensor *count = rule_zeros(r, y->dtype, y->rank, y->size);
  rule_update(r, a.add, r->attrs, 2, in, count);
  const tn_tensor *untouched = equal(count, zero);
  if (rule_wants(r, 0)) {
    const tn_tensor *share = div(dy, where(untouched, one, count));
    rule_give(r, 0, mul(wins, a.read(r, share, index)));
  }
  if (rule_wants(r, 2)) rule_give(r, 2, where(untouched, dy, zero));
}
