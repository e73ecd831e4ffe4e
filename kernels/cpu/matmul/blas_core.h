/*
 * Which of its kernels OpenBLAS takes. A release chooses them by a list of the processors of its
 * day: on a newer one it may fall back to kernels for SSE3 or AVX2, which lose up to five times.
 */
#ifndef TENON_KERNELS_CPU_BLAS_CORE_H
#define TENON_KERNELS_CPU_BLAS_CORE_H

#include <stdbool.h>
#include <stddef.h>

/* Whole instruction sets of the processor, by what OpenBLAS's kernels are written for. */
typedef enum blas_vectors { BLAS_SSE, BLAS_AVX2, BLAS_AVX512 } blas_vectors;

blas_vectors blas_core_processor(void);

/* The core, as OPENBLAS_CORETYPE names it, whose kernels use more of a processor with `has` than
 * those of `core` do; NULL where there is none, or `core` is not known. */
const char *blas_core_better(const char *core, blas_vectors has);

/* Loads the library as if OPENBLAS_CORETYPE were `core` in the environment, which other threads may
 * read meanwhile; as it is without a core. NULL, with dlerror, on failure. pre: no other thread
 * writes the environment. */
void *blas_core_load(const char *soname, int flags, const char *core);

#endif
