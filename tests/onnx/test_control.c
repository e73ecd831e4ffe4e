/*
 * Conditions, loops, scans and functions of models: which are written out while a program is built,
 * which only a run knows, and what is listed of their bodies that is not served.
 */
#include "models.h"

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

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
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
}

int main(void) { return run_suite("onnx control", add_tests); }
