/*
 * Shape rules of pooling over one, two or three spatial axes and of resizing.
 */
#include <inttypes.h>

#include "dispatcher/shape/shape_rules.h"

enum { KERNEL, STRIDE, PADDING };

/* The operators share the order of their attributes: ceil_mode is the last one and, in
 * gradients, size the one before. */
static const int64_t *last_numbers(const shape_query *q, uint32_t from_end) {
  return shape_numbers(q, q->op->num_attrs - from_end);
}

/* A window more where one begins inside the input or its left border. */
static int64_t with_ceil(int64_t count, int64_t size, int64_t kernel, int64_t stride,
                         int64_t padding) {
  int64_t rest = (size + 2 * padding - kernel) % stride;
  return rest != 0 && count <= (size + padding - 1) / stride ? count + 1 : count;
}

static tn_status pool_windows(const shape_query *q, const int64_t *size, int64_t *out) {
  bool ceil_mode = *last_numbers(q, 1) != 0;
  for (int i = 0; i < shape_spatial(q); ++i) {
    int64_t kernel = shape_numbers(q, KERNEL)[i], padding = shape_numbers(q, PADDING)[i];
    int64_t stride = shape_numbers(q, STRIDE)[i];
    if (stride == 0) stride = kernel;
    if (kernel < 1 || stride < 1)
      return shape_refuse(q, "attrs->kernel must be at least 1, attrs->stride at least 0", NULL,
                          NULL);
    if (padding < 0 || padding > kernel / 2)
      return shape_refuse(q, "attrs->padding must be from 0 to half the kernel", NULL, NULL);
    if (stride > INT32_MAX || padding > INT32_MAX / 2 || size[i] + 2 * padding > INT32_MAX)
      return shape_refuse(q, "places in padded images and attrs->stride are at most 2^31 - 1", NULL,
                          NULL);
    if (size[i] < 1 || !shape_windows(size[i], kernel, stride, padding, 1, &out[i]))
      return fail(TN_ERR_INVALID_ARGUMENT,
                  "tn_%s: a window of %" PRId64 " does not fit %" PRId64
                  " elements with padding %" PRId64,
                  q->op->name, kernel, size[i], padding);
    if (ceil_mode) out[i] = with_ceil(out[i], size[i], kernel, stride, padding);
  }
  return TN_OK;
}

/* Places in a plane are int32: at most 2^31 - 1 elements. */
static bool counts_in_32_bits(const int64_t *size, int spatial) {
  int64_t count = 1;
  for (int i = 0; i < spatial; ++i)
    if (size[i] > INT32_MAX || (count *= size[i]) > INT32_MAX) return false;
  return true;
}

static tn_status check_plane(const shape_query *q, const int64_t *size) {
  if (counts_in_32_bits(size, shape_spatial(q))) return TN_OK;
  return shape_refuse(q, "an image may have at most 2^31 - 1 elements", NULL, NULL);
}

/* [n, c, size...] with n and c of `x`. */
static void give(const shape_query *q, const DLTensor *x, const int64_t *size, extents *out) {
  out->rank = x->ndim;
  out->dim[0] = x->shape[0];
  out->dim[1] = x->shape[1];
  for (int i = 0; i < shape_spatial(q); ++i) out->dim[2 + i] = size[i];
}

tn_status shape_rule_pool(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0];
  int64_t y[3];
  tn_status status = shape_need_rank(q, shape_spatial(q) + 2, x, NULL);
  if (!status) status = check_plane(q, &x->shape[2]);
  if (!status) status = pool_windows(q, &x->shape[2], y);
  if (!status) status = check_plane(q, y);
  for (uint32_t i = 0; !status && i < num_out; ++i) give(q, x, y, &out[i]);
  return status;
}

/* What the gradients have in common: dy, index and attrs->size. */
static tn_status check_gradient(const shape_query *q, const int64_t *size) {
  const DLTensor *dy = q->in[0];
  tn_status status = shape_need_rank(q, shape_spatial(q) + 2, dy, NULL);
  if (status) return status;
  if (q->num_in > 1 && !shape_same(dy, q->in[1]))
    return shape_refuse(q, "index must have the shape of dy", dy, q->in[1]);
  for (int i = 0; i < shape_spatial(q); ++i)
    if (size[i] < 0)
      return shape_refuse(q, "attrs->size must be the forward input's spatial size", NULL, NULL);
  return check_plane(q, size);
}

tn_status shape_rule_pool_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *dy = q->in[0];
  const int64_t *size = last_numbers(q, 2);
  int64_t windows[3];
  tn_status status = check_gradient(q, size);
  if (!status) status = pool_windows(q, size, windows);
  if (!status) status = check_plane(q, windows);
  if (status) return status;
  for (int i = 0; i < shape_spatial(q); ++i)
    if (windows[i] != dy->shape[2 + i])
      return shape_refuse(q, "dy is not what the pooling makes of attrs->size", dy, NULL);
  give(q, dy, size, out);
  (void)num_out;
  return TN_OK;
}

tn_status shape_rule_pool2d(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_pool(q, out, num_out);
}

tn_status shape_rule_pool2d_grad(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_pool_grad(q, out, num_out);
}

/* An empty plane has nothing to read. */
static tn_status need_elements(const shape_query *q, const DLTensor *t) {
  for (int32_t i = 2; i < t->ndim; ++i)
    if (t->shape[i] < 1) return shape_refuse(q, "a spatial axis has no elements", t, NULL);
  return TN_OK;
}

/* [n, c, size...] to [n, c, attrs->output...]: the first attribute, at least 1. */
tn_status shape_rule_adaptive_pool(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0];
  const int64_t *output = shape_numbers(q, 0);
  tn_status status = shape_need_rank(q, shape_spatial(q) + 2, x, NULL);
  if (!status) status = need_elements(q, x);
  if (!status) status = check_plane(q, &x->shape[2]);
  if (!status) status = check_plane(q, output);
  for (uint32_t i = 0; !status && i < num_out; ++i) give(q, x, output, &out[i]);
  return status;
}

/* [n, c, output...] to [n, c, attrs->size...]: the first attribute, at least 1. */
tn_status shape_rule_adaptive_pool_grad(const shape_query *q, extents *out, uint32_t num_out) {
  const int64_t *size = shape_numbers(q, 0);
  tn_status status = check_gradient(q, size);
  if (!status) status = need_elements(q, q->in[0]);
  if (!status) status = check_plane(q, &q->in[0]->shape[2]);
  if (!status) give(q, q->in[0], size, out);
  (void)num_out;
  return status;
}

tn_status shape_rule_resize(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_adaptive_pool(q, out, num_out);
}

tn_status shape_rule_resize_grad(const shape_query *q, extents *out, uint32_t num_out) {
  return shape_rule_adaptive_pool_grad(q, out, num_out);
}
