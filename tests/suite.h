/* Runs suites of Check; the exit status is main's. */
#ifndef TENON_TESTS_SUITE_H
#define TENON_TESTS_SUITE_H

#include <check.h>
#undef fail /* Check has a macro of that name, the dispatcher a function */
#include <stdlib.h>

/* Check writes every point that is passed to a file, for its words on a test that crashes. A test
 * may pass the same few a million times: the last few are not written again. */
static inline void suite_point(const char *file, int line) {
  enum { LAST = 8 };
  static _Thread_local struct {
    const char *file;
    int line;
  } last[LAST];
  static _Thread_local int at;
  for (int i = 0; i < LAST; ++i)
    if (last[i].line == line && last[i].file == file) return;
  last[at].file = file, last[at].line = line;
  at = (at + 1) % LAST;
  _mark_point(file, line);
}
#define _mark_point(file, line) suite_point(file, line)

/* Frees the runner, and its suites with it. CK_RUN_CASE and the like choose among them. */
static inline int run_runner(SRunner *runner) {
  srunner_run_all(runner, CK_ENV);
  const int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A suite of one case, whose tests may take so many seconds each. */
static inline int run_suite_within(const char *name, double seconds, void (*add_tests)(TCase *)) {
  Suite *suite = suite_create(name);
  TCase *tcase = tcase_create(name);
  tcase_set_timeout(tcase, seconds);
  add_tests(tcase);
  suite_add_tcase(suite, tcase);
  return run_runner(srunner_create(suite));
}

static inline int run_suite(const char *name, void (*add_tests)(TCase *)) {
  return run_suite_within(name, 60, add_tests);
}

#endif
