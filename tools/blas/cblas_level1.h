/* CBLAS level 1 by the host's own functions. */
#ifndef TENON_BLAS_CBLAS_LEVEL1_H
#define TENON_BLAS_CBLAS_LEVEL1_H

/* From now on what the host's library has is called there. */
void cblas_level1_direct(void *library);

#endif
