/*
 * Norms and constants behind convolutions become part of their weights when a model is read: what
 * comes out is what came out, and nothing is touched where somebody reads what is between, where a
 * number is not known, or where it would be lost.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "session.h"

static tn_onnx *loaded(Onnx__Graph *g) {
  size_t bytes;
  tn_onnx *model = NULL;
  uint8_t *data = model_bytes(model_new(g), &bytes);
  tn_status status = tn_onnx_load_memory(runtime, device, data, bytes, NULL, &model);
  ck_assert_msg(status == TN_OK, "%s", tn_onnx_last_error());
  return model;
}

static uint64_t joined(tn_onnx *model) {
  tn_onnx_info info = {.struct_size = sizeof info};
  ck_assert_int_eq(tn_onnx_report(model, &info), TN_OK);
  return info.joined;
}

/* Numbers that look random, from 0.5 to 1.5, every third below zero where they may be. */
static float number(int64_t i, bool positive) {
  float size = 0.5f + (float)((i * 7919 + 13) % 101) / 101;
  return i % 3 || positive ? size : -size;
}

static void floats_add(Onnx__Graph *g, const char *name, int rank, const int64_t *shape,
                       bool positive) {
  float data[600];
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= shape[i];
  ck_assert_int_le(count, 600);
  for (int64_t i = 0; i < count; i++) data[i] = number(i + (int64_t)strlen(name) * 31, positive);
  weight_add(g, name, F32, rank, shape, data, (size_t)count * sizeof *data);
}

/* A product and what follows it, a letter each: n a norm, m a, s and d arithmetic with a number
 * for each channel, k with one number, r with a reshaped constant, w with one for each column. */
typedef struct layers {
  const char *op;
  int rank;
  int64_t x[5], w[5], group;
  bool bias, trans_b;
  const char *chain;
  uint64_t joined;
} layers;

static int64_t channels(const layers *l) {
  if (!strcmp(l->op, "Gemm")) return l->w[!l->trans_b];
  return strcmp(l->op, "Conv") ? l->w[1] * l->group : l->w[0];
}

static void norm_add(Onnx__Graph *g, const char *in, const char *out, int64_t count, int at) {
  static const char *const parts[] = {"scale", "shift", "mean", "variance"};
  char name[4][32], inputs[200];
  for (int i = 0; i < 4; i++) {
    snprintf(name[i], sizeof name[i], "%s%d", parts[i], at);
    floats_add(g, name[i], 1, &count, i == 3);
  }
  snprintf(inputs, sizeof inputs, "%s,%s,%s,%s,%s", in, name[0], name[1], name[2], name[3]);
  node_add(g, "BatchNormalization", inputs, out);
}

static void arithmetic_add(Onnx__Graph *g, const layers *l, char what, const char *in,
                           const char *out, int at) {
  static const char *const op[] = {"Mul", "Add", "Sub", "Div", "Mul", "Add", "Mul"};
  int64_t shape[4] = {channels(l), 1, 1, 1};
  int kind = (int)(strchr("masdkrw", what) - "masdkrw");
  char name[32], inputs[80];
  snprintf(name, sizeof name, "number%d", at);
  snprintf(inputs, sizeof inputs, "%s,%s", kind == 1 ? name : in, kind == 1 ? in : name);
  if (what == 'k') floats_add(g, name, 0, NULL, true);
  if (what == 'w') floats_add(g, name, 1, (int64_t[]){3}, true);
  if (what == 'r') {
    int64_t to[5] = {1, channels(l), 1, 1, 1}, rank = l->rank;
    floats_add(g, "flat", 1, shape, false);
    weight_add(g, "to", I64, 1, &rank, to, (size_t)rank * sizeof *to);
    node_add(g, "Reshape", "flat,to", name);
  }
  if (kind < 4) floats_add(g, name, l->rank - 1, shape, kind == 3);
  node_add(g, op[kind], inputs, out);
}

/* between: the product's own result is an output too, so that it must be there. */
static Onnx__Graph *graph_of(const layers *l, bool between) {
  Onnx__Graph *g = graph_new("layers");
  int64_t count = channels(l), open[5] = {0};
  char in[16] = "c", out[16] = "c";
  input_add(g, "x", F32, l->rank, l->x);
  floats_add(g, "weights", l->rank, l->w, false);
  if (l->bias) floats_add(g, "bias", 1, &count, false);
  Onnx__Node *n = node_add(g, l->op, l->bias ? "x,weights,bias" : "x,weights", "c");
  if (strcmp(l->op, "Gemm")) attribute_int(n, "group", l->group);
  if (l->trans_b) attribute_int(n, "transB", 1);
  for (int i = 0; l->chain[i]; i++) {
    snprintf(out, sizeof out, "%c%d", l->chain[i], i);
    if (l->chain[i] == 'n')
      norm_add(g, in, out, count, i);
    else
      arithmetic_add(g, l, l->chain[i], in, out, i);
    memcpy(in, out, sizeof in);
  }
  output_add(g, out, F32, l->rank, open);
  if (between) output_add(g, "c", F32, l->rank, open);
  return g;
}

/* Output 0 for an input of numbers as number() makes them, the caller's to free. */
static float *result(tn_onnx *model, size_t outputs, int rank, const int64_t *shape,
                     int64_t *count) {
  float data[600];
  tn_tensor *x, *y[2] = {NULL, NULL};
  int64_t elements = 1;
  for (int i = 0; i < rank; i++) elements *= shape[i];
  for (int64_t i = 0; i < elements; i++) data[i] = number(i, false);
  ok(tn_tensor_from_host(device, TN_F32, rank, shape, data, &x));
  tn_status status = tn_onnx_run(model, NULL, 1, (const tn_tensor *const *)&x, outputs, y);
  ck_assert_msg(status == TN_OK, "%s", tn_onnx_last_error());
  *count = tn_tensor_elements(y[0]);
  float *numbers = malloc(tn_tensor_bytes(y[0]) + 1);
  ok(tn_tensor_to_host(y[0], numbers, tn_tensor_bytes(y[0])));
  tn_tensor_release(x), tn_tensor_release(y[0]), tn_tensor_release(y[1]);
  return numbers;
}

static const layers all_layers[] = {
    {"Conv", 3, {2, 4, 7}, {6, 2, 3}, 2, true, false, "n", 1},
    {"Conv", 4, {1, 3, 5, 6}, {4, 3, 3, 3}, 1, false, false, "n", 1},
    {"Conv", 4, {2, 4, 5, 6}, {4, 1, 3, 1}, 4, false, false, "nma", 3},
    {"Conv", 4, {2, 2, 4, 3}, {3, 2, 1, 1}, 1, true, false, "dsk", 3},
    {"Conv", 4, {2, 2, 4, 3}, {3, 2, 1, 1}, 1, false, false, "rn", 2},
    {"Conv", 4, {2, 2, 4, 3}, {1, 2, 1, 1}, 1, true, false, "ma", 2},
    {"Conv", 4, {2, 2, 4, 3}, {3, 2, 1, 1}, 1, true, false, "w", 0},
    {"Conv", 4, {2, 2, 4, 3}, {3, 2, 1, 1}, 1, true, false, "mwm", 1},
    {"Conv", 4, {2, 2, 4, 3}, {3, 2, 1, 1}, 1, true, false, "mamamamama", 8},
    {"Conv", 5, {1, 2, 3, 4, 3}, {3, 2, 2, 2, 2}, 1, true, false, "n", 1},
    {"ConvTranspose", 3, {2, 4, 7}, {4, 3, 3}, 2, true, false, "nk", 2},
    {"ConvTranspose", 4, {1, 6, 3, 4}, {6, 2, 2, 3}, 3, false, false, "n", 1},
    {"ConvTranspose", 5, {1, 2, 3, 2, 2}, {2, 3, 2, 1, 2}, 1, false, false, "nm", 2},
    {"Gemm", 2, {3, 5}, {5, 4}, 1, true, false, "na", 2},
    {"Gemm", 2, {3, 5}, {4, 5}, 1, false, true, "nk", 2},
};

START_TEST(results_stay) {
  const layers *l = &all_layers[_i];
  int64_t count, same;
  tn_onnx *folded = loaded(graph_of(l, false)), *plain = loaded(graph_of(l, true));
  ck_assert_uint_eq(joined(folded), l->joined);
  ck_assert_uint_eq(joined(plain), 0);
  float *got = result(folded, 1, l->rank, l->x, &count);
  float *want = result(plain, 2, l->rank, l->x, &same);
  ck_assert_int_eq(count, same);
  for (int64_t i = 0; i < count; i++) {
    float most = 1e-5f * (1 + fabsf(want[i]));
    ck_assert_msg(fabsf(got[i] - want[i]) <= most, "case %d, element %d: %.9g, not %.9g", _i,
                  (int)i, got[i], want[i]);
  }
  free(got), free(want);
  tn_onnx_close(folded), tn_onnx_close(plain);
}
END_TEST

/* A convolution of one channel by one number, and a norm of what the caller says. */
static Onnx__Graph *one_by_one(int32_t type, const void *weight, size_t bytes, float scale,
                               float variance) {
  static const int64_t shape[] = {1, 1, 1}, one = 1, open[] = {0, 1, 0};
  static const float zero = 0;
  Onnx__Graph *g = graph_new("one");
  input_add(g, "x", type, 3, open);
  weight_add(g, "w", type, 3, shape, weight, bytes);
  weight_add(g, "scale", F32, 1, &one, &scale, sizeof scale);
  weight_add(g, "zero", F32, 1, &one, &zero, sizeof zero);
  weight_add(g, "variance", F32, 1, &one, &variance, sizeof variance);
  node_add(g, "Conv", "x,w", "c");
  Onnx__Node *n = node_add(g, "BatchNormalization", "c,scale,zero,zero,variance", "y");
  Onnx__Attribute *epsilon = attribute_add(n, "epsilon");
  epsilon->has_f = true;
  epsilon->f = 0;
  output_add(g, "y", type, 3, open);
  return g;
}

static void joins(Onnx__Graph *g, uint64_t count) {
  tn_onnx *model = loaded(g);
  ck_assert_uint_eq(joined(model), count);
  tn_onnx_close(model);
}

START_TEST(numbers_that_would_be_lost_stay) {
  enum { HALF = 10, BFLOAT = 16 };
  static const float two = 2, most = 3e38f;
  static const uint16_t half_one = 0x3c00, half_most = 0x7bff, half_small = 0x0001,
                        bfloat_one = 0x3f80;
  joins(one_by_one(F32, &two, sizeof two, 1, 4), 1);
  joins(one_by_one(F32, &two, sizeof two, 1, 0), 0);   /* by zero */
  joins(one_by_one(F32, &two, sizeof two, 1, -1), 0);  /* no root */
  joins(one_by_one(F32, &most, sizeof most, 2, 1), 0); /* over float's greatest */
  joins(one_by_one(F32, &two, sizeof two, INFINITY, 1), 0);
  joins(one_by_one(F32, &two, sizeof two, 0, 1), 1);
  joins(one_by_one(HALF, &half_one, 2, 1, 4), 1);
  joins(one_by_one(HALF, &half_most, 2, 1.01f, 1), 0);
  joins(one_by_one(HALF, &half_one, 2, 1e-6f, 1), 0);  /* subnormal: two digits */
  joins(one_by_one(HALF, &half_small, 2, 0.5f, 1), 1); /* was so before */
  joins(one_by_one(BFLOAT, &bfloat_one, 2, 1e-6f, 1), 1);
  joins(one_by_one(BFLOAT, &bfloat_one, 2, 1e-39f, 1), 0); /* subnormal */
  joins(one_by_one(F32, &two, sizeof two, 1e-40f, 1), 0);
}
END_TEST

/* What scales or norms of the smallest and greatest numbers give is what it was, folded or not. */
START_TEST(extreme_scales_give_what_they_gave) {
  static const struct {
    float weight, scale, variance, x;
  } cases[] = {
      {1, 1e-40f, 1, 1e30f},
      {1e-20f, 1e-25f, 1, 1e38f},
      {1, 1, 1e-40f, 1e-10f},
      {1, 1, 0, 3},
      {1, 0, 0, 3},
      {1, -1, -1, 2},
      {1, 1e-30f, 1e-40f, 2},
      {1e30f, 1e30f, 1e38f, 1e-20f},
      {1e-39f, 1e20f, 1, 1e10f},
      {1e-39f, 0.5f, 1, 1e38f},
      {1, 1, INFINITY, 3},
      {NAN, 2, 1, 1},
      {INFINITY, 0.5f, 1, 1},
      {INFINITY, 0, 1, 1},
      {1, 0, 1, INFINITY},
      {3e38f, 1, 1e-30f, 1e-30f},
      {1, FLT_MIN, 1, 1e30f},
      {1, NAN, 1, 1},
  };
  const float weight = cases[_i].weight, x = cases[_i].x;
  float y[2];
  for (int plain = 0; plain < 2; plain++) {
    Onnx__Graph *g = one_by_one(F32, &weight, sizeof weight, cases[_i].scale, cases[_i].variance);
    if (plain) output_add(g, "c", F32, 3, (int64_t[]){0, 1, 0});
    tn_onnx *model = loaded(g);
    tn_tensor *from, *to[2] = {NULL, NULL};
    ok(tn_tensor_from_host(device, TN_F32, 3, (int64_t[]){1, 1, 1}, &x, &from));
    tn_status status = tn_onnx_run(model, NULL, 1, (const tn_tensor *const *)&from, 1 + plain, to);
    ck_assert_msg(status == TN_OK, "%s", tn_onnx_last_error());
    ok(tn_tensor_to_host(to[0], &y[plain], sizeof *y));
    tn_tensor_release(from), tn_tensor_release(to[0]), tn_tensor_release(to[1]);
    tn_onnx_close(model);
  }
  const bool same = y[0] == y[1] || (isnan(y[0]) && isnan(y[1]));
  ck_assert_msg(same || fabsf(y[0] - y[1]) <= 1e-6f * fabsf(y[1]), "%.9g, not %.9g", (double)y[0],
                (double)y[1]);
}
END_TEST
enum { EXTREMES = 18 };

/* x through a convolution by w, then times s, each of which the caller adds. */
static Onnx__Graph *times(void) {
  static const int64_t open[] = {0, 1, 0};
  Onnx__Graph *g = graph_new("times");
  input_add(g, "x", F32, 3, open);
  node_add(g, "Conv", "x,w", "c");
  output_add(g, "y", F32, 3, open);
  return g;
}

static void ones_add(Onnx__Graph *g, const char *name, int rank, float number) {
  static const int64_t ones[] = {1, 1, 1, 1};
  weight_add(g, name, F32, rank, ones, &number, sizeof number);
}

START_TEST(only_what_nobody_else_reads_is_folded) {
  static const int64_t one[] = {1};
  Onnx__Graph *g = times(); /* between is read twice */
  ones_add(g, "w", 3, 2), ones_add(g, "s", 1, 3);
  node_add(g, "Mul", "c,s", "m"), node_add(g, "Add", "m,c", "y");
  joins(g, 0);
  g = times(); /* twice by one node */
  ones_add(g, "w", 3, 2);
  node_add(g, "Mul", "c,c", "y");
  joins(g, 0);
  g = times(); /* a number of the run's */
  ones_add(g, "w", 3, 2);
  input_add(g, "s", F32, 1, one);
  node_add(g, "Mul", "c,s", "y");
  joins(g, 0);
  g = times(); /* weights of the run's */
  ones_add(g, "s", 1, 3);
  input_add(g, "w", F32, 3, (int64_t[]){1, 1, 1});
  node_add(g, "Mul", "c,s", "y");
  joins(g, 0);
  g = times(); /* the constant first */
  ones_add(g, "w", 3, 2), ones_add(g, "s", 1, 3);
  node_add(g, "Sub", "s,c", "y");
  joins(g, 0);
  g = times(); /* an axis more */
  ones_add(g, "w", 3, 2), ones_add(g, "s", 4, 3);
  node_add(g, "Mul", "c,s", "y");
  joins(g, 0);
  g = times(); /* a reader in a branch */
  ones_add(g, "w", 3, 2), ones_add(g, "s", 1, 3);
  Onnx__Graph *branch = graph_new("branch");
  node_add(branch, "Mul", "c,s", "z");
  output_add(branch, "z", F32, 3, (int64_t[]){0, 1, 0});
  input_add(g, "which", BOOL, 0, NULL);
  Onnx__Node *n = node_add(g, "If", "which", "y");
  attribute_graph(n, "then_branch", branch);
  attribute_graph(n, "else_branch", branch);
  joins(g, 0);
}
END_TEST

/* Two convolutions by one kernel, of which one is scaled. */
START_TEST(shared_weights_stay_as_they_are) {
  static const int64_t shape[] = {1, 1, 2};
  int64_t count;
  Onnx__Graph *g = times();
  ones_add(g, "w", 3, 2), ones_add(g, "s", 1, 10);
  node_add(g, "Conv", "x,w", "d");
  node_add(g, "Mul", "c,s", "m");
  node_add(g, "Sub", "m,d", "y");
  tn_onnx *model = loaded(g);
  ck_assert_uint_eq(joined(model), 1);
  float *y = result(model, 1, 3, shape, &count);
  ck_assert_int_eq(count, 2);
  for (int i = 0; i < 2; i++) ck_assert_float_eq_tol(y[i], 18 * number(i, false), 1e-5);
  free(y);
  tn_onnx_close(model);
}
END_TEST

/* x clip(x + 3, 0, most) / 6 behind a convolution by 1, with x first or second in its sum. */
static Onnx__Graph *hard_swish(bool second, float most, float by, bool read_twice) {
  static const int64_t open[] = {0, 1, 0};
  Onnx__Graph *g = graph_new("swish");
  input_add(g, "x", F32, 3, open);
  ones_add(g, "w", 3, 1), ones_add(g, "three", 1, 3);
  ones_add(g, "low", 0, 0), ones_add(g, "high", 0, most), ones_add(g, "six", 1, by);
  node_add(g, "Conv", "x,w", "c");
  node_add(g, "Add", second ? "three,c" : "c,three", "a");
  node_add(g, "Clip", "a,low,high", "k");
  node_add(g, "Mul", second ? "k,c" : "c,k", "m");
  node_add(g, by > 1 ? "Div" : "Mul", "m,six", "y");
  output_add(g, "y", F32, 3, open);
  if (read_twice) output_add(g, "k", F32, 3, open);
  return g;
}

START_TEST(chains_of_hard_swish_are_one_node) {
  static const int64_t shape[] = {5, 1, 3};
  for (int kind = 0; kind < 6; kind++) {
    int64_t count;
    bool twice = kind == 4;
    tn_onnx *model =
        loaded(hard_swish(kind & 1, kind == 5 ? 5 : 6, kind < 2 ? 6 : 1.0f / 6, twice));
    ck_assert_uint_eq(joined(model), kind < 4 ? 3 : 0);
    float *y = result(model, twice ? 2 : 1, 3, shape, &count);
    for (int64_t i = 0; i < count; i++) {
      float x = number(i, false), clipped = fminf(x + 3, kind == 5 ? 5 : 6);
      ck_assert_float_eq_tol(y[i], x * clipped / 6, 1e-6f);
    }
    free(y);
    tn_onnx_close(model);
  }
}
END_TEST

/* More weights than the host keeps: they come back from the device. */
START_TEST(large_weights_are_folded) {
  enum { IN = 300, OUT = 300 };
  static float weights[OUT * IN], x[IN], y[OUT];
  Onnx__Graph *g = graph_new("large");
  int64_t in = 0, out = OUT;
  for (int i = 0; i < OUT * IN; i++) weights[i] = number(i, false);
  for (int i = 0; i < IN; i++) x[i] = number(i, false);
  input_add(g, "x", F32, 2, (int64_t[]){1, IN});
  weight_add(g, "w", F32, 2, (int64_t[]){IN, OUT}, weights, sizeof weights);
  floats_add(g, "s", 1, &out, false);
  node_add(g, "Gemm", "x,w", "c");
  node_add(g, "Mul", "c,s", "y");
  output_add(g, "y", F32, 2, (int64_t[]){1, in});
  tn_onnx *model = loaded(g);
  ck_assert_uint_eq(joined(model), 1);
  tn_tensor *from, *to = NULL;
  ok(tn_tensor_from_host(device, TN_F32, 2, (int64_t[]){1, IN}, x, &from));
  ck_assert_int_eq(tn_onnx_run(model, NULL, 1, (const tn_tensor *const *)&from, 1, &to), TN_OK);
  ok(tn_tensor_to_host(to, y, sizeof y));
  for (int k = 0; k < OUT; k++) {
    double sum = 0;
    for (int i = 0; i < IN; i++) sum += (double)x[i] * (double)weights[i * OUT + k];
    ck_assert_double_eq_tol((double)y[k], sum * (double)number(k + 31, false), 2e-4);
  }
  tn_tensor_release(from), tn_tensor_release(to);
  tn_onnx_close(model);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_loop_test(t, results_stay, 0, sizeof all_layers / sizeof *all_layers);
  tcase_add_test(t, numbers_that_would_be_lost_stay);
  tcase_add_loop_test(t, extreme_scales_give_what_they_gave, 0, EXTREMES);
  tcase_add_test(t, only_what_nobody_else_reads_is_folded);
  tcase_add_test(t, shared_weights_stay_as_they_are);
  tcase_add_test(t, chains_of_hard_swish_are_one_node);
  tcase_add_test(t, large_weights_are_folded);
}

int main(void) { return run_suite("onnx fold", add_tests); }
