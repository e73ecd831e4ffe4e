/* Adapters of several calls: tensors that are the node's, and errors that are looked at once. */
#include <stdlib.h>

#include "node.h"

bool node_check(onnx_node *c, tn_status status) {
  if (status != TN_OK && c->status == TN_OK) c->status = status;
  return c->status == TN_OK && !*c->cannot;
}

static bool goes_on(const onnx_node *c) { return c->status == TN_OK && !*c->cannot; }

tn_tensor *node_keep(onnx_node *c, tn_tensor *x) {
  if (!x) return NULL;
  if (c->num_kept == c->room_kept) {
    int room = c->room_kept ? 2 * c->room_kept : 8;
    tn_tensor **more = realloc(c->kept, (size_t)room * sizeof *more);
    if (!more) {
      tn_tensor_release(x);
      return node_check(c, TN_ERR_OUT_OF_MEMORY), NULL;
    }
    c->kept = more;
    c->room_kept = room;
  }
  return c->kept[c->num_kept++] = x;
}

tn_tensor *node_kept(onnx_node *c, tn_status status, tn_tensor *const *y) {
  tn_tensor *mine = status == TN_OK ? node_keep(c, *y) : NULL;
  return node_check(c, status) ? mine : NULL;
}

tn_tensor *node_made(op_call *k) {
  tn_tensor *y[1] = {NULL};
  if (!goes_on(k->c)) return NULL;
  tn_status status = call_run(k, y, 1);
  return node_kept(k->c, status, y);
}

tn_tensor *node_do(onnx_node *c, const char *op, const tn_tensor *a, const tn_tensor *b) {
  if (!goes_on(c) || !a) return NULL;
  op_call k = call_begin(c, op);
  call_in(&k, a);
  if (b) call_in(&k, b);
  return node_made(&k);
}

tn_tensor *node_constant(onnx_node *c, tn_dtype dtype, double value) {
  tn_tensor *y = NULL;
  if (!goes_on(c)) return NULL;
  return node_kept(c, tn_scalar_f64(c->device, c->stream, dtype, value, &y), &y);
}

tn_tensor *node_from_host(onnx_node *c, tn_dtype dtype, int32_t rank, const int64_t *shape,
                          const void *data) {
  tn_tensor *y = NULL;
  if (!goes_on(c)) return NULL;
  return node_kept(c, tn_tensor_from_host(c->device, dtype, rank, shape, data, &y), &y);
}

tn_tensor *node_cast(onnx_node *c, tn_tensor *x, tn_dtype dtype) {
  if (!goes_on(c) || !x || tn_tensor_dtype(x) == dtype) return goes_on(c) ? x : NULL;
  op_call k = call_begin(c, "cast");
  call_in(&k, x);
  call_set(&k, "dtype", 0, dtype);
  return node_made(&k);
}

tn_tensor *node_rows(onnx_node *c, tn_tensor *x) {
  tn_tensor *y = NULL;
  if (!goes_on(c) || !x) return NULL;
  return node_kept(c, tn_tensor_contiguous(c->stream, x, &y), &y);
}

tn_tensor *node_reshape(onnx_node *c, tn_tensor *x, int32_t rank, const int64_t *shape) {
  tn_tensor *y = NULL;
  if (!goes_on(c) || !x) return NULL;
  if (tn_tensor_reshape(x, rank, shape, &y) == TN_OK) return node_keep(c, y);
  x = node_rows(c, x);
  return x ? node_kept(c, tn_tensor_reshape(x, rank, shape, &y), &y) : NULL;
}

tn_tensor *node_permute(onnx_node *c, tn_tensor *x, const int32_t *axes) {
  tn_tensor *y = NULL;
  if (!goes_on(c) || !x) return NULL;
  return node_kept(c, tn_tensor_permute(x, axes, &y), &y);
}

tn_tensor *node_slice(onnx_node *c, tn_tensor *x, int32_t axis, int64_t begin, int64_t end) {
  return node_slice_by(c, x, axis, begin, end, 1);
}

tn_tensor *node_slice_by(onnx_node *c, tn_tensor *x, int32_t axis, int64_t begin, int64_t end,
                         int64_t step) {
  tn_tensor *y = NULL;
  if (!goes_on(c) || !x) return NULL;
  return node_kept(c, tn_tensor_slice(x, axis, begin, end, step, &y), &y);
}

tn_tensor *node_expand(onnx_node *c, tn_tensor *x, int32_t rank, const int64_t *shape) {
  tn_tensor *y = NULL;
  if (!goes_on(c) || !x) return NULL;
  return node_kept(c, tn_tensor_expand(x, rank, shape, &y), &y);
}

tn_tensor *node_empty(onnx_node *c, tn_dtype dtype, int32_t rank, const int64_t *shape) {
  tn_tensor *y = NULL;
  if (!goes_on(c)) return NULL;
  return node_kept(c, tn_tensor_empty_on(c->device, c->stream, dtype, rank, shape, &y), &y);
}

tn_tensor *node_filled(onnx_node *c, tn_dtype dtype, int32_t rank, const int64_t *shape,
                       double value) {
  tn_tensor *y = NULL;
  if (!goes_on(c)) return NULL;
  return node_kept(c, tn_full_f64(c->device, c->stream, dtype, rank, shape, value, &y), &y);
}

tn_tensor *node_copy(onnx_node *c, tn_tensor *x) { return node_do(c, "copy", x, NULL); }

tn_status node_give(onnx_node *c, int out, tn_tensor *x) {
  if (!goes_on(c) || !x) return c->status;
  tn_tensor_retain(x);
  c->y[out] = x;
  return TN_OK;
}
