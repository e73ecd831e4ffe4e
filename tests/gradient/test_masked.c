/*
 * Gradients of what a mask selects, by tape: its length depends on data, which the trials of
 * test_differences, made of graphs, do not take.
 */
#include "tests/graph/graphs.h"

/* The gradient of sum(w y), w = 1, 2, 3 ..., is w where the mask holds. */
static void holds(int64_t n, const uint8_t *mask) {
  float x[16], weights[16], got[16], next = 1;
  tn_tape *tape = NULL;
  tn_tensor *t = NULL, *m = NULL, *y = NULL, *count = NULL, *w = NULL, *p = NULL, *loss = NULL;
  tn_tensor *dx = NULL;
  for (int64_t i = 0; i < n; ++i) x[i] = (float)i - 3, weights[i] = (float)(i + 1);
  ok(tn_tape_create(rt, &tape));
  ok(tn_tensor_from_host(device, TN_F32, 2, SHAPE(1, n), x, &t));
  ok(tn_tensor_from_host(device, TN_BOOL, 2, SHAPE(1, n), mask, &m));
  ok(tn_tape_watch(tape, t));
  ok(tn_tape_begin(tape));
  ok(tn_masked_select(NULL, t, m, &y, &count));
  ok(tn_tensor_from_host(device, TN_F32, 1, tn_tensor_shape(y), weights, &w));
  ok(tn_mul(NULL, y, w, &p));
  ok(tn_sum(NULL, p, NULL, &loss));
  ok(tn_tape_gradient(tape, NULL, loss, NULL, 1, &t, &dx, 0));
  ok(tn_tape_end(tape));
  ok(tn_tensor_to_host(dx, got, tn_tensor_bytes(dx)));
  for (int64_t i = 0; i < n; ++i) ck_assert_float_eq(got[i], mask[i] ? next++ : 0);
  tn_tensor *all[] = {t, m, y, count, w, p, loss, dx};
  for (int i = 0; i < 8; ++i) tn_tensor_release(all[i]);
  tn_tape_destroy(tape);
}

START_TEST(goes_to_where_the_mask_holds) {
  holds(6, (uint8_t[]){0, 1, 1, 0, 0, 1});
  holds(4, (uint8_t[]){1, 1, 1, 1});
  holds(1, (uint8_t[]){1});
}
END_TEST

START_TEST(is_zero_where_nothing_was_selected) { holds(3, (uint8_t[]){0, 0, 0}); }
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, goes_to_where_the_mask_holds);
  tcase_add_test(t, is_zero_where_nothing_was_selected);
}

int main(void) { return run_suite("gradient masked", add_tests); }
