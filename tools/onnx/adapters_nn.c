/* ONNX's products, windows, normalisations and losses. */
#include "adapters.h"

#include <math.h>
#include <string.h>

/* A scaled tensor, itself where the factor is 1. */
static tn_tensor *scaled(onnx_node *c, tn_tensor *x, double factor) {
  if (factor == 1 || !x) return x;
  return node_do(c, "mul", x, node_constant(c, tn_tensor_dtype(x), factor));
}

/* A row of the product's columns is a bias of the call, anything else is added. */
static tn_status gemm(onnx_node *c, const char *op) {
  const onnx_tensor *b = &c->in[1], *bias = &c->in[2];
  double alpha = node_float(c, "alpha", 1), beta = node_float(c, "beta", 1);
  if (!node_needs(c, 1)) return TN_OK;
  if (b->rank != 2 || c->in[0].rank != 2) return node_cannot(c, "gemm of other than matrices");
  int64_t columns = b->shape[!node_int(c, "transB", 0)];
  bool is_row = node_given(c, 2) && alpha == 1 && bias->elements == columns && bias->rank &&
                bias->shape[bias->rank - 1] == columns;
  tn_tensor *more = node_given(c, 2) ? scaled(c, c->x[2], beta) : NULL;
  if (is_row) more = node_reshape(c, more, 1, &columns);
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_in(&k, is_row ? more : NULL);
  call_set(&k, "trans_a", 0, (double)node_int(c, "transA", 0));
  call_set(&k, "trans_b", 0, (double)node_int(c, "transB", 0));
  tn_tensor *y = scaled(c, node_made(&k), alpha);
  return node_give(c, 0, more && !is_row ? node_do(c, "add", y, more) : y);
}

/* Without axis `axis`, which is of size 1. */
static tn_tensor *squeezed(onnx_node *c, tn_tensor *x, int32_t axis) {
  tn_tensor *y = NULL;
  return x ? node_kept(c, tn_tensor_squeeze(x, axis, &y), &y) : NULL;
}

static tn_status batch_norm(onnx_node *c, const char *op) {
  bool training = node_int(c, "training_mode", 0);
  op_call k = call_begin(c, training ? op : "batch_norm_inference");
  if (training) return node_cannot(c, "batch_norm with ONNX's biased running variance");
  call_in(&k, c->x[0]);
  call_in(&k, c->x[3]);
  call_in(&k, c->x[4]);
  call_in(&k, c->x[1]);
  call_in(&k, c->x[2]);
  call_set(&k, "eps", 0, node_float(c, "epsilon", 1e-5));
  return call_run(&k, c->y, 1);
}

static tn_status instance_norm(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  for (int i = 0; i < 3; i++) call_in(&k, c->x[i]);
  call_set(&k, "eps", 0, node_float(c, "epsilon", 1e-5));
  return call_run(&k, c->y, 1);
}

/* ONNX gives mean and inverse deviation with the normalised axes as ones. */
static tn_status layer_norm(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  const onnx_tensor *x = &c->in[0];
  int64_t ones[16], axis = node_int(c, "axis", -1);
  tn_tensor *y[3] = {0};
  for (int32_t i = 0; i < x->rank; i++)
    ones[i] = i < (axis < 0 ? axis + x->rank : axis) ? x->shape[i] : 1;
  for (int i = 0; i < 3; i++) call_in(&k, i < c->num_in ? c->x[i] : NULL);
  call_set(&k, "axis", 0, (double)axis);
  call_set(&k, "eps", 0, node_float(c, "epsilon", 1e-5));
  tn_status status = call_run(&k, y, 3);
  c->y[0] = y[0];
  for (int i = 1; i < 3 && status == TN_OK && y[i]; i++) {
    if (node_wants(c, i)) status = tn_tensor_reshape(y[i], x->rank, ones, &c->y[i]);
    tn_tensor_release(y[i]);
  }
  return status;
}

/* Losses of classes: minus the log-probability of each target, by its weight. */
static tn_tensor *picked_loss(onnx_node *c, tn_tensor *x, tn_tensor **weight) {
  const onnx_tensor *t = &c->in[1];
  tn_dtype dtype = c->in[0].dtype;
  tn_tensor *target = c->x[1], *counts = NULL;
  if (node_has(c, "ignore_index")) {
    tn_tensor *ignored = node_constant(c, t->dtype, (double)node_int(c, "ignore_index", 0));
    counts = node_do(c, "not_equal", target, ignored);
    target = node_do(c, "mul", target, node_cast(c, counts, t->dtype));
  }
  int64_t shape[TN_MAX_RANK] = {0};
  for (int32_t i = 0; i < t->rank; i++) shape[i + (i > 0)] = t->shape[i];
  shape[1] = 1;
  op_call k = call_begin(c, "take_along_axis");
  call_in(&k, x);
  call_in(&k, node_reshape(c, target, t->rank + 1, shape));
  call_set(&k, "axis", 0, 1);
  tn_tensor *loss = node_do(c, "neg", squeezed(c, node_made(&k), 1), NULL);
  *weight = counts ? node_cast(c, counts, dtype) : NULL;
  if (node_given(c, 2)) {
    op_call g = call_begin(c, "gather");
    call_in(&g, c->x[2]);
    call_in(&g, target);
    tn_tensor *own = node_made(&g);
    *weight = *weight ? node_do(c, "mul", own, *weight) : own;
  }
  return *weight ? node_do(c, "mul", loss, *weight) : loss;
}

static tn_status class_loss(onnx_node *c, const char *op) {
  tn_tensor *x = c->x[0], *weight = NULL;
  if (!node_needs(c, 1)) return TN_OK;
  if (c->in[1].rank != c->in[0].rank - 1 || c->in[0].rank < 2)
    return node_cannot(c, "a loss of %d axes of targets", c->in[1].rank);
  if (!strcmp(op, "cross_entropy")) {
    op_call k = call_begin(c, "log_softmax");
    call_in(&k, x);
    call_set(&k, "axis", 0, 1);
    x = node_made(&k);
    if (node_wants(c, 1)) node_give(c, 1, x);
  }
  tn_tensor *loss = picked_loss(c, x, &weight);
  if (node_word(c, "reduction", "none")) return node_give(c, 0, loss);
  bool sum = node_word(c, "reduction", "sum");
  tn_tensor *y = node_do(c, sum || weight ? "sum" : "mean", loss, NULL);
  if (!sum && weight) y = node_do(c, "div", y, node_do(c, "sum", weight, NULL));
  return node_give(c, 0, y);
}

/* Each channel has a scale and shift of its own; opset 18 had one for each group. */
static tn_status group_norm(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0], *scale = &c->in[1];
  int64_t groups = node_int(c, "num_groups", 1);
  tn_tensor *factor[2] = {c->x[1], c->x[2]};
  if (!node_needs(c, 1) || !node_needs(c, 2)) return TN_OK;
  if (x->rank < 2 || groups < 1 || x->shape[1] % groups)
    return node_cannot(c, "channels that %lld groups do not divide", (long long)groups);
  for (int i = 0; i < 2 && scale->elements != x->shape[1]; i++) {
    int64_t wide[] = {groups, x->shape[1] / groups}, all = x->shape[1];
    factor[i] = node_expand(c, node_reshape(c, factor[i], 2, (int64_t[]){groups, 1}), 2, wide);
    factor[i] = node_reshape(c, factor[i], 1, &all);
  }
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  for (int i = 0; i < 2; i++) call_in(&k, factor[i]);
  call_set(&k, "groups", 0, (double)groups);
  call_set(&k, "eps", 0, node_float(c, "epsilon", 1e-5));
  return node_give(c, 0, node_made(&k));
}

/* Over the axes listed, images' by default: (x - mean) / deviation. */
static tn_status mean_variance_norm(onnx_node *c, const char *op) {
  static const int64_t images[] = {0, 2, 3};
  const int64_t *axes;
  int count = node_ints(c, "axes", &axes);
  tn_tensor *moment[2];
  (void)op;
  if (!count) axes = images, count = 3;
  for (int i = 0; i < 2; i++) {
    op_call k = call_begin(c, "mean");
    call_in(&k, i ? node_do(c, "square", c->x[0], NULL) : c->x[0]);
    for (int a = 0; a < count; a++) call_set(&k, "axes", a, (double)axes[a]);
    call_set(&k, "keepdims", 0, 1);
    moment[i] = node_made(&k);
  }
  tn_tensor *variance = node_do(c, "sub", moment[1], node_do(c, "square", moment[0], NULL));
  tn_tensor *deviation =
      node_do(c, "add", node_do(c, "sqrt", variance, NULL), node_constant(c, c->in[0].dtype, 1e-9));
  return node_give(c, 0, node_do(c, "div", node_do(c, "sub", c->x[0], moment[0]), deviation));
}

/* In use nothing is dropped. */
static tn_status dropout(onnx_node *c, const char *op) {
  (void)op;
  bool training = node_given(c, 2) && node_value(c, 2, 0);
  if (training && (!node_given(c, 1) || node_number(c, 1, 0) != 0))
    return node_cannot(c, "dropout while training");
  if (node_wants(c, 1)) node_give(c, 1, node_filled(c, TN_BOOL, c->in[0].rank, c->in[0].shape, 1));
  return node_give(c, 0, c->x[0]);
}

const adapter_row adapters_nn[] = {
    {"BatchNormalization", batch_norm, "batch_norm"},
    {"Dropout", dropout, NULL},
    {"Gemm", gemm, "matmul"},
    {"GroupNormalization", group_norm, "group_norm", 18},
    {"InstanceNormalization", instance_norm, "instance_norm"},
    {"LayerNormalization", layer_norm, "layer_norm"},
    {"MeanVarianceNormalization", mean_variance_norm, NULL},
    {"NegativeLogLikelihoodLoss", class_loss, "nll_loss"},
    {"SoftmaxCrossEntropyLoss", class_loss, "cross_entropy"},
    {0},
};
