/*
 * Row-major products of blocks as the kernels see them, one thread each: the BLAS's or, of floats
 * with AVX-512, small.h's. Threads come from the host's parallel_for alone.
 */
#ifndef TENON_KERNELS_CPU_GEMM_H
#define TENON_KERNELS_CPU_GEMM_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/blas.h"
#include "kernels/cpu/matmul/small.h"

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

/* The BLAS writes nothing where an extent or a leading dimension displeases it: it prints a line
 * and the output keeps what lay there. So leading dimensions are made such as it takes, and the
 * products below say false, with nothing computed, where its integers are too short. */
static inline int64_t blas_leading(int64_t step, int64_t run) {
  return cpu_max(1, cpu_max(step, run));
}

static inline bool blas_counts(int64_t a, int64_t b, int64_t c) {
  const int64_t most = sizeof(blasint) == 4 ? INT32_MAX : INT64_MAX;
  return cpu_min(a, cpu_min(b, c)) >= 0 && cpu_max(a, cpu_max(b, c)) <= most;
}

static inline tn_status blas_refuses(const tn_host *host) {
  return host->fail(TN_ERR_UNSUPPORTED, "a matrix is larger than the BLAS can count");
}

/* A matrix in memory: element (i, j) at data[i * row + j * col]; one of the two is 1. The
 * other means nothing where that dimension has one element, but the BLAS checks it: a matrix
 * of one column, or of one row, may have both 1. */
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
                         (blasint)depth, 1, a.data + i * a.row + p, (blasint)a.row, wide, lanes,   \
                         0, sum, lanes);                                                           \
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
                       (blasint)k, 1, a.data, (blasint)a.row, b.data, (blasint)b.row, beta, y,     \
                       (blasint)ldy);                                                              \
    b.data += whole;                                                                               \
    for (int64_t j = 0; j < tail && tail <= lanes / 4 + 1; j++) {                                  \
      C *to = y + whole + j;                                                                       \
      for (int64_t r = 0; r < m && beta == 0; r++) to[r * ldy] = 0; /* as in gemv */               \
      cpu_blas.s##gemv(CblasRowMajor, CblasNoTrans, (blasint)m, (blasint)k, 1, a.data,             \
                       (blasint)a.row, b.data + j, (blasint)b.row, beta, to, (blasint)ldy);        \
    }                                                                                              \
    if (tail > lanes / 4 + 1) gemm_panel_##suffix(m, tail, k, a, b, beta, y + whole, ldy);         \
  }                                                                                                \
                                                                                                   \
  static inline bool blas_gemm_##suffix(int64_t m, int64_t n, int64_t k, matrix_##suffix a,        \
                                        matrix_##suffix b, C beta, C *y, int64_t ldy) {            \
    const bool ta = a.col != 1, tb = b.col != 1;                                                   \
    const int64_t lda = ta ? blas_leading(a.col, m) : blas_leading(a.row, k);                      \
    const int64_t ldb = tb ? blas_leading(b.col, k) : blas_leading(b.row, n);                      \
    const int64_t ldc = blas_leading(ldy, n);                                                      \
    if (!blas_counts(m, n, k) || !blas_counts(lda, ldb, ldc)) return false;                        \
    cpu_blas_enter();                                                                              \
    if (!ta && !tb && gemm_is_thin(m, n, k, lanes))                                                \
      gemm_thin_##suffix(m, n, k, (matrix_##suffix){a.data, lda, 1},                               \
                         (matrix_##suffix){b.data, ldb, 1}, beta, y, ldc);                         \
    else                                                                                           \
      cpu_blas.s##gemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,                              \
                       tb ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1,      \
                       a.data, (blasint)lda, b.data, (blasint)ldb, beta, y, (blasint)ldc);         \
    cpu_blas_leave();                                                                              \
    return true;                                                                                   \
  }                                                                                                \
                                                                                                   \
  /* y[m] = a[m, k] x[k], elements of x and y `incx` and `incy` apart. y is cleared first: some    \
   * releases of the BLAS take 0 times what lay there, which may be NaN. */                        \
  static inline bool gemv_##suffix(int64_t m, int64_t k, matrix_##suffix a, const C *x,            \
                                   int64_t incx, C *y, int64_t incy) {                             \
    const bool ta = a.col != 1;                                                                    \
    const int64_t lda = ta ? blas_leading(a.col, m) : blas_leading(a.row, k);                      \
    const int64_t stepx = cpu_max(1, incx), stepy = cpu_max(1, incy);                              \
    if (!blas_counts(m, k, lda) || !blas_counts(stepx, stepy, 0)) return false;                    \
    for (int64_t i = 0; i < m; i++) y[i * stepy] = 0;                                              \
    cpu_blas_enter();                                                                              \
    cpu_blas.s##gemv(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, (blasint)(ta ? k : m),         \
                     (blasint)(ta ? m : k), 1, a.data, (blasint)lda, x, (blasint)stepx, 0, y,      \
                     (blasint)stepy);                                                              \
    cpu_blas_leave();                                                                              \
    return true;                                                                                   \
  }

GEMM_STAMP(f, float, s, 16)
GEMM_STAMP(d, double, d, 8)
#undef GEMM_STAMP

/* y[m, n] = a[m, k] b[k, n] + beta y, rows of y `ldy` apart; beta is 0 or 1. Floats of AVX-512 but
 * one row or column go by registers, as in matmul: a BLAS packs both operands, and may take kernels
 * of a lesser processor. */
static inline bool gemm_d(int64_t m, int64_t n, int64_t k, matrix_d a, matrix_d b, double beta,
                          double *y, int64_t ldy) {
  return blas_gemm_d(m, n, k, a, b, beta, y, ldy);
}

static inline bool gemm_f(int64_t m, int64_t n, int64_t k, matrix_f a, matrix_f b, float beta,
                          float *y, int64_t ldy) {
  if (TN_ISA_LEVEL != 2 || m == 1 || n == 1) return blas_gemm_f(m, n, k, a, b, beta, y, ldy);
  const small_product p = {.m = m,
                           .n = n,
                           .k = k,
                           .a = a.data,
                           .b = b.data,
                           .y = y,
                           .a_row = a.row,
                           .a_col = a.col,
                           .b_row = b.row,
                           .b_col = b.col,
                           .y_row = ldy,
                           .y_col = 1,
                           .add = beta != 0};
  ISA(small_floats)(&p);
  return true;
}

#endif
