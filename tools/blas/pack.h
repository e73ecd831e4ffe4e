/*
 * How matrices lie on the device. All is real and row-major there: a column-major matrix is the
 * transpose of a row-major one, so C' = op(B)' op(A)' is computed.
 *
 * Complex matrices become real ones whose product is the complex product, exactly as many
 * multiplications, each rounded as Fortran's are:
 *     [re im] of C' = [re im] of op(B)'  times  [ re im ] of op(A)'
 *                                               [-im re ]
 * with the parts of C' interleaved, which is how C lies in memory.
 */
#ifndef TENON_BLAS_PACK_H
#define TENON_BLAS_PACK_H

#include "product.h"

typedef enum packing { PACK_AS_IT_IS, PACK_PARTS, PACK_EXPANDED } packing;

/* A factor, as a row-major real matrix of rows x columns. */
typedef struct operand {
  packing packing;
  tn_dtype dtype;
  int64_t rows, columns;
  const void *data;
  /* As it is: elements from row to row. Otherwise from one index of the sum to the next, and of
   * the other index. */
  int64_t stride, sum_stride, other_stride;
  bool conjugated;
} operand;

/* The left factor op(B)' and the right one op(A)', in this order. */
void operands_of(const product *p, operand operands[2]);

/* A part of a row-major matrix: whole rows, or some columns of one row. */
typedef struct piece {
  int64_t row, rows, column, columns;
} piece;

/* Writes a piece of an operand, row after row without gaps. */
void operand_pack(const operand *o, piece part, void *out);

/* A piece of the product, row after row, into C. */
void product_merge(const product *p, piece part, const void *y);

#endif
