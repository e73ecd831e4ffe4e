/*
 * The thread pool where processors are few, or busy with other programs: the processors that it may
 * use, threads that share one, and workers that do not get to run.
 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "threads_support.h"

static pid_t first_worker(void) {
  pid_t found = 0;
  DIR *tasks = opendir("/proc/self/task");
  ck_assert_ptr_nonnull(tasks);
  for (struct dirent *task; (task = readdir(tasks));)
    if (is_worker(task->d_name)) found = (pid_t)atoi(task->d_name);
  closedir(tasks);
  ck_assert_int_gt(found, 0);
  return found;
}

static double cpu_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void meet_two(void *ctx, int64_t begin, int64_t end) {
  _Atomic(int64_t) *here = ctx;
  atomic_fetch_add(here, end - begin);
  while (atomic_load(here) < 2) sched_yield();
}

/* Processor time of a loop of two shares that wait for each other, the least of some rounds. */
static double met_us(thread_pool *pool) {
  enum { ROUNDS = 9, LOOPS = 300 };
  double least = 1e9;
  for (int r = 0; r < ROUNDS; r++) {
    const double begin = cpu_us();
    for (int i = 0; i < LOOPS; i++) thread_pool_run(pool, 2, 1, meet_two, &(_Atomic(int64_t)){0});
    const double each = (cpu_us() - begin) / LOOPS;
    if (each < least) least = each;
  }
  return least;
}

/* Caller and worker come to be on one processor after the pool was made: a worker that spun there
 * would hold the caller up for all of its 20 microseconds. */
START_TEST(nobody_spins_in_the_others_way) {
  cpu_set_t before, one;
  if (threads_available() < 2) return;
  thread_pool *pool = make(2);
  check_loop(pool, 100, 1);
  ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
  ck_assert_int_eq(sched_setaffinity(first_worker(), sizeof one, &one), 0);
  const double each = met_us(pool);
  ck_assert_msg(each < 12, "%.1f us of a processor for a loop", each);
  sched_setaffinity(0, sizeof before, &before);
  thread_pool_destroy(pool);
}
END_TEST

static cpu_set_t only(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  return set;
}

/* Runs a loop from that processor, when the last one is long enough ago for workers to be moved. */
static cpu_set_t workers_after_loop_on(thread_pool *pool, int processor) {
  const cpu_set_t here = only(processor);
  cpu_set_t found;
  ck_assert_int_eq(sched_setaffinity(0, sizeof here, &here), 0);
  nanosleep(&(struct timespec){0, 6000000}, NULL);
  check_loop(pool, 100, 1);
  ck_assert_int_eq(sched_getaffinity(first_worker(), sizeof found, &found), 0);
  return found;
}

static void late_worker(void *ctx, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  if (gettid() != *(const pid_t *)ctx) nanosleep(&(struct timespec){0, 3000000}, NULL);
  nanosleep(&(struct timespec){0, 300000}, NULL); /* so that each gets some */
}

/* A kernel may put a worker that it wakes behind the caller, though another processor idles. */
START_TEST(workers_keep_off_the_callers_processor) {
  cpu_set_t before, found;
  ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
  if (threads_available() < 2) return;
  thread_pool *pool = make(2);
  check_loop(pool, 100, 1);
  const pid_t self = gettid();
  int two[2], count = 0;
  for (int i = 0; i < CPU_SETSIZE && count < 2; i++)
    if (CPU_ISSET(i, &before)) two[count++] = i;
  for (int i = 0; i < 4; i++) {
    cpu_set_t wanted = before;
    CPU_CLR(two[i % 2], &wanted);
    found = workers_after_loop_on(pool, two[i % 2]);
    ck_assert(CPU_EQUAL(&found, &wanted));
  }
  /* One that is late may come to where the caller waits for it. */
  for (int i = 0; i < 20 && !CPU_EQUAL(&found, &before); i++) {
    thread_pool_run(pool, 8, 1, late_worker, &(pid_t){self});
    ck_assert_int_eq(sched_getaffinity(first_worker(), sizeof found, &found), 0);
  }
  ck_assert(CPU_EQUAL(&found, &before));
  /* What others have chosen holds. */
  const cpu_set_t chosen = only(two[0]);
  ck_assert_int_eq(sched_setaffinity(first_worker(), sizeof chosen, &chosen), 0);
  for (int i = 0; i < 2; i++) {
    found = workers_after_loop_on(pool, two[i]);
    ck_assert(CPU_EQUAL(&found, &chosen));
  }
  sched_setaffinity(0, sizeof before, &before);
  thread_pool_destroy(pool);
}
END_TEST

/* The caller stays where it may be, and so do workers where one of them has to share. */
START_TEST(others_processors_stay_as_they_are) {
  cpu_set_t before, found;
  ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
  const uint32_t processors = threads_available();
  for (uint32_t threads = processors; threads <= processors + 1; threads++) {
    if (threads < 2) continue;
    thread_pool *pool = make(threads);
    for (int i = 0; i < 3; i++) {
      check_loop(pool, 100, 1);
      nanosleep(&(struct timespec){0, 6000000}, NULL);
    }
    ck_assert_int_eq(sched_getaffinity(0, sizeof found, &found), 0);
    ck_assert(CPU_EQUAL(&found, &before));
    ck_assert_int_eq(sched_getaffinity(first_worker(), sizeof found, &found), 0);
    if (threads > processors) ck_assert(CPU_EQUAL(&found, &before));
    thread_pool_destroy(pool);
  }
}
END_TEST

static _Atomic(int) held, let_go;

static void hold(int signal) {
  (void)signal;
  atomic_store(&held, 1);
  while (!atomic_load(&let_go)) nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* As a busy system does for long: one worker is stopped, and loops are done without it. */
START_TEST(a_worker_that_does_not_run_holds_nothing_up) {
  thread_pool *pool = make(3);
  check_loop(pool, 100, 1);
  struct sigaction was, holding = {.sa_handler = hold};
  atomic_store(&held, 0);
  atomic_store(&let_go, 0);
  ck_assert_int_eq(sigaction(SIGTRAP, &holding, &was), 0);
  ck_assert_int_eq(syscall(SYS_tgkill, getpid(), first_worker(), SIGTRAP), 0);
  while (!atomic_load(&held)) sched_yield();
  for (int i = 0; i < 200; i++) check_loop(pool, 1000, 1);
  atomic_store(&let_go, 1);
  check_loop(pool, 1000, 1);
  thread_pool_destroy(pool);
  sigaction(SIGTRAP, &was, NULL);
}
END_TEST

START_TEST(affinity_counts) {
  cpu_set_t before, one;
  ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
  ck_assert_uint_ge(threads_available(), 1);
  ck_assert_uint_le(threads_available(), (uint32_t)CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
  ck_assert_uint_eq(threads_available(), 1);
  /* Two threads on one processor get on with it. */
  thread_pool *pool = make(2);
  for (int i = 0; i < 200; i++) check_loop(pool, 100, 1);
  thread_pool_destroy(pool);
  sched_setaffinity(0, sizeof before, &before);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("busy threads");
  TCase *busy = tcase_create("busy");
  tcase_set_timeout(busy, 120);
  tcase_add_test(busy, affinity_counts);
  if (!ASAN && !TSAN) tcase_add_test(busy, nobody_spins_in_the_others_way);
  tcase_add_test(busy, workers_keep_off_the_callers_processor);
  tcase_add_test(busy, others_processors_stay_as_they_are);
  tcase_add_test(busy, a_worker_that_does_not_run_holds_nothing_up);
  suite_add_tcase(suite, busy);
  return run_runner(srunner_create(suite));
}
