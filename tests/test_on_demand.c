/*
 * Plugins that say what they bring are loaded when somebody needs that and not before; and
 * whatever they do to the process while they are loaded or opened is undone.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "on_demand_support.h"
#include "scratch.h"

static bool is_loaded(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (library) dlclose(library);
  return library != NULL;
}

/* "waits,operators": which of the fixtures are in the process. */
static const char *loaded(void) {
  static char text[64];
  text[0] = 0;
  if (is_loaded(WAITING("waits"))) strcat(text, "waits ");
  if (is_loaded(WAITING("waits-too"))) strcat(text, "too ");
  if (is_loaded(WAITING("liar"))) strcat(text, "liar ");
  if (is_loaded(WAITING("operators"))) strcat(text, "operators ");
  return text;
}

START_TEST(a_named_device_loads_its_own) {
  tn_runtime *runtime = open_naming("waits");
  ck_assert_str_eq(loaded(), "waits ");
  ck_assert_str_eq(tn_runtime_device(runtime) ? "yes" : "no", "yes");
  tn_tensor *a = counting(tn_runtime_device(runtime), 5), *y = NULL;
  ok(tn_add(NULL, a, a, &y));
  ck_assert_str_eq(loaded(), "waits ");
  tn_tensor_release(a);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(another_device_nothing) {
  tn_runtime *runtime = open_naming("reference");
  ck_assert_str_eq(loaded(), "");
  tn_device *device;
  uint32_t op;
  ok(tn_op_find(runtime, "add", &op));
  ok(tn_device_find(runtime, "reference", &device));
  ck_assert_str_eq(loaded(), "");
  ok(tn_device_find(runtime, "waits:0", &device));
  ck_assert_str_eq(loaded(), "waits ");
  refused(tn_device_find(runtime, "waits:7", &device), TN_ERR_NOT_FOUND, "waits:0");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(without_a_name_all_are_loaded) {
  tn_runtime *runtime = open_naming(NULL);
  ck_assert_str_eq(loaded(), "waits too liar operators ");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(an_unknown_name_loads_all_to_list_them) {
  tn_runtime *runtime = open_naming("reference");
  tn_device *device;
  refused(tn_device_find(runtime, "nowhere", &device), TN_ERR_NOT_FOUND, "waits:0");
  ck_assert_str_eq(loaded(), "waits too liar operators ");
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "TN_PLUGIN_BRINGS does not say"));
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(counting_devices_loads_all) {
  tn_runtime *runtime = open_naming("reference");
  refused(tn_stream_create(NULL, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  ck_assert_uint_eq(tn_device_count(runtime), 4); /* of four plugins one is refused */
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "tn_stream_create")); /* not the refusal's */
  ck_assert_str_eq(loaded(), "waits too liar operators ");
  ck_assert_ptr_nonnull(tn_device_at(runtime, 3));
  ck_assert_ptr_null(tn_device_at(runtime, 4));
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(the_report_loads_all) {
  tn_runtime *runtime = open_naming("reference");
  tn_plugin_info info = {.struct_size = sizeof info};
  ok(tn_plugin_report(runtime, 0, &info));
  ck_assert_uint_eq(info.taken, 1);
  ok(tn_plugin_report(runtime, 2, &info));
  ck_assert_uint_eq(info.taken, 0);
  ck_assert_ptr_nonnull(strstr(info.reason, "layer:unsaid"));
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(a_list_of_names_stops_at_the_first) {
  tn_runtime *runtime = open_naming("liar,waits,operators");
  ck_assert_str_eq(loaded(), "waits too liar operators "); /* the liar had to be explained */
  tn_runtime_close(runtime);
  runtime = open_naming("waits,operators");
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(tn_runtime_device(runtime), &info));
  ck_assert_str_eq(info.id, "waits:0");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(operators_are_loaded_for_their_names) {
  tn_runtime *runtime = open_naming("waits");
  uint32_t op = 0;
  refused(tn_op_find(runtime, "nothing_of_the_kind", &op), TN_ERR_NOT_FOUND, "no operator");
  ck_assert_str_eq(loaded(), "waits operators ");
  ok(tn_op_find(runtime, "later", &op));
  ck_assert_uint_ge(op, 512);
  tn_runtime_close(runtime);
}
END_TEST

/* waits-too has a kernel for an operator of a plugin that comes later in the path. */
START_TEST(a_kernel_finds_its_operator) {
  tn_runtime *runtime = open_naming("waits_too");
  ck_assert_str_eq(loaded(), "too operators ");
  uint32_t op;
  tn_kernel_info info = {.struct_size = sizeof info};
  ok(tn_op_find(runtime, "later", &op));
  ok(tn_kernel_find(tn_runtime_device(runtime), op, TN_F32, 0, &info));
  ck_assert_str_eq(info.name, "waits_too.later");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(the_fallback_loads_hosts) {
  tn_runtime_options o = {.struct_size = sizeof o,
                          .plugin_path = SIM_PLUGIN ":" WAITING("waits"),
                          .plugins = "sim,waits,reference",
                          .device = "sim",
                          .log_level = 1 + TN_LOG_NONE,
                          .scan = TN_SCAN_OFF};
  tn_runtime *runtime = open_runtime(&o);
  ck_assert_str_eq(loaded(), "");
  tn_tensor *a = counting(tn_runtime_device(runtime), 6), *y = NULL;
  ok(tn_cumsum(NULL, a, NULL, &y));
  float sums[6];
  ok(tn_tensor_to_host(y, sums, sizeof sums));
  ck_assert(sums[5] == 21);
  ck_assert_str_eq(loaded(), "waits ");
  tn_tensor_release(a);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
}
END_TEST

/* An import is of the best device that carries it, wherever that is. */
START_TEST(an_import_loads_its_device) {
  tn_runtime_options o = {.struct_size = sizeof o,
                          .plugin_path = SIM_PLUGIN ":" WAITING("waits"),
                          .plugins = "sim,waits,reference,cpu",
                          .device = "sim",
                          .log_level = 1 + TN_LOG_NONE,
                          .scan = TN_SCAN_OFF};
  tn_runtime *runtime = open_runtime(&o);
  int64_t shape = 2;
  float values[2] = {1, 2};
  DLManagedTensor lent = {.dl_tensor = {.data = values,
                                        .device = {kDLCPU, 0},
                                        .ndim = 1,
                                        .dtype = {kDLFloat, 32, 1},
                                        .shape = &shape}};
  tn_tensor *t = NULL;
  ck_assert_str_eq(loaded(), "");
  ok(tn_tensor_from_dlpack_unversioned(runtime, &lent, &t));
  ck_assert_str_eq(loaded(), "waits ");
  tn_device_info info = {.struct_size = sizeof info};
  tn_device *best = NULL;
  if (tn_device_find(runtime, "cpu", &best) == TN_OK) ck_assert_ptr_eq(tn_tensor_device(t), best);
  ok(tn_device_get_info(tn_tensor_device(t), &info));
  ck_assert_uint_eq(info.host_memory, 1);
  tn_tensor_release(t);
  tn_runtime_close(runtime);
}
END_TEST

/* --- what the host names comes behind what was found --- */

START_TEST(a_file_that_waits_can_be_named) {
  tn_runtime *runtime = open_naming("reference");
  ok(tn_runtime_load_plugin(runtime, WAITING("waits")));
  ck_assert_str_eq(loaded(), "waits ");
  refused(tn_runtime_load_plugin(runtime, WAITING("waits")), TN_ERR_PLUGIN_REFUSED, "already");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(one_that_waits_keeps_its_name) {
  scratch_make();
  tn_runtime *runtime = open_naming("reference");
  const char *copy = copy_fixture(WAITING("waits"), "libtenon-waits.so");
  refused(tn_runtime_load_plugin(runtime, copy), TN_ERR_PLUGIN_REFUSED, "taken from " WAITING_DIR);
  tn_runtime_close(runtime);
  scratch_remove();
}
END_TEST

START_TEST(one_that_waits_can_be_unloaded) {
  tn_runtime *runtime = open_naming("reference");
  ok(tn_runtime_unload_plugin(runtime, "waits"));
  ck_assert_uint_eq(tn_device_count(runtime), 3);
  ck_assert_str_eq(loaded(), "too liar operators ");
  ok(tn_runtime_load_plugin(runtime, WAITING("waits")));
  ck_assert_uint_eq(tn_device_count(runtime), 4);
  tn_runtime_close(runtime);
}
END_TEST

/* --- two files of one plugin --- */

/* A copy in the scratch folder comes first on the path, as a build in progress would. */
static tn_runtime *open_two(const char *device, char path[1024]) {
  snprintf(path, 1024, "%s:%s", copy_fixture(WAITING("operators"), "libtenon-operators.so"),
           WAITING("operators"));
  tn_runtime_options o = options_for(device);
  o.plugin_path = path;
  o.plugins = "reference,operators";
  return open_runtime(&o);
}

static uint32_t is_taken(tn_runtime *runtime, size_t index) {
  tn_plugin_info info = {.struct_size = sizeof info};
  ok(tn_plugin_report(runtime, index, &info));
  return info.taken;
}

/* Its kernel names its own operator, which must not call the other one in. */
START_TEST(the_first_of_two_wins) {
  static const char *const devices[] = {NULL, "operators", "reference"};
  char path[1024];
  scratch_make();
  for (size_t i = 0; i < 3; i++) {
    tn_runtime *runtime = open_two(devices[i], path);
    ck_assert_uint_eq(is_taken(runtime, 0), 1);
    ck_assert_uint_eq(is_taken(runtime, 1), 0);
    tn_runtime_close(runtime);
  }
  scratch_remove();
}
END_TEST

START_TEST(the_second_of_two_by_its_path) {
  char path[1024];
  scratch_make();
  tn_runtime *runtime = open_two("reference", path);
  refused(tn_runtime_load_plugin(runtime, WAITING("operators")), TN_ERR_PLUGIN_REFUSED, "already");
  ck_assert_uint_eq(is_taken(runtime, 0), 1);
  tn_runtime_close(runtime);
  scratch_remove();
}
END_TEST

START_TEST(neither_of_two_comes_back) {
  char path[1024];
  tn_device *device;
  scratch_make();
  tn_runtime *runtime = open_two("reference", path);
  ok(tn_runtime_unload_plugin(runtime, "operators"));
  refused(tn_device_find(runtime, "operators", &device), TN_ERR_NOT_FOUND, "no device");
  refused(tn_runtime_unload_plugin(runtime, "operators"), TN_ERR_NOT_FOUND, "no plugin");
  tn_runtime_close(runtime);
  scratch_remove();
}
END_TEST

/* --- out of memory, and then not --- */

static _Atomic long allowed = LONG_MAX;

static void *scarce_alloc(void *user, size_t bytes, size_t align) {
  (void)user;
  if (atomic_fetch_sub(&allowed, 1) <= 0) return NULL;
  const size_t step = align < 64 ? 64 : align;
  return aligned_alloc(step, (bytes / step + 1) * step);
}

static void scarce_free(void *user, void *ptr) {
  (void)user;
  free(ptr);
}

static tn_runtime *open_scarce(void) {
  static const tn_allocator scarce = {scarce_alloc, scarce_free, NULL};
  tn_runtime_options o = options_for("reference");
  atomic_store(&allowed, LONG_MAX);
  o.allocator = &scarce;
  return open_runtime(&o);
}

/* What waits goes on waiting: its reason is told once there is memory to keep it. */
START_TEST(a_refusal_without_memory_is_made_again) {
  int short_of = 0;
  for (long n = 0;; n++, short_of++) {
    tn_runtime *runtime = open_scarce();
    tn_plugin_info info = {.struct_size = sizeof info};
    atomic_store(&allowed, n);
    tn_status status = tn_plugin_report(runtime, 2, &info);
    atomic_store(&allowed, LONG_MAX);
    ck_assert(status == TN_OK || status == TN_ERR_OUT_OF_MEMORY);
    ok(tn_plugin_report(runtime, 2, &info));
    ck_assert_ptr_nonnull(strstr(info.reason, "layer:unsaid"));
    tn_runtime_close(runtime);
    if (status == TN_OK) break;
  }
  ck_assert_int_gt(short_of, 5);
}
END_TEST

START_TEST(a_load_without_memory_is_tried_again) {
  int short_of = 0;
  for (long n = 0;; n++, short_of++) {
    tn_runtime *runtime = open_scarce();
    atomic_store(&allowed, n);
    tn_status status = tn_runtime_load_plugin(runtime, FIXTURE("good"));
    atomic_store(&allowed, LONG_MAX);
    if (status) ck_assert_int_eq(status, TN_ERR_OUT_OF_MEMORY);
    if (status) ok(tn_runtime_load_plugin(runtime, FIXTURE("good")));
    tn_runtime_close(runtime);
    if (status == TN_OK) break;
  }
  ck_assert_int_gt(short_of, 5);
}
END_TEST

/* --- the process stays as it was --- */

static void on_interrupt(int signal) { (void)signal; }

static void check_signals(void) {
  struct sigaction now;
  sigset_t mask;
  ck_assert_int_eq(sigaction(SIGINT, NULL, &now), 0);
  ck_assert(now.sa_handler == on_interrupt);
  ck_assert_int_eq(sigaction(SIGUSR1, NULL, &now), 0);
  ck_assert(now.sa_handler == SIG_DFL);
  ck_assert_int_eq(sigaction(SIGUSR2, NULL, &now), 0);
  ck_assert(now.sa_handler == SIG_IGN);
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  ck_assert_int_eq(sigismember(&mask, SIGTERM), 0);
}

START_TEST(signal_handlers_stay_the_hosts) {
  signal(SIGINT, on_interrupt);
  signal(SIGUSR2, SIG_IGN);
  tn_runtime *runtime = open_naming("waits");
  check_signals();
  ck_assert_uint_eq(tn_device_count(runtime), 4);
  check_signals();
  for (size_t i = 0; i < 4; i++) {
    tn_tensor *t = counting(tn_device_at(runtime, i), 3);
    tn_tensor_release(t);
    check_signals();
  }
  tn_runtime_close(runtime);
  check_signals();
}
END_TEST

/* --- memory of refused loads --- */

static size_t counted_bytes;

static void *counted_alloc(void *user, size_t bytes, size_t align) {
  (void)user;
  size_t *block = aligned_alloc(64, (bytes + 64 + 63) / 64 * 64);
  ck_assert_uint_le(align, 64);
  if (!block) return NULL;
  *block = bytes;
  counted_bytes += bytes;
  return (char *)block + 64;
}

static void counted_free(void *user, void *ptr) {
  (void)user;
  size_t *block = (void *)((char *)ptr - 64);
  counted_bytes -= *block;
  free(block);
}

START_TEST(refused_loads_take_bounded_memory) {
  const tn_allocator allocator = {counted_alloc, counted_free, NULL};
  tn_runtime_options o = options_for("reference");
  char path[64];
  o.allocator = &allocator;
  tn_runtime *runtime = open_runtime(&o);
  size_t at_first = counted_bytes;
  for (int i = 0; i < 5000; i++) {
    snprintf(path, sizeof path, "/nonexistent/libtenon-%d.so", i);
    refused(tn_runtime_load_plugin(runtime, path), TN_ERR_PLUGIN_REFUSED, "No such file");
    refused(tn_runtime_load_plugin(runtime, "/nonexistent"), TN_ERR_PLUGIN_REFUSED, "No such");
  }
  ck_assert_uint_lt(counted_bytes - at_first, 600000);
  tn_runtime_close(runtime);
  ck_assert_uint_eq(counted_bytes, 0);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_test(t, a_named_device_loads_its_own);
  tcase_add_test(t, another_device_nothing);
  tcase_add_test(t, without_a_name_all_are_loaded);
  tcase_add_test(t, an_unknown_name_loads_all_to_list_them);
  tcase_add_test(t, counting_devices_loads_all);
  tcase_add_test(t, the_report_loads_all);
  tcase_add_test(t, a_list_of_names_stops_at_the_first);
  tcase_add_test(t, operators_are_loaded_for_their_names);
  tcase_add_test(t, a_kernel_finds_its_operator);
  tcase_add_test(t, the_fallback_loads_hosts);
  tcase_add_test(t, an_import_loads_its_device);
  tcase_add_test(t, a_file_that_waits_can_be_named);
  tcase_add_test(t, one_that_waits_keeps_its_name);
  tcase_add_test(t, one_that_waits_can_be_unloaded);
  tcase_add_test(t, the_first_of_two_wins);
  tcase_add_test(t, the_second_of_two_by_its_path);
  tcase_add_test(t, neither_of_two_comes_back);
  tcase_add_test(t, a_refusal_without_memory_is_made_again);
  tcase_add_test(t, a_load_without_memory_is_tried_again);
  tcase_add_test(t, signal_handlers_stay_the_hosts);
  tcase_add_test(t, refused_loads_take_bounded_memory);
}

int main(void) { return run_suite("on_demand", add_tests); }
