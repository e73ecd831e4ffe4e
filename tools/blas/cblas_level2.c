/* CBLAS level 2, over the four types. */
#include <stdio.h>
#include <stdlib.h>

#include "cblas_frame.h"

#define BLAS_LETTER s
#define BLAS_REAL float
#define BLAS_COMPLEX 0
#include "cblas_level2.inc"

#define BLAS_LETTER d
#define BLAS_REAL double
#define BLAS_COMPLEX 0
#include "cblas_level2.inc"

#define BLAS_LETTER c
#define BLAS_REAL float
#define BLAS_COMPLEX 1
#include "cblas_level2.inc"

#define BLAS_LETTER z
#define BLAS_REAL double
#define BLAS_COMPLEX 1
#include "cblas_level2.inc"
