/*
 * Convolutions over two axes, transposed ones and their gradients, of images, weights and results
 * that lie row-major or with channels last in every combination, results made and given. Inputs are
 * small whole numbers, so that every type and every device has the reference's result exactly.
 */
#include "numeric.h"

enum { X, W, Y, TENSORS };

/* Of x [n, c, h, w], w [k, c / groups, kh, kw], y [n, k, oh, ow]. */
typedef struct layer {
  const char *name;
  int64_t size[TENSORS][4];
  int64_t stride[2], padding[2], dilation[2], groups;
  bool bias;
} layer;

#define BOTH(n)                                                                                    \
  { n, n }

static const layer layers[] = {
    {"3 x 3", {{2, 4, 5, 6}, {8, 4, 3, 3}, {2, 8, 5, 6}}, BOTH(1), BOTH(1), BOTH(1), 1, true},
    {"1 x 1", {{2, 16, 3, 5}, {8, 16, 1, 1}, {2, 8, 3, 5}}, BOTH(1), BOTH(0), BOTH(1), 1, false},
    {"in groups", {{1, 8, 6, 5}, {8, 4, 3, 3}, {1, 8, 6, 5}}, BOTH(1), BOTH(1), BOTH(1), 2, true},
    {"each channel",
     {{2, 16, 5, 7}, {16, 1, 3, 3}, {2, 16, 5, 7}},
     BOTH(1),
     BOTH(1),
     BOTH(1),
     16,
     true},
    {"each channel, steps of 2",
     {{1, 8, 9, 7}, {8, 1, 3, 3}, {1, 8, 5, 4}},
     BOTH(2),
     BOTH(1),
     BOTH(1),
     8,
     false},
    {"each of many channels",
     {{2, 88, 9, 13}, {88, 1, 3, 3}, {2, 88, 9, 13}},
     BOTH(1),
     BOTH(1),
     BOTH(1),
     88,
     true},
    {"each channel, no padding above",
     {{1, 72, 6, 19}, {72, 1, 3, 3}, {1, 72, 4, 21}},
     BOTH(1),
     {0, 2},
     BOTH(1),
     72,
     true},
    {"each channel, 5 x 5",
     {{2, 40, 12, 18}, {40, 1, 5, 5}, {2, 40, 12, 18}},
     BOTH(1),
     BOTH(2),
     BOTH(1),
     40,
     true},
    {"each channel, 5 x 5, steps of 2",
     {{1, 72, 11, 20}, {72, 1, 5, 5}, {1, 72, 6, 10}},
     BOTH(2),
     BOTH(2),
     BOTH(1),
     72,
     true},
    {"each channel, steps of 2, no padding",
     {{1, 136, 8, 35}, {136, 1, 3, 3}, {1, 136, 3, 17}},
     BOTH(2),
     BOTH(0),
     BOTH(1),
     136,
     false},
    {"each channel, wide",
     {{1, 8, 5, 70}, {8, 1, 3, 3}, {1, 8, 5, 70}},
     BOTH(1),
     BOTH(1),
     BOTH(1),
     8,
     true},
    {"each channel, more padding than windows",
     {{1, 16, 3, 4}, {16, 1, 3, 3}, {1, 16, 9, 10}},
     BOTH(1),
     BOTH(4),
     BOTH(1),
     16,
     true},
    {"each channel, 5 x 7, dilated",
     {{2, 24, 17, 15}, {24, 1, 5, 7}, {2, 24, 13, 7}},
     {1, 2},
     {2, 5},
     {2, 2},
     24,
     true},
    {"each channel, a step down only",
     {{1, 16, 11, 10}, {16, 1, 3, 4}, {1, 16, 4, 9}},
     {3, 1},
     {1, 1},
     BOTH(1),
     16,
     false},
    {"twice each channel",
     {{2, 16, 6, 9}, {32, 1, 3, 3}, {2, 32, 6, 9}},
     BOTH(1),
     BOTH(1),
     BOTH(1),
     16,
     true},
    {"three times each channel, steps of 2",
     {{1, 8, 7, 9}, {24, 1, 3, 2}, {1, 24, 4, 5}},
     BOTH(2),
     BOTH(1),
     BOTH(1),
     8,
     true},
    {"first of a network",
     {{1, 3, 9, 9}, {8, 3, 3, 3}, {1, 8, 5, 5}},
     BOTH(2),
     BOTH(1),
     BOTH(1),
     1,
     true},
    {"of one channel",
     {{2, 1, 6, 5}, {4, 1, 3, 3}, {2, 4, 4, 3}},
     BOTH(1),
     BOTH(0),
     BOTH(1),
     1,
     false},
    {"1 x 1 in tiles",
     {{3, 20, 5, 7}, {24, 20, 1, 1}, {3, 24, 5, 7}},
     BOTH(1),
     BOTH(0),
     BOTH(1),
     1,
     true},
    {"1 x 1 in tiles, steps of 2",
     {{2, 18, 8, 9}, {17, 18, 1, 1}, {2, 17, 4, 5}},
     BOTH(2),
     BOTH(0),
     BOTH(1),
     1,
     true},
    {"steps of 2 in tiles",
     {{2, 9, 15, 14}, {6, 9, 3, 3}, {2, 6, 8, 7}},
     BOTH(2),
     BOTH(1),
     BOTH(1),
     1,
     true},
    {"steps of 2 but for a channel",
     {{2, 3, 15, 14}, {6, 3, 3, 3}, {2, 6, 8, 7}},
     BOTH(2),
     BOTH(1),
     BOTH(1),
     1,
     true},
    {"steps of 2 but for a kernel",
     {{2, 9, 15, 14}, {3, 9, 3, 3}, {2, 3, 8, 7}},
     BOTH(2),
     BOTH(1),
     BOTH(1),
     1,
     true},
    {"steps of 2 in groups",
     {{2, 16, 10, 21}, {10, 8, 3, 3}, {2, 10, 5, 11}},
     BOTH(2),
     BOTH(1),
     BOTH(1),
     2,
     true},
    {"steps of 2, few columns",
     {{2, 9, 15, 4}, {6, 9, 3, 3}, {2, 6, 8, 2}},
     BOTH(2),
     BOTH(1),
     BOTH(1),
     1,
     true},
    {"steps over columns",
     {{2, 5, 17, 20}, {4, 5, 2, 2}, {2, 4, 6, 7}},
     BOTH(3),
     BOTH(0),
     BOTH(1),
     1,
     true},
    {"steps of 4",
     {{2, 5, 19, 30}, {7, 5, 8, 8}, {2, 7, 4, 7}},
     BOTH(4),
     BOTH(2),
     BOTH(1),
     1,
     true},
    {"steps of 5",
     {{1, 4, 11, 16}, {4, 4, 3, 3}, {1, 4, 2, 3}},
     BOTH(5),
     BOTH(0),
     BOTH(1),
     1,
     true},
    {"steps of 2, large windows",
     {{1, 4, 21, 30}, {4, 4, 9, 9}, {1, 4, 11, 15}},
     BOTH(2),
     BOTH(4),
     BOTH(1),
     1,
     false},
};

/* What an operator reads and gives; of a transposed convolution x is the result. */
typedef struct form {
  uint32_t op;
  int in[2], out;
  bool bias;
} form;

static const form forms[] = {
    {TN_OP_CONV2D, {X, W}, Y, true},
    {TN_OP_CONV2D_GRAD_INPUT, {Y, W}, X, false},
    {TN_OP_CONV2D_GRAD_WEIGHT, {Y, X}, W, false},
    {TN_OP_CONV_TRANSPOSE2D, {Y, W}, X, true},
    {TN_OP_CONV_TRANSPOSE2D_GRAD_INPUT, {X, W}, Y, false},
    {TN_OP_CONV_TRANSPOSE2D_GRAD_WEIGHT, {X, Y}, W, false},
};

static bench b;
static void setup(void) { bench_open(&b); }
static void teardown(void) { bench_close(&b); }

/* All the attributes that one of them has, in its struct's order: see api/ops/conv.def. */
typedef struct conv_attrs {
  uint32_t struct_size;
  int64_t number[12];
} conv_attrs;

static conv_attrs attrs_of(const layer *l, const form *f) {
  const int64_t *x = l->size[X], *w = l->size[W], *y = l->size[Y];
  const bool transposed = f->op == TN_OP_CONV_TRANSPOSE2D ||
                          f->op == TN_OP_CONV_TRANSPOSE2D_GRAD_INPUT ||
                          f->op == TN_OP_CONV_TRANSPOSE2D_GRAD_WEIGHT;
  conv_attrs a = {.number = {0}};
  int count = 0;
  for (int i = 0; i < 2; ++i) a.number[count++] = l->stride[i];
  for (int i = 0; i < 2; ++i) a.number[count++] = l->padding[i];
  for (int i = 0; i < 2; ++i) a.number[count++] = l->dilation[i];
  a.number[count++] = l->groups;
  for (int i = 0; i < 2 && transposed; ++i) {
    const int64_t window = l->dilation[i] * (w[2 + i] - 1) + 1;
    a.number[count++] = x[2 + i] - ((y[2 + i] - 1) * l->stride[i] - 2 * l->padding[i] + window);
  }
  for (int i = 0; i < 2; ++i) {
    if (f->op == TN_OP_CONV2D_GRAD_INPUT) a.number[count++] = x[2 + i];
    if (f->op == TN_OP_CONV2D_GRAD_WEIGHT || f->op == TN_OP_CONV_TRANSPOSE2D_GRAD_WEIGHT)
      a.number[count++] = w[2 + i];
  }
  a.struct_size = (uint32_t)(offsetof(conv_attrs, number) + (size_t)count * sizeof(int64_t));
  return a;
}

/* --- tensors --- */

/* The tensor, or one of its values with channels last; takes it over. */
static tn_tensor *laid(tn_tensor *t, bool last) {
  static const int32_t inwards[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2};
  tn_tensor *view = NULL, *dense = NULL, *turned = NULL;
  if (!last) return t;
  ok(tn_tensor_permute(t, inwards, &view));
  ok(tn_tensor_contiguous(NULL, view, &dense));
  ok(tn_tensor_permute(dense, back, &turned));
  tn_tensor_release(dense);
  tn_tensor_release(view);
  tn_tensor_release(t);
  return turned;
}

/* Bit i of `last`: tensor i has its channels last; bit TENSORS: the call makes the result. */
static tn_tensor *convolve(tn_device *device, tn_dtype dtype, const layer *l, const form *f,
                           unsigned last) {
  const conv_attrs attrs = attrs_of(l, f);
  tn_tensor *in[3] = {NULL}, *out = NULL;
  for (int i = 0; i < 2; ++i)
    in[i] = laid(whole_numbers(device, dtype, 4, l->size[f->in[i]], 1, 1 + (uint32_t)f->in[i]),
                 last >> f->in[i] & 1);
  const bool biased = f->bias && l->bias;
  if (biased) in[2] = whole_numbers(device, dtype, 1, &l->size[f->out][1], 1, 9);
  if (!(last >> TENSORS & 1))
    out = laid(unwritten(device, dtype, 4, l->size[f->out]), last >> f->out & 1);
  const tn_call call = {.struct_size = sizeof call,
                        .op = f->op,
                        .stream = tn_device_default_stream(device),
                        .in = (const tn_tensor *const *)in,
                        .out = &out,
                        .attrs = &attrs,
                        .num_in = f->bias ? 3 : 2,
                        .num_out = 1};
  ok(tn_invoke(&call));
  for (int i = 0; i < 3; ++i) tn_tensor_release(in[i]);
  return out;
}

START_TEST(as_the_reference) {
  static const tn_dtype types[] = {TN_F32, TN_F16, TN_BF16};
  const layer *l = &layers[_i];
  for (size_t k = 0; k < sizeof forms / sizeof *forms; ++k)
    for (int t = 0; t < 3; ++t) {
      tn_tensor *y = convolve(b.devices[0], types[t], l, &forms[k], 0);
      const int64_t count = tn_tensor_elements(y);
      double *want = values_of(y);
      tn_tensor_release(y);
      for (int d = 0; d < b.count; ++d)
        for (unsigned last = 0; last < 2u << TENSORS; ++last)
          must_be(&b, l->name, d, convolve(b.devices[d], types[t], l, &forms[k], last), count, want,
                  0);
      free(want);
    }
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, as_the_reference, 0, (int)(sizeof layers / sizeof *layers));
}

int main(void) { return run_suite("conv_layouts", add_tests); }
