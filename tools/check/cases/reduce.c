/* Cases of reductions: every subset of axes of small tensors, keeping them or not. */
#include <math.h>

#include "combine.h"
#include "number.h"
#include "op_case.h"

typedef struct reduced {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} reduced;

static const reduced shapes[] = {
    {0, {0}},       {1, {1}},         {1, {7}},          {1, {0}},
    {1, {129}},     {1, {1000}},      {2, {3, 5}},       {2, {33, 129}},
    {2, {129, 33}}, {2, {1, 64}},     {2, {0, 3}},       {3, {5, 1, 4}},
    {3, {2, 0, 3}}, {3, {17, 9, 33}}, {4, {2, 3, 4, 5}}, {4, {3, 16, 5, 8}},
};

/* An empty maximum has no value: the dispatcher refuses it. */
static bool needs_elements(const tn_operator *op) { return op->flags & TN_OPERATOR_NEEDS_ELEMENTS; }

static value_kind values_of(const tn_operator *op, unsigned round) {
  static const value_kind exact[] = {VALUES_TIES, VALUES_PLAIN, VALUES_SPECIAL, VALUES_WIDE};
  if (op->flags & TN_OPERATOR_ACCUMULATES) return round % 4 == 3 ? VALUES_SPARSE : VALUES_PLAIN;
  return exact[round % 4];
}

static op_case begin(const tn_operator *op, const tn_dtype *types, int32_t rank,
                     const int64_t *shape, unsigned round) {
  op_case c = case_begin(op, types);
  case_shape(&c, 0, rank, shape);
  c.values = values_of(op, round);
  c.seed += round;
  case_set(&c, "keepdims", 0, round % 2);
  case_set(&c, "correction", 0, round % 3 == 1 ? 0 : round % 7 == 3 ? 2.5 : 1);
  case_set(&c, "ord", 0, round % 3 == 2 ? (double)INFINITY : 2 - round % 3);
  if (rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
  return c;
}

/* Reduces the axes whose bits are set; all where none is. Negative names now and then. */
static void subset(const tn_operator *op, const tn_dtype *types, const reduced *s, uint32_t bits,
                   unsigned round, case_sink sink) {
  op_case c = begin(op, types, s->rank, s->shape, round);
  tn_axes *axes = case_axes(&c);
  int64_t count = 1;
  for (int32_t i = 0; i < s->rank; i++) {
    if (!bits || bits >> i & 1) count *= s->shape[i];
    if (bits >> i & 1) axes->axis[axes->count++] = round % 3 ? i : i - s->rank;
  }
  c.typical = s->rank == 2 && s->shape[0] == 3 && bits == 1;
  case_widen(&c, c.typical ? 0 : round / 2);
  if (s->rank > 1 && round % 5 == 0) c.arg[0].expanded = 2;
  if (s->rank > 1) c.variants |= round % 4 ? 0 : VARIANT_PREPARED;
  if (count || !needs_elements(op)) sink.take(sink.ctx, &c);
}

static void one_axis(const tn_operator *op, const tn_dtype *types, const reduced *s, int32_t axis,
                     unsigned round, case_sink sink) {
  op_case c = begin(op, types, s->rank, s->shape, round);
  case_set(&c, "axis", 0, round % 3 ? axis : axis - s->rank);
  c.typical = s->rank == 2 && s->shape[0] == 3 && axis == 1;
  if (s->shape[axis] || !needs_elements(op)) sink.take(sink.ctx, &c);
}

static void each_shape(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  unsigned round = 0;
  for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (unsigned k = 0; k < 2; k++) {
      if (op->shape == TN_SHAPE_ARG_REDUCE)
        for (int32_t a = 0; a < shapes[i].rank; a++)
          one_axis(op, types, &shapes[i], a, round++, sink);
      else
        for (uint32_t b = 0; b < 1u << shapes[i].rank; b++)
          subset(op, types, &shapes[i], b, round++, sink);
    }
}

/* Long rows, long columns, and eight axes of which every second goes. */
static void large(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const reduced list[] = {{1, {65539}}, {2, {2, 40001}}, {2, {40001, 3}}, {2, {700, 90}}};
  /* Rows that begin anywhere, rows and columns of whole vectors. */
  static const reduced wide[] = {{2, {37, 1003}}, {2, {4300, 136}}, {2, {4300, 136}}};
  static const reduced deep = {8, {2, 3, 1, 2, 3, 2, 2, 3}};
  for (unsigned i = 0; i < 4; i++)
    if (op->shape == TN_SHAPE_ARG_REDUCE)
      one_axis(op, types, &list[i], i == 2 ? 0 : list[i].rank - 1, i, sink);
    else
      subset(op, types, &list[i], i < 2 ? 1u << (list[i].rank - 1) : 1, i, sink);
  for (unsigned i = 0; i < 3; i++)
    if (op->shape == TN_SHAPE_ARG_REDUCE)
      one_axis(op, types, &wide[i], i < 2, i, sink);
    else
      subset(op, types, &wide[i], i < 2 ? 2 : 1, i + 1, sink);
  for (unsigned k = 0; k < 4 && op->shape != TN_SHAPE_ARG_REDUCE; k++)
    subset(op, types, &deep, (uint32_t[]){0x55, 0xaa, 0x0f, 0x81}[k], k, sink);
  static const reduced huge = {1, {(1 << 21) + 5}};
  bool first = op->id == TN_OP_SUM || op->id == TN_OP_VAR || op->id == TN_OP_NORM;
  if (first && types[0] == TN_F32) subset(op, types, &huge, 0, 0, sink);
  /* Results of other types than x's, of so many elements that backends share them out. */
  static const reduced shared = {1, {140001}};
  const op_case any = case_begin(op, types);
  for (unsigned round = 2; round < 6 && case_has(&any, "dtype"); round += 2)
    subset(op, types, &shared, 0, round, sink);
}

void cases_reduce(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  each_shape(op, types, sink);
  large(op, types, sink);
}

/* A rank, its sizes, and the axes that go as bits; or the one that does. */
static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  reduced s;
  if (!combination_shape(size, 3, &s.rank, s.shape) || size[4] >= 1 << s.rank) return false;
  const bool one = c->op->shape == TN_SHAPE_ARG_REDUCE;
  if (one && size[4] >= s.rank) return false;
  *c = begin(c->op, c->types, s.rank, s.shape, round);
  case_set(c, "correction", 0, round % 2);
  case_widen(c, combination_choice(round, 0, 6));
  bool empty = false;
  for (int32_t i = 0; i < s.rank; i++) {
    const bool goes = one ? size[4] == i : !size[4] || size[4] >> i & 1;
    empty = empty || (goes && !s.shape[i]);
    if (one && goes) case_set(c, "axis", 0, i);
    if (!one && size[4] >> i & 1) case_axes(c)->axis[case_axes(c)->count++] = i;
  }
  return !empty || !needs_elements(c->op);
}

void degenerate_reduce(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"0123", "120", "12", "12", "01234567"};
  /* Sums of few powers of e come near 1, and their logarithms near 0. */
  combine(op, types, &(combination){5, sizes, degenerate, op->id == TN_OP_LOGSUMEXP}, sink);
}

/* All elements, rows and columns. */
void sizes_reduce(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t side = large >= 1 << 26 ? 8192 : 2048;
  const reduced whole = {1, {large}}, square = {2, {side, side}};
  if (op->shape == TN_SHAPE_ARG_REDUCE) {
    one_axis(op, types, &square, 1, 1, sink);
    one_axis(op, types, &square, 0, 1, sink);
    return;
  }
  subset(op, types, &whole, 0, 0, sink);
  subset(op, types, &square, 2, 1, sink);
  subset(op, types, &square, 1, 1, sink);
}
