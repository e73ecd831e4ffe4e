/*
 * Cases of gathering and scattering by indexes of several axes: every number of axes, with batches,
 * indexes that count from the end, that repeat and that are outside. And of masks.
 */
#include "combine.h"
#include "number.h"
#include "op_case.h"

/* What the index chooses from: the data, or the tensor that is written to. */
static const case_arg *data_of(const op_case *c) {
  return &c->arg[c->op->shape == TN_SHAPE_SCATTER_ND ? 2 : 0];
}

/* Places of an axis, from either end; one in sixteen is outside, by little or by far. */
static int64_t draw_index(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random) {
  const int64_t axis = (int64_t)case_get(c, "batch_dims", 0) + at[c->arg[arg].rank - 1];
  const int64_t n = data_of(c)->shape[axis];
  const tn_dtype dtype = case_dtype(c, arg);
  const int64_t outside[] = {n, -n - 1, number_min_int(dtype), number_max_int(dtype)};
  if (n == 0 || random % 16 == 0) return outside[random / 16 % 4];
  return (int64_t)(random / 16 % (2 * (uint64_t)n)) - n;
}

typedef struct slices {
  int32_t data_rank;
  int64_t data[6];
  int32_t index_rank; /* with the last axis, of `axes` */
  int64_t index[5];
  int32_t batch;
} slices;

static op_case slice_case(const tn_operator *op, const tn_dtype *types, const slices *s,
                          unsigned round) {
  static const value_kind moved[] = {VALUES_PLAIN, VALUES_BITS, VALUES_SPECIAL, VALUES_TIES};
  static const value_kind summed[] = {VALUES_PLAIN, VALUES_SPARSE};
  const bool writes = op->shape == TN_SHAPE_SCATTER_ND;
  const int32_t leading = s->index_rank - 1;
  const int32_t used = s->batch + (int32_t)s->index[leading];
  int64_t part[TN_MAX_RANK];
  op_case c = case_begin(op, types);
  for (int32_t d = 0; d < leading; d++) part[d] = s->index[d];
  for (int32_t d = used; d < s->data_rank; d++) part[leading + d - used] = s->data[d];
  case_shape(&c, writes ? 2 : 0, s->data_rank, s->data);
  if (writes) case_shape(&c, 0, leading + s->data_rank - used, part);
  case_shape(&c, 1, s->index_rank, s->index);
  c.arg[1].index = draw_index;
  case_set(&c, "batch_dims", 0, s->batch);
  c.values = op->flags & TN_OPERATOR_ACCUMULATES ? summed[round % 2] : moved[round % 4];
  c.seed += round;
  return c;
}

void cases_gather_nd(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const slices list[] = {
      {2, {3, 5}, 2, {4, 1}, 0},
      {2, {3, 5}, 2, {4, 2}, 0},
      {1, {7}, 1, {1}, 0},
      {3, {2, 3, 4}, 1, {3}, 0},
      {3, {4, 6, 8}, 3, {3, 2, 2}, 0},
      {3, {4, 6, 8}, 3, {4, 5, 1}, 1},
      {3, {2, 9, 5}, 3, {2, 9, 1}, 2},
      {4, {2, 3, 4, 5}, 3, {2, 6, 2}, 1},
      {2, {33, 17}, 2, {100, 1}, 0},
      {1, {33}, 2, {1000, 1}, 0},
      {1, {5}, 2, {65, 1}, 0},
      {2, {6, 300}, 2, {9, 1}, 0},
      {2, {3, 64}, 2, {500, 1}, 0},
      {2, {3, 7}, 2, {600, 1}, 0},
      {2, {0, 4}, 2, {3, 1}, 0},
      {2, {5, 0}, 2, {3, 1}, 0},
      {2, {5, 4}, 2, {0, 2}, 0},
      {2, {0, 4}, 2, {0, 1}, 1},
      {5, {2, 1, 3, 2, 4}, 3, {3, 2, 3}, 0},
      {6, {2, 1, 3, 2, 2, 3}, 4, {2, 1, 5, 2}, 2},
      {3, {3, 40, 33}, 2, {200, 2}, 0},
  };
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned k = 0; k < 4; k++) {
      op_case c = slice_case(op, types, &list[i], 4 * i + k);
      c.typical = i == 0 && k == 0;
      if (k == 1) c.variants |= VARIANT_PREPARED;
      if (k == 2 && c.arg[0].rank) c.arg[0].expanded = 1;
      if (k == 3 && c.arg[1].rank > 1) c.arg[1].expanded = 1;
      if (c.arg[0].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
}

/* The data's rank and sizes, the batch axes, leading axes of the index, and its own axes. */
static bool degenerate_slices(op_case *c, const int64_t *size, unsigned round) {
  slices s = {.batch = (int32_t)size[4], .index_rank = (int32_t)(size[4] + size[5]) + 1};
  if (!combination_shape(size, 3, &s.data_rank, s.data)) return false;
  if (size[4] + size[6] > s.data_rank) return false;
  for (int32_t d = 0; d < s.index_rank - 1; d++)
    s.index[d] = d < s.batch ? s.data[d] : 1 + (int64_t)combination_choice(round, 1, 2);
  s.index[s.index_rank - 1] = size[6];
  *c = slice_case(c->op, c->types, &s, combination_choice(round, 0, 60));
  return true;
}

void degenerate_gather_nd(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"123", "12", "12", "12", "01", "012", "123"};
  combine(op, types, &(combination){7, sizes, degenerate_slices}, sink);
}

void sizes_gather_nd(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t rows = large >= 1 << 26 ? 65536 : 4096;
  const slices list[] = {{3, {64, rows / 64, 768}, 2, {rows, 2}, 0},
                         {2, {1024, rows}, 2, {large >= 1 << 26 ? 1 << 22 : 1 << 18, 2}, 0}};
  for (unsigned i = 0; i < 2; i++) {
    op_case c = slice_case(op, types, &list[i], 0);
    sink.take(sink.ctx, &c);
  }
}

/* --- masked_select --- */

static op_case masked(const tn_operator *op, const tn_dtype *types, int32_t rank,
                      const int64_t *shape, unsigned round) {
  static const value_kind kinds[] = {VALUES_PLAIN, VALUES_SPECIAL, VALUES_BITS, VALUES_TIES};
  op_case c = case_begin(op, types);
  case_shape(&c, 0, rank, shape);
  case_shape(&c, 1, rank, shape);
  c.values = kinds[round % 4];
  c.seed += round;
  return c;
}

void cases_masked_select(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const struct {
    int32_t rank;
    int64_t shape[5];
  } list[] = {{1, {8}},       {0, {0}},       {1, {1}},          {1, {0}},
              {1, {1000}},    {1, {70001}},   {2, {3, 5}},       {2, {33, 65}},
              {3, {5, 1, 7}}, {3, {0, 2, 3}}, {4, {2, 3, 4, 5}}, {5, {2, 1, 3, 2, 2}}};
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned k = 0; k < 4; k++) {
      op_case c = masked(op, types, list[i].rank, list[i].shape, 4 * i + k);
      c.typical = i == 0 && k == 0;
      if (k == 2 && list[i].rank) c.arg[1].expanded = 1; /* whole rows, or none */
      if (k == 3 && list[i].rank > 1) c.arg[0].expanded = 2;
      if (list[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate_mask(op_case *c, const int64_t *size, unsigned round) {
  int32_t rank;
  int64_t shape[3];
  if (!combination_shape(size, 3, &rank, shape)) return false;
  *c = masked(c->op, c->types, rank, shape, round);
  return true;
}

void degenerate_masked_select(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"0123", "12", "12", "12"};
  combine(op, types, &(combination){4, sizes, degenerate_mask}, sink);
}

void sizes_masked_select(const tn_operator *op, const tn_dtype *types, int64_t large,
                         case_sink sink) {
  op_case c = masked(op, types, 1, &large, 0);
  sink.take(sink.ctx, &c);
}
