/*
 * Recurrent networks whose matrix products somebody else computes: what a call multiplies, and the
 * calls that ask for each product where its step needs it. backends/cuda/recurrent.c computes them
 * by cuBLASLt.
 */
#ifndef KERNELS_CUDA_RECURRENT_PRODUCTS_H
#define KERNELS_CUDA_RECURRENT_PRODUCTS_H

#include "tenon/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { cuda_recurrent_most_products = 3 };

/* A matrix among those of all directions. */
typedef struct cuda_recurrent_matrix {
  int64_t ld, step;  /* between rows and between directions, in elements; step 0: all share it */
  int32_t alignment; /* bytes that divide its addresses, 16 at the most */
} cuda_recurrent_matrix;

/* y [m, n] = a [m, k] b [k, n] of each direction. */
typedef struct cuda_recurrent_product {
  int64_t m, n, k, directions;
  cuda_recurrent_matrix y, a, b;
  tn_dtype operands, result;
  bool turned; /* b is stored [n, k] */
  bool adds;   /* y += a b */
} cuda_recurrent_product;

/* What computes the product with a number of the list, in the queue's order. */
typedef struct cuda_recurrent_multiplier {
  tn_status (*multiply)(const struct cuda_recurrent_multiplier *by, int number, void *y,
                        const void *a, const void *b);
} cuda_recurrent_multiplier;

/* Lists the products of a call, and gives their number; *bytes is the workspace that the call takes
 * itself, enough for the operator's own row too. pre: no extent is 0. */
typedef int (*cuda_recurrent_list_fn)(const tn_kernel_args *args, cuda_recurrent_product *list,
                                      size_t *bytes);
typedef tn_status (*cuda_recurrent_run_fn)(const tn_kernel_args *args,
                                           const cuda_recurrent_multiplier *by);

int cuda_recurrent_products(const tn_kernel_args *args, cuda_recurrent_product *list,
                            size_t *bytes);
int cuda_recurrent_grad_products(const tn_kernel_args *args, cuda_recurrent_product *list,
                                 size_t *bytes);
tn_status cuda_run_recurrent(const tn_kernel_args *args, const cuda_recurrent_multiplier *by);
tn_status cuda_run_recurrent_grad(const tn_kernel_args *args, const cuda_recurrent_multiplier *by);

/* Whether a step multiplies enough for a product of its own to pay. */
bool cuda_recurrent_is_large(const tn_kernel_args *args);
bool cuda_recurrent_grad_is_large(const tn_kernel_args *args);

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_RECURRENT_PRODUCTS_H */
