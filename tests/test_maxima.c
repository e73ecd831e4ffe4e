/*
 * The largest of windows, whose places nobody asks for: what it is where they are asked for, and
 * the reference's; NaN wins wherever it stands, and infinities do not. The processor's kernels find
 * the reference's places, and its averages, on either side of the widths from which on rows go side
 * by side.
 */
#include "compared.h"

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

/* at: NULL where nobody asks for places. */
static tn_tensor *pooled(tn_device *device, tn_dtype dtype, const maxima *m, tn_tensor **at) {
  tn_tensor *x = image_of(device, dtype, m), *y = NULL;
  tn_max_pool2d_attrs attrs = TN_MAX_POOL2D_DEFAULTS;
  for (int d = 0; d < 2; d++) {
    attrs.kernel[d] = m->kernel[d];
    attrs.stride[d] = m->stride[d];
    attrs.padding[d] = m->padding[d];
  }
  attrs.ceil_mode = m->ceil_mode;
  ok(tn_max_pool2d(NULL, x, &attrs, &y, at));
  tn_tensor_release(x);
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
    tn_tensor *at = NULL, *y = pooled(b.devices[0], types[t], m, &at);
    const int64_t count = tn_tensor_elements(y);
    double *want = values_of(y);
    tn_tensor_release(y), tn_tensor_release(at);
    for (int d = 1; d < b.count; d++)
      for (int places = 0; places < 2; places++) {
        at = NULL;
        must_be(&b, m->name, d, pooled(b.devices[d], types[t], m, places ? &at : NULL), count, want,
                0);
        tn_tensor_release(at);
      }
    free(want);
  }
}
END_TEST

static int64_t least(int64_t n, int64_t m) { return n < m ? n : m; }

static void places_of(tn_device *device, tn_dtype dtype, const int64_t *shape, int64_t out,
                      tn_tensor **y, tn_tensor **at) {
  tn_max_pool3d_attrs window = TN_MAX_POOL3D_DEFAULTS;
  tn_adaptive_max_pool3d_attrs share = TN_ADAPTIVE_MAX_POOL3D_DEFAULTS;
  tn_tensor *x = drawn(device, dtype, 5, shape, special);
  for (int d = 0; d < 3; d++) {
    window.kernel[d] = least(shape[2 + d], 3);
    window.stride[d] = 2;
    window.padding[d] = window.kernel[d] / 2;
    share.output[d] = least(shape[2 + d], out);
  }
  y[0] = y[1] = at[0] = at[1] = NULL;
  ok(tn_max_pool3d(NULL, x, &window, &y[0], &at[0]));
  ok(tn_adaptive_max_pool3d(NULL, x, &share, &y[1], &at[1]));
  tn_tensor_release(x);
}

START_TEST(places_are_the_references) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  static const int64_t widths[] = {1, 7, 14, 15, 16, 17, 40, 300}, heights[] = {1, 5, 12};
  world w = open_world(1 + (uint32_t)_i);
  for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
    for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
      const int64_t shape[] = {2, 50, h ? 3 : 1, heights[h], widths[k]};
      tn_tensor *y[2][2], *at[2][2];
      for (int d = 0; d < 2; d++)
        places_of(d ? w.reference : w.cpu, types[(k + h) % 4], shape, h % 2 ? 4 : 3, y[d], at[d]);
      for (int p = 0; p < 2; p++) {
        same(y[0][p], y[1][p], 0, p ? "adaptive maxima" : "maxima");
        same(at[0][p], at[1][p], 0, p ? "their places in adaptive pooling" : "their places");
      }
    }
  tn_runtime_close(w.runtime);
}
END_TEST

static double quarters(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (double)(*seed >> 26) / 4 - 8;
}

static void averages_of(tn_device *device, tn_dtype dtype, const int64_t *shape, int64_t out,
                        bool padding_counts, tn_tensor **y) {
  tn_avg_pool3d_attrs window = TN_AVG_POOL3D_DEFAULTS;
  tn_adaptive_avg_pool3d_attrs share = TN_ADAPTIVE_AVG_POOL3D_DEFAULTS;
  tn_tensor *x = drawn(device, dtype, 5, shape, quarters);
  for (int d = 0; d < 3; d++) {
    window.kernel[d] = least(shape[2 + d], 3);
    window.stride[d] = 2;
    window.padding[d] = window.kernel[d] / 2;
    share.output[d] = least(shape[2 + d], out);
  }
  window.count_padding = padding_counts;
  y[0] = y[1] = NULL;
  ok(tn_avg_pool3d(NULL, x, &window, &y[0]));
  ok(tn_adaptive_avg_pool3d(NULL, x, &share, &y[1]));
  tn_tensor_release(x);
}

START_TEST(averages_are_the_references) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  static const double bounds[] = {4e-7, 1e-15, 1e-3, 8e-3};
  static const int64_t widths[] = {1, 7, 15, 16, 17, 40, 300}, heights[] = {1, 5, 12};
  world w = open_world(1 + (uint32_t)_i);
  for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
    for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
      const int64_t shape[] = {2, 50, h ? 3 : 1, heights[h], widths[k]};
      const int t = (int)(k + h) % 4;
      tn_tensor *y[2][2];
      for (int d = 0; d < 2; d++)
        averages_of(d ? w.reference : w.cpu, types[t], shape, h ? 20 : 3, k % 2, y[d]);
      for (int p = 0; p < 2; p++)
        same(y[0][p], y[1][p], bounds[t], p ? "adaptive averages" : "averages");
    }
  tn_runtime_close(w.runtime);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, places_do_not_matter, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_loop_test(tcase, places_are_the_references, 0, 2);
  tcase_add_loop_test(tcase, averages_are_the_references, 0, 2);
}

int main(void) { return run_suite("maxima", add_tests); }
