/* What compiling computes, as it follows from constants, and what it leaves to each run. */
#include <pthread.h>

#include "tests/graph/graphs.h"

/* 2 + 3 as constants of the graph, a fill, and what follows from them; an output among them. */
START_TEST(constants_are_folded) {
  tn_graph *g = make_graph();
  tn_device *on = tn_graph_device(g);
  tn_tensor *x = input(g, "x", 4, 4), *two = NULL, *three = NULL, *five = NULL, *ones = NULL;
  tn_tensor *y = NULL, *z = NULL, *turned = NULL, *eye = NULL, *real = numbers(device, 4, 4, 2);
  tn_tensor *across = NULL, *w = NULL, *product = NULL;
  ok(tn_tensor_permute(real, (int32_t[]){1, 0}, &across)); /* a constant of any strides */
  ok(tn_graph_constant(g, "w", across, &w));
  ok(tn_scalar(on, NULL, TN_F32, 2, &two));
  ok(tn_scalar(on, NULL, TN_F32, 3, &three));
  ok(tn_add(NULL, two, three, &five));
  ok(tn_ones(on, NULL, TN_F32, 2, SHAPE(4, 4), &ones));
  ok(tn_eye(NULL, (ok(tn_tensor_empty(on, TN_F32, 2, SHAPE(4, 4), &eye)), eye), NULL));
  ok(tn_matmul(NULL, w, eye, NULL, NULL, &product));
  ok(tn_mul(NULL, ones, five, &y));
  ok(tn_tensor_permute(product, (int32_t[]){1, 0}, &turned));
  ok(tn_add(NULL, turned, x, &z));
  ok(tn_graph_output(g, "five", five));
  ok(tn_graph_output(g, "fives", y));
  ok(tn_graph_output(g, "turned", turned));
  ok(tn_graph_output(g, "z", z));
  tn_tensor *in = numbers(device, 4, 4, 1), *out[4] = {NULL}, *again[4] = {NULL};
  tn_program_info info = agree(g, 0, 1, (const tn_tensor *[]){in});
  ck_assert_uint_eq(info.folded, 5);
  ck_assert_uint_eq(info.nodes, 1);
  info = agree(g, TN_COMPILE_NO_FOLDING, 1, (const tn_tensor *[]){in});
  ck_assert_uint_eq(info.folded, 0);
  /* What a run returned is the caller's to write to. */
  tn_program *p = compiled(g);
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 4, out));
  for (int i = 0; i < 4; ++i) ok(tn_exp(NULL, out[i], &out[i]));
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 4, again));
  float value;
  ok(tn_tensor_to_host(again[0], &value, sizeof value));
  ck_assert(value == 5);
  same(again[2], real);
  for (int i = 0; i < 4; ++i) RELEASE(out[i], again[i]);
  RELEASE(x, two, three, five, ones, y, z, turned, eye, real, across, w, product, in);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* Fills that are written over, in whole or in part, belong to each run. */
START_TEST(fills_that_are_written_over) {
  tn_graph *g = make_graph();
  tn_device *on = tn_graph_device(g);
  tn_tensor *x = input(g, "x", 2, 3), *a = NULL, *b = NULL, *c = NULL, *part = NULL, *s = NULL;
  ok(tn_zeros(on, NULL, TN_F32, 2, SHAPE(4, 3), &a));
  ok(tn_zeros(on, NULL, TN_F32, 2, SHAPE(4, 3), &b));
  ok(tn_zeros(on, NULL, TN_F32, 2, SHAPE(2, 3), &c));
  ok(tn_tensor_slice(a, 0, 1, 3, 1, &part));
  ok(tn_exp(NULL, x, &part));
  ok(tn_add(NULL, c, x, &c));
  ok(tn_add(NULL, a, b, &s));
  ok(tn_graph_output(g, "a", a));
  ok(tn_graph_output(g, "b", b));
  ok(tn_graph_output(g, "c", c));
  ok(tn_graph_output(g, "s", s));
  tn_tensor *in = numbers(device, 2, 3, 1);
  tn_program_info info = agree(g, 0, 1, (const tn_tensor *[]){in});
  ck_assert_uint_eq(info.merged, 0);
  ck_assert_uint_eq(info.folded, 1); /* b */
  RELEASE(x, a, b, c, part, s, in);
  tn_graph_destroy(g);
}
END_TEST

/* The limit: 1 MiB, or four times the constants. Random numbers are drawn by each run. */
START_TEST(what_is_not_folded) {
  enum { LARGE = 1 << 19 }; /* of float32: 2 MiB */
  tn_graph *g = make_graph();
  tn_device *on = tn_graph_device(g);
  tn_tensor *fill = NULL, *small = NULL, *row = numbers(on, 1, LARGE, 1), *twice = NULL;
  tn_tensor *same_size = NULL, *sums[4] = {NULL}, *drawn_numbers = NULL, *wide = NULL;
  tn_uniform_attrs uniform = TN_UNIFORM_DEFAULTS;
  ok(tn_ones(on, NULL, TN_F32, 1, SHAPE(LARGE), &fill));
  ok(tn_ones(on, NULL, TN_F32, 1, SHAPE(LARGE / 2), &small));
  ok(tn_neg(NULL, row, &same_size));
  ok(tn_tensor_expand(row, 2, SHAPE(5, LARGE), &wide));
  ok(tn_neg(NULL, wide, &twice));
  ok(tn_tensor_empty(on, TN_F32, 1, SHAPE(4), &drawn_numbers));
  ok(tn_uniform(NULL, drawn_numbers, &uniform));
  tn_tensor *all[] = {fill, small, same_size, twice};
  for (int i = 0; i < 4; ++i) {
    ok(tn_max(NULL, all[i], NULL, &sums[i]));
    ok(tn_graph_output(g, (const char *[]){"fill", "small", "same", "wide"}[i], sums[i]));
  }
  ok(tn_graph_output(g, "drawn", drawn_numbers));
  tn_program_info info = agree(g, 0, 0, NULL);
  ck_assert_uint_eq(info.folded, 4); /* small, same_size, and what is read from those */
  RELEASE(fill, small, row, twice, same_size, drawn_numbers, wide, sums[0], sums[1], sums[2],
          sums[3]);
  tn_graph_destroy(g);
}
END_TEST

/* A chain of functions of one constant of 2^18 numbers: some of them, and each run does the rest.
 */
START_TEST(what_would_take_long) {
  enum { ROWS = 1 << 9, NODES = 100 };
  tn_graph *g = make_graph();
  tn_tensor *real = numbers(device, ROWS, ROWS, 0.5f), *x = NULL, *want = NULL, *got = NULL;
  ok(tn_graph_constant(g, "x", real, &x));
  ok(tn_tanh(NULL, real, &want));
  for (int i = 0; i < NODES; ++i) {
    tn_tensor *y = NULL;
    ok(tn_tanh(NULL, x, &y));
    tn_tensor_release(x);
    x = y;
    if (i) ok(tn_tanh(NULL, want, &want));
  }
  ok(tn_graph_output(g, "y", x));
  tn_program *p = compiled(g);
  const tn_program_info info = report(p);
  ck_assert_uint_eq(info.folded + info.nodes, NODES);
  ck_assert_uint_ge(info.folded, NODES / 4);
  ck_assert_uint_le(info.folded, NODES / 2);
  ok(tn_program_run(p, NULL, 0, NULL, 1, &got));
  same(got, want);
  RELEASE(real, x, want, got);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* A node that cannot be computed when compiling fails when it runs, with its own message. */
START_TEST(a_constant_that_fails) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugin_path = SIM_PLUGIN, .device = "sim"};
  tn_runtime *sim = open_runtime(&options);
  tn_device *on = tn_runtime_device(sim);
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_tensor *four = NULL, *root = NULL, *out = NULL;
  ok(tn_graph_create(sim, "roots", &g));
  ok(tn_scalar(tn_graph_device(g), NULL, TN_F32, 4, &four));
  const char *before = tn_call_site("the root");
  ok(tn_sqrt(NULL, four, &root));
  tn_call_site(before);
  ok(tn_graph_output(g, "root", root));
  ok(tn_graph_compile(g, on, NULL, &p));
  ck_assert_uint_eq(report(p).folded, 0);
  refused(tn_program_run(p, NULL, 0, NULL, 1, &out), TN_ERR_BACKEND, "node 0 at the root");
  RELEASE(four, root);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  tn_runtime_close(sim);
}
END_TEST

/* --- threads --- */

typedef struct work {
  tn_graph *graph; /* a copy, which shares its constant with the others */
  tn_tensor *result;
  tn_status status;
} work;

static tn_status compile_once(tn_graph *g, tn_tensor **out) {
  tn_program *p = NULL;
  tn_stream *stream = NULL;
  tn_status status = tn_graph_compile(g, device, NULL, &p);
  if (!status && report(p).folded != 2) status = TN_ERR_INTERNAL;
  if (!status) status = tn_stream_create(device, &stream);
  if (!status) status = tn_program_run(p, stream, 0, NULL, 1, out);
  if (!status) status = tn_stream_synchronize(stream);
  tn_program_destroy(p);
  tn_stream_destroy(stream);
  return status;
}

static void *compile_often(void *ctx) {
  work *w = ctx;
  for (int i = 0; i < 20 && !w->status; ++i) {
    tn_tensor_release(w->result);
    w->result = NULL;
    w->status = compile_once(w->graph, &w->result);
  }
  return NULL;
}

START_TEST(several_threads_compile) {
  enum { THREADS = 4 };
  tn_graph *g = make_graph();
  tn_tensor *weights = numbers(device, 5, 5, -1), *turned = NULL, *e = NULL, *want = NULL;
  tn_tensor *x = NULL, *h = NULL, *y = NULL;
  pthread_t threads[THREADS];
  work works[THREADS];
  ok(tn_tensor_permute(weights, (int32_t[]){1, 0}, &turned));
  ok(tn_exp(NULL, turned, &e));
  ok(tn_matmul(NULL, e, turned, NULL, NULL, &want));
  ok(tn_graph_constant(g, "w", turned, &x));
  ok(tn_exp(NULL, x, &h));
  ok(tn_matmul(NULL, h, x, NULL, NULL, &y));
  ok(tn_graph_output(g, "y", y));
  for (int i = 0; i < THREADS; ++i) {
    works[i] = (work){.status = TN_OK};
    ok(tn_graph_copy(g, &works[i].graph));
  }
  for (int i = 0; i < THREADS; ++i)
    ck_assert(!pthread_create(&threads[i], NULL, compile_often, &works[i]));
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; ++i) {
    ok(works[i].status);
    same(works[i].result, want);
    tn_tensor_release(works[i].result);
    tn_graph_destroy(works[i].graph);
  }
  RELEASE(weights, turned, e, want, x, h, y);
  tn_graph_destroy(g);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, constants_are_folded);
  tcase_add_test(tcase, fills_that_are_written_over);
  tcase_add_test(tcase, what_is_not_folded);
  tcase_add_test(tcase, what_would_take_long);
  tcase_add_test(tcase, a_constant_that_fails);
  tcase_add_test(tcase, several_threads_compile);
}

int main(void) { return run_suite("graph_folded", add_tests); }
