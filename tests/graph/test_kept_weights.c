/*
 * Convolutions of the CPU backend as programs make them: constant weights are laid out for the
 * kernels once and given back with the program, weights that may change are laid out by each run,
 * and either gives the bits of the call alone.
 */
#include <math.h>
#include <stdatomic.h>

#include "tenon/graph.h"
#include "tests/support.h"

/* --- memory --- */

enum { CHANNELS = 48, SIDE = 20, WEIGHT_BYTES = CHANNELS * CHANNELS * 4 };

/* How often memory for all weights of a 1x1 window is taken, and what is not given back. */
static struct { atomic_int large, held; } taken;

static void *counting_alloc(void *user, size_t bytes, size_t align) {
  (void)user;
  if (bytes >= WEIGHT_BYTES) atomic_fetch_add(&taken.large, 1);
  atomic_fetch_add(&taken.held, 1);
  return aligned_alloc(align, (bytes + align) / align * align);
}

static void counting_free(void *user, void *ptr) {
  (void)user;
  if (ptr) atomic_fetch_sub(&taken.held, 1);
  free(ptr);
}

static tn_runtime *open_counting(void) {
  static const tn_allocator allocator = {counting_alloc, counting_free, NULL};
  tn_runtime_options o = {.struct_size = sizeof o,
                          .plugins = "cpu,reference",
                          .device = "cpu",
                          .num_threads = 1,
                          .allocator = &allocator};
  return open_runtime(&o);
}

/* --- convolutions, by how kernels lay out weights --- */

static const struct {
  bool transposed;
  int64_t window, stride;
} ways[] = {{false, 3, 1}, {false, 3, 2}, {false, 1, 1}, {true, 3, 1}, {true, 3, 2}, {true, 1, 1}};
enum { WAYS = sizeof ways / sizeof *ways };

static void convolve(int way, const tn_tensor *x, const tn_tensor *w, tn_tensor **y) {
  const int64_t step = ways[way].stride, around = ways[way].window / 2;
  tn_conv2d_attrs forward = TN_CONV2D_DEFAULTS;
  tn_conv_transpose2d_attrs back = TN_CONV_TRANSPOSE2D_DEFAULTS;
  forward.stride[0] = forward.stride[1] = back.stride[0] = back.stride[1] = step;
  forward.padding[0] = forward.padding[1] = back.padding[0] = back.padding[1] = around;
  if (ways[way].transposed)
    ok(tn_conv_transpose2d(NULL, x, w, NULL, &back, y));
  else
    ok(tn_conv2d(NULL, x, w, NULL, &forward, y));
}

static tn_tensor *drawn(tn_device *device, int64_t n, int64_t side, uint64_t seed) {
  tn_tensor *t = shaped(device, TN_F32, 4, SHAPE(n, CHANNELS, side, side));
  tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
  attrs.low = -1, attrs.high = 1, attrs.seed = seed;
  ok(tn_uniform(NULL, t, &attrs));
  return t;
}

static tn_program *program_of(tn_runtime *rt, int way, tn_tensor *w, bool constant) {
  tn_graph *g;
  tn_program *p;
  tn_tensor *x, *weights, *y = NULL;
  ok(tn_graph_create(rt, "kept", &g));
  ok(tn_graph_input(g, "x", TN_F32, 4, SHAPE(1, CHANNELS, SIDE, SIDE), &x));
  ok((constant ? tn_graph_constant : tn_graph_parameter)(g, "w", w, &weights));
  convolve(way, x, weights, &y);
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_compile(g, tn_runtime_device(rt), NULL, &p));
  tn_tensor_release(x), tn_tensor_release(weights), tn_tensor_release(y);
  tn_graph_destroy(g);
  return p;
}

/* How often such memory is taken by a run, whose bits are those of the call alone. */
static int large_of_run(tn_program *p, int way, const tn_tensor *x, const tn_tensor *w) {
  enum { MOST = 4 * CHANNELS * SIDE * SIDE };
  static float got[MOST], want[MOST];
  tn_tensor *y = NULL, *alone = NULL;
  const int before = atomic_load(&taken.large);
  ok(tn_program_run(p, NULL, 1, &x, 1, &y));
  const int large = atomic_load(&taken.large) - before;
  convolve(way, x, w, &alone);
  const size_t bytes = (size_t)tn_tensor_elements(y) * sizeof *got;
  ok(tn_tensor_to_host(y, got, bytes));
  ok(tn_tensor_to_host(alone, want, bytes));
  ck_assert_mem_eq(got, want, bytes);
  tn_tensor_release(y), tn_tensor_release(alone);
  return large;
}

START_TEST(constant_weights_are_laid_out_once) {
  tn_runtime *rt = open_counting();
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *w = drawn(device, CHANNELS, ways[_i].window, 1), *v = NULL;
  tn_tensor *x = drawn(device, 1, SIDE, 2);
  ok(tn_copy(NULL, w, &v));
  tn_program *constant = program_of(rt, _i, w, true), *parameter = program_of(rt, _i, v, false);
  large_of_run(constant, _i, x, w);
  large_of_run(parameter, _i, x, v);
  for (int i = 0; i < 3; i++) {
    ok(tn_mul(NULL, x, x, &x)); /* other numbers */
    ok(tn_add(NULL, v, v, &v));
    const int later = large_of_run(constant, _i, x, w), each = large_of_run(parameter, _i, x, v);
    ck_assert_int_eq(later, each - 1);
  }
  tn_program_destroy(constant), tn_program_destroy(parameter);
  tn_tensor_release(w), tn_tensor_release(v), tn_tensor_release(x);
  tn_runtime_close(rt);
  ck_assert_int_eq(atomic_load(&taken.held), 0);
}
END_TEST

/* They go another way, on which nothing is kept of them. */
START_TEST(infinite_weights_are_the_calls) {
  tn_runtime *rt = open_counting();
  tn_device *device = tn_runtime_device(rt);
  tn_tensor *x = drawn(device, 1, SIDE, 2), *w = drawn(device, CHANNELS, ways[_i].window, 1);
  const tn_fill_attrs infinite = {.struct_size = sizeof infinite, .value = (double)INFINITY};
  ok(tn_fill(NULL, w, &infinite));
  tn_program *p = program_of(rt, _i, w, true);
  for (int i = 0; i < 2; i++) large_of_run(p, _i, x, w);
  tn_program_destroy(p);
  tn_tensor_release(w), tn_tensor_release(x);
  tn_runtime_close(rt);
  ck_assert_int_eq(atomic_load(&taken.held), 0);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_loop_test(t, constant_weights_are_laid_out_once, 0, WAYS);
  tcase_add_loop_test(t, infinite_weights_are_the_calls, 0, WAYS);
}

int main(void) { return run_suite("kept weights", add_tests); }
