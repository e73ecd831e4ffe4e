/*
 * Convolutions of images with channels last through the oneDNN plugin: which kernel a call gets,
 * that results are those of ours however images lie and are cut, and that their bits do not depend
 * on threads. Larger images than the conformance kit's are cut into bands of rows.
 */
#include <math.h>

#include "tenon/plugin.h"
#include "tests/images.h"
#include "tests/onednn/onednn.h"

enum { PLAIN_TO_LAST = 1, LAST_TO_PLAIN = 2, LAST_TO_LAST = 3 };

typedef struct convolution {
  int64_t n, c, h, w, k, kernel[2], stride[2], padding[2], dilation[2], groups;
  tn_activation activation;
} convolution;

static const convolution list[] = {
    {1, 32, 40, 40, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, TN_ACTIVATION_RELU},
    {1, 3, 97, 61, 24, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, TN_ACTIVATION_HARDSWISH},
    {1, 35, 41, 43, 39, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, TN_ACTIVATION_NONE},
    {2, 24, 50, 37, 33, {1, 1}, {2, 1}, {0, 0}, {1, 1}, 1, TN_ACTIVATION_SILU},
    {1, 96, 56, 56, 96, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 96, TN_ACTIVATION_RELU6},
    {1, 61, 57, 29, 61, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 61, TN_ACTIVATION_NONE},
    {1, 32, 57, 33, 48, {3, 5}, {1, 2}, {6, 1}, {3, 2}, 1, TN_ACTIVATION_RELU},
    {1, 32, 57, 33, 48, {7, 3}, {1, 2}, {9, 3}, {3, 2}, 1, TN_ACTIVATION_SIGMOID},
    {1, 32, 30, 40, 64, {1, 1}, {1, 1}, {20, 1}, {1, 1}, 1, TN_ACTIVATION_NONE}, /* padding alone */
    {1, 64, 40, 31, 64, {3, 3}, {3, 2}, {1, 0}, {1, 1}, 4, TN_ACTIVATION_NONE},
    {1, 512, 7, 7, 512, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, TN_ACTIVATION_RELU}, /* by channels */
    {3, 16, 20, 20, 24, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, TN_ACTIVATION_RELU},
    {1, 64, 900, 5, 32, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, TN_ACTIVATION_RELU},
    {1, 64, 900, 1, 32, {3, 1}, {1, 1}, {1, 0}, {1, 1}, 1, TN_ACTIVATION_RELU},
    /* as many places in each band, or one more: of pixels, of rows with and without padding */
    {1, 960, 7, 7, 160, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, TN_ACTIVATION_HARDSWISH},
    {1, 256, 13, 15, 256, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, TN_ACTIVATION_RELU},
    {1, 512, 7, 7, 512, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 512, TN_ACTIVATION_NONE},
    {1, 64, 27, 27, 64, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, TN_ACTIVATION_RELU6},
    {1, 48, 61, 30, 64, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 1, TN_ACTIVATION_SIGMOID},
};
enum { LIST = sizeof list / sizeof *list };

static int64_t extent(const convolution *c, int axis) {
  const int64_t size = axis ? c->w : c->h;
  return (size + 2 * c->padding[axis] - c->dilation[axis] * (c->kernel[axis] - 1) - 1) /
             c->stride[axis] +
         1;
}

static tn_conv2d_attrs attrs_of(const convolution *c) {
  tn_conv2d_attrs a = TN_CONV2D_DEFAULTS;
  memcpy(a.stride, c->stride, sizeof a.stride);
  memcpy(a.padding, c->padding, sizeof a.padding);
  memcpy(a.dilation, c->dilation, sizeof a.dilation);
  a.groups = c->groups;
  a.activation = c->activation;
  return a;
}

/* The plugin of the kernel that the call gets, and the result, row-major; `how` is 0 or one of the
 * ways above. */
static float *convolve(tn_runtime *runtime, const convolution *c, int how, char plugin[64]) {
  tn_device *device = tn_runtime_device(runtime);
  const int64_t out[] = {c->n, c->k, extent(c, 0), extent(c, 1)};
  tn_tensor *x = drawn(device, TN_F32, 4, SHAPE(c->n, c->c, c->h, c->w)), *plain = x;
  tn_tensor *w =
      drawn(device, TN_F32, 4, SHAPE(c->k, c->c / c->groups, c->kernel[0], c->kernel[1]));
  tn_tensor *bias = drawn(device, TN_F32, 1, SHAPE(c->k)), *y = shaped(device, TN_F32, 4, out);
  if (how & LAST_TO_PLAIN) x = with_channels_last(plain), tn_tensor_release(plain);
  if (how & PLAIN_TO_LAST) plain = y, y = with_channels_last(plain), tn_tensor_release(plain);
  const tn_conv2d_attrs attrs = attrs_of(c);
  const tn_tensor *in[] = {x, w, bias};
  const tn_call call = {sizeof call, TN_OP_CONV2D, NULL, in, &y, &attrs, 3, 1, 0};
  tn_kernel_info info = {.struct_size = sizeof info};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  ok(tn_prepared_kernel(p, &info));
  snprintf(plugin, 64, "%s", info.plugin);
  ok(tn_run(p));
  tn_prepared_release(p);
  float *result = malloc(tn_tensor_bytes(y));
  ok(tn_tensor_to_host(y, result, tn_tensor_bytes(y)));
  tn_tensor_release(x), tn_tensor_release(w), tn_tensor_release(bias), tn_tensor_release(y);
  return result;
}

START_TEST(results_are_ours) {
  const convolution *c = &list[_i];
  const int64_t count = c->n * c->k * extent(c, 0) * extent(c, 1);
  const double terms = (double)(c->c / c->groups * c->kernel[0] * c->kernel[1]);
  char plugin[64];
  setenv("TENON_ONEDNN", "all", 1);
  tn_runtime *ours = open_with("cpu,reference", 1), *one = open_with(WITH, 1);
  tn_runtime *three = open_with(WITH, 3);
  float *want = convolve(ours, c, 0, plugin);
  for (int how = 0; how <= LAST_TO_LAST; how++) {
    float *got = convolve(one, c, how, plugin), *again = convolve(three, c, how, plugin);
    if (__builtin_cpu_supports("avx512bw"))
      ck_assert_msg(!strcmp(plugin, "onednn"), "way %d: %s", how, plugin);
    for (int64_t i = 0; i < count; i++)
      ck_assert_msg(fabs((double)got[i] - (double)want[i]) <= 1e-6 * (terms + 10),
                    "way %d, element %lld: %g for %g", how, (long long)i, (double)got[i],
                    (double)want[i]);
    ck_assert(memcmp(got, again, (size_t)count * sizeof *got) == 0);
    free(got), free(again);
  }
  free(want);
  tn_runtime_close(ours), tn_runtime_close(one), tn_runtime_close(three);
}
END_TEST

/* From 8 channels of results on those with channels last are oneDNN's, and of any patch. */
START_TEST(rules_heed_how_images_lie) {
  static const struct {
    int64_t c, k, kernel, h, groups;
    int how;
    const char *plugin;
  } rules[] = {
      {3, 8, 3, 32, 1, LAST_TO_LAST, "onednn"},    {3, 8, 3, 32, 1, PLAIN_TO_LAST, "onednn"},
      {3, 8, 3, 32, 1, LAST_TO_PLAIN, "onednn"},   {3, 8, 3, 32, 1, 0, "cpu"},
      {3, 7, 3, 32, 1, LAST_TO_LAST, "cpu"},       {4, 7, 3, 32, 1, LAST_TO_LAST, "onednn"},
      {3, 8, 3, 20, 1, LAST_TO_LAST, "cpu"}, /* fewer than 10^5 multiplications */
      {64, 64, 3, 48, 64, LAST_TO_LAST, "onednn"}, {64, 64, 3, 48, 64, 0, "cpu"},
      {512, 512, 1, 2, 1, LAST_TO_LAST, "cpu"},    {512, 512, 1, 3, 1, LAST_TO_LAST, "onednn"},
  };
  if (!__builtin_cpu_supports("avx512bw")) return;
  tn_runtime *with = open_with(WITH, 1);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    const int64_t around = rules[i].kernel / 2;
    const convolution c = {1,
                           rules[i].c,
                           rules[i].h,
                           rules[i].h,
                           rules[i].k,
                           {rules[i].kernel, rules[i].kernel},
                           {1, 1},
                           {around, around},
                           {1, 1},
                           rules[i].groups,
                           TN_ACTIVATION_NONE};
    char plugin[64];
    free(convolve(with, &c, rules[i].how, plugin));
    ck_assert_msg(!strcmp(plugin, rules[i].plugin), "rule %zu: %s", i, plugin);
  }
  tn_runtime_close(with);
}
END_TEST

/* What relu makes of NaN is NaN, in the first band and the last. */
START_TEST(nan_stays) {
  tn_runtime *with = open_with(WITH, 2);
  tn_device *device = tn_runtime_device(with);
  tn_tensor *plain = shaped(device, TN_F32, 4, SHAPE(1, 32, 64, 64)), *x, *y = NULL;
  tn_tensor *w = drawn(device, TN_F32, 4, SHAPE(32, 32, 1, 1));
  tn_fill_attrs nan = TN_FILL_DEFAULTS;
  tn_conv2d_attrs attrs = TN_CONV2D_DEFAULTS;
  nan.value = (double)NAN;
  attrs.activation = TN_ACTIVATION_RELU;
  ok(tn_fill(NULL, plain, &nan));
  x = with_channels_last(plain);
  ok(tn_conv2d(NULL, x, w, NULL, &attrs, &y));
  float *got = malloc(tn_tensor_bytes(y));
  ok(tn_tensor_to_host(y, got, tn_tensor_bytes(y)));
  for (size_t i = 0; i < tn_tensor_bytes(y) / sizeof *got; i++) ck_assert(isnan(got[i]));
  free(got);
  tn_tensor_release(plain), tn_tensor_release(x), tn_tensor_release(y), tn_tensor_release(w);
  tn_runtime_close(with);
}
END_TEST

static void add_tests(TCase *t) {
  __builtin_cpu_init();
  tcase_add_loop_test(t, results_are_ours, 0, LIST);
  tcase_add_test(t, rules_heed_how_images_lie);
  tcase_add_test(t, nan_stays);
}

int main(void) { return run_suite("onednn-channels-last", add_tests); }
