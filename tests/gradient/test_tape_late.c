/* What is overwritten between the end of recording and the gradient. */
#include <pthread.h>

#include "tests/graph/graphs.h"
#include "tests/scarce.h"

static tn_tape *tape;
static tn_tensor *x, *c, *p, *y; /* y = sum(p), p = x c: the gradient by x reads c */

static tn_tensor *filled(float value) {
  tn_tensor *t = NULL;
  ok(tn_full(device, NULL, TN_F32, 2, SHAPE(2, 3), value, &t));
  return t;
}

static void all_are(const tn_tensor *t, float want) {
  float values[64];
  ck_assert_ptr_nonnull(t);
  ok(tn_tensor_to_host(t, values, tn_tensor_bytes(t)));
  for (int64_t i = 0; i < tn_tensor_elements(t); ++i) ck_assert_float_eq(values[i], want);
}

static void record(void) {
  tn_tensor_release(p);
  tn_tensor_release(y);
  p = y = NULL;
  ok(tn_tape_begin(tape));
  ok(tn_mul(NULL, x, c, &p));
  ok(tn_sum(NULL, p, NULL, &y));
  ok(tn_tape_end(tape));
}

static void setup_tape(void) {
  setup();
  ok(tn_tape_create(rt, &tape));
  x = filled(1);
  c = filled(2);
  ok(tn_tape_watch(tape, x));
}
static void teardown_tape(void) {
  tn_tape_destroy(tape);
  RELEASE(x, c, p, y);
  x = c = p = y = NULL;
  teardown();
}

/* No gradient; then, with nothing overwritten, there is one. */
static void is_said(const char *what) {
  tn_tensor *dx = NULL;
  refused(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0), TN_ERR_INVALID_ARGUMENT, what);
  ck_assert_ptr_null(dx);
  ok(tn_fill(NULL, c, &(tn_fill_attrs){sizeof(tn_fill_attrs), 3}));
  record();
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0));
  all_are(dx, 3);
  tn_tensor_release(dx);
}

static void is_fine(float want) {
  tn_tensor *dx = NULL;
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0));
  all_are(dx, want);
  tn_tensor_release(dx);
}

START_TEST(by_a_call) {
  record();
  const char *before = tn_call_site("the line that does it");
  ok(tn_mul(NULL, c, c, &c)); /* the shortest way of calls */
  tn_call_site(before);
  is_said("tn_mul, at the line that does it has overwritten since tn_tape_end");
  record();
  ok(tn_softmax(NULL, p, NULL, &c)); /* a longer one */
  is_said("a tensor that tn_softmax has overwritten");
  record();
  tn_tensor *gradient = filled(1), *velocity = filled(0);
  ok(tn_multi_sgd(NULL, &gradient, &c, &velocity, 1, NULL));
  is_said("tn_multi_sgd has overwritten");
  RELEASE(gradient, velocity);
}
END_TEST

START_TEST(by_the_host) {
  const float zeros[6] = {0};
  record();
  ok(tn_tensor_write(NULL, c, zeros, sizeof zeros));
  is_said("tn_tensor_write has overwritten");
}
END_TEST

START_TEST(by_a_prepared_call) {
  tn_prepared *prepared;
  const tn_call call = {.struct_size = sizeof call,
                        .op = TN_OP_EXP,
                        .in = (const tn_tensor *[]){x},
                        .out = &c,
                        .num_in = 1,
                        .num_out = 1};
  ok(tn_prepare(&call, &prepared));
  record();
  ok(tn_run(prepared));
  is_said("tn_exp has overwritten");
  tn_prepared_release(prepared);
}
END_TEST

/* Into an output, and by an update of a parameter. */
START_TEST(by_a_program) {
  for (int updates = 0; updates < 2; ++updates) {
    tn_graph *g = make_graph();
    tn_tensor *from = input(g, "from", 2, 3), *to = NULL, *parameter = NULL;
    if (updates) {
      ok(tn_graph_parameter(g, "c", c, &parameter));
      ok(tn_add(NULL, parameter, from, &parameter));
    }
    ok(tn_exp(NULL, from, &to));
    ok(tn_graph_output(g, "to", to));
    tn_program *program = compiled(g);
    tn_tensor *out = updates ? NULL : c;
    record();
    ok(tn_program_run(program, NULL, 1, (const tn_tensor *[]){x}, 1, &out));
    is_said("tn_program_run has overwritten");
    if (updates) tn_tensor_release(out);
    RELEASE(from, to, parameter);
    tn_program_destroy(program);
    tn_graph_destroy(g);
  }
}
END_TEST

/* Of what no rule reads, what lies beside, what failed, and what other threads do. */
static void *fill_c(void *value) {
  ok(tn_fill(NULL, c, &(tn_fill_attrs){sizeof(tn_fill_attrs), *(double *)value}));
  return NULL;
}

START_TEST(what_may_be_written) {
  tn_tensor *other = filled(1), *rows = NULL, *first = NULL, *second = NULL, *wrong = NULL;
  record();
  ok(tn_square(NULL, x, &x));
  ok(tn_square(NULL, p, &p));
  ok(tn_square(NULL, y, &y));
  ok(tn_square(NULL, other, &other));
  ok(tn_zeros(device, NULL, TN_F32, 1, SHAPE(7), &wrong));
  ck_assert_int_ne(tn_mul(NULL, x, wrong, &c), TN_OK);
  is_fine(2);
  double value = 2;
  pthread_t thread;
  record();
  pthread_create(&thread, NULL, fill_c, &value);
  pthread_join(thread, NULL);
  is_fine(2);
  tn_tensor *whole = c;
  ok(tn_zeros(device, NULL, TN_F32, 2, SHAPE(4, 3), &rows));
  ok(tn_tensor_slice(rows, 0, 0, 2, 1, &first));
  ok(tn_tensor_slice(rows, 0, 2, 4, 1, &second));
  c = first;
  record();
  ok(tn_exp(NULL, x, &second));
  is_fine(0);
  record();
  ok(tn_fill(NULL, rows, &(tn_fill_attrs){sizeof(tn_fill_attrs), 1}));
  is_said("tn_fill has overwritten");
  c = whole;
  RELEASE(other, rows, first, second, wrong);
}
END_TEST

/* The gradient of what is recorded after the write is right; that of what came before is not had.
 */
START_TEST(recording_goes_on) {
  tn_tensor *dx = NULL, *q = NULL, *z = NULL;
  record();
  ok(tn_fill(NULL, c, &(tn_fill_attrs){sizeof(tn_fill_attrs), 5}));
  ok(tn_tape_begin(tape));
  ok(tn_mul(NULL, x, c, &q));
  ok(tn_sum(NULL, q, NULL, &z));
  ok(tn_tape_end(tape));
  refused(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, TN_TAPE_KEEP), TN_ERR_INVALID_ARGUMENT,
          "(tn_fill) has overwritten since");
  ok(tn_tape_gradient(tape, NULL, z, NULL, 1, &x, &dx, TN_TAPE_KEEP));
  all_are(dx, 5);
  ok(tn_mul(NULL, c, c, &c)); /* a record that was kept is guarded on */
  tn_tensor_release(dx);
  dx = NULL;
  refused(tn_tape_gradient(tape, NULL, z, NULL, 1, &x, &dx, 0), TN_ERR_INVALID_ARGUMENT,
          "tn_mul has overwritten since tn_tape_end");
  ok(tn_mul(NULL, c, c, &c)); /* and one that is gone is not */
  ok(tn_tape_forget(tape));
  RELEASE(q, z);
}
END_TEST

/* While another tape records, and with gradients in a thread of their own. */
static void *take_gradient(void *dx) {
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, dx, TN_TAPE_KEEP));
  return NULL;
}

START_TEST(of_two_tapes) {
  tn_tape *other = NULL;
  tn_tensor *q = NULL, *z = NULL, *dx = NULL;
  pthread_t thread;
  ok(tn_tape_create(rt, &other));
  ok(tn_tape_watch(other, x));
  record();
  ok(tn_tape_begin(other));
  ok(tn_mul(NULL, x, x, &q));
  ok(tn_sum(NULL, q, NULL, &z));
  pthread_create(&thread, NULL, take_gradient, &dx);
  pthread_join(thread, NULL);
  all_are(dx, 2);
  tn_tensor_release(dx);
  dx = NULL;
  ok(tn_tape_end(other));
  record();
  ok(tn_tape_begin(other));
  ok(tn_exp(NULL, z, &z));
  ok(tn_square(NULL, c, &c));
  ok(tn_tape_end(other));
  is_said("tn_square has overwritten since tn_tape_end");
  ok(tn_tape_gradient(other, NULL, z, NULL, 1, &x, &dx, TN_TAPE_KEEP));
  tn_tensor_release(dx);
  tn_tape_destroy(other); /* while it guards */
  ok(tn_square(NULL, c, &c));
  RELEASE(q, z);
}
END_TEST

/* A tape that guards may be destroyed behind its runtime's end, and in another thread. */
static void *destroy(void *own) {
  tn_tape_destroy(own);
  return NULL;
}

START_TEST(ends_behind_the_runtime) {
  tn_runtime *other = open_host_runtime();
  tn_tape *own = NULL;
  tn_tensor *a = NULL, *b = NULL;
  pthread_t thread;
  ok(tn_full(tn_runtime_device(other), NULL, TN_F32, 1, SHAPE(2), 1, &a));
  ok(tn_tape_create(other, &own));
  ok(tn_tape_watch(own, a));
  ok(tn_tape_begin(own));
  ok(tn_square(NULL, a, &b));
  ok(tn_tape_end(own));
  tn_runtime_close(other);
  record();
  ok(tn_square(NULL, c, &c)); /* which is told to one of them */
  pthread_create(&thread, NULL, destroy, own);
  pthread_join(thread, NULL);
  is_said("tn_square has overwritten");
  RELEASE(a, b);
}
END_TEST

START_TEST(with_no_memory) {
  tn_runtime *poor = open_scarce();
  tn_device *on = tn_runtime_device(poor);
  tn_tensor *a = NULL, *b = NULL;
  ok(tn_full(on, NULL, TN_F32, 1, SHAPE(2), 1, &a));
  ok(tn_full(on, NULL, TN_F32, 1, SHAPE(2), 1, &b));
  int unsaid = 0;
  for (int n = 0; n < 8; ++n) {
    tn_tape *own = NULL;
    tn_tensor *q = NULL, *z = NULL, *da = NULL;
    ok(tn_tape_create(poor, &own));
    ok(tn_tape_watch(own, a));
    ok(tn_tape_begin(own));
    ok(tn_mul(NULL, a, b, &q));
    ok(tn_sum(NULL, q, NULL, &z));
    ok(tn_tape_end(own));
    tn_call_site("somewhere");
    scarce_begin(n, true);
    tn_status status = tn_square(NULL, b, &b);
    (void)scarce_end();
    tn_call_site(NULL);
    ok_or_scarce(status, n);
    tn_status seen = tn_tape_gradient(own, NULL, z, NULL, 1, &a, &da, 0);
    if (status) ok(seen); /* it did not run */
    ck_assert(status || seen == TN_ERR_INVALID_ARGUMENT || seen == TN_ERR_OUT_OF_MEMORY);
    unsaid += seen == TN_ERR_OUT_OF_MEMORY;
    tn_tape_destroy(own);
    RELEASE(q, z, da);
  }
  ck_assert_int_gt(unsaid, 0);
  RELEASE(a, b);
  tn_runtime_close(poor);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup_tape, teardown_tape);
  tcase_add_test(tcase, by_a_call);
  tcase_add_test(tcase, by_the_host);
  tcase_add_test(tcase, by_a_prepared_call);
  tcase_add_test(tcase, by_a_program);
  tcase_add_test(tcase, what_may_be_written);
  tcase_add_test(tcase, recording_goes_on);
  tcase_add_test(tcase, of_two_tapes);
  tcase_add_test(tcase, ends_behind_the_runtime);
  tcase_add_test(tcase, with_no_memory);
}

int main(void) { return run_suite("gradient_tape_late", add_tests); }
