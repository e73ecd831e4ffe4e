/*
 * Copies between devices of one backend (fixtures/peers.c): by its slot, with the source's own
 * stream and the destination's, and nobody waits; through the host where it says that it cannot;
 * and what it fails with is the caller's.
 */
#include <stdio.h>

#include "tests/fixtures/peers.h"
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *devices[3];
static struct {
  char text[4096];
  size_t length;
} book;

static void write_down(void *user, tn_log_level level, const char *line) {
  (void)user, (void)level;
  int n = snprintf(book.text + book.length, sizeof book.text - book.length, "%s\n", line);
  if (n > 0) book.length += (size_t)n;
  ck_assert_uint_lt(book.length, sizeof book.text);
}
static void forget(void) { book.length = 0, book.text[0] = '\0'; }

static void setup(void) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = PEERS_PLUGIN,
                                .plugins = "peers,reference",
                                .device = "reference",
                                .log = write_down,
                                .log_level = TN_LOG_INFO + 1};
  rt = open_runtime(&options);
  for (int i = 0; i < 3; i++) {
    char id[24];
    snprintf(id, sizeof id, "peers:%d", i);
    ok(tn_device_find(rt, id, &devices[i]));
  }
  forget();
}
static void teardown(void) { tn_runtime_close(rt), rt = NULL; }

static tn_tensor *numbers(tn_device *d, int64_t n) {
  float values[64];
  tn_tensor *t = NULL;
  for (int i = 0; i < 64; i++) values[i] = (float)i;
  ok(tn_tensor_from_host(d, TN_F32, 1, SHAPE(n), values, &t));
  forget();
  return t;
}

/* Whether it holds first, first + 1 ... */
static void expect(const tn_tensor *t, int64_t n, float first) {
  float values[64];
  ok(tn_tensor_to_host(t, values, (size_t)n * 4));
  for (int i = 0; i < n; i++) ck_assert_float_eq(values[i], first + (float)i);
}

static bool said(const char *words) { return strstr(book.text, words) != NULL; }

START_TEST(devices_copy_between_each_other) {
  tn_tensor *x = numbers(devices[0], 10), *y = NULL;
  ok(tn_tensor_to_device(x, devices[1], &y));
  ck_assert(said("between 0.0 1.0 40"));
  ck_assert(!said("read") && !said("write") && !said("wait"));
  expect(y, 10, 0);
  tn_tensor_release(y), tn_tensor_release(x);
}
END_TEST

START_TEST(the_source_is_copied_on_its_own_stream) {
  tn_stream *stream = NULL;
  tn_tensor *x = numbers(devices[1], 10), *made = NULL, *y = NULL;
  ok(tn_stream_create(devices[1], &stream));
  ok(tn_tensor_empty_on(devices[1], stream, TN_F32, 1, SHAPE(10), &made));
  float values[10] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  ok(tn_tensor_write(stream, made, values, sizeof values));
  forget();
  ok(tn_tensor_to_device(made, devices[0], &y));
  ck_assert(said("between 1.1 0.0 40") && !said("wait"));
  expect(y, 10, 3);
  tn_tensor_release(y), tn_tensor_release(made), tn_tensor_release(x);
  tn_stream_destroy(stream);
}
END_TEST

START_TEST(what_a_pair_cannot_goes_through_the_host) {
  const struct { int from, to; } pairs[] = {{0, PEERS_ALONE}, {PEERS_ALONE, 1}};
  for (int i = 0; i < 2; i++) {
    tn_tensor *x = numbers(devices[pairs[i].from], 10), *y = NULL;
    ok(tn_tensor_to_device(x, devices[pairs[i].to], &y));
    ck_assert(said("read") && said("write") && !said("between"));
    expect(y, 10, 0);
    tn_tensor_release(y), tn_tensor_release(x);
  }
}
END_TEST

START_TEST(a_failure_is_the_callers) {
  tn_tensor *x = numbers(devices[0], PEERS_FAILS_BYTES / 4), *y = x;
  refused(tn_tensor_to_device(x, devices[1], &y), TN_ERR_BACKEND, "the bridge is down");
  ck_assert_ptr_eq(y, x);
  ck_assert(!said("read"));
  expect(x, PEERS_FAILS_BYTES / 4, 0);
  tn_tensor_release(x);
}
END_TEST

START_TEST(views_and_nothing) {
  tn_tensor *x = numbers(devices[0], 10), *part = NULL, *even = NULL, *none = NULL, *y = NULL;
  ok(tn_tensor_slice(x, 0, 4, 9, 1, &part)); /* an offset */
  ok(tn_tensor_to_device(part, devices[1], &y));
  ck_assert(said("between 0.0 1.0 20"));
  expect(y, 5, 4);
  tn_tensor_release(y);
  ok(tn_tensor_slice(x, 0, 0, 10, 2, &even)); /* no kernel copies its strides here */
  ok(tn_tensor_to_device(even, devices[1], &y));
  float values[5];
  ok(tn_tensor_to_host(y, values, sizeof values));
  for (int i = 0; i < 5; i++) ck_assert_float_eq(values[i], (float)(2 * i));
  tn_tensor_release(y);
  ok(tn_tensor_empty(devices[0], TN_F32, 1, SHAPE(0), &none));
  forget();
  ok(tn_tensor_to_device(none, devices[1], &y));
  ck_assert_str_eq(book.text, "");
  tn_tensor_release(y), tn_tensor_release(none), tn_tensor_release(even);
  tn_tensor_release(part), tn_tensor_release(x);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, devices_copy_between_each_other);
  tcase_add_test(t, the_source_is_copied_on_its_own_stream);
  tcase_add_test(t, what_a_pair_cannot_goes_through_the_host);
  tcase_add_test(t, a_failure_is_the_callers);
  tcase_add_test(t, views_and_nothing);
}

int main(void) { return run_suite("peers", add_tests); }
