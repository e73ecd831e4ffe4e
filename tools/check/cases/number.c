/*
 * Elements of every type as numbers. The float types are described by two figures, their
 * digits and the exponent of their least number, so that one rounding serves them all
 * and shares no code with the kernels under test.
 */
#include "number.h"

#include <math.h>
#include <string.h>

typedef struct format {
  int digits; /* of the significand, the hidden bit included */
  int least;  /* exponent of the least denormal number */
  int top;    /* all numbers are below 2^top */
} format;

static format format_of(tn_dtype dtype) {
  static const format formats[] = {
      [TN_F16] = {11, -24, 16},     [TN_BF16] = {8, -133, 128}, [TN_F32] = {24, -149, 128},
      [TN_F64] = {53, -1074, 1024}, [TN_F8_E4M3] = {4, -9, 9},  [TN_F8_E5M2] = {3, -16, 16}};
  const bool known = (unsigned)dtype < sizeof formats / sizeof *formats && formats[dtype].digits;
  return formats[known ? dtype : TN_F64];
}

static bool is_f8(tn_dtype dtype) { return (TN_SET(dtype) & TN_SET_F8) != 0; }

/* The two below stand where ldexp and frexp would, which took half of the time of a check. */

/* 2^k, for k from -1074 to 1023. */
static double power_of_two(int k) {
  uint64_t bits = k < -1022 ? (uint64_t)1 << (k + 1074) : (uint64_t)(k + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

/* The k for which a finite value is in [2^(k-1), 2^k); at the most -1022 for zeros and
 * denormal doubles. */
static int exponent_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (int)(bits >> 52 & 2047) - 1022;
}

bool number_is_float(tn_dtype dtype) { return (TN_SET(dtype) & (TN_SET_FLOAT | TN_SET_F8)) != 0; }

bool number_is_signed(tn_dtype dtype) { return dtype != TN_BOOL && dtype != TN_U8; }

static int place_of(format f, double value) {
  int place = exponent_of(value) - f.digits;
  return place < f.least ? f.least : place;
}

double number_round(tn_dtype dtype, double value) {
  format f = format_of(dtype);
  if (dtype == TN_F64 || !isfinite(value)) return value;
  int place = place_of(f, value);
  double rounded = rint(value * power_of_two(-place)) * power_of_two(place);
  if (is_f8(dtype) && fabs(rounded) > number_greatest(dtype)) /* they saturate */
    return copysign(number_greatest(dtype), value);
  return fabs(rounded) >= power_of_two(f.top) ? copysign(INFINITY, value) : rounded;
}

double number_ulp(tn_dtype dtype, double value) {
  return power_of_two(place_of(format_of(dtype), value));
}

double number_unit(tn_dtype dtype) { return power_of_two(-format_of(dtype).digits); }

double number_least(tn_dtype dtype) { return power_of_two(format_of(dtype).least); }

double number_greatest(tn_dtype dtype) {
  if (dtype == TN_F8_E4M3) return 448; /* the next one would be NaN */
  format f = format_of(dtype);
  return (1 - power_of_two(-f.digits)) * power_of_two(f.top - 1) * 2;
}

int64_t number_min_int(tn_dtype dtype) {
  if (!number_is_signed(dtype)) return 0;
  return (int64_t)(~(uint64_t)0 << (8 * tn_dtype_size(dtype) - 1));
}

int64_t number_max_int(tn_dtype dtype) {
  if (dtype == TN_BOOL) return 1;
  return dtype == TN_U8 ? 255 : ~number_min_int(dtype);
}

static double decode_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent ? (1024 + fraction) * power_of_two(exponent - 25) : fraction * 0x1p-24;
  if (exponent == 31) value = fraction ? (double)NAN : (double)INFINITY;
  return bits >> 15 ? -value : value;
}

static uint16_t encode_f16(double value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  if (isnan(value)) return sign | 0x7e00;
  double size = fabs(number_round(TN_F16, value));
  if (isinf(size)) return sign | 0x7c00;
  if (size < 0x1p-14) return (uint16_t)(sign | (int)(size * 0x1p24));
  int exponent = exponent_of(size);
  return (uint16_t)(sign | (exponent + 14) << 10 |
                    ((int)(size * power_of_two(11 - exponent)) - 1024));
}

/* The exponents' bias is such that 1 has the middle one. */
static double decode_f8(tn_dtype dtype, uint8_t bits) {
  const int digits = format_of(dtype).digits - 1, bias = dtype == TN_F8_E4M3 ? 7 : 15;
  const int exponent = (bits & 127) >> digits, fraction = bits & ((1 << digits) - 1);
  double value = exponent ? ((1 << digits) + fraction) * power_of_two(exponent - bias - digits)
                          : fraction * power_of_two(1 - bias - digits);
  if ((bits & 127) > 124 && dtype == TN_F8_E5M2) value = (double)NAN;
  if ((bits & 127) == 124 && dtype == TN_F8_E5M2) value = (double)INFINITY;
  if ((bits & 127) == 127) value = (double)NAN;
  return bits >> 7 ? -value : value;
}

/* The code whose number it is: they lie in order. */
static uint8_t encode_f8(tn_dtype dtype, double value) {
  const double size = fabs(number_round(dtype, value));
  uint8_t code = 0;
  if (isnan(value)) return 127;
  while (code < 126 && decode_f8(dtype, code) < size) code++;
  return (uint8_t)(code | (signbit(value) ? 128 : 0));
}

static uint16_t encode_bf16(double value) {
  uint32_t bits;
  float rounded = (float)number_round(TN_BF16, value);
  memcpy(&bits, &rounded, sizeof bits);
  return isnan(value) ? (uint16_t)(bits >> 16 | 0x7fc0) : (uint16_t)(bits >> 16);
}

double number_decode(tn_dtype dtype, const void *element) {
  uint16_t half;
  float single;
  double wide;
  switch (dtype) {
  case TN_F8_E4M3:
  case TN_F8_E5M2:
    return decode_f8(dtype, *(const uint8_t *)element);
  case TN_F16:
    memcpy(&half, element, sizeof half);
    return decode_f16(half);
  case TN_BF16: {
    memcpy(&half, element, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&single, &bits, sizeof single);
    return single;
  }
  case TN_F32:
    memcpy(&single, element, sizeof single);
    return single;
  case TN_F64:
    memcpy(&wide, element, sizeof wide);
    return wide;
  default:
    return (double)number_decode_int(dtype, element);
  }
}

void number_decode_all(tn_dtype dtype, const void *elements, int64_t n, double *values) {
  const char *from = elements;
  const size_t size = tn_dtype_size(dtype);
  if (dtype == TN_F64) {
    memcpy(values, from, (size_t)n * size);
  } else if (dtype == TN_F32) {
    float single;
    for (int64_t i = 0; i < n; i++) {
      memcpy(&single, from + (size_t)i * size, sizeof single);
      values[i] = single;
    }
  } else {
    for (int64_t i = 0; i < n; i++) values[i] = number_decode(dtype, from + (size_t)i * size);
  }
}

int64_t number_decode_int(tn_dtype dtype, const void *element) {
  int64_t value = 0;
  memcpy(&value, element, tn_dtype_size(dtype)); /* little endian */
  int shift = 64 - 8 * (int)tn_dtype_size(dtype);
  if (!number_is_signed(dtype)) return value;
  return (int64_t)((uint64_t)value << shift) >> shift;
}

void number_encode(tn_dtype dtype, double value, void *element) {
  uint16_t half;
  float single;
  switch (dtype) {
  case TN_F8_E4M3:
  case TN_F8_E5M2:
    *(uint8_t *)element = encode_f8(dtype, value);
    break;
  case TN_F16:
    half = encode_f16(value);
    memcpy(element, &half, sizeof half);
    break;
  case TN_BF16:
    half = encode_bf16(value);
    memcpy(element, &half, sizeof half);
    break;
  case TN_F32:
    single = (float)value;
    memcpy(element, &single, sizeof single);
    break;
  case TN_F64:
    memcpy(element, &value, sizeof value);
    break;
  default:
    number_encode_int(dtype, (int64_t)value, element);
  }
}

void number_encode_int(tn_dtype dtype, int64_t value, void *element) {
  memcpy(element, &value, tn_dtype_size(dtype)); /* little endian */
}
