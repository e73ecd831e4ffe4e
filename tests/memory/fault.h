/*
 * Requests for memory that fail on purpose: malloc and its kin, mmap and pthread_create, where
 * libtenon or a plugin of it calls them itself, and a tn_allocator. What others ask for, the
 * dynamic linker and OpenBLAS among them, succeeds: nothing is promised of their code.
 */
#ifndef TENON_TESTS_FAULT_H
#define TENON_TESTS_FAULT_H

#include "tenon/tenon.h"

typedef enum fault_mode {
  FAULT_OFF = 0,
  FAULT_COUNT = 1,    /* counts, and none fails */
  FAULT_ONCE = 2,     /* request number `at` fails */
  FAULT_FOR_GOOD = 3, /* and so do all after it */
  FAULT_EVERY = 4,    /* every request whose number `at` divides */
} fault_mode;

void fault_set(fault_mode mode, long at);
/* Requests seen since fault_set. */
long fault_seen(void);
/* Requests that failed since fault_set. */
long fault_failed(void);

/* An allocator whose requests count and fail as well, and the blocks that it has given out. */
extern const tn_allocator fault_allocator;
long fault_live(void);

#endif
