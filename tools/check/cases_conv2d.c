/* Cases of convolution and its gradients, one list of forward shapes for all three. */
#include "op_case.h"

typedef struct conv {
  int64_t n, c, h, w, k, kernel[2], stride[2], padding[2], dilation[2], groups;
} conv;

static const conv convs[] = {
    {2, 3, 5, 6, 4, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1},
    {1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 3, 7, 5, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 4, 9, 8, 6, {3, 2}, {2, 1}, {1, 0}, {1, 1}, 2},
    {1, 3, 11, 12, 7, {3, 3}, {2, 3}, {2, 1}, {2, 2}, 1},
    {2, 6, 6, 6, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 6},
    {2, 4, 6, 7, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 4},
    {3, 8, 5, 5, 16, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 5, 7, 7, 3, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 1},
    {2, 8, 4, 4, 8, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 2},
    {1, 2, 9, 9, 3, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1},
    {1, 2, 8, 8, 2, {7, 3}, {1, 2}, {3, 1}, {1, 1}, 1},
    {1, 3, 3, 3, 2, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1},
    {1, 1, 4, 4, 1, {2, 2}, {3, 3}, {0, 0}, {1, 1}, 1},
    {2, 3, 8, 9, 4, {3, 3}, {1, 1}, {2, 2}, {1, 1}, 1},
    {0, 3, 5, 6, 4, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 1, 28, 28, 8, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 16, 12, 12, 24, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {3, 17, 10, 9, 13, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
    {2, 3, 10, 10, 4, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1},
};

static int64_t out_size(const conv *v, int axis, int64_t in) {
  return (in + 2 * v->padding[axis] - v->dilation[axis] * (v->kernel[axis] - 1) - 1) /
             v->stride[axis] +
         1;
}

static void shapes(op_case *c, const conv *v) {
  const int64_t x[] = {v->n, v->c, v->h, v->w};
  const int64_t w[] = {v->k, v->c / v->groups, v->kernel[0], v->kernel[1]};
  const int64_t dy[] = {v->n, v->k, out_size(v, 0, v->h), out_size(v, 1, v->w)};
  bool forward = c->op->shape == TN_SHAPE_CONV2D;
  case_shape(c, 0, 4, forward ? x : dy);
  case_shape(c, 1, 4, c->op->shape == TN_SHAPE_CONV2D_GRAD_WEIGHT ? x : w);
  if (forward) case_shape(c, 2, 1, &v->k);
  case_set_pair(c, "stride", v->stride);
  case_set_pair(c, "padding", v->padding);
  case_set_pair(c, "dilation", v->dilation);
  case_set(c, "groups", 0, (double)v->groups);
  case_set_pair(c, "size", &x[2]);
  case_set_pair(c, "kernel", v->kernel);
}

void cases_conv2d(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof convs / sizeof *convs; i++)
    for (unsigned round = 0; round < 2; round++) {
      op_case c = case_begin(op, types);
      shapes(&c, &convs[i]);
      c.arg[2].absent = op->shape == TN_SHAPE_CONV2D && round == 1;
      c.seed += i * 2 + round;
      c.typical = i == 0 && round == 0;
      c.variants = round ? VARIANT_MADE | VARIANT_PERMUTED | VARIANT_PREPARED
                         : VARIANT_GIVEN | VARIANT_SLICED | VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
}

/* A layer as in the example network and one of a residual network. */
void sizes_conv2d(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  static const conv list[] = {{64, 32, 26, 26, 64, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1},
                              {8, 128, 28, 28, 128, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1}};
  (void)large;
  for (unsigned i = 0; i < 2; i++) {
    op_case c = case_begin(op, types);
    const conv *v = &list[i];
    shapes(&c, v);
    c.arg[2].absent = op->shape == TN_SHAPE_CONV2D;
    c.flops = 2.0 * (double)(v->n * v->k * out_size(v, 0, v->h) * out_size(v, 1, v->w)) *
              (double)(v->c / v->groups * v->kernel[0] * v->kernel[1]);
    sink.take(sink.ctx, &c);
  }
}
