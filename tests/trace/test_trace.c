/*
 * Tests of the layer trace through the public door: what its file holds is read back and held
 * against what the test did. What becomes of the file itself is test_files.c's.
 */
#include <pthread.h>

#include "tests/trace/tracing.h"

/* --- what the slices of a call say --- */

START_TEST(calls_are_slices) {
  char site[32], name[128], plugin[64], id[64];
  trace_into("t.json");
  tn_runtime *runtime = open_tracing(ON_HOST);
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *a = counting(device, 5), *b = counting(device, 1);
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  ok(tn_kernel_find(device, TN_OP_ADD, TN_F32, 0, &kernel));
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(device, &info));
  snprintf(id, sizeof id, "%s", info.id);
  snprintf(name, sizeof name, "%s", kernel.name);
  snprintf(plugin, sizeof plugin, "%s", kernel.plugin);
  for (int i = 0; i < 100; ++i) {
    tn_tensor *y = NULL;
    snprintf(site, sizeof site, "step %d", i);
    tn_call_site(site);
    ok(tn_add(NULL, a, b, &y));
    tn_tensor_release(y);
  }
  tn_call_site(NULL);
  tn_tensor_release(a);
  tn_tensor_release(b);
  tn_runtime_close(runtime);

  value *v = read_trace("t.json");
  ck_assert_uint_eq(events_count(v, "op", "add"), 100);
  ck_assert_uint_eq(events_count(v, "op", NULL), 100);
  ck_assert_uint_eq(events_count(v, "kernel", name), 100);
  const value *e = event_at(v, "op", "add", 41), *k = event_at(v, "kernel", name, 41);
  ck_assert_str_eq(event_arg(e, "kernel"), name);
  ck_assert_str_eq(event_arg(e, "plugin"), plugin);
  ck_assert_str_eq(event_arg(e, "device"), id);
  ck_assert_str_eq(event_arg(e, "in"), "f32[5] f32[5](0)");
  ck_assert_str_eq(event_arg(e, "out"), "f32[5]");
  ck_assert_str_eq(event_arg(e, "site"), "step 41");
  /* The one element that was broadcast is read once. */
  ck_assert_double_eq(tree_number(tree_member(e, "args"), "bytes", 0), 4 * (5 + 1 + 5));
  ck_assert_double_eq(tree_number(e, "pid", 0), getpid());
  ck_assert_double_eq(event_begin(e), event_begin(k));
  ck_assert_double_eq(length_of(e), length_of(k));
  assert_nested(v);
  tree_free(v);
}
END_TEST

START_TEST(attributes_other_than_the_defaults_are_shown) {
  trace_into("t.json");
  tn_runtime *runtime = open_tracing(ON_HOST);
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x = shaped(device, TN_F32, 4, SHAPE(2, 3, 8, 8)), *y = NULL, *z = NULL;
  tn_sum_attrs sum = TN_SUM_DEFAULTS;
  sum.axes = (tn_axes){2, {1, -1}};
  sum.keepdims = 1;
  tn_max_pool2d_attrs pool = TN_MAX_POOL2D_DEFAULTS;
  pool.kernel[1] = 4;
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  ok(tn_fill(NULL, x, &fill));
  ok(tn_sum(NULL, x, &sum, &y));
  ok(tn_max_pool2d(NULL, x, &pool, &z, NULL));
  tn_tensor_release(y);
  y = NULL;
  ok(tn_softmax(NULL, x, NULL, &y)); /* along the last axis */
  ok(tn_softmax(NULL, x, &(tn_softmax_attrs){sizeof(tn_softmax_attrs), -4}, &y));
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(z);
  tn_runtime_close(runtime);
  value *v = read_trace("t.json");
  ck_assert_str_eq(event_arg(event_at(v, "op", "sum", 0), "attrs"), "axes=[1,3] keepdims=1");
  ck_assert_str_eq(event_arg(event_at(v, "op", "softmax", 0), "attrs"), "(none)");
  ck_assert_str_eq(event_arg(event_at(v, "op", "softmax", 1), "attrs"), "axis=0");
  ck_assert_str_eq(event_arg(event_at(v, "op", "max_pool2d", 0), "attrs"), "kernel=2,4");
  ck_assert_str_eq(event_arg(event_at(v, "op", "fill", 0), "attrs"), "(none)");
  tree_free(v);
}
END_TEST

/* What does not fit is counted; what is there is whole. */
START_TEST(long_lists_and_odd_sites_fit) {
  enum { TENSORS = 300 };
  char odd[3000] = "quote \" back \\ tab \t bell \a line \n bad \xff\xc0\x80 good \xc3\xa4 ";
  memset(odd + strlen(odd), '"', 2500);
  trace_into("t.json");
  tn_runtime *runtime = open_tracing(ON_HOST);
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x[TENSORS], *y = NULL;
  for (int i = 0; i < TENSORS; ++i) x[i] = counting(device, 3);
  tn_call_site(odd);
  ok(tn_concat(NULL, x, TENSORS, &(tn_concat_attrs)TN_CONCAT_DEFAULTS, &y));
  tn_call_site(NULL);
  for (int i = 0; i < TENSORS; ++i) tn_tensor_release(x[i]);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
  value *v = read_trace("t.json");
  const value *e = event_at(v, "op", "concat", 0);
  const char *in = event_arg(e, "in"), *site = event_arg(e, "site"), *more = strstr(in, " more");
  ck_assert_msg(more && !more[5] && atoi(strrchr(in, ']') + 1) > 100, "%s", in);
  const char *begin = "quote \" back \\ tab \t bell \a line \n bad "
                      "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd good \xc3\xa4 \"\"";
  ck_assert_msg(strncmp(site, begin, strlen(begin)) == 0, "%s", site);
  ck_assert_str_eq(event_arg(e, "out"), "f32[900]");
  ck_assert_double_eq(tree_number(tree_member(e, "args"), "bytes", 0), 2 * 900 * 4);
  tree_free(v);
}
END_TEST

START_TEST(a_call_that_fails_has_no_slice_of_the_device) {
  trace_into("t.json");
  tn_runtime *runtime = open_tracing("pace");
  tn_tensor *a = counting(tn_runtime_device(runtime), 2), *y = NULL;
  refused(tn_sqrt(NULL, a, &y), TN_ERR_BACKEND, "always fails");
  ok(tn_add(NULL, a, a, &y));
  tn_tensor_release(y);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  value *v = read_trace("t.json");
  const value *e = event_at(v, "op", "sqrt", 0);
  ck_assert_double_eq(tree_number(tree_member(e, "args"), "failed", 0), TN_ERR_BACKEND);
  ck_assert_uint_eq(events_count(v, "kernel", "pace.sqrt"), 0);
  ck_assert_uint_eq(events_count(v, "kernel", "pace.add"), 1);
  tree_free(v);
}
END_TEST

/* --- devices beside the host --- */

/* Microseconds in which kernels of different streams ran at once. */
static double overlap(const value *v) {
  double sum = 0;
  for (size_t i = 0; i < events_count(v, "kernel", NULL); ++i)
    for (size_t j = 0; j < i; ++j) {
      const value *a = event_at(v, "kernel", NULL, i), *b = event_at(v, "kernel", NULL, j);
      if (tree_number(a, "tid", 0) == tree_number(b, "tid", 0)) continue;
      sum += fmax(0, fmin(event_end(a), event_end(b)) - fmax(event_begin(a), event_begin(b)));
    }
  return sum;
}

/* Two streams work at once for as long as their elements say; the host only hands out. */
START_TEST(streams_overlap_by_the_devices_clock) {
  enum { CALLS = 20, ELEMENTS = 1000, US = ELEMENTS };
  trace_into("t.json");
  tn_runtime *runtime = open_tracing("pace");
  tn_device *device = tn_runtime_device(runtime);
  tn_stream *streams[2];
  tn_tensor *a = counting(device, ELEMENTS), *kept[2][CALLS] = {{NULL}};
  for (int s = 0; s < 2; ++s) ok(tn_stream_create(device, &streams[s]));
  for (int i = 0; i < CALLS; ++i)
    for (int s = 0; s < 2; ++s) ok(tn_add(streams[s], a, a, &kept[s][i]));
  ok(tn_device_synchronize(device));
  for (int i = 0; i < 2 * CALLS; ++i) tn_tensor_release(kept[i % 2][i / 2]);
  tn_tensor_release(a);
  for (int s = 0; s < 2; ++s) tn_stream_destroy(streams[s]);
  tn_runtime_close(runtime);

  value *v = read_trace("t.json");
  ck_assert_uint_eq(events_count(v, "kernel", "pace.add"), 2 * CALLS);
  size_t exact = 0;
  for (size_t i = 0; i < 2 * CALLS; ++i) {
    const value *k = event_at(v, "kernel", "pace.add", i);
    ck_assert(length_of(k) > US - 50); /* the clocks are tied that well at the worst */
    exact += fabs(length_of(k) - US) < 0.01;
    const char *id = tree_text(k, "bind_id", "");
    const value *call = event_at(v, "op", "add", (uint32_t)strtoull(id, NULL, 10) - 1);
    ck_assert_str_eq(tree_text(call, "bind_id", "?"), id);
    ck_assert(event_begin(call) <= event_begin(k) + 0.001);
  }
  assert_nested(v);
  ck_assert_uint_ge(exact, CALLS); /* an idle device's time counts from the call on */
  /* Far more than happens by chance; a busy machine may keep the host from handing out. */
  ck_assert_msg(overlap(v) > 0.25 * CALLS * US, "%g us", overlap(v));
  tree_free(v);
}
END_TEST

static void *add_on_default_stream(void *tensor) {
  for (int i = 0; i < 500; ++i) add_once(NULL, tensor);
  return NULL;
}

/* Threads that share a stream mix their events; the slices must not cross for it. */
START_TEST(threads_share_a_stream) {
  trace_into("t.json");
  tn_runtime *runtime = open_tracing("pace");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *a = counting(device, 10);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, add_on_default_stream, a);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  ok(tn_device_synchronize(device));
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  value *v = read_trace("t.json");
  ck_assert_uint_eq(events_count(v, "op", "add"), 1500);
  ck_assert_uint_eq(events_count(v, "kernel", "pace.add"), 1500);
  assert_nested(v);
  tree_free(v);
}
END_TEST

/* The host runs far ahead of the device: times are collected on the way. */
START_TEST(many_calls_are_pending) {
  enum { CALLS = 20000 };
  trace_into("t.json");
  tn_runtime *runtime = open_tracing("pace");
  tn_tensor *a = counting(tn_runtime_device(runtime), 20), *y = NULL;
  ok(tn_add(NULL, a, a, &y));
  for (int i = 1; i < CALLS; ++i) ok(tn_add(NULL, a, a, &y));
  tn_tensor_release(a);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
  value *v = read_trace("t.json");
  ck_assert_uint_eq(events_count(v, "kernel", "pace.add"), CALLS);
  double busy = events_length(v, "kernel", NULL),
         first = event_begin(event_at(v, "kernel", NULL, 0));
  ck_assert(busy > 20.0 * CALLS * 0.99999);
  ck_assert(busy <= event_end(event_at(v, "kernel", NULL, CALLS - 1)) - first + CALLS * 0.001);
  assert_nested(v);
  tree_free(v);
}
END_TEST

/* --- what happens beside calls --- */

static bool is_counter(const value *e, double pid) {
  return strcmp(tree_text(e, "ph", ""), "C") == 0 && tree_number(e, "pid", 0) == pid;
}

START_TEST(copies_waits_and_memory_are_there) {
  trace_into("t.json");
  tn_runtime *runtime = open_tracing("pace");
  tn_device *device = tn_runtime_device(runtime);
  tn_event *event;
  float values[500];
  ok(tn_event_create(device, &event));
  tn_tensor *a = counting(device, 500), *y = NULL, *view = NULL;
  ok(tn_tensor_reshape(a, 2, SHAPE(5, 100), &view));
  ok(tn_add(NULL, a, a, &y));
  ok(tn_event_record(event, NULL));
  ok(tn_event_synchronize(event));
  ok(tn_add(NULL, a, a, &y));
  ok(tn_device_synchronize(device));
  tn_call_site("the result");
  ok(tn_tensor_to_host(y, values, sizeof values));
  tn_call_site(NULL);
  tn_tensor_release(y);
  tn_tensor_release(a);
  tn_tensor_release(view);
  tn_event_destroy(event);
  tn_runtime_close(runtime);

  value *v = read_trace("t.json");
  const value *copy = event_at(v, "copy", "copy to pace:0", 0);
  ck_assert_double_eq(tree_number(tree_member(copy, "args"), "bytes", 0), 2000);
  copy = event_at(v, "copy", "copy from pace:0", 0);
  ck_assert_str_eq(event_arg(copy, "tensor"), "f32[500]");
  ck_assert_str_eq(event_arg(copy, "site"), "the result");
  const value *kernels[] = {event_at(v, "kernel", NULL, 0), event_at(v, "kernel", NULL, 1)};
  const value *waits[] = {event_at(v, "wait", "wait for an event of pace:0", 0),
                          event_at(v, "wait", "wait for a stream of pace:0", 0)};
  /* What was waited for had ended when the wait ended, to within how well the clocks are tied. */
  for (int i = 0; i < 2; ++i) ck_assert(event_end(waits[i]) >= event_end(kernels[i]) - 100);
  double pid = tree_number(kernels[0], "pid", 0), most = 0, last = -1;
  for (const value *e = v->first; e; e = e->next) {
    if (!is_counter(e, pid)) continue;
    last = tree_number(tree_member(e, "args"), "bytes", NAN);
    most = fmax(most, last);
  }
  ck_assert_double_eq(most, 4000);
  ck_assert_double_eq(last, 0);
  tree_free(v);
}
END_TEST

/* What runs elsewhere says for whom. */
START_TEST(fallback_runs_are_visible) {
  trace_into("t.json");
  setenv("TENON_TRACE_SUMMARY", scratch_path("table"), 1);
  tn_runtime *runtime = open_tracing("pace");
  tn_tensor *a = counting(tn_runtime_device(runtime), 4), *y = NULL;
  ok(tn_mul(NULL, a, a, &y));
  add_once(NULL, a);
  tn_tensor_release(a);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
  value *v = read_trace("t.json");
  ck_assert_uint_eq(events_count(v, "fallback", NULL), 1);
  const value *e = event_at(v, "fallback", "mul", 0);
  ck_assert_str_eq(event_arg(e, "fallback_from"), "pace:0");
  ck_assert_str_ne(event_arg(e, "device"), "pace:0");
  ck_assert_uint_eq(events_count(v, "op", "add"), 1);
  ck_assert_uint_ge(events_count(v, "copy", "copy from pace:0"), 1);
  ck_assert_str_eq(event_arg(event_at(v, "copy", "copy from pace:0", 0), "stand_in_for"), "mul");
  tree_free(v);
  size_t size;
  char *table = (char *)read_file(scratch_path("table"), &size);
  table[size - 1] = 0;
  ck_assert_msg(strstr(table, " for pace:0 "), "%s", table);
  free(table);
}
END_TEST

/* --- copies of Tenon's own --- */

static size_t count_for(const value *v, const char *call) {
  size_t count = 0;
  for (size_t i = 0; i < events_count(v, "stand-in", "copy"); ++i)
    count += !strcmp(event_arg(event_at(v, "stand-in", "copy", i), "stand_in_for"), call);
  return count;
}

/* add of pace wants row-major tensors: both copies that it needs say so, with the strides that
 * are to blame, and the copy that the program makes does not. */
START_TEST(stand_ins_are_told_from_the_programs_copies) {
  trace_into("t.json");
  setenv("TENON_TRACE_SUMMARY", scratch_path("table"), 1);
  tn_runtime *runtime = open_tracing("pace");
  float values[6];
  tn_tensor *a = shaped(tn_runtime_device(runtime), TN_F32, 2, SHAPE(2, 3)), *turned, *y = NULL;
  ok(tn_tensor_write(NULL, a, values, sizeof values));
  ok(tn_tensor_permute(a, (int32_t[]){1, 0}, &turned));
  ok(tn_add(NULL, turned, turned, &y));
  ok(tn_tensor_to_host(turned, values, sizeof values));
  tn_tensor_release(y);
  y = NULL;
  ok(tn_copy(NULL, turned, &y));
  tn_tensor_release(y);
  tn_tensor_release(turned);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  value *v = read_trace("t.json");
  ck_assert_uint_eq(count_for(v, "add"), 2);
  ck_assert_uint_eq(events_count(v, "stand-in", NULL), 3);
  ck_assert_uint_eq(events_count(v, "op", "copy"), 1);
  ck_assert_str_eq(event_arg(event_at(v, "stand-in", "copy", 0), "in"), "f32[3,2](1,3)");
  ck_assert_str_eq(event_arg(event_at(v, "op", "add", 0), "in"), "f32[3,2] f32[3,2]");
  ck_assert_ptr_null(
      tree_member(tree_member(event_at(v, "op", "copy", 0), "args"), "stand_in_for"));
  tree_free(v);
  size_t size;
  char *table = (char *)read_file(scratch_path("table"), &size);
  table[size - 1] = 0;
  ck_assert_msg(strstr(table, "\ncopy for add "), "%s", table);
  free(table);
}
END_TEST

/* --- threads --- */

enum { THREADS = 4, THREAD_CALLS = 3000 };

static void *add_many(void *tensor) {
  for (int i = 0; i < THREAD_CALLS; ++i) add_once(NULL, tensor);
  return NULL;
}

START_TEST(threads_call_at_once) {
  trace_into("t.json");
  tn_runtime *runtime = open_tracing(ON_HOST);
  tn_tensor *a = counting(tn_runtime_device(runtime), 16);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, add_many, a);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  value *v = read_trace("t.json");
  ck_assert_uint_eq(events_count(v, "op", "add"), THREADS * THREAD_CALLS);
  ck_assert_uint_eq(events_count(v, "kernel", NULL), THREADS * THREAD_CALLS);
  size_t named = 0;
  for (const value *e = v->first; e; e = e->next)
    named +=
        !strcmp(tree_text(e, "name", ""), "thread_name") && tree_number(e, "pid", 0) == getpid();
  ck_assert_uint_eq(named, THREADS + 1); /* and the one that made the tensor */
  assert_nested(v);
  tree_free(v);
}
END_TEST

/* --- the table --- */

START_TEST(the_table_sums_up) {
  trace_into("t.json");
  setenv("TENON_TRACE_SUMMARY", scratch_path("table"), 1);
  tn_runtime *runtime = open_tracing("pace");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *a = counting(device, 1000), *y = NULL;
  for (int i = 0; i < 30; ++i) add_once(NULL, a);
  (void)tn_sqrt(NULL, a, &y);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  size_t size;
  char *table = (char *)read_file(scratch_path("table"), &size);
  table[size - 1] = 0;
  ck_assert_msg(strstr(table, "31 calls in "), "%s", table);
  ck_assert_msg(strstr(table, "1 of them failed"), "%s", table);
  const char *line = strstr(table, "\nadd ");
  char kernel[64], place[64];
  unsigned long calls = 0;
  double host, busy, mean, most, megabytes, rate, share;
  ck_assert_ptr_nonnull(line);
  ck_assert_int_eq(sscanf(line, " add %63s %63s %lu %lf %lf %lf %lf %lf %lf %lf", kernel, place,
                          &calls, &host, &busy, &mean, &most, &megabytes, &rate, &share),
                   10);
  ck_assert_str_eq(kernel, "pace.add");
  ck_assert_str_eq(place, "pace:0");
  ck_assert_uint_eq(calls, 30);
  ck_assert(busy > 29.9 && most > 999);
  ck_assert_double_eq_tol(mean, busy / 30 * 1000, 0.1);
  ck_assert_double_eq_tol(megabytes, 30 * 0.012, 0.001); /* read twice, written once */
  ck_assert_double_eq_tol(rate, megabytes / busy, 0.006);
  ck_assert_double_eq_tol(share, 100, 0.1);
  free(table);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, scratch_make, scratch_remove);
  tcase_add_test(t, calls_are_slices);
  tcase_add_test(t, attributes_other_than_the_defaults_are_shown);
  tcase_add_test(t, long_lists_and_odd_sites_fit);
  tcase_add_test(t, a_call_that_fails_has_no_slice_of_the_device);
  tcase_add_test(t, streams_overlap_by_the_devices_clock);
  tcase_add_test(t, threads_share_a_stream);
  tcase_add_test(t, many_calls_are_pending);
  tcase_add_test(t, copies_waits_and_memory_are_there);
  tcase_add_test(t, fallback_runs_are_visible);
  tcase_add_test(t, stand_ins_are_told_from_the_programs_copies);
  tcase_add_test(t, threads_call_at_once);
  tcase_add_test(t, the_table_sums_up);
}

int main(void) { return run_suite("trace", add_tests); }
