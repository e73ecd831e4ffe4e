/*
 * The BLAS as the kernels see it: row-major products of blocks, one thread each. Threads
 * come from the host's parallel_for alone; the backend sets the BLAS to one.
 */
#ifndef TENON_KERNELS_CPU_GEMM_H
#define TENON_KERNELS_CPU_GEMM_H

#include <cblas.h>

#include "cpu.h"

/* A matrix in memory: element (i, j) at data[i * row + j * col]; one of the two is 1. The
 * other means nothing where that dimension has one element, but the BLAS checks it. */
#define GEMM_STAMP(suffix, C, s)                                                                   \
  typedef struct matrix_##suffix {                                                                 \
    const C *data;                                                                                 \
    int64_t row, col;                                                                              \
  } matrix_##suffix;                                                                               \
                                                                                                   \
  /* y[m, n] = a[m, k] b[k, n] + beta y, rows of y `ldy` apart. */                                 \
  static inline void gemm_##suffix(int64_t m, int64_t n, int64_t k, matrix_##suffix a,             \
                                   matrix_##suffix b, C beta, C *y, int64_t ldy) {                 \
    const bool ta = a.col != 1, tb = b.col != 1;                                                   \
    cblas_##s##gemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, \
                    (blasint)m, (blasint)n, (blasint)k, 1, a.data, (blasint)(ta ? a.col : a.row),  \
                    b.data, (blasint)(tb ? cpu_max(b.col, k) : cpu_max(b.row, n)), beta, y,        \
                    (blasint)ldy);                                                                 \
  }                                                                                                \
                                                                                                   \
  /* y[m] = a[m, k] x[k], elements of x and y `incx` and `incy` apart. */                          \
  static inline void gemv_##suffix(int64_t m, int64_t k, matrix_##suffix a, const C *x,            \
                                   int64_t incx, C *y, int64_t incy) {                             \
    if (a.col == 1)                                                                                \
      cblas_##s##gemv(CblasRowMajor, CblasNoTrans, (blasint)m, (blasint)k, 1, a.data,              \
                      (blasint)cpu_max(a.row, k), x, (blasint)incx, 0, y, (blasint)incy);          \
    else                                                                                           \
      cblas_##s##gemv(CblasRowMajor, CblasTrans, (blasint)k, (blasint)m, 1, a.data,                \
                      (blasint)cpu_max(a.col, m), x, (blasint)incx, 0, y, (blasint)incy);          \
  }

GEMM_STAMP(f, float, s)
GEMM_STAMP(d, double, d)
#undef GEMM_STAMP

#endif
