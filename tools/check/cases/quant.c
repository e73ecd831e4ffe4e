/* Cases of quantisation: one scale, one for each index of an axis, blocks that do and do not divide
 * it. */
#include "combine.h"
#include "op_case.h"

typedef struct quant {
  int32_t rank;
  int64_t shape[4];
  int64_t axis, block; /* axis NONE: one scale */
} quant;

enum { NONE = 9 };

static const quant quants[] = {
    {2, {3, 5}, NONE, 0},    {0, {0}, NONE, 0},       {1, {1}, 0, 0},
    {1, {7}, 0, 0},          {1, {7}, 0, 3},          {2, {3, 5}, 1, 0},
    {2, {3, 5}, 0, 0},       {2, {3, 5}, -1, 2},      {2, {3, 5}, -2, 2},
    {3, {2, 3, 4}, 1, 0},    {3, {2, 3, 4}, 1, 2},    {4, {2, 5, 3, 4}, 1, 0},
    {4, {2, 5, 3, 4}, 2, 2}, {4, {2, 5, 3, 4}, 3, 3}, {4, {1, 16, 9, 11}, 1, 16},
    {2, {0, 5}, 1, 0},       {2, {5, 0}, 0, 2},       {2, {5, 0}, 1, 2},
    {1, {1000}, NONE, 0},    {2, {33, 257}, 0, 0},    {2, {33, 257}, 1, 0},
    {2, {33, 257}, 1, 64},   {3, {3, 40, 65}, 1, 7},  {1, {65539}, NONE, 0},
    {3, {2, 1, 65}, 1, 0},   {2, {4, 6}, 1, 1},       {2, {4, 6}, 1, 100},
    {3, {3, 4, 72}, 1, 0},   {3, {2, 9, 264}, 1, 4},  {2, {9, 1100}, 0, 0},
};

static op_case quantise(const tn_operator *op, const tn_dtype *types, const quant *v,
                        unsigned round) {
  static const value_kind kinds[] = {VALUES_RANGE, VALUES_SPECIAL, VALUES_BITS};
  op_case c = case_begin(op, types);
  int64_t scale[4] = {1};
  int32_t rank = 0;
  case_shape(&c, 0, v->rank, v->shape);
  c.values = kinds[round % 3];
  c.seed += round;
  if (TN_SET(types[1]) & TN_SET_F8 && case_has(&c, "overflow"))
    case_set(&c, "overflow", 0, round / 3 % 2);
  if (op->shape != TN_SHAPE_QUANTIZE_LINEAR) return c;
  const int32_t axis = (int32_t)(v->axis < 0 ? v->axis + v->rank : v->axis);
  if (v->axis != NONE && v->block == 0) {
    scale[0] = v->shape[axis];
    rank = 1;
  } else if (v->axis != NONE) {
    for (rank = 0; rank < v->rank; rank++) scale[rank] = v->shape[rank];
    scale[axis] = (scale[axis] + v->block - 1) / v->block;
  } else {
    rank = round & 1;
  }
  case_shape(&c, 1, rank, scale);
  case_shape(&c, 2, rank, scale);
  c.arg[2].absent = round % 3 == 1;
  case_set(&c, "axis", 0, (double)(v->axis == NONE ? -1 : v->axis));
  case_set(&c, "block", 0, (double)v->block);
  return c;
}

void cases_quantize(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof quants / sizeof *quants; i++)
    for (unsigned round = 0; round < 3; round++) {
      op_case c = quantise(op, types, &quants[i], round + 3 * i);
      c.typical = i == 0 && round == 0;
      if (round == 1 && quants[i].rank > 1) c.arg[0].expanded = 1;
      if (quants[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      if (i == 9) c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
}

enum { RANK, FIRST, SECOND, THIRD, AXIS, BLOCK, QUANT_AXES };

static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  quant v = {.axis = size[AXIS] - 1, .block = size[BLOCK]};
  if (!combination_shape(size, 3, &v.rank, v.shape) || v.axis >= v.rank) return false;
  if (v.axis < 0) v.axis = NONE;
  if (v.axis == NONE && v.block) return false;
  if (c->op->shape != TN_SHAPE_QUANTIZE_LINEAR && v.axis != NONE) return false;
  *c = quantise(c->op, c->types, &v, combination_choice(round, 0, 6));
  return true;
}

/* Axis 0 stands for none. */
void degenerate_quantize(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[QUANT_AXES] = {"123", "12", "12", "12", "0123", "012"};
  combine(op, types, &(combination){QUANT_AXES, sizes, degenerate, true}, sink);
}

void sizes_quantize(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const quant whole = {1, {large}, NONE, 0}, channels = {3, {large / 262144, 64, 4096}, 1, 0};
  op_case c = quantise(op, types, &whole, 0);
  sink.take(sink.ctx, &c);
  if (op->shape != TN_SHAPE_QUANTIZE_LINEAR) return;
  c = quantise(op, types, &channels, 0);
  sink.take(sink.ctx, &c);
}
