/* Shape rules of rearranging, padding, repeating and of tensors made from a rule. */
#include <string.h>

#include "dispatcher/shape/shape_rules.h"

tn_status shape_rule_create(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *y = q->inout[0];
  (void)out, (void)num_out;
  if (q->op->id == TN_OP_EYE && y->ndim < 2)
    return shape_refuse(q, "y must have two axes or more", y, NULL);
  if (q->op->id == TN_OP_ARANGE && ((const tn_arange_attrs *)q->attrs)->step == 0)
    return shape_refuse(q, "attrs->step must not be 0", NULL, NULL);
  return TN_OK;
}

tn_status shape_rule_triangle(const shape_query *q, extents *out, uint32_t num_out) {
  if (q->in[0]->ndim < 2) return shape_refuse(q, "x must have two axes or more", q->in[0], NULL);
  return shape_rule_same(q, out, num_out);
}

/* --- padding --- */

static int64_t entry(const tn_dims *dims, int32_t axis) {
  return dims->count ? dims->dim[axis] : 0;
}

/* Whether an axis of n elements can be padded so. Sizes are not negative. */
static tn_status check_padding(const shape_query *q, int64_t n, int64_t before, int64_t after) {
  const tn_pad_grad_attrs *attrs = q->attrs; /* pad's begin alike */
  if (attrs->mode == TN_PAD_CONSTANT || (before == 0 && after == 0)) return TN_OK;
  if (attrs->mode == TN_PAD_REFLECT && (before >= n || after >= n))
    return shape_refuse(q, "reflection takes fewer elements than the axis has", q->in[0], NULL);
  if (n == 0) return shape_refuse(q, "an empty axis has no edge to repeat", q->in[0], NULL);
  return TN_OK;
}

static tn_status check_counts(const shape_query *q) {
  const tn_pad_grad_attrs *attrs = q->attrs;
  int32_t rank = q->in[0]->ndim, before = attrs->before.count, after = attrs->after.count;
  if ((before && before != rank) || (after && after != rank))
    return shape_refuse(q, "attrs->before and attrs->after must have an entry for each axis",
                        q->in[0], NULL);
  return TN_OK;
}

tn_status shape_rule_pad(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_pad_attrs *attrs = q->attrs;
  const DLTensor *x = q->in[0];
  tn_status status = check_counts(q);
  shape_copy(out, x);
  for (int32_t d = 0; d < x->ndim && !status; ++d) {
    int64_t before = entry(&attrs->before, d), after = entry(&attrs->after, d);
    status = check_padding(q, x->shape[d], before, after);
    if (!status && (__builtin_add_overflow(out->dim[d], before, &out->dim[d]) ||
                    __builtin_add_overflow(out->dim[d], after, &out->dim[d])))
      status = shape_refuse(q, "the size of y overflows", x, NULL);
  }
  (void)num_out;
  return status;
}

tn_status shape_rule_pad_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_pad_grad_attrs *attrs = q->attrs;
  const DLTensor *dy = q->in[0];
  tn_status status = check_counts(q);
  shape_copy(out, dy);
  for (int32_t d = 0; d < dy->ndim && !status; ++d) {
    int64_t before = entry(&attrs->before, d), after = entry(&attrs->after, d);
    if (before > dy->shape[d] || after > dy->shape[d] - before)
      return shape_refuse(q, "dy is smaller than what was put on", dy, NULL);
    out->dim[d] = dy->shape[d] - before - after;
    status = check_padding(q, out->dim[d], before, after);
  }
  (void)num_out;
  return status;
}

/* --- repeating --- */

tn_status shape_rule_tile(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_tile_attrs *attrs = q->attrs;
  const DLTensor *x = q->in[0];
  int32_t reps = attrs->reps.count;
  out->rank = x->ndim > reps ? x->ndim : reps;
  for (int32_t i = 1; i <= out->rank; ++i) {
    int64_t size = i <= x->ndim ? x->shape[x->ndim - i] : 1;
    int64_t times = i <= reps ? attrs->reps.dim[reps - i] : 1;
    if (__builtin_mul_overflow(size, times, &out->dim[out->rank - i]))
      return shape_refuse(q, "the size of y overflows", x, NULL);
  }
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_repeat(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_repeat_attrs *attrs = q->attrs;
  const DLTensor *x = q->in[0];
  int32_t axis;
  if (!shape_axis(attrs->axis, x->ndim, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of x", x, NULL);
  shape_copy(out, x);
  if (__builtin_mul_overflow(out->dim[axis], attrs->repeats, &out->dim[axis]))
    return shape_refuse(q, "the size of y overflows", x, NULL);
  (void)num_out;
  return TN_OK;
}

/* --- reordering --- */

/* Each axis is one of x's, and none comes twice. */
static tn_status check_axes(const shape_query *q, const tn_axes *axes) {
  uint32_t marked = 0;
  for (int32_t i = 0; i < axes->count; ++i) {
    int32_t axis;
    if (!shape_axis(axes->axis[i], q->in[0]->ndim, &axis))
      return shape_refuse(q, "attrs->axes names an axis that x does not have", q->in[0], NULL);
    if (marked >> axis & 1)
      return shape_refuse(q, "attrs->axes names an axis twice", q->in[0], NULL);
    marked |= 1u << axis;
  }
  return TN_OK;
}

tn_status shape_rule_flip(const shape_query *q, extents *out, uint32_t num_out) {
  tn_status status = check_axes(q, &((const tn_flip_attrs *)q->attrs)->axes);
  if (!status) status = shape_rule_same(q, out, num_out);
  return status;
}

tn_status shape_rule_roll(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_roll_attrs *attrs = q->attrs;
  tn_status status = check_axes(q, &attrs->axes);
  int32_t moved = attrs->axes.count ? attrs->axes.count : q->in[0]->ndim;
  if (!status && attrs->shifts.count != moved)
    status = shape_refuse(q, "attrs->shifts must have an entry for each axis", q->in[0], NULL);
  if (!status) status = shape_rule_same(q, out, num_out);
  return status;
}
