/*
 * Convolutions of each channel by itself and their gradients, of images with channels last, by the
 * kernels that walk down an image (kernels/cuda/window/depthwise_ring.cuh), against sums in double:
 * tiles of all shapes, images of more and fewer rows and columns than these, padding, activations,
 * and infinite numbers, which no padding meets. tests/test_conv_layouts.c has the other layouts.
 * Skipped where no GPU is.
 */
#include "tests/cuda/gpu.h"
#include "tests/numeric.h"

static tn_runtime *rt;
static tn_device *gpu;

/* What cuDNN takes is measured whatever its size: these kernels are not left to it then. */
static void setup(void) {
  (void)setenv("TENON_CUDA_TUNE", "all", 1);
  ok(open_cuda(NULL, &rt));
  gpu = tn_runtime_device(rt);
}
static void teardown(void) { tn_runtime_close(rt); }

typedef struct layer {
  int64_t n, c, h, w, side, step, padding;
} layer;

static const layer layers[] = {
    {1, 8, 1, 2, 3, 1, 1},     {2, 8, 7, 7, 3, 1, 1},      {3, 24, 5, 9, 3, 1, 1},
    {1, 32, 29, 33, 3, 1, 1},  {2, 40, 14, 17, 3, 1, 0},   {1, 136, 9, 8, 3, 1, 1},
    {2, 264, 57, 31, 3, 1, 1}, {24, 256, 28, 28, 3, 1, 1}, {1, 16, 3, 200, 3, 1, 2},
    {1, 8, 3, 2, 3, 2, 1},     {2, 72, 15, 16, 3, 2, 1},   {3, 144, 56, 55, 3, 2, 1},
    {1, 32, 31, 66, 3, 2, 0},  {1, 64, 6, 7, 3, 2, 3},     {1, 8, 3, 3, 5, 1, 2},
    {2, 48, 13, 18, 5, 1, 2},  {1, 240, 28, 28, 5, 1, 2},  {1, 80, 40, 7, 5, 1, 4},
    {2, 32, 9, 34, 5, 1, 0},   {1, 8, 6, 5, 5, 2, 2},      {2, 120, 23, 33, 5, 2, 2},
    {1, 64, 9, 15, 5, 2, 1},   {2, 8, 20, 130, 3, 1, 1},   {1, 16, 10, 70, 3, 2, 1},
    {1, 8, 6, 140, 5, 2, 2},   {1, 16, 12, 61, 5, 1, 2},   {600, 8, 3, 3, 3, 1, 1},
    {600, 16, 4, 4, 3, 2, 1},  {1100, 16, 5, 5, 5, 2, 2},  {700, 8, 6, 5, 5, 1, 2},
};
enum { LAYERS = sizeof layers / sizeof *layers };

static int64_t results_of(int64_t size, const layer *l) {
  return (size + 2 * l->padding - l->side) / l->step + 1;
}

/* [n, h, w, c] in memory, whole numbers from -1 to 2. */
static double *drawn(int64_t count, uint32_t seed) {
  double *values = malloc((size_t)count * sizeof *values);
  ck_assert_ptr_nonnull(values);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (double)(seed >> 20 & 3) - 1;
  }
  return values;
}

static tn_tensor *image(tn_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w,
                        const double *values) {
  static const int32_t back[] = {0, 3, 1, 2};
  const int64_t shape[] = {n, h, w, c};
  tn_tensor *dense = numbers(gpu, dtype, 4, shape, values), *t = NULL;
  ok(tn_tensor_permute(dense, back, &t));
  tn_tensor_release(dense);
  return t;
}

/* What lies outside x is left out. */
static double sum_of(const layer *l, const double *x, const double *w, int64_t channel, int64_t i,
                     int64_t j) {
  const int64_t taps = l->side * l->side;
  double sum = 0;
  for (int64_t t = 0; t < taps; ++t) {
    const int64_t row = i * l->step + t / l->side - l->padding,
                  at = j * l->step + t % l->side - l->padding;
    if (row < 0 || row >= l->h || at < 0 || at >= l->w) continue;
    sum += x[(row * l->w + at) * l->c + channel] * w[channel * taps + t];
  }
  return sum;
}

/* A pixel's part in all windows of y [oh, ow] that it lies in. */
static double gradient_of(const layer *l, const double *dy, const double *w, int64_t oh, int64_t ow,
                          int64_t channel, int64_t i, int64_t j) {
  const int64_t taps = l->side * l->side;
  double sum = 0;
  for (int64_t t = 0; t < taps; ++t) {
    const int64_t row = i + l->padding - t / l->side, at = j + l->padding - t % l->side;
    if (row < 0 || row % l->step || row / l->step >= oh) continue;
    if (at < 0 || at % l->step || at / l->step >= ow) continue;
    sum += dy[(row / l->step * ow + at / l->step) * l->c + channel] * w[channel * taps + t];
  }
  return sum;
}

static double activated(double x, int64_t activation) {
  switch (activation) {
  case TN_ACTIVATION_RELU:
    return x <= 0 ? 0 : x;
  case TN_ACTIVATION_RELU6:
    return x <= 0 ? 0 : x > 6 ? 6 : x;
  case TN_ACTIVATION_HARDSWISH:
    return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
  case TN_ACTIVATION_SILU:
    return x / (1 + exp(-x));
  case TN_ACTIVATION_SIGMOID:
    return 1 / (1 + exp(-x));
  default:
    return x;
  }
}

/* The elements of t, which is released, are those wanted. */
static void compare(const layer *l, tn_tensor *t, const double *want, int64_t count,
                    double tolerance) {
  double *got = values_of(t);
  for (int64_t i = 0; i < count; ++i)
    if (isnan(want[i])
            ? !isnan(got[i])
            : got[i] != want[i] && !(isfinite(want[i]) &&
                                     fabs(got[i] - want[i]) <= tolerance * fmax(1, fabs(want[i]))))
      ck_abort_msg("%dx%dx%dx%d, %d by %d, %d apart: element %d is %.9g, not %.9g", (int)l->n,
                   (int)l->c, (int)l->h, (int)l->w, (int)l->side, (int)l->side, (int)l->step,
                   (int)i, got[i], want[i]);
  free(got);
  tn_tensor_release(t);
}

/* Likewise of an image, in the order in which they lie in memory, [n, h, w, c]. */
static void compare_image(const layer *l, tn_tensor *y, const double *want, int64_t count,
                          double tolerance) {
  static const int32_t last[] = {0, 2, 3, 1};
  tn_tensor *view = NULL;
  ok(tn_tensor_permute(y, last, &view));
  tn_tensor_release(y);
  compare(l, view, want, count, tolerance);
}

/* `infinite`: one weight of each third channel is. */
static void forward(const layer *l, tn_dtype dtype, int64_t activation, bool infinite) {
  const int64_t oh = results_of(l->h, l), ow = results_of(l->w, l), taps = l->side * l->side;
  const int64_t weights[] = {l->c, 1, l->side, l->side}, count = l->n * oh * ow * l->c;
  double *x = drawn(l->n * l->h * l->w * l->c, 1), *w = drawn(l->c * taps, 2),
         *bias = drawn(l->c, 3);
  double *want = malloc((size_t)count * sizeof *want);
  ck_assert_ptr_nonnull(want);
  for (int64_t k = 0; infinite && k < l->c; k += 3) w[k * taps + k % taps] = INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t k = i % l->c, j = i / l->c % ow, row = i / l->c / ow % oh, n = i / l->c / ow / oh;
    const double *of = x + n * l->h * l->w * l->c;
    want[i] = activated(sum_of(l, of, w, k, row, j) + bias[k], activation);
  }
  const tn_conv2d_attrs attrs = {.struct_size = sizeof attrs,
                                 .stride = {l->step, l->step},
                                 .padding = {l->padding, l->padding},
                                 .dilation = {1, 1},
                                 .groups = l->c,
                                 .activation = activation};
  const tn_tensor *in[] = {image(dtype, l->n, l->c, l->h, l->w, x),
                           numbers(gpu, dtype, 4, weights, w), numbers(gpu, dtype, 1, &l->c, bias)};
  tn_tensor *y = NULL;
  const tn_call call = {.struct_size = sizeof call,
                        .op = TN_OP_CONV2D,
                        .stream = tn_device_default_stream(gpu),
                        .in = in,
                        .out = &y,
                        .attrs = &attrs,
                        .num_in = 3,
                        .num_out = 1};
  ck_assert_msg(runs_by(&call, "cuda.conv2d.depthwise"), "another kernel took it");
  const bool exact = activation == TN_ACTIVATION_NONE || activation == TN_ACTIVATION_RELU ||
                     activation == TN_ACTIVATION_RELU6;
  compare_image(l, y, want, count,
                exact             ? 0
                : dtype == TN_F32 ? 1e-6
                : dtype == TN_F16 ? 1e-3
                                  : 8e-3);
  for (int i = 0; i < 3; ++i) tn_tensor_release((tn_tensor *)(uintptr_t)in[i]);
  free(x), free(w), free(bias), free(want);
}

START_TEST(sums_are_those_of_doubles) {
  static const tn_dtype types[] = {TN_F32, TN_F16, TN_BF16};
  static const int64_t activations[] = {TN_ACTIVATION_NONE, TN_ACTIVATION_RELU};
  for (int t = 0; t < 3; ++t) forward(&layers[_i], types[t], activations[(_i + t) % 2], false);
}
END_TEST

START_TEST(activations_are_applied) {
  static const int64_t all[] = {TN_ACTIVATION_SILU, TN_ACTIVATION_HARDSWISH, TN_ACTIVATION_SIGMOID};
  forward(&layers[_i], TN_F16, all[_i % 3], false);
  forward(&layers[_i], TN_BF16, all[(_i + 1) % 3], false);
  forward(&layers[_i], TN_F32, all[(_i + 2) % 3], false);
  forward(&layers[_i], _i % 2 ? TN_F32 : TN_BF16, TN_ACTIVATION_RELU6, false);
}
END_TEST

START_TEST(infinite_weights_meet_no_padding) {
  forward(&layers[_i], TN_F32, TN_ACTIVATION_NONE, true);
  forward(&layers[_i], TN_BF16, TN_ACTIVATION_NONE, true);
}
END_TEST

static void by_input(const layer *l, tn_dtype dtype, bool infinite) {
  const int64_t oh = results_of(l->h, l), ow = results_of(l->w, l), taps = l->side * l->side;
  const int64_t weights[] = {l->c, 1, l->side, l->side}, count = l->n * l->h * l->w * l->c;
  double *dy = drawn(l->n * oh * ow * l->c, 1), *w = drawn(l->c * taps, 2);
  for (int64_t k = 0; infinite && k < l->c; k += 3) w[k * taps + k % taps] = INFINITY;
  double *want = malloc((size_t)count * sizeof *want);
  ck_assert_ptr_nonnull(want);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t k = i % l->c, j = i / l->c % l->w, row = i / l->c / l->w % l->h;
    const double *of = dy + i / (l->c * l->w * l->h) * oh * ow * l->c;
    want[i] = gradient_of(l, of, w, oh, ow, k, row, j);
  }
  const tn_conv2d_grad_input_attrs attrs = {.struct_size = sizeof attrs,
                                            .stride = {l->step, l->step},
                                            .padding = {l->padding, l->padding},
                                            .dilation = {1, 1},
                                            .groups = l->c,
                                            .size = {l->h, l->w}};
  const tn_tensor *in[] = {image(dtype, l->n, l->c, oh, ow, dy),
                           numbers(gpu, dtype, 4, weights, w)};
  tn_tensor *dx = NULL;
  const tn_call call = {.struct_size = sizeof call,
                        .op = TN_OP_CONV2D_GRAD_INPUT,
                        .stream = tn_device_default_stream(gpu),
                        .in = in,
                        .out = &dx,
                        .attrs = &attrs,
                        .num_in = 2,
                        .num_out = 1};
  ck_assert_msg(runs_by(&call, "cuda.conv2d_grad_input.depthwise"), "another kernel took it");
  compare_image(l, dx, want, count, 0);
  for (int i = 0; i < 2; ++i) tn_tensor_release((tn_tensor *)(uintptr_t)in[i]);
  free(dy), free(w), free(want);
}

START_TEST(gradients_by_the_input_are_those_of_doubles) {
  static const tn_dtype types[] = {TN_F32, TN_F16, TN_BF16};
  for (int t = 0; t < 3; ++t) by_input(&layers[_i], types[t], t == _i % 3);
}
END_TEST

/* What lies at an image's corners and in its middle becomes infinite, in every third channel, in
 * the first image or the last. */
static void make_infinite(double *image, const layer *l, int64_t h, int64_t w) {
  const int64_t at[] = {0, w - 1, (h - 1) * w, h * w - 1, h / 2 * w + w / 2};
  for (int64_t k = 0; k < l->c; k += 3) {
    const int64_t n = k / 3 % 2 ? l->n - 1 : 0;
    image[(n * h * w + at[k / 3 % 5]) * l->c + k] = k % 2 ? INFINITY : -INFINITY;
  }
}

/* `infinite`: numbers of x if 1, of y if 2. */
static void by_weight(const layer *l, tn_dtype dtype, int infinite) {
  const int64_t oh = results_of(l->h, l), ow = results_of(l->w, l), taps = l->side * l->side;
  const int64_t count = l->c * taps;
  double *x = drawn(l->n * l->h * l->w * l->c, 3), *dy = drawn(l->n * oh * ow * l->c, 4);
  if (infinite == 1) make_infinite(x, l, l->h, l->w);
  if (infinite == 2) make_infinite(dy, l, oh, ow);
  double *want = calloc((size_t)count, sizeof *want);
  ck_assert_ptr_nonnull(want);
  for (int64_t i = 0; i < l->n * oh * ow; ++i)
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t row = i / ow % oh * l->step + t / l->side - l->padding,
                    at = i % ow * l->step + t % l->side - l->padding;
      if (row < 0 || row >= l->h || at < 0 || at >= l->w) continue;
      const double *of = x + ((i / ow / oh * l->h + row) * l->w + at) * l->c;
      for (int64_t k = 0; k < l->c; ++k) want[k * taps + t] += of[k] * dy[i * l->c + k];
    }
  const tn_conv2d_grad_weight_attrs attrs = {.struct_size = sizeof attrs,
                                             .stride = {l->step, l->step},
                                             .padding = {l->padding, l->padding},
                                             .dilation = {1, 1},
                                             .groups = l->c,
                                             .kernel = {l->side, l->side}};
  const tn_tensor *in[] = {image(dtype, l->n, l->c, oh, ow, dy),
                           image(dtype, l->n, l->c, l->h, l->w, x)};
  tn_tensor *dw = NULL;
  const tn_call call = {.struct_size = sizeof call,
                        .op = TN_OP_CONV2D_GRAD_WEIGHT,
                        .stream = tn_device_default_stream(gpu),
                        .in = in,
                        .out = &dw,
                        .attrs = &attrs,
                        .num_in = 2,
                        .num_out = 1};
  ck_assert_msg(runs_by(&call, "cuda.conv2d_grad_weight.depthwise"), "another kernel took it");
  compare(l, dw, want, count, dtype == TN_F32 ? 0 : dtype == TN_F16 ? 5e-4 : 4e-3);
  for (int i = 0; i < 2; ++i) tn_tensor_release((tn_tensor *)(uintptr_t)in[i]);
  free(x), free(dy), free(want);
}

START_TEST(gradients_by_the_weight_are_those_of_doubles) {
  static const tn_dtype types[] = {TN_F32, TN_F16, TN_BF16};
  for (int t = 0; t < 3; ++t) by_weight(&layers[_i], types[t], 0);
}
END_TEST

START_TEST(infinite_pixels_meet_no_padding) {
  by_weight(&layers[_i], TN_F32, 1);
  by_weight(&layers[_i], _i % 2 ? TN_F16 : TN_BF16, 1);
  by_weight(&layers[_i], TN_F32, 2);
  by_weight(&layers[_i], _i % 2 ? TN_BF16 : TN_F16, 2);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, sums_are_those_of_doubles, 0, LAYERS);
  tcase_add_loop_test(tcase, activations_are_applied, 0, LAYERS);
  tcase_add_loop_test(tcase, infinite_weights_meet_no_padding, 0, LAYERS);
  tcase_add_loop_test(tcase, gradients_by_the_input_are_those_of_doubles, 0, LAYERS);
  tcase_add_loop_test(tcase, gradients_by_the_weight_are_those_of_doubles, 0, LAYERS);
  tcase_add_loop_test(tcase, infinite_pixels_meet_no_padding, 0, LAYERS);
}

int main(void) { return run_suite_on_gpu("cuda-depthwise", add_tests); }
