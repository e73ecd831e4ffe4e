/* What is written between a call and its gradient, by whom and when, and where memory begins. */
#include "tests/gradient/tapes.h"

static tn_tensor *filled(float value) {
  tn_tensor *t = NULL;
  ok(tn_full(device, NULL, TN_F32, 2, SHAPE(2, 2), value, &t));
  return t;
}

static void holds(const tn_tensor *t, const float *want) {
  float values[16];
  ck_assert_ptr_nonnull(t);
  ck_assert_int_le(tn_tensor_elements(t), 16);
  ok(tn_tensor_to_host(t, values, tn_tensor_bytes(t)));
  for (int64_t i = 0; i < tn_tensor_elements(t); ++i)
    ck_assert_float_eq_tol(values[i], want[i], 1e-5f);
}
#define HOLDS(t, ...) holds(t, (float[]){__VA_ARGS__})

/* A call that is recorded for what it overwrites alone keeps nothing, and so gives nothing up. */
START_TEST(calls_that_only_overwrite) {
  tn_tensor *w = filled(1), *c = filled(2), *d = filled(3), *p = NULL, *q = NULL, *s = NULL,
            *y = NULL, *dw = NULL;
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_begin(tape));
  ok(tn_mul(NULL, w, c, &p));
  ok(tn_add(NULL, p, d, &q));
  ok(tn_square(NULL, c, &d)); /* its rule would read c, which tn_mul's reads */
  ok(tn_add(NULL, q, d, &s));
  ok(tn_sum(NULL, s, NULL, &y));
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &w, &dw, 0));
  ok(tn_tape_end(tape));
  HOLDS(dw, 2, 2, 2, 2);
  RELEASE(w, c, d, p, q, s, y, dw);
}
END_TEST

/* Through what the host has written no gradient passes, though no rule reads it. */
START_TEST(what_the_host_writes_ends_gradients) {
  tn_tensor *w = filled(1), *e = NULL, *row = NULL, *y = NULL, *dw = NULL;
  const float numbers[4] = {7, 7, 7, 7};
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_begin(tape));
  ok(tn_add(NULL, w, w, &e));
  ok(tn_tensor_write(NULL, e, numbers, sizeof numbers));
  ok(tn_sum(NULL, e, NULL, &y));
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &w, &dw, 0));
  ck_assert_ptr_null(dw);
  RELEASE(e, y);
  e = y = NULL;
  ok(tn_add(NULL, w, w, &e));
  ok(tn_tensor_slice(e, 0, 1, 2, 1, &row));
  ok(tn_tensor_write(NULL, row, numbers, 2 * sizeof *numbers));
  ok(tn_sum(NULL, e, NULL, &y));
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &w, &dw, 0));
  ok(tn_tape_end(tape));
  HOLDS(dw, 2, 2, 0, 0);
  RELEASE(w, e, row, y, dw);
}
END_TEST

static tn_tensor *product(const tn_tensor *x, const tn_tensor *w) {
  const tn_cast_attrs wide = {sizeof wide, TN_F32};
  tn_tensor *p = NULL, *y = NULL;
  ok(tn_matmul(NULL, x, w, NULL, NULL, &p));
  ok(tn_cast(NULL, p, &wide, &y));
  tn_tensor_release(p);
  return y;
}

/* What happens to a parameter while the tape does not record, its casts know nothing of. */
START_TEST(casts_end_with_recording) {
  tn_tensor *w = filled(1), *x = filled(1);
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_autocast(tape, TN_BF16));
  for (int step = 0; step < 2; ++step) {
    ok(tn_tape_begin(tape));
    tn_tensor *y = product(x, w);
    ok(tn_tape_end(tape));
    HOLDS(y, 2 - step, 2 - step, 2 - step, 2 - step);
    ok(tn_fill(NULL, w, &(tn_fill_attrs){sizeof(tn_fill_attrs), 0.5}));
    tn_tensor_release(y);
  }
  RELEASE(w, x);
}
END_TEST

/* A tensor that is watched late was cast before, and those casts were not recorded. */
START_TEST(casts_of_what_is_watched_late) {
  tn_tensor *w = filled(1), *x = filled(1), *sum = NULL, *y = NULL, *dx = NULL;
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_autocast(tape, TN_BF16));
  ok(tn_tape_begin(tape));
  ok(tn_add(NULL, x, w, &sum));
  tn_tensor *first = product(x, w);
  ok(tn_tape_watch(tape, x));
  tn_tensor *second = product(x, w);
  ok(tn_sum(NULL, second, NULL, &y));
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0));
  ok(tn_tape_end(tape));
  HOLDS(dx, 2, 2, 2, 2);
  RELEASE(w, x, sum, first, second, y, dx);
}
END_TEST

START_TEST(recording_gradients_while_nothing_records) {
  tn_tensor *w = filled(1), *y = NULL, *dw = NULL;
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_begin(tape));
  ok(tn_sum(NULL, w, NULL, &y));
  ok(tn_tape_end(tape));
  ck_assert_int_eq(tn_tape_gradient(tape, NULL, y, NULL, 1, &w, &dw, TN_TAPE_RECORD),
                   TN_ERR_INVALID_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "tn_tape_begin"));
  ck_assert_ptr_null(dw);
  ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &w, &dw, 0));
  HOLDS(dw, 1, 1, 1, 1);
  RELEASE(w, y, dw);
}
END_TEST

/* A sum has its own shape: neither it nor the gradient is broadcast. */
START_TEST(sums_of_other_shapes) {
  tn_tensor *w = filled(1), *y = NULL, *number = NULL, *wide = NULL, *larger = NULL;
  ok(tn_scalar(device, NULL, TN_F32, 3, &number));
  ok(tn_zeros(device, NULL, TN_F64, 2, SHAPE(2, 2), &wide));
  ok(tn_zeros(device, NULL, TN_F32, 3, SHAPE(3, 2, 2), &larger));
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_begin(tape));
  ok(tn_sum(NULL, w, NULL, &y));
  tn_tensor *const sums[] = {number, wide, larger};
  for (int i = 0; i < 3; ++i) {
    tn_tensor *dx = sums[i];
    ck_assert_int_eq(tn_tape_gradient(tape, NULL, y, NULL, 1, &w, &dx, TN_TAPE_ADD),
                     TN_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(tn_last_error(), "dx 0"));
    ck_assert_ptr_eq(dx, sums[i]);
  }
  ok(tn_tape_end(tape));
  RELEASE(w, y, number, wide, larger);
}
END_TEST

/* --- imports --- */

static float memory[32];

static void nothing(DLManagedTensorVersioned *managed) { (void)managed; }

/* Every second number, forwards or backwards. */
static tn_tensor *imported(int64_t step) {
  static int64_t shape[1] = {6}, strides[1];
  static DLManagedTensorVersioned managed;
  tn_tensor *t = NULL;
  strides[0] = step;
  managed = (DLManagedTensorVersioned){.version = {.major = DLPACK_MAJOR_VERSION},
                                       .deleter = nothing,
                                       .dl_tensor = {.data = memory + 12,
                                                     .device = {kDLCPU, 0},
                                                     .ndim = 1,
                                                     .dtype = {kDLFloat, 32, 1},
                                                     .shape = shape,
                                                     .strides = strides}};
  ok(tn_tensor_from_dlpack(rt, &managed, &t));
  return t;
}

/* sum(x[0:4] x[2:6]), of which the parts meet in memory of the import's size. */
START_TEST(imports_with_steps) {
  for (int i = 0; i < 32; ++i) memory[i] = (float)i;
  for (int64_t step = -2; step <= 2; step += 4) {
    tn_tensor *x = imported(step), *a = NULL, *b = NULL, *p = NULL, *y = NULL, *dx = NULL;
    const float s = (float)step;
    ok(tn_tape_watch(tape, x));
    ok(tn_tape_begin(tape));
    ok(tn_tensor_slice(x, 0, 0, 4, 1, &a));
    ok(tn_tensor_slice(x, 0, 2, 6, 1, &b));
    ok(tn_mul(NULL, a, b, &p));
    ok(tn_sum(NULL, p, NULL, &y));
    ok(tn_tape_gradient(tape, NULL, y, NULL, 1, &x, &dx, 0));
    ok(tn_tape_end(tape));
    HOLDS(dx, 12 + 2 * s, 12 + 3 * s, 24 + 4 * s, 24 + 6 * s, 12 + 2 * s, 12 + 3 * s);
    RELEASE(x, a, b, p, y, dx);
  }
}
END_TEST

/* --- without memory --- */

static tn_status step(tn_tape *own, tn_tensor *x, tn_tensor **dx) {
  tn_tensor *e = NULL, *y = NULL;
  tn_status status = tn_exp(NULL, x, &e);
  if (!status) status = tn_sum(NULL, e, NULL, &y);
  if (!status) status = tn_tape_gradient(own, NULL, y, NULL, 1, &x, dx, 0);
  tn_tensor_release(e);
  tn_tensor_release(y);
  return status;
}

/* What could not be recorded is gone with the gradient that says so: the next step works. */
START_TEST(a_failure_is_said_once) {
  tn_runtime *poor = open_scarce();
  tn_tensor *x = NULL, *e = NULL, *y = NULL;
  ok(tn_full(tn_runtime_device(poor), NULL, TN_F32, 1, SHAPE(2), 0, &x));
  int said = 0;
  for (int n = 0; n < 40; ++n) {
    tn_tape *own = NULL;
    tn_tensor *dx = NULL;
    ok(tn_tape_create(poor, &own));
    ok(tn_tape_watch(own, x));
    ok(tn_tape_begin(own));
    scarce_begin(n, true);
    tn_status status = tn_exp(NULL, x, &e);
    (void)scarce_end();
    if (!status) ok(tn_sum(NULL, e, NULL, &y));
    if (!status && tn_tape_gradient(own, NULL, y, NULL, 1, &x, &dx, 0)) {
      ++said;
      ok(step(own, x, &dx));
    }
    tn_tape_destroy(own);
    RELEASE(e, y, dx);
    e = y = NULL;
  }
  ck_assert_int_gt(said, 0);
  tn_tensor_release(x);
  tn_runtime_close(poor);
}
END_TEST

/* --- graphs --- */

/* What is computed again is a tensor of its own: a part of memory, or its columns, is not. */
START_TEST(parts_are_not_computed_again) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 3), *whole = NULL, *part = NULL, *turned = NULL, *own = NULL;
  ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(4, 3), &whole));
  ok(tn_tensor_slice(whole, 0, 2, 4, 1, &part));
  ok(tn_exp(NULL, x, &part));
  ck_assert_int_eq(tn_graph_recompute(g, part), TN_ERR_INVALID_ARGUMENT);
  ck_assert_int_eq(tn_graph_recompute(g, whole), TN_ERR_INVALID_ARGUMENT);
  tn_tensor *other = NULL;
  ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(3, 2), &other));
  ok(tn_tensor_permute(other, (int32_t[]){1, 0}, &turned));
  ok(tn_exp(NULL, x, &turned));
  ck_assert_int_eq(tn_graph_recompute(g, turned), TN_ERR_INVALID_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "row-major"));
  ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(2, 3), &own));
  ok(tn_exp(NULL, x, &own));
  ok(tn_graph_recompute(g, own));
  RELEASE(x, whole, part, turned, other, own);
  tn_graph_destroy(g);
}
END_TEST

/* Noise is drawn into a tensor that is there: again into another, the same numbers. */
START_TEST(what_fills_is_computed_again) {
  for (int run = 0; run < 2; ++run) {
    tn_graph *g = make_graph();
    tn_tensor *x = input(g, "x", 2, 3), *noise = NULL, *p = NULL, *y = NULL, *dx = NULL;
    tn_tensor *zeros = numbers(device, 2, 3, 0), *out[2] = {NULL};
    ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(2, 3), &noise));
    ok(tn_bernoulli(NULL, noise, NULL));
    if (run) ok(tn_graph_recompute(g, noise));
    ok(tn_mul(NULL, x, noise, &p));
    ok(tn_sum(NULL, p, NULL, &y));
    ok(tn_graph_gradient(g, y, 1, &x, &dx));
    ok(tn_graph_output(g, "noise", noise));
    ok(tn_graph_output(g, "dx", dx));
    tn_program *program = compiled(g);
    ok(tn_program_run(program, NULL, 1, (const tn_tensor *[]){zeros}, 2, out));
    same(out[0], out[1]);
    tn_program_destroy(program);
    RELEASE(x, noise, p, y, dx, zeros, out[0], out[1]);
    tn_graph_destroy(g);
  }
}
END_TEST

/* A tensor that stands for two arguments of the call that the tape first meets it in is one tensor:
 * that it is overwritten is seen, whichever of the two the rule reads. */
START_TEST(one_tensor_for_two_arguments) {
  tn_tensor *x = filled(1), *c = NULL, *y = NULL, *sum = NULL, *dx = NULL;
  ok(tn_full(device, NULL, TN_F32, 1, SHAPE(2), 2, &c));
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  ok(tn_layer_norm(NULL, x, c, c, NULL, &y, NULL, NULL));
  ok(tn_sum(NULL, y, NULL, &sum));
  ok(tn_tape_gradient(tape, NULL, sum, NULL, 1, &x, &dx, TN_TAPE_KEEP));
  HOLDS(dx, 0, 0, 0, 0);
  RELEASE(dx);
  dx = NULL;
  ok(tn_mul(NULL, c, c, &c));
  refused(tn_tape_gradient(tape, NULL, sum, NULL, 1, &x, &dx, 0), TN_ERR_INVALID_ARGUMENT,
          "that call 2 (tn_mul) has overwritten since");
  ok(tn_tape_end(tape));
  ck_assert_ptr_null(dx);
  RELEASE(x, c, y, sum);
}
END_TEST

/* More tensors than marks are taken at a time, on two tapes by turns, so that a storage's mark
 * comes from either. */
START_TEST(many_tensors_on_two_tapes) {
  enum { MANY = 200 };
  tn_tape *other = NULL, *both[2];
  tn_tensor *w = filled(1), *t[MANY + 1];
  ok(tn_tape_create(rt, &other));
  both[0] = tape, both[1] = other;
  for (int i = 0; i < 2; ++i) ok(tn_tape_watch(both[i], w));
  for (int round = 0; round < 2; ++round) {
    tn_tensor_retain(t[0] = w);
    for (int i = 0; i < MANY; ++i) {
      t[i + 1] = NULL;
      ok(tn_tape_begin(both[i % 2]));
      ok(tn_add(NULL, t[i], w, &t[i + 1]));
      ok(tn_tape_end(both[i % 2]));
    }
    for (int i = 0; i < 2; ++i) {
      tn_tensor *dw = NULL;
      /* Of the last two adds each tape has seen one, from what the other has made. */
      ok(tn_tape_gradient(both[(MANY - 1 - i) % 2], NULL, t[MANY - i], t[0], 1, &w, &dw, 0));
      HOLDS(dw, 1, 1, 1, 1);
      tn_tensor_release(dw);
    }
    for (int i = 0; i <= MANY; ++i) tn_tensor_release(t[i]);
  }
  tn_tape_destroy(other);
  tn_tensor_release(w);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup_tape, teardown_tape);
  tcase_add_test(tcase, calls_that_only_overwrite);
  tcase_add_test(tcase, what_the_host_writes_ends_gradients);
  tcase_add_test(tcase, casts_end_with_recording);
  tcase_add_test(tcase, casts_of_what_is_watched_late);
  tcase_add_test(tcase, recording_gradients_while_nothing_records);
  tcase_add_test(tcase, sums_of_other_shapes);
  tcase_add_test(tcase, imports_with_steps);
  tcase_add_test(tcase, a_failure_is_said_once);
  tcase_add_test(tcase, parts_are_not_computed_again);
  tcase_add_test(tcase, what_fills_is_computed_again);
  tcase_add_test(tcase, one_tensor_for_two_arguments);
  tcase_add_test(tcase, many_tensors_on_two_tapes);
}

int main(void) { return run_suite("gradient_tape_writes", add_tests); }
