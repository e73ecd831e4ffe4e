/* CBLAS level 3, over the four types. */
#include "cblas_frame.h"

#define BLAS_LETTER s
#define BLAS_REAL float
#define BLAS_COMPLEX 0
#include "cblas_level3.inc"

#define BLAS_LETTER d
#define BLAS_REAL double
#define BLAS_COMPLEX 0
#include "cblas_level3.inc"

#define BLAS_LETTER c
#define BLAS_REAL float
#define BLAS_COMPLEX 1
#include "cblas_level3.inc"

#define BLAS_LETTER z
#define BLAS_REAL double
#define BLAS_COMPLEX 1
#include "cblas_level3.inc"
