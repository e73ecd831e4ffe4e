/* The caching allocator under several threads. */
#include <sched.h>

#include "dispatcher/memory/pool_internal.h"
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

/* --- streams that go --- */

static _Atomic(int) visits; /* that have ended, with the stream or without */

static void *go(void *stream) {
  pool_cache *cache = caches[(uintptr_t)stream];
  pool_cache_retire(cache);
  pool_cache_close(cache);
  return NULL;
}

static void *visit(void *stream) {
  pool_cache *cache = caches[(uintptr_t)stream];
  void *found = pool_cache_visit(cache, 0);
  if (found) pool_cache_leave(cache);
  atomic_fetch_add(&visits, found ? 100 : 1);
  return NULL;
}

static void await_retiring(const pool_cache *cache) {
  for (bool retiring = false; !retiring; sched_yield()) {
    pthread_mutex_lock(&p->lock);
    retiring = cache->retiring;
    pthread_mutex_unlock(&p->lock);
  }
}

/* It goes when the last has left; a visitor's own second visit is none that could wait for that. */
START_TEST(a_stream_waits_for_its_visitors) {
  pthread_t going, late;
  open_pool(&stream_ops, 64, 0);
  ck_assert_ptr_eq(pool_cache_visit(caches[1], 0), &streams[1]);
  ck_assert_int_eq(pthread_create(&going, NULL, go, (void *)1), 0);
  await_retiring(caches[1]);
  ck_assert_ptr_eq(pool_cache_visit(caches[1], 0), &streams[1]);
  pool_cache_leave(caches[1]);
  ck_assert(!caches[1]->closed);
  pool_cache_leave(caches[1]);
  pthread_join(going, NULL);
  ck_assert_ptr_null(pool_cache_visit(caches[1], 0));

  pool_cache_retire(caches[2]); /* with no visitor there, one who comes waits for the end */
  atomic_store(&visits, 0);
  ck_assert_int_eq(pthread_create(&late, NULL, visit, (void *)2), 0);
  for (int i = 0; i < 1000; i++) sched_yield();
  ck_assert_int_eq(atomic_load(&visits), 0);
  pool_cache_close(caches[2]);
  pthread_join(late, NULL);
  ck_assert_int_eq(atomic_load(&visits), 1);
  close_pool();
}
END_TEST

START_TEST(streams_of_a_cache_are_told_apart) {
  open_pool(&stream_ops, 64, 0);
  const uint64_t opened = pool_cache_opened(caches[0]);
  pool_cache *again;
  pool_cache_retire(caches[0]);
  pool_cache_close(caches[0]);
  ck_assert_int_eq(pool_cache_open(p, &streams[3], &again), TN_OK);
  ck_assert_ptr_eq(again, caches[0]);
  ck_assert_ptr_null(pool_cache_visit(again, opened));
  ck_assert_ptr_eq(pool_cache_visit(again, pool_cache_opened(again)), &streams[3]);
  pool_cache_leave(again);
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
  tcase_add_test(threads, a_stream_waits_for_its_visitors);
  tcase_add_test(threads, streams_of_a_cache_are_told_apart);
  suite_add_tcase(suite, threads);
}

int main(void) { return run_pool_suite("pool_threads", add_cases); }
