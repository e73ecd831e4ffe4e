/* The element type of a DLPack type: the one place in kernels/ that says so. */
#ifndef TENON_KERNELS_DTYPE_H
#define TENON_KERNELS_DTYPE_H

#include "tenon/plugin.h"

/* TN_DTYPE_NONE for what is none of Tenon's. */
static inline tn_dtype dtype_of(DLDataType type) {
  switch (type.code << 8 | type.bits) {
  case kDLBool << 8 | 8:
    return TN_BOOL;
  case kDLUInt << 8 | 8:
    return TN_U8;
  case kDLInt << 8 | 8:
    return TN_I8;
  case kDLInt << 8 | 16:
    return TN_I16;
  case kDLInt << 8 | 32:
    return TN_I32;
  case kDLInt << 8 | 64:
    return TN_I64;
  case kDLFloat << 8 | 16:
    return TN_F16;
  case kDLBfloat << 8 | 16:
    return TN_BF16;
  case kDLFloat << 8 | 32:
    return TN_F32;
  case kDLFloat << 8 | 64:
    return TN_F64;
  default:
    return TN_DTYPE_NONE;
  }
}

#endif
