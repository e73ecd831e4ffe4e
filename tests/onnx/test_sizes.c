/*
 * What a small file says may be large: constants that grow are not computed while a model is
 * built, in whatever operator, numbers that are have a limit, and so has what loops come to.
 */
#include <string.h>

#include "session.h"

static void numbers_add(Onnx__Graph *g, const char *name, int count, const int64_t *numbers) {
  weight_add(g, name, I64, 1, SHAPE(count), numbers, (size_t)count * sizeof *numbers);
}

static void floats_add(Onnx__Graph *g, const char *name, int rank, const int64_t *shape,
                       float number) {
  static float data[1 << 15];
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  for (int64_t i = 0; i < count; i++) data[i] = number;
  weight_add(g, name, F32, rank, shape, data, (size_t)count * sizeof *data);
}

/* Each makes "big", of 2^28 elements or more, of constants of up to 2^15. */
static void pad(Onnx__Graph *g) {
  floats_add(g, "a", 1, SHAPE(1), 1);
  numbers_add(g, "pads", 2, SHAPE(1 << 28, 0));
  node_add(g, "Pad", "a,pads", "big");
}

static void one_hot(Onnx__Graph *g) {
  static const int64_t indices[1 << 14];
  numbers_add(g, "indices", 1 << 14, indices);
  numbers_add(g, "depth", 1, SHAPE(1 << 14));
  floats_add(g, "values", 1, SHAPE(2), 1);
  node_add(g, "OneHot", "indices,depth,values", "big");
}

static void resize(Onnx__Graph *g) {
  floats_add(g, "a", 4, SHAPE(1, 1, 2, 2), 1);
  floats_add(g, "scales", 1, SHAPE(4), 128);
  node_add(g, "Resize", "a,,scales", "big");
}

static void tile(Onnx__Graph *g) {
  floats_add(g, "a", 1, SHAPE(16), 1);
  numbers_add(g, "repeats", 1, SHAPE(1 << 24));
  node_add(g, "Tile", "a,repeats", "big");
}

static void expand(Onnx__Graph *g) {
  floats_add(g, "a", 1, SHAPE(1), 1);
  numbers_add(g, "shape", 2, SHAPE(1 << 14, 1 << 14));
  node_add(g, "Expand", "a,shape", "wide");
  node_add(g, "Add", "wide,wide", "big");
}

static void range(Onnx__Graph *g) {
  static const int64_t ends[] = {0, INT64_C(1) << 40, 1};
  weight_add(g, "from", I64, 0, NULL, &ends[0], 8);
  weight_add(g, "to", I64, 0, NULL, &ends[1], 8);
  weight_add(g, "step", I64, 0, NULL, &ends[2], 8);
  node_add(g, "Range", "from,to,step", "big");
}

static void fill(Onnx__Graph *g) {
  numbers_add(g, "shape", 2, SHAPE(1 << 14, 1 << 14));
  node_add(g, "ConstantOfShape", "shape", "big");
}

static void broadcast(Onnx__Graph *g) {
  floats_add(g, "a", 2, SHAPE(1 << 14, 1), 1);
  floats_add(g, "b", 2, SHAPE(1, 1 << 14), 1);
  node_add(g, "Mul", "a,b", "big");
}

static void product(Onnx__Graph *g) {
  floats_add(g, "a", 2, SHAPE(1 << 14, 1), 1);
  floats_add(g, "b", 2, SHAPE(1, 1 << 14), 1);
  node_add(g, "MatMul", "a,b", "big");
}

static void gather(Onnx__Graph *g) {
  static const int64_t indices[1 << 14];
  floats_add(g, "a", 2, SHAPE(1, 1 << 14), 1);
  numbers_add(g, "indices", 1 << 14, indices);
  node_add(g, "Gather", "a,indices", "big");
}

static void transposed(Onnx__Graph *g) {
  static const int64_t strides[] = {1 << 14, 1 << 14};
  floats_add(g, "a", 4, SHAPE(1, 1, 2, 2), 1);
  floats_add(g, "b", 4, SHAPE(1, 1, 1, 1), 1);
  attribute_ints(node_add(g, "ConvTranspose", "a,b", "big"), "strides", 2, strides);
}

/* Large between, small at the end. */
static void between(Onnx__Graph *g) {
  static const int64_t pads[] = {0, 0, 1 << 14, 1 << 14, 0, 0, 1 << 14, 1 << 14},
                       strides[] = {1 << 13, 1 << 13};
  floats_add(g, "a", 4, SHAPE(1, 1, 2, 2), 1);
  floats_add(g, "b", 4, SHAPE(1, 1, 1, 1), 1);
  Onnx__Node *n = node_add(g, "Conv", "a,b", "big");
  attribute_ints(n, "strides", 2, strides);
  attribute_ints(n, "pads", 4, (const int64_t[]){pads[2], pads[3], pads[6], pads[7] - 1});
}

static void (*const growing[])(Onnx__Graph *) = {pad,     one_hot, resize,     tile,
                                                 expand,  range,   fill,       broadcast,
                                                 product, gather,  transposed, between};

static tn_onnx *loaded(Onnx__Graph *g) {
  size_t bytes;
  uint8_t *data = model_bytes(model_new(g), &bytes);
  tn_onnx *model = NULL;
  tn_status status = tn_onnx_load_memory(runtime, device, data, bytes, NULL, &model);
  ck_assert_msg(status == TN_OK, "%s", tn_onnx_last_error());
  return model;
}

/* Only the shape is asked for, which is known all the same. */
START_TEST(what_grows_is_not_computed_beforehand) {
  Onnx__Graph *g = graph_new("growing");
  tn_memory_stats memory = {.struct_size = sizeof memory};
  growing[_i](g);
  node_add(g, "Shape", "big", "y");
  input_add(g, "x", F32, 1, SHAPE(1));
  output_add(g, "y", I64, 1, SHAPE(0));
  tn_onnx *model = loaded(g);
  const int32_t rank = 1;
  ck_assert_msg(!tn_onnx_compile(model, 1, &rank, (const int64_t *const[]){SHAPE(1)}), "%s",
                tn_onnx_last_error());
  ok(tn_device_memory_stats(device, &memory));
  ck_assert_msg(memory.peak_reserved < 64 << 20, "case %d: %.1f MB", _i,
                (double)memory.peak_reserved / 1e6);
  tn_onnx_close(model);
}
END_TEST

/* Twenty fills of 8 MB each, which all live until they are added. */
START_TEST(known_numbers_have_a_limit) {
  Onnx__Graph *g = graph_new("fills");
  char made[40], names[400] = "x";
  numbers_add(g, "size", 1, SHAPE(1 << 20));
  input_add(g, "x", F32, 1, SHAPE(1));
  for (int i = 0; i < 20; i++) {
    snprintf(made, sizeof made, "f%d", i);
    node_add(g, "ConstantOfShape", "size", builder_text(made));
    strcat(strcat(names, ","), made);
  }
  node_add(g, "Sum", builder_text(names), "y");
  output_add(g, "y", F32, 1, SHAPE(0));
  tn_onnx *model = loaded(g);
  const int32_t rank = 1;
  ck_assert(tn_onnx_compile(model, 1, &rank, (const int64_t *const[]){SHAPE(1)}));
  ck_assert_ptr_nonnull(
      strstr(tn_onnx_last_error(), "numbers known before the run that come to more than 64 MB"));
  tn_onnx_close(model);
}
END_TEST

/* y: x after `turns` turns of a node, of which all but the last are read by the next. op: NULL for
 * a body without nodes. */
static Onnx__Graph *turning(const char *op, const char *inputs, int64_t turns) {
  Onnx__Graph *g = graph_new("turning"), *body = graph_new("body");
  input_add(body, "i", I64, 0, NULL);
  input_add(body, "go", BOOL, 0, NULL);
  input_add(body, "v", F32, -1, NULL);
  output_add(body, "go", BOOL, 0, NULL);
  if (op) node_add(body, op, inputs, "next");
  output_add(body, op ? "next" : "v", F32, -1, NULL);
  weight_add(g, "turns", I64, 0, NULL, &turns, sizeof turns);
  attribute_graph(node_add(g, "Loop", "turns,,x", "y"), "body", body);
  output_add(g, "y", F32, -1, NULL);
  return g;
}

/* What a small file may come to is bounded, whatever the turns do: nothing at all, or calls of many
 * tensors each. */
START_TEST(loops_have_an_end) {
  static const int64_t turns[] = {INT64_MAX, 40000, 4000};
  char many[2 * 200];
  for (int i = 0; i < 200; i++) memcpy(many + 2 * i, i < 199 ? "v," : "v", 2);
  static const char *const op[] = {NULL, "Neg", "Sum"};
  Onnx__Graph *g = turning(op[_i], _i < 2 ? "v" : many, turns[_i]);
  input_add(g, "x", F32, -1, NULL);
  tn_onnx *model = loaded(g);
  const int32_t rank = 1;
  ck_assert(tn_onnx_compile(model, 1, &rank, (const int64_t *const[]){SHAPE(1)}));
  ck_assert_ptr_nonnull(strstr(tn_onnx_last_error(), "more than 65536 nodes"));
  tn_onnx_close(model);
}
END_TEST

/* A loop on numbers that are known computes some of its turns, and leaves the others to the runs.
 * Of products, which take longer, it computes none. */
START_TEST(loops_compute_little_beforehand) {
  enum { SIZE = 1 << 14, TURNS = 6000 };
  const bool product = _i;
  Onnx__Graph *g =
      turning(product ? "MatMul" : "Neg", product ? "v,v" : "v", product ? 100 : TURNS);
  tn_onnx_info info = {.struct_size = sizeof info};
  weight_add(g, "shape", I64, 1, SHAPE(2), SHAPE(128, SIZE / 128), 16);
  node_add(g, "ConstantOfShape", "shape", "x");
  Onnx__Node *loop = g->node[0];
  g->node[0] = g->node[1], g->node[1] = loop;
  tn_onnx *model = loaded(g);
  ck_assert_msg(!tn_onnx_compile(model, 0, NULL, NULL), "%s", tn_onnx_last_error());
  ck_assert_int_eq(tn_onnx_report(model, &info), TN_OK);
  ck_assert_uint_le(info.folded, product ? 0 : (1 << 27) / (2 * SIZE));
  if (!product) ck_assert_uint_ge(info.folded, 4000);
  tn_onnx_close(model);
}
END_TEST

/* A long file of nodes is none of those: only what loops and functions write out is bounded. */
START_TEST(long_models_are_built) {
  enum { NODES = 66000, PART = 100 };
  static Onnx__Node *nodes[NODES];
  char from[16] = "x", to[16];
  Onnx__Graph *g = graph_new("long"), *part = NULL;
  input_add(g, "x", F32, 1, SHAPE(2));
  for (int i = 0; i < NODES; i++) {
    if (i % PART == 0) part = graph_new("part"); /* whose list grows by one */
    snprintf(to, sizeof to, "%d", i);
    nodes[i] = node_add(part, "Neg", from, to);
    memcpy(from, to, sizeof to);
  }
  g->node = nodes;
  g->n_node = NODES;
  output_add(g, to, F32, 1, SHAPE(2));
  tn_onnx *model = loaded(g);
  const int32_t rank = 1;
  ck_assert_msg(!tn_onnx_compile(model, 1, &rank, (const int64_t *const[]){SHAPE(2)}), "%s",
                tn_onnx_last_error());
  tn_onnx_close(model);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_loop_test(t, what_grows_is_not_computed_beforehand, 0,
                      sizeof growing / sizeof *growing);
  tcase_add_test(t, known_numbers_have_a_limit);
  tcase_add_loop_test(t, loops_have_an_end, 0, 3);
  tcase_add_loop_test(t, loops_compute_little_beforehand, 0, 2);
  tcase_add_test(t, long_models_are_built);
}

int main(void) { return run_suite("onnx sizes", add_tests); }
