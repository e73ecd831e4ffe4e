/* Which family of cases serves which shape rule: shapes.def says. */
#include "combine.h"
#include "op_case.h"

typedef struct family {
  void (*cases)(const tn_operator *op, const tn_dtype *types, case_sink sink);
  void (*degenerate)(const tn_operator *op, const tn_dtype *types, case_sink sink);
  void (*sizes)(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink);
} family;

static const family families[TN_SHAPE_RULES] = {
#define SHAPE(number, name, NAME, family, ...)                                                     \
  [TN_SHAPE_##NAME] = {cases_##family, degenerate_##family, sizes_##family},
#include "shapes.def"
};

void cases_emit(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  if (op->shape < TN_SHAPE_RULES) families[op->shape].cases(op, types, sink);
}

void cases_degenerate(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  if (op->shape < TN_SHAPE_RULES) families[op->shape].degenerate(op, types, sink);
}

void sizes_emit(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  if (op->shape < TN_SHAPE_RULES) families[op->shape].sizes(op, types, large, sink);
}

/* Shapes to try where a plugin's own rule says what it takes: what it declines is no case. */
typedef struct attempt {
  int32_t rank;
  int64_t shape[4];
} attempt;

static const attempt attempts[] = {
    {0, {0}},    {1, {0}},       {1, {1}},       {1, {7}},          {1, {8}},
    {1, {33}},   {1, {1000}},    {2, {3, 5}},    {2, {4, 4}},       {2, {33, 65}},
    {2, {0, 3}}, {3, {2, 3, 4}}, {3, {5, 1, 7}}, {4, {2, 3, 4, 5}}, {1, {65539}},
};

/* How the shapes of several inputs may hang together. */
typedef enum relation {
  SHAPES_EQUAL,   /* all the same */
  SHAPES_OF_ROWS, /* the later ones as long as the first one's last axis */
  SHAPES_CHAINED, /* of matrices whose product can be taken */
  RELATIONS,
} relation;

static void shapes_of(op_case *c, const attempt *a, relation how) {
  int64_t last = a->rank ? a->shape[a->rank - 1] : 1, chained[2] = {last, 5};
  for (uint32_t i = 0; i < c->op->num_args; i++)
    if (how == SHAPES_OF_ROWS && i)
      case_shape(c, i, 1, &last);
    else if (how == SHAPES_CHAINED && i)
      case_shape(c, i, 2, chained);
    else
      case_shape(c, i, a->rank, a->shape);
}

/* Flags on, and numbers at the bound that is not their default, where that is small. */
static void turn_attributes(op_case *c, value_kind values) {
  for (uint32_t i = 0; i < c->op->num_attrs; i++) {
    const tn_attr *a = &c->op->attrs[i];
    bool high = values == VALUES_TIES;
    bool closed = (high ? a->high_bound : a->low_bound) == TN_BOUND_CLOSED;
    double bound = high ? a->high : a->low;
    int count = a->type == TN_ATTR_PAIR ? 2 : a->type == TN_ATTR_TRIPLE ? 3 : 1;
    if (a->type == TN_ATTR_FLAG) case_set(c, a->name, 0, 1);
    if (a->type == TN_ATTR_DTYPE || a->type == TN_ATTR_AXES || a->type == TN_ATTR_DIMS ||
        a->type == TN_ATTR_RESULT)
      continue;
    for (int k = 0; k < count && closed && bound >= -16 && bound <= 16; k++)
      case_set(c, a->name, k, bound);
  }
}

static void attempt_custom(const tn_operator *op, const tn_dtype *types, const attempt *a,
                           relation how, value_kind values, case_sink sink) {
  op_case c = case_begin(op, types);
  shapes_of(&c, a, how);
  if (values != VALUES_PLAIN) turn_attributes(&c, values);
  case_widen(&c, (unsigned)values);
  c.values = values;
  c.seed += ((uint64_t)(a - attempts) * RELATIONS + how) * 8 + values;
  c.variants |= VARIANTS_IN_PLACE | VARIANT_PREPARED;
  c.typical = a->rank == 2 && a->shape[0] == 4 && values == VALUES_PLAIN;
  sink.take(sink.ctx, &c);
}

void cases_custom(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const value_kind kinds[] = {VALUES_PLAIN, VALUES_SPARSE, VALUES_TIES};
  relation relations = op_inputs(op) > 1 ? RELATIONS : SHAPES_OF_ROWS;
  for (unsigned k = 0; k < 3; k++)
    for (unsigned i = 0; i < sizeof attempts / sizeof *attempts; i++)
      for (relation how = SHAPES_EQUAL; how < relations; how++)
        attempt_custom(op, types, &attempts[i], how, kinds[k], sink);
}

/* All small shapes, in one relation after the other. */
static bool degenerate_attempt(op_case *c, const int64_t *size, unsigned round) {
  attempt a;
  (void)round;
  if (!combination_shape(size, 3, &a.rank, a.shape)) return false;
  if (size[4] != SHAPES_EQUAL && op_inputs(c->op) < 2) return false;
  shapes_of(c, &a, (relation)size[4]);
  return true;
}

void degenerate_custom(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"123", "12", "12", "12", "012"};
  combine(op, types, &(combination){5, sizes, degenerate_attempt}, sink);
}

void sizes_custom(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const attempt whole = {1, {large}};
  op_case c = case_begin(op, types);
  for (uint32_t i = 0; i < op->num_args; i++) case_shape(&c, i, 1, whole.shape);
  sink.take(sink.ctx, &c);
}
