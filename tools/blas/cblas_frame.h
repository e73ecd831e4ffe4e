/*
 * What every function of CBLAS levels 2 and 3 does before and after Fortran's routine: enumerations
 * become letters, and mistakes in them are reported as the reference reports them. A row-major
 * matrix is the transpose of a column-major one, so for those triangles, sides and transposes are
 * swapped.
 */
#ifndef TENON_BLAS_CBLAS_FRAME_H
#define TENON_BLAS_CBLAS_FRAME_H

#include <stdbool.h>

#include "handlers.h"
#include "routines.h"

/* As in cblas.h, whose values every CBLAS has. */
typedef enum cblas_layout { CblasRowMajor = 101, CblasColMajor = 102 } cblas_layout;
typedef enum cblas_transpose {
  CblasNoTrans = 111,
  CblasTrans = 112,
  CblasConjTrans = 113
} cblas_transpose;
typedef enum cblas_uplo { CblasUpper = 121, CblasLower = 122 } cblas_uplo;
typedef enum cblas_diag { CblasNonUnit = 131, CblasUnit = 132 } cblas_diag;
typedef enum cblas_side { CblasLeft = 141, CblasRight = 142 } cblas_side;

typedef struct frame {
  const char *name; /* "cblas_dgemm" */
  bool row_major;
} frame;

/* False, with the mistake reported and the frame ended, for an unknown layout. */
bool frame_begin(frame *f, const char *name, cblas_layout layout);
void frame_end(void);

/* Letters; false, with the mistake reported and the frame ended, where there is none. `argument` is
 * the position in the function's arguments. */
bool frame_side(const frame *f, int argument, cblas_side side, char *letter);
bool frame_uplo(const frame *f, int argument, cblas_uplo uplo, char *letter);
bool frame_diag(const frame *f, int argument, cblas_diag diag, char *letter);
/* Of a matrix that is transposed by the layout on both sides of the equation: as it is. */
bool frame_trans(const frame *f, int argument, const char *what, cblas_transpose trans,
                 char *letter);
/* Of a matrix beside a vector: swapped. What is left of a conjugate transpose is `*conj`, which may
 * be NULL for real types. */
bool frame_trans_swapped(const frame *f, int argument, cblas_transpose trans, char *letter,
                         bool *conj);
/* Of updates of rank k, where `opposite`, 'T' or 'C', is what N becomes; a real matrix has both. */
bool frame_trans_rank(const frame *f, int argument, cblas_transpose trans, char opposite, bool real,
                      char *letter);

#endif
