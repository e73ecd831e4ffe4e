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

/* Whether the process has no thread but the calling one, as far as the system says. Only then may
 * its environment change: others could be reading or writing it, and C has no lock for that. */
bool blas_core_is_alone(void);

/* Loads the library as if OPENBLAS_CORETYPE were `core` in the environment, which is as it was
 * afterwards; without a core as it is. NULL, with dlerror, on failure. pre: with a core, the
 * process has no other thread. */
void *blas_core_load(const char *soname, int flags, const char *core);

#endif
