/*
 * Autocast of graphs: which casts are inserted and how often, and what stays as it is. Its numbers,
 * operator by operator, are test_autocast_cases.c's.
 */
#include "tests/graph/casts.h"

/* Runs the graph, whose parameters are all it reads, for its one output, as float32. */
static void results_of(tn_graph *g, float *values, int64_t n) {
  tn_tensor *out = NULL;
  tn_program *p = compiled(g);
  ok(tn_program_run(p, NULL, 0, NULL, 1, &out));
  ck_assert_int_eq(tn_tensor_elements(out), n);
  tn_tensor *wide = as(out, TN_F32);
  ok(tn_tensor_to_host(wide, values, (size_t)n * sizeof *values));
  RELEASE(out, wide);
  tn_program_destroy(p);
}

/* --- casts --- */

START_TEST(a_parameter_is_cast_once_per_version) {
  tn_graph *g = make_graph();
  tn_tensor *real = numbers(device, 4, 4, 0.5f), *w = parameter(g, "w", real);
  tn_tensor *x = input(g, "x", 3, 4);
  ok(tn_graph_autocast(g, TN_BF16));
  tn_tensor *a = product(x, w), *b = product(a, w), *c = product(w, w);
  is(a, TN_BF16);
  is(b, TN_BF16);
  ck_assert_uint_eq(casts_of(g), 2); /* x and w; a is bf16 already */
  ck_assert_uint_eq(tn_graph_num_nodes(g), 5);
  tn_tensor *grad = as(c, TN_F32), *velocity = NULL;
  ok(tn_zeros(tn_graph_device(g), NULL, TN_F32, 2, SHAPE(4, 4), &velocity));
  ok(tn_sgd_step(NULL, grad, w, velocity, NULL)); /* the next version of w */
  tn_tensor *d = product(a, w), *e = product(b, w);
  ck_assert_uint_eq(casts_of(g), 4); /* grad, by hand, and w anew */
  RELEASE(real, w, x, a, b, c, grad, velocity, d, e);
  tn_graph_destroy(g);
}
END_TEST

/* An update is seen by the calls behind it: the numbers of the second version are in the result. */
START_TEST(an_updated_parameter_is_cast_anew) {
  for (int autocast = 0; autocast < 2; ++autocast) {
    float got[16], ones[16];
    for (int i = 0; i < 16; ++i) ones[i] = 1;
    tn_graph *g = make_graph();
    tn_tensor *real = NULL, *two = NULL, *eye = NULL;
    ok(tn_tensor_from_host(device, TN_F32, 2, SHAPE(4, 4), ones, &real));
    ok(tn_zeros(device, NULL, TN_F32, 2, SHAPE(4, 4), &eye));
    ok(tn_eye(NULL, eye, NULL));
    tn_tensor *w = parameter(g, "w", real), *one = parameter(g, "eye", eye);
    ok(tn_graph_autocast(g, autocast ? TN_BF16 : TN_DTYPE_NONE));
    tn_tensor *before = product(one, w), *after = NULL, *y = NULL;
    ok(tn_scalar(tn_graph_device(g), NULL, TN_F32, 2, &two));
    ok(tn_mul(NULL, w, two, &w));
    after = product(one, w);
    ok(tn_concat(NULL, (const tn_tensor *[]){before, after}, 2,
                 &(tn_concat_attrs){.struct_size = sizeof(tn_concat_attrs), .axis = 0}, &y));
    ok(tn_graph_output(g, "y", y));
    float both[32];
    results_of(g, both, 32);
    for (int i = 0; i < 32; ++i) ck_assert_float_eq(both[i], i < 16 ? 1 : 2);
    ok(tn_tensor_to_host(real, got, sizeof got));
    ck_assert_float_eq(got[3], 2);
    RELEASE(real, two, eye, w, one, before, after, y);
    tn_graph_destroy(g);
  }
}
END_TEST

START_TEST(views_and_types_have_casts_of_their_own) {
  tn_graph *g = make_graph();
  tn_tensor *w = input(g, "w", 4, 4), *across = NULL, *again = NULL;
  ok(tn_tensor_permute(w, (int32_t[]){1, 0}, &across));
  ok(tn_tensor_permute(w, (int32_t[]){1, 0}, &again));
  ok(tn_graph_autocast(g, TN_BF16));
  tn_tensor *a = product(w, across), *b = product(w, again);
  ck_assert_uint_eq(casts_of(g), 2); /* w, and the view that both show */
  ok(tn_graph_autocast(g, TN_F16));
  tn_tensor *c = product(w, again), *d = product(again, w);
  is(c, TN_F16);
  ck_assert_uint_eq(casts_of(g), 4);
  ok(tn_graph_autocast(g, TN_DTYPE_NONE));
  tn_tensor *e = product(w, again);
  is(e, TN_F32);
  ok(tn_graph_autocast(g, TN_BF16));
  tn_tensor *f = product(w, again); /* the first casts are there still */
  is(f, TN_BF16);
  ck_assert_uint_eq(casts_of(g), 4);
  RELEASE(w, across, again, a, b, c, d, e, f);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(types_follow_the_classes) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 4, 4), *h, *s = NULL, *e = NULL, *n = NULL, *p = NULL, *r = NULL;
  tn_tensor *loss = NULL, *joined = NULL, *piled = NULL, *chosen = NULL, *mask = NULL;
  ok(tn_graph_autocast(g, TN_F16));
  h = product(x, x);
  ok(tn_relu(NULL, h, &r));
  is(r, TN_F16);
  ok(tn_softmax(NULL, r, NULL, &p));
  is(p, TN_F16);
  ok(tn_layer_norm(NULL, h, NULL, NULL, NULL, &n, NULL, NULL));
  is(n, TN_F16);
  ok(tn_exp(NULL, h, &e));
  is(e, TN_F32);
  ok(tn_sum(NULL, h, NULL, &s));
  is(s, TN_F32);
  ok(tn_mse_loss(NULL, h, x, NULL, &loss));
  is(loss, TN_F32);
  uint32_t casts = casts_of(g); /* x and h, each once */
  ck_assert_uint_eq(casts, 2);
  ok(tn_concat(NULL, (const tn_tensor *[]){h, x, n}, 3, NULL, &joined));
  is(joined, TN_F32);
  ck_assert_uint_eq(casts_of(g), 3); /* n */
  ok(tn_stack(NULL, (const tn_tensor *[]){h, n}, 2, NULL, &piled));
  is(piled, TN_F16); /* alike */
  ok(tn_greater(NULL, h, x, &mask));
  ok(tn_where(NULL, mask, n, x, &chosen));
  is(chosen, TN_F32);
  ck_assert_uint_eq(casts_of(g), 3);
  RELEASE(x, h, s, e, n, p, r, loss, joined, piled, chosen, mask);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(wide_and_whole_numbers_stay) {
  tn_graph *g = make_graph();
  tn_tensor *d = NULL, *i = NULL, *y = NULL, *sum = NULL, *index = NULL, *row = NULL, *t = NULL;
  ok(tn_graph_input(g, "d", TN_F64, 2, SHAPE(3, 3), &d));
  ok(tn_graph_input(g, "i", TN_I32, 1, SHAPE(3), &i));
  ok(tn_graph_input(g, "table", TN_F32, 2, SHAPE(5, 2), &t));
  ok(tn_graph_autocast(g, TN_BF16));
  y = product(d, d);
  is(y, TN_F64);
  ok(tn_exp(NULL, y, &y));
  ok(tn_add(NULL, i, i, &sum));
  is(sum, TN_I32);
  ok(tn_sum(NULL, i, NULL, &index));
  ok(tn_embedding(NULL, t, i, &row));
  is(row, TN_F32);
  tn_tensor *narrow = as(t, TN_F16); /* the caller's own casts stay */
  is(narrow, TN_F16);
  ck_assert_uint_eq(casts_of(g), 1);
  /* A type that the caller says for the result goes by his inputs' types. */
  tn_tensor *own = NULL;
  ok(tn_sum(NULL, narrow, &(tn_sum_attrs){.struct_size = sizeof(tn_sum_attrs), .dtype = TN_F32},
            &own));
  is(own, TN_F32);
  ck_assert_uint_eq(casts_of(g), 1);
  RELEASE(d, i, y, sum, index, row, t, narrow, own);
  tn_graph_destroy(g);
}
END_TEST

/* --- outputs given, in place --- */

START_TEST(what_is_written_to_keeps_its_type) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 4, 4), *h, *y = NULL, *z = NULL, *index = NULL, *low = NULL;
  tn_tensor *velocity = NULL;
  ok(tn_graph_input(g, "index", TN_I64, 1, SHAPE(4), &index));
  ok(tn_zeros(tn_graph_device(g), NULL, TN_F32, 2, SHAPE(4, 4), &y));
  ok(tn_zeros(tn_graph_device(g), NULL, TN_BF16, 2, SHAPE(4, 4), &low));
  ok(tn_graph_autocast(g, TN_BF16));
  ok(tn_matmul(NULL, x, x, NULL, NULL, &y)); /* float32 in, float32 out: as it is */
  ck_assert_uint_eq(casts_of(g), 0);
  ok(tn_matmul(NULL, x, x, NULL, NULL, &low)); /* an output of autocast's type */
  ck_assert_uint_eq(casts_of(g), 1);
  h = product(x, x);
  is(h, TN_BF16);
  ok(tn_add(NULL, y, h, &y)); /* h is widened */
  ck_assert_uint_eq(casts_of(g), 2);
  ok(tn_copy(NULL, h, &y));
  ok(tn_matmul(NULL, h, x, NULL, NULL, &y));
  ck_assert_uint_eq(casts_of(g), 2);
  ok(tn_index_add(NULL, h, index, y, NULL)); /* updated in place */
  ok(tn_zeros(tn_graph_device(g), NULL, TN_F32, 2, SHAPE(4, 4), &velocity));
  ok(tn_sgd_step(NULL, h, y, velocity, NULL)); /* by a gradient of 16 bits */
  ck_assert_uint_eq(casts_of(g), 2);
  ok(tn_add(NULL, h, y, &h)); /* in place: y is narrowed, once */
  is(h, TN_BF16);
  ok(tn_mul(NULL, y, y, &low));
  ck_assert_uint_eq(casts_of(g), 3);
  /* What needs float32 is not computed in 16 bits because of where it goes. */
  refused(tn_exp(NULL, x, &low), TN_ERR_INVALID_ARGUMENT, "bf16");
  ok(tn_exp(NULL, h, &low)); /* as it came */
  ck_assert_uint_eq(casts_of(g), 3);
  tn_tensor *wide = as(h, TN_F64);
  refused(tn_add(NULL, h, wide, &z), TN_ERR_INVALID_ARGUMENT, "use tn_cast");
  RELEASE(x, h, y, index, low, wide, velocity);
  tn_graph_destroy(g);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, a_parameter_is_cast_once_per_version);
  tcase_add_test(t, an_updated_parameter_is_cast_anew);
  tcase_add_test(t, views_and_types_have_casts_of_their_own);
  tcase_add_test(t, types_follow_the_classes);
  tcase_add_test(t, wide_and_whole_numbers_stay);
  tcase_add_test(t, what_is_written_to_keeps_its_type);
}

int main(void) { return run_suite("autocast", add_tests); }
