/* Reading TensorProto, whose numbers lie in raw bytes or in a list by type. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

tn_dtype onnx_dtype(int32_t onnx) {
  switch (onnx) {
  case 1:
    return TN_F32;
  case 2:
    return TN_U8;
  case 3:
    return TN_I8;
  case 5:
    return TN_I16;
  case 6:
    return TN_I32;
  case 7:
    return TN_I64;
  case 9:
    return TN_BOOL;
  case 10:
    return TN_F16;
  case 11:
    return TN_F64;
  case 16:
    return TN_BF16;
  case 17:
    return TN_F8_E4M3;
  case 19:
    return TN_F8_E5M2;
  default:
    return TN_DTYPE_NONE;
  }
}

int32_t onnx_dtype_number(tn_dtype dtype) {
  for (int32_t onnx = 1; onnx <= 19; onnx++)
    if (onnx_dtype(onnx) == dtype) return onnx;
  return 0;
}

/* --- numbers --- */

/* IEEE 754 binary16. */
static double half_number(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double size = exponent == 31  ? (double)(fraction ? NAN : INFINITY)
                : exponent == 0 ? ldexp(fraction, -24)
                                : ldexp(1024 + fraction, exponent - 25);
  return h >> 15 ? -size : size;
}

/* The upper half of a float. */
static double bfloat_number(uint16_t b) {
  uint32_t bits = (uint32_t)b << 16;
  float number;
  memcpy(&number, &bits, sizeof number);
  return (double)number;
}

double onnx_tensor_number(const onnx_tensor *t, int64_t i) {
  switch (t->dtype) {
  case TN_F64:
    return ((const double *)t->data)[i];
  case TN_F16:
    return half_number(((const uint16_t *)t->data)[i]);
  case TN_BF16:
    return bfloat_number(((const uint16_t *)t->data)[i]);
  default:
    return (double)((const float *)t->data)[i];
  }
}

/* Bits of the nearest number, even ones first, of a type with `digits` bits of a fraction and
 * `least` as the exponent of its smallest normal number. Fractions that round up carry into the
 * exponent, as they must. */
static uint16_t narrowed(double x, int digits, int least) {
  int infinity = (3 - 2 * least) << digits, sign = signbit(x) ? 0x8000 : 0;
  if (isnan(x)) return (uint16_t)(sign | infinity | 1 << (digits - 1));
  if (x == 0) return (uint16_t)sign;
  int exponent = isinf(x) ? 2 - least : ilogb(x);
  if (exponent > 1 - least) return (uint16_t)(sign | infinity);
  if (exponent < least) exponent = least;
  int fraction = (int)nearbyint(ldexp(fabs(x), digits - exponent));
  return (uint16_t)(sign | (((exponent - least) << digits) + fraction));
}

void onnx_tensor_put(const onnx_tensor *t, int64_t i, double number) {
  switch (t->dtype) {
  case TN_F64:
    ((double *)t->data)[i] = number;
    break;
  case TN_F16:
    ((uint16_t *)t->data)[i] = narrowed(number, 10, -14);
    break;
  case TN_BF16:
    ((uint16_t *)t->data)[i] = narrowed(number, 7, -126);
    break;
  default:
    ((float *)t->data)[i] = (float)number;
  }
}

/* A typed list of TensorProto. */
typedef struct number_list {
  const char *field;
  const void *numbers;
  size_t count, stride;
} number_list;

/* The list that holds the numbers of a type that Tenon has: all types narrower than an int32, and
 * the halves' bits, share one. */
static number_list list_of(const Onnx__Tensor *t, tn_dtype dtype) {
  switch (dtype) {
  case TN_F32:
    return (number_list){"float_data", t->float_data, t->n_float_data, 4};
  case TN_F64:
    return (number_list){"double_data", t->double_data, t->n_double_data, 8};
  case TN_I64:
    return (number_list){"int64_data", t->int64_data, t->n_int64_data, 8};
  default:
    return (number_list){"int32_data", t->int32_data, t->n_int32_data, 4};
  }
}

/* NULL where the numbers are exactly those that should be there, else the field they are not in. */
static const char *lacking(const Onnx__Tensor *t, const onnx_tensor *to) {
  size_t elements = (size_t)to->elements, bytes = elements * tn_dtype_size(to->dtype);
  size_t listed = t->n_float_data + t->n_double_data + t->n_int64_data + t->n_int32_data +
                  t->n_uint64_data + t->n_string_data;
  number_list own = list_of(t, to->dtype);
  if (t->has_raw_data) return t->raw_data.len == bytes && !listed ? NULL : "raw_data";
  return own.count == elements && listed == elements ? NULL : own.field;
}

/* Numbers narrower than their list's are its low bytes. */
static void take_list(const number_list *from, onnx_tensor *to) {
  size_t size = tn_dtype_size(to->dtype);
  for (size_t i = 0; i < from->count; i++)
    memcpy((char *)to->data + i * size, (const char *)from->numbers + i * from->stride, size);
}

void onnx_tensor_take(const Onnx__Tensor *t, onnx_tensor *to) {
  *to = (onnx_tensor){.present = true, .dtype = onnx_dtype(t->data_type), .elements = 1};
  to->rank = (int32_t)t->n_dims;
  bool sane = true; /* another message read as a tensor may have any sizes */
  for (int32_t i = 0; i < to->rank && i < 16; i++) {
    to->shape[i] = t->dims[i];
    sane = sane && t->dims[i] >= 0 && t->dims[i] < INT64_C(1) << 40 &&
           !__builtin_mul_overflow(to->elements, t->dims[i], &to->elements) &&
           to->elements < INT64_C(1) << 48;
    if (!sane) to->elements = 0;
  }
  if (sane && to->dtype && t->n_dims <= 16) to->lacks = lacking(t, to);
  if (!sane || t->n_dims > 16 || to->lacks) to->dtype = TN_DTYPE_NONE;
  if (!to->dtype) return;
  size_t bytes = (size_t)to->elements * tn_dtype_size(to->dtype);
  number_list own = list_of(t, to->dtype);
  to->data = calloc(bytes + 1, 1);
  if (!to->data) return;
  if (!t->has_raw_data)
    take_list(&own, to);
  else if (bytes)
    memcpy(to->data, t->raw_data.data, bytes);
}
