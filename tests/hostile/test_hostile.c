/*
 * Hostile plugins and a host that outlives them: each is refused with the reason or loaded
 * without harm, in one process, with nothing of it left behind.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/hostile/support.h"

/* How long a plugin that hangs is waited for here; the default is tried once. */
enum { SHORT_MS = 300 };

/* ThreadSanitizer may put a status of its own, 66, in place of the 0. */
#ifdef __SANITIZE_THREAD__
#define EXITED "called exit("
#else
#define EXITED "called exit(0) while it was loaded"
#endif

static const struct fate {
  const char *name, *reason; /* NULL: it is loaded */
  bool hangs;
} fates[] = {
    {"segfault", "refused by the scan: killed by signal 11 (SIGSEGV) while it was loaded", false},
    {"abort", "killed by signal 6 (SIGABRT) while it was loaded", false},
    {"trap", "refused by the scan: killed by signal", false},
    {"exit", EXITED, false},
    {"exit-quick", EXITED, false},
    {"killed", "killed by signal 9 (SIGKILL)", false},
    {"stopped", "did not finish within 300 ms while it was loaded", true},
    {"kill-group", "killed by signal 15 (SIGTERM)", false},
    {"kill-parent", "tenon-scan ended without a report", false},
    {"spin", "did not finish within 300 ms", true},
    {"sleeps", "did not finish within 300 ms", true},
    {"stack", "killed by signal 11", false},
    {"grandchild", "it left processes behind", false},
    {"grandchild-and-hang", "did not finish within 300 ms", true},
    {"close-all", "it closed descriptors that are not its own", false},
    {"scribble", "it wrote to descriptors that are not its own", false},
    {"noise", NULL, false},
    {"folder", "it changed the working folder", false},
    {"mask", "it changed the umask", false},
    {"locale", "it changed the locale", false},
    {"rounding", NULL, false},
    {"handler", "it changed how the process takes signals", false},
    {"block", "it changed how the process takes signals", false},
    {"block-and-spin", "did not finish within 300 ms", true},
    {"thread", "killed by signal 11", false},
    {"closes-itself", NULL, false},
    {"jump", "refused by the scan: killed by signal", false},
    {"memory", "it took more memory than a plugin may need", false},
    {"removes-itself", "its file changed or went away", false},
    {"rewrites-itself", "its file changed or went away", false},
    {"set-variable", "it changed the environment of the process (TENON_HOSTILE)", false},
    {"unset-variable", "it changed the environment of the process (PATH)", false},
    {"no-environment", "it changed the environment of the process", false},
    {"session", "it changed the session of the process", false},
    {"group", "it changed the process group", false},
    {"lower", "it changed the nice value of the process", false},
    {"root", "it changed the root folder of the process", false},
    {"rename-thread", "it changed the name of the process", false},
    {"attribute", "it changed attributes (prctl) of the process", false},
    {"wake", "it changed the interval timers (setitimer, alarm) of the process", false},
    {"limit", "it changed a limit of the process (RLIMIT_NOFILE)", false},
    {"interval", "it changed the interval timers", false},
    {"timer", "it changed the timers (timer_create) of the process", false},
    {"schedule", "it changed the scheduling of the process", false},
    {"stack-of-signals", "it changed how the process takes signals", false},
    {"own-locale", "it changed the locale of the process", false},
    {"leak-many", "it left more than 16 descriptors open", false},
    {"redirect", "it changed descriptors that are not its own", false},
    {"never-wait", "it changed descriptors that are not its own", false},
    {"query-variable", "it changed the environment of the process (TENON_HOSTILE)", false},
    {"query-limit", "it changed a limit of the process (RLIMIT_NOFILE)", false},
    {"query-crash", "killed by signal 11 (SIGSEGV) in tn_plugin_query", false},
    {"query-hang", "did not finish within 300 ms in tn_plugin_query", true},
    {"query-exit", "called exit(0) in tn_plugin_query", false},
    {"query-stack", "killed by signal 11 (SIGSEGV) in tn_plugin_query", false},
    {"query-wild", "killed by signal 11 (SIGSEGV) while its tables were read", false},
    {"query-crooked", "bad address", false},
    {"bad-kernels", "while its tables were read", false},
    {"bad-backends", "while its tables were read", false},
    {"bad-backend", "while its tables were read", false},
    {"bad-name", "while its tables were read", false},
    {"bad-row-name", "while its tables were read", false},
    {"bad-version", "killed by signal 11 (SIGSEGV) while its tables were read", false},
    {"bad-description", "while its tables were read", false},
    {"bad-note", "while its tables were read", false},
    {"bad-run", "while its tables were read", false},
    {"bad-slot", "while its tables were read", false},
    {"bad-layer-text", "while its tables were read", false},
    {"bad-operator-text", "while its tables were read", false},
    {"endless-note", "its kernel 1 has a text without an end in 16384 bytes", false},
    {"bad-operators", "while its tables were read", false},
    {"bad-layers", "while its tables were read", false},
    {"endless", "", false},
    {"no-names", "has no name", false},
    {"crooked", "bad address", false},
    {"small", "its plugin struct has 12 bytes", false},
    {"open-crash", "killed by signal 11 (SIGSEGV) in its open function", false},
    {"open-variable", NULL, false}, /* a driver may */
    {"count-crash",
     "refused by the scan: killed by signal 11 (SIGSEGV) while it looked for devices (its count)",
     false},
    {"count-exit", "called exit(0) while it looked for devices (its count)", false},
    {"count-hang", "did not finish within 1800 ms while it looked for devices", true},
    {"count-handler", NULL, false},
    {"describe-crash", "killed by signal 11 (SIGSEGV) while it described its devices", false},
    {"device-crash", "killed by signal 6 (SIGABRT) while it opened a device", false},
    {"device-close-crash", "killed by signal 11 (SIGSEGV) while it closed a device", false},
    {"close-crash", "killed by signal 11 (SIGSEGV) in its close function", false},
    {"end-crash", "killed by signal 11 (SIGSEGV) at the end of the process", false},
    {"end-hang", "did not finish within 300 ms at the end of the process", true},
    {"end-exit", "exit code 7 at the end of the process", false},
};
enum { FATES = sizeof fates / sizeof *fates };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t count_descriptors(void) {
  size_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

/* What must be as it was after each plugin. */
static void host_is_well(tn_runtime *runtime, size_t descriptors) {
  tn_tensor *x = counting(tn_runtime_device(runtime), 4), *y = NULL;
  ok(tn_add(NULL, x, x, &y));
  tn_tensor_release(x);
  tn_tensor_release(y);
  ck_assert_int_eq(fegetround(), FE_TONEAREST);
  ck_assert_uint_eq(count_descriptors(), descriptors);
  ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
  ck_assert_int_eq(errno, ECHILD);
}

/* ThreadSanitizer ends a process in its own way once it is not pleased with it. */
static const char *reason_of(const struct fate *f) {
#if defined(__SANITIZE_THREAD__)
  if (f->reason && (strstr(f->reason, "killed by") || strstr(f->reason, "called exit")))
    return "refused by the scan: ";
#endif
  return f->reason;
}

/* Where others have the processors, the time may be up before a plugin comes to what it hangs in:
 * the scan says so, forgets it, and is made again. */
static tn_status load_on_a_quiet_machine(tn_runtime *runtime, const char *path,
                                         const char *reason) {
  enum { TIMES = 10 };
  tn_status status = TN_OK;
  for (int i = 0; i < TIMES; i++) {
    status = tn_runtime_load_plugin(runtime, path);
    if (!reason || status == TN_OK || strstr(tn_last_error(), reason) ||
        !strstr(tn_last_error(), "on a machine that is busy"))
      break;
  }
  return status;
}

static void meets_its_fate(const struct fate *f) {
  const char *path = copy_hostile(f->name), *reason = reason_of(f);
  tn_runtime *runtime = open_reference(0, f->hangs ? SHORT_MS : 0);
  size_t descriptors = count_descriptors();
  double begin = now();
  tn_status status = load_on_a_quiet_machine(runtime, path, reason);
  double seconds = now() - begin;
  ck_assert_msg((status == TN_OK) == !f->reason, "%s: %s", f->name, tn_last_error());
  ck_assert_msg(!reason || strstr(tn_last_error(), reason), "%s: %s", f->name, tn_last_error());
  ck_assert_msg(seconds < 20, "%s took %.1f s", f->name, seconds);
  host_is_well(runtime, descriptors);
  tn_runtime_close(runtime);
}

/* Sanitizers know no end of memory, and their stacks end in a report of their own. */
static bool is_for_plain_builds(const char *name) { return strcmp(name, "memory") == 0; }

/* Only root can move the root folder. */
static bool is_for_root(const char *name) { return strcmp(name, "root") == 0; }

START_TEST(each_kind_meets_its_fate) {
  const struct fate *f = &fates[_i];
  if (SANITIZED && is_for_plain_builds(f->name)) return;
  if (geteuid() != 0 && is_for_root(f->name)) return;
  struct rlimit limit, before;
  ck_assert_int_eq(getrlimit(RLIMIT_DATA, &before), 0);
  limit = before;
  limit.rlim_cur = 256 << 20;
  if (strcmp(f->name, "memory") == 0) ck_assert_int_eq(setrlimit(RLIMIT_DATA, &limit), 0);
  meets_its_fate(f);
  ck_assert_int_eq(setrlimit(RLIMIT_DATA, &before), 0);
}
END_TEST

START_TEST(what_ld_so_meets) {
  tn_runtime *runtime = open_reference(0, 0);
  refused(tn_runtime_load_plugin(runtime, copy_fixture(HOSTILE("ifunc"), "libtenon-ifunc.so")),
          TN_ERR_PLUGIN_REFUSED, "refused by the scan: killed by signal 11");
  refused(tn_runtime_load_plugin(runtime, copy_fixture(HOSTILE("storage"), "libtenon-storage.so")),
          TN_ERR_PLUGIN_REFUSED, "static TLS");
  refused(tn_runtime_load_plugin(runtime, FIXTURE("undefined")), TN_ERR_PLUGIN_REFUSED,
          "could not be loaded: undefined symbol");
  refused(tn_runtime_load_plugin(runtime, FIXTURE("needs_absent")), TN_ERR_PLUGIN_REFUSED,
          "not found");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(libraries_of_the_host_serve_the_scan_too) {
  ck_assert_ptr_nonnull(dlopen(FIXTURE_DIR "/libabsent.so", RTLD_NOW | RTLD_LOCAL));
  tn_runtime *runtime = open_reference(0, 0);
  ok(tn_runtime_load_plugin(runtime, copy_fixture(FIXTURE("needs_absent"), "libtenon-needs.so")));
  ck_assert_uint_eq(last_report(runtime).scan, TN_SCAN_MADE);
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(any_time_may_be_given) {
  static const uint32_t times[] = {INT32_MAX, UINT32_C(1) << 31, UINT32_MAX};
  for (size_t i = 0; i < 3; i++) {
    tn_runtime *runtime = open_reference(0, times[i]);
    ok(tn_runtime_load_plugin(runtime, copy_fixture(FIXTURE("good"), "libtenon-good.so")));
    ck_assert_uint_eq(last_report(runtime).scan, TN_SCAN_MADE);
    tn_runtime_close(runtime);
  }
}
END_TEST

START_TEST(unscanned_files_must_stay_as_they_were_too) {
  tn_runtime *runtime = open_reference(TN_SCAN_OFF, 0);
  refused(tn_runtime_load_plugin(runtime, copy_hostile("rewrites-itself")), TN_ERR_PLUGIN_REFUSED,
          "its file was changed or replaced while it was loaded");
  tn_runtime_close(runtime);
}
END_TEST

/* A process that the plugin left behind, by the file in which it wrote its number. */
static pid_t left_process(const char *path) {
  char name[300];
  long process = 0;
  snprintf(name, sizeof name, "%s.pid", path);
  FILE *file = fopen(name, "r");
  ck_assert_msg(file && fscanf(file, "%ld", &process) == 1, "no number in %s", name);
  fclose(file);
  return (pid_t)process;
}

START_TEST(grandchildren_die_too) {
  const char *path = copy_hostile("grandchild-and-hang");
  tn_runtime *runtime = open_reference(0, SHORT_MS);
  refused(tn_runtime_load_plugin(runtime, path), TN_ERR_PLUGIN_REFUSED, "did not finish");
  ck_assert_int_eq(kill(left_process(path), 0), -1);
  ck_assert_int_eq(errno, ESRCH);
  tn_runtime_close(runtime);
}
END_TEST

/* It sleeps: of one that computes, the machine may be too busy to tell. */
START_TEST(five_seconds_are_the_limit) {
  const char *path = copy_hostile("sleeps");
  tn_runtime *runtime = open_reference(0, 0);
  double begin = now();
  refused(tn_runtime_load_plugin(runtime, path), TN_ERR_PLUGIN_REFUSED,
          "did not finish within 5 s");
  double first = now() - begin;
  ck_assert_msg(first >= 4.9 && first < 20, "%.2f s", first);
  begin = now();
  refused(tn_runtime_load_plugin(runtime, path), TN_ERR_PLUGIN_REFUSED,
          "did not finish within 5 s");
  ck_assert_msg(now() - begin < 4, "the second time took %.2f s", now() - begin);
  ck_assert_uint_eq(last_report(runtime).scan, TN_SCAN_REMEMBERED);
  tn_runtime_close(runtime);
}
END_TEST

/* ------------------------------------------------------------------------ policy --- */

START_TEST(what_is_scanned) {
  const char *path = copy_fixture(FIXTURE("good"), "libtenon-good.so");
  static const struct {
    uint32_t scan, own, other;
  } rules[] = {{TN_SCAN_DEFAULT, 0, 1}, {TN_SCAN_CHILD, 1, 1}, {TN_SCAN_OFF, 0, 0}};
  for (size_t i = 0; i < 3; i++) {
    tn_runtime *runtime = open_reference(rules[i].scan, 0);
    ok(tn_runtime_load_plugin(runtime, path));
    ck_assert_uint_eq(last_report(runtime).scan != 0, rules[i].other);
    tn_plugin_info info = {.struct_size = sizeof info};
    for (size_t k = 0; tn_plugin_report(runtime, k, &info) == TN_OK; k++)
      if (strcmp(info.name, "reference") == 0) ck_assert_uint_eq(info.scan != 0, rules[i].own);
    tn_runtime_close(runtime);
  }
  setenv("TENON_SCAN", "perhaps", 1);
  tn_runtime *runtime = NULL;
  refused(tn_runtime_open(NULL, &runtime), TN_ERR_INVALID_ARGUMENT, "child, anew or off");
}
END_TEST

/* ----------------------------------------------------------------------- devices --- */

static tn_device *aligned(tn_runtime *runtime, int index) {
  char id[32];
  tn_device *device = NULL;
  snprintf(id, sizeof id, "aligned:%d", index);
  ok(tn_device_find(runtime, id, &device));
  return device;
}

START_TEST(alignments_that_are_none) {
  tn_runtime *runtime = open_reference(TN_SCAN_OFF, 0);
  ok(tn_runtime_load_plugin(runtime, HOSTILE("alignment")));
  for (int i = 0; i < 3; i++) {
    tn_tensor *x = counting(aligned(runtime, i), 5), *y = NULL;
    ok(tn_add(NULL, x, x, &y));
    if (i == 2) ck_assert_uint_eq((uintptr_t)tn_tensor_data(y) % 4096, 0);
    tn_tensor_release(x);
    tn_tensor_release(y);
  }
  static const char *const said[] = {"96", "3", "1099511627776", "18446744073709551615"};
  for (int i = 0; i < 4; i++) {
    tn_device *device = aligned(runtime, 3 + i);
    tn_device_info info = {.struct_size = sizeof info};
    ok(tn_device_get_info(device, &info));
    ck_assert_msg(strstr(info.unavailable, "alignment of") && strstr(info.unavailable, said[i]),
                  "'%s'", info.unavailable);
    refused(tn_device_synchronize(device), TN_ERR_BACKEND, "cannot be opened: its backend says");
  }
  tn_runtime_close(runtime);
}
END_TEST

/* -------------------------------------------------------------- hosts and children --- */

static _Atomic int reaped;

static void reap_all(int number) {
  int before = errno;
  (void)number;
  while (waitpid(-1, NULL, WNOHANG) > 0) reaped++;
  errno = before;
}

/* A host that takes SIGCHLD so has the verdicts that any other has. */
static void scans_under(void (*handler)(int number)) {
  signal(SIGCHLD, handler);
  tn_runtime *runtime = open_reference(0, 0);
  refused(tn_runtime_load_plugin(runtime, copy_hostile("segfault")), TN_ERR_PLUGIN_REFUSED,
          "killed by signal 11");
  ok(tn_runtime_load_plugin(runtime, copy_fixture(FIXTURE("good"), "libtenon-good.so")));
  tn_runtime_close(runtime);
  signal(SIGCHLD, SIG_DFL);
}

START_TEST(a_host_that_ignores_its_children) { scans_under(SIG_IGN); }
END_TEST

START_TEST(a_host_that_waits_for_any_child) { scans_under(reap_all); }
END_TEST

static void *load_and_close(void *arg) {
  tn_runtime *runtime = open_reference(0, 0);
  (void)tn_runtime_load_plugin(runtime, arg);
  tn_runtime_close(runtime);
  return NULL;
}

START_TEST(many_threads_scan_at_once) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  char paths[THREADS][256];
  size_t descriptors = count_descriptors();
  for (int i = 0; i < THREADS; i++)
    snprintf(paths[i], sizeof paths[i], "%s",
             i % 2 ? copy_hostile("segfault") : copy_fixture(FIXTURE("good"), "libtenon-good.so"));
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, load_and_close, paths[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  ck_assert_uint_eq(count_descriptors(), descriptors);
}
END_TEST

/* ------------------------------------------------------------------------ figures --- */

static int by_size(const void *a, const void *b) {
  return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* What the processes of scans that are over took of the processors. */
static uint64_t processor_time_us(void) {
  struct rusage used;
  ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &used), 0);
  return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
         (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* The bound holds for the time of processors: on a busy machine all wait for one. */
START_TEST(a_good_plugin_costs_little) {
  enum { TIMES = 21 };
  uint32_t made[TIMES], remembered[TIMES];
  uint64_t before = processor_time_us();
  for (int i = 0; i < TIMES; i++) {
    tn_runtime *runtime = open_reference(0, 0);
    const char *path = copy_fixture(FIXTURE("good"), "libtenon-good.so");
    ok(tn_runtime_load_plugin(runtime, path));
    ck_assert_uint_eq(last_report(runtime).scan, TN_SCAN_MADE);
    made[i] = last_report(runtime).scan_us;
    tn_runtime_close(runtime);
    runtime = open_reference(0, 0);
    ok(tn_runtime_load_plugin(runtime, path));
    ck_assert_uint_eq(last_report(runtime).scan, TN_SCAN_REMEMBERED);
    remembered[i] = last_report(runtime).scan_us;
    tn_runtime_close(runtime);
  }
  qsort(made, TIMES, sizeof *made, by_size);
  qsort(remembered, TIMES, sizeof *remembered, by_size);
  uint64_t each = (processor_time_us() - before) / TIMES;
  printf("of %d scans the fastest took %.2f ms, the median %.2f ms, of a processor %.2f ms; a "
         "remembered verdict %.3f ms\n",
         TIMES, made[0] / 1e3, made[TIMES / 2] / 1e3, (double)each / 1e3,
         remembered[TIMES / 2] / 1e3);
  if (!SANITIZED) ck_assert_uint_le(each, 10000);
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_checked_fixture(tc, scratch_make, scratch_remove);
  tcase_add_loop_test(tc, each_kind_meets_its_fate, 0, FATES);
  tcase_add_test(tc, what_ld_so_meets);
  tcase_add_test(tc, libraries_of_the_host_serve_the_scan_too);
  tcase_add_test(tc, any_time_may_be_given);
  tcase_add_test(tc, unscanned_files_must_stay_as_they_were_too);
  tcase_add_test(tc, grandchildren_die_too);
  tcase_add_test(tc, five_seconds_are_the_limit);
  tcase_add_test(tc, what_is_scanned);
  tcase_add_test(tc, alignments_that_are_none);
  tcase_add_test(tc, a_host_that_ignores_its_children);
  tcase_add_test(tc, a_host_that_waits_for_any_child);
  tcase_add_test(tc, many_threads_scan_at_once);
  tcase_add_test(tc, a_good_plugin_costs_little);
}

int main(void) { return run_suite("hostile", add_tests); }
