/*
 * Differentiation of a record, backward: nodes in reverse order, each by its operator's rule, from
 * the gradient by what it wrote to that by what it read. A gradient belongs to a buffer at the
 * version that the walk has reached; a value's is the same view of it.
 */
#ifndef TENON_GRAPH_GRADIENT_WALK_H
#define TENON_GRAPH_GRADIENT_WALK_H

#include <string.h>

#include "graph/gradient/rule.h"
#include "graph/record.h"

/* The gradient by a buffer, as far as it has come together. */
typedef struct buffer_gradient {
  tn_tensor *whole;    /* by the view `layout` alone, all else being 0; NULL: none, or `flat` */
  record_value layout; /* without axes of stride 0 */
  tn_tensor *flat;     /* by all elements, of rank 1 */
  bool shared;         /* others hold `flat` or `whole`: not to be written to */
} buffer_gradient;

typedef struct gradient_walk gradient_walk;
struct gradient_walk {
  record *record; /* may grow while rules run */
  tn_runtime *runtime;
  tn_device *device;
  tn_stream *stream;
  /* The tensor of a value that a rule needs; a new reference. */
  tn_status (*tensor)(gradient_walk *w, uint32_t value, tn_tensor **tensor);
  /* Optional outputs of a node that its rule reads are wanted, bit i: out[i]. NULL: those that were
   * left out stay so. */
  tn_status (*complete)(gradient_walk *w, uint32_t node, uint32_t wanted);
  /* The node was dealt with, or needs not be: what was kept for it may go. NULL: nobody cares. */
  void (*done)(gradient_walk *w, uint32_t node);
  void *context;
  /* Its own: */
  uint32_t num_buffers; /* when it began */
  uint32_t *since;      /* by buffer: from which node on it depends on what is asked for */
  uint64_t *extent;     /* by buffer: bytes of it that values show */
  buffer_gradient *gradients;
};

/* gradients[i]: of the scalar value `loss` by the value wrt[i], new references; NULL where the loss
 * does not depend on it. seed: the gradient by the loss itself, of its shape; NULL is 1. On failure
 * none is left. w: all but its own filled in. */
tn_status gradient_walk_run(gradient_walk *w, uint32_t loss, const tn_tensor *seed, size_t n,
                            const uint32_t *wrt, tn_tensor **gradients);

static inline int64_t gradient_activation(const gradient_rule *how, const record_node *n) {
  int64_t activation = TN_ACTIVATION_NONE;
  if (how->activation)
    memcpy(&activation, (const char *)n->attrs + how->activation, sizeof activation);
  return activation;
}

/* These have their slope from what they gave, others from what they were given. */
static inline bool gradient_from_result(int64_t activation) {
  return activation == TN_ACTIVATION_RELU || activation == TN_ACTIVATION_SIGMOID;
}

/* The tensors that the rule of a node reads, whatever gradient is asked for. */
static inline uint32_t gradient_needs_in(const gradient_rule *how, const record_node *n) {
  const int64_t a = gradient_activation(how, n);
  return how->needs_in | (a && !gradient_from_result(a) ? how->activated_in : 0);
}
static inline uint32_t gradient_needs_out(const gradient_rule *how, const record_node *n) {
  const int64_t a = gradient_activation(how, n);
  return how->needs_out | (gradient_from_result(a) ? how->activated_out : 0);
}

/* Whether the rule reads tensor i, one of a node's inputs or of what it wrote, by the mask for
 * these. Masks are by argument: where there are lists, of which any is read, all tensors are. */
static inline bool gradient_needs(const record_node *n, uint32_t mask, size_t i) {
  return record_inputs(n) + n->num_out > n->op->num_args ? mask != 0 : mask >> i & 1;
}

/* complete.c: gradient_walk.complete of a graph; the context is a recomputed. */
tn_status gradient_complete(gradient_walk *w, uint32_t node, uint32_t wanted);
/* Takes back the nodes and what older ones were given since there were so many nodes and values; no
 * tensor that there was before was written by them. */
void gradient_take_back(record *r, uint32_t nodes, uint32_t values);

/* sum.c: parts of a buffer's gradient. `v` is one of its values, copied: the record may grow. */
tn_status gradient_add(gradient_walk *w, const record_value *v, const tn_tensor *part);
/* *gradient: a new reference, NULL where nothing has arrived. */
tn_status gradient_of(gradient_walk *w, const record_value *v, tn_tensor **gradient);
/* The view was overwritten at this node: before, it has no part in the loss. */
tn_status gradient_drop(gradient_walk *w, const record_value *v);
void gradient_free(buffer_gradient *g);

#endif
