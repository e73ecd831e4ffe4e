/*
 * Where workers of the thread pool may run: wherever their process may, but for the processor that
 * the caller is on. A kernel that wakes a thread may put it behind the one that woke it though
 * another processor is idle (in a virtual machine Linux takes processors that its host has put to
 * sleep for taken, see vcpu_is_preempted), and moves it milliseconds later, when the loop is over.
 */
#ifndef TENON_DISPATCHER_PLACEMENT_H
#define TENON_DISPATCHER_PLACEMENT_H

#include <pthread.h>
#include <sched.h>

typedef struct placement {
#ifdef __linux__
  cpu_set_t allowed; /* what workers inherit; empty where that is not known */
#else
  char none;
#endif
} placement;

/* The processor that this thread is on; -1 where that is not known. */
int processor_here(void);

/* In the thread that starts workers, before it does. */
void placement_init(placement *p);

/* Keeps a worker off processor `now`, and no longer off `was`; either may be -1. Nothing changes
 * where `now` is the only one allowed, nor for a worker that somebody else has placed since. */
void placement_move(const placement *p, pthread_t worker, int was, int now);

#endif
