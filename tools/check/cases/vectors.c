/* Cases of scalar and outer products: lengths around vectors, batches that broadcast. */
#include "combine.h"
#include "op_case.h"

typedef struct batches {
  int32_t rank[2];
  int64_t shape[2][4];
} batches;

static const batches lists[] = {
    {{0, 0}, {{0}}},
    {{1, 1}, {{3}, {3}}},
    {{1, 0}, {{4}}},
    {{0, 1}, {{0}, {5}}},
    {{2, 2}, {{2, 1}, {1, 3}}},
    {{1, 1}, {{0}, {1}}},
    {{3, 2}, {{2, 3, 2}, {3, 1}}},
    {{4, 1}, {{2, 1, 2, 3}, {3}}},
    {{1, 1}, {{65}, {65}}},
};

static void vector(op_case *c, uint32_t arg, const batches *b, int64_t length) {
  int64_t shape[TN_MAX_RANK];
  int32_t rank = b->rank[arg];
  for (int32_t i = 0; i < rank; i++) shape[i] = b->shape[arg][i];
  shape[rank] = length;
  case_shape(c, arg, rank + 1, shape);
}

static op_case vectors(const tn_operator *op, const tn_dtype *types, const batches *b, int64_t m,
                       int64_t n, unsigned round) {
  static const value_kind floats[] = {VALUES_PLAIN, VALUES_SPARSE, VALUES_RANGE},
                          integers[] = {VALUES_PLAIN, VALUES_SPECIAL, VALUES_BITS};
  op_case c = case_begin(op, types);
  vector(&c, 0, b, m);
  vector(&c, 1, b, op->shape == TN_SHAPE_DOT ? m : n);
  c.values = TN_SET(types[0]) & TN_SET_FLOAT ? floats[round % 3] : integers[round % 3];
  c.seed += round;
  return c;
}

void cases_vectors(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const int64_t lengths[][2] = {{5, 3},   {1, 1},   {0, 4},   {4, 0},    {2, 17},
                                       {16, 16}, {33, 65}, {129, 1}, {1000, 2}, {4097, 3}};
  unsigned round = 0;
  for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
    for (unsigned k = 0; k < sizeof lengths / sizeof *lengths; k++, round++) {
      bool wide = lengths[k][0] > 1000 || (i == 8 && lengths[k][0] > 100);
      if (wide && i > 1) continue;
      op_case c = vectors(op, types, &lists[i], lengths[k][0], lengths[k][1], round);
      c.typical = i == 1 && k == 0;
      if (c.typical) c.values = VALUES_PLAIN;
      if (k == 5) c.arg[0].expanded = 1;
      if (k == 4) c.variants |= VARIANT_PREPARED;
      if (c.arg[0].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate(op_case *c, const int64_t *size, unsigned round) {
  const batches b = {{size[0] > 0, size[1] > 0}, {{size[0]}, {size[1]}}};
  if (c->op->shape == TN_SHAPE_DOT && size[3] != 1) return false;
  *c = vectors(c->op, c->types, &b, size[2], size[3], round);
  return true;
}

/* A batch axis of either side or none, and the vectors' lengths. */
void degenerate_vectors(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const sizes[] = {"012", "012", "120", "120"};
  combine(op, types, &(combination){4, sizes, degenerate}, sink);
}

void sizes_vectors(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const int64_t shapes[][2] = {{1, 1000}, {1000, 64}, {large / 4096, 4096}};
  for (unsigned i = 0; i < 3; i++) {
    op_case c = case_begin(op, types);
    bool outer = op->shape == TN_SHAPE_OUTER;
    const int64_t side = i == 0 ? 30 : i == 1 ? 300 : large >= 1 << 26 ? 8192 : 1024;
    for (uint32_t a = 0; a < 2; a++)
      outer ? case_shape(&c, a, 1, &side) : case_shape(&c, a, 2, shapes[i]);
    sink.take(sink.ctx, &c);
  }
}
