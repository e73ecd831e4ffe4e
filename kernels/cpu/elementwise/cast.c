/*
 * cast between all pairs of element types. One kernel per source type; the destination
 * chooses the inner loop.
 */
#include <math.h>

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/cpu.h"

/* The integer above 2^53 nearest below or above a double with its last bit set: as
 * float_to_odd, one rounding further down then comes out right. */
static inline double double_to_odd(int64_t x) {
  const int64_t cut = (x & ~(int64_t)0x7ff) | ((x & 0x7ff) != 0 ? 0x800 : 0);
  return x < (1ll << 53) && x > -(1ll << 53) ? (double)x : (double)cut;
}

/* Index of a destination loop: the tn_dtype. */
static int dtype_of(DLDataType t) {
  switch (t.code) {
  case kDLBool:
    return TN_BOOL;
  case kDLUInt:
    return TN_U8;
  case kDLBfloat:
    return TN_BF16;
  case kDLFloat:
    return t.bits == 16 ? TN_F16 : t.bits == 32 ? TN_F32 : TN_F64;
  default:
    return t.bits == 8 ? TN_I8 : t.bits == 16 ? TN_I16 : t.bits == 32 ? TN_I32 : TN_I64;
  }
}

#define BODY "kernels/cpu/elementwise/cast.inc"
#include "kernels/cpu/base/stamp_bool.inc"
#include "kernels/cpu/base/stamp_float.inc"
#include "kernels/cpu/base/stamp_int.inc"
