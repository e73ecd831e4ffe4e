#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GAP (-987654.0)

static const size_t bytes_of[] = {sizeof(float), sizeof(double), sizeof(float _Complex),
                                  sizeof(double _Complex)};

static void *place(const matrix *m, int row, int column) {
  return (char *)m->data + ((size_t)column * (size_t)m->ld + (size_t)row) * bytes_of[m->kind];
}

static void write_number(kind k, void *at, number value) {
  switch (k) {
  case KIND_S:
    *(float *)at = (float)creall(value);
    break;
  case KIND_D:
    *(double *)at = (double)creall(value);
    break;
  case KIND_C:
    ((float *)at)[0] = (float)creall(value), ((float *)at)[1] = (float)cimagl(value);
    break;
  default:
    ((double *)at)[0] = (double)creall(value), ((double *)at)[1] = (double)cimagl(value);
  }
}

number matrix_get(const matrix *m, int row, int column) {
  const void *at = place(m, row, column);
  const float *s = at;
  const double *d = at;
  switch (m->kind) {
  case KIND_S:
    return s[0];
  case KIND_D:
    return d[0];
  case KIND_C:
    return CMPLXL(s[0], s[1]);
  default:
    return CMPLXL(d[0], d[1]);
  }
}

void matrix_set(matrix *m, int row, int column, number value) {
  write_number(m->kind, place(m, row, column), value);
}

matrix matrix_make(kind k, int rows, int columns, int gap, uint32_t seed) {
  matrix m = {k, rows, columns, (rows > 0 ? rows : 1) + gap, NULL};
  m.data = malloc((size_t)m.ld * (size_t)(columns + 1) * bytes_of[k]);
  for (int j = 0; j <= columns; ++j)
    for (int i = 0; i < m.ld; ++i) {
      long double parts[2];
      for (int p = 0; p < 2; ++p) {
        seed = seed * 1664525u + 1013904223u;
        parts[p] = (long double)(seed >> 8) / (1 << 23) - 1;
      }
      bool inside = i < rows && j < columns;
      matrix_set(&m, i, j, inside ? CMPLXL(parts[0], parts[1]) : GAP);
    }
  return m;
}

matrix matrix_copy(const matrix *m) {
  matrix copy = *m;
  size_t bytes = (size_t)m->ld * (size_t)(m->columns + 1) * bytes_of[m->kind];
  copy.data = malloc(bytes);
  memcpy(copy.data, m->data, bytes);
  return copy;
}

void matrix_free(matrix *m) { free(m->data); }

bool matrix_gaps_are_whole(const matrix *m) {
  for (int j = 0; j <= m->columns; ++j)
    for (int i = j < m->columns ? m->rows : 0; i < m->ld; ++i)
      if (creall(matrix_get(m, i, j)) != GAP) return false;
  return true;
}

number matrix_op(const matrix *m, char letter, int row, int column) {
  number x = letter == 'N' ? matrix_get(m, row, column) : matrix_get(m, column, row);
  return letter == 'C' ? conjl(x) : x;
}

int matrix_columns(const matrix *m, char letter) { return letter == 'N' ? m->columns : m->rows; }

/* By parts, as Fortran multiplies; C's own operator repairs infinities. */
static number times(number a, number b) {
  long double ar = creall(a), ai = cimagl(a), br = creall(b), bi = cimagl(b);
  return CMPLXL(ar * br - ai * bi, ar * bi + ai * br);
}

static number plus(number a, number b) {
  return CMPLXL(creall(a) + creall(b), cimagl(a) + cimagl(b));
}

void oracle_gemm(char ta, char tb, number alpha, const matrix *a, const matrix *b, number beta,
                 matrix *c) {
  bool real = c->kind <= KIND_D;
  for (int j = 0; j < c->columns; ++j)
    for (int i = 0; i < c->rows; ++i) {
      number sum = 0, x = matrix_get(c, i, j);
      for (int k = 0; k < matrix_columns(a, ta); ++k)
        sum = plus(sum, times(matrix_op(a, ta, i, k), matrix_op(b, tb, k, j)));
      number y = real ? creall(alpha) * creall(sum) : times(alpha, sum);
      if (beta != 0) y = real ? creall(y) + creall(beta) * creall(x) : plus(y, times(beta, x));
      matrix_set(c, i, j, y);
    }
}

static double part_distance(long double a, long double b) {
  if (isnan(a) && isnan(b)) return 0;
  if (a == b) return 0;
  return isfinite(a) && isfinite(b) ? (double)fabsl(a - b) : INFINITY;
}

double matrix_distance(const matrix *a, const matrix *b, double scale) {
  bool narrow = a->kind == KIND_S || a->kind == KIND_C;
  double unit = (narrow ? FLT_EPSILON : DBL_EPSILON) * scale, most = 0;
  for (int j = 0; j < a->columns; ++j)
    for (int i = 0; i < a->rows; ++i) {
      number x = matrix_get(a, i, j), y = matrix_get(b, i, j);
      most = fmax(most, part_distance(creall(x), creall(y)));
      if (a->kind > KIND_D) most = fmax(most, part_distance(cimagl(x), cimagl(y)));
    }
  return most / unit;
}

void *as_kind(kind k, number value) {
  static _Thread_local double places[4][2];
  static _Thread_local unsigned next;
  void *at = places[next++ % 4];
  write_number(k, at, value);
  return at;
}
