/* Cases of tensors made from a rule. */
#include "combine.h"
#include "number.h"
#include "op_case.h"

typedef struct tensor {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} tensor;

static const tensor shapes[] = {
    {2, {3, 5}}, {0, {0}},     {1, {1}},       {1, {0}},          {1, {2}},
    {1, {8}},    {1, {17}},    {1, {1000}},    {1, {70001}},      {2, {33, 65}},
    {2, {0, 3}}, {2, {1, 64}}, {3, {2, 7, 4}}, {4, {2, 3, 4, 5}}, {8, {2, 1, 3, 2, 1, 2, 2, 3}},
};

static void vary(op_case *c, unsigned round) {
  static const double starts[] = {0, 1, -3, 0.1, 200, -1e4, 1e30, 7};
  static const double steps[] = {1, -1, 0.25, 3, 0.1, -100, 1e28, 2.5};
  static const double diagonals[] = {0, 1, -1, 3, -1e18, 1e18};
  case_set(c, "start", 0, starts[round % 8]);
  case_set(c, "step", 0, steps[round / 8 % 8]);
  case_set(c, "stop", 0, starts[(round * 5 + 3) % 8]);
  case_set(c, "diagonal", 0, diagonals[round % 6]);
}

void cases_create(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  unsigned round = 0;
  for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (unsigned k = 0; k < 8; k++, round += 3) {
      op_case c = case_begin(op, types);
      if (op->id == TN_OP_EYE && shapes[i].rank < 2) continue;
      case_shape(&c, 0, shapes[i].rank, shapes[i].shape);
      vary(&c, round);
      c.seed += round;
      c.typical = i == 0 && k == 0;
      if (shapes[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      if (k == 1) c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  tensor x;
  if (!combination_shape(size, 3, &x.rank, x.shape)) return false;
  if (c->op->id == TN_OP_EYE && x.rank < 2) return false;
  case_shape(c, 0, x.rank, x.shape);
  vary(c, round);
  return true;
}

void degenerate_create(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"0123", "12", "12", "12"};
  combine(op, types, &(combination){4, sizes, degenerate}, sink);
}

void sizes_create(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t side = large >= 1 << 26 ? 8192 : 2048, shape[] = {side, side};
  op_case c = case_begin(op, types);
  case_shape(&c, 0, 2, shape);
  sink.take(sink.ctx, &c);
}
