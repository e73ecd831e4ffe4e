/*
 * Nodes as no case of ONNX's has them: what cannot be expressed is said, and nothing beyond a list
 * or a tensor is read.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"
#include "tools/onnx/node.h"

static tn_runtime *runtime;
static tn_device *device;

static void set_up(void) {
  runtime = open_runtime(NULL);
  ok(tn_device_find(runtime, "reference", &device));
}

static void tear_down(void) { tn_runtime_close(runtime); }

/* A node of up to 4 attributes and the tensors that tests gave it. */
typedef struct trial {
  Onnx__Node node;
  Onnx__Attribute attribute[4], *attributes[4];
  char *in[20], *out[20];
  onnx_node at;
} trial;

static void trial_begin(trial *t, const char *type, size_t inputs, size_t outputs) {
  static char tensor[] = "t";
  memset(t, 0, sizeof *t);
  onnx__node__init(&t->node);
  for (int i = 0; i < 20; i++) t->in[i] = t->out[i] = tensor;
  t->node.op_type = strdup(type);
  t->node.input = t->in;
  t->node.output = t->out;
  t->node.attribute = t->attributes;
  t->node.n_input = inputs;
  t->node.n_output = outputs;
  node_begin(&t->at, &t->node, runtime, device);
}

static Onnx__Attribute *attribute(trial *t, const char *name) {
  Onnx__Attribute *a = &t->attribute[t->node.n_attribute];
  onnx__attribute__init(a);
  a->name = strdup(name);
  t->attributes[t->node.n_attribute++] = a;
  return a;
}

static void ints(trial *t, const char *name, size_t count, int64_t *list) {
  Onnx__Attribute *a = attribute(t, name);
  a->n_ints = count;
  a->ints = list;
}

static void input(trial *t, int i, tn_dtype dtype, int32_t rank, const int64_t *shape, void *data) {
  onnx_tensor *in = &t->at.in[i];
  *in = (onnx_tensor){.present = true, .dtype = dtype, .rank = rank, .elements = 1, .data = data};
  for (int32_t k = 0; k < rank; k++) in->elements *= in->shape[k] = shape[k];
  ck_assert_int_eq(tn_tensor_from_host(device, dtype, rank, shape, data, &t->at.x[i]), TN_OK);
}

static void trial_end(trial *t) {
  for (size_t i = 0; i < t->node.n_attribute; i++) free(t->attribute[i].name);
  for (int i = 0; i < NODE_TENSORS; i++) {
    tn_tensor_release(t->at.x[i]);
    tn_tensor_release(t->at.y[i]);
  }
  free(t->node.op_type);
}

/* The node cannot be expressed, and the reason has these words. */
static void refuses(trial *t, const char *words) {
  ck_assert_int_eq(node_run(&t->at), TN_OK);
  ck_assert_msg(strstr(t->at.cannot, words), "'%s' lacks '%s'", t->at.cannot, words);
  trial_end(t);
}

static float numbers[24];
static int64_t places[4];

START_TEST(unknown_operators_are_named) {
  trial t;
  trial_begin(&t, "Frobnicate", 0, 1);
  refuses(&t, "Frobnicate");
}
END_TEST

START_TEST(too_many_tensors_are_refused) {
  trial t;
  trial_begin(&t, "Sum", NODE_TENSORS + 1, 1);
  refuses(&t, "more than 12 inputs");
}
END_TEST

START_TEST(numbers_must_be_known_and_there) {
  trial t;
  trial_begin(&t, "Reshape", 2, 1);
  input(&t, 0, TN_F32, 1, (int64_t[]){24}, numbers);
  input(&t, 1, TN_I64, 1, (int64_t[]){2}, places);
  t.at.in[1].data = NULL; /* a result of another node */
  refuses(&t, "numbers of input 1");

  trial_begin(&t, "Pad", 2, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  input(&t, 1, TN_I64, 1, (int64_t[]){2}, places); /* two axes want four */
  refuses(&t, "numbers of input 1");
}
END_TEST

START_TEST(lists_must_fit_the_axes) {
  int64_t list[40] = {1, 1, 1};
  trial t;
  trial_begin(&t, "Conv", 2, 1);
  input(&t, 0, TN_F32, 4, (int64_t[]){1, 1, 4, 6}, numbers);
  input(&t, 1, TN_F32, 4, (int64_t[]){1, 1, 2, 2}, numbers);
  ints(&t, "strides", 1, list);
  refuses(&t, "strides of 1 numbers for 2 axes");

  trial_begin(&t, "MaxPool", 1, 1);
  input(&t, 0, TN_F32, 4, (int64_t[]){1, 1, 4, 6}, numbers);
  ints(&t, "kernel_shape", 1, list);
  refuses(&t, "kernel");

  trial_begin(&t, "Transpose", 1, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  ints(&t, "perm", 1, list);
  refuses(&t, "permutation");

  trial_begin(&t, "ReduceSum", 1, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  ints(&t, "axes", 40, list);
  refuses(&t, "more than 8 axes");

  trial_begin(&t, "Unsqueeze", 1, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  list[0] = 7;
  ints(&t, "axes", 1, list);
  refuses(&t, "axis 7 of a tensor of 3");

  trial_begin(&t, "Split", 1, 3);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  ints(&t, "split", 2, list);
  refuses(&t, "split");
}
END_TEST

START_TEST(absurd_shapes_are_refused) {
  int64_t large[] = {INT64_MAX / 2, 4};
  float ends[] = {0, 1}, step = 0;
  trial t;
  trial_begin(&t, "Reshape", 2, 1);
  input(&t, 0, TN_F32, 1, (int64_t[]){24}, numbers);
  input(&t, 1, TN_I64, 1, (int64_t[]){2}, large);
  refuses(&t, "more elements than can be counted");

  trial_begin(&t, "Range", 3, 1);
  input(&t, 0, TN_F32, 0, NULL, &ends[0]);
  input(&t, 1, TN_F32, 0, NULL, &ends[1]);
  input(&t, 2, TN_F32, 0, NULL, &step);
  refuses(&t, "without an end");
}
END_TEST

START_TEST(older_versions_of_operators_are_told_apart) {
  trial t;
  trial_begin(&t, "Slice", 1, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){4, 6}, numbers);
  refuses(&t, "slices by attributes");

  float x[] = {-9, 0.5f, 9}, y[3];
  trial_begin(&t, "Clip", 1, 1);
  input(&t, 0, TN_F32, 1, (int64_t[]){3}, x);
  attribute(&t, "min")->f = -1;
  attribute(&t, "max")->f = 1;
  ck_assert_int_eq(node_run(&t.at), TN_OK);
  ck_assert_str_eq(t.at.cannot, "");
  ck_assert_int_eq(tn_tensor_to_host(t.at.y[0], y, sizeof y), TN_OK);
  ck_assert(y[0] == -1 && y[1] == 0.5f && y[2] == 1);
  trial_end(&t);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_test(t, unknown_operators_are_named);
  tcase_add_test(t, too_many_tensors_are_refused);
  tcase_add_test(t, numbers_must_be_known_and_there);
  tcase_add_test(t, lists_must_fit_the_axes);
  tcase_add_test(t, absurd_shapes_are_refused);
  tcase_add_test(t, older_versions_of_operators_are_told_apart);
}

int main(void) { return run_suite("onnx node", add_tests); }
