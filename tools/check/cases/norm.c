/* Cases of normalisation over rows, groups of channels and batches. */
#include <string.h>

#include "combine.h"
#include "op_case.h"

typedef struct normed {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
  int32_t axis;   /* of layer_norm and rms_norm */
  int64_t groups; /* of group_norm; divides shape[1] */
} normed;

static const normed list[] = {
    {2, {3, 8}, 1, 4},        {1, {7}, 0, 1},           {2, {5, 1}, 1, 1},
    {2, {64, 10}, 1, 5},      {2, {5, 1000}, 1, 8},     {2, {2, 4097}, 1, 1},
    {2, {0, 4}, 1, 2},        {2, {3, 0}, 1, 1},        {3, {4, 32, 5}, 2, 8},
    {4, {2, 6, 4, 5}, 1, 3},  {4, {2, 6, 4, 5}, 3, 2},  {3, {3, 4, 0}, 2, 2},
    {2, {300, 16}, 1, 4},     {3, {7, 3, 129}, 1, 3},   {2, {2, 40000}, 1, 2},
    {4, {3, 16, 8, 8}, 2, 2}, {2, {33, 256}, 1, 32},    {4, {2, 3, 40, 33}, 0, 1},
    {3, {1, 2, 9000}, 2, 1},  {3, {130, 24, 4}, 1, 12}, {2, {1, 3}, 1, 1},
};

/* Weights have x's type, or float32 beside 16-bit tensors. */
static bool types_fit(const tn_dtype *types) {
  return types[1] == types[0] || types[1] == tn_dtype_wide(types[0]);
}

static bool is_by_row(const tn_operator *op) {
  return op->shape == TN_SHAPE_LAYER_NORM || op->shape == TN_SHAPE_LAYER_NORM_GRAD;
}

/* The shape of argument `name`, as dispatcher/shape/shape_norm.c has it. */
static void shape_of(op_case *c, uint32_t i, const normed *s) {
  const char *name = c->op->args[i].name;
  bool batch = c->op->shape < TN_SHAPE_LAYER_NORM, row = is_by_row(c->op);
  bool instance = c->op->id == TN_OP_INSTANCE_NORM || c->op->id == TN_OP_INSTANCE_NORM_GRAD;
  int64_t sets[] = {s->shape[0], instance ? s->shape[1] : s->groups};
  if (!strcmp(name, "gamma") || !strcmp(name, "beta"))
    case_shape(c, i, row ? s->rank - s->axis : 1, s->shape + (row ? s->axis : 1));
  else if (!strcmp(name, "x") || !strcmp(name, "dy"))
    case_shape(c, i, s->rank, s->shape);
  else if (batch)
    case_shape(c, i, 1, s->shape + 1);
  else
    case_shape(c, i, row ? s->axis : 2, row ? s->shape : sets);
}

static void leave_out(op_case *c, const char *name) {
  for (uint32_t i = 0; i < c->op->num_args; i++)
    if (!strcmp(c->op->args[i].name, name)) c->arg[i].absent = true;
}

/* Without weights nothing says of what type their gradients are. */
static void leave_out_some(op_case *c, unsigned round) {
  if (round == 1) leave_out(c, "beta"), leave_out(c, "mean"), leave_out(c, "dbeta");
  if (round == 2) {
    leave_out(c, "gamma"), leave_out(c, "beta"), leave_out(c, "rstd");
    leave_out(c, "dgamma"), leave_out(c, "dbeta");
  }
  for (uint32_t i = 0; i < c->op->num_args; i++) { /* what may not be left out stays */
    uint8_t kind = c->op->args[i].kind;
    if (kind != TN_ARG_OPTIONAL_IN && kind != TN_ARG_OPTIONAL_OUT) c->arg[i].absent = false;
  }
}

static op_case case_of(const tn_operator *op, const tn_dtype *types, const normed *s) {
  op_case c = case_begin(op, types);
  for (uint32_t i = 0; i < op->num_args; i++)
    if (!arg_is_output(&op->args[i])) shape_of(&c, i, s);
  case_set(&c, "axis", 0, s->axis);
  case_set(&c, "groups", 0, (double)s->groups);
  return c;
}

void cases_norm(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  uint32_t x = strcmp(op->args[0].name, "x") ? 1 : 0;
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned round = 0; round < 4; round++) {
      if (!types_fit(types) || (list[i].rank < 2 && !is_by_row(op))) continue;
      op_case c = case_of(op, types, &list[i]);
      c.seed += i * 4 + round;
      c.values = round == 3 ? VALUES_SPARSE : VALUES_PLAIN;
      leave_out_some(&c, round);
      if (round == 1) {
        case_set(&c, "axis", 0, list[i].axis - list[i].rank);
        case_set(&c, "eps", 0, 0.125);
        case_set(&c, "momentum", 0, 0.75);
        c.arg[x].expanded = 1;
      }
      if (round == 2) c.arg[x].expanded = 1u << (list[i].rank - 1); /* equal elements in rows */
      if (list[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      if (round == 0) c.variants |= VARIANT_PREPARED;
      c.typical = i == 0 && round == 0;
      sink.take(sink.ctx, &c);
    }
}

/* Whole numbers have exact means over 1, 2, 4 and 8; chance would bring some near each other. */
static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  normed s = {.axis = (int32_t)size[5], .groups = size[6]};
  const bool row = is_by_row(c->op);
  const bool grouped = c->op->id == TN_OP_GROUP_NORM || c->op->id == TN_OP_GROUP_NORM_GRAD;
  if (!types_fit(c->types) || !combination_shape(size, 4, &s.rank, s.shape)) return false;
  if (row ? s.axis >= s.rank : s.axis || s.rank < 2) return false;
  if (grouped ? s.shape[1] % s.groups : s.groups != 1) return false;
  *c = case_of(c->op, c->types, &s);
  c->values = strcmp(c->op->args[0].name, "x") ? VALUES_TIES : VALUES_WEIGHTED;
  leave_out_some(c, combination_choice(round, 0, 3));
  return true;
}

/* A rank and its sizes; the first axis of a row; groups. */
void degenerate_norm(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"1234", "12", "12", "12", "12", "0123", "12"};
  combine(op, types, &(combination){7, sizes, degenerate, true}, sink);
}

void sizes_norm(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const normed rows = {2, {large / 4096, 4096}, 1, 32};
  const normed images = {4, {large / (64 * 56 * 56), 64, 56, 56}, 1, 32};
  if (!types_fit(types)) return;
  op_case c = case_of(op, types, is_by_row(op) ? &rows : &images);
  sink.take(sink.ctx, &c);
}
