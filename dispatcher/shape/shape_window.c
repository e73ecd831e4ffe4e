/*
 * Shape rules of matrix products and of convolutions over one, two or three spatial axes.
 * Output sizes follow Dumoulin and Visin 2016 (arXiv 1603.07285), section 4.
 */
#include "dispatcher/shape/shape_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

tn_status shape_product(const shape_query *q, const DLTensor *a, const DLTensor *b, int64_t m,
                        int64_t n, extents *out) {
  DLTensor batch_a = *a, batch_b = *b;
  batch_a.ndim -= 2;
  batch_b.ndim -= 2;
  shape_copy(out, &batch_a);
  if (!shape_broadcast(out, &batch_b))
    return shape_refuse(q, "the batch axes do not broadcast together", a, b);
  out->dim[out->rank++] = m;
  out->dim[out->rank++] = n;
  return TN_OK;
}

tn_status shape_rule_matmul(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_matmul_attrs *attrs = q->attrs;
  const DLTensor *a = q->in[0], *b = q->in[1], *bias = q->in[2];
  if (a->ndim < 2 || b->ndim < 2) return shape_refuse(q, "a and b need at least 2 axes", a, b);
  int64_t m = a->shape[a->ndim - (attrs->trans_a ? 1 : 2)];
  int64_t k = a->shape[a->ndim - (attrs->trans_a ? 2 : 1)];
  int64_t kb = b->shape[b->ndim - (attrs->trans_b ? 1 : 2)];
  int64_t n = b->shape[b->ndim - (attrs->trans_b ? 2 : 1)];
  if (k != kb)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_matmul: a has %" PRId64 " columns, b has %" PRId64
                " rows: they must be equal (trans_a %d, trans_b %d)",
                k, kb, attrs->trans_a, attrs->trans_b);
  if (bias && (bias->ndim != 1 || bias->shape[0] != n))
    return shape_refuse(q, "bias must be [n] for b", bias, b);
  (void)num_out;
  return shape_product(q, a, b, m, n, out);
}

bool shape_is_one(const DLTensor *t) {
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] != 1) return false;
  return true;
}

/* A zero point is one number, whatever its rank. */
static bool is_one_element(const DLTensor *t) { return !t || shape_is_one(t); }

tn_status shape_rule_matmul_integer(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *a = q->in[0], *b = q->in[1];
  if (a->ndim < 2 || b->ndim < 2) return shape_refuse(q, "a and b need at least 2 axes", a, b);
  if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2])
    return shape_refuse(q, "a must have as many columns as b has rows", a, b);
  if (!is_one_element(q->in[2])) return shape_refuse(q, "a_zero must be one element", q->in[2], a);
  if (!is_one_element(q->in[3])) return shape_refuse(q, "b_zero must be one element", q->in[3], b);
  (void)num_out;
  return shape_product(q, a, b, a->shape[a->ndim - 2], b->shape[b->ndim - 1], out);
}

int shape_spatial(const shape_query *q) {
  switch (q->op->attrs[0].type) {
  case TN_ATTR_I64:
    return 1;
  case TN_ATTR_PAIR:
    return 2;
  default:
    return 3;
  }
}

const int64_t *shape_numbers(const shape_query *q, uint32_t attr) {
  return (const int64_t *)(const void *)((const char *)q->attrs + q->op->attrs[attr].offset);
}

tn_status shape_need_rank(const shape_query *q, int32_t rank, const DLTensor *a,
                          const DLTensor *b) {
  char what[64];
  if (a->ndim == rank && (!b || b->ndim == rank)) return TN_OK;
  (void)snprintf(what, sizeof what, "%s %d axes", b ? "both tensors need" : "the tensor needs",
                 (int)rank);
  return shape_refuse(q, what, a, b);
}

bool shape_windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                   int64_t *count) {
  int64_t padded, extent;
  if (kernel < 1 || __builtin_mul_overflow(padding, 2, &padded) ||
      __builtin_add_overflow(padded, size, &padded) ||
      __builtin_mul_overflow(kernel - 1, dilation, &extent) || extent >= padded)
    return false;
  *count = (padded - extent - 1) / stride + 1;
  return true;
}

/* A convolution's attributes, which stand in one order in all of its operators, and the
 * shapes of its tensors by their forward names: x [n, c, ...], w [k, c / groups, ...],
 * y [n, k, ...]. */
typedef struct conv {
  const shape_query *q;
  int spatial;
  const int64_t *stride, *padding, *dilation, *extra; /* extra: the attribute behind groups */
  int64_t groups;
  int64_t x[TN_MAX_RANK], w[TN_MAX_RANK], y[TN_MAX_RANK];
} conv;

enum { STRIDE, PADDING, DILATION, GROUPS, EXTRA, KERNEL_OF_TRANSPOSE };

static void copy_shape(int64_t *to, const DLTensor *from) {
  memcpy(to, from->shape, (size_t)from->ndim * sizeof *to);
}

static tn_status conv_begin(conv *c, const shape_query *q) {
  *c = (conv){.q = q, .spatial = shape_spatial(q)};
  c->stride = shape_numbers(q, STRIDE);
  c->padding = shape_numbers(q, PADDING);
  c->dilation = shape_numbers(q, DILATION);
  c->groups = *shape_numbers(q, GROUPS);
  if (q->op->num_attrs > EXTRA) c->extra = shape_numbers(q, EXTRA);
  for (int i = 0; i < c->spatial; ++i) {
    if (c->stride[i] < 1 || c->dilation[i] < 1)
      return shape_refuse(q, "attrs->stride and attrs->dilation must be at least 1", NULL, NULL);
    if (c->padding[i] < 0)
      return shape_refuse(q, "attrs->padding must not be negative", NULL, NULL);
  }
  if (c->groups < 1) return shape_refuse(q, "attrs->groups must be at least 1", NULL, NULL);
  return shape_need_rank(q, c->spatial + 2, q->in[0], q->in[1]);
}

static tn_status check_groups(const conv *c) {
  int64_t channels;
  if (!__builtin_mul_overflow(c->w[1], c->groups, &channels) && channels == c->x[1] &&
      c->w[0] % c->groups == 0)
    return TN_OK;
  return fail(TN_ERR_INVALID_ARGUMENT,
              "tn_%s: %" PRId64 " groups of %" PRId64 " channels to %" PRId64 " do not fit %" PRId64
              " channels",
              c->q->op->name, c->groups, c->w[1], c->w[0], c->x[1]);
}

/* So that places in padded images, and steps beyond them, can be added up in 64 bits. */
static tn_status check_steps(const conv *c) {
  for (int i = 0; i < c->spatial; ++i)
    if (c->stride[i] > INT32_MAX || c->padding[i] > INT32_MAX || c->dilation[i] > INT32_MAX)
      return shape_refuse(c->q, "attrs->stride, padding and dilation are at most 2^31 - 1", NULL,
                          NULL);
  return TN_OK;
}

/* y from x and w. */
static tn_status conv_forward(conv *c) {
  tn_status status = check_groups(c);
  if (status) return status;
  c->y[0] = c->x[0];
  c->y[1] = c->w[0];
  for (int i = 0; i < c->spatial; ++i)
    if (!shape_windows(c->x[2 + i], c->w[2 + i], c->stride[i], c->padding[i], c->dilation[i],
                       &c->y[2 + i]))
      return fail(TN_ERR_INVALID_ARGUMENT,
                  "tn_%s: a window of %" PRId64 " (dilation %" PRId64 ") does not fit %" PRId64
                  " elements with padding %" PRId64,
                  c->q->op->name, c->w[2 + i], c->dilation[i], c->x[2 + i], c->padding[i]);
  return check_steps(c);
}

static bool equals(const conv *c, const int64_t *dim, const DLTensor *t) {
  return memcmp(dim, t->shape, (size_t)(c->spatial + 2) * sizeof *dim) == 0;
}

static tn_status give(const conv *c, const int64_t *dim, extents *out) {
  out->rank = c->spatial + 2;
  memcpy(out->dim, dim, (size_t)out->rank * sizeof *dim);
  return TN_OK;
}

/* The optional third input. */
static tn_status check_bias(const shape_query *q, int64_t channels) {
  const DLTensor *bias = q->num_in > 2 ? q->in[2] : NULL;
  if (!bias || (bias->ndim == 1 && bias->shape[0] == channels)) return TN_OK;
  return shape_refuse(q, "bias must have an element per channel of y for w", bias, q->in[1]);
}

tn_status shape_rule_conv(const shape_query *q, extents *out, uint32_t num_out) {
  conv c;
  tn_status status = conv_begin(&c, q);
  if (status) return status;
  copy_shape(c.x, q->in[0]);
  copy_shape(c.w, q->in[1]);
  status = conv_forward(&c);
  if (!status) status = check_bias(q, c.w[0]);
  (void)num_out;
  if (!status) status = give(&c, c.y, out);
  return status;
}

tn_status shape_rule_conv_grad_input(const shape_query *q, extents *out, uint32_t num_out) {
  conv c;
  tn_status status = conv_begin(&c, q);
  if (status) return status;
  const DLTensor *dy = q->in[0], *w = q->in[1];
  copy_shape(c.w, w);
  c.x[0] = dy->shape[0];
  bool fits = !__builtin_mul_overflow(c.w[1], c.groups, &c.x[1]);
  for (int i = 0; i < c.spatial; ++i) {
    c.x[2 + i] = c.extra[i];
    fits = fits && c.extra[i] >= 0;
  }
  if (!fits)
    return shape_refuse(q, "attrs->size must be the forward input's spatial size", NULL, NULL);
  status = conv_forward(&c);
  if (status) return status;
  if (!equals(&c, c.y, dy))
    return shape_refuse(q, "dy is not what the convolution makes of attrs->size and w", dy, w);
  (void)num_out;
  return give(&c, c.x, out);
}

/* w from the channels of x and y and from attrs->kernel. */
static tn_status set_weight(conv *c, const int64_t *kernel) {
  if (c->x[1] % c->groups != 0)
    return shape_refuse(c->q, "attrs->groups does not divide the channels", c->q->in[0],
                        c->q->in[1]);
  c->w[0] = c->y[1];
  c->w[1] = c->x[1] / c->groups;
  memcpy(&c->w[2], kernel, (size_t)c->spatial * sizeof *kernel);
  return TN_OK;
}

tn_status shape_rule_conv_grad_weight(const shape_query *q, extents *out, uint32_t num_out) {
  conv c;
  tn_status status = conv_begin(&c, q);
  if (status) return status;
  const DLTensor *dy = q->in[0], *x = q->in[1];
  copy_shape(c.y, dy);
  copy_shape(c.x, x);
  status = set_weight(&c, c.extra);
  if (!status) status = conv_forward(&c);
  if (status) return status;
  if (!equals(&c, c.y, dy))
    return shape_refuse(q, "dy is not what the convolution makes of x and attrs->kernel", dy, x);
  (void)num_out;
  return give(&c, c.w, out);
}

tn_status shape_rule_conv2d(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_conv(q, out, num_out);
}

tn_status shape_rule_conv2d_add(const shape_query *q, extents *out, uint32_t num_out) {
  enum { ADDEND = 3 };
  tn_status status = shape_rule_conv(q, out, num_out);
  if (status) return status;
  const DLTensor *addend = q->num_in > ADDEND ? q->in[ADDEND] : NULL;
  if (!addend || (addend->ndim == out->rank &&
                  !memcmp(addend->shape, out->dim, (size_t)out->rank * sizeof *out->dim)))
    return TN_OK;
  return shape_refuse(q, "addend must have the shape of y", addend, q->in[0]);
}

tn_status shape_rule_conv2d_grad_input(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_conv_grad_input(q, out, num_out);
}

tn_status shape_rule_conv2d_grad_weight(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_conv_grad_weight(q, out, num_out);
}

/* A transposed convolution's input is y of the convolution whose gradient it is, and its
 * output x. */

/* One size of x: (y - 1) stride - 2 padding + dilation (kernel - 1) + 1 + output_padding. */
static bool transposed_size(const conv *c, int i, int64_t *size) {
  int64_t y = c->y[2 + i], kernel = c->w[2 + i], added = c->extra[i], reach, extent, border;
  if (y < 1 || kernel < 1 || __builtin_mul_overflow(y - 1, c->stride[i], &reach) ||
      __builtin_mul_overflow(kernel - 1, c->dilation[i], &extent) ||
      __builtin_mul_overflow(c->padding[i], 2, &border) ||
      __builtin_add_overflow(extent, added + 1, &extent) ||
      __builtin_add_overflow(reach, extent, size))
    return false;
  *size -= border;
  return *size >= 1;
}

/* x from y and w. */
static tn_status conv_backward(conv *c) {
  for (int i = 0; i < c->spatial; ++i)
    if (c->extra[i] < 0 || c->extra[i] >= c->stride[i])
      return shape_refuse(c->q, "attrs->output_padding must be from 0 to attrs->stride - 1", NULL,
                          NULL);
  bool fits = c->y[1] == c->w[0] && !__builtin_mul_overflow(c->w[1], c->groups, &c->x[1]);
  if (!fits)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_%s: %" PRId64 " groups and a weight of %" PRId64 " by %" PRId64
                " channels do not fit %" PRId64 " channels",
                c->q->op->name, c->groups, c->w[0], c->w[1], c->y[1]);
  c->x[0] = c->y[0];
  for (int i = 0; i < c->spatial; ++i)
    if (!transposed_size(c, i, &c->x[2 + i]))
      return fail(TN_ERR_INVALID_ARGUMENT,
                  "tn_%s: nothing is left of %" PRId64 " windows of %" PRId64 " (dilation %" PRId64
                  ") with padding %" PRId64,
                  c->q->op->name, c->y[2 + i], c->w[2 + i], c->dilation[i], c->padding[i]);
  tn_status status = check_steps(c);
  if (!status) status = check_groups(c);
  return status;
}

tn_status shape_rule_conv_transpose(const shape_query *q, extents *out, uint32_t num_out) {
  conv c;
  tn_status status = conv_begin(&c, q);
  if (status) return status;
  copy_shape(c.y, q->in[0]);
  copy_shape(c.w, q->in[1]);
  status = conv_backward(&c);
  if (!status) status = check_bias(q, c.x[1]);
  (void)num_out;
  if (!status) status = give(&c, c.x, out);
  return status;
}

/* The y whose conv_backward has x's sizes: output_padding < stride leaves one answer. */
tn_status shape_rule_conv_transpose_grad_input(const shape_query *q, extents *out,
                                               uint32_t num_out) {
  conv c;
  tn_status status = conv_begin(&c, q);
  if (status) return status;
  const DLTensor *dy = q->in[0], *w = q->in[1];
  copy_shape(c.x, dy);
  copy_shape(c.w, w);
  status = conv_forward(&c);
  if (!status) status = conv_backward(&c);
  if (status) return status;
  if (!equals(&c, c.x, dy))
    return shape_refuse(q, "dy is not what the forward operator makes with these attributes", dy,
                        w);
  (void)num_out;
  return give(&c, c.y, out);
}

tn_status shape_rule_conv_transpose_grad_weight(const shape_query *q, extents *out,
                                                uint32_t num_out) {
  conv c;
  tn_status status = conv_begin(&c, q);
  if (status) return status;
  const DLTensor *dy = q->in[0], *x = q->in[1];
  copy_shape(c.x, dy);
  copy_shape(c.y, x);
  status = set_weight(&c, shape_numbers(q, KERNEL_OF_TRANSPOSE));
  if (!status) status = conv_backward(&c);
  if (status) return status;
  if (!equals(&c, c.x, dy))
    return shape_refuse(q, "dy is not what the forward operator makes of x and attrs->kernel", dy,
                        x);
  (void)num_out;
  return give(&c, c.w, out);
}
