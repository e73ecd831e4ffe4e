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

/* Nothing is known of the shapes that a plugin's own rule takes. */
void cases_custom(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  (void)op, (void)types, (void)sink;
}

void sizes_custom(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  (void)op, (void)types, (void)large, (void)sink;
}
