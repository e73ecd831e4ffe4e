/* What the rules of norms and those of their gradients share. */
#ifndef TENON_GRAPH_GRADIENT_NORM_H
#define TENON_GRAPH_GRADIENT_NORM_H

#include "graph/gradient/parts.h"

/* x seen as [a, b, c, d], weights as [1, b, c, 1], statistics as [a, b, 1, 1], those of batch_norm
 * as [1, b, 1, 1]. */
typedef struct norm_view {
  int64_t x[4];
  tn_axes set;   /* the axes that are normalised over */
  tn_axes rows;  /* those that share weights */
  double count;  /* elements of the set */
  tn_dtype wide; /* of statistics */
} norm_view;

/* Of a call of a norm or of its gradient. */
norm_view norm_view_of(const rule *r);
/* x, weights and statistics in that view, of type `wide`; NULL stays so. */
const tn_tensor *norm_whole(rule *r, const norm_view *v, const tn_tensor *x);
const tn_tensor *norm_weights(rule *r, const norm_view *v, const tn_tensor *gamma);
const tn_tensor *norm_statistics(rule *r, const norm_view *v, const tn_tensor *mean);

/* The fused gradient of a norm, to which `r` belongs or of which it is the gradient: dx. dgamma,
 * dbeta: NULL where unwanted. */
const tn_tensor *norm_fused(rule *r, const tn_tensor *dy, const tn_tensor *x, const tn_tensor *mean,
                            const tn_tensor *rstd, const tn_tensor *gamma, const tn_tensor **dgamma,
                            const tn_tensor **dbeta);

#endif
