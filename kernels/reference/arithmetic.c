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

BODY_TWO(add_f64, double, a + b)
BODY_TWO(add_i64, int64_t, wrap((uint64_t)a + (uint64_t)b))
KERNEL_NUMBER(add)

BODY_TWO(sub_f64, double, a - b)
BODY_TWO(sub_i64, int64_t, wrap((uint64_t)a - (uint64_t)b))
KERNEL_NUMBER(sub)

BODY_TWO(mul_f64, double, a *b)
BODY_TWO(mul_i64, int64_t, wrap((uint64_t)a *(uint64_t)b))
KERNEL_NUMBER(mul)

BODY_TWO(div_f64, double, a / b)
BODY_TWO(div_i64, int64_t, divide(a, b))
KERNEL_NUMBER(div)

BODY_TWO(maximum_f64, double, a > b || a != a ? a : b)
BODY_TWO(maximum_i64, int64_t, a > b ? a : b)
KERNEL_NUMBER(maximum)

BODY_TWO(minimum_f64, double, a < b || a != a ? a : b)
BODY_TWO(minimum_i64, int64_t, a < b ? a : b)
KERNEL_NUMBER(minimum)

BODY_TWO(equal_f64, double, a == b)
BODY_TWO(equal_i64, int64_t, a == b)
KERNEL_NUMBER(equal)

BODY_TWO(not_equal_f64, double, a != b)
BODY_TWO(not_equal_i64, int64_t, a != b)
KERNEL_NUMBER(not_equal)

BODY_TWO(less_f64, double, a < b)
BODY_TWO(less_i64, int64_t, a < b)
KERNEL_NUMBER(less)

BODY_TWO(less_equal_f64, double, a <= b)
BODY_TWO(less_equal_i64, int64_t, a <= b)
KERNEL_NUMBER(less_equal)

BODY_TWO(greater_f64, double, a > b)
BODY_TWO(greater_i64, int64_t, a > b)
KERNEL_NUMBER(greater)

BODY_TWO(greater_equal_f64, double, a >= b)
BODY_TWO(greater_equal_i64, int64_t, a >= b)
KERNEL_NUMBER(greater_equal)
