/*
 * The thread pool: every index is done once, whatever the sizes and however many threads
 * ask at a time; loops inside loops; more threads than processors; workers that cannot be
 * started.
 */
#include "threads_support.h"

#include <dirent.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* -------------------------------------------------------------------- loops --- */

static const uint32_t thread_counts[] = {1, 2, 3, 16};

START_TEST(every_index_is_done_once) {
  thread_pool *pool = make(thread_counts[_i]);
  static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 1000, 65537, 300000};
  static const int64_t grains[] = {-1, 0, 1, 2, 3, 100, 65536, INT64_MAX};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
      int64_t shares = check_loop(pool, sizes[s], grains[g]);
      ck_assert_int_eq(shares == 0, sizes[s] == 0);
      if (grains[g] >= sizes[s] && sizes[s]) ck_assert_int_eq(shares, 1);
    }
  }
  ck_assert_uint_eq(thread_pool_size(pool), thread_counts[_i]);
  thread_pool_destroy(pool);
}
END_TEST

static _Atomic(uint64_t) sum_of_lengths;
static void add_length(void *ctx, int64_t begin, int64_t end) {
  (void)ctx;
  atomic_fetch_add(&sum_of_lengths, (uint64_t)(end - begin));
}

START_TEST(largest_loops_do_not_overflow) {
  thread_pool *pool = make(4);
  atomic_store(&sum_of_lengths, 0);
  thread_pool_run(pool, INT64_MAX, 1, add_length, NULL);
  ck_assert_uint_eq(atomic_load(&sum_of_lengths), INT64_MAX);
  thread_pool_run(pool, -5, 1, add_length, NULL);
  ck_assert_uint_eq(atomic_load(&sum_of_lengths), INT64_MAX);
  thread_pool_destroy(pool);
}
END_TEST

static atomic_uchar begins[1000];
static void mark_begin(void *ctx, int64_t begin, int64_t end) {
  (void)ctx, (void)end;
  atomic_store(&begins[begin], 1);
}

/* Threads have shares that follow each other: so many of these hold as much, wherever they are. */
START_TEST(what_does_not_divide_is_spread) {
  thread_pool *pool = make(thread_counts[_i]);
  for (int64_t n = 1; n < 1000; n += 1 + n / 7) {
    int64_t shares = 0, share = 0;
    memset(begins, 0, sizeof begins);
    thread_pool_run(pool, n, 1, mark_begin, NULL);
    for (int64_t i = 0; i < n; i++) shares += atomic_load(&begins[i]);
    for (int64_t i = 0; i < n; i++)
      if (atomic_load(&begins[i])) ck_assert_int_eq(i, share++ * n / shares);
  }
  thread_pool_destroy(pool);
}
END_TEST

/* Where processors are few a caller sleeps in many of these: one that is missed by the worker who
 * ends the last share sleeps for ever. On an emulated aarch64 that took some 1,000,000 loops, so
 * that these show it in one run of several. */
#ifdef __aarch64__
enum { SHORT_LOOPS = 200000 };
#else
enum { SHORT_LOOPS = 20000 };
#endif

START_TEST(short_loops_in_a_row) {
  thread_pool *pool = make(thread_counts[_i]);
  for (int i = 0; i < SHORT_LOOPS; i++) {
    tally t = {.n = 8, .grain = 1, .times = (unsigned char[8]){0}};
    thread_pool_run(pool, 8, 1, count, &t);
    for (int k = 0; k < 8; k++) ck_assert_int_eq(t.times[k], 1);
  }
  thread_pool_destroy(pool);
}
END_TEST

/* A late worker of a short loop must not take a share of the long one that follows: the
 * sum would be more than whole, and a caller could wait for ever. */
static _Atomic(int) times_done[256];

static void count_each(void *ctx, int64_t begin, int64_t end) {
  (void)ctx;
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&times_done[i], 1);
}

START_TEST(loops_of_changing_length) {
  thread_pool *pool = make(2);
  /* Nothing slow between the loops: the next must begin while workers leave the last. */
  const int rounds = TSAN ? 20000 : 400000;
  int wrong = 0;
  uint32_t random = 1;
  for (int round = 0; round < rounds && !wrong; round++) {
    random = random * 1103515245u + 12345u;
    const int64_t n = 2 + (random >> 16) % (round & 1 ? 3 : 200);
    memset((void *)times_done, 0, sizeof times_done);
    thread_pool_run(pool, n, 1, count_each, NULL);
    for (int64_t i = 0; i < n; i++) wrong += times_done[i] != 1;
  }
  ck_assert_int_eq(wrong, 0);
  thread_pool_destroy(pool);
}
END_TEST

START_TEST(workers_wake_after_sleep) {
  thread_pool *pool = make(3);
  for (int i = 0; i < 50; i++) {
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    check_loop(pool, 1000, 1);
  }
  thread_pool_destroy(pool);
}
END_TEST

/* ------------------------------------------------------------- really two --- */

static void meet(void *ctx, int64_t begin, int64_t end) {
  _Atomic(int64_t) *here = ctx;
  atomic_fetch_add(here, end - begin);
  while (atomic_load(here) < 8) sched_yield();
}

START_TEST(workers_take_part) {
  thread_pool *pool = make(8);
  /* 8 shares that wait for each other need 8 threads. */
  for (int i = 0; i < 20; i++) {
    _Atomic(int64_t) here = 0;
    thread_pool_run(pool, 8, 1, meet, &here);
    ck_assert_int_eq(atomic_load(&here), 8);
  }
  thread_pool_destroy(pool);
}
END_TEST

typedef struct worker_facts {
  pthread_t caller;
  _Atomic(int) here;
  int rounding[2];
  int usr1_blocked, segv_blocked;
  char name[16];
} worker_facts;

static void look_at_worker(void *ctx, int64_t begin, int64_t end) {
  worker_facts *f = ctx;
  (void)begin, (void)end;
  atomic_fetch_add(&f->here, 1);
  while (atomic_load(&f->here) < 2) sched_yield();
  bool worker = !pthread_equal(pthread_self(), f->caller);
  f->rounding[worker] = fegetround();
  if (!worker) return;
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  f->usr1_blocked = sigismember(&mask, SIGUSR1);
  f->segv_blocked = sigismember(&mask, SIGSEGV);
  pthread_getname_np(pthread_self(), f->name, sizeof f->name);
}

START_TEST(workers_are_decent_threads) {
  thread_pool *pool = make(2);
  worker_facts f = {.caller = pthread_self()};
  fesetround(FE_UPWARD);
  thread_pool_run(pool, 2, 1, look_at_worker, &f);
  fesetround(FE_TONEAREST);
  ck_assert_int_eq(f.rounding[0], FE_UPWARD);
  ck_assert_int_eq(f.rounding[1], FE_TONEAREST);
  ck_assert_int_eq(f.usr1_blocked, 1);
  ck_assert_int_eq(f.segv_blocked, 0);
  ck_assert_str_eq(f.name, "tenon-1");
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  ck_assert_int_eq(sigismember(&mask, SIGUSR1), 0);
  thread_pool_destroy(pool);
}
END_TEST

/* ------------------------------------------------- loops in and beside loops --- */

typedef struct nest {
  thread_pool *pool;
  tally *inner;
} nest;

static void run_inner(void *ctx, int64_t begin, int64_t end) {
  nest *outer = ctx;
  for (int64_t i = begin; i < end; i++)
    thread_pool_run(outer->pool, 100, 1, count, &outer->inner[i]);
}

START_TEST(loops_nest) {
  thread_pool *pool = make(4);
  tally inner[64] = {0};
  for (int i = 0; i < 64; i++) inner[i] = (tally){.n = 100, .grain = 1, .times = calloc(100, 1)};
  thread_pool_run(pool, 64, 1, run_inner, &(nest){pool, inner});
  for (int i = 0; i < 64; i++) {
    for (int k = 0; k < 100; k++) ck_assert_int_eq(inner[i].times[k], 1);
    ck_assert_int_eq(atomic_load(&inner[i].shares), 1); /* in their callers, whole */
    free(inner[i].times);
  }
  thread_pool_destroy(pool);
}
END_TEST

static _Atomic(int) wrong;

static void *many_loops(void *arg) {
  unsigned char times[257];
  for (int i = 0; i < 3000; i++) {
    tally t = {.n = 257, .grain = 1, .times = memset(times, 0, sizeof times)};
    thread_pool_run(arg, 257, 1, count, &t);
    for (int k = 0; k < 257; k++)
      if (times[k] != 1) atomic_fetch_add(&wrong, 1);
  }
  return NULL;
}

START_TEST(threads_call_at_once) {
  thread_pool *pool = make(3);
  pthread_t callers[5];
  for (int i = 0; i < 5; i++) pthread_create(&callers[i], NULL, many_loops, pool);
  for (int i = 0; i < 5; i++) pthread_join(callers[i], NULL);
  ck_assert_int_eq(atomic_load(&wrong), 0);
  thread_pool_destroy(pool);
}
END_TEST

/* --------------------------------------------------------- create, destroy --- */

static int count_workers(void) {
  int workers = 0;
  DIR *tasks = opendir("/proc/self/task");
  ck_assert_ptr_nonnull(tasks);
  for (struct dirent *task; (task = readdir(tasks));) workers += is_worker(task->d_name);
  closedir(tasks);
  return workers;
}

START_TEST(workers_start_when_needed) {
  thread_pool *pool = make(4);
  check_loop(pool, 100, 100);
  check_loop(pool, 1, 1);
  ck_assert_int_eq(count_workers(), 0);
  check_loop(pool, 100, 1);
  ck_assert_int_eq(count_workers(), 3);
  thread_pool_destroy(pool);
}
END_TEST

START_TEST(pools_come_and_go) {
  for (int i = 0; i < 100; i++) {
    thread_pool *pool = make((uint32_t)i % 5 + 1);
    if (i % 3) check_loop(pool, 50, 1);
    thread_pool_destroy(pool);
  }
  thread_pool_destroy(NULL);
}
END_TEST

static int allocs_left;
static void *scarce_alloc(void *user, size_t bytes, size_t align) {
  return allocs_left-- > 0 ? host_memory_default.alloc(user, bytes, align) : NULL;
}

START_TEST(host_memory_fails) {
  host_memory scarce = host_memory_default;
  scarce.alloc = scarce_alloc;
  thread_pool *pool = NULL;
  for (int allocs = 0; allocs < 2; allocs++) {
    allocs_left = allocs;
    ck_assert_int_eq(thread_pool_create(&scarce, 2, &pool), TN_ERR_OUT_OF_MEMORY);
    ck_assert_ptr_null(pool);
  }
  allocs_left = 2;
  ck_assert_int_eq(thread_pool_create(&scarce, 2, &pool), TN_OK);
  thread_pool_destroy(pool);
}
END_TEST

/* Address space runs out before the workers' stacks are made. */
START_TEST(workers_that_cannot_start_are_done_without) {
  thread_pool *pool = make(1000);
  struct rlimit before, small, now;
  getrlimit(RLIMIT_AS, &before);
  long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  ck_assert_int_eq(fscanf(statm, "%ld", &pages), 1);
  fclose(statm);
  small = before;
  small.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (64u << 20);
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &small), 0);
  getrlimit(RLIMIT_AS, &now);
  check_loop(pool, 5000, 1);
  setrlimit(RLIMIT_AS, &before);
  /* An emulator's own address space is not limited, whatever it says. */
  if (now.rlim_cur == small.rlim_cur) ck_assert_uint_lt(thread_pool_size(pool), 1000);
  check_loop(pool, 5000, 1);
  thread_pool_destroy(pool);
}
END_TEST

START_TEST(a_forked_child_can_let_go) {
  thread_pool *pool = make(3);
  check_loop(pool, 100, 1);
  pid_t child = fork();
  if (!child) {
    alarm(120); /* where it hangs */
    thread_pool_destroy(pool);
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  thread_pool_destroy(pool);
}
END_TEST

/* -------------------------------------------------------------------- suite --- */

static Suite *threads_suite(void) {
  Suite *suite = suite_create("threads");
  TCase *loops = tcase_create("loops");
  tcase_set_timeout(loops, 120);
  tcase_add_loop_test(loops, every_index_is_done_once, 0, 4);
  tcase_add_loop_test(loops, short_loops_in_a_row, 0, 4);
  tcase_add_test(loops, largest_loops_do_not_overflow);
  tcase_add_loop_test(loops, what_does_not_divide_is_spread, 0, 4);
  tcase_add_test(loops, loops_of_changing_length);
  tcase_add_test(loops, workers_wake_after_sleep);
  tcase_add_test(loops, workers_take_part);
  tcase_add_test(loops, workers_are_decent_threads);
  tcase_add_test(loops, loops_nest);
  tcase_add_test(loops, threads_call_at_once);
  suite_add_tcase(suite, loops);

  TCase *life = tcase_create("life");
  tcase_set_timeout(life, 120);
  tcase_add_test(life, workers_start_when_needed);
  tcase_add_test(life, pools_come_and_go);
  tcase_add_test(life, host_memory_fails);
  if (!ASAN && !TSAN) tcase_add_test(life, workers_that_cannot_start_are_done_without);
  if (!TSAN) tcase_add_test(life, a_forked_child_can_let_go);
  suite_add_tcase(suite, life);
  return suite;
}

int main(void) {
  SRunner *runner = srunner_create(threads_suite());
  return run_runner(runner);
}
