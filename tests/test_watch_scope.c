/*
 * What a watcher of calls (dispatcher/notify/watch.h) reaches: devices that come later, no other
 * runtime, thread or graph, and no longer than the runtime is open.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/graph.h"
#include "tests/watching.h"

/* --- devices and runtimes --- */

START_TEST(devices_that_come_later_are_watched) {
  counter c = counter_of(rt);
  tn_device *sim = NULL;
  thread_watcher_set(&c.watcher);
  ok(tn_runtime_load_plugin(rt, SIM_PLUGIN));
  ok(tn_device_find(rt, "sim:0", &sim));
  ck_assert_uint_eq(attention(sim), DEVICE_WATCHED);
  tn_tensor *x = counting(sim, 4), *y = NULL;
  ok(tn_exp(NULL, x, &y)); /* falls back, by calls of its own */
  ck_assert_int_eq(c.calls, 1);
  tn_tensor_release(x);
  tn_tensor_release(y);
  ok(tn_runtime_unload_plugin(rt, "sim"));
  ck_assert_uint_eq(attention(sim), DEVICE_WATCHED | DEVICE_UNLOADED);
  thread_watcher_set(NULL);
  ck_assert_uint_eq(attention(sim), DEVICE_UNLOADED);
}
END_TEST

START_TEST(another_runtime_is_not_watched) {
  tn_runtime *two = open_with("reference", NULL);
  counter c = counter_of(two);
  tn_tensor *x = counting(device, 3), *y = NULL;
  thread_watcher_set(&c.watcher);
  ok(tn_add(NULL, x, x, &y));
  atomic_fetch_or(&device->attention, DEVICE_WATCHED); /* by another thread */
  ok(tn_add(NULL, x, x, &y));
  ok(tn_tensor_write(NULL, x, (float[]){0, 0, 0}, 12));
  atomic_fetch_and(&device->attention, (uint8_t)~DEVICE_WATCHED);
  ck_assert_int_eq(c.calls + c.writes, 0);
  thread_watcher_set(NULL);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_runtime_close(two);
}
END_TEST

START_TEST(a_lost_device_says_so) {
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 3), *y = NULL;
  thread_watcher_set(&c.watcher);
  atomic_fetch_or(&device->attention, DEVICE_FAULTED);
  refused(tn_add(NULL, x, x, &y), TN_ERR_DEVICE_LOST, "is lost");
  refused(tn_tensor_write(NULL, x, (float[]){0, 0, 0}, 12), TN_ERR_DEVICE_LOST, "is lost");
  ck_assert_int_eq(c.calls + c.writes, 0);
  thread_watcher_set(NULL);
  ck_assert_uint_eq(attention(device), DEVICE_FAULTED);
  refused(tn_add(NULL, x, x, &y), TN_ERR_DEVICE_LOST, "is lost");
  atomic_fetch_and(&device->attention, (uint8_t)~DEVICE_FAULTED);
  tn_tensor_release(x);
}
END_TEST

START_TEST(a_released_tensor_is_named) {
  tn_runtime *two = open_with("reference,validate", "validate");
  counter c = counter_of(two);
  tn_tensor *x = counting(tn_runtime_device(two), 3), *y = NULL;
  thread_watcher_set(&c.watcher);
  tn_tensor_release(x);
  refused(tn_add(NULL, x, x, &y), TN_ERR_INVALID_ARGUMENT, "after its release");
  ck_assert_int_eq(c.calls, 0);
  thread_watcher_set(NULL);
  tn_runtime_close(two);
}
END_TEST

START_TEST(a_watcher_outlives_the_close) {
  tn_runtime *two = open_with("reference", NULL);
  counter c = counter_of(two);
  tn_tensor *x = counting(tn_runtime_device(two), 3), *y = NULL;
  thread_watcher_set(&c.watcher);
  tn_runtime_close(two);
  refused(tn_add(NULL, x, x, &y), TN_ERR_CLOSED, "closed");
  tn_tensor_release(x);
  ck_assert_int_eq(c.calls, 0);
  ck_assert_ptr_eq(thread_watcher_set(NULL), &c.watcher);
}
END_TEST

START_TEST(a_child_can_stop_watching) {
  counter c = counter_of(rt);
  thread_watcher_set(&c.watcher);
  pthread_mutex_lock(&rt->mutex); /* another thread of the parent may hold it */
  pid_t child = fork();
  if (child == 0) _exit(thread_watcher_set(NULL) == &c.watcher ? 0 : 1);
  pthread_mutex_unlock(&rt->mutex);
  int result = -1;
  ck_assert_int_eq(waitpid(child, &result, 0), child);
  ck_assert_int_eq(result, 0);
  thread_watcher_set(NULL);
}
END_TEST

/* --- graphs --- */

START_TEST(a_graphs_calls_are_its_own_watchers) {
  counter thread = counter_of(rt), own = counter_of(NULL);
  tn_graph *g = NULL;
  tn_tensor *x = NULL, *y = NULL;
  ok(tn_graph_create(rt, "test", &g));
  ok(tn_graph_input(g, "x", TN_F32, 1, SHAPE(3), &x));
  thread_watcher_set(&thread.watcher);
  ok(tn_add(NULL, x, x, &y));
  ck_assert_int_eq(thread.calls, 0);
  device_watcher_set(tn_graph_device(g), &own.watcher);
  ok(tn_add(NULL, x, y, &y));
  ck_assert_int_eq(own.calls, 1);
  ck_assert_int_eq(thread.calls, 0);
  ck_assert_uint_eq(tn_graph_num_nodes(g), 2);
  tn_device *symbolic = tn_graph_device(g);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_graph_destroy(g);
  ck_assert_uint_eq(attention(symbolic), 0); /* it serves the next graph */
  thread_watcher_set(NULL);
}
END_TEST

START_TEST(graphs_compile_unseen_and_run_unwatched) {
  counter c = counter_of(rt);
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_tensor *x = NULL, *two = NULL, *y = NULL, *real = counting(device, 3), *out = NULL;
  ok(tn_graph_create(rt, "test", &g));
  ok(tn_graph_input(g, "x", TN_F32, 1, SHAPE(3), &x));
  ok(tn_scalar(tn_graph_device(g), NULL, TN_F32, 2, &two));
  ok(tn_mul(NULL, x, two, &y));
  ok(tn_graph_output(g, "y", y));
  thread_watcher_set(&c.watcher);
  ok(tn_graph_compile(g, device, NULL, &p));
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real}, 1, &out), TN_ERR_UNSUPPORTED,
          "tn_program_run: this thread's calls");
  thread_watcher_pause(true);
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real}, 1, &out));
  thread_watcher_set(NULL);
  ck_assert_int_eq(c.calls + c.writes, 0);
  is_counting(out, 3, 2);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  tn_tensor_release(x);
  tn_tensor_release(two);
  tn_tensor_release(y);
  tn_tensor_release(real);
  tn_tensor_release(out);
}
END_TEST

/* --- threads --- */

enum { CALLERS = 3, TURNS = 200 };
static atomic_bool done;
static atomic_int called;

/* Calls, prepared calls and writes of a thread that does not watch. */
static void *call_on(void *unused) {
  (void)unused;
  tn_tensor *x = counting(device, 4), *y = NULL;
  tn_prepared *p = prepare_add(x, &y);
  do {
    ok(tn_add(NULL, x, x, &y));
    ok(tn_run(p));
    ok(tn_tensor_write(NULL, x, (float[]){1, 2, 3, 4}, 16));
    atomic_fetch_add(&called, 1);
  } while (!atomic_load(&done));
  is_counting(y, 4, 2);
  tn_prepared_release(p);
  tn_tensor_release(x);
  tn_tensor_release(y);
  return NULL;
}

/* Turns its own watching on and off, and sees its own calls alone. */
static void *watch_on(void *unused) {
  (void)unused;
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 4), *y = NULL;
  for (int i = 0; i < TURNS; ++i) {
    thread_watcher_set(&c.watcher);
    ok(tn_add(NULL, x, x, &y));
    thread_watcher_set(NULL);
    ok(tn_add(NULL, x, x, &y));
  }
  ck_assert_int_eq(c.calls, TURNS);
  ck_assert_int_eq(c.writes, 0);
  tn_tensor_release(x);
  tn_tensor_release(y);
  return NULL;
}

START_TEST(threads_watch_themselves_alone) {
  pthread_t callers[CALLERS], watchers[2];
  atomic_store(&done, false);
  for (int i = 0; i < CALLERS; ++i)
    ck_assert_int_eq(pthread_create(&callers[i], NULL, call_on, NULL), 0);
  for (int i = 0; i < 2; ++i)
    ck_assert_int_eq(pthread_create(&watchers[i], NULL, watch_on, NULL), 0);
  ok(tn_runtime_load_plugin(rt, SIM_PLUGIN)); /* devices that come meanwhile */
  for (int i = 0; i < 2; ++i) pthread_join(watchers[i], NULL);
  while (atomic_load(&called) < CALLERS) usleep(100);
  atomic_store(&done, true);
  for (int i = 0; i < CALLERS; ++i) pthread_join(callers[i], NULL);
  tn_device *sim = NULL;
  ok(tn_device_find(rt, "sim:0", &sim));
  ck_assert_uint_eq(attention(device), 0);
  ck_assert_uint_eq(attention(sim), 0);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, devices_that_come_later_are_watched);
  tcase_add_test(t, another_runtime_is_not_watched);
  tcase_add_test(t, a_lost_device_says_so);
  tcase_add_test(t, a_released_tensor_is_named);
  tcase_add_test(t, a_watcher_outlives_the_close);
  tcase_add_test(t, a_child_can_stop_watching);
  tcase_add_test(t, a_graphs_calls_are_its_own_watchers);
  tcase_add_test(t, graphs_compile_unseen_and_run_unwatched);
  tcase_add_test(t, threads_watch_themselves_alone);
}

int main(void) { return run_suite("watch_scope", add_tests); }
