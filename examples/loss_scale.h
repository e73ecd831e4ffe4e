/*
 * Dynamic loss scaling, for steps in float16: the loss is multiplied by a scale, so that small
 * gradients do not vanish, and the gradients are divided by it. Where one has become infinite the
 * step is skipped and the scale goes down; after many steps without it goes up. The device decides
 * all of it, and nothing here waits for it. Micikevicius et al. 2018, arXiv 1710.03740.
 *
 * The functions take the example's own tensors, or those that stand for them in a graph.
 */
#ifndef EXAMPLES_LOSS_SCALE_H
#define EXAMPLES_LOSS_SCALE_H

#include "tenon/graph.h"

/* NULL, both: there is no scaling. */
typedef struct loss_scale {
  tn_tensor *scale; /* f32 */
  tn_tensor *good;  /* i64: steps since it has changed */
} loss_scale;

tn_status loss_scale_create(tn_device *device, loss_scale *l);
void loss_scale_drop(loss_scale *l);
/* What stands for it in the graph, if there is any scaling. */
tn_status loss_scale_parameters(tn_graph *graph, const loss_scale *own, loss_scale *l);

/* The loss of which the gradients are to be taken; with no scaling it is the loss. */
tn_status loss_scale_apply(const loss_scale *l, tn_tensor *loss, tn_tensor **scaled);
/* What is done with gradients before all else: they are divided, and the scale adapted. count, i64,
 * goes up by 1 unless the step is skipped. *skip: a bool scalar for an optimiser's skip_if, to be
 * released; NULL with no scaling. */
tn_status loss_scale_step(const loss_scale *l, tn_tensor **gradients, size_t n, tn_tensor *count,
                          tn_tensor **skip);

#endif
