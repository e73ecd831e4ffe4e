/* Tensors made from a rule, and triangles. All tensors are dense. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/cpu.h"

/* --- arange and linspace --- */

/* Numbers start + i step; the last one, if any is marked, is `stop`. */
typedef struct series {
  void *y;
  double start, step, stop;
  int64_t last; /* -1: none */
  uint64_t whole_start, whole_step;
  DLDataType type;
} series;

#define SERIES(U, expression)                                                                      \
  {                                                                                                \
    U *y = s->y;                                                                                   \
    for (int64_t i = begin; i < end; i++) y[i] = (U)(expression);                                  \
    break;                                                                                         \
  }
#define WHOLE (s->whole_start + (uint64_t)i * s->whole_step)

static inline double real_at(const series *s, int64_t i) {
  return fma((double)i, s->step, s->start);
}

static void store_real(const series *s, int64_t at, double x) {
  if (s->type.bits == 64)
    ((double *)s->y)[at] = x;
  else if (s->type.bits == 32)
    ((float *)s->y)[at] = (float)x;
  else
    ((uint16_t *)s->y)[at] =
        s->type.code == kDLBfloat ? bf16_store(float_to_odd(x)) : f16_store(float_to_odd(x));
}

/* By blocks: loops that mix widths of two and eight bytes make poor vectors. */
static void series_halves(const series *s, int64_t begin, int64_t end) {
  enum { BLOCK = 256 };
  double wide[BLOCK];
  float single[BLOCK];
  for (int64_t first = begin; first < end; first += BLOCK) {
    const int64_t n = cpu_min(BLOCK, end - first);
    uint16_t *y = (uint16_t *)s->y + first;
    for (int64_t i = 0; i < n; i++) wide[i] = real_at(s, first + i);
    floats_to_odd(n, wide, single);
    if (s->type.code == kDLBfloat)
      bf16_of_floats(n, single, y);
    else
      halves_of_floats(n, single, y);
  }
}

static tn_status series_range(void *ctx, int64_t begin, int64_t end) {
  const series *s = ctx;
  const bool real = s->type.code == kDLFloat || s->type.code == kDLBfloat;
  switch (s->type.bits) {
  case 8:
    SERIES(uint8_t, WHOLE)
  case 16:
    if (!real) SERIES(uint16_t, WHOLE)
    series_halves(s, begin, end);
    break;
  case 32:
    if (!real) SERIES(uint32_t, WHOLE)
    SERIES(float, real_at(s, i))
  default:
    if (!real) SERIES(uint64_t, WHOLE)
    SERIES(double, real_at(s, i))
  }
  if (s->last >= begin && s->last < end) store_real(s, s->last, s->stop);
  if (s->last >= 0 && begin == 0 && end) store_real(s, 0, s->start);
  return TN_OK;
}

static tn_status run_series(const tn_kernel_args *args, series *s) {
  const int64_t n = cpu_count(args->out[0]);
  s->y = args->out[0]->data;
  s->type = args->out[0]->dtype;
  if (n <= CPU_GRAIN_MATHS) return n ? series_range(s, 0, n) : TN_OK;
  return args->host->parallel_for(args->host, n, CPU_GRAIN_MATHS, series_range, s);
}

tn_status ISA(arange_any)(const tn_kernel_args *args) {
  const tn_arange_attrs *attrs = args->attrs;
  const DLDataType whole = {kDLInt, 64, 1};
  series s = {.start = attrs->start, .step = attrs->step, .last = -1};
  ISA(value_bits)(whole, attrs->start, &s.whole_start);
  ISA(value_bits)(whole, attrs->step, &s.whole_step);
  return run_series(args, &s);
}

tn_status ISA(linspace_any)(const tn_kernel_args *args) {
  const tn_linspace_attrs *attrs = args->attrs;
  const int64_t last = cpu_count(args->out[0]) - 1;
  series s = {.start = attrs->start, .stop = last > 0 ? attrs->stop : attrs->start, .last = last};
  if (last > 0) s.step = (attrs->stop - attrs->start) / (double)last;
  return run_series(args, &s);
}

/* --- eye, tril, triu --- */

typedef struct matrices {
  const char *x;
  char *y;
  int64_t rows, columns, diagonal;
  int64_t size; /* of an element */
  uint64_t one;
  bool upper;
} matrices;

/* How many elements of a row lie below the diagonal, plus `more`. */
static int64_t below(const matrices *m, int64_t row, int64_t more) {
  const int64_t least = -m->rows - 1, most = m->columns + 1;
  const int64_t d = m->diagonal < least ? least : cpu_min(m->diagonal, most);
  const int64_t n = row + d + more;
  return n < 0 ? 0 : cpu_min(n, m->columns);
}

static tn_status eye_range(void *ctx, int64_t begin, int64_t end) {
  const matrices *m = ctx;
  for (int64_t i = begin; i < end; i++) {
    char *y = m->y + i * m->columns * m->size;
    const int64_t row = i % m->rows, at = below(m, row, 0);
    memset(y, 0, (size_t)(m->columns * m->size));
    if (below(m, row, 1) > at) memcpy(y + at * m->size, &m->one, (size_t)m->size);
  }
  return TN_OK;
}

static tn_status triangle_range(void *ctx, int64_t begin, int64_t end) {
  const matrices *m = ctx;
  for (int64_t i = begin; i < end; i++) {
    const int64_t row = i * m->columns * m->size;
    const int64_t cut = below(m, i % m->rows, !m->upper) * m->size, all = m->columns * m->size;
    const int64_t from = m->upper ? cut : 0, to = m->upper ? all : cut;
    memset(m->y + row, 0, (size_t)from);
    if (m->x != m->y) memcpy(m->y + row + from, m->x + row + from, (size_t)(to - from));
    memset(m->y + row + to, 0, (size_t)(all - to));
  }
  return TN_OK;
}

static tn_status run_matrices(const tn_kernel_args *args, matrices *m, tn_range_fn fn) {
  const DLTensor *y = args->out[0];
  const int64_t n = cpu_count(y);
  if (n == 0) return TN_OK;
  m->y = y->data;
  m->rows = y->shape[y->ndim - 2];
  m->columns = y->shape[y->ndim - 1];
  m->size = y->dtype.bits / 8;
  const int64_t rows = n / m->columns, grain = cpu_max(1, CPU_GRAIN_CHEAP / m->columns);
  if (rows <= grain) return fn(m, 0, rows);
  return args->host->parallel_for(args->host, rows, grain, fn, m);
}

tn_status ISA(eye_any)(const tn_kernel_args *args) {
  matrices m = {.diagonal = ((const tn_eye_attrs *)args->attrs)->diagonal};
  ISA(value_bits)(args->out[0]->dtype, 1, &m.one);
  return run_matrices(args, &m, eye_range);
}

tn_status ISA(tril_any)(const tn_kernel_args *args) {
  matrices m = {.x = args->in[0]->data};
  m.diagonal = ((const tn_tril_attrs *)args->attrs)->diagonal;
  return run_matrices(args, &m, triangle_range);
}

tn_status ISA(triu_any)(const tn_kernel_args *args) {
  matrices m = {.x = args->in[0]->data, .upper = true};
  m.diagonal = ((const tn_triu_attrs *)args->attrs)->diagonal;
  return run_matrices(args, &m, triangle_range);
}
