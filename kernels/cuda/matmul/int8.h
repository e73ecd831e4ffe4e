/*
 * Products of 8-bit integers by the vendor's matrix units, in three steps: pack brings the operands
 * into the one form that those take, multiplying is the backend's, finish makes y of the sums.
 *
 * Packed operands are signed bytes, rows of a and columns of b one after another, their k elements
 * padded with zeros to a multiple of 16. Unsigned bytes become signed ones less 128, as their zero
 * points do, and zero points are taken off the sums: with a' and b' as packed, sum (a - za)(b - zb)
 * = sum a'b' - zb sum a' - za sum b' + k za zb.
 */
#ifndef KERNELS_CUDA_INT8_H
#define KERNELS_CUDA_INT8_H

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of the sums: what a row has as its user pointer. */
typedef enum cuda_int8_kind {
  CUDA_INT8_SUMS,     /* they are y */
  CUDA_INT8_QUANTISE, /* scaled and rounded to bytes */
  CUDA_INT8_WRAP      /* y's low bytes: signedness and zero points do not matter */
} cuda_int8_kind;

/* An operand: `vectors` rows of a or columns of b in each of `items` matrices, one where the batch
 * shares it. */
typedef struct cuda_int8_operand {
  int64_t items, vectors;
  int64_t padded; /* vectors as packed, the last ones zeros */
  int64_t ld;     /* bytes from one vector to the next */
  size_t at;      /* where in the workspace, unless in_place */
  size_t sums;    /* of each vector, where in the workspace, if `summed` */
  bool in_place;  /* it lies as the units want it */
  bool summed;
} cuda_int8_operand;

typedef struct cuda_int8_call {
  cuda_int8_kind kind;
  int64_t items, m, n, k, ld; /* ld: of the sums, in elements */
  int64_t padded_k;
  cuda_int8_operand a, b;
  bool direct; /* the sums' memory is y's own */
  size_t at;   /* else where in the workspace */
  size_t bytes;
} cuda_int8_call;

/* False where the sums may not fit 32 bits on the way or the product is too small to gain. */
bool cuda_int8_describe(cuda_int8_call *c, cuda_int8_kind kind, const tn_kernel_args *args);

/* Packs the operands; where y is the sums, they begin with what zero points add, if anything. */
tn_status cuda_int8_pack(const tn_kernel_args *args, const cuda_int8_call *c);

/* Makes y of the sums where it is not they. */
tn_status cuda_int8_finish(const tn_kernel_args *args, const cuda_int8_call *c);

/* Whether zero points change the sums. */
static inline bool cuda_int8_corrects(const cuda_int8_call *c) {
  return c->a.summed || c->b.summed;
}

#ifdef __cplusplus
}
#endif
#endif /* KERNELS_CUDA_INT8_H */
