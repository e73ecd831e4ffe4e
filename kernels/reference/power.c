/* Division with remainder, powers, angles and lengths of two tensors. */
#include <math.h>

#include "bodies.h"
#include "kernels.h"

/* The remainder with the sign of b; a multiple of b keeps its zero with b's sign. */
static double modulo(double a, double b) {
  double rest = fmod(a, b);
  if (rest == 0) return copysign(0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

/* The quotient of a - modulo(a, b), which b divides: whole but for rounding. */
static double floor_divide(double a, double b) {
  if (b == 0) return a / b;
  double rest = fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  return quotient == 0 ? copysign(0, a / b) : rint(quotient);
}

static int64_t floor_divide_int(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static int64_t remainder_int(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

static int64_t modulo_int(int64_t a, int64_t b) {
  int64_t rest = remainder_int(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* By squaring, modulo 2^64. */
static int64_t power_int(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint64_t y = 1, square = (uint64_t)a;
  for (; b; b >>= 1, square *= square)
    if (b & 1) y *= square;
  return (int64_t)y;
}

TWO_NUMBER(floor_div, floor_divide(a, b), floor_divide_int(a, b))
TWO_NUMBER(mod, modulo(a, b), modulo_int(a, b))
TWO_NUMBER(fmod, fmod(a, b), remainder_int(a, b))
TWO_NUMBER(pow, pow(a, b), power_int(a, b))
TWO_FLOAT(atan2, atan2(a, b))
TWO_FLOAT(hypot, hypot(a, b))
TWO_FLOAT(copysign, copysign(a, b))
