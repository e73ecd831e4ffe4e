/*
 * Images on the processor: those with channels last, which some kernels take as they lie, and those
 * of one window, whose channels are divided among threads; compared with the reference's.
 */
#include "compared.h"
#include "images.h"
#include "tenon/ops.h"

static world w;
static void setup(void) { w = open_world(3); }
static void teardown(void) { tn_runtime_close(w.runtime); }

/* A call of images, the number of them, and whether results are the reference's to the bit. */
typedef struct image_call {
  uint32_t op;
  const void *attrs;
  int num_in, num_out;
  bool exact;
} image_call;

/* The result, which is written to `given` unless that is NULL, and in `name` the kernel. */
static tn_tensor *run_into(const image_call *c, tn_tensor *const *in, tn_tensor *given,
                           const char **name) {
  tn_tensor *out[2] = {given};
  const tn_call call = {.struct_size = sizeof call,
                        .op = c->op,
                        .in = (const tn_tensor *const *)in,
                        .out = out,
                        .attrs = c->attrs,
                        .num_in = (uint16_t)c->num_in,
                        .num_out = (uint16_t)c->num_out,
                        .skip_out = ~1u};
  tn_kernel_info info = {.struct_size = sizeof info};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  ok(tn_prepared_kernel(p, &info));
  ok(tn_run(p));
  *name = info.name;
  tn_prepared_release(p);
  return out[0];
}

static tn_tensor *run(const image_call *c, tn_tensor *const *in, const char **name) {
  return run_into(c, in, NULL, name);
}

static bool is_last_kernel(const char *name) { return strstr(name, "_last.") != NULL; }

/* Images of `shapes` lie with channels last, are taken so, and give what the reference gives. */
static void taken(const image_call *c, tn_dtype type, const int64_t (*shapes)[4]) {
  tn_tensor *there[4], *here[4];
  const char *name, *its;
  for (int i = 0; i < c->num_in; ++i) {
    there[i] = drawn(w.reference, type, 4, shapes[i], special);
    tn_tensor *plain = drawn(w.cpu, type, 4, shapes[i], special);
    here[i] = with_channels_last(plain);
    tn_tensor_release(plain);
  }
  tn_tensor *want = run(c, there, &its), *given = NULL;
  if (c->op == TN_OP_CONCAT) { /* results that calls of lists make are row-major */
    tn_tensor *plain = drawn(w.cpu, type, 4, tn_tensor_shape(want), special);
    given = with_channels_last(plain);
    tn_tensor_release(plain);
  }
  tn_tensor *got = run_into(c, here, given, &name);
  ck_assert_msg(is_last_kernel(name), "%s", name);
  ck_assert(!tn_tensor_is_contiguous(got));
  same(got, want, c->exact ? 0 : type == TN_BF16 ? 0x1p-7 : type == TN_F16 ? 0x1p-9 : 1e-4, name);
  for (int i = 0; i < c->num_in; ++i) tn_tensor_release(there[i]), tn_tensor_release(here[i]);
}

static const tn_dtype types[] = {TN_F16, TN_BF16, TN_F32, TN_F64};
enum { TYPES = sizeof types / sizeof *types };

START_TEST(test_pools) {
  tn_max_pool2d_attrs max = TN_MAX_POOL2D_DEFAULTS;
  tn_avg_pool2d_attrs avg = TN_AVG_POOL2D_DEFAULTS;
  max.kernel[0] = avg.kernel[0] = 3, max.kernel[1] = avg.kernel[1] = 2;
  max.stride[0] = avg.stride[0] = 2, max.stride[1] = avg.stride[1] = 1;
  max.padding[0] = avg.padding[0] = 1, max.padding[1] = avg.padding[1] = 1;
  const image_call maxima = {TN_OP_MAX_POOL2D, &max, 1, 2, true};
  const image_call means = {TN_OP_AVG_POOL2D, &avg, 1, 1, false};
  for (int round = 0; round < 2; ++round, avg.count_padding = 0) {
    taken(&maxima, types[_i], &(const int64_t[4]){2, 37, 40, 23});
    taken(&means, types[_i], &(const int64_t[4]){2, 37, 40, 23});
  }
}
END_TEST

START_TEST(test_resize) {
  static const int64_t modes[] = {TN_RESIZE_NEAREST, TN_RESIZE_BILINEAR, TN_RESIZE_BICUBIC};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m)
    for (int corners = 0; corners < (m ? 2 : 1); ++corners) {
      tn_resize_attrs attrs = TN_RESIZE_DEFAULTS;
      attrs.mode = modes[m];
      attrs.align_corners = corners;
      attrs.output[0] = 31, attrs.output[1] = 13;
      const image_call call = {TN_OP_RESIZE, &attrs, 1, 1, modes[m] == TN_RESIZE_NEAREST};
      tn_tensor *there = whole_numbers(w.reference, types[_i], 4, SHAPE(2, 19, 12, 26), 9, 1);
      tn_tensor *plain = whole_numbers(w.cpu, types[_i], 4, SHAPE(2, 19, 12, 26), 9, 1);
      tn_tensor *here = with_channels_last(plain);
      const char *name, *its;
      tn_tensor *got = run(&call, &here, &name), *by_plane = run(&call, &plain, &its);
      ck_assert_msg(is_last_kernel(name) && !is_last_kernel(its), "%s, %s", name, its);
      same(got, by_plane, 0x1p-18, name);
      if (call.exact) {
        got = run(&call, &here, &name);
        same(got, run(&call, &there, &its), 0, name);
      }
      tn_tensor_release(there), tn_tensor_release(plain), tn_tensor_release(here);
    }
}
END_TEST

START_TEST(test_concat) {
  for (int axis = 0; axis < 4; ++axis) {
    const tn_concat_attrs attrs = {sizeof attrs, axis - 4 * (_i % 2)};
    int64_t shapes[3][4] = {{2, 5, 6, 7}, {2, 5, 6, 7}, {2, 5, 6, 7}};
    shapes[1][axis] = 3, shapes[2][axis] = 4;
    const image_call call = {TN_OP_CONCAT, &attrs, 3, 1, true};
    taken(&call, types[_i], (const int64_t(*)[4])shapes);
  }
}
END_TEST

/* Calls that are left to the kernels of row-major images. */
START_TEST(test_left_alone) {
  const image_call pool = {TN_OP_MAX_POOL2D, &(tn_max_pool2d_attrs)TN_MAX_POOL2D_DEFAULTS, 1, 2};
  const tn_concat_attrs channels = {sizeof channels, 1};
  const image_call concat = {TN_OP_CONCAT, &channels, 2, 1};
  tn_tensor *plain = drawn(w.cpu, TN_F32, 4, SHAPE(2, 8, 6, 4), special),
            *last = with_channels_last(plain);
  tn_tensor *mixed[] = {last, plain}, *y = NULL, *index = NULL;
  const char *name;
  tn_tensor_release(run(&pool, &plain, &name));
  ck_assert(!is_last_kernel(name));
  tn_tensor_release(run(&concat, mixed, &name));
  ck_assert(!is_last_kernel(name));
  ok(tn_max_pool2d(NULL, last, NULL, &y, &index));
  ck_assert(tn_tensor_is_contiguous(y) && tn_tensor_is_contiguous(index));
  tn_tensor_release(y), tn_tensor_release(index);
  tn_tensor_release(plain), tn_tensor_release(last);
}
END_TEST

/* Convolutions of one window divide their channels, those of several images or groups less. */
START_TEST(test_one_window) {
  static const int64_t sizes[][4] = {/* n, c, k, groups */ {1, 512, 301, 1},
                                     {1, 70, 1000, 1},
                                     {3, 600, 130, 1},
                                     {1, 300, 500, 2},
                                     {20, 90, 800, 1}};
  const int64_t n = sizes[_i][0], c = sizes[_i][1], k = sizes[_i][2], groups = sizes[_i][3];
  tn_conv2d_attrs attrs = TN_CONV2D_DEFAULTS;
  attrs.groups = groups;
  attrs.activation = TN_ACTIVATION_RELU;
  for (int side = 1; side <= 2; ++side) {
    tn_device *devices[] = {w.cpu, w.reference};
    tn_tensor *y[2] = {NULL};
    for (int d = 0; d < 2; ++d) {
      const int64_t x_shape[] = {n, c, side, side}, w_shape[] = {k, c / groups, side, side};
      tn_tensor *x = whole_numbers(devices[d], TN_F32, 4, x_shape, 3, 1);
      tn_tensor *weight = whole_numbers(devices[d], TN_F32, 4, w_shape, 3, 2);
      tn_tensor *bias = whole_numbers(devices[d], TN_F32, 1, SHAPE(k), 3, 3);
      ok(tn_conv2d(NULL, x, weight, bias, &attrs, &y[d]));
      tn_tensor_release(x), tn_tensor_release(weight), tn_tensor_release(bias);
    }
    same(y[0], y[1], 0, "convolution of one window");
  }
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, test_pools, 0, TYPES);
  tcase_add_loop_test(t, test_resize, 0, TYPES);
  tcase_add_loop_test(t, test_concat, 0, TYPES);
  tcase_add_test(t, test_left_alone);
  tcase_add_loop_test(t, test_one_window, 0, 5);
}

int main(void) { return run_suite("images", add_tests); }
