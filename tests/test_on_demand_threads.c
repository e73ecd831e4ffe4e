/* Plugins that are loaded when needed, where callbacks and other threads look on. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "on_demand_support.h"
#include "scratch.h"

typedef struct caller {
  _Atomic(tn_runtime *) runtime;
  _Atomic int lines;
} caller;

/* Whatever a host may want to know when it hears of a plugin. */
static void curious_log(void *user, tn_log_level level, const char *line) {
  caller *c = user;
  tn_runtime *runtime = atomic_load(&c->runtime);
  (void)level, (void)line;
  atomic_fetch_add(&c->lines, 1);
  if (!runtime) return;
  tn_plugin_info plugin = {.struct_size = sizeof plugin};
  tn_kernel_row row = {.struct_size = sizeof row};
  tn_layer_info layer = {.struct_size = sizeof layer};
  tn_duplicate_library twice = {.struct_size = sizeof twice};
  tn_device *device;
  (void)tn_plugin_report(runtime, 0, &plugin);
  (void)tn_kernel_at(runtime, 0, &row);
  (void)tn_layer_at(runtime, 0, &layer);
  (void)tn_duplicate_library_at(runtime, 0, &twice);
  (void)tn_device_find(runtime, "nowhere", &device);
  (void)tn_runtime_unload_plugin(runtime, "good");
  if (tn_device_count(runtime)) (void)tn_device_synchronize(tn_device_at(runtime, 0));
}

START_TEST(a_log_callback_may_call_anything) {
  caller c = {NULL, 0};
  tn_runtime_options o = options_for("reference");
  o.log = curious_log;
  o.log_user = &c;
  o.log_level = 1 + TN_LOG_DEBUG;
  o.num_threads = 4; /* the fixtures log from all of them while they are loaded */
  tn_runtime *runtime = open_runtime(&o);
  atomic_store(&c.runtime, runtime);
  ok(tn_runtime_load_plugin(runtime, FIXTURE("good")));
  refused(tn_runtime_load_plugin(runtime, FIXTURE("declines")), TN_ERR_PLUGIN_REFUSED, "flux");
  tn_device *device;
  ok(tn_device_find(runtime, "waits", &device));
  tn_tensor_release(counting(device, 3));
  ck_assert_int_gt(atomic_load(&c.lines), 4);
  atomic_store(&c.runtime, NULL);
  tn_runtime_close(runtime);
}
END_TEST

typedef struct search {
  tn_runtime *runtime;
  _Atomic bool stop;
} search;

static void *search_devices(void *ctx) {
  search *s = ctx;
  tn_device *device;
  tn_plugin_info info = {.struct_size = sizeof info};
  while (!atomic_load(&s->stop)) {
    ck_assert_int_eq(tn_device_find(s->runtime, "nowhere", &device), TN_ERR_NOT_FOUND);
    for (size_t i = 0; tn_plugin_report(s->runtime, i, &info) == TN_OK; i++)
      ck_assert_uint_lt(strlen(info.reason), 2048);
  }
  return NULL;
}

/* The records of plugins grow while others walk over them. */
START_TEST(searches_go_on_while_plugins_are_refused) {
  char path[256];
  search s = {.runtime = open_naming("reference")};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, search_devices, &s);
  for (int i = 0; i < 300; i++) {
    snprintf(path, sizeof path, "/nonexistent/libtenon-%d.so", i);
    refused(tn_runtime_load_plugin(s.runtime, path), TN_ERR_PLUGIN_REFUSED, path);
  }
  atomic_store(&s.stop, true);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  tn_runtime_close(s.runtime);
}
END_TEST

/* Several threads may be the first to need what waits. */
static void *count_devices(void *ctx) { return (void *)(uintptr_t)tn_device_count(ctx); }

START_TEST(all_threads_see_all_devices) {
  for (int round = 0; round < 20; round++) {
    tn_runtime *runtime = open_naming("reference");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, count_devices, runtime);
    for (int i = 0; i < 4; i++) {
      void *count;
      pthread_join(threads[i], &count);
      ck_assert_uint_eq((uintptr_t)count, 4);
    }
    tn_runtime_close(runtime);
  }
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_test(t, a_log_callback_may_call_anything);
  tcase_add_test(t, searches_go_on_while_plugins_are_refused);
  tcase_add_test(t, all_threads_see_all_devices);
}

int main(void) { return run_suite("on_demand_threads", add_tests); }
