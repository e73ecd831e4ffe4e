/* Loads and stores of every element type; see element.h. */
#include "element.h"

#include "kernels/common/float8.h"
#include "kernels/common/half.h"

/* The loop over one type; `x` names the element in the expression. */
#define LOAD(dtype, type, expression)                                                              \
  case dtype: {                                                                                    \
    const type *p = from;                                                                          \
    for (int64_t i = 0; i < n; ++i) {                                                              \
      type x = p[i * stride];                                                                      \
      to[i] = expression;                                                                          \
    }                                                                                              \
    return;                                                                                        \
  }

#define STORE(dtype, type, expression)                                                             \
  case dtype: {                                                                                    \
    type *p = to;                                                                                  \
    for (int64_t i = 0; i < n; ++i) p[i * stride] = expression;                                    \
    return;                                                                                        \
  }

void load_f64(tn_dtype dtype, const void *from, int64_t stride, int64_t n, double *to) {
  switch (dtype) {
    LOAD(TN_BOOL, uint8_t, x != 0)
    LOAD(TN_U8, uint8_t, x)
    LOAD(TN_I8, int8_t, x)
    LOAD(TN_I16, int16_t, x)
    LOAD(TN_I32, int32_t, x)
    LOAD(TN_I64, int64_t, (double)x)
    LOAD(TN_F16, uint16_t, (double)f16_to_f32(x))
    LOAD(TN_BF16, uint16_t, (double)bf16_to_f32(x))
    LOAD(TN_F32, float, (double)x)
    LOAD(TN_F64, double, x)
    LOAD(TN_F8_E4M3, uint8_t, (double)f8_e4m3_to_f32(x))
    LOAD(TN_F8_E5M2, uint8_t, (double)f8_e5m2_to_f32(x))
  case TN_DTYPE_NONE:
    return;
  }
}

void load_i64(tn_dtype dtype, const void *from, int64_t stride, int64_t n, int64_t *to) {
  switch (dtype) {
    LOAD(TN_BOOL, uint8_t, x != 0)
    LOAD(TN_U8, uint8_t, x)
    LOAD(TN_I8, int8_t, x)
    LOAD(TN_I16, int16_t, x)
    LOAD(TN_I32, int32_t, x)
    LOAD(TN_I64, int64_t, x)
  default:
    return;
  }
}

static int64_t saturate(double x, double least, double most) {
  if (x != x) return 0;
  if (x <= least) return (int64_t)least;
  return x >= most ? (int64_t)most : (int64_t)x;
}

/* 2^63 - 1 is no double, so the bound of int64 is met one step outside it. */
static int64_t saturate_i64(double x) {
  return x >= 0x1p63 ? INT64_MAX : saturate(x, -0x1p63, 0x1.fffffffffffffp62);
}

void store_f64(tn_dtype dtype, void *to, int64_t stride, int64_t n, const double *from) {
  switch (dtype) {
    STORE(TN_BOOL, uint8_t, from[i] != 0)
    STORE(TN_U8, uint8_t, (uint8_t)saturate(from[i], 0, UINT8_MAX))
    STORE(TN_I8, int8_t, (int8_t)saturate(from[i], INT8_MIN, INT8_MAX))
    STORE(TN_I16, int16_t, (int16_t)saturate(from[i], INT16_MIN, INT16_MAX))
    STORE(TN_I32, int32_t, (int32_t)saturate(from[i], INT32_MIN, INT32_MAX))
    STORE(TN_I64, int64_t, saturate_i64(from[i]))
    STORE(TN_F16, uint16_t, f16_from_f64(from[i]))
    STORE(TN_BF16, uint16_t, bf16_from_f64(from[i]))
    STORE(TN_F32, float, (float)from[i])
    STORE(TN_F64, double, from[i])
    STORE(TN_F8_E4M3, uint8_t, f8_e4m3_from_f32(f32_odd_from_f64(from[i]), true))
    STORE(TN_F8_E5M2, uint8_t, f8_e5m2_from_f32(f32_odd_from_f64(from[i]), true))
  case TN_DTYPE_NONE:
    return;
  }
}

/* Rounded to odd where 53 bits do not hold it, so that a later rounding to a narrower
 * float is right (see f32_odd_from_f64). */
static double odd_f64(int64_t x) {
  uint64_t magnitude = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
  if (magnitude >> 53) {
    uint64_t rest = magnitude & 0x3ff;
    magnitude = (magnitude - rest) | (rest != 0 ? 0x400u : 0u);
  }
  return x < 0 ? -(double)magnitude : (double)magnitude;
}

void store_i64(tn_dtype dtype, void *to, int64_t stride, int64_t n, const int64_t *from) {
  switch (dtype) {
    STORE(TN_BOOL, uint8_t, from[i] != 0)
    STORE(TN_U8, uint8_t, (uint8_t)from[i])
    STORE(TN_I8, int8_t, (int8_t)from[i])
    STORE(TN_I16, int16_t, (int16_t)from[i])
    STORE(TN_I32, int32_t, (int32_t)from[i])
    STORE(TN_I64, int64_t, from[i])
    STORE(TN_F16, uint16_t, f16_from_f64(odd_f64(from[i])))
    STORE(TN_BF16, uint16_t, bf16_from_f64(odd_f64(from[i])))
    STORE(TN_F32, float, (float)from[i])
    STORE(TN_F64, double, (double)from[i])
    STORE(TN_F8_E4M3, uint8_t, f8_e4m3_from_f32(f32_odd_from_f64(odd_f64(from[i])), true))
    STORE(TN_F8_E5M2, uint8_t, f8_e5m2_from_f32(f32_odd_from_f64(odd_f64(from[i])), true))
  case TN_DTYPE_NONE:
    return;
  }
}

void store_f8_unsaturated(tn_dtype dtype, void *to, int64_t stride, int64_t n, const double *from) {
  switch (dtype) {
    STORE(TN_F8_E4M3, uint8_t, f8_e4m3_from_f32(f32_odd_from_f64(from[i]), false))
    STORE(TN_F8_E5M2, uint8_t, f8_e5m2_from_f32(f32_odd_from_f64(from[i]), false))
  default:
    return;
  }
}
