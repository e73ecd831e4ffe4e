/*
 * Shape rules for elementwise operators, losses and optimisers, and the table of all
 * rules. Reductions are in shape_reduce.c, products and windows in shape_window.c.
 */
#include "dispatcher/shape/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/shape/shape_rules.h"

/* Of the sizes beside a 0, which leaves room to add to. */
#define MOST_BYTES ((int64_t)1 << 62)

const char *shape_text(char *text, size_t size, int32_t rank, const int64_t *dim) {
  size_t used = (size_t)snprintf(text, size, "[");
  for (int32_t i = 0; i < rank && used < size; ++i)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? ", " : "", dim[i]);
  if (used < size) snprintf(text + used, size - used, "]");
  return text;
}

/* Sizes beside a 0 count too: kernels multiply and add whichever they like, and have 64 bits. */
static __attribute__((noinline, cold)) bool empty_fits(int32_t rank, const int64_t *dim,
                                                       size_t element_bytes) {
  int64_t product = (int64_t)element_bytes;
  for (int32_t i = 0; i < rank; ++i)
    if (dim[i] && __builtin_mul_overflow(product, dim[i], &product)) return false;
  return product <= MOST_BYTES;
}

bool shape_elements(int32_t rank, const int64_t *dim, size_t element_bytes, int64_t *elements) {
  int64_t product = 1, bytes;
  for (int32_t i = 0; i < rank; ++i)
    if (dim[i] == 0) {
      *elements = 0;
      return empty_fits(rank, dim, element_bytes);
    }
  for (int32_t i = 0; i < rank; ++i)
    if (__builtin_mul_overflow(product, dim[i], &product)) return false;
  *elements = product;
  return !__builtin_mul_overflow(product, (int64_t)element_bytes, &bytes);
}

tn_status shape_refuse(const shape_query *q, const char *what, const DLTensor *a,
                       const DLTensor *b) {
  char ta[128] = "", tb[128] = "";
  if (a) shape_text(ta, sizeof ta, a->ndim, a->shape);
  if (b) shape_text(tb, sizeof tb, b->ndim, b->shape);
  return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: %s%s%s%s%s", q->op->name, what, a ? ": " : "", ta,
              b ? " and " : "", tb);
}

bool shape_axis(int64_t axis, int32_t rank, int32_t *out) {
  if (axis < -(int64_t)rank || axis >= rank) return false;
  *out = (int32_t)(axis < 0 ? axis + rank : axis);
  return true;
}

void shape_copy(extents *out, const DLTensor *x) {
  out->rank = x->ndim;
  memcpy(out->dim, x->shape, (size_t)x->ndim * sizeof *out->dim);
}

bool shape_same(const DLTensor *a, const DLTensor *b) {
  return a->ndim == b->ndim &&
         (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

tn_status shape_rule_given(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_uniform_attrs *uniform = q->attrs;
  for (uint32_t i = 0; i < num_out; ++i) shape_copy(&out[i], q->inout[0]);
  if (q->op->id == TN_OP_UNIFORM && !(uniform->low <= uniform->high))
    return shape_refuse(q, "attrs->low must be at most attrs->high", NULL, NULL);
  return TN_OK;
}

tn_status shape_rule_same(const shape_query *q, extents *out, uint32_t num_out) {
  for (uint32_t i = 0; i < num_out; ++i) shape_copy(&out[i], q->in[0]);
  return TN_OK;
}

tn_status shape_rule_broadcast(const shape_query *q, extents *out, uint32_t num_out) {
  shape_copy(out, q->in[0]);
  for (uint32_t i = 1; i < q->num_in; ++i) {
    const DLTensor *x = q->in[i];
    if (!x ||
        (x->ndim == out->rank &&
         (x->ndim == 0 || memcmp(x->shape, out->dim, (size_t)x->ndim * sizeof *x->shape) == 0)))
      continue;
    if (!shape_broadcast(out, x))
      return shape_refuse(q, "the shapes do not broadcast together", q->in[0], x);
  }
  for (uint32_t i = 1; i < num_out; ++i) out[i] = out[0];
  return TN_OK;
}

bool shape_broadcast(extents *s, const DLTensor *x) {
  extents wide = {.rank = s->rank > x->ndim ? s->rank : x->ndim};
  for (int32_t i = 1; i <= wide.rank; ++i) {
    int64_t a = i <= s->rank ? s->dim[s->rank - i] : 1;
    int64_t b = i <= x->ndim ? x->shape[x->ndim - i] : 1;
    if (a != b && a != 1 && b != 1) return false;
    wide.dim[wide.rank - i] = a == 1 ? b : a;
  }
  *s = wide;
  return true;
}

/* Every argument has the first input's shape. */
tn_status shape_rule_update(const shape_query *q, extents *out, uint32_t num_out) {
  for (uint32_t i = 1; i < q->num_in; ++i)
    if (q->in[i] && !shape_same(q->in[0], q->in[i]))
      return shape_refuse(q, "the shapes must be equal", q->in[0], q->in[i]);
  for (uint32_t i = 0; i < q->num_inout; ++i)
    if (!shape_same(q->in[0], q->inout[i]))
      return shape_refuse(q, "the shapes must be equal", q->in[0], q->inout[i]);
  for (uint32_t i = 0; i < num_out; ++i) shape_copy(&out[i], q->in[0]);
  return TN_OK;
}

tn_status shape_rule_softmax(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_softmax_attrs *attrs = q->attrs; /* the family shares one layout */
  const DLTensor *x = q->in[0];
  int32_t axis;
  if (!shape_axis(attrs->axis, x->ndim, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of the input", x, NULL);
  if (q->num_in > 1 && !shape_same(x, q->in[1]))
    return shape_refuse(q, "the shapes must be equal", x, q->in[1]);
  for (uint32_t i = 0; i < num_out; ++i) shape_copy(&out[i], x);
  return TN_OK;
}

/* x [n, c, d...] against target [n, d...]. */
static tn_status check_classes(const shape_query *q, const DLTensor *x, const DLTensor *target) {
  const tn_nll_loss_attrs *attrs = q->attrs; /* the losses share one layout */
  if (attrs->reduction < TN_REDUCTION_NONE || attrs->reduction > TN_REDUCTION_SUM)
    return shape_refuse(q, "attrs->reduction is no tn_reduction", NULL, NULL);
  bool fits = x->ndim >= 2 && target->ndim == x->ndim - 1 && target->shape[0] == x->shape[0];
  for (int32_t i = 2; fits && i < x->ndim; ++i) fits = target->shape[i - 1] == x->shape[i];
  if (!fits) return shape_refuse(q, "x must be [n, c, ...] and target [n, ...]", x, target);
  return TN_OK;
}

tn_status shape_rule_class_loss(const shape_query *q, extents *out, uint32_t num_out) {
  tn_status status = check_classes(q, q->in[0], q->in[1]);
  if (status) return status;
  out->rank = 0;
  if (((const tn_nll_loss_attrs *)q->attrs)->reduction == TN_REDUCTION_NONE)
    shape_copy(out, q->in[1]);
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_class_loss_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *dy = q->in[0], *x = q->in[1], *target = q->in[2];
  tn_status status = check_classes(q, x, target);
  if (status) return status;
  bool none = ((const tn_nll_loss_attrs *)q->attrs)->reduction == TN_REDUCTION_NONE;
  if (none ? !shape_same(dy, target) : dy->ndim != 0)
    return shape_refuse(q,
                        none ? "dy must have target's shape without reduction; it may be left out "
                               "only where the loss is a scalar"
                             : "dy must be a scalar (rank 0)",
                        dy, target);
  shape_copy(out, x);
  (void)num_out;
  return TN_OK;
}

tn_status shape_infer(const shape_query *query, extents *out, uint32_t num_out) {
  static tn_status (*const rules[TN_SHAPE_RULES])(const shape_query *, extents *, uint32_t) = {
#define SHAPE(number, name, NAME, ...) [TN_SHAPE_##NAME] = shape_rule_##name,
#include "shapes.def"
  };
  return rules[query->op->shape](query, out, num_out);
}
