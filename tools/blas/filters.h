/* What stands before the host BLAS's products of matrices where a device is named. */
#ifndef TENON_BLAS_FILTERS_H
#define TENON_BLAS_FILTERS_H

#include "routines.h"

/* By routine; NULL for all below level 3. */
extern const entry filters[NUM_ROUTINES];

#endif
