/*
 * Attention and its gradient by cuDNN's fused kernels: float16 and bfloat16 without mask or
 * bias, in any layout whose vectors lie in one piece. What cuDNN decided about a shape, a plan or
 * that it has none, is kept with the device: plans take a second to build, and their kernels must
 * outlive the streams and the recorded graphs that run them. Calls that it does not take go to
 * our own kernels by `supports`.
 */
#include "backends/cuda/attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/backend.h"
#include "kernels/cuda/base/layout.h"

enum {
  oldest_version = 91002, /* 9.10.2: those before have bugs here, or want dq's sum cleared */
  fewest_queries = 64,    /* fewer are a decoder's, whose keys grow with every call: each length
                           * would wait for a plan of its own */
  fewest_keys = 64,       /* weights are rounded to 16 bits, which few keys do not average out */
  most_size = 256,        /* of a vector; cuDNN has nothing above */
  vector_bytes = 16,      /* divide addresses and strides */
  part_bytes = 256,       /* parts of the workspace begin at multiples */
  padded_keys = 128,
};

typedef struct attention_plan {
  cuda_plan plan;
  attention key;
  dnn_plan dnn;
  bool refused; /* cuDNN has nothing for the call */
} attention_plan;

/* A call's tensors by ATTN_*, NULL where the operator has none. */
typedef struct attention_call {
  const DLTensor *tensor[ATTN_TENSORS];
  const DLTensor *lse, *mask, *bias;
  bool gradient;
} attention_call;

static attention_call call_of(const tn_kernel_args *args) {
  const DLTensor *const *in = args->in;
  DLTensor *const *out = args->out;
  if (args->kernel->op == TN_OP_SCALED_DOT_PRODUCT_ATTENTION)
    return (attention_call){
        .tensor = {in[0], in[1], in[2], out[0]}, .lse = out[1], .mask = in[3], .bias = in[4]};
  return (attention_call){.tensor = {in[1], in[2], in[3], in[4], in[0], out[0], out[1], out[2]},
                          .lse = in[5],
                          .mask = in[6],
                          .bias = in[7],
                          .gradient = true};
}

/* ------------------------------------------------------------------ the call --- */

/* Strides of a tensor [b, h, s, d] that cuDNN can walk. Those of axes of one element count for
 * nothing, so they are set to what they would be. */
static bool strides_of(int64_t out[3], const DLTensor *t) {
  int64_t expected = t->shape[3];
  const int64_t granule = vector_bytes / 2;
  if (t->strides[3] != 1) return false;
  for (int i = 2; i >= 0; i--) {
    out[i] = t->shape[i] == 1 ? expected : t->strides[i];
    if (out[i] < t->shape[3] || out[i] % granule != 0) return false;
    expected *= t->shape[i];
  }
  return true;
}

static bool is_dense(const DLTensor *t) {
  int64_t expected = 1;
  for (int i = t->ndim - 1; i >= 0; i--) {
    if (t->shape[i] != 1 && t->strides[i] != expected) return false;
    expected *= t->shape[i];
  }
  return true;
}

static attn_causal causal_of(const tn_scaled_dot_product_attention_attrs *attrs, int64_t s,
                             int64_t t) {
  if (!attrs->causal) return ATTN_ALL;
  if (TN_FIELD_OR(attrs, tn_scaled_dot_product_attention_attrs, causal_upper_left, 0) || s == t)
    return ATTN_UPPER_LEFT;
  return ATTN_LOWER_RIGHT;
}

/* Sizes that cuDNN counts in 32 bits. */
static bool sizes_fit(const attention *a) {
  const int64_t size[] = {a->b, a->h, a->g, a->s, a->t};
  for (size_t i = 0; i < sizeof size / sizeof *size; i++)
    if (size[i] < 1 || size[i] > INT32_MAX) return false;
  return a->s >= fewest_queries && a->t >= fewest_keys && a->d >= 8 && a->d <= most_size &&
         a->d % 8 == 0 && a->b * a->h <= INT32_MAX;
}

/* False for calls that are not cuDNN's. */
static bool describe(attention *a, const tn_kernel_args *args, const attention_call *call) {
  const DLTensor *q = call->tensor[ATTN_Q], *k = call->tensor[ATTN_K];
  if (call->mask || call->bias || (call->lse && !is_dense(call->lse))) return false;
  /* Blocks add to dq in any order. */
  if (call->gradient && args->host->deterministic) return false;
  memset(a, 0, sizeof *a);
  a->dtype = cuda_dtype(q);
  a->gradient = call->gradient;
  a->has_lse = call->lse != NULL;
  a->b = q->shape[0], a->h = q->shape[1], a->s = q->shape[2], a->d = q->shape[3];
  a->g = k->shape[1], a->t = k->shape[2];
  a->padded = a->gradient && a->t % padded_keys != 0;
  if (!sizes_fit(a)) return false;
  a->causal = causal_of(args->attrs, a->s, a->t);
  if (a->causal == ATTN_LOWER_RIGHT && a->s > a->t) return false; /* some would see no key */
  for (int i = 0; i < ATTN_TENSORS; i++)
    if (call->tensor[i] && !strides_of(a->stride[i], call->tensor[i])) return false;
  return true;
}

static bool is_aligned(const attention_call *call) {
  uintptr_t bits = call->lse ? (uintptr_t)call->lse->data : 0;
  for (int i = 0; i < ATTN_TENSORS; i++)
    if (call->tensor[i]) bits |= (uintptr_t)call->tensor[i]->data;
  return bits % vector_bytes == 0;
}

/* ----------------------------------------------------------------- workspace --- */

/* Where the parts of a gradient's workspace begin. */
typedef struct attention_parts {
  size_t delta, dq_sum, queries, keys, dnn, bytes;
} attention_parts;

static size_t next_part(size_t begin, int64_t count, size_t element) {
  size_t end = begin + (size_t)count * element;
  return (end + part_bytes - 1) / part_bytes * part_bytes;
}

static attention_parts parts_of(const attention_plan *plan) {
  const attention *a = &plan->key;
  const int64_t queries = a->gradient ? a->b * a->h * a->s : 0, batches = a->padded ? a->b : 0;
  attention_parts parts = {0};
  parts.dq_sum = next_part(parts.delta, queries, sizeof(float));
  parts.queries = next_part(parts.dq_sum, queries * a->d, sizeof(float));
  parts.keys = next_part(parts.queries, batches, sizeof(int32_t));
  parts.dnn = next_part(parts.keys, batches, sizeof(int32_t));
  parts.bytes = parts.dnn + plan->dnn.workspace_bytes;
  return parts;
}

/* --------------------------------------------------------------------- plans --- */

void cuda_attention_destroy(cuda_plan *plan) {
  attention_plan *p = (attention_plan *)plan;
  dnn_plan_destroy(&p->dnn);
  free(p);
}

static void log_plan(const tn_host *host, const attention_plan *plan, const dnn_graph *graph) {
  static const char *const causal[] = {"", ", causal", ", causal from the end"};
  const attention *a = &plan->key;
  char shape[160];
  (void)snprintf(shape, sizeof shape, "%s %s b%lld h%lld/%lld s%lld t%lld d%lld%s%s",
                 a->gradient ? "gradient" : "forward", a->dtype == TN_F16 ? "f16" : "bf16",
                 (long long)a->b, (long long)a->h, (long long)a->g, (long long)a->s,
                 (long long)a->t, (long long)a->d, causal[a->causal], a->padded ? ", padded" : "");
  if (plan->refused)
    host->log(host, TN_LOG_DEBUG, "cuda: attention %s: cuDNN has no plan, our own kernel runs: %s",
              shape, graph->failed);
  else
    host->log(host, TN_LOG_DEBUG, "cuda: attention %s: cuDNN engine %lld, %zu bytes", shape,
              (long long)plan->dnn.engine, plan->dnn.workspace_bytes);
}

/* The handle that plans are built with: none of a stream's, for those go earlier. */
static bool open_builder(cuda_device *dev) {
  if (dev->dnn) return true;
  cudnnStatus_t status = cudnnCreate(&dev->dnn);
  if (status == CUDNN_STATUS_SUCCESS) return true;
  dev->dnn = NULL;
  dev->host->log(dev->host, TN_LOG_DEBUG, "cuda: attention: cudnnCreate: %s",
                 cudnnGetErrorString(status));
  return false;
}

/* The plan of a call, made on first sight; NULL where there is no memory for it, or so many are
 * kept that an older one would have to go, whose kernels graphs may run. The device's lock is
 * held. */
static attention_plan *plan_of(cuda_device *dev, const attention *key) {
  attention_plan *plan = (attention_plan *)cuda_plans_find(&dev->attentions, key, sizeof *key);
  if (plan) return plan;
  if (dev->attentions.count >= cuda_plan_limit || !open_builder(dev)) return NULL;
  plan = calloc(1, sizeof *plan);
  dnn_graph *graph = calloc(1, sizeof *graph);
  if (!plan || !graph) {
    free(plan);
    free(graph);
    return NULL;
  }
  plan->key = *key;
  plan->plan.key = &plan->key;
  plan->plan.key_bytes = sizeof plan->key;
  cuda_attention_describe(graph, key);
  plan->refused = !dnn_graph_plan(graph, dev->dnn, &plan->dnn);
  log_plan(dev->host, plan, graph);
  dnn_graph_free(graph);
  free(graph);
  cuda_plans_add(&dev->attentions, &plan->plan);
  return plan;
}

bool cuda_attention_fused(const tn_kernel_args *args) {
  cuda_device *dev = (cuda_device *)args->device;
  const attention_call call = call_of(args);
  attention key;
  if (!describe(&key, args, &call) || !is_aligned(&call)) return false;
  if (cudnnGetVersion() < oldest_version || cuda_make_current(args->host, &dev->info) != TN_OK)
    return false;
  (void)pthread_mutex_lock(&dev->lock);
  const attention_plan *plan = plan_of(dev, &key);
  const bool taken = plan && !plan->refused;
  (void)pthread_mutex_unlock(&dev->lock);
  return taken;
}

/* ------------------------------------------------------------------- running --- */

static tn_status fill_lengths(const tn_kernel_args *args, void *memory, int64_t batches,
                              int64_t length) {
  int64_t stride = 1;
  const tn_fill_attrs attrs = {.struct_size = sizeof attrs, .value = (double)length};
  DLTensor lengths = {.data = memory,
                      .device = args->out[0]->device,
                      .ndim = 1,
                      .dtype = {kDLInt, 32, 1},
                      .shape = &batches,
                      .strides = &stride};
  DLTensor *out[] = {&lengths};
  tn_kernel_args sub = *args;
  sub.num_in = 0;
  sub.num_out = 1;
  sub.out = out;
  sub.attrs = &attrs;
  return cuda_run_fill(&sub);
}

/* What a plan is run with: ids, and addresses of memory and numbers. */
typedef struct attention_pack {
  float scale, one, hidden;
  int32_t s, t;
  int count;
  int64_t id[ATTN_IDS];
  void *address[ATTN_IDS];
} attention_pack;

static void give(attention_pack *pack, int64_t id, void *address) {
  pack->id[pack->count] = id;
  pack->address[pack->count++] = address;
}

/* Only what the graph has: cuDNN refuses other ids. */
static void fill_pack(attention_pack *pack, const attention *a, const attention_call *call,
                      const attention_parts *parts, char *workspace) {
  for (int i = 0; i < ATTN_TENSORS; i++)
    if (call->tensor[i]) give(pack, 1 + i, call->tensor[i]->data);
  if (call->lse) give(pack, ATTN_ID_LSE, call->lse->data);
  give(pack, ATTN_ID_SCALE, &pack->scale);
  if (a->gradient) {
    give(pack, ATTN_ID_DELTA, workspace + parts->delta);
    give(pack, ATTN_ID_DQ_SUM, workspace + parts->dq_sum);
    give(pack, ATTN_ID_ONE, &pack->one);
  }
  if (a->padded) {
    give(pack, ATTN_ID_QUERIES, workspace + parts->queries);
    give(pack, ATTN_ID_KEYS, workspace + parts->keys);
  } else if (a->causal == ATTN_LOWER_RIGHT) {
    give(pack, ATTN_ID_S, &pack->s);
    give(pack, ATTN_ID_T, &pack->t);
  }
  if (a->padded || a->causal != ATTN_ALL) give(pack, ATTN_ID_HIDDEN, &pack->hidden);
}

static tn_status execute(const tn_kernel_args *args, const attention_plan *plan,
                         const attention_call *call) {
  const attention *a = &plan->key;
  const attention_parts parts = parts_of(plan);
  const double scale = ((const tn_scaled_dot_product_attention_attrs *)args->attrs)->scale;
  char *workspace = args->workspace;
  if (parts.bytes > args->workspace_bytes)
    return args->host->fail(TN_ERR_INTERNAL, "attention: %zu bytes of workspace, needs %zu",
                            args->workspace_bytes, parts.bytes);
  tn_status status = TN_OK;
  if (a->padded) {
    status = fill_lengths(args, workspace + parts.queries, a->b, a->s);
    if (status == TN_OK) status = fill_lengths(args, workspace + parts.keys, a->b, a->t);
    if (status != TN_OK) return status;
  }
  attention_pack pack = {.scale = (float)(scale != 0 ? scale : 1 / sqrt((double)a->d)),
                         .one = 1,
                         .hidden = -INFINITY,
                         .s = (int32_t)a->s,
                         .t = (int32_t)a->t};
  fill_pack(&pack, a, call, &parts, workspace);
  cudnnStatus_t done =
      dnn_plan_execute(&plan->dnn, ((cuda_queue *)args->queue)->dnn, pack.count, pack.id,
                       pack.address, workspace ? workspace + parts.dnn : NULL);
  return cuda_dnn_status(args->host, done, "attention: cudnnBackendExecute");
}

/* What `supports` took may have moved to where cuDNN cannot read it. */
static tn_status run_own(const tn_kernel_args *args, const attention_call *call) {
  bool dense = true;
  for (int i = 0; i < ATTN_TENSORS; i++)
    dense = dense && (!call->tensor[i] || is_dense(call->tensor[i]));
  if (dense && call->gradient && cuda_attention_grad_supports(args))
    return cuda_run_scaled_dot_product_attention_grad(args);
  if (dense && !call->gradient && cuda_attention_supports(args))
    return cuda_run_scaled_dot_product_attention(args);
  return args->host->fail(TN_ERR_UNSUPPORTED,
                          "attention: cuDNN's kernel wants strided tensors at multiples of %d "
                          "bytes; give it aligned or row-major ones",
                          vector_bytes);
}

/* The queue's lock is held. */
static tn_status ask_workspace(const tn_kernel_args *args, const attention *key, size_t *bytes) {
  cuda_device *dev = (cuda_device *)args->device;
  tn_status status = cuda_open_dnn(args->queue); /* here, for recorded runs should not */
  if (status != TN_OK) return status;
  (void)pthread_mutex_lock(&dev->lock);
  const attention_plan *plan = plan_of(dev, key);
  if (plan) *bytes = parts_of(plan).bytes;
  (void)pthread_mutex_unlock(&dev->lock);
  if (plan) return TN_OK;
  return args->host->fail(TN_ERR_OUT_OF_MEMORY, "cuda: no memory for the plan of an attention");
}

tn_status cuda_attention_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_queue *queue = args->queue;
  const attention_call call = call_of(args);
  attention key;
  *bytes = 0;
  if (!describe(&key, args, &call)) return TN_OK;
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  (void)pthread_mutex_lock(&queue->lock);
  status = ask_workspace(args, &key, bytes);
  (void)pthread_mutex_unlock(&queue->lock);
  return status;
}

/* cuDNN does not promise that two threads may run one plan at once: the device's lock is held as
 * well as the queue's, whose handle this is. */
static tn_status run_planned(const tn_kernel_args *args, const attention *key,
                             const attention_call *call, bool *own) {
  cuda_device *dev = (cuda_device *)args->device;
  tn_status status = cuda_open_dnn(args->queue);
  if (status != TN_OK) return status;
  (void)pthread_mutex_lock(&dev->lock);
  const attention_plan *plan = plan_of(dev, key);
  *own = !plan || plan->refused;
  if (!*own) status = execute(args, plan, call);
  (void)pthread_mutex_unlock(&dev->lock);
  return status;
}

tn_status cuda_run_attention(const tn_kernel_args *args) {
  cuda_queue *queue = args->queue;
  const attention_call call = call_of(args);
  attention key;
  bool own = false;
  if (!describe(&key, args, &call) || !is_aligned(&call)) return run_own(args, &call);
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  (void)pthread_mutex_lock(&queue->lock);
  status = run_planned(args, &key, &call, &own);
  (void)pthread_mutex_unlock(&queue->lock);
  return own && status == TN_OK ? run_own(args, &call) : status;
}
