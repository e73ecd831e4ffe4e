/*
 * Where a runtime's memory comes from and what taking it costs: the host's allocator, its help
 * on shortage, and pools with very many tensors.
 */
#include <stdint.h>
#include <time.h>

#include "tests/support.h"

/* ------------------------------------------------------------------- many tensors --- */

static int64_t thread_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Time of this thread for large tensors that each take memory of their own: the least of
 * several goes, so that a busy machine does not count. */
static int64_t cost_of_growing(tn_device *device) {
  enum { GOES = 7, TENSORS = 16 };
  int64_t best = INT64_MAX;
  for (int go = 0; go < GOES; go++) {
    tn_tensor *large[TENSORS];
    int64_t begin = thread_ns();
    for (int i = 0; i < TENSORS; i++) large[i] = shaped(device, TN_U8, 1, SHAPE(12 << 20));
    int64_t ns = thread_ns() - begin;
    best = ns < best ? ns : best;
    for (int i = 0; i < TENSORS; i++) tn_tensor_release(large[i]);
    ok(tn_device_trim(device));
  }
  return best;
}

START_TEST(taking_memory_costs_the_same_however_much_lives) {
  enum { LIVING = 100000 };
  tn_runtime_options options = {.struct_size = sizeof options, .plugins = "reference"};
  tn_runtime *runtime = open_runtime(&options);
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor **living = malloc(LIVING * sizeof *living);
  int64_t alone = cost_of_growing(device);
  for (int i = 0; i < LIVING; i++) living[i] = shaped(device, TN_F32, 1, SHAPE(25));
  int64_t in_company = cost_of_growing(device);
  ck_assert_msg(in_company < 10 * alone, "%lld ns with %d tensors alive, %lld ns without",
                (long long)in_company, LIVING, (long long)alone);
  for (int i = 0; i < LIVING; i++) tn_tensor_release(living[i]);
  tn_runtime_close(runtime);
  free(living);
}
END_TEST

static void add_tests(TCase *t) {
#if !defined(TENON_CHECKS) || TENON_CHECKS < 2 /* which walks over all, on purpose */
  tcase_add_test(t, taking_memory_costs_the_same_however_much_lives);
#else
  (void)t;
  (void)taking_memory_costs_the_same_however_much_lives;
#endif
}

int main(void) { return run_suite("memory", add_tests); }
