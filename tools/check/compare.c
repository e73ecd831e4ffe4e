/*
 * Judging outputs. Operators that sum are judged by relative norm, all others element by
 * element in units in the last place. The bound is the row's own tolerance, which holds
 * for float32; narrower types add the one rounding that storing them costs. In float64 the
 * reference has no wider type to compute in and backends use their vendors' functions (CUDA
 * documents up to 5 ULP, of erfc), so twice the bound and 2 ULP are allowed there.
 */
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cases/number.h"
#include "tenon/tenon.h"

bool compare_in_own_types(const tn_operator *op) { return op->flags & TN_OPERATOR_TYPED; }

/* Operators that leave the sign of a zero open. */
static bool zero_sign_is_open(const tn_operator *op) {
  return op->flags & TN_OPERATOR_ZERO_SIGN_OPEN || op->tolerance > 0;
}

static bool wide_reference(const output *got, const output *want) {
  return want->dtype == TN_F64 && got->dtype != TN_F64;
}

static double bound_ulp(const op_case *c, const output *got, const output *want) {
  double t = c->op->tolerance, scale = number_unit(TN_F32) / number_unit(got->dtype);
  if (t == 0) return 0;
  if (got->dtype == TN_F32) return wide_reference(got, want) ? t : t + 1;
  if (got->dtype == TN_F64) return 2 * t + 2;
  return (wide_reference(got, want) ? 0.5 : 1) + t * scale;
}

static double bound_norm(const op_case *c, const output *got, const output *want) {
  double t = c->op->tolerance, unit = number_unit(got->dtype);
  if (got->dtype == TN_F32) return t;
  if (got->dtype == TN_F64) return ldexp(t, -20);
  return t + (wide_reference(got, want) ? unit : 2 * unit);
}

static const void *element(const output *o, int64_t i) {
  return (const char *)o->data + (size_t)i * tn_dtype_size(o->dtype);
}

static void place_text(const output *o, int64_t i, char *text, size_t size) {
  int64_t at[TN_MAX_RANK];
  size_t used = 0;
  for (int32_t k = o->rank - 1; k >= 0; k--) {
    at[k] = i % o->shape[k];
    i /= o->shape[k];
  }
  text[0] = 0;
  for (int32_t k = 0; k < o->rank && used < size; k++)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", k ? "," : "", (long long)at[k]);
}

static bool differ(const output *got, int64_t i, double a, double b, judgement *j) {
  char place[120];
  place_text(got, i, place, sizeof place);
  snprintf(j->why, sizeof j->why,
           "element [%s] is %.17g, reference %.17g (error %.3g ULP, bound %.3g)", place, a, b,
           j->error, j->bound);
  return false;
}

static bool all_same_bits(const output *got, const output *want) {
  return got->dtype == want->dtype &&
         !memcmp(got->data, want->data, (size_t)got->elements * tn_dtype_size(got->dtype));
}

static bool same_ints(const output *got, const output *want, judgement *j) {
  if (all_same_bits(got, want)) return true;
  for (int64_t i = 0; i < got->elements; i++) {
    int64_t a = number_decode_int(got->dtype, element(got, i));
    int64_t b = number_decode_int(want->dtype, element(want, i));
    if (a == b) continue;
    char place[120];
    place_text(got, i, place, sizeof place);
    snprintf(j->why, sizeof j->why, "element [%s] is %lld, reference %lld", place, (long long)a,
             (long long)b);
    return false;
  }
  return true;
}

static bool same_bits(const output *got, const output *want, judgement *j) {
  if (all_same_bits(got, want)) return true;
  for (int64_t i = 0; i < got->elements; i++) {
    if (!memcmp(element(got, i), element(want, i), tn_dtype_size(got->dtype))) continue;
    j->error = INFINITY;
    return differ(got, i, number_decode(got->dtype, element(got, i)),
                  number_decode(want->dtype, element(want, i)), j);
  }
  return true;
}

/* An infinity stands one step above the greatest number, so that an overflow by rounding
 * counts as such. */
static double clamp(tn_dtype dtype, double v) {
  double top = number_greatest(dtype) + number_ulp(dtype, number_greatest(dtype));
  if (dtype == TN_F64) return v;
  return v > top ? top : v < -top ? -top : v;
}

static double error_ulp(tn_dtype dtype, double got, double want) {
  if (got == want) return 0;
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : INFINITY;
  double a = clamp(dtype, got), b = clamp(dtype, want);
  if (a == b) return 0;
  if (isinf(a) || isinf(b)) return INFINITY;
  double near = fabs(b) > number_greatest(dtype) ? number_greatest(dtype) : b;
  return fabs(a - b) / number_ulp(dtype, near);
}

/* Elements are decoded by blocks, both outputs alike. */
enum { BLOCK = 256 };

typedef struct block {
  int64_t begin, count;
  double got[BLOCK], want[BLOCK];
} block;

static bool next_block(const output *got, const output *want, block *b) {
  b->begin += b->count;
  b->count = got->elements - b->begin < BLOCK ? got->elements - b->begin : BLOCK;
  if (b->count <= 0) return false;
  number_decode_all(got->dtype, element(got, b->begin), b->count, b->got);
  number_decode_all(want->dtype, element(want, b->begin), b->count, b->want);
  return true;
}

static bool near_each(const op_case *c, const output *got, const output *want, judgement *j) {
  j->bound = bound_ulp(c, got, want);
  const bool signs = !zero_sign_is_open(c->op);
  block at = {.begin = 0};
  while (next_block(got, want, &at))
    for (int64_t i = 0; i < at.count; i++) {
      double a = at.got[i], b = at.want[i];
      if (a == b && a != 0) continue;
      if (j->bound == 0) b = number_round(got->dtype, b);
      double error = error_ulp(got->dtype, a, b);
      if (signs && a == 0 && b == 0 && signbit(a) != signbit(b)) error = INFINITY;
      if (error > j->error) j->error = error;
      if (!(error <= j->bound)) return differ(got, at.begin + i, a, b, j);
    }
  return true;
}

/* What is summed up over all elements. */
typedef struct deviation {
  double error, norm; /* sums of squares */
  double worst;
  int64_t where;
} deviation;

/* False where a NaN or an infinity stands against something else. */
static bool add_deviation(const output *got, const block *at, double greatest, deviation *sum,
                          judgement *j) {
  for (int64_t i = 0; i < at->count; i++) {
    double a = at->got[i], b = at->want[i];
    double r = fabs(b) <= greatest ? b : number_round(got->dtype, b); /* to an infinity? */
    if (isnan(a) != isnan(r) || (isinf(a) || isinf(r) ? !isnan(a) && a != r : false)) {
      j->error = INFINITY;
      return differ(got, at->begin + i, a, b, j);
    }
    if (isnan(a) || isinf(a)) continue;
    double d = fabs(a - b);
    sum->error += d * d;
    sum->norm += b * b;
    if (d > sum->worst) sum->worst = d, sum->where = at->begin + i;
  }
  return true;
}

static bool near_norm(const op_case *c, const output *got, const output *want, judgement *j) {
  const double greatest = number_greatest(got->dtype);
  deviation sum = {.worst = -1};
  block at = {.begin = 0};
  j->bound = bound_norm(c, got, want);
  while (next_block(got, want, &at))
    if (!add_deviation(got, &at, greatest, &sum, j)) return false;
  double error = sqrt(sum.error), norm = sqrt(sum.norm);
  double floor = sqrt((double)got->elements) * number_least(got->dtype);
  if (error > floor) j->error = norm > 0 ? (error - floor) / norm : INFINITY;
  if (error <= j->bound * norm + floor) return true;
  char place[120];
  place_text(got, sum.where, place, sizeof place);
  snprintf(j->why, sizeof j->why,
           "relative norm of the error %.3g, bound %.3g; worst at [%s]: %.9g, reference %.9g",
           error / norm, j->bound, place, number_decode(got->dtype, element(got, sum.where)),
           number_decode(want->dtype, element(want, sum.where)));
  return false;
}

bool compare_outputs(const op_case *c, const output *got, const output *want, judgement *j) {
  bool same_shape = got->rank == want->rank && got->elements == want->elements;
  *j = (judgement){0};
  for (int32_t i = 0; same_shape && i < got->rank; i++)
    same_shape = got->shape[i] == want->shape[i];
  if (!same_shape) return snprintf(j->why, sizeof j->why, "shapes differ"), false;
  if (!number_is_float(got->dtype)) return same_ints(got, want, j);
  if (c->op->id == TN_OP_COPY) return same_bits(got, want, j);
  if (c->op->flags & TN_OPERATOR_ACCUMULATES) return near_norm(c, got, want, j);
  return near_each(c, got, want, j);
}
