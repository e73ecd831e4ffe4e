/*
 * Functions: one program for each combination of shapes and types, built on first use, the oldest
 * dropped. What threads do to one: test_function_threads.c.
 */
#include "tests/graph/functions.h"

START_TEST(builds_once_for_each_shape) {
  static const int64_t rows[] = {5, 1, 0, 5, 1, 0, 1000, 5};
  model m = {.w = numbers(device, 3, 4, -1)};
  tn_function *f = make(build_model, &m, 0, &rows_of_3, 1);
  ck_assert_int_eq(m.builds, 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) run_rows(f, &m, rows[i], (float)i);
  ck_assert_int_eq(m.builds, 4);
  tn_function_info info = told(f);
  ck_assert_uint_eq(info.programs, 4);
  ck_assert_uint_eq(info.built, 4);
  ck_assert_uint_eq(info.dropped, 0);
  ck_assert_uint_eq(info.failed, 0);
  ck_assert_uint_eq(info.runs, sizeof rows / sizeof *rows);
  ck_assert_uint_ge(info.planned_bytes, 1000 * 4 * sizeof(float));
  tn_function_destroy(f);
  tn_tensor_release(m.w);
}
END_TEST

/* Strided inputs, outputs that are given, a stream: as tn_program_run has them. */
START_TEST(runs_as_programs_do) {
  model m = {.w = numbers(device, 3, 4, -1)};
  tn_function *f = make(build_model, &m, 0, &rows_of_3, 1);
  tn_tensor *wide = numbers(device, 3, 6, 0.5f), *x = NULL, *want = NULL, *given = NULL;
  tn_stream *stream = NULL;
  ok(tn_tensor_permute(wide, (int32_t[]){1, 0}, &x));
  ok(tn_stream_create(device, &stream));
  ok(tn_tensor_empty(device, TN_F32, 1, SHAPE(24), &given));
  tn_tensor *out = given;
  ok(tn_function_run(f, stream, 1, (const tn_tensor *[]){x}, 1, &out));
  ok(tn_stream_synchronize(stream));
  ck_assert_ptr_eq(out, given);
  ok(forward(x, m.w, &want));
  same(given, want);
  refused(tn_function_run(f, stream, 1, (const tn_tensor *[]){x}, 0, NULL), TN_ERR_INVALID_ARGUMENT,
          "1 inputs and 0 outputs given");
  tn_stream_destroy(stream);
  tn_function_destroy(f);
  RELEASE(wide, x, want, given, m.w);
}
END_TEST

START_TEST(the_least_used_goes) {
  model m = {.w = numbers(device, 3, 4, -1)};
  tn_function *f = make(build_model, &m, 3, &rows_of_3, 1);
  for (int64_t rows = 1; rows <= 3; ++rows) run_rows(f, &m, rows, 1);
  run_rows(f, &m, 1, 2);
  run_rows(f, &m, 4, 2); /* 2 goes */
  ck_assert_int_eq(m.builds, 4);
  run_rows(f, &m, 1, 3);
  run_rows(f, &m, 3, 3);
  ck_assert_int_eq(m.builds, 4);
  run_rows(f, &m, 2, 3); /* 4 goes */
  ck_assert_int_eq(m.builds, 5);
  ck_assert_uint_eq(told(f).programs, 3);
  ck_assert_uint_eq(told(f).dropped, 2);
  tn_function_destroy(f);
  tn_tensor_release(m.w);
}
END_TEST

/* Without declarations: any number of inputs of any type, each combination a program. */
static tn_status build_sum(void *context, tn_graph *g, size_t num_in, tn_tensor *const *in) {
  tn_tensor *sum = NULL;
  tn_graph_value value = {.struct_size = sizeof value};
  char name[32];
  ++*(int *)context;
  for (size_t i = 0; i < num_in; ++i) {
    snprintf(name, sizeof name, "in%zu", i);
    ok(tn_graph_value_at(g, i, &value));
    ck_assert_str_eq(value.name, name);
  }
  tn_status status = tn_add(NULL, in[0], in[num_in - 1], &sum);
  if (!status) status = tn_graph_output(g, "sum", sum);
  tn_tensor_release(sum);
  return status;
}

START_TEST(without_declarations) {
  int builds = 0;
  tn_function *f = NULL;
  tn_tensor *a = numbers(device, 2, 3, 1), *b = NULL, *got = NULL, *want = NULL;
  ok(tn_function_create(rt, NULL, NULL, build_sum, &builds, NULL, &f));
  ok(tn_cast(NULL, a, &(tn_cast_attrs){.struct_size = sizeof(tn_cast_attrs), .dtype = TN_F64}, &b));
  for (int round = 0; round < 2; ++round) {
    ok(tn_function_run(f, NULL, 1, (const tn_tensor *[]){a}, 1, &got));
    ok(tn_add(NULL, a, a, &want));
    same(got, want);
    RELEASE(got, want);
    got = want = NULL;
    ok(tn_function_run(f, NULL, 2, (const tn_tensor *[]){b, b}, 1, &got));
    ok(tn_add(NULL, b, b, &want));
    same(got, want);
    RELEASE(got, want);
    got = want = NULL;
  }
  ck_assert_int_eq(builds, 2);
  tn_function_destroy(f);
  RELEASE(a, b);
}
END_TEST

/* --- what does not fit --- */

static tn_status build_pair(void *context, tn_graph *g, size_t num_in, tn_tensor *const *in) {
  (void)num_in;
  ++*(int *)context;
  return tn_graph_output(g, "x", in[0]);
}

START_TEST(sizes_that_do_not_fit) {
  static const char *const tokens[] = {"batch", "sequence"}, *const mask[] = {"batch", NULL,
                                                                              "sequence"};
  const tn_function_input inputs[] = {
      {.name = "tokens", .dtype = TN_F32, .rank = 2, .symbols = tokens},
      {.name = "mask",
       .dtype = TN_F32,
       .rank = 3,
       .shape = (const int64_t[]){TN_SIZE_OPEN, 1, TN_SIZE_OPEN},
       .symbols = mask},
      {.name = "any", .dtype = TN_DTYPE_NONE, .rank = TN_RANK_OPEN}};
  int builds = 0;
  tn_function *f = make(build_pair, &builds, 0, inputs, 3);
  tn_tensor *x = numbers(device, 4, 6, 1), *y = NULL, *z = NULL, *half = NULL, *out = NULL;
  ok(tn_tensor_empty(device, TN_F32, 3, SHAPE(4, 1, 6), &y));
  ok(tn_tensor_empty(device, TN_F32, 3, SHAPE(4, 1, 5), &z));
  ok(tn_tensor_empty(device, TN_F16, 2, SHAPE(4, 6), &half));
#define RUN(...) tn_function_run(f, NULL, 3, (const tn_tensor *[]){__VA_ARGS__}, 1, &out)
  refused(RUN(x, z, x), TN_ERR_INVALID_ARGUMENT, "input \"mask\" (");
  refused(RUN(x, z, x), TN_ERR_INVALID_ARGUMENT,
          "size 2, \"sequence\", is 5, and size 1 of input \"tokens\", the same, is 6");
  refused(RUN(x, x, x), TN_ERR_INVALID_ARGUMENT, "input \"mask\"");
  refused(RUN(x, x, x), TN_ERR_INVALID_ARGUMENT, "it must have 3 sizes, and has 2");
  refused(RUN(half, y, x), TN_ERR_INVALID_ARGUMENT, "it must be f32; use tn_cast");
  refused(RUN(x, NULL, x), TN_ERR_INVALID_ARGUMENT, "input \"mask\": it is NULL");
  tn_tensor *turned = NULL;
  ok(tn_tensor_permute(y, (int32_t[]){0, 2, 1}, &turned));
  refused(RUN(x, turned, x), TN_ERR_INVALID_ARGUMENT, "size 1 is 6 and must be 1");
  refused(tn_function_run(f, NULL, 2, (const tn_tensor *[]){x, y}, 1, &out),
          TN_ERR_INVALID_ARGUMENT, "2 inputs given, it has 3");
  ck_assert_int_eq(builds, 0);
  ck_assert_ptr_null(out);
  ok(RUN(x, y, half));
  ck_assert_int_eq(builds, 1);
  /* It leaves what is kept alone. */
  refused(RUN(x, z, x), TN_ERR_INVALID_ARGUMENT, "sequence");
  ck_assert_uint_eq(told(f).programs, 1);
  tn_function_destroy(f);
  RELEASE(x, y, z, half, turned, out);
}
END_TEST

START_TEST(a_size_twice_in_one_input) {
  static const char *const square[] = {"side", "side"};
  const tn_function_input inputs[] = {{.name = "x", .rank = 2, .symbols = square}};
  int builds = 0;
  tn_function *f = make(build_pair, &builds, 0, inputs, 1);
  tn_tensor *x = numbers(device, 3, 3, 1), *y = numbers(device, 3, 2, 1), *out = NULL;
  refused(tn_function_run(f, NULL, 1, (const tn_tensor *[]){y}, 1, &out), TN_ERR_INVALID_ARGUMENT,
          "size 1, \"side\", is 2, and size 0 of input \"x\", the same, is 3");
  ok(tn_function_run(f, NULL, 1, (const tn_tensor *[]){x}, 1, &out));
  tn_function_destroy(f);
  RELEASE(x, y, out);
}
END_TEST

START_TEST(declarations_that_are_refused) {
  const tn_function_input bad[][2] = {
      {{.name = NULL, .rank = 1}},
      {{.name = "a", .rank = 1}, {.name = "a", .rank = 1}},
      {{.name = "a", .rank = TN_MAX_RANK + 1}},
      {{.name = "a", .rank = -2}},
      {{.name = "a", .rank = 1, .dtype = (tn_dtype)99}},
      {{.name = "a", .rank = 1, .shape = (const int64_t[]){-2}}},
  };
  static const char *const why[] = {"needs a name", "so is another",   "rank",
                                    "rank",         "no element type", "negative"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    const tn_function_options options = {.struct_size = sizeof options,
                                         .inputs = bad[i],
                                         .num_inputs = i == 1 ? 2 : 1,
                                         .input_size = sizeof **bad};
    tn_function *f = NULL;
    refused(tn_function_create(rt, device, "f", build_pair, NULL, &options, &f),
            TN_ERR_INVALID_ARGUMENT, why[i]);
    ck_assert_ptr_null(f);
  }
  tn_function_options unsized = {.struct_size = sizeof unsized, .inputs = &rows_of_3};
  tn_function *f = NULL;
  refused(tn_function_create(rt, device, "f", build_pair, NULL, &unsized, &f),
          TN_ERR_INVALID_ARGUMENT, "sizeof(tn_function_input)");
  unsized = (tn_function_options){0};
  refused(tn_function_create(rt, device, "f", build_pair, NULL, &unsized, &f),
          TN_ERR_INVALID_ARGUMENT, "sizeof(tn_function_options)");
  refused(tn_function_create(rt, device, "f", NULL, NULL, NULL, &f), TN_ERR_INVALID_ARGUMENT,
          "must not be NULL");
}
END_TEST

/* --- building that fails --- */

START_TEST(a_failed_build_leaves_nothing) {
  model m = {.w = numbers(device, 3, 4, -1), .stop = 2};
  tn_function *f = make(build_model, &m, 0, &rows_of_3, 1);
  tn_tensor *x = numbers(device, 5, 3, 1), *out = NULL;
  for (int i = 0; i < 2; ++i) {
    refused(tn_function_run(f, NULL, 1, (const tn_tensor *[]){x}, 1, &out), TN_ERR_INVALID_ARGUMENT,
            "function model for (x f32 [5, 3]): tn_matmul: a has 3 columns");
    ck_assert_ptr_null(out);
  }
  ck_assert_uint_eq(told(f).failed, 2);
  ck_assert_uint_eq(told(f).programs, 0);
  run_rows(f, &m, 5, 1);
  ck_assert_uint_eq(told(f).programs, 1);
  tn_function_destroy(f);
  RELEASE(x, m.w);
}
END_TEST

static tn_status build_nothing(void *context, tn_graph *g, size_t num_in, tn_tensor *const *in) {
  (void)g, (void)num_in, (void)in;
  return *(const tn_status *)context;
}

/* Runs the function that it builds. */
typedef struct knot {
  tn_function *function;
  tn_status inner;
  char why[256];
} knot;
static tn_status build_knot(void *context, tn_graph *g, size_t num_in, tn_tensor *const *in) {
  knot *k = context;
  tn_tensor *x = numbers(device, 2, 2, 1), *out = NULL;
  (void)num_in;
  tn_call_site("left behind");
  k->inner = tn_function_run(k->function, NULL, 1, (const tn_tensor *[]){x}, 1, &out);
  snprintf(k->why, sizeof k->why, "%s", tn_last_error());
  tn_tensor_release(x);
  return tn_graph_output(g, "x", in[0]);
}

START_TEST(building_functions_that_misbehave) {
  tn_tensor *x = numbers(device, 2, 2, 1), *out = NULL;
  tn_status odd = (tn_status)77, plain = TN_ERR_UNSUPPORTED;
  tn_function *f = make(build_nothing, &odd, 0, NULL, 0),
              *g = make(build_nothing, &plain, 0, NULL, 0);
  refused(tn_function_run(f, NULL, 1, (const tn_tensor *[]){x}, 1, &out), TN_ERR_INVALID_ARGUMENT,
          "77, which is no tn_status");
  refused(tn_function_run(g, NULL, 1, (const tn_tensor *[]){x}, 1, &out), TN_ERR_UNSUPPORTED,
          "gave no reason");
  knot k = {0};
  tn_function *h = k.function = make(build_knot, &k, 0, NULL, 0);
  ok(tn_function_run(h, NULL, 1, (const tn_tensor *[]){x}, 1, &out));
  ck_assert_int_eq(k.inner, TN_ERR_INVALID_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(k.why, "a building function cannot wait"));
  ck_assert_ptr_null(tn_call_site(NULL));
  tn_function_destroy(f);
  tn_function_destroy(g);
  tn_function_destroy(h);
  RELEASE(x, out);
}
END_TEST

/* --- random operators --- */

static tn_status drop(const tn_tensor *x, tn_generator *generator, tn_tensor **y) {
  tn_dropout_attrs attrs = TN_DROPOUT_DEFAULTS;
  tn_tensor *mask = NULL;
  attrs.p = 0.5;
  tn_status status = tn_generator_next(generator, TN_OP_DROPOUT, x, &attrs);
  if (!status) status = tn_dropout(NULL, x, &attrs, y, &mask);
  tn_tensor_release(mask);
  return status;
}

static tn_status build_draw(void *context, tn_graph *g, size_t num_in, tn_tensor *const *in) {
  tn_generator *generator = NULL;
  tn_tensor *y = NULL;
  (void)context, (void)num_in;
  ok(tn_generator_create(rt, 7, &generator));
  tn_status status = drop(in[0], generator, &y);
  tn_generator_destroy(generator);
  if (!status) status = tn_graph_output(g, "y", y);
  tn_tensor_release(y);
  return status;
}

/* Each program's graph says the same offset: what one run drew no other shape's run draws. */
START_TEST(all_programs_draw_from_one_sequence) {
  tn_function *f = make(build_draw, NULL, 0, NULL, 0);
  tn_generator *generator = NULL;
  ok(tn_generator_create(rt, 7, &generator));
  for (int i = 0; i < 9; ++i) {
    tn_tensor *x = numbers(device, 1, 48 + i % 3 * 16, 1), *got = NULL, *want = NULL;
    ok(tn_function_run(f, NULL, 1, (const tn_tensor *[]){x}, 1, &got));
    ok(drop(x, generator, &want));
    same(got, want);
    RELEASE(x, got, want);
  }
  tn_generator_destroy(generator);
  tn_function_destroy(f);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, builds_once_for_each_shape);
  tcase_add_test(tcase, runs_as_programs_do);
  tcase_add_test(tcase, the_least_used_goes);
  tcase_add_test(tcase, without_declarations);
  tcase_add_test(tcase, sizes_that_do_not_fit);
  tcase_add_test(tcase, a_size_twice_in_one_input);
  tcase_add_test(tcase, declarations_that_are_refused);
  tcase_add_test(tcase, a_failed_build_leaves_nothing);
  tcase_add_test(tcase, building_functions_that_misbehave);
  tcase_add_test(tcase, all_programs_draw_from_one_sequence);
}

int main(void) { return run_suite("graph_functions", add_tests); }
