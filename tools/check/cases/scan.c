/* Cases of scans: every axis, both directions, with and without each element itself. */
#include "combine.h"
#include "op_case.h"

typedef struct scanned {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} scanned;

static value_kind values_of(const tn_operator *op, unsigned round) {
  static const value_kind exact[] = {VALUES_TIES, VALUES_PLAIN, VALUES_SPECIAL, VALUES_SPARSE};
  if (op->flags & TN_OPERATOR_ACCUMULATES) return round % 4 == 3 ? VALUES_SPARSE : VALUES_PLAIN;
  return exact[round % 4];
}

static void along(const tn_operator *op, const tn_dtype *types, const scanned *x, int32_t axis,
                  unsigned round, case_sink sink) {
  op_case c = case_begin(op, types);
  case_shape(&c, 0, x->rank, x->shape);
  c.values = values_of(op, round);
  c.seed += round;
  case_set(&c, "axis", 0, round % 3 ? axis : axis - x->rank);
  case_set(&c, "reverse", 0, round % 2);
  case_set(&c, "exclusive", 0, round / 2 % 2);
  if (op->num_args == 3 && round % 5 == 4) c.arg[2].absent = true;
  if (x->rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
  if (x->rank > 1 && round % 7 == 5) c.arg[0].expanded = 1u << !axis;
  if (round % 6 == 0) c.variants |= VARIANT_PREPARED;
  c.typical = x->rank == 2 && x->shape[0] == 3 && round % 5 == 1;
  case_widen(&c, c.typical ? 0 : round / 3);
  sink.take(sink.ctx, &c);
}

void cases_scan(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const scanned list[] = {
      {1, {1}},       {1, {7}},         {1, {0}},          {1, {33}},
      {1, {129}},     {1, {1000}},      {2, {3, 5}},       {2, {33, 129}},
      {2, {129, 33}}, {2, {1, 64}},     {2, {0, 3}},       {3, {5, 1, 4}},
      {3, {2, 0, 3}}, {3, {17, 9, 33}}, {4, {2, 3, 4, 5}}, {8, {2, 3, 1, 2, 3, 2, 2, 3}},
      {2, {3, 2049}}, {2, {300, 70}},
  };
  static const scanned large[] = {{1, {65539}}, {2, {2, 40001}}, {2, {40001, 3}}};
  unsigned round = 0;
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (int32_t axis = 0; axis < list[i].rank; axis++)
      for (unsigned k = 0; k < 4; k++) along(op, types, &list[i], axis, round++ + k, sink);
  for (unsigned i = 0; i < sizeof large / sizeof *large; i++)
    along(op, types, &large[i], i == 1, i + 1, sink);
}

/* A rank, its sizes, the axis, both directions and whether each leaves itself out. */
static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  scanned x;
  if (!combination_shape(size, 3, &x.rank, x.shape) || size[4] >= x.rank) return false;
  case_shape(c, 0, x.rank, x.shape);
  case_set(c, "axis", 0, (double)(round % 2 ? size[4] : size[4] - x.rank));
  if (size[6] && !case_has(c, "exclusive")) return false;
  case_set(c, "reverse", 0, (double)size[5]);
  case_set(c, "exclusive", 0, (double)size[6]);
  c->arg[2].absent = c->op->num_args == 3 && combination_choice(round, 2, 2);
  case_widen(c, combination_choice(round, 3, 6));
  return true;
}

void degenerate_scan(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"123", "120", "12", "12", "012", "01", "01"};
  combine(op, types, &(combination){7, sizes, degenerate}, sink);
}

/* One long line, rows and columns. */
void sizes_scan(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t side = large >= 1 << 26 ? 8192 : 2048;
  const scanned whole = {1, {large}}, square = {2, {side, side}};
  along(op, types, &whole, 0, 0, sink);
  along(op, types, &square, 1, 0, sink);
  along(op, types, &square, 0, 0, sink);
}
