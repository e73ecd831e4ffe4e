/*
 * What compiling leaves out without a bit's difference: nodes that are equal, copies, and what
 * follows from constants; and what looks like one of them and is not.
 */
#include <pthread.h>

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

/* --- constants --- */

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
  tn_tensor *weights;
  tn_tensor *result;
  tn_status status;
} work;

/* A graph of one's own, on constants that are everybody's. */
static tn_status compile_once(const work *w, tn_tensor **out) {
  tn_graph *g = NULL;
  tn_program *p = NULL;
  tn_tensor *x = NULL, *h = NULL, *y = NULL;
  tn_stream *stream = NULL;
  tn_status status = tn_graph_create(rt, "mine", &g);
  if (!status) status = tn_graph_constant(g, "w", w->weights, &x);
  if (!status) status = tn_exp(NULL, x, &h);
  if (!status) status = tn_matmul(NULL, h, x, NULL, NULL, &y);
  if (!status) status = tn_graph_output(g, "y", y);
  if (!status) status = tn_graph_compile(g, device, NULL, &p);
  if (!status && report(p).folded != 2) status = TN_ERR_INTERNAL;
  if (!status) status = tn_stream_create(device, &stream);
  if (!status) status = tn_program_run(p, stream, 0, NULL, 1, out);
  if (!status) status = tn_stream_synchronize(stream);
  RELEASE(x, h, y);
  tn_program_destroy(p);
  tn_graph_destroy(g);
  tn_stream_destroy(stream);
  return status;
}

static void *compile_often(void *ctx) {
  work *w = ctx;
  for (int i = 0; i < 20 && !w->status; ++i) {
    tn_tensor_release(w->result);
    w->result = NULL;
    w->status = compile_once(w, &w->result);
  }
  return NULL;
}

START_TEST(several_threads_compile) {
  enum { THREADS = 4 };
  tn_tensor *weights = numbers(device, 5, 5, -1), *turned = NULL, *e = NULL, *want = NULL;
  pthread_t threads[THREADS];
  work works[THREADS];
  ok(tn_tensor_permute(weights, (int32_t[]){1, 0}, &turned));
  ok(tn_exp(NULL, turned, &e));
  ok(tn_matmul(NULL, e, turned, NULL, NULL, &want));
  for (int i = 0; i < THREADS; ++i) {
    works[i] = (work){.weights = turned};
    ck_assert(!pthread_create(&threads[i], NULL, compile_often, &works[i]));
  }
  for (int i = 0; i < THREADS; ++i) {
    pthread_join(threads[i], NULL);
    ok(works[i].status);
    same(works[i].result, want);
    tn_tensor_release(works[i].result);
  }
  RELEASE(weights, turned, e, want);
}
END_TEST

/* --- options --- */

START_TEST(flags) {
  tn_graph *g = make_graph();
  tn_program *p = NULL;
  tn_compile_options options = {.struct_size = sizeof options, .flags = 8};
  refused(tn_graph_compile(g, device, &options, &p), TN_ERR_INVALID_ARGUMENT,
          "options.flags is 0x8");
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
  tcase_add_test(tcase, views_of_what_is_merged);
  tcase_add_test(tcase, parameters_between);
  tcase_add_test(tcase, outputs_that_are_merged);
  tcase_add_test(tcase, what_is_left_out_stays_out);
  tcase_add_test(tcase, copies);
  tcase_add_test(tcase, constants_are_folded);
  tcase_add_test(tcase, fills_that_are_written_over);
  tcase_add_test(tcase, what_is_not_folded);
  tcase_add_test(tcase, a_constant_that_fails);
  tcase_add_test(tcase, several_threads_compile);
  tcase_add_test(tcase, flags);
}

int main(void) { return run_suite("graph_merged", add_tests); }
