/*
 * Shape rules of matrix products and of operators that slide a window over images.
 * Output sizes follow Dumoulin and Visin 2016 (arXiv 1603.07285), section 4.
 */
#include "dispatcher/shape_rules.h"

#include <inttypes.h>

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
  /* The batch axes broadcast. */
  DLTensor batch_a = *a, batch_b = *b;
  batch_a.ndim -= 2;
  batch_b.ndim -= 2;
  shape_copy(out, &batch_a);
  if (!shape_broadcast(out, &batch_b))
    return shape_refuse(q, "the batch axes do not broadcast together", a, b);
  out->dim[out->rank++] = m;
  out->dim[out->rank++] = n;
  (void)num_out;
  return TN_OK;
}

/* The leading fields that the convolutions' attribute structs share. */
typedef tn_conv2d_attrs conv_attrs;

static tn_status check_conv_attrs(const shape_query *q) {
  const conv_attrs *attrs = q->attrs;
  for (int i = 0; i < 2; ++i) {
    if (attrs->stride[i] < 1 || attrs->dilation[i] < 1)
      return shape_refuse(q, "attrs->stride and attrs->dilation must be at least 1", NULL, NULL);
    if (attrs->padding[i] < 0)
      return shape_refuse(q, "attrs->padding must not be negative", NULL, NULL);
  }
  if (attrs->groups < 1) return shape_refuse(q, "attrs->groups must be at least 1", NULL, NULL);
  return TN_OK;
}

/* The windows that fit along one axis: false if none or on overflow. */
static bool window_count(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                         int64_t dilation, int64_t *count) {
  int64_t padded, extent;
  if (kernel < 1 || __builtin_mul_overflow(padding, 2, &padded) ||
      __builtin_add_overflow(padded, size, &padded) ||
      __builtin_mul_overflow(kernel - 1, dilation, &extent) || extent >= padded)
    return false;
  *count = (padded - extent - 1) / stride + 1;
  return true;
}

/* Checks that dy is what conv2d makes of x-shaped and w-shaped tensors. */
static tn_status check_conv(const shape_query *q, const int64_t x[4], const int64_t w[4],
                            int64_t out[4]) {
  const conv_attrs *attrs = q->attrs;
  tn_status status = check_conv_attrs(q);
  if (status) return status;
  int64_t channels;
  if (__builtin_mul_overflow(w[1], attrs->groups, &channels) || channels != x[1] ||
      w[0] % attrs->groups != 0)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_%s: %" PRId64 " groups of %" PRId64 " channels to %" PRId64
                " do not fit an image of %" PRId64 " channels",
                q->op->name, attrs->groups, w[1], w[0], x[1]);
  out[0] = x[0];
  out[1] = w[0];
  for (int i = 0; i < 2; ++i)
    if (!window_count(x[2 + i], w[2 + i], attrs->stride[i], attrs->padding[i], attrs->dilation[i],
                      &out[2 + i]))
      return fail(TN_ERR_INVALID_ARGUMENT,
                  "tn_%s: a window of %" PRId64 " (dilation %" PRId64 ") does not fit %" PRId64
                  " elements with padding %" PRId64,
                  q->op->name, w[2 + i], attrs->dilation[i], x[2 + i], attrs->padding[i]);
  return TN_OK;
}

static tn_status need_rank4(const shape_query *q, const DLTensor *a, const DLTensor *b) {
  if (a->ndim == 4 && b->ndim == 4) return TN_OK;
  return shape_refuse(q, "both tensors need 4 axes", a, b);
}

static void set4(extents *out, const int64_t dim[4]) {
  out->rank = 4;
  for (int i = 0; i < 4; ++i) out->dim[i] = dim[i];
}

tn_status shape_rule_conv2d(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0], *w = q->in[1], *bias = q->in[2];
  int64_t y[4];
  tn_status status = need_rank4(q, x, w);
  if (!status) status = check_conv(q, x->shape, w->shape, y);
  if (status) return status;
  if (bias && (bias->ndim != 1 || bias->shape[0] != w->shape[0]))
    return shape_refuse(q, "bias must be [k] for w", bias, w);
  set4(out, y);
  (void)num_out;
  return TN_OK;
}

static bool equal4(const int64_t *a, const int64_t *b) {
  return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

tn_status shape_rule_conv2d_grad_input(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_conv2d_grad_input_attrs *attrs = q->attrs;
  const DLTensor *dy = q->in[0], *w = q->in[1];
  tn_status status = need_rank4(q, dy, w);
  if (!status) status = check_conv_attrs(q);
  if (status) return status;
  int64_t x[4] = {dy->shape[0], 0, attrs->size[0], attrs->size[1]}, y[4];
  if (x[2] < 0 || x[3] < 0 || __builtin_mul_overflow(w->shape[1], attrs->groups, &x[1]))
    return shape_refuse(q, "attrs->size must be the forward input's height and width", NULL, NULL);
  status = check_conv(q, x, w->shape, y);
  if (status) return status;
  if (!equal4(y, dy->shape))
    return shape_refuse(q, "dy is not what conv2d makes of attrs->size and w", dy, w);
  set4(out, x);
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_conv2d_grad_weight(const shape_query *q, extents *out, uint32_t num_out) {
  const tn_conv2d_grad_weight_attrs *attrs = q->attrs;
  const DLTensor *dy = q->in[0], *x = q->in[1];
  tn_status status = need_rank4(q, dy, x);
  if (!status) status = check_conv_attrs(q);
  if (status) return status;
  if (x->shape[1] % attrs->groups != 0)
    return shape_refuse(q, "attrs->groups does not divide the channels of x", x, NULL);
  int64_t w[4] = {dy->shape[1], x->shape[1] / attrs->groups, attrs->kernel[0], attrs->kernel[1]};
  int64_t y[4];
  status = check_conv(q, x->shape, w, y);
  if (status) return status;
  if (!equal4(y, dy->shape))
    return shape_refuse(q, "dy is not what conv2d makes of x and attrs->kernel", dy, x);
  set4(out, w);
  (void)num_out;
  return TN_OK;
}

/* The leading fields that the pooling operators' attribute structs share. */
typedef tn_max_pool2d_attrs pool_attrs;

static tn_status pool_windows(const shape_query *q, const int64_t size[2], int64_t out[2]) {
  const pool_attrs *attrs = q->attrs;
  for (int i = 0; i < 2; ++i) {
    int64_t kernel = attrs->kernel[i], stride = attrs->stride[i] ? attrs->stride[i] : kernel;
    if (kernel < 1 || stride < 1)
      return shape_refuse(q, "attrs->kernel must be at least 1, attrs->stride at least 0", NULL,
                          NULL);
    if (attrs->padding[i] < 0 || attrs->padding[i] > kernel / 2)
      return shape_refuse(q, "attrs->padding must be from 0 to half the kernel", NULL, NULL);
    if (!window_count(size[i], kernel, stride, attrs->padding[i], 1, &out[i]))
      return fail(TN_ERR_INVALID_ARGUMENT,
                  "tn_%s: a window of %" PRId64 " does not fit %" PRId64
                  " elements with padding %" PRId64,
                  q->op->name, kernel, size[i], attrs->padding[i]);
  }
  return TN_OK;
}

tn_status shape_rule_pool2d(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0];
  if (x->ndim != 4) return shape_refuse(q, "x needs 4 axes", x, NULL);
  if (x->shape[2] > INT32_MAX || x->shape[3] > INT32_MAX || x->shape[2] * x->shape[3] > INT32_MAX)
    return shape_refuse(q, "an image may have at most 2^31 - 1 elements", x, NULL);
  int64_t y[4] = {x->shape[0], x->shape[1], 0, 0};
  tn_status status = pool_windows(q, &x->shape[2], &y[2]);
  if (status) return status;
  for (uint32_t i = 0; i < num_out; ++i) set4(&out[i], y);
  return TN_OK;
}

/* attrs->size follows the pool attributes at an offset that depends on the operator. */
static const int64_t *pool_grad_size(const shape_query *q) {
  return q->op->id == TN_OP_MAX_POOL2D_GRAD ? ((const tn_max_pool2d_grad_attrs *)q->attrs)->size
                                            : ((const tn_avg_pool2d_grad_attrs *)q->attrs)->size;
}

tn_status shape_rule_pool2d_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *dy = q->in[0];
  const int64_t *size = pool_grad_size(q);
  if (dy->ndim != 4) return shape_refuse(q, "dy needs 4 axes", dy, NULL);
  if (q->num_in > 1 && !shape_same(dy, q->in[1]))
    return shape_refuse(q, "index must have the shape of dy", dy, q->in[1]);
  if (size[0] < 0 || size[1] < 0)
    return shape_refuse(q, "attrs->size must be the forward input's height and width", NULL, NULL);
  int64_t windows[2];
  tn_status status = pool_windows(q, size, windows);
  if (status) return status;
  if (windows[0] != dy->shape[2] || windows[1] != dy->shape[3])
    return shape_refuse(q, "dy is not what the pooling makes of attrs->size", dy, NULL);
  set4(out, (int64_t[]){dy->shape[0], dy->shape[1], size[0], size[1]});
  (void)num_out;
  return TN_OK;
}
