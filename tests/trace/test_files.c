/*
 * The files that the layer trace writes: one for each runtime, whole after a crash, none of a
 * forked child, and what is said where there can be none.
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/trace/tracing.h"

static bool file_exists(const char *name) { return access(scratch_path(name), F_OK) == 0; }

START_TEST(every_runtime_has_a_file) {
  trace_into("t.json");
  tn_runtime *first = open_tracing(ON_HOST), *second = open_tracing(ON_HOST);
  tn_tensor *a = counting(tn_runtime_device(first), 2), *b = counting(tn_runtime_device(second), 2);
  add_once(NULL, a);
  add_once(NULL, b);
  add_once(NULL, b);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_runtime_close(first);
  tn_runtime_close(second);
  tn_runtime_close(open_tracing(ON_HOST));
  size_t calls[] = {1, 2, 0};
  const char *names[] = {"t.json", "t-2.json", "t-3.json"};
  for (int i = 0; i < 3; ++i) {
    value *v = read_trace(names[i]);
    ck_assert_uint_eq(events_count(v, "op", "add"), calls[i]);
    tree_free(v);
  }
}
END_TEST

/* Processes that are told the same name must not write into one another's file. */
START_TEST(a_file_being_written_is_left_alone) {
  trace_into("t.json");
  int pipes[2];
  char byte = 0;
  ck_assert_int_eq(pipe(pipes), 0);
  pid_t child = fork();
  if (child == 0) {
    tn_runtime *runtime = open_tracing(ON_HOST);
    tn_tensor *a = counting(tn_runtime_device(runtime), 2);
    add_once(NULL, a);
    (void)!write(pipes[1], "x", 1);
    pause();
  }
  ck_assert_int_eq(read(pipes[0], &byte, 1), 1);
  tn_runtime_close(open_tracing(ON_HOST));
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  ck_assert(file_exists("t-2.json"));
  tree_free(read_trace("t.json"));
  tree_free(read_trace("t-2.json"));
}
END_TEST

START_TEST(a_file_that_cannot_be_written_stops_the_runtime) {
  tn_runtime *runtime = NULL;
  trace_into("nosuch/t.json");
  refused(tn_runtime_open(&tracing, &runtime), TN_ERR_IO, "nosuch/t.json: No such file");
  refused(tn_runtime_open(&tracing, &runtime), TN_ERR_IO, "TENON_TRACE_FILE");
  char name[5000];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = 0;
  setenv("TENON_TRACE_FILE", name, 1);
  refused(tn_runtime_open(&tracing, &runtime), TN_ERR_INVALID_ARGUMENT, "too long");
}
END_TEST

static char logged[2048];
static void keep_log(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level;
  strncat(logged, line, sizeof logged - strlen(logged) - 1);
}

START_TEST(a_full_disk_ends_the_trace_and_nothing_else) {
  tn_runtime_options options = tracing;
  options.log = keep_log;
  setenv("TENON_TRACE_FILE", "/dev/full", 1);
  tn_runtime *runtime = open_runtime(&options);
  tn_tensor *a = counting(tn_runtime_device(runtime), 2);
  for (int i = 0; i < 2000; ++i) add_once(NULL, a);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  ck_assert_msg(strstr(logged, "cannot write /dev/full: No space left"), "%s", logged);
}
END_TEST

/* A process that dies, as one that forgets to close, leaves a whole file. */
START_TEST(a_crash_leaves_a_whole_file) {
  trace_into("t.json");
  pid_t child = fork();
  if (child == 0) {
    tn_runtime *runtime = open_tracing(ON_HOST);
    tn_tensor *a = counting(tn_runtime_device(runtime), 2);
    for (int i = 0; i < 1000; ++i) add_once(NULL, a);
    for (int i = 0; i < 3; ++i) {
      nanosleep(&(struct timespec){0, 30000000}, NULL); /* longer than a trace is held back */
      add_once(NULL, a);
    }
    raise(SIGKILL);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFSIGNALED(status));
  value *v = read_trace("t.json");
  ck_assert_uint_ge(events_count(v, "op", "add"), 1002); /* all but the last moments */
  assert_nested(v);
  tree_free(v);
}
END_TEST

START_TEST(a_forked_child_writes_nothing) {
  trace_into("t.json");
  tn_runtime *runtime = open_tracing(ON_HOST);
  tn_tensor *a = counting(tn_runtime_device(runtime), 2), *y = NULL;
  add_once(NULL, a);
  pid_t child = fork();
  if (child == 0) {
    tn_status status = tn_add(NULL, a, a, &y);
    tn_tensor_release(a);
    tn_runtime_close(runtime);
    _exit(status == TN_ERR_FORKED ? 0 : 1);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  add_once(NULL, a);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  value *v = read_trace("t.json");
  ck_assert_uint_eq(events_count(v, "op", "add"), 2);
  tree_free(v);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, scratch_make, scratch_remove);
  tcase_add_test(t, every_runtime_has_a_file);
  tcase_add_test(t, a_file_being_written_is_left_alone);
  tcase_add_test(t, a_file_that_cannot_be_written_stops_the_runtime);
  tcase_add_test(t, a_full_disk_ends_the_trace_and_nothing_else);
  tcase_add_test(t, a_crash_leaves_a_whole_file);
  tcase_add_test(t, a_forked_child_writes_nothing);
}

int main(void) { return run_suite("trace files", add_tests); }
