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

/* Reports a mistake and ends the frame; false. */
bool frame_refuse(const frame *f, int argument, const char *format, int value);

/* Whatever follows is inline, for small products are called often. */

/* Other threads may do the same: it is written only where it changes. */
static inline void frame_set_row_major(int value) {
  if (__atomic_load_n(&RowMajorStrg, __ATOMIC_RELAXED) != value)
    __atomic_store_n(&RowMajorStrg, value, __ATOMIC_RELAXED);
}

/* False, with the mistake reported and the frame ended, for an unknown layout. */
static inline bool frame_begin(frame *f, const char *name, cblas_layout layout) {
  *f = (frame){name, layout == CblasRowMajor};
  called_from_c = true;
  frame_set_row_major(f->row_major);
  return layout == CblasRowMajor || layout == CblasColMajor ||
         frame_refuse(f, 1, "Illegal layout setting, %d\n", (int)layout);
}

static inline void frame_end(void) { called_from_c = false; }

/* Letters; false, with the mistake reported and the frame ended, where there is none. `argument` is
 * the position in the function's arguments. */
static inline bool frame_side(const frame *f, int argument, cblas_side side, char *letter) {
  *letter = (side == CblasLeft) != f->row_major ? 'L' : 'R';
  return side == CblasLeft || side == CblasRight ||
         frame_refuse(f, argument, "Illegal Side setting, %d\n", (int)side);
}

static inline bool frame_uplo(const frame *f, int argument, cblas_uplo uplo, char *letter) {
  *letter = (uplo == CblasUpper) != f->row_major ? 'U' : 'L';
  return uplo == CblasUpper || uplo == CblasLower ||
         frame_refuse(f, argument, "Illegal Uplo setting, %d\n", (int)uplo);
}

static inline bool frame_diag(const frame *f, int argument, cblas_diag diag, char *letter) {
  *letter = diag == CblasUnit ? 'U' : 'N';
  return diag == CblasUnit || diag == CblasNonUnit ||
         frame_refuse(f, argument, "Illegal Diag setting, %d\n", (int)diag);
}

/* Of a matrix that is transposed by the layout on both sides of the equation: as it is. */
static inline bool frame_trans(const frame *f, int argument, const char *what,
                               cblas_transpose trans, char *letter) {
  *letter = trans == CblasNoTrans ? 'N' : trans == CblasTrans ? 'T' : 'C';
  return (trans >= CblasNoTrans && trans <= CblasConjTrans) ||
         frame_refuse(f, argument, what, (int)trans);
}

/* Of a matrix beside a vector: swapped. What is left of a conjugate transpose is `*conj`, which is
 * nothing to a real type. */
static inline bool frame_trans_swapped(const frame *f, int argument, cblas_transpose trans,
                                       char *letter, bool *conj) {
  if (!frame_trans(f, argument, "Illegal TransA setting, %d\n", trans, letter)) return false;
  *conj = f->row_major && *letter == 'C';
  if (f->row_major) *letter = *letter == 'N' ? 'T' : 'N';
  return true;
}

/* Of updates of rank k, where `opposite`, 'T' or 'C', is what N becomes; a real matrix has both. */
static inline bool frame_trans_rank(const frame *f, int argument, cblas_transpose trans,
                                    char opposite, bool real, char *letter) {
  static const char what[] = "Illegal Trans setting, %d\n";
  if (!frame_trans(f, argument, what, trans, letter)) return false;
  if (!f->row_major) return true;
  if (*letter != 'N' && *letter != opposite && !real)
    return frame_refuse(f, argument, what, (int)trans);
  *letter = *letter == 'N' ? opposite : 'N';
  return true;
}

#endif
