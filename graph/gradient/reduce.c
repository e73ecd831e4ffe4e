/* Rules of reductions and scans. */
#include <string.h>

#include "dispatcher/objects/tensor.h"
#include "graph/gradient/expressions.h"

/* --- reductions --- */

/* dy shared out among the elements that `picked` (bool, of x's shape) says. */
static const tn_tensor *shared_out(rule *r, const tn_tensor *dy, const tn_tensor *picked,
                                   const tn_axes *axes) {
  const rule_shape *shape = &r->in_shape[0];
  const tn_tensor *ones = where(picked, num(dy, 1), num(dy, 0));
  const tn_tensor *count = sum(ones, (&(tn_sum_attrs){sizeof(tn_sum_attrs), *axes, 1, 0}));
  return mul(ones, div(spread(dy, shape, axes), count));
}

void gradient_extremum(rule *r) {
  const tn_max_attrs *attrs = r->attrs;
  const tn_tensor *y = spread(r->out[0], &r->in_shape[0], &attrs->axes);
  rule_give(r, 0, shared_out(r, r->out_gradient[0], equal(r->in[0], y), &attrs->axes));
}

/* dy (x - mean x), both of x's shape. */
static const tn_tensor *weighted_distance(rule *r, const tn_tensor *dy, const tn_axes *axes) {
  const tn_tensor *x = r->in[0];
  const tn_tensor *centre = mean(x, (&(tn_mean_attrs){sizeof(tn_mean_attrs), *axes, 1}));
  return mul(spread(dy, &r->in_shape[0], axes), sub(x, centre));
}

static double divisor(const rule *r, const tn_var_attrs *attrs) {
  double count = rule_count(&r->in_shape[0], &attrs->axes) - attrs->correction;
  return count > 0 ? count : 0;
}

void gradient_var(rule *r) {
  const tn_var_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->out_gradient[0];
  const tn_tensor *factor = mul(dy, num(dy, 2 / divisor(r, attrs)));
  rule_give(r, 0, weighted_distance(r, factor, &attrs->axes));
}

void gradient_std(rule *r) {
  const tn_var_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->out_gradient[0], *y = r->out[0], *zero = num(dy, 0);
  const tn_tensor *share = mul(dy, num(dy, 1 / divisor(r, attrs)));
  const tn_tensor *factor = where(equal(y, zero), zero, div(share, y));
  rule_give(r, 0, weighted_distance(r, factor, &attrs->axes));
}

void gradient_norm(rule *r) {
  const tn_norm_attrs *attrs = r->attrs;
  const rule_shape *shape = &r->in_shape[0];
  const tn_tensor *x = r->in[0], *y = r->out[0], *dy = r->out_gradient[0];
  if (attrs->ord == 1) {
    rule_give(r, 0, mul(spread(dy, shape, &attrs->axes), sign(x)));
  } else if (attrs->ord > 2) {
    const tn_tensor *largest = equal(abs(x), spread(y, shape, &attrs->axes));
    rule_give(r, 0, mul(shared_out(r, dy, largest, &attrs->axes), sign(x)));
  } else {
    const tn_tensor *zero = num(dy, 0), *factor = where(equal(y, zero), zero, div(dy, y));
    rule_give(r, 0, mul(spread(factor, shape, &attrs->axes), x));
  }
}

/* --- products of all the others --- */

static bool is_named(const tn_axes *axes, int32_t axis, int32_t rank) {
  for (int32_t i = 0; i < axes->count; ++i)
    if ((axes->axis[i] + rank) % rank == axis) return true;
  return axes->count == 0;
}

/* The axes in an order that has those reduced last; how many of them. */
static int32_t reduced_last(const rule_shape *shape, const tn_axes *axes, int32_t *order) {
  int32_t kept = 0, reduced = 0;
  for (int32_t i = 0; i < shape->rank; ++i)
    if (!is_named(axes, i, shape->rank)) order[kept++] = i;
  for (int32_t i = 0; i < shape->rank; ++i)
    if (is_named(axes, i, shape->rank)) order[kept + reduced++] = i;
  return reduced;
}

/* Products of what stands before and of what stands behind each element: no division, which zeros
 * would make NaN. x: the reduced elements along its last axis. */
static const tn_tensor *product_of_others(rule *r, const tn_tensor *x) {
  const tn_cumprod_attrs before = {sizeof before, -1, 0, 1, 0},
                         behind = {sizeof behind, -1, 1, 1, 0};
  return mul(cumprod(x, &before), cumprod(x, &behind));
}

void gradient_prod(rule *r) {
  const tn_prod_attrs *attrs = r->attrs;
  const rule_shape *shape = &r->in_shape[0];
  const tn_tensor *dy = r->out_gradient[0], *x = rule_cast_like(r, r->in[0], dy), *dx;
  int32_t order[TN_MAX_RANK], back[TN_MAX_RANK], rank = shape->rank;
  int64_t size[TN_MAX_RANK], flat[2] = {1, 1};
  if (rank == 0) {
    rule_give(r, 0, dy);
    return;
  }
  int32_t reduced = reduced_last(shape, &attrs->axes, order);
  for (int32_t i = 0; i < rank; ++i) {
    size[i] = shape->size[order[i]];
    back[order[i]] = i;
    flat[i >= rank - reduced] *= size[i];
  }
  dx = rule_reshape(r, rule_permute(r, x, order), 2, flat);
  dx = mul(product_of_others(r, dx), rule_reshape(r, dy, 2, (const int64_t[]){flat[0], 1}));
  rule_give(r, 0, rule_permute(r, rule_reshape(r, dx, rank, size), back));
}

/* --- scans --- */

/* The sum of what the scan gave from each element on. */
static const tn_tensor *scan_back(rule *r, const tn_tensor *t, const tn_cumsum_attrs *attrs) {
  const tn_cumsum_attrs back = {sizeof back, attrs->axis, !attrs->reverse, attrs->exclusive, 0};
  return cumsum(t, &back);
}

void gradient_cumsum(rule *r) { rule_give(r, 0, scan_back(r, r->out_gradient[0], r->attrs)); }

/* sum over i >= k of dy_i y_i / x_k. Where x_k is 0 and the first such, everything behind it is a
 * multiple of it: what it is multiplied with is the scan with 1 in its place. Behind it all is 0.
 */
void gradient_cumprod(rule *r) {
  const tn_cumprod_attrs *attrs = r->attrs;
  const tn_tensor *dy = r->out_gradient[0], *x = rule_cast_like(r, r->in[0], dy);
  tn_cumsum_attrs scan = {.struct_size = sizeof scan};
  scan.axis = attrs->axis;
  scan.reverse = attrs->reverse;
  const tn_tensor *zero = num(dy, 0), *one = num(dy, 1), *is_zero = equal(x, zero);
  const tn_tensor *zeros = cumsum(where(is_zero, one, zero), &scan);
  const tn_tensor *is_first = logical_and(is_zero, equal(zeros, one));
  const tn_tensor *without = cumprod(where(is_first, one, x), SAME);
  scan.exclusive = attrs->exclusive;
  const tn_tensor *by_zero = where(is_first, scan_back(r, mul(dy, without), &scan), zero);
  const tn_tensor *by_others = div(scan_back(r, mul(dy, r->out[0]), &scan), where(is_zero, one, x));
  rule_give(r, 0, where(is_zero, by_zero, by_others));
}

/* dy added up where the elements came from. */
static void add_where_from(rule *r, const tn_tensor *index, int64_t axis) {
  const rule_shape *shape = &r->in_shape[0];
  const tn_tensor *in[] = {r->out_gradient[0], index};
  tn_tensor *dx = rule_zeros(r, shape->dtype, shape->rank, shape->size);
  const tn_scatter_add_attrs attrs = {sizeof attrs, axis};
  rule_update(r, TN_OP_SCATTER_ADD, &attrs, 2, in, dx);
  rule_give(r, 0, dx);
}

/* pre: outputs are y, and the index, which the call may have left out. */
static const tn_tensor *index_of(rule *r) {
  const tn_tensor *out[2] = {NULL, NULL};
  if (r->out[1]) return r->out[1];
  rule_call(r, r->op->id, r->attrs, 1, r->in, 2, out, 0);
  return out[1];
}

void gradient_cummax(rule *r) {
  const tn_cummax_attrs *attrs = r->attrs;
  add_where_from(r, index_of(r), attrs->axis);
}

/* Of sort and of topk. */
void gradient_sort(rule *r) {
  int64_t axis = r->op->id == TN_OP_SORT ? ((const tn_sort_attrs *)r->attrs)->axis
                                         : ((const tn_topk_attrs *)r->attrs)->axis;
  if (r->out_gradient[0]) add_where_from(r, index_of(r), axis);
}
