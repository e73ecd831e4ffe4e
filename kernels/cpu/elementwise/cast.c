/*
 * cast between all pairs of element types. One kernel per source type; the destination
 * chooses the inner loop.
 */
#include <math.h>

#include "kernels/common/float8.h"
#include "kernels/cpu/base/half_blocks.h"
#include "kernels/cpu/cpu.h"

/* The integer above 2^53 nearest below or above a double with its last bit set: as
 * float_to_odd, one rounding further down then comes out right. */
static inline double double_to_odd(int64_t x) {
  const int64_t cut = (x & ~(int64_t)0x7ff) | ((x & 0x7ff) != 0 ? 0x800 : 0);
  return x < (1ll << 53) && x > -(1ll << 53) ? (double)x : (double)cut;
}

#define BODY "kernels/cpu/elementwise/cast.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_f8.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
