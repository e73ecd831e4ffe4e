/*
 * Shape rules: what the outputs of a call look like, or why the call makes no sense.
 * Pure functions of shapes and attributes; all arithmetic is checked.
 */
#ifndef TENON_DISPATCHER_SHAPE_H
#define TENON_DISPATCHER_SHAPE_H

#include "dispatcher/base/error.h"
#include "tenon/plugin.h"

typedef struct extents {
  int32_t rank;
  int64_t dim[TN_MAX_RANK];
} extents;

/* One call as shape rules see it. Inputs that are absent are NULL. */
typedef struct shape_query {
  const tn_operator *op;
  const tn_host *host;
  const DLTensor *const *in; /* inputs */
  uint32_t num_in;
  const DLTensor *const *inout; /* in-out tensors, given */
  uint32_t num_inout;
  const void *attrs; /* complete */
  uint32_t length;   /* of the lists among the arguments, which stand in `in` and `inout` one
                        tensor after the other; 0 where there are none */
} shape_query;

/* Fills out[0..num_out-1]. Errors: TN_ERR_INVALID_ARGUMENT with a message that begins
 * with the operator's name. */
tn_status shape_infer(const shape_query *query, extents *out, uint32_t num_out);

/* Where a rule reads axes, which programs may count from the end: an int64_t or a tn_axes at
 * `offset` of the attributes, axes of the first input or of the first output (the first in-out
 * tensor, where there is one). Rules without axes are all zero: no attribute stands at 0. */
typedef struct shape_axes {
  uint16_t offset;
  bool listed, of_output;
} shape_axes;
extern const shape_axes axes_of_rules[TN_SHAPE_RULES];

/* Number of elements; false if its size in bytes overflows int64_t, or the sizes beside a 0 come
 * to more than 2^62 bytes. */
bool shape_elements(int32_t rank, const int64_t *dim, size_t element_bytes, int64_t *elements);

/* "[2, 3]", cut to `size` bytes. Returns text. */
const char *shape_text(char *text, size_t size, int32_t rank, const int64_t *dim);

#endif
