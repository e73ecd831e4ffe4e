/* What the CBLAS and the error handlers share: whether the routine that fails was called by C. */
#ifndef TENON_BLAS_HANDLERS_H
#define TENON_BLAS_HANDLERS_H

#include <stdbool.h>

#include "routines.h"

/* Of the reference CBLAS, whose own programs look at them: whether the call under way was made
 * by C, and whether its matrices are row-major. */
BLAS_EXPORT extern int CBLAS_CallFromC, RowMajorStrg;

/* Whether this thread is inside a function of the CBLAS. */
extern _Thread_local bool called_from_c __attribute__((tls_model("initial-exec")));

/* Programs may have handlers of their own under these names. */
BLAS_EXPORT void xerbla_(const char *routine, const blas_int *argument, size_t length);
BLAS_EXPORT void cblas_xerbla(int argument, const char *routine, const char *format, ...);

#endif
