/*
 * Products of 8-bit integers that were unpacked to int16 less their zero points, which always fits:
 * dense rows of a by dense rows of b, `pitch` elements each, a multiple of 32. Every element of y
 * is a scalar product of two rows: multiplying pairs of int16 into int32 is one instruction since
 * SSE2. A tile of them is computed together, so that rows that were loaded are used several times.
 * What becomes of the sums, which wrap, an integer_sink says.
 */
#ifndef TENON_KERNELS_CPU_INTEGER_H
#define TENON_KERNELS_CPU_INTEGER_H

#include <string.h>

#include "kernels/common/quant.h"
#include "kernels/cpu/cpu.h"

enum { INTEGER_TILE = 4, INTEGER_LANES = 32 };

static inline int64_t integer_pitch(int64_t length) {
  return cpu_max(INTEGER_LANES, cpu_ceil_div(length, INTEGER_LANES) * INTEGER_LANES);
}

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

static inline int32_t integer_product(int64_t k, const int16_t *a, const int16_t *b) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < k; i++) sum += (uint32_t)((int32_t)a[i] * b[i]);
  return (int32_t)sum;
}

/* A tile of rows of a by rows of b; every sum by itself, which is what the compiler turns into
 * multiply-add of pairs. */
static inline void integer_tile(int64_t pitch, const int16_t *restrict a, const int16_t *restrict b,
                                int32_t y[INTEGER_TILE][INTEGER_TILE]) {
  const int16_t *a1 = a + pitch, *a2 = a1 + pitch, *a3 = a2 + pitch;
  const int16_t *b1 = b + pitch, *b2 = b1 + pitch, *b3 = b2 + pitch;
  uint32_t s[INTEGER_TILE][INTEGER_TILE] = {{0}};
#define TERM(i, p, j, q) s[i][j] += (uint32_t)((int32_t)(p)[t] * (q)[t])
#define TERMS(i, p) TERM(i, p, 0, b), TERM(i, p, 1, b1), TERM(i, p, 2, b2), TERM(i, p, 3, b3)
  for (int64_t t = 0; t < pitch; t++) {
    TERMS(0, a), TERMS(1, a1), TERMS(2, a2), TERMS(3, a3);
  }
#undef TERMS
#undef TERM
  memcpy(y, s, sizeof s);
}

/* Where a block of y is: element (i, j) lies i row + j column elements behind `data`, and is
 * element (first_row + i, first_column + j) to the sink. */
typedef struct integer_block {
  char *data;
  int64_t row, column, first_row, first_column;
} integer_block;

static inline void integer_products(const integer_sink *sink, int64_t pitch, const int16_t *a,
                                    int64_t rows, const int16_t *b, int64_t columns,
                                    const integer_block *y) {
  for (int64_t i = 0; i < rows; i += INTEGER_TILE)
    for (int64_t j = 0; j < columns; j += INTEGER_TILE) {
      int32_t tile[INTEGER_TILE][INTEGER_TILE];
      const int64_t r = cpu_min(INTEGER_TILE, rows - i), s = cpu_min(INTEGER_TILE, columns - j);
      if (r == INTEGER_TILE && s == INTEGER_TILE)
        integer_tile(pitch, a + i * pitch, b + j * pitch, tile);
      else
        for (int64_t p = 0; p < r; p++)
          for (int64_t q = 0; q < s; q++)
            tile[p][q] = integer_product(pitch, a + (i + p) * pitch, b + (j + q) * pitch);
      for (int64_t p = 0; p < r; p++)
        integer_store(sink, y->first_row + i + p, y->first_column + j, s, tile[p],
                      y->data + ((i + p) * y->row + j * y->column) * sink->size, y->column);
    }
}

#endif
