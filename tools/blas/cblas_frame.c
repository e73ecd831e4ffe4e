/* Mistakes in the CBLAS's enumerations. */
#include "cblas_frame.h"

bool frame_refuse(const frame *f, int argument, const char *format, int value) {
  cblas_xerbla(argument, f->name, format, value); /* a program's own may return */
  frame_end();
  return false;
}
