/* Autocast of a tape: one cast of a parameter per step and version, gradients in float32, and what
 * is refused as without. The table of operators is tests/graph/test_autocast_cases.c's. */
#include <math.h>

#include "graph/tape/tape.h"
#include "tests/graph/graphs.h"

static tn_tape *tape;

static void setup_tape(void) {
  rt = open_runtime(&(tn_runtime_options){.struct_size = sizeof(tn_runtime_options),
                                          .device = "reference",
                                          .plugin_path = PLUGINS,
                                          .plugins = "reference"});
  device = tn_runtime_device(rt);
  ok(tn_tape_create(rt, &tape));
}
static void teardown_tape(void) {
  tn_tape_destroy(tape);
  teardown();
}

static uint32_t recorded_casts(void) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < tape->record.num_nodes; ++i)
    count += tape->record.nodes[i].op->id == TN_OP_CAST;
  return count;
}

static void is(const tn_tensor *t, tn_dtype dtype) {
  ck_assert_str_eq(tn_dtype_name(tn_tensor_dtype(t)), tn_dtype_name(dtype));
}

static tn_tensor *product(const tn_tensor *a, const tn_tensor *b) {
  tn_tensor *y = NULL;
  ok(tn_matmul(NULL, a, b, NULL, NULL, &y));
  return y;
}

/* mean(gelu(x w) w v) */
static tn_tensor *model(const tn_tensor *x, const tn_tensor *w, const tn_tensor *v) {
  tn_tensor *a = product(x, w), *h = NULL, *mean = NULL;
  ok(tn_gelu(NULL, a, NULL, &h));
  tn_tensor *b = product(h, w), *c = product(b, v);
  ok(tn_mean(NULL, c, NULL, &mean));
  RELEASE(a, h, b, c);
  return mean;
}

static void gradients(tn_dtype dtype, float *values) {
  tn_tensor *x = numbers(device, 8, 8, -1), *w = numbers(device, 8, 8, -0.8f);
  tn_tensor *v = numbers(device, 8, 1, -0.9f), *by[2] = {w, v}, *got[2] = {NULL};
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_watch(tape, v));
  ok(tn_tape_begin(tape));
  ok(tn_tape_autocast(tape, dtype));
  tn_tensor *loss = model(x, w, v);
  is(loss, TN_F32);
  /* x, which nobody watches, is not of the record; then w, v and the last product. */
  ck_assert_uint_eq(recorded_casts(), dtype ? 3 : 0);
  ok(tn_tape_gradient(tape, NULL, loss, NULL, 2, by, got, 0));
  ck_assert_uint_eq(recorded_casts(), 0);
  ok(tn_tape_end(tape));
  is(got[0], TN_F32);
  is(got[1], TN_F32);
  ok(tn_tensor_to_host(got[0], values, 64 * sizeof *values));
  ok(tn_tensor_to_host(got[1], values + 64, 8 * sizeof *values));
  RELEASE(x, w, v, got[0], got[1], loss);
}

START_TEST(gradients_are_those_of_float32_nearly) {
  float wide[72], narrow[72];
  gradients(TN_DTYPE_NONE, wide);
  for (int type = 0; type < 2; ++type) {
    double error = 0, norm = 0;
    gradients(type ? TN_F16 : TN_BF16, narrow);
    for (int i = 0; i < 72; ++i) {
      error += pow((double)wide[i] - (double)narrow[i], 2);
      norm += pow((double)wide[i], 2);
    }
    error = sqrt(error / norm);
    ck_assert_msg(error > 0 && error < (type ? 0.004 : 0.03), "%g", error);
  }
}
END_TEST

/* Each step casts anew, each write by an operator or by the host too. */
START_TEST(a_parameter_is_cast_once_per_version) {
  tn_tensor *w = numbers(device, 4, 4, 0.5f), *velocity = NULL, *dw = NULL;
  float ones[16], first[16];
  for (int i = 0; i < 16; ++i) ones[i] = 1;
  ok(tn_zeros(device, NULL, TN_F32, 2, SHAPE(4, 4), &velocity));
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_autocast(tape, TN_BF16));
  for (int step = 0; step < 3; ++step) {
    ok(tn_tape_begin(tape));
    tn_tensor *a = product(w, w), *b = product(w, a), *loss = NULL;
    ck_assert_uint_eq(recorded_casts(), 1);
    ok(tn_sum(NULL, b, NULL, &loss));
    ok(tn_tape_gradient(tape, NULL, loss, NULL, 1, &w, &dw, 0));
    ok(tn_sgd_step(NULL, dw, w, velocity, NULL));
    ok(tn_tape_end(tape));
    RELEASE(a, b, loss, dw);
    dw = NULL;
  }
  ok(tn_tape_begin(tape));
  tn_tensor *a = product(w, w);
  ok(tn_tensor_write(NULL, w, ones, sizeof ones));
  tn_tensor *b = product(w, w), *wide = NULL;
  ck_assert_uint_eq(recorded_casts(), 2);
  ok(tn_cast(NULL, b, NULL, &wide));
  ok(tn_tensor_to_host(wide, first, sizeof first));
  for (int i = 0; i < 16; ++i) ck_assert_float_eq(first[i], 4);
  ok(tn_tape_autocast(tape, TN_DTYPE_NONE));
  tn_tensor *c = product(w, w);
  is(c, TN_F32);
  ok(tn_tape_end(tape));
  RELEASE(w, velocity, a, b, c, wide);
}
END_TEST

START_TEST(kept_casts_go_with_the_record) {
  tn_memory_stats before = {.struct_size = sizeof before}, after = before;
  tn_tensor *w = numbers(device, 64, 64, 0.5f);
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_autocast(tape, TN_BF16));
  ok(tn_device_memory_stats(device, &before));
  ok(tn_tape_begin(tape));
  tn_tensor *a = product(w, w);
  tn_tensor_release(a);
  ok(tn_device_memory_stats(device, &after));
  ck_assert(after.in_use > before.in_use);
  ok(tn_tape_forget(tape));
  ok(tn_device_memory_stats(device, &after));
  ck_assert_uint_eq(after.in_use, before.in_use);
  ok(tn_tape_end(tape));
  tn_tensor_release(w);
}
END_TEST

/* The gradient of the sum of squares of a gradient: what is recorded of a gradient is not cast. */
START_TEST(gradients_of_gradients) {
  float values[2][16];
  for (int cast = 0; cast < 2; ++cast) {
    tn_tensor *w = numbers(device, 4, 4, -0.6f), *dw = NULL, *ddw = NULL, *square = NULL;
    tn_tensor *sum = NULL, *loss = NULL;
    ok(tn_tape_watch(tape, w));
    ok(tn_tape_begin(tape));
    ok(tn_tape_autocast(tape, cast ? TN_BF16 : TN_DTYPE_NONE));
    tn_tensor *a = product(w, w), *b = product(a, w);
    ok(tn_sum(NULL, b, NULL, &loss));
    ok(tn_tape_gradient(tape, NULL, loss, NULL, 1, &w, &dw, TN_TAPE_RECORD));
    is(dw, TN_F32);
    ok(tn_mul(NULL, dw, dw, &square));
    ok(tn_sum(NULL, square, NULL, &sum));
    ok(tn_tape_gradient(tape, NULL, sum, NULL, 1, &w, &ddw, 0));
    ok(tn_tape_end(tape));
    ok(tn_tensor_to_host(ddw, values[cast], sizeof values[cast]));
    RELEASE(w, dw, ddw, square, sum, loss, a, b);
  }
  double error = 0, norm = 0;
  for (int i = 0; i < 16; ++i) {
    error += pow((double)values[0][i] - (double)values[1][i], 2);
    norm += pow((double)values[0][i], 2);
  }
  ck_assert_msg(error > 0 && sqrt(error / norm) < 0.03, "%g", sqrt(error / norm));
}
END_TEST

/* What was called in float32 is differentiated in float32, whatever has been said since. */
START_TEST(gradients_have_the_types_of_their_calls) {
  tn_tensor *w = numbers(device, 4, 4, 0.5f), *dw = NULL, *loss = NULL;
  ok(tn_tape_watch(tape, w));
  ok(tn_tape_begin(tape));
  tn_tensor *y = product(w, w);
  ok(tn_sum(NULL, y, NULL, &loss));
  ok(tn_tape_autocast(tape, TN_BF16));
  ok(tn_tape_gradient(tape, NULL, loss, NULL, 1, &w, &dw, TN_TAPE_RECORD));
  ck_assert_uint_eq(recorded_casts(), 0);
  tn_tensor *z = product(dw, w); /* and then it goes on */
  is(z, TN_BF16);
  ok(tn_tape_end(tape));
  RELEASE(w, y, dw, loss, z);
}
END_TEST

START_TEST(refusals_are_those_of_float32) {
  tn_tensor *w = numbers(device, 4, 4, 0.5f), *wide = numbers(device, 4, 7, 1), *y = NULL;
  char words[2048];
  ok(tn_tape_watch(tape, w));
  refused(tn_matmul(NULL, wide, w, NULL, NULL, &y), TN_ERR_INVALID_ARGUMENT, "tn_matmul");
  snprintf(words, sizeof words, "%s", tn_last_error());
  ok(tn_tape_begin(tape));
  ok(tn_tape_autocast(tape, TN_F16));
  refused(tn_matmul(NULL, wide, w, NULL, NULL, &y), TN_ERR_INVALID_ARGUMENT, words);
  tn_tensor *h = product(w, w);
  is(h, TN_F16);
  refused(tn_matmul(NULL, wide, h, NULL, NULL, &y), TN_ERR_INVALID_ARGUMENT, words);
  refused(tn_tape_autocast(NULL, TN_F16), TN_ERR_INVALID_ARGUMENT, "tape is NULL");
  refused(tn_tape_autocast(tape, TN_F64), TN_ERR_INVALID_ARGUMENT,
          "tn_tape_autocast: dtype is f64");
  ok(tn_tape_end(tape));
  tn_tensor *plain = product(w, w); /* nobody records */
  is(plain, TN_F32);
  RELEASE(w, wide, h, plain);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup_tape, teardown_tape);
  tcase_add_test(t, gradients_are_those_of_float32_nearly);
  tcase_add_test(t, a_parameter_is_cast_once_per_version);
  tcase_add_test(t, kept_casts_go_with_the_record);
  tcase_add_test(t, gradients_of_gradients);
  tcase_add_test(t, gradients_have_the_types_of_their_calls);
  tcase_add_test(t, refusals_are_those_of_float32);
}

int main(void) { return run_suite("tape_autocast", add_tests); }
