/*
 * What lives how long: plugins unloaded under live tensors and running threads, runtimes
 * that come and go in many threads, forks, and the end of the process.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scratch.h"
#include "tests/support.h"

static tn_runtime *open_reference(void) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "reference", .log_level = 1, .num_threads = 2};
  return open_runtime(&options);
}

static tn_runtime *open_with(const char *path) {
  tn_runtime *runtime = open_reference();
  ok(tn_runtime_load_plugin(runtime, path));
  return runtime;
}

static tn_device *find(tn_runtime *runtime, const char *id) {
  tn_device *device = NULL;
  ok(tn_device_find(runtime, id, &device));
  return device;
}

static void doubles(tn_device *device) {
  tn_tensor *x = counting(device, 5), *y = NULL;
  float values[5];
  ok(tn_add(NULL, x, x, &y));
  ok(tn_tensor_to_host(y, values, sizeof values));
  ck_assert_float_eq(values[4], 10);
  tn_tensor_release(x);
  tn_tensor_release(y);
}

/* -------------------------------------------------------------------- unloading --- */

START_TEST(unloading_takes_everything_back) {
  tn_runtime *runtime = open_reference();
  size_t ops = tn_op_count(runtime);
  tn_kernel_row row = {.struct_size = sizeof row};
  size_t kernels = 0;
  while (tn_kernel_at(runtime, kernels, &row) == TN_OK) kernels++;
  ok(tn_runtime_load_plugin(runtime, SIM_PLUGIN));
  ck_assert_uint_gt(tn_op_count(runtime), ops);
  doubles(find(runtime, "sim"));
  ok(tn_runtime_unload_plugin(runtime, "sim"));
  ck_assert_uint_eq(tn_op_count(runtime), ops);
  refused(tn_kernel_at(runtime, kernels, &row), TN_ERR_NOT_FOUND, "fewer kernels");
  uint32_t op;
  refused(tn_op_find(runtime, "fixture_double", &op), TN_ERR_NOT_FOUND, "no operator");
  tn_device *device = NULL;
  refused(tn_device_find(runtime, "sim", &device), TN_ERR_NOT_FOUND, "its plugin was unloaded");
  refused(tn_runtime_unload_plugin(runtime, "sim"), TN_ERR_NOT_FOUND, "no plugin 'sim'");
  doubles(tn_runtime_device(runtime));
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(the_report_says_so) {
  tn_runtime *runtime = open_with(FIXTURE("good"));
  tn_plugin_info info = {.struct_size = sizeof info}, found = info;
  ok(tn_runtime_unload_plugin(runtime, "good"));
  size_t count = 0;
  for (; tn_plugin_report(runtime, count, &info) == TN_OK; count++)
    if (strcmp(info.name, "good") == 0) found = info;
  ck_assert_uint_eq(found.taken, 0);
  ck_assert_ptr_nonnull(strstr(found.reason, "unloaded"));
  for (int i = 0; i < 20; i++) {
    ok(tn_runtime_load_plugin(runtime, FIXTURE("good")));
    ok(tn_runtime_unload_plugin(runtime, "good"));
  }
  refused(tn_plugin_report(runtime, count, &info), TN_ERR_NOT_FOUND, "candidates");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(live_tensors_wait) {
  tn_runtime *runtime = open_with(SIM_PLUGIN);
  tn_device *sim = find(runtime, "sim");
  tn_tensor *x = counting(sim, 4), *view = NULL, *y = NULL;
  tn_stream *stream = NULL;
  tn_event *event = NULL;
  tn_prepared *prepared = NULL;
  float values[4];
  ok(tn_tensor_slice(x, 0, 0, 2, 1, &view));
  ok(tn_stream_create(sim, &stream));
  ok(tn_event_create(sim, &event));
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_ADD,
                  .in = (const tn_tensor *const[]){x, x},
                  .out = &y,
                  .num_in = 2,
                  .num_out = 1};
  ok(tn_prepare(&call, &prepared));
  ok(tn_runtime_unload_plugin(runtime, "sim"));
  refused(tn_add(NULL, x, x, &y), TN_ERR_CLOSED, "plugin sim was unloaded");
  refused(tn_run(prepared), TN_ERR_CLOSED, "unloaded");
  refused(tn_tensor_to_host(x, values, sizeof values), TN_ERR_CLOSED, "unloaded");
  refused(tn_event_record(event, stream), TN_ERR_CLOSED, "unloaded");
  refused(tn_stream_synchronize(stream), TN_ERR_CLOSED, "unloaded");
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(sim, &info));
  ck_assert_str_eq(info.unavailable, "its plugin was unloaded");
  ck_assert_uint_eq(info.lost, 0);
  ok(tn_runtime_load_plugin(runtime, SIM_PLUGIN)); /* the same again, tensors included */
  ck_assert_ptr_eq(find(runtime, "sim"), sim);
  ok(tn_tensor_to_host(x, values, sizeof values));
  ck_assert_float_eq(values[3], 4);
  ok(tn_run(prepared));
  doubles(sim);
  ok(tn_runtime_unload_plugin(runtime, "sim"));
  tn_prepared_release(prepared);
  tn_event_destroy(event);
  tn_stream_destroy(stream);
  tn_tensor_release(view);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
  tn_tensor_release(x); /* takes the runtime along */
}
END_TEST

/* The plugins whose kernels add on a device, best first: "kernels good reference ". */
static void serves(tn_device *device, const char *plugins) {
  char text[128] = "";
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  for (uint32_t rank = 0; tn_kernel_find(device, TN_OP_ADD, TN_F32, rank, &kernel) == TN_OK; rank++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", kernel.plugin);
  ck_assert_str_eq(text, plugins);
  doubles(device);
}

/* `kernels` brings kernels for other plugins' types of device, and none of its own. */
#define KERNELS HOSTILE_DIR "/libtenon-kernels.so"

START_TEST(other_kernels_serve_again) {
  tn_runtime *runtime = open_with(FIXTURE("good"));
  tn_device *device = find(runtime, "fixture");
  serves(device, "good reference ");
  for (int i = 0; i < 3; i++) {
    ok(tn_runtime_load_plugin(runtime, KERNELS));
    serves(device, "kernels good reference ");
    ok(tn_runtime_unload_plugin(runtime, "kernels"));
    serves(device, "good reference ");
  }
  ok(tn_runtime_unload_plugin(runtime, "good"));
  ok(tn_runtime_load_plugin(runtime, KERNELS));
  ok(tn_runtime_load_plugin(runtime, FIXTURE("good")));
  serves(device, "kernels good reference ");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(types_of_device_come_meanwhile) {
  tn_runtime *runtime = open_with(KERNELS);
  ok(tn_runtime_unload_plugin(runtime, "kernels"));
  ok(tn_runtime_load_plugin(runtime, FIXTURE("good")));
  serves(find(runtime, "fixture"), "good reference ");
  ok(tn_runtime_load_plugin(runtime, KERNELS));
  serves(find(runtime, "fixture"), "kernels good reference ");
  tn_runtime_close(runtime);
}
END_TEST

/* Another plugin may have brought the same while one was away. */
START_TEST(a_place_that_was_taken_stays_taken) {
  tn_runtime *runtime = open_with(FIXTURE("good"));
  ok(tn_runtime_unload_plugin(runtime, "good"));
  ok(tn_runtime_load_plugin(runtime, FIXTURE("twin")));
  refused(tn_runtime_load_plugin(runtime, FIXTURE("good")), TN_ERR_PLUGIN_REFUSED, "taken from");
  ok(tn_runtime_unload_plugin(runtime, "good"));
  ok(tn_runtime_load_plugin(runtime, FIXTURE("good")));
  serves(find(runtime, "fixture"), "good reference ");
  tn_runtime_close(runtime);
}
END_TEST

START_TEST(what_is_in_use_stays) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = SIM_PLUGIN,
                                .plugins = "reference,sim",
                                .device = "reference",
                                .layers = "tally"};
  tn_runtime *runtime = open_runtime(&options);
  refused(tn_runtime_unload_plugin(runtime, "reference"), TN_ERR_INVALID_ARGUMENT,
          "default device");
  refused(tn_runtime_unload_plugin(runtime, "sim"), TN_ERR_INVALID_ARGUMENT, "layer tally");
  refused(tn_runtime_unload_plugin(runtime, "nosuch"), TN_ERR_NOT_FOUND, "nosuch");
  refused(tn_runtime_unload_plugin(NULL, "sim"), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_runtime_unload_plugin(runtime, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  doubles(find(runtime, "sim"));
  tn_runtime_close(runtime);
}
END_TEST

typedef struct crowd {
  tn_runtime *runtime;
  tn_device *device;
  _Atomic bool stop;
  _Atomic long done, closed;
} crowd;

/* Each call is done, or refused because the plugin is away: nothing else. */
static void *use_until_stopped(void *arg) {
  crowd *c = arg;
  while (!atomic_load(&c->stop)) {
    tn_tensor *x = NULL, *y = NULL;
    tn_status status = tn_tensor_from_host(c->device, TN_F32, 1, SHAPE(3), (float[]){1, 2, 3}, &x);
    if (!status) status = tn_add(NULL, x, x, &y);
    ck_assert_msg(!status || status == TN_ERR_CLOSED, "%s", tn_last_error());
    atomic_fetch_add(status ? &c->closed : &c->done, 1);
    tn_tensor_release(x);
    tn_tensor_release(y);
  }
  return NULL;
}

START_TEST(others_work_meanwhile) {
  enum { THREADS = 4, TIMES = 30 };
  crowd c = {.runtime = open_with(FIXTURE("good"))};
  pthread_t threads[THREADS];
  c.device = find(c.runtime, "fixture");
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, use_until_stopped, &c), 0);
  for (int i = 0; i < TIMES; i++) {
    long done = atomic_load(&c.done);
    while (atomic_load(&c.done) < done + 5) usleep(100);
    ok(tn_runtime_unload_plugin(c.runtime, "good"));
    long closed = atomic_load(&c.closed);
    while (atomic_load(&c.closed) < closed + 5) usleep(100);
    ok(tn_runtime_load_plugin(c.runtime, FIXTURE("good")));
  }
  atomic_store(&c.stop, true);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  tn_runtime_close(c.runtime);
}
END_TEST

/* --------------------------------------------------------------------- libraries --- */

static void open_copy(const char *folder, const char *file, char path[300]) {
  char name[96];
  ck_assert_int_eq(mkdir(scratch_path(folder), 0755), 0);
  snprintf(name, sizeof name, "%s/%s", folder, file);
  snprintf(path, 300, "%s", copy_fixture(FIXTURE_DIR "/libabsent.so", name));
  ck_assert_msg(dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL, "%s", dlerror());
}

static size_t find_pair(tn_runtime *runtime, const char *name, tn_duplicate_library *pair) {
  tn_duplicate_library each = {.struct_size = sizeof each};
  size_t found = 0;
  for (size_t i = 0; tn_duplicate_library_at(runtime, i, &each) == TN_OK; i++)
    if (strcmp(each.name, name) == 0) *pair = each, found++;
  return found;
}

START_TEST(libraries_that_are_loaded_twice_are_told) {
  char first[300], second[300], other[300];
  tn_duplicate_library pair = {.struct_size = sizeof pair};
  tn_runtime *runtime = open_reference();
  open_copy("a", "libtwice-1.2.so.1", first);
  open_copy("c", "libtwicer.so.1", other);
  ck_assert_uint_eq(find_pair(runtime, "libtwice", &pair), 0);
  open_copy("b", "libtwice-8774224f.so.2", second); /* later than the runtime */
  ck_assert_uint_eq(find_pair(runtime, "libtwice", &pair), 1);
  ck_assert_str_eq(pair.first, first);
  ck_assert_str_eq(pair.second, second);
  tn_runtime_close(runtime);
  runtime = open_reference();
  ck_assert_uint_eq(find_pair(runtime, "libtwice", &pair), 1);
  ck_assert_uint_eq(find_pair(runtime, "libtwicer", &pair), 0);
  refused(tn_duplicate_library_at(runtime, 0, NULL), TN_ERR_INVALID_ARGUMENT, "info is NULL");
  tn_runtime_close(runtime);
}
END_TEST

/* ---------------------------------------------------------------------- runtimes --- */

static void *open_use_close(void *arg) {
  (void)arg;
  for (int i = 0; i < 10; i++) {
    tn_runtime *runtime = open_with(i % 2 ? FIXTURE("good") : SIM_PLUGIN);
    doubles(tn_runtime_device(runtime));
    doubles(find(runtime, i % 2 ? "fixture" : "sim"));
    tn_runtime_close(runtime);
  }
  return NULL;
}

START_TEST(many_threads_open_and_close) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, open_use_close, NULL), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}
END_TEST

static void *release(void *tensor) {
  tn_tensor_release(tensor);
  return NULL;
}

START_TEST(tensors_are_released_by_other_threads) {
  enum { TENSORS = 8 };
  pthread_t threads[TENSORS];
  tn_runtime *runtime = open_with(SIM_PLUGIN);
  tn_tensor *tensors[TENSORS];
  for (int i = 0; i < TENSORS; i++)
    tensors[i] = counting(i % 2 ? find(runtime, "sim") : tn_runtime_device(runtime), 100 + i);
  tn_runtime_close(runtime);
  for (int i = 0; i < TENSORS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, release, tensors[i]), 0);
  for (int i = 0; i < TENSORS; i++) pthread_join(threads[i], NULL);
}
END_TEST

typedef struct visitor {
  pthread_barrier_t used, closed;
  tn_device *device;
} visitor;

static void *use_then_wait(void *arg) {
  visitor *v = arg;
  doubles(v->device);
  pthread_barrier_wait(&v->used);
  pthread_barrier_wait(&v->closed);
  return NULL; /* what the thread kept for itself goes now */
}

START_TEST(threads_end_after_their_runtime) {
  enum { THREADS = 4 };
  visitor v;
  pthread_t threads[THREADS];
  tn_runtime *runtime = open_with(SIM_PLUGIN);
  v.device = find(runtime, "sim");
  pthread_barrier_init(&v.used, NULL, THREADS + 1);
  pthread_barrier_init(&v.closed, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, use_then_wait, &v), 0);
  pthread_barrier_wait(&v.used);
  tn_runtime_close(runtime);
  pthread_barrier_wait(&v.closed);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&v.used);
  pthread_barrier_destroy(&v.closed);
}
END_TEST

/* --------------------------------------------------------------------- the process --- */

/* What an end of the process meets: nothing given back, a stream, a thread at work. */
static tn_runtime *left_runtime;
static tn_stream *left_stream;
static tn_tensor *left_tensor;

static void *work_on(void *arg) {
  for (;;) {
    tn_tensor *x = NULL, *y = NULL;
    if (tn_tensor_empty(arg, TN_F32, 1, SHAPE(1000), &x) || tn_add(NULL, x, x, &y)) _exit(4);
    tn_tensor_release(x);
    tn_tensor_release(y);
  }
  return NULL;
}

/* Without Check's macros, whose messages a process that ends would tear. */
static _Noreturn void leave_all_behind(void) {
  pthread_t thread;
  tn_device *sim;
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = SIM_PLUGIN,
                                .plugins = "reference,sim",
                                .device = "reference"};
  if (tn_runtime_open(&options, &left_runtime) || tn_device_find(left_runtime, "sim", &sim) ||
      tn_stream_create(sim, &left_stream) ||
      tn_tensor_empty(sim, TN_F32, 1, SHAPE(1000), &left_tensor) ||
      pthread_create(&thread, NULL, work_on, tn_runtime_device(left_runtime)))
    _exit(2);
  usleep(20000);
  exit(0);
}

START_TEST(the_process_may_end_at_any_time) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) leave_all_behind();
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_checked_fixture(tc, scratch_make, scratch_remove);
  tcase_add_test(tc, unloading_takes_everything_back);
  tcase_add_test(tc, the_report_says_so);
  tcase_add_test(tc, live_tensors_wait);
  tcase_add_test(tc, other_kernels_serve_again);
  tcase_add_test(tc, types_of_device_come_meanwhile);
  tcase_add_test(tc, a_place_that_was_taken_stays_taken);
  tcase_add_test(tc, what_is_in_use_stays);
  tcase_add_test(tc, others_work_meanwhile);
  tcase_add_test(tc, libraries_that_are_loaded_twice_are_told);
  tcase_add_test(tc, many_threads_open_and_close);
  tcase_add_test(tc, tensors_are_released_by_other_threads);
  tcase_add_test(tc, threads_end_after_their_runtime);
  tcase_add_test(tc, the_process_may_end_at_any_time);
}

int main(void) { return run_suite("lifecycle", add_tests); }
