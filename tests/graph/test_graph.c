/*
 * Graphs and programs: what a graph computes is what its calls would have, whatever is left out,
 * shares memory or is bound anew for a run.
 */
#include "tests/graph/graphs.h"

/* A model as one writes it: the same function on real tensors and on symbolic ones. */
static tn_tensor *layers(const tn_tensor *x, const tn_tensor *w, const tn_tensor *b) {
  tn_tensor *h = NULL, *r = NULL, *s = NULL, *y = NULL, *t = NULL;
  ok(tn_matmul(NULL, x, w, NULL, NULL, &h));
  ok(tn_add(NULL, h, b, &r));
  ok(tn_relu(NULL, r, &s));
  ok(tn_tensor_permute(s, (int32_t[]){1, 0}, &t));
  ok(tn_matmul(NULL, s, t, NULL, NULL, &y));
  tn_tensor_release(h);
  tn_tensor_release(r);
  tn_tensor_release(s);
  tn_tensor_release(t);
  return y;
}

START_TEST(computes_what_the_calls_would) {
  tn_graph *g = make_graph();
  tn_tensor *real_w = numbers(device, 7, 5, 0.5f), *real_b = numbers(device, 1, 5, -2);
  tn_tensor *x = input(g, "x", 3, 7), *w = NULL, *b = NULL;
  ok(tn_graph_parameter(g, "w", real_w, &w));
  ok(tn_graph_constant(g, "b", real_b, &b));
  tn_tensor *y = layers(x, w, b);
  ck_assert_int_eq(tn_tensor_rank(y), 2);
  ck_assert_ptr_eq(tn_tensor_graph(y), g);
  ck_assert_ptr_null(tn_tensor_graph(real_w));
  ok(tn_graph_output(g, "y", y));
  ck_assert_uint_eq(tn_graph_num_nodes(g), 4);
  tn_program *p = compiled(g);
  tn_tensor_release(x);
  tn_tensor_release(w);
  tn_tensor_release(y);
  tn_tensor_release(b);
  tn_graph_destroy(g);
  for (int run = 0; run < 4; ++run) {
    tn_tensor *real_x = numbers(device, 3, 7, (float)run - 1), *got = NULL;
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real_x}, 1, &got));
    tn_tensor *want = layers(real_x, real_w, real_b);
    same(got, want);
    tn_tensor_release(want);
    tn_tensor_release(got);
    tn_tensor_release(real_x);
  }
  ck_assert_uint_eq(report(p).runs, 4);
  tn_program_destroy(p);
  tn_tensor_release(real_w);
  tn_tensor_release(real_b);
}
END_TEST

START_TEST(outputs_that_are_given) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 4, 6), *y = NULL, *z = NULL, *half = NULL;
  ok(tn_exp(NULL, x, &y));
  ok(tn_mul(NULL, y, x, &z));
  ok(tn_tensor_slice(z, 1, 2, 5, 1, &half));
  ok(tn_graph_output(g, "exp", y));
  ok(tn_graph_output(g, "half", half));
  ok(tn_graph_output(g, "x", x));
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 4, 6, 0.1f), *wide = numbers(device, 6, 4, 9), *turned = NULL;
  ok(tn_tensor_permute(wide, (int32_t[]){1, 0}, &turned));
  tn_tensor *out[3] = {turned, NULL, NULL}, *want = NULL, *product = NULL, *part = NULL;
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 3, out));
  ck_assert_ptr_eq(out[0], turned);
  ok(tn_exp(NULL, in, &want));
  ok(tn_mul(NULL, want, in, &product));
  ok(tn_tensor_slice(product, 1, 2, 5, 1, &part));
  same(out[0], want);
  same(out[1], part);
  same(out[2], in);
  /* One that shares memory with an input is refused, and nothing has run. */
  tn_tensor *bad[3] = {in, NULL, NULL};
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 3, bad), TN_ERR_INVALID_ARGUMENT,
          "shares memory with an input");
  ck_assert_ptr_null(bad[1]);
  RELEASE(x, y, z, half, in, wide, turned, out[1], out[2], want, product, part);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(inputs_of_any_layout) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 5, 3), *y = NULL;
  ok(tn_neg(NULL, x, &y));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  tn_tensor *wide = numbers(device, 3, 5, 2), *turned = NULL, *got = NULL, *want = NULL;
  ok(tn_tensor_permute(wide, (int32_t[]){1, 0}, &turned));
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){turned}, 1, &got));
  ok(tn_neg(NULL, turned, &want));
  same(got, want);
  tn_tensor *long_one = numbers(device, 6, 3, 4), *tail = NULL, *again = NULL, *wanted = NULL;
  ok(tn_tensor_slice(long_one, 0, 1, 6, 1, &tail)); /* row-major, twelve bytes off */
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){tail}, 1, &again));
  ok(tn_neg(NULL, tail, &wanted));
  same(again, wanted);
  RELEASE(x, y, wide, turned, got, want, long_one, tail, again, wanted);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(parameters_are_updated) {
  tn_graph *g = make_graph();
  tn_tensor *real = numbers(device, 2, 2, 1), *kept = NULL, *grad = input(g, "grad", 2, 2);
  tn_tensor *param = NULL, *velocity = NULL, *unused = NULL;
  tn_tensor *real_velocity = numbers(device, 2, 2, 0.25f), *kept_velocity = NULL;
  ok(tn_copy(NULL, real, &kept));
  ok(tn_copy(NULL, real_velocity, &kept_velocity));
  ok(tn_graph_parameter(g, "velocity", real_velocity, &velocity));
  ok(tn_graph_parameter(g, "param", real, &param));
  tn_sgd_step_attrs attrs = TN_SGD_STEP_DEFAULTS;
  attrs.lr = 0.5;
  ok(tn_sgd_step(NULL, grad, param, velocity, &attrs));
  ok(tn_exp(NULL, grad, &unused)); /* nothing needs it */
  tn_program *p = compiled(g);
  ck_assert_uint_eq(report(p).nodes, 1);
  ck_assert_uint_eq(report(p).left_out, 1);
  tn_tensor *step = numbers(device, 2, 2, 3);
  for (int run = 0; run < 3; ++run) {
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){step}, 0, NULL));
    ok(tn_sgd_step(NULL, step, kept, kept_velocity, &attrs));
    same(real, kept);
    same(real_velocity, kept_velocity);
  }
  RELEASE(real, kept, real_velocity, kept_velocity, grad, velocity, param, unused, step);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* A chain of elementwise calls and products of one size: two buffers do. */
START_TEST(memory_is_shared) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 64, 64), *last = x;
  tn_tensor_retain(x);
  for (int i = 0; i < 20; ++i) {
    tn_tensor *next = NULL;
    ok(i % 2 ? tn_tanh(NULL, last, &next) : tn_matmul(NULL, last, x, NULL, NULL, &next));
    tn_tensor_release(last);
    last = next;
  }
  tn_tensor *sum = NULL;
  ok(tn_sum(NULL, last, NULL, &sum));
  ok(tn_graph_output(g, "sum", sum));
  tn_program *p = compiled(g);
  tn_program_info info = report(p);
  ck_assert_uint_eq(info.planned_bytes, 2 * 64 * 64 * 4);
  ck_assert_uint_eq(info.live_bytes, info.planned_bytes);
  ck_assert_uint_eq(info.separate_bytes, 20 * 64 * 64 * 4);
  tn_tensor *in = numbers(device, 64, 64, -1), *got = NULL, *want = in;
  tn_tensor_retain(in);
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &got));
  for (int i = 0; i < 20; ++i) {
    tn_tensor *next = NULL;
    ok(i % 2 ? tn_tanh(NULL, want, &next) : tn_matmul(NULL, want, in, NULL, NULL, &next));
    tn_tensor_release(want);
    want = next;
  }
  tn_tensor *total = NULL;
  ok(tn_sum(NULL, want, NULL, &total));
  same(got, total);
  RELEASE(x, last, sum, in, got, want, total);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* Tensors made on the graph's device: constants, and what operators fill. */
START_TEST(constants_and_fills) {
  tn_graph *g = make_graph();
  tn_device *on = tn_graph_device(g);
  tn_tensor *x = input(g, "x", 2, 3), *two = NULL, *ones = NULL, *y = NULL, *z = NULL, *m = NULL;
  ok(tn_scalar(on, NULL, TN_F32, 2, &two));
  ok(tn_ones(on, NULL, TN_F32, 2, SHAPE(2, 3), &ones));
  ok(tn_mul(NULL, x, two, &y));
  ok(tn_add(NULL, y, ones, &z));
  tn_tensor *matrix = numbers(on, 3, 4, 0.25f);
  ok(tn_matmul(NULL, z, matrix, NULL, NULL, &m));
  ok(tn_graph_output(g, "m", m));
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 2, 3, 1), *real = numbers(device, 3, 4, 0.25f), *got = NULL;
  tn_tensor *s = NULL, *o = NULL, *a = NULL, *b = NULL, *want = NULL;
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &got));
  ok(tn_scalar(device, NULL, TN_F32, 2, &s));
  ok(tn_ones(device, NULL, TN_F32, 2, SHAPE(2, 3), &o));
  ok(tn_mul(NULL, in, s, &a));
  ok(tn_add(NULL, a, o, &b));
  ok(tn_matmul(NULL, b, real, NULL, NULL, &want));
  same(got, want);
  RELEASE(x, two, ones, y, z, m, matrix, in, real, got, s, o, a, b, want);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* Lists, in-out views, an output written in parts. */
START_TEST(parts_of_buffers) {
  tn_graph *g = make_graph();
  tn_device *on = tn_graph_device(g);
  tn_tensor *x = input(g, "x", 2, 3), *all = NULL, *left = NULL, *right = NULL, *joined = NULL;
  ok(tn_tensor_empty(on, TN_F32, 2, SHAPE(2, 6), &all));
  ok(tn_tensor_slice(all, 1, 0, 3, 1, &left));
  ok(tn_tensor_slice(all, 1, 3, 6, 1, &right));
  ok(tn_exp(NULL, x, &left));
  ok(tn_neg(NULL, x, &right));
  tn_concat_attrs attrs = TN_CONCAT_DEFAULTS;
  attrs.axis = 1;
  ok(tn_concat(NULL, (const tn_tensor *[]){all, x}, 2, &attrs, &joined));
  ok(tn_graph_output(g, "joined", joined));
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 2, 3, 1), *got = NULL, *e = NULL, *n = NULL, *want = NULL;
  ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &got));
  ok(tn_exp(NULL, in, &e));
  ok(tn_neg(NULL, in, &n));
  ok(tn_concat(NULL, (const tn_tensor *[]){e, n, in}, 3, &attrs, &want));
  same(got, want);
  RELEASE(x, all, left, right, joined, in, got, e, n, want);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(random_numbers_go_on) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 8, 8), *y = NULL, *mask = NULL;
  tn_dropout_attrs attrs = TN_DROPOUT_DEFAULTS;
  attrs.p = 0.5;
  attrs.seed = 7;
  ok(tn_dropout(NULL, x, &attrs, &y, &mask));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 8, 8, 1);
  tn_generator *generator;
  ok(tn_generator_create(rt, 7, &generator));
  for (int run = 0; run < 3; ++run) {
    tn_tensor *got = NULL, *want = NULL, *used = NULL;
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &got));
    ok(tn_generator_next(generator, TN_OP_DROPOUT, in, &attrs));
    ok(tn_dropout(NULL, in, &attrs, &want, &used));
    same(got, want);
    tn_tensor_release(got);
    tn_tensor_release(want);
    tn_tensor_release(used);
  }
  tn_generator_destroy(generator);
  RELEASE(x, y, mask, in);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* What an elementwise call sees of an input that it repeats moves with each run. */
START_TEST(inputs_that_broadcast) {
  tn_graph *g = make_graph();
  tn_tensor *a = input(g, "a", 4, 6), *b = input(g, "b", 1, 6), *h = NULL, *y = NULL, *z = NULL;
  ok(tn_add(NULL, a, b, &y));
  ok(tn_exp(NULL, b, &h));
  ok(tn_mul(NULL, a, h, &z));
  ok(tn_graph_output(g, "y", y));
  ok(tn_graph_output(g, "h", h));
  ok(tn_graph_output(g, "z", z));
  tn_program *p = compiled(g);
  for (int run = 0; run < 3; ++run) {
    tn_tensor *real_a = numbers(device, 4, 6, (float)run),
              *real_b = numbers(device, 1, 6, 2.0f - (float)run);
    tn_tensor *got[3] = {NULL}, *sum = NULL, *e = NULL, *product = NULL;
    ok(tn_program_run(p, NULL, 2, (const tn_tensor *[]){real_a, real_b}, 3, got));
    ok(tn_add(NULL, real_a, real_b, &sum));
    ok(tn_exp(NULL, real_b, &e));
    ok(tn_mul(NULL, real_a, e, &product));
    same(got[0], sum);
    same(got[1], e);
    same(got[2], product);
    RELEASE(real_a, real_b, got[0], got[1], got[2], sum, e, product);
  }
  RELEASE(a, b, h, y, z);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* A constant that nothing used gives its place to no other tensor's numbers. */
START_TEST(constants_that_are_released) {
  tn_graph *g = make_graph();
  tn_device *on = tn_graph_device(g);
  tn_tensor *small = numbers(on, 4, 4, 7), *ones = NULL, *sum = NULL, *got = NULL;
  tn_tensor_release(small);
  ok(tn_ones(on, NULL, TN_F32, 2, SHAPE(4, 4), &ones));
  ok(tn_sum(NULL, ones, NULL, &sum));
  ok(tn_graph_output(g, "sum", sum));
  tn_program *p = compiled(g);
  float value;
  ok(tn_program_run(p, NULL, 0, NULL, 1, &got));
  ok(tn_tensor_to_host(got, &value, sizeof value));
  ck_assert(value == 16);
  RELEASE(ones, sum, got);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(constants_are_not_written) {
  tn_graph *g = make_graph();
  tn_device *on = tn_graph_device(g);
  tn_program *p = NULL;
  tn_tensor *x = input(g, "x", 2, 2), *sum = numbers(on, 2, 2, 0), *y = NULL;
  const float values[4] = {1, 2, 3, 4};
  refused(tn_add(NULL, x, x, &sum), TN_ERR_INVALID_ARGUMENT, "constant of the graph");
  refused(tn_tensor_write(NULL, sum, values, sizeof values), TN_ERR_UNSUPPORTED, "once");
  ck_assert_uint_eq(tn_graph_num_nodes(g), 0);
  tn_tensor *whole = NULL, *part = NULL;
  ok(tn_tensor_empty(on, TN_F32, 1, SHAPE(64), &whole));
  ok(tn_tensor_slice(whole, 0, 0, 4, 1, &part));
  ok(tn_tensor_write(NULL, part, values, sizeof values));
  ok(tn_neg(NULL, whole, &y));
  ok(tn_graph_output(g, "y", y));
  refused(tn_graph_compile(g, device, NULL, &p), TN_ERR_INVALID_ARGUMENT, "written whole");
  RELEASE(x, sum, y, whole, part);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(nothing_is_written_of_no_elements) {
  tn_graph *g = make_graph();
  tn_tensor *none = NULL, *y = NULL, *got[2] = {NULL};
  ok(tn_zeros(tn_graph_device(g), NULL, TN_F32, 2, SHAPE(0, 3), &none));
  ok(tn_neg(NULL, none, &y));
  ok(tn_graph_output(g, "none", none));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  ok(tn_program_run(p, NULL, 0, NULL, 2, got));
  ck_assert_int_eq(tn_tensor_elements(got[0]) + tn_tensor_elements(got[1]), 0);
  RELEASE(none, y, got[0], got[1]);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* What a node that is left out would have drawn is drawn by no later run. */
START_TEST(random_numbers_that_nothing_uses) {
  tn_graph *g = make_graph();
  tn_generator *generator;
  tn_tensor *t[3] = {NULL};
  ok(tn_generator_create(rt, 1, &generator));
  for (int i = 0; i < 3; ++i) {
    tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
    ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 1, SHAPE(4), &t[i]));
    ok(tn_generator_next(generator, TN_OP_UNIFORM, t[i], &attrs));
    ok(tn_uniform(NULL, t[i], &attrs));
  }
  ok(tn_graph_output(g, "first", t[0]));
  ok(tn_graph_output(g, "last", t[2]));
  tn_program *p = compiled(g);
  float drawn[3][2][4];
  for (int run = 0; run < 3; ++run) {
    tn_tensor *got[2] = {NULL};
    ok(tn_program_run(p, NULL, 0, NULL, 2, got));
    for (int i = 0; i < 2; ++i) {
      ok(tn_tensor_to_host(got[i], drawn[run][i], sizeof drawn[run][i]));
      tn_tensor_release(got[i]);
    }
  }
  for (int i = 0; i < 6; ++i)
    for (int k = 0; k < i; ++k)
      ck_assert(memcmp(drawn[i / 2][i % 2], drawn[k / 2][k % 2], sizeof drawn[0][0]) != 0);
  for (int i = 0; i < 3; ++i) tn_tensor_release(t[i]);
  tn_generator_destroy(generator);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* --- layers --- */

/* With a layer on, tensors are tracked and every call of a run is seen. */
START_TEST(with_layers_on) {
  static const char *const layers_on[] = {"validate", "trace"};
  char plugins[64];
  snprintf(plugins, sizeof plugins, "cpu,reference,%s", layers_on[_i]);
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = plugins, .layers = layers_on[_i]};
  tn_runtime_close(rt);
  rt = open_runtime(&options);
  device = tn_runtime_device(rt);
  tn_graph *g = make_graph();
  tn_tensor *real_w = numbers(device, 7, 5, 0.5f), *real_b = numbers(device, 1, 5, -2);
  tn_tensor *x = input(g, "x", 3, 7), *w = NULL, *b = NULL;
  ok(tn_graph_parameter(g, "w", real_w, &w));
  ok(tn_graph_parameter(g, "b", real_b, &b));
  tn_tensor *y = layers(x, w, b);
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  for (int run = 0; run < 3; ++run) {
    tn_tensor *real_x = numbers(device, 3, 7, (float)run), *got = NULL;
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real_x}, 1, &got));
    tn_tensor *want = layers(real_x, real_w, real_b);
    same(got, want);
    RELEASE(real_x, got, want);
  }
  RELEASE(real_w, real_b, x, w, b, y);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* --- walking and printing --- */

START_TEST(walked_and_printed) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 3), *y = NULL, *z = NULL;
  tn_softmax_attrs attrs = TN_SOFTMAX_DEFAULTS;
  const char *before = tn_call_site("layer \"1\"");
  ok(tn_softmax(NULL, x, &attrs, &y));
  tn_call_site(before);
  ok(tn_exp(NULL, y, &z));
  ok(tn_graph_output(g, "z", z));
  tn_graph_node node = {.struct_size = sizeof node};
  tn_graph_value value = {.struct_size = sizeof value};
  ok(tn_graph_node_at(g, 0, &node));
  ck_assert_str_eq(node.site, "layer \"1\"");
  ck_assert_uint_eq(node.num_in, 1);
  ok(tn_graph_value_at(g, node.in[0], &value));
  ck_assert_str_eq(value.name, "x");
  ck_assert_uint_eq(value.kind, TN_GRAPH_INPUT);
  ck_assert_uint_eq(value.node, TN_GRAPH_NONE);
  uint32_t first = node.out[0];
  ok(tn_graph_node_at(g, 1, &node));
  ck_assert_uint_eq(node.in[0], first);
  refused(tn_graph_node_at(g, 2, &node), TN_ERR_NOT_FOUND, "there are 2");
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  ok(tn_graph_print(g, TN_GRAPH_TEXT, file));
  fclose(file);
  ck_assert_msg(strstr(text, "graph test: 2 nodes\ninput x: f32 [2, 3]\n"), "%s", text);
  ck_assert_msg(strstr(text, "%1: f32 [2, 3] = softmax(x) axis=1  # layer \"1\"\n"), "%s", text);
  ck_assert_msg(strstr(text, "output z = %2\n"), "%s", text);
  free(text);
  text = NULL;
  file = open_memstream(&text, &size);
  ok(tn_graph_print(g, TN_GRAPH_DOT, file));
  fclose(file);
  ck_assert_msg(strstr(text, "n0 -> n1 [label=\"f32 [2, 3]\"]"), "%s", text);
  ck_assert_msg(strstr(text, "softmax\\nlayer \\\"1\\\""), "%s", text);
  free(text);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(z);
  tn_graph_destroy(g);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, computes_what_the_calls_would);
  tcase_add_test(tcase, outputs_that_are_given);
  tcase_add_test(tcase, inputs_of_any_layout);
  tcase_add_test(tcase, parameters_are_updated);
  tcase_add_test(tcase, memory_is_shared);
  tcase_add_test(tcase, constants_and_fills);
  tcase_add_test(tcase, parts_of_buffers);
  tcase_add_test(tcase, random_numbers_go_on);
  tcase_add_test(tcase, inputs_that_broadcast);
  tcase_add_test(tcase, constants_that_are_released);
  tcase_add_test(tcase, constants_are_not_written);
  tcase_add_test(tcase, nothing_is_written_of_no_elements);
  tcase_add_test(tcase, random_numbers_that_nothing_uses);
  setenv("TENON_TRACE", "/dev/null", 1); /* where the layer trace would write */
  tcase_add_loop_test(tcase, with_layers_on, 0, 2);
  tcase_add_test(tcase, walked_and_printed);
}

int main(void) { return run_suite("graph", add_tests); }
