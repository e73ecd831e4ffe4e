/*
 * How images lie: results of calls and images of programs with channels last where a kernel is
 * fastest so, seen through the fixture last.c. Numbers are small and whole, so that every way has
 * the same result to the bit.
 */
#include <dlfcn.h>

#include "graphs.h"
#include "tenon/ops.h"
#include "tests/fixtures/last.h"
#include "tests/images.h"

enum { MOST = 64 };

static last_counts *counts;
static tn_tensor *kept[MOST]; /* released at the end */
static int num_kept;

static tn_tensor *keep(tn_tensor *t) {
  ck_assert_int_lt(num_kept, MOST);
  return kept[num_kept++] = t;
}

static void close_last(void) {
  while (num_kept) tn_tensor_release(kept[--num_kept]);
  tn_runtime_close(rt);
}

static void open_last(void) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .device = "cpu", .plugin_path = LAST_PLUGIN};
  rt = open_runtime(&options);
  device = tn_runtime_device(rt);
  void *library = dlopen(LAST_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
  ck_assert_msg(library != NULL, "%s", dlerror());
  counts = dlsym(library, "last_seen");
  ck_assert_ptr_nonnull(counts);
  *counts = (last_counts){0};
  dlclose(library);
}

/* --- images --- */

static tn_tensor *image(tn_dtype dtype, const int64_t *shape, int first) {
  int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
  float *values = malloc((size_t)(n ? n : 1) * sizeof *values);
  for (int64_t i = 0; i < n; ++i) values[i] = (float)((i * 7 + first) % 5 - 2);
  tn_tensor *f32 = NULL, *t = NULL;
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  attrs.dtype = dtype;
  ok(tn_tensor_from_host(device, TN_F32, 4, shape, values, &f32));
  free(values);
  if (dtype == TN_F32) return keep(f32);
  ok(tn_cast(NULL, f32, &attrs, &t));
  tn_tensor_release(f32);
  return keep(t);
}

static tn_tensor *kept_with_channels_last(const tn_tensor *x) {
  return keep(with_channels_last(x));
}

static bool is_last(const tn_tensor *t) {
  const int64_t *s = tn_tensor_strides(t), *n = tn_tensor_shape(t);
  return s[1] == 1 && s[3] == n[1] && s[2] == n[1] * n[3] && s[0] == n[1] * n[3] * n[2];
}

static tn_tensor *convolved(const tn_tensor *x, const tn_tensor *w, int64_t groups) {
  tn_conv2d_attrs attrs = TN_CONV2D_DEFAULTS;
  attrs.padding[0] = attrs.padding[1] = 1;
  attrs.groups = groups;
  tn_tensor *y = NULL;
  ok(tn_conv2d(NULL, x, w, NULL, &attrs, &y));
  return keep(y);
}

/* --- calls --- */

/* A result that the call makes lies as x does; of one that it is given nothing changes. */
START_TEST(test_calls) {
  tn_tensor *x = image(TN_BF16, SHAPE(2, 3, 5, 4), 0), *w = image(TN_BF16, SHAPE(4, 3, 3, 3), 1);
  tn_tensor *x_last = kept_with_channels_last(x), *plain = convolved(x, w, 1);
  ck_assert_int_eq(counts->runs, 0);
  ck_assert(tn_tensor_is_contiguous(plain));
  tn_tensor *y = convolved(x_last, w, 1);
  ck_assert_int_eq(counts->runs, 1);
  ck_assert(is_last(y) && !tn_tensor_is_contiguous(y));
  same(plain, y);
  tn_tensor *next =
      convolved(y, image(TN_BF16, SHAPE(2, 4, 1, 1), 3), 1); /* from one to the next */
  ck_assert(is_last(next));
  tn_tensor *given = keep(shaped(device, TN_BF16, 4, SHAPE(2, 4, 5, 4)));
  tn_conv2d_attrs attrs = TN_CONV2D_DEFAULTS;
  attrs.padding[0] = attrs.padding[1] = 1;
  ok(tn_conv2d(NULL, x_last, w, NULL, &attrs, &given));
  ck_assert(tn_tensor_is_contiguous(given));
  same(plain, given);
}
END_TEST

/* Where the row does not take the call, what was laid out for it is row-major again. */
START_TEST(test_refused) {
  tn_tensor *x = kept_with_channels_last(image(TN_BF16, SHAPE(1, 4, 5, 4), 0));
  tn_tensor *w = image(TN_BF16, SHAPE(4, 2, 3, 3), 1);
  ck_assert(tn_tensor_is_contiguous(convolved(x, w, 2)));
  tn_tensor *whole = image(TN_BF16, SHAPE(4, 4, 3, 3), 1), *y = convolved(x, whole, 1);
  counts->refuses = 1;
  tn_tensor *other = convolved(x, whole, 1);
  ck_assert(tn_tensor_is_contiguous(other));
  same(y, other);
  ck_assert_int_eq(counts->runs, 1);
}
END_TEST

/* Images of one channel, of one pixel, and none at all are row-major as they are. */
START_TEST(test_degenerate) {
  static const int64_t shapes[][4] = {{2, 1, 4, 3}, {2, 4, 1, 1}, {0, 4, 3, 3}, {1, 1, 1, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    tn_tensor *x = image(TN_F32, shapes[i], 0), *last = kept_with_channels_last(x);
    tn_tensor *w = image(TN_F32, SHAPE(2, shapes[i][1], 3, 3), 1);
    tn_tensor *y = convolved(x, w, 1), *z = convolved(last, w, 1);
    ck_assert(tn_tensor_is_contiguous(z) == tn_tensor_is_contiguous(y));
    same(y, z);
  }
}
END_TEST

START_TEST(test_prepared) {
  const tn_tensor *in[] = {kept_with_channels_last(image(TN_BF16, SHAPE(1, 3, 5, 4), 0)),
                           image(TN_BF16, SHAPE(4, 3, 3, 3), 1), NULL};
  tn_tensor *out[1] = {NULL}, *second[1] = {NULL};
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_CONV2D,
                  .in = in,
                  .out = out,
                  .num_in = 3,
                  .num_out = 1};
  tn_prepared *prepared = NULL, *other = NULL;
  ok(tn_prepare(&call, &prepared));
  keep(out[0]);
  ck_assert(is_last(out[0]));
  ok(tn_run(prepared));
  ck_assert_int_eq(counts->runs, 1);
  call.out = second;
  if (tn_prepare_candidate(&call, 1, &other) == TN_OK) {
    ck_assert(tn_tensor_is_contiguous(keep(second[0])));
    ok(tn_run(other));
    same(out[0], second[0]);
    ck_assert_int_eq(counts->runs, 1);
  }
  tn_prepared_release(other);
  tn_prepared_release(prepared);
}
END_TEST

/* Gradients are the caller's and row-major, whatever they come from. */
START_TEST(test_gradient) {
  tn_tensor *x = kept_with_channels_last(image(TN_F32, SHAPE(1, 3, 5, 4), 0)), *dx = NULL;
  tn_tensor *w = image(TN_F32, SHAPE(4, 3, 3, 3), 1);
  tn_tape *tape = NULL;
  ok(tn_tape_create(rt, &tape));
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  tn_tensor *y = convolved(x, w, 1);
  ok(tn_tape_end(tape));
  ck_assert(is_last(y));
  tn_tensor *wrt[] = {x};
  ok(tn_tape_gradient(tape, NULL, y, kept_with_channels_last(y), 1, wrt, &dx, 0));
  ck_assert(tn_tensor_is_contiguous(keep(dx)));
  tn_tape_destroy(tape);
}
END_TEST

/* --- programs --- */

enum { OUTPUTS = 2 };

/* x, convolution, relu, convolution, + its input, convolution, pooled; and relu of the sum. */
static tn_graph *network_graph(tn_dtype dtype, bool parameters) {
  tn_graph *g = make_graph();
  tn_tensor *x = NULL, *w[3] = {NULL}, *y[3] = {NULL}, *r = NULL, *s = NULL, *p = NULL, *t = NULL;
  tn_conv2d_attrs attrs = TN_CONV2D_DEFAULTS;
  attrs.padding[0] = attrs.padding[1] = 1;
  ok(tn_graph_input(g, "x", dtype, 4, SHAPE(2, 3, 6, 5), &x));
  for (int i = 0; i < 3; ++i) {
    tn_tensor *real = image(dtype, SHAPE(4, i ? 4 : 3, 3, 3), i);
    const char name[] = {'w', (char)('0' + i), 0};
    ok(parameters ? tn_graph_parameter(g, name, real, &w[i])
                  : tn_graph_constant(g, name, real, &w[i]));
  }
  ok(tn_conv2d(NULL, x, w[0], NULL, &attrs, &y[0]));
  ok(tn_relu(NULL, y[0], &r));
  ok(tn_conv2d(NULL, r, w[1], NULL, &attrs, &y[1]));
  ok(tn_add(NULL, y[1], r, &s));
  ok(tn_conv2d(NULL, s, w[2], NULL, &attrs, &y[2]));
  ok(tn_max_pool2d(NULL, y[2], NULL, &p, NULL));
  ok(tn_relu(NULL, s, &t));
  ok(tn_graph_output(g, "p", p));
  ok(tn_graph_output(g, "t", t));
  tn_tensor *all[] = {x, w[0], w[1], w[2], y[0], y[1], y[2], r, s, p, t};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  return g;
}

/* Runs the graph twice; counts are those of the second run. */
static void run_with(tn_graph *g, uint32_t flags, const tn_tensor *x, tn_tensor *out[OUTPUTS]) {
  const tn_compile_options options = {.struct_size = sizeof options, .flags = flags};
  tn_program *p = NULL;
  ok(tn_graph_compile(g, device, &options, &p));
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < OUTPUTS; ++k) out[k] = NULL;
    *counts = (last_counts){0};
    ok(tn_program_run(p, NULL, 1, &x, OUTPUTS, out));
    for (int k = 0; k < OUTPUTS; ++k) ck_assert(tn_tensor_is_contiguous(keep(out[k])));
  }
  tn_program_destroy(p);
}

/* All convolutions have channels last between them. Constant weights stay as they are on a device
 * whose calls keep what they make of them. */
START_TEST(test_program) {
  const tn_dtype dtype = _i ? TN_F32 : TN_BF16;
  tn_graph *g = network_graph(dtype, false);
  tn_tensor *x = image(dtype, SHAPE(2, 3, 6, 5), 2), *plain[OUTPUTS], *last[OUTPUTS];
  run_with(g, TN_COMPILE_NO_LAYOUT, x, plain);
  ck_assert_int_eq(counts->runs, 0);
  run_with(g, 0, x, last);
  ck_assert_int_eq(counts->runs, 3);
  ck_assert_int_eq(counts->images, 2); /* the first reads the input, which is row-major */
  ck_assert_int_eq(counts->weights, 0);
  for (int i = 0; i < OUTPUTS; ++i) same(plain[i], last[i]);
  tn_graph_destroy(g);
}
END_TEST

/* Parameters stay as they are: they are the program's no more than anybody else's. */
START_TEST(test_parameters) {
  tn_graph *g = network_graph(TN_BF16, true);
  tn_tensor *x = image(TN_BF16, SHAPE(2, 3, 6, 5), 2), *plain[OUTPUTS], *last[OUTPUTS];
  run_with(g, TN_COMPILE_NO_LAYOUT, x, plain);
  run_with(g, 0, x, last);
  ck_assert_int_eq(counts->runs, 3);
  ck_assert_int_eq(counts->weights, 0);
  for (int i = 0; i < OUTPUTS; ++i) same(plain[i], last[i]);
  tn_graph_destroy(g);
}
END_TEST

/* What the kernel refuses stays row-major. */
START_TEST(test_left_alone) {
  tn_graph *h = network_graph(TN_BF16, false);
  tn_tensor *out[OUTPUTS];
  counts->refuses = 1;
  const tn_tensor *x = image(TN_BF16, SHAPE(2, 3, 6, 5), 2);
  tn_program *p = NULL;
  ok(tn_graph_compile(h, device, NULL, &p));
  out[0] = out[1] = NULL;
  ok(tn_program_run(p, NULL, 1, &x, OUTPUTS, out));
  ck_assert_int_eq(counts->runs, 0);
  for (int k = 0; k < OUTPUTS; ++k) keep(out[k]);
  tn_program_destroy(p);
  tn_graph_destroy(h);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, open_last, close_last);
  tcase_add_test(t, test_calls);
  tcase_add_test(t, test_refused);
  tcase_add_test(t, test_degenerate);
  tcase_add_test(t, test_prepared);
  tcase_add_test(t, test_gradient);
  tcase_add_loop_test(t, test_program, 0, 2);
  tcase_add_test(t, test_parameters);
  tcase_add_test(t, test_left_alone);
}

int main(void) { return run_suite("layouts", add_tests); }
