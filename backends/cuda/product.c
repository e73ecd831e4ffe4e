/*
 * The plans of product.h: made on first sight of a product, from what cuBLASLt's heuristic names.
 */
#include <stdlib.h>

#include "backends/cuda/product.h"

enum { most_candidates = 8 };

tn_status cuda_blas_status(const tn_host *host, cublasStatus_t status, const char *call) {
  if (status == CUBLAS_STATUS_SUCCESS) return TN_OK;
  cudaError_t error = cudaPeekAtLastError(); /* a lost device shows as a library's failure */
  if (error != cudaSuccess) return cuda_status(host, (int)error, call);
  tn_status code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? TN_ERR_DEVICE_OUT_OF_MEMORY : TN_ERR_BACKEND;
  return host->fail(code, "%s: %s (%s)", call, cublasLtGetStatusName(status),
                    cublasLtGetStatusString(status));
}

static cudaDataType_t data_type(int32_t dtype) {
  switch (dtype) {
  case TN_F16:
    return CUDA_R_16F;
  case TN_BF16:
    return CUDA_R_16BF;
  case TN_F64:
    return CUDA_R_64F;
  case TN_I8:
    return CUDA_R_8I;
  case TN_F8_E4M3:
    return CUDA_R_8F_E4M3;
  case TN_F8_E5M2:
    return CUDA_R_8F_E5M2;
  default:
    return CUDA_R_32F;
  }
}

/* Of the result: sums of bytes have 32 bits. */
static cudaDataType_t result_type(const product *p) {
  if (p->y_dtype) return data_type(p->y_dtype);
  return p->dtype == TN_I8 ? CUDA_R_32I : data_type(p->dtype);
}

static cudaDataType_t operand_type(const product *p, const operand *o) {
  if (o == &p->y) return result_type(p);
  return data_type(o == &p->b && p->b_dtype ? p->b_dtype : p->dtype);
}

/* Of what scales the product and what is added to it. */
static cudaDataType_t scale_type(int32_t dtype) {
  if (dtype == TN_F64) return CUDA_R_64F;
  return dtype == TN_I8 ? CUDA_R_32I : CUDA_R_32F;
}

static cublasComputeType_t compute_type(const product *p) {
  if (p->dtype == TN_F64) return CUBLAS_COMPUTE_64F;
  if (p->dtype == TN_I8) return CUBLAS_COMPUTE_32I;
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
  cudaDataType_t type = operand_type(p, o);
  BLAS_TRY(host,
           cublasLtMatrixLayoutCreate(layout, type, (uint64_t)rows, (uint64_t)columns, o->ld));
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
  BLAS_TRY(host, cublasLtMatmulDescCreate(&plan->desc, compute_type(p), scale_type(p->dtype)));
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
  size_t limit = product_workspace_limit;
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

/* Asks for algorithms and takes the best; *found is 0 where there is none for this epilogue. */
static tn_status choose(cuda_queue *queue, product_plan *plan, int *found) {
  const tn_host *host = queue->device->host;
  cublasLtMatmulPreference_t preference = NULL;
  cublasLtMatmulHeuristicResult_t list[most_candidates];
  BLAS_TRY(host, cublasLtMatmulPreferenceCreate(&preference));
  tn_status status = set_preference(host, preference, &plan->key);
  *found = 0;
  if (status == TN_OK) {
    cublasStatus_t asked =
        cublasLtMatmulAlgoGetHeuristic(queue->blas, plan->desc, plan->left, plan->right, plan->out,
                                       plan->out, preference, most_candidates, list, found);
    if (asked != CUBLAS_STATUS_SUCCESS) *found = 0;
    if (asked != CUBLAS_STATUS_SUCCESS && asked != CUBLAS_STATUS_NOT_SUPPORTED) {
      status = cuda_blas_status(host, asked, "cublasLtMatmulAlgoGetHeuristic");
    }
  }
  (void)cublasLtMatmulPreferenceDestroy(preference);
  if (status != TN_OK || *found == 0) return status;
  plan->algo = list[0].algo;
  plan->workspace_bytes = list[0].workspaceSize;
  cuda_product_tune(queue, plan, list, *found);
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
    if (status == TN_OK) status = choose(queue, plan, &found);
  }
  if (status != TN_OK || found) return status;
  return host->fail(
      TN_ERR_UNSUPPORTED, "cublasLt has no algorithm for m=%lld n=%lld k=%lld batch=%lld dtype=%d",
      (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->batch, (int)p->dtype);
}

tn_status cuda_product_plan(cuda_queue *queue, const product *key, const void *bias,
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

tn_status cuda_product_set_bias(const tn_host *host, product_plan *plan, const void *bias) {
  return set_epilogue(host, plan, bias);
}

/* A number in the type that products of a dtype are scaled in. */
static const void *number(int32_t dtype, bool one) {
  static const double number64[] = {0, 1};
  static const float number32[] = {0, 1};
  static const int32_t integer[] = {0, 1};
  if (dtype == TN_F64) return &number64[one];
  return dtype == TN_I8 ? (const void *)&integer[one] : &number32[one];
}

tn_status cuda_product_run(const cuda_queue *queue, const product_plan *plan, bool adds, void *y,
                           const void *a, const void *b, void *workspace) {
  const void *alpha = number(plan->key.dtype, true), *beta = number(plan->key.dtype, adds);
  BLAS_TRY(queue->device->host,
           cublasLtMatmul(queue->blas, plan->desc, alpha, b, plan->left, a, plan->right, beta, y,
                          plan->out, y, plan->out, &plan->algo, workspace, plan->workspace_bytes,
                          queue->stream));
  return TN_OK;
}
