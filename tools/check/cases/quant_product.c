/* Cases of products and convolutions of integers, with zero points and scales of every kind. */
#include "combine.h"
#include "op_case.h"

static const value_kind kinds[] = {VALUES_PLAIN, VALUES_BITS, VALUES_SPECIAL};

/* --- products --- */

typedef struct product {
  int64_t m, n, k;
} product;

static const product products[] = {
    {2, 3, 4}, {1, 1, 1},  {1, 17, 5},   {17, 1, 5},   {3, 5, 1},     {0, 3, 4},  {3, 0, 4},
    {3, 4, 0}, {7, 9, 13}, {33, 31, 65}, {64, 64, 64}, {5, 129, 300}, {65, 7, 8}, {129, 70, 271}};

/* Batch axes of a and of b, a digit each. */
static const char *const batches[][2] = {{"3", ""},    {"", "4"},   {"3", "3"}, {"1", "3"},
                                         {"21", "13"}, {"23", "1"}, {"0", "1"}, {"212", "32"}};

static void matrix(op_case *c, uint32_t arg, const char *batch, int64_t rows, int64_t columns) {
  int64_t shape[TN_MAX_RANK];
  int32_t rank = 0;
  for (; batch[rank]; rank++) shape[rank] = batch[rank] - '0';
  shape[rank] = rows;
  shape[rank + 1] = columns;
  case_shape(c, arg, rank + 2, shape);
}

/* One element, of rank 0 to 2, or one for each vector. */
static void vector(op_case *c, uint32_t arg, int64_t vectors, unsigned round) {
  static const int64_t ones[] = {1, 1};
  if (round % 4 == 3)
    case_shape(c, arg, 1, &vectors);
  else
    case_shape(c, arg, (int32_t)(round % 4), ones);
}

/* Zero points and scales of all operators here; `left` and `right` count what may have its own. */
static void quantities(op_case *c, int64_t left, int64_t right, unsigned round) {
  const bool scales = op_inputs(c->op) > 4;
  if (op_inputs(c->op) < 3) return;
  for (uint32_t i = 2; i < 4 && !scales; i++) {
    vector(c, i, i == 2 ? left : right, round + i);
    c->arg[i].absent = round >> i & 1;
  }
  if (!scales) return;
  vector(c, 1, left, round);
  vector(c, 2, left, round >> 2);
  vector(c, 4, right, round + 1);
  vector(c, 5, right, (round >> 1) + 2);
  vector(c, 6, 1, 0);
  vector(c, 7, 1, 1);
}

static uint32_t second_operand(const tn_operator *op) { return op_inputs(op) > 4 ? 3 : 1; }

/* Matrix units err by a part of the greatest product, which with E5M2 may be far more than float16
 * holds: whether a sum overflows is not known then. */
static bool is_rough_in_half(const op_case *c) {
  return c->op->id == TN_OP_MATMUL_SCALED && c->types[2] == TN_F16 &&
         (c->types[0] == TN_F8_E5M2 || c->types[1] == TN_F8_E5M2);
}

static op_case multiply(const tn_operator *op, const tn_dtype *types, product p,
                        const char *const *batch, unsigned round) {
  op_case c = case_begin(op, types);
  matrix(&c, 0, batch[0], p.m, p.k);
  matrix(&c, second_operand(op), batch[1], p.k, p.n);
  quantities(&c, p.m, p.n, round);
  c.values = kinds[round % 3];
  if (c.values == VALUES_BITS && is_rough_in_half(&c)) c.values = VALUES_PLAIN;
  c.seed += round;
  return c;
}

static void take_products(const tn_operator *op, const tn_dtype *types, unsigned rounds,
                          case_sink sink) {
  static const char *const none[] = {"", ""};
  for (unsigned i = 0; i < sizeof products / sizeof *products; i++)
    for (unsigned round = 0; round < rounds; round++) {
      op_case c = multiply(op, types, products[i], none, round + i);
      c.typical = i == 0 && round == 0;
      if (round == 1) c.arg[0].expanded = 1;
      if (i == 8) c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
  for (unsigned i = 0; i < sizeof batches / sizeof *batches; i++)
    for (unsigned round = 0; round < rounds; round++) {
      op_case c = multiply(op, types, (product){3, 5, 4}, batches[i], round + i);
      sink.take(sink.ctx, &c);
    }
}

void cases_matmul_int(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  take_products(op, types, 3, sink);
}

void cases_quantized_matmul(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  take_products(op, types, 6, sink);
}

enum { BATCH_A, BATCH_B, M, N, K, PRODUCT_AXES };

static bool small_product(op_case *c, const int64_t *size, unsigned round) {
  const char a[2] = {size[BATCH_A] ? (char)('0' + size[BATCH_A]) : 0, 0};
  const char b[2] = {size[BATCH_B] ? (char)('0' + size[BATCH_B]) : 0, 0};
  *c = multiply(c->op, c->types, (product){size[M], size[N], size[K]}, (const char *const[]){a, b},
                combination_choice(round, 0, 48));
  return true;
}

void degenerate_matmul_int(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const taken[PRODUCT_AXES] = {"012", "012", "12", "12", "120"};
  combine(op, types, &(combination){PRODUCT_AXES, taken, small_product, true}, sink);
}

void degenerate_quantized_matmul(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  degenerate_matmul_int(op, types, sink);
}

void sizes_matmul_int(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  static const int64_t sides[] = {128, 512, 1024, 4096};
  static const char *const none[] = {"", ""};
  for (unsigned i = 0; i < (large >= 1 << 26 ? 4 : 3); i++) {
    op_case c = multiply(op, types, (product){sides[i], sides[i], sides[i]}, none, 0);
    c.flops = 2.0 * (double)sides[i] * (double)sides[i] * (double)sides[i];
    sink.take(sink.ctx, &c);
  }
}

void sizes_quantized_matmul(const tn_operator *op, const tn_dtype *types, int64_t large,
                            case_sink sink) {
  sizes_matmul_int(op, types, large, sink);
}

/* --- convolutions --- */

typedef struct conv {
  int32_t spatial;
  int64_t n, c, k, size[3], kernel[3], stride[3], before[3], behind[3], dilation[3], groups;
} conv;

static const conv convs[] = {
    {2, 2, 3, 4, {5, 6}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {1, 1, 1, 1, {1}, {1}, {1}, {0}, {0}, {1}, 1},
    {1, 2, 3, 5, {11}, {3}, {2}, {1}, {2}, {1}, 1},
    {1, 1, 4, 6, {9}, {4}, {1}, {3}, {0}, {2}, 2},
    {2, 2, 3, 5, {7, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 2, 4, 6, {9, 8}, {3, 2}, {2, 1}, {1, 0}, {0, 2}, {1, 1}, 2},
    {2, 1, 3, 7, {11, 12}, {3, 3}, {2, 3}, {2, 1}, {2, 1}, {2, 2}, 1},
    {2, 2, 6, 6, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 6},
    {2, 1, 8, 16, {9, 9}, {3, 3}, {2, 2}, {0, 1}, {1, 0}, {1, 1}, 8},
    {2, 3, 8, 16, {5, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 2, 5, 3, {7, 7}, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 2, 33, 17, {10, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
    {2, 1, 16, 70, {12, 13}, {5, 3}, {1, 2}, {2, 1}, {2, 1}, {1, 1}, 1},
    {2, 0, 3, 4, {5, 6}, {3, 3}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 1, 2, 2, {4, 4}, {2, 2}, {3, 3}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 1, 3, 2, {2, 2}, {3, 3}, {1, 1}, {4, 4}, {3, 3}, {1, 1}, 1},
    {3, 2, 3, 4, {4, 5, 6}, {2, 3, 3}, {1, 1, 1}, {0, 1, 0}, {1, 0, 2}, {1, 1, 1}, 1},
    {3, 1, 4, 4, {3, 5, 7}, {2, 2, 2}, {2, 1, 3}, {1, 1, 1}, {0, 1, 1}, {1, 2, 1}, 4},
    {2, 1, 0, 3, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
    {2, 1, 3, 0, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
};

static int64_t windows(const conv *v, int i) {
  const int64_t padded = v->size[i] + v->before[i] + v->behind[i];
  return (padded - v->dilation[i] * (v->kernel[i] - 1) - 1) / v->stride[i] + 1;
}

static op_case convolve(const tn_operator *op, const tn_dtype *types, const conv *v,
                        unsigned round) {
  op_case c = case_begin(op, types);
  int64_t x[5] = {v->n, v->c}, w[5] = {v->k, v->c / v->groups};
  bool plain = true;
  for (int i = 0; i < v->spatial; i++) {
    x[2 + i] = v->size[i];
    w[2 + i] = v->kernel[i];
    plain = plain && v->stride[i] == 1 && v->dilation[i] == 1 && !v->before[i] && !v->behind[i];
  }
  for (int i = 0; i < v->spatial && !(plain && round & 1); i++) {
    case_set(&c, "stride", i, (double)v->stride[i]);
    case_set(&c, "dilation", i, (double)v->dilation[i]);
    case_set(&c, "padding", i, (double)v->before[i]);
    case_set(&c, "padding", v->spatial + i, (double)v->behind[i]);
  }
  case_set(&c, "groups", 0, (double)v->groups);
  case_shape(&c, 0, 2 + v->spatial, x);
  case_shape(&c, second_operand(op), 2 + v->spatial, w);
  quantities(&c, 1, v->k, round);
  if (op_inputs(op) > 8) {
    case_shape(&c, 8, 1, &v->k);
    c.arg[8].absent = round & 1;
  }
  c.values = kinds[round % 3];
  c.seed += round;
  return c;
}

void cases_quantized_conv(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof convs / sizeof *convs; i++)
    for (unsigned round = 0; round < 4; round++) {
      op_case c = convolve(op, types, &convs[i], round * 5 + i);
      c.typical = i == 0 && round == 0;
      c.variants = round & 1 ? VARIANT_MADE | VARIANT_PERMUTED | VARIANT_PREPARED
                             : VARIANT_GIVEN | VARIANT_SLICED;
      if (convs[i].spatial == 2) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
}

enum { IN, OUT, GROUPS, PAD, SIZE, KERNEL = SIZE + 2, CONV_AXES = KERNEL + 2 };

static bool small_conv(op_case *c, const int64_t *size, unsigned round) {
  conv v = {.spatial = 2, .n = 1 + combination_choice(round, 3, 2), .groups = size[GROUPS]};
  v.c = size[IN] * v.groups;
  v.k = size[OUT] * v.groups;
  for (int i = 0; i < 2; i++) {
    v.size[i] = size[SIZE + i];
    v.kernel[i] = size[KERNEL + i];
    v.stride[i] = 1 + combination_choice(round, 0, 2);
    v.dilation[i] = 1 + combination_choice(round, 1, 2);
    v.before[i] = size[PAD];
    v.behind[i] = v.dilation[i] * (v.kernel[i] - 1);
  }
  *c = convolve(c->op, c->types, &v, combination_choice(round, 4, 24));
  return true;
}

void degenerate_quantized_conv(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const taken[CONV_AXES] = {"12", "12", "12", "01", "12", "12", "12", "12"};
  combine(op, types, &(combination){CONV_AXES, taken, small_conv, true}, sink);
}

/* A layer of a residual network, one of a mobile one by channels, and a product of pixels. */
void sizes_quantized_conv(const tn_operator *op, const tn_dtype *types, int64_t large,
                          case_sink sink) {
  static const conv layers[] = {
      {2, 8, 128, 128, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
      {2, 8, 192, 192, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 192},
      {2, 8, 256, 256, {14, 14}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1}};
  (void)large;
  for (unsigned i = 0; i < 3; i++) {
    const conv *v = &layers[i];
    op_case c = convolve(op, types, v, 0);
    c.flops = 2.0 * (double)(v->n * v->k) * (double)(v->c / v->groups);
    for (int d = 0; d < 2; d++) c.flops *= (double)(windows(v, d) * v->kernel[d]);
    sink.take(sink.ctx, &c);
  }
}
