/* Gradients by tape: as those of the graph, through updates in place and views, and what is
 * overwritten or not recorded is said. */
#include <pthread.h>

#include "tests/gradient/tapes.h"

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

/* Row 0 of x counts once, row 1 twice, by views, one of a view; and y's row 0 is overwritten. */
START_TEST(through_views) {
  tn_tensor *x = filled(1), *rows[2], *copy = NULL, *sum = NULL, *dx = NULL, *two = NULL;
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  ok(tn_tensor_split(x, 0, 2, NULL, rows));
  ok(tn_copy(NULL, x, &copy));
  tn_tensor *first = NULL;
  ok(tn_tensor_slice(copy, 0, 0, 1, 1, &first));
  ok(tn_scalar(device, NULL, TN_F32, 2, &two));
  ok(tn_mul(NULL, rows[1], two, &first)); /* copy is now 2 x1, x1 */
  ok(tn_sum(NULL, copy, NULL, &sum));
  ok(tn_tape_gradient(tape, NULL, sum, NULL, 1, &x, &dx, 0));
  ok(tn_tape_end(tape));
  float values[6];
  ok(tn_tensor_to_host(dx, values, sizeof values));
  for (int i = 0; i < 6; ++i) ck_assert_float_eq(values[i], i < 3 ? 0 : 3);
  tn_tensor *all[] = {x, rows[0], rows[1], copy, sum, dx, two, first};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

/* Lists of tensors, and a tensor of which the loss does not know. */
START_TEST(of_lists) {
  tn_tensor *x[3] = {filled(1), filled(2), filled(3)}, *joined = NULL, *y = NULL, *dx[3] = {NULL};
  for (int i = 0; i < 3; ++i) ok(tn_tape_watch(tape, x[i]));
  ok(tn_tape_begin(tape));
  ok(tn_concat(NULL, x, 2, &(tn_concat_attrs){sizeof(tn_concat_attrs), 1}, &joined));
  tn_tensor *square = NULL;
  ok(tn_square(NULL, joined, &square));
  ok(tn_sum(NULL, square, NULL, &y));
  ok(tn_tape_gradient(tape, NULL, y, NULL, 3, x, dx, 0));
  ok(tn_tape_end(tape));
  all_are(dx[0], 2);
  all_are(dx[1], 4);
  ck_assert_ptr_null(dx[2]);
  tn_tensor *all[] = {x[0], x[1], x[2], joined, square, y, dx[0], dx[1]};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

/* The same tensor on a device asked for twice: each gradient has memory of its own. */
START_TEST(gradients_are_the_callers) {
  tn_tensor *a = filled(1), *b = filled(2), *c = NULL, *y = NULL;
  tn_tensor *x[3] = {a, b, a}, *dx[3] = {NULL};
  ok(tn_tape_watch(tape, a));
  ok(tn_tape_watch(tape, b));
  ok(tn_tape_begin(tape));
  ok(tn_add(NULL, a, b, &c)); /* one gradient passes to both */
  ok(tn_sum(NULL, c, NULL, &y));
  ok(tn_tape_gradient(tape, NULL, y, NULL, 3, x, dx, 0));
  ok(tn_tape_end(tape));
  for (int i = 0; i < 3; ++i) ok(tn_fill(NULL, dx[i], &(tn_fill_attrs){sizeof(tn_fill_attrs), i}));
  for (int i = 0; i < 3; ++i) all_are(dx[i], (float)i);
  tn_tensor *all[] = {a, b, c, y, dx[0], dx[1], dx[2]};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

START_TEST(what_the_program_writes_is_said) {
  tn_tensor *x = filled(1), *e = NULL, *y = NULL, *dx = NULL;
  const float zeros[6] = {0};
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  ok(tn_exp(NULL, x, &e));
  ok(tn_sum(NULL, e, NULL, &y));
  ok(tn_tensor_write(NULL, e, zeros, sizeof zeros));
  ck_assert_int_eq(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0), TN_ERR_INVALID_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "tn_tensor_write"));
  ok(tn_tape_end(tape));
  tn_tensor *all[] = {x, e, y};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

START_TEST(nothing_passes_a_stop) {
  tn_tensor *x = filled(1), *s = NULL, *p = NULL, *y = NULL, *dx = NULL;
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  ok(tn_tape_stop_gradient(tape, NULL, x, &s));
  ok(tn_mul(NULL, x, s, &p));
  ok(tn_sum(NULL, p, NULL, &y));
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0));
  ok(tn_tape_end(tape));
  all_are(dx, 1); /* not 2 */
  tn_tensor *all[] = {x, s, p, y, dx};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

/* A product with dy: the gradient of sum(dy y). */
START_TEST(from_a_gradient_that_is_given) {
  tn_tensor *x = filled(3), *dy = filled(5), *y = NULL, *dx = NULL;
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  ok(tn_square(NULL, x, &y));
  ck_assert_int_eq(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, TN_TAPE_KEEP),
                   TN_ERR_INVALID_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "elements"));
  ok(tn_tape_gradient(tape, NULL, y, dy, 1, &x, &dx, TN_TAPE_KEEP));
  all_are(dx, 30);
  all_are(dy, 5);
  ok(tn_tape_gradient(tape, NULL, y, dy, 1, &x, &dx, TN_TAPE_ADD));
  all_are(dx, 60);
  ok(tn_tape_end(tape));
  tn_tensor *all[] = {x, dy, y, dx};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}
END_TEST

START_TEST(misuse_is_refused) {
  tn_tape *other = NULL;
  tn_tensor *x = filled(1), *whole = NULL, *y = NULL, *dx = NULL;
  tn_graph *g = make_graph();
  tn_tensor *symbolic = input(g, "x", 2, 3);
  tn_prepared *prepared = NULL;
  ok(tn_zeros(device, NULL, TN_I64, 1, SHAPE(3), &whole));
  ok(tn_tape_create(rt, &other));
  ck_assert_int_eq(tn_tape_watch(tape, whole), TN_ERR_INVALID_ARGUMENT);
  ck_assert_int_eq(tn_tape_watch(tape, symbolic), TN_ERR_INVALID_ARGUMENT);
  ck_assert_int_eq(tn_tape_watch(tape, NULL), TN_ERR_INVALID_ARGUMENT);
  ck_assert_int_eq(tn_tape_end(tape), TN_ERR_INVALID_ARGUMENT);
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  ck_assert_int_eq(tn_tape_begin(tape), TN_ERR_INVALID_ARGUMENT);
  ck_assert_int_eq(tn_tape_begin(other), TN_ERR_INVALID_ARGUMENT);
  ck_assert_int_eq(tn_tape_end(other), TN_ERR_INVALID_ARGUMENT);
  ok(tn_sum(NULL, x, NULL, &y));
  const tn_call call = {.struct_size = sizeof call,
                        .op = TN_OP_EXP,
                        .in = (const tn_tensor *[]){x},
                        .out = (tn_tensor *[]){NULL},
                        .num_in = 1,
                        .num_out = 1};
  ck_assert_int_eq(tn_prepare(&call, &prepared), TN_ERR_UNSUPPORTED);
  ck_assert_int_eq(tn_tape_gradient(tape, NULL, y, NULL, 1, &whole, &dx, 0),
                   TN_ERR_INVALID_ARGUMENT);
  ck_assert_int_eq(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 64), TN_ERR_INVALID_ARGUMENT);
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0)); /* none of that has hurt */
  all_are(dx, 1);
  tn_tape_destroy(other);
  tn_tape_destroy(tape); /* ends recording */
  ok(tn_tape_create(rt, &tape));
  ok(tn_tape_begin(tape));
  ok(tn_tape_end(tape));
  tn_tensor *all[] = {x, whole, y, dx, symbolic};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  tn_graph_destroy(g);
}
END_TEST

/* Threads, each with a tape and a shared weight. */
static tn_tensor *shared;

static void *one_thread(void *ignored) {
  tn_tape *own = NULL;
  (void)ignored;
  ok(tn_tape_create(rt, &own));
  ok(tn_tape_watch(own, shared));
  for (int i = 0; i < 200; ++i) {
    tn_tensor *dx = NULL;
    ok(tn_tape_begin(own));
    tn_tensor *y = model(shared);
    ok(tn_tape_gradient(own, NULL, y, NULL, 1, &shared, &dx, 0));
    ok(tn_tape_end(own));
    all_are(dx, 2 * 2.7182818f);
    tn_tensor_release(y);
    tn_tensor_release(dx);
  }
  tn_tape_destroy(own);
  return NULL;
}

START_TEST(in_several_threads) {
  pthread_t threads[4];
  shared = filled(1);
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, one_thread, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  tn_tensor_release(shared);
}
END_TEST

/* One step with all that can fail in it; TN_OK where nothing did. */
static tn_status step(tn_tape *own, tn_tensor *x, tn_tensor **dx) {
  tn_tensor *e = NULL, *n = NULL, *p = NULL, *y = NULL;
  tn_status status = tn_exp(NULL, x, &e);
  if (!status) status = tn_layer_norm(NULL, e, NULL, NULL, NULL, &n, NULL, NULL);
  if (!status) status = tn_mul(NULL, n, e, &p);
  if (!status) status = tn_sum(NULL, p, NULL, &y);
  if (!status) status = tn_tape_gradient(own, NULL, y, NULL, 1, &x, dx, 0);
  tn_tensor_release(e);
  tn_tensor_release(n);
  tn_tensor_release(p);
  tn_tensor_release(y);
  return status;
}

START_TEST(with_no_memory) { survives_shortage(step); }
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup_tape, teardown_tape);
  tcase_add_test(tcase, of_a_chain);
  tcase_add_test(tcase, second_ones);
  tcase_add_test(tcase, adds_up);
  tcase_add_test(tcase, with_updates_in_place);
  tcase_add_test(tcase, what_was_overwritten_is_said);
  tcase_add_test(tcase, keeps_what_rules_read);
  tcase_add_test(tcase, through_views);
  tcase_add_test(tcase, of_lists);
  tcase_add_test(tcase, gradients_are_the_callers);
  tcase_add_test(tcase, what_the_program_writes_is_said);
  tcase_add_test(tcase, nothing_passes_a_stop);
  tcase_add_test(tcase, from_a_gradient_that_is_given);
  tcase_add_test(tcase, misuse_is_refused);
  tcase_add_test(tcase, in_several_threads);
  tcase_add_test(tcase, with_no_memory);
}

int main(void) { return run_suite("tape", add_tests); }
