/*
 * The ranges of random numbers: what is drawn lies where the attributes say, after rounding to
 * the element type too, is finite, and is the same on every device to the bit where the
 * operator promises it.
 */
#include "numeric.h"

enum { COUNT = 200000 };
static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* A bound as the type holds it: what a tensor filled with it has. */
static double held(tn_dtype dtype, double value) {
  tn_tensor *t = numbers(b.devices[0], dtype, 1, SHAPE(1), &value);
  double *values = values_of(t), got = values[0];
  free(values);
  tn_tensor_release(t);
  return got;
}

static double *draw_uniform(tn_device *device, tn_dtype dtype, double low, double high) {
  tn_tensor *t = unwritten(device, dtype, 1, SHAPE(COUNT));
  const tn_uniform_attrs attrs = {sizeof attrs, low, high, 7, 3};
  ok(tn_uniform(NULL, t, &attrs));
  double *values = values_of(t);
  tn_tensor_release(t);
  return values;
}

static void must_be_alike(const char *what, tn_dtype dtype, const char *device, const double *got,
                          const double *want, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!(got[i] == want[i]))
      ck_abort_msg("%s %s on %s: number %d is %.17g, not %.17g", what, tn_dtype_name(dtype), device,
                   (int)i, got[i], want[i]);
}

static const double ranges[][2] = {
    {0, 1},          {-1, 0},    {-3, 5},       {1, 1.001},         {0.7, 0.9},
    {0, 1e-6},       {100, 128}, {-3e38, 3e38}, {0, 6e4},           {-65504, 65504},
    {-1e300, 1e300}, {2, 2},     {-1e-7, 0},    {-1.7e308, 1.7e308}};
enum { NUM_RANGES = sizeof ranges / sizeof *ranges };

/* low and high as the type has them: high itself is never drawn. */
START_TEST(uniform_stays_below_high) {
  const tn_dtype dtype = types[_i];
  for (int r = 0; r < NUM_RANGES; ++r) {
    const double low = held(dtype, ranges[r][0]), high = held(dtype, ranges[r][1]);
    double *want = draw_uniform(b.devices[0], dtype, ranges[r][0], ranges[r][1]);
    for (int64_t i = 0; i < COUNT; ++i) {
      const bool inside = want[i] >= low && (want[i] < high || (low == high && want[i] == low));
      if (!isfinite(want[i]) || !inside)
        ck_abort_msg("%s of [%g, %g): number %d is %.17g", tn_dtype_name(dtype), ranges[r][0],
                     ranges[r][1], (int)i, want[i]);
    }
    for (int d = 1; d < b.count; ++d) {
      double *got = draw_uniform(b.devices[d], dtype, ranges[r][0], ranges[r][1]);
      must_be_alike("uniform", dtype, b.names[d], got, want, COUNT);
      free(got);
    }
    free(want);
  }
}
END_TEST

/* A range that wraps around the one next to it still fills its width. */
START_TEST(wide_ranges_are_uniform) {
  const double bounds[] = {3e38, 1.7e308};
  for (int wide = 0; wide < 2; ++wide)
    for (int d = 0; d < b.count; ++d) {
      double *values =
          draw_uniform(b.devices[d], wide ? TN_F64 : TN_F32, -bounds[wide], bounds[wide]);
      int quarters[4] = {0};
      for (int64_t i = 0; i < COUNT; ++i)
        quarters[(int)fmin(3, 2 + floor(values[i] / bounds[wide] * 2))]++;
      for (int q = 0; q < 4; ++q) ck_assert_int_lt(abs(quarters[q] - COUNT / 4), COUNT / 100);
      free(values);
    }
}
END_TEST

/* Certain and impossible things. */
START_TEST(probabilities_of_nought_and_one) {
  for (int d = 0; d < b.count; ++d)
    for (int p = 0; p <= 1; ++p) {
      tn_tensor *t = unwritten(b.devices[d], TN_F32, 1, SHAPE(COUNT));
      const tn_bernoulli_attrs attrs = {
          .struct_size = sizeof attrs, .p = p, .seed = 7, .offset = 3};
      ok(tn_bernoulli(NULL, t, &attrs));
      double *values = values_of(t);
      for (int64_t i = 0; i < COUNT; ++i) ck_assert(values[i] == p);
      free(values);
      tn_tensor_release(t);
    }
}
END_TEST

/* The greatest p that dropout takes leaves nothing, and 0 everything. */
START_TEST(dropout_at_its_ends) {
  for (int d = 0; d < b.count; ++d)
    for (int all = 0; all <= 1; ++all) {
      tn_tensor *x = counting(b.devices[d], 1000), *y = NULL, *mask = NULL;
      const tn_dropout_attrs attrs = {sizeof attrs, all ? 1 - 0x1p-53 : 0, 7, 3};
      ok(tn_dropout(NULL, x, &attrs, &y, &mask));
      double *values = values_of(y);
      for (int i = 0; i < 1000; ++i) ck_assert(values[i] == (all ? 0 : i + 1));
      free(values);
      tn_tensor_release(x);
      tn_tensor_release(y);
      tn_tensor_release(mask);
    }
}
END_TEST

/* Bounds of all 64 bits, and ranges of one number. */
START_TEST(integers_reach_their_ends_and_no_further) {
  const int64_t bounds[][2] = {{INT64_MIN, INT64_MAX}, {5, 6}, {INT64_MAX - 1, INT64_MAX}, {-2, 1}};
  for (int r = 0; r < 4; ++r)
    for (int d = 0; d < b.count; ++d) {
      tn_tensor *t = shaped(b.devices[d], TN_I64, 1, SHAPE(1000));
      const tn_randint_attrs attrs = {sizeof attrs, bounds[r][0], bounds[r][1], 7, 3};
      int64_t got[1000];
      ok(tn_randint(NULL, t, &attrs));
      ok(tn_tensor_to_host(t, got, sizeof got));
      for (int i = 0; i < 1000; ++i) ck_assert(got[i] >= bounds[r][0] && got[i] < bounds[r][1]);
      tn_tensor_release(t);
    }
}
END_TEST

START_TEST(normal_numbers_are_finite) {
  for (int d = 0; d < b.count; ++d)
    for (int k = 0; k < 4; ++k) {
      tn_tensor *t = unwritten(b.devices[d], types[k], 1, SHAPE(COUNT));
      const tn_normal_attrs attrs = {sizeof attrs, 0, 1, 7, 3};
      ok(tn_normal(NULL, t, &attrs));
      double *values = values_of(t);
      for (int64_t i = 0; i < COUNT; ++i) ck_assert(fabs(values[i]) < 9);
      free(values);
      tn_tensor_release(t);
    }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, uniform_stays_below_high, 0, 4);
  tcase_add_test(tcase, wide_ranges_are_uniform);
  tcase_add_test(tcase, probabilities_of_nought_and_one);
  tcase_add_test(tcase, dropout_at_its_ends);
  tcase_add_test(tcase, integers_reach_their_ends_and_no_further);
  tcase_add_test(tcase, normal_numbers_are_finite);
}

int main(void) { return run_suite("random_range", add_tests); }
