/* Sums, means, maxima. */
#include "harness.h"

#define SUM_OVER(keep, ...)                                                                        \
  (tn_sum_attrs) {                                                                                 \
    sizeof(tn_sum_attrs), {(int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / 4), {__VA_ARGS__}}, keep   \
  }

/* sum, mean and max have attribute structs of one layout. */
static tensor *reduced(tn_kernel_fn fn, tensor *x, const void *attrs, tn_dtype dtype, int ndim,
                       const int64_t *shape) {
  tensor *y = make(dtype, DENSE, ndim, shape);
  call c = {fn, attrs, 1, 1, {x}, {y}};
  check_layouts(&c);
  return y;
}

static const double six[] = {1, 2, 3, 4, 5, 6};

START_TEST(sums_over_axes) {
  for (tn_dtype t = TN_U8; t <= TN_F64; ++t) {
    tensor *x = with(t, six, SHAPE(2, 3));
    tn_sum_attrs all = TN_SUM_DEFAULTS, rows = SUM_OVER(0, 0), columns = SUM_OVER(1, -1);
    check_values(reduced(reference_sum, x, &all, t, SCALAR), VALUES(21), 0);
    check_values(reduced(reference_sum, x, &rows, t, SHAPE(3)), VALUES(5, 7, 9), 0);
    check_values(reduced(reference_sum, x, &columns, t, SHAPE(2, 1)), VALUES(6, 15), 0);
    check_values(reduced(reference_max, x, &rows, t, SHAPE(3)), VALUES(4, 5, 6), 0);
    check_values(reduced(reference_max, x, &columns, t, SHAPE(2, 1)), VALUES(3, 6), 0);
    if (!(TN_SET(t) & TN_SET_FLOAT)) continue;
    check_values(reduced(reference_mean, x, &all, t, SCALAR), VALUES(3.5), 0);
    check_values(reduced(reference_mean, x, &columns, t, SHAPE(2, 1)), VALUES(2, 5), 0);
  }
}
END_TEST

START_TEST(sum_of_some_axes_in_the_middle) {
  tensor *x = random_tensor(TN_F64, 9, -1, 1, SHAPE(2, 3, 4, 5));
  tn_sum_attrs attrs = SUM_OVER(0, 2, -4);
  double wanted[15] = {0};
  for (int i = 0; i < 120; ++i) wanted[i / 20 % 3 * 5 + i % 5] += get(x, i);
  check_values(reduced(reference_sum, x, &attrs, TN_F64, SHAPE(3, 5)), wanted, 1e-14);
}
END_TEST

START_TEST(sums_wrap_in_their_width) {
  tn_sum_attrs all = TN_SUM_DEFAULTS;
  tensor *u8 = with(TN_U8, VALUES(200, 100, 7), SHAPE(3));
  check_values(reduced(reference_sum, u8, &all, TN_U8, SCALAR), VALUES(51), 0);
  tensor *i64 = make(TN_I64, DENSE, SHAPE(2));
  set_i64(i64, 0, INT64_MAX), set_i64(i64, 1, 2);
  ck_assert_int_eq(get_i64(reduced(reference_sum, i64, &all, TN_I64, SCALAR), 0), INT64_MIN + 1);
}
END_TEST

START_TEST(empty_axes_give_the_identity) {
  tensor *x = make(TN_F32, DENSE, SHAPE(2, 0)), *i = make(TN_I32, DENSE, SHAPE(2, 0));
  tn_sum_attrs last = SUM_OVER(0, 1), first = SUM_OVER(0, 0), all = TN_SUM_DEFAULTS;
  check_values(reduced(reference_sum, x, &last, TN_F32, SHAPE(2)), VALUES(0, 0), 0);
  check_values(reduced(reference_sum, i, &last, TN_I32, SHAPE(2)), VALUES(0, 0), 0);
  check_values(reduced(reference_mean, x, &last, TN_F32, SHAPE(2)), VALUES(NAN, NAN), 0);
  check_values(reduced(reference_sum, x, &all, TN_F32, SCALAR), VALUES(0), 0);
  check_values(reduced(reference_mean, x, &all, TN_F32, SCALAR), VALUES(NAN), 0);
  ck_assert_int_eq(reduced(reference_sum, x, &first, TN_F32, SHAPE(0))->count, 0);
}
END_TEST

START_TEST(scalars_reduce_to_themselves) {
  tensor *x = with(TN_F32, VALUES(-3), SCALAR);
  tn_sum_attrs all = TN_SUM_DEFAULTS;
  check_values(reduced(reference_sum, x, &all, TN_F32, SCALAR), VALUES(-3), 0);
  check_values(reduced(reference_mean, x, &all, TN_F32, SCALAR), VALUES(-3), 0);
  check_values(reduced(reference_max, x, &all, TN_F32, SCALAR), VALUES(-3), 0);
}
END_TEST

/* More elements than one run, whose float32 sum would be far off. */
START_TEST(long_sums_are_exact) {
  tensor *one = with(TN_F32, VALUES(0.1), SHAPE(1));
  tensor *x = repeated(one, SHAPE(3, 1000001), (const int64_t[]){0, 0});
  tensor *y = make(TN_F32, DENSE, SHAPE(3));
  tn_sum_attrs last = SUM_OVER(0, 1);
  call c = {reference_sum, &last, 1, 1, {x}, {y}};
  must(&c);
  for (int i = 0; i < 3; ++i) EXPECT(get(y, i) == (double)(float)((double)0.1f * 1000001));
}
END_TEST

START_TEST(maxima_and_nan) {
  tn_max_attrs all = TN_MAX_DEFAULTS;
  tensor *x = with(TN_F32, VALUES(1, NAN, INFINITY, NAN), SHAPE(4));
  check_values(reduced(reference_max, x, &all, TN_F32, SCALAR), VALUES(NAN), 0);
  x = with(TN_F32, VALUES(-INFINITY, -INFINITY), SHAPE(2));
  check_values(reduced(reference_max, x, &all, TN_F32, SCALAR), VALUES(-INFINITY), 0);
  tensor *i = make(TN_I64, DENSE, SHAPE(3));
  set_i64(i, 0, INT64_MIN), set_i64(i, 1, INT64_MAX - 1), set_i64(i, 2, INT64_MAX);
  ck_assert_int_eq(get_i64(reduced(reference_max, i, &all, TN_I64, SCALAR), 0), INT64_MAX);
}
END_TEST

static tensor *argmax(tensor *x, int64_t axis, int keepdims, int ndim, const int64_t *shape) {
  tn_argmax_attrs attrs = {sizeof attrs, axis, keepdims};
  return reduced(reference_argmax, x, &attrs, TN_I64, ndim, shape);
}

START_TEST(argmax_finds_the_first) {
  for (tn_dtype t = TN_U8; t <= TN_F64; ++t) {
    tensor *x = with(t, VALUES(1, 5, 5, 9, 2, 9), SHAPE(2, 3));
    check_values(argmax(x, -1, 0, SHAPE(2)), VALUES(1, 0), 0);
    check_values(argmax(x, 0, 1, SHAPE(1, 3)), VALUES(1, 0, 1), 0);
  }
  tensor *x = with(TN_F32, VALUES(1, NAN, INFINITY, NAN), SHAPE(4));
  check_values(argmax(x, 0, 0, SCALAR), VALUES(1), 0);
  x = with(TN_F32, VALUES(-INFINITY, -INFINITY), SHAPE(2));
  check_values(argmax(x, 0, 0, SCALAR), VALUES(0), 0);
  tensor *low = make(TN_I64, DENSE, SHAPE(2));
  set_i64(low, 0, INT64_MIN), set_i64(low, 1, INT64_MIN);
  check_values(argmax(low, 0, 0, SCALAR), VALUES(0), 0);
  tensor *many = random_tensor(TN_F32, 11, 0, 1, SHAPE(2000));
  set(many, 1777, 2);
  check_values(argmax(many, 0, 0, SCALAR), VALUES(1777), 0);
}
END_TEST

Suite *reduce_suite(void) {
  Suite *s = suite_create("reductions");
  TCase *c = add_case(s, "reductions");
  tcase_add_test(c, sums_over_axes);
  tcase_add_test(c, sum_of_some_axes_in_the_middle);
  tcase_add_test(c, sums_wrap_in_their_width);
  tcase_add_test(c, empty_axes_give_the_identity);
  tcase_add_test(c, scalars_reduce_to_themselves);
  tcase_add_test(c, long_sums_are_exact);
  tcase_add_test(c, maxima_and_nan);
  tcase_add_test(c, argmax_finds_the_first);
  return s;
}
