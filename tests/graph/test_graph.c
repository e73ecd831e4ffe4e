/*
 * Graphs and programs: what a graph computes is what its calls would have, whatever is left out,
 * shares memory or is bound anew for a run.
 */
#include "tenon/graph.h"

#include <math.h>
#include <pthread.h>

#include "tests/support.h"

static tn_runtime *rt;
static tn_device *device;

static void setup(void) {
  rt = open_host_runtime();
  device = tn_runtime_device(rt);
}
static void teardown(void) { tn_runtime_close(rt); }

static tn_graph *make_graph(void) {
  tn_graph *g = NULL;
  ok(tn_graph_create(rt, "test", &g));
  return g;
}

static tn_tensor *input(tn_graph *g, const char *name, int64_t rows, int64_t columns) {
  tn_tensor *t = NULL;
  ok(tn_graph_input(g, name, TN_F32, 2, SHAPE(rows, columns), &t));
  return t;
}

/* Numbers that are never zero and never alike. */
static tn_tensor *numbers(tn_device *on, int64_t rows, int64_t columns, float first) {
  int64_t n = rows * columns;
  float *values = malloc((size_t)(n ? n : 1) * sizeof *values);
  for (int64_t i = 0; i < n; ++i) values[i] = first + (float)((i * 37) % 101) / 50;
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(on, TN_F32, 2, SHAPE(rows, columns), values, &t));
  free(values);
  return t;
}

static void same(const tn_tensor *a, const tn_tensor *b) {
  size_t bytes = tn_tensor_bytes(a);
  ck_assert_uint_eq(bytes, tn_tensor_bytes(b));
  unsigned char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  ok(tn_tensor_to_host(a, x, bytes));
  ok(tn_tensor_to_host(b, y, bytes));
  ck_assert(memcmp(x, y, bytes) == 0);
  free(x);
  free(y);
}

static tn_program *compiled(tn_graph *g) {
  tn_program *p = NULL;
  ok(tn_graph_compile(g, device, NULL, &p));
  return p;
}

static tn_program_info report(tn_program *p) {
  tn_program_info info = {.struct_size = sizeof info};
  ok(tn_program_report(p, &info));
  return info;
}

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
  tn_tensor *all[] = {x, y, z, half, in, wide, turned, out[1], out[2], want, product, part};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
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
  tn_tensor *all[] = {x, y, wide, turned, got, want, long_one, tail, again, wanted};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
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
  tn_tensor *all[] = {real,     kept,  real_velocity, kept_velocity, grad,
                      velocity, param, unused,        step};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
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
  tn_tensor *all[] = {x, last, sum, in, got, want, total};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
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
  tn_tensor *all[] = {x, two, ones, y, z, m, matrix, in, real, got, s, o, a, b, want};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
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
  tn_tensor *every[] = {x, all, left, right, joined, in, got, e, n, want};
  for (size_t i = 0; i < sizeof every / sizeof *every; ++i) tn_tensor_release(every[i]);
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
  tn_tensor *all[] = {x, y, mask, in};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* --- bad input --- */

START_TEST(what_is_refused_while_building) {
  tn_graph *g = make_graph(), *other = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = input(other, "y", 2, 2), *z = NULL;
  tn_tensor *real = numbers(device, 2, 2, 1);
  float value[4];
  refused(tn_add(NULL, x, real, &z), TN_ERR_INVALID_ARGUMENT, "tn_graph_constant");
  refused(tn_add(NULL, real, x, &z), TN_ERR_INVALID_ARGUMENT, "graph \"test\"");
  refused(tn_add(NULL, x, y, &z), TN_ERR_INVALID_ARGUMENT, "its own symbolic tensors");
  refused(tn_tensor_to_host(x, value, sizeof value), TN_ERR_UNSUPPORTED, "no numbers");
  refused(tn_graph_input(g, "x", TN_F32, 0, NULL, &z), TN_ERR_INVALID_ARGUMENT, "already");
  refused(tn_graph_input(g, "", TN_F32, 0, NULL, &z), TN_ERR_INVALID_ARGUMENT, "name");
  refused(tn_graph_input(g, "n", (tn_dtype)99, 0, NULL, &z), TN_ERR_INVALID_ARGUMENT, "type");
  refused(tn_graph_output(g, "o", real), TN_ERR_INVALID_ARGUMENT, "graph \"test\"");
  refused(tn_graph_parameter(g, "p", x, &z), TN_ERR_INVALID_ARGUMENT, "symbolic");
  /* Shapes that do not fit are refused as ever, and leave no node. */
  tn_tensor *wide = input(g, "wide", 2, 5);
  refused(tn_matmul(NULL, x, wide, NULL, NULL, &z), TN_OK, "");
  tn_tensor_release(z);
  z = NULL;
  refused(tn_matmul(NULL, wide, x, NULL, NULL, &z), TN_ERR_INVALID_ARGUMENT, "tn_matmul");
  ck_assert_uint_eq(tn_graph_num_nodes(g), 1);
  tn_exp(NULL, x, &x); /* an input is read-only */
  ck_assert_uint_eq(tn_graph_num_nodes(g), 1);
  const tn_tensor *in[1] = {x};
  tn_tensor *out[1] = {NULL};
  tn_prepared *prepared = NULL;
  const tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_EXP, .in = in, .out = out, .num_in = 1, .num_out = 1};
  refused(tn_prepare(&call, &prepared), TN_ERR_UNSUPPORTED, "compile");
  tn_tensor *all[] = {x, y, real, wide};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  tn_graph_destroy(g);
  tn_graph_destroy(other);
}
END_TEST

START_TEST(what_is_refused_when_compiling) {
  tn_graph *g = make_graph();
  tn_program *p = NULL;
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL, *empty = NULL, *z = NULL;
  ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(2, 2), &empty));
  ok(tn_add(NULL, x, empty, &y));
  ok(tn_graph_output(g, "y", y));
  refused(tn_graph_compile(g, device, NULL, &p), TN_ERR_INVALID_ARGUMENT,
          "node 0 (tn_add) reads input 1");
  refused(tn_graph_compile(g, tn_graph_device(g), NULL, &p), TN_ERR_INVALID_ARGUMENT, "no device");
  tn_graph_destroy(g);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(empty);
  g = make_graph();
  x = input(g, "x", 2, 2);
  y = NULL;
  ok(tn_exp(NULL, x, &z));
  ok(tn_graph_output(g, "z", z));
  ok(tn_neg(NULL, z, &z));
  refused(tn_graph_compile(g, device, NULL, &p), TN_ERR_INVALID_ARGUMENT, "after it was declared");
  tn_tensor_release(x);
  tn_tensor_release(z);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(what_is_refused_when_running) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL;
  ok(tn_exp(NULL, x, &y));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 2, 2, 1), *wide = numbers(device, 2, 3, 1), *out = NULL;
  refused(tn_program_run(p, NULL, 0, NULL, 1, &out), TN_ERR_INVALID_ARGUMENT, "it has 1 and 1");
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){wide}, 1, &out), TN_ERR_INVALID_ARGUMENT,
          "the graph has f32 [2, 2] there");
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){x}, 1, &out), TN_ERR_INVALID_ARGUMENT,
          "is for device");
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){NULL}, 1, &out), TN_ERR_INVALID_ARGUMENT,
          "NULL");
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &wide), TN_ERR_INVALID_ARGUMENT,
          "output \"y\"");
  ck_assert_ptr_null(out);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(in);
  tn_tensor_release(wide);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* Exports go where nobody can tell that there is nothing behind them. */
START_TEST(what_is_not_given_out) {
  const char *why =
      "a symbolic tensor has no memory to give: compile its graph and run the program";
  tn_graph *g = make_graph();
  tn_tensor *x = NULL;
  DLManagedTensorVersioned *managed = NULL;
  DLManagedTensor *plain = NULL;
  DLTensor view = {.ndim = -1};
  ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(2, 2), &x)); /* which is not read-only */
  refused(tn_tensor_to_dlpack(x, &managed), TN_ERR_UNSUPPORTED, why);
  refused(tn_tensor_to_dlpack_unversioned(x, &plain), TN_ERR_UNSUPPORTED, why);
  refused(tn_tensor_to_dlpack_stream(x, NULL, TN_DLPACK_STREAM_UNORDERED, &managed),
          TN_ERR_UNSUPPORTED, why);
  refused(tn_tensor_to_dlpack_stream_unversioned(x, NULL, TN_DLPACK_STREAM_NONE, &plain),
          TN_ERR_UNSUPPORTED, why);
  refused(tn_tensor_dlpack_view(x, &view), TN_ERR_UNSUPPORTED, why);
  ck_assert(!managed && !plain && view.ndim == -1);
  tn_tensor_release(x);
  tn_graph_destroy(g);
}
END_TEST

/* --- lifetimes and threads --- */

START_TEST(given_back_in_any_order) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL, *late = NULL;
  ok(tn_exp(NULL, x, &y));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  tn_graph_destroy(g);
  ck_assert_ptr_null(tn_tensor_graph(x));
  refused(tn_neg(NULL, x, &late), TN_ERR_INVALID_ARGUMENT, "is gone");
  /* Another graph does not take over the device while tensors of the first are there. */
  tn_graph *next = make_graph();
  refused(tn_neg(NULL, x, &late), TN_ERR_INVALID_ARGUMENT, "is gone");
  tn_graph_destroy(next);
  tn_runtime_close(rt);
  tn_tensor *in = NULL, *out = NULL;
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &out), TN_ERR_CLOSED, "");
  tn_tensor_release(y);
  tn_program_destroy(p);
  tn_tensor_release(x);
  rt = open_host_runtime();
}
END_TEST

typedef struct work {
  tn_program *program;
  float first;
  tn_status status;
} work;

static void *run_often(void *ctx) {
  work *w = ctx;
  tn_stream *stream = NULL;
  w->status = tn_stream_create(device, &stream);
  for (int i = 0; i < 50 && !w->status; ++i) {
    float value = w->first + (float)i, got[4];
    const float values[4] = {value, -value, value, value};
    tn_tensor *in = NULL, *out = NULL;
    w->status = tn_tensor_from_host(device, TN_F32, 2, SHAPE(2, 2), values, &in);
    if (!w->status)
      w->status = tn_program_run(w->program, stream, 1, (const tn_tensor *[]){in}, 1, &out);
    if (!w->status) w->status = tn_stream_synchronize(stream);
    if (!w->status) w->status = tn_tensor_to_host(out, got, sizeof got);
    if (!w->status && (got[0] != -value || got[1] != value)) w->status = TN_ERR_INTERNAL;
    tn_tensor_release(in);
    tn_tensor_release(out);
  }
  tn_stream_destroy(stream);
  return NULL;
}

START_TEST(several_threads_run_one_program) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL, *z = NULL, *w = NULL;
  ok(tn_neg(NULL, x, &y));
  ok(tn_neg(NULL, y, &z));
  ok(tn_neg(NULL, z, &w));
  ok(tn_graph_output(g, "w", w));
  tn_program *p = compiled(g);
  pthread_t threads[4];
  work works[4];
  for (int i = 0; i < 4; ++i) {
    works[i] = (work){p, (float)(100 * i + 1), TN_OK};
    pthread_create(&threads[i], NULL, run_often, &works[i]);
  }
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 4; ++i) ck_assert_int_eq(works[i].status, TN_OK);
  tn_tensor *all[] = {x, y, z, w};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
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
    tn_tensor *all[] = {real_x, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
  }
  tn_tensor *all[] = {real_w, real_b, x, w, b, y};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
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
  tcase_add_test(tcase, what_is_refused_while_building);
  tcase_add_test(tcase, what_is_refused_when_compiling);
  tcase_add_test(tcase, what_is_refused_when_running);
  tcase_add_test(tcase, what_is_not_given_out);
  tcase_add_test(tcase, given_back_in_any_order);
  tcase_add_test(tcase, several_threads_run_one_program);
  tcase_add_test(tcase, walked_and_printed);
  setenv("TENON_TRACE", "/dev/null", 1); /* where the layer trace would write */
  tcase_add_loop_test(tcase, with_layers_on, 0, 2);
}

int main(void) { return run_suite("graph", add_tests); }
