/*
 * Blocked so that a strip of b, TILE columns wide and DEPTH rows deep, is packed once and
 * stays in the first-level cache while the rows of a pass over it.
 */
#include "product.h"

enum { TILE_ROWS = 4, TILE = 4, DEPTH = 256 };

/* Columns beyond n are 0 in the strip. */
static void pack(int64_t depth, int64_t width, const double *b, int64_t ldb, double *strip) {
  for (int64_t p = 0; p < depth; ++p)
    for (int64_t j = 0; j < TILE; ++j) strip[p * TILE + j] = j < width ? b[p * ldb + j] : 0;
}

static void tile_rows(int64_t depth, const double *restrict a, int64_t lda,
                      const double *restrict strip, double sum[TILE_ROWS][TILE]) {
  for (int64_t p = 0; p < depth; ++p)
    for (int i = 0; i < TILE_ROWS; ++i)
      for (int j = 0; j < TILE; ++j) sum[i][j] += a[i * lda + p] * strip[p * TILE + j];
}

static void one_row(int64_t depth, const double *restrict a, const double *restrict strip,
                    double sum[TILE]) {
  for (int64_t p = 0; p < depth; ++p)
    for (int j = 0; j < TILE; ++j) sum[j] += a[p] * strip[p * TILE + j];
}

static void add_strip(int64_t m, int64_t width, int64_t depth, const double *a, int64_t lda,
                      const double *strip, double *c, int64_t ldc) {
  for (int64_t i = 0; i < m; i += TILE_ROWS) {
    double sum[TILE_ROWS][TILE] = {{0}};
    int64_t rows = m - i < TILE_ROWS ? m - i : TILE_ROWS;
    if (rows == TILE_ROWS)
      tile_rows(depth, a + i * lda, lda, strip, sum);
    else
      for (int64_t r = 0; r < rows; ++r) one_row(depth, a + (i + r) * lda, strip, sum[r]);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j) c[(i + r) * ldc + j] += sum[r][j];
  }
}

void product_add(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
  double strip[DEPTH * TILE];
  for (int64_t p = 0; p < k; p += DEPTH) {
    int64_t depth = k - p < DEPTH ? k - p : DEPTH;
    for (int64_t j = 0; j < n; j += TILE) {
      int64_t width = n - j < TILE ? n - j : TILE;
      pack(depth, width, b + p * n + j, n, strip);
      add_strip(m, width, depth, a + p, k, strip, c + j, n);
    }
  }
}
