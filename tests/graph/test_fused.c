/*
 * Products that take up the bias and activation behind them: where the result is the calls' to
 * rounding, and where something else reads, writes or differs, so that they must not.
 */
#include "tests/graph/fused.h"

static void bias_and_relu(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o), *t = NULL;
  ok(tn_add(NULL, h, o->b, &t));
  ok(tn_relu(NULL, t, &out[0]));
  RELEASE(h, t);
}
static void bias_first(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o);
  ok(tn_add(NULL, o->b, h, &out[0]));
  tn_tensor_release(h);
}
static void in_place(const operands *o, tn_tensor *out[2]) {
  tn_gelu_attrs attrs = TN_GELU_DEFAULTS;
  attrs.tanh = 1;
  out[0] = product(o);
  ok(tn_add(NULL, out[0], o->b, &out[0]));
  ok(tn_gelu(NULL, out[0], &attrs, &out[0]));
}
static void activation_alone(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o);
  ok(tn_gelu(NULL, h, NULL, &out[0]));
  tn_tensor_release(h);
}
/* The bias is computed behind the product, as a cast of it would be. */
static void bias_in_between(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o), *t = NULL, *row = NULL, *y = NULL;
  ok(tn_tanh(NULL, o->b, &t));
  ok(tn_tensor_reshape(t, 2, SHAPE(1, N), &row));
  ok(tn_add(NULL, h, row, &y));
  ok(tn_relu(NULL, y, &out[0]));
  RELEASE(h, t, row, y);
}
/* Equal products: one is left, and its two readings are two. */
static void product_read_twice(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o), *again = product(o);
  ok(tn_add(NULL, h, o->b, &out[0]));
  ok(tn_add(NULL, again, o->c, &out[1]));
  RELEASE(h, again);
}
static void sum_is_read_too(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o);
  ok(tn_add(NULL, h, o->b, &out[0]));
  ok(tn_relu(NULL, out[0], &out[1]));
  tn_tensor_release(h);
}
static void second_bias(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o), *t = NULL;
  ok(tn_add(NULL, h, o->b, &t));
  ok(tn_add(NULL, t, o->c, &out[0]));
  RELEASE(h, t);
}
static void relu_before_bias(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o), *t = NULL;
  ok(tn_relu(NULL, h, &t));
  ok(tn_add(NULL, t, o->b, &out[0]));
  RELEASE(h, t);
}
static void view_between(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o), *t = NULL;
  ok(tn_tensor_slice(h, 0, 0, 3, 1, &t));
  ok(tn_add(NULL, t, o->b, &out[0]));
  RELEASE(h, t);
}
static void column(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = NULL, *column = NULL;
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  attrs.trans_b = 1;
  ok(tn_matmul(NULL, o->s, o->w, NULL, &attrs, &h)); /* [N, K] */
  ok(tn_tensor_reshape(o->b, 2, SHAPE(N, 1), &column));
  ok(tn_add(NULL, h, column, &out[0]));
  RELEASE(h, column);
}
static void higher_rank(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o), *b = NULL;
  ok(tn_tensor_reshape(o->b, 3, SHAPE(1, 1, N), &b));
  ok(tn_add(NULL, h, b, &out[0]));
  RELEASE(h, b);
}
static void whole_matrix(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o), *other = NULL;
  ok(tn_matmul(NULL, o->x, o->w, o->b, NULL, &other));
  ok(tn_add(NULL, h, other, &out[0]));
  RELEASE(h, other);
}
static void one_number(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o), *one = NULL;
  ok(tn_tensor_slice(o->b, 0, 1, 2, 1, &one));
  ok(tn_add(NULL, h, one, &out[0]));
  RELEASE(h, one);
}
static void every_other(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = NULL, *half = NULL, *columns = NULL;
  ok(tn_tensor_slice(o->w, 1, 0, N, 2, &columns));
  ok(tn_tensor_slice(o->b, 0, 0, N, 2, &half));
  ok(tn_matmul(NULL, o->x, columns, NULL, NULL, &h));
  ok(tn_add(NULL, h, half, &out[0]));
  RELEASE(h, half, columns);
}
/* The sum goes where an operand was: no product may write there. */
static void onto_an_operand(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = NULL;
  ok(tn_copy(NULL, o->s, &out[0]));
  ok(tn_neg(NULL, out[0], &out[0]));
  ok(tn_matmul(NULL, out[0], o->s, NULL, NULL, &h));
  ok(tn_add(NULL, h, o->b, &out[0]));
  tn_tensor_release(h);
}
/* The operand is written between product and sum, and the bias too late for the former. */
static void nowhere_to_go(const operands *o, tn_tensor *out[2]) {
  tn_tensor *a = NULL, *h = NULL, *t = NULL;
  ok(tn_neg(NULL, o->x, &a));
  ok(tn_matmul(NULL, a, o->w, NULL, NULL, &h));
  ok(tn_neg(NULL, a, &a));
  ok(tn_tanh(NULL, o->b, &t));
  ok(tn_add(NULL, h, t, &out[0]));
  out[1] = a;
  RELEASE(h, t);
}
/* Into a tensor that held something else, which is read between product and sum. */
static void into_what_was_read(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = NULL;
  ok(tn_matmul(NULL, o->x, o->w, o->c, NULL, &out[0]));
  h = product(o);
  ok(tn_tanh(NULL, out[0], &out[1]));
  ok(tn_add(NULL, h, o->b, &out[0]));
  tn_tensor_release(h);
}
/* Into a part of what is read as a whole once the other part is written. */
static void into_a_part(const operands *o, tn_tensor *out[2]) {
  tn_tensor *upper = NULL, *lower = NULL;
  ok(tn_tensor_empty(tn_tensor_device(o->x), TN_F32, 2, SHAPE(2 * M, N), &out[1]));
  ok(tn_tensor_slice(out[1], 0, 0, M, 1, &upper));
  ok(tn_tensor_slice(out[1], 0, M, 2 * M, 1, &lower));
  ok(tn_matmul(NULL, o->x, o->w, NULL, NULL, &upper));
  ok(tn_add(NULL, upper, o->b, &out[0]));
  ok(tn_matmul(NULL, o->x, o->w, o->c, NULL, &lower));
  RELEASE(upper, lower);
}
static void nothing_at_all(const operands *o, tn_tensor *out[2]) {
  tn_tensor *none = NULL, *h = NULL, *t = NULL;
  ok(tn_tensor_slice(o->x, 0, 2, 2, 1, &none));
  ok(tn_matmul(NULL, none, o->w, NULL, NULL, &h));
  ok(tn_add(NULL, h, o->b, &t));
  ok(tn_relu(NULL, t, &out[0]));
  RELEASE(none, h, t);
}
/* [1, 1, M, K] is an image too; a number for each of N = 4 channels. */
static void image(const operands *o, tn_tensor *out[2]) {
  tn_tensor *x = NULL, *w = NULL, *b = NULL, *h = NULL, *t = NULL;
  ok(tn_tensor_reshape(o->x, 4, SHAPE(1, 1, M, K), &x));
  ok(tn_tensor_reshape(o->s, 4, SHAPE(N, 1, 2, 2), &w));
  ok(tn_tensor_reshape(o->b, 3, SHAPE(N, 1, 1), &b));
  ok(tn_conv2d(NULL, x, w, NULL, NULL, &h));
  ok(tn_add(NULL, h, b, &t));
  ok(tn_relu(NULL, t, &out[0]));
  RELEASE(x, w, b, h, t);
}
/* Along the last axis of an image, which has N elements too. */
static void rows_of_an_image(const operands *o, tn_tensor *out[2]) {
  tn_tensor *x = NULL, *w = NULL, *h = NULL;
  ok(tn_tensor_reshape(o->x, 4, SHAPE(1, 1, M, K), &x));
  ok(tn_tensor_reshape(o->s, 4, SHAPE(N, 1, 2, 2), &w));
  ok(tn_conv2d(NULL, x, w, NULL, NULL, &h));
  ok(tn_add(NULL, h, o->b, &out[0]));
  RELEASE(x, w, h);
}
static void signals(const operands *o, tn_tensor *out[2]) {
  tn_tensor *x = NULL, *w = NULL, *b = NULL, *h = NULL;
  ok(tn_tensor_reshape(o->x, 3, SHAPE(1, M, K), &x));
  ok(tn_tensor_reshape(o->s, 3, SHAPE(N, 1, N), &w));
  ok(tn_tensor_slice(x, 1, 0, 1, 1, &b));
  ok(tn_conv1d(NULL, b, w, NULL, NULL, &h));
  tn_tensor_release(b);
  ok(tn_tensor_reshape(o->b, 3, SHAPE(1, N, 1), &b));
  ok(tn_add(NULL, b, h, &out[0]));
  RELEASE(x, w, b, h);
}

#define ACTIVATED(name, call)                                                                      \
  static void name(const operands *o, tn_tensor *out[2]) {                                         \
    tn_tensor *h = windows(o, false);                                                              \
    ok(call);                                                                                      \
    tn_tensor_release(h);                                                                          \
  }
static const tn_clamp_attrs to_six = {sizeof to_six, 0, 6}, to_five = {sizeof to_five, 0, 5};
static const tn_gelu_attrs by_tanh = {sizeof by_tanh, 1};
ACTIVATED(image_relu, tn_relu(NULL, h, &out[0]))
ACTIVATED(image_relu6, tn_clamp(NULL, h, &to_six, &out[0]))
ACTIVATED(image_clamp, tn_clamp(NULL, h, &to_five, &out[0]))
ACTIVATED(image_gelu, tn_gelu(NULL, h, NULL, &out[0]))
ACTIVATED(image_gelu_tanh, tn_gelu(NULL, h, &by_tanh, &out[0]))
ACTIVATED(image_hardswish, tn_hardswish(NULL, h, &out[0]))
ACTIVATED(image_silu, tn_silu(NULL, h, &out[0]))
ACTIVATED(image_sigmoid, tn_sigmoid(NULL, h, &out[0]))
ACTIVATED(image_tanh, tn_tanh(NULL, h, &out[0]))
/* The convolution's own result is read, or goes out, too. */
static void image_read_twice(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false);
  ok(tn_relu(NULL, h, &out[0]));
  ok(tn_tanh(NULL, h, &out[1]));
  tn_tensor_release(h);
}
static void image_goes_out(const operands *o, tn_tensor *out[2]) {
  out[1] = windows(o, false);
  ok(tn_relu(NULL, out[1], &out[0]));
}
/* One activation to a convolution. */
static void image_two(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false), *t = NULL;
  ok(tn_sigmoid(NULL, h, &t));
  ok(tn_silu(NULL, t, &out[0]));
  RELEASE(h, t);
}
static void image_transposed(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, true);
  ok(tn_relu(NULL, h, &out[0]));
  tn_tensor_release(h);
}
/* Of those that products of matrices lack. */
static void matrix_relu6(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = product(o);
  ok(tn_clamp(NULL, h, &to_six, &out[0]));
  tn_tensor_release(h);
}
static void signals_relu(const operands *o, tn_tensor *out[2]) {
  tn_tensor *x = NULL, *w = NULL, *h = NULL;
  ok(tn_tensor_reshape(o->x, 3, SHAPE(M, 1, K), &x));
  ok(tn_tensor_reshape(o->s, 3, SHAPE(2 * N, 1, 2), &w));
  ok(tn_conv1d(NULL, x, w, NULL, NULL, &h));
  ok(tn_relu(NULL, h, &out[0]));
  RELEASE(x, w, h);
}
static void volumes_silu(const operands *o, tn_tensor *out[2]) {
  tn_tensor *x = NULL, *w = NULL, *h = NULL;
  ok(tn_tensor_reshape(o->x, 5, SHAPE(1, 1, 2, M / 2, K), &x));
  ok(tn_tensor_reshape(o->s, 5, SHAPE(2, 1, 2, 2, 2), &w));
  ok(tn_conv3d(NULL, x, w, NULL, NULL, &h));
  ok(tn_silu(NULL, h, &out[0]));
  RELEASE(x, w, h);
}

static const struct {
  model make;
  uint32_t fused;
} cases[] = {
    {bias_and_relu, 2},    {bias_first, 1},      {in_place, 2},
    {activation_alone, 1}, {bias_in_between, 2}, {product_read_twice, 0},
    {sum_is_read_too, 1},  {second_bias, 1},     {relu_before_bias, 1},
    {view_between, 0},     {column, 0},          {higher_rank, 0},
    {whole_matrix, 0},     {one_number, 0},      {every_other, 0},
    {onto_an_operand, 0},  {nowhere_to_go, 0},   {into_what_was_read, 1},
    {into_a_part, 0},      {nothing_at_all, 2},  {image, 2},
    {rows_of_an_image, 0}, {signals, 1},         {image_relu, 1},
    {image_relu6, 1},      {image_clamp, 0},     {image_gelu, 1},
    {image_gelu_tanh, 1},  {image_hardswish, 1}, {image_silu, 1},
    {image_sigmoid, 1},    {image_tanh, 0},      {image_read_twice, 0},
    {image_goes_out, 0},   {image_two, 1},       {image_transposed, 0},
    {matrix_relu6, 0},     {signals_relu, 1},    {volumes_silu, 1},

};

START_TEST(what_is_taken_up) { takes_up(cases[_i].make, cases[_i].fused); }
END_TEST

/* A parameter that is updated between the product and the sum was read before that. */
START_TEST(parameters_updated_between) {
  operands real = real_operands();
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", M, K), *w = NULL, *b = NULL, *h = NULL, *y = NULL;
  ok(tn_graph_parameter(g, "w", real.w, &w));
  ok(tn_graph_parameter(g, "b", real.b, &b));
  ok(tn_matmul(NULL, x, w, NULL, NULL, &h));
  ok(tn_neg(NULL, w, &w));
  ok(tn_neg(NULL, b, &b));
  ok(tn_add(NULL, h, b, &y));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  ck_assert_uint_eq(report(p).fused, 0);
  tn_tensor *minus = NULL, *first = NULL, *want = NULL, *got = NULL;
  ok(tn_matmul(NULL, real.x, real.w, NULL, NULL, &first));
  ok(tn_neg(NULL, real.b, &minus));
  ok(tn_add(NULL, first, minus, &want));
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real.x}, 1, &got));
  same(got, want);
  RELEASE(x, w, b, h, y, minus, first, want, got);
  free_operands(&real);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* What a product gives in 16 bits is rounded once: nearer the truth than by calls, or as near. */
START_TEST(sixteen_bits) {
  const tn_dtype narrow = _i ? TN_F16 : TN_BF16;
  tn_cast_attrs to_narrow = TN_CAST_DEFAULTS, to_f32 = TN_CAST_DEFAULTS;
  operands real = real_operands(), low = {NULL}, o = {NULL}, high = {NULL};
  tn_tensor *const from[] = {real.x, real.w, real.b};
  tn_tensor **const at[] = {&low.x, &low.w, &low.b}, **const exact[] = {&high.x, &high.w, &high.b};
  tn_graph *g = make_graph();
  tn_tensor *made[2] = {NULL}, *called[2] = {NULL}, *want[2] = {NULL}, *got = NULL;
  to_narrow.dtype = (int32_t)narrow;
  for (int i = 0; i < 3; ++i) {
    ok(tn_cast(NULL, from[i], &to_narrow, at[i]));
    ok(tn_cast(NULL, *at[i], &to_f32, exact[i]));
  }
  ok(tn_graph_input(g, "x", narrow, 2, SHAPE(M, K), &o.x));
  ok(tn_graph_constant(g, "w", low.w, &o.w));
  ok(tn_graph_constant(g, "b", low.b, &o.b));
  bias_and_relu(&o, made);
  bias_and_relu(&low, called);
  bias_and_relu(&high, want);
  ok(tn_graph_output(g, "y", made[0]));
  tn_program *p = compiled(g);
  ck_assert_uint_eq(report(p).fused, 2);
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){low.x}, 1, &got));
  tn_tensor *wide = NULL, *by_calls = NULL;
  ok(tn_cast(NULL, got, &to_f32, &wide));
  ok(tn_cast(NULL, called[0], &to_f32, &by_calls));
  const float *a = tn_tensor_data(wide), *b = tn_tensor_data(by_calls),
              *c = tn_tensor_data(want[0]);
  for (int i = 0; i < M * N; ++i)
    ck_assert_msg(fabsf(a[i] - c[i]) <= fabsf(b[i] - c[i]) + 1e-6f, "%d: %g, %g by calls, %g", i,
                  (double)a[i], (double)b[i], (double)c[i]);
  RELEASE(made[0], called[0], want[0], got, wide, by_calls);
  free_operands(&o);
  free_operands(&low);
  free_operands(&high);
  free_operands(&real);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* A device whose product has relu and no gelu, and the site that stays. */
START_TEST(what_the_kernel_takes) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = TEMPLATE_PLUGIN,
                                .device = "sim",
                                .fallback = TN_FALLBACK_ALLOW};
  tn_runtime *sim = open_runtime(&options);
  for (int gelu = 0; gelu < 2; ++gelu) {
    tn_graph *g = NULL;
    tn_program *p = NULL;
    tn_tensor *x = NULL, *y = NULL, *z = NULL;
    ok(tn_graph_create(sim, "site", &g));
    ok(tn_graph_input(g, "x", TN_F32, 2, SHAPE(3, 3), &x));
    ok(tn_matmul(NULL, x, x, NULL, NULL, &y));
    ok(gelu ? tn_gelu(NULL, y, NULL, &z) : tn_relu(NULL, y, &z));
    ok(tn_graph_output(g, "z", z));
    ok(tn_graph_compile(g, tn_runtime_device(sim), NULL, &p));
    ck_assert_uint_eq(report(p).fused, !gelu);
    RELEASE(x, y, z);
    tn_program_destroy(p);
    tn_graph_destroy(g);
  }
  tn_runtime_close(sim);
}
END_TEST

/* A fused node is the product by number and by name; here it has no kernel and may not fall back.
 */
START_TEST(sites_stay) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = LAZY_PLUGIN,
                                .device = "bare",
                                .fallback = TN_FALLBACK_ERROR};
  tn_runtime *bare = open_runtime(&options);
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_tensor *x = NULL, *y = NULL, *z = NULL;
  ok(tn_graph_create(bare, "site", &g));
  ok(tn_graph_input(g, "x", TN_F32, 2, SHAPE(3, 3), &x));
  const char *before = tn_call_site("product");
  ok(tn_matmul(NULL, x, x, NULL, NULL, &y));
  tn_call_site("activation");
  ok(tn_relu(NULL, y, &z));
  tn_call_site(before);
  ok(tn_graph_output(g, "z", z));
  ok(tn_graph_compile(g, tn_runtime_device(bare), NULL, &p));
  ck_assert_uint_eq(report(p).fused, 1);
  tn_tensor *in = shaped(tn_runtime_device(bare), TN_F32, 2, SHAPE(3, 3)), *out = NULL;
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &out), TN_ERR_UNSUPPORTED,
          "node 0 at product");
  RELEASE(x, y, z, in);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  tn_runtime_close(bare);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, what_is_taken_up, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_test(tcase, parameters_updated_between);
  tcase_add_loop_test(tcase, sixteen_bits, 0, 2);
  tcase_add_test(tcase, what_the_kernel_takes);
  tcase_add_test(tcase, sites_stay);
}

int main(void) { return run_suite("graph_fused", add_tests); }
