/* Cases of concat and stack: lists of one and more, every axis, empty members. */
#include "combine.h"
#include "op_case.h"

enum { MEMBERS = 9, SHAPES = 13 };

/* A shape that the members have, and along the axis a length for each in turn. */
typedef struct join_shape {
  int32_t rank, axis;
  int64_t shape[TN_MAX_RANK];
  uint32_t members;
  int64_t lengths[MEMBERS];
} join_shape;

static const join_shape shapes[SHAPES] = {
    {2, 1, {2, 0}, 2, {3, 5}}, /* the typical one */
    {1, 0, {0}, 3, {1, 8, 3}},
    {1, 0, {0}, 1, {17}},
    {1, 0, {0}, 9, {16, 32, 0, 64, 1, 15, 33, 128, 2}},
    {2, 0, {0, 16}, 3, {4, 1, 7}},
    {2, 1, {5, 0}, 3, {16, 16, 32}},
    {2, 1, {3, 0}, 4, {0, 7, 0, 9}},
    {3, 1, {3, 0, 4}, 3, {2, 2, 5}},
    {3, 0, {0, 3, 1}, 2, {1, 1}},
    {4, 1, {2, 0, 5, 3}, 2, {4, 8}},
    {4, 3, {2, 3, 2, 0}, 5, {1, 2, 3, 4, 5}},
    {7, 6, {2, 1, 2, 3, 1, 2, 0}, 2, {3, 1}},
    {3, 1, {0, 0, 4}, 2, {2, 3}},
};

static op_case join(const tn_operator *op, const tn_dtype *types, const join_shape *s) {
  bool is_new = op->shape == TN_SHAPE_STACK;
  op_case c = case_begin(op_of_length(op, s->members), types);
  for (uint32_t i = 0; i < s->members; i++) {
    int64_t shape[TN_MAX_RANK];
    for (int32_t d = 0; d < s->rank; d++) shape[d] = s->shape[d];
    shape[s->axis] = s->lengths[is_new ? 0 : i];
    case_shape(&c, i, s->rank, shape);
  }
  case_set(&c, "axis", 0, s->axis);
  c.values = VALUES_BITS;
  c.variants |= VARIANT_PREPARED;
  if (s->rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
  return c;
}

static void emit(case_sink sink, op_case c, unsigned round) {
  c.seed += round;
  sink.take(sink.ctx, &c);
}

/* Scalars can be stacked and not joined. */
static void scalars(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  for (uint32_t n = 1; n <= 5; n += 2) {
    op_case c = case_begin(op_of_length(op, n), types);
    case_set(&c, "axis", 0, n == 1 ? -1 : 0);
    emit(sink, c, n);
  }
}

/* Each shape with its axis, with the axis counted from the end, and with a member that
 * repeats one element; a stack has its new axis before, behind and last. */
void cases_join(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  bool is_new = op->shape == TN_SHAPE_STACK;
  for (unsigned i = 0; i < SHAPES; i++) {
    const join_shape *s = &shapes[i];
    op_case c = join(op, types, s);
    c.typical = i == 0;
    emit(sink, c, i);
    c.typical = false;
    case_set(&c, "axis", 0, s->axis - s->rank - is_new);
    if (s->rank > 1) c.arg[0].expanded = 1u << (s->axis == 0);
    emit(sink, c, 100 + i);
    case_set(&c, "axis", 0, s->rank);
    if (is_new) emit(sink, c, 200 + i);
  }
  if (is_new) scalars(op, types, sink);
  static const join_shape large = {2, 1, {67, 0}, 3, {129, 1000, 515}};
  op_case c = join(op, types, &large);
  c.variants = VARIANT_MADE | VARIANT_SLICED;
  emit(sink, c, 300);
}

/* A rank, its sizes, the axis, how many members and how long the second is. */
static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  const bool is_new = c->op->shape == TN_SHAPE_STACK;
  join_shape s = {.members = (uint32_t)size[5],
                  .lengths = {0, size[6], combination_choice(round, 0, 3)}};
  if (!combination_shape(size, 3, &s.rank, s.shape) || size[4] >= s.rank + is_new) return false;
  if ((is_new || s.members < 2) && size[6] != 1) return false;
  s.axis = size[4] < s.rank ? (int32_t)size[4] : 0;
  s.lengths[0] = s.shape[s.axis];
  *c = join(c->op, c->types, &s);
  case_set(c, "axis", 0, (double)size[4]);
  if (round % 3 == 0) c->arg[0].expanded = 1u << (s.axis == 0 && s.rank > 1);
  return true;
}

void degenerate_join(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"123", "120", "12", "12", "0123", "123", "120"};
  combine(op, types, &(combination){7, sizes, degenerate}, sink);
}

void sizes_join(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t sizes[] = {1000, 100000, large};
  for (unsigned i = 0; i < 3; i++) {
    join_shape s = {2, 1, {sizes[i] / 512 + 1, 0}, 4, {128, 128, 128, 128}};
    op_case c = join(op, types, &s);
    sink.take(sink.ctx, &c);
  }
}
