/*
 * The template of backends (plugins/template/) as a host sees it: memory that the host cannot
 * read, queues that run by themselves, events, pinned memory, shortage, failures that come to
 * light later, and a chip that is lost. What its kernels compute is tenon check's business.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

static tn_runtime *rt;
static tn_device *dev;

static tn_runtime *open_template(const char *device) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = device,
                                .plugin_path = TEMPLATE_PLUGIN,
                                .fallback = TN_FALLBACK_ALLOW};
  return open_runtime(&options);
}
static void setup(void) { rt = open_template("sim"), dev = tn_runtime_device(rt); }
static void teardown(void) { tn_runtime_close(rt); }

static void expect(const tn_tensor *t, int count, const float *values) {
  float got[16];
  ok(tn_tensor_to_host(t, got, (size_t)count * sizeof *got));
  for (int i = 0; i < count; ++i)
    ck_assert_msg(got[i] == values[i], "element %d is %g, not %g", i, got[i], values[i]);
}
#define EXPECT(t, ...)                                                                             \
  expect(t, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})

/* A tensor whose memory is not the chip's. */
static tn_tensor *astray(DLManagedTensorVersioned *m, int64_t *size, int device) {
  *m = (DLManagedTensorVersioned){.version = {1, 0},
                                  .dl_tensor = {.data = (void *)(uintptr_t)0x1000,
                                                .device = {kDLExtDev, device},
                                                .ndim = 1,
                                                .dtype = {kDLFloat, 32, 1},
                                                .shape = size}};
  tn_tensor *t = NULL;
  ok(tn_tensor_from_dlpack(rt, m, &t));
  return t;
}

/* Work that takes the chip a while. */
static void keep_busy(tn_stream *stream, tn_tensor **y) {
  tn_tensor *x = NULL;
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = 1;
  ok(tn_tensor_empty_on(dev, stream, TN_F32, 2, SHAPE(160, 160), &x));
  ok(tn_fill(stream, x, &fill));
  ok(tn_matmul(stream, x, x, NULL, NULL, y));
  tn_tensor_release(x);
}

START_TEST(the_host_cannot_read_its_memory) {
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(dev, &info));
  ck_assert_str_eq(info.id, "sim:0");
  ck_assert_uint_eq(info.host_memory, 0);
  tn_tensor *x = counting(dev, 4);
  const float *data = tn_tensor_data(x);
  ck_assert_ptr_nonnull(data);
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    fclose(stderr); /* a sanitizer would have a lot to say */
    float value = *(const volatile float *)data;
    _exit(value != value); /* it can be read */
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(!WIFEXITED(status) || WEXITSTATUS(status) != 0, "the host read device memory");
  EXPECT(x, 1, 2, 3, 4);
  tn_tensor_release(x);
}
END_TEST

START_TEST(work_goes_on_after_the_call) {
  tn_stream *s = NULL;
  tn_event *begin = NULL, *end = NULL;
  bool pending = false;
  ok(tn_stream_create(dev, &s));
  ok(tn_event_create(dev, &begin));
  ok(tn_event_create(dev, &end));
  for (int i = 0; i < 50 && !pending; ++i) { /* a busy machine may let the chip win */
    tn_tensor *y = NULL;
    ok(tn_event_record(begin, s));
    keep_busy(s, &y);
    ok(tn_event_record(end, s));
    tn_status status = tn_event_query(end);
    ck_assert(status == TN_OK || status == TN_ERR_NOT_READY);
    pending = status == TN_ERR_NOT_READY;
    ok(tn_event_synchronize(end));
    ok(tn_event_query(end));
    tn_tensor_release(y);
  }
  ck_assert(pending);
  uint64_t ns = 0;
  ok(tn_event_elapsed(begin, end, &ns));
  ck_assert_uint_gt(ns, 1000);
  tn_event_destroy(begin);
  tn_event_destroy(end);
  tn_stream_destroy(s);
}
END_TEST

START_TEST(events_order_streams) {
  tn_stream *a = NULL, *b = NULL;
  tn_event *made = NULL;
  ok(tn_stream_create(dev, &a));
  ok(tn_stream_create(dev, &b));
  ok(tn_event_create(dev, &made));
  for (int i = 0; i < 3; ++i) {
    tn_tensor *y = NULL, *z = NULL, *corner = NULL;
    keep_busy(a, &y);
    ok(tn_event_record(made, a));
    ok(tn_stream_wait_event(b, made));
    ok(tn_event_record(made, b)); /* b waits for the point in a all the same */
    ok(tn_add(b, y, y, &z));
    tn_tensor_release(y);
    ok(tn_tensor_slice(z, 1, 0, 1, 1, &corner));
    float got[160];
    ok(tn_tensor_to_host(corner, got, sizeof got));
    ck_assert_float_eq(got[0], 320);
    ck_assert_float_eq(got[159], 320);
    tn_tensor_release(corner);
    tn_tensor_release(z);
  }
  tn_event_destroy(made);
  tn_stream_destroy(a);
  tn_stream_destroy(b);
}
END_TEST

START_TEST(events_order_devices) {
  tn_device *other = NULL;
  tn_event *made = NULL;
  tn_tensor *y = NULL, *there = NULL;
  ok(tn_device_find(rt, "sim:1", &other));
  ok(tn_event_create(dev, &made));
  keep_busy(NULL, &y);
  ok(tn_event_record(made, NULL));
  ok(tn_stream_wait_event(tn_device_default_stream(other), made));
  ok(tn_stream_synchronize(tn_device_default_stream(other)));
  ok(tn_event_query(made));
  tn_tensor *x = counting(dev, 3);
  ok(tn_tensor_to_device(x, other, &there));
  EXPECT(there, 1, 2, 3);
  tn_tensor_release(there);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_event_destroy(made);
}
END_TEST

START_TEST(pinned_memory_is_used_later) {
  enum { COUNT = 100000 };
  tn_stream *s = NULL;
  tn_tensor *x = NULL;
  void *memory = NULL;
  ok(tn_stream_create(dev, &s));
  ok(tn_pinned_alloc(dev, 2 * COUNT * sizeof(float), &memory));
  float *in = memory, *out = in + COUNT;
  for (int i = 0; i < COUNT; ++i) in[i] = (float)i;
  ok(tn_tensor_empty_on(dev, s, TN_F32, 1, SHAPE(COUNT), &x));
  ok(tn_tensor_write(s, x, in, COUNT * sizeof *in));
  ok(tn_add(s, x, x, &x));
  ok(tn_tensor_read(s, x, out, COUNT * sizeof *out));
  ok(tn_stream_synchronize(s));
  for (int i = 0; i < COUNT; ++i) ck_assert_float_eq(out[i], 2 * (float)i);
  tn_tensor_release(x);
  tn_pinned_free(dev, memory);
  tn_stream_destroy(s);
}
END_TEST

START_TEST(pageable_memory_may_be_reused_at_once) {
  const int64_t sizes[] = {100, 100000}; /* taken along, waited for */
  for (int k = 0; k < 2; ++k) {
    size_t bytes = (size_t)sizes[k] * sizeof(float);
    float *values = malloc(bytes), *got = malloc(bytes);
    tn_tensor *y = NULL, *x = shaped(dev, TN_F32, 1, &sizes[k]);
    keep_busy(NULL, &y);
    for (int64_t i = 0; i < sizes[k]; ++i) values[i] = (float)i;
    ok(tn_tensor_write(NULL, x, values, bytes));
    memset(values, 0xff, bytes);
    ok(tn_tensor_to_host(x, got, bytes));
    for (int64_t i = 0; i < sizes[k]; ++i) ck_assert_float_eq(got[i], (float)i);
    tn_tensor_release(x);
    tn_tensor_release(y);
    free(values);
    free(got);
  }
}
END_TEST

START_TEST(a_full_device_says_so_and_goes_on) {
  enum { MIB = 1 << 20, MOST = 16 };
  tn_tensor *taken[MOST] = {NULL}, *x = NULL;
  int count = 0;
  tn_status status = TN_OK;
  refused(tn_tensor_empty(dev, TN_U8, 1, SHAPE((int64_t)1 << 40), &x), TN_ERR_DEVICE_OUT_OF_MEMORY,
          "the chip has no memory left");
  while (!status && count < MOST) {
    status = tn_tensor_empty(dev, TN_U8, 1, SHAPE(48 * MIB), &taken[count]);
    count += !status;
  }
  ck_assert_int_eq(status, TN_ERR_DEVICE_OUT_OF_MEMORY);
  ck_assert_int_eq(count, 5); /* of 256 MiB */
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(dev, &info));
  ck_assert_uint_eq(info.memory_bytes, 256 * (uint64_t)MIB);
  ck_assert_uint_lt(info.memory_free_bytes, 48 * MIB);
  for (int i = 0; i < count; ++i) tn_tensor_release(taken[i]);
  x = shaped(dev, TN_U8, 1, SHAPE(200 * MIB));
  tn_tensor_release(x);
}
END_TEST

START_TEST(failures_come_to_light_and_pass) {
  DLManagedTensorVersioned managed;
  int64_t size = 4;
  tn_stream *s = NULL, *other = NULL;
  tn_event *after = NULL;
  tn_tensor *bad = astray(&managed, &size, 0), *x = counting(dev, 4), *y = NULL, *z = NULL;
  ok(tn_stream_create(dev, &s));
  ok(tn_stream_create(dev, &other));
  ok(tn_event_create(dev, &after));
  ok(tn_stream_synchronize(tn_device_default_stream(dev))); /* x was written on it */
  ok(tn_add(s, bad, x, &y));                                /* the chip finds out later */
  ok(tn_event_record(after, s));
  refused(tn_event_synchronize(after), TN_ERR_BACKEND, "left the chip's memory");
  refused(tn_add(s, x, x, &z), TN_ERR_BACKEND, "sim.add: a program left the chip's memory");
  ck_assert_ptr_null(z);
  ok(tn_stream_wait_event(other, after)); /* whoever waits for the event has nothing, too */
  refused(tn_stream_synchronize(other), TN_ERR_BACKEND, "left the chip's memory");
  refused(tn_stream_synchronize(s), TN_ERR_BACKEND, "left the chip's memory");
  ok(tn_stream_synchronize(s)); /* said once */
  ok(tn_add(s, x, x, &y));
  EXPECT(y, 2, 4, 6, 8);
  tn_event_destroy(after);
  tn_stream_destroy(s);
  tn_stream_destroy(other);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_tensor_release(bad);
}
END_TEST

START_TEST(a_lost_chip_stays_lost_and_others_go_on) {
  DLManagedTensorVersioned managed;
  int64_t size = 4;
  float values[4];
  tn_tensor *bad = astray(&managed, &size, 0), *x = counting(dev, 4), *y = NULL;
  tn_event *e = NULL;
  tn_device *other = NULL;
  ok(tn_event_create(dev, &e));
  keep_busy(NULL, &y);
  ok(tn_event_record(e, NULL));
  refused(tn_tensor_to_host(bad, values, sizeof values), TN_ERR_DEVICE_LOST, "the chip is lost");
  refused(tn_add(NULL, x, x, &y), TN_ERR_DEVICE_LOST, "lost");
  refused(tn_event_synchronize(e), TN_ERR_DEVICE_LOST, "lost");
  refused(tn_device_synchronize(dev), TN_ERR_DEVICE_LOST, "lost");
  ok(tn_device_find(rt, "sim:1", &other));
  tn_tensor *z = counting(other, 2), *w = NULL;
  ok(tn_add(NULL, z, z, &w));
  EXPECT(w, 2, 4);
  tn_event_destroy(e);
  tn_tensor_release(w);
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_tensor_release(bad);
}
END_TEST

START_TEST(what_it_lacks_runs_elsewhere) {
  tn_tensor *x = NULL, *y = NULL;
  const float values[4] = {-1, 2, -3, 4}, unit[4] = {1, 0, 0, 1};
  tn_fallback_stats stats = {.struct_size = sizeof stats};
  ok(tn_tensor_from_host(dev, TN_F32, 2, SHAPE(2, 2), values, &x));
  tn_tensor *one = NULL;
  ok(tn_tensor_from_host(dev, TN_F32, 2, SHAPE(2, 2), unit, &one));
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  attrs.activation = TN_ACTIVATION_RELU;
  ok(tn_matmul(NULL, x, one, NULL, &attrs, &y));
  EXPECT(y, 0, 2, 0, 4);
  ok(tn_fallback_get_stats(dev, TN_OP_MATMUL, &stats));
  ck_assert_uint_eq(stats.calls, 0);
  attrs.activation = TN_ACTIVATION_GELU; /* which `supports` refuses */
  ok(tn_matmul(NULL, x, one, NULL, &attrs, &y));
  ok(tn_fallback_get_stats(dev, TN_OP_MATMUL, &stats));
  ck_assert_uint_eq(stats.calls, 1);
  ok(tn_abs(NULL, x, &y));
  EXPECT(y, 1, 2, 3, 4);
  tn_tensor_release(one);
  tn_tensor_release(x);
  tn_tensor_release(y);
}
END_TEST

static void *add_often(void *failed) {
  for (int i = 0; i < 100; ++i) {
    tn_tensor *x = NULL, *y = NULL;
    float values[2] = {(float)i, 1}, got[2] = {0};
    bool good = !tn_tensor_from_host(dev, TN_F32, 1, SHAPE(2), values, &x) &&
                !tn_add(NULL, x, x, &y) && !tn_tensor_to_host(y, got, sizeof got) &&
                got[0] == 2 * (float)i && got[1] == 2;
    tn_tensor_release(x);
    tn_tensor_release(y);
    if (!good) *(bool *)failed = true;
  }
  return NULL;
}

START_TEST(threads_share_the_default_stream) {
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  bool failed[THREADS] = {false};
  for (int i = 0; i < THREADS; ++i)
    ck_assert_int_eq(pthread_create(&thread[i], NULL, add_often, &failed[i]), 0);
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(thread[i], NULL);
    ck_assert(!failed[i]);
  }
}
END_TEST

static int count_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  while (tasks && readdir(tasks)) ++count;
  if (tasks) closedir(tasks);
  return count;
}

/* Runtimes side by side share nothing; a closed one leaves no thread behind, with work still
 * in its queues and tensors alive. */
START_TEST(runtimes_come_and_go) {
  int threads = 0;
  for (int i = 0; i < 10; ++i) {
    tn_runtime *second = open_template("sim");
    tn_device *device = tn_runtime_device(second);
    tn_tensor *x = counting(device, 8), *y = NULL;
    for (int k = 0; k < 20; ++k) ok(tn_add(NULL, x, x, &y));
    tn_tensor_release(x);
    tn_runtime_close(second);
    tn_tensor_release(y);
    if (i == 0) threads = count_threads();
    ck_assert_int_eq(count_threads(), threads);
  }
  tn_tensor *x = counting(dev, 2);
  EXPECT(x, 1, 2);
  tn_tensor_release(x);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, the_host_cannot_read_its_memory);
  tcase_add_test(t, work_goes_on_after_the_call);
  tcase_add_test(t, events_order_streams);
  tcase_add_test(t, events_order_devices);
  tcase_add_test(t, pinned_memory_is_used_later);
  tcase_add_test(t, pageable_memory_may_be_reused_at_once);
  tcase_add_test(t, a_full_device_says_so_and_goes_on);
  tcase_add_test(t, failures_come_to_light_and_pass);
  tcase_add_test(t, a_lost_chip_stays_lost_and_others_go_on);
  tcase_add_test(t, what_it_lacks_runs_elsewhere);
  tcase_add_test(t, threads_share_the_default_stream);
  tcase_add_test(t, runtimes_come_and_go);
}

int main(void) { return run_suite("template", add_tests); }
