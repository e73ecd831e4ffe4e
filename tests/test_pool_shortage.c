/* The caching allocator when memory runs out: the device's, and the host's. */
#include "tests/pool_support.h"

/* --- shortage --- */

START_TEST(the_limit_holds) {
  open_pool(&synchronous_ops, 64, 5 * MIB + 12345);
  block *held[64];
  int count = 0;
  tn_status status;
  while ((status = pool_alloc(caches[0], 400000, &held[count])) == TN_OK) count++;
  ck_assert_int_eq(status, TN_ERR_DEVICE_OUT_OF_MEMORY);
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "400000 bytes"));
  ck_assert_ptr_nonnull(strstr(tn_last_error(), "limit 5255225"));
  ck_assert_int_ge(count, 10);
  ck_assert_uint_le(stats().peak_reserved, 5 * MIB + 12345);
  ck_assert_uint_eq(stats().limit, 5 * MIB + 12345);
  ck_assert_uint_eq(stats().out_of_memory, 1);
  ck_assert(pool_is_valid(p));
  pool_free(held[--count]);
  held[count] = take(0, 400000);
  for (int i = 0; i <= count; i++) pool_free(held[i]);
  /* All of it serves one large request now, and small ones again afterwards. */
  block *b = take(0, 4 * MIB);
  pool_free(b);
  pool_free(take(0, 100));
  ck_assert(pool_is_valid(p));
  close_pool();
}
END_TEST

START_TEST(less_than_a_segment_is_taken_when_that_is_all) {
  open_pool(&synchronous_ops, 64, 0);
  device.capacity = 300;
  pool_free(take(0, 10));
  device.capacity = 3 * MIB;
  block *b = take(0, 2 * MIB + 1);
  ck_assert_uint_le(stats().reserved, 3 * MIB);
  pool_free(b);
  close_pool();
}
END_TEST

START_TEST(caches_are_emptied_on_shortage) {
  open_pool(&stream_ops, 64, 0);
  device.capacity = 16 * MIB;
  for (int i = 0; i < 4; i++) pool_free(take(i, 4 * MIB - 4096));
  atomic_fetch_add(&streams[1].submitted, 1); /* not done: has to be waited for */
  block *b = take(0, 15 * MIB);
  ck_assert_uint_eq(stats().out_of_memory, 1);
  ck_assert_int_ge(device.waits, 1);
  ck_assert_int_eq(device.pressures, 0);
  pool_free(b);
  close_pool();
}
END_TEST

static bool free_the_victim(mock_device *d) {
  if (!d->victim) return false;
  pool_free(d->victim); /* would hang if the lock were held */
  tn_memory_stats s = {.struct_size = sizeof s};
  pool_stats(d->pool, &s);
  d->victim = NULL;
  return true;
}

START_TEST(the_host_is_asked_for_help) {
  open_pool(&synchronous_ops, 64, 8 * MIB);
  device.on_pressure = free_the_victim;
  device.victim = take(1, 6 * MIB);
  block *b = take(0, 5 * MIB);
  ck_assert_int_eq(device.pressures, 1);
  block *none = NULL;
  ck_assert_int_eq(pool_alloc(caches[0], 5 * MIB, &none), TN_ERR_DEVICE_OUT_OF_MEMORY);
  ck_assert_int_eq(device.pressures, 2);
  ck_assert_ptr_null(none);
  pool_free(b);
  close_pool();
}
END_TEST

static bool always_yes(mock_device *d) { return d != NULL; }

START_TEST(a_host_that_always_says_yes_does_not_hang) {
  open_pool(&synchronous_ops, 64, 8 * MIB);
  device.on_pressure = always_yes;
  block *b = NULL;
  ck_assert_int_eq(pool_alloc(caches[0], 9 * MIB, &b), TN_ERR_DEVICE_OUT_OF_MEMORY);
  ck_assert_int_gt(device.pressures, 1);
  close_pool();
}
END_TEST

START_TEST(other_errors_pass_through) {
  open_pool(&synchronous_ops, 64, 0);
  device.raw_error = TN_ERR_DEVICE_LOST;
  block *b = NULL;
  ck_assert_int_eq(pool_alloc(caches[0], 100, &b), TN_ERR_DEVICE_LOST);
  ck_assert_str_eq(tn_last_error(), "mock says no");
  ck_assert_int_eq(device.raw_calls, 1);
  device.raw_error = TN_OK;
  pool_free(take(0, 100));
  close_pool();
}
END_TEST

START_TEST(small_requests_may_use_large_segments_in_need) {
  open_pool(&synchronous_ops, 64, 4 * MIB);
  block *large = take(0, 2 * MIB - 4096);
  block *held[2000];
  int count = 0;
  while (count < 2000 && pool_alloc(caches[0], 10000, &held[count]) == TN_OK) count++;
  ck_assert_int_gt(count, 190);
  pool_free(large);
  int more = count;
  while (more < 2000 && pool_alloc(caches[0], 10000, &held[more]) == TN_OK) more++;
  ck_assert_int_gt(more, count + 150);
  ck_assert(pool_is_valid(p));
  for (int i = 0; i < more; i++) pool_free(held[i]);
  block *again = take(0, 3 * MIB);
  pool_free(again);
  close_pool();
}
END_TEST

/* --- failing host memory --- */

/* Returns whether the failure came up. */
static bool work_with_failure(long at) {
  host = (counted_memory){.fail_at = at};
  device = (mock_device){.capacity = 64 * MIB};
  pool_config config = {.ops = &stream_ops, .ctx = &device, .memory = &memory, .alignment = 256};
  pool_cache *c[2];
  if (pool_create(&config, &p) != TN_OK) return true;
  streams[0] = streams[1] = (mock_stream){0};
  for (int i = 0; i < 2; i++) {
    tn_status status = pool_cache_open(p, &streams[i], &c[i]);
    ck_assert(status == TN_OK || status == TN_ERR_OUT_OF_MEMORY);
    if (status != TN_OK) ck_assert_int_eq(pool_cache_open(p, &streams[i], &c[i]), TN_OK);
  }
  block *held[120] = {0};
  for (int i = 0; i < 120; i++) {
    size_t bytes = (size_t)i * (size_t)i * (size_t)i * 3;
    uint64_t before = pool_blocks_in_use(p);
    tn_status status = pool_alloc(c[i % 2], bytes, &held[i]);
    if (status != TN_OK) {
      ck_assert(status == TN_ERR_OUT_OF_MEMORY || status == TN_ERR_DEVICE_OUT_OF_MEMORY);
      ck_assert_ptr_null(held[i]);
      ck_assert_uint_eq(pool_blocks_in_use(p), before);
      ck_assert(pool_is_valid(p));
      if (status == TN_ERR_OUT_OF_MEMORY) status = pool_alloc(c[i % 2], bytes, &held[i]);
      ck_assert(status == TN_OK || status == TN_ERR_DEVICE_OUT_OF_MEMORY);
      if (status != TN_OK) continue;
    }
    submit(1);
    pool_note_use(held[i], c[1]);
    if (i % 3 == 0) pool_free(held[i]), held[i] = NULL;
  }
  for (int i = 0; i < 120; i++)
    if (held[i]) pool_free(held[i]);
  bool came_up = atomic_load(&host.calls) > at;
  close_pool();
  return came_up;
}

START_TEST(host_memory_fails_at_every_point) {
  long at = 0;
  while (work_with_failure(at)) at++;
  ck_assert_int_gt(at, 10);
}
END_TEST

/* --- suite --- */

static void add_cases(Suite *suite) {
  TCase *shortage = tcase_create("shortage");
  tcase_set_timeout(shortage, 120);
  tcase_add_test(shortage, the_limit_holds);
  tcase_add_test(shortage, less_than_a_segment_is_taken_when_that_is_all);
  tcase_add_test(shortage, caches_are_emptied_on_shortage);
  tcase_add_test(shortage, the_host_is_asked_for_help);
  tcase_add_test(shortage, a_host_that_always_says_yes_does_not_hang);
  tcase_add_test(shortage, other_errors_pass_through);
  tcase_add_test(shortage, small_requests_may_use_large_segments_in_need);
  tcase_add_test(shortage, host_memory_fails_at_every_point);
  suite_add_tcase(suite, shortage);
}

int main(void) { return run_pool_suite("pool_shortage", add_cases); }
