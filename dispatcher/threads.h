/*
 * The thread pool behind parallel_for: N - 1 workers and the caller. Workers spin
 * briefly for the next loop, then sleep. One loop runs at a time; a loop started
 * while another runs (from inside it or from another thread) runs in its caller, so
 * nothing can deadlock.
 */
#ifndef TENON_DISPATCHER_THREADS_H
#define TENON_DISPATCHER_THREADS_H

#include "error.h"

typedef struct thread_pool thread_pool;

/* The processors this process may run on (affinity and cgroup quota), at least 1. */
uint32_t threads_available(void);

/* num_threads >= 1, caller included. Workers start at the first loop that is worth
 * it. */
tn_status thread_pool_create(const host_memory *memory, uint32_t num_threads, thread_pool **out);

/* Joins the workers. pre: no loop is running. Accepts NULL. */
void thread_pool_destroy(thread_pool *pool);

uint32_t thread_pool_size(const thread_pool *pool);

/* Runs body over 0 <= i < n in shares of at least `grain` >= 1 indexes and returns when
 * all are done. Floating-point environment of the workers is the default one. */
void thread_pool_run(thread_pool *pool, int64_t n, int64_t grain,
                     void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx);

#endif
