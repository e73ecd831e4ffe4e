/*
 * Numbers that one rounding takes to another neighbour than two would: next to the middle between
 * two numbers of a narrower float, so near that a type between the two rounds them to the very
 * middle. int64 to float32 by way of float64 is the common mistake (2^63 - 2^38 - 1 comes out as
 * 2^63), float64 to float16 by way of float32 another. All others are as good as any.
 */
#include <math.h>

#include "number.h"
#include "op_case.h"

/* Bits of the significands of float32, float16, bfloat16 and float64. */
static int digits_of(uint64_t random) {
  static const int digits[] = {24, 11, 8, 53};
  return digits[random % 4];
}

/* A number of `digits` bits, and which side of the middle behind it. */
typedef struct middle {
  int digits, side;
  int64_t whole;
} middle;

static middle middle_of(uint64_t random) {
  middle m = {.digits = digits_of(random), .side = random >> 2 & 1 ? 1 : -1};
  const uint64_t top = (uint64_t)1 << (m.digits - 1);
  m.whole = (int64_t)(top | (case_mix(random) & (top - 1)));
  return m;
}

int64_t near_tie_int(tn_dtype dtype, uint64_t random) {
  const middle m = middle_of(random);
  const int room = 8 * (int)tn_dtype_size(dtype) - number_is_signed(dtype) - m.digits;
  if (room < 2) return number_max_int(dtype) - (int64_t)(random >> 8 & 3);
  const int shift = 2 + (int)((random >> 8) % (uint64_t)(room - 1));
  const int64_t value = (m.whole << shift) + ((int64_t)1 << (shift - 1)) + m.side;
  return random >> 3 & 1 ? -value : value;
}

/* Of the range of float16, its denormal numbers among them. */
double near_tie_float(uint64_t random) {
  const middle m = middle_of(random);
  const int digits = m.digits == 53 ? 11 : m.digits;
  const double whole = (double)(m.whole >> (m.digits - digits)) + 0.5;
  const int exponent = (int)(random >> 8 & 31) - 18 - digits;
  const double value = ldexp(whole + m.side * ldexp(whole, -40), exponent);
  return random >> 3 & 1 ? -value : value;
}
