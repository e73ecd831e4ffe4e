/*
 * Autocast of graphs: what is refused and with which words, graphs beside each other, threads,
 * lives, and memory that runs out.
 */
#include <pthread.h>

#include "tests/graph/casts.h"
#include "tests/scarce.h"

/* --- what is refused --- */

/* The same call without and with autocast: both are refused with these words. */
typedef tn_status (*wrong)(tn_graph *g, tn_tensor *x, tn_tensor *h);

static tn_status shapes(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  tn_tensor *wide = input(g, "wide", 4, 7), *y = NULL;
  tn_status status = tn_matmul(NULL, wide, x, NULL, NULL, &y);
  (void)h;
  RELEASE(wide, y);
  return status;
}

/* h is float32 or 16 bits: the words are those of float32. */
static tn_status shapes_of_a_mixture(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  tn_tensor *wide = input(g, "wide", 4, 7), *y = NULL;
  tn_status status = tn_matmul(NULL, wide, h, NULL, NULL, &y);
  (void)x;
  RELEASE(wide, y);
  return status;
}

static tn_status missing(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  tn_tensor *y = NULL;
  (void)g, (void)h;
  return tn_matmul(NULL, x, NULL, NULL, NULL, &y);
}

static tn_status counts(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  const tn_tensor *in[] = {x, h};
  tn_tensor *out[] = {NULL};
  (void)g;
  return tn_invoke(&(tn_call){.struct_size = sizeof(tn_call),
                              .op = TN_OP_MATMUL,
                              .in = in,
                              .out = out,
                              .num_in = 2,
                              .num_out = 1});
}

static tn_status no_operator(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  const tn_tensor *in[] = {x, h};
  tn_tensor *out[] = {NULL};
  (void)g;
  return tn_invoke(&(tn_call){
      .struct_size = sizeof(tn_call), .op = 4000, .in = in, .out = out, .num_in = 2, .num_out = 1});
}

static tn_status a_real_one(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  tn_tensor *real = numbers(device, 4, 4, 1), *y = NULL;
  (void)g, (void)h;
  tn_status status = tn_matmul(NULL, x, real, NULL, NULL, &y);
  tn_tensor_release(real);
  return status;
}

static tn_status whole_numbers(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  tn_tensor *i = NULL, *y = NULL;
  (void)h;
  ok(tn_graph_input(g, "i", TN_I32, 2, SHAPE(4, 4), &i));
  tn_status status = tn_matmul(NULL, x, i, NULL, NULL, &y);
  tn_tensor_release(i);
  return status;
}

static tn_status a_constant(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  tn_tensor *number = NULL, *t = NULL;
  (void)x;
  ok(tn_tensor_from_host(tn_graph_device(g), TN_F32, 2, SHAPE(4, 4), (float[16]){0}, &number));
  t = number;
  tn_status status = tn_mul(NULL, h, h, &t);
  tn_tensor_release(number);
  return status;
}

static tn_status attributes(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  tn_tensor *y = NULL;
  (void)g;
  return tn_mse_loss(NULL, h, x,
                     &(tn_mse_loss_attrs){.struct_size = sizeof(tn_mse_loss_attrs), .reduction = 9},
                     &y);
}

static tn_status of_a_list(tn_graph *g, tn_tensor *x, tn_tensor *h) {
  tn_tensor *wide = input(g, "wide", 5, 5), *y = NULL;
  tn_status status = tn_concat(NULL, (const tn_tensor *[]){h, x, wide}, 3, NULL, &y);
  tn_tensor_release(wide);
  return status;
}

static void words_of(wrong call, tn_dtype autocast, char *words, size_t size) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 4, 4);
  ok(tn_graph_autocast(g, autocast));
  tn_tensor *h = product(x, x);
  size_t nodes = tn_graph_num_nodes(g);
  ck_assert_int_eq(call(g, x, h), TN_ERR_INVALID_ARGUMENT);
  snprintf(words, size, "%s", tn_last_error());
  ck_assert_uint_eq(tn_graph_num_nodes(g), nodes); /* no cast is left either */
  RELEASE(x, h);
  tn_graph_destroy(g);
}

START_TEST(refusals_are_those_of_float32) {
  static const wrong calls[] = {
      shapes,     shapes_of_a_mixture, missing,    counts,        no_operator,
      a_real_one, a_constant,          attributes, whole_numbers, of_a_list};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
    char plain[2048], cast[2048];
    words_of(calls[i], TN_DTYPE_NONE, plain, sizeof plain);
    words_of(calls[i], TN_BF16, cast, sizeof cast);
    ck_assert_str_eq(plain, cast);
  }
}
END_TEST

START_TEST(bad_arguments) {
  tn_graph *g = make_graph();
  refused(tn_graph_autocast(NULL, TN_BF16), TN_ERR_INVALID_ARGUMENT, "graph is NULL");
  refused(tn_graph_autocast(g, TN_F64), TN_ERR_INVALID_ARGUMENT, "dtype is f64");
  refused(tn_graph_autocast(g, (tn_dtype)77), TN_ERR_INVALID_ARGUMENT, "TN_BF16 or TN_F16");
  ok(tn_graph_autocast(g, TN_DTYPE_NONE)); /* there was none */
  tn_graph_destroy(g);
}
END_TEST

/* What an operator of a plugin does with types is its own affair, as long as it does not say. */
START_TEST(operators_of_plugins_are_left_alone) {
  uint32_t op = 0;
  ok(tn_runtime_load_plugin(rt, SIM_PLUGIN));
  ok(tn_op_find(rt, "fixture_double", &op));
  tn_graph *g = make_graph();
  tn_tensor *x = NULL, *y = NULL;
  ok(tn_graph_input(g, "x", TN_F32, 1, SHAPE(4), &x));
  ok(tn_graph_autocast(g, TN_BF16));
  ok(tn_invoke(&(tn_call){.struct_size = sizeof(tn_call),
                          .op = op,
                          .in = (const tn_tensor *[]){x},
                          .out = &y,
                          .num_in = 1,
                          .num_out = 1}));
  is(y, TN_F32);
  ck_assert_uint_eq(tn_graph_num_nodes(g), 1);
  RELEASE(x, y);
  tn_graph_destroy(g);
}
END_TEST

/* --- graphs beside each other, threads, lives --- */

START_TEST(each_graph_has_its_own) {
  tn_graph *outer = make_graph(), *inner = make_graph();
  tn_tensor *x = input(outer, "x", 4, 4), *u = input(inner, "u", 4, 4);
  ok(tn_graph_autocast(outer, TN_BF16));
  tn_tensor *y = product(x, x), *v = product(u, u), *z = product(y, x);
  is(v, TN_F32);
  is(z, TN_BF16);
  ok(tn_graph_autocast(inner, TN_F16));
  tn_tensor *w = product(v, u);
  is(w, TN_F16);
  ck_assert_uint_eq(casts_of(outer), 1);
  ck_assert_uint_eq(casts_of(inner), 2);
  tn_tensor *real = numbers(device, 4, 4, 1), *eager = product(real, real);
  is(eager, TN_F32); /* real tensors are nobody's */
  tn_graph_destroy(outer);
  tn_graph *next = make_graph(); /* on the device of the one that went */
  tn_tensor *s = input(next, "s", 4, 4), *t = product(s, s);
  is(t, TN_F32);
  RELEASE(x, u, y, v, z, w, real, eager, s, t);
  tn_graph_destroy(inner);
  tn_graph_destroy(next);
}
END_TEST

START_TEST(a_copy_begins_without) {
  tn_graph *g = make_graph(), *copy = NULL;
  tn_tensor *x = input(g, "x", 4, 4), *u = NULL;
  ok(tn_graph_autocast(g, TN_BF16));
  tn_tensor *y = product(x, x);
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_copy(g, &copy));
  ck_assert_uint_eq(casts_of(copy), 1);
  ok(tn_graph_tensor_at(copy, 0, &u));
  tn_tensor *v = product(u, u);
  is(v, TN_F32);
  ok(tn_graph_autocast(copy, TN_F16));
  tn_tensor *w = product(u, u);
  is(w, TN_F16);
  ck_assert_uint_eq(casts_of(copy), 2);
  ck_assert_uint_eq(casts_of(g), 1);
  RELEASE(x, u, y, v, w);
  tn_graph_destroy(g);
  tn_graph_destroy(copy);
}
END_TEST

static void *build_in_thread(void *dtype) {
  for (int i = 0; i < 20; ++i) {
    tn_graph *g = make_graph();
    tn_tensor *x = input(g, "x", 4, 4);
    ok(tn_graph_autocast(g, *(const tn_dtype *)dtype));
    tn_tensor *y = product(x, x);
    is(y, *(const tn_dtype *)dtype);
    ck_assert_uint_eq(casts_of(g), 1);
    RELEASE(x, y);
    tn_graph_destroy(g);
  }
  return NULL;
}

START_TEST(threads_build_beside_each_other) {
  pthread_t threads[2];
  tn_dtype types[2] = {TN_BF16, TN_F16};
  for (int i = 0; i < 2; ++i)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, build_in_thread, &types[i]), 0);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
}
END_TEST

/* --- memory that runs out --- */

/* relu(x w) w summed, beside a list; gives the first status that is not TN_OK. */
static tn_status build(tn_graph *g, const tn_tensor *x, const tn_tensor *w, tn_tensor **y) {
  tn_tensor *a = NULL, *b = NULL, *c = NULL;
  tn_status status = tn_matmul(NULL, x, w, NULL, NULL, &a);
  (void)g;
  if (!status) status = tn_matmul(NULL, a, w, NULL, NULL, &b);
  if (!status) status = tn_concat(NULL, (const tn_tensor *[]){a, x, b}, 3, NULL, &c);
  if (!status) status = tn_sum(NULL, c, NULL, y);
  RELEASE(a, b, c);
  return status;
}

START_TEST(memory_runs_out_at_every_request) {
  tn_runtime *tight = open_scarce();
  tn_device *on = tn_runtime_device(tight);
  tn_tensor *real = numbers(on, 4, 4, 0.25f);
  float want = 0, got = 0;
  long failures = 0;
  for (long point = 0;; ++point) {
    tn_graph *g = NULL;
    tn_tensor *x = NULL, *w = NULL, *y = NULL, *out = NULL;
    tn_program *p = NULL;
    ok(tn_graph_create(tight, "tight", &g));
    ok(tn_graph_parameter(g, "x", real, &x));
    ok(tn_graph_parameter(g, "w", real, &w));
    scarce_begin(point, false);
    tn_status status = tn_graph_autocast(g, TN_BF16);
    if (!status) status = build(g, x, w, &y);
    bool failed = scarce_end();
    ok_or_scarce(status, point);
    failures += status != TN_OK;
    if (status) {
      ok(tn_graph_autocast(g, TN_BF16));
      ok(build(g, x, w, &y)); /* goes on as if nothing had been */
    }
    ck_assert_uint_eq(nodes_of(g, TN_OP_SUM), 1);
    ok(tn_graph_output(g, "y", y));
    ok(tn_graph_compile(g, on, NULL, &p));
    ok(tn_program_run(p, NULL, 0, NULL, 1, &out));
    ok(tn_tensor_to_host(out, &got, sizeof got));
    if (point == 0) want = got;
    ck_assert_float_eq(got, want);
    tn_program_destroy(p);
    tn_graph_destroy(g);
    RELEASE(x, w, y, out);
    if (!failed) break;
  }
  ck_assert_int_gt(failures, 10);
  tn_tensor_release(real);
  tn_runtime_close(tight);
  ck_assert_int_eq(scarce.live, 0);
}
END_TEST

START_TEST(a_graph_may_outlive_its_runtime) {
  tn_runtime *two = open_host_runtime();
  tn_graph *g = NULL;
  tn_tensor *x = NULL, *y = NULL;
  ok(tn_graph_create(two, "left", &g));
  ok(tn_graph_input(g, "x", TN_F32, 2, SHAPE(4, 4), &x));
  ok(tn_graph_autocast(g, TN_BF16));
  ok(tn_matmul(NULL, x, x, NULL, NULL, &y));
  tn_runtime_close(two);
  refused(tn_graph_autocast(g, TN_BF16), TN_ERR_CLOSED, "tn_graph_autocast");
  refused(tn_matmul(NULL, x, x, NULL, NULL, &y), TN_ERR_CLOSED, "closed");
  tn_graph_destroy(g);
  RELEASE(x, y);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, refusals_are_those_of_float32);
  tcase_add_test(t, bad_arguments);
  tcase_add_test(t, operators_of_plugins_are_left_alone);
  tcase_add_test(t, each_graph_has_its_own);
  tcase_add_test(t, a_copy_begins_without);
  tcase_add_test(t, threads_build_beside_each_other);
  tcase_add_test(t, memory_runs_out_at_every_request);
  tcase_add_test(t, a_graph_may_outlive_its_runtime);
}

int main(void) { return run_suite("autocast_refused", add_tests); }
