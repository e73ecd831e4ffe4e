/*
 * Plugins that keep the contract in most of what they bring and not in the rest (nonsense.c): the
 * rest is refused with its reason, and whatever else they and others bring stays.
 */
#include "tests/hostile/support.h"

typedef struct lines {
  char text[8192];
} lines;

static void gather(void *user, tn_log_level level, const char *line) {
  lines *l = user;
  size_t used = strlen(l->text);
  if (level <= TN_LOG_WARN) snprintf(l->text + used, sizeof l->text - used, "%s\n", line);
}

static tn_runtime *open_with(const char *path, const char *plugins, lines *warnings) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = path,
                                .plugins = plugins,
                                .scan = TN_SCAN_OFF,
                                .log = gather,
                                .log_user = warnings};
  return open_runtime(&options);
}

static tn_plugin_info report_of(tn_runtime *runtime, const char *name) {
  tn_plugin_info info = {.struct_size = sizeof info};
  for (size_t i = 0; tn_plugin_report(runtime, i, &info) == TN_OK; i++)
    if (strcmp(info.name, name) == 0 && info.taken) return info;
  ck_abort_msg("plugin %s was not taken", name);
}

static size_t devices_of(tn_runtime *runtime, const char *type) {
  size_t count = 0;
  for (size_t i = 0; i < tn_device_count(runtime); i++) {
    tn_device_info info = {.struct_size = sizeof info};
    ok(tn_device_get_info(tn_device_at(runtime, i), &info));
    count += strcmp(info.type, type) == 0;
  }
  return count;
}

/* ----------------------------------------------------------------------- numbers --- */

static const char *const orders[] = {
    HOSTILE("crowd") ":" HOSTILE("legion") ":" HOSTILE("full") ":" HOSTILE("full_too"),
    HOSTILE("full_too") ":" HOSTILE("full") ":" HOSTILE("legion") ":" HOSTILE("crowd")};

START_TEST(whoever_counts_too_many_has_none) {
  lines warnings = {""};
  tn_runtime *runtime = open_with(orders[_i], "reference,crowd,legion,full,full_too", &warnings);
  ck_assert_uint_eq(devices_of(runtime, "crowd"), 0);
  ck_assert_uint_eq(devices_of(runtime, "legion"), 0);
  ck_assert_uint_eq(devices_of(runtime, "full"), 64);
  ck_assert_uint_eq(devices_of(runtime, "full_too"), 64);
  ck_assert_uint_eq(devices_of(runtime, "reference"), 1);
  ck_assert_str_eq(report_of(runtime, "crowd").reason,
                   "its count gives 4000000000 devices of type crowd, and a type has room for 64: "
                   "none is taken");
  ck_assert_ptr_nonnull(strstr(report_of(runtime, "legion").reason, "gives 65 devices"));
  ck_assert_ptr_nonnull(strstr(warnings.text, "plugin crowd: its count gives 4000000000"));
  tn_device *last = NULL;
  ok(tn_device_find(runtime, "full:63", &last));
  tn_tensor *x = counting(last, 3), *y = NULL;
  ok(tn_add(NULL, x, x, &y));
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
}
END_TEST

/* -------------------------------------------------------------------- properties --- */

START_TEST(absurd_devices_are_refused_alone) {
  static const char *const said[] = {"dl_device_type 0", "dl_device_id -3"};
  lines warnings = {""};
  tn_runtime *runtime = open_with(HOSTILE("absurd"), "reference,absurd", &warnings);
  for (int i = 0; i < 7; i++) {
    char id[32];
    tn_device *d = NULL;
    tn_device_info info = {.struct_size = sizeof info};
    snprintf(id, sizeof id, "absurd:%d", i);
    ok(tn_device_find(runtime, id, &d));
    ok(tn_device_get_info(d, &info));
    ck_assert_msg(i < 2 ? !!strstr(info.unavailable, said[i]) : !*info.unavailable, "%s: '%s'", id,
                  info.unavailable);
    if (i < 2) refused(tn_device_synchronize(d), TN_ERR_BACKEND, said[i]);
    if (i >= 2) ok(tn_device_synchronize(d));
  }
  const char *told = "device absurd:0 cannot be used: its describe gives dl_device_type 0";
  ck_assert_ptr_nonnull(strstr(report_of(runtime, "absurd").warnings, told));
  ck_assert_ptr_nonnull(strstr(warnings.text, told));
  tn_runtime_close(runtime);
}
END_TEST

/* As hosts took it before they looked: a limit that is none, and texts that fill their field. */
START_TEST(what_can_be_mended_is_used) {
  lines warnings = {""};
  tn_runtime *runtime = open_with(HOSTILE("absurd"), "reference,absurd", &warnings);
  tn_device_info info[7];
  for (int i = 2; i < 7; i++) {
    char id[32];
    tn_device *d = NULL;
    info[i] = (tn_device_info){.struct_size = sizeof *info};
    snprintf(id, sizeof id, "absurd:%d", i);
    ok(tn_device_find(runtime, id, &d));
    ok(tn_device_get_info(d, &info[i]));
    tn_tensor *x = counting(d, 3), *y = NULL;
    ok(tn_add(NULL, x, x, &y));
    tn_tensor_release(x);
    tn_tensor_release(y);
  }
  ck_assert_uint_eq(info[2].memory_bytes, 0);
  ck_assert_uint_eq(info[6].memory_bytes, 1 << 20);
  ck_assert_uint_eq(strlen(info[3].name), 127);
  ck_assert_uint_eq(strlen(info[4].features), 255);
  const char *told = "device absurd:2: its describe gives memory_bytes 18446744073709551615, more "
                     "than there can be, taken as not known";
  ck_assert_ptr_nonnull(strstr(report_of(runtime, "absurd").warnings, told));
  ck_assert_ptr_nonnull(strstr(warnings.text, told));
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(opaque_memory_is_no_hosts) {
  lines warnings = {""};
  tn_runtime *runtime = open_with(HOSTILE("opaque"), "reference,opaque", &warnings);
  tn_device *d = NULL;
  ok(tn_device_find(runtime, "opaque", &d));
  refused(tn_device_synchronize(d), TN_ERR_BACKEND, "its memory is opaque");
  ck_assert_ptr_nonnull(strstr(report_of(runtime, "opaque").warnings, "its memory is opaque"));
  tn_runtime_close(runtime);
}
END_TEST

/* --------------------------------------------------------------------- operators --- */

/* The first element of what the operator gives of -1, on the reference's device. */
static float answer(tn_runtime *runtime, const char *name) {
  tn_device *host = NULL;
  float value = -1;
  ok(tn_device_find(runtime, "reference", &host));
  tn_tensor *x = NULL, *y = NULL;
  ok(tn_tensor_from_host(host, TN_F32, 1, SHAPE(1), &value, &x));
  const tn_tensor *in[1] = {x};
  tn_call call = {.struct_size = sizeof call, .in = in, .out = &y, .num_in = 1, .num_out = 1};
  ok(tn_op_find(runtime, name, &call.op));
  ok(tn_invoke(&call));
  ok(tn_tensor_to_host(y, &value, sizeof value));
  tn_tensor_release(x);
  tn_tensor_release(y);
  return value;
}

START_TEST(operators_are_refused_alone) {
  lines warnings = {""};
  tn_runtime *runtime = open_with(HOSTILE("odds"), "reference,odds", &warnings);
  tn_plugin_info info = report_of(runtime, "odds");
  ck_assert_uint_eq(info.num_operators, 2);
  ck_assert_float_eq(answer(runtime, "neg"), 1);
  ck_assert_float_eq(answer(runtime, "acme.answer"), 42);
  static const char *const said[] = {
      "not taken, nor the kernels for them: neg; name them with a prefix of your own and a dot, "
      "odds.neg",
      "may meet later ones of Tenon's own: plain;",
      "wait for operators that no plugin has brought: acme.later",
      "are for device types that no plugin here has: referense; there are: odds, reference"};
  for (int i = 0; i < 4; i++)
    ck_assert_msg(strstr(info.warnings, said[i]) != NULL, "'%s' not in '%s'", said[i],
                  info.warnings);
  ck_assert_ptr_nonnull(strstr(warnings.text, said[0]));
  ck_assert_ptr_null(strstr(warnings.text, said[1])); /* older plugins are no trouble */
  tn_kernel_row row = {.struct_size = sizeof row};
  size_t waiting = 0; /* rows without an operator can be looked at */
  for (size_t i = 0; tn_kernel_at(runtime, i, &row) == TN_OK; i++) waiting += row.op == 0;
  ck_assert_uint_eq(waiting, 2);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(kernels_are_joined_by_their_operator) {
  static const char *const paths[] = {HOSTILE("odds"), HOSTILE("later")};
  for (int first = 0; first < 2; first++) {
    lines warnings = {""};
    tn_runtime *runtime = open_with(NULL, "reference", &warnings);
    uint32_t op;
    ok(tn_runtime_load_plugin(runtime, paths[first]));
    if (!first) refused(tn_op_find(runtime, "acme.later", &op), TN_ERR_NOT_FOUND, "acme.later");
    ok(tn_runtime_load_plugin(runtime, paths[1 - first]));
    ck_assert_float_eq(answer(runtime, "acme.later"), 42);
    ck_assert_ptr_null(strstr(report_of(runtime, "odds").warnings, "acme.later"));
    ok(tn_runtime_unload_plugin(runtime, "later"));
    refused(tn_op_find(runtime, "acme.later", &op), TN_ERR_NOT_FOUND, "acme.later");
    ok(tn_runtime_load_plugin(runtime, HOSTILE("later")));
    ck_assert_float_eq(answer(runtime, "acme.later"), 42);
    ok(tn_runtime_unload_plugin(runtime, "odds"));
    ok(tn_runtime_load_plugin(runtime, HOSTILE("odds")));
    ck_assert_float_eq(answer(runtime, "acme.later"), 42);
    tn_runtime_close(runtime);
  }
}
END_TEST

/* Whoever was loaded second is without it, and is told so for as long as that is. */
START_TEST(an_operator_left_out_stays_out) {
  lines warnings = {""};
  tn_runtime *runtime = open_with(NULL, "reference", &warnings);
  ok(tn_runtime_load_plugin(runtime, HOSTILE("later")));
  ok(tn_runtime_load_plugin(runtime, HOSTILE("rival")));
  const char *told = "operators that existed when it was loaded are not taken, nor the kernels for "
                     "them: acme.later;";
  ck_assert_ptr_nonnull(strstr(report_of(runtime, "rival").warnings, told));
  ok(tn_runtime_unload_plugin(runtime, "later"));
  ck_assert_ptr_nonnull(strstr(report_of(runtime, "rival").warnings, told));
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(kernels_of_an_unloaded_operator_are_told_of) {
  const char *told = "kernels for acme.later are bound to an operator that was unloaded; load its "
                     "plugin again";
  lines warnings = {""};
  tn_runtime *runtime = open_with(HOSTILE("odds"), "reference,odds", &warnings);
  ok(tn_runtime_load_plugin(runtime, HOSTILE("later")));
  ck_assert_ptr_null(strstr(report_of(runtime, "odds").warnings, "acme.later"));
  ok(tn_runtime_unload_plugin(runtime, "later"));
  ck_assert_ptr_nonnull(strstr(report_of(runtime, "odds").warnings, told));
  ck_assert_ptr_null(strstr(warnings.text, told)); /* nobody misses them yet */
  ok(tn_runtime_load_plugin(runtime, HOSTILE("rival")));
  ck_assert_ptr_nonnull(strstr(report_of(runtime, "odds").warnings, told));
  ck_assert_ptr_nonnull(strstr(warnings.text, told));
  ok(tn_runtime_unload_plugin(runtime, "rival"));
  ok(tn_runtime_load_plugin(runtime, HOSTILE("later")));
  ck_assert_float_eq(answer(runtime, "acme.later"), 42);
  ck_assert_ptr_null(strstr(report_of(runtime, "odds").warnings, "acme.later"));
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(a_rule_that_refuses_shows_the_operands) {
  lines warnings = {""};
  tn_runtime *runtime = open_with(HOSTILE("odds"), "reference,odds", &warnings);
  tn_device *host = NULL;
  ok(tn_device_find(runtime, "reference", &host));
  tn_tensor *x = shaped(host, TN_F32, 2, SHAPE(2, 3)), *y = NULL;
  const tn_tensor *in[1] = {x};
  tn_call call = {.struct_size = sizeof call, .in = in, .out = &y, .num_in = 1, .num_out = 1};
  ok(tn_op_find(runtime, "acme.answer", &call.op));
  refused(tn_invoke(&call), TN_ERR_INVALID_ARGUMENT,
          "tn_acme.answer(x = f32 [2, 3]): x must have one axis");
  tn_tensor_release(x);
  tn_runtime_close(runtime);
}
END_TEST

/* ------------------------------------------------------------------------- names --- */

START_TEST(nobody_takes_our_place_in_silence) {
  lines warnings = {""};
  tn_runtime *runtime = open_with(HOSTILE("cpu"), "cpu,reference", &warnings);
  tn_plugin_info info = report_of(runtime, "cpu");
  ck_assert_str_eq(info.path, HOSTILE("cpu"));
  const char *told = "takes the place of Tenon's own plugin cpu, ";
  ck_assert_msg(strstr(info.warnings, told) != NULL, "'%s'", info.warnings);
  ck_assert_msg(strstr(warnings.text, told) != NULL, "'%s'", warnings.text);
  tn_runtime_close(runtime);
  warnings.text[0] = 0;
  runtime = open_with(NULL, "cpu,reference", &warnings);
  ck_assert_str_eq(report_of(runtime, "cpu").warnings, "");
  ck_assert_str_eq(warnings.text, "");
  tn_runtime_close(runtime);
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_loop_test(tc, whoever_counts_too_many_has_none, 0, 2);
  tcase_add_test(tc, absurd_devices_are_refused_alone);
  tcase_add_test(tc, what_can_be_mended_is_used);
  tcase_add_test(tc, opaque_memory_is_no_hosts);
  tcase_add_test(tc, operators_are_refused_alone);
  tcase_add_test(tc, kernels_are_joined_by_their_operator);
  tcase_add_test(tc, an_operator_left_out_stays_out);
  tcase_add_test(tc, kernels_of_an_unloaded_operator_are_told_of);
  tcase_add_test(tc, a_rule_that_refuses_shows_the_operands);
  tcase_add_test(tc, nobody_takes_our_place_in_silence);
}

int main(void) { return run_suite("contract", add_tests); }
