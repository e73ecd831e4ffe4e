/*
 * The engines that cuDNN's graphs have for a convolution over two or three axes, alone or with
 * bias, addend and activation in them. Engines that compute less exactly than the call asks for are
 * left out by their notes.
 */
#include <math.h>
#include <string.h>

#include "backends/cuda/conv.h"

bool cuda_conv_is_half(const convolution *c) { return c->dtype == TN_F16 || c->dtype == TN_BF16; }

uint32_t cuda_conv_forbidden_notes(const convolution *c) {
  uint32_t notes = CONV_NOTE(REDUCED_PRECISION_REDUCTION) | CONV_NOTE(FFT) |
                   CONV_NOTE(WINOGRAD_TILE_6x6) | CONV_NOTE(WINOGRAD_TILE_13x13);
  if (c->deterministic || (cuda_conv_is_half(c) && c->role == CUDA_CONV_FORWARD))
    notes |= CONV_NOTE(NONDETERMINISTIC);
  if (c->dtype == TN_F32 && c->math == TN_MATH_IEEE)
    notes |= CONV_NOTE(TENSOR_CORE) | CONV_NOTE(DOWN_CONVERT_INPUTS);
  return notes;
}

/* An engine that is less exact than its notes say, -1 for none: 17 of gradients by weight is
 * Winograd's algorithm too, in cuDNN 9.14. */
static int64_t forbidden_engine(const convolution *c) {
  return cuda_conv_has_large_tiles(c) ? 17 : -1;
}

/* Groups of so few channels of 16 bits that engines of cuDNN 9.14 read beside their bounds, where
 * they are more than one channel each. */
static bool has_odd_groups(const convolution *c) {
  const int32_t in = c->x[1] / c->groups, out = c->y[1] / c->groups;
  return cuda_conv_is_half(c) && c->groups > 1 && in > 1 && (in % 8 != 0 || out % 8 != 0);
}

/* A packed tensor of the call; without an id, one between operations. */
static dnn_tensor typed_tensor(dnn_graph *g, int64_t id, cudnnDataType_t type, const convolution *c,
                               const int32_t size[5]) {
  const int64_t plane = (int64_t)size[3] * size[4], across = c->channels_last ? size[1] : 1;
  const int64_t channel = c->channels_last ? 1 : size[2] * plane, image = size[2] * plane * size[1];
  const int64_t deep[] = {size[0], size[1], size[2], size[3], size[4]};
  const int64_t deep_step[] = {image, channel, plane * across, size[4] * across, across};
  const int64_t flat[] = {size[0], size[1], size[3], size[4]};
  const int64_t flat_step[] = {image, channel, size[4] * across, across};
  const int64_t *n = c->deep ? deep : flat, *step = c->deep ? deep_step : flat_step;
  const int axes = c->deep ? 5 : 4;
  return id ? dnn_graph_memory(g, id, type, axes, n, step)
            : dnn_graph_between(g, type, axes, n, step);
}

/* In the call's type; without an id, in the type computed in. */
static dnn_tensor tensor_of(dnn_graph *g, int64_t id, const convolution *c, const int32_t size[5]) {
  return typed_tensor(g, id, id ? cuda_conv_data_type(c->dtype) : CUDNN_DATA_FLOAT, c, size);
}

/* cuDNN's operation for an activation; relu stands for relu6 too. */
static bool mode_of(int32_t activation, cudnnPointwiseMode_t *mode) {
  switch (activation) {
  case TN_ACTIVATION_RELU:
  case TN_ACTIVATION_RELU6:
    *mode = CUDNN_POINTWISE_RELU_FWD;
    return true;
  case TN_ACTIVATION_SILU:
    *mode = CUDNN_POINTWISE_SWISH_FWD;
    return true;
  case TN_ACTIVATION_SIGMOID:
    *mode = CUDNN_POINTWISE_SIGMOID_FWD;
    return true;
  case TN_ACTIVATION_GELU:
    *mode = CUDNN_POINTWISE_GELU_FWD;
    return true;
  case TN_ACTIVATION_GELU_TANH:
    *mode = CUDNN_POINTWISE_GELU_APPROX_TANH_FWD;
    return true;
  default:
    return false;
  }
}

/* In float32, those of cuDNN's operations that are ours to the bit; in 16 bits, where all is
 * rounded at the end, what it has. */
bool cuda_conv_is_fusable(const convolution *c) {
  cudnnPointwiseMode_t mode;
  if (!cuda_conv_has_epilogue(c)) return false;
  if (c->activation == TN_ACTIVATION_NONE) return true;
  return mode_of(c->activation, &mode) &&
         (cuda_conv_is_half(c) || mode == CUDNN_POINTWISE_RELU_FWD);
}

/* Bias, addend and activation of what the convolution gave. */
static void add_epilogue(dnn_graph *g, const convolution *c, dnn_tensor x, dnn_tensor y) {
  const int32_t size[5] = {1, c->y[1], 1, 1, 1};
  cudnnPointwiseMode_t mode;
  const bool activates = mode_of(c->activation, &mode);
  if (c->bias) {
    dnn_tensor sum = activates || c->addend ? tensor_of(g, 0, c, c->y) : y;
    dnn_graph_pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, x,
                        tensor_of(g, CONV_ID_BIAS, c, size), NULL, sum);
    x = sum;
  }
  if (c->addend) {
    dnn_tensor sum = activates ? tensor_of(g, 0, c, c->y) : y;
    dnn_graph_pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, x,
                        tensor_of(g, CONV_ID_ADDEND, c, c->y), NULL, sum);
    x = sum;
  }
  if (activates && mode == CUDNN_POINTWISE_RELU_FWD)
    dnn_graph_relu(g, CUDNN_DATA_FLOAT, c->activation == TN_ACTIVATION_RELU6 ? 6 : INFINITY, x, y);
  else if (activates)
    dnn_graph_pointwise(g, mode, CUDNN_DATA_FLOAT, x, NULL, NULL, y);
}

int cuda_conv_engines(cuda_queue *queue, const convolution *c, bool fused, uint32_t notes,
                      dnn_plan *out, int most) {
  static const dnn_conv_result results[] = {[CUDA_CONV_FORWARD] = DNN_CONV_Y,
                                            [CUDA_CONV_BACKWARD] = DNN_CONV_X,
                                            [CUDA_CONV_WEIGHT] = DNN_CONV_W};
  dnn_conv conv = {.result = results[c->role], .compute = CUDNN_DATA_FLOAT};
  const dnn_limits limits = {notes, conv_workspace_limit, forbidden_engine(c)};
  dnn_graph g;
  if (c->dtype == TN_F64 || has_odd_groups(c)) return 0;
  conv.axes = c->deep ? 3 : 2;
  for (int i = 0, first = 3 - conv.axes; i < conv.axes; i++) {
    conv.stride[i] = c->stride[first + i];
    conv.padding[i] = c->padding[first + i];
    conv.dilation[i] = c->dilation[first + i];
  }
  memset(&g, 0, sizeof g);
  dnn_tensor x = tensor_of(&g, CONV_ID_X, c, c->x), w = tensor_of(&g, CONV_ID_W, c, c->w);
  const bool wide = cuda_conv_sums_are_wide(c) && !fused;
  const cudnnDataType_t type = wide ? CUDNN_DATA_FLOAT : cuda_conv_data_type(c->dtype);
  dnn_tensor y = typed_tensor(&g, CONV_ID_Y, type, c, c->y);
  dnn_tensor sums = fused ? tensor_of(&g, 0, c, c->y) : y;
  dnn_graph_conv(&g, &conv, x, w, sums);
  if (fused) add_epilogue(&g, c, sums, y);
  const int count = dnn_graph_plans(&g, queue->dnn, &limits, out, most);
  dnn_graph_free(&g);
  return count;
}
