/* Gradients by tape: as those of the graph, through updates in place and views, and what is
 * overwritten or not recorded is said. */
#include "tests/graph/graphs.h"

static tn_tape *tape;

static void setup_tape(void) {
  setup();
  ok(tn_tape_create(rt, &tape));
}
static void teardown_tape(void) {
  tn_tape_destroy(tape);
  teardown();
}

static tn_tensor *filled(float value) {
  tn_tensor *t = NULL;
  ok(tn_full(device, NULL, TN_F32, 2, SHAPE(2, 3), value, &t));
  return t;
}

static void all_are(const tn_tensor *t, float want) {
  float values[64];
  ok(tn_tensor_to_host(t, values, tn_tensor_bytes(t)));
  for (int64_t i = 0; i < tn_tensor_elements(t); ++i)
    ck_assert_float_eq_tol(values[i], want, 1e-6f);
}

/* sum(exp(x) x) */
static tn_tensor *model(const tn_tensor *x) {
  tn_tensor *e = NULL, *p = NULL, *y = NULL;
  ok(tn_exp(NULL, x, &e));
  ok(tn_mul(NULL, e, x, &p));
  ok(tn_sum(NULL, p, NULL, &y));
  tn_tensor_release(e);
  tn_tensor_release(p);
  return y;
}

START_TEST(of_a_chain) {
  tn_tensor *x = filled(1), *dx = NULL;
  ok(tn_tape_watch(tape, x));
  for (int step = 0; step < 3; ++step) {
    ok(tn_tape_begin(tape));
    tn_tensor *y = model(x);
    ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0));
    ok(tn_tape_end(tape));
    all_are(dx, 2 * 2.7182818f);
    tn_tensor_release(y);
    tn_tensor_release(dx);
    dx = NULL;
  }
  tn_tensor_release(x);
}
END_TEST

START_TEST(second_ones) {
  tn_tensor *x = filled(1), *dx = NULL, *ddx = NULL, *sum = NULL;
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  tn_tensor *y = model(x);
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, TN_TAPE_RECORD));
  ok(tn_sum(NULL, dx, NULL, &sum));
  ok(tn_tape_gradient(tape, NULL, sum, NULL, 1, &x, &ddx, 0));
  ok(tn_tape_end(tape));
  all_are(ddx, 3 * 2.7182818f); /* (x + 2) e^x */
  tn_tensor *all[] = {x, dx, ddx, sum, y};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

START_TEST(adds_up) {
  tn_tensor *x = filled(1), *dx = NULL;
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  for (int step = 0; step < 3; ++step) {
    tn_tensor *y = model(x);
    ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, TN_TAPE_ADD));
    tn_tensor_release(y);
  }
  ok(tn_tape_end(tape));
  all_are(dx, 6 * 2.7182818f);
  tn_tensor_release(dx);
  tn_tensor_release(x);
}
END_TEST

/* A step of descent between gradients, in place: each gradient is at the new place. */
START_TEST(with_updates_in_place) {
  tn_tensor *x = filled(1), *velocity = filled(0), *dx = NULL;
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  float at = 1;
  for (int step = 0; step < 3; ++step) {
    tn_tensor *square = NULL, *y = NULL;
    ok(tn_square(NULL, x, &square));
    ok(tn_sum(NULL, square, NULL, &y));
    ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0));
    all_are(dx, 2 * at);
    ok(tn_sgd_step(NULL, dx, x, velocity,
                   &(tn_sgd_step_attrs){sizeof(tn_sgd_step_attrs), 0.25, 0, 0, 0}));
    at -= 0.5f * at;
    all_are(x, at);
    tn_tensor_release(square);
    tn_tensor_release(y);
    tn_tensor_release(dx);
    dx = NULL;
  }
  ok(tn_tape_end(tape));
  tn_tensor_release(x);
  tn_tensor_release(velocity);
}
END_TEST

START_TEST(what_was_overwritten_is_said) {
  tn_tensor *x = filled(1), *dx = NULL, *e = NULL, *y = NULL;
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  ok(tn_exp(NULL, x, &e));
  ok(tn_sum(NULL, e, NULL, &y));
  ok(tn_neg(NULL, e, &e));
  ck_assert_int_eq(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0), TN_ERR_INVALID_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "tn_exp"));
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "tn_neg"));
  ck_assert_ptr_null(dx);
  ok(tn_tape_end(tape));
  tn_tensor *all[] = {x, e, y};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

/* Nothing is kept that no rule reads: x + c needs neither. */
START_TEST(keeps_what_rules_read) {
  tn_tensor *x = filled(1), *c = filled(2), *sum = NULL, *e = NULL, *y = NULL, *dx = NULL;
  tn_memory_stats before = {.struct_size = sizeof before}, after = before;
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  ok(tn_device_memory_stats(device, &before));
  ok(tn_add(NULL, x, c, &sum));
  ok(tn_exp(NULL, sum, &e));
  tn_tensor_release(sum);
  ok(tn_sum(NULL, e, NULL, &y));
  tn_tensor_release(e);
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0));
  all_are(dx, 20.0855369f);
  tn_tensor_release(dx);
  tn_tensor_release(y);
  ok(tn_device_memory_stats(device, &after));
  ck_assert_uint_eq(before.in_use, after.in_use);
  ok(tn_tape_end(tape));
  tn_tensor_release(x);
  tn_tensor_release(c);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup_tape, teardown_tape);
  tcase_add_test(tcase, of_a_chain);
  tcase_add_test(tcase, second_ones);
  tcase_add_test(tcase, adds_up);
  tcase_add_test(tcase, with_updates_in_place);
  tcase_add_test(tcase, what_was_overwritten_is_said);
  tcase_add_test(tcase, keeps_what_rules_read);
}

int main(void) { return run_suite("tape", add_tests); }
