/*
 * After fork(): every function of tenon.h that takes a runtime, or what one made, says
 * TN_ERR_FORKED in the child or does nothing; a new runtime works there; the parent's is
 * untouched. The calls below are in the header's order.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

/* What the parent made. */
typedef struct objects {
  tn_runtime *runtime;
  tn_device *device;
  tn_stream *stream;
  tn_event *event, *other;
  tn_tensor *x, *y;
  tn_prepared *prepared;
  DLManagedTensorVersioned *given;
  void *pinned;
} objects;

static objects make(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = SIM_PLUGIN,
                                .plugins = "reference,sim",
                                .device = "sim"};
  objects o = {.runtime = open_runtime(&options)};
  o.device = tn_runtime_device(o.runtime);
  ok(tn_stream_create(o.device, &o.stream));
  ok(tn_event_create(o.device, &o.event));
  ok(tn_event_create(o.device, &o.other));
  ok(tn_event_record(o.event, o.stream));
  ok(tn_event_record(o.other, o.stream));
  o.x = counting(o.device, 4);
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_ADD,
                  .in = (const tn_tensor *const[]){o.x, o.x},
                  .out = &o.y,
                  .num_in = 2,
                  .num_out = 1};
  ok(tn_prepare(&call, &o.prepared));
  ok(tn_tensor_to_dlpack(o.x, &o.given));
  ok(tn_pinned_alloc(o.device, 64, &o.pinned));
  return o;
}

static int mistakes;

/* Runs in the child, where Check's assertions would confuse its parent. */
#define forked(call)                                                                               \
  do {                                                                                             \
    tn_status got_ = (call);                                                                       \
    if (got_ != TN_ERR_FORKED || !strstr(tn_last_error(), "fork")) {                               \
      printf("%s gave %s (%s)\n", #call, tn_status_name(got_), tn_last_error());                   \
      mistakes++;                                                                                  \
    }                                                                                              \
  } while (0)

static void runtimes_and_devices(const objects *o) {
  tn_plugin_info plugin = {.struct_size = sizeof plugin};
  tn_device_info device = {.struct_size = sizeof device};
  tn_memory_stats memory = {.struct_size = sizeof memory};
  tn_duplicate_library library = {.struct_size = sizeof library};
  tn_layer_info layer = {.struct_size = sizeof layer};
  tn_device *found;
  void *pinned;
  forked(tn_runtime_load_plugin(o->runtime, SIM_PLUGIN));
  forked(tn_runtime_unload_plugin(o->runtime, "sim"));
  forked(tn_plugin_report(o->runtime, 0, &plugin));
  forked(tn_duplicate_library_at(o->runtime, 0, &library));
  forked(tn_layer_at(o->runtime, 0, &layer));
  forked(tn_device_find(o->runtime, "sim", &found));
  forked(tn_device_get_info(o->device, &device));
  forked(tn_device_synchronize(o->device));
  forked(tn_device_memory_stats(o->device, &memory));
  forked(tn_device_trim(o->device));
  forked(tn_pinned_alloc(o->device, 64, &pinned));
}

static void streams_and_events(const objects *o) {
  tn_stream *stream;
  tn_event *event;
  uint64_t ns;
  forked(tn_stream_create(o->device, &stream));
  forked(tn_stream_synchronize(o->stream));
  if (tn_device_default_stream(o->device)) mistakes++, puts("tn_device_default_stream");
  forked(tn_event_create(o->device, &event));
  forked(tn_event_record(o->event, o->stream));
  forked(tn_event_query(o->event));
  forked(tn_event_synchronize(o->event));
  forked(tn_stream_wait_event(o->stream, o->event));
  forked(tn_event_elapsed(o->event, o->other, &ns));
}

static void tensors(const objects *o) {
  float values[4] = {0};
  const int64_t shape[] = {4};
  tn_tensor *t = NULL, *parts[2];
  DLManagedTensorVersioned *managed;
  DLManagedTensor *unversioned;
  forked(tn_tensor_empty(o->device, TN_F32, 1, shape, &t));
  forked(tn_tensor_empty_on(o->device, o->stream, TN_F32, 1, shape, &t));
  forked(tn_tensor_from_host(o->device, TN_F32, 1, shape, values, &t));
  forked(tn_tensor_write(o->stream, o->x, values, sizeof values));
  forked(tn_tensor_to_host(o->x, values, sizeof values));
  forked(tn_tensor_read(o->stream, o->x, values, sizeof values));
  forked(tn_tensor_to_device(o->x, o->device, &t));
  forked(tn_tensor_reshape(o->x, 1, shape, &t));
  forked(tn_tensor_permute(o->x, (int32_t[]){0}, &t));
  forked(tn_tensor_slice(o->x, 0, 0, 2, 1, &t));
  forked(tn_tensor_split(o->x, 0, 2, NULL, parts));
  forked(tn_tensor_expand(o->x, 1, shape, &t));
  forked(tn_tensor_contiguous(o->stream, o->x, &t));
  forked(tn_tensor_to_dlpack(o->x, &managed));
  forked(tn_tensor_to_dlpack_unversioned(o->x, &unversioned));
  forked(tn_tensor_from_dlpack(o->runtime, o->given, &t));
  DLManagedTensor given = {.dl_tensor = o->given->dl_tensor};
  forked(tn_tensor_from_dlpack_unversioned(o->runtime, &given, &t));
}

static void operators(const objects *o) {
  tn_prepared *prepared;
  tn_tensor *y = NULL;
  uint32_t op;
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  tn_kernel_row row = {.struct_size = sizeof row};
  tn_fallback_stats stats = {.struct_size = sizeof stats};
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_ADD,
                  .in = (const tn_tensor *const[]){o->x, o->x},
                  .out = &y,
                  .num_in = 2,
                  .num_out = 1};
  forked(tn_invoke(&call));
  forked(tn_add(NULL, o->x, o->x, &y));
  forked(tn_concat(NULL, call.in, 2, NULL, &y));
  forked(tn_prepare(&call, &prepared));
  forked(tn_run(o->prepared));
  forked(tn_op_find(o->runtime, "add", &op));
  forked(tn_kernel_find(o->device, TN_OP_ADD, TN_F32, 0, &kernel));
  forked(tn_kernel_at(o->runtime, 0, &row));
  forked(tn_fallback_get_stats(o->device, 0, &stats));
}

/* None of these may reach the device, block, or fall over. */
static void give_back(objects *o) {
  tn_pinned_free(o->device, o->pinned);
  tn_event_destroy(o->event);
  tn_event_destroy(o->other);
  tn_stream_destroy(o->stream);
  tn_prepared_release(o->prepared);
  o->given->deleter(o->given);
  tn_tensor_release(o->y);
  tn_tensor_release(o->x);
  tn_runtime_close(o->runtime);
}

static void use_a_new_one(void) {
  objects o = make();
  tn_tensor *y = NULL;
  if (tn_add(NULL, o.x, o.x, &y) || tn_run(o.prepared)) mistakes++, puts(tn_last_error());
  tn_tensor_release(y);
  give_back(&o);
}

START_TEST(a_child_is_told) {
  objects o = make();
  tn_tensor *y = NULL;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    runtimes_and_devices(&o);
    streams_and_events(&o);
    tensors(&o);
    operators(&o);
    give_back(&o);
    use_a_new_one();
    fflush(stdout);
    _exit(mistakes ? 1 : 0);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
  ok(tn_add(NULL, o.x, o.x, &y));
  ok(tn_run(o.prepared));
  tn_tensor_release(y);
  give_back(&o);
}
END_TEST

/* ---------------------------------------------------------- drivers in a child --- */

/* A device of type "hangs" never answers in a child of the process that asked for it first. */
static tn_status open_driver(const char *device, tn_runtime **runtime) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = FIXTURE_DIR "/libtenon-hangs.so:" SIM_PLUGIN,
                                .plugins = "reference,hangs,sim",
                                .device = device,
                                .scan = TN_SCAN_OFF,
                                .log_level = TN_LOG_NONE + 1};
  return tn_runtime_open(&options, runtime);
}

#define wanted(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) printf("%s: %s\n", #condition, tn_last_error()), mistakes++;                 \
  } while (0)

static void expect_mistakes(void (*body)(void)) {
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(120); /* where it hangs */
    body();
    fflush(stdout);
    _exit(mistakes ? 1 : 0);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

static void find_no_driver(void) {
  tn_runtime *runtime = NULL;
  tn_device *device = NULL;
  tn_plugin_info info = {.struct_size = sizeof info};
  wanted(open_driver("hangs", &runtime) == TN_ERR_NOT_FOUND);
  wanted(strstr(tn_last_error(), "before this process was forked"));
  wanted(open_driver(NULL, &runtime) == TN_OK);
  wanted(tn_device_find(runtime, "hangs", &device) == TN_ERR_NOT_FOUND);
  wanted(strstr(tn_last_error(), "before this process was forked"));
  wanted(tn_device_find(runtime, "sim", &device) == TN_OK);
  for (size_t i = 0; tn_plugin_report(runtime, i, &info) == TN_OK; i++)
    if (strcmp(info.name, "hangs") == 0) wanted(info.taken && strstr(info.reason, "forked"));
  tn_runtime_close(runtime);
}

static void find_driver(void) {
  tn_runtime *runtime = NULL;
  wanted(open_driver("hangs", &runtime) == TN_OK);
  tn_runtime_close(runtime);
}

START_TEST(a_driver_is_left_to_the_parent) {
  tn_runtime *runtime = NULL;
  ok(open_driver(NULL, &runtime));
  expect_mistakes(find_no_driver);
  tn_runtime_close(runtime);
  expect_mistakes(find_no_driver); /* closing does not end a driver */
  find_driver();
  ck_assert_int_eq(mistakes, 0);
}
END_TEST

static void find_driver_first(void) {
  find_driver();
  expect_mistakes(find_no_driver);
}

START_TEST(a_driver_that_nobody_asked_is_the_childs) {
  tn_runtime *runtime = NULL;
  ok(open_driver("reference", &runtime));
  expect_mistakes(find_driver_first);
  expect_mistakes(find_driver_first);
  tn_runtime_close(runtime);
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_test(tc, a_child_is_told);
  tcase_add_test(tc, a_driver_is_left_to_the_parent);
  tcase_add_test(tc, a_driver_that_nobody_asked_is_the_childs);
}

int main(void) { return run_suite("fork", add_tests); }
