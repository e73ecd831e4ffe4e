/*
 * The stream that a tensor was made on, once it is destroyed: functions that are not given a stream
 * then work on the device's default one, never on a stream that took the old one's place, and a
 * thread may destroy a stream while another reads what was made on it. On devices that work as late
 * as they may (fixtures/lazy.c) whoever waits for the wrong stream finds old values.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support.h"

static tn_runtime *rt;

static void setup(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = LAZY_PLUGIN ":" SIM_PLUGIN,
                                .plugins = "lazy,reference,sim",
                                .fallback = TN_FALLBACK_ALLOW};
  rt = open_runtime(&options);
}

static void teardown(void) { tn_runtime_close(rt); }

static tn_device *device_of(const char *type) {
  tn_device *d = NULL;
  ok(tn_device_find(rt, type, &d));
  return d;
}

static tn_stream *made_stream(tn_device *device) {
  tn_stream *s = NULL;
  ok(tn_stream_create(device, &s));
  return s;
}

enum { COUNT = 6, BYTES = COUNT * sizeof(float) };
static const float ones[COUNT] = {1, 1, 1, 1, 1, 1}, twos[COUNT] = {2, 2, 2, 2, 2, 2};

static tn_tensor *made_on(tn_device *device, tn_stream *stream, const float *values) {
  tn_tensor *t = NULL;
  ok(tn_tensor_empty_on(device, stream, TN_F32, 1, SHAPE(COUNT), &t));
  if (values) ok(tn_tensor_write(stream, t, values, BYTES));
  return t;
}

static void holds(const tn_tensor *t, const float *want) {
  float got[COUNT];
  ok(tn_tensor_to_host(t, got, sizeof got));
  ck_assert_mem_eq(got, want, sizeof got);
}

/* A tensor whose stream is gone, and another stream in its place, which the caller destroys. */
static tn_tensor *orphan(tn_device *device, tn_stream **replacement) {
  tn_stream *first = made_stream(device);
  tn_tensor *t = made_on(device, first, ones);
  tn_stream_destroy(first);
  *replacement = made_stream(device);
  return t;
}

static const char *const late[] = {"bare", "handle", "flat", "unified"};
enum { LATE = sizeof late / sizeof *late };

START_TEST(orphans_are_read_behind_the_default_stream) {
  tn_device *device = device_of(late[_i]);
  tn_stream *other;
  tn_tensor *t = orphan(device, &other), *copy = NULL, *view = NULL;
  ok(tn_tensor_write(NULL, t, twos, BYTES));
  holds(t, twos);
  ok(tn_tensor_write(NULL, t, ones, BYTES));
  ok(tn_tensor_slice(t, 0, 0, COUNT, 2, &view));
  float got[COUNT / 2];
  ok(tn_tensor_to_host(view, got, sizeof got));
  ck_assert_mem_eq(got, ones, sizeof got);
  ok(tn_tensor_write(NULL, t, twos, BYTES));
  ok(tn_tensor_to_device(t, device_of("reference"), &copy));
  holds(copy, twos);
  tn_tensor_release(t), tn_tensor_release(view), tn_tensor_release(copy);
  tn_stream_destroy(other);
}
END_TEST

START_TEST(orphans_are_looked_at_behind_the_default_stream) {
  tn_device *device = device_of("unified");
  tn_stream *other;
  tn_tensor *t = orphan(device, &other);
  DLManagedTensorVersioned *managed = NULL;
  ok(tn_tensor_write(NULL, t, twos, BYTES));
  ck_assert_mem_eq(tn_tensor_data(t), twos, BYTES);
  ok(tn_tensor_write(NULL, t, ones, BYTES));
  ok(tn_tensor_to_dlpack(t, &managed));
  ck_assert_mem_eq(managed->dl_tensor.data, ones, BYTES);
  managed->deleter(managed);
  ok(tn_tensor_write(NULL, t, twos, BYTES));
  ok(tn_tensor_to_dlpack_stream(t, NULL, TN_DLPACK_STREAM_NONE, &managed));
  ck_assert_mem_eq(managed->dl_tensor.data, twos, BYTES);
  managed->deleter(managed);
  tn_tensor_release(t);
  tn_stream_destroy(other);
}
END_TEST

START_TEST(imports_lose_their_stream_too) {
  tn_device *device = NULL;
  ok(tn_device_find_dlpack(rt, (DLDevice){kDLExtDev, 0}, &device));
  tn_stream *first = made_stream(device);
  tn_tensor *theirs = made_on(device, NULL, ones), *t = NULL;
  DLManagedTensorVersioned *managed = NULL;
  ok(tn_tensor_to_dlpack_stream(theirs, NULL, TN_DLPACK_STREAM_UNORDERED, &managed));
  ok(tn_tensor_from_dlpack_stream(rt, managed, first, TN_DLPACK_STREAM_NONE, &t));
  ok(tn_tensor_write(first, t, twos, BYTES));
  holds(t, twos);
  tn_stream_destroy(first);
  tn_stream *other = made_stream(device);
  ok(tn_tensor_write(NULL, t, ones, BYTES));
  holds(t, ones);
  tn_tensor_release(t), tn_tensor_release(theirs);
  tn_stream_destroy(other);
}
END_TEST

/* What is made anew in an orphan's memory is the new stream's. */
START_TEST(memory_that_is_used_again_has_a_stream_again) {
  tn_device *device = device_of(late[_i]);
  tn_stream *other;
  tn_tensor *t = orphan(device, &other);
  for (int i = 0; i < 3; i++) {
    tn_tensor_release(t);
    t = made_on(device, other, i % 2 ? ones : twos);
    holds(t, i % 2 ? ones : twos);
  }
  tn_stream_destroy(other);
  ok(tn_tensor_write(NULL, t, ones, BYTES));
  holds(t, ones);
  tn_tensor_release(t);
}
END_TEST

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 10000, SLOTS = 4 };

typedef struct exchange {
  tn_device *device;
  _Atomic(tn_tensor *) slots[SLOTS]; /* made on streams that may be going right now */
  _Atomic int wrong;
} exchange;

static void read_other(exchange *e, tn_tensor *t) {
  float got[COUNT];
  tn_tensor *copy = NULL;
  if (!t) return;
  if (tn_tensor_to_host(t, got, sizeof got) || memcmp(got, ones, sizeof got) != 0) e->wrong++;
  if (tn_tensor_to_device(t, e->device, &copy)) e->wrong++;
  if (copy && (tn_tensor_to_host(copy, got, sizeof got) || memcmp(got, ones, sizeof got) != 0))
    e->wrong++;
  tn_tensor_release(copy);
  tn_tensor_release(t);
}

/* Makes a tensor on a stream, hands it out, and destroys the stream while others read. */
static void *come_and_go(void *arg) {
  exchange *e = arg;
  for (int i = 0; i < ROUNDS; i++) {
    tn_stream *s = NULL;
    tn_tensor *t = NULL;
    if (tn_stream_create(e->device, &s) ||
        tn_tensor_empty_on(e->device, s, TN_F32, 1, SHAPE(COUNT), &t) ||
        tn_tensor_write(s, t, ones, BYTES) || tn_stream_synchronize(s)) {
      e->wrong++;
      return NULL;
    }
    t = atomic_exchange(&e->slots[i % SLOTS], t);
    if (i % 2) tn_stream_destroy(s);
    read_other(e, t);
    if (i % 2 == 0) tn_stream_destroy(s);
  }
  return NULL;
}

START_TEST(streams_go_while_others_read) {
  exchange e = {.device = device_of(_i ? "sim" : "reference")};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, &e), 0);
  for (int i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < SLOTS; i++) read_other(&e, atomic_load(&e.slots[i]));
  ck_assert_int_eq(e.wrong, 0);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, orphans_are_read_behind_the_default_stream, 0, LATE);
  tcase_add_test(t, orphans_are_looked_at_behind_the_default_stream);
  tcase_add_test(t, imports_lose_their_stream_too);
  tcase_add_loop_test(t, memory_that_is_used_again_has_a_stream_again, 0, LATE);
  tcase_add_loop_test(t, streams_go_while_others_read, 0, 2);
}

int main(void) { return run_suite("homes", add_tests); }
