/* Cases of softmax along every axis, and of losses over classes. */
#include "combine.h"
#include "number.h"
#include "op_case.h"

typedef struct tensor {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} tensor;

void cases_softmax(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const tensor list[] = {
      {1, {1}},
      {1, {7}},
      {1, {129}},
      {2, {3, 5}},
      {2, {64, 10}},
      {2, {5, 1000}},
      {2, {2, 4097}},
      {2, {0, 3}},
      {2, {3, 0}},
      {3, {4, 33, 5}},
      {4, {2, 3, 4, 5}},
      {3, {2, 1, 3}},
      {8, {1, 2, 1, 3, 1, 2, 2, 1}},
      {2, {300, 17}},
      {2, {3, 16500}},
  };
  unsigned round = 0;
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (int32_t axis = 0; axis < list[i].rank; axis++)
      for (unsigned k = 0; k < 3; k++, round++) {
        op_case c = case_begin(op, types);
        for (uint32_t a = 0; a < op_inputs(op); a++) case_shape(&c, a, list[i].rank, list[i].shape);
        case_set(&c, "axis", 0, round % 2 ? axis : axis - list[i].rank);
        c.values = k == 2 ? VALUES_SPARSE : VALUES_PLAIN;
        c.seed += round;
        c.typical = i == 3 && axis == 1 && k == 0;
        if (k == 1) c.arg[0].expanded = list[i].rank > 1 ? 1u << !axis : 0;
        if (list[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
        if (k == 0 && list[i].rank == 2) c.variants |= VARIANT_PREPARED;
        sink.take(sink.ctx, &c);
      }
}

/* The shape of the targets: x's without its axis 1. */
static tensor targets_of(const tensor *x) {
  tensor t = {x->rank - 1, {x->shape[0]}};
  for (int32_t i = 2; i < x->rank; i++) t.shape[i - 1] = x->shape[i];
  return t;
}

/* A class, now and then outside the classes where the values are sparse. */
static int64_t draw_target(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  uint32_t x = c->op->shape == TN_SHAPE_CLASS_LOSS_GRAD ? 1 : 0;
  int64_t classes = c->arg[x].shape[1];
  tn_dtype dtype = case_dtype(c, arg);
  const int64_t outside[] = {-1, classes, number_min_int(dtype), number_max_int(dtype)};
  (void)at;
  if (classes == 0 || (c->values == VALUES_SPARSE && random % 8 == 0))
    return outside[random / 8 % 4];
  return (int64_t)(random % (uint64_t)classes);
}

static void loss_shapes(op_case *c, const tensor *x, int reduction) {
  tensor target = targets_of(x), scalar = {0, {0}};
  const tensor *dy = reduction == TN_REDUCTION_NONE ? &target : &scalar;
  uint32_t first = c->op->shape == TN_SHAPE_CLASS_LOSS_GRAD;
  if (first) case_shape(c, 0, dy->rank, dy->shape);
  case_shape(c, first, x->rank, x->shape);
  case_shape(c, first + 1, target.rank, target.shape);
  c->arg[first + 1].index = draw_target;
  case_set(c, "reduction", 0, reduction);
}

void cases_class_loss(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const tensor list[] = {
      {2, {3, 5}},    {2, {1, 1}},    {2, {64, 10}},     {2, {65, 3}},     {2, {0, 4}},
      {2, {2, 1000}}, {3, {2, 4, 3}}, {4, {2, 3, 2, 5}}, {3, {3, 5, 0}},   {2, {1000, 10}},
      {2, {5, 2051}}, {2, {2, 4096}}, {2, {3, 16500}},   {2, {517, 2056}},
  };
  const unsigned count = sizeof list / sizeof *list;
  for (unsigned i = 0; i < count; i++)
    for (int reduction = 0; reduction < 3; reduction++)
      for (unsigned k = 0; k < 3; k++) {
        if (i == count - 1 && (reduction != TN_REDUCTION_MEAN || k)) continue; /* it takes long */
        op_case c = case_begin(op, types);
        loss_shapes(&c, &list[i], reduction);
        c.values = k == 2 ? VALUES_SPARSE : VALUES_PLAIN;
        c.seed += i * 9 + (unsigned)reduction * 3 + k;
        /* A class that occurs, or one of the numbers outside the classes. */
        if (k == 1) case_set(&c, "ignore_index", 0, 0);
        if (k == 2 && i % 2) case_set(&c, "ignore_index", 0, -1);
        if (k) case_set(&c, "label_smoothing", 0, i % 3 == 2 ? 1 : 0.25);
        c.typical = i == 0 && reduction == 1 && k == 0;
        bool gradient = op->shape == TN_SHAPE_CLASS_LOSS_GRAD;
        c.arg[0].absent = gradient && reduction != TN_REDUCTION_NONE && i % 3 == 1;
        if (list[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
        if (i == 2 || i == 4) c.variants |= VARIANT_PREPARED;
        sink.take(sink.ctx, &c);
      }
}

static bool degenerate_rows(op_case *c, const int64_t *size, unsigned round) {
  tensor x;
  if (!combination_shape(size, 3, &x.rank, x.shape) || size[4] >= x.rank) return false;
  for (uint32_t a = 0; a < op_inputs(c->op); a++) case_shape(c, a, x.rank, x.shape);
  case_set(c, "axis", 0, (double)(round % 2 ? size[4] : size[4] - x.rank));
  return true;
}

void degenerate_softmax(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"123", "120", "12", "12", "012"};
  combine(op, types, &(combination){5, sizes, degenerate_rows}, sink);
}

static bool degenerate_loss(op_case *c, const int64_t *size, unsigned round) {
  static const double smoothing[] = {0, 0.7, 1};
  tensor x;
  if (!combination_shape(size, 4, &x.rank, x.shape)) return false;
  loss_shapes(c, &x, (int)size[5]);
  if (combination_choice(round, 0, 3) == 0) case_set(c, "ignore_index", 0, 0);
  case_set(c, "label_smoothing", 0, smoothing[combination_choice(round, 1, 3)]);
  c->arg[0].absent = c->op->shape == TN_SHAPE_CLASS_LOSS_GRAD && size[5] != TN_REDUCTION_NONE &&
                     combination_choice(round, 2, 2);
  return true;
}

void degenerate_class_loss(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"234", "12", "12", "12", "12", "012"};
  combine(op, types, &(combination){6, sizes, degenerate_loss}, sink);
}

void sizes_softmax(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t shape[] = {large >= 1 << 26 ? 16384 : 1024, 1000};
  op_case c = case_begin(op, types);
  for (uint32_t a = 0; a < op_inputs(op); a++) case_shape(&c, a, 2, shape);
  sink.take(sink.ctx, &c);
}

void sizes_class_loss(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const tensor x = {2, {large >= 1 << 26 ? 16384 : 1024, 1000}};
  op_case c = case_begin(op, types);
  loss_shapes(&c, &x, TN_REDUCTION_MEAN);
  sink.take(sink.ctx, &c);
}
