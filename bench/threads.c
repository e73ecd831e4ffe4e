/*
 * The time to spread a loop over 1, 2, 4, ... threads and to have it back, of the pool and beside
 * it of libgomp, where the compiler has OpenMP.
 *
 * In a row: warm_us has shares with nothing to do, which the caller may do himself; in meet_us the
 * caller's share waits for all others. After the program was idle for 1, 10 and 100 ms: p50_us and
 * p99_us of a loop of some 20 microseconds of arithmetic, of which idle threads may or may not be
 * there to do a part, so that "caller alone" stands beside it; meet_p50_us and meet_p99_us of
 * shares that wait for each other, which is how long the system takes to run a thread that sleeps;
 * and idle_cpu_us, the processor time that was spent while the program was idle.
 */
#include "dispatcher/base/threads.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure.h"

enum { WARM_LOOPS = 500, WARM_ROUNDS = 15, IDLE_MOST = 400, THREADS_MOST = 4096, PIECES = 64 };

typedef void share(void *ctx, int64_t begin, int64_t end);

/* One way to run a loop over `n` on so many threads. */
typedef struct way {
  const char *name;
  void (*run)(thread_pool *pool, int threads, int n, share *body);
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

/* About 0.3 microseconds for each index: dependent additions. */
static void work(void *ctx, int64_t begin, int64_t end) {
  volatile double sink;
  (void)ctx;
  for (int64_t i = begin; i < end; i++) {
    double x = (double)i;
    for (int k = 0; k < 250; k++) x += 1e-3 * x;
    sink = x;
  }
  (void)sink;
}

static void run_pool(thread_pool *pool, int threads, int n, share *body) {
  (void)threads;
  thread_pool_run(pool, n, 1, body, NULL);
}

static void run_alone(thread_pool *pool, int threads, int n, share *body) {
  (void)pool, (void)threads;
  body(NULL, 0, n);
}

#ifdef _OPENMP
static void run_openmp(thread_pool *pool, int threads, int n, share *body) {
  (void)pool;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int i = 0; i < n; i++) body(NULL, i, i + 1);
}
#endif

static void run(const way *w, thread_pool *pool, int threads, share *body) {
  loops++;
  members = threads;
  w->run(pool, threads, body == work ? PIECES : threads, body);
}

static const way ways[] = {
    {"caller alone", run_alone},
    {"pool", run_pool},
#ifdef _OPENMP
    {"libgomp", run_openmp},
#endif
};

static double warm_ns(const way *w, thread_pool *pool, int n, share *body) {
  const int turns = (int)bench_times(WARM_ROUNDS), each = (int)bench_times(WARM_LOOPS);
  double rounds[WARM_ROUNDS];
  for (int i = 0; i < each; i++) run(w, pool, n, body);
  for (int r = 0; r < turns; r++) {
    const double begin = now_ns();
    for (int i = 0; i < each; i++) run(w, pool, n, body);
    rounds[r] = (now_ns() - begin) / each;
  }
  return median(rounds, (size_t)turns);
}

static double cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

typedef struct idle_times {
  double half, late; /* median and 99th percentile of a loop, nanoseconds */
  double cpu;        /* processor time of the idle time before each */
} idle_times;

/* Loops that come after `idle_ms` each, for half a second or more. */
static idle_times after_idle(const way *w, thread_pool *pool, int n, share *body, int idle_ms) {
  static double times[IDLE_MOST];
  const int most = IDLE_MOST / idle_ms < 40 ? 40 : IDLE_MOST / idle_ms;
  const int count = (int)bench_times(idle_ms >= 100 ? 20 : (size_t)most);
  const struct timespec idle = {0, idle_ms * 1000000L};
  idle_times found = {0, 0, 0};
  for (int i = 0; i < count; i++) {
    const double used = cpu_ns();
    nanosleep(&idle, NULL);
    found.cpu += (cpu_ns() - used) / count;
    const double begin = now_ns();
    run(w, pool, n, body);
    times[i] = now_ns() - begin;
  }
  found.half = median(times, (size_t)count); /* sorts */
  found.late = times[(int)ceil(0.99 * count) - 1];
  return found;
}

static void measure(const bench *b, const way *w, int n) {
  static const int idle_ms[] = {1, 10, 100};
  thread_pool *pool = NULL;
  char what[64];
  must(thread_pool_create(&host_memory_default, (uint32_t)n, &pool), "a pool");
  const double warm = warm_ns(w, pool, n, nothing), met = warm_ns(w, pool, n, meet);
  snprintf(what, sizeof what, "%s on %d threads", w->name, n);
  bench_row(b, what, 2, (figure[]){{"warm_us", warm / 1e3}, {"meet_us", met / 1e3}});
  for (int i = 0; i < 3; i++) {
    const idle_times loop = after_idle(w, pool, n, work, idle_ms[i]);
    const idle_times met_late = after_idle(w, pool, n, meet, idle_ms[i]);
    snprintf(what, sizeof what, "%s on %d threads, after %d ms", w->name, n, idle_ms[i]);
    bench_row(b, what, 5,
              (figure[]){{"p50_us", loop.half / 1e3},
                         {"p99_us", loop.late / 1e3},
                         {"meet_p50_us", met_late.half / 1e3},
                         {"meet_p99_us", met_late.late / 1e3},
                         {"idle_cpu_us", loop.cpu / 1e3}});
  }
  thread_pool_destroy(pool);
}

int main(int argc, char **argv) {
  /* Rows carry no device: the pool is the processor's. */
  const bench b = bench_options("threads", argc, argv, NULL);
  const int most = (int)threads_available();
  for (int n = 1; n <= most; n = n < most && 2 * n > most ? most : 2 * n)
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) measure(&b, &ways[i], n);
  return fflush(stdout) || ferror(stdout);
}
