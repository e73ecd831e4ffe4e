/*
 * What compiling leaves out without a bit's difference: nodes that are equal and copies; and what
 * looks like one of them and is not.
 */
#include <math.h>

#include "tests/graph/graphs.h"

/* x, with two nodes behind it that `make` makes, and an output for each. */
typedef tn_status (*maker)(const tn_tensor *x, int which, tn_tensor **y);

static tn_program_info two_of(maker make, int64_t rows, int64_t columns) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", rows, columns), *a = NULL, *b = NULL, *s = NULL;
  ok(make(x, 0, &a));
  ok(make(x, 1, &b));
  ok(tn_add(NULL, a, b, &s));
  ok(tn_graph_output(g, "a", a));
  ok(tn_graph_output(g, "b", b));
  ok(tn_graph_output(g, "s", s));
  tn_tensor *in = numbers(device, rows, columns, -0.5f);
  tn_program_info info = agree(g, 0, 1, (const tn_tensor *[]){in});
  RELEASE(x, a, b, s, in);
  tn_graph_destroy(g);
  return info;
}

/* --- equal nodes --- */

static tn_status plain(const tn_tensor *x, int which, tn_tensor **y) {
  (void)which;
  return tn_exp(NULL, x, y);
}
static tn_status other_axis(const tn_tensor *x, int which, tn_tensor **y) {
  tn_softmax_attrs attrs = TN_SOFTMAX_DEFAULTS;
  attrs.axis = which;
  return tn_softmax(NULL, x, &attrs, y);
}
/* Each takes a view of its own of the same elements. */
static tn_status of_views(const tn_tensor *x, int which, tn_tensor **y) {
  tn_tensor *t = NULL;
  (void)which;
  ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &t));
  tn_status status = tn_softmax(NULL, t, NULL, y);
  tn_tensor_release(t);
  return status;
}
static tn_status of_other_views(const tn_tensor *x, int which, tn_tensor **y) {
  tn_tensor *t = NULL;
  ok(tn_tensor_slice(x, 0, which, which + 2, 1, &t));
  tn_status status = tn_exp(NULL, t, y);
  tn_tensor_release(t);
  return status;
}
/* Two levels, of which the second one is only equal once the first is; constants of equal bytes. */
static tn_status chained(const tn_tensor *x, int which, tn_tensor **y) {
  tn_tensor *half = NULL, *t = NULL;
  (void)which;
  ok(tn_scalar(tn_tensor_device(x), NULL, TN_F32, 0.5, &half));
  ok(tn_mul(NULL, x, half, &t));
  tn_status status = tn_tanh(NULL, t, y);
  tn_tensor_release(half);
  tn_tensor_release(t);
  return status;
}
static tn_status other_constant(const tn_tensor *x, int which, tn_tensor **y) {
  tn_tensor *zero = NULL;
  ok(tn_scalar(tn_tensor_device(x), NULL, TN_F32, which ? -0.0 : 0.0, &zero));
  tn_status status = tn_div(NULL, x, zero, y);
  tn_tensor_release(zero);
  return status;
}
static tn_status updated(const tn_tensor *x, int which, tn_tensor **y) {
  tn_status status = tn_exp(NULL, x, y);
  return which && !status ? tn_neg(NULL, *y, y) : status;
}
static tn_status first_updated(const tn_tensor *x, int which, tn_tensor **y) {
  return updated(x, !which, y);
}
static tn_status drawn(const tn_tensor *x, int which, tn_tensor **y) {
  tn_dropout_attrs attrs = TN_DROPOUT_DEFAULTS;
  tn_tensor *mask = NULL;
  (void)which;
  attrs.seed = 3;
  tn_status status = tn_dropout(NULL, x, &attrs, y, &mask);
  tn_tensor_release(mask);
  return status;
}
static tn_status drawn_on(const tn_tensor *x, int which, tn_tensor **y) {
  tn_dropout_attrs attrs = TN_DROPOUT_DEFAULTS;
  tn_tensor *mask = NULL;
  attrs.seed = 3;
  attrs.offset = which ? 1000 : 0;
  tn_status status = tn_dropout(NULL, x, &attrs, y, &mask);
  tn_tensor_release(mask);
  return status;
}
static tn_status filled_at_random(const tn_tensor *x, int which, tn_tensor **y) {
  tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
  (void)which;
  ok(tn_tensor_empty(tn_tensor_device(x), TN_F32, 2, tn_tensor_shape(x), y));
  return tn_uniform(NULL, *y, &attrs);
}

START_TEST(equal_nodes) {
  static const struct {
    maker make;
    int64_t rows, columns;
    uint32_t merged;
  } cases[] = {
      {plain, 3, 5, 1},
      {plain, 0, 5, 1},
      {plain, 1, 1, 1},
      {other_axis, 4, 4, 0},
      {of_views, 3, 5, 1},
      {of_other_views, 3, 5, 0},
      {chained, 3, 5, 2},
      {other_constant, 3, 5, 0},
      {updated, 3, 5, 0},
      {first_updated, 3, 5, 0},
      {drawn, 7, 9, 1},
      {drawn_on, 7, 9, 0},
      {filled_at_random, 7, 9, 1},
  };
  ck_assert_uint_eq(two_of(cases[_i].make, cases[_i].rows, cases[_i].columns).merged,
                    cases[_i].merged);
}
END_TEST

/* Many that differ in one thing each, attributes, versions or shapes: places in a table are short,
 * so that they meet there. */
START_TEST(nearly_equal_nodes) {
  enum { COUNT = 100 };
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 3, 3), *h = NULL, *parts[3][COUNT] = {{NULL}}, *all[3] = {NULL};
  tn_leaky_relu_attrs slope = TN_LEAKY_RELU_DEFAULTS;
  tn_fill_attrs three = TN_FILL_DEFAULTS;
  three.value = 3;
  ok(tn_copy(NULL, x, &h));
  for (int i = 0; i < COUNT; ++i) {
    slope.slope = 0.01 * i;
    ok(tn_leaky_relu(NULL, x, &slope, &parts[0][i]));
    ok(tn_add(NULL, h, x, &h));
    ok(tn_sigmoid(NULL, h, &parts[1][i]));
    ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 1, SHAPE(i + 1), &parts[2][i]));
    ok(tn_fill(NULL, parts[2][i], &three));
  }
  for (int k = 0; k < 3; ++k) {
    ok(tn_concat(NULL, (const tn_tensor *const *)parts[k], COUNT, NULL, &all[k]));
    ok(tn_graph_output(g, (const char *[]){"slopes", "versions", "shapes"}[k], all[k]));
    for (int i = 0; i < COUNT; ++i) tn_tensor_release(parts[k][i]);
  }
  tn_tensor *in = numbers(device, 3, 3, -1);
  ck_assert_uint_eq(agree(g, TN_COMPILE_NO_FOLDING, 1, (const tn_tensor *[]){in}).merged, 0);
  RELEASE(x, h, all[0], all[1], all[2], in);
  tn_graph_destroy(g);
}
END_TEST

/* A cast to the own type is a copy, which may go, but for types that it makes other numbers of. */
START_TEST(casts_to_the_own_type) {
  static const struct {
    tn_dtype dtype;
    uint32_t merged;
  } cases[] = {{TN_F32, 3}, {TN_F8_E4M3, 1}, {TN_F8_E5M2, 0}};
  const tn_cast_attrs narrow = {sizeof narrow, (int32_t)cases[_i].dtype, 1},
                      own = {sizeof own, narrow.dtype};
  const tn_cast_attrs wide = {sizeof wide, TN_F32};
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *a = NULL, *b = NULL, *y = NULL, *in = NULL;
  ok(tn_cast(NULL, x, &narrow, &a));
  ok(tn_cast(NULL, a, &own, &b));
  ok(tn_cast(NULL, b, &wide, &y));
  ok(tn_graph_output(g, "y", y));
  const int64_t shape[] = {2, 2};
  ok(tn_tensor_from_host(device, TN_F32, 2, shape, (float[]){1, INFINITY, -INFINITY, 2}, &in));
  ck_assert_uint_eq(agree(g, TN_COMPILE_NO_FUSION, 1, (const tn_tensor *[]){in}).merged,
                    cases[_i].merged);
  RELEASE(x, a, b, y, in);
  tn_graph_destroy(g);
}
END_TEST

/* What one gives, the other's views show too; operators with several results and with lists. */
START_TEST(views_of_what_is_merged) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 4, 6), *a = NULL, *b = NULL, *t = NULL, *part = NULL, *y = NULL;
  tn_tensor *first[2] = {NULL}, *second[2] = {NULL}, *z = NULL;
  ok(tn_exp(NULL, x, &a));
  ok(tn_exp(NULL, x, &b));
  ok(tn_tensor_permute(b, (int32_t[]){1, 0}, &t));
  ok(tn_tensor_slice(t, 0, 1, 6, 2, &part));
  ok(tn_matmul(NULL, part, a, NULL, NULL, &y));
  ok(tn_concat(NULL, (const tn_tensor *[]){a, b}, 2, NULL, &first[0]));
  ok(tn_concat(NULL, (const tn_tensor *[]){b, a}, 2, NULL, &second[0]));
  ok(tn_sub(NULL, first[0], second[0], &z));
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_output(g, "part", part));
  ok(tn_graph_output(g, "z", z));
  tn_tensor *in = numbers(device, 4, 6, -0.5f);
  ck_assert_uint_eq(agree(g, 0, 1, (const tn_tensor *[]){in}).merged, 2);
  RELEASE(x, a, b, t, part, y, first[0], second[0], z, in);
  tn_graph_destroy(g);
}
END_TEST

/* A parameter between two readings of it, itself and by the same memory under another name. */
START_TEST(parameters_between) {
  tn_graph *g = make_graph();
  tn_tensor *real = numbers(device, 2, 3, 1), *part = NULL, *mine = NULL;
  ok(tn_copy(NULL, real, &mine));
  ok(tn_tensor_slice(real, 0, 1, 2, 1, &part));
  tn_tensor *x = input(g, "x", 2, 3), *w = NULL, *v = NULL, *e[4] = {NULL}, *got[4] = {NULL};
  ok(tn_graph_parameter(g, "w", real, &w));
  ok(tn_graph_parameter(g, "v", part, &v));
  ok(tn_exp(NULL, w, &e[0]));
  ok(tn_copy(NULL, v, &e[1]));
  ok(tn_add(NULL, w, x, &w));
  ok(tn_exp(NULL, w, &e[2]));
  ok(tn_copy(NULL, v, &e[3]));
  for (int i = 0; i < 4; ++i) ok(tn_graph_output(g, (const char *[]){"a", "b", "c", "d"}[i], e[i]));
  tn_program *p = compiled(g);
  ck_assert_uint_eq(report(p).merged, 0);
  tn_tensor *in = numbers(device, 2, 3, 5);
  for (int run = 0; run < 2; ++run) {
    tn_tensor *before = NULL, *after = NULL, *tail = NULL, *moved = NULL;
    ok(tn_exp(NULL, mine, &before));
    ok(tn_tensor_slice(mine, 0, 1, 2, 1, &tail));
    ok(tn_copy(NULL, tail, &moved));
    ok(tn_add(NULL, mine, in, &mine));
    ok(tn_exp(NULL, mine, &after));
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 4, got));
    same(got[0], before);
    same(got[1], moved);
    same(got[2], after);
    same(got[3], tail);
    same(real, mine);
    RELEASE(before, after, tail, moved, got[0], got[1], got[2], got[3]);
    memset(got, 0, sizeof got);
  }
  RELEASE(real, part, mine, x, w, v, e[0], e[1], e[2], e[3], in);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* Two outputs that are one value are two tensors all the same, given or made. */
START_TEST(outputs_that_are_merged) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 3, 4), *a = NULL, *b = NULL, *c = NULL;
  ok(tn_exp(NULL, x, &a));
  ok(tn_exp(NULL, x, &b));
  ok(tn_copy(NULL, x, &c));
  ok(tn_graph_output(g, "a", a));
  ok(tn_graph_output(g, "b", b));
  ok(tn_graph_output(g, "c", c));
  tn_program *p = compiled(g);
  ck_assert_uint_eq(report(p).nodes, 1);
  tn_tensor *in = numbers(device, 3, 4, 0), *want = NULL, *kept = NULL;
  tn_tensor *out[3] = {NULL}, *given[3] = {NULL};
  ok(tn_copy(NULL, in, &kept));
  ok(tn_exp(NULL, in, &want));
  given[1] = numbers(device, 3, 4, 9);
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 3, out));
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 3, given));
  for (int i = 0; i < 2; ++i) same(out[i], want), same(given[i], want);
  ok(tn_neg(NULL, out[0], &out[0]));
  ok(tn_neg(NULL, out[2], &out[2]));
  same(out[1], want);
  same(in, kept);
  RELEASE(x, a, b, c, in, want, kept, out[0], out[1], out[2], given[0], given[1], given[2]);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* A node that does not run may write, later than it is read, what another comes to read. */
START_TEST(what_is_left_out_stays_out) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *h = NULL, *c = NULL, *y = NULL;
  ok(tn_exp(NULL, x, &h));
  ok(tn_copy(NULL, h, &c));
  ok(tn_neg(NULL, h, &h));
  ok(tn_tanh(NULL, c, &y));
  ok(tn_graph_output(g, "y", y));
  tn_tensor *in = numbers(device, 2, 2, 1);
  tn_program_info info = agree(g, 0, 1, (const tn_tensor *[]){in});
  ck_assert_uint_eq(info.left_out, 1);
  ck_assert_uint_eq(info.merged, 1);
  RELEASE(x, h, c, y, in);
  tn_graph_destroy(g);
}
END_TEST

/* --- copies --- */

START_TEST(copies) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 4, 4), *t[12] = {NULL}, *turned = NULL, *rows = NULL;
  tn_cast_attrs to_f32 = TN_CAST_DEFAULTS, to_bf16 = TN_CAST_DEFAULTS;
  to_bf16.dtype = TN_BF16;
  ok(tn_copy(NULL, x, &t[0]));             /* gone, and what follows it */
  ok(tn_cast(NULL, t[0], &to_f32, &t[1])); /* gone */
  ok(tn_tensor_permute(t[1], (int32_t[]){1, 0}, &turned));
  ok(tn_copy(NULL, turned, &t[2])); /* rearranges */
  ok(tn_copy(NULL, x, &t[3]));      /* is written to */
  ok(tn_neg(NULL, t[3], &t[3]));
  ok(tn_exp(NULL, x, &t[4]));
  ok(tn_tensor_slice(t[4], 0, 0, 1, 1, &rows));
  ok(tn_copy(NULL, rows, &t[5])); /* of a part: the whole may go */
  ok(tn_tanh(NULL, t[4], &t[6]));
  ok(tn_copy(NULL, t[6], &t[7])); /* of what is written to after it */
  ok(tn_neg(NULL, t[6], &t[6]));
  ok(tn_cast(NULL, x, &to_bf16, &t[8])); /* there and back is another number */
  ok(tn_cast(NULL, t[8], &to_f32, &t[9]));
  for (int i = 1; i < 10; ++i) {
    char name[2] = {(char)('a' + i), 0};
    if (i != 4 && i != 8) ok(tn_graph_output(g, name, t[i]));
  }
  tn_tensor *in = numbers(device, 4, 4, 0.3f);
  ck_assert_uint_eq(agree(g, 0, 1, (const tn_tensor *[]){in}).merged, 2);
  ck_assert_uint_eq(agree(g, TN_COMPILE_NO_MERGING, 1, (const tn_tensor *[]){in}).merged, 0);
  for (int i = 0; i < 10; ++i) tn_tensor_release(t[i]);
  RELEASE(x, turned, rows, in);
  tn_graph_destroy(g);
}
END_TEST

/* --- options --- */

START_TEST(flags) {
  tn_graph *g = make_graph();
  tn_program *p = NULL;
  tn_compile_options options = {.struct_size = sizeof options, .flags = 1u << 30};
  refused(tn_graph_compile(g, device, &options, &p), TN_ERR_INVALID_ARGUMENT,
          "options.flags is 0x40000000");
  options.struct_size = 0;
  ck_assert(tn_graph_compile(g, device, &options, &p) == TN_ERR_INVALID_ARGUMENT);
  options = (tn_compile_options){.struct_size = sizeof options, .flags = TN_COMPILE_AS_CALLED};
  ok(tn_graph_compile(g, device, &options, &p));
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, equal_nodes, 0, 13);
  tcase_add_test(tcase, nearly_equal_nodes);
  tcase_add_loop_test(tcase, casts_to_the_own_type, 0, 3);
  tcase_add_test(tcase, views_of_what_is_merged);
  tcase_add_test(tcase, parameters_between);
  tcase_add_test(tcase, outputs_that_are_merged);
  tcase_add_test(tcase, what_is_left_out_stays_out);
  tcase_add_test(tcase, copies);
  tcase_add_test(tcase, flags);
}

int main(void) { return run_suite("graph_merged", add_tests); }
