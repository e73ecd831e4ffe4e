/* Puts numbers, JSON strings, tensors and attributes into text; see text.h. */
#include "text.h"

#include <math.h>
#include <stdio.h>

text text_part(const text *t, size_t room) {
  size_t left = (size_t)(t->end - t->at);
  return (text){t->at, t->at + (left < room ? left : room)};
}

void text_join(text *t, const text *part) { t->at = part->at; }

void text_number(text *t, uint64_t value) {
  char digits[20], *at = digits + sizeof digits;
  do *--at = (char)('0' + value % 10);
  while (value /= 10);
  text_copy(t, at, (size_t)(digits + sizeof digits - at));
}

void text_signed(text *t, int64_t value) {
  if (value < 0) text_put(t, "-");
  text_number(t, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void text_real(text *t, double value) {
  char digits[32];
  int length = snprintf(digits, sizeof digits, "%.6g", value);
  text_copy(t, digits, (size_t)length);
}

void text_us(text *t, uint64_t ns) {
  char rest[4] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                  (char)('0' + ns % 10)};
  text_number(t, ns / 1000);
  text_copy(t, rest, sizeof rest);
}

/* Bytes of the UTF-8 sequence at `s`, 0 if there is no valid one (RFC 3629). */
static size_t sequence_length(const unsigned char *s) {
  static const struct {
    unsigned char first, last, least, most; /* of the lead byte, of the second byte */
    unsigned char length;
  } forms[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
               {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
               {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
               {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  for (size_t f = 0; f < sizeof forms / sizeof *forms; ++f) {
    if (s[0] < forms[f].first || s[0] > forms[f].last) continue;
    if (s[1] < forms[f].least || s[1] > forms[f].most) return 0;
    for (size_t i = 2; i < forms[f].length; ++i)
      if (s[i] < 0x80 || s[i] > 0xbf) return 0;
    return forms[f].length;
  }
  return 0;
}

static void escape_one(text *t, unsigned char c) {
  static const char digits[] = "0123456789abcdef";
  const char plain[1] = {(char)c}, quoted[2] = {'\\', (char)c};
  const char code[6] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
  if (c == '"' || c == '\\')
    text_copy(t, quoted, sizeof quoted);
  else if (c < 0x20 || c >= 0x7f)
    text_copy(t, code, sizeof code);
  else
    text_copy(t, plain, sizeof plain);
}

void text_escaped(text *t, const char *words) {
  for (const unsigned char *s = (const unsigned char *)words; *s;) {
    size_t length = *s < 0x80 ? 1 : sequence_length(s);
    if (t->end - t->at < 6) return; /* the longest that one character becomes */
    if (length == 0)
      text_copy(t, "\\ufffd", 6);
    else if (length == 1 || (s[0] == 0xc2 && s[1] < 0xa0)) /* controls of Unicode, too */
      escape_one(t, s[length - 1]);
    else
      text_copy(t, (const char *)s, length);
    s += length ? length : 1;
  }
}

/* --- tensors --- */

static void put_dtype(text *t, DLDataType type) {
  static const char *const kinds[] = {[kDLInt] = "i",
                                      [kDLUInt] = "u",
                                      [kDLFloat] = "f",
                                      [kDLBfloat] = "bf",
                                      [kDLBool] = "bool",
                                      [kDLFloat8_e4m3fn] = "f8_e4m3",
                                      [kDLFloat8_e5m2] = "f8_e5m2"};
  const char *kind = type.code < sizeof kinds / sizeof *kinds ? kinds[type.code] : NULL;
  text_put(t, kind ? kind : "?");
  if (!kind || type.code < kDLBool) text_number(t, type.bits);
}

static void put_sizes(text *t, int32_t rank, const int64_t *sizes) {
  for (int32_t i = 0; i < rank; ++i) {
    if (i) text_put(t, ",");
    text_signed(t, sizes[i]);
  }
}

/* Strides of axes that have one element, or of a tensor that has none, say nothing. */
static bool is_row_major(const DLTensor *tensor) {
  int64_t expected = 1;
  bool row_major = true;
  for (int32_t i = tensor->ndim; i-- > 0; expected *= tensor->shape[i]) {
    if (tensor->shape[i] == 0) return true;
    if (tensor->shape[i] != 1 && tensor->strides[i] != expected) row_major = false;
  }
  return row_major;
}

void text_tensor(text *t, const DLTensor *tensor) {
  put_dtype(t, tensor->dtype);
  text_put(t, "[");
  put_sizes(t, tensor->ndim, tensor->shape);
  text_put(t, "]");
  if (!tensor->strides || is_row_major(tensor)) return;
  text_put(t, "(");
  put_sizes(t, tensor->ndim, tensor->strides);
  text_put(t, ")");
}

void text_tensors(text *t, const DLTensor *const *tensors, uint32_t count) {
  enum { LONGEST = 8 + 4 + 2 * TN_MAX_RANK * 20, MORE = 24 };
  for (uint32_t i = 0; i < count; ++i) {
    if (i) text_put(t, " ");
    if (t->end - t->at < LONGEST + MORE) {
      text_number(t, count - i);
      text_put(t, " more");
      return;
    }
    if (tensors[i])
      text_tensor(t, tensors[i]);
    else
      text_put(t, "-");
  }
}

/* --- attributes --- */

static int64_t load_i64(const char *field) {
  int64_t value;
  memcpy(&value, field, sizeof value);
  return value;
}

static int32_t load_i32(const char *field) {
  int32_t value;
  memcpy(&value, field, sizeof value);
  return value;
}

static double load_f64(const char *field) {
  double value;
  memcpy(&value, field, sizeof value);
  return value;
}

static void put_numbers(text *t, const char *field, int count) {
  for (int i = 0; i < count; ++i) {
    if (i) text_put(t, ",");
    text_signed(t, load_i64(field + 8 * i));
  }
}

/* Axes are int32_t behind their count, dims int64_t behind theirs. */
static void put_list(text *t, const char *field, bool wide) {
  int32_t count = load_i32(field);
  text_put(t, "[");
  for (int32_t i = 0; i < count && i < TN_MAX_RANK; ++i) {
    if (i) text_put(t, ",");
    text_signed(t, wide ? load_i64(field + 8 + 8 * i) : load_i32(field + 4 + 4 * i));
  }
  text_put(t, "]");
}

static bool all_equal(const char *field, int count, double value) {
  for (int i = 0; i < count; ++i)
    if ((double)load_i64(field + 8 * i) != value) return false;
  return true;
}

/* The greatest rank in a call: that of the tensor whose axes an operator counts. */
static int32_t rank_of(const tn_kernel_args *args) {
  int32_t in = args->num_in && args->in[0] ? args->in[0]->ndim : 0;
  int32_t out = args->num_out && args->out[0] ? args->out[0]->ndim : 0;
  return in > out ? in : out;
}

/* An axis that is counted from the end by default comes counted from the front. */
static bool is_default_axis(const tn_attr *attr, const char *field, int32_t rank) {
  return attr->default_value < 0 && strcmp(attr->name, "axis") == 0 &&
         all_equal(field, 1, attr->default_value + rank);
}

/* A NaN is equal to itself here. */
static bool is_default(const tn_attr *attr, const char *field, int32_t rank) {
  switch (attr->type) {
  case TN_ATTR_I64:
    return all_equal(field, 1, attr->default_value) || is_default_axis(attr, field, rank);
  case TN_ATTR_U64:
    return (double)(uint64_t)load_i64(field) == attr->default_value;
  case TN_ATTR_PAIR:
    return all_equal(field, 2, attr->default_value);
  case TN_ATTR_TRIPLE:
    return all_equal(field, 3, attr->default_value);
  case TN_ATTR_F64:
    return load_f64(field) == attr->default_value ||
           (isnan(load_f64(field)) && isnan(attr->default_value));
  case TN_ATTR_FLAG:
  case TN_ATTR_DTYPE:
  case TN_ATTR_RESULT:
    return load_i32(field) == attr->default_value;
  case TN_ATTR_AXES:
  case TN_ATTR_DIMS:
    return load_i32(field) == 0;
  case TN_ATTR_TENSOR:
    return load_i64(field) == 0;
  default:
    return true; /* a type that came later */
  }
}

static void put_dtype_number(text *t, int32_t dtype) {
  static const char *const names[] = {
      [TN_BOOL] = "bool", [TN_U8] = "u8",   [TN_I8] = "i8",           [TN_I16] = "i16",
      [TN_I32] = "i32",   [TN_I64] = "i64", [TN_F16] = "f16",         [TN_BF16] = "bf16",
      [TN_F32] = "f32",   [TN_F64] = "f64", [TN_F8_E4M3] = "f8_e4m3", [TN_F8_E5M2] = "f8_e5m2"};
  bool known = dtype > 0 && (size_t)dtype < sizeof names / sizeof *names;
  text_put(t, known ? names[dtype] : "?");
}

/* A number in the device's memory, of which the type can be said. */
static void put_scalar(text *t, const char *field) {
  const struct tn_tensor *given;
  memcpy(&given, field, sizeof given);
  text_tensor(t, tn_attr_view(given));
}

static void put_value(text *t, uint32_t type, const char *field) {
  switch (type) {
  case TN_ATTR_I64:
    put_numbers(t, field, 1);
    break;
  case TN_ATTR_U64:
    text_number(t, (uint64_t)load_i64(field));
    break;
  case TN_ATTR_PAIR:
    put_numbers(t, field, 2);
    break;
  case TN_ATTR_TRIPLE:
    put_numbers(t, field, 3);
    break;
  case TN_ATTR_F64:
    text_real(t, load_f64(field));
    break;
  case TN_ATTR_FLAG:
    text_signed(t, load_i32(field));
    break;
  case TN_ATTR_DTYPE:
  case TN_ATTR_RESULT:
    put_dtype_number(t, load_i32(field));
    break;
  case TN_ATTR_TENSOR:
    put_scalar(t, field);
    break;
  default:
    put_list(t, field, type == TN_ATTR_DIMS);
    break;
  }
}

void text_attrs(text *t, const tn_operator *op, const tn_kernel_args *args) {
  bool follows = false;
  const void *attrs = args->attrs;
  size_t step =
      TN_HAS_FIELD(op, tn_operator, attr_size) && op->attr_size ? op->attr_size : sizeof(tn_attr);
  if (!attrs) return;
  for (uint32_t i = 0; i < op->num_attrs; ++i) {
    const tn_attr *attr = (const void *)((const char *)op->attrs + i * step);
    const char *field = (const char *)attrs + attr->offset;
    if (is_default(attr, field, rank_of(args))) continue;
    if (follows) text_put(t, " ");
    follows = true;
    text_escaped(t, attr->name);
    text_put(t, "=");
    put_value(t, attr->type, field);
  }
}
