/* The caching allocator where several streams use a block. */
#include "tests/pool_support.h"

START_TEST(a_block_waits_for_its_other_users) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  submit(1);
  submit(2);
  for (int i = 0; i < 1000; i++) {
    pool_note_use(b, caches[0]);
    pool_note_use(b, caches[1]);
    pool_note_use(b, caches[2]);
  }
  pool_free(b);
  ck_assert_uint_eq(pool_blocks_in_use(p), 0);
  ck_assert_uint_eq(stats().in_use, b->bytes);
  block *others[3];
  others[0] = take(0, 1000);
  ck_assert_ptr_ne(others[0], b);
  complete(1);
  others[1] = take(0, 1000);
  ck_assert_ptr_ne(others[1], b);
  complete(2);
  others[2] = take(0, 1000);
  ck_assert_ptr_eq(others[2], b);
  /* Its new user is alone with it. */
  pool_free(others[2]);
  ck_assert_ptr_eq(take(0, 1000), b);
  for (int i = 0; i < 3; i++) pool_free(others[i]);
  ck_assert_int_eq(device.marks_live, 0);
  close_pool();
}
END_TEST

START_TEST(a_users_work_after_the_free_is_not_waited_for) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_free(b);
  complete(1);
  submit(1);
  ck_assert_ptr_eq(take(0, 1000), b);
  pool_free(b);
  close_pool();
}
END_TEST

START_TEST(marks_that_fail_are_made_later) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  submit(1);
  pool_note_use(b, caches[1]);
  device.marks_fail = true;
  pool_free(b);
  block *c = take(0, 1000), *d = NULL;
  ck_assert_ptr_ne(b, c);
  device.marks_fail = false;
  d = take(0, 1000);
  ck_assert_ptr_ne(b, d);
  complete(1);
  ck_assert_ptr_eq(take(0, 1000), b);
  pool_free(b), pool_free(c), pool_free(d);
  close_pool();
}
END_TEST

START_TEST(shortage_waits_for_pending_blocks) {
  open_pool(&stream_ops, 64, 8 * MIB);
  block *b = take(0, 6 * MIB);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_free(b);
  block *c = take(0, 6 * MIB);
  ck_assert_int_ge(device.waits, 1);
  pool_free(c);
  b = take(0, 6 * MIB);
  submit(2);
  pool_note_use(b, caches[2]);
  pool_free(b);
  block *d = take(3, 7 * MIB); /* another cache, another size */
  pool_free(d);
  close_pool();
}
END_TEST

START_TEST(closing_a_user_frees_what_waited_for_it) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000), *kept = take(0, 1000);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_note_use(kept, caches[1]);
  pool_free(b);
  pool_cache_close(caches[1]);
  ck_assert_int_eq(device.marks_live, 0);
  ck_assert_ptr_eq(take(0, 1000), b);
  pool_free(b);
  pool_free(kept); /* its user is gone */
  ck_assert_int_eq(device.marks_live, 0);
  close_pool();
}
END_TEST

START_TEST(huge_blocks_wait_as_well) {
  open_pool(&stream_ops, 64, 0);
  size_t bytes = 1025 * MIB;
  block *b = take(0, bytes);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_free(b);
  block *c = take(0, bytes);
  ck_assert_ptr_ne(c->handle, b->handle);
  complete(1);
  void *handle = b->handle;
  block *d = take(0, bytes);
  ck_assert_ptr_eq(d->handle, handle);
  pool_free(c), pool_free(d);
  close_pool();
}
END_TEST

START_TEST(hundreds_of_streams) {
  enum { MANY = 200 };
  open_pool(&stream_ops, 64, 0);
  static mock_stream many[MANY];
  pool_cache *cache[MANY];
  for (int i = 0; i < MANY; i++) {
    many[i] = (mock_stream){.submitted = 1};
    ck_assert_int_eq(pool_cache_open(p, &many[i], &cache[i]), TN_OK);
  }
  block *b = take(0, 1000);
  pool_note_use(b, cache[10]);
  pool_note_use(b, cache[MANY - 1]);
  pool_note_use(b, cache[MANY - 2]);
  pool_free(b);
  block *own; /* of a cache that shares its bit with others */
  ck_assert_int_eq(pool_alloc(cache[150], 1000, &own), TN_OK);
  pool_note_use(own, cache[150]);
  pool_note_use(own, cache[151]);
  pool_free(own);
  block *held[MANY + 1];
  for (int i = 0; i < MANY; i++) {
    held[i] = take(0, 1000);
    if (atomic_load(&many[MANY - 1].completed) == 0) ck_assert_ptr_ne(held[i], b);
    atomic_store(&many[i].completed, 1);
  }
  ck_assert_int_gt(device.marks_live, -1);
  for (int i = 0; i < MANY; i++) pool_free(held[i]);
  held[0] = take(1, 1); /* a slow path, to poll */
  pool_free(held[0]);
  pool_trim(p);
  ck_assert_int_eq(device.marks_live, 0);
  ck_assert_uint_eq(stats().in_use, 0);
  close_pool();
}
END_TEST

START_TEST(idle_segments_change_hands) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 50 * MIB);
  void *handle = b->handle;
  submit(0);
  pool_free(b);
  pool_cache *c0 = caches[0];
  pool_free(take(0, 60 * MIB)); /* sends the first one to the bins */
  block *c = take(1, 50 * MIB);
  ck_assert_ptr_ne(c->handle, handle);
  complete(0);
  block *d = take(2, 50 * MIB);
  ck_assert_ptr_eq(d->handle, handle);
  ck_assert_ptr_ne(d->cache, c0);
  pool_free(c), pool_free(d);
  ck_assert(pool_is_valid(p));
  close_pool();
}
END_TEST

START_TEST(an_idle_mark_goes_when_the_segment_is_used_again) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 50 * MIB);
  void *handle = b->handle;
  submit(0);
  pool_free(b);
  pool_free(take(0, 60 * MIB));
  block *c = take(1, 50 * MIB); /* marks the idle segment */
  ck_assert_int_ge(device.marks_live, 1);
  block *again = take(0, 50 * MIB);
  ck_assert_ptr_eq(again->handle, handle);
  complete(0);
  submit(0);
  pool_free(again);
  block *d = take(0, 61 * MIB); /* to the bins once more; its work is not done */
  block *e = take(1, 50 * MIB);
  ck_assert_ptr_ne(e->handle, handle);
  pool_free(c), pool_free(d), pool_free(e);
  close_pool();
}
END_TEST

START_TEST(a_closed_cache_frees_and_is_reused) {
  open_pool(&stream_ops, 64, 0);
  block *small = take(1, 1000), *large = take(1, 5 * MIB), *huge = take(1, 30 * MIB);
  void *handle = huge->handle;
  pool_free(huge);
  pool_cache_close(caches[1]);
  ck_assert_uint_eq(pool_blocks_in_use(p), 2);
  block *taken = take(0, 30 * MIB); /* without any mark */
  ck_assert_ptr_eq(taken->handle, handle);
  pool_free(small);
  pool_free(large);
  ck_assert_uint_eq(pool_blocks_in_use(p), 1);
  pool_cache *again;
  ck_assert_int_eq(pool_cache_open(p, &streams[1], &again), TN_OK);
  ck_assert_ptr_eq(again, caches[1]);
  ck_assert_ptr_eq(take(1, 1000), small);
  pool_free(small);
  pool_free(taken);
  close_pool();
}
END_TEST

START_TEST(trim_waits_before_it_gives_back) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  pool_free(take(0, 40 * MIB));
  submit(0);
  pool_trim(p);
  ck_assert_int_ge(device.waits, 1);
  ck_assert_uint_eq(stats().segments, 1);
  pool_free(b);
  pool_trim(p);
  ck_assert_uint_eq(stats().reserved, 0);
  ck_assert_int_eq(device.marks_live, 0);
  close_pool();
}
END_TEST

START_TEST(pending_blocks_may_be_left_at_the_end) {
  open_pool(&stream_ops, 64, 0);
  block *b = take(0, 1000);
  submit(1);
  pool_note_use(b, caches[1]);
  pool_free(b);
  ck_assert_int_eq(device.marks_live, 1);
  close_pool();
}
END_TEST

/* --- suite --- */

static void add_cases(Suite *suite) {
  TCase *others = tcase_create("other streams");
  tcase_add_test(others, a_block_waits_for_its_other_users);
  tcase_add_test(others, a_users_work_after_the_free_is_not_waited_for);
  tcase_add_test(others, marks_that_fail_are_made_later);
  tcase_add_test(others, shortage_waits_for_pending_blocks);
  tcase_add_test(others, closing_a_user_frees_what_waited_for_it);
  tcase_add_test(others, huge_blocks_wait_as_well);
  tcase_add_test(others, hundreds_of_streams);
  tcase_add_test(others, idle_segments_change_hands);
  tcase_add_test(others, an_idle_mark_goes_when_the_segment_is_used_again);
  tcase_add_test(others, a_closed_cache_frees_and_is_reused);
  tcase_add_test(others, trim_waits_before_it_gives_back);
  tcase_add_test(others, pending_blocks_may_be_left_at_the_end);
  suite_add_tcase(suite, others);
}

int main(void) { return run_pool_suite("pool_streams", add_cases); }
