/*
 * Convolutions of more terms and their gradients, which devices may sum in tiles of channels:
 * channels beside those of registers and panels, rows of every kind, strides, padding, dilation,
 * groups; and infinities beside what a window reads, or of a weight that padding would meet. Inputs
 * are small whole numbers, so that the CPU has the reference's result exactly in every type.
 * Libraries of other devices may transform windows, which rounds, and leave out products with
 * padding: those are near, of finite numbers.
 */
#include "numeric.h"

typedef struct tiles {
  int64_t n, c, k, groups; /* c and k of a group */
  int64_t image[2], kernel[2], stride[2], padding[2], dilation[2];
} tiles;

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

enum { FORWARD, INPUT, WEIGHT, WAYS };
static const char *const ways[WAYS] = {"y", "dx", "dw"};

/* Whole numbers of which one, if wanted, is infinite. */
static tn_tensor *drawn(tn_device *device, tn_dtype dtype, const int64_t *shape, uint32_t seed,
                        int64_t infinite) {
  const int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
  double *values = malloc((size_t)(count + 1) * sizeof *values);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (double)(seed >> 16 & 3) - 1;
  }
  if (infinite >= 0) values[infinite % count] = INFINITY;
  tn_tensor *t = numbers(device, dtype, 4, shape, values);
  free(values);
  return t;
}

static void out_shape(const tiles *s, int64_t *y) {
  y[0] = s->n, y[1] = s->k * s->groups;
  for (int d = 0; d < 2; ++d)
    y[2 + d] =
        (s->image[d] + 2 * s->padding[d] - (s->kernel[d] - 1) * s->dilation[d] - 1) / s->stride[d] +
        1;
}

/* Of what `infinite` counts elements: of the weights, negative ones; -1 is none. */
static int64_t of_weights(int64_t infinite) { return infinite < -1 ? -2 - infinite : -1; }

static tn_tensor *way_on(tn_device *device, tn_dtype dtype, const tiles *s, int way,
                         int64_t infinite) {
  const int64_t x[] = {s->n, s->c * s->groups, s->image[0], s->image[1]};
  const int64_t w[] = {s->k * s->groups, s->c, s->kernel[0], s->kernel[1]};
  int64_t y[4];
  out_shape(s, y);
  const tn_conv2d_attrs forward = {sizeof forward,
                                   {s->stride[0], s->stride[1]},
                                   {s->padding[0], s->padding[1]},
                                   {s->dilation[0], s->dilation[1]},
                                   s->groups};
  tn_conv2d_grad_input_attrs input = {.struct_size = sizeof input, .groups = s->groups};
  tn_conv2d_grad_weight_attrs weight = {.struct_size = sizeof weight, .groups = s->groups};
  for (int d = 0; d < 2; ++d) {
    input.stride[d] = weight.stride[d] = s->stride[d];
    input.padding[d] = weight.padding[d] = s->padding[d];
    input.dilation[d] = weight.dilation[d] = s->dilation[d];
    input.size[d] = s->image[d], weight.kernel[d] = s->kernel[d];
  }
  tn_tensor *one = drawn(device, dtype, way == FORWARD ? x : y, 1, infinite);
  tn_tensor *other = drawn(device, dtype, way == WEIGHT ? x : w, 2,
                           way == WEIGHT ? infinite : of_weights(infinite));
  tn_tensor *out = unwritten(device, dtype, 4, way == FORWARD ? y : way == INPUT ? x : w);
  if (way == FORWARD) ok(tn_conv2d(NULL, one, other, NULL, &forward, &out));
  if (way == INPUT) ok(tn_conv2d_grad_input(NULL, one, other, &input, &out));
  if (way == WEIGHT) ok(tn_conv2d_grad_weight(NULL, one, other, &weight, &out));
  tn_tensor_release(one);
  tn_tensor_release(other);
  return out;
}

static void compare(const char *name, const tiles *s, tn_dtype dtype, int64_t infinite) {
  for (int way = 0; way < WAYS; ++way) {
    char what[120];
    snprintf(what, sizeof what, "%s of %s, %d and %d channels, %s", ways[way], name, (int)s->c,
             (int)s->k, tn_dtype_name(dtype));
    tn_tensor *y = way_on(b.devices[0], dtype, s, way, infinite);
    double *want = values_of(y);
    const int64_t count = tn_tensor_elements(y);
    tn_tensor_release(y);
    for (int d = 1; d < (infinite == -1 ? b.count : 2); ++d)
      must_be(&b, what, d, way_on(b.devices[d], dtype, s, way, infinite), count, want,
              d == 1            ? 0
              : dtype == TN_F32 ? 1e-5
                                : 1e-2);
    free(want);
  }
}

#define ONES                                                                                       \
  { 1, 1 }
static const struct {
  const char *name;
  tiles s; /* without channels */
} cases[] = {
    {"an image", {2, 0, 0, 1, {9, 14}, {3, 3}, ONES, ONES, ONES}},
    {"a wide image", {1, 0, 0, 1, {5, 67}, {3, 3}, ONES, ONES, ONES}},
    {"no padding", {2, 0, 0, 1, {6, 18}, {3, 3}, ONES, {0}, ONES}},
    {"strides", {2, 0, 0, 1, {9, 33}, {3, 3}, {2, 2}, ONES, ONES}},
    {"a large kernel with strides", {1, 0, 0, 1, {11, 38}, {7, 7}, {2, 2}, {3, 3}, ONES}},
    {"strides without padding", {2, 0, 0, 1, {6, 40}, {2, 3}, {1, 2}, {0}, ONES}},
    {"whole vectors", {1, 0, 0, 1, {4, 32}, {3, 3}, ONES, ONES, ONES}},
    {"small images", {5, 0, 0, 1, {4, 4}, {3, 3}, ONES, ONES, ONES}},
    {"small images with strides", {3, 0, 0, 1, {7, 7}, {3, 3}, {2, 2}, ONES, ONES}},
    {"groups and dilation", {2, 0, 0, 3, {8, 16}, {3, 2}, ONES, {2, 1}, {2, 1}}},
    {"more padding than kernel", {1, 0, 0, 2, {3, 15}, {2, 2}, ONES, {2, 2}, ONES}},
    {"one window", {2, 0, 0, 1, {3, 3}, {3, 3}, ONES, {0}, ONES}},
    {"one axis", {2, 0, 0, 2, {1, 40}, {1, 5}, ONES, {0, 2}, ONES}},
    {"more padding than registers hold", {2, 0, 0, 1, {2, 300}, {1, 2}, ONES, {0, 280}, ONES}},
    {"windows over all the padding", {1, 0, 0, 2, {3, 1}, {2, 2}, ONES, {0, 700}, {1, 1400}}},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(channels_beside_those_of_tiles) {
  static const int64_t cs[] = {1, 3, 7, 8, 17, 65}, ks[] = {1, 3, 4, 6, 13};
  static const tn_dtype types[] = {TN_F32, TN_BF16, TN_F16, TN_F32};
  tiles s = cases[_i].s;
  for (int i = _i % case_step(1); i < 30; i += case_step(1)) {
    s.c = cs[i / 5], s.k = ks[i % 5];
    compare(cases[_i].name, &s, types[(i / 5 + i % 5) % 4], -1);
  }
}
END_TEST

/* What no window reads together with an infinity stays finite: neither padding nor what lies beside
 * a row takes part. */
START_TEST(infinities_stay_where_they_are) {
  static const int64_t cs[] = {1, 2, 9, 20}, ks[] = {1, 2, 5, 8};
  tiles s = cases[_i].s;
  for (int i = _i % case_step(1); i < 16; i += case_step(1)) {
    const int64_t at = (i + i / 4) % 4 * 13; /* each of them by any step */
    s.c = cs[i / 4], s.k = ks[i / 4];
    compare(cases[_i].name, &s, TN_F32, at);
  }
}
END_TEST

/* A gradient has no sums over what lies outside dy: an infinite weight reaches what it is
 * multiplied with, and nothing there is to be multiplied by 0. */
START_TEST(infinite_weights_meet_no_padding) {
  static const int64_t cs[] = {1, 4, 9, 20}, ks[] = {1, 4, 5, 13};
  tiles s = cases[_i].s;
  for (int i = _i % case_step(1); i < 16; i += case_step(1)) {
    const int64_t at = (i + i / 4) % 4 * 13; /* each of them by any step */
    s.c = cs[i / 4], s.k = ks[i / 4];
    compare(cases[_i].name, &s, TN_F32, -2 - at);
  }
}
END_TEST

static tn_tensor *finished_on(tn_device *device, const tiles *s, int64_t activation) {
  const tn_conv2d_attrs attrs = {.struct_size = sizeof attrs,
                                 .stride = {s->stride[0], s->stride[1]},
                                 .padding = {s->padding[0], s->padding[1]},
                                 .dilation = {s->dilation[0], s->dilation[1]},
                                 .groups = s->groups,
                                 .activation = activation};
  const int64_t x[] = {s->n, s->c * s->groups, s->image[0], s->image[1]};
  const int64_t w[] = {s->k * s->groups, s->c, s->kernel[0], s->kernel[1]};
  const int64_t channels[] = {1, 1, 1, s->k * s->groups};
  tn_tensor *in = drawn(device, TN_F32, x, 1, 7), *weight = drawn(device, TN_F32, w, 2, -1);
  tn_tensor *row = drawn(device, TN_F32, channels, 3, -1), *bias, *y = NULL;
  ok(tn_tensor_reshape(row, 1, channels + 3, &bias));
  ok(tn_conv2d(NULL, in, weight, bias, &attrs, &y));
  tn_tensor_release(in), tn_tensor_release(weight), tn_tensor_release(row), tn_tensor_release(bias);
  return y;
}

/* Sums get their bias and what is not above 0 is 0, in tiles of all channels and of some; what is
 * no number stays. */
START_TEST(sums_are_finished) {
  static const int64_t cs[] = {1, 10, 70}, ks[] = {4, 6, 9, 13, 16, 18};
  tiles s = cases[_i].s;
  for (int i = _i % case_step(1); i < 18; i += case_step(1)) {
    const bool clips = i / case_step(1) % 2;
    const int64_t activation = clips ? TN_ACTIVATION_RELU : TN_ACTIVATION_NONE;
    s.c = cs[i / 6], s.k = ks[(i + i / 6) % 6];
    tn_tensor *y = finished_on(b.devices[0], &s, activation);
    double *want = values_of(y);
    must_be(&b, cases[_i].name, 1, finished_on(b.devices[1], &s, activation), tn_tensor_elements(y),
            want, 0);
    tn_tensor_release(y);
    free(want);
  }
}
END_TEST

/* Slices of images with depth, whose windows are packed or not. */
START_TEST(slices_of_depth) {
  static const int64_t sides[] = {5, 16, 29};
  const int64_t side = sides[_i % 3], groups = 2, c = _i < 3 ? 7 : 40, k = 14;
  const int64_t x[] = {2, 2 * c * 4, side, side}, w[] = {2 * k, c * 3, 3, 3};
  const int64_t x3[] = {2, 2 * c, 4, side, side}, w3[] = {2 * k, c, 3, 3, 3};
  tn_conv3d_attrs attrs = TN_CONV3D_DEFAULTS;
  attrs.groups = groups;
  for (int d = 0; d < 3; ++d) attrs.padding[d] = 1;
  attrs.stride[2] = 1 + _i % 2;
  double *want = NULL;
  for (int d = 0; d < 2; ++d) {
    tn_tensor *in = drawn(b.devices[d], TN_F32, x, 1, -1), *in3;
    tn_tensor *weight = drawn(b.devices[d], TN_F32, w, 2, -1), *weight3, *y = NULL;
    ok(tn_tensor_reshape(in, 5, x3, &in3));
    ok(tn_tensor_reshape(weight, 5, w3, &weight3));
    ok(tn_conv3d(NULL, in3, weight3, NULL, &attrs, &y));
    tn_tensor_release(in), tn_tensor_release(in3);
    tn_tensor_release(weight), tn_tensor_release(weight3);
    if (d == 0)
      want = values_of(y), tn_tensor_release(y);
    else
      must_be(&b, "slices", d, y, tn_tensor_elements(y), want, 0);
  }
  free(want);
}
END_TEST

/* So many images and rows that the work is cut. */
START_TEST(many_pieces) {
  const tiles all[] = {
      {3, 70, 13, 1, {40, 60}, {3, 3}, ONES, ONES, ONES},
      {20, 9, 7, 1, {8, 8}, {3, 3}, ONES, ONES, ONES},
      {4, 1, 1, 40, {70, 61}, {3, 3}, ONES, ONES, ONES},
      {4, 1, 1, 40, {70, 61}, {3, 3}, {2, 2}, ONES, ONES},
      {9, 150, 29, 1, {7, 7}, {3, 3}, ONES, ONES, ONES},
      {3, 65, 70, 1, {28, 29}, {3, 3}, {2, 2}, ONES, ONES},
      {3, 20, 26, 2, {14, 14}, {3, 3}, ONES, ONES, ONES},
      {2, 33, 24, 1, {31, 9}, {5, 2}, {3, 2}, {2, 0}, {1, 3}},
      {2, 40, 12, 1, {13, 13}, {1, 1}, ONES, {0}, ONES},
      {2, 40, 20, 1, {14, 14}, {1, 1}, {2, 2}, {0}, ONES},
      {2, 81, 50, 2, {30, 58}, {3, 3}, ONES, ONES, ONES},
      {7, 67, 75, 1, {7, 9}, {3, 3}, ONES, ONES, ONES},
      {1, 3, 16, 1, {40, 40}, {17, 17}, ONES, {8, 8}, ONES},
      {2, 100, 14, 1, {21, 64}, {3, 3}, {2, 1}, ONES, ONES},
  };
  if (_i % case_step(1) == 0) compare("many", &all[_i], TN_F32, -1);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, channels_beside_those_of_tiles, 0, CASES);
  tcase_add_loop_test(tcase, infinities_stay_where_they_are, 0, CASES);
  tcase_add_loop_test(tcase, infinite_weights_meet_no_padding, 0, CASES);
  tcase_add_loop_test(tcase, sums_are_finished, 0, CASES);
  tcase_add_loop_test(tcase, slices_of_depth, 0, 6);
  tcase_add_loop_test(tcase, many_pieces, 0, 14);
}

int main(void) { return run_suite("conv_tiles", add_tests); }
