/*
 * copy and fill: they only know how many bytes an element has.
 */
#include <string.h>

#include "kernels/common/float8.h"
#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/stream.h"
#include "kernels/cpu/cpu.h"

/* Of a block on its way past the caches too: for a few thousand bytes memcpy may have the processor
 * move strings, which does not keep up with what is fetched ahead. */
static void copy_dense(const void *x, void *y, int64_t bytes) {
  const char *from = x;
  char *to = y;
  int64_t i = 0;
#ifdef FLOATS_STREAM
  for (; bytes <= STREAM_BLOCK && i + (int64_t)sizeof(FLOATS) <= bytes; i += sizeof(FLOATS))
    FLOATS_KEEP((float *)(void *)(to + i), FLOATS_LOAD((const float *)(const void *)(from + i)));
#endif
  memcpy(to + i, from + i, (size_t)(bytes - i));
}

#define MOVE_LOOPS(bits, U)                                                                        \
  static void copy_##bits(int64_t n, void *const *p, const int64_t *s, const void *ctx) {          \
    const U *x = p[0];                                                                             \
    U *y = p[1];                                                                                   \
    (void)ctx;                                                                                     \
    if (s[0] == 1 && s[1] == 1) {                                                                  \
      if (x != y) copy_dense(x, y, n *(int64_t)sizeof(U));                                         \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) y[i * s[1]] = x[i * s[0]];                                   \
    }                                                                                              \
  }                                                                                                \
  static void fill_##bits(int64_t n, void *const *p, const int64_t *s, const void *ctx) {          \
    U *y = p[0];                                                                                   \
    U value;                                                                                       \
    memcpy(&value, ctx, sizeof value);                                                             \
    if (s[0] == 1) {                                                                               \
      for (int64_t i = 0; i < n; i++) y[i] = value;                                                \
    } else {                                                                                       \
      for (int64_t i = 0; i < n; i++) y[i * s[0]] = value;                                         \
    }                                                                                              \
  }
MOVE_LOOPS(8, uint8_t)
MOVE_LOOPS(16, uint16_t)
MOVE_LOOPS(32, uint32_t)
MOVE_LOOPS(64, uint64_t)

tn_status ISA(copy_any)(const tn_kernel_args *args) {
  tn_status status;
  if (ISA(transpose)(args, &status)) return status;
  switch (args->out[0]->dtype.bits) {
  case 8:
    return ISA(elementwise)(args, copy_8, NULL, CPU_GRAIN_CHEAP);
  case 16:
    return ISA(elementwise)(args, copy_16, NULL, CPU_GRAIN_CHEAP);
  case 32:
    return ISA(elementwise)(args, copy_32, NULL, CPU_GRAIN_CHEAP);
  default:
    return ISA(elementwise)(args, copy_64, NULL, CPU_GRAIN_CHEAP);
  }
}

/* Towards zero, saturating, NaN to 0. */
static int64_t int_of_double(double x, int64_t low, int64_t high) {
  if (x != x) return 0;
  if (x <= (double)low) return low;
  if (x >= (double)high) return high;
  return (int64_t)x;
}

static elementwise_fn fill_float(int bits, bool brain, double value, void *out) {
  const float single = (float)value;
  const uint16_t half = brain ? bf16_store(float_to_odd(value)) : f16_store(float_to_odd(value));
  if (bits == 64) {
    memcpy(out, &value, sizeof value);
    return fill_64;
  }
  memcpy(out, bits == 32 ? (const void *)&single : &half, (size_t)bits / 8);
  return bits == 32 ? fill_32 : fill_16;
}

static elementwise_fn fill_int(DLDataType type, double value, int64_t *out) {
  switch (type.bits) {
  case 8:
    *out = type.code == kDLBool   ? value != 0
           : type.code == kDLUInt ? int_of_double(value, 0, UINT8_MAX)
                                  : int_of_double(value, INT8_MIN, INT8_MAX);
    *(uint8_t *)out = (uint8_t)*out;
    return fill_8;
  case 16: {
    const int16_t v = (int16_t)int_of_double(value, INT16_MIN, INT16_MAX);
    memcpy(out, &v, sizeof v);
    return fill_16;
  }
  case 32: {
    const int32_t v = (int32_t)int_of_double(value, INT32_MIN, INT32_MAX);
    memcpy(out, &v, sizeof v);
    return fill_32;
  }
  default:
    *out = int_of_double(value, INT64_MIN, INT64_MAX);
    return fill_64;
  }
}

static elementwise_fn fill_f8(bool e4m3, double value, void *out) {
  const float single = float_to_odd(value);
  *(uint8_t *)out = e4m3 ? f8_e4m3_from_f32(single, true) : f8_e5m2_from_f32(single, true);
  return fill_8;
}

static elementwise_fn fill_any(DLDataType type, double value, uint64_t *bits) {
  const bool real = type.code == kDLFloat || type.code == kDLBfloat;
  *bits = 0;
  if (type.code == kDLFloat8_e4m3fn || type.code == kDLFloat8_e5m2)
    return fill_f8(type.code == kDLFloat8_e4m3fn, value, bits);
  return real ? fill_float(type.bits, type.code == kDLBfloat, value, bits)
              : fill_int(type, value, (int64_t *)bits);
}

void ISA(value_bits)(DLDataType type, double value, uint64_t *bits) {
  (void)fill_any(type, value, bits);
}

tn_status ISA(fill_any)(const tn_kernel_args *args) {
  const tn_fill_attrs *attrs = args->attrs;
  uint64_t value;
  const elementwise_fn fn = fill_any(args->out[0]->dtype, attrs->value, &value);
  return ISA(elementwise)(args, fn, &value, CPU_GRAIN_CHEAP);
}
