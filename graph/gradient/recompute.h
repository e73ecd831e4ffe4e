/* The tensors that gradient rules read, of a graph: as they are there, or computed again. */
#ifndef TENON_GRAPH_GRADIENT_RECOMPUTE_H
#define TENON_GRAPH_GRADIENT_RECOMPUTE_H

#include "graph/gradient/walk.h"
#include "graph/objects.h"

/* What one walk has computed again. */
typedef struct recomputed {
  tn_graph *graph;
  tn_tensor **of_buffer; /* what stands for it; NULL: nothing yet */
  uint32_t num_buffers;  /* when the first was asked for */
} recomputed;

/* For gradient_walk.tensor; its context is a recomputed, all but the graph 0. */
tn_status recompute_tensor(gradient_walk *w, uint32_t value, tn_tensor **tensor);
void recompute_free(recomputed *again);

#endif
