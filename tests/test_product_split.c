/*
 * How products are cut for threads: everyone gets a fair share whatever the shape, blocks stay
 * inside the result, and small products are left whole.
 */

#define TN_ISA split
#include "kernels/cpu/matmul/split.h"
#include "tests/suite.h"

/* Terms of the thread with most blocks over a fair share; blocks are handed out in order. */
typedef split_blocks way(const split_work *w);
static double imbalance(way *choose, const split_work *w) {
  const split_blocks b = choose(w);
  ck_assert(b.m >= 1 && b.m <= w->m && b.n >= 1 && b.n <= w->n);
  const int64_t blocks = w->batches * cpu_ceil_div(w->m, b.m) * cpu_ceil_div(w->n, b.n);
  const double most = (double)cpu_ceil_div(blocks, w->threads) * (double)b.m * (double)b.n;
  return most * (double)w->threads / ((double)w->batches * (double)w->m * (double)w->n);
}

static const int64_t cubes[] = {192, 256, 384, 512, 768, 1000, 1024, 2048, 4096};
static const int64_t threads[] = {2, 4, 8, 16};

START_TEST(cubes_are_shared_fairly) {
  for (size_t i = 0; i < sizeof cubes / sizeof *cubes; i++) {
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
      const int64_t s = cubes[i];
      const split_work w = {1, s, s, s, threads[t], _i};
      ck_assert_msg(imbalance(split_choose, &w) <= 1.25, "%d on %d threads: %g", (int)s,
                    (int)threads[t], imbalance(split_choose, &w));
    }
  }
}
END_TEST

START_TEST(long_products_are_shared_fairly) {
  static const int64_t shapes[][4] = {{1, 64, 9216, 128},  {1, 9216, 64, 128}, {1, 1, 4096, 4096},
                                      {1, 4096, 1, 4096},  {1, 7, 5000, 900},  {1, 5000, 7, 900},
                                      {17, 256, 256, 256}, {3, 300, 500, 64},  {1000, 32, 32, 32},
                                      {1, 32, 36864, 288}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int64_t *s = shapes[i];
    const split_work w = {s[0], s[1], s[2], s[3], 16, _i};
    ck_assert_msg(imbalance(split_choose, &w) <= 1.3, "case %d: %g", (int)i,
                  imbalance(split_choose, &w));
  }
}
END_TEST

/* Rows in whole tiles of registers and columns in whole strips: what is left of a strip is less
 * work than it is counted for. */
START_TEST(strips_are_shared_fairly) {
  static const int64_t shapes[][4] = {{1, 64, 9216, 128},  {1, 9216, 64, 128}, {1, 7, 5000, 900},
                                      {17, 256, 256, 256}, {3, 300, 500, 64},  {1000, 32, 32, 32},
                                      {1, 128, 128, 128},  {64, 512, 512, 64}};
  for (size_t i = 0; i < sizeof cubes / sizeof *cubes; i++)
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
      const split_work w = {1, cubes[i], cubes[i], cubes[i], threads[t], false};
      ck_assert_msg(imbalance(split_strips, &w) <= 1.2, "%d on %d threads: %g", (int)cubes[i],
                    (int)threads[t], imbalance(split_strips, &w));
      ck_assert_int_eq(split_strips(&w).m % SPLIT_TILE, 0);
    }
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int64_t *s = shapes[i];
    const split_work w = {s[0], s[1], s[2], s[3], 16, false};
    ck_assert_msg(imbalance(split_strips, &w) <= 1.2, "case %d: %g", (int)i,
                  imbalance(split_strips, &w));
  }
}
END_TEST

START_TEST(small_products_are_left_whole) {
  for (int64_t s = 1; s <= 64; s++) {
    const split_work w = {1, s, s, s, 16, _i};
    const split_blocks b = split_choose(&w);
    ck_assert(b.m == s && b.n == s);
  }
}
END_TEST

/* A single thread cuts only what the BLAS then need not pack. */
START_TEST(one_thread_cuts_for_the_kernel_without_packing) {
  const split_work packing = {1, 256, 256, 256, 1, false}, in_place = {1, 256, 256, 256, 1, true};
  const split_blocks whole = split_choose(&packing), cut = split_choose(&in_place);
  ck_assert(whole.m == 256 && whole.n == 256);
  ck_assert_int_le(cut.m * cut.n * 256, SPLIT_UNPACKED);
  const split_work deep = {1, 256, 256, 5000, 1, true};
  ck_assert_int_eq(split_choose(&deep).m, 256);
}
END_TEST

static void add_tests(TCase *tests) {
  tcase_add_loop_test(tests, cubes_are_shared_fairly, 0, 2);
  tcase_add_loop_test(tests, long_products_are_shared_fairly, 0, 2);
  tcase_add_test(tests, strips_are_shared_fairly);
  tcase_add_loop_test(tests, small_products_are_left_whole, 0, 2);
  tcase_add_test(tests, one_thread_cuts_for_the_kernel_without_packing);
}

int main(void) { return run_suite("product_split", add_tests); }
