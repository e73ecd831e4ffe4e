/*
 * Degenerate shapes: every combination of the least sizes of an operator's axes. Where an extent
 * is 1 its stride means nothing, matrices become vectors and sums have one term; code that asks
 * one of two axes, or takes a short way, is wrong there and nowhere else.
 */
#ifndef TENON_TESTS_COMBINE_H
#define TENON_TESTS_COMBINE_H

#include "op_case.h"

enum { COMBINED_AXES = 12 };

typedef struct combination {
  uint32_t axes;
  const char *const *sizes; /* of each axis those that it takes, one digit each: "12" */
  /* Gives the case the sizes. False where the shape rule takes none such, or an equal case came
   * before. `round` numbers the combinations: what is not combined is chosen by it. */
  bool (*make)(op_case *c, const int64_t *size, unsigned round);
  /* Keeps the numbers that `make` chose. Else what an operator sums are small whole numbers: their
   * sums are exact, where two random ones that nearly cancel would have no digits to compare. */
  bool own_values;
} combination;

/* Makes the case of every combination, each in one variant, in turn. */
void combine(const tn_operator *op, const tn_dtype *types, const combination *m, case_sink sink);

/* One of `count` for this round: none of the axes' sizes goes with the same choice always. */
unsigned combination_choice(unsigned round, unsigned which, unsigned count);

/* Where the sizes begin with a rank: the tensor's shape. False where axes behind the rank are not
 * 1, so that each shape comes once. */
bool combination_shape(const int64_t *size, int32_t most, int32_t *rank, int64_t *shape);

#endif
