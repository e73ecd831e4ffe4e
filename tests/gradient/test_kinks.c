/*
 * What is taken where functions have no derivative and among equal elements: docs/gradients.md
 * promises it, on every device.
 */
#include <math.h>
#include <stdio.h>

#include "tenon/graph.h"
#include "tests/every_device.h"

enum { MOST = 4, INPUTS = 3 };

typedef struct numbers {
  int32_t rank; /* 0 is none; else of shape [1, ..., n] */
  int64_t n;
  bool index;
  float values[MOST];
} numbers;

/* A call, updated tensors behind its inputs, and the gradients of sum(c y), c = 1, 2, 4, 8. */
typedef struct kink {
  uint32_t op;
  const void *attrs;
  numbers in[INPUTS];
  float want[INPUTS][MOST];
  bool updates;       /* the last of `in` */
  uint32_t num_extra; /* optional outputs that are left out */
} kink;

#define X(n, ...)                                                                                  \
  {                                                                                                \
    1, n, false, { __VA_ARGS__ }                                                                   \
  }
#define INDEX(n, ...)                                                                              \
  {                                                                                                \
    1, n, true, { __VA_ARGS__ }                                                                    \
  }
#define ATTRS(op, ...)                                                                             \
  &(const tn_##op##_attrs) { sizeof(tn_##op##_attrs), __VA_ARGS__ }
#define SELU_AT_0 1.7580993408473766f

static const kink kinks[] = {
    {TN_OP_RELU, NULL, {X(4, 0, -0.0f, 1, -1)}, {{0, 0, 4, 0}}},
    {TN_OP_ABS, NULL, {X(4, 0, -0.0f, -2, 3)}, {{0, 0, -4, 8}}},
    {TN_OP_LEAKY_RELU, ATTRS(leaky_relu, 0.25), {X(2, 0, 1)}, {{0.25f, 2}}},
    {TN_OP_ELU, ATTRS(elu, 0.5), {X(2, 0, 1)}, {{0.5f, 2}}},
    {TN_OP_SELU, NULL, {X(1, 0)}, {{SELU_AT_0}}},
    {TN_OP_PRELU, NULL, {X(3, 0, 1, -2), X(1, 0.25f)}, {{0.25f, 2, 1}, {-8}}},
    {TN_OP_CELU, ATTRS(celu, 0.5), {X(2, 0, 1)}, {{1, 2}}},
    {TN_OP_SHRINK, ATTRS(shrink, 0.5, 0), {X(4, -0.5f, 0.5f, 1, -1)}, {{0, 0, 4, 8}}},
    {TN_OP_THRESHOLDED_RELU, ATTRS(thresholded_relu, 1), {X(2, 1, 2)}, {{0, 2}}},
    {TN_OP_COPYSIGN, NULL, {X(3, 0, -2, 2), X(3, 1, 1, -1)}, {{0, -2, -4}, {0, 0, 0}}},
    {TN_OP_HARDSIGMOID, NULL, {X(3, -3, 3, 0)}, {{0, 0, 4.0f / 6}}},
    {TN_OP_HARDSWISH, NULL, {X(2, -3, 3)}, {{0, 2}}},
    {TN_OP_CLAMP, ATTRS(clamp, -1, 1), {X(4, -1, 1, 2, 0)}, {{1, 2, 0, 8}}},
    {TN_OP_MAXIMUM, NULL, {X(3, 1, 2, 3), X(3, 1, 3, 2)}, {{0.5f, 0, 4}, {0.5f, 2, 0}}},
    {TN_OP_MINIMUM, NULL, {X(3, 1, 2, 3), X(3, 1, 3, 2)}, {{0.5f, 2, 0}, {0.5f, 0, 4}}},
    {TN_OP_MAX, NULL, {X(4, 2, 2, 1, 2)}, {{1.0f / 3, 1.0f / 3, 0, 1.0f / 3}}},
    {TN_OP_MIN, NULL, {X(4, 1, 2, 1, 2)}, {{0.5f, 0, 0.5f, 0}}},
    {TN_OP_NORM, ATTRS(norm, {0, {0}}, 0, INFINITY), {X(3, 2, -2, 1)}, {{0.5f, -0.5f, 0}}},
    {TN_OP_NORM, NULL, {X(2, 0, 0)}, {{0, 0}}},
    {TN_OP_STD, NULL, {X(3, 1, 1, 1)}, {{0, 0, 0}}},
    {TN_OP_CUMMAX, NULL, {X(4, 1, 1, 0, 1)}, {{15, 0, 0, 0}}, .num_extra = 1},
    {TN_OP_SORT, NULL, {X(3, 2, 1, 2)}, {{2, 1, 4}}, .num_extra = 1},
    {TN_OP_TOPK, ATTRS(topk, 1, -1, 1), {X(2, 2, 2)}, {{1, 0}}, .num_extra = 1},
    {TN_OP_MAX_POOL1D,
     ATTRS(max_pool1d, 2),
     {{3, 4, false, {1, 1, 0, 0}}},
     {{1, 0, 2, 0}},
     .num_extra = 1},
    {TN_OP_SCATTER,
     NULL,
     {X(2, 5, 6), INDEX(2, 1, 1), X(2, 0, 0)},
     {{0, 2}, {0}, {1, 0}},
     .updates = true},
    {TN_OP_SCATTER_MAX,
     NULL,
     {X(3, 6, 6, 1), INDEX(3, 0, 0, 1), X(2, 6, 0)},
     {{0.5f, 0.5f, 2}, {0}, {0, 0}},
     .updates = true},
    {TN_OP_SCATTER_MIN,
     NULL,
     {X(3, -6, -6, -1), INDEX(3, 0, 0, 1), X(2, -6, 0)},
     {{0.5f, 0.5f, 2}, {0}, {0, 0}},
     .updates = true},
    {TN_OP_SCATTER_MUL,
     NULL,
     {X(2, 0, 3), INDEX(2, 0, 1), X(2, 5, 2)},
     {{NAN, 4}, {0}, {0, 6}},
     .updates = true},
    {TN_OP_SQRT, NULL, {X(1, 0)}, {{INFINITY}}},
    {TN_OP_CBRT, NULL, {X(1, 0)}, {{INFINITY}}},
    {TN_OP_HYPOT, NULL, {X(1, 0), X(1, 0)}, {{NAN}, {NAN}}},
    {TN_OP_POW, NULL, {X(4, 0, 0, 2, 0), X(4, 0, 2, 0, 1)}, {{0, 0, 0, 8}, {0, 0, 2.7725887f, 0}}},
    {TN_OP_HUBER_LOSS,
     ATTRS(huber_loss, TN_REDUCTION_NONE, 1),
     {X(2, 1, -1), X(2, 0, 0)},
     {{1, -2}, {-1, 2}}},
    {TN_OP_FLOOR, NULL, {X(2, 1, 0.5f)}, {{0, 0}}},
    {TN_OP_ROUND, NULL, {X(2, 0.5f, 1)}, {{0, 0}}},
    {TN_OP_SIGN, NULL, {X(2, 0, 1)}, {{0, 0}}},
};
enum { KINKS = sizeof kinks / sizeof *kinks };

/* A symbolic tensor for each input, and a real one for those that a run is given. */
typedef struct bench {
  tn_device *device;
  tn_graph *graph;
  const kink *of;
  uint32_t count;
  tn_tensor *input[INPUTS], *argument[INPUTS], *real[INPUTS], *gradient[INPUTS];
} bench;

static void shape_of(const numbers *x, int64_t *shape) {
  for (int i = 0; i < 3; ++i) shape[i] = i == x->rank - 1 ? x->n : 1;
}

static void add_input(bench *b, uint32_t i) {
  const numbers *x = &b->of->in[i];
  const bool updated = b->of->updates && i + 1 == b->count;
  int64_t shape[3], index[MOST];
  char name[16];
  shape_of(x, shape);
  snprintf(name, sizeof name, "x%u", i);
  if (x->index) {
    for (int k = 0; k < MOST; ++k) index[k] = (int64_t)x->values[k];
    ok(tn_tensor_from_host(tn_graph_device(b->graph), TN_I64, 1, shape, index, &b->argument[i]));
    return;
  }
  ok(tn_graph_input(b->graph, name, TN_F32, x->rank, shape, &b->input[i]));
  ok(tn_tensor_from_host(b->device, TN_F32, x->rank, shape, x->values, &b->real[i]));
  if (updated)
    ok(tn_copy(NULL, b->input[i], &b->argument[i]));
  else
    ok(tn_tensor_slice(b->input[i], 0, 0, shape[0], 1, &b->argument[i]));
}

static tn_tensor *loss_of(bench *b) {
  const float powers[MOST] = {1, 2, 4, 8};
  const uint32_t num_in = b->count - b->of->updates;
  tn_tensor *out[2] = {b->of->updates ? b->argument[num_in] : NULL, NULL};
  tn_tensor *c = NULL, *product = NULL, *loss = NULL;
  const tn_call call = {.struct_size = sizeof call,
                        .op = b->of->op,
                        .in = (const tn_tensor *const *)b->argument,
                        .out = out,
                        .attrs = b->of->attrs,
                        .num_in = (uint16_t)num_in,
                        .num_out = (uint16_t)(1 + b->of->num_extra),
                        .skip_out = b->of->num_extra << 1};
  ok(tn_invoke(&call));
  ok(tn_tensor_from_host(tn_graph_device(b->graph), TN_F32, tn_tensor_rank(out[0]),
                         tn_tensor_shape(out[0]), powers, &c));
  ok(tn_mul(NULL, out[0], c, &product));
  ok(tn_sum(NULL, product, NULL, &loss));
  tn_tensor_release(c);
  tn_tensor_release(product);
  if (!b->of->updates) tn_tensor_release(out[0]);
  return loss;
}

static bool same(float got, float want) {
  if (isnan(want)) return isnan(got);
  return got == want || fabsf(got - want) <= 1e-5f * fabsf(want);
}

static void run(bench *b) {
  const tn_tensor *in[INPUTS];
  tn_tensor *out[INPUTS] = {NULL};
  tn_program *p = NULL;
  size_t num_in = 0, num_out = 0, at = 0;
  char name[16];
  for (uint32_t i = 0; i < b->count; ++i) {
    if (b->input[i]) in[num_in++] = b->real[i];
    if (!b->gradient[i]) continue;
    snprintf(name, sizeof name, "g%u", i);
    ok(tn_graph_output(b->graph, name, b->gradient[i]));
    ++num_out;
  }
  if (!num_out) return; /* all are 0 */
  ok(tn_graph_compile(b->graph, b->device, NULL, &p));
  ok(tn_program_run(p, NULL, num_in, in, num_out, out));
  for (uint32_t i = 0; i < b->count; ++i) {
    float got[MOST] = {0};
    if (!b->gradient[i]) continue;
    ok(tn_tensor_to_host(out[at], got, tn_tensor_bytes(out[at])));
    for (int64_t k = 0; k < b->of->in[i].n; ++k)
      ck_assert_msg(same(got[k], b->of->want[i][k]), "kink %d, input %u, element %d: %g, not %g",
                    (int)(b->of - kinks), i, (int)k, (double)got[k], (double)b->of->want[i][k]);
    tn_tensor_release(out[at++]);
  }
  tn_program_destroy(p);
}

static void try(tn_runtime *rt, const kink *of) {
  bench b = {.device = tn_runtime_device(rt), .of = of};
  ok(tn_graph_create(rt, "kink", &b.graph));
  while (b.count < INPUTS && of->in[b.count].rank) ++b.count;
  for (uint32_t i = 0; i < b.count; ++i) add_input(&b, i);
  tn_tensor *loss = loss_of(&b);
  for (uint32_t i = 0; i < b.count; ++i) {
    if (!b.input[i]) continue;
    ok(tn_graph_gradient(b.graph, loss, 1, &b.input[i], &b.gradient[i]));
    for (int k = 0; !b.gradient[i] && k < MOST; ++k) ck_assert(of->want[i][k] == 0);
  }
  run(&b);
  for (uint32_t i = 0; i < b.count; ++i) {
    tn_tensor_release(b.input[i]);
    tn_tensor_release(b.argument[i]);
    tn_tensor_release(b.real[i]);
    tn_tensor_release(b.gradient[i]);
  }
  tn_tensor_release(loss);
  tn_graph_destroy(b.graph);
}

START_TEST(on_every_device) {
  tn_runtime *rt = open_every(_i);
  for (int i = 0; i < KINKS; ++i) {
    /* Its square root and its logarithm are there to fail. */
    const bool fails = kinks[i].op == TN_OP_SQRT || kinks[i].op == TN_OP_POW;
    if (fails && !strcmp(every_device[_i].plugin, SIM_PLUGIN)) continue;
    try(rt, &kinks[i]);
  }
  tn_runtime_close(rt);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_loop_test(tcase, on_every_device, 0, EVERY_DEVICE);
}

int main(void) { return run_suite("gradient kinks", add_tests); }
