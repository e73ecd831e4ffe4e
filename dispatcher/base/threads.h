/*
 * The thread pool behind parallel_for: N - 1 workers and the caller. Workers spin
 * briefly for the next loop, then sleep. One loop runs at a time; a loop started
 * while another runs (from inside it or from another thread) runs in its caller, so
 * nothing can deadlock.
 */
#ifndef TENON_DISPATCHER_THREADS_H
#define TENON_DISPATCHER_THREADS_H

#include "dispatcher/base/error.h"

typedef struct thread_pool thread_pool;

/* The processors this process may run on (affinity and cgroup quota), at least 1. */
uint32_t threads_available(void);

/* Whole processors that a control group's quota allows, at least 1, UINT32_MAX for no
 * quota. membership: a file like /proc/self/cgroup; root: where the groups are mounted,
 * /sys/fs/cgroup. */
uint32_t threads_quota(const char *membership, const char *root);

/* num_threads >= 1, caller included. Workers start at the first loop that is worth
 * it. */
tn_status thread_pool_create(const host_memory *memory, uint32_t num_threads, thread_pool **out);

/* To be told, once and in the thread whose loop it is, where fewer workers than wanted could be
 * started. pre: no loop has run. */
void thread_pool_on_shortage(thread_pool *pool,
                             void (*tell)(void *ctx, uint32_t started, uint32_t wanted,
                                          const char *why),
                             void *ctx);

/* Joins the workers; later loops run in their callers. pre: no loop is running. Accepts NULL. */
void thread_pool_stop(thread_pool *pool);

/* Stops it and frees it. Accepts NULL. */
void thread_pool_destroy(thread_pool *pool);

/* Threads that a loop is spread over, caller included: num_threads, or fewer once
 * starting workers has failed. */
uint32_t thread_pool_size(const thread_pool *pool);

/* Runs body over 0 <= i < n in shares of at least `grain` indexes (one share if n is
 * less; grain < 1 counts as 1) and returns when all are done; what they wrote is visible
 * then. Floating-point environment of the workers is the default one. Thread-safe. */
void thread_pool_run(thread_pool *pool, int64_t n, int64_t grain,
                     void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx);

#endif
