/*
 * Device code: what a vendor's compiler would compile for the chip (a .cl, .cu or .hlsl file).
 * It reaches the chip's memory, by chip_reach, and nothing else. Plain on purpose: the
 * arithmetic is double, or 64-bit integers that wrap, and one element is looked at at a time.
 */
#include "programs.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- elements --- */

static bool is_integer(tn_dtype dtype) { return dtype == TN_I32 || dtype == TN_I64; }

/* bfloat16 is the upper half of a float; to nearest, ties to even. */
static uint16_t bfloat_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double load(tn_dtype dtype, const char *at) {
  double wide = 0;
  float value = 0;
  uint32_t bits = 0;
  uint16_t half = 0;
  if (dtype == TN_F64) return memcpy(&wide, at, 8), wide;
  if (dtype == TN_F32) return memcpy(&value, at, 4), (double)value;
  memcpy(&half, at, 2);
  bits = (uint32_t)half << 16;
  return memcpy(&value, &bits, 4), (double)value;
}

static void store(tn_dtype dtype, char *at, double wide) {
  float value = (float)wide;
  uint16_t half = bfloat_of(value);
  if (dtype == TN_F64)
    memcpy(at, &wide, 8);
  else if (dtype == TN_F32)
    memcpy(at, &value, 4);
  else
    memcpy(at, &half, 2);
}

/* Unsigned, so that it wraps. */
static uint64_t load_integer(tn_dtype dtype, const char *at) {
  int64_t wide = 0;
  int32_t value = 0;
  if (dtype == TN_I64) return memcpy(&wide, at, 8), (uint64_t)wide;
  return memcpy(&value, at, 4), (uint64_t)(int64_t)value;
}

static void store_integer(tn_dtype dtype, char *at, uint64_t value) {
  uint32_t low = (uint32_t)value;
  memcpy(at, dtype == TN_I64 ? (const void *)&value : &low, dtype == TN_I64 ? 8 : 4);
}

/* ---------------------------------------------------------------- walking ---- */

/* A place in a tensor, moved on element by element, the last axis fastest. */
typedef struct cursor {
  const sim_view *view;
  char *at; /* NULL in a tensor without elements */
  int64_t bytes, index[TN_MAX_RANK];
} cursor;

static int64_t count_of(const sim_view *v) {
  int64_t n = 1;
  for (int32_t i = 0; i < v->rank; ++i) n *= v->shape[i];
  return n;
}

/* False where the tensor leaves the chip's memory: the fault that hardware would find. */
static bool begin(chip *c, const sim_view *v, cursor *out) {
  int64_t size = (int64_t)tn_dtype_size(v->dtype), low = 0, high = size;
  *out = (cursor){.view = v, .bytes = size};
  if (count_of(v) == 0) return true;
  for (int32_t i = 0; i < v->rank; ++i) {
    int64_t reach = (v->shape[i] - 1) * v->strides[i] * size;
    if (reach < 0)
      low -= reach;
    else
      high += reach;
  }
  out->at = chip_reach(c, v->data, low, high);
  return out->at != NULL;
}

static void advance(cursor *c) {
  const sim_view *v = c->view;
  for (int32_t i = v->rank - 1; i >= 0; --i) {
    c->at += v->strides[i] * c->bytes;
    if (++c->index[i] < v->shape[i]) return;
    c->at -= v->shape[i] * v->strides[i] * c->bytes;
    c->index[i] = 0;
  }
}

/* ------------------------------------------------------------- elementwise --- */

typedef double real_function(double a, double b);
typedef uint64_t whole_function(uint64_t a, uint64_t b);

static bool map(chip *c, const sim_map_params *p, real_function *real, whole_function *whole) {
  cursor y, a, b;
  tn_dtype dtype = p->y.dtype;
  if (!begin(c, &p->y, &y) || !begin(c, &p->a, &a) || !begin(c, &p->b, &b)) return false;
  for (int64_t n = count_of(&p->y); n > 0; --n, advance(&y), advance(&a), advance(&b)) {
    if (is_integer(dtype))
      store_integer(dtype, y.at, whole(load_integer(dtype, a.at), load_integer(dtype, b.at)));
    else
      store(dtype, y.at, real(load(dtype, a.at), load(dtype, b.at)));
  }
  return true;
}

static double add(double a, double b) { return a + b; }
static double sub(double a, double b) { return a - b; }
static double mul(double a, double b) { return a * b; }
static double relu(double a, double b) { return (void)b, a < 0 ? 0 : a; } /* NaN passes */
static double exponential(double a, double b) { return (void)b, exp(a); }
static uint64_t whole_add(uint64_t a, uint64_t b) { return a + b; }
static uint64_t whole_sub(uint64_t a, uint64_t b) { return a - b; }
static uint64_t whole_mul(uint64_t a, uint64_t b) { return a * b; }
static uint64_t whole_relu(uint64_t a, uint64_t b) { return (void)b, (int64_t)a < 0 ? 0 : a; }

bool sim_program_add(chip *c, const void *params) { return map(c, params, add, whole_add); }
bool sim_program_sub(chip *c, const void *params) { return map(c, params, sub, whole_sub); }
bool sim_program_mul(chip *c, const void *params) { return map(c, params, mul, whole_mul); }
bool sim_program_relu(chip *c, const void *params) { return map(c, params, relu, whole_relu); }
bool sim_program_exp(chip *c, const void *params) { return map(c, params, exponential, NULL); }

/* ------------------------------------------------------------ moving bytes --- */

bool sim_program_copy(chip *c, const void *params) {
  const sim_map_params *p = params;
  cursor y, x;
  if (!begin(c, &p->y, &y) || !begin(c, &p->a, &x)) return false;
  for (int64_t n = count_of(&p->y); n > 0; --n, advance(&y), advance(&x))
    memmove(y.at, x.at, (size_t)y.bytes);
  return true;
}

bool sim_program_fill(chip *c, const void *params) {
  const sim_fill_params *p = params;
  cursor y;
  if (!begin(c, &p->y, &y)) return false;
  for (int64_t n = count_of(&p->y); n > 0; --n, advance(&y))
    memcpy(y.at, &p->element, (size_t)y.bytes);
  return true;
}

/* --------------------------------------------------------------- reduction --- */

bool sim_program_sum(chip *c, const void *params) {
  const sim_sum_params *p = params;
  tn_dtype dtype = p->y.dtype;
  cursor y, x;
  if (!begin(c, &p->y, &y) || !begin(c, &p->x, &x)) return false;
  for (int64_t n = count_of(&p->y); n > 0; --n, advance(&y)) {
    double sum = 0;
    uint64_t whole = 0;
    for (int64_t i = 0; i < p->count; ++i, advance(&x)) {
      if (is_integer(dtype))
        whole += load_integer(dtype, x.at);
      else
        sum += load(dtype, x.at);
    }
    if (is_integer(dtype))
      store_integer(dtype, y.at, whole);
    else
      store(dtype, y.at, sum);
  }
  return true;
}

/* ----------------------------------------------------------------- softmax --- */

static void softmax_row(const sim_softmax_params *p, char *y, const char *x, double *e) {
  int64_t step = p->x_stride * (int64_t)tn_dtype_size(p->x.dtype);
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < p->size; ++i) {
    e[i] = load(p->x.dtype, x + i * step);
    if (e[i] > most || e[i] != e[i]) most = e[i];
  }
  for (int64_t i = 0; i < p->size; ++i) sum += e[i] = exp(e[i] - most);
  step = p->y_stride * (int64_t)tn_dtype_size(p->y.dtype);
  for (int64_t i = 0; i < p->size; ++i) store(p->y.dtype, y + i * step, e[i] / sum);
}

/* The whole of a tensor whose last axis was taken off: that axis counts for the fault, too. */
static bool reaches(chip *c, sim_view v, int64_t size, int64_t stride) {
  cursor whole;
  v.shape[v.rank] = size;
  v.strides[v.rank++] = stride;
  return begin(c, &v, &whole);
}

bool sim_program_softmax(chip *c, const void *params) {
  const sim_softmax_params *p = params;
  cursor y, x;
  if (p->size == 0 || count_of(&p->y) == 0) return true;
  double *scratch = chip_reach(c, p->scratch, 0, p->size * (int64_t)sizeof(double));
  if (!scratch || !reaches(c, p->y, p->size, p->y_stride) ||
      !reaches(c, p->x, p->size, p->x_stride) || !begin(c, &p->y, &y) || !begin(c, &p->x, &x))
    return false;
  for (int64_t n = count_of(&p->y); n > 0; --n, advance(&y), advance(&x))
    softmax_row(p, y.at, x.at, scratch);
  return true;
}

/* ----------------------------------------------------------- matrix product --- */

/* One element of y: the row and the column begin where the cursors of a and b stand. */
static double dot(cursor *a, cursor *b, int64_t size) {
  double sum = 0;
  for (int64_t k = 0; k < size; ++k, advance(a), advance(b))
    sum += load(a->view->dtype, a->at) * load(b->view->dtype, b->at);
  return sum;
}

bool sim_program_matmul(chip *c, const void *params) {
  const sim_matmul_params *p = params;
  cursor y, a, b, bias = {0};
  if (!begin(c, &p->y, &y) || !begin(c, &p->a, &a) || !begin(c, &p->b, &b)) return false;
  if (p->has_bias && !begin(c, &p->bias, &bias)) return false;
  int64_t size = p->a.shape[p->a.rank - 1];
  for (int64_t n = count_of(&p->y); n > 0; --n, advance(&y)) {
    double sum = dot(&a, &b, size);
    if (p->has_bias) sum += load(p->bias.dtype, bias.at), advance(&bias);
    store(p->y.dtype, y.at, p->relu ? relu(sum, 0) : sum);
  }
  return true;
}
