/* ONNX's operators that put elements in another order by blocks, lengths or sizes. */
#include "adapters.h"

#include <stdlib.h>
#include <string.h>

/* Blocks of channels become blocks of pixels. */
static tn_status depth_to_space(onnx_node *c, const char *op) {
  static const int32_t deep[] = {0, 3, 4, 1, 5, 2}, columns[] = {0, 1, 4, 2, 5, 3};
  const int64_t *x = c->in[0].shape, b = node_int(c, "blocksize", 1);
  bool crd = node_word(c, "mode", "CRD");
  (void)op;
  if (c->in[0].rank != 4 || b < 1 || b > 1 << 20 || x[1] % (b * b))
    return node_cannot(c, "channels that blocks of %lld do not divide", (long long)b);
  int64_t depth = x[1] / (b * b);
  int64_t by_depth[] = {x[0], b, b, depth, x[2], x[3]},
          by_column[] = {x[0], depth, b, b, x[2], x[3]};
  tn_tensor *y = node_reshape(c, c->x[0], 6, crd ? by_column : by_depth);
  y = node_permute(c, y, crd ? columns : deep);
  return node_give(c, 0, node_reshape(c, y, 4, (int64_t[]){x[0], depth, x[2] * b, x[3] * b}));
}

static tn_status space_to_depth(onnx_node *c, const char *op) {
  static const int32_t axes[] = {0, 3, 5, 1, 2, 4};
  const int64_t *x = c->in[0].shape, b = node_int(c, "blocksize", 1);
  (void)op;
  if (c->in[0].rank != 4 || b < 1 || b > 1 << 20 || x[2] % b || x[3] % b)
    return node_cannot(c, "an image that blocks of %lld do not divide", (long long)b);
  int64_t split[] = {x[0], x[1], x[2] / b, b, x[3] / b, b};
  tn_tensor *y = node_permute(c, node_reshape(c, c->x[0], 6, split), axes);
  return node_give(c, 0,
                   node_reshape(c, y, 4, (int64_t[]){x[0], x[1] * b * b, x[2] / b, x[3] / b}));
}

/* The first steps of each sequence turned round: an index of all elements, made here. */
static tn_status reverse_sequence(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  int64_t time = node_int(c, "time_axis", 0), batch = node_int(c, "batch_axis", 1);
  (void)op;
  if (!node_needs(c, 1)) return TN_OK;
  if (x->rank < 2 || time < 0 || time > 1 || batch < 0 || batch > 1 || time == batch)
    return node_cannot(c, "sequences along axis %lld", (long long)time);
  int64_t steps = x->shape[time], count = x->shape[batch], shape[TN_MAX_RANK];
  int64_t places;
  if (__builtin_mul_overflow(steps, count, &places) || places > 1 << 24)
    return node_cannot(c, "%lld sequences of %lld", (long long)count, (long long)steps);
  for (int32_t i = 0; i < x->rank; i++) shape[i] = i < 2 ? x->shape[i] : 1;
  if (c->in[1].elements != count) return node_cannot(c, "lengths of other than all sequences");
  int64_t *index = calloc((size_t)places + 1, sizeof *index);
  if (!index) return TN_ERR_OUT_OF_MEMORY;
  for (int64_t b = 0; b < count; b++) {
    int64_t length = node_value(c, 1, b);
    for (int64_t t = 0; t < steps; t++)
      index[time ? b * steps + t : t * count + b] = t < length ? length - 1 - t : t;
  }
  tn_tensor *all = node_from_host(c, TN_I64, x->rank, shape, index);
  free(index);
  op_call k = call_begin(c, "take_along_axis");
  call_in(&k, c->x[0]);
  call_in(&k, node_rows(c, node_expand(c, all, x->rank, x->shape)));
  call_set(&k, "axis", 0, (double)time);
  return node_give(c, 0, all ? node_made(&k) : NULL);
}

/* Values at the places that pooling found them at; all else is 0. */
static tn_status max_unpool(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  const int64_t *kernel, *stride, *pads;
  int rank = x->rank - 2, padded = node_ints(c, "pads", &pads);
  int64_t shape[TN_MAX_RANK] = {0}, elements = 1;
  (void)op;
  if (!node_needs(c, 1)) return TN_OK;
  if (rank < 1 || node_ints(c, "kernel_shape", &kernel) != rank || (padded && padded != 2 * rank))
    return node_cannot(c, "a kernel of other than %d axes", rank);
  int strided = node_ints(c, "strides", &stride);
  for (int32_t i = 0; i < x->rank; i++) {
    shape[i] = x->shape[i];
    if (i >= 2)
      shape[i] = (x->shape[i] - 1) * (strided == rank ? stride[i - 2] : 1) + kernel[i - 2] -
                 (padded ? pads[i - 2] + pads[rank + i - 2] : 0);
  }
  for (int32_t i = 0; i < x->rank; i++) elements *= shape[i];
  tn_tensor *y = node_filled(c, x->dtype, 1, &elements, 0);
  op_call k = call_begin(c, "scatter");
  call_in(&k, node_reshape(c, c->x[0], 1, &x->elements));
  call_in(&k, node_reshape(c, c->x[1], 1, &x->elements));
  call_update(&k, y);
  if (!y || !node_check(c, call_run(&k, NULL, 0))) return c->status;
  y = node_reshape(c, y, x->rank, shape);
  if (!node_given(c, 2)) return node_give(c, 0, y);
  /* Places count over the tensor without the larger shape that input 2 may ask for. */
  op_call more = call_begin(c, "pad");
  call_in(&more, y);
  for (int32_t i = 0; i < x->rank; i++) {
    call_set(&more, "before", i, 0);
    call_set(&more, "after", i, (double)(node_value(c, 2, i) - shape[i]));
  }
  return node_give(c, 0, node_made(&more));
}

/* 1 at the first maximum. Before opset 13 a matrix of the axes from one on. */
static tn_status hardmax(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  bool whole = c->opset < 13;
  int32_t axis = node_axis(c, node_int(c, "axis", whole ? 1 : -1), x->rank), rank = x->rank;
  int64_t shape[TN_MAX_RANK] = {1, 1};
  (void)op;
  for (int32_t i = 0; i < rank && !whole; i++) shape[i] = x->shape[i];
  for (int32_t i = 0; i < rank && whole; i++) shape[i >= axis] *= x->shape[i];
  if (whole) rank = 2, axis = 1;
  op_call k = call_begin(c, "argmax"), o = call_begin(c, "one_hot");
  call_in(&k, node_reshape(c, c->x[0], rank, shape));
  call_set(&k, "axis", 0, axis);
  call_in(&o, node_made(&k));
  call_set(&o, "classes", 0, (double)shape[axis]);
  call_set(&o, "axis", 0, axis);
  call_set(&o, "dtype", 0, x->dtype);
  return node_give(c, 0, node_reshape(c, node_made(&o), x->rank, x->shape));
}

const adapter_row adapters_order[] = {
    {"DepthToSpace", depth_to_space, NULL, 0, 0, NULL},
    {"Hardmax", hardmax, NULL, 0, 0, NULL},
    {"MaxUnpool", max_unpool, NULL, 0, 0, NULL},
    {"ReverseSequence", reverse_sequence, NULL, 0, 0, NULL},
    {"SpaceToDepth", space_to_depth, NULL, 0, 0, NULL},
    {0},
};
