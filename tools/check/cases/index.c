/*
 * Cases of gathering and scattering by index: every axis, indexes that count from the end,
 * that repeat and that are outside.
 */
#include "combine.h"
#include "number.h"
#include "op_case.h"

typedef struct tensor {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} tensor;

/* The size that an index of the case chooses from. */
static int64_t choices(const op_case *c) {
  if (case_has(c, "classes")) return (int64_t)case_get(c, "classes", 0);
  bool updates = arg_is_input(&c->op->args[0]) && c->op->args[2].kind == TN_ARG_INOUT;
  const case_arg *data = &c->arg[updates ? 2 : 0];
  int64_t axis = (int64_t)case_get(c, "axis", 0);
  return data->shape[axis < 0 ? axis + data->rank : axis];
}

/* Places of the axis, from either end; one in eight is outside, by little or by far. */
static int64_t draw_index(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  int64_t n = choices(c);
  tn_dtype dtype = case_dtype(c, arg);
  const int64_t outside[] = {n, -n - 1, number_min_int(dtype), number_max_int(dtype)};
  (void)at;
  if (n == 0 || random % 8 == 0) return outside[random / 8 % 4];
  return (int64_t)(random / 8 % (2 * (uint64_t)n)) - n;
}

static value_kind values_of(const tn_operator *op, unsigned round) {
  static const value_kind moved[] = {VALUES_PLAIN, VALUES_BITS, VALUES_SPECIAL, VALUES_TIES};
  static const value_kind summed[] = {VALUES_PLAIN, VALUES_SPARSE};
  return op->flags & TN_OPERATOR_ACCUMULATES ? summed[round % 2] : moved[round % 4];
}

static op_case begin(const tn_operator *op, const tn_dtype *types, unsigned round) {
  op_case c = case_begin(op, types);
  c.values = values_of(op, round);
  c.seed += round;
  if (round % 5 == 0) c.variants |= VARIANT_PREPARED;
  return c;
}

/* --- data and an index --- */

typedef struct indexed {
  tensor data, index; /* of take_along_axis and scatter: its size along the axis is used */
} indexed;

static const indexed pairs[] = {
    {{2, {3, 5}}, {1, {4}}},
    {{1, {1}}, {1, {1}}},
    {{1, {7}}, {1, {0}}},
    {{1, {0}}, {1, {3}}},
    {{1, {1000}}, {1, {65}}},
    {{1, {33}}, {1, {1000}}},
    {{2, {64, 16}}, {1, {9}}},
    {{2, {10, 33}}, {1, {129}}},
    {{2, {0, 4}}, {1, {3}}},
    {{2, {5, 0}}, {1, {3}}},
    {{3, {4, 6, 8}}, {2, {3, 2}}},
    {{3, {2, 9, 5}}, {1, {17}}},
    {{4, {2, 3, 4, 5}}, {2, {2, 3}}},
    {{4, {3, 2, 5, 8}}, {0, {0}}},
    {{5, {2, 1, 3, 2, 4}}, {3, {2, 1, 3}}},
    {{3, {2, 40, 70}}, {1, {50}}},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static int64_t count(const tensor *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->rank; i++) n *= t->shape[i];
  return n;
}

/* What index_select and index_add take: a list; the others of a full rank get one that is
 * smaller than the data across the axis now and then. */
static tensor index_of(const tn_operator *op, const indexed *p, int32_t axis, unsigned round) {
  if (op->id == TN_OP_GATHER) return p->index;
  if (op->id == TN_OP_INDEX_SELECT || op->id == TN_OP_INDEX_ADD)
    return (tensor){1, {count(&p->index)}};
  tensor t = p->data;
  for (int32_t d = 0; d < t.rank; d++)
    if (round % 3 == 1 && t.shape[d] > 1) t.shape[d]--;
  t.shape[axis] = count(&p->index);
  return t;
}

static op_case pair_case(const tn_operator *op, const tn_dtype *types, const indexed *p,
                         int32_t axis, unsigned round) {
  op_case c = begin(op, types, round);
  tensor index = index_of(op, p, axis, round), updates = p->data;
  bool writes = c.op->args[2].kind == TN_ARG_INOUT;
  updates.shape[axis] = count(&p->index);
  if (op->shape == TN_SHAPE_SCATTER) updates = index;
  case_shape(&c, 1, index.rank, index.shape);
  case_shape(&c, 0, p->data.rank, writes ? updates.shape : p->data.shape);
  if (writes) case_shape(&c, 2, p->data.rank, p->data.shape);
  c.arg[1].index = draw_index;
  case_set(&c, "axis", 0, round % 2 ? axis - p->data.rank : axis);
  if (round % 4 == 3) c.arg[0].expanded = 1u << round % (unsigned)p->data.rank;
  if (round % 6 == 5 && index.rank) c.arg[1].expanded = 1u << round % (unsigned)index.rank;
  if (p->data.rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
  return c;
}

/* Sums of so many updates that what each is rounded to shows. */
static void many_updates(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const indexed list[] = {{{2, {3, 40}}, {1, {700}}},
                                 {{1, {5}}, {1, {3000}}},
                                 {{2, {40, 3}}, {1, {900}}},
                                 {{2, {4, 7}}, {1, {2500}}}};
  if (op->id != TN_OP_SCATTER_ADD && op->id != TN_OP_INDEX_ADD) return;
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
    op_case c = pair_case(op, types, &list[i], i == 2, i);
    sink.take(sink.ctx, &c);
  }
}

void cases_index(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  unsigned round = 0;
  many_updates(op, types, sink);
  for (unsigned i = 0; i < PAIRS; i++)
    for (int32_t axis = 0; axis < pairs[i].data.rank; axis++)
      for (unsigned k = 0; k < 2; k++, round++) {
        op_case c = pair_case(op, types, &pairs[i], axis, round);
        c.typical = i == 0 && axis == 0 && k == 0;
        sink.take(sink.ctx, &c);
      }
  /* Columns so long that a device's cache holds but a few. */
  static const indexed columns = {{2, {70000, 70}}, {1, {40000}}};
  if (op->id != TN_OP_SCATTER || tn_dtype_size(types[0]) != 1) return;
  op_case c = pair_case(op, types, &columns, 0, 0);
  c.variants = VARIANT_MADE;
  sink.take(sink.ctx, &c);
}

/* The data's rank and sizes, the axis, the index's rank and sizes: more than one rank where the
 * operator takes it. */
static bool degenerate_pair(op_case *c, const int64_t *size, unsigned round) {
  indexed p;
  if (!combination_shape(size, 2, &p.data.rank, p.data.shape)) return false;
  if (!combination_shape(size + 4, 2, &p.index.rank, p.index.shape)) return false;
  if (size[3] >= p.data.rank || (c->op->id != TN_OP_GATHER && p.index.rank != 1)) return false;
  *c = pair_case(c->op, c->types, &p, (int32_t)size[3], combination_choice(round, 0, 60));
  return true;
}

void degenerate_index(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "12", "12", "01", "012", "120", "12"};
  combine(op, types, &(combination){7, sizes, degenerate_pair}, sink);
}

/* Rows of a table of embeddings; for full indexes, every other element of rows. */
void sizes_index(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const bool big = large >= 1 << 26;
  const indexed rows = {{2, {big ? 65536 : 4096, 768}}, {1, {big ? 65536 : 4096}}};
  op_case c = pair_case(op, types, &rows, 0, 0);
  sink.take(sink.ctx, &c);
}

/* --- one_hot --- */

void cases_one_hot(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const tensor list[] = {
      {1, {4}},       {0, {0}},          {1, {0}},
      {1, {1}},       {1, {129}},        {2, {5, 7}},
      {3, {2, 0, 3}}, {4, {2, 3, 4, 5}}, {7, {1, 2, 1, 2, 3, 1, 2}},
  };
  static const int64_t classes[] = {5, 1, 10, 0, 33, 2};
  unsigned round = 0;
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (int32_t axis = 0; axis <= list[i].rank; axis++, round++) {
      op_case c = begin(op, types, round);
      case_shape(&c, 0, list[i].rank, list[i].shape);
      c.arg[0].index = draw_index;
      case_set(&c, "classes", 0, (double)classes[i ? round % 6 : 0]);
      case_set(&c, "axis", 0, round % 2 ? axis : axis - list[i].rank - 1);
      case_set(&c, "on", 0, round % 3 ? 1 : -0.1);
      case_set(&c, "off", 0, round % 3 == 1 ? 300 : 0);
      c.typical = i == 0 && axis == 0;
      if (list[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate_classes(op_case *c, const int64_t *size, unsigned round) {
  tensor x;
  if (!combination_shape(size, 2, &x.rank, x.shape) || size[3] > x.rank) return false;
  *c = begin(c->op, c->types, round);
  case_shape(c, 0, x.rank, x.shape);
  c->arg[0].index = draw_index;
  case_set(c, "axis", 0, (double)size[3]);
  case_set(c, "classes", 0, (double)size[4]);
  return true;
}

void degenerate_one_hot(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"012", "12", "12", "012", "12"};
  combine(op, types, &(combination){5, sizes, degenerate_classes}, sink);
}

void sizes_one_hot(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  int64_t n = large / 1000;
  op_case c = case_begin(op, types);
  case_shape(&c, 0, 1, &n);
  c.arg[0].index = draw_index;
  case_set(&c, "classes", 0, 1000);
  sink.take(sink.ctx, &c);
}

/* --- nonzero --- */

/* Half of the elements zero, nearly all, none, and what special values there are. */
void cases_nonzero(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const tensor list[] = {
      {0, {0}},
      {1, {1}},
      {1, {0}},
      {1, {8}},
      {1, {1000}},
      {1, {4097}},
      {2, {3, 5}},
      {2, {33, 65}},
      {2, {4, 0}},
      {3, {5, 1, 7}},
      {3, {0, 2, 3}},
      {4, {2, 3, 4, 5}},
      {8, {2, 1, 3, 2, 1, 2, 2, 3}},
  };
  static const value_kind kinds[] = {VALUES_TIES, VALUES_SPECIAL, VALUES_PLAIN, VALUES_SPARSE};
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned k = 0; k < 4; k++) {
      op_case c = case_begin(op, types);
      case_shape(&c, 0, list[i].rank, list[i].shape);
      c.values = kinds[k];
      c.seed += i * 4 + k;
      c.typical = i == 6 && k == 0;
      if (k == 2 && list[i].rank > 1) c.arg[0].expanded = 1;
      if (list[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate_zeros(op_case *c, const int64_t *size, unsigned round) {
  tensor x;
  (void)round;
  if (!combination_shape(size, 3, &x.rank, x.shape)) return false;
  case_shape(c, 0, x.rank, x.shape);
  c->values = VALUES_TIES;
  return true;
}

void degenerate_nonzero(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"0123", "12", "12", "12"};
  combine(op, types, &(combination){4, sizes, degenerate_zeros}, sink);
}

void sizes_nonzero(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  op_case c = case_begin(op, types);
  case_shape(&c, 0, 1, &large);
  c.values = VALUES_TIES;
  sink.take(sink.ctx, &c);
}
