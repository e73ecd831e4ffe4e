/*
 * The largest of windows, whose places nobody asks for: what it is where they are asked for, and
 * the reference's; NaN wins wherever it stands, and infinities do not.
 */
#include "numeric.h"

typedef struct maxima {
  const char *name;
  int64_t image[2], kernel[2], stride[2], padding[2];
  bool ceil_mode;
} maxima;

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

enum { PLANES = 3 };

/* One plane of numbers, one of -infinity but for one, one with NaN among numbers. */
static tn_tensor *image_of(tn_device *device, tn_dtype dtype, const maxima *m) {
  const int64_t plane = m->image[0] * m->image[1];
  double *x = malloc((size_t)(PLANES * plane) * sizeof *x);
  for (int64_t i = 0; i < plane; i++) {
    x[i] = (double)((i * 7919 + 13) % 61) / 4 - 8;
    x[plane + i] = i == plane / 2 ? -5 : -HUGE_VAL;
    x[2 * plane + i] = i % 7 == 3 ? (double)NAN : i % 11 ? x[i] : HUGE_VAL;
  }
  const int64_t shape[] = {1, PLANES, m->image[0], m->image[1]};
  tn_tensor *t = numbers(device, dtype, 4, shape, x);
  free(x);
  return t;
}

static tn_tensor *pooled(tn_device *device, tn_dtype dtype, const maxima *m, bool places) {
  tn_tensor *x = image_of(device, dtype, m), *y = NULL, *at = NULL;
  tn_max_pool2d_attrs attrs = TN_MAX_POOL2D_DEFAULTS;
  for (int d = 0; d < 2; d++) {
    attrs.kernel[d] = m->kernel[d];
    attrs.stride[d] = m->stride[d];
    attrs.padding[d] = m->padding[d];
  }
  attrs.ceil_mode = m->ceil_mode;
  ok(tn_max_pool2d(NULL, x, &attrs, &y, places ? &at : NULL));
  tn_tensor_release(x), tn_tensor_release(at);
  return y;
}

static const maxima cases[] = {
    {"the first of a network", {112, 112}, {3, 3}, {2, 2}, {1, 1}, false},
    {"of every place", {9, 40}, {3, 3}, {1, 1}, {1, 1}, false},
    {"rest of rows and columns", {10, 13}, {3, 3}, {3, 3}, {0, 0}, true},
    {"two by two with a border", {7, 7}, {2, 2}, {2, 2}, {1, 1}, true},
    {"a row", {1, 50}, {1, 5}, {1, 2}, {0, 2}, false},
    {"a column", {50, 1}, {5, 1}, {2, 1}, {2, 0}, false},
    {"steps over elements", {11, 17}, {2, 3}, {4, 5}, {1, 1}, false},
    {"all in one", {8, 33}, {8, 33}, {1, 1}, {0, 0}, false},
    {"one element", {1, 1}, {2, 2}, {1, 1}, {1, 1}, false},
};

START_TEST(places_do_not_matter) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  const maxima *m = &cases[_i];
  for (int t = 0; t < 4; t++) {
    tn_tensor *y = pooled(b.devices[0], types[t], m, true);
    const int64_t count = tn_tensor_elements(y);
    double *want = values_of(y);
    tn_tensor_release(y);
    for (int d = 1; d < b.count; d++)
      for (int places = 0; places < 2; places++)
        must_be(&b, m->name, d, pooled(b.devices[d], types[t], m, places), count, want, 0);
    free(want);
  }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, places_do_not_matter, 0, (int)(sizeof cases / sizeof *cases));
}

int main(void) { return run_suite("maxima", add_tests); }
