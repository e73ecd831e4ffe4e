/*
 * Files that mean harm, or were hurt: each is refused with a reason or does what it says, and
 * under the sanitizers nothing is read or written that should not be.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session.h"
#include "tests/scratch.h"

static tn_status load(const uint8_t *data, size_t bytes, tn_onnx **model) {
  *model = NULL;
  return tn_onnx_load_memory(runtime, device, data, bytes, NULL, model);
}

/* Bytes are refused, and the message has these words. */
static void refuses(const void *data, size_t bytes, const char *words) {
  tn_onnx *model;
  ck_assert_msg(load(data, bytes, &model) != TN_OK, "taken; '%s' was to be said", words);
  ck_assert_ptr_null(model);
  ck_assert_msg(strstr(tn_onnx_last_error(), words), "'%s' lacks '%s'", tn_onnx_last_error(),
                words);
}

static void refuses_model(const Onnx__Model *m, const char *words) {
  size_t bytes;
  uint8_t *data = model_bytes(m, &bytes);
  refuses(data, bytes, words);
}

/* The model is read, and a run of it, with one float for each input, is refused. */
static void run_refuses(const Onnx__Model *m, const char *words) {
  size_t bytes;
  uint8_t *data = model_bytes(m, &bytes);
  tn_onnx *model;
  tn_tensor *x, *y[4] = {0};
  ck_assert_msg(load(data, bytes, &model) == TN_OK, "%s", tn_onnx_last_error());
  ok(tn_tensor_from_host(device, TN_F32, 1, SHAPE(1), &(float){1}, &x));
  const tn_tensor *in[4] = {x, x, x, x};
  tn_status status =
      tn_onnx_run(model, NULL, tn_onnx_num_inputs(model), in, tn_onnx_num_outputs(model), y);
  ck_assert_msg(status != TN_OK, "it ran; '%s' was to be said", words);
  ck_assert_msg(strstr(tn_onnx_last_error(), words), "'%s' lacks '%s'", tn_onnx_last_error(),
                words);
  tn_tensor_release(x);
  tn_onnx_close(model);
}

/* y = x + w */
static Onnx__Graph *sound(void) {
  Onnx__Graph *g = graph_new("sound");
  weight_add(g, "w", F32, 1, SHAPE(1), &(float){1}, 4);
  input_add(g, "x", F32, -1, NULL);
  node_add(g, "Add", "x,w", "y");
  output_add(g, "y", F32, -1, NULL);
  return g;
}

/* --- bytes --- */

START_TEST(what_is_no_message_is_no_model) {
  static const struct {
    const char *bytes;
    size_t length;
    const char *words;
  } cases[] = {
      {"", 0, "it has no graph"},
      {"\x08\x08", 2, "it has no graph"},
      {"PK\x03\x04", 4, "damaged one"},
      {"\x3a\xff", 2, "it ends inside a number"},
      {"\x3a\x7f\x0a", 3, "a length beyond the end"},
      {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "a length beyond the end"},
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "more than ten bytes"},
      {"\x3b\x3c", 2, "a field of no known kind"},
      {"\x00\x00", 2, "a field without a number"},
      {"\x09\x01", 2, "a length beyond the end"},
      {"\x3a\x02\x0a\x05", 4, "a length beyond the end"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    refuses(cases[i].bytes, cases[i].length, cases[i].words);
  refuses(NULL, 5, "data is NULL");
}
END_TEST

START_TEST(every_beginning_of_a_model_is_read_or_refused) {
  size_t bytes;
  uint8_t *data = model_bytes(model_new(sound()), &bytes);
  for (size_t i = 0; i < bytes; i++) {
    tn_onnx *model;
    uint8_t *part = malloc(i + 1); /* so that a byte too many is noticed */
    memcpy(part, data, i);
    if (load(part, i, &model) == TN_OK) tn_onnx_close(model);
    free(part);
  }
}
END_TEST

/* Bytes changed at random, and what still loads is compiled. */
START_TEST(changed_models_do_no_harm) {
  size_t bytes;
  Onnx__Graph *g = sound();
  weight_add(g, "to", I64, 1, SHAPE(2), SHAPE(1, -1), 16);
  node_add(g, "Reshape", "y,to", "z");
  attribute_ints(node_add(g, "Transpose", "z", "t"), "perm", 2, SHAPE(1, 0));
  attribute_int(node_add(g, "Concat", "t,t", "u"), "axis", 1);
  output_add(g, "u", F32, -1, NULL);
  const uint8_t *data = model_bytes(model_new(g), &bytes);
  uint8_t *changed = malloc(bytes);
  uint64_t random = 88172645463325252u;
  for (int i = 0; i < 3000; i++) {
    tn_onnx *model;
    memcpy(changed, data, bytes);
    for (int k = 0; k <= i % 4; k++) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      changed[random % bytes] = (uint8_t)(random >> 32);
    }
    if (load(changed, bytes, &model) != TN_OK) continue;
    const int64_t *shapes[] = {SHAPE(3), SHAPE(3), SHAPE(3), SHAPE(3)};
    tn_onnx_compile(model, tn_onnx_num_inputs(model), (int32_t[]){1, 1, 1, 1}, shapes);
    tn_onnx_close(model);
  }
  free(changed);
}
END_TEST

/* A message in a message in a message: field `tag`, depth times, around nothing. */
static size_t nested(uint8_t *to, const uint8_t *tags, size_t num_tags, size_t depth) {
  size_t at = 1 << 16, length = 0;
  for (size_t i = depth; i--;) {
    uint8_t head[8];
    size_t size = 0;
    head[size++] = tags[i % num_tags];
    for (size_t rest = length; size < 8; rest >>= 7) {
      head[size++] = (uint8_t)((rest & 127) | (rest > 127 ? 128 : 0));
      if (rest < 128) break;
    }
    at -= size;
    length += size;
    memcpy(to + at, head, size);
  }
  memmove(to, to + at, length);
  return length;
}

START_TEST(depth_has_an_end) {
  static uint8_t bytes[1 << 16];
  static const uint8_t tags[] = {0x3a, 0x0a, 0x2a, 0x32}; /* graph, node, attribute, its graph */
  uint8_t cycle[1 + 3 * 4000];
  for (size_t i = 0; i < sizeof cycle; i++) cycle[i] = i ? tags[1 + (i - 1) % 3] : tags[0];
  refuses(bytes, nested(bytes, cycle, sizeof cycle, sizeof cycle), "without end");
  Onnx__Graph *inner = sound();
  for (int i = 0; i < 30; i++) {
    Onnx__Graph *g = graph_new("g");
    weight_add(g, "c", BOOL, 0, NULL, &(uint8_t){1}, 1);
    Onnx__Node *n = node_add(g, "If", "c", "y");
    attribute_graph(n, "then_branch", inner);
    attribute_graph(n, "else_branch", inner);
    output_add(g, "y", F32, -1, NULL);
    inner = g;
    if (i < 12) continue; /* 2^12 graphs are enough of a bomb */
    break;
  }
  size_t size;
  uint8_t *data = model_bytes(model_new(inner), &size);
  tn_onnx *model;
  ck_assert_msg(load(data, size, &model) != TN_OK || model, "neither");
  tn_onnx_close(model);
}
END_TEST

START_TEST(small_files_do_not_take_much_memory) {
  enum { PARTS = 1 << 20 };
  uint8_t *bytes = malloc(8 + 2 * PARTS);
  /* A graph of a million nodes of nothing. */
  size_t length = 2 * PARTS, at = 0;
  bytes[at++] = 0x3a;
  for (size_t rest = length; rest; rest >>= 7)
    bytes[at++] = (uint8_t)((rest & 127) | (rest > 127 ? 128 : 0));
  for (size_t i = 0; i < PARTS; i++) bytes[at++] = 0x0a, bytes[at++] = 0;
  refuses(bytes, at, "more parts than a file of its size has");
  /* Fields that nobody knows, and a list of zeros, eight bytes for each. */
  for (size_t i = 0; i < PARTS; i++) bytes[2 * i] = 0x78, bytes[2 * i + 1] = 0;
  refuses(bytes, 2 * PARTS, "more parts than a file of its size has");
  free(bytes);
}
END_TEST

/* --- tensors --- */

static void weight_refused(int32_t type, int rank, const int64_t *shape, size_t bytes,
                           const char *words) {
  static const uint8_t zeros[64];
  Onnx__Graph *g = sound();
  weight_add(g, "bad", type, rank, shape, zeros, bytes);
  refuses_model(model_new(g), words);
}

START_TEST(weights_must_be_what_their_shape_says) {
  weight_refused(F32, 2, SHAPE(1 << 20, 1 << 20), 16, "its numbers are not the");
  weight_refused(F32, 1, SHAPE(-1), 4, "a size of -1");
  weight_refused(F32, 3, SHAPE(INT64_MAX, INT64_MAX, 2), 4, "a size of");
  weight_refused(F32, 2, SHAPE(INT64_C(1) << 47, 4), 4, "a size of");
  weight_refused(F32, 1, SHAPE(3), 8, "its numbers are not the 3");
  weight_refused(F32, 1, SHAPE(3), 16, "its numbers are not the 3");
  weight_refused(STRING, 1, SHAPE(1), 4, "strings");
  weight_refused(99, 1, SHAPE(1), 4, "no element type for ONNX's 99");
  weight_refused(0, 1, SHAPE(1), 4, "no element type");
  weight_refused(U8, 9, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), 1, "has 9 axes");
  weight_refused(F32, 1, SHAPE(0), 4, "its numbers are not the 0");
}
END_TEST

START_TEST(numbers_may_lie_in_one_place_alone) {
  static float list[2] = {1, 2};
  Onnx__Graph *g = sound();
  Onnx__Tensor *t = weight_add(g, "both", F32, 1, SHAPE(2), list, 8);
  t->n_float_data = 2;
  t->float_data = list;
  refuses_model(model_new(g), "its numbers are not the 2"); /* and raw_data alone would do */
  t->has_raw_data = false;
  t->n_float_data = 1;
  refuses_model(model_new(g), "its numbers are not the 2");
}
END_TEST

/* --- names and order --- */

START_TEST(names_must_be_there_once_and_in_order) {
  Onnx__Graph *g = sound();
  node_add(g, "Relu", "x", "y");
  refuses_model(model_new(g), "two values are named y");
  g = sound();
  node_add(g, "Relu", "nowhere", "z");
  refuses_model(model_new(g), "nothing makes nowhere");
  g = sound();
  node_add(g, "Relu", "b", "a");
  node_add(g, "Relu", "a", "b");
  refuses_model(model_new(g), "b is read before the node that makes it");
  g = sound();
  node_add(g, "Relu", "self", "self");
  refuses_model(model_new(g), "self is read before the node that makes it");
  g = sound();
  output_add(g, "gone", F32, -1, NULL);
  refuses_model(model_new(g), "nothing makes gone");
  g = sound();
  weight_add(g, "w", F32, 0, NULL, &(float){1}, 4);
  refuses_model(model_new(g), "two values are named w");
  g = sound();
  weight_add(g, "", F32, 0, NULL, &(float){1}, 4);
  refuses_model(model_new(g), "a weight without a name");
  g = sound();
  input_add(g, "", F32, 0, NULL);
  refuses_model(model_new(g), "an input without a name");
  g = sound();
  node_add(g, "", "x", "z");
  refuses_model(model_new(g), "has no operator");
  g = sound();
  node_add(g, "Constant", "", "z");
  refuses_model(model_new(g), "neither a tensor nor numbers");
  g = sound();
  attribute_int(node_add(g, "If", "x", "z"), "then_branch", 1); /* no graph at all */
  refuses_model(model_new(g), "has no then_branch");
}
END_TEST

START_TEST(opsets_must_be_served) {
  Onnx__Model *m = model_new(sound());
  m->opset_import[0]->version = 99;
  refuses_model(m, "opset 99; Tenon serves");
  m->opset_import[0]->version = -5;
  refuses_model(m, "opset -5; Tenon serves");
  m->n_opset_import = 0;
  run_refuses(m, "does not say which version");
}
END_TEST

START_TEST(functions_may_not_call_themselves) {
  Onnx__Graph *g = sound();
  Onnx__Model *m = model_new(g);
  model_opset(m, "test", 1);
  Onnx__Function *a = function_add(m, "A", "i", "o"), *b = function_add(m, "B", "i", "o");
  function_node(a, "B", "i", "o")->domain = builder_text("test");
  function_node(b, "A", "i", "o")->domain = builder_text("test");
  node_add(g, "A", "x", "z")->domain = builder_text("test");
  refuses_model(m, "calls itself");
}
END_TEST

/* Each function calls the one before twice. */
START_TEST(functions_that_double_have_an_end) {
  static char name[26][3];
  Onnx__Graph *g = sound();
  Onnx__Model *m = model_new(g);
  model_opset(m, "test", 1);
  for (int i = 0; i < 26; i++) {
    snprintf(name[i], sizeof name[i], "F%c", 'A' + i);
    Onnx__Function *f = function_add(m, name[i], "i", "o");
    if (!i) {
      function_node(f, "Relu", "i", "o");
      continue;
    }
    function_node(f, name[i - 1], "i", "t")->domain = builder_text("test");
    function_node(f, name[i - 1], "t", "o")->domain = builder_text("test");
  }
  node_add(g, name[25], "x", "z")->domain = builder_text("test");
  run_refuses(m, "more than 65536 nodes");
}
END_TEST

/* --- nodes --- */

/* A model of one node on x and the tensors listed in `inputs`, which are i64. */
static void node_refused(const char *op, int count, const int64_t *numbers, const char *words) {
  Onnx__Graph *g = graph_new("node");
  input_add(g, "x", F32, -1, NULL);
  weight_add(g, "n", I64, 1, SHAPE(count), numbers, 8 * (size_t)count);
  node_add(g, op, strcmp(op, "ConstantOfShape") ? "x,n" : "n", "y");
  output_add(g, "y", F32, -1, NULL);
  run_refuses(model_new(g), words);
}

/* What such a node computes, nobody would let go of. */
START_TEST(nodes_must_have_outputs) {
  static const char *const ops[] = {"Shape", "Size", "ConstantOfShape", "Neg"};
  Onnx__Graph *g = sound();
  weight_add(g, "n", I64, 1, SHAPE(1), SHAPE(2), 8);
  node_add(g, ops[_i], _i == 2 ? "n" : "x", "");
  run_refuses(model_new(g), "a node without outputs");
}
END_TEST

START_TEST(absurd_shapes_are_refused) {
  node_refused("Reshape", 2, SHAPE(INT64_MAX, INT64_MAX), "");
  node_refused("Reshape", 2, SHAPE(-7, 1), "");
  node_refused("Expand", 9, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), "");
  node_refused("Expand", 2, SHAPE(-1, 1), "");
  node_refused("Tile", 1, SHAPE(-3), "");
  node_refused("ConstantOfShape", 2, SHAPE(INT64_MAX, 4), "a size of 4");
  node_refused("ConstantOfShape", 1, SHAPE(-1), "a size of -1");
  node_refused("Pad", 1, SHAPE(1), "numbers of input 1");
  node_refused("Unsqueeze", 1, SHAPE(INT64_MIN), "axis");
  node_refused("TopK", 1, SHAPE(-2), "");
}
END_TEST

/* Booleans have no mean: the first sum of the windows' places is refused. Under ASan nothing that
 * was made for the others is lost. */
START_TEST(refused_nodes_let_go_of_their_parts) {
  Onnx__Graph *g = graph_new("pool");
  Onnx__Node *n = node_add(g, "AveragePool", "x", "y");
  attribute_ints(n, "kernel_shape", 2, SHAPE(4, 2));
  attribute_ints(n, "pads", 4, SHAPE(1, 0, 2, 1));
  input_add(g, "x", BOOL, 4, SHAPE(1, 3, 32, 32));
  output_add(g, "y", BOOL, -1, NULL);
  size_t bytes;
  uint8_t *data = model_bytes(model_new(g), &bytes);
  tn_onnx *model;
  ck_assert_msg(load(data, bytes, &model) == TN_OK, "%s", tn_onnx_last_error());
  const int64_t *const shapes[] = {SHAPE(1, 3, 32, 32)};
  ck_assert_int_ne(tn_onnx_compile(model, 1, (const int32_t[]){4}, shapes), TN_OK);
  tn_onnx_close(model);
}
END_TEST

/* --- external data --- */

static void external_refused(const char *location, const char *offset, const char *length,
                             const char *words) {
  Onnx__Graph *g = sound();
  char path[200];
  size_t bytes;
  Onnx__Tensor *t = weight_add(g, "far", F32, 1, SHAPE(2), NULL, 0);
  if (location) external_add(t, "location", location);
  if (offset) external_add(t, "offset", offset);
  if (length) external_add(t, "length", length);
  t->has_data_location = true;
  t->data_location = 1;
  uint8_t *data = model_bytes(model_new(g), &bytes);
  snprintf(path, sizeof path, "%s", scratch_path("model.onnx"));
  FILE *file = fopen(path, "wb");
  ck_assert(fwrite(data, 1, bytes, file) == bytes && !fclose(file));
  tn_onnx *model = NULL;
  tn_status status = tn_onnx_load(runtime, device, path, NULL, &model);
  if (!*words) {
    ck_assert_msg(!status, "%s", tn_onnx_last_error());
    tn_onnx_close(model);
    return;
  }
  ck_assert_msg(status, "taken; '%s' was to be said", words);
  ck_assert_msg(strstr(tn_onnx_last_error(), words), "'%s' lacks '%s'", tn_onnx_last_error(),
                words);
  refuses(data, bytes, location ? "weight far" : "is nowhere"); /* and memory has no folder */
}

START_TEST(external_data_stays_in_its_folder) {
  static const uint8_t zeros[16];
  scratch_make();
  write_file("data.bin", zeros, sizeof zeros);
  ck_assert(!mkdir(scratch_path("inner"), 0700));
  write_file("inner/data.bin", zeros, sizeof zeros);
  ck_assert(!symlink("/etc/passwd", scratch_path("link.bin")));
  ck_assert(!symlink("/etc", scratch_path("out")));
  external_refused("data.bin", "8", "8", "");
  external_refused("inner/data.bin", NULL, NULL, "");
  external_refused("../data.bin", NULL, NULL, "not a file inside the model's folder");
  external_refused("inner/../data.bin", NULL, NULL, "not a file inside the model's folder");
  external_refused("/etc/passwd", NULL, NULL, "not a file inside the model's folder");
  external_refused("link.bin", NULL, NULL, "not a file inside the model's folder");
  external_refused("out/passwd", NULL, NULL, "weight far: out/passwd");
  external_refused("", NULL, NULL, "not a file inside the model's folder");
  external_refused("none.bin", NULL, NULL, "No such file");
  external_refused("inner", NULL, NULL, "fewer than 8 bytes");
  external_refused("data.bin", "9", NULL, "fewer than 8 bytes behind byte 9");
  external_refused("data.bin", "18446744073709551608", NULL, "is nowhere");
  external_refused("data.bin", "-8", NULL, "is nowhere");
  external_refused("data.bin", "0", "4", "4 bytes of external data for a tensor of 8");
  external_refused(NULL, NULL, NULL, "is nowhere");
  scratch_remove();
}
END_TEST

START_TEST(files_that_are_none_are_refused) {
  tn_onnx *model;
  ck_assert_int_eq(tn_onnx_load(runtime, device, "/nowhere/model.onnx", NULL, &model), TN_ERR_IO);
  ck_assert_int_eq(tn_onnx_load(runtime, device, "/", NULL, &model), TN_ERR_IO);
  ck_assert_int_eq(tn_onnx_load(runtime, device, "/dev/zero", NULL, &model), TN_ERR_IO);
  ck_assert_int_eq(tn_onnx_load(runtime, device, NULL, NULL, &model), TN_ERR_INVALID_ARGUMENT);
  ck_assert_int_eq(tn_onnx_load(NULL, NULL, "x", NULL, &model), TN_ERR_INVALID_ARGUMENT);
  tn_onnx_close(NULL);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_test(t, what_is_no_message_is_no_model);
  tcase_add_test(t, every_beginning_of_a_model_is_read_or_refused);
  tcase_add_test(t, changed_models_do_no_harm);
  tcase_add_test(t, depth_has_an_end);
  tcase_add_test(t, small_files_do_not_take_much_memory);
  tcase_add_test(t, weights_must_be_what_their_shape_says);
  tcase_add_test(t, numbers_may_lie_in_one_place_alone);
  tcase_add_test(t, names_must_be_there_once_and_in_order);
  tcase_add_test(t, opsets_must_be_served);
  tcase_add_test(t, functions_may_not_call_themselves);
  tcase_add_test(t, functions_that_double_have_an_end);
  tcase_add_loop_test(t, nodes_must_have_outputs, 0, 4);
  tcase_add_test(t, absurd_shapes_are_refused);
  tcase_add_test(t, refused_nodes_let_go_of_their_parts);
  tcase_add_test(t, external_data_stays_in_its_folder);
  tcase_add_test(t, files_that_are_none_are_refused);
}

int main(void) { return run_suite("onnx hostile", add_tests); }
