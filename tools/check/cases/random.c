/* Cases of random operators: fillings of a tensor, and draws by weights. */
#include <math.h>

#include "combine.h"
#include "number.h"
#include "op_case.h"

/* Bounds of randint from all of the type to a single value. */
static void integer_bounds(op_case *c, unsigned round) {
  double least = (double)number_min_int(c->types[0]), most = (double)number_max_int(c->types[0]);
  bool wide = c->types[0] == TN_I64; /* whose greatest is no double */
  const double low[] = {0, least, least, -1, 3}, high[] = {10, least + 0x1p12, most, 1, 100};
  unsigned pick = round % 5;
  case_set(c, "low", 0, least < 0 || pick != 3 ? low[pick] : 0);
  case_set(c, "high", 0, wide && pick == 2 ? 0x1p62 : high[pick] > most ? 5 : high[pick]);
}

static void bounds(op_case *c, unsigned round) {
  static const double low[] = {-2, -0.5, 1, -3, 4, -INFINITY, 50},
                      high[] = {2, 0.25, 1.5, -2.5, 5, 0, 51},
                      probability[] = {0.5, 0, 1, 0.25, 1e-9, 0.999};
  c->seed += round;
  case_set(c, "p", 0, probability[round % 6]);
  case_set(c, "mean", 0, round % 2 ? 1 : 0);
  case_set(c, "std", 0, round % 3 ? 1 : 0.25);
  case_set(c, "seed", 0, (double)((uint64_t)round * 0x123456789u));
  case_set(c, "offset", 0, round % 3 == 2 ? 4294967295.0 : round % 3 * 7.0);
  if (c->op->id == TN_OP_RANDINT) {
    integer_bounds(c, round);
  } else {
    case_set(c, "low", 0, low[round % 7]);
    case_set(c, "high", 0, high[round % 7]);
  }
}

static void fill(const tn_operator *op, const tn_dtype *types, int32_t rank, const int64_t *shape,
                 unsigned round, case_sink sink) {
  op_case c = case_begin(op, types);
  case_shape(&c, 0, rank, shape);
  bounds(&c, round);
  c.typical = rank == 1 && shape[0] == 8;
  if (rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
  if (round % 4 == 0) c.variants |= VARIANT_PREPARED;
  sink.take(sink.ctx, &c);
}

void cases_random(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const int64_t lengths[] = {0,  1,  2,  3,   4,   5,   7,    8,    15,  16,   17,
                                    31, 33, 64, 127, 129, 255, 1000, 2049, 300, 70001};
  static const int64_t shapes[][4] = {{3, 5}, {2, 3, 4}, {2, 3, 4, 5}, {2, 0, 3}};
  static const int32_t ranks[] = {2, 3, 4, 3};
  for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
    fill(op, types, 1, &lengths[i], i == 7 ? 0 : i, sink);
  for (unsigned i = 0; i < 4 && op->id != TN_OP_RANDPERM; i++)
    fill(op, types, ranks[i], shapes[i], i, sink);
  if (op->id != TN_OP_RANDPERM) fill(op, types, 0, NULL, 1, sink);
}

static bool degenerate_filling(op_case *c, const int64_t *size, unsigned round) {
  int32_t rank;
  int64_t shape[3];
  if (!combination_shape(size, 3, &rank, shape)) return false;
  if (c->op->id == TN_OP_RANDPERM && rank != 1) return false;
  case_shape(c, 0, rank, shape);
  bounds(c, round);
  return true;
}

void degenerate_random(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"0123", "12", "12", "12"};
  combine(op, types, &(combination){4, sizes, degenerate_filling}, sink);
}

void sizes_random(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t list[] = {1000, 100000, large};
  for (unsigned i = 0; i < 3; i++) {
    op_case c = case_begin(op, types);
    case_shape(&c, 0, 1, &list[i]);
    sink.take(sink.ctx, &c);
  }
}

static op_case weigh(const tn_operator *op, const tn_dtype *types, int32_t rank,
                     const int64_t *shape, int64_t samples, unsigned round) {
  static const value_kind kinds[] = {VALUES_PLAIN, VALUES_SPARSE, VALUES_SPECIAL, VALUES_TIES,
                                     VALUES_WIDE};
  op_case c = case_begin(op, types);
  case_shape(&c, 0, rank, shape);
  case_set(&c, "samples", 0, (double)samples);
  case_set(&c, "replacement", 0, round & 1);
  case_set(&c, "seed", 0, round);
  case_set(&c, "offset", 0, round % 3 == 2 ? 4294967295.0 : round % 3);
  c.values = kinds[round / 2 % 5];
  c.seed += round;
  return c;
}

void cases_multinomial(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const struct {
    int32_t rank;
    int64_t shape[3], samples;
  } list[] = {{2, {2, 5}, 3},   {1, {1}, 1},    {1, {7}, 0},     {1, {7}, 7},
              {2, {3, 33}, 33}, {2, {0, 4}, 2}, {2, {3, 0}, 0},  {3, {2, 2, 9}, 4},
              {1, {1000}, 100}, {1, {5000}, 3}, {2, {65, 10}, 1}};
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned round = 0; round < 10; round++) {
      op_case c = weigh(op, types, list[i].rank, list[i].shape, list[i].samples, round);
      c.typical = i == 0 && round == 0;
      if (round == 3) c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
  op_case c = weigh(op, types, 1, (int64_t[]){4}, 900, 1);
  sink.take(sink.ctx, &c);
}

static bool degenerate_weights(op_case *c, const int64_t *size, unsigned round) {
  const int64_t shape[] = {size[0] ? size[0] : size[1], size[1]};
  *c = weigh(c->op, c->types, size[0] ? 2 : 1, shape, size[2], round);
  return true;
}

/* Rows or none, weights, samples. */
void degenerate_multinomial(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"012", "12", "120"};
  combine(op, types, &(combination){3, sizes, degenerate_weights}, sink);
}

void sizes_multinomial(const tn_operator *op, const tn_dtype *types, int64_t large,
                       case_sink sink) {
  const int64_t shape[] = {large >= 1 << 26 ? 64 : 4, 32000};
  for (unsigned replacement = 0; replacement < 2; replacement++) {
    op_case c = weigh(op, types, 2, shape, 1, replacement);
    sink.take(sink.ctx, &c);
  }
}
