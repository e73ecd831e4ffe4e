/*
 * Recording that fails, launches that fail, devices that are lost in either, memory that runs out,
 * and programs that go while their device graphs are pending. The device ends the process where it
 * is closed with a device graph left.
 */
#include <sys/wait.h>

#include "tests/graph/replays.h"
#include "tests/scarce.h"

/* --- what fails --- */

static atomic_int warnings;
static char warned[1024];

static void count_warnings(void *user, tn_log_level level, const char *line) {
  (void)user;
  if (level != TN_LOG_WARN || !strstr(line, "device graph")) return;
  ++warnings;
  snprintf(warned, sizeof warned, "%s", line);
}

static void open_logged(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = CAPTURING_PLUGIN,
                                .device = "capturing",
                                .fallback = TN_FALLBACK_ALLOW,
                                .log = count_warnings};
  rt = open_runtime(&options);
  device = tn_runtime_device(rt);
  ledger = tn_stream_native(tn_device_default_stream(device));
}

static _Atomic int *fault(int which) {
  _Atomic int *all[] = {&ledger->begin, &ledger->kernel, &ledger->end, &ledger->launch};
  return all[which];
}
static const char *const where[] = {"capture_begin", "a kernel", "capture_end", "graph_launch"};

/* Told to fail, it does: the step is run by calls, the program stays with that, and says why. */
START_TEST(fails_once) {
  static const tn_status statuses[] = {TN_ERR_BACKEND, TN_ERR_OUT_OF_MEMORY,
                                       TN_ERR_DEVICE_OUT_OF_MEMORY};
  const int which = _i % 4;
  open_logged();
  pair p = make_pair(4, 5, false, 0);
  tn_tensor *x = numbers(4, 5, 1), *b = numbers(1, 5, 2), *y = numbers(4, 5, 0);
  tn_tensor *z = numbers(4, 5, 0);
  *fault(which) = (int)statuses[_i / 4];
  for (int i = 0; i < 4; ++i) run_both(&p, NULL, x, b, &y, &z);
  *fault(which) = TN_OK;
  for (int i = 0; i < 4; ++i) run_both(&p, NULL, x, b, &y, &z);
  const tn_program_info info = report(p.program);
  ck_assert_uint_eq(info.capture, TN_CAPTURE_FAILED);
  ck_assert_msg(strstr(info.capture_reason, where[which]), "%s", info.capture_reason);
  ck_assert_msg(strstr(info.capture_reason, "was told to fail"), "%s", info.capture_reason);
  if (which == 1)
    ck_assert_msg(strstr(info.capture_reason, "program step, node 0"), "%s", info.capture_reason);
  ck_assert_uint_eq(info.replays, 0);
  ck_assert_int_eq(ledger->begun, which > 0);
  ck_assert_int_eq(warnings, 1);
  ck_assert_msg(strstr(warned, "program step goes on call by call"), "%s", warned);
  RELEASE(x, b, y, z);
  free_pair(&p);
  tn_runtime_close(rt);
}
END_TEST

/* Where ending a failed recording fails as well, what failed first is told. */
START_TEST(fails_twice) {
  open_logged();
  pair p = make_pair(4, 5, false, 0);
  tn_tensor *x = numbers(4, 5, 1), *b = numbers(1, 5, 2), *y = numbers(4, 5, 0);
  tn_tensor *z = numbers(4, 5, 0);
  ledger->kernel = TN_ERR_UNSUPPORTED;
  ledger->end = TN_ERR_BACKEND;
  for (int i = 0; i < 3; ++i) run_both(&p, NULL, x, b, &y, &z);
  ck_assert_msg(strstr(report(p.program).capture_reason, "a kernel was told to fail"), "%s",
                report(p.program).capture_reason);
  ck_assert_int_eq(ledger->ended, 1);
  ck_assert_int_eq(warnings, 1);
  RELEASE(x, b, y, z);
  free_pair(&p);
  tn_runtime_close(rt);
}
END_TEST

/* A lost device is lost: nothing is run again, and everything can be given back. */
START_TEST(loses_its_device) {
  open_logged();
  pair p = make_pair(4, 5, false, 0);
  tn_tensor *x = numbers(4, 5, 1), *b = numbers(1, 5, 2), *out[2] = {NULL, NULL};
  tn_tensor *y = NULL, *z = NULL;
  for (int i = 0; i < (_i < 4 ? 1 : 3); ++i) { /* or in the life of one that has replayed */
    run_both(&p, NULL, x, b, &y, &z);
    RELEASE(y, z);
    y = z = NULL;
  }
  *fault(_i % 4) = TN_ERR_DEVICE_LOST;
  tn_status status = TN_OK;
  for (int i = 0; i < 6 && !status; ++i) { /* new addresses are recorded at their second coming */
    if (i == 2) {
      tn_tensor_release(x);
      x = numbers(4, 5, 1);
    }
    if (i == 4) { /* whatever the pool gave: with outputs of their own */
      out[0] = numbers(4, 5, 0);
      out[1] = numbers(4, 5, 0);
    }
    tn_tensor *given[2] = {out[0], out[1]};
    status = tn_program_run(p.program, NULL, 2, (const tn_tensor *[]){x, b}, 2, given);
    for (int k = 0; k < 2; ++k)
      if (given[k] != out[k]) tn_tensor_release(given[k]);
  }
  ck_assert_int_eq(status, TN_ERR_DEVICE_LOST);
  ck_assert_msg(strstr(tn_last_error(), "program step, ") && strstr(tn_last_error(), where[_i % 4]),
                "%s", tn_last_error());
  tn_tensor *none[2] = {NULL, NULL};
  refused(tn_program_run(p.program, NULL, 2, (const tn_tensor *[]){x, b}, 2, none),
          TN_ERR_DEVICE_LOST, "is lost");
  ck_assert_int_eq(warnings, 0);
  RELEASE(x, b, out[0], out[1]);
  free_pair(&p);
  tn_runtime_close(rt);
}
END_TEST

/* A queue that cannot take a launch at the moment gets the calls, and launches later. */
START_TEST(not_now) {
  pair p = make_pair(4, 5, false, 0);
  tn_tensor *x = numbers(4, 5, 1), *b = numbers(1, 5, 2), *y = numbers(4, 5, 0);
  tn_tensor *z = numbers(4, 5, 0);
  for (int i = 0; i < 12; ++i) {
    ledger->launch = i % 3 ? TN_OK : TN_ERR_UNSUPPORTED;
    run_both(&p, NULL, x, b, &y, &z);
  }
  ck_assert_uint_eq(report(p.program).capture, TN_CAPTURE_ON);
  ck_assert_uint_eq(report(p.program).captures, 1);
  ck_assert_uint_eq(report(p.program).replays, 8);
  RELEASE(x, b, y, z);
  free_pair(&p);
}
END_TEST

/* A kernel that wants more workspace where it is recorded than it was lent. */
START_TEST(wants_more_workspace) {
  pair p = make_pair(4, 5, false, 0);
  tn_tensor *x = numbers(4, 5, 1), *b = numbers(1, 5, 2), *y = numbers(4, 5, 0);
  tn_tensor *z = numbers(4, 5, 0);
  ledger->more_workspace = 1;
  for (int i = 0; i < 4; ++i) run_both(&p, NULL, x, b, &y, &z);
  ck_assert_uint_eq(report(p.program).capture, TN_CAPTURE_FAILED);
  ck_assert_msg(strstr(report(p.program).capture_reason, "wants 128 bytes of workspace"), "%s",
                report(p.program).capture_reason);
  ck_assert_int_eq(ledger->begun, 0);
  RELEASE(x, b, y, z);
  free_pair(&p);
}
END_TEST

/* --- host memory that runs out --- */

static tn_status compile_and_run(tn_tensor *w, tn_tensor *const *x, tn_tensor *b) {
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_status status = build(rt, w, 4, 5, true, &g);
  if (!status) status = tn_graph_compile(g, device, NULL, &p);
  for (int i = 0; !status && i < 24; ++i) {
    tn_tensor *out[3] = {NULL, NULL, NULL}; /* by turns too many inputs, so that places are taken */
    status = tn_program_run(p, NULL, 2, (const tn_tensor *[]){x[i % 6], b}, 3, out);
    ck_assert(!status || (!out[0] && !out[1] && !out[2]));
    RELEASE(out[0], out[1], out[2]);
  }
  if (!status) ck_assert_uint_ne(report(p).capture, TN_CAPTURE_FAILED);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  return status;
}

START_TEST(every_request_for_memory_fails_once) {
  rt = open_capturing(NULL, &scarce_allocator);
  device = tn_runtime_device(rt);
  ledger = tn_stream_native(tn_device_default_stream(device));
  tn_tensor *w = numbers(4, 5, 1), *b = numbers(1, 5, 2), *x[6];
  for (int i = 0; i < 6; ++i) x[i] = numbers(4, 5, (float)i);
  long failed = 0;
  for (long at = 0;; ++at) {
    scarce_begin(at, false);
    tn_status status = compile_and_run(w, x, b);
    bool enough = !scarce_end();
    ok_or_scarce(status, at);
    ck_assert_int_eq(ledger->made, ledger->destroyed);
    failed += status != TN_OK;
    if (enough) break;
  }
  ck_assert_int_gt(failed, 30);
  for (int i = 0; i < 6; ++i) tn_tensor_release(x[i]);
  RELEASE(w, b);
  tn_runtime_close(rt);
  ck_assert_int_eq(scarce.live, 0);
}
END_TEST

/* --- programs and devices that go --- */

/* The launches of a program that is destroyed are done all the same, in their order. */
START_TEST(destroyed_while_pending) {
  tn_tensor *x = numbers(6, 7, 1), *b = numbers(1, 7, 2), *w = numbers(6, 7, 0.5f);
  tn_tensor *kept = numbers(6, 7, 0.5f), *y[10] = {NULL}, *z[10] = {NULL};
  tn_stream *stream = NULL;
  ok(tn_stream_create(device, &stream));
  ok(tn_device_synchronize(device));
  tn_program *p = compiled(w, 6, 7, false, 0);
  for (int i = 0; i < 10; ++i) {
    tn_tensor *out[2] = {NULL, NULL};
    ok(tn_program_run(p, stream, 2, (const tn_tensor *[]){x, b}, 2, out));
    if (i < 8)
      RELEASE(out[0], out[1]);
    else
      y[i] = out[0], z[i] = out[1];
  }
  ck_assert_uint_gt(report(p).replays, 4);
  tn_program_destroy(p);
  for (int i = 0; i < 4; ++i) { /* what was the program's memory may be others' now */
    tn_tensor *t = NULL;
    ok(tn_full_f64(device, stream, TN_F32, 2, SHAPE(6, 7), 99, &t));
    tn_tensor_release(t);
  }
  ok(tn_stream_synchronize(stream));
  for (int i = 0; i < 10; ++i) {
    tn_tensor *wanted[2] = {NULL, NULL};
    ok(step(NULL, x, b, kept, &wanted[0], &wanted[1], NULL));
    if (y[i]) same(y[i], wanted[0]);
    if (z[i]) same(z[i], wanted[1]);
    RELEASE(wanted[0], wanted[1], y[i], z[i]);
  }
  same(w, kept);
  ck_assert_int_eq(ledger->made, ledger->destroyed);
  RELEASE(x, b, w, kept);
  tn_stream_destroy(stream);
}
END_TEST

static pair replaying(tn_tensor **x, tn_tensor **b) {
  pair p = make_pair(4, 5, false, 0);
  *x = numbers(4, 5, 1);
  *b = numbers(1, 5, 2);
  for (int i = 0; i < 5; ++i) {
    tn_tensor *y = NULL, *z = NULL;
    run_both(&p, NULL, *x, *b, &y, &z);
    RELEASE(y, z);
  }
  ck_assert_uint_gt(report(p.program).replays, 0);
  return p;
}

START_TEST(its_plugin_is_unloaded) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = CAPTURING_PLUGIN,
                                .device = "reference",
                                .fallback = TN_FALLBACK_ALLOW};
  rt = open_runtime(&options);
  ok(tn_device_find(rt, "capturing", &device));
  ledger = tn_stream_native(tn_device_default_stream(device));
  tn_tensor *x, *b, *y = NULL, *z = NULL, *out[2] = {NULL, NULL};
  pair p = replaying(&x, &b);
  const long launched = ledger->launched;
  ok(tn_runtime_unload_plugin(rt, "capturing"));
  refused(tn_program_run(p.program, NULL, 2, (const tn_tensor *[]){x, b}, 2, out), TN_ERR_CLOSED,
          "unloaded");
  ck_assert_int_eq(ledger->launched, launched);
  ok(tn_runtime_load_plugin(rt, CAPTURING_PLUGIN));
  run_both(&p, NULL, x, b, &y, &z);
  ck_assert_int_gt(ledger->launched, launched - 1);
  ok(tn_runtime_unload_plugin(rt, "capturing"));
  RELEASE(x, b, y, z);
  free_pair(&p);
  ck_assert_int_eq(ledger->made, ledger->destroyed);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(its_runtime_is_closed) {
  setup();
  tn_tensor *x, *b;
  pair p = replaying(&x, &b);
  tn_runtime_close(rt);
  tn_tensor *out[2] = {NULL, NULL};
  refused(tn_program_run(p.program, NULL, 2, (const tn_tensor *[]){x, b}, 2, out), TN_ERR_CLOSED,
          "");
  if (_i) RELEASE(x, b, p.w, p.kept);
  tn_program_destroy(p.program); /* in the second round the last that holds the device */
  if (!_i) RELEASE(x, b, p.w, p.kept);
}
END_TEST

/* A child leaves the parent's device graphs alone. */
START_TEST(the_process_forks) {
  tn_tensor *x, *b, *y = NULL, *z = NULL;
  pair p = replaying(&x, &b);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    tn_tensor *out[2] = {NULL, NULL};
    const long launched = ledger->launched;
    bool well =
        tn_program_run(p.program, NULL, 2, (const tn_tensor *[]){x, b}, 2, out) == TN_ERR_FORKED;
    free_pair(&p);
    _exit(well && !ledger->destroyed && ledger->launched == launched ? 0 : 1);
  }
  int ended = -1;
  ck_assert_int_eq(waitpid(child, &ended, 0), child);
  ck_assert_int_eq(ended, 0);
  run_both(&p, NULL, x, b, &y, &z);
  RELEASE(x, b, y, z);
  free_pair(&p);
}
END_TEST

/* --- thousands of runs --- */

START_TEST(nothing_grows) {
  enum { SETS = 7 };
  pair p = make_pair(4, 5, true, 0);
  tn_tensor *x[SETS], *b = numbers(1, 5, 0);
  tn_memory_stats before = {.struct_size = sizeof before}, after = before;
  for (int i = 0; i < SETS; ++i) x[i] = numbers(4, 5, (float)i);
  size_t host = 0;
  for (int i = 0; i < 10000; ++i) {
    tn_tensor *out[3] = {NULL, NULL, NULL};
    int k = i % (2 + i / 300 % (SETS - 1));
    ok(tn_program_run(p.program, NULL, 2, (const tn_tensor *[]){x[k], b}, 3, out));
    RELEASE(out[0], out[1], out[2]);
    if (i % 50 == 0) ok(tn_device_synchronize(device)); /* the device would keep jobs for ever */
    if (i == 5000) {
      ok(tn_device_memory_stats(device, &before));
      host = mallinfo2().uordblks;
    }
  }
  ok(tn_device_synchronize(device));
  ok(tn_device_memory_stats(device, &after));
  ck_assert_uint_eq(after.reserved, before.reserved);
  ck_assert_uint_le(mallinfo2().uordblks, host + 65536);
  ck_assert_int_le(ledger->made - ledger->destroyed, 4);
  ck_assert_uint_gt(report(p.program).replays, 9000);
  ck_assert_uint_lt(report(p.program).captures, 200);
  for (int i = 0; i < SETS; ++i) tn_tensor_release(x[i]);
  tn_tensor_release(b);
  free_pair(&p);
  ck_assert_int_eq(ledger->made, ledger->destroyed);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_loop_test(t, fails_once, 0, 12);
  tcase_add_test(t, fails_twice);
  tcase_add_loop_test(t, loses_its_device, 0, 8);
  tcase_add_test(t, every_request_for_memory_fails_once);
  tcase_add_test(t, its_plugin_is_unloaded);
  tcase_add_loop_test(t, its_runtime_is_closed, 0, 2);
}

static void add_on_device(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, not_now);
  tcase_add_test(t, wants_more_workspace);
  tcase_add_test(t, destroyed_while_pending);
  tcase_add_test(t, the_process_forks);
  tcase_add_test(t, nothing_grows);
}

int main(void) {
  return run_suite("replay faults", add_tests) | run_suite("replay faults, on", add_on_device);
}
