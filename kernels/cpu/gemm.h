/*
 * The BLAS as the kernels see it: row-major products of blocks, one thread each. Threads
 * come from the host's parallel_for alone.
 */
#ifndef TENON_KERNELS_CPU_GEMM_H
#define TENON_KERNELS_CPU_GEMM_H

#include "blas.h"
#include "cpu.h"

/* OpenBLAS's kernel of small products for AVX-512 (sgemm_small_kernel_nn_skylakex.c) packs a
 * thin last panel, columns for half a register's `lanes` or fewer, into memory that it takes
 * from malloc and does not look at: where there is none, it writes to NULL. A few such columns
 * are multiplied one by one; more are widened to `lanes`, in pieces that fit the stack. */
enum { THIN_DEPTH = 128, THIN_ROWS = 64 };
static inline bool gemm_is_thin(int64_t m, int64_t n, int64_t k, int64_t lanes) {
  const int64_t tail = n % lanes;
  return cpu_blas.thin_allocates && tail > 0 && tail <= lanes / 2 && k >= 2 * lanes &&
         (double)m * (double)n * (double)k <= 1e6;
}

/* A matrix in memory: element (i, j) at data[i * row + j * col]; one of the two is 1. The
 * other means nothing where that dimension has one element, but the BLAS checks it. */
#define GEMM_STAMP(suffix, C, s, lanes)                                                            \
  typedef struct matrix_##suffix {                                                                 \
    const C *data;                                                                                 \
    int64_t row, col;                                                                              \
  } matrix_##suffix;                                                                               \
                                                                                                   \
  static inline void gemm_panel_##suffix(int64_t m, int64_t tail, int64_t k, matrix_##suffix a,    \
                                         matrix_##suffix b, C beta, C *y, int64_t ldy) {           \
    C wide[THIN_DEPTH * lanes] = {0}, sum[THIN_ROWS * lanes];                                      \
    for (int64_t p = 0; p < k; p += THIN_DEPTH) {                                                  \
      const int64_t depth = cpu_min(THIN_DEPTH, k - p);                                            \
      for (int64_t q = 0; q < depth; q++)                                                          \
        for (int64_t j = 0; j < tail; j++) wide[q * lanes + j] = b.data[(p + q) * b.row + j];      \
      for (int64_t i = 0; i < m; i += THIN_ROWS) {                                                 \
        const int64_t rows = cpu_min(THIN_ROWS, m - i);                                            \
        cpu_blas.s##gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)rows, lanes,          \
                         (blasint)depth, 1, a.data + i * a.row + p, (blasint)cpu_max(a.row, k),    \
                         wide, lanes, 0, sum, lanes);                                              \
        for (int64_t r = 0; r < rows; r++) {                                                       \
          C *to = y + (i + r) * ldy;                                                               \
          for (int64_t j = 0; j < tail; j++)                                                       \
            to[j] = p || beta != 0 ? to[j] + sum[r * lanes + j] : sum[r * lanes + j];              \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  static inline void gemm_thin_##suffix(int64_t m, int64_t n, int64_t k, matrix_##suffix a,        \
                                        matrix_##suffix b, C beta, C *y, int64_t ldy) {            \
    const int64_t tail = n % lanes, whole = n - tail;                                              \
    if (whole)                                                                                     \
      cpu_blas.s##gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)whole,      \
                       (blasint)k, 1, a.data, (blasint)cpu_max(a.row, k), b.data, (blasint)b.row,  \
                       beta, y, (blasint)ldy);                                                     \
    b.data += whole;                                                                               \
    for (int64_t j = 0; j < tail && tail <= lanes / 4 + 1; j++)                                    \
      cpu_blas.s##gemv(CblasRowMajor, CblasNoTrans, (blasint)m, (blasint)k, 1, a.data,             \
                       (blasint)cpu_max(a.row, k), b.data + j, (blasint)b.row, beta,               \
                       y + whole + j, (blasint)ldy);                                               \
    if (tail > lanes / 4 + 1) gemm_panel_##suffix(m, tail, k, a, b, beta, y + whole, ldy);         \
  }                                                                                                \
                                                                                                   \
  /* y[m, n] = a[m, k] b[k, n] + beta y, rows of y `ldy` apart; beta is 0 or 1. */                 \
  static inline void gemm_##suffix(int64_t m, int64_t n, int64_t k, matrix_##suffix a,             \
                                   matrix_##suffix b, C beta, C *y, int64_t ldy) {                 \
    const bool ta = a.col != 1, tb = b.col != 1;                                                   \
    cpu_blas_enter();                                                                              \
    if (!ta && !tb && gemm_is_thin(m, n, k, lanes))                                                \
      gemm_thin_##suffix(m, n, k, a, b, beta, y, ldy);                                             \
    else                                                                                           \
      cpu_blas.s##gemm(                                                                            \
          CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,           \
          (blasint)m, (blasint)n, (blasint)k, 1, a.data, (blasint)(ta ? a.col : a.row), b.data,    \
          (blasint)(tb ? cpu_max(b.col, k) : cpu_max(b.row, n)), beta, y, (blasint)ldy);           \
    cpu_blas_leave();                                                                              \
  }                                                                                                \
                                                                                                   \
  /* y[m] = a[m, k] x[k], elements of x and y `incx` and `incy` apart. */                          \
  static inline void gemv_##suffix(int64_t m, int64_t k, matrix_##suffix a, const C *x,            \
                                   int64_t incx, C *y, int64_t incy) {                             \
    cpu_blas_enter();                                                                              \
    if (a.col == 1)                                                                                \
      cpu_blas.s##gemv(CblasRowMajor, CblasNoTrans, (blasint)m, (blasint)k, 1, a.data,             \
                       (blasint)cpu_max(a.row, k), x, (blasint)incx, 0, y, (blasint)incy);         \
    else                                                                                           \
      cpu_blas.s##gemv(CblasRowMajor, CblasTrans, (blasint)k, (blasint)m, 1, a.data,               \
                       (blasint)cpu_max(a.col, m), x, (blasint)incx, 0, y, (blasint)incy);         \
    cpu_blas_leave();                                                                              \
  }

GEMM_STAMP(f, float, s, 16)
GEMM_STAMP(d, double, d, 8)
#undef GEMM_STAMP

#endif
