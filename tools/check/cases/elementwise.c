/*
 * Cases of operators that work element by element: shapes SAME, BROADCAST, GIVEN and
 * UPDATE. Lengths around the widths of vectors, every rank, broadcasts, every way of
 * drawing numbers.
 */
#include <math.h>

#include "combine.h"
#include "number.h"
#include "op_case.h"

static const int64_t lengths[] = {0,  1,  2,  3,  4,  5,  7,   8,   9,   15,  16,  17,
                                  31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 1000};
enum { LENGTHS = sizeof lengths / sizeof *lengths, LARGE = (1 << 16) + 3, HUGE = (1 << 21) + 5 };

/* Optimisers and the like multiply what may be large: no extremes for them. */
static value_kind values_of(const tn_operator *op, unsigned round) {
  static const value_kind exact[] = {VALUES_PLAIN,   VALUES_WIDE, VALUES_SPECIAL, VALUES_RANGE,
                                     VALUES_SPECIAL, VALUES_EXP,  VALUES_TIES};
  static const value_kind summed[] = {VALUES_PLAIN, VALUES_SPARSE, VALUES_RANGE};
  return op->flags & TN_OPERATOR_ACCUMULATES ? summed[round % 3] : exact[round % 7];
}

/* Attributes that steer the maths, varied with the round. */
static void vary(op_case *c, unsigned round) {
  static const double p[] = {0.5, 0.25, 0, 0.9};
  static const double fill[] = {0, 1, -1.5, 300, 1e30, -0.0, 0.1, 65504, 1e-41, -1e300};
  c->seed += round;
  case_set(c, "p", 0, p[round % 4]);
  case_set(c, "value", 0, round % 11 == 10 ? (double)__builtin_nan("") : fill[round % 11]);
  case_set(c, "tanh", 0, round % 2);
  case_set(c, "slope", 0, round % 2 ? 0.01 : -0.3);
  case_set(c, "alpha", 0, round % 2 ? 1 : 0.7);
  case_set(c, "lambd", 0, round % 2 ? 0.5 : 1.5);
  case_set(c, "bias", 0, round % 3 ? 0 : 0.3);
  case_set(c, "beta", 0, round % 2 ? 1 : 2.3);
  case_set(c, "threshold", 0, round % 3 ? 20 : 1);
  if (round % 5) case_set(c, "min", 0, round % 5 == 4 ? (double)NAN : round % 5 == 3 ? 0.7 : -0.3);
  if (round % 3) case_set(c, "max", 0, round % 3 == 1 ? 0.3 : round % 2 ? 2.5 : 1e30);
  case_set(c, "seed", 0, (double)((uint64_t)round * 0x123456789u));
  case_set(c, "offset", 0, round % 3 == 2 ? 4294967295.0 : round % 3 * 7.0);
  case_set(c, "low", 0, round % 2 ? -3 : 0);
  case_set(c, "high", 0, round % 2 ? 5 : 1);
  case_set(c, "mean", 0, round % 2 ? 1 : 0);
  case_set(c, "std", 0, round % 2 ? 0.25 : 1);
  case_set(c, "momentum", 0, round % 3 ? 0.9 : 0);
  case_set(c, "nesterov", 0, round % 3 == 2);
  case_set(c, "weight_decay", 0, round % 2 ? 0.01 : 0);
  case_set(c, "step", 0, (double)(1 + round * round));
}

static op_case same_shape(const tn_operator *op, const tn_dtype *types, int32_t rank,
                          const int64_t *shape, unsigned round) {
  op_case c = case_begin(op, types);
  for (uint32_t i = 0; i < op->num_args; i++) case_shape(&c, i, rank, shape);
  c.values = values_of(op, round);
  c.variants |= VARIANTS_IN_PLACE;
  vary(&c, round);
  return c;
}

static void by_length(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < LENGTHS; i++)
    for (unsigned k = 0; k < 2; k++) {
      op_case c = same_shape(op, types, 1, &lengths[i], i + 3 * k);
      c.typical = lengths[i] == 8 && k == 0;
      sink.take(sink.ctx, &c);
    }
}

/* Each rank with its axes of mixed sizes, with one repeated axis, and with one empty. */
static void by_rank(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const int64_t sizes[TN_MAX_RANK] = {2, 3, 1, 2, 3, 2, 1, 5};
  for (int32_t rank = 0; rank <= TN_MAX_RANK; rank++)
    for (unsigned k = 0; k < 3; k++) {
      int64_t shape[TN_MAX_RANK];
      for (int32_t i = 0; i < rank; i++) shape[i] = sizes[i];
      if (k == 2 && rank) shape[rank / 2] = 0;
      op_case c = same_shape(op, types, rank, shape, (unsigned)rank + k);
      if (k == 1 && rank) c.arg[0].expanded = 1u << rank / 2;
      if (rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
}

static void by_size(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const int64_t planes[][4] = {{17, 33, 1, 1}, {3, 5, 7, 11}, {65, 64, 1, 1}, {2, 8, 16, 3}};
  for (unsigned i = 0; i < 4; i++) {
    op_case c = same_shape(op, types, i % 2 ? 4 : 2, planes[i], i + 1);
    c.arg[0].expanded = i == 2;
    if (i % 2) c.variants |= VARIANT_CHANNELS_LAST;
    sink.take(sink.ctx, &c);
  }
  int64_t large = LARGE;
  op_case c = same_shape(op, types, 1, &large, 0);
  c.variants = VARIANT_MADE;
  sink.take(sink.ctx, &c);
}

/* All numbers of a 16-bit type, and a sweep through the bit patterns of others. */
static void by_bits(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  int64_t all = 1 << 16;
  op_case c = same_shape(op, types, 1, &all, 1);
  c.values = VALUES_BITS;
  c.variants = VARIANT_MADE;
  if (!(op->flags & TN_OPERATOR_ACCUMULATES) && op_inputs(op)) sink.take(sink.ctx, &c);
  c.values = VALUES_EXP;
  if (op->tolerance > 0 && op_inputs(op)) sink.take(sink.ctx, &c);
  c.values = VALUES_RANGE;
  if (op->tolerance > 0 && op_inputs(op)) sink.take(sink.ctx, &c);
}

/* Millions of elements, for one operator of each kind. */
static void huge(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  bool first = op->id == TN_OP_COPY || op->id == TN_OP_ADD || op->id == TN_OP_EXP ||
               op->id == TN_OP_FILL || op->id == TN_OP_RELU_GRAD || op->id == TN_OP_DROPOUT;
  int64_t n = HUGE;
  if (!first || types[0] != TN_F32) return;
  op_case c = same_shape(op, types, 1, &n, 0);
  c.variants = VARIANT_MADE;
  sink.take(sink.ctx, &c);
}

typedef struct pair_of_shapes {
  int32_t rank[2];
  int64_t shape[2][TN_MAX_RANK];
} pair_of_shapes;

static const pair_of_shapes broadcasts[] = {
    {{1, 0}, {{3}}},
    {{0, 1}, {{0}, {3}}},
    {{2, 1}, {{2, 3}, {3}}},
    {{1, 2}, {{3}, {2, 3}}},
    {{2, 2}, {{2, 1}, {1, 3}}},
    {{3, 2}, {{4, 1, 5}, {3, 1}}},
    {{2, 3}, {{3, 1}, {4, 1, 5}}},
    {{1, 1}, {{1}, {7}}},
    {{1, 1}, {{1000}, {1}}},
    {{1, 1}, {{1}, {129}}},
    {{4, 4}, {{2, 3, 4, 5}, {1, 3, 1, 1}}},
    {{4, 4}, {{2, 1, 1, 5}, {2, 3, 4, 5}}},
    {{4, 3}, {{2, 3, 4, 5}, {3, 1, 5}}},
    {{2, 2}, {{33, 1}, {1, 65}}},
    {{2, 1}, {{64, 129}, {129}}},
    {{2, 2}, {{64, 129}, {64, 1}}},
    {{2, 2}, {{0, 3}, {1, 3}}},
    {{2, 2}, {{1, 3}, {0, 1}}},
    {{2, 0}, {{2, 0}}},
    {{8, 8}, {{2, 1, 2, 1, 3, 1, 2, 3}, {1, 2, 1, 2, 1, 2, 1, 3}}},
    {{8, 1}, {{2, 1, 2, 1, 3, 1, 2, 3}, {3}}},
};

static void by_broadcast(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (unsigned i = 0; i < sizeof broadcasts / sizeof *broadcasts; i++)
    for (unsigned k = 0; k < 2; k++) {
      op_case c = case_begin(op, types);
      for (uint32_t arg = 0; arg < op_inputs(op); arg++) {
        uint32_t which = arg == 1 || (arg == 2 && k) ? 1 : 0;
        case_shape(&c, arg, broadcasts[i].rank[which], broadcasts[i].shape[which]);
      }
      c.values = values_of(op, i + k);
      c.variants |= VARIANTS_IN_PLACE | (i % 4 ? 0 : VARIANT_PREPARED);
      if (broadcasts[i].rank[0] == 4) c.variants |= VARIANT_CHANNELS_LAST;
      vary(&c, i + k);
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate_map(op_case *c, const int64_t *size, unsigned round) {
  int32_t rank;
  int64_t shape[3];
  if (!combination_shape(size, 3, &rank, shape)) return false;
  *c = same_shape(c->op, c->types, rank, shape, round);
  if (c->op->flags & TN_OPERATOR_ACCUMULATES) c->values = VALUES_POSITIVE;
  return true;
}

/* Two shapes that meet; a third operand has either's. Of equal ones `degenerate_map` has all. */
static bool degenerate_broadcast(op_case *c, const int64_t *size, unsigned round) {
  int32_t rank[2];
  int64_t shape[2][3];
  if (!combination_shape(size, 3, &rank[0], shape[0])) return false;
  if (!combination_shape(size + 4, 3, &rank[1], shape[1])) return false;
  bool equal = rank[0] == rank[1];
  for (int32_t i = 0; i < 3; i++) equal = equal && shape[0][i] == shape[1][i];
  if (equal || rank[0] + rank[1] > 4 + 2 * (combination_choice(round, 0, 4) == 0)) return false;
  for (uint32_t i = 0; i < op_inputs(c->op); i++) {
    const uint32_t which = i == 2 ? combination_choice(round, 1, 2) : i == 1;
    case_shape(c, i, rank[which], shape[which]);
  }
  c->values = values_of(c->op, round);
  vary(c, round);
  return true;
}

void degenerate_elementwise(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"0123", "120", "12", "12"};
  static const char *const shapes[] = {"0123", "12", "12", "12", "0123", "12", "12", "12"};
  combine(op, types, &(combination){4, sizes, degenerate_map, true}, sink);
  if (op->shape == TN_SHAPE_BROADCAST && op_inputs(op) > 1)
    combine(op, types, &(combination){8, shapes, degenerate_broadcast, true}, sink);
}

void cases_elementwise(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  by_length(op, types, sink);
  by_rank(op, types, sink);
  by_size(op, types, sink);
  by_bits(op, types, sink);
  huge(op, types, sink);
  if (op->shape == TN_SHAPE_BROADCAST) by_broadcast(op, types, sink);
}

void sizes_elementwise(const tn_operator *op, const tn_dtype *types, int64_t large,
                       case_sink sink) {
  const int64_t list[] = {1000, 100000, large};
  for (unsigned i = 0; i < 3; i++) {
    op_case c = same_shape(op, types, 1, &list[i], 0);
    case_set(&c, "beta", 0, 1); /* as programs call softplus */
    case_set(&c, "threshold", 0, 20);
    sink.take(sink.ctx, &c);
  }
  if (op->id != TN_OP_ADD) return;
  static const int64_t image[] = {64, 64, 24, 24}, channel[] = {64, 1, 1};
  op_case c = same_shape(op, types, 4, image, 0);
  case_shape(&c, 1, 3, channel);
  sink.take(sink.ctx, &c);
}
