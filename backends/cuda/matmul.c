/*
 * Matrix products by cuBLASLt. cuBLASLt thinks in columns, so the row-major product
 * y = a b is asked for as y' = b' a': the left operand is b, the right one a, and the
 * bias, one value per column of y, is one per row of y', which is its bias epilogue.
 * Its other epilogues take NaN for 0 and approximate, so activations are a pass of our own
 * unless the host asked for fast mathematics.
 * The heuristic's choice for a shape is kept as a plan in the queue.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/backend.h"
#include "kernels/cuda/base/layout.h"

enum { workspace_limit = 32 << 20, most_alignment = 16 };

/* A matrix as cuBLASLt is told of it. */
typedef struct operand {
  int64_t ld;
  int64_t step;  /* between matrices of the batch, in elements */
  int32_t trans; /* 1: stored with its axes swapped */
  int32_t align; /* bytes that divide every address the product uses */
} operand;

/* All that the plan depends on. */
typedef struct product {
  int32_t dtype, math, has_bias;
  int32_t fused; /* the tn_activation that the epilogue is to apply */
  int64_t m, n, k, batch;
  operand a, b, y, bias;
} product;

/* A call: the product, and the batch axes that remain around it (operands y, a, b). */
typedef struct product_call {
  product product;
  cuda_shape outer;
} product_call;

typedef struct product_plan {
  cuda_plan plan;
  product key;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t left, right, out;
  cublasLtMatmulAlgo_t algo;
  size_t workspace_bytes;
  bool adds_bias; /* no kernel with that epilogue: y holds the bias beforehand */
  int32_t fused;  /* the tn_activation that the epilogue applies */
} product_plan;

/* ---------------------------------------------------------------- geometry --- */

/* Whether a rows-by-columns matrix of these strides has unit stride along an axis and
 * no overlap along the other. */
static bool matrix_of(operand *o, int64_t rows, int64_t columns, int64_t row_stride,
                      int64_t column_stride) {
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
    *o = (operand){.ld = rows == 1 ? columns : row_stride, .trans = 0};
    return true;
  }
  if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
    *o = (operand){.ld = columns == 1 ? rows : column_stride, .trans = 1};
    return true;
  }
  return false;
}

static int64_t stride_of(const DLTensor *t, int from_last) {
  return t->strides[t->ndim - from_last];
}

/* Batch stride of an operand for axis d of y's batch; 0 where it broadcasts. */
static int64_t batch_stride(const DLTensor *t, const DLTensor *y, int d) {
  int axis = d - (y->ndim - t->ndim);
  return axis < 0 || t->shape[axis] == 1 ? 0 : t->strides[axis];
}

static void batch_of(cuda_shape *s, const DLTensor *y, const DLTensor *a, const DLTensor *b) {
  s->rank = y->ndim - 2;
  for (int d = 0; d < s->rank; d++) {
    s->size[d] = y->shape[d];
    s->stride[0][d] = y->strides[d];
    s->stride[1][d] = batch_stride(a, y, d);
    s->stride[2][d] = batch_stride(b, y, d);
  }
  cuda_shape_simplify(s, 3, true);
}

/* Takes the innermost batch axis into the product: as more rows where b is the same
 * for all of it and rows follow on, else as cuBLASLt's batch. */
static void take_batch(product_call *call) {
  product *p = &call->product;
  int last = call->outer.rank - 1;
  int64_t size = call->outer.size[last], y = call->outer.stride[0][last],
          a = call->outer.stride[1][last], b = call->outer.stride[2][last];
  p->batch = 1;
  if (size == 1) return;
  call->outer.size[last] = 1;
  if (b == 0 && !p->a.trans && p->m == 1 && a >= p->k && y >= p->n) {
    p->a.ld = a;
    p->y.ld = y;
    p->m = size;
  } else if (b == 0 && !p->a.trans && a == p->m * p->a.ld && y == p->m * p->y.ld) {
    p->m *= size;
  } else {
    p->batch = size;
    p->y.step = y;
    p->a.step = a;
    p->b.step = b;
  }
}

static int32_t alignment_of(const DLTensor *t, const cuda_shape *outer, int k) {
  uint64_t bits = (uint64_t)(uintptr_t)t->data | most_alignment;
  for (int d = 0; outer && d < outer->rank; d++) {
    if (outer->size[d] > 1) bits |= (uint64_t)outer->stride[k][d] * (t->dtype.bits / 8);
  }
  return (int32_t)(bits & -bits);
}

/* What a fast product's epilogue may compute, TN_ACTIVATION_NONE for nothing. */
static int32_t fused_activation(const tn_kernel_args *args) {
  int64_t activation = ((const tn_matmul_attrs *)args->attrs)->activation;
  bool has = activation == TN_ACTIVATION_RELU || activation == TN_ACTIVATION_GELU_TANH;
  bool fast = args->host->math == TN_MATH_FAST && cuda_dtype(args->out[0]) != TN_F64;
  return has && fast ? (int32_t)activation : TN_ACTIVATION_NONE;
}

/* False where cuBLASLt cannot walk an operand; contiguous ones it always can. */
static bool describe(product_call *call, const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *b = args->in[1], *bias = args->in[2], *y = args->out[0];
  const tn_matmul_attrs *attrs = args->attrs;
  product *p = &call->product;
  memset(call, 0, sizeof *call);
  int ta = attrs->trans_a != 0, tb = attrs->trans_b != 0;
  p->dtype = cuda_dtype(y);
  p->math = p->dtype == TN_F32 ? (int32_t)args->host->math : 0;
  p->fused = fused_activation(args);
  p->m = y->shape[y->ndim - 2];
  p->n = y->shape[y->ndim - 1];
  p->k = a->shape[a->ndim - (ta ? 2 : 1)];
  if (!matrix_of(&p->a, p->m, p->k, stride_of(a, ta ? 1 : 2), stride_of(a, ta ? 2 : 1)) ||
      !matrix_of(&p->b, p->k, p->n, stride_of(b, tb ? 1 : 2), stride_of(b, tb ? 2 : 1)) ||
      !matrix_of(&p->y, p->m, p->n, stride_of(y, 2), stride_of(y, 1)) || p->y.trans) {
    return false;
  }
  batch_of(&call->outer, y, a, b);
  take_batch(call);
  p->y.align = alignment_of(y, &call->outer, 0);
  p->a.align = alignment_of(a, &call->outer, 1);
  p->b.align = alignment_of(b, &call->outer, 2);
  if (bias) {
    p->has_bias = 1;
    p->bias.align = alignment_of(bias, NULL, 0);
    if (bias->shape[0] > 1 && bias->strides[0] != 1) return false;
  }
  return true;
}

static bool is_empty(const tn_kernel_args *args) {
  const DLTensor *a = args->in[0], *y = args->out[0];
  const tn_matmul_attrs *attrs = args->attrs;
  return cuda_size(y, 0, y->ndim) == 0 || a->shape[a->ndim - (attrs->trans_a ? 2 : 1)] == 0;
}

bool cuda_matmul_supports(const tn_kernel_args *args) {
  product_call call;
  return !is_empty(args) && describe(&call, args);
}

/* ------------------------------------------------------------------- plans --- */

tn_status cuda_blas_status(const tn_host *host, cublasStatus_t status, const char *call) {
  if (status == CUBLAS_STATUS_SUCCESS) return TN_OK;
  cudaError_t error = cudaPeekAtLastError(); /* a lost device shows as a library's failure */
  if (error != cudaSuccess) return cuda_status(host, (int)error, call);
  tn_status code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? TN_ERR_DEVICE_OUT_OF_MEMORY : TN_ERR_BACKEND;
  return host->fail(code, "%s: %s (%s)", call, cublasLtGetStatusName(status),
                    cublasLtGetStatusString(status));
}

#define BLAS_TRY(host, call)                                                                       \
  do {                                                                                             \
    cublasStatus_t status_ = (call);                                                               \
    if (status_ != CUBLAS_STATUS_SUCCESS) return cuda_blas_status(host, status_, #call);           \
  } while (0)

static cudaDataType_t data_type(int32_t dtype) {
  switch (dtype) {
  case TN_F16:
    return CUDA_R_16F;
  case TN_BF16:
    return CUDA_R_16BF;
  case TN_F64:
    return CUDA_R_64F;
  default:
    return CUDA_R_32F;
  }
}

static cublasComputeType_t compute_type(const product *p) {
  if (p->dtype == TN_F64) return CUBLAS_COMPUTE_64F;
  if (p->math == TN_MATH_TF32) return CUBLAS_COMPUTE_32F_FAST_TF32;
  if (p->math == TN_MATH_FAST) return CUBLAS_COMPUTE_32F_FAST_16BF;
  return CUBLAS_COMPUTE_32F;
}

void cuda_product_destroy(cuda_plan *plan) {
  product_plan *p = (product_plan *)plan;
  if (p->left) (void)cublasLtMatrixLayoutDestroy(p->left);
  if (p->right) (void)cublasLtMatrixLayoutDestroy(p->right);
  if (p->out) (void)cublasLtMatrixLayoutDestroy(p->out);
  if (p->desc) (void)cublasLtMatmulDescDestroy(p->desc);
  free(p);
}

/* rows and columns as stored, in cuBLASLt's column order. */
static tn_status layout_of(const tn_host *host, cublasLtMatrixLayout_t *layout, const product *p,
                           const operand *o, int64_t rows, int64_t columns) {
  BLAS_TRY(host, cublasLtMatrixLayoutCreate(layout, data_type(p->dtype), (uint64_t)rows,
                                            (uint64_t)columns, o->ld));
  if (p->batch == 1) return TN_OK;
  int32_t count = (int32_t)p->batch;
  BLAS_TRY(host, cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &count, sizeof count));
  BLAS_TRY(host,
           cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &o->step, sizeof o->step));
  return TN_OK;
}

static cublasLtEpilogue_t epilogue_of(int32_t fused, bool bias) {
  switch (fused) {
  case TN_ACTIVATION_RELU:
    return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  case TN_ACTIVATION_GELU_TANH:
    return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  default:
    return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

static tn_status set_epilogue(const tn_host *host, product_plan *plan, const void *bias) {
  cublasLtEpilogue_t epilogue = epilogue_of(plan->fused, bias != NULL);
  BLAS_TRY(host, cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                &epilogue, sizeof epilogue));
  if (!bias) return TN_OK;
  BLAS_TRY(host, cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                &bias, sizeof bias));
  return TN_OK;
}

static tn_status describe_plan(const tn_host *host, product_plan *plan) {
  const product *p = &plan->key;
  cudaDataType_t scale = p->dtype == TN_F64 ? CUDA_R_64F : CUDA_R_32F;
  BLAS_TRY(host, cublasLtMatmulDescCreate(&plan->desc, compute_type(p), scale));
  cublasOperation_t left = p->b.trans ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t right = p->a.trans ? CUBLAS_OP_T : CUBLAS_OP_N;
  BLAS_TRY(host, cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &left,
                                                sizeof left));
  BLAS_TRY(host, cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSB, &right,
                                                sizeof right));
  tn_status status =
      layout_of(host, &plan->left, p, &p->b, p->b.trans ? p->k : p->n, p->b.trans ? p->n : p->k);
  if (status == TN_OK) {
    status =
        layout_of(host, &plan->right, p, &p->a, p->a.trans ? p->m : p->k, p->a.trans ? p->k : p->m);
  }
  return status == TN_OK ? layout_of(host, &plan->out, p, &p->y, p->n, p->m) : status;
}

static tn_status set_preference(const tn_host *host, cublasLtMatmulPreference_t preference,
                                const product *p) {
  size_t limit = workspace_limit;
  /* Partial sums of a split product stay in the type computed in. */
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const struct {
    cublasLtMatmulPreferenceAttributes_t what;
    int32_t bytes;
  } aligned[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p->b.align},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p->a.align},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p->y.align},
                 {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p->y.align}};
  BLAS_TRY(host, cublasLtMatmulPreferenceSetAttribute(
                     preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit));
  BLAS_TRY(host, cublasLtMatmulPreferenceSetAttribute(preference,
                                                      CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &reduction, sizeof reduction));
  for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++) {
    uint32_t bytes = (uint32_t)aligned[i].bytes;
    BLAS_TRY(host, cublasLtMatmulPreferenceSetAttribute(preference, aligned[i].what, &bytes,
                                                        sizeof bytes));
  }
  return TN_OK;
}

/* Asks for an algorithm; *found is 0 where there is none for this epilogue. */
static tn_status choose(const tn_host *host, cublasLtHandle_t blas, product_plan *plan,
                        int *found) {
  cublasLtMatmulPreference_t preference = NULL;
  cublasLtMatmulHeuristicResult_t result;
  BLAS_TRY(host, cublasLtMatmulPreferenceCreate(&preference));
  tn_status status = set_preference(host, preference, &plan->key);
  *found = 0;
  if (status == TN_OK) {
    cublasStatus_t asked =
        cublasLtMatmulAlgoGetHeuristic(blas, plan->desc, plan->left, plan->right, plan->out,
                                       plan->out, preference, 1, &result, found);
    if (asked != CUBLAS_STATUS_SUCCESS) *found = 0;
    if (asked != CUBLAS_STATUS_SUCCESS && asked != CUBLAS_STATUS_NOT_SUPPORTED) {
      status = cuda_blas_status(host, asked, "cublasLtMatmulAlgoGetHeuristic");
    }
  }
  (void)cublasLtMatmulPreferenceDestroy(preference);
  if (status != TN_OK || *found == 0) return status;
  plan->algo = result.algo;
  plan->workspace_bytes = result.workspaceSize;
  return TN_OK;
}

static tn_status make_plan(cuda_queue *queue, product_plan *plan, const void *bias) {
  const tn_host *host = queue->device->host;
  const product *p = &plan->key;
  int found = 0;
  tn_status status = describe_plan(host, plan);
  /* With its whole epilogue, then without the bias, then both without the activation. */
  for (int attempt = 0; attempt < 4 && status == TN_OK && !found; attempt++) {
    plan->fused = attempt < 2 ? p->fused : TN_ACTIVATION_NONE;
    plan->adds_bias = attempt % 2 && bias;
    if ((attempt % 2 && !bias) || (attempt >= 2 && !p->fused)) continue;
    status = set_epilogue(host, plan, plan->adds_bias ? NULL : bias);
    if (status == TN_OK) status = choose(host, queue->blas, plan, &found);
  }
  if (status != TN_OK || found) return status;
  return host->fail(
      TN_ERR_UNSUPPORTED, "cublasLt has no algorithm for m=%lld n=%lld k=%lld batch=%lld dtype=%d",
      (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->batch, (int)p->dtype);
}

/* The plan of a call, made on first sight. The queue's lock is held. */
static tn_status plan_of(cuda_queue *queue, const product *key, const void *bias,
                         product_plan **out) {
  const tn_host *host = queue->device->host;
  *out = (product_plan *)cuda_plans_find(&queue->products, key, sizeof *key);
  if (*out) return TN_OK;
  if (!queue->blas) BLAS_TRY(host, cublasLtCreate(&queue->blas));
  product_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return host->fail(TN_ERR_OUT_OF_MEMORY, "cuda: no memory for a product's plan");
  plan->key = *key;
  plan->plan.key = &plan->key;
  plan->plan.key_bytes = sizeof plan->key;
  tn_status status = make_plan(queue, plan, bias);
  if (status != TN_OK) {
    cuda_product_destroy(&plan->plan);
    return status;
  }
  cuda_plans_add(&queue->products, &plan->plan);
  *out = plan;
  return TN_OK;
}

/* ----------------------------------------------------------------- running --- */

/* y = bias in every row, or 0. */
static tn_status fill_with_bias(const tn_kernel_args *args) {
  const DLTensor *bias = args->in[2];
  tn_kernel_args sub = *args;
  if (!bias) {
    tn_fill_attrs zero = TN_FILL_DEFAULTS;
    sub.attrs = &zero;
    return cuda_run_fill(&sub);
  }
  int64_t strides[TN_MAX_RANK] = {0};
  strides[args->out[0]->ndim - 1] = bias->strides[0];
  DLTensor expanded = *bias;
  expanded.ndim = args->out[0]->ndim;
  expanded.shape = args->out[0]->shape;
  expanded.strides = strides;
  const DLTensor *in[] = {&expanded};
  sub.in = in;
  sub.num_in = 1;
  sub.attrs = NULL;
  return cuda_run_copy(&sub);
}

static tn_status multiply(const tn_kernel_args *args, const product_plan *plan, void *y,
                          const void *a, const void *b) {
  static const double one64 = 1, zero64 = 0;
  static const float one32 = 1, zero32 = 0;
  const cuda_queue *queue = args->queue;
  bool is64 = plan->key.dtype == TN_F64, adds = plan->adds_bias;
  const void *alpha = is64 ? (const void *)&one64 : &one32;
  const void *beta = is64 ? (const void *)(adds ? &one64 : &zero64) : (adds ? &one32 : &zero32);
  BLAS_TRY(args->host, cublasLtMatmul(queue->blas, plan->desc, alpha, b, plan->left, a, plan->right,
                                      beta, y, plan->out, y, plan->out, &plan->algo,
                                      args->workspace, plan->workspace_bytes, queue->stream));
  return TN_OK;
}

/* Every product of the batch axes that remain, in row-major order. */
static tn_status multiply_all(const tn_kernel_args *args, const product_plan *plan,
                              const cuda_shape *outer) {
  size_t bytes = args->out[0]->dtype.bits / 8;
  const DLTensor *tensors[] = {args->out[0], args->in[0], args->in[1]};
  int64_t count = cuda_shape_count(outer);
  for (int64_t i = 0; i < count; i++) {
    unsigned char *at[3];
    for (int k = 0; k < 3; k++) {
      int64_t rest = i, offset = 0;
      for (int d = outer->rank - 1; d >= 0; d--) {
        offset += rest % outer->size[d] * outer->stride[k][d];
        rest /= outer->size[d];
      }
      at[k] = (unsigned char *)tensors[k]->data + offset * (int64_t)bytes;
    }
    tn_status status = multiply(args, plan, at[0], at[1], at[2]);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

tn_status cuda_matmul_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_queue *queue = args->queue;
  product_call call;
  product_plan *plan = NULL;
  *bytes = 0;
  if (is_empty(args)) return TN_OK;
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  if (!describe(&call, args)) {
    return args->host->fail(TN_ERR_INTERNAL, "matmul: operands are not contiguous");
  }
  const void *bias = args->in[2] ? args->in[2]->data : NULL;
  pthread_mutex_lock(&queue->lock);
  status = plan_of(queue, &call.product, bias, &plan);
  if (status == TN_OK) *bytes = plan->workspace_bytes;
  pthread_mutex_unlock(&queue->lock);
  return status;
}

/* Applies what the epilogue has not: y = activation(y). */
static tn_status activate(const tn_kernel_args *args) {
  int64_t activation = ((const tn_matmul_attrs *)args->attrs)->activation;
  tn_gelu_attrs gelu = TN_GELU_DEFAULTS;
  const DLTensor *in[] = {args->out[0]};
  tn_kernel_args sub = *args;
  if (activation == TN_ACTIVATION_NONE) return TN_OK;
  sub.in = in;
  sub.num_in = 1;
  sub.attrs = activation == TN_ACTIVATION_RELU ? NULL : &gelu;
  gelu.tanh = activation == TN_ACTIVATION_GELU_TANH;
  return activation == TN_ACTIVATION_RELU ? cuda_run_relu(&sub) : cuda_run_gelu(&sub);
}

static tn_status run_planned(const tn_kernel_args *args, const product_call *call) {
  const void *bias = args->in[2] ? args->in[2]->data : NULL;
  product_plan *plan = NULL;
  tn_status status = plan_of(args->queue, &call->product, bias, &plan);
  if (status != TN_OK) return status;
  if (plan->workspace_bytes > args->workspace_bytes) {
    return args->host->fail(TN_ERR_INTERNAL, "matmul: %zu bytes of workspace, needs %zu",
                            args->workspace_bytes, plan->workspace_bytes);
  }
  if (bias && plan->adds_bias) status = fill_with_bias(args);
  if (status == TN_OK && bias && !plan->adds_bias) status = set_epilogue(args->host, plan, bias);
  if (status == TN_OK) status = multiply_all(args, plan, &call->outer);
  return status == TN_OK && !plan->fused ? activate(args) : status;
}

tn_status cuda_run_matmul(const tn_kernel_args *args) {
  cuda_queue *queue = args->queue;
  product_call call;
  if (is_empty(args)) {
    tn_status filled = fill_with_bias(args);
    return filled == TN_OK ? activate(args) : filled;
  }
  tn_status status = cuda_make_current(args->host, args->device);
  if (status != TN_OK) return status;
  if (!describe(&call, args)) {
    return args->host->fail(TN_ERR_INTERNAL, "matmul: operands are not contiguous");
  }
  pthread_mutex_lock(&queue->lock);
  status = run_planned(args, &call);
  pthread_mutex_unlock(&queue->lock);
  return status;
}
