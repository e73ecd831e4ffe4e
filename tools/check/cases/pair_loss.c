/* Cases of losses of elements in pairs, with every reduction and option. */
#include "combine.h"
#include "op_case.h"

typedef struct paired {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} paired;

static const paired list[] = {
    {2, {3, 5}},    {0, {0}},    {1, {1}},          {1, {129}},     {2, {64, 10}}, {2, {0, 4}},
    {3, {7, 0, 3}}, {1, {4096}}, {4, {2, 3, 4, 5}}, {2, {33, 129}}, {1, {40001}},  {2, {1, 8}},
};

static void shapes(op_case *c, const paired *s, int reduction) {
  uint32_t first = c->op->shape == TN_SHAPE_PAIR_LOSS_GRAD, inputs = op_inputs(c->op);
  if (first) case_shape(c, 0, reduction == TN_REDUCTION_NONE ? s->rank : 0, s->shape);
  for (uint32_t i = first; i < inputs && i < first + 3; i++) case_shape(c, i, s->rank, s->shape);
  if (inputs > first + 3 && s->rank) case_shape(c, first + 3, 1, &s->shape[s->rank - 1]);
  if (inputs > first + 3 && !s->rank) c->arg[first + 3].absent = true;
  case_set(c, "reduction", 0, reduction);
}

/* Losses with weights below 0 cancel, and so do slopes near a target. */
static value_kind values_of(const op_case *c, uint32_t first, unsigned round) {
  static const value_kind kinds[] = {VALUES_PLAIN, VALUES_RANGE, VALUES_SPARSE, VALUES_TIES};
  const bool weights = op_inputs(c->op) > first + 2;
  if (!weights || kinds[round % 4] != VALUES_RANGE) return kinds[round % 4];
  return first ? VALUES_POSITIVE : VALUES_WEIGHTED;
}

void cases_pair_loss(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  uint32_t first = op->shape == TN_SHAPE_PAIR_LOSS_GRAD;
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned round = 0; round < 12; round++) {
      op_case c = case_begin(op, types);
      int reduction = (int)round % 3;
      shapes(&c, &list[i], reduction);
      c.values = values_of(&c, first, round);
      c.seed += i * 12 + round;
      case_set(&c, "log_target", 0, round / 2 % 2);
      case_set(&c, "delta", 0, round % 2 ? 0.25 : 1);
      for (uint32_t k = first + 2; k < op_inputs(op); k++)
        if (round >> (k - first - 2) & 1) c.arg[k].absent = true;
      c.arg[0].absent = first && reduction != TN_REDUCTION_NONE && i % 3 == 1;
      if (list[i].rank > 1 && round == 4) c.arg[first].expanded = 1;
      if (list[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      if (round == 1) c.variants |= VARIANT_PREPARED;
      c.typical = i == 0 && round == 0;
      sink.take(sink.ctx, &c);
    }
}

/* A rank, its sizes, the reduction, weights or none. */
static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  const uint32_t first = c->op->shape == TN_SHAPE_PAIR_LOSS_GRAD, more = op_inputs(c->op) - first;
  paired s;
  if (!combination_shape(size, 3, &s.rank, s.shape)) return false;
  if (more < 3 && size[5]) return false;
  shapes(c, &s, (int)size[4]);
  /* Sigmoids of few whole numbers are not near a target; other targets are at chance. */
  c->values = first || c->op->id == TN_OP_MSE_LOSS ? VALUES_TIES : VALUES_POSITIVE;
  case_set(c, "log_target", 0, combination_choice(round, 0, 2));
  for (uint32_t k = 2; k < more; k++)
    if (!size[5]) c->arg[first + k].absent = true;
  return true;
}

void degenerate_pair_loss(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"0123", "12", "12", "12", "012", "01"};
  combine(op, types, &(combination){6, sizes, degenerate, true}, sink);
}

void sizes_pair_loss(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const paired s = {1, {large}};
  op_case c = case_begin(op, types);
  shapes(&c, &s, TN_REDUCTION_MEAN);
  for (uint32_t i = 0; i < op->num_args; i++)
    c.arg[i].absent = op->args[i].kind == TN_ARG_OPTIONAL_IN;
  sink.take(sink.ctx, &c);
}
