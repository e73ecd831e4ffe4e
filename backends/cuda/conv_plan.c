/*
 * Plans of convolutions by cuDNN: the algorithm that its heuristic puts first, within the limits on
 * memory, precision and determinism, or the one that conv_tune.c finds faster, kept in the queue.
 */
#include <stdlib.h>

#include "backends/cuda/conv.h"

tn_status cuda_dnn_status(const tn_host *host, cudnnStatus_t status, const char *call) {
  if (status == CUDNN_STATUS_SUCCESS) return TN_OK;
  cudaError_t error = cudaPeekAtLastError();
  if (error != cudaSuccess) return cuda_status(host, (int)error, call);
  tn_status code =
      status == CUDNN_STATUS_ALLOC_FAILED ? TN_ERR_DEVICE_OUT_OF_MEMORY : TN_ERR_BACKEND;
  return host->fail(code, "%s: %s", call, cudnnGetErrorString(status));
}

void cuda_convolution_destroy(cuda_plan *plan) {
  conv_plan *p = (conv_plan *)plan;
  if (p->x) (void)cudnnDestroyTensorDescriptor(p->x);
  if (p->y) (void)cudnnDestroyTensorDescriptor(p->y);
  if (p->w) (void)cudnnDestroyFilterDescriptor(p->w);
  if (p->conv) (void)cudnnDestroyConvolutionDescriptor(p->conv);
  if (p->bias) (void)cudnnDestroyTensorDescriptor(p->bias);
  if (p->activation) (void)cudnnDestroyActivationDescriptor(p->activation);
  free(p);
}

cudnnDataType_t cuda_conv_data_type(int32_t dtype) {
  switch (dtype) {
  case TN_F16:
    return CUDNN_DATA_HALF;
  case TN_BF16:
    return CUDNN_DATA_BFLOAT16;
  case TN_F64:
    return CUDNN_DATA_DOUBLE;
  default:
    return CUDNN_DATA_FLOAT;
  }
}

static cudnnMathType_t math_type(const convolution *c) {
  if (c->dtype == TN_F64) return CUDNN_DEFAULT_MATH;
  if (c->dtype != TN_F32 || c->math == TN_MATH_TF32) return CUDNN_TENSOR_OP_MATH;
  return c->math == TN_MATH_FAST ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION : CUDNN_FMA_MATH;
}

static tn_status create_descriptors(const tn_host *host, conv_plan *p) {
  DNN_TRY(host, cudnnCreateTensorDescriptor(&p->x));
  DNN_TRY(host, cudnnCreateTensorDescriptor(&p->y));
  DNN_TRY(host, cudnnCreateFilterDescriptor(&p->w));
  DNN_TRY(host, cudnnCreateConvolutionDescriptor(&p->conv));
  return TN_OK;
}

/* [n, c, ...] with the last `axes` of three spatial sizes. */
static void spatial_sizes(int out[5], const int32_t size[5], int axes) {
  out[0] = size[0];
  out[1] = size[1];
  for (int i = 0; i < axes; i++) out[2 + i] = size[5 - axes + i];
}

bool cuda_conv_has_epilogue(const convolution *c) {
  return c->role == CUDA_CONV_FORWARD && c->dtype != TN_F64 &&
         (c->bias || c->addend || c->activation != TN_ACTIVATION_NONE);
}

bool cuda_conv_sums_are_wide(const convolution *c) {
  return c->role == CUDA_CONV_FORWARD && (c->dtype == TN_F16 || c->dtype == TN_BF16) &&
         c->activation != TN_ACTIVATION_NONE && c->activation != TN_ACTIVATION_RELU &&
         c->activation != TN_ACTIVATION_RELU6;
}

bool cuda_conv_has_large_tiles(const convolution *c) {
  return c->role == CUDA_CONV_WEIGHT && c->w[3] == 5 && c->w[4] == 5;
}

/* cuDNN's own call adds a bias and has no other activations than these. */
static tn_status describe_epilogue(const tn_host *host, conv_plan *p, int axes) {
  const convolution *c = &p->key;
  const cudnnActivationMode_t mode =
      c->activation == TN_ACTIVATION_RELU ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY;
  const int size[5] = {1, c->y[1], 1, 1, 1};
  if (!cuda_conv_has_epilogue(c) || !c->bias ||
      (c->activation != TN_ACTIVATION_RELU && c->activation != TN_ACTIVATION_NONE))
    return TN_OK;
  DNN_TRY(host, cudnnCreateTensorDescriptor(&p->bias));
  DNN_TRY(host, cudnnCreateActivationDescriptor(&p->activation));
  DNN_TRY(host, cudnnSetTensorNdDescriptorEx(
                    p->bias, c->channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                    cuda_conv_data_type(c->dtype), axes + 2, size));
  DNN_TRY(host, cudnnSetActivationDescriptor(p->activation, mode, CUDNN_PROPAGATE_NAN, 0));
  return TN_OK;
}

static tn_status describe_plan(const tn_host *host, conv_plan *p) {
  const convolution *c = &p->key;
  cudnnDataType_t type = cuda_conv_data_type(c->dtype);
  cudnnTensorFormat_t format = c->channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  tn_status status = create_descriptors(host, p);
  if (status != TN_OK) return status;
  /* Depth, where there is none, stands in front of the other spatial axes. */
  const int axes = c->deep ? 3 : 2, first = 3 - axes;
  int x[5], w[5], y[5];
  spatial_sizes(x, c->x, axes);
  spatial_sizes(w, c->w, axes);
  spatial_sizes(y, c->y, axes);
  DNN_TRY(host, cudnnSetTensorNdDescriptorEx(p->x, format, type, axes + 2, x));
  DNN_TRY(host, cudnnSetTensorNdDescriptorEx(p->y, format, type, axes + 2, y));
  DNN_TRY(host, cudnnSetFilterNdDescriptor(p->w, type, format, axes + 2, w));
  DNN_TRY(host,
          cudnnSetConvolutionNdDescriptor(
              p->conv, axes, c->padding + first, c->stride + first, c->dilation + first,
              CUDNN_CROSS_CORRELATION, c->dtype == TN_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
  DNN_TRY(host, cudnnSetConvolutionGroupCount(p->conv, c->groups));
  DNN_TRY(host, cudnnSetConvolutionMathType(p->conv, math_type(c)));
  return describe_epilogue(host, p, axes);
}

#define CANDIDATE_OF(perf)                                                                         \
  (conv_candidate) {                                                                               \
    (int)(perf).algo, (perf).status, (perf).memory, (perf).determinism, (perf).mathType            \
  }

static cudnnStatus_t ask(cudnnHandle_t dnn, const conv_plan *p, conv_candidate *list, int *count) {
  cudnnStatus_t status;
  if (p->key.role == CUDA_CONV_FORWARD) {
    cudnnConvolutionFwdAlgoPerf_t perf[most_algorithms];
    status = cudnnGetConvolutionForwardAlgorithm_v7(dnn, p->x, p->w, p->conv, p->y, most_algorithms,
                                                    count, perf);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    for (int i = 0; i < *count; i++) list[i] = CANDIDATE_OF(perf[i]);
  } else if (p->key.role == CUDA_CONV_BACKWARD) {
    cudnnConvolutionBwdDataAlgoPerf_t perf[most_algorithms];
    status = cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn, p->w, p->y, p->conv, p->x,
                                                         most_algorithms, count, perf);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    for (int i = 0; i < *count; i++) list[i] = CANDIDATE_OF(perf[i]);
  } else {
    cudnnConvolutionBwdFilterAlgoPerf_t perf[most_algorithms];
    status = cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn, p->x, p->y, p->conv, p->w,
                                                           most_algorithms, count, perf);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    for (int i = 0; i < *count; i++) list[i] = CANDIDATE_OF(perf[i]);
  }
  return CUDNN_STATUS_SUCCESS;
}

/* The heuristic's memory is an estimate; this is what the call will demand. */
static cudnnStatus_t ask_workspace(cudnnHandle_t dnn, conv_plan *p) {
  size_t *bytes = &p->workspace_bytes;
  if (p->key.role == CUDA_CONV_FORWARD) {
    return cudnnGetConvolutionForwardWorkspaceSize(dnn, p->x, p->w, p->conv, p->y,
                                                   (cudnnConvolutionFwdAlgo_t)p->algorithm, bytes);
  }
  if (p->key.role == CUDA_CONV_BACKWARD) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(
        dnn, p->w, p->y, p->conv, p->x, (cudnnConvolutionBwdDataAlgo_t)p->algorithm, bytes);
  }
  return cudnnGetConvolutionBackwardFilterWorkspaceSize(
      dnn, p->x, p->y, p->conv, p->w, (cudnnConvolutionBwdFilterAlgo_t)p->algorithm, bytes);
}

/* Products of float32 that must be float32's own. */
static bool is_strict(const convolution *c) {
  return c->dtype == TN_F32 && c->math == TN_MATH_IEEE;
}

static bool is_usable(const convolution *c, const conv_candidate *a) {
  if (a->status != CUDNN_STATUS_SUCCESS || a->memory > conv_workspace_limit) return false;
  /* Those that are not add by atomics, and in 16 bits round every time. */
  const bool rounds = c->dtype == TN_F16 || c->dtype == TN_BF16;
  if (cuda_conv_has_large_tiles(c) &&
      a->algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED)
    return false;
  if ((c->deterministic || rounds) && a->determinism != CUDNN_DETERMINISTIC) return false;
  return !is_strict(c) || a->math == CUDNN_FMA_MATH || a->math == CUDNN_DEFAULT_MATH;
}

/* What the chosen algorithm runs with: the default maths would let it round to tf32. */
static cudnnMathType_t math_of(const convolution *c, const conv_candidate *a) {
  return is_strict(c) ? CUDNN_FMA_MATH : a->math;
}

bool cuda_conv_take(cudnnHandle_t dnn, conv_plan *p, const conv_candidate *a) {
  p->algorithm = a->algorithm;
  return is_usable(&p->key, a) &&
         cudnnSetConvolutionMathType(p->conv, math_of(&p->key, a)) == CUDNN_STATUS_SUCCESS &&
         ask_workspace(dnn, p) == CUDNN_STATUS_SUCCESS &&
         p->workspace_bytes <= conv_workspace_limit;
}

static void choose(cuda_queue *queue, conv_plan *p) {
  conv_candidate list[most_algorithms];
  int count = 0;
  p->direct = true;
  if (cuda_conv_sums_are_wide(&p->key)) {
    cuda_conv_tune(queue, p, NULL, 0);
    p->direct = !p->graph.plan;
    return;
  }
  if (ask(queue->dnn, p, list, &count) != CUDNN_STATUS_SUCCESS) return;
  for (int i = 0; i < count && p->direct; i++) p->direct = !cuda_conv_take(queue->dnn, p, &list[i]);
  if (p->direct)
    p->workspace_bytes = 0;
  else
    cuda_conv_tune(queue, p, list, count);
}

tn_status cuda_open_dnn(cuda_queue *queue) {
  if (queue->dnn) return TN_OK;
  const tn_host *host = queue->device->host;
  DNN_TRY(host, cudnnCreate(&queue->dnn));
  cudnnStatus_t status = cudnnSetStream(queue->dnn, queue->stream);
  if (status == CUDNN_STATUS_SUCCESS) return TN_OK;
  (void)cudnnDestroy(queue->dnn);
  queue->dnn = NULL;
  return cuda_dnn_status(host, status, "cudnnSetStream");
}

tn_status cuda_conv_plan_of(cuda_queue *queue, const convolution *key, conv_plan **out) {
  const tn_host *host = queue->device->host;
  *out = (conv_plan *)cuda_plans_find(&queue->convolutions, key, sizeof *key);
  if (*out) return TN_OK;
  tn_status status = cuda_open_dnn(queue);
  if (status != TN_OK) return status;
  conv_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return host->fail(TN_ERR_OUT_OF_MEMORY, "cuda: no memory for a convolution's plan");
  plan->key = *key;
  plan->plan.key = &plan->key;
  plan->plan.key_bytes = sizeof plan->key;
  status = describe_plan(host, plan);
  if (status != TN_OK) {
    cuda_convolution_destroy(&plan->plan);
    return status;
  }
  choose(queue, plan);
  host->log(host, TN_LOG_DEBUG, "cuda: conv role %d: cuDNN %s %lld, %zu bytes%s", key->role,
            plan->graph.plan ? (plan->fused ? "fused engine" : "engine")
                             : (plan->fused ? "fused algorithm" : "algorithm"),
            plan->graph.plan ? (long long)plan->graph.engine : (long long)plan->algorithm,
            cuda_conv_plan_bytes(plan), plan->direct ? ", none fits: direct" : "");
  cuda_plans_add(&queue->convolutions, &plan->plan);
  *out = plan;
  return TN_OK;
}

/* Of what cuDNN demands, so that what lies behind it begins at a multiple of 256. */
static size_t library_bytes(const conv_plan *p) {
  const size_t bytes =
      p->graph.workspace_bytes > p->workspace_bytes ? p->graph.workspace_bytes : p->workspace_bytes;
  return (bytes + 255) / 256 * 256;
}

/* Whether the plan leaves its sums in the workspace, behind what cuDNN demands of that. */
static bool keeps_sums(const conv_plan *p) {
  return cuda_conv_sums_are_wide(&p->key) && p->graph.plan && !p->fused;
}

size_t cuda_conv_plan_bytes(const conv_plan *p) {
  size_t sums = sizeof(float);
  for (int i = 0; i < 5; i++) sums *= (size_t)p->key.y[i];
  return library_bytes(p) + (keeps_sums(p) ? sums : 0);
}

/* ----------------------------------------------------------------- running --- */

static tn_status execute_algorithm(const cuda_queue *queue, const conv_plan *p,
                                   const conv_memory *m) {
  static const double number64[] = {0, 1};
  static const float number32[] = {0, 1};
  const tn_host *host = queue->device->host;
  cudnnHandle_t dnn = queue->dnn;
  bool is64 = p->key.dtype == TN_F64;
  const void *zero = is64 ? (const void *)&number64[0] : &number32[0];
  const void *one = is64 ? (const void *)&number64[1] : &number32[1];
  void *x = m->x, *w = m->w, *y = m->y, *workspace = m->workspace;
  size_t bytes = p->workspace_bytes;
  if (p->key.role == CUDA_CONV_BACKWARD) {
    DNN_TRY(host, cudnnConvolutionBackwardData(dnn, one, p->w, w, p->y, y, p->conv,
                                               (cudnnConvolutionBwdDataAlgo_t)p->algorithm,
                                               workspace, bytes, zero, p->x, x));
  } else if (p->key.role == CUDA_CONV_WEIGHT) {
    DNN_TRY(host, cudnnConvolutionBackwardFilter(dnn, one, p->x, x, p->y, y, p->conv,
                                                 (cudnnConvolutionBwdFilterAlgo_t)p->algorithm,
                                                 workspace, bytes, zero, p->w, w));
  } else {
    DNN_TRY(host, cudnnConvolutionForward(dnn, one, p->x, x, p->w, w, p->conv,
                                          (cudnnConvolutionFwdAlgo_t)p->algorithm, workspace, bytes,
                                          zero, p->y, y));
  }
  return TN_OK;
}

/* pre: the plan describes its epilogue. What y held does not count, by a factor of 0. */
static tn_status execute_fused(const cuda_queue *queue, const conv_plan *p, const conv_memory *m) {
  static const float zero = 0, one = 1;
  const void *addend = p->key.addend ? m->addend : m->y;
  DNN_TRY(queue->device->host, cudnnConvolutionBiasActivationForward(
                                   queue->dnn, &one, p->x, m->x, p->w, m->w, p->conv,
                                   (cudnnConvolutionFwdAlgo_t)p->algorithm, m->workspace,
                                   p->workspace_bytes, p->key.addend ? &one : &zero, p->y, addend,
                                   p->bias, m->bias, p->activation, p->y, m->y));
  return TN_OK;
}

static tn_status execute_graph(const cuda_queue *queue, const conv_plan *p, const conv_memory *m) {
  int64_t ids[] = {CONV_ID_X, CONV_ID_W, CONV_ID_Y, CONV_ID_BIAS, CONV_ID_ADDEND};
  void *result = keeps_sums(p) ? (char *)m->workspace + library_bytes(p) : m->y;
  void *address[] = {m->x, m->w, result, (void *)(uintptr_t)m->bias, NULL};
  int count = p->fused && p->key.bias ? 4 : 3;
  if (p->fused && p->key.addend) {
    ids[count] = CONV_ID_ADDEND;
    address[count++] = (void *)(uintptr_t)m->addend;
  }
  DNN_TRY(queue->device->host,
          dnn_plan_execute(&p->graph, queue->dnn, count, ids, address, m->workspace));
  return TN_OK;
}

/* Bias, addend and activation in a pass of their own. */
static tn_status finish(const cuda_queue *queue, const conv_plan *p, const conv_memory *m) {
  const convolution *c = &p->key;
  const int64_t plane = (int64_t)c->y[2] * c->y[3] * c->y[4];
  const float *sums =
      keeps_sums(p) ? (const float *)((char *)m->workspace + library_bytes(p)) : NULL;
  const cuda_conv_result result = {.stream = queue->stream,
                                   .y = m->y,
                                   .sums = sums,
                                   .bias = c->bias ? m->bias : NULL,
                                   .addend = c->addend ? m->addend : NULL,
                                   .outer = c->channels_last ? c->y[0] * plane : c->y[0],
                                   .channels = c->y[1],
                                   .inner = c->channels_last ? 1 : plane,
                                   .dtype = (tn_dtype)c->dtype,
                                   .activation = c->activation};
  return cuda_status(queue->device->host, cuda_conv_finish(&result), "a convolution's epilogue");
}

static bool is_aligned(const conv_plan *p, const conv_memory *m) {
  const uintptr_t bits = (uintptr_t)m->x | (uintptr_t)m->w | (uintptr_t)m->y;
  const uintptr_t bias = p->fused && p->key.bias ? (uintptr_t)m->bias : 0;
  const uintptr_t addend = p->fused && p->key.addend ? (uintptr_t)m->addend : 0;
  return ((bits | bias | addend) & 15) == 0;
}

bool cuda_conv_takes(const conv_plan *p, const conv_memory *m) {
  return !p->direct && (!cuda_conv_sums_are_wide(&p->key) || is_aligned(p, m));
}

/* Engines, and whatever has the epilogue in it, read and write 16 bytes at a time: views that begin
 * elsewhere go the other way. */
tn_status cuda_conv_execute(const cuda_queue *queue, const conv_plan *p, const conv_memory *m) {
  const bool aligned = is_aligned(p, m);
  const bool by_graph = p->graph.plan && aligned, fused = p->fused && aligned;
  tn_status status = by_graph ? execute_graph(queue, p, m)
                     : fused  ? execute_fused(queue, p, m)
                              : execute_algorithm(queue, p, m);
  if (status != TN_OK || fused || !cuda_conv_has_epilogue(&p->key)) return status;
  return finish(queue, p, m);
}
