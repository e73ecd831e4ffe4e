/*
 * Choices that were measured (kernels/cuda/base/choices.c): found again in the process and by the
 * next one, not under other keys, and a file that is spoiled, cut or open to others counts as none.
 * Each test runs in a process of its own; none needs a GPU.
 */
#include "kernels/cuda/base/choices.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

static char folder[64], file[128];
static const char name[] = "512x512";
static const cuda_choice_key key = {7, name, sizeof name};

static void setup(void) {
  strcpy(folder, "/tmp/tenon-choices-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/tenon/cuda/choices", folder);
  ck_assert_int_eq(setenv("XDG_CACHE_HOME", folder, 1), 0);
  ck_assert_int_eq(unsetenv("TENON_CUDA_TUNE"), 0);
}
static void teardown(void) {
  char path[160];
  (void)unlink(file);
  snprintf(path, sizeof path, "%s/tenon/cuda", folder);
  (void)rmdir(path);
  snprintf(path, sizeof path, "%s/tenon", folder);
  (void)rmdir(path);
  (void)rmdir(folder);
}

static void add(int value) { cuda_choice_add(&key, &value, sizeof value, true); }
static int find(void) {
  int value = -1;
  return cuda_choice_find(&key, &value, sizeof value) ? value : -1;
}

/* What another process finds, or does. */
static int in_child(int (*task)(void)) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) _exit(task());
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  return WEXITSTATUS(status);
}
static int find_42(void) { return find() == 42 ? 0 : find() == -1 ? 1 : 2; }
static int add_42(void) { return add(42), 0; }

START_TEST(a_choice_is_found_again) {
  ck_assert_int_eq(find(), -1);
  add(41);
  add(42); /* the newer one counts */
  ck_assert_int_eq(find(), 42);
  const char other[] = "512x513";
  const cuda_choice_key keys[] = {{8, name, sizeof name}, {7, other, sizeof other}, {7, name, 4}};
  int value;
  for (int i = 0; i < 3; i++) ck_assert(!cuda_choice_find(&keys[i], &value, sizeof value));
  char shorter;
  ck_assert(!cuda_choice_find(&key, &shorter, sizeof shorter));
}
END_TEST

START_TEST(the_next_process_finds_it) {
  ck_assert_int_eq(in_child(add_42), 0);
  ck_assert_int_eq(in_child(find_42), 0);
  ck_assert_int_eq(find(), 42);
}
END_TEST

START_TEST(memory_alone_keeps_no_file) {
  ck_assert_int_eq(setenv("TENON_CUDA_TUNE", "memory", 1), 0);
  add(42);
  ck_assert_int_eq(find(), 42);
  ck_assert_int_ne(access(file, F_OK), 0);
}
END_TEST

START_TEST(what_is_not_to_last_keeps_no_file) {
  int value = 42;
  cuda_choice_add(&key, &value, sizeof value, false);
  ck_assert_int_eq(find(), 42);
  ck_assert_int_ne(access(file, F_OK), 0);
}
END_TEST

START_TEST(a_spoiled_file_counts_as_none) {
  ck_assert_int_eq(in_child(add_42), 0);
  struct stat s;
  ck_assert_int_eq(stat(file, &s), 0);
  if (_i == 0) {
    ck_assert_int_eq(truncate(file, s.st_size - 1), 0);
  } else {
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, "x", 1, s.st_size / 2), 1);
    close(fd);
  }
  ck_assert_int_eq(in_child(find_42), 1);
  ck_assert_int_eq(in_child(add_42), 0); /* and is begun anew */
  ck_assert_int_eq(in_child(find_42), 0);
}
END_TEST

START_TEST(what_others_can_write_is_not_read) {
  ck_assert_int_eq(in_child(add_42), 0);
  ck_assert_int_eq(chmod(file, 0622), 0);
  ck_assert_int_eq(in_child(find_42), 1);
}
END_TEST

START_TEST(no_folder_is_no_failure) {
  ck_assert_int_eq(setenv("XDG_CACHE_HOME", "/dev/null", 1), 0);
  add(42);
  ck_assert_int_eq(find(), 42);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, a_choice_is_found_again);
  tcase_add_test(t, the_next_process_finds_it);
  tcase_add_test(t, memory_alone_keeps_no_file);
  tcase_add_test(t, what_is_not_to_last_keeps_no_file);
  tcase_add_loop_test(t, a_spoiled_file_counts_as_none, 0, 2);
  tcase_add_test(t, what_others_can_write_is_not_read);
  tcase_add_test(t, no_folder_is_no_failure);
}

int main(void) { return run_suite("cuda-choices", add_tests); }
