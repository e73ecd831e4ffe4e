/*
 * The numbers of a case. Each element's number depends on the seed, the argument and
 * the element's place alone, so that a failing case can be drawn again and tensors of
 * any layout get the same numbers.
 */
#include <math.h>
#include <string.h>

#include "number.h"
#include "op_case.h"

uint64_t case_mix(uint64_t x) { /* splitmix64 */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static double unit(uint64_t random) { return (double)(random >> 11) * 0x1p-53; }

static bool has_specials(value_kind v) {
  return v == VALUES_SPECIAL || v == VALUES_SPARSE || v == VALUES_BITS || v == VALUES_WIDE;
}

/* Whether the schema says where the argument's numbers are drawn from. */
static bool has_domain(const op_case *c, uint32_t arg) {
  return c->op->args[arg].low != c->op->args[arg].high;
}

static double plain(const op_case *c, uint32_t arg, double u) {
  const tn_arg *a = &c->op->args[arg];
  if (has_domain(c, arg)) return a->low + (a->high - a->low) * u;
  if (c->op->flags & TN_OPERATOR_ACCUMULATES) return -0.25 + 1.25 * u;
  return 2 * u - 1;
}

static double special(tn_dtype dtype, uint64_t pick) {
  if (dtype == TN_F64 && pick >> 63) return near_tie_float(case_mix(pick));
  double least = number_least(dtype), greatest = number_greatest(dtype);
  double normal = least * (dtype == TN_F16       ? 0x1p10
                           : dtype == TN_BF16    ? 0x1p7
                           : dtype == TN_F8_E4M3 ? 0x1p3
                           : dtype == TN_F8_E5M2 ? 0x1p2
                                                 : 0x1p23);
  const double list[] = {0.0,        -0.0,
                         INFINITY,   -INFINITY,
                         NAN,        least,
                         -least,     greatest,
                         -greatest,  1,
                         -1,         normal,
                         -normal,    0.5,
                         3 * least,  5 * least,
                         88.72,      -87.33,
                         -103.97,    -0.7518,
                         2.5,        normal * 0.75,
                         -7 * least, 1e-3,
                         -1e-3,      number_unit(dtype)};
  return list[pick % (sizeof list / sizeof *list)];
}

static double sparse(uint64_t random, double otherwise) {
  static const double list[] = {INFINITY, -INFINITY, NAN, 0, 0, -0.0, 0, INFINITY};
  return random % 16 ? otherwise : list[random / 16 % 8];
}

static double wide(tn_dtype dtype, uint64_t random) {
  int span = dtype == TN_F16 ? 10 : TN_SET(dtype) & TN_SET_F8 ? 8 : 20;
  int exponent = (int)(random % (2 * (unsigned)span + 1)) - span;
  double power = exponent < 0 ? 1.0 / (double)(1 << -exponent) : (double)(1 << exponent);
  double size = (1 + unit(case_mix(random))) * power;
  return random >> 63 ? -size : size;
}

static double far(const op_case *c, tn_dtype dtype, double u) {
  const double mean = dtype == TN_F16 ? 1000 : 1e5, steps = tn_dtype_size(dtype) == 2 ? 8 : 512;
  const double x = mean + (u - 0.5) * steps * number_ulp(dtype == TN_F64 ? TN_F32 : dtype, mean);
  return c->seed & 1 ? -x : x;
}

/* Whole numbers that follow each other with opposite signs; a factor of them is small. */
static double cancelling(const op_case *c, uint32_t arg, tn_dtype dtype, uint64_t random,
                         uint64_t place) {
  const bool scores = c->op->id == TN_OP_SCALED_DOT_PRODUCT_ATTENTION;
  const double whole = (double)(random % (scores ? 11 : dtype == TN_F16 ? 201 : 4001));
  if (arg > 0 && !scores) return (double)(random % 5) - 2;
  return place & 1 ? -whole : whole;
}

/* A power of two that the type holds; the products of both inputs are whole numbers. */
static double scaled(uint32_t arg, tn_dtype dtype, uint64_t random) {
  const double whole = (double)(random % 5) - 2, power = dtype == TN_F16 ? 0x1p10 : 0x1p60;
  return arg == 0 ? whole * power : arg == 1 ? whole / power : whole;
}

/* The kinds that extreme.c asks for. */
static double extreme(const op_case *c, uint32_t arg, tn_dtype dtype, uint64_t random,
                      uint64_t place) {
  const double u = unit(random), sign = 2 * u - 1;
  switch (c->values) {
  case VALUES_FAR:
    return far(c, dtype, u);
  case VALUES_LOGITS:
    return sign * 1e4;
  case VALUES_HUGE:
    return sign * (dtype == TN_F16 ? 3e4 : 1e20);
  case VALUES_TINY:
    return sign * (dtype == TN_F16 ? 0x1p-14 : 1e-25);
  case VALUES_DENORMAL:
    return sign * 1000 * number_least(dtype);
  case VALUES_CANCEL:
    return cancelling(c, arg, dtype, random, place);
  case VALUES_TWO_SCALES:
    return scaled(arg, dtype, random);
  default:
    return ldexp(-0.25 + 1.25 * u, -5);
  }
}

/* Whether a kind of extreme.c is meant for the argument. */
static bool bears(const op_case *c, uint32_t arg) {
  const bool factor = c->values == VALUES_CANCEL || c->values == VALUES_TWO_SCALES;
  const bool gradient = c->op->id == TN_OP_CROSS_ENTROPY_GRAD;
  if (c->values == VALUES_FINE) return arg_is_input(&c->op->args[arg]);
  return factor ? arg <= 2 : arg == gradient;
}

static double draw_float(const op_case *c, uint32_t arg, tn_dtype dtype, uint64_t random,
                         uint64_t place) {
  double u = unit(random);
  if (c->values == VALUES_WEIGHTED && arg == 0) return (double)(random % 17) - 8;
  if (c->values >= VALUES_POSITIVE) return has_domain(c, arg) ? plain(c, arg, u) : 0.5 + 1.5 * u;
  if (c->values >= VALUES_FAR)
    return bears(c, arg) ? extreme(c, arg, dtype, random, place) : plain(c, arg, u);
  bool fixed = has_domain(c, arg) && !(c->op->num_args == 2);
  switch (fixed && has_specials(c->values) ? VALUES_PLAIN : c->values) {
  case VALUES_RANGE:
    return has_domain(c, arg) ? plain(c, arg, u) : 16 * u - 8;
  case VALUES_EXP:
    return 205 * u - 110;
  case VALUES_WIDE:
    return wide(dtype, random);
  case VALUES_SPECIAL:
    return random & 1 ? special(dtype, case_mix(random)) : wide(dtype, random);
  case VALUES_SPARSE:
    return sparse(case_mix(random), plain(c, arg, u));
  case VALUES_TIES:
    return (double)(random % 5) - 2;
  default:
    return plain(c, arg, u);
  }
}

static int64_t draw_int(const op_case *c, tn_dtype dtype, uint64_t random) {
  const int64_t extremes[] = {number_min_int(dtype), number_max_int(dtype), -1, 0, 1, 2};
  int64_t small = (int64_t)(random % 19);
  switch (c->values) {
  case VALUES_WIDE:
  case VALUES_BITS:
    return (int64_t)case_mix(random);
  case VALUES_SPECIAL:
    return random >> 32 & 1 ? near_tie_int(dtype, case_mix(random)) : extremes[random % 6];
  case VALUES_TIES:
    return (int64_t)(random % 3);
  case VALUES_NEAR_MOST:
    return tn_dtype_size(dtype) > 2 ? (1 << 20) + small : number_max_int(dtype) - small % 3;
  default:
    return number_is_signed(dtype) ? small - 9 : small;
  }
}

/* What all elements of an argument share. */
typedef struct source {
  const op_case *c;
  uint32_t arg;
  tn_dtype dtype;
  uint64_t key; /* of the argument's random numbers */
  bool floats, bits, in_turn;
} source;

static source source_of(const op_case *c, uint32_t arg) {
  source s = {.c = c, .arg = arg, .dtype = case_dtype(c, arg)};
  s.key = case_mix(c->seed * 16 + arg);
  s.floats = number_is_float(s.dtype);
  s.bits = c->values == VALUES_BITS && !has_domain(c, arg);
  s.in_turn = arg == 0 && tn_dtype_size(s.dtype) <= 2;
  return s;
}

static void draw(const source *s, const int64_t *at, uint64_t place, void *element) {
  const op_case *c = s->c;
  uint64_t random = case_mix(s->key ^ place);
  if (c->arg[s->arg].index)
    number_encode_int(s->dtype, c->arg[s->arg].index(c, s->arg, at, random), element);
  else if (s->dtype == TN_BOOL)
    number_encode_int(s->dtype, (int64_t)(random & 1), element);
  else if (!s->floats)
    number_encode_int(s->dtype, draw_int(c, s->dtype, random), element);
  else if (s->bits)
    number_encode_int(s->dtype, (int64_t)(s->in_turn ? place : random), element);
  else
    number_encode(s->dtype, draw_float(c, s->arg, s->dtype, random, place), element);
}

/* Most numbers are these: as draw() does, without the questions that all elements answer alike. */
static void fill_plain(const source *s, int64_t n, char *data) {
  const size_t size = tn_dtype_size(s->dtype);
  for (int64_t i = 0; i < n; i++) {
    const double value = plain(s->c, s->arg, unit(case_mix(s->key ^ (uint64_t)i)));
    const float single = (float)value;
    if (s->dtype == TN_F32)
      memcpy(data + (size_t)i * size, &single, sizeof single);
    else
      number_encode(s->dtype, value, data + (size_t)i * size);
  }
}

void case_fill_part(const op_case *c, uint32_t arg, int64_t first, int64_t count, void *data) {
  const case_arg *a = &c->arg[arg];
  const source s = source_of(c, arg);
  size_t size = tn_dtype_size(s.dtype);
  int64_t at[TN_MAX_RANK] = {0}, ahead = first;
  for (int32_t k = a->rank - 1; k >= 0 && count > 0; ahead /= a->shape[k--])
    at[k] = ahead % a->shape[k];
  for (int64_t i = 0; i < count; i++) {
    uint64_t place = a->expanded ? 0 : (uint64_t)(first + i);
    for (int32_t k = 0; k < a->rank && a->expanded; k++)
      place = a->expanded >> k & 1 ? place : place * (uint64_t)a->shape[k] + (uint64_t)at[k];
    draw(&s, at, place, (char *)data + (size_t)i * size);
    for (int32_t k = a->rank - 1; k >= 0 && ++at[k] == a->shape[k]; k--) at[k] = 0;
  }
}

void case_fill(const op_case *c, uint32_t arg, void *data) {
  const case_arg *a = &c->arg[arg];
  const source s = source_of(c, arg);
  if (s.floats && c->values == VALUES_PLAIN && !a->expanded && !a->index)
    fill_plain(&s, case_elements(a), data);
  else
    case_fill_part(c, arg, 0, case_elements(a), data);
}
