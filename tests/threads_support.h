/* What tests of the thread pool share: pools, loops that count their indexes, workers by name. */
#ifndef TENON_TESTS_THREADS_SUPPORT_H
#define TENON_TESTS_THREADS_SUPPORT_H

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/base/threads.h"
#include "tests/suite.h"

/* A sanitizer takes too much address space to limit it; the thread sanitizer does not
 * follow a fork from a program with threads. */
#ifdef __has_feature
#define FEATURE(name) __has_feature(name)
#else
#define FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || FEATURE(thread_sanitizer)
enum { ASAN = 0, TSAN = 1 };
#elif defined(__SANITIZE_ADDRESS__) || FEATURE(address_sanitizer)
enum { ASAN = 1, TSAN = 0 };
#else
enum { ASAN = 0, TSAN = 0 };
#endif

static inline thread_pool *make(uint32_t num_threads) {
  thread_pool *pool = NULL;
  ck_assert_int_eq(thread_pool_create(&host_memory_default, num_threads, &pool), TN_OK);
  return pool;
}

typedef struct tally {
  unsigned char *times; /* how often each index was done */
  int64_t n, grain;
  _Atomic(int64_t) shares, short_shares;
} tally;

static inline void count(void *ctx, int64_t begin, int64_t end) {
  tally *t = ctx;
  atomic_fetch_add(&t->shares, 1);
  if (end - begin < t->grain) atomic_fetch_add(&t->short_shares, 1);
  for (int64_t i = begin; i < end; i++) t->times[i]++;
}

/* Runs a loop and returns the number of its shares. */
static inline int64_t check_loop(thread_pool *pool, int64_t n, int64_t grain) {
  tally t = {.n = n, .grain = grain < 1 ? 1 : grain};
  t.times = calloc((size_t)n + 1, 1);
  thread_pool_run(pool, n, grain, count, &t);
  int64_t wrongly = t.times[n];
  for (int64_t i = 0; i < n; i++) wrongly += t.times[i] != 1;
  ck_assert_int_eq(wrongly, 0);
  if (n >= t.grain) ck_assert_int_eq(atomic_load(&t.short_shares), 0);
  free(t.times);
  return atomic_load(&t.shares);
}

/* By their names: sanitizers have threads of their own. */
static inline bool is_worker(const char *task) {
  char path[300], name[32] = "";
  snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
  FILE *comm = fopen(path, "r");
  if (!comm) return false;
  const bool worker = fgets(name, sizeof name, comm) && !strncmp(name, "tenon-", 6);
  fclose(comm);
  return worker;
}

#endif
