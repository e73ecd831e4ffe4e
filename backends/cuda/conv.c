/*
 * Convolutions of every rank, their gradients and transposed ones by cuDNN. All see the
 * same picture: x, w and y of a convolution, of which one is the result; a transposed one
 * is the gradient by x. One axis is two with a height of 1. The algorithm that cuDNN's
 * heuristic puts first, within the limits on memory, precision and determinism, is kept
 * as a plan in the queue. What cuDNN has no algorithm for goes to our direct kernels.
 */
#include <string.h>

#include "backends/cuda/conv.h"
#include "kernels/common/window.h"
#include "kernels/cuda/base/layout.h"
#include "kernels/cuda/window/depthwise.h"

/* The tensors of a call by their forward names. */
typedef struct conv_tensors {
  const DLTensor *x, *w, *y, *bias, *addend;
} conv_tensors;

static const cuda_conv_row *row_of(const tn_kernel_args *args) { return args->kernel->user; }

static conv_tensors tensors_of(const tn_kernel_args *args) {
  const DLTensor *first = args->in[0], *second = args->in[1], *result = args->out[0];
  const DLTensor *bias = args->num_in > 2 ? args->in[2] : NULL;
  const DLTensor *addend = args->num_in > 3 ? args->in[3] : NULL;
  switch (row_of(args)->role) {
  case CUDA_CONV_FORWARD:
    return (conv_tensors){first, second, result, bias, addend};
  case CUDA_CONV_BACKWARD:
    return (conv_tensors){result, second, first, bias, NULL};
  case CUDA_CONV_WEIGHT:
    return (conv_tensors){second, result, first, NULL, NULL};
  default:
    return (conv_tensors){first, result, second, NULL, NULL};
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

static bool is_row_major(const DLTensor *t) {
  int64_t expected = 1;
  for (int d = t->ndim; d-- > 0; expected *= t->shape[d])
    if (t->shape[d] != 1 && t->strides[d] != expected) return false;
  return true;
}

/* A rounded number is a relu's or relu6's as well as the number itself. */
bool cuda_conv_rounds_once(const tn_kernel_args *args) {
  const int64_t activation = window_activation(args);
  return args->out[0]->dtype.bits > 16 || activation == TN_ACTIVATION_NONE ||
         activation == TN_ACTIVATION_RELU || activation == TN_ACTIVATION_RELU6;
}

static bool has_elements(const DLTensor *t) { return cuda_size(t, 0, t->ndim) > 0; }

static bool is_laid_out(const DLTensor *t) { return is_packed_channels_last(t) || is_row_major(t); }

/* Sums that stay in float32 until an activation, of whole vectors of channels: of fewer, engines of
 * cuDNN 9.14 give wrong results or read beside their bounds. */
static bool has_wide_sums(const tn_kernel_args *args) {
  const conv_tensors t = tensors_of(args);
  return !cuda_conv_rounds_once(args) && t.x->ndim < 5 && t.x->shape[1] % 8 == 0 &&
         t.y->shape[1] % 8 == 0 && t.w->shape[1] == t.x->shape[1];
}

bool cuda_conv_is_planned(const tn_kernel_args *args) {
  return cuda_conv_rounds_once(args) || has_wide_sums(args);
}

/* All three with channels last, or an image, so that it pays to turn what is row-major, as it does
 * for engines that keep their sums: they are fused with channels last alone. */
bool cuda_conv_is_channels_last(const tn_kernel_args *args) {
  conv_tensors t = tensors_of(args);
  if (t.x->ndim != 4 || !cuda_conv_is_planned(args) || !is_laid_out(t.x) || !is_laid_out(t.w) ||
      !is_laid_out(t.y) || (t.bias && t.bias->strides[0] != 1))
    return false;
  if (!is_row_major(t.x) || !is_row_major(t.y) || has_wide_sums(args))
    return has_elements(t.x) && has_elements(t.y);
  return is_packed_channels_last(t.x) && is_packed_channels_last(t.w) &&
         is_packed_channels_last(t.y);
}

/* cuda_conv_is_planned of conv2d_add. Of few elements of 16 bits the bound allows no result that
 * was rounded before all was added, as cuDNN's may be: those are the direct convolution's. */
bool cuda_conv_add_is_planned(const tn_kernel_args *args) {
  enum { least_averaged = 4096 };
  const DLTensor *y = args->out[0];
  return cuda_conv_is_planned(args) &&
         (y->dtype.bits > 16 || cuda_size(y, 0, y->ndim) >= least_averaged);
}

/* cuda_conv_is_channels_last, where neither the result nor what is added to it has to be turned. */
bool cuda_conv_add_is_channels_last(const tn_kernel_args *args) {
  const conv_tensors t = tensors_of(args);
  return cuda_conv_add_is_planned(args) && is_packed_channels_last(t.y) &&
         (!t.addend || is_packed_channels_last(t.addend)) && cuda_conv_is_channels_last(args);
}

/* Images with channels last in 16 bits are cuDNN's. */
bool cuda_conv_is_thin_image(const tn_kernel_args *args) {
  if (args->out[0]->dtype.bits <= 16 && args->out[0]->ndim == 4 &&
      !(is_row_major(args->in[0]) && is_row_major(args->out[0])) &&
      cuda_conv_is_channels_last(args))
    return false;
  return cuda_conv_is_thin(args);
}

/* What cuDNN gets a copy of, with channels last: those lie behind the plan's workspace. */
static bool is_turned(const tn_kernel_args *args, const DLTensor *t) {
  return row_of(args)->channels_last && !is_packed_channels_last(t);
}

static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

static size_t bytes_of(const DLTensor *t) {
  return rounded((size_t)cuda_size(t, 0, t->ndim) * tn_dtype_size(cuda_dtype(t)));
}

static size_t workspace_bytes(const tn_kernel_args *args, const conv_plan *p) {
  const conv_tensors t = tensors_of(args);
  const DLTensor *all[] = {t.x, t.w, t.y};
  size_t turned = 0;
  for (int i = 0; i < 3; i++)
    if (is_turned(args, all[i])) turned += bytes_of(all[i]);
  if (p->direct || !turned) return cuda_conv_plan_bytes(p);
  return rounded(cuda_conv_plan_bytes(p)) + turned;
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
  c->bias = t.bias && c->role == CUDA_CONV_FORWARD;
  c->addend = t.addend != NULL;
  c->activation = (int32_t)window_activation(args);
  bool fits = triple_of(c->stride, attrs.stride);
  fits = triple_of(c->padding, attrs.padding) && fits;
  fits = triple_of(c->dilation, attrs.dilation) && fits;
  fits = sizes_of(c->x, t.x) && fits;
  fits = sizes_of(c->w, t.w) && fits;
  return sizes_of(c->y, t.y) && fits;
}

/* Whether cuDNN takes the call and its engines are measured, or were. */
static bool is_measured(const tn_kernel_args *args) {
  convolution key;
  return cuda_conv_is_channels_last(args) && describe(&key, args) &&
         cuda_conv_is_measured(args->host, &key);
}

/* Convolutions of each channel by itself are our own kernels' but where cuDNN has better engines:
 * for windows that are not walked, in 16 bits or by weight, if the best of them is found by
 * measuring. */
static bool is_narrow(const tn_kernel_args *args) { return args->out[0]->dtype.bits <= 16; }

bool cuda_conv_is_own_depthwise(const tn_kernel_args *args) {
  return cuda_conv_is_depthwise(args) &&
         (cuda_conv_is_walked(args) || !(is_narrow(args) && is_measured(args)));
}
bool cuda_conv_backward_is_own_depthwise(const tn_kernel_args *args) {
  return cuda_conv_backward_is_depthwise(args) &&
         (cuda_conv_backward_is_walked(args) || !(is_narrow(args) && is_measured(args)));
}
bool cuda_conv_weight_is_own_depthwise(const tn_kernel_args *args) {
  return cuda_conv_weight_is_depthwise(args) &&
         (cuda_conv_weight_is_walked(args) || !is_measured(args));
}
bool cuda_conv_transpose_weight_is_own_depthwise(const tn_kernel_args *args) {
  return cuda_conv_transpose_weight_is_depthwise(args) &&
         (cuda_conv_transpose_weight_is_walked(args) || !is_measured(args));
}

static bool is_empty(const tn_kernel_args *args) {
  conv_tensors t = tensors_of(args);
  return !has_elements(t.x) || !has_elements(t.w) || !has_elements(t.y);
}

/* ----------------------------------------------------------------- running --- */

/* result += addend, of its shape. Our own kernel: it takes every element type and any layout. */
static tn_status add(const tn_kernel_args *args, const DLTensor *result, const DLTensor *addend) {
  const DLTensor *in[] = {result, addend};
  tn_kernel_args sub = *args;
  sub.in = in;
  sub.num_in = 2;
  sub.attrs = NULL;
  return cuda_run_add(&sub);
}

/* result += bias of its channels. */
static tn_status add_bias(const tn_kernel_args *args, const DLTensor *result,
                          const DLTensor *bias) {
  int64_t strides[5] = {0, bias->strides[0], 0, 0, 0};
  DLTensor expanded = *bias;
  expanded.ndim = result->ndim;
  expanded.shape = result->shape;
  expanded.strides = strides;
  return add(args, result, &expanded);
}

static tn_status copy_to(const tn_kernel_args *args, const DLTensor *from, DLTensor *to) {
  tn_kernel_args sub = *args;
  sub.in = &from;
  sub.out = &to;
  sub.num_in = sub.num_out = 1;
  sub.attrs = NULL;
  sub.workspace = NULL;
  sub.workspace_bytes = 0;
  return cuda_run_copy(&sub);
}

/* The same tensor in other memory, with channels last. */
static DLTensor turned_to(const DLTensor *t, void *data, int64_t strides[4]) {
  DLTensor turned = *t;
  turned.data = data;
  turned.strides = strides;
  strides[1] = 1;
  strides[3] = t->shape[1];
  strides[2] = strides[3] * t->shape[3];
  strides[0] = strides[2] * t->shape[2];
  return turned;
}

/* cuDNN's part, between the turning of what it reads and of what it gave. */
static tn_status execute_turned(const tn_kernel_args *args, const conv_plan *p, conv_memory *m) {
  const conv_tensors t = tensors_of(args);
  const DLTensor *all[] = {t.x, t.w, t.y};
  void **place[] = {&m->x, &m->w, &m->y};
  char *at = (char *)args->workspace + rounded(cuda_conv_plan_bytes(p));
  DLTensor result = *args->out[0], turned_result = result;
  int64_t strides[3][4];
  tn_status status = TN_OK;
  for (int i = 0; i < 3 && status == TN_OK; i++) {
    if (!is_turned(args, all[i])) continue;
    DLTensor turned = turned_to(all[i], at, strides[i]);
    *place[i] = at;
    at += bytes_of(all[i]);
    if (all[i] == args->out[0])
      turned_result = turned;
    else
      status = copy_to(args, all[i], &turned);
  }
  if (status == TN_OK) status = cuda_conv_execute(args->queue, p, m);
  if (status != TN_OK || turned_result.data == result.data) return status;
  return copy_to(args, &turned_result, &result);
}

static conv_memory memory_of(const tn_kernel_args *args) {
  const conv_tensors t = tensors_of(args);
  return (conv_memory){t.x->data,
                       t.w->data,
                       t.y->data,
                       t.bias ? t.bias->data : NULL,
                       t.addend ? t.addend->data : NULL,
                       args->workspace};
}

static tn_status execute(const tn_kernel_args *args, const conv_plan *p) {
  const conv_tensors t = tensors_of(args);
  conv_memory m = memory_of(args);
  tn_status status = execute_turned(args, p, &m);
  if (status != TN_OK || p->key.role == CUDA_CONV_WEIGHT || cuda_conv_has_epilogue(&p->key))
    return status;
  if (t.bias) status = add_bias(args, p->key.role == CUDA_CONV_BACKWARD ? t.x : t.y, t.bias);
  if (t.addend && status == TN_OK) status = add(args, t.y, t.addend);
  return status == TN_OK ? cuda_conv_activate(args, p->key.activation) : status;
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
  status = cuda_conv_plan_of(queue, &key, &plan);
  if (status == TN_OK) *bytes = workspace_bytes(args, plan);
  pthread_mutex_unlock(&queue->lock);
  return status;
}

/* *direct says whether cuDNN has nothing for the call. */
static tn_status run_planned(const tn_kernel_args *args, const convolution *key, bool *direct) {
  conv_plan *plan = NULL;
  tn_status status = cuda_conv_plan_of(args->queue, key, &plan);
  if (status != TN_OK) return status;
  const conv_memory memory = memory_of(args);
  *direct = !cuda_conv_takes(plan, &memory);
  if (*direct) return TN_OK;
  if (workspace_bytes(args, plan) > args->workspace_bytes) {
    return args->host->fail(TN_ERR_INTERNAL, "convolution: %zu bytes of workspace, needs %zu",
                            args->workspace_bytes, workspace_bytes(args, plan));
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

/* The direct convolution with its bias, then the addend and the activation; all of it before
 * results of 16 bits are rounded. */
tn_status cuda_run_conv_add(const tn_kernel_args *args) {
  enum { ADDEND = 3 };
  tn_conv2d_add_attrs plain = *(const tn_conv2d_add_attrs *)args->attrs;
  tn_kernel_args sub = *args;
  if (args->out[0]->dtype.bits == 16) return cuda_run_conv_forward_once(args);
  plain.activation = TN_ACTIVATION_NONE;
  sub.attrs = &plain;
  sub.num_in = ADDEND;
  tn_status status = cuda_run_conv_forward(&sub);
  if (status == TN_OK && args->in[ADDEND]) status = add(args, args->out[0], args->in[ADDEND]);
  return status == TN_OK ? cuda_conv_activate(args, window_activation(args)) : status;
}
