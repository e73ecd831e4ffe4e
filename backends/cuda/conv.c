/*
 * Convolutions of every rank, their gradients and transposed ones by cuDNN. All see the
 * same picture: x, w and y of a convolution, of which one is the result; a transposed one
 * is the gradient by x. One axis is two with a height of 1. The algorithm that cuDNN's
 * heuristic puts first, within the limits on memory, precision and determinism, is kept
 * as a plan in the queue. What cuDNN has no algorithm for goes to our direct kernels.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/backend.h"
#include "kernels/common/window.h"
#include "kernels/cuda/base/layout.h"

enum { most_algorithms = 8 };
static const size_t workspace_limit = (size_t)1 << 30;

/* All that the plan depends on. Sizes are x [n, c, d, h, w], w [k, c / groups, kd, kh, kw],
 * y [n, k, od, oh, ow]; unless `deep`, depths are 1 and left out of what cuDNN sees. */
typedef struct convolution {
  int32_t role, dtype, math, deterministic, channels_last, deep;
  int32_t x[5], w[5], y[5];
  int32_t stride[3], padding[3], dilation[3], groups;
} convolution;

typedef struct conv_plan {
  cuda_plan plan;
  convolution key;
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  int algorithm; /* of the operator's own enumeration */
  bool direct;   /* cuDNN cannot: our kernels do */
  size_t workspace_bytes;
} conv_plan;

/* The tensors of a call by their forward names. */
typedef struct conv_tensors {
  const DLTensor *x, *w, *y, *bias;
} conv_tensors;

static const cuda_conv_row *row_of(const tn_kernel_args *args) { return args->kernel->user; }

static conv_tensors tensors_of(const tn_kernel_args *args) {
  const DLTensor *first = args->in[0], *second = args->in[1], *result = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  switch (row_of(args)->role) {
  case CUDA_CONV_FORWARD:
    return (conv_tensors){first, second, result, bias};
  case CUDA_CONV_BACKWARD:
    return (conv_tensors){result, second, first, bias};
  case CUDA_CONV_WEIGHT:
    return (conv_tensors){second, result, first, NULL};
  default:
    return (conv_tensors){first, result, second, NULL};
  }
}

static bool is_packed_channels_last(const DLTensor *t) {
  static const int order[] = {1, 3, 2, 0}; /* innermost first */
  int64_t expected = 1;
  for (int i = 0; i < 4; i++) {
    int d = order[i];
    if (t->shape[d] != 1 && t->strides[d] != expected) return false;
    expected *= t->shape[d];
  }
  return expected > 0;
}

bool cuda_conv_is_channels_last(const tn_kernel_args *args) {
  conv_tensors t = tensors_of(args);
  return t.x->ndim == 4 && is_packed_channels_last(t.x) && is_packed_channels_last(t.w) &&
         is_packed_channels_last(t.y) && (!t.bias || t.bias->strides[0] == 1);
}

/* cuDNN counts in int; no single size of ours exceeds that where the plan is asked for. */
static bool sizes_of(int32_t out[5], const DLTensor *t) {
  const window_shape shape = window_shape_of(t);
  for (int i = 0; i < 5; i++) {
    if (shape.size[i] > INT32_MAX) return false;
    out[i] = (int32_t)shape.size[i];
  }
  return cuda_size(t, 0, t->ndim) <= INT32_MAX;
}

static bool triple_of(int32_t out[3], const int64_t from[3]) {
  for (int i = 0; i < 3; i++) out[i] = (int32_t)from[i];
  return from[0] <= INT32_MAX && from[1] <= INT32_MAX && from[2] <= INT32_MAX;
}

/* False where 32 bits do not hold a number. */
static bool describe(convolution *c, const tn_kernel_args *args) {
  conv_tensors t = tensors_of(args);
  const window_conv attrs = window_conv_of(args->attrs, window_axes(t.x));
  memset(c, 0, sizeof *c);
  c->role = (int32_t)row_of(args)->role;
  if (c->role == CUDA_CONV_TRANSPOSE_WEIGHT) c->role = CUDA_CONV_WEIGHT;
  c->dtype = cuda_dtype(t.x);
  c->math = c->dtype == TN_F32 ? (int32_t)args->host->math : 0;
  c->deterministic = args->host->deterministic != 0;
  c->channels_last = row_of(args)->channels_last;
  c->deep = t.x->ndim == 5;
  c->groups = (int32_t)attrs.groups;
  bool fits = triple_of(c->stride, attrs.stride);
  fits = triple_of(c->padding, attrs.padding) && fits;
  fits = triple_of(c->dilation, attrs.dilation) && fits;
  fits = sizes_of(c->x, t.x) && fits;
  fits = sizes_of(c->w, t.w) && fits;
  return sizes_of(c->y, t.y) && fits;
}

static bool has_elements(const DLTensor *t) { return cuda_size(t, 0, t->ndim) > 0; }

static bool is_empty(const tn_kernel_args *args) {
  conv_tensors t = tensors_of(args);
  return !has_elements(t.x) || !has_elements(t.w) || !has_elements(t.y);
}

/* ------------------------------------------------------------------- plans --- */

tn_status cuda_dnn_status(const tn_host *host, cudnnStatus_t status, const char *call) {
  if (status == CUDNN_STATUS_SUCCESS) return TN_OK;
  cudaError_t error = cudaPeekAtLastError();
  if (error != cudaSuccess) return cuda_status(host, (int)error, call);
  tn_status code =
      status == CUDNN_STATUS_ALLOC_FAILED ? TN_ERR_DEVICE_OUT_OF_MEMORY : TN_ERR_BACKEND;
  return host->fail(code, "%s: %s", call, cudnnGetErrorString(status));
}

#define DNN_TRY(host, call)                                                                        \
  do {                                                                                             \
    cudnnStatus_t status_ = (call);                                                                \
    if (status_ != CUDNN_STATUS_SUCCESS) return cuda_dnn_status(host, status_, #call);             \
  } while (0)

void cuda_convolution_destroy(cuda_plan *plan) {
  conv_plan *p = (conv_plan *)plan;
  if (p->x) (void)cudnnDestroyTensorDescriptor(p->x);
  if (p->y) (void)cudnnDestroyTensorDescriptor(p->y);
  if (p->w) (void)cudnnDestroyFilterDescriptor(p->w);
  if (p->conv) (void)cudnnDestroyConvolutionDescriptor(p->conv);
  free(p);
}

static cudnnDataType_t data_type(int32_t dtype) {
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

static tn_status describe_plan(const tn_host *host, conv_plan *p) {
  const convolution *c = &p->key;
  cudnnDataType_t type = data_type(c->dtype);
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
  return TN_OK;
}

/* What the heuristics of all three operators say of one algorithm. */
typedef struct candidate {
  int algorithm;
  cudnnStatus_t status;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t math;
} candidate;

#define CANDIDATE_OF(perf)                                                                         \
  (candidate) {                                                                                    \
    (int)(perf).algo, (perf).status, (perf).memory, (perf).determinism, (perf).mathType            \
  }

static cudnnStatus_t ask(cudnnHandle_t dnn, const conv_plan *p, candidate *list, int *count) {
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

static bool is_usable(const convolution *c, const candidate *a) {
  if (a->status != CUDNN_STATUS_SUCCESS || a->memory > workspace_limit) return false;
  if (c->deterministic && a->determinism != CUDNN_DETERMINISTIC) return false;
  return !is_strict(c) || a->math == CUDNN_FMA_MATH || a->math == CUDNN_DEFAULT_MATH;
}

/* What the chosen algorithm runs with: the default maths would let it round to tf32. */
static cudnnMathType_t math_of(const convolution *c, const candidate *a) {
  return is_strict(c) ? CUDNN_FMA_MATH : a->math;
}

static void choose(cudnnHandle_t dnn, conv_plan *p) {
  candidate list[most_algorithms];
  int count = 0;
  p->direct = true;
  if (ask(dnn, p, list, &count) != CUDNN_STATUS_SUCCESS) return;
  for (int i = 0; i < count && p->direct; i++) {
    if (!is_usable(&p->key, &list[i])) continue;
    p->algorithm = list[i].algorithm;
    p->direct =
        cudnnSetConvolutionMathType(p->conv, math_of(&p->key, &list[i])) != CUDNN_STATUS_SUCCESS ||
        ask_workspace(dnn, p) != CUDNN_STATUS_SUCCESS || p->workspace_bytes > workspace_limit;
  }
  if (p->direct) p->workspace_bytes = 0;
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

/* The plan of a call, made on first sight. The queue's lock is held. */
static tn_status plan_of(cuda_queue *queue, const convolution *key, conv_plan **out) {
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
  choose(queue->dnn, plan);
  host->log(host, TN_LOG_DEBUG, "cuda: conv role %d: cuDNN algorithm %d, %zu bytes%s", key->role,
            plan->algorithm, plan->workspace_bytes, plan->direct ? ", none fits: direct" : "");
  cuda_plans_add(&queue->convolutions, &plan->plan);
  *out = plan;
  return TN_OK;
}

/* ----------------------------------------------------------------- running --- */

/* result += bias of its channels. Our own kernel: it takes every element type and any
 * layout. */
static tn_status add_bias(const tn_kernel_args *args, const DLTensor *result,
                          const DLTensor *bias) {
  int64_t strides[5] = {0, bias->strides[0], 0, 0, 0};
  DLTensor expanded = *bias;
  expanded.ndim = result->ndim;
  expanded.shape = result->shape;
  expanded.strides = strides;
  const DLTensor *in[] = {result, &expanded};
  tn_kernel_args sub = *args;
  sub.in = in;
  sub.num_in = 2;
  sub.attrs = NULL;
  return cuda_run_add(&sub);
}

static tn_status execute(const tn_kernel_args *args, const conv_plan *p) {
  static const double one64 = 1, zero64 = 0;
  static const float one32 = 1, zero32 = 0;
  const tn_host *host = args->host;
  cudnnHandle_t dnn = ((cuda_queue *)args->queue)->dnn;
  bool is64 = p->key.dtype == TN_F64;
  const void *one = is64 ? (const void *)&one64 : &one32;
  const void *zero = is64 ? (const void *)&zero64 : &zero32;
  conv_tensors t = tensors_of(args);
  size_t bytes = p->workspace_bytes;
  if (p->key.role == CUDA_CONV_BACKWARD) {
    DNN_TRY(host, cudnnConvolutionBackwardData(dnn, one, p->w, t.w->data, p->y, t.y->data, p->conv,
                                               (cudnnConvolutionBwdDataAlgo_t)p->algorithm,
                                               args->workspace, bytes, zero, p->x, t.x->data));
    return t.bias ? add_bias(args, t.x, t.bias) : TN_OK;
  }
  if (p->key.role == CUDA_CONV_WEIGHT) {
    DNN_TRY(host,
            cudnnConvolutionBackwardFilter(dnn, one, p->x, t.x->data, p->y, t.y->data, p->conv,
                                           (cudnnConvolutionBwdFilterAlgo_t)p->algorithm,
                                           args->workspace, bytes, zero, p->w, t.w->data));
    return TN_OK;
  }
  DNN_TRY(host, cudnnConvolutionForward(dnn, one, p->x, t.x->data, p->w, t.w->data, p->conv,
                                        (cudnnConvolutionFwdAlgo_t)p->algorithm, args->workspace,
                                        bytes, zero, p->y, t.y->data));
  return t.bias ? add_bias(args, t.y, t.bias) : TN_OK;
}

tn_status cuda_conv_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_queue *queue = args->queue;
  convolution key;
  conv_plan *plan = NULL;
  *bytes = 0;
  if (is_empty(args) || !describe(&key, args)) return TN_OK;
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  pthread_mutex_lock(&queue->lock);
  status = plan_of(queue, &key, &plan);
  if (status == TN_OK) *bytes = plan->workspace_bytes;
  pthread_mutex_unlock(&queue->lock);
  return status;
}

/* *direct is set where cuDNN has nothing for the call. */
static tn_status run_planned(const tn_kernel_args *args, const convolution *key, bool *direct) {
  conv_plan *plan = NULL;
  tn_status status = plan_of(args->queue, key, &plan);
  if (status != TN_OK) return status;
  *direct = plan->direct;
  if (plan->direct) return TN_OK;
  if (plan->workspace_bytes > args->workspace_bytes) {
    return args->host->fail(TN_ERR_INTERNAL, "convolution: %zu bytes of workspace, needs %zu",
                            args->workspace_bytes, plan->workspace_bytes);
  }
  return execute(args, plan);
}

tn_status cuda_run_conv(const tn_kernel_args *args) {
  cuda_queue *queue = args->queue;
  convolution key;
  if (is_empty(args) || !describe(&key, args)) return row_of(args)->direct(args);
  bool direct = false;
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  pthread_mutex_lock(&queue->lock);
  status = run_planned(args, &key, &direct);
  pthread_mutex_unlock(&queue->lock);
  return direct && status == TN_OK ? row_of(args)->direct(args) : status;
}
