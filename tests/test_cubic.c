/*
 * Cubic weights keep their digits near their zeros, one and two elements from the element that they
 * weigh: a polynomial that is not in factors loses them where its terms cancel.
 */
#include "numeric.h"

/* Keys 1981 with a = -0.75, `short_of` an element less than `from` elements away; every product is
 * of numbers that a double holds with room to spare. */
static double keys(int from, double short_of) {
  const double a = -0.75, e = short_of;
  if (from == 2) return a * (1 - e) * e * e;
  return e < 0 ? a * -e * (1 + e) * (1 + e) : e * (2 - e - (a + 2) * (1 - e) * (1 - e));
}

/* An image of three elements whose first is 1, read at `from` - short_of. With the corners aligned
 * a place p of three is p - 1 in the grid, which is exact here. */
static void reads(const bench *b, int from, double short_of) {
  const tn_grid_sample_attrs cubic = {.struct_size = sizeof cubic,
                                      .mode = TN_GRID_CUBIC,
                                      .padding = TN_GRID_ZEROS,
                                      .align_corners = 1};
  const double want = keys(from, short_of), image[9] = {0, 0, 0, 1};
  const double place[2] = {from - 1 - short_of, 0}; /* along the row of the second three */
  for (int d = 0; d < b->count; ++d) {
    tn_tensor *y = NULL;
    tn_tensor *x = numbers(b->devices[d], TN_F64, 4, SHAPE(1, 1, 3, 3), image);
    tn_tensor *grid = numbers(b->devices[d], TN_F64, 4, SHAPE(1, 1, 1, 2), place);
    ok(tn_grid_sample(NULL, x, grid, &cubic, &y));
    double *got = values_of(y);
    if (!(fabs(*got - want) <= 1e-14 * fabs(want)))
      ck_abort_msg("%g short of %d on %s: %.17g, not %.17g", short_of, from, b->names[d], *got,
                   want);
    free(got);
    tn_tensor_release(x), tn_tensor_release(grid), tn_tensor_release(y);
  }
}

START_TEST(weights_near_their_zeros) {
  static const double near[] = {0x1p-4, 0x1p-10, 0x1p-20, 0x1p-30, 0x1p-36, 0x1.8p-40};
  bench b;
  bench_open(&b);
  for (size_t i = 0; i < sizeof near / sizeof *near; ++i) {
    reads(&b, 1, near[i]);
    reads(&b, 1, -near[i]);
    reads(&b, 2, near[i]);
  }
  bench_close(&b);
}
END_TEST

/* Read a bit behind an element whose neighbour behind is 1: as resize does of three elements that
 * become `wide`, at 2 / (wide - 1), and as resample by its start, of which 1 less is exact. */
static void stretches(const bench *b, int64_t wide) {
  const double second = 2 / (double)(wide - 1), start = rint(second * 0x1p40) * 0x1p-40;
  const double want[] = {keys(1, second), keys(1, start)}, row[] = {0, 1, 0};
  tn_resize_attrs resize = TN_RESIZE_DEFAULTS;
  tn_resample_attrs resample = TN_RESAMPLE_DEFAULTS;
  resize.output[1] = wide;
  resize.mode = TN_RESIZE_BICUBIC;
  resize.align_corners = 1;
  resample.start = start;
  resample.shift = 0;
  resample.filter = TN_RESAMPLE_CUBIC;
  for (int d = 0; d < b->count; ++d) {
    tn_tensor *x = numbers(b->devices[d], TN_F64, 4, SHAPE(1, 1, 1, 3), row), *y[2] = {NULL};
    ok(tn_resize(NULL, x, &resize, &y[0]));
    ok(tn_resample(NULL, x, &resample, &y[1]));
    for (int i = 0; i < 2; ++i) {
      double *all = values_of(y[i]), got = all[i == 0];
      if (!(fabs(got - want[i]) <= 1e-14 * fabs(want[i])))
        ck_abort_msg("%s to %d on %s: %.17g, not %.17g", i ? "resample" : "resize", (int)wide,
                     b->names[d], got, want[i]);
      free(all);
      tn_tensor_release(y[i]);
    }
    tn_tensor_release(x);
  }
}

START_TEST(other_operators_weights_near_their_zeros) {
  bench b;
  bench_open(&b);
  for (int64_t wide = 10; wide < 100000; wide *= 7) stretches(&b, wide);
  bench_close(&b);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_test(tcase, weights_near_their_zeros);
  tcase_add_test(tcase, other_operators_weights_near_their_zeros);
}

int main(void) { return run_suite("cubic", add_tests); }
