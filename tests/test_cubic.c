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

static void add_tests(TCase *tcase) { tcase_add_test(tcase, weights_near_their_zeros); }

int main(void) { return run_suite("cubic", add_tests); }
