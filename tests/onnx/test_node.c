/*
 * Nodes as no case of ONNX's has them: what cannot be expressed is said, and nothing beyond a list
 * or a tensor is read.
 */
#include "trial.h"

static float numbers[24];
static int64_t places[4];

START_TEST(unknown_operators_are_named) {
  trial t;
  trial_begin(&t, "Frobnicate", 0, 1);
  refuses(&t, "Frobnicate");
}
END_TEST

START_TEST(too_many_tensors_are_refused) {
  trial t;
  trial_begin(&t, "Sum", NODE_TENSORS + 1, 1);
  refuses(&t, "more than 256 inputs");
}
END_TEST

START_TEST(numbers_must_be_known_and_there) {
  trial t;
  trial_begin(&t, "Reshape", 2, 1);
  input(&t, 0, TN_F32, 1, (int64_t[]){24}, numbers);
  input(&t, 1, TN_I64, 1, (int64_t[]){2}, places);
  t.at.in[1].data = NULL; /* a result of another node */
  refuses(&t, "numbers of input 1");

  trial_begin(&t, "Pad", 2, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  input(&t, 1, TN_I64, 1, (int64_t[]){2}, places); /* two axes want four */
  refuses(&t, "numbers of input 1");
}
END_TEST

START_TEST(lists_must_fit_the_axes) {
  int64_t list[40] = {1, 1, 1};
  trial t;
  trial_begin(&t, "Conv", 2, 1);
  input(&t, 0, TN_F32, 4, (int64_t[]){1, 1, 4, 6}, numbers);
  input(&t, 1, TN_F32, 4, (int64_t[]){1, 1, 2, 2}, numbers);
  ints(&t, "strides", 1, list);
  refuses(&t, "strides of 1 numbers for 2 axes");

  trial_begin(&t, "MaxPool", 1, 1);
  input(&t, 0, TN_F32, 4, (int64_t[]){1, 1, 4, 6}, numbers);
  ints(&t, "kernel_shape", 1, list);
  refuses(&t, "kernel");

  trial_begin(&t, "Transpose", 1, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  ints(&t, "perm", 1, list);
  refuses(&t, "permutation");

  trial_begin(&t, "ReduceSum", 1, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  ints(&t, "axes", 40, list);
  refuses(&t, "more than 8 axes");

  trial_begin(&t, "Unsqueeze", 1, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  list[0] = 7;
  ints(&t, "axes", 1, list);
  refuses(&t, "axis 7 of a tensor of 3");

  trial_begin(&t, "Split", 1, 3);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  ints(&t, "split", 2, list);
  refuses(&t, "split");
}
END_TEST

START_TEST(absurd_shapes_are_refused) {
  int64_t large[] = {INT64_MAX / 2, 4};
  float ends[] = {0, 1}, step = 0;
  trial t;
  trial_begin(&t, "Reshape", 2, 1);
  input(&t, 0, TN_F32, 1, (int64_t[]){24}, numbers);
  input(&t, 1, TN_I64, 1, (int64_t[]){2}, large);
  refuses(&t, "more elements than can be counted");

  trial_begin(&t, "Range", 3, 1);
  input(&t, 0, TN_F32, 0, NULL, &ends[0]);
  input(&t, 1, TN_F32, 0, NULL, &ends[1]);
  input(&t, 2, TN_F32, 0, NULL, &step);
  refuses(&t, "without an end");
}
END_TEST

START_TEST(older_versions_of_operators_are_told_apart) {
  trial t;
  float x[] = {-9, 0.5f, 9}, y[3];
  int64_t first[] = {1}, last[] = {3};
  trial_begin(&t, "Slice", 1, 1); /* by attributes */
  input(&t, 0, TN_F32, 1, (int64_t[]){3}, x);
  ints(&t, "starts", 1, first);
  ints(&t, "ends", 1, last);
  gives(&t, 2, y);
  ck_assert(y[0] == 0.5f && y[1] == 9);
  trial_end(&t);

  trial_begin(&t, "Clip", 1, 1);
  input(&t, 0, TN_F32, 1, (int64_t[]){3}, x);
  attribute(&t, "min")->f = -1;
  attribute(&t, "max")->f = 1;
  gives(&t, 3, y);
  ck_assert(y[0] == -1 && y[1] == 0.5f && y[2] == 1);
  trial_end(&t);
}
END_TEST

START_TEST(bounds_may_be_halves) {
  float x[] = {-9, 0x1p-25f, 9}, y[3];
  uint16_t halves[] = {0xc100, 0x0001}, bfloats[] = {0xc020, 0x4040}, hot[] = {0xbc00, 0x7bff};
  trial t;
  trial_begin(&t, "Clip", 3, 1);
  input(&t, 0, TN_F32, 1, SHAPE(3), x);
  input(&t, 1, TN_F16, 0, NULL, &halves[0]);
  input(&t, 2, TN_F16, 0, NULL, &halves[1]); /* the smallest number above 0 */
  gives(&t, 3, y);
  ck_assert(y[0] == -2.5f && y[1] == 0x1p-25f && y[2] == 0x1p-24f);
  trial_end(&t);

  trial_begin(&t, "Clip", 3, 1);
  input(&t, 0, TN_F32, 1, SHAPE(3), x);
  input(&t, 1, TN_BF16, 0, NULL, &bfloats[0]);
  input(&t, 2, TN_BF16, 0, NULL, &bfloats[1]);
  gives(&t, 3, y);
  ck_assert(y[0] == -2.5f && y[1] == 0x1p-25f && y[2] == 3);
  trial_end(&t);

  int64_t place = 1, depth = 2;
  uint16_t row[2];
  trial_begin(&t, "OneHot", 3, 1);
  input(&t, 0, TN_I64, 1, SHAPE(1), &place);
  input(&t, 1, TN_I64, 0, NULL, &depth);
  input(&t, 2, TN_F16, 1, SHAPE(2), hot);
  ck_assert_int_eq(node_run(&t.at), TN_OK);
  ck_assert_str_eq(t.at.cannot, "");
  ck_assert_int_eq(tn_tensor_to_host(t.at.y[0], row, sizeof row), TN_OK);
  ck_assert_mem_eq(row, hot, sizeof hot);
  trial_end(&t);
}
END_TEST

START_TEST(floats_are_no_integers) {
  uint16_t halves[] = {0x3c00, 0x4e00};
  trial t;
  trial_begin(&t, "Reshape", 2, 1);
  input(&t, 0, TN_F32, 1, SHAPE(24), numbers);
  input(&t, 1, TN_F16, 1, SHAPE(2), halves);
  refuses(&t, "integers of input 1, whose type is f16");
}
END_TEST

/* What becomes of four elements of a type whose numbers lie in lists of these lengths. */
static void take_four(int32_t type, size_t floats, size_t int32s, size_t int64s, onnx_tensor *to) {
  static float f[4] = {1, 2, 3, 4};
  static int32_t i[4] = {1, -2, 0x103, 0x3c00};
  static int64_t l[4] = {1, 2, 3, 4};
  int64_t four = 4;
  Onnx__Tensor t = ONNX__TENSOR__INIT;
  t.has_data_type = true;
  t.data_type = type;
  t.n_dims = 1;
  t.dims = &four;
  t.n_float_data = floats;
  t.float_data = f;
  t.n_int32_data = int32s;
  t.int32_data = i;
  t.n_int64_data = int64s;
  t.int64_data = l;
  onnx_tensor_take(&t, to);
}

START_TEST(numbers_lie_in_the_list_of_their_type) {
  enum { FLOAT = 1, UINT8 = 2, INT8 = 3, INT64 = 7, FLOAT16 = 10 };
  static const struct {
    int32_t type;
    size_t floats, int32s, int64s;
    const char *list; /* NULL: taken */
  } cases[] = {
      {FLOAT, 4, 0, 0, NULL},         {INT8, 0, 4, 0, NULL},
      {FLOAT16, 0, 4, 0, NULL},       {INT64, 0, 0, 4, NULL},
      {UINT8, 0, 0, 4, "int32_data"}, {FLOAT, 1, 3, 0, "float_data"},
      {INT64, 0, 4, 0, "int64_data"}, {FLOAT16, 4, 0, 0, "int32_data"},
      {FLOAT, 4, 0, 4, "float_data"}, {INT8, 0, 3, 0, "int32_data"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_tensor got;
    take_four(cases[i].type, cases[i].floats, cases[i].int32s, cases[i].int64s, &got);
    ck_assert_msg(!got.data == !!cases[i].list, "case %zu", i);
    ck_assert_int_eq(got.dtype, cases[i].list ? TN_DTYPE_NONE : onnx_dtype(cases[i].type));
    if (cases[i].list) ck_assert_str_eq(got.lacks, cases[i].list);
    if (got.dtype == TN_I8) ck_assert_mem_eq(got.data, ((int8_t[]){1, -2, 3, 0}), 4);
    if (got.dtype == TN_F16) ck_assert_mem_eq((uint16_t *)got.data + 3, &(uint16_t){0x3c00}, 2);
    free(got.data);
  }
  trial t;
  trial_begin(&t, "Abs", 1, 1);
  take_four(UINT8, 0, 0, 4, &t.at.in[0]);
  refuses(&t, "tensor t, whose numbers are not those of int32_data");
}
END_TEST

START_TEST(raw_numbers_are_the_only_ones) {
  int64_t two = 2;
  uint8_t raw[2] = {7, 8};
  onnx_tensor got;
  Onnx__Tensor t = ONNX__TENSOR__INIT;
  t.has_data_type = t.has_raw_data = true;
  t.data_type = 2;
  t.n_dims = 1;
  t.dims = &two;
  t.raw_data = (ProtobufCBinaryData){sizeof raw, raw};
  onnx_tensor_take(&t, &got);
  ck_assert_int_eq(got.dtype, TN_U8);
  ck_assert_mem_eq(got.data, raw, sizeof raw);
  free(got.data);
  t.n_int64_data = 2;
  t.int64_data = places;
  onnx_tensor_take(&t, &got);
  ck_assert_int_eq(got.dtype, TN_DTYPE_NONE);
  ck_assert_str_eq(got.lacks, "raw_data");
}
END_TEST

START_TEST(outputs_and_inputs_must_be_there) {
  trial t;
  trial_begin(&t, "Split", 1, 0);
  input(&t, 0, TN_F32, 1, SHAPE(24), numbers);
  refuses(&t, "without outputs");

  trial_begin(&t, "Max", 0, 1);
  refuses(&t, "Max without input 0");

  trial_begin(&t, "Sum", 3, 1);
  input(&t, 0, TN_F32, 1, SHAPE(24), numbers);
  input(&t, 2, TN_F32, 1, SHAPE(24), numbers);
  refuses(&t, "Sum without input 1");

  static const char *const shaped[] = {"Expand", "Tile"};
  for (int i = 0; i < 2; i++) {
    trial_begin(&t, shaped[i], 1, 1);
    input(&t, 0, TN_F32, 1, SHAPE(24), numbers);
    refuses(&t, "without input 1");
  }
}
END_TEST

START_TEST(inputs_are_left_as_they_were) {
  static const char *const reductions[] = {"none", "add", "max"};
  float data[] = {1, 2, 3}, update = 9, y[3];
  int64_t place = 1;
  for (int i = 0; i < 3; i++) {
    trial t;
    trial_begin(&t, "ScatterElements", 3, 1);
    input(&t, 0, TN_F32, 1, SHAPE(3), data);
    input(&t, 1, TN_I64, 1, SHAPE(1), &place);
    input(&t, 2, TN_F32, 1, SHAPE(1), &update);
    word(&t, "reduction", reductions[i]);
    gives(&t, 3, y);
    ck_assert(y[0] == 1 && y[1] == (i == 1 ? 11 : 9) && y[2] == 3);
    ck_assert_int_eq(tn_tensor_to_host(t.at.x[0], y, sizeof y), TN_OK);
    ck_assert_mem_eq(y, data, sizeof y);
    trial_end(&t);
  }
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_test(t, unknown_operators_are_named);
  tcase_add_test(t, too_many_tensors_are_refused);
  tcase_add_test(t, numbers_must_be_known_and_there);
  tcase_add_test(t, lists_must_fit_the_axes);
  tcase_add_test(t, absurd_shapes_are_refused);
  tcase_add_test(t, older_versions_of_operators_are_told_apart);
  tcase_add_test(t, bounds_may_be_halves);
  tcase_add_test(t, floats_are_no_integers);
  tcase_add_test(t, numbers_lie_in_the_list_of_their_type);
  tcase_add_test(t, raw_numbers_are_the_only_ones);
  tcase_add_test(t, outputs_and_inputs_must_be_there);
  tcase_add_test(t, inputs_are_left_as_they_were);
}

int main(void) { return run_suite("onnx node", add_tests); }
