/* ONNX's products, windows, normalisations and losses. */
#include "adapters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tn_status gemm(onnx_node *c, const char *op) {
  bool bias = c->num_in > 2 && c->in[2].present;
  const onnx_tensor *b = &c->in[1];
  if (node_float(c, "alpha", 1) != 1 || node_float(c, "beta", 1) != 1)
    return node_cannot(c, "gemm with factors");
  if (bias && (c->in[2].rank != 1 || c->in[2].shape[0] != b->shape[!node_int(c, "transB", 0)]))
    return node_cannot(c, "gemm with a matrix as bias");
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_in(&k, bias ? c->x[2] : NULL);
  call_set(&k, "trans_a", 0, (double)node_int(c, "transA", 0));
  call_set(&k, "trans_b", 0, (double)node_int(c, "transB", 0));
  return call_run(&k, c->y, 1);
}

static tn_status matmul(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_in(&k, NULL);
  return call_run(&k, c->y, 1);
}

/* Inputs in order, those that are missing included; one output, no attributes. */
static tn_status optional_inputs(onnx_node *c, const char *op) {
  op_call k = call_begin(c, op);
  for (uint32_t i = 0; k.op && i < k.op->num_args - 1; i++)
    call_in(&k, (int)i < c->num_in ? c->x[i] : NULL);
  return call_run(&k, c->y, 1);
}

/* Sets the numbers of an attribute of 1 to 3 spatial axes from one of the node's. */
static void set_spatial(op_call *k, const char *ours, const char *onnx, int rank,
                        double otherwise) {
  const int64_t *list;
  int count = node_ints(k->c, onnx, &list);
  if (count && count < rank)
    node_cannot(k->c, "%s of %d numbers for %d axes", onnx, count, rank);
  else
    for (int i = 0; i < rank; i++) call_set(k, ours, i, count ? (double)list[i] : otherwise);
}

/* Padding that is the same at both ends, in `pads`; false with c->cannot set otherwise. */
static bool even_padding(onnx_node *c, const int64_t **pads, int rank) {
  int count = node_ints(c, "pads", pads);
  if (count && count != 2 * rank)
    return node_cannot(c, "pads of %d numbers for %d axes", count, rank), false;
  if (node_has(c, "auto_pad") && !node_word(c, "auto_pad", "NOTSET") &&
      !node_word(c, "auto_pad", "VALID"))
    return node_cannot(c, "padding chosen by auto_pad"), false;
  for (int i = 0; i < rank && count; i++)
    if ((*pads)[i] != (*pads)[rank + i])
      return node_cannot(c, "padding that differs at the two ends"), false;
  return true;
}

static tn_status conv(onnx_node *c, const char *op) {
  const int64_t *pads;
  int rank = c->in[0].rank - 2;
  char name[32];
  if (rank < 1 || rank > 3 || !even_padding(c, &pads, rank)) return TN_OK;
  if (node_has(c, "output_shape")) return node_cannot(c, "padding chosen by output_shape");
  snprintf(name, sizeof name, "%s%dd", op, rank);
  op_call k = call_begin(c, name);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  call_in(&k, c->num_in > 2 ? c->x[2] : NULL);
  set_spatial(&k, "stride", "strides", rank, 1);
  set_spatial(&k, "padding", "pads", rank, 0);
  set_spatial(&k, "dilation", "dilations", rank, 1);
  if (node_has(c, "output_padding")) set_spatial(&k, "output_padding", "output_padding", rank, 0);
  call_set(&k, "groups", 0, (double)node_int(c, "group", 1));
  return call_run(&k, c->y, 1);
}

static tn_status pool(onnx_node *c, const char *op) {
  const int64_t *pads, *kernel, *dilations;
  int rank = c->in[0].rank - 2, dilated = node_ints(c, "dilations", &dilations);
  char name[32];
  for (int i = 0; i < dilated; i++)
    if (dilations[i] != 1) return node_cannot(c, "pooling with dilation");
  if (node_int(c, "ceil_mode", 0)) return node_cannot(c, "pooling with ceil_mode");
  if (c->num_out > 1) return node_cannot(c, "pooling with ONNX's numbering of maxima");
  if (!(TN_SET(c->in[0].dtype) & TN_SET_FLOAT)) return node_cannot(c, "pooling of integers");
  if (rank < 1 || rank > 3 || !even_padding(c, &pads, rank)) return TN_OK;
  if (node_ints(c, "kernel_shape", &kernel) != rank)
    return node_cannot(c, "pooling with a kernel of other than %d axes", rank);
  for (int i = 0; i < rank && pads; i++)
    if (2 * pads[i] > kernel[i])
      return node_cannot(c, "pooling with a border wider than half the kernel");
  snprintf(name, sizeof name, "%s%dd", op, rank);
  op_call k = call_begin(c, name);
  call_in(&k, c->x[0]);
  set_spatial(&k, "kernel", "kernel_shape", rank, 1);
  set_spatial(&k, "stride", "strides", rank, 1);
  set_spatial(&k, "padding", "pads", rank, 0);
  if (!strcmp(op, "avg_pool"))
    call_set(&k, "count_padding", 0, (double)node_int(c, "count_include_pad", 0));
  return call_run(&k, c->y, 1);
}

/* Images whose new size is the old one times the scale; half-pixel centres or corners. */
static tn_status resize(onnx_node *c, const char *op) {
  const onnx_tensor *x = &c->in[0];
  const int scales = 2, sizes = 3; /* the inputs, one of which is there */
  const int from = c->in[scales].elements == 4 ? scales : sizes;
  int64_t y[4] = {0};
  bool corners = node_word(c, "coordinate_transformation_mode", "align_corners");
  bool linear = node_word(c, "mode", "linear"), cubic = node_word(c, "mode", "cubic");
  bool asked = node_has(c, "coordinate_transformation_mode");
  for (int i = 0; i < 4 && x->rank == 4 && c->in[from].elements == 4; i++)
    y[i] = from == sizes ? node_value(c, sizes, i)
                         : (int64_t)floor((double)x->shape[i] * node_number(c, scales, i));
  if (x->rank != 4 || x->shape[0] != y[0] || x->shape[1] != y[1])
    return node_cannot(c, "resize of other than images");
  if (asked && !corners && !node_word(c, "coordinate_transformation_mode", "half_pixel"))
    return node_cannot(c, "resize with another placing of pixels");
  if (node_int(c, "exclude_outside", 0) || node_float(c, "cubic_coeff_a", -0.75) != -0.75)
    return node_cannot(c, "resize with another cubic");
  if (!linear && !cubic) return node_cannot(c, "resize with ONNX's nearest pixel");
  for (int i = 2; i < 4 && from == scales; i++)
    if ((double)x->shape[i] * node_number(c, scales, i) != (double)y[i])
      return node_cannot(c, "resize by a scale that does not divide the size");
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_set(&k, "mode", 0, cubic ? TN_RESIZE_BICUBIC : TN_RESIZE_BILINEAR);
  call_set(&k, "align_corners", 0, corners);
  for (int i = 0; i < 2; i++) call_set(&k, "output", i, (double)y[2 + i]);
  return call_run(&k, c->y, 1);
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

static tn_status class_loss(onnx_node *c, const char *op) {
  if (c->num_in > 2 && c->in[2].present) return node_cannot(c, "losses with weights");
  if (c->num_out > 1) return node_cannot(c, "a loss that gives log_softmax too");
  op_call k = call_begin(c, op);
  call_in(&k, c->x[0]);
  call_in(&k, c->x[1]);
  if (node_has(c, "ignore_index"))
    call_set(&k, "ignore_index", 0, (double)node_int(c, "ignore_index", 0));
  call_set(&k, "reduction", 0,
           node_word(c, "reduction", "none")  ? TN_REDUCTION_NONE
           : node_word(c, "reduction", "sum") ? TN_REDUCTION_SUM
                                              : TN_REDUCTION_MEAN);
  return call_run(&k, c->y, 1);
}

const adapter_row adapters_nn[] = {
    {"AveragePool", pool, "avg_pool"},
    {"BatchNormalization", batch_norm, "batch_norm"},
    {"Conv", conv, "conv"},
    {"ConvTranspose", conv, "conv_transpose"},
    {"Gemm", gemm, "matmul"},
    {"InstanceNormalization", instance_norm, "instance_norm"},
    {"LayerNormalization", layer_norm, "layer_norm"},
    {"MatMul", matmul, "matmul"},
    {"MatMulInteger", optional_inputs, "matmul_integer"},
    {"MaxPool", pool, "max_pool"},
    {"NegativeLogLikelihoodLoss", class_loss, "nll_loss"},
    {"Resize", resize, "resize"},
    {"SoftmaxCrossEntropyLoss", class_loss, "cross_entropy"},
    {0},
};
