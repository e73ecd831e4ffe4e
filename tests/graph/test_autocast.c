/*
 * Autocast of graphs: which casts are inserted and how often, what stays as it is, what is refused
 * and with which words, and programs that train in 16 bits. Its numbers, operator by operator, are
 * test_autocast_cases.c's.
 */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tenon/plugin.h"
#include "tests/graph/graphs.h"

static uint32_t nodes_of(const tn_graph *g, uint32_t op) {
  uint32_t count = 0;
  for (size_t i = 0; i < tn_graph_num_nodes(g); ++i) {
    tn_graph_node node = {.struct_size = sizeof node};
    ok(tn_graph_node_at(g, i, &node));
    count += node.op->id == op;
  }
  return count;
}

static uint32_t casts_of(const tn_graph *g) { return nodes_of(g, TN_OP_CAST); }

static tn_tensor *parameter(tn_graph *g, const char *name, tn_tensor *real) {
  tn_tensor *t = NULL;
  ok(tn_graph_parameter(g, name, real, &t));
  return t;
}

static tn_tensor *as(const tn_tensor *t, tn_dtype dtype) {
  tn_cast_attrs attrs = TN_CAST_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.dtype = (int32_t)dtype;
  ok(tn_cast(NULL, t, &attrs, &y));
  return y;
}

static tn_tensor *product(const tn_tensor *a, const tn_tensor *b) {
  tn_tensor *y = NULL;
  ok(tn_matmul(NULL, a, b, NULL, NULL, &y));
  return y;
}

static void is(const tn_tensor *t, tn_dtype dtype) {
  ck_assert_str_eq(tn_dtype_name(tn_tensor_dtype(t)), tn_dtype_name(dtype));
}

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
  tn_tensor *wide = as(h, TN_F64);
  refused(tn_add(NULL, h, wide, &z), TN_ERR_INVALID_ARGUMENT, "use tn_cast");
  RELEASE(x, h, y, index, low, wide, velocity);
  tn_graph_destroy(g);
}
END_TEST

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

/* --- gradients and steps --- */

/* mean((relu(x w) v - t)^2), and its gradients by w and v. */
static void gradients_of(tn_dtype autocast, float *dw, float *dv, uint32_t *casts) {
  tn_graph *g = make_graph();
  tn_tensor *real[4] = {numbers(device, 8, 8, -1), numbers(device, 8, 8, -0.7f),
                        numbers(device, 8, 1, -0.9f), numbers(device, 8, 1, 1)};
  tn_tensor *x = parameter(g, "x", real[0]), *w = parameter(g, "w", real[1]),
            *v = parameter(g, "v", real[2]), *t = parameter(g, "t", real[3]), *by[2] = {w, v};
  tn_tensor *a, *h = NULL, *y, *off = NULL, *square = NULL, *loss = NULL, *grad[2], *got[2] = {0};
  ok(tn_graph_autocast(g, autocast));
  a = product(x, w);
  ok(tn_relu(NULL, a, &h));
  y = product(h, v);
  ok(tn_sub(NULL, y, t, &off));
  ok(tn_mul(NULL, off, off, &square));
  ok(tn_mean(NULL, square, NULL, &loss));
  is(loss, TN_F32);
  *casts = casts_of(g);
  ok(tn_graph_gradient(g, loss, 2, by, grad));
  is(grad[0], TN_F32);
  is(grad[1], TN_F32);
  ok(tn_graph_output(g, "dw", grad[0]));
  ok(tn_graph_output(g, "dv", grad[1]));
  tn_program *p = compiled(g);
  ok(tn_program_run(p, NULL, 0, NULL, 2, got));
  ok(tn_tensor_to_host(got[0], dw, 64 * sizeof *dw));
  ok(tn_tensor_to_host(got[1], dv, 8 * sizeof *dv));
  tn_program_destroy(p);
  for (int i = 0; i < 4; ++i) tn_tensor_release(real[i]);
  RELEASE(x, w, v, t, a, h, y, off, square, loss, grad[0], grad[1], got[0], got[1]);
  tn_graph_destroy(g);
}

static double off_by(const float *a, const float *b, int n) {
  double error = 0, norm = 0;
  for (int i = 0; i < n; ++i) {
    error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    norm += (double)a[i] * a[i];
  }
  return sqrt(error / norm);
}

START_TEST(gradients_pass_through_casts) {
  float dw[64], dv[8], low_dw[64], low_dv[8];
  uint32_t casts;
  gradients_of(TN_DTYPE_NONE, dw, dv, &casts);
  ck_assert_uint_eq(casts, 0);
  gradients_of(TN_BF16, low_dw, low_dv, &casts);
  ck_assert_uint_eq(casts, 4); /* x, w, v; y to float32 */
  double w = off_by(dw, low_dw, 64), v = off_by(dv, low_dv, 8);
  ck_assert_msg(w > 0 && w < 0.03, "%g", w);
  ck_assert_msg(v > 0 && v < 0.03, "%g", v);
}
END_TEST

/*
 * The scale of the loss, all on the device: gradients of the scaled loss in float16 overflow while
 * the scale is too large, found_inf says so, the scale comes down, and then w gets its step.
 */
typedef struct scaling {
  tn_graph *graph;
  tn_tensor *w, *scale, *good; /* real */
} scaling;

static tn_tensor *real_scalar(tn_dtype dtype, double value) {
  tn_tensor *t = NULL;
  ok(tn_scalar_f64(device, NULL, dtype, value, &t));
  tn_tensor *own = NULL;
  ok(tn_copy(NULL, t, &own));
  tn_tensor_release(t);
  return own;
}

static scaling scaled_step(double first_scale) {
  scaling s = {make_graph(), numbers(device, 4, 4, 0.5f), real_scalar(TN_F32, first_scale),
               real_scalar(TN_I64, 0)};
  tn_graph *g = s.graph;
  tn_device *symbolic = tn_graph_device(g);
  tn_tensor *w = parameter(g, "w", s.w), *scale = parameter(g, "scale", s.scale);
  tn_tensor *good = parameter(g, "good_steps", s.good), *x = input(g, "x", 4, 4);
  tn_tensor *loss = NULL, *scaled = NULL, *grad = NULL, *found = NULL, *velocity = NULL;
  tn_tensor *stepped = NULL, *chosen = NULL;
  ok(tn_graph_autocast(g, TN_F16));
  tn_tensor *y = product(x, w);
  ok(tn_mean(NULL, y, NULL, &loss));
  ok(tn_mul(NULL, loss, scale, &scaled));
  ok(tn_graph_gradient(g, scaled, 1, &w, &grad));
  ok(tn_zeros(symbolic, NULL, TN_BOOL, 0, NULL, &found));
  ok(tn_unscale_grads(NULL, scale, &grad, 1, found));
  ok(tn_zeros(symbolic, NULL, TN_F32, 2, SHAPE(4, 4), &velocity));
  ok(tn_copy(NULL, w, &stepped));
  ok(tn_sgd_step(NULL, grad, stepped, velocity, NULL));
  ok(tn_where(NULL, found, w, stepped, &chosen));
  ok(tn_copy(NULL, chosen, &w));
  tn_update_loss_scale_attrs attrs = TN_UPDATE_LOSS_SCALE_DEFAULTS;
  attrs.interval = 3;
  ok(tn_update_loss_scale(NULL, found, scale, good, &attrs));
  ok(tn_graph_output(g, "loss", loss));
  RELEASE(w, scale, good, x, loss, scaled, grad, found, velocity, stepped, chosen, y);
  return s;
}

START_TEST(the_scale_of_the_loss_adapts_on_the_device) {
  scaling s = scaled_step(0x1p24);
  tn_program *p = compiled(s.graph);
  tn_tensor *x = numbers(device, 4, 4, 1), *loss = NULL;
  float scale[1], first[16], last[16];
  int64_t good[1];
  ok(tn_tensor_to_host(s.w, first, sizeof first));
  int skipped = 0;
  for (int step = 0; step < 20; ++step) {
    float before = 0;
    ok(tn_tensor_to_host(s.scale, &before, sizeof before));
    ok(tn_program_run(p, NULL, 1, (const tn_tensor *[]){x}, 1, &loss));
    ok(tn_tensor_to_host(s.scale, scale, sizeof scale));
    ok(tn_tensor_to_host(s.w, last, sizeof last));
    if (scale[0] < before) {
      ++skipped;
      ck_assert_float_eq(scale[0], before / 2);
    }
    for (int i = 0; i < 16; ++i) ck_assert(isfinite(last[i]));
    if (skipped == step + 1) ck_assert(memcmp(first, last, sizeof first) == 0);
  }
  ok(tn_tensor_to_host(s.good, good, sizeof good));
  ck_assert_msg(skipped >= 2 && skipped < 20, "%d steps skipped", skipped);
  ck_assert(good[0] >= 0 && good[0] < 3);
  ck_assert(memcmp(first, last, sizeof first) != 0);
  RELEASE(x, loss, s.w, s.scale, s.good);
  tn_program_destroy(p);
  tn_graph_destroy(s.graph);
}
END_TEST

/* --- memory that runs out --- */

static atomic_long requests_left;
static atomic_long in_use;

static void *scarce_alloc(void *user, size_t bytes, size_t align) {
  (void)user;
  if (atomic_fetch_sub(&requests_left, 1) <= 0) return NULL;
  atomic_fetch_add(&in_use, 1);
  return aligned_alloc(align < 64 ? 64 : align, (bytes + 63) / 64 * 64 + 64);
}

static void scarce_free(void *user, void *ptr) {
  (void)user;
  atomic_fetch_sub(&in_use, ptr != NULL);
  free(ptr);
}

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
  const tn_allocator scarce = {.alloc = scarce_alloc, .free = scarce_free};
  atomic_store(&requests_left, LONG_MAX);
  tn_runtime *tight = open_runtime(&(tn_runtime_options){
      .struct_size = sizeof(tn_runtime_options), .plugins = "reference", .allocator = &scarce});
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
    atomic_store(&requests_left, point);
    tn_status status = tn_graph_autocast(g, TN_BF16);
    if (!status) status = build(g, x, w, &y);
    bool failed = atomic_load(&requests_left) < 0;
    atomic_store(&requests_left, LONG_MAX);
    ck_assert_msg(!status || status == TN_ERR_OUT_OF_MEMORY ||
                      status == TN_ERR_DEVICE_OUT_OF_MEMORY,
                  "request %ld: %s", point, tn_last_error());
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
  ck_assert_int_eq(atomic_load(&in_use), 0);
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
  tcase_add_test(t, a_parameter_is_cast_once_per_version);
  tcase_add_test(t, an_updated_parameter_is_cast_anew);
  tcase_add_test(t, views_and_types_have_casts_of_their_own);
  tcase_add_test(t, types_follow_the_classes);
  tcase_add_test(t, wide_and_whole_numbers_stay);
  tcase_add_test(t, what_is_written_to_keeps_its_type);
  tcase_add_test(t, refusals_are_those_of_float32);
  tcase_add_test(t, bad_arguments);
  tcase_add_test(t, operators_of_plugins_are_left_alone);
  tcase_add_test(t, each_graph_has_its_own);
  tcase_add_test(t, threads_build_beside_each_other);
  tcase_add_test(t, gradients_pass_through_casts);
  tcase_add_test(t, the_scale_of_the_loss_adapts_on_the_device);
  tcase_add_test(t, memory_runs_out_at_every_request);
  tcase_add_test(t, a_graph_may_outlive_its_runtime);
}

int main(void) { return run_suite("autocast", add_tests); }
