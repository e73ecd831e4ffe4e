/*
 * Models through the library: what they compute, which programs are kept, what is given and told.
 */
#include <pthread.h>

#include "models.h"

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
  tcase_add_test(t, messages_name_the_node);
  tcase_add_test(t, threads_may_share_a_model);
  tcase_add_test(t, metadata_is_told);
}

int main(void) { return run_suite("onnx models", add_tests); }
