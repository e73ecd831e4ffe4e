/*
 * Prepared calls that are given other attributes: the same as ordinary calls with these, by the
 * kernel that an ordinary call would get, or refused with everything as before.
 */
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *device;

static void setup(void) {
  rt = open_host_runtime();
  device = tn_runtime_device(rt);
}
static void teardown(void) { tn_runtime_close(rt); }

static tn_prepared *prepare(uint32_t op, const void *attrs, uint32_t num_in, const tn_tensor **in,
                            uint32_t num_out, tn_tensor **out) {
  tn_prepared *p = NULL;
  tn_call call = {.struct_size = sizeof call,
                  .op = op,
                  .in = in,
                  .out = out,
                  .attrs = attrs,
                  .num_in = (uint16_t)num_in,
                  .num_out = (uint16_t)num_out};
  ok(tn_prepare(&call, &p));
  return p;
}

static void values_of(const tn_tensor *t, float *values, int n) {
  ok(tn_tensor_to_host(t, values, (size_t)n * sizeof *values));
}

static tn_tensor *filled(tn_device *where, int64_t n, float value) {
  tn_tensor *t = shaped(where, TN_F32, 1, &n);
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = value;
  ok(tn_fill(NULL, t, &fill));
  return t;
}

/* A parameter, its gradient and moments, all of three elements. */
typedef struct adam {
  tn_tensor *grad, *param, *m, *v;
} adam;

static adam adam_make(void) {
  return (adam){counting(device, 3), filled(device, 3, 1), filled(device, 3, 0),
                filled(device, 3, 0)};
}

static void adam_free(adam *a) {
  tn_tensor_release(a->grad);
  tn_tensor_release(a->param);
  tn_tensor_release(a->m);
  tn_tensor_release(a->v);
}

static void same_params(const adam *a, const adam *b) {
  float x[3], y[3];
  values_of(a->param, x, 3);
  values_of(b->param, y, 3);
  ck_assert(memcmp(x, y, sizeof x) == 0);
  ck_assert(x[0] < 1);
}

START_TEST(steps_of_adam) {
  adam plain = adam_make(), kept = adam_make();
  tn_adam_step_attrs attrs = TN_ADAM_STEP_DEFAULTS;
  const tn_tensor *in[1] = {kept.grad};
  tn_tensor *out[3] = {kept.param, kept.m, kept.v};
  tn_prepared *p = prepare(TN_OP_ADAM_STEP, &attrs, 1, in, 3, out);
  for (attrs.step = 1; attrs.step <= 5; ++attrs.step) {
    ok(tn_prepared_set_attrs(p, &attrs));
    ok(tn_run(p));
    ok(tn_adam_step(NULL, plain.grad, plain.param, plain.m, plain.v, &attrs));
    same_params(&kept, &plain);
  }
  tn_prepared_release(p);
  adam_free(&plain);
  adam_free(&kept);
}
END_TEST

START_TEST(steps_of_adam_over_lists) {
  adam plain[2] = {adam_make(), adam_make()}, kept[2] = {adam_make(), adam_make()};
  tn_multi_adam_attrs attrs = TN_MULTI_ADAM_DEFAULTS;
  const tn_tensor *in[2] = {kept[0].grad, kept[1].grad};
  tn_tensor *out[6] = {kept[0].param, kept[1].param, kept[0].m, kept[1].m, kept[0].v, kept[1].v};
  tn_prepared *p = prepare(TN_OP_MULTI_ADAM, &attrs, 2, in, 6, out);
  for (attrs.step = 1; attrs.step <= 5; ++attrs.step) {
    ok(tn_prepared_set_attrs(p, &attrs));
    ok(tn_run(p));
    for (int i = 0; i < 2; ++i) {
      const tn_tensor *grads[1] = {plain[i].grad};
      ok(tn_multi_adam(NULL, grads, &plain[i].param, &plain[i].m, &plain[i].v, 1, &attrs));
      same_params(&kept[i], &plain[i]);
    }
  }
  attrs.step = 0;
  refused(tn_prepared_set_attrs(p, &attrs), TN_ERR_INVALID_ARGUMENT, "attrs->step is 0");
  tn_prepared_release(p);
  for (int i = 0; i < 2; ++i) adam_free(&plain[i]), adam_free(&kept[i]);
}
END_TEST

START_TEST(attributes_are_validated_and_copied) {
  tn_tensor *x = counting(device, 6), *m = NULL, *out[1] = {NULL};
  float got[6];
  ok(tn_tensor_reshape(x, 2, SHAPE(2, 3), &m));
  const tn_tensor *in[1] = {m};
  tn_sum_attrs sum = TN_SUM_DEFAULTS;
  sum.axes = (tn_axes){.count = 1, .axis = {1}};
  tn_prepared *p = prepare(TN_OP_SUM, &sum, 1, in, 1, out);
  sum.axes.axis[0] = 0; /* [3] in place of [2] */
  refused(tn_prepared_set_attrs(p, &sum), TN_ERR_INVALID_ARGUMENT, "y must have shape [3]");
  refused(tn_prepared_set_attrs(p, NULL), TN_ERR_INVALID_ARGUMENT, "y must have shape []");
  sum.axes.axis[0] = 7;
  refused(tn_prepared_set_attrs(p, &sum), TN_ERR_INVALID_ARGUMENT, "tn_sum");
  sum.struct_size = 2;
  refused(tn_prepared_set_attrs(p, &sum), TN_ERR_INVALID_ARGUMENT, "struct_size");
  refused(tn_prepared_set_attrs(NULL, &sum), TN_ERR_INVALID_ARGUMENT, "prepared is NULL");
  ok(tn_run(p)); /* as it was prepared */
  values_of(out[0], got, 2);
  ck_assert(got[0] == 6 && got[1] == 15);
  sum = (tn_sum_attrs)TN_SUM_DEFAULTS;
  sum.axes = (tn_axes){.count = 1, .axis = {-1}}; /* the same axis in other words */
  ok(tn_prepared_set_attrs(p, &sum));
  sum.axes.axis[0] = 0; /* copied: changes nothing */
  ok(tn_run(p));
  values_of(out[0], got, 2);
  ck_assert(got[0] == 6 && got[1] == 15);
  tn_prepared_release(p);
  tn_tensor_release(out[0]);
  tn_tensor_release(m);
  tn_tensor_release(x);
}
END_TEST

START_TEST(another_result_type_is_refused) {
  tn_tensor *x = counting(device, 3), *out[1] = {NULL};
  const tn_tensor *in[1] = {x};
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  cast.dtype = TN_F64;
  tn_prepared *p = prepare(TN_OP_CAST, &cast, 1, in, 1, out);
  ok(tn_prepared_set_attrs(p, &cast));
  cast.dtype = TN_I32;
  refused(tn_prepared_set_attrs(p, &cast), TN_ERR_INVALID_ARGUMENT, "is f64 where i32");
  double got[3];
  ok(tn_run(p));
  ok(tn_tensor_to_host(out[0], got, sizeof got));
  ck_assert(got[0] == 1 && got[2] == 3);
  tn_prepared_release(p);
  tn_tensor_release(out[0]);
  tn_tensor_release(x);
}
END_TEST

START_TEST(strided_calls_take_attributes_too) {
  tn_tensor *x = filled(device, 8, 0), *every = NULL;
  ok(tn_tensor_slice(x, 0, 0, 8, 2, &every));
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  tn_prepared *p = prepare(TN_OP_FILL, &fill, 0, NULL, 1, &every);
  float got[8];
  for (fill.value = 1; fill.value < 4; ++fill.value) {
    ok(tn_prepared_set_attrs(p, &fill));
    ok(tn_run(p));
    values_of(x, got, 8);
    for (int i = 0; i < 8; ++i) ck_assert(got[i] == (i % 2 ? 0 : (float)fill.value));
  }
  tn_prepared_release(p);
  tn_tensor_release(every);
  tn_tensor_release(x);
}
END_TEST

/* --- kernels that look at attributes: the fixture's device "flat" --- */

static void setup_flat(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = LAZY_PLUGIN,
                                .plugins = "lazy,reference",
                                .device = "flat",
                                .fallback = TN_FALLBACK_ALLOW};
  rt = open_runtime(&options);
  device = tn_runtime_device(rt);
}

static void fills_by(tn_prepared *p, tn_tensor *x, double value, const char *kernel) {
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  tn_kernel_info info = {.struct_size = sizeof info};
  float got[4];
  fill.value = value;
  ok(tn_prepared_set_attrs(p, &fill));
  if (kernel) {
    ok(tn_prepared_kernel(p, &info));
    ck_assert_str_eq(info.name, kernel);
  } else {
    refused(tn_prepared_kernel(p, &info), TN_ERR_UNSUPPORTED, "falls back");
  }
  for (int run = 0; run < 2; ++run) ok(tn_run(p));
  values_of(x, got, 4);
  for (int i = 0; i < 4; ++i) ck_assert(got[i] == (float)value);
}

START_TEST(the_kernel_is_chosen_anew) {
  tn_tensor *x = counting(device, 4);
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  tn_prepared *p = prepare(TN_OP_FILL, &fill, 0, NULL, 1, &x); /* 0: falls back */
  fills_by(p, x, 1, "flat.fill");
  fills_by(p, x, 1000, "flat.fill.large");
  fills_by(p, x, 100000, "flat.fill.large"); /* another workspace */
  fills_by(p, x, 2, "flat.fill");
  fills_by(p, x, -1, NULL);
  fills_by(p, x, 200, "flat.fill.large");
  fill.value = 1e17; /* a workspace that there is not */
  refused(tn_prepared_set_attrs(p, &fill), TN_ERR_DEVICE_OUT_OF_MEMORY, "no ");
  ok(tn_run(p));
  float got[4];
  values_of(x, got, 4);
  ck_assert(got[0] == 200);
  tn_memory_stats stats = {.struct_size = sizeof stats};
  tn_prepared_release(p);
  tn_tensor_release(x);
  ok(tn_device_memory_stats(device, &stats));
  ck_assert_uint_eq(stats.in_use, 0); /* no workspace is lost */
}
END_TEST

START_TEST(a_chosen_kernel_stays) {
  tn_tensor *x = counting(device, 4);
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = 300;
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_FILL, .out = &x, .attrs = &fill, .num_out = 1};
  tn_prepared *p = NULL;
  ok(tn_prepare_candidate(&call, 1, &p));
  fill.value = -1;
  refused(tn_prepared_set_attrs(p, &fill), TN_ERR_UNSUPPORTED, "flat.fill does not take");
  fill.value = 500;
  ok(tn_prepared_set_attrs(p, &fill));
  tn_kernel_info info = {.struct_size = sizeof info};
  ok(tn_prepared_kernel(p, &info));
  ck_assert_str_eq(info.name, "flat.fill");
  tn_prepared_release(p);
  tn_tensor_release(x);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, steps_of_adam);
  tcase_add_test(t, steps_of_adam_over_lists);
  tcase_add_test(t, attributes_are_validated_and_copied);
  tcase_add_test(t, another_result_type_is_refused);
  tcase_add_test(t, strided_calls_take_attributes_too);
}

static void add_flat_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup_flat, teardown);
  tcase_add_test(t, the_kernel_is_chosen_anew);
  tcase_add_test(t, a_chosen_kernel_stays);
}

int main(void) {
  int failed = run_suite("prepared", add_tests);
  return run_suite("prepared on flat", add_flat_tests) || failed;
}
