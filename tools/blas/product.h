/*
 * One product of matrices on the device: C = alpha op(A) op(B) + beta C, as gemm has it. All of
 * level 3 is made of these (filters.inc).
 */
#ifndef TENON_BLAS_PRODUCT_H
#define TENON_BLAS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "tenon/tenon.h"

typedef enum element { ELEMENT_S, ELEMENT_D, ELEMENT_C, ELEMENT_Z, NUM_ELEMENTS } element;

static inline bool element_is_complex(element e) { return e >= ELEMENT_C; }
static inline tn_dtype element_dtype(element e) { return e & 1 ? TN_F64 : TN_F32; } /* of a part */

/* Column-major matrices, as gemm takes them: m, n, k >= 1, alpha != 0, letters N, T, C. */
typedef struct product {
  element type;
  char ta, tb;
  int64_t m, n, k;
  const void *alpha; /* of the element type, as beta */
  const void *a;
  int64_t lda;
  const void *b;
  int64_t ldb;
  const void *beta;
  void *c;
  int64_t ldc;
} product;

double product_flops(element type, int64_t m, int64_t n, int64_t k);
/* Bytes that cross to the device and back. */
double product_bytes(element type, int64_t m, int64_t n, int64_t k);

/* Computes it on the device. False, with C as it was, where that fails: the host is to do it. */
bool product_run(const product *p);
/* The same, with the failure's status and no word about it: for measuring. */
tn_status product_try(const product *p);

/* How many products this thread has had done by the device: tells whether a call was among them. */
extern _Thread_local unsigned products_done;

#endif
