/*
 * The time to spread a loop over 1, 2, 4, ... threads and to have it back: shares with nothing to
 * do, which the caller may do himself; and shares of which the caller's waits for all others, in a
 * row and after the program was idle for 1, 10 and 100 ms. Beside it the same by libgomp, where the
 * compiler has OpenMP.
 */
#include "dispatcher/base/threads.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure.h"

enum { WARM_LOOPS = 500, WARM_ROUNDS = 15, IDLE_MOST = 400 };

enum { THREADS_MOST = 4096 };

typedef void share(void *ctx, int64_t begin, int64_t end);

/* One way to run `n` shares on `n` threads. */
typedef struct way {
  const char *name;
  void (*run)(thread_pool *pool, int n, share *body);
} way;

static void nothing(void *ctx, int64_t begin, int64_t end) { (void)ctx, (void)begin, (void)end; }

/* The last loop that each share was done of, on lines of their own. */
static struct { _Alignas(128) _Atomic(int64_t) loop; } marks[THREADS_MOST];
static int64_t loops;
static int members;

/* The first share waits for the others, whoever does them. */
static void meet(void *ctx, int64_t begin, int64_t end) {
  (void)ctx;
  for (int64_t i = begin; i < end; i++) atomic_store(&marks[i].loop, loops);
  for (int i = 1; begin == 0 && end < members && i < members; i++)
    while (atomic_load(&marks[i].loop) != loops) continue;
}

static void run_pool(thread_pool *pool, int n, share *body) {
  thread_pool_run(pool, n, 1, body, NULL);
}

#ifdef _OPENMP
static void run_openmp(thread_pool *pool, int n, share *body) {
  (void)pool;
#pragma omp parallel for num_threads(n) schedule(static, 1)
  for (int i = 0; i < n; i++) body(NULL, i, i + 1);
}
#endif

static void run(const way *w, thread_pool *pool, int n, share *body) {
  loops++;
  members = n;
  w->run(pool, n, body);
}

static const way ways[] = {
    {"pool", run_pool},
#ifdef _OPENMP
    {"libgomp", run_openmp},
#endif
};

static double warm_ns(const way *w, thread_pool *pool, int n, share *body) {
  double rounds[WARM_ROUNDS];
  for (int i = 0; i < WARM_LOOPS; i++) run(w, pool, n, body);
  for (int r = 0; r < WARM_ROUNDS; r++) {
    const double begin = now_ns();
    for (int i = 0; i < WARM_LOOPS; i++) run(w, pool, n, body);
    rounds[r] = (now_ns() - begin) / WARM_LOOPS;
  }
  return median(rounds, WARM_ROUNDS);
}

/* Median and 99th percentile of loops that come after `idle_ms` each, for half a second or more. */
static void after_idle(const way *w, thread_pool *pool, int n, int idle_ms, double *half,
                       double *late) {
  static double times[IDLE_MOST];
  const int count = idle_ms >= 100 ? 20 : IDLE_MOST / idle_ms < 40 ? 40 : IDLE_MOST / idle_ms;
  const struct timespec idle = {0, idle_ms * 1000000L};
  for (int i = 0; i < count; i++) {
    nanosleep(&idle, NULL);
    const double begin = now_ns();
    run(w, pool, n, meet);
    times[i] = now_ns() - begin;
  }
  *half = median(times, (size_t)count); /* sorts */
  *late = times[(int)ceil(0.99 * count) - 1];
}

static void measure(const bench *b, const way *w, int n) {
  static const int idle_ms[] = {1, 10, 100};
  thread_pool *pool = NULL;
  char what[64];
  double half[3], late[3];
  must(thread_pool_create(&host_memory_default, (uint32_t)n, &pool), "a pool");
  const double warm = warm_ns(w, pool, n, nothing), met = warm_ns(w, pool, n, meet);
  for (int i = 0; i < 3; i++) after_idle(w, pool, n, idle_ms[i], &half[i], &late[i]);
  thread_pool_destroy(pool);
  snprintf(what, sizeof what, "%s on %d threads", w->name, n);
  bench_row(b, what, 8,
            (figure[]){{"warm_us", warm / 1e3},
                       {"meet_us", met / 1e3},
                       {"idle_1ms_p50_us", half[0] / 1e3},
                       {"idle_1ms_p99_us", late[0] / 1e3},
                       {"idle_10ms_p50_us", half[1] / 1e3},
                       {"idle_10ms_p99_us", late[1] / 1e3},
                       {"idle_100ms_p50_us", half[2] / 1e3},
                       {"idle_100ms_p99_us", late[2] / 1e3}});
}

int main(int argc, char **argv) {
  /* Rows carry no device: the pool is the processor's. */
  const bench b = {
      .name = "threads", .info.id = "cpu", .table = argc > 1 && !strcmp(argv[1], "--table")};
  const int most = (int)threads_available();
  for (int n = 1; n <= most; n = n < most && 2 * n > most ? most : 2 * n)
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) measure(&b, &ways[i], n);
  return fflush(stdout) || ferror(stdout);
}
