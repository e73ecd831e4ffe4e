/*
 * A device with its own memory and few kernels (fixtures/sim.c): copies, stand-ins for
 * kernels that want contiguous tensors, workspaces, the fallback and its policies, a
 * plugin's own operator, layers, and a device that is lost.
 */
#include <stdio.h>

#include "tests/support.h"

static tn_runtime *rt;
static tn_device *sim;
static char log_text[8192];

static void keep_log(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level;
  if (strstr(line, "OpenBLAS")) return; /* what it takes this processor for */
  size_t used = strlen(log_text);
  snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
}

static int log_count(const char *words) {
  int count = 0;
  for (const char *at = log_text; (at = strstr(at, words)); ++at) ++count;
  return count;
}

static void open_with(tn_fallback fallback, const char *layers) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = "sim",
                                .plugin_path = SIM_PLUGIN,
                                .fallback = fallback,
                                .layers = layers,
                                .log_level = TN_LOG_INFO + 1,
                                .log = keep_log};
  log_text[0] = 0;
  rt = open_runtime(&options);
  sim = tn_runtime_device(rt);
  ck_assert_uint_gt(tn_device_count(rt), 1); /* loads the plugins that wait, and logs that */
  log_text[0] = 0;
}

static void expect(const tn_tensor *t, int count, const float *values) {
  float got[16];
  ok(tn_tensor_to_host(t, got, (size_t)count * 4));
  for (int i = 0; i < count; ++i)
    ck_assert_msg(got[i] == values[i], "element %d is %g, not %g", i, got[i], values[i]);
}
#define EXPECT(t, ...) expect(t, (int)(sizeof((float[]){__VA_ARGS__}) / 4), (float[]){__VA_ARGS__})

START_TEST(contiguous_kernels_get_contiguous_tensors) {
  open_with(TN_FALLBACK_ERROR, NULL);
  tn_tensor *x = counting(sim, 6), *m = NULL, *t = NULL, *row = counting(sim, 2), *y = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(2, 3), &m));
  ok(tn_tensor_permute(m, (int32_t[]){1, 0}, &t));
  ok(tn_add(NULL, t, row, &y)); /* a permuted and a broadcast input */
  EXPECT(y, 2, 6, 3, 7, 4, 8);
  tn_tensor *store = shaped(sim, TN_F32, 2, SHAPE(2, 3)), *strided = NULL;
  ok(tn_tensor_permute(store, (int32_t[]){1, 0}, &strided));
  ok(tn_add(NULL, t, row, &strided)); /* a strided output */
  EXPECT(store, 2, 3, 4, 6, 7, 8);
  tn_tensor *head = NULL;
  ok(tn_tensor_slice(x, 0, 0, 4, 2, &head));
  ok(tn_add(NULL, head, head, &head)); /* in place through strides */
  EXPECT(x, 2, 2, 6, 4, 5, 6);
  tn_tensor_release(head);
  tn_tensor_release(strided);
  tn_tensor_release(store);
  tn_tensor_release(y);
  tn_tensor_release(row);
  tn_tensor_release(t);
  tn_tensor_release(m);
  tn_tensor_release(x);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(workspace_and_supports) {
  open_with(TN_FALLBACK_ERROR, NULL);
  tn_tensor *x = counting(sim, 4), *odd = counting(sim, 3), *y = NULL, *z = NULL;
  ok(tn_mul(NULL, x, x, &y));
  EXPECT(y, 1, 4, 9, 16);
  refused(tn_mul(NULL, odd, odd, &z), TN_ERR_UNSUPPORTED, "sim.mul");
  ck_assert_ptr_null(z);
  tn_tensor *out[1] = {NULL};
  const tn_tensor *in[2] = {x, x};
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_MUL, .in = in, .out = out, .num_in = 2, .num_out = 1};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  ok(tn_run(p));
  EXPECT(out[0], 1, 4, 9, 16);
  tn_prepared_release(p);
  tn_tensor_release(out[0]);
  tn_tensor_release(y);
  tn_tensor_release(odd);
  tn_tensor_release(x);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(fallback_runs_counts_and_warns_once) {
  open_with(TN_FALLBACK_WARN, NULL);
  tn_tensor *x = counting(sim, 4), *y = NULL;
  ok(tn_neg(NULL, x, &y));
  EXPECT(y, -1, -2, -3, -4);
  ok(tn_neg(NULL, y, &x));
  EXPECT(x, 1, 2, 3, 4);
  ck_assert_int_eq(log_count("no kernel on sim:0"), 1);
  tn_fallback_stats stats = {.struct_size = sizeof stats};
  ok(tn_fallback_get_stats(sim, TN_OP_NEG, &stats));
  ck_assert_uint_eq(stats.calls, 2);
  ck_assert_uint_eq(stats.bytes, 64);
  ok(tn_fallback_get_stats(sim, 0, &stats));
  ck_assert_uint_eq(stats.calls, 2);
  ok(tn_fallback_get_stats(sim, TN_OP_ADD, &stats));
  ck_assert_uint_eq(stats.calls, 0);
  /* In-out tensors, and a prepared call that falls back. */
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = 9;
  ok(tn_fill(NULL, x, &fill));
  EXPECT(x, 9, 9, 9, 9);
  tn_tensor *out[1] = {NULL};
  const tn_tensor *in[1] = {x};
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_NEG, .in = in, .out = out, .num_in = 1, .num_out = 1};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  ok(tn_run(p));
  EXPECT(out[0], -9, -9, -9, -9);
  tn_prepared_release(p);
  tn_tensor_release(out[0]);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(fallback_policies) {
  open_with(TN_FALLBACK_ALLOW, NULL);
  tn_tensor *x = counting(sim, 4), *y = NULL;
  ok(tn_neg(NULL, x, &y));
  ck_assert_str_eq(log_text, "");
  tn_tensor_release(y), y = NULL;
  tn_tensor_release(x);
  tn_runtime_close(rt);
  open_with(TN_FALLBACK_ERROR, NULL);
  x = counting(sim, 4);
  refused(tn_neg(NULL, x, &y), TN_ERR_UNSUPPORTED, "reference.neg");
  ck_assert_ptr_null(y);
  tn_tensor_release(x);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(tensors_cross_devices) {
  open_with(TN_FALLBACK_WARN, NULL);
  tn_device *host = NULL;
  for (size_t i = 0; i < tn_device_count(rt); ++i) {
    tn_device_info info = {.struct_size = sizeof info};
    ok(tn_device_get_info(tn_device_at(rt, i), &info));
    if (info.host_memory) host = tn_device_at(rt, i);
  }
  ck_assert_ptr_nonnull(host);
  tn_tensor *x = counting(sim, 6), *m = NULL, *t = NULL, *there = NULL, *back = NULL, *bad = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(2, 3), &m));
  ok(tn_tensor_permute(m, (int32_t[]){1, 0}, &t));
  ok(tn_tensor_to_device(t, host, &there));
  EXPECT(there, 1, 4, 2, 5, 3, 6);
  ok(tn_tensor_to_device(there, sim, &back));
  EXPECT(back, 1, 4, 2, 5, 3, 6);
  refused(tn_add(NULL, there, back, &bad), TN_ERR_INVALID_ARGUMENT, "use tn_tensor_to_device");
  tn_tensor_release(back);
  tn_tensor_release(there);
  tn_tensor_release(t);
  tn_tensor_release(m);
  tn_tensor_release(x);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(kernel_failures_tell_the_story) {
  open_with(TN_FALLBACK_WARN, NULL);
  tn_tensor *x = counting(sim, 2), *y = NULL;
  refused(tn_sqrt(NULL, x, &y), TN_ERR_BACKEND, "simulated square root always fails");
  ck_assert(strstr(tn_last_error(), "tn_sqrt") && strstr(tn_last_error(), "sim.sqrt"));
  ck_assert_ptr_null(y);
  ok(tn_add(NULL, x, x, &y)); /* the device lives on */
  tn_tensor_release(y), y = NULL;
  tn_tensor_release(x);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(a_lost_device_stays_lost) {
  open_with(TN_FALLBACK_WARN, NULL);
  tn_tensor *x = counting(sim, 2), *y = NULL;
  float values[2];
  refused(tn_log(NULL, x, &y), TN_ERR_DEVICE_LOST, "caught fire");
  refused(tn_add(NULL, x, x, &y), TN_ERR_DEVICE_LOST, "sim:0 is lost");
  ck_assert(strstr(tn_last_error(), "The fault: ") && strstr(tn_last_error(), "caught fire"));
  refused(tn_tensor_to_host(x, values, 8), TN_ERR_DEVICE_LOST, "lost");
  refused(tn_device_synchronize(sim), TN_ERR_DEVICE_LOST, "lost");
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(sim, &info));
  ck_assert_uint_eq(info.lost, 1);
  tn_device *other = NULL; /* others go on */
  ok(tn_device_find(rt, "reference", &other));
  tn_tensor *z = counting(other, 2), *w = NULL;
  ok(tn_add(NULL, z, z, &w));
  tn_tensor_release(w);
  tn_tensor_release(z);
  tn_tensor_release(x);
  tn_runtime_close(rt);
}
END_TEST

/* Whoever comes later hears what ran, though the layers saw none of his own call. */
START_TEST(a_lost_device_names_its_last_operators) {
  open_with(TN_FALLBACK_WARN, "validate");
  tn_tensor *x = counting(sim, 2), *y = NULL, *z = NULL;
  ok(tn_add(NULL, x, x, &z));
  refused(tn_log(NULL, x, &y), TN_ERR_DEVICE_LOST, "caught fire");
  for (int i = 0; i < 3; ++i)
    refused(tn_neg(NULL, x, &y), TN_ERR_DEVICE_LOST, "latest first: log, add");
  refused(tn_device_synchronize(sim), TN_ERR_DEVICE_LOST, "latest first: log, add");
  tn_tensor_release(x);
  tn_tensor_release(z);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(plugins_bring_operators) {
  open_with(TN_FALLBACK_WARN, NULL);
  uint32_t op = 0;
  ok(tn_op_find(rt, "fixture_double", &op));
  tn_device *host = NULL;
  ok(tn_device_find(rt, "reference", &host));
  tn_device *places[2] = {host, sim}; /* natively, and by the fallback */
  for (int i = 0; i < 2; ++i) {
    tn_tensor *x = counting(places[i], 2), *out[1] = {NULL};
    const tn_tensor *in[1] = {x};
    tn_call call = {
        .struct_size = sizeof call, .op = op, .in = in, .out = out, .num_in = 1, .num_out = 1};
    ok(tn_invoke(&call));
    EXPECT(out[0], 3, 3, 6, 6);
    tn_tensor *square = shaped(places[i], TN_F32, 2, SHAPE(1, 1)), *none[1] = {NULL};
    in[0] = square, call.out = none;
    refused(tn_invoke(&call), TN_ERR_INVALID_ARGUMENT, "rank 1 only");
    tn_tensor_release(square);
    tn_tensor_release(out[0]);
    tn_tensor_release(x);
  }
  tn_runtime_close(rt);
}
END_TEST

START_TEST(layers_see_every_call) {
  open_with(TN_FALLBACK_WARN, "tally");
  tn_tensor *x = counting(sim, 4), *y = NULL;
  ok(tn_add(NULL, x, x, &y));
  EXPECT(y, 2, 4, 6, 8);
  ck_assert_int_eq(log_count("tally add by sim.add of sim: 0"), 1);
  ok(tn_neg(NULL, x, &y)); /* the host's kernel behind the fallback */
  ck_assert_int_ge(log_count("tally neg by"), 1);
  ck_assert(tn_sqrt(NULL, x, &y) == TN_ERR_BACKEND);
  ck_assert_int_eq(log_count("tally sqrt by sim.sqrt of sim: 10"), 1);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(layers_stand_in_order) {
  open_with(TN_FALLBACK_ERROR, "tally,deny");
  tn_tensor *x = counting(sim, 4), *y = NULL;
  refused(tn_add(NULL, x, x, &y), TN_ERR_UNSUPPORTED, "denied");
  ck_assert_int_eq(log_count("tally add"), 1);
  tn_runtime_close(rt);
  tn_tensor_release(x);
  open_with(TN_FALLBACK_ERROR, "deny,tally");
  x = counting(sim, 4);
  refused(tn_add(NULL, x, x, &y), TN_ERR_UNSUPPORTED, "denied");
  ck_assert_int_eq(log_count("tally add"), 0);
  tn_tensor_release(x);
  tn_runtime_close(rt);
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugin_path = SIM_PLUGIN, .layers = "tally,nonsense"};
  refused(tn_runtime_open(&options, &rt), TN_ERR_NOT_FOUND, "nonsense");
}
END_TEST

START_TEST(streams_and_events) {
  open_with(TN_FALLBACK_WARN, NULL);
  tn_stream *a = NULL, *b = NULL;
  tn_event *e = NULL, *f = NULL;
  ok(tn_stream_create(sim, &a));
  ok(tn_stream_create(sim, &b));
  ok(tn_event_create(sim, &e));
  ok(tn_event_create(sim, &f));
  ok(tn_event_query(e)); /* never recorded: passed */
  tn_tensor *x = NULL, *y = NULL;
  ok(tn_tensor_empty_on(sim, a, TN_F32, 1, SHAPE(4), &x));
  float values[4] = {1, 2, 3, 4};
  ok(tn_tensor_write(a, x, values, sizeof values));
  ok(tn_event_record(e, a));
  ok(tn_stream_wait_event(b, e));
  ok(tn_add(b, x, x, &y)); /* used on another stream than its own */
  ok(tn_event_record(f, b));
  void *data = tn_tensor_data(x);
  tn_tensor_release(x);
  ok(tn_event_synchronize(f));
  uint64_t ns = 0;
  ok(tn_event_elapsed(e, f, &ns));
  ck_assert_uint_eq(ns, 42);
  EXPECT(y, 2, 4, 6, 8);
  ok(tn_tensor_empty_on(sim, a, TN_F32, 1, SHAPE(4), &x));
  (void)data;
  tn_stream_destroy(a); /* x outlives its stream */
  tn_tensor_release(x);
  tn_device *other = NULL;
  ok(tn_device_find(rt, "reference", &other));
  refused(tn_tensor_empty_on(other, b, TN_F32, 0, NULL, &x), TN_ERR_INVALID_ARGUMENT, "stream");
  tn_tensor_release(y);
  tn_stream_destroy(b);
  tn_event_destroy(e);
  tn_event_destroy(f);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(unusable_devices_say_why) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugin_path = SIM_PLUGIN, .device = "sim:1"};
  refused(tn_runtime_open(&options, &rt), TN_ERR_NOT_FOUND, "second simulated device is broken");
  ck_assert(strstr(tn_last_error(), "sim:1"));
  options.device = "nosuch";
  refused(tn_runtime_open(&options, &rt), TN_ERR_NOT_FOUND, "sim:0");
  options.device = "sim:7";
  refused(tn_runtime_open(&options, &rt), TN_ERR_NOT_FOUND, "there is no device 'sim:7'");
  options.device = "sim:x";
  refused(tn_runtime_open(&options, &rt), TN_ERR_INVALID_ARGUMENT, "type:number");
  options.device = "sim:1,sim:0"; /* the first usable */
  rt = open_runtime(&options);
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(tn_runtime_device(rt), &info));
  ck_assert_str_eq(info.id, "sim:0");
  tn_runtime_close(rt);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_test(t, contiguous_kernels_get_contiguous_tensors);
  tcase_add_test(t, workspace_and_supports);
  tcase_add_test(t, fallback_runs_counts_and_warns_once);
  tcase_add_test(t, fallback_policies);
  tcase_add_test(t, tensors_cross_devices);
  tcase_add_test(t, kernel_failures_tell_the_story);
  tcase_add_test(t, a_lost_device_stays_lost);
  tcase_add_test(t, a_lost_device_names_its_last_operators);
  tcase_add_test(t, plugins_bring_operators);
  tcase_add_test(t, layers_see_every_call);
  tcase_add_test(t, layers_stand_in_order);
  tcase_add_test(t, streams_and_events);
  tcase_add_test(t, unusable_devices_say_why);
}

int main(void) { return run_suite("fallback", add_tests); }
