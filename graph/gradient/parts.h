/* What rules of several families are made of, beside graph/gradient/rule.h. */
#ifndef TENON_GRAPH_GRADIENT_PARTS_H
#define TENON_GRAPH_GRADIENT_PARTS_H

#include "graph/gradient/rule.h"

/* x, or x in another type. NULL stays so. */
const tn_tensor *rule_cast(rule *r, const tn_tensor *x, tn_dtype dtype);
/* x summed over the axes, which stay with size 1; over none: x. */
const tn_tensor *rule_sum_keepdims(rule *r, const tn_tensor *x, const tn_axes *axes);
const tn_tensor *rule_mean_keepdims(rule *r, const tn_tensor *x, const tn_axes *axes);
/* x [n, c, ...] summed over all axes but 1: [c]. */
const tn_tensor *rule_sum_channels(rule *r, const tn_tensor *x);
/* x times a number. */
const tn_tensor *rule_scale(rule *r, const tn_tensor *x, double factor);
/* a + b, in which NULL is 0; NULL after a failure. */
const tn_tensor *rule_plus(rule *r, const tn_tensor *a, const tn_tensor *b);
tn_axes rule_axes(int32_t first, int32_t end);

#endif
