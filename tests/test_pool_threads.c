/* The caching allocator under several threads. */
#include "tests/pool_support.h"

enum { THREADS = 4, SLOTS = 64, ROUNDS = 20000 };

static _Atomic(block *) slots[SLOTS];
static _Atomic(int) spoiled;

/* Takes blocks, marks them as its own, hands them to other threads to free. */
static void *hammer(void *arg) {
  uint32_t seed = (uint32_t)(uintptr_t)arg * 2654435761u + 1, which = (uint32_t)(uintptr_t)arg;
  for (int i = 0; i < ROUNDS; i++) {
    uint32_t r = next_random(&seed);
    pool_cache *cache = caches[r % 8 ? 0 : which % STREAMS];
    block *b;
    if (pool_alloc(cache, r % 5 ? 500 : r % 100000, &b) != TN_OK) {
      atomic_fetch_add(&spoiled, 1);
      break;
    }
    memset(data(b), (int)which, 64);
    if (r % 7 == 0) pool_note_use(b, caches[r % STREAMS]);
    for (int k = 0; k < 64; k++)
      if (data(b)[k] != (char)which) atomic_fetch_add(&spoiled, 1);
    b = atomic_exchange(&slots[r / 64 % SLOTS], b);
    if (b) pool_free(b);
    if (r % 2048 == 0) pool_trim(p);
    if (r % 1024 == 1) (void)pool_blocks_in_use(p);
    if (r % 1024 == 2) (void)stats();
  }
  return NULL;
}

static void run_threads(void *(*body)(void *)) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, body, (void *)(i + 1)), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

START_TEST(threads_share_caches) {
  open_pool(_i ? &stream_ops : &synchronous_ops, 64, 0);
  device.streams_run = true;
  run_threads(hammer);
  uint64_t held = 0;
  for (int i = 0; i < SLOTS; i++) held += atomic_load(&slots[i]) != NULL;
  ck_assert_uint_eq(pool_blocks_in_use(p), held);
  for (int i = 0; i < SLOTS; i++) {
    block *b = atomic_exchange(&slots[i], NULL);
    if (b) pool_free(b);
  }
  ck_assert_int_eq(atomic_load(&spoiled), 0);
  ck_assert_uint_lt(stats().peak_reserved, 100 * MIB);
  close_pool();
}
END_TEST

/* One size, one cache: the worst case of the stacks. */
static void *pairs(void *arg) {
  (void)arg;
  block *b[8];
  for (int i = 0; i < ROUNDS; i++) {
    for (int k = 0; k < 8; k++)
      if (pool_alloc(caches[0], 4000, &b[k]) != TN_OK) atomic_fetch_add(&spoiled, 1);
    for (int k = 0; k < 8; k++) *(void **)data(b[k]) = &b[k];
    for (int k = 0; k < 8; k++)
      if (*(void **)data(b[k]) != &b[k]) atomic_fetch_add(&spoiled, 1);
    for (int k = 0; k < 8; k++) pool_free(b[k]);
  }
  return NULL;
}

START_TEST(threads_share_one_stack) {
  open_pool(&synchronous_ops, 64, 0);
  run_threads(pairs);
  ck_assert_int_eq(atomic_load(&spoiled), 0);
  /* 32 blocks at most were out at once; collisions may add some, not without bound. */
  ck_assert_uint_le(stats().peak_reserved, 2 * MIB);
  close_pool();
}
END_TEST

static block *last_blocks[THREADS + 1][50];
static _Atomic(int) saw_none;

static void *free_and_ask(void *arg) {
  for (int i = 0; i < 50; i++) {
    pool_free(last_blocks[(uintptr_t)arg][i]);
    if (pool_blocks_in_use(p) == 0) atomic_fetch_add(&saw_none, 1);
  }
  return NULL;
}

START_TEST(the_thread_that_frees_the_last_block_sees_it) {
  open_pool(&synchronous_ops, 64, 0);
  for (int round = 0; round < 20; round++) {
    for (int t = 1; t <= THREADS; t++)
      for (int i = 0; i < 50; i++) last_blocks[t][i] = take(t % 2, (size_t)i * 100);
    atomic_store(&saw_none, 0);
    run_threads(free_and_ask);
    ck_assert_int_ge(atomic_load(&saw_none), 1);
    ck_assert_int_le(atomic_load(&saw_none), THREADS);
  }
  close_pool();
}
END_TEST

/* --- suite --- */

static void add_cases(Suite *suite) {
  TCase *threads = tcase_create("threads");
  tcase_set_timeout(threads, 120);
  tcase_add_loop_test(threads, threads_share_caches, 0, 2);
  tcase_add_test(threads, threads_share_one_stack);
  tcase_add_test(threads, the_thread_that_frees_the_last_block_sees_it);
  suite_add_tcase(suite, threads);
}

int main(void) { return run_pool_suite("pool_threads", add_cases); }
