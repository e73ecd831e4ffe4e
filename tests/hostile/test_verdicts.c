/*
 * What the scan remembers of a plugin: for which file, under which circumstances, in which
 * folder; and what it had better forget.
 */
#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "dispatcher/scanner/checksum.h"
#include "tests/hostile/support.h"

static uint32_t outcome_after(const char *path, uint32_t timeout_ms) {
  tn_runtime *runtime = open_reference(0, timeout_ms);
  (void)tn_runtime_load_plugin(runtime, path);
  uint32_t outcome = last_report(runtime).scan;
  tn_runtime_close(runtime);
  return outcome;
}

static uint32_t outcome_of(const char *path) { return outcome_after(path, 0); }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

START_TEST(verdicts_hold_until_the_file_changes) {
  const char *path = copy_fixture(FIXTURE("good"), "libtenon-good.so");
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_REMEMBERED);
  path = copy_fixture(FIXTURE("good"), "libtenon-good.so");
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
  path = copy_hostile("abort");
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_REMEMBERED);
}
END_TEST

static void set_soft_limit(int resource, rlim_t value) {
  struct rlimit limit;
  ck_assert_int_eq(getrlimit(resource, &limit), 0);
  limit.rlim_cur = value;
  ck_assert_int_eq(setrlimit(resource, &limit), 0);
}

START_TEST(what_was_found_under_a_limit_holds_there) {
  if (SANITIZED) return; /* they map more than any limit */
  struct rlimit before;
  const char *path = copy_hostile("needs-room");
  ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
  set_soft_limit(RLIMIT_AS, (rlim_t)1 << 30);
  tn_runtime *runtime = open_reference(0, 0);
  refused(tn_runtime_load_plugin(runtime, path), TN_ERR_PLUGIN_REFUSED, "killed by signal 11");
  tn_runtime_close(runtime);
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_REMEMBERED);
  set_soft_limit(RLIMIT_AS, before.rlim_cur);
  runtime = open_reference(0, 0);
  ok(tn_runtime_load_plugin(runtime, path));
  ck_assert_uint_eq(last_report(runtime).scan, TN_SCAN_MADE);
  tn_runtime_close(runtime);
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_REMEMBERED);
}
END_TEST

START_TEST(what_others_did_to_it_is_forgotten) {
  const char *path = copy_hostile("killed");
  for (int i = 0; i < 2; i++) ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
  path = copy_hostile("abort");
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_REMEMBERED);
  ck_assert_int_eq(setenv("LD_LIBRARY_PATH", scratch, 1), 0);
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
  const char *good = copy_fixture(FIXTURE("good"), "libtenon-good.so");
  ck_assert_uint_eq(outcome_of(good), TN_SCAN_MADE);
  ck_assert_int_eq(unsetenv("LD_LIBRARY_PATH"), 0);
  ck_assert_uint_eq(outcome_of(good), TN_SCAN_REMEMBERED);
}
END_TEST

/* The only file in a folder. */
static void only_file(const char *folder, char path[600]) {
  DIR *d = opendir(folder);
  ck_assert_ptr_nonnull(d);
  int files = 0;
  for (struct dirent *entry; (entry = readdir(d));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, 600, "%s/%s", folder, entry->d_name);
    files++;
  }
  closedir(d);
  ck_assert_int_eq(files, 1);
}

/* Makes the verdict that is remembered an hour older, and its sum right. */
static void age_verdict(const char *file) {
  char text[8192];
  size_t size;
  unsigned char *bytes = read_file(file, &size);
  ck_assert_uint_lt(size + 64, sizeof text);
  memcpy(text, bytes, size);
  text[size] = 0;
  free(bytes);
  char *found = strstr(text, "\nfound ");
  ck_assert_msg(found != NULL, "'%s' does not say when", text);
  long long when = strtoll(found + 7, NULL, 10);
  int used = (int)(found - text);
  used += sprintf(found, "\nfound %lld\n", when - 3600);
  used += sprintf(text + used, "sum %016" PRIx64 "\n", checksum(text, (size_t)used));
  FILE *out = fopen(file, "wb");
  ck_assert_uint_eq(fwrite(text, 1, (size_t)used, out), (size_t)used);
  fclose(out);
}

/* A driver may be mended without a change of the plugin, but hardly between two starts. */
START_TEST(what_a_driver_did_to_it_holds_for_an_hour) {
  static const char *const harmed[] = {"open-crash", "count-crash", "count-hang"};
  char cache[200], folder[300], file[600];
  for (int i = 0; i < 3; i++) {
    snprintf(cache, sizeof cache, "%s/%d", scratch, i);
    snprintf(folder, sizeof folder, "%s/tenon/scan", cache);
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", cache, 1), 0);
    const char *path = copy_hostile(harmed[i]);
    bool hangs = i == 2; /* which is waited for each time */
    const uint32_t limit_ms = hangs ? 300 : 0;
    for (int k = 0; k < (hangs ? 2 : 4); k++) {
      tn_runtime *runtime = open_reference(0, limit_ms);
      bool made = k == 0 || k == 3;
      double begin = now();
      refused(tn_runtime_load_plugin(runtime, path), TN_ERR_PLUGIN_REFUSED,
              made ? "refused by the scan: "
                   : "; remembered for an hour; `tenon scan PLUGIN` tries again");
      ck_assert_uint_eq(last_report(runtime).scan, made ? TN_SCAN_MADE : TN_SCAN_REMEMBERED);
      ck_assert_msg(made || now() - begin < 1.7, "%.1f s", now() - begin);
      tn_runtime_close(runtime);
      only_file(folder, file);
      if (k == 2) age_verdict(file);
    }
    if (hangs) continue;
    ck_assert_int_eq(setenv("TENON_SCAN", "anew", 1), 0);
    ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
    ck_assert_int_eq(unsetenv("TENON_SCAN"), 0);
    ck_assert_uint_eq(outcome_of(path), TN_SCAN_REMEMBERED);
  }
}
END_TEST

/* What the host would not open, the scan does not either. */
START_TEST(a_device_that_cannot_be_described_is_not_opened) {
  const char *path = copy_fixture(HOSTILE("picky"), "libtenon-picky.so");
  tn_runtime *runtime = open_reference(0, 0);
  tn_device *d = NULL;
  ok(tn_runtime_load_plugin(runtime, path));
  ck_assert_uint_eq(last_report(runtime).scan, TN_SCAN_MADE);
  ok(tn_device_find(runtime, "picky:0", &d));
  refused(tn_device_synchronize(d), TN_ERR_BACKEND, "the board is away");
  ok(tn_device_find(runtime, "picky:2", &d));
  ok(tn_device_synchronize(d));
  tn_runtime_close(runtime);
}
END_TEST

/* Keeps one processor busy with the test's children, and the test to it. */
enum { HOGS = 6 };
static void crowd(pid_t hogs[HOGS]) {
  cpu_set_t one, all;
  ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
  int processor = 0;
  while (!CPU_ISSET(processor, &all)) processor++;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
  for (int i = 0; i < HOGS; i++)
    if ((hogs[i] = fork()) == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      (void)setsid(); /* schedulers share processors out by session first */
      for (;;) (void)getppid();
    }
}

START_TEST(what_a_busy_machine_did_to_it_is_forgotten) {
  if (access("/proc/self/schedstat", R_OK)) return; /* it does not count there */
  pid_t hogs[HOGS];
  const char *path = copy_hostile("spin");
  crowd(hogs);
  for (int i = 0; i < 2; i++) {
    tn_runtime *runtime = open_reference(0, 800);
    refused(tn_runtime_load_plugin(runtime, path), TN_ERR_PLUGIN_REFUSED,
            "did not finish within 800 ms while it was loaded (its constructors), on a machine "
            "that is busy");
    ck_assert_uint_eq(last_report(runtime).scan, TN_SCAN_MADE);
    tn_runtime_close(runtime);
  }
  for (int i = 0; i < HOGS; i++) {
    kill(hogs[i], SIGKILL);
    waitpid(hogs[i], NULL, 0);
  }
}
END_TEST

START_TEST(damaged_memory_is_no_memory) {
  char folder[300], file[600];
  ck_assert_int_eq(setenv("XDG_CACHE_HOME", scratch, 1), 0);
  snprintf(folder, sizeof folder, "%s/tenon/scan", scratch);
  const char *path = copy_hostile("abort");
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
  only_file(folder, file);
  size_t size;
  unsigned char *bytes = read_file(file, &size);
  for (size_t i = 0; i < size; i += 7) {
    bytes[i] ^= 1;
    FILE *out = fopen(file, "wb");
    ck_assert_uint_eq(fwrite(bytes, 1, size, out), size);
    fclose(out);
    ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
    ck_assert_uint_eq(outcome_of(path), TN_SCAN_REMEMBERED);
    bytes[i] ^= 1;
  }
  ck_assert_int_eq(truncate(file, (off_t)size / 2), 0);
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
  free(bytes);
}
END_TEST

static void keep_line(void *user, tn_log_level level, const char *line) {
  (void)level;
  if (strstr(line, "cannot be remembered")) snprintf(user, 256, "%s", line);
}

static void scans_each_time(const char *path, const char *why) {
  char line[256] = "";
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "reference",
                                .log_level = TN_LOG_INFO + 1,
                                .log = keep_line,
                                .log_user = line};
  for (int i = 0; i < 2; i++) {
    tn_runtime *runtime = open_runtime(&options);
    ok(tn_runtime_load_plugin(runtime, path));
    ck_assert_uint_eq(last_report(runtime).scan, TN_SCAN_MADE);
    ck_assert_msg(strstr(line, why) != NULL, "'%s' is not in '%s'", why, line);
    tn_runtime_close(runtime);
  }
}

START_TEST(without_a_folder_each_time_is_the_first) {
  char folder[300];
  const char *path = copy_fixture(FIXTURE("good"), "libtenon-good.so");
  ck_assert_int_eq(setenv("XDG_CACHE_HOME", "/dev/null/nothing", 1), 0);
  scans_each_time(path, "cannot be opened");
  ck_assert_int_eq(setenv("XDG_CACHE_HOME", "relative", 1), 0);
  ck_assert_int_eq(unsetenv("HOME"), 0);
  scans_each_time(path, "neither XDG_CACHE_HOME nor HOME");
  ck_assert_int_eq(setenv("XDG_CACHE_HOME", scratch, 1), 0);
  ck_assert_uint_eq(outcome_of(path), TN_SCAN_MADE);
  snprintf(folder, sizeof folder, "%s/tenon/scan", scratch);
  ck_assert_int_eq(chmod(folder, 0777), 0);
  scans_each_time(path, "not this user's alone");
}
END_TEST

static void keep_warning(void *user, tn_log_level level, const char *line) {
  if (level == TN_LOG_WARN) snprintf(user, 256, "%s", line);
}

START_TEST(what_is_odd_is_told_once) {
  static const char *const told[] = {"loading it leaves 1 descriptor open: /dev/zero", ""};
  const char *path = copy_hostile("leak");
  for (int i = 0; i < 2; i++) {
    char line[256] = "";
    tn_runtime_options options = {.struct_size = sizeof options,
                                  .plugins = "reference",
                                  .log_level = TN_LOG_WARN + 1,
                                  .log = keep_warning,
                                  .log_user = line};
    tn_runtime *runtime = open_runtime(&options);
    ok(tn_runtime_load_plugin(runtime, path));
    ck_assert_msg(strstr(line, told[i]) && !*line == !*told[i], "'%s'", line);
    tn_runtime_close(runtime);
  }
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_checked_fixture(tc, scratch_make, scratch_remove);
  tcase_add_test(tc, verdicts_hold_until_the_file_changes);
  tcase_add_test(tc, what_was_found_under_a_limit_holds_there);
  tcase_add_test(tc, what_others_did_to_it_is_forgotten);
  tcase_add_test(tc, what_a_driver_did_to_it_holds_for_an_hour);
  tcase_add_test(tc, a_device_that_cannot_be_described_is_not_opened);
  tcase_add_test(tc, what_a_busy_machine_did_to_it_is_forgotten);
  tcase_add_test(tc, damaged_memory_is_no_memory);
  tcase_add_test(tc, without_a_folder_each_time_is_the_first);
  tcase_add_test(tc, what_is_odd_is_told_once);
}

int main(void) { return run_suite("verdicts", add_tests); }
