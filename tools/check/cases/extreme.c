/*
 * Cases whose numbers leave float32 no room, or float16: operators that sum, in shapes that they
 * have cases of already, with other numbers. Each is one that the maths of the row can do within
 * its bound: nothing cancels but what is exact in whatever order it is added, and no result is
 * beyond its type where the parts of it are not.
 */
#include "op_case.h"

enum { TAKEN = 8, SMALL = 5000 };

#define KIND(k) (1u << VALUES_##k)

/* Which numbers an operator can be asked to bear. */
typedef struct bearing {
  uint32_t op, kinds;
} bearing;

static const bearing floats[] = {
    {TN_OP_SUM, KIND(HUGE) | KIND(DENORMAL) | KIND(CANCEL)},
    {TN_OP_MEAN, KIND(HUGE) | KIND(DENORMAL) | KIND(CANCEL) | KIND(FAR)},
    {TN_OP_CUMSUM, KIND(HUGE) | KIND(DENORMAL) | KIND(CANCEL)},
    {TN_OP_VAR, KIND(FAR) | KIND(CANCEL)},
    {TN_OP_STD, KIND(FAR) | KIND(HUGE) | KIND(TINY) | KIND(CANCEL)},
    {TN_OP_NORM, KIND(FAR) | KIND(HUGE) | KIND(TINY)},
    {TN_OP_LOGSUMEXP, KIND(FAR) | KIND(LOGITS) | KIND(HUGE)},
    {TN_OP_SOFTMAX, KIND(FAR) | KIND(LOGITS) | KIND(HUGE)},
    {TN_OP_LOG_SOFTMAX, KIND(FAR) | KIND(LOGITS) | KIND(HUGE)},
    {TN_OP_CROSS_ENTROPY, KIND(FAR) | KIND(LOGITS)},
    {TN_OP_CROSS_ENTROPY_GRAD, KIND(FAR) | KIND(LOGITS)},
    {TN_OP_BATCH_NORM, KIND(FAR) | KIND(HUGE)},
    {TN_OP_LAYER_NORM, KIND(FAR) | KIND(HUGE)},
    {TN_OP_GROUP_NORM, KIND(FAR) | KIND(HUGE)},
    {TN_OP_INSTANCE_NORM, KIND(FAR) | KIND(HUGE)},
    {TN_OP_RMS_NORM, KIND(FAR) | KIND(HUGE)},
    {TN_OP_MATMUL, KIND(CANCEL) | KIND(TWO_SCALES)},
    {TN_OP_DOT, KIND(CANCEL) | KIND(TWO_SCALES)},
    {TN_OP_CONV1D, KIND(CANCEL) | KIND(TWO_SCALES)},
    {TN_OP_CONV2D, KIND(CANCEL) | KIND(TWO_SCALES)},
    {TN_OP_CONV3D, KIND(CANCEL) | KIND(TWO_SCALES)},
    {TN_OP_SCALED_DOT_PRODUCT_ATTENTION, KIND(CANCEL)},
};

/* Sums of integers wrap: all their bits count. */
static const bearing integers[] = {
    {TN_OP_SUM, KIND(BITS) | KIND(NEAR_MOST)},
    {TN_OP_PROD, KIND(BITS)},
    {TN_OP_CUMSUM, KIND(BITS)},
    {TN_OP_CUMPROD, KIND(BITS)},
    {TN_OP_DOT, KIND(BITS) | KIND(NEAR_MOST)},
    {TN_OP_SCATTER_ADD, KIND(BITS)},
    {TN_OP_INDEX_ADD, KIND(BITS)},
};

static uint32_t kinds_of(const tn_operator *op, tn_dtype dtype) {
  const bool is_float = TN_SET(dtype) & TN_SET_FLOAT, is_bool = dtype == TN_BOOL;
  const bearing *list = is_float ? floats : integers;
  const unsigned count =
      is_float ? sizeof floats / sizeof *floats : sizeof integers / sizeof *integers;
  for (unsigned i = 0; i < count && !is_bool; i++)
    if (list[i].op == op->id) return list[i].kinds;
  return 0;
}

/* The plain cases of an operator, of which about so many are taken for each kind of number. */
typedef struct picking {
  case_sink sink;
  value_kind kind;
  unsigned found, all; /* all: 0 while they are counted */
} picking;

static bool suits(const op_case *c) {
  for (uint32_t i = 0; i < c->op->num_args; i++)
    if (case_elements(&c->arg[i]) > SMALL) return false;
  return c->values == VALUES_PLAIN && case_elements(&c->arg[0]) > 1;
}

/* Scores of a hundred or two, beyond what the exponential holds in float32, and exact: of one that
 * is rounded at a thousand the exponential has few digits. */
static void prepare_attention(op_case *c) {
  double scale = 1;
  while (scale * 25 * (double)c->arg[0].shape[3] > 160) scale /= 2;
  c->arg[4].absent = true;
  case_set(c, "scale", 0, scale);
}

static void pick(void *ctx, const op_case *from) {
  static const uint32_t turn[] = {VARIANT_MADE, VARIANT_SLICED, VARIANT_GIVEN, VARIANT_PERMUTED};
  picking *p = ctx;
  if (!suits(from)) return;
  const unsigned at = p->found++;
  if (!p->all || case_mix((uint64_t)at << 8 | p->kind) % p->all >= TAKEN) return;
  op_case c = *from;
  for (uint32_t i = 0; i < c.op->num_args; i++) c.arg[i].expanded = 0;
  c.values = p->kind;
  c.seed += 9000;
  c.variants = turn[at % (sizeof turn / sizeof *turn)];
  c.typical = false;
  if (c.op->id == TN_OP_SCALED_DOT_PRODUCT_ATTENTION) prepare_attention(&c);
  p->sink.take(p->sink.ctx, &c);
}

static void redraw(const tn_operator *op, const tn_dtype *types, value_kind kind, case_sink sink) {
  picking p = {.sink = sink, .kind = kind};
  cases_emit(op, types, (case_sink){pick, &p});
  p.all = p.found;
  p.found = 0;
  if (p.all) cases_emit(op, types, (case_sink){pick, &p});
}

/* Sums so long that a narrow sum stands still. */
static void long_sums(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  const bool narrow = tn_dtype_size(types[0]) == 2 && TN_SET(types[0]) & TN_SET_FLOAT;
  const bool rows = op->id == TN_OP_SUM || op->id == TN_OP_MEAN || op->id == TN_OP_NORM ||
                    op->id == TN_OP_CUMSUM || op->id == TN_OP_DOT;
  const int64_t n = (1 << 20) + 3;
  if (!narrow || !rows) return;
  op_case c = case_begin(op, types);
  for (uint32_t i = 0; i < op_inputs(op); i++) case_shape(&c, i, 1, &n);
  c.values = VALUES_FINE;
  c.seed += 9500;
  c.variants = VARIANT_MADE;
  sink.take(sink.ctx, &c);
}

/* A product whose sums pass 2^24, where float32 loses the odd numbers. */
static void long_products(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  const bool whole = op->shape == TN_SHAPE_MATMUL_INTEGER;
  const int64_t a[] = {3, 4099}, b[] = {4099, 5};
  if (!whole && op->id != TN_OP_MATMUL) return;
  op_case c = case_begin(op, types);
  case_shape(&c, 0, 2, a);
  case_shape(&c, 1, 2, b);
  c.arg[2].absent = true;
  if (whole) c.arg[3].absent = true;
  c.values = whole ? VALUES_NEAR_MOST : VALUES_PLAIN;
  c.seed += 9600;
  c.variants = VARIANT_MADE | VARIANT_PERMUTED;
  sink.take(sink.ctx, &c);
}

void cases_extreme(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  const uint32_t kinds = kinds_of(op, types[0]);
  for (uint32_t kind = 0; kind < VALUE_KINDS; kind++)
    if (kinds >> kind & 1) redraw(op, types, (value_kind)kind, sink);
  long_sums(op, types, sink);
  long_products(op, types, sink);
}
