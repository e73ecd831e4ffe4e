/*
 * Cases of optimisers over lists, and of operators on lists of any shapes and scalars:
 * lists of one and more, with empty members, with lengths around the widths of vectors
 * and the shares of blocks, with the attributes' branches.
 */
#include "combine.h"
#include "op_case.h"

enum { MEMBERS = 9, LISTS = 8 };

typedef struct member {
  int32_t rank;
  int64_t shape[4];
} member;

typedef struct members {
  uint32_t count;
  member of[MEMBERS];
} members;

static const members lists[LISTS] = {
    {2, {{1, {8}}, {2, {2, 3}}}}, /* the typical one */
    {1, {{1, {1}}}},
    {3, {{0, {0}}, {1, {17}}, {1, {4}}}},
    {9,
     {{1, {1}}, {1, {3}}, {1, {4}}, {1, {7}}, {1, {8}}, {1, {15}}, {1, {16}}, {1, {0}}, {1, {33}}}},
    {4, {{4, {2, 3, 5, 7}}, {1, {5}}, {4, {3, 1, 1, 2}}, {2, {0, 4}}}},
    {2, {{1, {255}}, {2, {16, 64}}}},
    {1, {{1, {0}}}},
    {3, {{3, {4, 8, 16}}, {1, {1000}}, {2, {129, 3}}}},
};

static value_kind values_of(const tn_operator *op, unsigned round) {
  static const value_kind exact[] = {VALUES_PLAIN, VALUES_SPECIAL, VALUES_WIDE, VALUES_BITS};
  static const value_kind summed[] = {VALUES_PLAIN, VALUES_RANGE, VALUES_SPARSE};
  return op->flags & TN_OPERATOR_ACCUMULATES ? summed[round % 3] : exact[round % 4];
}

static void vary(op_case *c, unsigned round) {
  static const double max_norm[] = {1, 1e-3, 0, 1e6};
  c->seed += round;
  case_set(c, "momentum", 0, round % 3 ? 0.9 : 0);
  case_set(c, "nesterov", 0, round % 3 == 2);
  case_set(c, "weight_decay", 0, round % 2 ? 0.01 : 0);
  case_set(c, "lr_decay", 0, round % 3 ? 0.1 : 0);
  case_set(c, "step", 0, (double)(1 + round * round));
  case_set(c, "max_norm", 0, max_norm[round % 4]);
}

/* Every list of the schema has the same members; other arguments are scalars. */
static op_case with_members(const tn_operator *op, const tn_dtype *types, const members *m,
                            unsigned round) {
  op_case c = case_begin(op_of_length(op, m->count), types);
  uint32_t at = 0;
  for (uint32_t i = 0; i < op->num_args; i++) {
    if (!(op->args[i].flags & TN_ARG_LIST)) at++;
    for (uint32_t k = 0; op->args[i].flags & TN_ARG_LIST && k < m->count; k++, at++)
      case_shape(&c, at, m->of[k].rank, m->of[k].shape);
  }
  c.values = values_of(op, round);
  c.variants |= VARIANT_PREPARED;
  vary(&c, round);
  return c;
}

static void each_list(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < LISTS; i++)
    for (unsigned k = 0; k < 2; k++) {
      op_case c = with_members(op, types, &lists[i], i + 3 * k);
      c.typical = i == 0 && k == 0;
      if (i == 4) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
  static const members large = {3, {{1, {20011}}, {2, {64, 64}}, {1, {40000}}}};
  op_case c = with_members(op, types, &large, 1);
  c.variants = VARIANT_MADE | VARIANT_GIVEN;
  sink.take(sink.ctx, &c);
}

void cases_multi(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  each_list(op, types, sink);
}

static int64_t few_steps(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  (void)c, (void)arg, (void)at;
  return (int64_t)(random % 4);
}

/* The loss scale: steps that end an interval and steps that do not, growth beyond what
 * the type holds. */
static void loss_scales(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const double growth[] = {2, 1.5, 1e38};
  for (unsigned i = 0; i < 24; i++) {
    op_case c = case_begin(op, types);
    c.seed += i;
    c.arg[2].index = few_steps;
    case_set(&c, "interval", 0, 1 + i % 4);
    case_set(&c, "growth", 0, growth[i % 3]);
    case_set(&c, "backoff", 0, i % 2 ? 0.5 : 0.1);
    c.typical = i == 0;
    c.variants |= VARIANT_PREPARED;
    sink.take(sink.ctx, &c);
  }
}

void cases_scalars(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  if (op->id == TN_OP_UPDATE_LOSS_SCALE)
    loss_scales(op, types, sink);
  else
    each_list(op, types, sink);
}

/* How many members; the first one's rank and sizes, the second's and the third's size. */
static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  members m = {.count = (uint32_t)size[0], .of = {{0}, {1, {size[4]}}, {0}}};
  if (!combination_shape(size + 1, 2, &m.of[0].rank, m.of[0].shape)) return false;
  if (m.count < 2 && size[4] != 1) return false;
  *c = with_members(c->op, c->types, &m, round);
  if (c->op->flags & TN_OPERATOR_ACCUMULATES) c->values = VALUES_POSITIVE;
  return true;
}

void degenerate_multi(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"123", "012", "12", "12", "120"};
  combine(op, types, &(combination){5, sizes, degenerate, true}, sink);
}

/* Those of the loss scale are scalars. */
void degenerate_scalars(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  if (op->id != TN_OP_UPDATE_LOSS_SCALE) degenerate_multi(op, types, sink);
}

/* Bits of a float. */
static int64_t one_as_float(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  (void)c, (void)arg, (void)at, (void)random;
  return 0x3f800000; /* 1 */
}

/* Small tensors by the dozen, and two large ones. Gradients that the same call divides over and
 * over underflow before long, but by a scale of 1. */
void sizes_multi(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t sizes[] = {1000, 100000, large};
  for (unsigned i = 0; i < 3; i++) {
    members m = {.count = i == 2 ? 2 : 8};
    for (uint32_t k = 0; k < m.count; k++) m.of[k] = (member){1, {sizes[i] / (int64_t)m.count}};
    op_case c = with_members(op, types, &m, 1);
    if (op->id == TN_OP_UNSCALE_GRADS) c.arg[0].index = one_as_float;
    sink.take(sink.ctx, &c);
  }
}

void sizes_scalars(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  sizes_multi(op, types, large, sink);
}
