/*
 * Cases of convolution, transposed convolution and their gradients: one list of forward
 * shapes of three axes, of which an operator takes as many as it has, the last ones.
 */
#include "combine.h"
#include "op_case.h"

enum { ACTIVATIONS = 7 }; /* those of tn_activation that convolutions have */

typedef struct conv {
  int64_t n, c, k, size[3], kernel[3], stride[3], padding[3], dilation[3], groups;
} conv;

static const conv convs[] = {
    {2, 3, 4, {4, 5, 6}, {2, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {1, 1, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 3, 5, {3, 7, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1},
    {2, 4, 6, {2, 9, 8}, {1, 3, 2}, {1, 2, 1}, {0, 1, 0}, {1, 1, 1}, 2},
    {1, 3, 7, {7, 11, 12}, {3, 3, 3}, {3, 2, 3}, {2, 2, 1}, {2, 2, 2}, 1},
    {2, 6, 6, {3, 6, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 6},
    {2, 4, 8, {4, 6, 7}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, 4},
    {3, 8, 16, {2, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 5, 3, {3, 7, 7}, {1, 1, 1}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 8, 8, {2, 4, 4}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 2},
    {1, 2, 3, {5, 9, 9}, {2, 5, 5}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, 1},
    {1, 2, 2, {3, 8, 8}, {3, 7, 3}, {2, 1, 2}, {1, 3, 1}, {1, 1, 1}, 1},
    {1, 3, 2, {3, 3, 3}, {3, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {1, 1, 1, {4, 4, 4}, {2, 2, 2}, {3, 3, 3}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 3, 4, {2, 8, 9}, {2, 3, 3}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, 1},
    {0, 3, 4, {3, 5, 6}, {3, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 1, 8, {2, 28, 28}, {1, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 16, 24, {2, 12, 12}, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1},
    {3, 17, 13, {3, 10, 9}, {2, 3, 3}, {2, 2, 2}, {0, 1, 1}, {1, 1, 1}, 1},
    {2, 3, 4, {6, 10, 10}, {2, 2, 2}, {1, 1, 1}, {1, 3, 3}, {2, 3, 3}, 1},
    {1, 2, 3, {2, 1, 300}, {1, 1, 5}, {1, 1, 2}, {0, 0, 2}, {1, 1, 1}, 1},
    {1, 96, 3, {1, 1, 1500}, {1, 1, 7}, {1, 1, 1}, {0, 0, 2}, {1, 1, 1}, 1},
    {1, 4, 4, {4, 5, 11}, {2, 2, 4}, {4, 3, 5}, {0, 1, 1}, {1, 1, 2}, 4},
    {3, 1, 11, {1, 40, 37}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1},
    {70, 1, 9, {1, 8, 9}, {1, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 1, 20, {1, 33, 70}, {1, 5, 5}, {1, 2, 1}, {0, 2, 1}, {1, 1, 2}, 1},
    {2, 3, 19, {1, 20, 21}, {1, 3, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 1}, 1},
    {2, 4, 12, {1, 9, 9}, {1, 5, 5}, {1, 1, 1}, {0, 2, 2}, {1, 1, 1}, 4},
    {2, 16, 16, {1, 9, 10}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 16},
    {3, 24, 24, {1, 10, 7}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 24},
    {1, 8, 8, {1, 4, 21}, {1, 3, 3}, {1, 1, 1}, {0, 3, 0}, {1, 1, 1}, 8},
    {2, 80, 80, {1, 7, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 80},
    {2, 16, 16, {1, 13, 9}, {1, 5, 3}, {1, 2, 1}, {0, 1, 3}, {1, 2, 3}, 16},
    {2, 8, 24, {1, 6, 9}, {1, 3, 3}, {1, 1, 2}, {0, 1, 0}, {1, 1, 1}, 8},
    {3, 20, 24, {1, 5, 17}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 40, 34, {1, 9, 35}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, 2},
    {1, 2049, 16, {1, 1, 16}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {2, 8, 9, {1, 13, 27}, {1, 5, 4}, {1, 2, 3}, {0, 2, 1}, {1, 1, 2}, 1},
    {2, 3, 3, {1, 15, 12}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}, {1, 1, 1}, 3},
    {2, 5, 5, {1, 14, 6}, {1, 3, 3}, {1, 1, 1}, {0, 2, 1}, {1, 1, 1}, 5},
    {8, 64, 128, {1, 3, 3}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1},
    {2, 16, 8, {1, 17, 33}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1},
    {2, 24, 40, {1, 8, 9}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
    {1, 40, 48, {1, 11, 10}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 1},
};

/* How many spatial axes the operator has: its x is [n, c, ...]. */
static int axes_of(const tn_operator *op) {
  uint32_t type = op->attrs[0].type;
  return type == TN_ATTR_I64 ? 1 : type == TN_ATTR_PAIR ? 2 : 3;
}

/* What the padded input has left over the last window, and the number of windows. */
static int64_t slack(const conv *v, int axis) {
  return v->size[axis] + 2 * v->padding[axis] - v->dilation[axis] * (v->kernel[axis] - 1) - 1;
}

static int64_t out_size(const conv *v, int axis) { return slack(v, axis) / v->stride[axis] + 1; }

static void set_attrs(op_case *c, const conv *v, int axes) {
  for (int i = 0; i < axes; i++) {
    int axis = 3 - axes + i;
    case_set(c, "stride", i, (double)v->stride[axis]);
    case_set(c, "padding", i, (double)v->padding[axis]);
    case_set(c, "dilation", i, (double)v->dilation[axis]);
    case_set(c, "size", i, (double)v->size[axis]);
    case_set(c, "kernel", i, (double)v->kernel[axis]);
    case_set(c, "output_padding", i, (double)(slack(v, axis) % v->stride[axis]));
  }
  case_set(c, "groups", 0, (double)v->groups);
}

/* The shapes of the convolution: a transposed one reads y and gives x. */
static void shapes(op_case *c, const conv *v) {
  int axes = axes_of(c->op), first = 3 - axes;
  int64_t x[5] = {v->n, v->c}, w[5] = {v->k, v->c / v->groups}, y[5] = {v->n, v->k};
  for (int i = 0; i < axes; i++) {
    x[2 + i] = v->size[first + i];
    w[2 + i] = v->kernel[first + i];
    y[2 + i] = out_size(v, first + i);
  }
  uint32_t rule = c->op->shape;
  bool reads_x = rule == TN_SHAPE_CONV || rule == TN_SHAPE_CONV2D || rule == TN_SHAPE_CONV2D_ADD ||
                 rule == TN_SHAPE_CONV_TRANSPOSE_GRAD_INPUT ||
                 rule == TN_SHAPE_CONV_TRANSPOSE_GRAD_WEIGHT;
  const int64_t *second = w;
  if (rule == TN_SHAPE_CONV_GRAD_WEIGHT || rule == TN_SHAPE_CONV2D_GRAD_WEIGHT) second = x;
  if (rule == TN_SHAPE_CONV_TRANSPOSE_GRAD_WEIGHT) second = y;
  case_shape(c, 0, 2 + axes, reads_x ? x : y);
  case_shape(c, 1, 2 + axes, second);
  if (op_inputs(c->op) > 2) case_shape(c, 2, 1, rule == TN_SHAPE_CONV_TRANSPOSE ? &v->c : &v->k);
  if (op_inputs(c->op) > 3) case_shape(c, 3, 2 + axes, y);
  set_attrs(c, v, axes);
}

void cases_conv(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof convs / sizeof *convs; i++)
    for (unsigned round = 0; round < 4; round++) {
      op_case c = case_begin(op, types);
      if (round > 1 && !case_has(&c, "activation")) break;
      shapes(&c, &convs[i]);
      c.arg[2].absent = op_inputs(op) > 2 && round % 2 == 1;
      c.arg[3].absent = op_inputs(op) > 3 && round == 1 && i % 4 == 0;
      /* Each of them with and without a bias, with windows of all kinds. */
      if (round > 1) case_set(&c, "activation", 0, 1 + (i + 3 * round) % ACTIVATIONS);
      c.seed += i * 2 + round;
      c.typical = i == 0 && round == 0;
      c.variants = round % 2 ? VARIANT_MADE | VARIANT_PERMUTED | VARIANT_PREPARED
                             : VARIANT_GIVEN | VARIANT_SLICED | VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
}

/* Stride, dilation and padding in turn, or else with a border that lets a window in. */
static void fit_windows(conv *v, unsigned round) {
  for (int i = 0; i < 3; i++) {
    v->stride[i] = 1 + combination_choice(round, 0, 2);
    v->dilation[i] = 1 + combination_choice(round, 1, 2);
    v->padding[i] = combination_choice(round, 2, 2);
    if (slack(v, i) < 0) v->padding[i] = 1;
  }
}

enum { N, IN, OUT, GROUPS, BIAS, SIZE, KERNEL = SIZE + 3, CONV_AXES = KERNEL + 3 };

static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  conv v = {.n = size[N] ? size[N] : 1 + combination_choice(round, 3, 2), .groups = size[GROUPS]};
  const bool bias = size[N] ? size[BIAS] : combination_choice(round, 4, 2);
  v.c = size[IN] * v.groups;
  v.k = size[OUT] * v.groups;
  for (int i = 0; i < 3; i++) {
    const bool absent = i < 3 - axes_of(c->op);
    if (absent && (size[SIZE + i] != 1 || size[KERNEL + i] != 1)) return false;
    v.size[i] = size[SIZE + i];
    v.kernel[i] = size[KERNEL + i];
  }
  if (op_inputs(c->op) < 3 && size[BIAS]) return false;
  fit_windows(&v, round);
  shapes(c, &v);
  c->arg[2].absent = op_inputs(c->op) > 2 && !bias;
  if (combination_choice(round, 5, 2))
    case_set(c, "activation", 0, 1 + combination_choice(round, 6, ACTIVATIONS));
  return true;
}

/* A 0 stands for images and bias in turn. */
void degenerate_conv(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const all[CONV_AXES] = {"12", "12", "12", "12", "01", "12",
                                             "12", "12", "12", "12", "12"};
  static const char *const three_axes[CONV_AXES] = {"0",  "12", "12", "12", "0", "12",
                                                    "12", "12", "12", "12", "12"};
  const char *const *sizes = axes_of(op) == 3 ? three_axes : all;
  combine(op, types, &(combination){CONV_AXES, sizes, degenerate}, sink);
}

/* A layer as in the example network and one of a residual network; with one and three
 * axes, layers of a speech and of a video network. */
void sizes_conv(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  static const conv list[3][2] = {
      {{16, 80, 512, {1, 1, 3000}, {1, 1, 3}, {1, 1, 1}, {0, 0, 1}, {1, 1, 1}, 1},
       {4, 256, 256, {1, 1, 1024}, {1, 1, 3}, {1, 1, 2}, {0, 0, 1}, {1, 1, 1}, 1}},
      {{64, 32, 64, {1, 26, 26}, {1, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1},
       {8, 128, 128, {1, 28, 28}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1}},
      {{2, 3, 64, {16, 56, 56}, {3, 7, 7}, {1, 2, 2}, {1, 3, 3}, {1, 1, 1}, 1},
       {2, 64, 64, {8, 28, 28}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1}}};
  int axes = axes_of(op);
  (void)large;
  for (unsigned i = 0; i < 2; i++) {
    op_case c = case_begin(op, types);
    const conv *v = &list[axes - 1][i];
    shapes(&c, v);
    c.arg[2].absent = op_inputs(op) > 2;
    c.flops = 2.0 * (double)(v->n * v->k) * (double)(v->c / v->groups);
    for (int axis = 0; axis < 3; axis++) c.flops *= (double)(out_size(v, axis) * v->kernel[axis]);
    sink.take(sink.ctx, &c);
  }
}
