/* Rules of operators that move elements: layout, join, index. */
#include <string.h>

#include "dispatcher/objects/tensor.h"
#include "graph/gradient/expressions.h"

/* --- repeating --- */

/* x summed along one of the two parts of `axis`, which is outer x inner: over the outer part, or
 * over the inner one. `size` is x's shape, and what is left of it after. */
static const tn_tensor *sum_part(rule *r, const tn_tensor *x, int32_t rank, int64_t *size,
                                 int32_t axis, int64_t outer, int64_t inner, bool over_outer) {
  int64_t parts[4] = {1, outer, inner, 1};
  for (int32_t i = 0; i < axis; ++i) parts[0] *= size[i];
  for (int32_t i = axis + 1; i < rank; ++i) parts[3] *= size[i];
  const tn_sum_attrs attrs = {sizeof attrs, {1, {over_outer ? 1 : 2}}, 0, 0};
  size[axis] = over_outer ? inner : outer;
  return rule_reshape(r, sum(rule_reshape(r, x, 4, parts), &attrs), rank, size);
}

void gradient_tile(rule *r) {
  const tn_tile_attrs *attrs = r->attrs;
  const rule_shape *in = &r->in_shape[0], *out = &r->out_shape[0];
  const tn_tensor *dy = r->out_gradient[0];
  int64_t size[TN_MAX_RANK];
  int32_t reps = attrs->reps.count;
  memcpy(size, out->size, sizeof size);
  for (int32_t i = 0; i < out->rank; ++i) {
    int32_t at = i - (out->rank - in->rank), of = i - (out->rank - reps);
    int64_t times = of < 0 ? 1 : attrs->reps.dim[of];
    if (times != 1)
      dy = sum_part(r, dy, out->rank, size, i, times, at < 0 ? 1 : in->size[at], true);
  }
  rule_give(r, 0, rule_reshape(r, dy, in->rank, in->size));
}

void gradient_repeat(rule *r) {
  const tn_repeat_attrs *attrs = r->attrs;
  const rule_shape *in = &r->in_shape[0];
  int64_t size[TN_MAX_RANK];
  int32_t axis = (int32_t)((attrs->axis + in->rank) % in->rank);
  memcpy(size, r->out_shape[0].size, sizeof size);
  rule_give(
      r, 0,
      sum_part(r, r->out_gradient[0], in->rank, size, axis, in->size[axis], attrs->repeats, false));
}

void gradient_roll(rule *r) {
  tn_roll_attrs attrs = *(const tn_roll_attrs *)r->attrs;
  for (int32_t i = 0; i < attrs.shifts.count; ++i) attrs.shifts.dim[i] = -attrs.shifts.dim[i];
  rule_give(r, 0, roll(r->out_gradient[0], &attrs));
}

/* --- joining --- */

void gradient_concat(rule *r) {
  const tn_concat_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->out_gradient[0];
  int32_t axis = (int32_t)((attrs->axis + r->out_shape[0].rank) % r->out_shape[0].rank);
  int64_t at = 0;
  for (uint32_t i = 0; i < r->num_in; ++i) {
    int64_t end = at + r->in_shape[i].size[axis];
    if (rule_wants(r, i)) rule_give(r, i, rule_slice(r, dy, axis, at, end, 1));
    at = end;
  }
}

void gradient_stack(rule *r) {
  const tn_stack_attrs *attrs = r->attrs;
  int32_t axis = (int32_t)((attrs->axis + r->out_shape[0].rank) % r->out_shape[0].rank);
  for (uint32_t i = 0; i < r->num_in; ++i) {
    tn_tensor *part = NULL;
    if (!rule_wants(r, i) || r->status) continue;
    tn_status status = tn_tensor_select(r->out_gradient[0], axis, i, &part);
    rule_give(r, i, rule_keep(r, status, part));
  }
}

/* --- picking by index --- */

/* Of index_select and of gather, whose index may have any rank. */
void gradient_gather(rule *r) {
  const rule_shape *x = &r->in_shape[0], *index = &r->in_shape[1];
  int64_t axis = ((const tn_gather_attrs *)r->attrs)->axis, size[TN_MAX_RANK], count = 1;
  axis = (axis + x->rank) % x->rank;
  memcpy(size, x->size, sizeof size);
  for (int32_t i = 0; i < index->rank; ++i) count *= index->size[i];
  size[axis] = count;
  const tn_tensor *in[] = {rule_reshape(r, r->out_gradient[0], x->rank, size),
                           rule_reshape(r, r->in[1], 1, &count)};
  tn_tensor *dx = rule_zeros(r, x->dtype, x->rank, x->size);
  const tn_index_add_attrs attrs = {sizeof attrs, axis};
  rule_update(r, TN_OP_INDEX_ADD, &attrs, 2, in, dx);
  rule_give(r, 0, dx);
}

void gradient_take_along_axis(rule *r) {
  const rule_shape *x = &r->in_shape[0];
  const tn_tensor *in[] = {r->out_gradient[0], r->in[1]};
  tn_tensor *dx = rule_zeros(r, x->dtype, x->rank, x->size);
  const tn_scatter_add_attrs attrs = {sizeof attrs,
                                      ((const tn_take_along_axis_attrs *)r->attrs)->axis};
  rule_update(r, TN_OP_SCATTER_ADD, &attrs, 2, in, dx);
  rule_give(r, 0, dx);
}
