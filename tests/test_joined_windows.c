/*
 * Gradients of weights whose windows are one place of x, which devices may compute as one product
 * over the windows of many images: images, batches and channels of sizes around those at which the
 * windows of an image are its own, or are cut, steps of 1 and more, groups, signals and volumes,
 * and infinite pixels. Inputs are small whole numbers, so that every device has the reference's
 * float32 and float64 exactly, and rounds halves as it does; outputs hold NaN before the call.
 */
#include "windows.h"

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

#define AS_THEY_ARE {1, 1, 1}, {1, 1, 1}, NONE, ONES, false, NONE
#define APART(step) {1, 1, 1}, {step, step, step}, NONE, ONES, false, NONE

static const windows cases[] = {
    {2, 1, 4, 4, 1, {1, 1}, AS_THEY_ARE},      {2, 3, 4, 5, 1, {1, 1}, AS_THEY_ARE},
    {2, 70, 5, 9, 1, {7, 7}, AS_THEY_ARE},     {2, 2, 67, 33, 1, {15, 17}, AS_THEY_ARE},
    {2, 2, 17, 12, 1, {16, 16}, AS_THEY_ARE},  {2, 3, 300, 6, 1, {3, 57}, AS_THEY_ARE},
    {2, 2, 9, 21, 1, {32, 32}, AS_THEY_ARE},   {2, 1, 8, 8, 1, {25, 41}, AS_THEY_ARE},
    {2, 2, 7, 5, 1, {45, 46}, AS_THEY_ARE},    {2, 2, 6, 4, 3, {16, 33}, AS_THEY_ARE},
    {2, 11, 6, 4, 3, {7, 7}, AS_THEY_ARE},     {2, 3, 260, 130, 1, {7, 7}, AS_THEY_ARE},
    {2, 2, 3, 8, 1, {20, 20}, AS_THEY_ARE},    {2, 2, 8, 3, 1, {20, 20}, AS_THEY_ARE},
    {2, 3, 24, 10, 1, {14, 13}, APART(2)},     {2, 2, 10, 24, 1, {33, 32}, APART(2)},
    {2, 2, 40, 8, 1, {50, 70}, APART(3)},      {2, 4, 5, 6, 2, {9, 40}, APART(2)},
    {1, 3, 12, 9, 1, {511}, AS_THEY_ARE},      {1, 1, 12, 9, 1, {1025}, AS_THEY_ARE},
    {1, 6, 12, 9, 1, {255}, APART(2)},         {3, 2, 6, 7, 1, {5, 6, 7}, AS_THEY_ARE},
    {2, 1, 260, 5, 1, {32, 32}, AS_THEY_ARE},  {2, 2, 150, 6, 2, {32, 33}, AS_THEY_ARE},
    {2, 1100, 300, 7, 1, {1, 1}, AS_THEY_ARE}, {2, 30, 601, 33, 1, {7, 7}, AS_THEY_ARE},
    {2, 1, 520, 4, 2, {63, 63}, APART(2)},     {2, 2, 5, 1030, 1, {17, 17}, AS_THEY_ARE},
    {3, 2, 6, 7, 1, {9, 10, 11}, APART(2)},    {2, 520, 6, 5, 1, {1, 1}, AS_THEY_ARE},
};

/* dw of dy and x; some pixels of either are infinite if asked for. */
static tn_tensor *gradient(tn_device *device, tn_dtype dtype, const windows *s, bool infinite) {
  static const uint32_t ops[] = {TN_OP_CONV1D_GRAD_WEIGHT, TN_OP_CONV2D_GRAD_WEIGHT,
                                 TN_OP_CONV3D_GRAD_WEIGHT};
  int64_t x_shape[5] = {s->n, s->c * s->groups}, y_shape[5] = {s->n, s->k * s->groups},
          w_shape[5] = {s->k * s->groups, s->c};
  int64_t x_count = x_shape[0] * x_shape[1], y_count = y_shape[0] * y_shape[1];
  window_attrs attrs = window_attrs_of(s, false);
  int at = 3 * s->axes + 1;
  for (int d = 0; d < s->axes; ++d) {
    x_count *= x_shape[2 + d] = s->image[d];
    y_count *= y_shape[2 + d] = (s->image[d] - 1) / s->stride[d] + 1;
    attrs.number[at++] = w_shape[2 + d] = 1;
  }
  attrs.struct_size = (uint32_t)(offsetof(window_attrs, number) + (size_t)at * sizeof(int64_t));
  double *x = malloc((size_t)x_count * sizeof *x), *dy = malloc((size_t)y_count * sizeof *dy);
  ck_assert(x && dy);
  uint32_t seed = 7;
  for (int64_t i = 0; i < x_count + y_count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    *(i < x_count ? x + i : dy + i - x_count) = (double)((seed >> 16) % 5) - 2;
  }
  if (infinite) x[x_count / 2] = INFINITY, dy[y_count - 1] = -INFINITY;
  const tn_tensor *in[] = {numbers(device, dtype, 2 + s->axes, y_shape, dy),
                           numbers(device, dtype, 2 + s->axes, x_shape, x)};
  tn_tensor *dw = unwritten(device, dtype, 2 + s->axes, w_shape);
  const tn_call call = {.struct_size = sizeof call,
                        .op = ops[s->axes - 1],
                        .stream = tn_device_default_stream(device),
                        .in = in,
                        .out = &dw,
                        .attrs = &attrs,
                        .num_in = 2,
                        .num_out = 1};
  ok(tn_invoke(&call));
  for (int i = 0; i < 2; ++i) tn_tensor_release((tn_tensor *)(uintptr_t)in[i]);
  free(x), free(dy);
  return dw;
}

START_TEST(as_the_reference) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  for (int t = 0; t < 4; ++t)
    for (int infinite = 0; infinite < 2; ++infinite) {
      tn_tensor *dw = gradient(b.devices[0], types[t], &cases[_i], infinite);
      const int64_t count = tn_tensor_elements(dw);
      double *want = values_of(dw);
      tn_tensor_release(dw);
      for (int d = 1; d < b.count; ++d)
        must_be(&b, "weights of one place", d,
                gradient(b.devices[d], types[t], &cases[_i], infinite), count, want, 0);
      free(want);
    }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, as_the_reference, 0, (int)(sizeof cases / sizeof *cases));
}

int main(void) { return run_suite("joined_windows", add_tests); }
