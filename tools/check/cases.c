/* Which family of cases serves which shape rule: shapes.def says. */
#include "op_case.h"

typedef struct family {
  void (*cases)(const tn_operator *op, const tn_dtype *types, case_sink sink);
  void (*sizes)(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink);
} family;

static const family families[TN_SHAPE_RULES] = {
#define SHAPE(number, name, NAME, family, ...) [TN_SHAPE_##NAME] = {cases_##family, sizes_##family},
#include "shapes.def"
};

void cases_emit(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  if (op->shape < TN_SHAPE_RULES) families[op->shape].cases(op, types, sink);
}

void sizes_emit(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  if (op->shape < TN_SHAPE_RULES) families[op->shape].sizes(op, types, large, sink);
}

/* Shapes to try where a plugin's own rule says what it takes: what it declines is no case. */
typedef struct attempt {
  int32_t rank;
  int64_t shape[4];
} attempt;

static const attempt attempts[] = {
    {0, {0}},    {1, {0}},       {1, {1}},       {1, {7}},          {1, {8}},
    {1, {33}},   {1, {1000}},    {2, {3, 5}},    {2, {4, 4}},       {2, {33, 65}},
    {2, {0, 3}}, {3, {2, 3, 4}}, {3, {5, 1, 7}}, {4, {2, 3, 4, 5}}, {1, {65539}},
};

static void attempt_custom(const tn_operator *op, const tn_dtype *types, const attempt *a,
                           value_kind values, case_sink sink) {
  op_case c = case_begin(op, types);
  for (uint32_t i = 0; i < op->num_args; i++) case_shape(&c, i, a->rank, a->shape);
  c.values = values;
  c.seed += (uint64_t)(a - attempts) * 8 + values;
  c.variants |= VARIANTS_IN_PLACE | VARIANT_PREPARED;
  c.typical = a->rank == 2 && a->shape[0] == 4 && values == VALUES_PLAIN;
  sink.take(sink.ctx, &c);
}

void cases_custom(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const value_kind kinds[] = {VALUES_PLAIN, VALUES_SPARSE, VALUES_TIES};
  for (unsigned k = 0; k < 3; k++)
    for (unsigned i = 0; i < sizeof attempts / sizeof *attempts; i++)
      attempt_custom(op, types, &attempts[i], kinds[k], sink);
}

void sizes_custom(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  const attempt whole = {1, {large}};
  op_case c = case_begin(op, types);
  for (uint32_t i = 0; i < op->num_args; i++) case_shape(&c, i, 1, whole.shape);
  sink.take(sink.ctx, &c);
}
