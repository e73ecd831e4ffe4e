/*
 * Watching calls (dispatcher/notify/watch.h): a watcher gets every call of its thread and no
 * other's, in place of its run; what would be missed is refused; and with nobody watching all is
 * as before.
 */
#include "dispatcher/notify/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dispatcher/objects/tensor.h"
#include "tenon/graph.h"
#include "tests/support.h"

static tn_runtime *open_with(const char *plugins, const char *layers) {
  return open_runtime(&(tn_runtime_options){.struct_size = sizeof(tn_runtime_options),
                                            .device = "reference",
                                            .plugin_path = PLUGINS,
                                            .plugins = plugins,
                                            .layers = layers});
}

static tn_runtime *rt;
static tn_device *device;

static void setup(void) {
  rt = open_with("reference", NULL);
  device = tn_runtime_device(rt);
}
static void teardown(void) { tn_runtime_close(rt); }

/* Runs each call as it is and counts, or fails. */
typedef struct counter {
  call_watcher watcher; /* first */
  int calls, writes;
  uint32_t op;           /* of the last call */
  const tn_tensor *into; /* of the last write */
  tn_status answer;
} counter;

static tn_status count_call(call_watcher *w, const tn_call *call) {
  counter *c = (counter *)w;
  ++c->calls;
  c->op = call->op;
  return c->answer ? c->answer : tn_invoke(call);
}

static tn_status count_write(call_watcher *w, const tn_tensor *tensor) {
  counter *c = (counter *)w;
  ++c->writes;
  c->into = tensor;
  return c->answer;
}

static counter counter_of(tn_runtime *runtime) {
  return (counter){.watcher = {.call = count_call, .written = count_write, .runtime = runtime}};
}

static uint8_t attention(const tn_device *d) { return atomic_load(&d->attention); }

static void is_counting(const tn_tensor *t, int64_t size, float factor) {
  float values[64];
  ok(tn_tensor_to_host(t, values, (size_t)size * sizeof *values));
  for (int64_t i = 0; i < size; ++i) ck_assert_float_eq(values[i], factor * (float)(i + 1));
}

/* --- calls --- */

START_TEST(calls_are_seen_and_run) {
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 5), *y = NULL, *z = NULL;
  ck_assert_uint_eq(attention(device), 0);
  ck_assert_ptr_null(thread_watcher_set(&c.watcher));
  ck_assert_ptr_eq(thread_watcher(), &c.watcher);
  ck_assert_uint_eq(attention(device), DEVICE_WATCHED);
  ok(tn_add(NULL, x, x, &y));
  ck_assert_int_eq(c.calls, 1);
  ck_assert_uint_eq(c.op, TN_OP_ADD);
  ok(tn_add(NULL, x, y, &y)); /* an output given */
  ok(tn_copy(NULL, y, &z));
  ck_assert_int_eq(c.calls, 3);
  ck_assert_ptr_eq(thread_watcher_set(NULL), &c.watcher);
  ck_assert_uint_eq(attention(device), 0);
  ok(tn_add(NULL, x, x, &x));
  ck_assert_int_eq(c.calls, 3);
  is_counting(z, 5, 3);
  is_counting(x, 5, 2);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(z);
}
END_TEST

START_TEST(every_kind_of_call_is_seen_once) {
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 6), *y = counting(device, 6), *mean = NULL;
  tn_tensor *joined = NULL, *taken = NULL, *count = NULL;
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = 1;
  thread_watcher_set(&c.watcher);
  ok(tn_fill(NULL, y, &fill)); /* in-out */
  ck_assert_int_eq(c.calls, 1);
  ok(tn_mean(NULL, x, NULL, &mean));
  ck_assert_int_eq(c.calls, 2);
  ok(tn_concat(NULL, (const tn_tensor *[]){x, y}, 2, NULL, &joined)); /* a list */
  ck_assert_int_eq(c.calls, 3);
  ck_assert_uint_eq(c.op, TN_OP_CONCAT);
  ok(tn_nonzero(NULL, x, &taken, &count)); /* shaped by its data */
  ck_assert_int_eq(c.calls, 4);
  thread_watcher_set(NULL);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(mean);
  tn_tensor_release(joined);
  tn_tensor_release(taken);
  tn_tensor_release(count);
}
END_TEST

/* Doubles the first input beforehand. */
static tn_status call_with_double(call_watcher *w, const tn_call *call) {
  (void)w;
  tn_call inner = *call;
  const tn_tensor *in[2] = {NULL, call->in[1]};
  tn_tensor *twice = NULL;
  tn_status status = tn_add(NULL, call->in[0], call->in[0], &twice);
  if (status) return status;
  in[0] = twice;
  inner.in = in;
  status = tn_invoke(&inner);
  tn_tensor_release(twice);
  return status;
}

START_TEST(a_call_can_become_another) {
  call_watcher w = {.call = call_with_double, .runtime = rt};
  tn_tensor *x = counting(device, 3), *y = NULL;
  thread_watcher_set(&w);
  ok(tn_add(NULL, x, x, &y));
  ok(tn_tensor_write(NULL, x, (float[]){0, 0, 0}, 12)); /* it wants to know of none */
  thread_watcher_set(NULL);
  is_counting(y, 3, 3);
  tn_tensor_release(x);
  tn_tensor_release(y);
}
END_TEST

START_TEST(refusals_are_the_callers) {
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 3), *longer = counting(device, 4), *y = NULL;
  char unwatched[2048];
  refused(tn_add(NULL, x, longer, &y), TN_ERR_INVALID_ARGUMENT, "tn_add: the shapes");
  snprintf(unwatched, sizeof unwatched, "%s", tn_last_error());
  thread_watcher_set(&c.watcher);
  refused(tn_add(NULL, x, longer, &y), TN_ERR_INVALID_ARGUMENT, unwatched);
  refused(tn_add(NULL, NULL, NULL, &y), TN_ERR_INVALID_ARGUMENT, "every tensor is NULL");
  refused(tn_invoke(NULL), TN_ERR_INVALID_ARGUMENT, "call is NULL");
  ck_assert_int_eq(c.calls, 1);
  c.answer = TN_ERR_NOT_READY;
  ck_assert_int_eq(tn_add(NULL, x, x, &y), TN_ERR_NOT_READY);
  ck_assert_ptr_null(y);
  thread_watcher_set(NULL);
  tn_tensor_release(x);
  tn_tensor_release(longer);
}
END_TEST

START_TEST(paused_it_sees_nothing) {
  counter c = counter_of(rt);
  tn_tensor *x = counting(device, 3), *y = NULL;
  thread_watcher_set(&c.watcher);
  ck_assert(!thread_watcher_pause(true));
  ok(tn_add(NULL, x, x, &y));
  ok(tn_tensor_write(NULL, x, (float[]){0, 0, 0}, 12));
  ck_assert_int_eq(c.calls + c.writes, 0);
  ck_assert(thread_watcher_pause(false));
  ok(tn_add(NULL, x, x, &y));
  ck_assert_int_eq(c.calls, 1);
  thread_watcher_set(NULL);
  ck_assert(!thread_watcher_pause(true)); /* nobody's */
  tn_tensor_release(x);
  tn_tensor_release(y);
}
END_TEST

START_TEST(watchers_take_turns) {
  counter first = counter_of(rt), second = counter_of(rt);
  tn_tensor *x = counting(device, 3), *y = NULL;
  thread_watcher_set(&first.watcher);
  ck_assert_ptr_eq(thread_watcher_set(&second.watcher), &first.watcher);
  ok(tn_add(NULL, x, x, &y));
  ck_assert_ptr_eq(thread_watcher_set(&first.watcher), &second.watcher);
  ok(tn_add(NULL, x, x, &y));
  ok(tn_add(NULL, x, x, &y));
  thread_watcher_set(NULL);
  ck_assert_int_eq(first.calls, 2);
  ck_assert_int_eq(second.calls, 1);
  ck_assert_uint_eq(attention(device), 0);
  tn_tensor_release(x);
  tn_tensor_release(y);
}
END_TEST

/* --- what the host writes --- */

START_TEST(writes_are_told) {
  counter c = counter_of(rt);
  const float zeros[6] = {0};
  float read[6];
  tn_tensor *x = counting(device, 6), *square = NULL, *across = NULL, *made = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(2, 3), &square));
  ok(tn_tensor_permute(square, (int32_t[]){1, 0}, &across));
  thread_watcher_set(&c.watcher);
  ok(tn_tensor_write(NULL, x, zeros, sizeof zeros));
  ck_assert_int_eq(c.writes, 1);
  ck_assert_ptr_eq(c.into, x);
  ok(tn_tensor_write(NULL, across, zeros, sizeof zeros)); /* through a copy, which is no call */
  ck_assert_int_eq(c.writes, 2);
  ck_assert_ptr_eq(c.into, across);
  ok(tn_tensor_to_host(across, read, sizeof read));
  ok(tn_tensor_from_host(device, TN_F32, 1, SHAPE(6), zeros, &made)); /* new: nobody's yet */
  refused(tn_tensor_write(NULL, x, zeros, 4), TN_ERR_INVALID_ARGUMENT, "4 bytes given");
  refused(tn_tensor_write(NULL, NULL, zeros, 4), TN_ERR_INVALID_ARGUMENT, "the tensor is NULL");
  ck_assert_int_eq(c.writes, 2);
  ck_assert_int_eq(c.calls, 0);
  c.answer = TN_ERR_NOT_READY;
  ck_assert_int_eq(tn_tensor_write(NULL, x, (float[]){1, 1, 1, 1, 1, 1}, 24), TN_ERR_NOT_READY);
  thread_watcher_set(NULL);
  ok(tn_tensor_to_host(x, read, sizeof read));
  ck_assert(memcmp(read, zeros, sizeof read) == 0);
  tn_tensor_release(x);
  tn_tensor_release(square);
  tn_tensor_release(across);
  tn_tensor_release(made);
}
END_TEST

/* --- what runs without a call --- */

static tn_prepared *prepare_add(const tn_tensor *a, tn_tensor **y) {
  tn_prepared *p = NULL;
  const tn_tensor *in[2] = {a, a};
  ok(tn_prepare(&(tn_call){.struct_size = sizeof(tn_call),
                           .op = TN_OP_ADD,
                           .in = in,
                           .out = y,
                           .num_in = 2,
                           .num_out = 1},
                &p));
  return p;
}

static void prepared_calls_of(tn_runtime *runtime, tn_device *on, tn_tensor *x) {
  counter c = counter_of(runtime);
  const char *why = "calls on device";
  tn_tensor *y = NULL;
  tn_prepared *p = prepare_add(x, &y), *other = NULL;
  const tn_tensor *in[2] = {x, x};
  tn_call call = {.struct_size = sizeof call, .op = TN_OP_ADD, .in = in, .out = &y, .num_in = 2};
  call.num_out = 1;
  thread_watcher_set(&c.watcher);
  refused(tn_run(p), TN_ERR_UNSUPPORTED, why);
  refused(tn_prepared_set_attrs(p, NULL), TN_ERR_UNSUPPORTED, why);
  refused(tn_prepare(&call, &other), TN_ERR_UNSUPPORTED, why);
  refused(tn_prepare_candidate(&call, 1, &other), TN_ERR_UNSUPPORTED, why);
  ck_assert_ptr_null(other);
  thread_watcher_pause(true);
  ok(tn_run(p));
  ok(tn_prepare(&call, &other));
  thread_watcher_pause(false);
  ck_assert_int_eq(c.calls, 0);
  thread_watcher_set(NULL);
  ok(tn_run(p));
  ok(tn_run(other));
  ok(tn_device_synchronize(on));
  tn_prepared_release(p);
  tn_prepared_release(other);
  tn_tensor_release(y);
}

START_TEST(prepared_calls_are_refused) {
  tn_tensor *x = counting(device, 4);
  prepared_calls_of(rt, device, x);
  tn_tensor_release(x);
}
END_TEST

START_TEST(prepared_calls_that_fall_back_are_too) {
  tn_runtime *two = open_with("reference", NULL);
  ok(tn_runtime_load_plugin(two, SIM_PLUGIN));
  tn_device *sim = NULL;
  ok(tn_device_find(two, "sim:0", &sim));
  const int64_t size = 4;
  tn_tensor *x = shaped(sim, TN_F64, 1, &size);
  ok(tn_tensor_write(NULL, x, (double[]){1, 2, 3, 4}, 32));
  prepared_calls_of(two, sim, x);
  tn_tensor_release(x);
  tn_runtime_close(two);
}
END_TEST

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
  tcase_add_test(t, calls_are_seen_and_run);
  tcase_add_test(t, every_kind_of_call_is_seen_once);
  tcase_add_test(t, a_call_can_become_another);
  tcase_add_test(t, refusals_are_the_callers);
  tcase_add_test(t, paused_it_sees_nothing);
  tcase_add_test(t, watchers_take_turns);
  tcase_add_test(t, writes_are_told);
  tcase_add_test(t, prepared_calls_are_refused);
  tcase_add_test(t, prepared_calls_that_fall_back_are_too);
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

int main(void) { return run_suite("watch", add_tests); }
