/* Numbers as element types hold them; see number.h. */
#include "dispatcher/composite/number.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "dispatcher/base/error.h"

/* --- integers --- */

static bool is_integer(tn_dtype dtype) { return TN_SET_INT & TN_SET(dtype); }

static void integer_range(tn_dtype dtype, int64_t *low, int64_t *high) {
  int bits = 8 * (int)tn_dtype_size(dtype);
  *high = dtype == TN_U8 ? 255 : INT64_MAX >> (64 - bits);
  *low = dtype == TN_U8 ? 0 : -*high - 1;
}

/* Whether a float64 is a whole number that int64_t holds. NaN is none. */
static bool is_whole(double f) { return f >= -0x1p63 && f < 0x1p63 && (double)(int64_t)f == f; }

tn_status number_check(const char *function, tn_dtype dtype, number n) {
  if (!is_integer(dtype)) return TN_OK;
  if (!n.whole && !is_whole(n.f))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "%s: %s has no %.17g; give a whole number in its range, or use a float type",
                function, tn_dtype_name(dtype), n.f);
  int64_t low, high, i = n.whole ? n.i : (int64_t)n.f;
  integer_range(dtype, &low, &high);
  if (i < low || i > high)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "%s: %" PRId64 " does not fit %s, which holds %" PRId64 " to %" PRId64, function, i,
                tn_dtype_name(dtype), low, high);
  return TN_OK;
}

/* --- floats --- */

/* To float64 rounded to odd, from which rounding to a type of 51 bits or less is right. */
static double to_odd(int64_t i) {
  double d = (double)i;
  bool exact = d < 0x1p63 && (int64_t)d == i;
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  if (exact || bits & 1) return d;
  bool away = d >= 0x1p63 || (i > 0 ? (int64_t)d > i : (int64_t)d < i);
  bits = away ? bits - 1 : bits + 1; /* the neighbour on the other side of i is odd */
  memcpy(&d, &bits, sizeof d);
  return d;
}

bool number_as_f64(tn_dtype dtype, number n, double *out) {
  if (!n.whole) return *out = n.f, true;
  *out = dtype == TN_F64 ? (double)n.i : to_odd(n.i);
  return !is_integer(dtype) || (*out < 0x1p63 && (int64_t)*out == n.i);
}

/* A binary type of 16 or 8 bits: its bits of fraction, the bias of its exponent, and what follows
 * its largest number: infinity, of E4M3 NaN. */
typedef struct narrow {
  int fraction, bias;
  uint16_t infinity;
} narrow;
static const narrow narrow_f16 = {10, 15, 0x7c00}, narrow_bf16 = {7, 127, 0x7f80};
static const narrow narrow_e4m3 = {3, 7, 0x7f}, narrow_e5m2 = {2, 15, 0x7c};

/* Without its sign. pre: x is not NaN. */
static uint16_t narrow_size(narrow t, double x) {
  uint64_t bits, whole = (uint64_t)1 << 52;
  memcpy(&bits, &x, sizeof bits);
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  if (exponent > ((t.infinity - 1) >> t.fraction) - t.bias) return t.infinity;
  bool small = exponent < 1 - t.bias;
  int drop = 52 - t.fraction + (small ? 1 - t.bias - exponent : 0);
  if (drop > 54) return 0; /* less than half of the least number, float64's own too */
  uint64_t digits = whole | (bits & (whole - 1)), half = (uint64_t)1 << (drop - 1);
  uint64_t kept = digits >> drop, rest = digits & (2 * half - 1);
  if (rest > half || (rest == half && kept & 1)) ++kept;
  uint32_t base = small ? 0 : (uint32_t)(exponent + t.bias - 1) << t.fraction;
  uint32_t value = base + (uint32_t)kept; /* a carry, or the leading 1, raises the exponent */
  return value < t.infinity ? (uint16_t)value : t.infinity;
}

static uint16_t narrow_of(narrow t, double x) {
  const uint16_t nan = (uint16_t)(t.infinity | 1u << (t.fraction - 1));
  return (uint16_t)((signbit(x) ? 0x8000 : 0) | (x != x ? nan : narrow_size(t, x)));
}

/* Saturates, as tn_cast does. */
static uint8_t f8_of(narrow t, double x) {
  if (x != x) return 0x7f;
  const uint16_t size = narrow_size(t, x), most = (uint16_t)(t.infinity - 1);
  return (uint8_t)((signbit(x) ? 0x80 : 0) | (size < most ? size : most));
}

static double f16_as_f64(uint16_t h) {
  uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
  double x = (double)fraction * 0x1p-24;
  if (exponent) {
    uint64_t bits = (uint64_t)(exponent == 31 ? 0x7ff : exponent + 1008) << 52 | (uint64_t)fraction
                                                                                     << 42;
    memcpy(&x, &bits, sizeof x);
  }
  return h >> 15 ? -x : x;
}

static double bf16_as_f64(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return (double)x;
}

/* An E5M2 is the upper half of an f16; an E4M3 is 256 times the f16 with its fields. */
static double f8_as_f64(tn_dtype dtype, uint8_t b) {
  if (dtype == TN_F8_E5M2) return f16_as_f64((uint16_t)(b << 8));
  if ((b & 0x7f) == 0x7f) return (double)NAN;
  return 256 * f16_as_f64((uint16_t)((b & 0x80) << 8 | (b & 0x7f) << 7));
}

/* --- elements --- */

static void store_float(tn_dtype dtype, double x, void *element) {
  const float single = (float)x;
  uint16_t half;
  switch (dtype) {
  case TN_F64:
    memcpy(element, &x, sizeof x);
    return;
  case TN_F32:
    memcpy(element, &single, sizeof single);
    return;
  case TN_F8_E4M3:
    *(uint8_t *)element = f8_of(narrow_e4m3, x);
    return;
  case TN_F8_E5M2:
    *(uint8_t *)element = f8_of(narrow_e5m2, x);
    return;
  default:
    half = narrow_of(dtype == TN_F16 ? narrow_f16 : narrow_bf16, x);
    memcpy(element, &half, sizeof half);
  }
}

void number_store(tn_dtype dtype, number n, void *element) {
  double x;
  if ((TN_SET_FLOAT | TN_SET_F8) & TN_SET(dtype)) {
    (void)number_as_f64(dtype, n, &x);
    store_float(dtype, x, element);
    return;
  }
  int64_t i = n.whole ? n.i : dtype == TN_BOOL ? n.f != 0 : (int64_t)n.f;
  if (dtype == TN_BOOL) i = i != 0;
  int8_t i8 = (int8_t)i;
  int16_t i16 = (int16_t)i;
  int32_t i32 = (int32_t)i;
  size_t size = tn_dtype_size(dtype);
  const void *from = size == 1   ? (const void *)&i8
                     : size == 2 ? (const void *)&i16
                     : size == 4 ? (const void *)&i32
                                 : (const void *)&i;
  memcpy(element, from, size);
}

static number whole_number(int64_t i) { return (number){.whole = true, .i = i}; }
static number real_number(double f) { return (number){.f = f}; }

number number_load(tn_dtype dtype, const void *element) {
  union {
    uint8_t u8;
    int8_t i8;
    int16_t i16;
    uint16_t half;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
  } e;
  memcpy(&e, element, tn_dtype_size(dtype));
  switch (dtype) {
  case TN_BOOL:
    return whole_number(e.u8 != 0);
  case TN_U8:
    return whole_number(e.u8);
  case TN_I8:
    return whole_number(e.i8);
  case TN_I16:
    return whole_number(e.i16);
  case TN_I32:
    return whole_number(e.i32);
  case TN_F16:
    return real_number(f16_as_f64(e.half));
  case TN_BF16:
    return real_number(bf16_as_f64(e.half));
  case TN_F32:
    return real_number((double)e.f32);
  case TN_F64:
    return real_number(e.f64);
  case TN_F8_E4M3:
  case TN_F8_E5M2:
    return real_number(f8_as_f64(dtype, e.u8));
  default:
    return whole_number(e.i64);
  }
}
