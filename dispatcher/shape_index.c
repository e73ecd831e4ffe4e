/* Shape rules of gathering and scattering by index. */
#include "dispatcher/shape_rules.h"

tn_status shape_rule_nonzero(const shape_query *q, extents *out, uint32_t num_out) {
  const DLTensor *x = q->in[0];
  int64_t elements;
  (void)num_out;
  if (!shape_elements(x->ndim, x->shape, 1, &elements))
    return shape_refuse(q, "x has too many elements", x, NULL);
  out[0] = (extents){.rank = 2, .dim = {elements, x->ndim}};
  out[1].rank = 0;
  return TN_OK;
}
