/* Products of float32 in registers: see small.h. */
#include "kernels/cpu/matmul/small.h"

#include <string.h>

#include "kernels/cpu/matmul/registers.h"
#include "kernels/cpu/matmul/tile.h"

/* Rows of a tile with all vectors beside each other: their sums, a row of b and one number stay in
 * registers. Terms of b between which a strip of columns stays in cache. */
enum { ROWS_FULL = 6, DEPTH = 256 };
/* Floats of a strip's copy. Columns are copied though they are dense for so many rows, where rows
 * of b stand so many bytes apart that those of a strip share few lines of a cache. */
enum { STRIP_PANEL = 16384, COPY_ROWS = 96, COPY_PITCH = 4096 };

/* A strip of columns of y and some terms of its sums. b: rows `b_row` apart. */
typedef struct strip {
  const float *a, *b;
  float *y;
  int64_t a_row, a_col, b_row, y_row, steps;
  FLOATS_LANES last; /* lanes of the rest that are there */
  bool add;          /* to what is in y */
} strip;

/* What stands behind the whole vectors of a row of a tile. */
typedef enum rest_kind { NOTHING, SOME_LANES, HALF_LANES } rest_kind;
#ifdef FLOATS_HALF
typedef FLOATS_HALF half;
#define HALF_LOAD(p, lanes) FLOATS_HALF_LOAD_FIRST(p, lanes)
#define HALF_KEEP(p, lanes, v) FLOATS_HALF_KEEP_FIRST(p, lanes, v)
#define HALF_DOT(sum, a, b) FLOATS_HALF_DOT(sum, a, b)
#else /* is not asked for */
typedef FLOATS half;
#define HALF_LOAD(p, lanes) FLOATS_LOAD_FIRST(p, lanes)
#define HALF_KEEP(p, lanes, v) FLOATS_KEEP_FIRST(p, lanes, v)
#define HALF_DOT(sum, a, b) FLOATS_DOT(sum, a, b)
#endif

/* Numbers or sums of a row: whole vectors, and what stands behind them. */
typedef struct row_of {
  FLOATS whole[FLOATS_BESIDE], some;
  half half;
} row_of;

INLINE void load(row_of *row, const float *p, const int vectors, const rest_kind rest,
                 FLOATS_LANES last) {
  FLOATS_UNROLL for (int v = 0; v < vectors; v++) row->whole[v] = FLOATS_LOAD(p + v * LANES);
  if (rest == SOME_LANES) row->some = FLOATS_LOAD_FIRST(p + vectors * LANES, last);
  if (rest == HALF_LANES) row->half = HALF_LOAD(p + vectors * LANES, last);
}

INLINE void keep(const row_of *row, float *p, const int vectors, const rest_kind rest,
                 FLOATS_LANES last) {
  FLOATS_UNROLL for (int v = 0; v < vectors; v++) FLOATS_KEEP(p + v * LANES, row->whole[v]);
  if (rest == SOME_LANES) FLOATS_KEEP_FIRST(p + vectors * LANES, last, row->some);
  if (rest == HALF_LANES) HALF_KEEP(p + vectors * LANES, last, row->half);
}

INLINE void add_products(row_of *sum, float a, const row_of *b, const int vectors,
                         const rest_kind rest) {
  const FLOATS one = FLOATS_SPREAD(a);
  FLOATS_UNROLL for (int v = 0; v < vectors; v++) sum->whole[v] =
      FLOATS_DOT(sum->whole[v], one, b->whole[v]);
  if (rest == SOME_LANES) sum->some = FLOATS_DOT(sum->some, one, b->some);
  if (rest == HALF_LANES) sum->half = HALF_DOT(sum->half, one, b->half);
}

/* Rows of a stand by fours, so that few pointers reach all. */
INLINE void tile(const int rows, const int vectors, const rest_kind rest, const strip *s,
                 const float *a, float *y) {
  const int64_t row = s->a_row;
  const float *b = s->b, *fours[(ROWS_MOST + 3) / 4] = {a, a + 4 * row};
  row_of sum[ROWS_MOST], beside;
  FLOATS_UNROLL for (int i = 0; i < rows; i++) {
    if (s->add)
      load(&sum[i], y + i * s->y_row, vectors, rest, s->last);
    else
      sum[i] = (row_of){0};
  }
  for (int64_t t = s->steps; t > 0; t--, b += s->b_row) {
    load(&beside, b, vectors, rest, s->last);
    FLOATS_UNROLL for (int i = 0; i < rows; i++)
        add_products(&sum[i], fours[i / 4][i % 4 * row], &beside, vectors, rest);
    fours[0] += s->a_col, fours[1] += s->a_col;
  }
  FLOATS_UNROLL for (int i = 0; i < rows; i++)
      keep(&sum[i], y + i * s->y_row, vectors, rest, s->last);
}

/* As many rows as there are tiles for, of `left`. */
INLINE int64_t some_rows(int64_t left, const int most, const int vectors, const rest_kind rest,
                         const strip *s, const float *a, float *y) {
  if (left >= most) return tile(most, vectors, rest, s, a, y), most;
  if (left >= 6) return tile(6, vectors, rest, s, a, y), 6;
  if (left >= 4) return tile(4, vectors, rest, s, a, y), 4;
  if (left == 3) return tile(3, vectors, rest, s, a, y), 3;
  if (left == 2) return tile(2, vectors, rest, s, a, y), 2;
  return tile(1, vectors, rest, s, a, y), 1;
}

INLINE void strip_of(const int vectors, const rest_kind rest, const strip *s, int64_t m) {
  const int beside = vectors + (rest != NOTHING);
  const int most = beside > FLOATS_BESIDE    ? ROWS_FULL - 1
                   : beside == FLOATS_BESIDE ? ROWS_FULL
                                             : ROWS_MOST;
  const float *a = s->a;
  float *y = s->y;
  while (m > 0) {
    const int64_t rows = some_rows(m, most, vectors, rest, s, a, y);
    m -= rows, a += rows * s->a_row, y += rows * s->y_row;
  }
}

INLINE void strip_by_rest(const int vectors, rest_kind rest, const strip *s, int64_t m) {
  if (rest == NOTHING)
    strip_of(vectors, NOTHING, s, m);
  else if (rest == SOME_LANES)
    strip_of(vectors, SOME_LANES, s, m);
#ifdef FLOATS_HALF
  else
    strip_of(vectors, HALF_LANES, s, m);
#endif
}

/* With `vectors` that are whole: FLOATS_BESIDE, perhaps with half a one, or fewer and any rest. */
static void run_strip(int64_t vectors, rest_kind rest, const strip *s, int64_t m) {
  switch (vectors) {
  case 0:
    strip_by_rest(0, rest, s, m);
    break;
  case 1:
    strip_by_rest(1, rest, s, m);
    break;
#if FLOATS_BESIDE > 2
  case 2:
    strip_by_rest(2, rest, s, m);
    break;
  case 3:
    strip_by_rest(3, rest, s, m);
    break;
#endif
  default:
    if (rest == NOTHING) strip_of(FLOATS_BESIDE, NOTHING, s, m);
#ifdef FLOATS_HALF
    if (rest == HALF_LANES) strip_of(FLOATS_BESIDE, HALF_LANES, s, m);
#endif
    break;
  }
}

/* Terms [0, steps) of columns of b to a panel of `width`, of which lanes behind `count` stay: where
 * they are dense, */
static void copy(const small_product *p, const float *b, int64_t steps, int64_t count,
                 int64_t width, float *to) {
  for (int64_t t = 0; t < steps; t++, b += p->b_row, to += width)
    memcpy(to, b, (size_t)count * sizeof *to);
}

/* and where not. */
static void turn(const small_product *p, const float *b, int64_t steps, int64_t count,
                 int64_t width, float *to) {
  int64_t j = 0;
  for (; p->b_row == 1 && j + 4 <= count; j += 4) {
    int64_t t = 0;
    for (; t + 4 <= steps; t += 4)
      tile_turn(b + j * p->b_col + t, p->b_col * (int64_t)sizeof(float),
                (uint32_t *)(void *)(to + t * width + j), width);
    for (; t < steps; t++)
      for (int i = 0; i < 4; i++) to[t * width + j + i] = b[(j + i) * p->b_col + t];
  }
  for (; j < count; j++)
    for (int64_t t = 0; t < steps; t++) to[t * width + j] = b[j * p->b_col + t * p->b_row];
}

/* Some terms of a strip of `width` columns, all that there are but for the last strip. */
static void multiply_strip(const small_product *p, int64_t j, int64_t count, int64_t first,
                           int64_t steps, float *panel) {
  const int64_t vectors = count / LANES, lanes = count % LANES;
  rest_kind rest = lanes ? SOME_LANES : NOTHING;
#ifdef FLOATS_HALF
  if (lanes && lanes <= LANES / 2) rest = HALF_LANES;
#endif
  strip s = {.a = p->a + first * p->a_col,
             .b = p->b + first * p->b_row + j * p->b_col,
             .y = p->y + j,
             .a_row = p->a_row,
             .a_col = p->a_col,
             .b_row = p->b_row,
             .y_row = p->y_row,
             .steps = steps,
             .last = FLOATS_FIRST(lanes ? lanes : LANES),
             .add = first > 0 || p->add};
  if (panel) {
    s.b_row = (vectors + (lanes > 0)) * LANES;
    (p->b_col == 1 ? copy : turn)(p, s.b, steps, count, s.b_row, panel);
    s.b = panel;
  }
  run_strip(vectors, rest, &s, p->m);
}

/* Columns of the next strip, of `left`: with a half register's behind whole ones. */
static int64_t strip_columns(int64_t left) {
  const int64_t most = FLOATS_BESIDE * LANES;
#ifdef FLOATS_HALF
  if (left <= most + LANES / 2) return left;
#endif
  return cpu_min(most, left);
}

/* All terms by shares of `depth`. */
static void multiply(const small_product *p, int64_t depth, float *panel) {
  for (int64_t j = 0, columns; j < p->n; j += columns) {
    columns = strip_columns(p->n - j);
    for (int64_t t = 0; t < p->k; t += depth)
      multiply_strip(p, j, columns, t, cpu_min(depth, p->k - t), panel);
  }
}

static void multiply_copied(const small_product *p) {
  _Alignas(64) float panel[STRIP_PANEL];
  const int64_t most = (FLOATS_BESIDE + 1) * LANES;
  const int64_t width = cpu_min(most, cpu_ceil_div(p->n, LANES) * LANES);
  multiply(p, STRIP_PANEL / width, panel);
}

static bool is_copied(const small_product *p) {
  if (p->n == 1) return false;
  if (p->b_col != 1) return true;
  return p->m >= COPY_ROWS && p->b_row * (int64_t)sizeof *p->b > COPY_PITCH;
}

static void wide(const small_product *p) {
  if (is_copied(p))
    multiply_copied(p);
  else
    multiply(p, DEPTH, NULL);
}

/* The product of the operands turned: columns of y are its rows. */
static small_product turned(const small_product *p) {
  return (small_product){.m = p->n,
                         .n = p->m,
                         .k = p->k,
                         .a = p->b,
                         .b = p->a,
                         .y = p->y,
                         .a_row = p->b_col,
                         .a_col = p->b_row,
                         .b_row = p->a_col,
                         .b_col = p->a_row,
                         .y_row = p->y_col,
                         .y_col = p->y_row,
                         .add = p->add};
}

static bool is_narrow(const small_product *p, int64_t most) {
  const int64_t least = p->n <= SMALL_NARROW / 2 ? SMALL_LONG : 4 * SMALL_LONG;
  const bool is_turned = p->b_row != 1 && p->n > 1;
  return p->n <= most && p->a_col == 1 && p->k >= least && (!is_turned || p->m >= SMALL_LONG);
}

/* Sums of no terms, whose operands may stand nowhere. */
static void clear(const small_product *p) {
  for (int64_t i = 0; i < p->m; i++) memset(p->y + i * p->y_row, 0, (size_t)p->n * sizeof *p->y);
}

void ISA(small_floats)(const small_product *p) {
  if (p->m == 0 || p->n == 0) return;
  if (p->k == 0) {
    if (!p->add) clear(p);
    return;
  }
  if (p->add || (p->n > SMALL_NARROW && p->m > SMALL_FEW)) {
    wide(p);
    return;
  }
  const small_product t = turned(p);
  if (is_narrow(p, SMALL_NARROW) && (p->n <= p->m || !is_narrow(&t, SMALL_FEW)))
    ISA(small_dots)(p);
  else if (is_narrow(&t, SMALL_FEW))
    ISA(small_dots)(&t);
  else if (p->n == 1 && p->a_row == 1 && p->y_row == 1)
    wide(&t);
  else
    wide(p);
}
