/* Arithmetic, comparisons, activations with their gradients, and optimiser steps. */
#include "harness.h"

static tensor *unary(tn_kernel_fn fn, const void *attrs, tensor *x) {
  tensor *y = make_like(x, x->dtype, DENSE);
  call c = {fn, attrs, 1, 1, {x}, {y}};
  check_layouts(&c);
  return y;
}

static tensor *binary(tn_kernel_fn fn, const void *attrs, tensor *a, tensor *b, tn_dtype dtype) {
  tensor *y = make_like(a, dtype, DENSE);
  call c = {fn, attrs, 2, 1, {a, b}, {y}};
  check_layouts(&c);
  return y;
}

static int64_t narrowed(tn_dtype dtype, int64_t x) {
  switch (dtype) {
  case TN_U8:
    return (uint8_t)x;
  case TN_I8:
    return (int8_t)x;
  case TN_I16:
    return (int16_t)x;
  case TN_I32:
    return (int32_t)x;
  default:
    return x;
  }
}

/* The extremes of each width against each other. */
START_TEST(integers_wrap_in_their_width) {
  static const int64_t least[] = {0, INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN};
  static const int64_t most[] = {UINT8_MAX, INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX};
  tn_dtype t = (tn_dtype)(TN_U8 + _i);
  const int64_t v[] = {least[_i], most[_i], 0, 1, narrowed(t, -1), 7, narrowed(t, -7), 100};
  tensor *a = make(t, DENSE, SHAPE(8, 8)), *b = make(t, DENSE, SHAPE(8, 8));
  for (int i = 0; i < 64; ++i) set_i64(a, i, v[i / 8]), set_i64(b, i, v[i % 8]);
  tensor *sum = binary(reference_add, NULL, a, b, t), *diff = binary(reference_sub, NULL, a, b, t);
  tensor *prod = binary(reference_mul, NULL, a, b, t), *quot = binary(reference_div, NULL, a, b, t);
  tensor *max = binary(reference_maximum, NULL, a, b, t);
  tensor *min = binary(reference_minimum, NULL, a, b, t);
  tensor *neg = unary(reference_neg, NULL, a), *relu = unary(reference_relu, NULL, a);
  for (int i = 0; i < 64; ++i) {
    int64_t x = v[i / 8], y = v[i % 8];
    __int128_t q = y == 0 ? 0 : (__int128_t)x / y;
    ck_assert_int_eq(get_i64(sum, i), narrowed(t, (int64_t)((uint64_t)x + (uint64_t)y)));
    ck_assert_int_eq(get_i64(diff, i), narrowed(t, (int64_t)((uint64_t)x - (uint64_t)y)));
    ck_assert_int_eq(get_i64(prod, i), narrowed(t, (int64_t)((uint64_t)x * (uint64_t)y)));
    ck_assert_int_eq(get_i64(quot, i), narrowed(t, (int64_t)(uint64_t)q));
    ck_assert_int_eq(get_i64(max, i), x > y ? x : y);
    ck_assert_int_eq(get_i64(min, i), x < y ? x : y);
    ck_assert_int_eq(get_i64(neg, i), narrowed(t, (int64_t)(0 - (uint64_t)x)));
    ck_assert_int_eq(get_i64(relu, i), x > 0 ? x : 0);
  }
}
END_TEST

/* add, sub, mul and div of float32 are IEEE's. */
START_TEST(float32_arithmetic_is_exact) {
  tensor *a = random_tensor(TN_F32, 1, -3, 3, SHAPE(7, 143));
  tensor *b = random_tensor(TN_F32, 2, -3, 3, SHAPE(7, 143));
  tensor *sum = binary(reference_add, NULL, a, b, TN_F32);
  tensor *diff = binary(reference_sub, NULL, a, b, TN_F32);
  tensor *prod = binary(reference_mul, NULL, a, b, TN_F32);
  tensor *quot = binary(reference_div, NULL, a, b, TN_F32);
  tensor *root = unary(reference_sqrt, NULL, a);
  for (int i = 0; i < 1001; ++i) {
    float x = (float)get(a, i), y = (float)get(b, i);
    EXPECT(get(sum, i) == (double)(x + y));
    EXPECT(get(diff, i) == (double)(x - y));
    EXPECT(get(prod, i) == (double)(x * y));
    EXPECT(get(quot, i) == (double)(x / y));
    check_near(get(root, i), (double)sqrtf(x), 0);
  }
}
END_TEST

/* 16-bit floats: the exact result rounded once, which set() finds by search. */
START_TEST(halves_round_once) {
  tn_dtype t = _i ? TN_BF16 : TN_F16;
  tensor *a = random_tensor(t, 3, -300, 300, SHAPE(500));
  tensor *b = random_tensor(t, 4, -300, 300, SHAPE(500)), *wanted = make_like(a, t, DENSE);
  for (int i = 0; i < 500; ++i) set(wanted, i, get(a, i) + get(b, i));
  check_same(binary(reference_add, NULL, a, b, t), wanted);
  for (int i = 0; i < 500; ++i) set(wanted, i, get(a, i) * get(b, i));
  check_same(binary(reference_mul, NULL, a, b, t), wanted);
  for (int i = 0; i < 500; ++i) set(wanted, i, exp(get(a, i)));
  check_same(unary(reference_exp, NULL, a), wanted);
}
END_TEST

START_TEST(broadcast_and_in_place) {
  tensor *row = with(TN_F32, VALUES(10, 20, 30), SHAPE(3));
  tensor *a = repeated(row, SHAPE(2, 3), (const int64_t[]){0, 1});
  tensor *x = with(TN_F32, VALUES(1, 2, 3, 4, 5, 6), SHAPE(2, 3));
  call c = {reference_sub, NULL, 2, 1, {x, a}, {x}};
  ck_assert_int_eq(call_run_cut(&c), TN_OK);
  check_values(x, VALUES(-9, -18, -27, -6, -15, -24), 0);
  tensor *scalar = with(TN_F32, VALUES(5), SCALAR), *y = make(TN_F32, DENSE, SCALAR);
  call s = {reference_mul, NULL, 2, 1, {scalar, scalar}, {y}};
  must(&s);
  check_values(y, VALUES(25), 0);
  tensor *none = make(TN_F32, DENSE, SHAPE(3, 0)), *to = make(TN_F32, DENSE, SHAPE(3, 0));
  call e = {reference_add, NULL, 2, 1, {none, none}, {to}};
  must(&e);
}
END_TEST

START_TEST(nan_wins) {
  const double x[] = {NAN, 1, NAN, INFINITY, -INFINITY}, y[] = {1, NAN, NAN, 2, 2};
  for (tn_dtype t = TN_F16; t <= TN_F64; ++t) {
    tensor *a = with(t, x, SHAPE(5)), *b = with(t, y, SHAPE(5));
    check_values(binary(reference_maximum, NULL, a, b, t), VALUES(NAN, NAN, NAN, INFINITY, 2), 0);
    check_values(binary(reference_minimum, NULL, a, b, t), VALUES(NAN, NAN, NAN, 2, -INFINITY), 0);
    check_values(unary(reference_relu, NULL, a), VALUES(NAN, 1, NAN, INFINITY, 0), 0);
  }
}
END_TEST

START_TEST(comparisons) {
  static const tn_kernel_fn fns[] = {reference_equal,   reference_not_equal,
                                     reference_less,    reference_less_equal,
                                     reference_greater, reference_greater_equal};
  static const double less[] = {0, 1, 1, 1, 0, 0}, equal[] = {1, 0, 0, 1, 0, 1};
  static const double greater[] = {0, 1, 0, 0, 1, 1};
  for (int f = 0; f < 6; ++f) {
    for (tn_dtype t = TN_BOOL; t <= TN_F64; ++t) {
      tensor *a = with(t, VALUES(0, 1, 1), SHAPE(3)), *b = with(t, VALUES(1, 1, 0), SHAPE(3));
      double wanted[] = {less[f], equal[f], greater[f]};
      check_values(binary(fns[f], NULL, a, b, TN_BOOL), wanted, 0);
    }
    tensor *nan = with(TN_F32, VALUES(NAN, NAN, 0), SHAPE(3));
    tensor *x = with(TN_F32, VALUES(NAN, 0, NAN), SHAPE(3));
    double unequal = fns[f] == reference_not_equal;
    check_values(binary(fns[f], NULL, nan, x, TN_BOOL), VALUES(unequal, unequal, unequal), 0);
  }
}
END_TEST

START_TEST(large_integers_compare_exactly) {
  tensor *a = make(TN_I64, DENSE, SHAPE(1)), *b = make(TN_I64, DENSE, SHAPE(1));
  set_i64(a, 0, INT64_MAX), set_i64(b, 0, INT64_MAX - 1);
  check_values(binary(reference_equal, NULL, a, b, TN_BOOL), VALUES(0), 0);
  check_values(binary(reference_greater, NULL, a, b, TN_BOOL), VALUES(1), 0);
}
END_TEST

START_TEST(functions_at_special_places) {
  const double x[] = {INFINITY, -INFINITY, NAN, 0, 1, -1, 800, -800};
  const double e = 2.718281828459045235;
  tn_gelu_attrs gelu = TN_GELU_DEFAULTS;
  tensor *t = with(TN_F64, x, SHAPE(8));
  check_values(unary(reference_exp, NULL, t), VALUES(INFINITY, 0, NAN, 1, e, 1 / e, INFINITY, 0),
               1e-15);
  check_values(unary(reference_log, NULL, t),
               VALUES(INFINITY, NAN, NAN, -INFINITY, 0, NAN, 6.684611727667927, NAN), 1e-15);
  check_values(unary(reference_sqrt, NULL, t),
               VALUES(INFINITY, NAN, NAN, 0, 1, NAN, 28.284271247461902, NAN), 0);
  check_values(unary(reference_sigmoid, NULL, t),
               VALUES(1, 0, NAN, 0.5, 1 / (1 + 1 / e), 1 / (1 + e), 1, 0), 1e-15);
  check_values(unary(reference_tanh, NULL, t),
               VALUES(1, -1, NAN, 0, 0.7615941559557649, -0.7615941559557649, 1, -1), 1e-15);
  check_values(unary(reference_gelu, &gelu, t),
               VALUES(INFINITY, 0, NAN, 0, 0.8413447460685429, -0.15865525393145707, 800, 0),
               1e-15);
  gelu.tanh = 1;
  check_values(unary(reference_gelu, &gelu, t),
               VALUES(INFINITY, 0, NAN, 0, 0.8411919906082768, -0.15880800939172324, 800, 0),
               1e-15);
  for (gelu.tanh = 0; gelu.tanh < 2; ++gelu.tanh) {
    tensor *one = with(TN_F64, VALUES(1, 1, 1, 1), SHAPE(4));
    tensor *far = with(TN_F64, VALUES(INFINITY, -INFINITY, 1e200, -1e200), SHAPE(4));
    tn_gelu_grad_attrs grad = {sizeof grad, gelu.tanh};
    check_values(binary(reference_gelu_grad, &grad, one, far, TN_F64), VALUES(1, 0, 1, 0), 0);
  }
}
END_TEST

START_TEST(tails_and_subnormals_survive) {
  tensor *x = with(TN_F64, VALUES(-709.5, -740), SHAPE(2));
  tensor *y = unary(reference_sigmoid, NULL, x);
  EXPECT(get(y, 0) == exp(-709.5) && get(y, 1) == exp(-740) && get(y, 1) > 0);
  tensor *tiny = with(TN_F32, VALUES(0x1p-149, 0x1p-140), SHAPE(2));
  check_same(unary(reference_neg, NULL, unary(reference_neg, NULL, tiny)), tiny);
  EXPECT(get(unary(reference_relu, NULL, tiny), 0) == 0x1p-149);
  tn_gelu_attrs gelu = TN_GELU_DEFAULTS;
  tensor *far = with(TN_F64, VALUES(-10), SHAPE(1)); /* x erfc(10 / sqrt 2) / 2 */
  check_near(get(unary(reference_gelu, &gelu, far), 0) * 1e22, -0.76198530241605e0, 1e-12);
}
END_TEST

/* forward_attrs of gelu and gelu_grad lie alike. */
static void check_activation(tn_kernel_fn forward, tn_kernel_fn backward, const void *attrs,
                             bool from_output) {
  tensor *x = random_tensor(TN_F64, 5, -4, 4, SHAPE(5, 7)), *y = make_like(x, TN_F64, DENSE);
  tensor *dy = random_tensor(TN_F64, 6, -1, 1, SHAPE(5, 7));
  call c = {forward, attrs, 1, 1, {x}, {y}};
  must(&c);
  tensor *dx = binary(backward, attrs, dy, from_output ? y : x, TN_F64);
  check_gradient(&c, x, dy, dx);
}

START_TEST(activation_gradients) {
  tn_gelu_attrs exact = TN_GELU_DEFAULTS, approximate = TN_GELU_DEFAULTS;
  approximate.tanh = 1;
  check_activation(reference_relu, reference_relu_grad, NULL, true);
  check_activation(reference_sigmoid, reference_sigmoid_grad, NULL, true);
  check_activation(reference_tanh, reference_tanh_grad, NULL, true);
  check_activation(reference_gelu, reference_gelu_grad, &exact, false);
  check_activation(reference_gelu, reference_gelu_grad, &approximate, false);
}
END_TEST

START_TEST(sgd_by_hand) {
  tn_sgd_step_attrs attrs = {sizeof attrs, 0.5, 0.9, 0.1, 0};
  tensor *grad = with(TN_F64, VALUES(1, -2), SHAPE(2)),
         *param = with(TN_F64, VALUES(10, 20), SHAPE(2));
  tensor *velocity = with(TN_F64, VALUES(1, 2), SHAPE(2));
  call c = {reference_sgd_step, &attrs, 1, 2, {grad}, {param, velocity}};
  must(&c); /* g = 2, 0; v = 2.9, 1.8 */
  check_values(velocity, VALUES(2.9, 1.8), 1e-15);
  check_values(param, VALUES(8.55, 19.1), 1e-15);
  attrs.nesterov = 1; /* g = 1.855, -0.09; v = 4.465, 1.53 */
  must(&c);
  check_values(velocity, VALUES(4.465, 1.53), 1e-15);
  check_values(param, VALUES(8.55 - 0.5 * (1.855 + 0.9 * 4.465), 19.1 - 0.5 * (-0.09 + 0.9 * 1.53)),
               1e-15);
  attrs = (tn_sgd_step_attrs){sizeof attrs, 1, 0, 0, 0};
  set(velocity, 0, NAN);
  must(&c);
  check_values(velocity, VALUES(1, -2), 0);
}
END_TEST

START_TEST(adam_by_hand) {
  tn_adam_step_attrs attrs = TN_ADAM_STEP_DEFAULTS;
  tensor *grad = with(TN_F64, VALUES(3), SHAPE(1)), *param = with(TN_F64, VALUES(1), SHAPE(1));
  tensor *m = with(TN_F64, VALUES(0), SHAPE(1)), *v = with(TN_F64, VALUES(0), SHAPE(1));
  call c = {reference_adam_step, &attrs, 1, 3, {grad}, {param, m, v}};
  must(&c); /* the first step is lr sign(g) but for eps */
  check_values(param, VALUES(1 - 0.001 * 3 / (3 + 1e-8)), 1e-15);
  check_values(m, VALUES(0.3), 1e-15);
  check_values(v, VALUES(0.009), 1e-14);
  set(grad, 0, -1), attrs.step = 2;
  double before = get(param, 0), m2 = 0.9 * 0.3 - 0.1, v2 = 0.999 * 0.009 + 0.001;
  must(&c);
  double step = 0.001 * (m2 / (1 - 0.81)) / (sqrt(v2 / (1 - 0.999 * 0.999)) + 1e-8);
  check_values(param, VALUES(before - step), 1e-14);
}
END_TEST

START_TEST(steps_in_any_layout) {
  tn_sgd_step_attrs sgd = {sizeof sgd, 0.1, 0.9, 0.01, 1};
  tn_adam_step_attrs adam = TN_ADAM_STEP_DEFAULTS;
  adam.weight_decay = 0.1, adam.step = 7;
  for (tn_dtype t = TN_F16; t <= TN_F64; ++t) {
    tensor *r[4];
    for (unsigned i = 0; i < 4; ++i) r[i] = random_tensor(t, i, 0, 1, SHAPE(3, 5, 2));
    call a = {reference_sgd_step, &sgd, 1, 2, {r[0]}, {r[1], r[2]}};
    check_layouts(&a);
    call b = {reference_adam_step, &adam, 1, 3, {r[0]}, {r[1], r[2], r[3]}};
    check_layouts(&b);
  }
}
END_TEST

Suite *elementwise_suite(void) {
  Suite *s = suite_create("elementwise");
  TCase *c = add_case(s, "arithmetic");
  tcase_add_loop_test(c, integers_wrap_in_their_width, 0, 5);
  tcase_add_test(c, float32_arithmetic_is_exact);
  tcase_add_loop_test(c, halves_round_once, 0, 2);
  tcase_add_test(c, broadcast_and_in_place);
  tcase_add_test(c, nan_wins);
  tcase_add_test(c, comparisons);
  tcase_add_test(c, large_integers_compare_exactly);
  c = add_case(s, "functions");
  tcase_add_test(c, functions_at_special_places);
  tcase_add_test(c, tails_and_subnormals_survive);
  tcase_add_test(c, activation_gradients);
  c = add_case(s, "optimisers");
  tcase_add_test(c, sgd_by_hand);
  tcase_add_test(c, adam_by_hand);
  tcase_add_test(c, steps_in_any_layout);
  return s;
}
