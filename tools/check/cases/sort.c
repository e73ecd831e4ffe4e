/* Cases of sorting: few values and many ties, every axis, both directions. */
#include "combine.h"
#include "op_case.h"

typedef struct tensor {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} tensor;

static op_case begin(const tn_operator *op, const tn_dtype *types, const tensor *x,
                     unsigned round) {
  static const value_kind kinds[] = {VALUES_PLAIN, VALUES_TIES, VALUES_SPECIAL, VALUES_BITS,
                                     VALUES_SPARSE};
  op_case c = case_begin(op, types);
  case_shape(&c, 0, x->rank, x->shape);
  c.values = kinds[round % 5];
  c.seed += round;
  case_set(&c, "descending", 0, round / 2 % 2);
  case_set(&c, "largest", 0, round / 2 % 2);
  if (x->rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
  if (round % 7 == 0) c.variants |= VARIANT_PREPARED;
  return c;
}

static void along(const tn_operator *op, const tn_dtype *types, const tensor *x, int32_t axis,
                  unsigned round, case_sink sink) {
  const int64_t n = x->shape[axis], k[] = {n, 1, n / 2, 0, n > 10 ? 10 : n};
  op_case c = begin(op, types, x, round);
  case_set(&c, "axis", 0, round % 2 ? axis : axis - x->rank);
  case_set(&c, "k", 0, (double)(k[round % 5] > n ? n : k[round % 5]));
  if (op->num_args == 3 && round % 3 == 1) c.arg[2].absent = true;
  if (x->rank > 1 && round % 4 == 3) c.arg[0].expanded = 1u << !axis;
  c.typical = x->rank == 2 && n == 5 && round % 5 == 1;
  sink.take(sink.ctx, &c);
}

/* Rows of which CUDA finds the first k by delegates, of which one block takes the first alone, and
 * of which many choose parts once and twice; on both sides of these lines. */
static void long_topk(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const struct {
    tensor x;
    double k;
  } list[] = {
      {{2, {2, 8192}}, 225}, {{2, {2, 8193}}, 226},  {{2, {3, 16387}}, 100}, {{1, {131072}}, 225},
      {{1, {131073}}, 1000}, {{2, {133, 2500}}, 10}, {{1, {720897}}, 1024},
  };
  if (op->shape != TN_SHAPE_TOPK) return;
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
    op_case c = begin(op, types, &list[i].x, i);
    case_set(&c, "k", 0, list[i].k);
    c.variants = i % 2 ? VARIANT_GIVEN : VARIANT_MADE;
    sink.take(sink.ctx, &c);
  }
}

void cases_sort(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const tensor list[] = {
      {1, {1}},
      {1, {2}},
      {1, {7}},
      {1, {33}},
      {1, {257}},
      {1, {1000}},
      {1, {2049}},
      {1, {5003}},
      {2, {3, 5}},
      {2, {40, 65}},
      {2, {0, 3}},
      {2, {3, 0}},
      {3, {4, 33, 5}},
      {1, {0}},
      {2, {2, 4500}},
      {4, {2, 3, 4, 5}},
      {8, {1, 2, 1, 3, 1, 2, 2, 1}},
  };
  unsigned round = 0;
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned k = 0; k < (list[i].rank == 1 ? 5 : 3); k++, round++) {
      if (op->shape != TN_SHAPE_UNIQUE) {
        for (int32_t a = 0; a < list[i].rank; a++)
          along(op, types, &list[i], a, round + (unsigned)a, sink);
        continue;
      }
      op_case c = begin(op, types, &list[i], round);
      c.arg[2].absent = k == 1;
      c.typical = list[i].rank == 2 && list[i].shape[1] == 5 && k == 0;
      sink.take(sink.ctx, &c);
    }
  static const tensor scalar = {0, {0}}, large = {1, {70001}};
  for (unsigned k = 0; k < 5; k++) {
    op_case c = begin(op, types, op->shape == TN_SHAPE_UNIQUE && !k ? &scalar : &large, k);
    case_set(&c, "k", 0, k ? 100 : 35000);
    c.variants = VARIANT_MADE;
    sink.take(sink.ctx, &c);
  }
  long_topk(op, types, sink);
}

/* A rank, its sizes, the axis, how many of topk. */
static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  tensor x;
  const bool unique = c->op->shape == TN_SHAPE_UNIQUE, some = case_has(c, "k");
  if (!combination_shape(size, 3, &x.rank, x.shape) || size[4] >= x.rank) return false;
  if (unique ? size[4] : size[5] > x.shape[size[4]]) return false;
  if (!some && size[5] != 1) return false;
  *c = begin(c->op, c->types, &x, round);
  if (!unique) case_set(c, "axis", 0, (double)size[4]);
  case_set(c, "k", 0, (double)size[5]);
  c->arg[2].absent = c->op->num_args == 3 && combination_choice(round, 0, 2);
  return true;
}

void degenerate_sort(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"123", "12", "12", "12", "012", "12"};
  combine(op, types, &(combination){6, sizes, degenerate}, sink);
}

/* One long row, and many short ones. */
void sizes_sort(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const tensor whole = {1, {large / 4}}, rows = {2, {large / 4000, 1000}};
  for (unsigned i = 0; i < 2; i++) {
    op_case c = case_begin(op, types);
    case_shape(&c, 0, i ? rows.rank : whole.rank, i ? rows.shape : whole.shape);
    case_set(&c, "k", 0, 10);
    if (op->shape != TN_SHAPE_UNIQUE || i == 0) sink.take(sink.ctx, &c);
  }
}
