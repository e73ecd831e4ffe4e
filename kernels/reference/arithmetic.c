/*
 * Arithmetic and comparisons of two tensors. Integers are computed modulo 2^64, which
 * the store narrows to the element type's own width.
 */
#include "bodies.h"
#include "kernels.h"

static int64_t wrap(uint64_t x) { return (int64_t)x; }

static int64_t divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrap(0 - (uint64_t)a) : a / b;
}

TWO_NUMBER(add, a + b, wrap((uint64_t)a + (uint64_t)b))
TWO_NUMBER(sub, a - b, wrap((uint64_t)a - (uint64_t)b))
TWO_NUMBER(mul, a *b, wrap((uint64_t)a *(uint64_t)b))
TWO_NUMBER(div, a / b, divide(a, b))
TWO_NUMBER(maximum, a > b || a != a ? a : b, a > b ? a : b)
TWO_NUMBER(minimum, a < b || a != a ? a : b, a < b ? a : b)
TWO_NUMBER(equal, a == b, a == b)
TWO_NUMBER(not_equal, a != b, a != b)
TWO_NUMBER(less, a < b, a < b)
TWO_NUMBER(less_equal, a <= b, a <= b)
TWO_NUMBER(greater, a > b, a > b)
TWO_NUMBER(greater_equal, a >= b, a >= b)
