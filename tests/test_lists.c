/*
 * Operators with lists of tensors: lists longer than one launch takes, what is refused and
 * how it is said, prepared calls, stand-ins and the fallback. The device is the default
 * one: TENON_DEVICE picks another.
 */
#include <math.h>
#include <stdio.h>

#include "tests/support.h"

enum { MANY = 1500, LONGEST = 9000 };

static tn_runtime *rt;
static tn_device *dev;

static void start(void) {
  rt = open_runtime(NULL);
  dev = tn_runtime_device(rt);
}

static void stop(void) { tn_runtime_close(rt); }

static int64_t size_of(int i) { return i % 100 == 7 ? LONGEST : i % 9 == 4 ? 0 : 1 + i * 7 % 130; }

/* MANY tensors of known numbers, different for every `salt`. */
static void make_list(tn_tensor **list, int salt, float least) {
  static float values[LONGEST];
  for (int i = 0; i < MANY; ++i) {
    int64_t n = size_of(i);
    for (int64_t k = 0; k < n; ++k)
      values[k] = least + (float)((k * 37 + i * 11 + salt * 5) % 101) / 101;
    list[i] = NULL;
    ok(tn_tensor_from_host(dev, TN_F32, 1, &n, values, &list[i]));
  }
}

static void release_list(tn_tensor **list) {
  for (int i = 0; i < MANY; ++i) tn_tensor_release(list[i]);
}

static void read_floats(const tn_tensor *t, float *values) {
  ok(tn_tensor_to_host(t, values, tn_tensor_bytes(t)));
}

static void same_lists(tn_tensor *const *a, tn_tensor *const *b) {
  static float x[LONGEST], y[LONGEST];
  for (int i = 0; i < MANY; ++i) {
    read_floats(a[i], x);
    read_floats(b[i], y);
    for (int64_t k = 0; k < size_of(i); ++k)
      ck_assert_msg(fabsf(x[k] - y[k]) <= 1e-6f, "tensor %d [%d]: %g and %g", i, (int)k,
                    (double)x[k], (double)y[k]);
  }
}

START_TEST(a_long_list_steps_as_single_tensors_do) {
  static tn_tensor *grads[MANY], *a[3][MANY], *b[3][MANY];
  make_list(grads, 0, -0.5f);
  for (int k = 0; k < 3; ++k) make_list(a[k], k, k == 2 ? 0.1f : -0.5f);
  for (int k = 0; k < 3; ++k) make_list(b[k], k, k == 2 ? 0.1f : -0.5f);
  tn_multi_adam_attrs all = TN_MULTI_ADAM_DEFAULTS;
  tn_adam_step_attrs one = TN_ADAM_STEP_DEFAULTS;
  all.step = one.step = 3;
  all.weight_decay = one.weight_decay = 0.01;
  ok(tn_multi_adam(NULL, grads, a[0], a[1], a[2], MANY, &all));
  for (int i = 0; i < MANY; ++i) ok(tn_adam_step(NULL, grads[i], b[0][i], b[1][i], b[2][i], &one));
  for (int k = 0; k < 3; ++k) same_lists(a[k], b[k]);
  release_list(grads);
  for (int k = 0; k < 3; ++k) release_list(a[k]), release_list(b[k]);
}
END_TEST

START_TEST(a_long_list_is_clipped_to_its_norm) {
  static tn_tensor *grads[MANY];
  static float x[LONGEST];
  double before = 0, after = 0;
  float norm;
  tn_tensor *total = NULL;
  make_list(grads, 1, -0.5f);
  for (int i = 0; i < MANY; ++i) {
    read_floats(grads[i], x);
    for (int64_t k = 0; k < size_of(i); ++k) before += (double)x[k] * x[k];
  }
  ok(tn_clip_grad_norm(NULL, grads, MANY, NULL, &total));
  read_floats(total, &norm);
  ck_assert_double_eq_tol(norm, sqrt(before), 1e-6 * sqrt(before));
  for (int i = 0; i < MANY; ++i) {
    read_floats(grads[i], x);
    for (int64_t k = 0; k < size_of(i); ++k) after += (double)x[k] * x[k];
  }
  ck_assert_double_eq_tol(sqrt(after), 1, 1e-5);
  tn_tensor_release(total);
  release_list(grads);
}
END_TEST

START_TEST(a_long_list_is_joined) {
  static tn_tensor *list[MANY];
  static float x[LONGEST];
  tn_tensor *y = NULL;
  make_list(list, 2, 0);
  ok(tn_concat(NULL, list, MANY, NULL, &y));
  float *all = malloc(tn_tensor_bytes(y) + 1), *at = all;
  read_floats(y, all);
  for (int i = 0; i < MANY; at += size_of(i++)) {
    read_floats(list[i], x);
    ck_assert_mem_eq(x, at, (size_t)size_of(i) * sizeof *x);
  }
  ck_assert_int_eq(at - all, tn_tensor_elements(y));
  free(all);
  tn_tensor_release(y);
  release_list(list);
}
END_TEST

START_TEST(bad_lists_are_refused) {
  tn_tensor *a = counting(dev, 4), *b = counting(dev, 4), *y = NULL, *part = NULL;
  const tn_tensor *x[TN_MAX_LIST + 1] = {a, b};
  refused(tn_concat(NULL, x, 0, NULL, &y), TN_ERR_INVALID_ARGUMENT, "tn_concat: count is 0");
  refused(tn_concat(NULL, x, TN_MAX_LIST + 1, NULL, &y), TN_ERR_INVALID_ARGUMENT, "the most are");
  refused(tn_concat(NULL, NULL, 2, NULL, &y), TN_ERR_INVALID_ARGUMENT, "the list x is NULL");
  refused(tn_concat(NULL, x, 3, NULL, &y), TN_ERR_INVALID_ARGUMENT, "x[2] is NULL");
  refused(tn_concat(NULL, x + 2, 3, NULL, &y), TN_ERR_INVALID_ARGUMENT, "every tensor is NULL");
  ck_assert_ptr_null(y);
  tn_tensor *grads[2] = {a, a}, *norm = NULL;
  refused(tn_clip_grad_norm(NULL, grads, 2, NULL, &norm), TN_ERR_INVALID_ARGUMENT,
          "overlaps grads[");
  ok(tn_tensor_slice(a, 0, 1, 3, 1, &part));
  grads[1] = part;
  refused(tn_clip_grad_norm(NULL, grads, 2, NULL, &norm), TN_ERR_INVALID_ARGUMENT, "overlaps");
  tn_tensor *six = counting(dev, 6), *params[1] = {NULL}, *m[1] = {b};
  tn_tensor_release(part);
  ok(tn_tensor_slice(six, 0, 0, 4, 1, &part));
  ok(tn_tensor_slice(six, 0, 1, 5, 1, &params[0]));
  x[0] = part;
  refused(tn_multi_sgd(NULL, x, params, m, 1, NULL), TN_ERR_INVALID_ARGUMENT,
          "params[0] overlaps grads[0]");
  tn_call call = {.struct_size = sizeof call, .op = TN_OP_MULTI_SGD, .in = x, .out = params};
  call.num_in = 1, call.num_out = 1;
  refused(tn_invoke(&call), TN_ERR_INVALID_ARGUMENT, "its lists must be of one length");
  tn_tensor_release(part);
  tn_tensor_release(params[0]);
  tn_tensor_release(six);
  tn_tensor_release(a);
  tn_tensor_release(b);
}
END_TEST

START_TEST(a_prepared_list_runs_again_and_again) {
  tn_tensor *a = counting(dev, 3), *b = counting(dev, 2), *y = NULL;
  const tn_tensor *x[2] = {a, b};
  tn_prepared *prepared = NULL;
  tn_call call = {.struct_size = sizeof call, .op = TN_OP_CONCAT, .in = x, .out = &y};
  call.num_in = 2, call.num_out = 1;
  ok(tn_prepare(&call, &prepared));
  float values[5];
  for (int round = 0; round < 3; ++round) {
    float next[3] = {(float)round, 5, 6};
    ok(tn_tensor_write(NULL, a, next, sizeof next));
    ok(tn_run(prepared));
    read_floats(y, values);
    ck_assert_float_eq(values[0], (float)round);
    ck_assert_float_eq(values[3], 1);
  }
  tn_prepared_release(prepared);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_tensor_release(y);
}
END_TEST

START_TEST(lists_fall_back_to_the_host) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = "sim",
                                .plugin_path = SIM_PLUGIN,
                                .fallback = TN_FALLBACK_ALLOW};
  tn_runtime *other = open_runtime(&options);
  tn_tensor *a = counting(tn_runtime_device(other), 2), *v = counting(tn_runtime_device(other), 2);
  tn_tensor *g = counting(tn_runtime_device(other), 2), *y = NULL;
  const tn_tensor *grads[1] = {g}, *x[2] = {a, v};
  float values[4];
  tn_multi_sgd_attrs attrs = TN_MULTI_SGD_DEFAULTS;
  attrs.lr = 0.5;
  ok(tn_multi_sgd(NULL, grads, &a, &v, 1, &attrs));
  ok(tn_concat(NULL, x, 2, NULL, &y));
  read_floats(y, values);
  ck_assert_float_eq(values[0], 0.5f);
  ck_assert_float_eq(values[1], 1);
  ck_assert_float_eq(values[3], 2);
  tn_tensor_release(a);
  tn_tensor_release(v);
  tn_tensor_release(g);
  tn_tensor_release(y);
  tn_runtime_close(other);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, start, stop);
  tcase_add_test(t, a_long_list_steps_as_single_tensors_do);
  tcase_add_test(t, a_long_list_is_clipped_to_its_norm);
  tcase_add_test(t, a_long_list_is_joined);
  tcase_add_test(t, bad_lists_are_refused);
  tcase_add_test(t, a_prepared_list_runs_again_and_again);
  tcase_add_test(t, lists_fall_back_to_the_host);
}

int main(void) { return run_suite("lists", add_tests); }
