/* Running cases on a device and on the reference. */
#ifndef TENON_TESTS_RUN_CASE_H
#define TENON_TESTS_RUN_CASE_H

#include "cases/op_case.h"
#include "rows.h"
#include "tenon/tenon.h"

typedef enum case_again { RUN_NOT, RUN_AGAIN, RUN_FIRST } case_again;

/* Hears of every run. `before` may say no, and the run is left out. */
typedef struct tally_watch {
  void *ctx;
  bool (*before)(void *ctx, const op_case *c, const char *how);
  /* The reference's run, which what follows it in a case needs: where another process did it
   * before, it is done once more. NULL: as `before` says. */
  case_again (*again)(void *ctx, const op_case *c, const char *how);
  void (*now)(void *ctx, const char *how); /* a part of a run begins; may be NULL */
  void (*failed)(void *ctx, const char *text);
} tally_watch;

/* What running the cases of one operator on one device came to. */
typedef struct tally {
  uint64_t cases, runs; /* cases, and the variants in which they ran */
  uint64_t unsupported; /* runs for which the device has no kernel */
  uint64_t bad_calls, repeats;
  uint64_t thresholds; /* lines between two kernels, both sides of which were cases */
  uint64_t declined;   /* cases that a plugin's own shape rule does not take */
  char reason[160];    /* of the first of them */
  uint64_t failures;
  double error, bound;  /* of the output that came nearest to its bound, or passed it */
  uint64_t number;      /* of the case, for what is done by turns */
  const row_list *rows; /* the kernels of its types; NULL: the best alone */
  tally_watch watch;
} tally;

/* Whether the status says that a plugin's own shape rule does not take what was made up
 * for it. */
bool case_declined(const op_case *c, tn_status status);

/* Runs every variant of a case on `device` and judges it by `reference`. */
void run_case(const op_case *c, tn_device *device, tn_device *reference, tally *t);

/* Makes a case's call twice on a device of a deterministic runtime and compares bits. */
void repeat_case(const op_case *c, tn_device *device, tally *t);

/* Says that a run is about to begin; false: leave it out. */
bool tally_begin(tally *t, const op_case *c, const char *how);
void tally_fail(tally *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
