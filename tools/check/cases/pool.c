/*
 * Cases of pooling and its gradients: overlap, gaps, borders, windows cut by the edge; and
 * of adaptive pooling. Shapes have three axes, of which an operator takes its number.
 */
#include "combine.h"
#include "op_case.h"

typedef struct pool {
  int64_t n, c, size[3], kernel[3], stride[3], padding[3], output[3];
} pool;

static const pool pools[] = {
    {2, 3, {4, 6, 8}, {2, 2, 2}, {0, 0, 0}, {0, 0, 0}, {2, 3, 4}},
    {1, 1, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}},
    {2, 3, {3, 7, 9}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {2, 3, 4}},
    {2, 2, {5, 7, 7}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, {7, 5, 7}},
    {1, 4, {2, 8, 5}, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {2, 3, 8}},
    {1, 2, {4, 9, 9}, {2, 3, 2}, {3, 1, 3}, {1, 1, 1}, {1, 2, 12}},
    {2, 1, {3, 5, 5}, {3, 5, 5}, {1, 1, 1}, {1, 2, 2}, {5, 1, 1}},
    {1, 2, {5, 6, 6}, {2, 2, 2}, {3, 3, 3}, {0, 0, 0}, {3, 4, 6}},
    {2, 5, {3, 4, 4}, {3, 4, 4}, {3, 4, 4}, {0, 0, 0}, {2, 9, 3}},
    {0, 3, {2, 6, 6}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 3, 2}},
    {3, 0, {2, 6, 6}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 3, 2}},
    {2, 17, {2, 24, 24}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 7, 7}},
    {1, 3, {2, 33, 31}, {2, 3, 3}, {1, 2, 1}, {1, 0, 1}, {2, 6, 13}},
    {2, 3, {4, 10, 12}, {3, 4, 3}, {2, 2, 2}, {1, 2, 1}, {4, 3, 7}},
    {1, 1, {2, 3, 200}, {1, 1, 2}, {1, 1, 2}, {0, 0, 0}, {1, 2, 9}},
};

static int axes_of(const tn_operator *op) {
  uint32_t type = op->attrs[0].type;
  return type == TN_ATTR_I64 ? 1 : type == TN_ATTR_PAIR ? 2 : 3;
}

static bool is_adaptive(const tn_operator *op) {
  return op->shape == TN_SHAPE_ADAPTIVE_POOL || op->shape == TN_SHAPE_ADAPTIVE_POOL_GRAD;
}

/* A place in the window along axis i, as the forward operator might have chosen it. */
static int64_t draw_place(const op_case *c, int i, int64_t o, int64_t out, uint64_t random) {
  int64_t size = (int64_t)case_get(c, "size", i), begin = o * size / out;
  int64_t end = ((o + 1) * size + out - 1) / out;
  if (!is_adaptive(c->op)) {
    int64_t kernel = (int64_t)case_get(c, "kernel", i), pad = (int64_t)case_get(c, "padding", i);
    int64_t stride = (int64_t)case_get(c, "stride", i);
    begin = o * (stride ? stride : kernel) - pad;
    end = begin + kernel;
  }
  if (begin < 0) begin = 0;
  if (end > size) end = size;
  return begin + (int64_t)(random % (uint64_t)(end - begin));
}

static int64_t draw_index(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  int64_t place = 0;
  for (int i = 0; i < axes_of(c->op); i++) {
    random = case_mix(random);
    place = place * (int64_t)case_get(c, "size", i) +
            draw_place(c, i, at[2 + i], c->arg[arg].shape[2 + i], random);
  }
  return place;
}

static int64_t windows(const pool *p, int axis, bool ceil_mode) {
  int64_t stride = p->stride[axis] ? p->stride[axis] : p->kernel[axis];
  int64_t rest = p->size[axis] + 2 * p->padding[axis] - p->kernel[axis];
  int64_t count = (rest + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  return (count - 1) * stride >= p->size[axis] + p->padding[axis] ? count - 1 : count;
}

static void set_attrs(op_case *c, const pool *p, int axes) {
  for (int i = 0; i < axes; i++) {
    int axis = 3 - axes + i;
    case_set(c, "kernel", i, (double)p->kernel[axis]);
    case_set(c, "stride", i, (double)p->stride[axis]);
    case_set(c, "padding", i, (double)p->padding[axis]);
    case_set(c, "size", i, (double)p->size[axis]);
    case_set(c, "output", i, (double)p->output[axis]);
  }
}

static void shapes(op_case *c, const pool *p, bool ceil_mode) {
  int axes = axes_of(c->op), first = 3 - axes;
  int64_t x[5] = {p->n, p->c}, y[5] = {p->n, p->c};
  uint32_t rule = c->op->shape;
  bool forward = rule == TN_SHAPE_POOL || rule == TN_SHAPE_POOL2D || rule == TN_SHAPE_ADAPTIVE_POOL;
  for (int i = 0; i < axes; i++) {
    x[2 + i] = p->size[first + i];
    y[2 + i] = is_adaptive(c->op) ? p->output[first + i] : windows(p, first + i, ceil_mode);
  }
  for (uint32_t i = 0; i < op_inputs(c->op); i++) {
    case_shape(c, i, 2 + axes, forward ? x : y);
    if (c->op->args[i].type == TN_TYPE_FIXED(TN_I32)) c->arg[i].index = draw_index;
  }
  set_attrs(c, p, axes);
  case_set(c, "ceil_mode", 0, ceil_mode);
}

static value_kind values_of(const tn_operator *op, unsigned round) {
  static const value_kind exact[] = {VALUES_PLAIN, VALUES_TIES, VALUES_SPECIAL, VALUES_WIDE};
  if (op->flags & TN_OPERATOR_ACCUMULATES) return round % 4 == 2 ? VALUES_SPARSE : VALUES_PLAIN;
  return exact[round % 4];
}

void cases_pool(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof pools / sizeof *pools; i++)
    for (unsigned round = 0; round < 4; round++) {
      op_case c = case_begin(op, types);
      shapes(&c, &pools[i], round > 1);
      c.values = values_of(op, round);
      c.seed += i * 4 + round;
      case_set(&c, "count_padding", 0, round % 2);
      if (op->num_args > 2 && op->args[2].kind == TN_ARG_OPTIONAL_OUT) c.arg[2].absent = round == 1;
      c.variants |= VARIANT_CHANNELS_LAST | (round == 3 ? VARIANT_PREPARED : 0);
      c.typical = i == 0 && round == 0;
      sink.take(sink.ctx, &c);
    }
}

enum { N, C, STRIDE, SIZE, KERNEL = SIZE + 3, POOL_AXES = KERNEL + 3 };

/* A window that the image is too small for gets a border. */
static bool fit_window(pool *p, int i, unsigned round) {
  p->padding[i] = p->kernel[i] > 1 && combination_choice(round, 0, 2);
  if (p->kernel[i] > p->size[i] + 2 * p->padding[i]) p->padding[i] = 1;
  return p->padding[i] <= p->kernel[i] / 2;
}

/* What is a kernel to others is the output's size to an adaptive one. */
static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  pool p = {.n = size[N], .c = size[C]};
  for (int i = 0; i < 3; i++) {
    const bool absent = i < 3 - axes_of(c->op);
    if (absent && (size[SIZE + i] != 1 || size[KERNEL + i] != 1)) return false;
    p.size[i] = size[SIZE + i];
    p.kernel[i] = p.output[i] = size[KERNEL + i];
    p.stride[i] = size[STRIDE];
    if (!is_adaptive(c->op) && !fit_window(&p, i, round)) return false;
  }
  if (is_adaptive(c->op) && size[STRIDE] != 1) return false;
  shapes(c, &p, combination_choice(round, 1, 2));
  case_set(c, "count_padding", 0, combination_choice(round, 2, 2));
  if (c->op->num_args > 2 && c->op->args[2].kind == TN_ARG_OPTIONAL_OUT)
    c->arg[2].absent = combination_choice(round, 3, 2);
  return true;
}

void degenerate_pool(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  const bool many = axes_of(op) == 3;
  const char *const sizes[POOL_AXES] = {
      many ? "2" : "12", many ? "1" : "12", "12", "12", "12", "12", "12", "12", "12"};
  combine(op, types, &(combination){POOL_AXES, sizes, degenerate}, sink);
}

void sizes_pool(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  static const pool list[3] = {{64, 64, {1, 1, 576}, {1, 1, 2}, {1, 1, 2}, {0, 0, 0}, {1, 1, 288}},
                               {64, 64, {1, 24, 24}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {1, 12, 12}},
                               {64, 64, {8, 8, 8}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {4, 4, 4}}};
  pool p = list[axes_of(op) - 1];
  op_case c = case_begin(op, types);
  if (large > 100 * 64 * 64 * 24 * 24) p.n = 256;
  shapes(&c, &p, false);
  sink.take(sink.ctx, &c);
}
