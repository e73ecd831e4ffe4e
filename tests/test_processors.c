/* The processors that control groups allow, against made-up groups. */
#include "dispatcher/base/threads.h"
#include "tests/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void write_file(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  fclose(file);
}

static void make_folder(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  ck_assert_int_eq(mkdir(path, 0700), 0);
}

static uint32_t quota(const char *membership) {
  char path[256];
  write_file("membership", membership);
  snprintf(path, sizeof path, "%s/membership", root);
  return threads_quota(path, root);
}

static void make_root(void) {
  strcpy(root, "/tmp/tenon-test-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(root));
}

static void remove_root(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", root);
  ck_assert_int_eq(system(command), 0);
}

START_TEST(quotas_of_version_2) {
  ck_assert_uint_eq(quota("0::/\n"), UINT32_MAX);
  write_file("cpu.max", "max 100000\n");
  ck_assert_uint_eq(quota("0::/\n"), UINT32_MAX);
  write_file("cpu.max", "350000 100000\n");
  ck_assert_uint_eq(quota("0::/\n"), 3);
  ck_assert_uint_eq(quota("0::/gone/away\n"), 3);
  make_folder("job");
  make_folder("job/step");
  write_file("job/cpu.max", "1000 100000\n");
  write_file("job/step/cpu.max", "800000 100000\n");
  ck_assert_uint_eq(quota("0::/job/step\n"), 1);
  write_file("job/cpu.max", "200000 100000\n");
  ck_assert_uint_eq(quota("0::/job/step\n"), 2);
}
END_TEST

START_TEST(quotas_of_version_1) {
  make_folder("cpu");
  make_folder("cpu/docker");
  write_file("cpu/cpu.cfs_quota_us", "-1\n");
  write_file("cpu/cpu.cfs_period_us", "100000\n");
  ck_assert_uint_eq(quota("3:cpuset:/\n2:cpu,cpuacct:/docker\n"), UINT32_MAX);
  write_file("cpu/docker/cpu.cfs_quota_us", "200000\n");
  write_file("cpu/docker/cpu.cfs_period_us", "100000\n");
  ck_assert_uint_eq(quota("3:cpuset:/\n2:cpu,cpuacct:/docker\n"), 2);
  ck_assert_uint_eq(quota("2:cpuacct,cpu:/docker\n"), 2);
  ck_assert_uint_eq(quota("2:cpuacct:/docker\n"), UINT32_MAX);
}
END_TEST

START_TEST(odd_quotas_are_none) {
  static const char *const odd[] = {
      "", "\n", "0 0\n", "-1 100000\n", "100000 0\n", "x y\n", "9223372036854775807 1\n"};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    write_file("cpu.max", odd[i]);
    ck_assert_uint_eq(quota("0::/\n"), UINT32_MAX);
  }
  write_file("cpu.max", "100000 100000\n");
  ck_assert_uint_eq(quota(""), UINT32_MAX);
  ck_assert_uint_eq(quota("nonsense\n::\n:\n"), 1);
  ck_assert_uint_eq(threads_quota("/nonexistent", root), UINT32_MAX);
}
END_TEST

static void add_tests(TCase *processors) {
  tcase_add_checked_fixture(processors, make_root, remove_root);
  tcase_add_test(processors, quotas_of_version_2);
  tcase_add_test(processors, quotas_of_version_1);
  tcase_add_test(processors, odd_quotas_are_none);
}

int main(void) { return run_suite("processors", add_tests); }
