/*
 * What fusing products with what follows them (fuse.c) and recognising gates (gates.c) share: who
 * reads what, and which kernel a call would get.
 */
#ifndef TENON_GRAPH_FUSE_H
#define TENON_GRAPH_FUSE_H

#include "dispatcher/registry/registry.h"
#include "graph/passes/passes.h"

enum { FUSE_ARGS = 4 }; /* most inputs of what is fused */

typedef struct fusing {
  passes *p;
  uint32_t *readers, *reader; /* by node: how often its results are read, and who did last */
  tn_tensor *stand_ins[FUSE_ARGS + 1]; /* memory for headers that kernels are only asked about */
} fusing;

/* --- fuse.c --- */

/* The same elements at the same moment: records may hold it more than once. */
bool fuse_same_value(const record_value *a, const record_value *b);
/* The same element type and shape. */
bool fuse_same_shape(const record_value *a, const record_value *b);

/* A header of a value in memory that is not there: kernels are asked about shapes and types. `i`:
 * which of the stand-ins; the last is the result's. */
tn_status fuse_stand_in(fusing *f, uint32_t i, const record_value *v, tn_tensor **header);
/* The kernel that a call of one result would get, NULL for none. */
tn_status fuse_find_kernel(uint32_t op, tn_tensor *const *in, uint32_t num_in, tn_tensor *out,
                           const void *attrs, const cell **kernel);
/* What is said by a failure to find a kernel: of some, that there is none. */
tn_status fuse_forgive(tn_status status);
/* The table's row. pre: there is one of that number. */
const tn_operator *fuse_operator(uint32_t id);

/* --- gates.c --- */

/* Node k, if it is x times what follows from x alone, either way round. */
tn_status fuse_gate(fusing *f, uint32_t k);

#endif
