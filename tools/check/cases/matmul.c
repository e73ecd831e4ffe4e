/* Cases of matrix products: sizes around tiles, both sides transposed, bias, batches. */
#include "combine.h"
#include "op_case.h"

typedef struct product {
  int64_t m, n, k;
} product;

static const product sizes[] = {{1, 1, 1},     {2, 3, 4},     {1, 17, 5},   {17, 1, 5},
                                {3, 5, 1},     {0, 3, 4},     {3, 0, 4},    {3, 4, 0},
                                {7, 9, 13},    {16, 16, 16},  {33, 31, 65}, {64, 64, 64},
                                {5, 129, 300}, {1, 128, 257}, {65, 7, 8}};

/* Kernels of one row, or few, begin at matrices larger than those that grow from the sizes above.
 */
static const product single_rows[] = {{1, 2056, 264}, {1, 521, 1032}};
/* Kernels by tiles take several of them, of few rows, of few columns and others, and share long
 * sums. */
static const product tiles[] = {
    {16, 264, 136}, {9, 72, 1032}, {264, 16, 200}, {40, 136, 264}, {24, 40, 4104}};
static const product few_rows[] = {{24, 256, 96}, {17, 132, 136}};

typedef struct batch {
  int32_t rank[2];
  int64_t shape[2][4];
} batch;

static const batch batches[] = {
    {{1, 0}, {{3}}},
    {{0, 1}, {{0}, {4}}},
    {{1, 1}, {{3}, {3}}},
    {{1, 1}, {{1}, {3}}},
    {{2, 2}, {{2, 1}, {1, 3}}},
    {{2, 1}, {{2, 3}, {1}}},
    {{1, 1}, {{0}, {1}}},
    {{4, 2}, {{2, 1, 2, 1}, {2, 3}}},
};

static void operand(op_case *c, uint32_t arg, int32_t batch_rank, const int64_t *batch_shape,
                    int64_t rows, int64_t columns, bool transposed) {
  int64_t shape[TN_MAX_RANK];
  for (int32_t i = 0; i < batch_rank; i++) shape[i] = batch_shape[i];
  shape[batch_rank] = transposed ? columns : rows;
  shape[batch_rank + 1] = transposed ? rows : columns;
  case_shape(c, arg, batch_rank + 2, shape);
}

static op_case multiply(const tn_operator *op, const tn_dtype *types, product p, const batch *b,
                        unsigned round) {
  op_case c = case_begin(op, types);
  bool ta = round & 1, tb = round >> 1 & 1;
  operand(&c, 0, b->rank[0], b->shape[0], p.m, p.k, ta);
  operand(&c, 1, b->rank[1], b->shape[1], p.k, p.n, tb);
  case_shape(&c, 2, 1, &p.n);
  c.arg[2].absent = round & 4;
  c.seed += round;
  c.values = round % 7 == 6 ? VALUES_SPARSE : VALUES_PLAIN;
  case_set(&c, "trans_a", 0, ta);
  case_set(&c, "trans_b", 0, tb);
  case_set(&c, "activation", 0, round / 8 % 4);
  return c;
}

void cases_matmul(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const batch none = {{0, 0}, {{0}}};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (unsigned round = 0; round < (i < 12 ? 8 : 32); round++) {
      op_case c = multiply(op, types, sizes[i], &none, round);
      c.typical = i == 1 && round == 0;
      if (round == 1) c.arg[0].expanded = 1;
      if (i == 8) c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
  for (unsigned i = 0; i < sizeof batches / sizeof *batches; i++)
    for (unsigned round = 0; round < 32; round += round < 8 ? 1 : 5) {
      op_case c = multiply(op, types, (product){3, 5, 4}, &batches[i], round);
      if (c.arg[0].rank == 4 || c.arg[1].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
  for (unsigned round = 0; round < 32; round += 3) {
    op_case c = multiply(op, types, (product){129, 140, 271}, &none, round);
    c.variants = VARIANT_MADE | VARIANT_PERMUTED;
    sink.take(sink.ctx, &c);
  }
  for (unsigned i = 0; i < sizeof single_rows / sizeof *single_rows; i++)
    for (unsigned round = 0; round < 16; round++) {
      op_case c = multiply(op, types, single_rows[i], &none, round);
      sink.take(sink.ctx, &c);
    }
  for (unsigned i = 0; i < sizeof tiles / sizeof *tiles; i++)
    for (unsigned round = 0; round < 16; round++) {
      op_case c = multiply(op, types, tiles[i], &none, round);
      if (round == 3) c.variants |= VARIANT_PERMUTED;
      sink.take(sink.ctx, &c);
    }
}

/* Batch axes: as many as the number says has, of one element, of two. */
enum { BATCH_A, BATCH_B, M, N, K, TRANS_A, TRANS_B, PRODUCT_AXES };

static batch small_batch(const int64_t *size) {
  return (batch){{size[BATCH_A] > 0, size[BATCH_B] > 0}, {{size[BATCH_A]}, {size[BATCH_B]}}};
}

static bool degenerate_product(op_case *c, const int64_t *size, unsigned round) {
  const batch b = small_batch(size);
  const unsigned trans = (unsigned)size[TRANS_A] | (unsigned)size[TRANS_B] << 1;
  const unsigned bias_and_activation = combination_choice(round, 0, 8) << 2;
  *c = multiply(c->op, c->types, (product){size[M], size[N], size[K]}, &b,
                trans | bias_and_activation);
  return true;
}

void degenerate_matmul(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const taken[PRODUCT_AXES] = {"012", "012", "12", "12", "120", "01", "01"};
  combine(op, types, &(combination){PRODUCT_AXES, taken, degenerate_product}, sink);
}

void sizes_matmul(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  static const int64_t sides[] = {128, 512, 1024, 4096, 8192};
  for (unsigned i = 0; i < (large >= 1 << 26 ? 5 : 3); i++) {
    int64_t n = sides[i];
    op_case c = case_begin(op, types);
    c.arg[2].absent = true; /* bias; or both zero points */
    if (op->shape == TN_SHAPE_MATMUL_INTEGER) c.arg[3].absent = true;
    case_shape(&c, 0, 2, (int64_t[]){n, n});
    case_shape(&c, 1, 2, (int64_t[]){n, n});
    c.flops = 2.0 * (double)n * (double)n * (double)n;
    sink.take(sink.ctx, &c);
  }
}

/* Matrices of bytes: every round another zero point, missing or of rank 0 or 1. */
static op_case multiply_integers(const tn_operator *op, const tn_dtype *types, product p,
                                 const batch *b, unsigned round) {
  static const value_kind kinds[] = {VALUES_PLAIN, VALUES_BITS, VALUES_SPECIAL};
  static const int64_t one[] = {1};
  op_case c = case_begin(op, types);
  operand(&c, 0, b->rank[0], b->shape[0], p.m, p.k, false);
  operand(&c, 1, b->rank[1], b->shape[1], p.k, p.n, false);
  for (uint32_t zero = 2; zero < 4; zero++) {
    case_shape(&c, zero, round >> (zero + 1) & 1, one);
    c.arg[zero].absent = round >> (zero - 2) & 1;
  }
  c.values = kinds[round % 3];
  c.seed += round;
  return c;
}

void cases_matmul_integer(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const batch none = {{0, 0}, {{0}}};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (unsigned round = 0; round < 12; round++) {
      op_case c = multiply_integers(op, types, sizes[i], &none, round);
      c.typical = i == 1 && round == 0;
      if (round == 1) c.arg[0].expanded = 1;
      if (i == 8) c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
  for (unsigned i = 0; i < sizeof batches / sizeof *batches; i++)
    for (unsigned round = 0; round < 12; round++) {
      op_case c = multiply_integers(op, types, (product){3, 5, 4}, &batches[i], round);
      if (c.arg[0].rank == 4 || c.arg[1].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      sink.take(sink.ctx, &c);
    }
  for (unsigned round = 0; round < 12; round += 3) {
    op_case c = multiply_integers(op, types, (product){129, 140, 271}, &none, round + round / 3);
    c.variants = VARIANT_MADE | VARIANT_PERMUTED;
    sink.take(sink.ctx, &c);
  }
  for (unsigned i = 0; i < sizeof few_rows / sizeof *few_rows; i++)
    for (unsigned round = 0; round < 12; round++) {
      op_case c = multiply_integers(op, types, few_rows[i], &none, round);
      sink.take(sink.ctx, &c);
    }
}

static bool degenerate_integers(op_case *c, const int64_t *size, unsigned round) {
  const batch b = small_batch(size);
  *c = multiply_integers(c->op, c->types, (product){size[M], size[N], size[K]}, &b,
                         combination_choice(round, 0, 48));
  return true;
}

void degenerate_matmul_integer(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const char *const taken[] = {"012", "012", "12", "12", "120"};
  combine(op, types, &(combination){TRANS_A, taken, degenerate_integers}, sink);
}

void sizes_matmul_integer(const tn_operator *op, const tn_dtype *types, int64_t large,
                          case_sink sink) {
  sizes_matmul(op, types, large, sink);
}
