/* Shape rules of quantisation and of integer products and convolutions. */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/shape/shape_rules.h"

/* --- to integers and back --- */

static int64_t blocks_of(int64_t size, int64_t block) { return size / block + (size % block != 0); }

/* Scales by blocks have x's shape, but for the axis. */
static bool fits_blocks(const DLTensor *x, const DLTensor *scale, int32_t axis, int64_t block) {
  if (scale->ndim != x->ndim) return false;
  for (int32_t i = 0; i < x->ndim; ++i)
    if (scale->shape[i] != (i == axis ? blocks_of(x->shape[i], block) : x->shape[i])) return false;
  return true;
}

static tn_status check_scale(const shape_query *q, int32_t axis, int64_t block) {
  const DLTensor *x = q->in[0], *scale = q->in[1];
  if (block > 0) {
    if (fits_blocks(x, scale, axis, block)) return TN_OK;
    return shape_refuse(
        q, "with attrs->block, scale has x's shape but for axis, where it has an element a block",
        x, scale);
  }
  if (scale->ndim == 1 && x->ndim > 0 && scale->shape[0] == x->shape[axis]) return TN_OK;
  return shape_refuse(q, "scale must be one element, or as many as x has along attrs->axis", x,
                      scale);
}

tn_status shape_rule_quantize_linear(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_quantize_linear_attrs *attrs = q->attrs; /* dequantize_linear's are its first */
  const DLTensor *x = q->in[0], *scale = q->in[1], *zero = q->in[2];
  int32_t axis = 0;
  tn_status status = TN_OK;
  /* A scalar has no axes. */
  if (x->ndim > 0 && !shape_axis(attrs->axis, x->ndim, &axis))
    return shape_refuse(q, "attrs->axis is not an axis of x", x, NULL);
  if (!shape_is_one(scale) || (attrs->block > 0 && x->ndim > 0))
    status = check_scale(q, axis, attrs->block);
  if (status) return status;
  bool same = !zero || shape_same(zero, scale) || (shape_is_one(zero) && shape_is_one(scale));
  if (!same) return shape_refuse(q, "zero_point must have the shape of scale", zero, scale);
  if (zero && q->op->id == TN_OP_QUANTIZE_LINEAR &&
      tn_dtype_of(zero->dtype) != (tn_dtype)attrs->dtype)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_quantize_linear: zero_point is %s and attrs->dtype %s: set both to y's type",
                tn_dtype_name(tn_dtype_of(zero->dtype)), tn_dtype_name((tn_dtype)attrs->dtype));
  shape_copy(out, x);
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_dynamic_quantize(const shape_query *q, extents *out, uint32_t num_out) {
  shape_copy(out, q->in[0]);
  for (uint32_t i = 1; i < num_out; ++i) out[i].rank = 0;
  return TN_OK;
}

/* --- products --- */

static tn_status product_of(const shape_query *q, const DLTensor *a, const DLTensor *b,
                            extents *out) {
  if (a->ndim < 2 || b->ndim < 2) return shape_refuse(q, "a and b need at least 2 axes", a, b);
  if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2])
    return shape_refuse(q, "a must have as many columns as b has rows", a, b);
  return shape_product(q, a, b, a->shape[a->ndim - 2], b->shape[b->ndim - 1], out);
}

/* Argument `arg`, if it is there: one element, or `count` of them where that is more than 0. */
static tn_status need_elements(const shape_query *q, uint32_t arg, int64_t count) {
  const DLTensor *t = q->in[arg];
  if (!t || shape_is_one(t) || (count >= 0 && t->ndim == 1 && t->shape[0] == count)) return TN_OK;
  char has[64];
  if (count < 0)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: %s must be one element: %s", q->op->name,
                q->op->args[arg].name, shape_text(has, sizeof has, t->ndim, t->shape));
  return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: %s must be one element or [%" PRId64 "]: %s",
              q->op->name, q->op->args[arg].name, count,
              shape_text(has, sizeof has, t->ndim, t->shape));
}

enum { ONE = -1 };

tn_status shape_rule_matmul_int(const shape_query *q, extents *out, uint32_t num_out) {
  (void)num_out;
  return product_of(q, q->in[0], q->in[1], out);
}

tn_status shape_rule_matmul_zero_points(const shape_query *q, extents *out, uint32_t num_out) {
  tn_status status = product_of(q, q->in[0], q->in[1], out);
  if (!status) status = need_elements(q, 2, out->dim[out->rank - 2]);
  if (!status) status = need_elements(q, 3, out->dim[out->rank - 1]);
  (void)num_out;
  return status;
}

/* Where qlinear_matmul and qlinear_conv have their arguments. */
enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO, BIAS };

tn_status shape_rule_qlinear_matmul(const shape_query *q, extents *out, uint32_t num_out) {
  tn_status status = product_of(q, q->in[A], q->in[B], out);
  for (uint32_t i = A_SCALE; i <= A_ZERO && !status; ++i)
    status = need_elements(q, i, out->dim[out->rank - 2]);
  for (uint32_t i = B_SCALE; i <= B_ZERO && !status; ++i)
    status = need_elements(q, i, out->dim[out->rank - 1]);
  for (uint32_t i = Y_SCALE; i <= Y_ZERO && !status; ++i) status = need_elements(q, i, ONE);
  (void)num_out;
  return status;
}

/* --- convolutions --- */

/* Number i of an attribute that may say none. */
static int64_t number_of(const tn_dims *d, int32_t i, int64_t otherwise) {
  return d->count ? d->dim[i] : otherwise;
}

static tn_status check_counts(const shape_query *q, const tn_conv_integer_attrs *attrs,
                              int32_t spatial) {
  if (attrs->stride.count && attrs->stride.count != spatial)
    return shape_refuse(q, "attrs->stride has one number for each spatial axis of x", q->in[0],
                        NULL);
  if (attrs->dilation.count && attrs->dilation.count != spatial)
    return shape_refuse(q, "attrs->dilation has one number for each spatial axis of x", q->in[0],
                        NULL);
  if (attrs->padding.count && attrs->padding.count != 2 * spatial)
    return shape_refuse(q, "attrs->padding has two numbers for each spatial axis of x", q->in[0],
                        NULL);
  for (int32_t i = 0; i < spatial; ++i)
    if (number_of(&attrs->stride, i, 1) > INT32_MAX ||
        number_of(&attrs->dilation, i, 1) > INT32_MAX ||
        number_of(&attrs->padding, i, 0) > INT32_MAX ||
        number_of(&attrs->padding, spatial + i, 0) > INT32_MAX)
      return shape_refuse(q, "attrs->stride, padding and dilation are at most 2^31 - 1", NULL,
                          NULL);
  return TN_OK;
}

/* The windows along spatial axis i; false if there is none. */
static bool windows_of(const tn_conv_integer_attrs *attrs, int32_t spatial, int32_t i, int64_t size,
                       int64_t kernel, int64_t *count) {
  int64_t extent, padded = number_of(&attrs->padding, i, 0);
  padded += number_of(&attrs->padding, spatial + i, 0);
  if (kernel < 1 || __builtin_add_overflow(padded, size, &padded) ||
      __builtin_mul_overflow(kernel - 1, number_of(&attrs->dilation, i, 1), &extent) ||
      extent >= padded)
    return false;
  *count = (padded - extent - 1) / number_of(&attrs->stride, i, 1) + 1;
  return true;
}

static tn_status conv_of(const shape_query *q, const DLTensor *x, const DLTensor *w, extents *out) {
  const tn_conv_integer_attrs *attrs = q->attrs; /* qlinear_conv has the same layout */
  int32_t spatial = x->ndim - 2;
  if (x->ndim < 3 || x->ndim > 5 || w->ndim != x->ndim)
    return shape_refuse(q, "x and w need 3, 4 or 5 axes, both as many", x, w);
  tn_status status = check_counts(q, attrs, spatial);
  if (status) return status;
  int64_t channels;
  if (__builtin_mul_overflow(w->shape[1], attrs->groups, &channels) || channels != x->shape[1] ||
      w->shape[0] % attrs->groups != 0)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_%s: %" PRId64 " groups of %" PRId64 " channels to %" PRId64
                " do not fit %" PRId64 " channels",
                q->op->name, attrs->groups, w->shape[1], w->shape[0], x->shape[1]);
  out->rank = x->ndim;
  out->dim[0] = x->shape[0];
  out->dim[1] = w->shape[0];
  for (int32_t i = 0; i < spatial; ++i)
    if (!windows_of(attrs, spatial, i, x->shape[2 + i], w->shape[2 + i], &out->dim[2 + i]))
      return shape_refuse(q, "the window is larger than x with its padding", x, w);
  return TN_OK;
}

tn_status shape_rule_conv_integer(const shape_query *q, extents *out, uint32_t num_out) {
  tn_status status = conv_of(q, q->in[0], q->in[1], out);
  if (!status) status = need_elements(q, 2, ONE);
  if (!status) status = need_elements(q, 3, out->dim[1]);
  (void)num_out;
  return status;
}

tn_status shape_rule_qlinear_conv(const shape_query *q, extents *out, uint32_t num_out) {
  tn_status status = conv_of(q, q->in[A], q->in[B], out);
  for (uint32_t i = A_SCALE; i <= A_ZERO && !status; ++i) status = need_elements(q, i, ONE);
  for (uint32_t i = B_SCALE; i <= B_ZERO && !status; ++i) status = need_elements(q, i, out->dim[1]);
  for (uint32_t i = Y_SCALE; i <= Y_ZERO && !status; ++i) status = need_elements(q, i, ONE);
  if (status) return status;
  const DLTensor *bias = q->in[BIAS];
  if (bias && (bias->ndim != 1 || bias->shape[0] != out->dim[1]))
    return shape_refuse(q, "bias must be [k] for w", bias, q->in[B]);
  (void)num_out;
  return TN_OK;
}
