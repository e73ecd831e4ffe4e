/*
 * The same products by OpenBLAS alone, in a process of its own, so that neither side's
 * thread settings touch the other. Start it before the runtime is opened.
 */
#ifndef TENON_BENCH_BARE_BLAS_H
#define TENON_BENCH_BARE_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this build has it. */
bool bare_blas_start(void);
/* Nanoseconds of one row-major float32 product [m, k] by [k, n], mean of `calls`; NAN
 * where there is no OpenBLAS. */
double bare_blas_ns(int64_t m, int64_t n, int64_t k, int64_t calls);
void bare_blas_stop(void);

#endif
