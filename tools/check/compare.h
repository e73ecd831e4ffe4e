/* Judging one output against the reference. */
#ifndef TENON_TESTS_COMPARE_H
#define TENON_TESTS_COMPARE_H

#include "cases/op_case.h"

/* One output as read back: row-major elements of one type. */
typedef struct output {
  tn_dtype dtype;
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
  int64_t elements;
  void *data;
} output;

/* How far an output is from the reference, and how far the operator's row lets it be. */
typedef struct judgement {
  double error, bound; /* in ULP, or as relative norm where the operator accumulates */
  char why[400];       /* where they differ first, if the bound does not hold */
} judgement;

/* Whether `got` is as close to `want` as the operator's row promises; `want` may have a
 * wider float type. */
bool compare_outputs(const op_case *c, const output *got, const output *want, judgement *j);

/* Whether the reference must compute in the case's own types: its result depends on
 * them (random numbers, conversions). Otherwise it is asked in float64. */
bool compare_in_own_types(const tn_operator *op);

#endif
