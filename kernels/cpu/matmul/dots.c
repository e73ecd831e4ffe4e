/*
 * Narrow products of float32, of long sums: vectors along the terms, some rows by some columns in
 * registers. Lanes are added up at the end, or after as many terms as columns are copied for at a
 * time, so that an element's bits depend on the number of terms alone.
 */
#include "kernels/cpu/matmul/registers.h"
#include "kernels/cpu/matmul/small.h"

/* Columns and rows of a tile: their sums, columns and a row are what there are registers for. Rows
 * between which a stays in cache for the next columns. */
enum {
  COLUMNS_MOST = 4,
  COLUMNS = FLOATS_BESIDE == 4 ? 4 : 2,
  ROWS = FLOATS_BESIDE == 4 ? 4 : 6,
  ROWS_NEAR = FLOATS_BESIDE == 4 ? 64 : 60
};

/* Rows of a and columns of b, both dense, and some terms of their sums. */
typedef struct dots {
  const float *a, *b;
  float *y;
  int64_t a_row, b_col, y_row, y_col, steps;
  FLOATS_LANES last; /* lanes of the last vector that are there */
  bool add;          /* to what is in y */
} dots;

INLINE void add_products(const int rows, const int columns, FLOATS (*sum)[COLUMNS_MOST],
                         const FLOATS *a, const FLOATS *b) {
  FLOATS_UNROLL for (int i = 0; i < rows; i++) {
    FLOATS_UNROLL for (int j = 0; j < columns; j++) sum[i][j] = FLOATS_DOT(sum[i][j], a[i], b[j]);
  }
}

INLINE void tile(const int rows, const int columns, const dots *d, const float *a, const float *b,
                 float *y) {
  FLOATS sum[ROWS_MOST][COLUMNS_MOST], row[ROWS_MOST], column[COLUMNS_MOST];
  FLOATS_UNROLL for (int i = 0; i < rows; i++) {
    FLOATS_UNROLL for (int j = 0; j < columns; j++) sum[i][j] = FLOATS_SPREAD(0);
  }
  int64_t t = d->steps;
  for (; t > LANES; t -= LANES, a += LANES, b += LANES) {
    FLOATS_UNROLL for (int j = 0; j < columns; j++) column[j] = FLOATS_LOAD(b + j * d->b_col);
    FLOATS_UNROLL for (int i = 0; i < rows; i++) row[i] = FLOATS_LOAD(a + i * d->a_row);
    add_products(rows, columns, sum, row, column);
  }
  FLOATS_UNROLL for (int j = 0; j < columns; j++) column[j] =
      FLOATS_LOAD_FIRST(b + j * d->b_col, d->last);
  FLOATS_UNROLL for (int i = 0; i < rows; i++) row[i] =
      FLOATS_LOAD_FIRST(a + i * d->a_row, d->last);
  add_products(rows, columns, sum, row, column);
  FLOATS_UNROLL for (int i = 0; i < rows; i++) {
    FLOATS_UNROLL for (int j = 0; j < columns; j++) {
      float *to = y + i * d->y_row + j * d->y_col;
      const float all = FLOATS_TOTAL(sum[i][j]);
      *to = d->add ? *to + all : all;
    }
  }
}

/* By all rows. most: so many in a tile, 4 or more. */
INLINE void rows_by(const int columns, const int most, const dots *d, int64_t m, const float *b,
                    float *y) {
  const float *a = d->a;
  for (; m >= most; m -= most, a += most * d->a_row, y += most * d->y_row)
    tile(most, columns, d, a, b, y);
  if (most > 4 && m >= 4) {
    tile(4, columns, d, a, b, y);
    m -= 4, a += 4 * d->a_row, y += 4 * d->y_row;
  }
  for (; m > 0; m--, a += d->a_row, y += d->y_row) tile(1, columns, d, a, b, y);
}

static void all_columns(const dots *d, int64_t m, int64_t n) {
  const float *b = d->b;
  float *y = d->y;
  for (; n >= COLUMNS; n -= COLUMNS, b += COLUMNS * d->b_col, y += COLUMNS * d->y_col)
    rows_by(COLUMNS, ROWS, d, m, b, y);
  if (n == 3)
    rows_by(3, 4, d, m, b, y);
  else if (n == 2)
    rows_by(2, 8, d, m, b, y);
  else if (n == 1)
    rows_by(1, 8, d, m, b, y);
}

/* Terms first... of all columns, dense in a panel. */
static void copy_columns(const small_product *p, int64_t first, int64_t steps, float *panel) {
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t t = 0; t < steps; t++)
      panel[j * steps + t] = p->b[(first + t) * p->b_row + j * p->b_col];
}

static void multiply(const small_product *p, int64_t depth, float *panel) {
  for (int64_t t = 0; t < p->k; t += depth) {
    const int64_t steps = cpu_min(depth, p->k - t);
    dots d = {.a = p->a + t,
              .b = p->b + t,
              .y = p->y,
              .a_row = p->a_row,
              .b_col = p->b_col,
              .y_row = p->y_row,
              .y_col = p->y_col,
              .steps = steps,
              .last = FLOATS_FIRST((steps - 1) % LANES + 1),
              .add = t > 0};
    if (panel) {
      copy_columns(p, t, steps, panel);
      d.b = panel;
      d.b_col = steps;
    }
    for (int64_t i = 0; i < p->m; i += ROWS_NEAR) {
      all_columns(&d, cpu_min(ROWS_NEAR, p->m - i), p->n);
      d.a += ROWS_NEAR * p->a_row;
      d.y += ROWS_NEAR * p->y_row;
    }
  }
}

static void multiply_copied(const small_product *p) {
  _Alignas(64) float panel[PANEL];
  multiply(p, PANEL / SMALL_FEW, panel);
}

void ISA(small_dots)(const small_product *p) {
  if (p->b_row == 1)
    multiply(p, PANEL / SMALL_FEW, NULL);
  else
    multiply_copied(p);
}
