/*
 * Convolutions with an activation of their own: gradients equal those of the two calls that they
 * stand for, by tape and by graph, and what is kept for them is what they need.
 */
#include <math.h>

#include "tests/graph/graphs.h"

enum { C = 2, K = 3, SIZE = 5, WINDOW = 2, MOST = 256 };

static tn_tensor *doubles(int32_t rank, const int64_t *shape, double from) {
  double values[MOST];
  int64_t count = 1;
  tn_tensor *t = NULL;
  for (int32_t i = 0; i < rank; ++i) count *= shape[i];
  ck_assert_int_le(count, MOST);
  for (int64_t i = 0; i < count; ++i) values[i] = from + 1.3 * sin(1.7 * (double)i + from);
  ok(tn_tensor_from_host(device, TN_F64, rank, shape, values, &t));
  return t;
}

static tn_tensor *activated(int64_t activation, const tn_tensor *x) {
  const tn_clamp_attrs to_six = {sizeof to_six, 0, 6};
  const tn_gelu_attrs gelu = {sizeof gelu, activation == TN_ACTIVATION_GELU_TANH};
  tn_tensor *y = NULL;
  switch (activation) {
  case TN_ACTIVATION_RELU:
    ok(tn_relu(NULL, x, &y));
    break;
  case TN_ACTIVATION_RELU6:
    ok(tn_clamp(NULL, x, &to_six, &y));
    break;
  case TN_ACTIVATION_HARDSWISH:
    ok(tn_hardswish(NULL, x, &y));
    break;
  case TN_ACTIVATION_SILU:
    ok(tn_silu(NULL, x, &y));
    break;
  case TN_ACTIVATION_SIGMOID:
    ok(tn_sigmoid(NULL, x, &y));
    break;
  default:
    ok(tn_gelu(NULL, x, &gelu, &y));
  }
  return y;
}

static tn_tensor *convolved(int axes, const tn_tensor *x, const tn_tensor *w, const tn_tensor *b,
                            int64_t activation) {
  tn_conv1d_attrs one = TN_CONV1D_DEFAULTS;
  tn_conv2d_attrs two = TN_CONV2D_DEFAULTS;
  tn_conv3d_attrs three = TN_CONV3D_DEFAULTS;
  tn_tensor *y = NULL;
  one.activation = two.activation = three.activation = activation;
  one.padding = two.padding[0] = three.padding[2] = 1;
  if (axes == 1) ok(tn_conv1d(NULL, x, w, b, &one, &y));
  if (axes == 2) ok(tn_conv2d(NULL, x, w, b, &two, &y));
  if (axes == 3) ok(tn_conv3d(NULL, x, w, b, &three, &y));
  return y;
}

/* The sum of y y / 2. */
static tn_tensor *loss_of(int axes, bool fused, int64_t activation, tn_tensor *const in[3]) {
  tn_tensor *h = convolved(axes, in[0], in[1], in[2], fused ? activation : TN_ACTIVATION_NONE);
  tn_tensor *y = fused ? h : activated(activation, h), *square = NULL, *loss = NULL;
  ok(tn_mul(NULL, y, y, &square));
  ok(tn_sum(NULL, square, NULL, &loss));
  if (!fused) tn_tensor_release(h);
  RELEASE(y, square);
  return loss;
}

static void by_tape(int axes, bool fused, int64_t activation, tn_tensor *const in[3], size_t n,
                    tn_tensor *gradients[3]) {
  tn_tape *tape = NULL;
  ok(tn_tape_create(rt, &tape));
  for (size_t i = 0; i < n; ++i) ok(tn_tape_watch(tape, in[i]));
  ok(tn_tape_begin(tape));
  tn_tensor *loss = loss_of(axes, fused, activation, in);
  ok(tn_tape_gradient(tape, NULL, loss, NULL, n, in, gradients, 0));
  ok(tn_tape_end(tape));
  tn_tensor_release(loss);
  tn_tape_destroy(tape);
}

static void by_graph(int axes, int64_t activation, tn_tensor *const in[3], size_t n,
                     tn_tensor *gradients[3]) {
  static const char *const names[] = {"x", "w", "b"};
  tn_graph *g = make_graph();
  tn_tensor *s[3] = {NULL}, *made[3] = {NULL};
  for (size_t i = 0; i < n; ++i)
    ok(tn_graph_input(g, names[i], TN_F64, tn_tensor_rank(in[i]), tn_tensor_shape(in[i]), &s[i]));
  tn_tensor *loss = loss_of(axes, true, activation, s);
  ok(tn_graph_gradient(g, loss, n, s, made));
  for (size_t i = 0; i < n; ++i) ok(tn_graph_output(g, names[i], made[i]));
  tn_program *p = compiled(g);
  ok(tn_program_run(p, NULL, (uint32_t)n, (const tn_tensor *const *)in, (uint32_t)n, gradients));
  tn_tensor_release(loss);
  for (size_t i = 0; i < n; ++i) RELEASE(s[i], made[i]);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}

static void near(const tn_tensor *got, const tn_tensor *want) {
  double a[MOST], b[MOST];
  const size_t bytes = tn_tensor_bytes(want);
  ck_assert_uint_eq(tn_tensor_bytes(got), bytes);
  ok(tn_tensor_to_host(got, a, bytes));
  ok(tn_tensor_to_host(want, b, bytes));
  for (size_t i = 0; i < bytes / sizeof *a; ++i)
    ck_assert_msg(fabs(a[i] - b[i]) <= 1e-12 * (1 + fabs(b[i])),
                  "element %zu is %g, by two calls %g", i, a[i], b[i]);
}

static void operands(int axes, tn_tensor *in[3]) {
  in[0] = doubles(2 + axes, (int64_t[]){1, C, SIZE, axes > 2 ? 3 : SIZE, 4}, 0.1);
  in[1] = doubles(2 + axes, (int64_t[]){K, C, WINDOW, WINDOW, WINDOW}, -0.2);
  in[2] = doubles(1, (int64_t[]){K}, 0.4);
}

START_TEST(gradients_are_those_of_two_calls) {
  const int64_t activation = 1 + _i % 7;
  const int axes = 1 + _i / 7 % 3;
  const size_t n = _i < 21 ? 3 : 2; /* without a bias */
  tn_tensor *in[3] = {NULL}, *want[3] = {NULL}, *tape[3] = {NULL}, *graph[3] = {NULL};
  operands(axes, in);
  if (n == 2) tn_tensor_release(in[2]), in[2] = NULL;
  by_tape(axes, false, activation, in, n, want);
  by_tape(axes, true, activation, in, n, tape);
  by_graph(axes, activation, in, n, graph);
  for (size_t i = 0; i < n; ++i) near(tape[i], want[i]), near(graph[i], want[i]);
  for (size_t i = 0; i < n; ++i) RELEASE(in[i], want[i], tape[i], graph[i]);
}
END_TEST

/* The result may be overwritten unless the activation's gradient is taken of it. */
START_TEST(results_are_kept_where_they_are_read) {
  const bool reads = _i == TN_ACTIVATION_RELU || _i == TN_ACTIVATION_SIGMOID;
  tn_tensor *in[3] = {NULL}, *loss = NULL, *dx = NULL;
  tn_tape *tape = NULL;
  operands(2, in);
  ok(tn_tape_create(rt, &tape));
  ok(tn_tape_watch(tape, in[0]));
  ok(tn_tape_begin(tape));
  tn_tensor *y = convolved(2, in[0], in[1], in[2], _i);
  ok(tn_neg(NULL, y, &y));
  ok(tn_sum(NULL, y, NULL, &loss));
  tn_status status = tn_tape_gradient(tape, NULL, loss, NULL, 1, in, &dx, 0);
  if (!reads) ck_assert_msg(status == TN_OK, "%s", tn_last_error());
  if (reads) ck_assert_msg(status != TN_OK && strstr(tn_last_error(), "conv2d"), "%d", status);
  ok(tn_tape_end(tape));
  RELEASE(in[0], in[1], in[2], y, loss, dx);
  tn_tape_destroy(tape);
}
END_TEST

START_TEST(others_are_refused) {
  tn_conv2d_attrs attrs = TN_CONV2D_DEFAULTS;
  tn_tensor *in[3] = {NULL}, *y = NULL;
  operands(2, in);
  attrs.activation = _i ? 8 : -1;
  refused(tn_conv2d(NULL, in[0], in[1], in[2], &attrs, &y), TN_ERR_INVALID_ARGUMENT, "activation");
  ck_assert_ptr_null(y);
  RELEASE(in[0], in[1], in[2]);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, gradients_are_those_of_two_calls, 0, 42);
  tcase_add_loop_test(t, results_are_kept_where_they_are_read, 0, 8);
  tcase_add_loop_test(t, others_are_refused, 0, 2);
}

int main(void) { return run_suite("gradient activated", add_tests); }
