/*
 * A value times a function of itself, which becomes one operator: where it may, and where something
 * else reads the function's result, or it is another value's.
 */
#include "tests/graph/fused.h"

/* A convolution's result times a function of itself. */
static tn_tensor *sigmoid_of(const tn_tensor *x) {
  tn_tensor *y = NULL;
  ok(tn_sigmoid(NULL, x, &y));
  return y;
}
static void gate_silu(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false), *s = sigmoid_of(h);
  ok(tn_mul(NULL, h, s, &out[0]));
  RELEASE(h, s);
}
static void gate_first(const operands *o, tn_tensor *out[2]) {
  tn_tensor *s = NULL;
  out[0] = windows(o, false);
  s = sigmoid_of(out[0]);
  ok(tn_mul(NULL, s, out[0], &out[0])); /* in place */
  tn_tensor_release(s);
}
static void gate_hardswish(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false), *s = NULL;
  ok(tn_hardsigmoid(NULL, h, &s));
  ok(tn_mul(NULL, h, s, &out[0]));
  RELEASE(h, s);
}
static void mish_with(const operands *o, tn_tensor *out[2], double beta) {
  tn_softplus_attrs attrs = TN_SOFTPLUS_DEFAULTS;
  tn_tensor *h = windows(o, false), *s = NULL, *t = NULL;
  attrs.beta = beta;
  ok(tn_softplus(NULL, h, &attrs, &s));
  ok(tn_tanh(NULL, s, &t));
  ok(tn_mul(NULL, h, t, &out[0]));
  RELEASE(h, s, t);
}
static void gate_mish(const operands *o, tn_tensor *out[2]) { mish_with(o, out, 1); }
static void gate_sharp_mish(const operands *o, tn_tensor *out[2]) { mish_with(o, out, 2); }
static void gate_of_input(const operands *o, tn_tensor *out[2]) {
  tn_tensor *s = sigmoid_of(o->x);
  ok(tn_mul(NULL, o->x, s, &out[0]));
  tn_tensor_release(s);
}
static void gate_read_twice(const operands *o, tn_tensor *out[2]) {
  tn_tensor *s = sigmoid_of(o->x);
  ok(tn_mul(NULL, o->x, s, &out[0]));
  ok(tn_neg(NULL, s, &out[1]));
  tn_tensor_release(s);
}
static void gate_goes_out(const operands *o, tn_tensor *out[2]) {
  out[1] = sigmoid_of(o->x);
  ok(tn_mul(NULL, o->x, out[1], &out[0]));
}
/* Gates of something else: another value, the same before it changed, one of another shape. */
static void gate_of_another(const operands *o, tn_tensor *out[2]) {
  tn_tensor *n = NULL, *s = NULL;
  ok(tn_neg(NULL, o->x, &n));
  s = sigmoid_of(n);
  ok(tn_mul(NULL, o->x, s, &out[0]));
  RELEASE(n, s);
}
static void gate_of_before(const operands *o, tn_tensor *out[2]) {
  tn_tensor *n = NULL, *s = NULL;
  ok(tn_neg(NULL, o->x, &n));
  s = sigmoid_of(n);
  ok(tn_neg(NULL, n, &n));
  ok(tn_mul(NULL, n, s, &out[0]));
  RELEASE(n, s);
}
static void gate_of_a_row(const operands *o, tn_tensor *out[2]) {
  tn_tensor *row = NULL, *s = NULL;
  ok(tn_tensor_slice(o->x, 0, 0, 1, 1, &row));
  s = sigmoid_of(row);
  ok(tn_mul(NULL, o->x, s, &out[0]));
  RELEASE(row, s);
}
static void gate_squared(const operands *o, tn_tensor *out[2]) {
  tn_tensor *s = sigmoid_of(o->x);
  ok(tn_mul(NULL, s, s, &out[0]));
  tn_tensor_release(s);
}
/* A row times its own gate, broadcast. */
static void gate_spread(const operands *o, tn_tensor *out[2]) {
  tn_tensor *s = sigmoid_of(o->b), *wide = NULL;
  ok(tn_tensor_expand(s, 2, SHAPE(N, N), &wide));
  ok(tn_mul(NULL, o->b, wide, &out[0]));
  RELEASE(s, wide);
}

static const struct {
  model make;
  uint32_t fused;
} cases[] = {
    {gate_silu, 2},       {gate_first, 2},     {gate_hardswish, 2},  {gate_mish, 2},
    {gate_sharp_mish, 0}, {gate_of_input, 1},  {gate_read_twice, 0}, {gate_goes_out, 0},
    {gate_of_another, 0}, {gate_of_before, 0}, {gate_of_a_row, 0},   {gate_squared, 0},
    {gate_spread, 0},
};

START_TEST(what_is_one_operator) { takes_up(cases[_i].make, cases[_i].fused); }
END_TEST

/* A gradient reads the gate, which stays; and what it gives is what it gave. */
START_TEST(gates_that_gradients_read) {
  tn_tensor *real = numbers(device, M, K, -1), *got[2][2] = {{NULL}};
  for (int unfused = 0; unfused < 2; ++unfused) {
    tn_graph *g = make_graph();
    tn_tensor *x = input(g, "x", M, K), *s = sigmoid_of(x), *y = NULL, *sum = NULL, *dx = NULL;
    ok(tn_mul(NULL, x, s, &y));
    ok(tn_sum(NULL, y, NULL, &sum));
    ok(tn_graph_gradient(g, sum, 1, &x, &dx));
    ok(tn_graph_output(g, "y", y));
    ok(tn_graph_output(g, "dx", dx));
    tn_program *p = compiled_with(g, unfused ? TN_COMPILE_NO_FUSION : 0);
    ck_assert_uint_eq(report(p).fused, 0);
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real}, 2, got[unfused]));
    RELEASE(x, s, y, sum, dx);
    tn_program_destroy(p);
    tn_graph_destroy(g);
  }
  for (int i = 0; i < 2; ++i) same(got[0][i], got[1][i]);
  RELEASE(real, got[0][0], got[0][1], got[1][0], got[1][1]);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, what_is_one_operator, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_test(tcase, gates_that_gradients_read);
}

int main(void) { return run_suite("graph_gates", add_tests); }
