/* Products of float32 of long sums: see deep.h. */
#include "kernels/cpu/matmul/deep.h"

#include <string.h>

#include "kernels/cpu/base/floats.h"

/* Of a tile, whose sums stay in registers. */
enum { LANES = sizeof(FLOATS) / sizeof(float), ROWS = 6, COLUMNS = 4 };

#define INLINE __attribute__((always_inline)) static inline

/* What is copied next: rows of a, then columns of b. Each tile fetches one of them to the cache. */
typedef struct ahead {
  const float *a, *b;
  int64_t a_row, b_col, rows, columns;
} ahead;

static const float *next_of(ahead *next) {
  const float *x = next->a;
  if (next->rows > 0) {
    next->a += next->a_row, next->rows--;
  } else if (next->columns > 0) {
    x = next->b;
    next->b += next->b_col, next->columns--;
  }
  return x;
}

/* The sums of four vectors, to memory or added to what is there. */
INLINE void keep_totals(const FLOATS *v, bool add, float *y) {
#if defined(__AVX512F__)
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
  const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, _MM_SHUFFLE(1, 0, 1, 0)),
                                   _mm512_shuffle_ps(ab, cd, _MM_SHUFFLE(3, 2, 3, 2)));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
  const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  _mm_storeu_ps(y, add ? _mm_add_ps(_mm_loadu_ps(y), sums) : sums);
#else
  for (int j = 0; j < COLUMNS; j++) y[j] = add ? y[j] + FLOATS_TOTAL(v[j]) : FLOATS_TOTAL(v[j]);
#endif
}

/* Of copied rows and columns; steps: a multiple of the lanes. */
INLINE void tile(const int rows, int64_t steps, bool add, const float *a, const float *b, float *y,
                 int64_t y_row, const float *next) {
  FLOATS sum[ROWS][COLUMNS], column[COLUMNS];
  FLOATS_UNROLL for (int i = 0; i < rows; i++) {
    FLOATS_UNROLL for (int j = 0; j < COLUMNS; j++) sum[i][j] = FLOATS_SPREAD(0);
  }
  for (int64_t t = 0; t < steps; t += LANES) {
    __builtin_prefetch(next + t);
    FLOATS_UNROLL for (int j = 0; j < COLUMNS; j++) column[j] = FLOATS_LOAD(b + j * DEEP_PITCH + t);
    FLOATS_UNROLL for (int i = 0; i < rows; i++) {
      const FLOATS one = FLOATS_LOAD(a + i * DEEP_PITCH + t);
      FLOATS_UNROLL for (int j = 0; j < COLUMNS; j++) sum[i][j] =
          FLOATS_DOT(sum[i][j], one, column[j]);
    }
  }
  FLOATS_UNROLL for (int i = 0; i < rows; i++) keep_totals(sum[i], add, y + i * y_row);
}

/* Some rows by all columns, which are a multiple of those of a tile. */
INLINE void rows_by_columns(const int rows, int64_t columns, int64_t steps, bool add,
                            const float *a, const float *b, float *y, int64_t y_row, ahead *next) {
  for (int64_t j = 0; j < columns; j += COLUMNS)
    tile(rows, steps, add, a, b + j * DEEP_PITCH, y + j, y_row, next_of(next));
}

/* `count` vectors of `terms` terms, with zeros behind these as far as lanes reach. */
static void copy(const float *x, int64_t across, int64_t count, int64_t terms, float *to) {
  const int64_t rest = -terms & (LANES - 1);
  for (int64_t i = 0; i < count; i++, x += across, to += DEEP_PITCH) {
    memcpy(to, x, (size_t)terms * sizeof *to);
    memset(to + terms, 0, (size_t)rest * sizeof *to);
  }
}

/* Copied rows by copied columns. */
static void multiply(int64_t rows, int64_t columns, int64_t steps, bool add, const float *a,
                     const float *b, float *y, int64_t y_row, ahead *next) {
  for (; rows >= ROWS; rows -= ROWS, a += ROWS * DEEP_PITCH, y += ROWS * y_row)
    rows_by_columns(ROWS, columns, steps, add, a, b, y, y_row, next);
  for (; rows >= 2; rows -= 2, a += 2 * DEEP_PITCH, y += 2 * y_row)
    rows_by_columns(2, columns, steps, add, a, b, y, y_row, next);
  if (rows) rows_by_columns(1, columns, steps, add, a, b, y, y_row, next);
}

void ISA(deep_floats)(const small_product *p, float *room) {
  const int64_t columns = cpu_ceil_div(p->n, COLUMNS) * COLUMNS;
  float *a = room + DEEP_COLUMNS * DEEP_PITCH;
  memset(room + p->n * DEEP_PITCH, 0, (size_t)(columns - p->n) * DEEP_PITCH * sizeof *room);
  for (int64_t t = 0; t < p->k; t += DEEP_TERMS) {
    const int64_t terms = cpu_min(DEEP_TERMS, p->k - t), left = p->k - t - terms;
    const int64_t steps = cpu_ceil_div(terms, LANES) * LANES;
    ahead next = {.b = p->b + t + terms, .a_row = p->a_row, .b_col = p->b_col};
    next.columns = left ? p->n : 0;
    copy(p->b + t, p->b_col, p->n, terms, room);
    for (int64_t i = 0; i < p->m; i += DEEP_ROWS) {
      const int64_t rows = cpu_min(DEEP_ROWS, p->m - i), below = p->m - i - rows;
      next.a = below ? p->a + (i + rows) * p->a_row + t : p->a + t + cpu_min(left, terms);
      next.rows = cpu_min(DEEP_ROWS, below ? below : p->m);
      copy(p->a + i * p->a_row + t, p->a_row, rows, terms, a);
      multiply(rows, columns, steps, t > 0, a, room, p->y + i * p->y_row, p->y_row, &next);
    }
  }
}
