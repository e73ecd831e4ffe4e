/* Outputs whose shape depends on data: cut where the call made them, whole where they were
 * given or prepared, on a host device and through the fallback. */
#include <stdio.h>

#include "tests/support.h"

static tn_runtime *rt;
static void setup(void) { rt = open_host_runtime(); }
static void teardown(void) { tn_runtime_close(rt); }

static tn_tensor *sample(tn_device *device) {
  static const float values[] = {0, 1, 0, 2, 0, 3};
  tn_tensor *x = NULL;
  ok(tn_tensor_from_host(device, TN_F32, 2, SHAPE(2, 3), values, &x));
  return x;
}

static void expect_sample(const tn_tensor *y, const tn_tensor *count, int64_t rows) {
  static const int64_t want[] = {0, 1, 1, 0, 1, 2};
  int64_t got[12], n = 0;
  ok(tn_tensor_to_host(count, &n, sizeof n));
  ck_assert_int_eq(n, 3);
  ck_assert_int_eq(tn_tensor_rank(y), 2);
  ck_assert_int_eq(tn_tensor_shape(y)[0], rows);
  ck_assert_int_eq(tn_tensor_shape(y)[1], 2);
  ok(tn_tensor_to_host(y, got, (size_t)rows * 16));
  ck_assert(memcmp(got, want, sizeof want) == 0);
}

static void made_and_given(tn_device *device) {
  tn_tensor *x = sample(device), *y = NULL, *count = NULL;
  ok(tn_nonzero(NULL, x, &y, &count));
  expect_sample(y, count, 3);
  ck_assert(tn_tensor_is_contiguous(y));
  tn_tensor *whole = shaped(device, TN_I64, 2, SHAPE(6, 2)), *again = NULL;
  ok(tn_nonzero(NULL, x, &whole, &again)); /* one given, one made */
  expect_sample(whole, again, 6);
  refused(tn_nonzero(NULL, x, &y, &count), TN_ERR_INVALID_ARGUMENT, "y must have shape [6, 2]");
  ck_assert_int_eq(tn_tensor_shape(y)[0], 3);
  tn_tensor_release(again);
  tn_tensor_release(whole);
  tn_tensor_release(count);
  tn_tensor_release(y);
  tn_tensor_release(x);
}

static void prepared(tn_device *device) {
  tn_tensor *x = sample(device), *out[2] = {NULL};
  const tn_tensor *in[1] = {x};
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_NONZERO,
                  .in = in,
                  .out = out,
                  .num_in = 1,
                  .num_out = 2};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  for (int i = 0; i < 2; ++i) {
    ok(tn_run(p));
    expect_sample(out[0], out[1], 6);
  }
  tn_prepared_release(p);
  tn_tensor_release(out[0]);
  tn_tensor_release(out[1]);
  tn_tensor_release(x);
}

START_TEST(outputs_are_cut_where_the_call_made_them) { made_and_given(tn_runtime_device(rt)); }
END_TEST

START_TEST(prepared_outputs_stay_whole) { prepared(tn_runtime_device(rt)); }
END_TEST

START_TEST(nothing_and_everything) {
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *none = shaped(device, TN_F32, 1, SHAPE(0)), *all = counting(device, 4);
  tn_tensor *y = NULL, *z = NULL, *count = NULL, *four = NULL;
  ok(tn_nonzero(NULL, none, &y, &count));
  ck_assert_int_eq(tn_tensor_elements(y), 0);
  ok(tn_nonzero(NULL, all, &z, &four));
  ck_assert_int_eq(tn_tensor_shape(z)[0], 4);
  ck_assert_int_eq(tn_tensor_elements(z), 4);
  tn_tensor_release(four);
  tn_tensor_release(z);
  tn_tensor_release(count);
  tn_tensor_release(y);
  tn_tensor_release(all);
  tn_tensor_release(none);
}
END_TEST

START_TEST(the_fallback_cuts_too) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = "sim",
                                .plugin_path = SIM_PLUGIN,
                                .fallback = TN_FALLBACK_ALLOW};
  tn_runtime *sim = open_runtime(&options);
  made_and_given(tn_runtime_device(sim));
  prepared(tn_runtime_device(sim));
  tn_runtime_close(sim);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, outputs_are_cut_where_the_call_made_them);
  tcase_add_test(t, prepared_outputs_stay_whole);
  tcase_add_test(t, nothing_and_everything);
  tcase_add_test(t, the_fallback_cuts_too);
}

int main(void) { return run_suite("data_dependent", add_tests); }
