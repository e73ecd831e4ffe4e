/* Calls that must fail and change nothing. */
#ifndef TENON_TESTS_BAD_CALLS_H
#define TENON_TESTS_BAD_CALLS_H

#include "run_case.h"

/* Makes every bad call that a case of `op` can be turned into; `other` is a second
 * device. t->bad_calls counts them. */
void bad_calls(const op_case *c, tn_device *device, tn_device *other, tally *t);

#endif
