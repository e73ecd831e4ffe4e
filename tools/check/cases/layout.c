/* Cases of rearranging, padding and repeating. */
#include "combine.h"
#include "number.h"
#include "op_case.h"

typedef struct tensor {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} tensor;

/* Data that is moved: plain numbers, any bits, special values in turn. */
static value_kind values_of(const tn_operator *op, unsigned round) {
  static const value_kind moved[] = {VALUES_PLAIN, VALUES_BITS, VALUES_SPECIAL};
  static const value_kind summed[] = {VALUES_PLAIN, VALUES_SPARSE};
  return op->flags & TN_OPERATOR_ACCUMULATES ? summed[round % 2] : moved[round % 3];
}

static op_case begin(const tn_operator *op, const tn_dtype *types, const tensor *x,
                     unsigned round) {
  op_case c = case_begin(op, types);
  case_shape(&c, 0, x->rank, x->shape);
  c.values = values_of(op, round);
  c.seed += round;
  if (round % 4 == 3 && x->rank > 1) c.arg[0].expanded = 1u << round % (unsigned)x->rank;
  if (x->rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
  if (round % 5 == 0) c.variants |= VARIANT_PREPARED;
  return c;
}

/* --- pad --- */

typedef struct padding {
  tensor x;
  int64_t before[TN_MAX_RANK], after[TN_MAX_RANK];
  bool open; /* constant only: more than a reflection or an edge has */
} padding;

static const padding paddings[] = {
    {{2, {3, 5}}, {1, 2}, {2, 1}, false},
    {{0, {0}}, {0}, {0}, false},
    {{1, {1}}, {0}, {0}, false},
    {{1, {8}}, {3}, {7}, false},
    {{1, {1}}, {4}, {5}, true},
    {{1, {0}}, {2}, {3}, true},
    {{1, {1000}}, {1}, {0}, false},
    {{1, {1025}}, {15}, {17}, false},
    {{2, {1, 64}}, {0, 1}, {0, 63}, false},
    {{2, {33, 16}}, {5, 0}, {6, 0}, false},
    {{2, {5, 0}}, {1, 0}, {1, 0}, false},
    {{2, {9, 254}}, {1, 1}, {1, 1}, false}, /* vectors that lie in two rows, or beside one */
    {{3, {2, 7, 21}}, {0, 2, 3}, {0, 0, 6}, false},
    {{3, {2, 17, 9}}, {0, 3, 0}, {0, 16, 0}, false},
    {{3, {4, 1, 7}}, {0, 2, 0}, {1, 2, 3}, true},
    {{4, {2, 3, 5, 8}}, {0, 0, 1, 1}, {0, 0, 1, 1}, false},
    {{4, {2, 3, 4, 5}}, {1, 2, 0, 4}, {0, 1, 3, 2}, false},
    {{8, {1, 2, 1, 3, 2, 1, 2, 3}}, {0, 1, 0, 2, 0, 0, 1, 1}, {0, 0, 0, 1, 1, 0, 1, 2}, false},
};

static void set_padding(op_case *c, const padding *p, bool grad) {
  for (int32_t d = 0; d < p->x.rank; d++) {
    if (grad) c->arg[0].shape[d] += p->before[d] + p->after[d];
    case_set(c, "before", d, (double)p->before[d]);
    case_set(c, "after", d, (double)p->after[d]);
  }
}

void cases_pad(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const double values[] = {0, 1, -0.1, 300, 1e30, -1e300};
  bool grad = op->shape == TN_SHAPE_PAD_GRAD;
  unsigned round = 0;
  for (unsigned i = 0; i < sizeof paddings / sizeof *paddings; i++)
    for (int mode = 0; mode < 3; mode++)
      for (unsigned k = 0; k < 2 && !(mode && paddings[i].open); k++, round++) {
        op_case c = begin(op, types, &paddings[i].x, round);
        set_padding(&c, &paddings[i], grad);
        case_set(&c, "mode", 0, mode);
        case_set(&c, "value", 0, values[round % 6]);
        c.typical = i == 0 && mode == 1 && k == 0;
        sink.take(sink.ctx, &c);
      }
}

/* A rank, its sizes, what is put before and after each axis. */
static bool degenerate_padding(op_case *c, const int64_t *size, unsigned round) {
  padding p = {.open = false};
  if (!combination_shape(size, 2, &p.x.rank, p.x.shape)) return false;
  for (int32_t i = 0; i < 2; i++) {
    p.before[i] = size[3 + 2 * i];
    p.after[i] = size[4 + 2 * i];
    if (i >= p.x.rank && (p.before[i] || p.after[i])) return false;
    p.open = p.open || p.before[i] >= p.x.shape[i] || p.after[i] >= p.x.shape[i];
  }
  *c = begin(c->op, c->types, &p.x, round);
  set_padding(c, &p, c->op->shape == TN_SHAPE_PAD_GRAD);
  case_set(c, "mode", 0, p.open ? 0 : combination_choice(round, 0, 3));
  return true;
}

void degenerate_pad(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"12", "12", "12", "01", "01", "01", "01"};
  combine(op, types, &(combination){7, sizes, degenerate_padding}, sink);
}

void sizes_pad(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const padding p = {
      {4, {large >= 1 << 26 ? 64 : 4, 16, 254, 254}}, {0, 0, 1, 1}, {0, 0, 1, 1}, false};
  op_case c = case_begin(op, types);
  case_shape(&c, 0, 4, p.x.shape);
  set_padding(&c, &p, op->shape == TN_SHAPE_PAD_GRAD);
  sink.take(sink.ctx, &c);
}

/* --- one input, one output --- */

static const tensor shapes[] = {
    {2, {3, 5}},        {1, {1}},
    {1, {8}},           {1, {0}},
    {1, {1000}},        {2, {33, 65}},
    {2, {64, 16}},      {2, {0, 3}},
    {2, {3, 0}},        {3, {5, 1, 4}},
    {3, {2, 3, 8}},     {4, {2, 3, 4, 5}},
    {4, {3, 2, 5, 16}}, {8, {2, 1, 3, 2, 1, 2, 2, 3}},
    {3, {70, 9, 64}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void tiles(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const struct {
    tensor x;
    int32_t count;
    int64_t reps[TN_MAX_RANK];
  } list[] = {
      {{2, {3, 5}}, 2, {2, 3}},
      {{0, {0}}, 0, {0}},
      {{0, {0}}, 2, {3, 4}},
      {{1, {7}}, 1, {1}},
      {{1, {8}}, 1, {9}},
      {{1, {1}}, 1, {1000}},
      {{1, {65}}, 3, {2, 1, 3}},
      {{2, {4, 16}}, 1, {3}},
      {{2, {4, 16}}, 2, {5, 1}},
      {{2, {33, 9}}, 0, {0}},
      {{2, {3, 5}}, 2, {0, 2}},
      {{2, {0, 5}}, 2, {3, 2}},
      {{3, {2, 1, 7}}, 3, {1, 6, 1}},
      {{4, {2, 3, 4, 5}}, 4, {2, 1, 3, 2}},
      {{4, {2, 3, 4, 8}}, 4, {1, 2, 1, 1}},
      /* Rows of whole vectors, copied as often as a launch takes, and more often. */
      {{3, {3, 5, 32}}, 3, {2, 3, 2}},
      {{3, {5, 3, 48}}, 3, {4, 4, 2}},
      {{2, {6, 48}}, 2, {11, 3}},
      {{2, {2, 16}}, 1, {40}},
      {{3, {301, 3, 64}}, 3, {1, 3, 1}},
      {{8, {1, 2, 1, 2, 1, 2, 1, 3}}, 8, {2, 1, 2, 1, 2, 1, 2, 2}},
  };
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned k = 0; k < 3; k++) {
      op_case c = begin(op, types, &list[i].x, i * 3 + k);
      for (int32_t d = 0; d < list[i].count; d++) case_set(&c, "reps", d, (double)list[i].reps[d]);
      c.typical = i == 0 && k == 0;
      sink.take(sink.ctx, &c);
    }
}

static void repeats(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const int64_t times[] = {3, 1, 0, 8, 2, 17};
  unsigned round = 0;
  for (unsigned i = 0; i < SHAPES; i++)
    for (int32_t axis = 0; axis < shapes[i].rank; axis++)
      for (unsigned k = 0; k < 3; k++, round++) {
        op_case c = begin(op, types, &shapes[i], round);
        case_set(&c, "axis", 0, round % 2 ? axis - shapes[i].rank : axis);
        case_set(&c, "repeats", 0, (double)times[i ? round % 6 : k]);
        c.typical = i == 0 && axis == 0 && k == 0;
        sink.take(sink.ctx, &c);
      }
}

/* Every set of axes of small ranks, some of large ones. */
static void axes(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const int64_t shifts[] = {1, -1, 3, 0, -1000003, (int64_t)1 << 60, 5, -4};
  unsigned round = 0;
  for (unsigned i = 0; i < SHAPES; i++) {
    uint32_t step = shapes[i].rank > 4 ? 37 : 1;
    for (uint32_t bits = 0; bits < 1u << shapes[i].rank; bits += step)
      for (unsigned k = 0; k < 2; k++, round++) {
        op_case c = begin(op, types, &shapes[i], round);
        tn_axes *list = case_axes(&c);
        for (int32_t d = shapes[i].rank - 1; d >= 0; d--)
          if (bits >> d & 1) list->axis[list->count++] = k ? d - shapes[i].rank : d;
        int32_t moved = list->count ? list->count : shapes[i].rank;
        for (int32_t d = 0; d < moved; d++)
          case_set(&c, "shifts", d, (double)shifts[(round + (unsigned)d) % 8]);
        c.typical = i == 0 && bits == 1 && k == 0;
        sink.take(sink.ctx, &c);
      }
  }
}

static void triangles(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const int64_t diagonals[] = {0, 1, -2, 3, -1000, (int64_t)1 << 62};
  for (unsigned i = 0, round = 0; i < SHAPES; i++)
    for (unsigned k = 0; k < 6 && shapes[i].rank > 1; k++, round++) {
      op_case c = begin(op, types, &shapes[i], round);
      case_set(&c, "diagonal", 0, (double)diagonals[k]);
      c.variants |= VARIANTS_IN_PLACE;
      c.typical = i == 0 && k == 0;
      sink.take(sink.ctx, &c);
    }
}

void cases_arrange(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  if (op->shape == TN_SHAPE_TILE) tiles(op, types, sink);
  if (op->shape == TN_SHAPE_REPEAT) repeats(op, types, sink);
  if (op->shape == TN_SHAPE_FLIP || op->shape == TN_SHAPE_ROLL) axes(op, types, sink);
  if (op->shape == TN_SHAPE_TRIANGLE) triangles(op, types, sink);
}

/* What the operator does along axis i: `how` is 0, 1 or 2. False where an equal case came. */
static bool arrange_axis(op_case *c, const tensor *x, int32_t i, int64_t how) {
  if (i >= x->rank) return how == 0;
  if (c->op->shape == TN_SHAPE_TILE) case_set(c, "reps", i, (double)how);
  if (c->op->shape == TN_SHAPE_FLIP && how > 1) return false;
  if (c->op->shape == TN_SHAPE_FLIP || c->op->shape == TN_SHAPE_ROLL) {
    tn_axes *list = case_axes(c);
    if (how) case_set(c, "shifts", list->count, (double)(how == 2 ? -1 : 1));
    if (how) list->axis[list->count++] = i;
  }
  return true;
}

/* A rank, its sizes, and for each axis what becomes of it: the first number alone is what an
 * operator on one axis takes. */
static bool degenerate_arrangement(op_case *c, const int64_t *size, unsigned round) {
  const uint32_t rule = c->op->shape;
  tensor x;
  if (!combination_shape(size, 3, &x.rank, x.shape)) return false;
  if (rule == TN_SHAPE_TRIANGLE && x.rank < 2) return false;
  *c = begin(c->op, c->types, &x, round);
  if (rule == TN_SHAPE_TRIANGLE) case_set(c, "diagonal", 0, (double)size[4] - 1);
  if (rule == TN_SHAPE_REPEAT) case_set(c, "repeats", 0, (double)size[4]);
  if (rule == TN_SHAPE_REPEAT) case_set(c, "axis", 0, (double)size[5]);
  if (rule == TN_SHAPE_REPEAT) return size[5] < x.rank && !size[6];
  if (rule == TN_SHAPE_TRIANGLE) return !size[5] && !size[6];
  for (int32_t i = 0; i < 3; i++)
    if (!arrange_axis(c, &x, i, size[4 + i])) return false;
  /* Without axes a roll takes shifts of all. */
  return rule != TN_SHAPE_ROLL || case_axes(c)->count;
}

void degenerate_arrange(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"123", "12", "12", "12", "012", "012", "012"};
  combine(op, types, &(combination){7, sizes, degenerate_arrangement}, sink);
}

/* A square of which the rows are moved about; the output has `large` elements or so. */
void sizes_arrange(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  int64_t side = large >= 1 << 26 ? 8192 : 2048;
  bool grows = op->shape == TN_SHAPE_TILE || op->shape == TN_SHAPE_REPEAT;
  const tensor x = {2, {grows ? side / 4 : side, side}};
  op_case c = case_begin(op, types);
  case_shape(&c, 0, x.rank, x.shape);
  case_set(&c, "repeats", 0, 4);
  case_set(&c, "axis", 0, -1);
  for (int32_t d = 0; d < 2; d++) {
    case_set(&c, "reps", d, 2);
    case_set(&c, "shifts", d, 100);
  }
  sink.take(sink.ctx, &c);
}
