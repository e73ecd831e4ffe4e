/*
 * The numbers of a case. Each element's number depends on the seed, the argument and
 * the element's place alone, so that a failing case can be drawn again and tensors of
 * any layout get the same numbers.
 */
#include <math.h>
#include <string.h>

#include "number.h"
#include "op_case.h"

/* Results judged by relative norm need inputs that do not cancel: arguments whose
 * numbers are drawn from a narrower range than usual. */
typedef struct domain {
  uint32_t op, arg;
  double low, high;             /* in tensors of up to SMALL elements */
  double large_low, large_high; /* in larger ones */
} domain;
enum { SMALL = 200 };

static const domain domains[] = {
    {TN_OP_GELU, 0, -1, 8, -8, 8},          {TN_OP_SIGMOID_GRAD, 1, 0, 1, 0, 1},
    {TN_OP_TANH_GRAD, 1, -0.9, 0.9, -1, 1}, {TN_OP_GELU_GRAD, 1, 0, 8, -8, 8},
    {TN_OP_SOFTMAX_GRAD, 1, 0, 0.5, 0, 1},  {TN_OP_LOG_SOFTMAX_GRAD, 1, -8, 0, -8, 0},
    {TN_OP_NLL_LOSS, 0, -8, 0, -8, 0},      {TN_OP_CROSS_ENTROPY, 0, -1, 1, -3, 3},
    {TN_OP_ADAM_STEP, 3, 0.01, 1, 0.01, 1}, {TN_OP_SOFTMAX, 0, -8, 8, -8, 8},
    {TN_OP_LOG_SOFTMAX, 0, -8, 8, -8, 8},
};

static uint64_t mix(uint64_t x) { /* splitmix64 */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static double unit(uint64_t random) { return ldexp((double)(random >> 11), -53); }

static bool has_specials(value_kind v) {
  return v == VALUES_SPECIAL || v == VALUES_SPARSE || v == VALUES_BITS || v == VALUES_WIDE;
}

static const domain *domain_find(const op_case *c, uint32_t arg) {
  for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
    if (domains[i].op == c->op->id && domains[i].arg == arg) return &domains[i];
  return NULL;
}

static double plain(const op_case *c, uint32_t arg, double u) {
  const domain *d = domain_find(c, arg);
  bool small = case_elements(&c->arg[arg]) <= SMALL;
  if (d)
    return small ? d->low + (d->high - d->low) * u
                 : d->large_low + (d->large_high - d->large_low) * u;
  if (c->op->flags & TN_OPERATOR_ACCUMULATES) return -0.25 + 1.25 * u;
  return 2 * u - 1;
}

static double special(tn_dtype dtype, uint64_t pick) {
  double least = number_least(dtype), greatest = number_greatest(dtype);
  double normal = ldexp(least, dtype == TN_F16 ? 10 : dtype == TN_BF16 ? 7 : 23);
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
  int span = dtype == TN_F16 ? 10 : 20;
  int exponent = (int)(random % (2 * (unsigned)span + 1)) - span;
  double size = ldexp(1 + unit(mix(random)), exponent);
  return random >> 63 ? -size : size;
}

static double draw_float(const op_case *c, uint32_t arg, tn_dtype dtype, uint64_t random) {
  double u = unit(random);
  bool fixed = domain_find(c, arg) && !(c->op->num_args == 2);
  switch (fixed && has_specials(c->values) ? VALUES_PLAIN : c->values) {
  case VALUES_RANGE:
    return domain_find(c, arg) ? plain(c, arg, u) : 16 * u - 8;
  case VALUES_EXP:
    return 205 * u - 110;
  case VALUES_WIDE:
    return wide(dtype, random);
  case VALUES_SPECIAL:
    return random & 1 ? special(dtype, mix(random)) : wide(dtype, random);
  case VALUES_SPARSE:
    return sparse(mix(random), plain(c, arg, u));
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
    return (int64_t)mix(random);
  case VALUES_SPECIAL:
    return extremes[random % 6];
  case VALUES_TIES:
    return (int64_t)(random % 3);
  default:
    return number_is_signed(dtype) ? small - 9 : small;
  }
}

/* A class, now and then outside the classes where the values are sparse. */
static int64_t draw_target(const op_case *c, tn_dtype dtype, uint64_t random) {
  uint32_t x = c->op->shape == TN_SHAPE_CLASS_LOSS_GRAD ? 1 : 0;
  int64_t classes = c->arg[x].shape[1];
  const int64_t outside[] = {-1, classes, number_min_int(dtype), number_max_int(dtype)};
  if (classes == 0 || (c->values == VALUES_SPARSE && random % 8 == 0))
    return outside[random / 8 % 4];
  return (int64_t)(random % (uint64_t)classes);
}

/* An element that lies in the window, as max_pool2d might have chosen it. */
static int64_t draw_index(const op_case *c, const int64_t *at, uint64_t random) {
  int64_t place[2];
  for (int i = 0; i < 2; i++) {
    int64_t kernel = (int64_t)case_get(c, "kernel", i), size = (int64_t)case_get(c, "size", i);
    int64_t stride = (int64_t)case_get(c, "stride", i), pad = (int64_t)case_get(c, "padding", i);
    int64_t begin = at[2 + i] * (stride ? stride : kernel) - pad, end = begin + kernel;
    if (begin < 0) begin = 0;
    if (end > size) end = size;
    random = mix(random);
    place[i] = begin + (int64_t)(random % (uint64_t)(end - begin));
  }
  return place[0] * (int64_t)case_get(c, "size", 1) + place[1];
}

static bool is_index(const op_case *c, uint32_t arg) {
  return c->op->args[arg].type == TN_TYPE_FIXED(TN_I32);
}

static bool is_target(const op_case *c, uint32_t arg) {
  uint8_t type = c->op->args[arg].type;
  return !(type & 0x40) && c->op->types[type] == TN_SET_INDEX;
}

static void draw(const op_case *c, uint32_t arg, const int64_t *at, uint64_t place, void *element) {
  tn_dtype dtype = case_dtype(c, arg);
  uint64_t random = mix(mix(c->seed * 16 + arg) ^ place);
  if (is_index(c, arg))
    number_encode_int(dtype, draw_index(c, at, random), element);
  else if (is_target(c, arg))
    number_encode_int(dtype, draw_target(c, dtype, random), element);
  else if (dtype == TN_BOOL)
    number_encode_int(dtype, (int64_t)(random & 1), element);
  else if (!number_is_float(dtype))
    number_encode_int(dtype, draw_int(c, dtype, random), element);
  else if (c->values == VALUES_BITS && !domain_find(c, arg))
    number_encode_int(
        dtype, tn_dtype_size(dtype) == 2 && arg == 0 ? (int64_t)place : (int64_t)random, element);
  else
    number_encode(dtype, draw_float(c, arg, dtype, random), element);
}

void case_fill(const op_case *c, uint32_t arg, void *data) {
  const case_arg *a = &c->arg[arg];
  size_t size = tn_dtype_size(case_dtype(c, arg));
  int64_t at[TN_MAX_RANK] = {0}, n = case_elements(a);
  for (int64_t i = 0; i < n; i++) {
    uint64_t place = 0;
    for (int32_t k = 0; k < a->rank; k++)
      place = a->expanded >> k & 1 ? place : place * (uint64_t)a->shape[k] + (uint64_t)at[k];
    draw(c, arg, at, place, (char *)data + (size_t)i * size);
    for (int32_t k = a->rank - 1; k >= 0 && ++at[k] == a->shape[k]; k--) at[k] = 0;
  }
}
