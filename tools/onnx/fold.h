/* What the passes over a plan share: which node makes a slot, and which are constants. */
#ifndef TENON_TOOLS_ONNX_FOLD_H
#define TENON_TOOLS_ONNX_FOLD_H

#include "lib.h"

enum { NO_NODE = -1 };

typedef struct folding {
  tn_onnx *m;
  plan_graph *g;
  Onnx__Node *const *nodes; /* the file's */
  int64_t *maker;           /* of each slot: a node of the graph, NO_NODE if none */
  onnx_weight **weight;     /* of each slot, NULL if it is none */
} folding;

/* Whether a node is of one of ONNX's own operators, and not done away with. */
bool fold_is_op(const plan_node *n, const char *op);
/* Small constant floats that a node reads, whose numbers stay the weight's; by Reshape too. */
bool fold_constant(const folding *f, const plan_node *n, size_t in, onnx_tensor *t);
/* The node of one output that alone reads a slot, NULL if there is none. */
plan_node *fold_reader(const folding *f, uint32_t slot);

/* x clip(x + 3, 0, 6) / 6, written as four nodes, becomes HardSwish. false: no memory. */
bool fold_hardswish(const folding *f, int64_t at);

#endif
