/* Cases on either side of what kernels refuse: sizes at which others take a call. */
#ifndef TENON_CHECK_THRESHOLDS_H
#define TENON_CHECK_THRESHOLDS_H

#include "cases/op_case.h"
#include "tenon/tenon.h"

typedef struct threshold_search {
  tn_device *device;
  void *ctx;
  /* Before a case is grown and shrunk; false: leave it. */
  bool (*begin)(void *ctx, const op_case *c);
  /* Both sides of a threshold that was found. */
  void (*found)(void *ctx, const op_case *below, const op_case *above);
  uint32_t ranks; /* kernels that are watched; the search's own */
} threshold_search;

/* Searches from the operator's own cases for one choice of element types. Calls are prepared,
 * never run. What it asks and finds depends on the cases and on the kernels alone. */
void thresholds_search(const tn_operator *op, const tn_dtype *types, threshold_search *s);

#endif
