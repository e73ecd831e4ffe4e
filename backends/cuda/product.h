/*
 * Plans of matrix products by cuBLASLt: a product's description, the descriptors and the algorithm
 * that are kept for it in the queue, and the call. matmul.c describes products of floats,
 * matmul_int8.c those of bytes.
 */
#ifndef BACKENDS_CUDA_PRODUCT_H
#define BACKENDS_CUDA_PRODUCT_H

#include "backends/cuda/backend.h"

enum { product_workspace_limit = 32 << 20 };

/* A matrix as cuBLASLt is told of it. */
typedef struct operand {
  int64_t ld;
  int64_t step;  /* between matrices of the batch, in elements */
  int32_t trans; /* 1: stored with its axes swapped */
  int32_t align; /* bytes that divide every address the product uses */
} operand;

/* All that the plan depends on. */
typedef struct product {
  int32_t dtype, math, has_bias; /* TN_I8: bytes, summed in 32 bits */
  int32_t fused;                 /* the tn_activation that the epilogue is to apply */
  int32_t b_dtype, y_dtype;      /* of 8-bit floats, b's and y's; 0: dtype's */
  int64_t m, n, k, batch;
  operand a, b, y, bias;
} product;

/* Leaves the function with a status where cuBLASLt fails. */
#define BLAS_TRY(host, call)                                                                       \
  do {                                                                                             \
    cublasStatus_t status_ = (call);                                                               \
    if (status_ != CUBLAS_STATUS_SUCCESS) return cuda_blas_status(host, status_, #call);           \
  } while (0)

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

/* The plan of a product, made on first sight. The queue's lock is held. */
tn_status cuda_product_plan(cuda_queue *queue, const product *key, const void *bias,
                            product_plan **out);

/* Takes the fastest of what the heuristic named, the first of which the plan has, where there is
 * reason to measure and nothing forbids it. The lock is held. */
void cuda_product_tune(cuda_queue *queue, product_plan *plan,
                       const cublasLtMatmulHeuristicResult_t *list, int count);

/* Has the plan add this bias from now on. The queue's lock is held. */
tn_status cuda_product_set_bias(const tn_host *host, product_plan *plan, const void *bias);

/* y = a b, with y added where `adds`, in the queue's stream. The lock is held. */
tn_status cuda_product_run(const cuda_queue *queue, const product_plan *plan, bool adds, void *y,
                           const void *a, const void *b, void *workspace);

#endif /* BACKENDS_CUDA_PRODUCT_H */
