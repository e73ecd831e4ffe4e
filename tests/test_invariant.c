/*
 * That invariants are looked at: a pool built at level 2 of invariant.h ends the process where
 * its blocks, bins or figures were tampered with, and does not where nothing was.
 */
#include "dispatcher/memory/pool_internal.h"
#include "tests/suite.h"

#include <signal.h>
#include <stdlib.h>

#if TENON_CHECKS != 2
#error "this test is of level 2"
#endif

static tn_status take_raw(void *ctx, size_t bytes, void **handle) {
  (void)ctx;
  *handle = malloc(bytes);
  return *handle ? TN_OK : fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "none");
}

static void give_raw(void *ctx, void *handle) {
  (void)ctx;
  free(handle);
}

static const pool_ops ops = {.raw_alloc = take_raw, .raw_free = give_raw};
static pool *p;
static pool_cache *cache;
static block *first, *second;

static void setup(void) {
  pool_config config = {
      .ops = &ops, .memory = &host_memory_default, .alignment = 64, .header_bytes = 16};
  ck_assert_int_eq(pool_create(&config, &p), TN_OK);
  ck_assert_int_eq(pool_cache_open(p, NULL, &cache), TN_OK);
  ck_assert_int_eq(pool_alloc(cache, 1000, &first), TN_OK);
  ck_assert_int_eq(pool_alloc(cache, 1000, &second), TN_OK);
}

static void teardown(void) {
  pool_free(first);
  pool_free(second);
  pool_destroy(p);
}

START_TEST(a_sound_pool_is_left_alone) {
  ck_assert(pool_is_valid(p));
  pool_trim(p);
}
END_TEST

/* --- what one thing shows --- */

START_TEST(a_block_freed_behind_the_pools_back_is_seen) {
  piece_of(first)->state = PENDING;
  pool_free(first);
}
END_TEST

START_TEST(a_block_with_a_strange_stack_is_seen) {
  first->stack = second->stack + 1;
  pool_free(first);
}
END_TEST

START_TEST(a_block_that_overlaps_the_next_is_seen) {
  first->bytes += 64;
  first->stack = NULL; /* through the lock, where neighbours are looked at */
  pool_free(first);
}
END_TEST

START_TEST(a_block_used_after_its_free_is_seen) {
  block *again;
  pool_free(first);
  atomic_store(&first->other_use, 2);
  pool_alloc(cache, 1000, &again);
}
END_TEST

/* --- what only a walk over all shows --- */

START_TEST(a_wrong_figure_is_seen) {
  p->pending++;
  pool_trim(p);
}
END_TEST

START_TEST(a_gap_far_from_the_change_is_seen) {
  block *large;
  first->offset += 64;
  ck_assert_int_eq(pool_alloc(cache, 12 << 20, &large), TN_OK); /* in another segment */
}
END_TEST

START_TEST(a_bin_that_its_map_does_not_show_is_seen) {
  cache->bin_map[SMALL][0] ^= 1;
  pool_trim(p);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, a_sound_pool_is_left_alone);
  tcase_add_test_raise_signal(t, a_block_freed_behind_the_pools_back_is_seen, SIGABRT);
  tcase_add_test_raise_signal(t, a_block_with_a_strange_stack_is_seen, SIGABRT);
  tcase_add_test_raise_signal(t, a_block_that_overlaps_the_next_is_seen, SIGABRT);
  tcase_add_test_raise_signal(t, a_block_used_after_its_free_is_seen, SIGABRT);
  tcase_add_test_raise_signal(t, a_wrong_figure_is_seen, SIGABRT);
  tcase_add_test_raise_signal(t, a_gap_far_from_the_change_is_seen, SIGABRT);
  tcase_add_test_raise_signal(t, a_bin_that_its_map_does_not_show_is_seen, SIGABRT);
}

int main(void) { return run_suite("invariant", add_tests); }
