/* ONNX's reductions, scans and sorts. */
#include "adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Axes are an attribute or the second input; "norm 1" sets attribute ord. */
static tn_status reduce(onnx_node *c, const char *op) {
  const int64_t *axes;
  char name[64];
  double ord = 0;
  int words = sscanf(op, "%63s %lf", name, &ord), count = node_ints(c, "axes", &axes);
  bool given = c->num_in > 1 && c->in[1].present;
  if (given) count = (int)c->in[1].elements;
  if (!count && node_int(c, "noop_with_empty_axes", 0)) {
    op_call copy = call_begin(c, "copy");
    call_in(&copy, c->x[0]);
    return call_run(&copy, c->y, 1);
  }
  op_call k = call_begin(c, name);
  call_in(&k, c->x[0]);
  for (int i = 0; i < count; i++)
    call_set(&k, "axes", i, given ? (double)node_value(c, 1, i) : (double)axes[i]);
  call_set(&k, "keepdims", 0, (double)node_int(c, "keepdims", 1));
  if (words == 2) call_set(&k, "ord", 0, ord);
  return call_run(&k, c->y, 1);
}

/* Two operators, one after the other: "square sum". */
static tn_status reduce_twice(onnx_node *c, const char *op) {
  char first[32], second[32];
  if (sscanf(op, "%31s %31s", first, second) != 2) abort();
  bool reduces_first = !strcmp(first, "sum");
  tn_tensor *middle = NULL, *x = c->x[0];
  tn_status status;
  if (reduces_first) {
    status = reduce(c, first);
    middle = c->y[0];
    c->y[0] = NULL;
    if (status != TN_OK || *c->cannot) return status;
    op_call k = call_begin(c, second);
    call_in(&k, middle);
    status = call_run(&k, c->y, 1);
  } else {
    op_call k = call_begin(c, first);
    call_in(&k, x);
    status = call_run(&k, &middle, 1);
    if (status != TN_OK || *c->cannot) return status;
    c->x[0] = middle;
    status = reduce(c, second);
    c->x[0] = x;
  }
  tn_tensor_release(middle);
  return status;
}

/* Over all spatial axes: a reduction that keeps them. */
static tn_status pool_all(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  for (int i = 2; i < c->in[0].rank; i++) call_set(&k, "axes", i - 2, i);
  call_set(&k, "keepdims", 0, 1);
  return call_run(&k, c->y, 1);
}

/* The last of equal maxima is the first of the axis turned round. */
static tn_status arg_last(onnx_node *c, const char *op) {
  int32_t axis = node_axis(c, node_int(c, "axis", 0), c->in[0].rank);
  op_call flip = call_begin(c, "flip"), k = call_begin(c, op);
  call_in(&flip, c->x[0]);
  call_set(&flip, "axes", 0, axis);
  call_in(&k, node_made(&flip));
  call_set(&k, "axis", 0, axis);
  call_set(&k, "keepdims", 0, (double)node_int(c, "keepdims", 1));
  if (*c->cannot) return TN_OK;
  tn_tensor *last = node_constant(c, TN_I64, (double)(c->in[0].shape[axis] - 1));
  return node_give(c, 0, node_do(c, "sub", last, node_made(&k)));
}

static tn_status arg_reduce(onnx_node *c, const char *op) {
  if (node_int(c, "select_last_index", 0)) return arg_last(c, op);
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "axis", 0, (double)node_int(c, "axis", 0));
  call_set(&k, "keepdims", 0, (double)node_int(c, "keepdims", 1));
  return call_run(&k, c->y, 1);
}

/* Before opset 13: over all axes from one on, as a matrix. */
static tn_status along_rest(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  int64_t shape[2] = {1, 1}, given = node_int(c, "axis", 1);
  int32_t axis = given == x->rank ? x->rank : node_axis(c, given, x->rank);
  for (int32_t i = 0; i < x->rank; i++) shape[i >= axis] *= x->shape[i];
  op_call k = call_begin(c, op);
  call_in(&k, node_reshape(c, c->x[0], 2, shape));
  call_set(&k, "axis", 0, 1);
  if (*c->cannot || c->status) return c->status;
  return node_give(c, 0, node_reshape(c, node_made(&k), x->rank, x->shape));
}

static tn_status global_lp_pool(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  for (int i = 2; i < c->in[0].rank; i++) call_set(&k, "axes", i - 2, i);
  call_set(&k, "keepdims", 0, 1);
  call_set(&k, "ord", 0, (double)node_int(c, "p", 2));
  return call_run(&k, c->y, 1);
}

static tn_status lp_norm(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "axes", 0, (double)node_int(c, "axis", -1));
  call_set(&k, "keepdims", 0, 1);
  call_set(&k, "ord", 0, (double)node_int(c, "p", 2));
  return node_give(c, 0, node_do(c, "div", c->x[0], node_made(&k)));
}

static tn_status along_axis(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "axis", 0, (double)node_int(c, "axis", -1));
  return call_run(&k, c->y, 1);
}

static tn_status scan(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "axis", 0, (double)node_value(c, 1, 0));
  call_set(&k, "exclusive", 0, (double)node_int(c, "exclusive", 0));
  call_set(&k, "reverse", 0, (double)node_int(c, "reverse", 0));
  return call_run(&k, c->y, 1);
}

static tn_status topk(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "k", 0, (double)node_value(c, 1, 0));
  call_set(&k, "axis", 0, (double)node_int(c, "axis", -1));
  call_set(&k, "largest", 0, (double)node_int(c, "largest", 1));
  return call_run(&k, c->y, 2);
}

const adapter_row adapters_reduce[] = {
    {"ArgMax", arg_reduce, "argmax"},
    {"ArgMin", arg_reduce, "argmin"},
    {"CumSum", scan, "cumsum"},
    {"GlobalAveragePool", pool_all, "mean"},
    {"GlobalMaxPool", pool_all, "max"},
    {"GlobalLpPool", global_lp_pool, "norm"},
    {"LogSoftmax", along_rest, "log_softmax", 0, 12},
    {"LogSoftmax", along_axis, "log_softmax", 13},
    {"LpNormalization", lp_norm, "norm"},
    {"ReduceL1", reduce, "norm 1"},
    {"ReduceL2", reduce, "norm 2"},
    {"ReduceLogSum", reduce_twice, "sum log"},
    {"ReduceLogSumExp", reduce, "logsumexp"},
    {"ReduceMax", reduce, "max"},
    {"ReduceMean", reduce, "mean"},
    {"ReduceMin", reduce, "min"},
    {"ReduceProd", reduce, "prod"},
    {"ReduceSum", reduce, "sum"},
    {"ReduceSumSquare", reduce_twice, "square sum"},
    {"Softmax", along_rest, "softmax", 0, 12},
    {"Softmax", along_axis, "softmax", 13},
    {"TopK", topk, "topk"},
    {0},
};
