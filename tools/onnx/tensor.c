/* Reading TensorProto, whose numbers lie in raw bytes or in a list by type. */
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
  default:
    return TN_DTYPE_NONE;
  }
}

/* Element i of a tensor whose numbers lie in a typed list. */
static void put_listed(const Onnx__Tensor *t, onnx_tensor *to, int64_t i) {
  char *at = (char *)to->data + (size_t)i * tn_dtype_size(to->dtype);
  if (t->n_float_data) memcpy(at, &t->float_data[i], 4);
  if (t->n_double_data) memcpy(at, &t->double_data[i], 8);
  if (t->n_int64_data) memcpy(at, &t->int64_data[i], 8);
  if (t->n_int32_data) memcpy(at, &t->int32_data[i], tn_dtype_size(to->dtype)); /* low bytes */
}

/* Whether the message is a tensor with all its numbers: sequences are read as one too. */
static bool is_whole(const Onnx__Tensor *t, const onnx_tensor *to) {
  size_t listed = t->n_float_data + t->n_double_data + t->n_int64_data + t->n_int32_data;
  size_t bytes = (size_t)to->elements * tn_dtype_size(to->dtype);
  return to->rank <= 16 && to->dtype &&
         (t->has_raw_data ? t->raw_data.len == bytes : listed == (size_t)to->elements);
}

void onnx_tensor_take(const Onnx__Tensor *t, onnx_tensor *to) {
  *to = (onnx_tensor){.present = true, .dtype = onnx_dtype(t->data_type), .elements = 1};
  to->rank = (int32_t)t->n_dims;
  bool sane = true; /* another message read as a tensor may have any sizes */
  for (int32_t i = 0; i < to->rank && i < 16; i++) {
    to->shape[i] = t->dims[i];
    sane = sane && t->dims[i] >= 0 && t->dims[i] < 1 << 24 && to->elements < 1 << 24;
    to->elements = sane ? to->elements * t->dims[i] : 0;
  }
  size_t bytes = (size_t)to->elements * tn_dtype_size(to->dtype);
  if (!sane || !is_whole(t, to)) {
    to->dtype = TN_DTYPE_NONE;
    return;
  }
  to->data = calloc(bytes + 1, 1);
  if (t->has_raw_data && bytes)
    memcpy(to->data, t->raw_data.data, bytes);
  else
    for (int64_t i = 0; i < to->elements; i++) put_listed(t, to, i);
}
