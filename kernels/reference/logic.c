/* Logic on elements and on their bits. Integers come sign-extended to 64 bits, and the
 * store keeps the low ones. */
#include "bodies.h"
#include "kernels.h"

TWO_NUMBER(logical_and, a != 0 && b != 0, a != 0 && b != 0)
TWO_NUMBER(logical_or, a != 0 || b != 0, a != 0 || b != 0)
TWO_NUMBER(logical_xor, (a != 0) != (b != 0), (a != 0) != (b != 0))
TWO_INT(bitwise_and, a &b)
TWO_INT(bitwise_or, a | b)
TWO_INT(bitwise_xor, a ^ b)

static bool shifts_all(int64_t places) { return places < 0 || places > 63; }

TWO_INT(left_shift, shifts_all(b) ? 0 : (int64_t)((uint64_t)a << b))
TWO_INT(right_shift, a >> (shifts_all(b) ? 63 : b))
