/*
 * The files of the layer trace: how large they become, what is kept, and pipes.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/trace/tracing.h"

enum { LIMIT = 1 << 20, CALLS = 20000 }; /* some six times as much as the limit */

static char logged[4096];
static void keep_log(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level;
  strncat(logged, line, sizeof logged - strlen(logged) - 1);
}

static tn_runtime *open_logging(void) {
  tn_runtime_options options = tracing;
  options.device = ON_HOST;
  options.log = keep_log;
  logged[0] = 0;
  return open_runtime(&options);
}

static void bound(const char *limit, const char *keep) {
  ck_assert_int_eq(setenv("TENON_TRACE_LIMIT", limit, 1), 0);
  ck_assert_int_eq(setenv("TENON_TRACE_KEEP", keep, 1), 0);
}

/* Calls whose sites count up. */
static void call_often(tn_tensor *a, int from, int to) {
  char site[32];
  for (int i = from; i < to; ++i) {
    snprintf(site, sizeof site, "call %d", i);
    tn_call_site(site);
    add_once(NULL, a);
  }
  tn_call_site(NULL);
}

static int site_of(const value *e) {
  int number = -1;
  return sscanf(event_arg(e, "site"), "call %d", &number) == 1 ? number : -1;
}

static size_t size_of(const char *name) {
  struct stat s;
  ck_assert_int_eq(stat(scratch_path(name), &s), 0);
  return (size_t)s.st_size;
}

static bool is_named(const value *v, const char *what, const char *name) {
  for (const value *e = v->first; e; e = e->next)
    if (!strcmp(tree_text(e, "name", ""), what) && strstr(event_arg(e, "name"), name)) return true;
  return false;
}

/* All events but those that name things and those that say what was dropped. */
static double count_events(const value *v) {
  double count = 0;
  for (const value *e = v->first; e; e = e->next)
    count += strcmp(tree_text(e, "ph", ""), "M") != 0 && strcmp(tree_text(e, "ph", ""), "i") != 0;
  return count;
}

static double dropped(const value *v, const char *name) {
  double most = -1;
  for (const value *e = v->first; e; e = e->next) {
    if (strcmp(tree_text(e, "name", ""), name) != 0) continue;
    double d = tree_number(tree_member(e, "args"), "dropped_events", -1);
    if (d > most) most = d;
  }
  return most;
}

START_TEST(the_first_part_is_kept) {
  trace_into("t.json");
  bound("1M", "first");
  tn_runtime *runtime = open_logging();
  tn_tensor *a = counting(tn_runtime_device(runtime), 2);
  call_often(a, 0, CALLS);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  ck_assert_msg(strstr(logged, "TENON_TRACE_LIMIT"), "%s", logged);
  ck_assert_uint_le(size_of("t.json"), LIMIT);
  ck_assert_uint_ge(size_of("t.json"), LIMIT - 100000);
  value *v = read_trace("t.json");
  size_t calls = events_count(v, "op", "add");
  ck_assert(calls > 100 && calls < CALLS);
  for (size_t i = 0; i < calls; ++i)
    ck_assert_int_eq(site_of(events_at(v, "op", "add", i)), (int)i);
  /* Every call has two events, and its output's memory two. */
  double all = count_events(v) + dropped(v, "the trace ends here");
  ck_assert_msg(all >= 4.0 * CALLS && all <= 4.0 * CALLS + 8, "%g", all);
  tree_free(v);
}
END_TEST

/* The sites of the calls that are there: without a gap, and up to the last. */
static void assert_last_part(const value *v, int last) {
  static bool seen[CALLS];
  int first = CALLS;
  memset(seen, 0, sizeof seen);
  for (const value *e = v->first; e; e = e->next) {
    if (strcmp(tree_text(e, "cat", ""), "op") != 0) continue;
    int site = site_of(e);
    ck_assert(site >= 0 && site < CALLS && !seen[site]);
    seen[site] = true;
    if (site < first) first = site;
  }
  ck_assert_msg(first > 0 && first < last - 1000, "from %d", first);
  for (int i = first; i < last; ++i) ck_assert_msg(seen[i], "%d is missing", i);
}

START_TEST(the_last_part_is_kept_with_its_names) {
  trace_into("t.json");
  bound("1M", "last");
  tn_runtime *runtime = open_logging();
  tn_tensor *a = counting(tn_runtime_device(runtime), 2);
  call_often(a, 0, CALLS);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  ck_assert_msg(!strstr(logged, "layer trace"), "%s", logged);
  ck_assert_uint_le(size_of("t.json"), LIMIT);
  value *v = read_trace("t.json");
  assert_last_part(v, CALLS);
  ck_assert(is_named(v, "process_name", "test_bounds"));
  ck_assert(is_named(v, "thread_name", "test_bounds"));
  ck_assert(is_named(v, "thread_name", "in thread"));
  double all = count_events(v) + dropped(v, "older events were dropped");
  ck_assert_msg(all >= 4.0 * CALLS && all <= 4.0 * CALLS + 8, "%g", all);
  tree_free(v);
}
END_TEST

/* A process that is killed while it writes may leave no bracket at the end: readers take that. */
static value *read_cut(const char *name) {
  size_t size;
  char where[128];
  char *bytes = (char *)read_file(scratch_path(name), &size);
  value *v = tree_read(bytes, size, where, sizeof where);
  char *closed = realloc(bytes, size + 2);
  ck_assert_ptr_nonnull(closed);
  memcpy(closed + size, "]", 1);
  if (!v) v = tree_read(closed, size + 1, where, sizeof where);
  ck_assert_msg(v != NULL, "%s: %s", name, where);
  free(closed);
  return v;
}

/* At whatever moment a process dies, no event of the ring is spoiled. */
START_TEST(a_crash_leaves_a_whole_ring) {
  for (int i = 0; i < 12; ++i) {
    trace_into("t.json");
    bound("1M", "last");
    pid_t child = fork();
    if (child == 0) {
      tn_runtime *runtime = open_logging();
      tn_tensor *a = counting(tn_runtime_device(runtime), 2);
      for (;;) call_often(a, 0, CALLS);
    }
    while (access(scratch_path("t.json"), F_OK) != 0) usleep(1000);
    while (size_of("t.json") < LIMIT - 100000) usleep(1000);
    usleep((useconds_t)(7000 * i));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    value *v = read_cut("t.json");
    ck_assert_uint_ge(events_count(v, "op", "add"), 1000);
    tree_free(v);
    unlink(scratch_path("t.json"));
  }
}
END_TEST

START_TEST(wrong_limits_are_refused) {
  tn_runtime *runtime = NULL;
  trace_into("t.json");
  const char *wrong[] = {"lots", "1", "-1", "1000", "5MB", "99999999999G", "M"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    bound(wrong[i], "");
    refused(tn_runtime_open(&tracing, &runtime), TN_ERR_INVALID_ARGUMENT, "TENON_TRACE_LIMIT");
  }
  bound("0", "middle");
  refused(tn_runtime_open(&tracing, &runtime), TN_ERR_INVALID_ARGUMENT, "first, last");
  bound("0", "last");
  tn_runtime_close(open_tracing(ON_HOST));
}
END_TEST

/* --- names and pipes --- */

START_TEST(a_name_has_the_number_of_the_process) {
  char name[64];
  trace_into("run-%p-100%%.json");
  tn_runtime_close(open_tracing(ON_HOST));
  snprintf(name, sizeof name, "run-%ld-100%%.json", (long)getpid());
  tree_free(read_trace(name));
}
END_TEST

/* A pipe that nobody reads holds nothing up for long, and says why. */
START_TEST(a_pipe_without_a_reader_is_refused) {
  tn_runtime *runtime = NULL;
  trace_into("pipe");
  ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0600), 0);
  refused(tn_runtime_open(&tracing, &runtime), TN_ERR_IO, "no process reads from this pipe");
}
END_TEST

/* A reader that leaves ends the trace, not the process. */
START_TEST(a_reader_that_leaves_does_no_harm) {
  trace_into("pipe");
  ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0600), 0);
  int reader = open(scratch_path("pipe"), O_RDONLY | O_NONBLOCK);
  tn_runtime *runtime = open_logging();
  close(reader);
  tn_tensor *a = counting(tn_runtime_device(runtime), 2);
  call_often(a, 0, 1000);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  ck_assert_msg(strstr(logged, "Broken pipe"), "%s", logged);
}
END_TEST

START_TEST(a_table_in_a_pipe_without_a_reader_is_left_out) {
  trace_into("t.json");
  ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0600), 0);
  setenv("TENON_TRACE_SUMMARY", scratch_path("pipe"), 1);
  tn_runtime_close(open_logging());
  ck_assert_msg(strstr(logged, "cannot write the summary"), "%s", logged);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, scratch_make, scratch_remove);
  tcase_add_test(t, the_first_part_is_kept);
  tcase_add_test(t, the_last_part_is_kept_with_its_names);
  tcase_add_test(t, a_crash_leaves_a_whole_ring);
  tcase_add_test(t, wrong_limits_are_refused);
  tcase_add_test(t, a_name_has_the_number_of_the_process);
  tcase_add_test(t, a_pipe_without_a_reader_is_refused);
  tcase_add_test(t, a_reader_that_leaves_does_no_harm);
  tcase_add_test(t, a_table_in_a_pipe_without_a_reader_is_left_out);
}

int main(void) { return run_suite("trace-bounds", add_tests); }
