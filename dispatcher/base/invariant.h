/*
 * Invariants: what the dispatcher's files promise of their structs. Each is stated as a
 * function `static bool thing_is_valid(const thing *)` and looked at where things change,
 * in builds that ask for it (meson's option `checks`):
 *
 *   0  nothing is compiled in, neither a test nor a function that only tests call
 *   1  INVARIANT: what one thing and its neighbours show, in time that does not grow with
 *      how many things there are
 *   2  INVARIANT_OF_ALL as well: walks over all blocks of a pool, all streams of a device
 *
 * One that does not hold ends the process, since nothing after it can be trusted: this is
 * for those who work on Tenon, and a released build has level 0.
 */
#ifndef TENON_DISPATCHER_INVARIANT_H
#define TENON_DISPATCHER_INVARIANT_H

#include <stdbool.h>

#ifndef TENON_CHECKS
#define TENON_CHECKS 0
#endif

/* Says which one does not hold, on standard error, and aborts. */
_Noreturn void invariant_broken(const char *condition, const char *file, int line);

/* The condition is compiled at every level, so that it cannot rot, and evaluated at its own. */
#define INVARIANT_AT(level, condition)                                                             \
  ((void)(TENON_CHECKS >= (level) && !(condition) &&                                               \
          (invariant_broken(#condition, __FILE__, __LINE__), true)))

#define INVARIANT(condition) INVARIANT_AT(1, condition)
#define INVARIANT_OF_ALL(condition) INVARIANT_AT(2, condition)

#endif
