/*
 * Plugins through the public door: the report, refusals that leave the runtime as it
 * was, and plugins that arrive while others compute.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "scratch.h"
#include "tenon/tenon.h"

#define OPTION "tn_runtime_options.plugin_path"

static tn_runtime *open_with(const char *plugin_path, const char *device) {
  tn_runtime_options o = {
      .struct_size = sizeof o, .plugin_path = plugin_path, .device = device, .log_level = 1};
  tn_runtime *runtime = NULL;
  ck_assert_msg(tn_runtime_open(&o, &runtime) == TN_OK, "%s", tn_last_error());
  return runtime;
}

/* Every fixture, and its fate: a reason, or NULL where it is taken. */
static const struct fate {
  const char *path, *reason;
} fates[] = {
    {FIXTURE("declines"), "no flux capacitor on a bicycle"},
    {FIXTURE("fails_open"), "the driver is on holiday"},
    {FIXTURE("flavoured"), "built with MemorySanitizer"},
    {FIXTURE("future"), NULL},
    {FIXTURE("good"), NULL},
    {FIXTURE("hangs"), NULL},
    {FIXTURE("misnamed"), "calls itself 'somebody-else'"},
    {FIXTURE("needs_absent"), "needs libtenon-absent.so.7, not found"},
    {FIXTURE("no_note"), "no Tenon note"},
    {FIXTURE("no_symbol"), "exports no tn_plugin_query"},
    {FIXTURE("null_run"), "has no run function"},
    {FIXTURE("past"), "its kernel struct has 32 bytes"},
    {FIXTURE("rounding"), NULL},
    {FIXTURE("silent"), "gave no reason"},
    {FIXTURE("stack"), "executable stack"},
    {FIXTURE("too_new"), "built for ABI 900..901"},
    {FIXTURE("twin"), "a plugin named good was taken"},
    {FIXTURE("undefined"), "undefined symbol"},
};
enum { FATES = sizeof fates / sizeof *fates };

static tn_plugin_info report(tn_runtime *runtime, size_t index) {
  tn_plugin_info info = {.struct_size = sizeof info};
  ck_assert_msg(tn_plugin_report(runtime, index, &info) == TN_OK, "%s", tn_last_error());
  return info;
}

static size_t report_count(tn_runtime *runtime) {
  tn_plugin_info info = {.struct_size = sizeof info};
  size_t n = 0;
  while (tn_plugin_report(runtime, n, &info) == TN_OK) n++;
  return n;
}

START_TEST(the_report_tells_every_fate) {
  tn_runtime *runtime = open_with(FIXTURE_DIR, "fixture");
  for (size_t i = 0; i < FATES; i++) {
    tn_plugin_info info = report(runtime, i);
    ck_assert_str_eq(info.path, fates[i].path);
    ck_assert_str_eq(info.origin, OPTION);
    ck_assert_msg(info.taken == !fates[i].reason, "%s: %s", info.path, info.reason);
    ck_assert_msg(strstr(info.reason, fates[i].reason ? fates[i].reason : "") != NULL, "%s: %s",
                  info.path, info.reason);
    if (info.taken) ck_assert_str_eq(info.reason, "");
    if (info.taken) ck_assert_uint_eq(info.num_backends, 1);
  }
  tn_plugin_info info = report(runtime, 4);
  ck_assert_str_eq(info.name, "good");
  ck_assert_str_eq(info.version, "1.0");
  ck_assert_uint_eq(info.num_kernels, 1);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(variables_find_and_leave_out) {
  setenv("TENON_PLUGIN_PATH", FIXTURE("good") ":relative.so:" FIXTURE("future"), 1);
  setenv("TENON_PLUGINS", "good", 1);
  tn_runtime *runtime = open_with(NULL, "fixture");
  ck_assert_str_eq(report(runtime, 0).origin, "TENON_PLUGIN_PATH");
  ck_assert_uint_eq(report(runtime, 0).taken, 1);
  ck_assert_str_eq(report(runtime, 1).reason, "not an absolute path");
  ck_assert_uint_eq(report(runtime, 2).taken, 0);
  ck_assert_ptr_nonnull(strstr(report(runtime, 2).reason, "TENON_PLUGINS=good"));
  tn_runtime_close(runtime);
  unsetenv("TENON_PLUGIN_PATH");
  unsetenv("TENON_PLUGINS");
}
END_TEST

static void gather_warnings(void *user, tn_log_level level, const char *line) {
  char *text = user;
  size_t used = strlen(text);
  if (level == TN_LOG_WARN) snprintf(text + used, 2000 - used, "%s\n", line);
}

/* What an opening runtime warns of, one line each. */
static void warns(const char *plugin_path, const char *plugins, const char *text) {
  char lines[2000] = "";
  tn_runtime_options o = {.struct_size = sizeof o,
                          .plugin_path = plugin_path,
                          .plugins = plugins,
                          .device = "reference",
                          .log = gather_warnings,
                          .log_user = lines};
  tn_runtime *runtime = NULL;
  ck_assert_msg(tn_runtime_open(&o, &runtime) == TN_OK, "%s", tn_last_error());
  ck_assert_str_eq(lines, text);
  tn_runtime_close(runtime);
}

START_TEST(what_comes_to_nothing_is_told) {
  static const char all[] = "reference,good,future";
  warns(NULL, NULL, "");
  warns(FIXTURE("good") ":" FIXTURE("future"), all, "");
  warns(FIXTURE("good"), "reference,future",
        "tn_runtime_options.plugins names 'future', and no plugin that can be read is called so\n");
  warns("plugins:" FIXTURE("good") ":./x:/nowhere:/dev", "reference,good",
        OPTION " names plugins: not an absolute path\n" OPTION
               " names ./x: not an absolute path\n" OPTION
               " names /nowhere: cannot be opened: No such file or directory\n" OPTION
               " names /dev: is a folder, not a plugin (libtenon-*.so)\n");
  warns(FIXTURE("too_new"), "reference,too*",
        OPTION " names " FIXTURE("too_new") ": built for ABI 900..901, this host serves 1..1\n");
  warns(FIXTURE("too_new"), "reference", "");
  warns(FIXTURE("good") ":" FIXTURE("twin"), "reference,good", "");
  warns(FIXTURE_DIR, "reference,*,-nothing", "");
  setenv("TENON_PLUGIN_PATH", "build", 1);
  setenv("TENON_PLUGINS", "reference,cdua*", 1);
  warns(NULL, NULL,
        "TENON_PLUGIN_PATH names build: not an absolute path\n"
        "TENON_PLUGINS names 'cdua*', and no plugin that can be read is called so\n");
  unsetenv("TENON_PLUGIN_PATH");
  unsetenv("TENON_PLUGINS");
}
END_TEST

START_TEST(two_runtimes_share_a_plugin) {
  tn_runtime *a = open_with(FIXTURE("good"), "fixture");
  tn_runtime *b = open_with(FIXTURE("good"), "fixture");
  tn_runtime_close(a);
  ck_assert_uint_eq(report(b, 0).taken, 1);
  tn_runtime_close(b);
}
END_TEST

/* ------------------------------------------------- the runtime as it was --- */

/* What a plugin could change. */
typedef struct inventory {
  size_t devices, ops;
  char kernel[128];
} inventory;

static inventory take_inventory(tn_runtime *runtime) {
  inventory i = {tn_device_count(runtime), tn_op_count(runtime), ""};
  tn_kernel_info k = {.struct_size = sizeof k};
  for (uint32_t rank = 0;
       tn_kernel_find(tn_runtime_device(runtime), TN_OP_ADD, TN_F32, rank, &k) == TN_OK; rank++)
    snprintf(i.kernel + strlen(i.kernel), sizeof i.kernel - strlen(i.kernel), "%.30s ", k.name);
  return i;
}

static void loading_changes_nothing(tn_runtime *runtime, const char *path, const char *reason) {
  inventory before = take_inventory(runtime);
  ck_assert_int_eq(tn_runtime_load_plugin(runtime, path), TN_ERR_PLUGIN_REFUSED);
  ck_assert_msg(strstr(tn_last_error(), reason) != NULL, "'%s' is not in: %s", reason,
                tn_last_error());
  ck_assert_msg(strstr(tn_last_error(), path) != NULL, "no path in: %s", tn_last_error());
  inventory after = take_inventory(runtime);
  ck_assert_uint_eq(before.devices, after.devices);
  ck_assert_uint_eq(before.ops, after.ops);
  ck_assert_str_eq(before.kernel, after.kernel);
}

/* y = a + b for a few elements, checked. */
static void add_checked(tn_device *device, float offset) {
  enum { N = 100 };
  float a[N], b[N], y[N];
  int64_t shape[] = {N};
  for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = offset;
  tn_tensor *ta = NULL, *tb = NULL, *ty = NULL;
  ck_assert_int_eq(tn_tensor_from_host(device, TN_F32, 1, shape, a, &ta), TN_OK);
  ck_assert_int_eq(tn_tensor_from_host(device, TN_F32, 1, shape, b, &tb), TN_OK);
  ck_assert_msg(tn_add(NULL, ta, tb, &ty) == TN_OK, "%s", tn_last_error());
  ck_assert_int_eq(tn_tensor_to_host(ty, y, sizeof y), TN_OK);
  for (int i = 0; i < N; i++) ck_assert_float_eq(y[i], (float)i + offset);
  tn_tensor_release(ta);
  tn_tensor_release(tb);
  tn_tensor_release(ty);
}

START_TEST(refusals_leave_the_runtime_as_it_was) {
  tn_runtime *runtime = open_with(FIXTURE("good"), "fixture");
  for (size_t i = 0; i < FATES; i++)
    if (fates[i].reason) loading_changes_nothing(runtime, fates[i].path, fates[i].reason);
  loading_changes_nothing(runtime, FIXTURE("good"), "a plugin named good was taken");
  loading_changes_nothing(runtime, "relative.so", "not an absolute path");
  loading_changes_nothing(runtime, FIXTURE("nowhere"), "No such file");
  loading_changes_nothing(runtime, FIXTURE_DIR, "is a folder");
  add_checked(tn_runtime_device(runtime), 5);
  size_t devices = tn_device_count(runtime), candidates = report_count(runtime);
  ck_assert_msg(tn_runtime_load_plugin(runtime, FIXTURE("future")) == TN_OK, "%s", tn_last_error());
  ck_assert_uint_eq(tn_device_count(runtime), devices + 1);
  ck_assert_uint_eq(report(runtime, candidates).taken, 1);
  tn_device *future = NULL;
  ck_assert_int_eq(tn_device_find(runtime, "future:0", &future), TN_OK);
  add_checked(future, 6);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(truncated_at_64_lengths) {
  tn_runtime *runtime = open_with(FIXTURE("good"), "fixture");
  size_t size;
  unsigned char *bytes = read_file(FIXTURE("future"), &size);
  for (size_t i = 0; i < 64; i++)
    loading_changes_nothing(runtime, write_file("libtenon-cut.so", bytes, size * i / 64),
                            i ? "cut short" : "empty");
  free(bytes);
  add_checked(tn_runtime_device(runtime), 7);
  tn_runtime_close(runtime);
}
END_TEST

/* ----------------------------------------------------- loading meanwhile --- */

typedef struct crowd {
  tn_device *device;
  _Atomic int number, calls;
  _Atomic bool stop;
} crowd;

static void *add_until_stopped(void *arg) {
  crowd *c = arg;
  float offset = (float)atomic_fetch_add(&c->number, 1);
  do {
    add_checked(c->device, offset);
    atomic_fetch_add(&c->calls, 1);
  } while (!atomic_load(&c->stop));
  return NULL;
}

START_TEST(plugins_arrive_while_others_compute) {
  enum { THREADS = 8 };
  tn_runtime *runtime = open_with(FIXTURE("good"), "cpu,reference,fixture");
  crowd c = {.device = tn_runtime_device(runtime)};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, add_until_stopped, &c), 0);
  for (size_t i = 0; i < FATES; i++) {
    int calls = atomic_load(&c.calls);
    tn_status status = tn_runtime_load_plugin(runtime, fates[i].path);
    bool taken = !fates[i].reason && strcmp(fates[i].path, FIXTURE("good")) != 0;
    ck_assert_msg((status == TN_OK) == taken, "%s: %s", fates[i].path, tn_last_error());
    while (atomic_load(&c.calls) < calls + THREADS) usleep(100);
  }
  atomic_store(&c.stop, true);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  tn_runtime_close(runtime);
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_checked_fixture(tc, scratch_make, scratch_remove);
  tcase_add_test(tc, the_report_tells_every_fate);
  tcase_add_test(tc, variables_find_and_leave_out);
  tcase_add_test(tc, what_comes_to_nothing_is_told);
  tcase_add_test(tc, two_runtimes_share_a_plugin);
  tcase_add_test(tc, refusals_leave_the_runtime_as_it_was);
  tcase_add_test(tc, truncated_at_64_lengths);
  tcase_add_test(tc, plugins_arrive_while_others_compute);
}

int main(void) { return run_suite("plugins", add_tests); }
