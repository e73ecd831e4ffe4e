/* Enumerations of the CBLAS as letters of Fortran. */
#include "cblas_frame.h"

#include <stdio.h>
#include <stdlib.h>

/* Other threads may do the same: it is written only where it changes. */
static void set_row_major(int value) {
  if (__atomic_load_n(&RowMajorStrg, __ATOMIC_RELAXED) != value)
    __atomic_store_n(&RowMajorStrg, value, __ATOMIC_RELAXED);
}

static bool refuse(const frame *f, int argument, const char *format, int value) {
  cblas_xerbla(argument, f->name, format, value); /* a program's own may return */
  frame_end();
  return false;
}

bool frame_begin(frame *f, const char *name, cblas_layout layout) {
  *f = (frame){name, layout == CblasRowMajor};
  called_from_c = true;
  set_row_major(f->row_major);
  if (layout == CblasRowMajor || layout == CblasColMajor) return true;
  return refuse(f, 1, "Illegal layout setting, %d\n", (int)layout);
}

void frame_end(void) { called_from_c = false; }

bool frame_side(const frame *f, int argument, cblas_side side, char *letter) {
  if (side != CblasLeft && side != CblasRight)
    return refuse(f, argument, "Illegal Side setting, %d\n", (int)side);
  *letter = (side == CblasLeft) != f->row_major ? 'L' : 'R';
  return true;
}

bool frame_uplo(const frame *f, int argument, cblas_uplo uplo, char *letter) {
  if (uplo != CblasUpper && uplo != CblasLower)
    return refuse(f, argument, "Illegal Uplo setting, %d\n", (int)uplo);
  *letter = (uplo == CblasUpper) != f->row_major ? 'U' : 'L';
  return true;
}

bool frame_diag(const frame *f, int argument, cblas_diag diag, char *letter) {
  if (diag != CblasUnit && diag != CblasNonUnit)
    return refuse(f, argument, "Illegal Diag setting, %d\n", (int)diag);
  *letter = diag == CblasUnit ? 'U' : 'N';
  return true;
}

static char letter_of(cblas_transpose trans) {
  return trans == CblasNoTrans ? 'N' : trans == CblasTrans ? 'T' : trans == CblasConjTrans ? 'C' : 0;
}

bool frame_trans(const frame *f, int argument, const char *what, cblas_transpose trans,
                 char *letter) {
  *letter = letter_of(trans);
  return *letter || refuse(f, argument, what, (int)trans);
}

bool frame_trans_swapped(const frame *f, int argument, cblas_transpose trans, char *letter,
                         bool *conj) {
  if (!frame_trans(f, argument, "Illegal TransA setting, %d\n", trans, letter)) return false;
  if (conj) *conj = f->row_major && *letter == 'C';
  if (f->row_major) *letter = *letter == 'N' ? 'T' : 'N';
  return true;
}

bool frame_trans_rank(const frame *f, int argument, cblas_transpose trans, char opposite, bool real,
                      char *letter) {
  static const char what[] = "Illegal Trans setting, %d\n";
  if (!frame_trans(f, argument, what, trans, letter)) return false;
  if (!f->row_major) return true;
  if (*letter == 'N')
    *letter = opposite;
  else if (*letter == opposite || real)
    *letter = 'N';
  else
    return refuse(f, argument, what, (int)trans);
  return true;
}
