/* The runtime that a test talks to, and which devices there are to test. */
#ifndef TENON_TESTS_SESSION_H
#define TENON_TESTS_SESSION_H

#include "run_case.h"

/* A device to test, by its id. */
typedef struct test_device {
  char id[48];
  char type[32];
} test_device;

enum { TEST_DEVICES = 16 };

/* The usable devices, one per type, without the reference unless TENON_TEST_DEVICE
 * names it. Prints "skipped: no <type> device" for types that have none. `forked`: tests
 * run in forked children, so the look is taken in a child of its own. */
size_t session_devices(test_device *list, bool forked);

/* The process's runtime, opened on first use; a call that falls back fails. */
tn_runtime *session_runtime(void);
void session_close(void);
tn_device *session_device(const char *id);
/* The schema of operator `id`. */
const tn_operator *session_operator(uint32_t id);

/* Figures of all tests together, in memory that forked children share. */
typedef struct session_totals {
  uint64_t cases, runs, unsupported, failures, bad_calls;
  uint64_t combos[TEST_DEVICES], native[TEST_DEVICES]; /* operator x element types */
} session_totals;
session_totals *session_shared(void);

#endif
