/*
 * Quantisation, integer products and sums by letters, of ONNX: types, shapes and attributes as no
 * case of ONNX's has them.
 */
#include <math.h>

#include "tests/onnx/trial.h"

/* Output 0 as bytes of memory. */
static void gives_bytes(trial *t, tn_dtype dtype, int32_t rank, const void *want, size_t bytes) {
  unsigned char got[256];
  ck_assert_msg(node_run(&t->at) == TN_OK, "%s", tn_last_error());
  ck_assert_str_eq(t->at.cannot, "");
  ck_assert_int_eq(tn_tensor_dtype(t->at.y[0]), dtype);
  ck_assert_int_eq(tn_tensor_rank(t->at.y[0]), rank);
  ck_assert_uint_eq(tn_tensor_bytes(t->at.y[0]), bytes);
  ck_assert_int_eq(tn_tensor_to_host(t->at.y[0], got, bytes), TN_OK);
  for (size_t i = 0; i < bytes; i++)
    ck_assert_msg(got[i] == ((const unsigned char *)want)[i], "%s: byte %zu is %d, not %d",
                  t->node.op_type, i, got[i], ((const unsigned char *)want)[i]);
  node_end(&t->at);
  trial_end(t);
}
#define GIVES(t, dtype, rank, want) gives_bytes(t, dtype, rank, want, sizeof(want))

/* The call behind the node fails with these words. */
static void fails(trial *t, const char *words) {
  ck_assert_int_eq(node_run(&t->at), TN_ERR_INVALID_ARGUMENT);
  ck_assert_msg(strstr(tn_last_error(), words), "'%s' lacks '%s'", tn_last_error(), words);
  node_end(&t->at);
  trial_end(t);
}

START_TEST(ties_go_to_the_even_number) {
  float x[] = {-3, -1, 1, 3, 5, 7, 1e9f, -1e9f, NAN, INFINITY}, scale = 2;
  int8_t zero = 10, y[] = {8, 10, 10, 12, 12, 14, 127, -128, 10, 127};
  trial t;
  trial_begin(&t, "QuantizeLinear", 3, 1);
  input(&t, 0, TN_F32, 1, SHAPE(10), x);
  input(&t, 1, TN_F32, 0, NULL, &scale);
  input(&t, 2, TN_I8, 0, NULL, &zero);
  GIVES(&t, TN_I8, 1, y);
}
END_TEST

START_TEST(types_are_said_by_zero_point_attribute_or_nobody) {
  int32_t x[] = {-5, 5, 7, 1000}, deep[] = {INT32_MIN, INT32_MAX};
  float scale = 2;
  uint8_t bytes[] = {0, 2, 4, 255};
  int16_t shorts[] = {-2, 2, 4, 500}, least[] = {-32768, 32767};
  trial t;
  trial_begin(&t, "QuantizeLinear", 2, 1); /* whole numbers, to unsigned bytes */
  input(&t, 0, TN_I32, 1, SHAPE(4), x);
  input(&t, 1, TN_F32, 0, NULL, &scale);
  GIVES(&t, TN_U8, 1, bytes);
  for (int i = 0; i < 2; i++) {
    trial_begin(&t, "QuantizeLinear", 2, 1);
    input(&t, 0, TN_I32, 1, i ? SHAPE(2) : SHAPE(4), i ? deep : x);
    input(&t, 1, TN_F32, 0, NULL, &scale);
    attribute(&t, "output_dtype")->i = 5; /* INT16 */
    gives_bytes(&t, TN_I16, 1, i ? least : shorts, i ? sizeof least : sizeof shorts);
  }
  trial_begin(&t, "QuantizeLinear", 2, 1);
  input(&t, 0, TN_I32, 1, SHAPE(4), x);
  input(&t, 1, TN_F32, 0, NULL, &scale);
  attribute(&t, "output_dtype")->i = 4; /* UINT16 */
  refuses(&t, "a type other than u8, i8, i16 and 8-bit floats");
}
END_TEST

/* Attribute saturate 0: infinite, and NaN where the type has no infinities. */
START_TEST(eight_bit_floats_saturate_unless_told_otherwise) {
  static const tn_dtype types[] = {TN_F8_E4M3, TN_F8_E5M2};
  static const int64_t numbers[] = {17, 19}; /* FLOAT8E4M3FN, FLOAT8E5M2 */
  static const uint8_t want[2][2][4] = {{{0xb8, 0x7e, 0x7f, 0x2c}, {0xb8, 0x7f, 0x7f, 0x2c}},
                                        {{0xbc, 0x7b, 0x7f, 0x36}, {0xbc, 0x7c, 0x7f, 0x36}}};
  float x[] = {-1, 1e9f, NAN, 0.375f}, twice[] = {-2, 2e9f, NAN, 0.75f}, scale = 2;
  uint8_t zero = 0;
  trial t;
  for (int k = 0; k < 2; k++)
    for (int loose = 0; loose < 2; loose++)
      for (int op = 0; op < 3; op++) { /* a cast; quantised as the zero point, as an attribute */
        trial_begin(&t, op ? "QuantizeLinear" : "Cast", op == 0 ? 1 : 4 - op, 1);
        input(&t, 0, TN_F32, 1, SHAPE(4), op ? twice : x);
        if (op) input(&t, 1, TN_F32, 0, NULL, &scale);
        if (op == 1) input(&t, 2, types[k], 0, NULL, &zero);
        if (op != 1) attribute(&t, op ? "output_dtype" : "to")->i = numbers[k];
        if (loose) attribute(&t, "saturate")->i = 0;
        gives_bytes(&t, types[k], 1, want[k][loose], 4);
      }
}
END_TEST

START_TEST(scales_of_axes_and_of_blocks) {
  float x[] = {1, 2, 3, 4, 5, 6}, by_axis[] = {1, 2, 0.5f}, blocks[] = {1, 2, 0.5f, 4};
  uint8_t zero[] = {0, 10, 100}, y[] = {1, 11, 106, 4, 12, 112};
  uint8_t of_blocks[] = {1, 2, 2, 8, 10, 2};
  trial t;
  for (int i = 0; i < 2; i++) {
    trial_begin(&t, "QuantizeLinear", 3, 1);
    input(&t, 0, TN_F32, 2, SHAPE(2, 3), x);
    input(&t, 1, TN_F32, 1, SHAPE(3), by_axis);
    input(&t, 2, TN_U8, 1, SHAPE(3), zero);
    if (i) attribute(&t, "axis")->i = -1; /* 1 by default */
    GIVES(&t, TN_U8, 2, y);
  }
  trial_begin(&t, "QuantizeLinear", 2, 1); /* the last block of each row is short */
  input(&t, 0, TN_F32, 2, SHAPE(2, 3), x);
  input(&t, 1, TN_F32, 2, SHAPE(2, 2), blocks);
  attribute(&t, "block_size")->i = 2;
  GIVES(&t, TN_U8, 2, of_blocks);

  trial_begin(&t, "QuantizeLinear", 2, 1);
  input(&t, 0, TN_F32, 2, SHAPE(2, 3), x);
  input(&t, 1, TN_F32, 1, SHAPE(2), blocks);
  fails(&t, "scale must be one element, or as many as x has along attrs->axis");
  trial_begin(&t, "QuantizeLinear", 2, 1);
  input(&t, 0, TN_F32, 2, SHAPE(2, 3), x);
  input(&t, 1, TN_F32, 1, SHAPE(3), by_axis);
  attribute(&t, "axis")->i = 2;
  refuses(&t, "axis 2");
}
END_TEST

START_TEST(scales_say_the_type_of_what_they_scale) {
  int16_t x[] = {-32768, 0, 32767};
  uint16_t half = 0x1400, y[] = {0xd000, 0, 0x5000}; /* 2^-10, -32 and nearly 32 */
  trial t;
  trial_begin(&t, "DequantizeLinear", 2, 1);
  input(&t, 0, TN_I16, 1, SHAPE(3), x);
  input(&t, 1, TN_F16, 0, NULL, &half);
  GIVES(&t, TN_F16, 1, y);
  int64_t wide = 3;
  trial_begin(&t, "DequantizeLinear", 2, 1);
  input(&t, 0, TN_I64, 0, NULL, &wide);
  input(&t, 1, TN_F16, 0, NULL, &half);
  refuses(&t, "a type other than u8, i8, i16, i32 and 8-bit floats");
}
END_TEST

START_TEST(vectors_and_integers_have_products) {
  int64_t a[] = {1, 2, INT64_MAX, 4}, b[] = {5, 6, 2, 8}, dot[] = {5 + 12 - 2 + 32};
  int32_t m[] = {1, 2, 3, 4, 5, 6}, v[] = {1, -1, 2}, mv[] = {5, 11}, w[] = {1, 10};
  int32_t wm[] = {41, 52, 63};
  trial t;
  trial_begin(&t, "MatMul", 2, 1);
  input(&t, 0, TN_I64, 1, SHAPE(4), a);
  input(&t, 1, TN_I64, 1, SHAPE(4), b);
  GIVES(&t, TN_I64, 0, dot);
  trial_begin(&t, "MatMul", 2, 1);
  input(&t, 0, TN_I32, 2, SHAPE(2, 3), m);
  input(&t, 1, TN_I32, 1, SHAPE(3), v);
  GIVES(&t, TN_I32, 1, mv);
  trial_begin(&t, "MatMul", 2, 1); /* a batch of one matrix */
  input(&t, 0, TN_I32, 1, SHAPE(2), w);
  input(&t, 1, TN_I32, 3, SHAPE(1, 2, 3), m);
  GIVES(&t, TN_I32, 2, wm);
  trial_begin(&t, "MatMul", 2, 1);
  input(&t, 0, TN_I32, 0, NULL, m);
  input(&t, 1, TN_I32, 1, SHAPE(3), v);
  refuses(&t, "a product with a scalar");
}
END_TEST

/* [2, 2, 3] by [3, 2] with a zero point for each row: of all matrices, or of each by itself. */
START_TEST(zero_points_of_rows) {
  uint8_t a[] = {1, 2, 3, 4, 5, 6, 255, 8, 9, 10, 11, 12}, row_zero[] = {1, 7, 1, 7};
  int8_t b[] = {1, -2, 3, -128, 5, 6}, b_zero[] = {1, -2};
  int32_t want[8] = {0};
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 2; j++)
      for (int p = 0; p < 3; p++)
        want[i * 2 + j] += (a[i * 3 + p] - row_zero[i]) * (b[p * 2 + j] - b_zero[j]);
  static const int64_t shapes[][3] = {{2}, {2, 1}, {2, 2, 1}};
  for (int rank = 1; rank <= 3; rank++) {
    trial t;
    trial_begin(&t, "MatMulInteger", 4, 1);
    input(&t, 0, TN_U8, 3, SHAPE(2, 2, 3), a);
    input(&t, 1, TN_I8, 2, SHAPE(3, 2), b);
    input(&t, 2, TN_U8, rank, shapes[rank - 1], row_zero);
    input(&t, 3, TN_I8, 1, SHAPE(2), b_zero);
    GIVES(&t, TN_I32, 3, want);
  }
}
END_TEST

/* The operator and the same by steps, for scales as it does not have them. */
START_TEST(scales_of_rows) {
  uint8_t a[] = {1, 2, 3, 4, 5, 6, 255, 8, 9, 10, 11, 12}, zero[] = {3, 7, 3, 7};
  int8_t b[] = {1, -2, 3, -128, 5, 6}, b_zero[] = {1}, y_zero[] = {-3}, want[8];
  float a_scale[] = {0.1f, 0.7f, 0.1f, 0.7f}, b_scale[] = {0.3f, 0.05f}, y_scale[] = {0.9f};
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 2; j++) {
      int32_t sum = 0;
      for (int p = 0; p < 3; p++) sum += (a[i * 3 + p] - zero[i]) * (b[p * 2 + j] - b_zero[0]);
      const float scale = a_scale[i] * b_scale[j] / y_scale[0];
      const float y = nearbyintf((float)sum * scale) + (float)y_zero[0];
      want[i * 2 + j] = (int8_t)(y < -128 ? -128 : y > 127 ? 127 : y);
    }
  static const int64_t shapes[][3] = {{2}, {2, 1}, {2, 2, 1}};
  for (int rank = 1; rank <= 3; rank++) {
    trial t;
    trial_begin(&t, "QLinearMatMul", 8, 1);
    input(&t, 0, TN_U8, 3, SHAPE(2, 2, 3), a);
    input(&t, 1, TN_F32, rank, shapes[rank - 1], a_scale);
    input(&t, 2, TN_U8, rank, shapes[rank - 1], zero);
    input(&t, 3, TN_I8, 2, SHAPE(3, 2), b);
    input(&t, 4, TN_F32, 1, SHAPE(2), b_scale);
    input(&t, 5, TN_I8, 1, SHAPE(1), b_zero);
    input(&t, 6, TN_F32, 0, NULL, y_scale);
    input(&t, 7, TN_I8, 0, NULL, y_zero);
    GIVES(&t, TN_I8, 3, want);
  }
  trial t;
  trial_begin(&t, "QLinearMatMul", 7, 1);
  for (int i = 0; i < 7; i++)
    input(&t, i, i % 3 == 1 || i == 6 ? TN_F32 : TN_U8, 2, SHAPE(1, 1),
          i % 3 == 1 || i == 6 ? (void *)y_scale : (void *)a);
  refuses(&t, "without input 7");
}
END_TEST

START_TEST(windows_are_padded_with_zero_points) {
  uint8_t x[] = {10, 11, 12, 13}, x_zero = 10;
  int8_t w[] = {1, 2, 3, -1}; /* two kernels of a channel */
  int32_t lower[] = {0, 2, 5, 8, 0, -1, 1, 3}, upper[] = {2, 5, 8, 3, -1, 1, 3, 9};
  for (int i = 0; i < 2; i++) {
    trial t;
    trial_begin(&t, "ConvInteger", 3, 1);
    input(&t, 0, TN_U8, 3, SHAPE(1, 1, 4), x);
    input(&t, 1, TN_I8, 3, SHAPE(2, 1, 2), w);
    input(&t, 2, TN_U8, 0, NULL, &x_zero);
    Onnx__Attribute *pad = attribute(&t, "auto_pad");
    pad->s.data = (uint8_t *)(uintptr_t)(i ? "SAME_UPPER" : "SAME_LOWER");
    pad->s.len = 10;
    gives_bytes(&t, TN_I32, 3, i ? upper : lower, sizeof upper);
  }
}
END_TEST

START_TEST(convolutions_have_a_scale_for_each_kernel) {
  uint8_t x[] = {10, 11, 12, 13}, x_zero = 10, y_zero = 5;
  int8_t w[] = {1, 2, 3, -1}, w_zero[] = {0, 1};
  float x_scale = 0.5f, w_scale[] = {1, 2}, y_scale = 0.25f;
  int32_t bias[] = {100, -100};
  /* (2 5 8 + 100) 2 + 5, and (-2 -2 -2 + ... - 100) 4 + 5, saturated */
  uint8_t y[] = {209, 215, 221, 0, 0, 0};
  trial t;
  trial_begin(&t, "QLinearConv", 9, 1);
  input(&t, 0, TN_U8, 3, SHAPE(1, 1, 4), x);
  input(&t, 1, TN_F32, 0, NULL, &x_scale);
  input(&t, 2, TN_U8, 0, NULL, &x_zero);
  input(&t, 3, TN_I8, 3, SHAPE(2, 1, 2), w);
  input(&t, 4, TN_F32, 1, SHAPE(2), w_scale);
  input(&t, 5, TN_I8, 1, SHAPE(2), w_zero);
  input(&t, 6, TN_F32, 0, NULL, &y_scale);
  input(&t, 7, TN_U8, 0, NULL, &y_zero);
  input(&t, 8, TN_I32, 1, SHAPE(2), bias);
  GIVES(&t, TN_U8, 3, y);
}
END_TEST

static void equation(trial *t, const char *text) {
  Onnx__Attribute *a = attribute(t, "equation");
  a->s.data = (uint8_t *)(uintptr_t)text;
  a->s.len = strlen(text);
}

START_TEST(equations_are_read_with_care) {
  int32_t m[] = {1, 2, 3, 4}, trace[] = {5}, sums[] = {7, 10, 15, 22};
  trial t;
  trial_begin(&t, "Einsum", 1, 1);
  input(&t, 0, TN_I32, 2, SHAPE(2, 2), m);
  equation(&t, "ii");
  GIVES(&t, TN_I32, 0, trace);
  trial_begin(&t, "Einsum", 2, 1);
  for (int i = 0; i < 2; i++) input(&t, i, TN_I32, 2, SHAPE(2, 2), m);
  equation(&t, "...j, jk");
  GIVES(&t, TN_I32, 2, sums);
  trial_begin(&t, "Einsum", 1, 1);
  input(&t, 0, TN_I32, 2, SHAPE(2, 2), m);
  equation(&t, "ij->ik");
  fails(&t, "no operand has k");
  trial_begin(&t, "Einsum", 1, 1);
  input(&t, 0, TN_I32, 2, SHAPE(2, 2), m);
  refuses(&t, "an equation");
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  tcase_add_test(tcase, ties_go_to_the_even_number);
  tcase_add_test(tcase, types_are_said_by_zero_point_attribute_or_nobody);
  tcase_add_test(tcase, eight_bit_floats_saturate_unless_told_otherwise);
  tcase_add_test(tcase, scales_of_axes_and_of_blocks);
  tcase_add_test(tcase, scales_say_the_type_of_what_they_scale);
  tcase_add_test(tcase, vectors_and_integers_have_products);
  tcase_add_test(tcase, zero_points_of_rows);
  tcase_add_test(tcase, scales_of_rows);
  tcase_add_test(tcase, windows_are_padded_with_zero_points);
  tcase_add_test(tcase, convolutions_have_a_scale_for_each_kernel);
  tcase_add_test(tcase, equations_are_read_with_care);
}

int main(void) { return run_suite("onnx-quant", add_tests); }
