/*
 * Products of 8-bit integers less their zero points: operands are laid out in panels of words
 * (tile.h), of a by rows and of b by columns, and tiles of sums, which wrap, are computed from
 * them.
 *
 * Words of two int16 hold numbers less their zero points, which always fits. Words of four bytes
 * hold the bytes; b's are moved by 128, as their zero points are, where they are of the same sign
 * as a's and the instruction wants one of each, which matrix units do not. The sum of (a - za) (b -
 * zb) over k terms is then that of a b, less za sum(b), less zb sum(a), plus k za zb, exactly,
 * since all of it wraps. What becomes of the sums an integer_sink says.
 */
#ifndef TENON_KERNELS_CPU_INTEGER_H
#define TENON_KERNELS_CPU_INTEGER_H

#include <string.h>

#include "kernels/common/quant.h"
#include "kernels/cpu/matmul/tile.h"

/* Numbers of rows or columns, one for all (step 0) or one for each. */
typedef struct integer_scale {
  const float *data;
  int64_t step;
} integer_scale;

typedef struct integer_sink {
  int size;            /* bytes of an element of y: int32 sums, or quantised bytes: */
  const int32_t *bias; /* of rows, or NULL */
  integer_scale row, column;
  float y_scale;
  int32_t y_zero;
  quant_range range;
} integer_sink;

static inline int32_t integer_zero(const DLTensor *t, int64_t i) {
  if (!t) return 0;
  i = cpu_count(t) == 1 ? 0 : i * t->strides[t->ndim - 1];
  return t->dtype.code == kDLInt ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

static inline integer_scale integer_scale_of(const DLTensor *t) {
  return (integer_scale){t->data, cpu_count(t) > 1 ? t->strides[t->ndim - 1] : 0};
}

static inline integer_sink integer_sums(void) { return (integer_sink){.size = sizeof(int32_t)}; }

static inline integer_sink integer_requantised(const tn_kernel_args *args) {
  return (integer_sink){.size = 1,
                        .y_scale = *(const float *)args->in[QUANT_Y_SCALE]->data,
                        .y_zero = integer_zero(args->in[QUANT_Y_ZERO], 0),
                        .range = quant_range_of(tn_dtype_of(args->out[0]->dtype))};
}

static inline void integer_quantise(const integer_sink *s, int64_t row, int64_t column, int64_t n,
                                    const int32_t *sums, uint8_t *y, int64_t step) {
  const float low = (float)(s->range.low - s->y_zero), high = (float)(s->range.high - s->y_zero);
  const float scale = s->row.data[row * s->row.step];
  const float *of = s->column.data + column * s->column.step;
  const uint32_t bias = s->bias ? (uint32_t)s->bias[row] : 0;
  for (int64_t i = 0; i < n; i++) {
    float v = (float)(int32_t)((uint32_t)sums[i] + bias);
    v *= scale * of[i * s->column.step] / s->y_scale;
    v = v == v ? v : 0;
    v = v < low ? low : v;
    v = v > high ? high : v;
    /* Beside this number floats are whole. */
    y[i * step] = (uint8_t)((int32_t)((v + 0x1.8p23f) - 0x1.8p23f) + s->y_zero);
  }
}

/* Sums of row `row` from column `column` on, to y, whose elements are `step` apart. */
static inline void integer_store(const integer_sink *s, int64_t row, int64_t column, int64_t n,
                                 const int32_t *sums, void *y, int64_t step) {
  if (s->size == 1) {
    integer_quantise(s, row, column, n, sums, y, step);
    return;
  }
  for (int64_t i = 0; i < n; i++) ((int32_t *)y)[i * step] = sums[i];
}

/* --- panels --- */

/* Rows of a or columns of b: vectors `step` bytes apart, their terms `along` apart. */
typedef struct integer_vectors {
  const uint8_t *data;
  int64_t step, along;
  bool is_signed, is_b;
  const DLTensor *zero; /* of all vectors or of each, NULL: 0 */
  int64_t zero_first;   /* which of them is the first vector's */
} integer_vectors;

/* What the words of a product hold, and how many of them a sum has. */
typedef struct integer_words {
  bool bytes;
  bool units;            /* of bytes, by matrix units */
  bool a_signed;         /* of bytes: a's are signed and b's not, or the reverse */
  bool b_signed;         /* for matrix units */
  int32_t moved;         /* what was added to bytes of b */
  bool zeros_a, zeros_b; /* of bytes: whether any zero point is not 0 */
  int64_t length, steps; /* terms of a sum; words */
} integer_words;

/* Of operands of so many terms, by their types and zero points. */
integer_words ISA(integer_words_of)(int64_t length, const integer_vectors *a,
                                    const integer_vectors *b);

/* Has matrix units multiply, where there are some and they are worth it for so many rows. pre: a's
 * panels are laid out by these words from then on. */
void ISA(integer_take_units)(integer_words *w, int64_t rows, const integer_vectors *b);

/* Rows of a panel of a, all but the last. */
enum { INTEGER_UNIT_ROWS = 4 * TILE_UNIT };
static inline int64_t integer_panel_rows(const integer_words *w) {
  return w->units ? INTEGER_UNIT_ROWS : TILE_ROWS;
}

/* `room` vectors of which some may be 0; of words of bytes also zero points and sums. */
typedef struct integer_panel {
  int64_t room;
  uint32_t *words; /* [steps][room]; for matrix units in tiles (tile.h) */
  int32_t *zeros, *sums;
} integer_panel;

static inline int64_t integer_panel_bytes(const integer_words *w, int64_t room) {
  return (w->steps + 2) * room * (int64_t)sizeof(uint32_t);
}

static inline integer_panel integer_panel_at(const integer_words *w, int64_t room, void *memory) {
  uint32_t *words = memory;
  int32_t *zeros = (int32_t *)(words + w->steps * room);
  return (integer_panel){room, words, zeros, zeros + room};
}

/* Panel `index` of rows that lie panel after panel. */
static inline integer_panel integer_rows_at(const integer_words *w, int64_t rows, int64_t index,
                                            void *memory) {
  const int64_t most = integer_panel_rows(w), left = cpu_min(most, rows - index * most);
  char *at = (char *)memory + index * integer_panel_bytes(w, most);
  return integer_panel_at(w, w->units ? cpu_ceil_div(left, TILE_UNIT) * TILE_UNIT : tile_rows(left),
                          at);
}

static inline int64_t integer_rows_bytes(const integer_words *w, int64_t rows) {
  const int64_t most = integer_panel_rows(w);
  return cpu_ceil_div(rows, most) * integer_panel_bytes(w, most);
}

/* Lays out vectors first <= v < first + count of x, at most as many as the panel has room for. */
void ISA(integer_pack)(const integer_words *w, const integer_vectors *x, int64_t first,
                       int64_t count, const integer_panel *to);

/* Where a block of y is: element (i, j) lies i row + j column elements behind `data`, and is
 * element (first_row + i, first_column + j) to the sink. */
typedef struct integer_block {
  char *data;
  int64_t row, column, first_row, first_column;
} integer_block;

/* `rows` rows, from panel `index` on of rows that are `all`, by a panel of columns. */
void ISA(integer_products)(const integer_words *w, const integer_sink *sink, void *panels,
                           int64_t all, int64_t index, int64_t rows, const integer_panel *b,
                           int64_t columns, const integer_block *y);

#endif
