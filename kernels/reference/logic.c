/* Logic on elements and on their bits. Integers come sign-extended to 64 bits, and the
 * store keeps the low ones. */
#include "bodies.h"
#include "kernels.h"

BODY_TWO(logical_and_f64, double, a != 0 && b != 0)
BODY_TWO(logical_and_i64, int64_t, a != 0 && b != 0)
KERNEL_NUMBER(logical_and)

BODY_TWO(logical_or_f64, double, a != 0 || b != 0)
BODY_TWO(logical_or_i64, int64_t, a != 0 || b != 0)
KERNEL_NUMBER(logical_or)

BODY_TWO(logical_xor_f64, double, (a != 0) != (b != 0))
BODY_TWO(logical_xor_i64, int64_t, (a != 0) != (b != 0))
KERNEL_NUMBER(logical_xor)

#define KERNEL_INT(name)                                                                           \
  tn_status reference_##name(const tn_kernel_args *args) { return map(args, NULL, name##_i64); }

BODY_TWO(bitwise_and_i64, int64_t, a &b)
KERNEL_INT(bitwise_and)

BODY_TWO(bitwise_or_i64, int64_t, a | b)
KERNEL_INT(bitwise_or)

BODY_TWO(bitwise_xor_i64, int64_t, a ^ b)
KERNEL_INT(bitwise_xor)

static bool shifts_all(int64_t places) { return places < 0 || places > 63; }

BODY_TWO(left_shift_i64, int64_t, shifts_all(b) ? 0 : (int64_t)((uint64_t)a << b))
KERNEL_INT(left_shift)

BODY_TWO(right_shift_i64, int64_t, a >> (shifts_all(b) ? 63 : b))
KERNEL_INT(right_shift)
