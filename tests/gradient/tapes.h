/* What tests of tapes share: one on the runtime of graphs.h, and a step of one without memory. */
#ifndef TENON_TESTS_TAPES_H
#define TENON_TESTS_TAPES_H

#include "tests/graph/graphs.h"
#include "tests/scarce.h"

static tn_tape *tape;

static inline void setup_tape(void) {
  setup();
  ok(tn_tape_create(rt, &tape));
}
static inline void teardown_tape(void) {
  tn_tape_destroy(tape);
  teardown();
}

/* Records calls on x, which the tape watches, and takes the gradient; no tensor stays on failure.
 */
typedef tn_status (*tape_step)(tn_tape *own, tn_tensor *x, tn_tensor **dx);

/* The n-th allocation of a step fails, for every n that there is: a clear status, and the next try
 * works. */
static inline void survives_shortage(tape_step step) {
  tn_runtime *poor = open_scarce();
  tn_tensor *x = numbers(tn_runtime_device(poor), 2, 3, 1), *want = NULL;
  int failures = 0, worked = 0;
  for (int n = 0; !worked; ++n) {
    tn_tape *own = NULL;
    tn_tensor *dx = NULL;
    ok(tn_tape_create(poor, &own));
    ok(tn_tape_watch(own, x));
    ok(tn_tape_begin(own));
    scarce_begin(n, true);
    tn_status status = step(own, x, &dx);
    worked = !scarce_end() && !status;
    ok_or_scarce(status, n);
    failures += status != TN_OK;
    if (status) {
      ck_assert_ptr_null(dx);
      ok(tn_tape_forget(own));
      ok(step(own, x, &dx));
    }
    if (want) same(dx, want);
    ok(tn_tape_end(own));
    tn_tape_destroy(own);
    if (want)
      tn_tensor_release(dx);
    else
      want = dx;
  }
  ck_assert_int_gt(failures, 10);
  RELEASE(x, want);
  tn_runtime_close(poor);
}

#endif
