/*
 * Tests of the reference kernels and backend, called directly: known answers, naive
 * formulas and finite differences. What holds here is what other backends are compared
 * with. The suites are in reference/.
 */
#include "reference/harness.h"

int main(void) {
  SRunner *runner = srunner_create(element_suite());
  srunner_add_suite(runner, elementwise_suite());
  srunner_add_suite(runner, reduce_suite());
  srunner_add_suite(runner, product_suite());
  srunner_add_suite(runner, pool_suite());
  srunner_add_suite(runner, window_suite());
  srunner_add_suite(runner, softmax_suite());
  srunner_add_suite(runner, random_suite());
  srunner_add_suite(runner, backend_suite());
  return run_runner(runner);
}
