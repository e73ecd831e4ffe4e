/* Running cases on a device and on the reference. */
#ifndef TENON_TESTS_RUN_CASE_H
#define TENON_TESTS_RUN_CASE_H

#include "op_case.h"
#include "tenon/tenon.h"

/* What running the cases of one operator on one device came to. */
typedef struct tally {
  uint64_t cases, runs; /* cases, and the variants in which they ran */
  uint64_t unsupported; /* runs for which the device has no kernel */
  uint64_t failures;
  char first[1400]; /* the first failure */
} tally;

/* Runs every variant of a case on `device` and judges it by `reference`. */
void run_case(const op_case *c, tn_device *device, tn_device *reference, tally *t);

/* Counts a failure; keeps the first and prints the first few. */
void tally_fail(tally *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
