/*
 * Sums, products and scans whose results are wider than their input: what NumPy and PyTorch give
 * for narrow integers and bool, and more digits for floats, with the numbers written out by hand.
 */
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

static tn_sum_attrs sum_as(tn_dtype dtype) {
  tn_sum_attrs attrs = TN_SUM_DEFAULTS;
  attrs.dtype = (int32_t)dtype;
  return attrs;
}

static tn_tensor *sum_of(const tn_tensor *x, tn_dtype dtype) {
  const tn_sum_attrs attrs = sum_as(dtype);
  tn_tensor *y = NULL;
  ok(tn_sum(NULL, x, &attrs, &y));
  return y;
}

static tn_tensor *prod_of(const tn_tensor *x, tn_dtype dtype) {
  tn_prod_attrs attrs = TN_PROD_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.dtype = (int32_t)dtype;
  ok(tn_prod(NULL, x, &attrs, &y));
  return y;
}

static tn_tensor *scan_of(const tn_tensor *x, tn_dtype dtype, bool product, bool exclusive) {
  tn_cumsum_attrs attrs = TN_CUMSUM_DEFAULTS;
  tn_cumprod_attrs other = TN_CUMPROD_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.dtype = other.dtype = (int32_t)dtype;
  attrs.exclusive = other.exclusive = exclusive;
  ok(product ? tn_cumprod(NULL, x, &other, &y) : tn_cumsum(NULL, x, &attrs, &y));
  return y;
}

START_TEST(small_integers_are_summed_in_64_bits) {
  static const tn_dtype types[] = {TN_I8, TN_U8};
  for (int d = 0; d < b.count; ++d)
    for (int k = 0; k < 2; ++k) {
      tn_tensor *x = numbers(b.devices[d], types[k], 1, SHAPE(3), (double[]){100, 120, 100});
      tn_tensor *y = sum_of(x, TN_I64);
      ck_assert_int_eq(tn_tensor_dtype(y), TN_I64);
      MUST_BE("sum", d, y, 320);
      MUST_BE("product", d, prod_of(x, TN_I64), 1200000);
      MUST_BE("running sum", d, scan_of(x, TN_I64, false, false), 100, 220, 320);
      MUST_BE("running product", d, scan_of(x, TN_I64, true, true), 1, 100, 12000);
      y = sum_of(x, TN_DTYPE_NONE);
      ck_assert_int_eq(tn_tensor_dtype(y), types[k]);
      MUST_BE("sum that wraps", d, y, 64);
      MUST_BE("running sum that wraps", d, scan_of(x, TN_DTYPE_NONE, false, false), 100,
              types[k] == TN_U8 ? 220 : -36, 64);
      tn_tensor_release(x);
    }
}
END_TEST

START_TEST(wider_integers_too) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_I16, 1, SHAPE(2), (double[]){-32768, -32768});
    MUST_BE("i16", d, sum_of(x, TN_I64), -65536);
    MUST_BE("i16", d, prod_of(x, TN_I64), 1073741824);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_I32, 1, SHAPE(2), (double[]){2147483647, 2147483647});
    MUST_BE("i32", d, sum_of(x, TN_I64), 4294967294);
    MUST_BE("i32", d, scan_of(x, TN_I64, false, false), 2147483647, 4294967294);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_I64, 1, SHAPE(2), (double[]){3, 4});
    MUST_BE("i64", d, sum_of(x, TN_I64), 7);
    tn_tensor_release(x);
  }
}
END_TEST

START_TEST(booleans_are_counted) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_BOOL, 2, SHAPE(2, 3), (double[]){1, 0, 1, 1, 1, 1});
    tn_sum_attrs rows = sum_as(TN_I64);
    tn_tensor *y = NULL;
    rows.axes = (tn_axes){1, {1}};
    ok(tn_sum(NULL, x, &rows, &y));
    MUST_BE("rows", d, y, 2, 3);
    y = NULL, rows.axes.axis[0] = 0;
    ok(tn_sum(NULL, x, &rows, &y));
    MUST_BE("columns", d, y, 2, 1, 2);
    MUST_BE("all", d, prod_of(x, TN_I64), 0);
    MUST_BE("running", d, scan_of(x, TN_I64, false, false), 1, 1, 2, 1, 2, 3);
    y = NULL;
    refused(tn_sum(NULL, x, NULL, &y), TN_ERR_INVALID_ARGUMENT, "set attrs->dtype to TN_I64");
    refused(tn_cumprod(NULL, x, NULL, &y), TN_ERR_INVALID_ARGUMENT, "set attrs->dtype to TN_I64");
    tn_tensor_release(x);
  }
}
END_TEST

/* 70,000 ones are more than float16 holds; bfloat16 stops counting at 256. */
START_TEST(narrow_floats_are_summed_in_wider_ones) {
  enum { ONES = 70000 };
  static double ones[ONES];
  for (int i = 0; i < ONES; ++i) ones[i] = 1;
  for (int d = 0; d < b.count; ++d)
    for (tn_dtype from = TN_F16; from <= TN_BF16; ++from) {
      tn_tensor *x = numbers(b.devices[d], from, 1, SHAPE(ONES), ones);
      MUST_BE("f32", d, sum_of(x, TN_F32), ONES);
      MUST_BE("f64", d, sum_of(x, TN_F64), ONES);
      MUST_BE("own type", d, sum_of(x, TN_DTYPE_NONE), from == TN_F16 ? (double)INFINITY : 70144);
      tn_tensor_release(x);
      x = numbers(b.devices[d], from, 1, SHAPE(3), (double[]){256, 1, -0.5});
      MUST_BE("f32", d, scan_of(x, TN_F32, false, false), 256, 257, 256.5);
      MUST_BE("f64", d, scan_of(x, TN_F64, true, false), 256, 256, -128);
      MUST_BE("f32", d, prod_of(x, TN_F32), -128);
      tn_tensor_release(x);
    }
}
END_TEST

START_TEST(doubles_keep_what_floats_lose) {
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){1, 0x1p-40});
    MUST_BE("sum", d, sum_of(x, TN_F64), 1 + 0x1p-40);
    MUST_BE("running sum", d, scan_of(x, TN_F64, false, false), 1, 1 + 0x1p-40);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_F32, 1, SHAPE(2), (double[]){1 + 0x1p-20, 1 + 0x1p-20});
    MUST_BE("product", d, prod_of(x, TN_F64), 1 + 0x1p-19 + 0x1p-40);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_F32, 2, SHAPE(0, 2), (double[]){0});
    MUST_BE("nothing", d, sum_of(x, TN_F64), 0);
    MUST_BE("nothing", d, prod_of(x, TN_F64), 1);
    tn_tensor_release(x);
    x = numbers(b.devices[d], TN_F16, 1, SHAPE(2), (double[]){NAN, 1});
    MUST_BE("NaN", d, sum_of(x, TN_F64), NAN);
    tn_tensor_release(x);
  }
}
END_TEST

/* Long enough, and across axes that are not the last, for several blocks and threads. */
START_TEST(large_sums_are_wide_everywhere) {
  enum { ROWS = 300, COLUMNS = 70 };
  double *v = malloc(ROWS * COLUMNS * sizeof *v), down[COLUMNS] = {0}, all = 0;
  for (int i = 0; i < ROWS * COLUMNS; ++i) v[i] = i % 251 % 128;
  for (int i = 0; i < ROWS * COLUMNS; ++i) down[i % COLUMNS] += v[i], all += v[i];
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_I8, 2, SHAPE(ROWS, COLUMNS), v), *y = NULL, *turned;
    tn_sum_attrs columns = sum_as(TN_I64);
    columns.axes = (tn_axes){1, {0}};
    ok(tn_sum(NULL, x, &columns, &y));
    must_be(&b, "columns", d, y, COLUMNS, down, 0);
    y = NULL, columns.axes.axis[0] = 1;
    ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &turned));
    ok(tn_sum(NULL, turned, &columns, &y));
    must_be(&b, "rows of what was turned", d, y, COLUMNS, down, 0);
    MUST_BE("all", d, sum_of(x, TN_I64), all);
    tn_tensor_release(turned), tn_tensor_release(x);
  }
  free(v);
}
END_TEST

START_TEST(other_result_types_are_refused) {
  static const tn_dtype pairs[][2] = {{TN_I8, TN_I32},   {TN_I8, TN_F32},  {TN_I64, TN_F64},
                                      {TN_I64, TN_I32},  {TN_U8, TN_BOOL}, {TN_F32, TN_F16},
                                      {TN_F16, TN_BF16}, {TN_F64, TN_F32}, {TN_F32, TN_I64},
                                      {TN_F32, 17},      {TN_F32, 99}};
  tn_device *device = b.devices[1];
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    const tn_sum_attrs attrs = sum_as(pairs[i][1]);
    tn_tensor *x = shaped(device, pairs[i][0], 1, SHAPE(2)), *y = NULL;
    refused(tn_sum(NULL, x, &attrs, &y), TN_ERR_INVALID_ARGUMENT, "attrs->dtype is");
    ck_assert_ptr_null(y);
    tn_tensor_release(x);
  }
  const tn_sum_attrs wide = sum_as(TN_I64), own = sum_as(TN_DTYPE_NONE);
  tn_tensor *x = shaped(device, TN_I8, 1, SHAPE(2)), *y8 = shaped(device, TN_I8, 0, NULL),
            *y64 = shaped(device, TN_I64, 0, NULL);
  refused(tn_sum(NULL, x, &wide, &y8), TN_ERR_INVALID_ARGUMENT, "attrs->dtype makes it i64");
  refused(tn_sum(NULL, x, &own, &y64), TN_ERR_INVALID_ARGUMENT, "attrs->dtype makes it i8");
  ok(tn_sum(NULL, x, &wide, &y64));
  ok(tn_sum(NULL, x, &own, &y8));
  tn_tensor_release(x), tn_tensor_release(y8), tn_tensor_release(y64);
}
END_TEST

/* A program of before has a shorter struct, with anything behind it. */
START_TEST(programs_of_before_get_sums_in_their_own_type) {
  struct {
    tn_sum_attrs known;
    int32_t anything;
  } old = {.known = TN_SUM_DEFAULTS, .anything = -1};
  old.known.struct_size = offsetof(tn_sum_attrs, dtype);
  old.known.dtype = TN_I64;
  for (int d = 0; d < b.count; ++d) {
    tn_tensor *x = numbers(b.devices[d], TN_I8, 1, SHAPE(2), (double[]){100, 100}), *y = NULL;
    ok(tn_sum(NULL, x, &old.known, &y));
    ck_assert_int_eq(tn_tensor_dtype(y), TN_I8);
    MUST_BE("sum", d, y, -56);
    tn_tensor_release(x);
  }
}
END_TEST

/* Attributes of a prepared call change its kernel, not the type of its output. */
START_TEST(prepared_sums_keep_their_type) {
  for (int d = 0; d < b.count; ++d) {
    tn_sum_attrs attrs = sum_as(TN_I64);
    tn_tensor *x = numbers(b.devices[d], TN_I8, 1, SHAPE(2), (double[]){100, 100}), *y = NULL;
    tn_call call = {.struct_size = sizeof call,
                    .op = TN_OP_SUM,
                    .in = (const tn_tensor *[]){x},
                    .out = &y,
                    .attrs = &attrs,
                    .num_in = 1,
                    .num_out = 1};
    tn_prepared *prepared = NULL;
    ok(tn_prepare(&call, &prepared));
    ok(tn_run(prepared));
    attrs.dtype = TN_DTYPE_NONE;
    refused(tn_prepared_set_attrs(prepared, &attrs), TN_ERR_INVALID_ARGUMENT, "attrs->dtype");
    ok(tn_run(prepared));
    tn_prepared_release(prepared);
    MUST_BE("sum", d, y, 200);
    tn_tensor_release(x);
  }
}
END_TEST

static void add_tests(TCase *c) {
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, small_integers_are_summed_in_64_bits);
  tcase_add_test(c, wider_integers_too);
  tcase_add_test(c, booleans_are_counted);
  tcase_add_test(c, narrow_floats_are_summed_in_wider_ones);
  tcase_add_test(c, doubles_keep_what_floats_lose);
  tcase_add_test(c, large_sums_are_wide_everywhere);
  tcase_add_test(c, other_result_types_are_refused);
  tcase_add_test(c, programs_of_before_get_sums_in_their_own_type);
  tcase_add_test(c, prepared_sums_keep_their_type);
}

int main(void) { return run_suite("widening", add_tests); }
