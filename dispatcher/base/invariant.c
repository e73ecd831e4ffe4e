/* The end of a process whose invariants do not hold. */
#include "dispatcher/base/invariant.h"

#if TENON_CHECKS
#include <stdio.h>
#include <stdlib.h>

void invariant_broken(const char *condition, const char *file, int line) {
  fprintf(stderr, "tenon: %s:%d: this does not hold: %s\n", file, line, condition);
  abort();
}
#else
typedef int invariants_are_off; /* ISO C wants something in a file */
#endif
