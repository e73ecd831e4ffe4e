/* Level 3 of BLAS by its definitions, in long double, and matrices for it: what libtenon-blas is
 * held against where the distribution's testers do not look. */
#ifndef TENON_TESTS_BLAS_ORACLE_H
#define TENON_TESTS_BLAS_ORACLE_H

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

typedef long double _Complex number;

typedef enum kind { KIND_S, KIND_D, KIND_C, KIND_Z, NUM_KINDS } kind;

/* A column-major matrix with gaps behind its columns. */
typedef struct matrix {
  kind kind;
  int rows, columns, ld;
  void *data;
} matrix;

/* Numbers of a sequence that depends on the seed alone; the gaps hold one that is no result. */
matrix matrix_make(kind k, int rows, int columns, int gap, uint32_t seed);
matrix matrix_copy(const matrix *m);
void matrix_free(matrix *m);
number matrix_get(const matrix *m, int row, int column);
void matrix_set(matrix *m, int row, int column, number value);
/* Whether the gaps are as matrix_make left them. */
bool matrix_gaps_are_whole(const matrix *m);

/* op(a), element by element: 'N', 'T', 'C'. */
number matrix_op(const matrix *m, char letter, int row, int column);
int matrix_columns(const matrix *m, char letter);

/* alpha op(a) op(b) + beta c; c is not read where beta is 0. */
void oracle_gemm(char ta, char tb, number alpha, const matrix *a, const matrix *b, number beta,
                 matrix *c);

/* The greatest difference, in units of the kind's precision at `scale`; NaN counts as none where
 * both are, and as infinite where one is. */
double matrix_distance(const matrix *a, const matrix *b, double scale);

/* A number as a BLAS of the kind takes it: its address. Valid until the thread's fourth next. */
void *as_kind(kind k, number value);

#endif
