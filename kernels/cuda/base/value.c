/* A number as an element of a type, on the host: what pad and one_hot put down. */
#include <string.h>

#include "kernels/common/float8.h"
#include "kernels/common/half.h"
#include "kernels/cuda/kernels.h"

/* Towards zero, saturating, NaN to 0; bounds that float64 does not hold are met by it. */
static int64_t whole(double x, int bits) {
  double bound = (double)(UINT64_C(1) << (bits - 1));
  if (x != x) return 0;
  if (x >= bound) return (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
  return x <= -bound ? -(int64_t)((UINT64_C(1) << (bits - 1)) - 1) - 1 : (int64_t)x;
}

uint64_t cuda_value_bits(tn_dtype dtype, double value) {
  uint64_t bits = 0;
  float single = (float)value;
  switch (dtype) {
  case TN_F64:
    memcpy(&bits, &value, sizeof value);
    return bits;
  case TN_F32:
    memcpy(&bits, &single, sizeof single);
    return bits;
  case TN_F16:
    return f16_from_f64(value);
  case TN_BF16:
    return bf16_from_f64(value);
  case TN_F8_E4M3:
    return f8_e4m3_from_f32(f32_odd_from_f64(value), true);
  case TN_F8_E5M2:
    return f8_e5m2_from_f32(f32_odd_from_f64(value), true);
  case TN_BOOL:
    return value != 0;
  case TN_U8:
    return value != value || value <= 0 ? 0 : value >= 255 ? 255 : (uint64_t)value;
  case TN_I8:
    return (uint8_t)whole(value, 8);
  case TN_I16:
    return (uint16_t)whole(value, 16);
  case TN_I32:
    return (uint32_t)whole(value, 32);
  default:
    return (uint64_t)whole(value, 64);
  }
}
