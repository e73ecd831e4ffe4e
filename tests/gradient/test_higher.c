/* Gradients of gradients against differences of the first ones, in float64; what nodes are given
 * for them; types of 16 bits; what has no second derivative. */
#include <math.h>

#include "tenon/plugin.h"
#include "tests/graph/graphs.h"

enum { N = 2, C = 4, H = 3, W = 3, ELEMENTS = N * C * H * W };

/* Tensors of a test, released at its end. */
static tn_tensor *held[4096];
static size_t num_held;

static tn_tensor *hold(tn_tensor *mine) {
  ck_assert_ptr_nonnull(mine);
  ck_assert_uint_lt(num_held, sizeof held / sizeof *held);
  return held[num_held++] = mine;
}

static void let_go(void) {
  while (num_held) tn_tensor_release(held[--num_held]);
}

static void teardown_held(void) {
  let_go();
  teardown();
}

static tn_tensor *t; /* where calls put what they make: made(tn_exp(NULL, x, &t)) */

static tn_tensor *made(tn_status status) {
  tn_tensor *got = t;
  ck_assert_msg(status == TN_OK, "%s", tn_last_error());
  t = NULL;
  return hold(got);
}
#define ATTRS(op, ...) (&(tn_##op##_attrs){.struct_size = sizeof(tn_##op##_attrs), __VA_ARGS__})

static tn_tensor *cut(tn_tensor *x, int32_t axis, int64_t begin, int64_t end) {
  return made(tn_tensor_slice(x, axis, begin, end, 1, &t));
}

static tn_tensor *full_like(tn_tensor *x, double value) {
  return made(tn_full(tn_tensor_device(x), NULL, tn_tensor_dtype(x), tn_tensor_rank(x),
                      tn_tensor_shape(x), value, &t));
}

/* --- functions of x, [N, C, H, W] --- */

static tn_tensor *first_of(tn_tensor *x) { return made(tn_tensor_select(x, 0, 0, &t)); }
static tn_tensor *channels_of(tn_tensor *x) {
  tn_tensor *column = made(tn_tensor_select(first_of(x), 1, 0, &t));
  return made(tn_tensor_select(column, 1, 0, &t));
}

static tn_tensor *by_layer_norm(tn_tensor *x) {
  return made(tn_layer_norm(NULL, x, first_of(x), NULL, ATTRS(layer_norm, .axis = 1, .eps = 0.01),
                            &t, NULL, NULL));
}
static tn_tensor *by_rms_norm(tn_tensor *x) {
  return made(
      tn_rms_norm(NULL, x, first_of(x), ATTRS(rms_norm, .axis = -3, .eps = 0.01), &t, NULL));
}
static tn_tensor *by_group_norm(tn_tensor *x) {
  return made(tn_group_norm(NULL, x, channels_of(x), channels_of(x),
                            ATTRS(group_norm, .groups = 2, .eps = 0.01), &t, NULL, NULL));
}
static tn_tensor *by_instance_norm(tn_tensor *x) {
  return made(tn_instance_norm(NULL, x, NULL, channels_of(x), ATTRS(instance_norm, .eps = 0.01), &t,
                               NULL, NULL));
}
/* The running statistics, which are updated, count too. */
static tn_tensor *by_batch_norm(tn_tensor *x) {
  tn_tensor *mean = made(tn_copy(NULL, channels_of(x), &t));
  tn_tensor *var = made(tn_square(NULL, channels_of(x), &t));
  tn_tensor *y =
      made(tn_batch_norm(NULL, x, channels_of(x), NULL, mean, var,
                         ATTRS(batch_norm, .eps = 0.01, .momentum = 0.25), &t, NULL, NULL));
  tn_tensor *both = made(tn_mul(NULL, mean, var, &t));
  tn_tensor *wide = made(tn_tensor_reshape(both, 3, SHAPE(C, 1, 1), &t));
  return made(tn_add(NULL, y, wide, &t));
}
static tn_tensor *by_batch_norm_inference(tn_tensor *x) {
  tn_tensor *c = channels_of(x), *var = made(tn_exp(NULL, c, &t));
  return made(tn_batch_norm_inference(NULL, x, c, var, c, c, NULL, &t));
}
static tn_tensor *by_conv(tn_tensor *x) {
  return made(tn_conv2d(
      NULL, x, cut(cut(x, 2, 0, 2), 3, 1, 3), NULL,
      ATTRS(conv2d, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 1}, .groups = 1), &t));
}
static tn_tensor *by_transposed_conv(tn_tensor *x) {
  tn_tensor *w = made(tn_tensor_permute(x, (int32_t[]){1, 0, 2, 3}, &t));
  return made(tn_conv_transpose2d(NULL, x, w, NULL,
                                  ATTRS(conv_transpose2d, .stride = {2, 1}, .padding = {1, 0},
                                        .dilation = {1, 1}, .groups = 2, .output_padding = {1, 0}),
                                  &t));
}
static tn_tensor *by_max_pool(tn_tensor *x) {
  return made(
      tn_max_pool2d(NULL, x, ATTRS(max_pool2d, .kernel = {2, 2}, .stride = {1, 1}), &t, NULL));
}
static tn_tensor *by_avg_pool(tn_tensor *x) {
  return made(tn_avg_pool2d(
      NULL, x, ATTRS(avg_pool2d, .kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = 1), &t));
}
static tn_tensor *by_adaptive_pool(tn_tensor *x) {
  return made(tn_adaptive_avg_pool2d(NULL, x, ATTRS(adaptive_avg_pool2d, .output = {2, 1}), &t));
}
static tn_tensor *by_resize(tn_tensor *x) {
  return made(tn_resize(NULL, x, ATTRS(resize, .output = {5, 2}, .mode = TN_RESIZE_BICUBIC), &t));
}
static tn_tensor *by_cross_entropy(tn_tensor *x) {
  tn_tensor *target = made(tn_full(tn_tensor_device(x), NULL, TN_I64, 3, SHAPE(N, H, W), 2, &t));
  return made(tn_cross_entropy(NULL, x, target,
                               ATTRS(cross_entropy, .reduction = TN_REDUCTION_NONE,
                                     .ignore_index = INT64_MIN, .label_smoothing = 0.125),
                               &t));
}
static tn_tensor *by_mse(tn_tensor *x) {
  tn_tensor *target = made(tn_exp(NULL, x, &t));
  return made(tn_mse_loss(NULL, x, target, NULL, &t));
}
static tn_tensor *by_huber(tn_tensor *x) {
  tn_tensor *target = full_like(x, 0.23);
  return made(tn_huber_loss(NULL, x, target,
                            ATTRS(huber_loss, .reduction = TN_REDUCTION_NONE, .delta = 0.611), &t));
}
static tn_tensor *by_kl_div(tn_tensor *x) {
  tn_tensor *target = made(tn_square(NULL, x, &t));
  return made(tn_kl_div(NULL, x, target, ATTRS(kl_div, .reduction = TN_REDUCTION_SUM), &t));
}
static tn_tensor *by_bce(tn_tensor *x) {
  tn_tensor *target = made(tn_square(NULL, x, &t));
  tn_tensor *c = made(tn_tensor_select(made(tn_tensor_select(first_of(x), 0, 1, &t)), 0, 2, &t));
  return made(tn_bce_with_logits(NULL, x, target, x, c,
                                 ATTRS(bce_with_logits, .reduction = TN_REDUCTION_MEAN), &t));
}
static tn_tensor *by_rope(tn_tensor *x) {
  tn_tensor *table = cut(made(tn_tensor_select(first_of(x), 0, 1, &t)), 1, 1, 2);
  return made(tn_rope(NULL, x, table, table, NULL, NULL, &t));
}

/* Parts by views that show the same elements in other orders, and by one that shows some. */
static tn_tensor *by_views(tn_tensor *x) {
  tn_tensor *turned = made(tn_tensor_permute(x, (int32_t[]){0, 1, 3, 2}, &t));
  tn_tensor *product = made(tn_mul(NULL, x, turned, &t));
  tn_tensor *flat = made(tn_tensor_reshape(x, 2, SHAPE(N * C, H * W), &t));
  tn_tensor *exponent =
      made(tn_tensor_reshape(made(tn_exp(NULL, flat, &t)), 4, SHAPE(N, C, H, W), &t));
  tn_tensor *sum = made(tn_add(NULL, product, exponent, &t));
  return made(tn_mul(NULL, sum, cut(cut(x, 2, 1, 2), 1, 2, 3), &t));
}

typedef tn_tensor *(*function)(tn_tensor *x);
static const struct {
  const char *name;
  function f;
} functions[] = {
    {"layer_norm", by_layer_norm},
    {"rms_norm", by_rms_norm},
    {"group_norm", by_group_norm},
    {"instance_norm", by_instance_norm},
    {"batch_norm", by_batch_norm},
    {"batch_norm_inference", by_batch_norm_inference},
    {"conv2d", by_conv},
    {"conv_transpose2d", by_transposed_conv},
    {"max_pool2d", by_max_pool},
    {"avg_pool2d", by_avg_pool},
    {"adaptive_pool", by_adaptive_pool},
    {"resize", by_resize},
    {"cross_entropy", by_cross_entropy},
    {"mse_loss", by_mse},
    {"huber_loss", by_huber},
    {"kl_div", by_kl_div},
    {"bce_with_logits", by_bce},
    {"rope", by_rope},
    {"views", by_views},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* sum(y^3) */
static tn_tensor *cubes(tn_tensor *y) {
  tn_tensor *square = made(tn_square(NULL, y, &t));
  tn_tensor *cube = made(tn_mul(NULL, square, y, &t));
  return made(tn_sum(NULL, cube, NULL, &t));
}

static tn_tensor *sum_of_squares(tn_tensor *y) {
  tn_tensor *square = made(tn_square(NULL, y, &t));
  return made(tn_sum(NULL, square, NULL, &t));
}

/* --- differences --- */

static double number(uint64_t i) { /* 0.3..1.3, no two alike */
  return 0.3 + (double)(i * 2654435761u % 1009) / 1009;
}

static tn_tensor *point(double step) {
  double x[ELEMENTS];
  for (size_t i = 0; i < ELEMENTS; ++i) x[i] = number(i) + step * (number(i + 500) - 0.8);
  return made(tn_tensor_from_host(device, TN_F64, 4, SHAPE(N, C, H, W), x, &t));
}

/* The sum of the squares of f's gradient, and the second gradient where it is asked for. */
static double first_and_second(function f, tn_tensor *x, double *second) {
  tn_tape *tape = NULL;
  tn_tensor *dx = NULL, *ddx = NULL;
  double value;
  ok(tn_tape_create(rt, &tape));
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_begin(tape));
  ok(tn_tape_gradient(tape, NULL, cubes(f(x)), NULL, 1, &x, &dx, TN_TAPE_RECORD));
  tn_tensor *sum = sum_of_squares(hold(dx));
  if (second) {
    ok(tn_tape_gradient(tape, NULL, sum, NULL, 1, &x, &ddx, 0));
    ok(tn_tensor_to_host(hold(ddx), second, ELEMENTS * sizeof *second));
  }
  ok(tn_tape_end(tape));
  ok(tn_tensor_to_host(sum, &value, sizeof value));
  tn_tape_destroy(tape);
  return value;
}

START_TEST(are_differences_of_gradients) {
  double second[ELEMENTS], slope = 0, size = 0, d[2];
  function f = functions[_i].f;
  first_and_second(f, point(0), second);
  for (size_t i = 0; i < ELEMENTS; ++i) {
    slope += second[i] * (number(i + 500) - 0.8);
    size += fabs(second[i] * (number(i + 500) - 0.8));
  }
  for (int k = 0; k < 2; ++k) {
    double h = 1e-4 / (1 << k);
    d[k] = (first_and_second(f, point(h), NULL) - first_and_second(f, point(-h), NULL)) / (2 * h);
  }
  double want = (4 * d[1] - d[0]) / 3;
  ck_assert_msg(fabs(slope - want) <= 1e-6 * size && size > 0, "%s: %.12g, the difference is %.12g",
                functions[_i].name, slope, want);
}
END_TEST

/* --- graphs --- */

static size_t count_of(const tn_graph *g, const char *op) {
  size_t count = 0;
  for (size_t i = 0; i < tn_graph_num_nodes(g); ++i) {
    tn_graph_node node = {.struct_size = sizeof node};
    ok(tn_graph_node_at(g, i, &node));
    count += !strcmp(node.op->name, op);
  }
  return count;
}

/* The same numbers as the tape's. */
START_TEST(of_graphs_are_those_of_tapes) {
  double want[ELEMENTS], got[ELEMENTS], size = 0;
  function f = functions[_i].f;
  tn_graph *g = make_graph();
  tn_tensor *x = NULL, *dx = NULL, *ddx = NULL, *out = NULL, *real = point(0);
  ok(tn_graph_input(g, "x", TN_F64, 4, SHAPE(N, C, H, W), &x));
  hold(x);
  tn_tensor *loss = cubes(f(x));
  ok(tn_graph_gradient(g, loss, 1, &x, &dx));
  tn_tensor *sum = sum_of_squares(hold(dx));
  ok(tn_graph_gradient(g, sum, 1, &x, &ddx));
  ok(tn_graph_output(g, "ddx", hold(ddx)));
  tn_program *p = compiled(g);
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real}, 1, &out));
  ok(tn_tensor_to_host(hold(out), got, sizeof got));
  first_and_second(f, real, want);
  for (size_t i = 0; i < ELEMENTS; ++i) size = fmax(size, fabs(want[i]));
  for (size_t i = 0; i < ELEMENTS; ++i) ck_assert_double_eq_tol(got[i], want[i], 1e-10 * size);
  tn_program_destroy(p);
  let_go();
  tn_graph_destroy(g);
}
END_TEST

static tn_tensor *by_attention(tn_tensor *x) {
  return made(tn_scaled_dot_product_attention(NULL, x, x, x, NULL, NULL, NULL, &t, NULL));
}

/* Statistics, indices and the like that were left out come from the one call that there is. */
START_TEST(nothing_is_computed_twice) {
  static const struct {
    const char *op;
    function f;
  } with_optional_outputs[] = {
      {"layer_norm", by_layer_norm}, {"rms_norm", by_rms_norm},
      {"batch_norm", by_batch_norm}, {"max_pool2d", by_max_pool},
      {"group_norm", by_group_norm}, {"scaled_dot_product_attention", by_attention}};
  for (size_t i = 0; i < sizeof with_optional_outputs / sizeof *with_optional_outputs; ++i) {
    tn_graph *g = make_graph();
    tn_tensor *x = NULL, *dx = NULL;
    ok(tn_graph_input(g, "x", TN_F64, 4, SHAPE(N, C, H, W), &x));
    hold(x);
    tn_tensor *loss = cubes(with_optional_outputs[i].f(x));
    ok(tn_graph_gradient(g, loss, 1, &x, &dx));
    hold(dx);
    ck_assert_uint_eq(count_of(g, with_optional_outputs[i].op), 1);
    let_go();
    tn_graph_destroy(g);
  }
}
END_TEST

/* What comes back through a permuted view is a permuted view: zeros are made nowhere, and the one
 * copy is that of the result. */
START_TEST(permuted_views_need_no_zeros) {
  tn_graph *g = make_graph();
  tn_tensor *x = NULL, *dx = NULL;
  ok(tn_graph_input(g, "x", TN_F64, 4, SHAPE(N, C, H, W), &x));
  tn_tensor *turned = made(tn_tensor_permute(hold(x), (int32_t[]){2, 0, 3, 1}, &t));
  tn_tensor *loss = cubes(made(tn_tensor_contiguous(NULL, turned, &t)));
  size_t fills = count_of(g, "fill"), copies = count_of(g, "copy");
  ok(tn_graph_gradient(g, loss, 1, &x, &dx));
  hold(dx);
  ck_assert_uint_eq(count_of(g, "fill"), fills + 1); /* the gradient of the loss by itself */
  ck_assert_uint_eq(count_of(g, "copy"), copies + 1);
  let_go();
  tn_graph_destroy(g);
}
END_TEST

/* A failure leaves the graph as it was, and its node as it was called. */
START_TEST(refusals_change_nothing) {
  tn_graph *g = make_graph();
  tn_tensor *x = NULL, *dx = NULL, *none = NULL;
  ok(tn_graph_input(g, "x", TN_F64, 4, SHAPE(N, C, H, W), &x));
  hold(x);
  tn_tensor *loss = cubes(by_attention(x));
  ok(tn_graph_gradient(g, loss, 1, &x, &dx));
  tn_tensor *norm = by_layer_norm(x), *scaled = made(tn_mul(NULL, hold(dx), norm, &t));
  tn_tensor *sum = sum_of_squares(scaled);
  size_t nodes = tn_graph_num_nodes(g);
  refused(tn_graph_gradient(g, sum, 1, &x, &none), TN_ERR_UNSUPPORTED, "second derivative");
  ck_assert_ptr_null(none);
  ck_assert_uint_eq(tn_graph_num_nodes(g), nodes);
  for (size_t i = 0; i < nodes; ++i) {
    tn_graph_node node = {.struct_size = sizeof node};
    ok(tn_graph_node_at(g, i, &node));
    if (strcmp(node.op->name, "layer_norm") != 0) continue;
    ck_assert_uint_eq(node.out[1], TN_GRAPH_NONE);
    ck_assert_uint_eq(node.out[2], TN_GRAPH_NONE);
  }
  ok(tn_graph_output(g, "sum", sum));
  tn_program_destroy(compiled(g));
  let_go();
  tn_graph_destroy(g);
}
END_TEST

/* --- 16 bits --- */

static tn_tensor *as(tn_tensor *x, tn_dtype dtype) {
  return made(tn_cast(NULL, x, ATTRS(cast, .dtype = dtype), &t));
}

/* By x and gamma of a norm whose statistics count too. */
static void norm_of(tn_tensor *x, tn_tensor *gamma, double *dx, double *dgamma) {
  tn_tape *tape = NULL;
  tn_tensor *y = NULL, *mean = NULL, *rstd = NULL, *wrt[] = {x, gamma}, *d[2] = {NULL};
  ok(tn_tape_create(rt, &tape));
  ok(tn_tape_watch(tape, x));
  ok(tn_tape_watch(tape, gamma));
  ok(tn_tape_begin(tape));
  ok(tn_layer_norm(NULL, x, gamma, NULL, ATTRS(layer_norm, .axis = 1, .eps = 0.01), &y, &mean,
                   &rstd));
  tn_tensor *both = made(tn_mul(NULL, hold(mean), hold(rstd), &t));
  tn_tensor *wide = as(made(tn_mul(NULL, as(hold(y), tn_tensor_dtype(both)),
                                   made(tn_tensor_reshape(both, 4, SHAPE(N, 1, 1, 1), &t)), &t)),
                       TN_F64);
  ok(tn_tape_gradient(tape, NULL, cubes(wide), NULL, 2, wrt, d, 0));
  ok(tn_tape_end(tape));
  ck_assert_int_eq(tn_tensor_dtype(hold(d[0])), tn_tensor_dtype(x));
  ck_assert_int_eq(tn_tensor_dtype(hold(d[1])), tn_tensor_dtype(gamma));
  tn_tensor *dx64 = as(d[0], TN_F64), *dgamma64 = as(d[1], TN_F64);
  ok(tn_tensor_to_host(dx64, dx, tn_tensor_bytes(dx64)));
  ok(tn_tensor_to_host(dgamma64, dgamma, tn_tensor_bytes(dgamma64)));
  tn_tape_destroy(tape);
}

START_TEST(are_of_the_types_of_their_tensors) {
  enum { WEIGHTS = C * H * W };
  double dx[2][ELEMENTS], dgamma[2][WEIGHTS], size = 0, weight = 0;
  tn_tensor *x = as(point(0), TN_BF16), *gamma = as(first_of(point(0.5)), TN_F32);
  norm_of(x, gamma, dx[0], dgamma[0]);
  norm_of(as(x, TN_F64), as(gamma, TN_F64), dx[1], dgamma[1]);
  for (int i = 0; i < ELEMENTS; ++i) size = fmax(size, fabs(dx[1][i]));
  for (int i = 0; i < WEIGHTS; ++i) weight = fmax(weight, fabs(dgamma[1][i]));
  for (int i = 0; i < ELEMENTS; ++i) ck_assert_double_eq_tol(dx[0][i], dx[1][i], 0x1p-6 * size);
  for (int i = 0; i < WEIGHTS; ++i)
    ck_assert_double_eq_tol(dgamma[0][i], dgamma[1][i], 0x1p-6 * weight);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown_held);
  tcase_add_loop_test(tcase, are_differences_of_gradients, 0, FUNCTIONS);
  tcase_add_loop_test(tcase, of_graphs_are_those_of_tapes, 0, FUNCTIONS);
  tcase_add_test(tcase, nothing_is_computed_twice);
  tcase_add_test(tcase, permuted_views_need_no_zeros);
  tcase_add_test(tcase, refusals_change_nothing);
  tcase_add_test(tcase, are_of_the_types_of_their_tensors);
}

int main(void) { return run_suite("higher gradients", add_tests); }
