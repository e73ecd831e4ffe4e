/*
 * Models through the library: what they compute, which become programs, which run node by node,
 * and what is said of those that cannot.
 */
#include <pthread.h>
#include <string.h>

#include "builder.h"
#include "tests/support.h"

static tn_runtime *runtime;
static tn_device *device;

static void set_up(void) {
  runtime = open_runtime(NULL);
  ok(tn_device_find(runtime, "reference", &device));
}

static void tear_down(void) {
  builder_end();
  tn_runtime_close(runtime);
}

static tn_onnx *loaded(const Onnx__Model *m) {
  size_t bytes;
  tn_onnx *model = NULL;
  uint8_t *data = model_bytes(m, &bytes);
  tn_status status = tn_onnx_load_memory(runtime, device, data, bytes, NULL, &model);
  ck_assert_msg(status == TN_OK, "%s", tn_onnx_last_error());
  return model;
}

static tn_tensor *floats(int64_t n, const float *numbers) {
  tn_tensor *x;
  ok(tn_tensor_from_host(device, TN_F32, 1, &n, numbers, &x));
  return x;
}

static tn_tensor *whole(int64_t number) {
  tn_tensor *x;
  ok(tn_tensor_from_host(device, TN_I64, 0, NULL, &number, &x));
  return x;
}

/* Runs a model of one output; inputs are released. */
static tn_tensor *run(tn_onnx *model, size_t count, tn_tensor **in) {
  tn_tensor *y = NULL;
  tn_status status = tn_onnx_run(model, NULL, count, (const tn_tensor *const *)in, 1, &y);
  ck_assert_msg(status == TN_OK, "%s", tn_onnx_last_error());
  for (size_t i = 0; i < count; i++) tn_tensor_release(in[i]);
  return y;
}

/* y has these numbers; it is released. */
static void gives(tn_tensor *y, int64_t count, const float *want) {
  float got[64];
  ck_assert_int_eq(tn_tensor_elements(y), count);
  ok(tn_tensor_to_host(y, got, (size_t)count * sizeof *got));
  for (int64_t i = 0; i < count; i++)
    ck_assert_msg(got[i] == want[i], "element %d is %g, not %g", (int)i, got[i], want[i]);
  tn_tensor_release(y);
}

/* The run fails, and the message has these words. */
static void refuses(tn_onnx *model, size_t count, tn_tensor **in, const char *words) {
  tn_tensor *y = NULL;
  ck_assert_int_ne(tn_onnx_run(model, NULL, count, (const tn_tensor *const *)in, 1, &y), TN_OK);
  ck_assert_msg(strstr(tn_onnx_last_error(), words), "'%s' lacks '%s'", tn_onnx_last_error(),
                words);
  ck_assert_ptr_null(y);
  for (size_t i = 0; i < count; i++) tn_tensor_release(in[i]);
}

static tn_onnx_info report(tn_onnx *model) {
  tn_onnx_info info = {.struct_size = sizeof info};
  ck_assert_int_eq(tn_onnx_report(model, &info), TN_OK);
  return info;
}

/* y = x + w, of any length. */
static Onnx__Graph *adding(void) {
  static const float one = 1;
  Onnx__Graph *g = graph_new("adding");
  weight_add(g, "w", F32, 0, NULL, &one, sizeof one);
  input_add(g, "x", F32, 1, (int64_t[]){0});
  input_add(g, "w", F32, 0, NULL); /* weights may be listed as inputs */
  node_add(g, "Add", "x,w", "y");
  output_add(g, "y", F32, 1, (int64_t[]){0});
  return g;
}

START_TEST(a_program_is_kept_for_each_shape) {
  tn_onnx *model = loaded(model_new(adding()));
  ck_assert_uint_eq(tn_onnx_num_inputs(model), 1);
  tn_onnx_value v = {.struct_size = sizeof v};
  ck_assert_int_eq(tn_onnx_input_at(model, 0, &v), TN_OK);
  ck_assert_str_eq(v.name, "x");
  ck_assert(v.dtype == TN_F32 && v.rank == 1 && v.shape[0] == TN_SIZE_OPEN);
  ck_assert_str_eq(v.symbols[0], "n");
  ck_assert_int_eq(tn_onnx_input_at(model, 1, &v), TN_ERR_NOT_FOUND);
  for (int64_t n = 1; n <= 20; n++)
    for (int again = 0; again < 2; again++) {
      tn_tensor *x = floats(n, (float[20]){1, 2, 3});
      gives(run(model, 1, &x), n,
            (float[20]){2, 3, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    }
  tn_onnx_info info = report(model);
  ck_assert_uint_eq(info.built, 20);
  ck_assert_uint_eq(info.programs, 16); /* the default */
  ck_assert_uint_eq(info.by_node, 0);
  tn_onnx_close(model);
}
END_TEST

START_TEST(shapes_can_be_compiled_beforehand) {
  tn_onnx *model = loaded(model_new(adding()));
  const int64_t *shape = (int64_t[]){3};
  ck_assert_int_eq(tn_onnx_compile(model, 1, (int32_t[]){1}, &shape), TN_OK);
  tn_tensor *x = floats(3, (float[]){1, 2, 3});
  gives(run(model, 1, &x), 3, (float[]){2, 3, 4});
  ck_assert_uint_eq(report(model).built, 1);
  ck_assert_int_eq(tn_onnx_compile(model, 1, (int32_t[]){2}, &shape), TN_ERR_INVALID_ARGUMENT);
  tn_program_info program = {.struct_size = sizeof program};
  ck_assert_int_eq(tn_onnx_program_report(model, &program), TN_OK);
  ck_assert_uint_eq(program.runs, 1);
  tn_onnx_close(model);
}
END_TEST

START_TEST(inputs_must_fit) {
  tn_onnx *model = loaded(model_new(adding()));
  tn_tensor *x = whole(1);
  refuses(model, 1, &x, "input x is of type i64");
  ok(tn_tensor_from_host(device, TN_F32, 2, (int64_t[]){1, 1}, &(float){0}, &x));
  refuses(model, 1, &x, "2 axes and must have 1");
  refuses(model, 0, NULL, "1 inputs and 1 outputs");
  x = NULL;
  refuses(model, 1, &x, "input x is NULL");
  tn_onnx_close(model);
}
END_TEST

START_TEST(outputs_may_be_given) {
  tn_onnx *model = loaded(model_new(adding()));
  tn_tensor *x = floats(2, (float[]){1, 2}), *y = floats(2, (float[]){0, 0});
  tn_tensor *given = y;
  ck_assert_int_eq(tn_onnx_run(model, NULL, 1, (const tn_tensor *[]){x}, 1, &y), TN_OK);
  ck_assert_ptr_eq(given, y);
  gives(y, 2, (float[]){2, 3});
  tn_tensor_release(x);
  tn_onnx_close(model);
}
END_TEST

/* What is an input, or a constant, may be an output; and one value two of them. */
START_TEST(outputs_may_be_made_by_no_node) {
  Onnx__Graph *g = adding();
  output_add(g, "x", F32, 1, (int64_t[]){0});
  output_add(g, "w", F32, 0, NULL);
  output_add(g, "y", F32, 1, (int64_t[]){0});
  tn_onnx *model = loaded(model_new(g));
  tn_tensor *x = floats(1, (float[]){5}), *y[4] = {0};
  for (int i = 0; i < 2; i++) {
    ck_assert_msg(!tn_onnx_run(model, NULL, 1, (const tn_tensor *[]){x}, 4, y), "%s",
                  tn_onnx_last_error());
    static const float want[] = {6, 5, 1, 6};
    for (int k = 0; k < 4; k++) gives(y[k], 1, &want[k]), y[k] = NULL;
  }
  tn_tensor_release(x);
  tn_onnx_close(model);
}
END_TEST

/* Numbers that shapes say are computed while building: reshape to [n / 2, 2]. */
START_TEST(shapes_are_computed_while_building) {
  Onnx__Graph *g = graph_new("halves");
  input_add(g, "x", F32, -1, NULL);
  output_add(g, "y", F32, -1, NULL);
  weight_add(g, "two", I64, 1, (int64_t[]){1}, &(int64_t){2}, 8);
  node_add(g, "Shape", "x", "s");
  node_add(g, "Div", "s,two", "half");
  attribute_int(node_add(g, "Concat", "half,two", "to"), "axis", 0);
  node_add(g, "Reshape", "x,to", "y");
  tn_onnx *model = loaded(model_new(g));
  tn_tensor *x = floats(6, (float[]){1, 2, 3, 4, 5, 6}), *y = run(model, 1, &x);
  ck_assert(tn_tensor_rank(y) == 2 && tn_tensor_shape(y)[0] == 3 && tn_tensor_shape(y)[1] == 2);
  tn_tensor_release(y);
  ck_assert_uint_eq(report(model).by_node, 0);
  ck_assert_uint_ge(report(model).folded, 2);
  tn_onnx_close(model);
}
END_TEST

static Onnx__Graph *branch(const char *op) {
  Onnx__Graph *g = graph_new(op);
  node_add(g, op, "x,x", "result"); /* of the graph outside */
  output_add(g, "result", F32, -1, NULL);
  return g;
}

/* y = condition ? x + x : x * x */
static Onnx__Graph *choosing(void) {
  Onnx__Graph *g = graph_new("choosing");
  input_add(g, "x", F32, -1, NULL);
  Onnx__Node *n = node_add(g, "If", "condition", "y");
  attribute_graph(n, "then_branch", branch("Add"));
  attribute_graph(n, "else_branch", branch("Mul"));
  output_add(g, "y", F32, -1, NULL);
  return g;
}

START_TEST(conditions_that_are_known_choose_while_building) {
  Onnx__Graph *g = choosing();
  weight_add(g, "condition", BOOL, 0, NULL, &(uint8_t){7}, 1); /* bytes of bools are 0 or not */
  tn_onnx *model = loaded(model_new(g));
  tn_tensor *x = floats(1, (float[]){3});
  gives(run(model, 1, &x), 1, (float[]){6});
  ck_assert_uint_eq(report(model).by_node, 0);
  tn_onnx_close(model);
}
END_TEST

START_TEST(small_inputs_choose_programs_by_their_numbers) {
  Onnx__Graph *g = choosing();
  input_add(g, "condition", BOOL, 0, NULL);
  tn_onnx *model = loaded(model_new(g));
  for (int i = 0; i < 6; i++) {
    tn_tensor *in[2] = {floats(1, (float[]){3})};
    ok(tn_tensor_from_host(device, TN_BOOL, 0, NULL, &(uint8_t){i % 2}, &in[1]));
    gives(run(model, 2, in), 1, (float[]){i % 2 ? 6 : 9});
  }
  ck_assert_uint_eq(report(model).built, 2);
  ck_assert_uint_eq(report(model).by_node, 0);
  tn_onnx_close(model);
}
END_TEST

/* The condition is computed from floats: only a run knows it. */
START_TEST(conditions_of_a_run_are_read_in_it) {
  Onnx__Graph *g = choosing();
  Onnx__Node *sum = node_add(g, "ReduceSum", "x", "s");
  attribute_int(sum, "keepdims", 0);
  weight_add(g, "ten", F32, 0, NULL, &(float){10}, 4);
  node_add(g, "Less", "s,ten", "condition");
  Onnx__Node *choice = g->node[0]; /* behind what it reads */
  memmove(g->node, g->node + 1, 2 * sizeof *g->node);
  g->node[2] = choice;
  tn_onnx *model = loaded(model_new(g));
  for (int i = 0; i < 4; i++) {
    tn_tensor *x = floats(1, (float[]){i % 2 ? 30 : 3});
    gives(run(model, 1, &x), 1, (float[]){i % 2 ? 900 : 6});
  }
  ck_assert_uint_eq(report(model).by_node, 1);
  ck_assert_ptr_nonnull(strstr(report(model).by_node_reason, "depends on numbers of the run"));
  tn_onnx_close(model);
}
END_TEST

/* Doubles x as many times as an input says, and keeps each step's. */
static Onnx__Graph *doubling(void) {
  Onnx__Graph *g = graph_new("doubling"), *body = graph_new("body");
  input_add(body, "i", I64, 0, NULL);
  input_add(body, "go", BOOL, 0, NULL);
  input_add(body, "v", F32, -1, NULL);
  node_add(body, "Identity", "go", "go_on");
  node_add(body, "Add", "v,v", "twice");
  node_add(body, "Identity", "twice", "step");
  output_add(body, "go_on", BOOL, 0, NULL);
  output_add(body, "twice", F32, -1, NULL);
  output_add(body, "step", F32, 1, (int64_t[]){2});
  input_add(g, "x", F32, -1, NULL);
  attribute_graph(node_add(g, "Loop", "turns,,x", "last,y"), "body", body);
  output_add(g, "y", F32, -1, NULL);
  return g;
}

START_TEST(loops_are_written_out) {
  Onnx__Graph *g = doubling();
  weight_add(g, "turns", I64, 0, NULL, &(int64_t){3}, 8);
  tn_onnx *model = loaded(model_new(g));
  tn_tensor *x = floats(2, (float[]){1, 3});
  gives(run(model, 1, &x), 6, (float[]){2, 6, 4, 12, 8, 24});
  ck_assert_uint_eq(report(model).by_node, 0);
  tn_onnx_close(model);
}
END_TEST

START_TEST(loops_may_have_no_turn) {
  Onnx__Graph *g = doubling();
  input_add(g, "turns", I64, 0, NULL);
  tn_onnx *model = loaded(model_new(g));
  for (int64_t turns = 0; turns < 3; turns++) {
    tn_tensor *in[2] = {floats(2, (float[]){1, 3}), whole(turns)};
    gives(run(model, 2, in), 2 * turns, (float[]){2, 6, 4, 12});
  }
  tn_onnx_close(model);
}
END_TEST

START_TEST(loops_without_end_are_refused) {
  Onnx__Graph *g = doubling();
  weight_add(g, "turns", I64, 0, NULL, &(int64_t){INT64_MAX}, 8);
  tn_onnx *model = loaded(model_new(g));
  tn_tensor *x = floats(1, (float[]){0});
  refuses(model, 1, &x, "more than 65536 nodes");
  tn_onnx_close(model);
}
END_TEST

/* Running sums, from the end. */
START_TEST(scans_go_over_an_axis) {
  Onnx__Graph *g = graph_new("sums"), *body = graph_new("body");
  input_add(body, "sum", F32, 0, NULL);
  input_add(body, "at", F32, 0, NULL);
  node_add(body, "Add", "sum,at", "next");
  node_add(body, "Identity", "next", "out");
  output_add(body, "next", F32, 0, NULL);
  output_add(body, "out", F32, 0, NULL);
  weight_add(g, "zero", F32, 0, NULL, &(float){0}, 4);
  input_add(g, "x", F32, 1, (int64_t[]){0});
  Onnx__Node *scan = node_add(g, "Scan", "zero,x", "all,y");
  attribute_graph(scan, "body", body);
  attribute_int(scan, "num_scan_inputs", 1);
  attribute_ints(scan, "scan_input_directions", 1, (int64_t[]){1});
  attribute_ints(scan, "scan_output_directions", 1, (int64_t[]){1});
  output_add(g, "y", F32, 1, (int64_t[]){0});
  tn_onnx *model = loaded(model_new(g));
  tn_tensor *x = floats(4, (float[]){1, 2, 3, 4});
  gives(run(model, 1, &x), 4, (float[]){10, 9, 7, 4});
  ck_assert_uint_eq(report(model).by_node, 0);
  tn_onnx_close(model);
}
END_TEST

/* A function with an attribute, called by a function. */
START_TEST(functions_are_written_out) {
  Onnx__Graph *g = graph_new("calls");
  Onnx__Model *m = model_new(g);
  model_opset(m, "test", 1);
  Onnx__Function *leaky = function_add(m, "Leak", "a", "b");
  Onnx__Attribute *slope = attribute_add(function_node(leaky, "LeakyRelu", "a", "b"), "alpha");
  slope->ref_attr_name = builder_text("slope");
  Onnx__Function *outer = function_add(m, "Twice", "a", "b");
  Onnx__Node *call = function_node(outer, "Leak", "a", "t");
  call->domain = builder_text("test");
  attribute_add(call, "slope")->ref_attr_name = builder_text("by");
  function_node(outer, "Add", "t,t", "b");
  input_add(g, "x", F32, -1, NULL);
  Onnx__Node *n = node_add(g, "Twice", "x", "y");
  n->domain = builder_text("test");
  Onnx__Attribute *by = attribute_add(n, "by");
  by->has_f = true;
  by->f = 0.5f;
  output_add(g, "y", F32, -1, NULL);
  tn_onnx *model = loaded(m);
  tn_tensor *x = floats(2, (float[]){-2, 3});
  gives(run(model, 1, &x), 2, (float[]){-2, 6});
  tn_onnx_close(model);
}
END_TEST

/* The places of what is not 0: a shape that only a run knows. */
START_TEST(shapes_that_depend_on_numbers_run_node_by_node) {
  Onnx__Graph *g = graph_new("places");
  input_add(g, "x", F32, 1, (int64_t[]){0});
  node_add(g, "NonZero", "x", "where");
  node_add(g, "Transpose", "where", "rows");
  attribute_int(node_add(g, "Gather", "x,rows", "y"), "axis", 0);
  output_add(g, "y", F32, -1, NULL);
  tn_onnx *model = loaded(model_new(g));
  tn_tensor *x = floats(4, (float[]){0, 2, 0, 4});
  gives(run(model, 1, &x), 2, (float[]){2, 4});
  x = floats(4, (float[]){0, 0, 0, 0});
  gives(run(model, 1, &x), 0, NULL);
  ck_assert_uint_eq(report(model).by_node, 1);
  tn_onnx_close(model);
}
END_TEST

START_TEST(nodes_that_are_not_served_are_listed) {
  Onnx__Graph *g = choosing();
  input_add(g, "condition", BOOL, 0, NULL);
  Onnx__Node *n = node_add(branch("Add"), "Frobnicate", "x", "z");
  n->name = builder_text("strange");
  g->node[0]->attribute[0]->g->node[0] = n;
  n->output[0] = builder_text("result");
  node_add(g, "SequenceConstruct", "x", "list");
  node_add(g, "Gelu", "x", "later"); /* which opset 20 has */
  tn_onnx *model = loaded(model_new(g));
  static const char *const ops[] = {"SequenceConstruct", "Gelu", "Frobnicate"};
  tn_onnx_node is = {.struct_size = sizeof is};
  for (size_t k = 0; k < 3; k++) {
    bool found = false;
    for (size_t i = 0; tn_onnx_unserved_at(model, i, &is) == TN_OK; i++)
      found = found || !strcmp(is.op, ops[k]);
    ck_assert_msg(found, "%s is not listed", ops[k]);
  }
  ck_assert_int_eq(tn_onnx_unserved_at(model, 3, &is), TN_ERR_NOT_FOUND);
  tn_tensor *in[2] = {floats(1, (float[]){3})};
  ok(tn_tensor_from_host(device, TN_BOOL, 0, NULL, &(uint8_t){1}, &in[1]));
  refuses(model, 2, in, "node strange (Frobnicate, opset 13): the operator is not served");
  tn_onnx_close(model);
}
END_TEST

START_TEST(messages_name_the_node) {
  Onnx__Graph *g = graph_new("wrong");
  input_add(g, "x", F32, -1, NULL);
  weight_add(g, "to", I64, 1, (int64_t[]){1}, &(int64_t){7}, 8);
  node_add(g, "Reshape", "x,to", "y")->name = builder_text("fit");
  output_add(g, "y", F32, -1, NULL);
  tn_onnx *model = loaded(model_new(g));
  tn_tensor *x = floats(2, (float[]){1, 2});
  refuses(model, 1, &x, "node fit (Reshape, opset 13)");
  x = floats(7, (float[7]){1});
  gives(run(model, 1, &x), 7, (float[7]){1});
  tn_onnx_close(model);
}
END_TEST

static void *run_shapes(void *context) {
  tn_onnx *model = context;
  for (int i = 0; i < 40; i++) {
    tn_tensor *x = NULL, *y = NULL;
    tn_stream *stream = NULL;
    float numbers[8] = {1}, got[8];
    int64_t n = 1 + i % 8;
    bool good = !tn_tensor_from_host(device, TN_F32, 1, &n, numbers, &x) &&
                !tn_stream_create(device, &stream) &&
                !tn_onnx_run(model, stream, 1, (const tn_tensor *[]){x}, 1, &y) &&
                !tn_tensor_to_host(y, got, (size_t)n * sizeof *got) && got[0] == 2;
    tn_tensor_release(x);
    tn_tensor_release(y);
    tn_stream_destroy(stream);
    if (!good) return model;
  }
  return NULL;
}

START_TEST(threads_may_share_a_model) {
  size_t bytes;
  uint8_t *data = model_bytes(model_new(adding()), &bytes);
  tn_onnx *model;
  const tn_onnx_options few = {.struct_size = sizeof few, .max_programs = 2};
  ck_assert_int_eq(tn_onnx_load_memory(runtime, device, data, bytes, &few, &model), TN_OK);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, run_shapes, model);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    ck_assert_ptr_null(failed);
  }
  ck_assert_uint_le(report(model).programs, 2);
  tn_onnx_close(model);
}
END_TEST

static void metadata_add(Onnx__Model *m, size_t at, Onnx__Entry *entry, char *key, char *value) {
  static Onnx__Entry *list[3];
  onnx__entry__init(entry);
  entry->key = key;
  entry->value = value;
  list[at] = entry;
  m->metadata = list;
  m->n_metadata = at + 1;
}

START_TEST(metadata_is_told) {
  Onnx__Model *m = model_new(adding());
  Onnx__Entry entries[3];
  const char *key, *value;
  metadata_add(m, 0, &entries[0], builder_text("character"), builder_text("a\nb"));
  metadata_add(m, 1, &entries[1], builder_text("empty"), NULL);
  metadata_add(m, 2, &entries[2], NULL, builder_text("keyless"));
  tn_onnx *model = loaded(m);
  ck_assert_str_eq(tn_onnx_metadata(model, "character"), "a\nb");
  ck_assert_str_eq(tn_onnx_metadata(model, "empty"), "");
  ck_assert_ptr_null(tn_onnx_metadata(model, "none"));
  ck_assert_ptr_null(tn_onnx_metadata(NULL, "none"));
  ck_assert_ptr_null(tn_onnx_metadata(model, NULL));
  ck_assert_int_eq(tn_onnx_metadata_at(model, 2, &key, &value), TN_OK);
  ck_assert_str_eq(key, "");
  ck_assert_str_eq(value, "keyless");
  ck_assert_int_eq(tn_onnx_metadata_at(model, 3, &key, &value), TN_ERR_NOT_FOUND);
  tn_onnx_close(model);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_test(t, a_program_is_kept_for_each_shape);
  tcase_add_test(t, shapes_can_be_compiled_beforehand);
  tcase_add_test(t, inputs_must_fit);
  tcase_add_test(t, outputs_may_be_given);
  tcase_add_test(t, outputs_may_be_made_by_no_node);
  tcase_add_test(t, shapes_are_computed_while_building);
  tcase_add_test(t, conditions_that_are_known_choose_while_building);
  tcase_add_test(t, small_inputs_choose_programs_by_their_numbers);
  tcase_add_test(t, conditions_of_a_run_are_read_in_it);
  tcase_add_test(t, loops_are_written_out);
  tcase_add_test(t, loops_may_have_no_turn);
  tcase_add_test(t, loops_without_end_are_refused);
  tcase_add_test(t, scans_go_over_an_axis);
  tcase_add_test(t, functions_are_written_out);
  tcase_add_test(t, shapes_that_depend_on_numbers_run_node_by_node);
  tcase_add_test(t, nodes_that_are_not_served_are_listed);
  tcase_add_test(t, messages_name_the_node);
  tcase_add_test(t, threads_may_share_a_model);
  tcase_add_test(t, metadata_is_told);
}

int main(void) { return run_suite("onnx models", add_tests); }
