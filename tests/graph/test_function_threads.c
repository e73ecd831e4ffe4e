/*
 * Functions in several threads, of which one builds what the others wait for, and functions that
 * outlive what they belong to.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/graph/functions.h"

typedef struct caller {
  tn_function *function;
  const model *model;
  int64_t rows;
  int times;
  tn_status status, expected;
  char why[512];
} caller;

static void *call(void *context) {
  caller *c = context;
  tn_stream *stream = NULL;
  tn_tensor *x = numbers(device, c->rows, 3, 1), *want = NULL;
  ok(tn_stream_create(device, &stream));
  if (!c->expected) ok(forward(x, c->model->w, &want));
  for (int i = 0; i < c->times && !c->status; ++i) {
    tn_tensor *out = NULL;
    c->status = tn_function_run(c->function, stream, 1, (const tn_tensor *[]){x}, 1, &out);
    if (c->status) snprintf(c->why, sizeof c->why, "%s", tn_last_error());
    ok(tn_stream_synchronize(stream));
    if (!c->status) same(out, want);
    tn_tensor_release(out);
  }
  tn_stream_destroy(stream);
  RELEASE(x, want);
  return NULL;
}

enum { CALLERS = 6 };

static void call_at_once(caller *callers, int count) {
  pthread_t threads[CALLERS];
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, call, &callers[i]);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

START_TEST(one_thread_builds_and_others_wait) {
  model m = {.w = numbers(device, 3, 4, -1), .slow = 9};
  tn_function *f = make(build_model, &m, 0, &rows_of_3, 1);
  caller callers[CALLERS];
  for (int i = 0; i < CALLERS; ++i) callers[i] = (caller){f, &m, 9, 20, TN_OK, TN_OK, ""};
  call_at_once(callers, CALLERS);
  for (int i = 0; i < CALLERS; ++i) ck_assert_msg(!callers[i].status, "%s", callers[i].why);
  ck_assert_int_eq(m.builds, 1);
  ck_assert_uint_eq(told(f).runs, CALLERS * 20);
  tn_function_destroy(f);
  tn_tensor_release(m.w);
}
END_TEST

/* Those that waited fail as the one that built, with its message, and nothing is left. */
START_TEST(those_that_waited_fail_too) {
  model m = {.w = numbers(device, 3, 4, -1), .slow = 9, .stop = 1};
  tn_function *f = make(build_model, &m, 0, &rows_of_3, 1);
  caller callers[CALLERS];
  int failed = 0;
  m.stop = CALLERS; /* whoever comes after the first has failed, fails by himself */
  for (int i = 0; i < CALLERS; ++i)
    callers[i] = (caller){f, &m, 9, 1, TN_OK, TN_ERR_INVALID_ARGUMENT, ""};
  call_at_once(callers, CALLERS);
  for (int i = 0; i < CALLERS; ++i) {
    failed += callers[i].status == TN_ERR_INVALID_ARGUMENT;
    ck_assert_ptr_nonnull(strstr(callers[i].why, "tn_function_run: function model for (x f32 [9"));
  }
  ck_assert_int_eq(failed, CALLERS);
  ck_assert_int_lt(m.builds, CALLERS);
  ck_assert_uint_eq(told(f).programs, 0);
  m.stop = 0;
  run_rows(f, &m, 9, 1);
  tn_function_destroy(f);
  tn_tensor_release(m.w);
}
END_TEST

/* While one shape is built, a known one runs and another is built. */
START_TEST(other_shapes_go_on) {
  model m = {.w = numbers(device, 3, 4, -1), .slow = 9};
  tn_function *f = make(build_model, &m, 0, &rows_of_3, 1);
  caller slow = {f, &m, 9, 1, TN_OK, TN_OK, ""};
  pthread_t thread;
  run_rows(f, &m, 2, 1);
  pthread_create(&thread, NULL, call, &slow);
  while (m.builds < 2) usleep(100);
  run_rows(f, &m, 2, 1);
  run_rows(f, &m, 3, 1);
  ck_assert_int_eq(m.most, 2);
  ck_assert_uint_eq(told(f).programs, 2);
  pthread_join(thread, NULL);
  ck_assert_uint_eq(told(f).programs, 3);
  tn_function_destroy(f);
  tn_tensor_release(m.w);
}
END_TEST

/* More shapes than are kept, in several threads: what one runs no other drops. */
START_TEST(threads_that_drop_each_others) {
  model m = {.w = numbers(device, 3, 4, -1)};
  tn_function *f = make(build_model, &m, 2, &rows_of_3, 1);
  for (int round = 0; round < 20; ++round) {
    caller callers[CALLERS];
    for (int i = 0; i < CALLERS; ++i)
      callers[i] = (caller){f, &m, 1 + (i + round) % 5, 3, TN_OK, TN_OK, ""};
    call_at_once(callers, CALLERS);
    for (int i = 0; i < CALLERS; ++i) ck_assert_msg(!callers[i].status, "%s", callers[i].why);
    ck_assert_uint_le(told(f).programs, 2);
  }
  tn_function_info info = told(f);
  ck_assert_uint_eq(info.built - info.dropped, info.programs);
  tn_function_destroy(f);
  tn_tensor_release(m.w);
}
END_TEST

/* --- lifetimes --- */

START_TEST(a_function_outlives_its_runtime) {
  model m = {.w = numbers(device, 3, 4, -1)};
  tn_function *f = make(build_model, &m, 0, &rows_of_3, 1);
  tn_function_info info = {.struct_size = sizeof info};
  run_rows(f, &m, 4, 1);
  tn_tensor *x = numbers(device, 4, 3, 1), *out = NULL;
  tn_runtime_close(rt);
  refused(tn_function_run(f, NULL, 1, (const tn_tensor *[]){x}, 1, &out), TN_ERR_CLOSED, "");
  refused(tn_function_report(f, &info), TN_ERR_CLOSED, "");
  tn_function_destroy(f);
  RELEASE(x, m.w);
  rt = open_host_runtime();
}
END_TEST

START_TEST(a_forked_child_is_refused) {
  model m = {.w = numbers(device, 3, 4, -1)};
  tn_function *f = make(build_model, &m, 0, &rows_of_3, 1);
  run_rows(f, &m, 4, 1);
  tn_tensor *x = numbers(device, 4, 3, 1), *out = NULL;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    tn_status status = tn_function_run(f, NULL, 1, (const tn_tensor *[]){x}, 1, &out);
    tn_function_destroy(f);
    _exit(status == TN_ERR_FORKED && !out ? 0 : 1);
  }
  int ended = -1;
  ck_assert_int_eq(waitpid(child, &ended, 0), child);
  ck_assert_int_eq(ended, 0);
  run_rows(f, &m, 4, 2);
  tn_function_destroy(f);
  RELEASE(x, m.w);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, one_thread_builds_and_others_wait);
  tcase_add_test(tcase, those_that_waited_fail_too);
  tcase_add_test(tcase, other_shapes_go_on);
  tcase_add_test(tcase, threads_that_drop_each_others);
  tcase_add_test(tcase, a_function_outlives_its_runtime);
  tcase_add_test(tcase, a_forked_child_is_refused);
}

int main(void) { return run_suite("graph_function_threads", add_tests); }
