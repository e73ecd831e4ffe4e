/* Cases of pooling and its gradients: overlap, gaps, borders, windows cut by the edge. */
#include "op_case.h"

typedef struct pool {
  int64_t n, c, h, w, kernel[2], stride[2], padding[2];
} pool;

static const pool pools[] = {
    {2, 3, 6, 8, {2, 2}, {0, 0}, {0, 0}},   {1, 1, 1, 1, {1, 1}, {0, 0}, {0, 0}},
    {2, 3, 7, 9, {2, 2}, {2, 2}, {0, 0}},   {2, 2, 7, 7, {3, 3}, {2, 2}, {1, 1}},
    {1, 4, 8, 5, {3, 3}, {1, 1}, {1, 1}},   {1, 2, 9, 9, {3, 2}, {1, 3}, {1, 1}},
    {2, 1, 5, 5, {5, 5}, {1, 1}, {2, 2}},   {1, 2, 6, 6, {2, 2}, {3, 3}, {0, 0}},
    {2, 5, 4, 4, {4, 4}, {4, 4}, {0, 0}},   {0, 3, 6, 6, {2, 2}, {2, 2}, {0, 0}},
    {3, 0, 6, 6, {2, 2}, {2, 2}, {0, 0}},   {2, 17, 24, 24, {2, 2}, {2, 2}, {0, 0}},
    {1, 3, 33, 31, {3, 3}, {2, 1}, {0, 1}}, {2, 3, 10, 12, {4, 3}, {2, 2}, {2, 1}},
    {1, 1, 3, 200, {1, 2}, {1, 2}, {0, 0}},
};

/* An element that lies in the window, as max_pool2d might have chosen it. */
static int64_t draw_index(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  int64_t place[2];
  (void)arg;
  for (int i = 0; i < 2; i++) {
    int64_t kernel = (int64_t)case_get(c, "kernel", i), size = (int64_t)case_get(c, "size", i);
    int64_t stride = (int64_t)case_get(c, "stride", i), pad = (int64_t)case_get(c, "padding", i);
    int64_t begin = at[2 + i] * (stride ? stride : kernel) - pad, end = begin + kernel;
    if (begin < 0) begin = 0;
    if (end > size) end = size;
    random = case_mix(random);
    place[i] = begin + (int64_t)(random % (uint64_t)(end - begin));
  }
  return place[0] * (int64_t)case_get(c, "size", 1) + place[1];
}

static void shapes(op_case *c, const pool *p) {
  int64_t x[] = {p->n, p->c, p->h, p->w}, y[] = {p->n, p->c, 0, 0};
  for (int i = 0; i < 2; i++) {
    int64_t stride = p->stride[i] ? p->stride[i] : p->kernel[i];
    y[2 + i] = (x[2 + i] + 2 * p->padding[i] - p->kernel[i]) / stride + 1;
  }
  bool forward = c->op->shape == TN_SHAPE_POOL2D;
  for (uint32_t i = 0; i < op_inputs(c->op); i++) case_shape(c, i, 4, forward ? x : y);
  for (uint32_t i = 0; i < op_inputs(c->op); i++)
    if (c->op->args[i].type == TN_TYPE_FIXED(TN_I32)) c->arg[i].index = draw_index;
  case_set_pair(c, "kernel", p->kernel);
  case_set_pair(c, "stride", p->stride);
  case_set_pair(c, "padding", p->padding);
  case_set_pair(c, "size", &x[2]);
}

static value_kind values_of(const tn_operator *op, unsigned round) {
  static const value_kind exact[] = {VALUES_PLAIN, VALUES_TIES, VALUES_SPECIAL, VALUES_WIDE};
  if (op->flags & TN_OPERATOR_ACCUMULATES) return round % 4 == 2 ? VALUES_SPARSE : VALUES_PLAIN;
  return exact[round % 4];
}

void cases_pool2d(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof pools / sizeof *pools; i++)
    for (unsigned round = 0; round < 4; round++) {
      op_case c = case_begin(op, types);
      shapes(&c, &pools[i]);
      c.values = values_of(op, round);
      c.seed += i * 4 + round;
      case_set(&c, "count_padding", 0, round % 2);
      if (op->num_args > 2 && op->args[2].kind == TN_ARG_OPTIONAL_OUT) c.arg[2].absent = round == 1;
      c.variants |= VARIANT_CHANNELS_LAST | (round == 3 ? VARIANT_PREPARED : 0);
      c.typical = i == 0 && round == 0;
      sink.take(sink.ctx, &c);
    }
}

void sizes_pool2d(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  pool p = {64, 64, 24, 24, {2, 2}, {2, 2}, {0, 0}};
  op_case c = case_begin(op, types);
  if (large > 100 * 64 * 64 * 24 * 24) p.n = 256;
  shapes(&c, &p);
  sink.take(sink.ctx, &c);
}
