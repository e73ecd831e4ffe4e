/*
 * Averages of windows that follow each other by a stride, against the reference: every stride with
 * windows shorter and longer than it, borders on one side or both and windows that reach beyond
 * them, on either side of the numbers of windows and of columns from which other loops take them;
 * by the instructions of each instruction set.
 */
#include "numeric.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* Whole numbers, so that sums are exact, and an average errs by its rounding and one more where it
 * is a product with a reciprocal. */
static void check(tn_dtype dtype, int h, int w, const tn_avg_pool2d_attrs *attrs) {
  tn_tensor *y[2] = {NULL};
  for (int d = 0; d < 2; ++d) {
    tn_tensor *x = whole_numbers(b.devices[d], dtype, 4, SHAPE(2, 3, h, w), 100, 7);
    ok(tn_avg_pool2d(NULL, x, attrs, &y[d]));
    tn_tensor_release(x);
  }
  double *want = values_of(y[0]);
  char what[160];
  snprintf(what, sizeof what, "avg_pool2d of %dx%d, windows %dx%d by %d, padding %d", h, w,
           (int)attrs->kernel[0], (int)attrs->kernel[1], (int)attrs->stride[1],
           (int)attrs->padding[1]);
  must_be(&b, what, 1, y[1], tn_tensor_elements(y[0]), want,
          dtype == TN_F32    ? 1e-7
          : dtype == TN_BF16 ? 0x1p-8
                             : 1e-15);
  free(want);
  tn_tensor_release(y[0]);
}

static void check_widths(tn_dtype dtype, int kernel, int stride, int padding, bool ceil_mode) {
  static const int widths[] = {3, 4, 5, 7, 15, 16, 17, 33, 70};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; ++i)
    for (int counted = 0; counted < 2; ++counted) {
      if (widths[i] + 2 * padding < kernel) continue;
      tn_avg_pool2d_attrs attrs = {.struct_size = sizeof attrs,
                                   .kernel = {kernel, kernel},
                                   .stride = {stride, stride},
                                   .padding = {padding, padding},
                                   .count_padding = counted,
                                   .ceil_mode = ceil_mode};
      check(dtype, kernel + 3, widths[i], &attrs);
    }
}

START_TEST(windows_by_strides) {
  for (int kernel = 1; kernel < 6; ++kernel)
    for (int stride = 1; stride < 5; ++stride)
      for (int padding = 0; 2 * padding <= kernel; ++padding)
        for (int up = 0; up < 2; ++up) check_widths(TN_F32, kernel, stride, padding, up);
}
END_TEST

START_TEST(windows_of_other_types) {
  for (int kernel = 2; kernel < 4; ++kernel) {
    check_widths(TN_BF16, kernel, 2, 1, false);
    check_widths(TN_F64, kernel, 1, 1, true);
  }
}
END_TEST

/* From 17 columns on windows go one by one. */
START_TEST(long_windows) {
  for (int kernel = 15; kernel < 19; ++kernel) check_widths(TN_F32, kernel, 2, 3, false);
}
END_TEST

static void add_tests(TCase *c) {
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, windows_by_strides);
  tcase_add_test(c, windows_of_other_types);
  tcase_add_test(c, long_windows);
}

int main(void) { return run_suite("avg_windows", add_tests); }
