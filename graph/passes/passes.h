/*
 * Passes: what becomes of a program's record before its memory is planned. Each leaves a record
 * that computes the same; nodes that are no longer needed lose their tensors. Node numbers stay but
 * for passes_schedule, which says what they were.
 */
#ifndef TENON_GRAPH_PASSES_H
#define TENON_GRAPH_PASSES_H

#include "graph/program.h"

/* Of those nodes that run, what happens to a buffer. */
typedef struct buffer_use {
  uint32_t writes; /* how often it is written */
  bool shared;     /* a parameter that lies where another one does: its versions say too little */
  uint64_t bytes;  /* that nodes use */
} buffer_use;

typedef struct passes {
  tn_program *program;
  record *r;
  bool *runs;       /* by node; those that are dropped no longer do */
  buffer_use *uses; /* by buffer */
} passes;

/* --- passes.c --- */

/* All of them in their order, but for those that the options leave out; fills the program's counts.
 * Errors: as memory_plan_check, OUT_OF_MEMORY, DEVICE_LOST. */
tn_status passes_run(tn_program *program, const tn_compile_options *options);

/* The node runs no more; its attributes and its site stay. */
void passes_drop(passes *p, uint32_t node);

/* Whether the value is all of a buffer that nodes make, row-major, written once and then. */
bool passes_sole_write(const passes *p, uint32_t value);

/* Whether the node's results follow from its inputs and attributes alone, and are buffers of their
 * own, so that nothing can tell whether it ran twice, elsewhere or not at all. */
bool passes_is_pure(const passes *p, uint32_t node);

/* The values that a buffer has at its last version, the only one that is read, become values of
 * another: `to` is where the first byte is from then on. */
void passes_redirect(passes *p, uint32_t buffer, const record_value *to);

/* --- one file each --- */

/* copies.c: copies of what stays as it is are what they copy. */
void pass_copies(passes *p);
/* merge.c: nodes that compute what an earlier one has are dropped, and its results read. */
tn_status pass_merge(passes *p);
/* fold.c: what follows from constants alone is computed now and is a constant. */
tn_status pass_fold(passes *p);
/* fuse.c: a product takes up the bias, the image added and the activation that follow it. */
tn_status pass_fuse(passes *p);
/* layout.c: images between convolutions lie as their kernels are fastest. */
tn_status pass_layout(passes *p);
/* The best of an operator's kernels that are fastest so (TN_KERNEL_CHANNELS_LAST); NULL: none. */
const cell *passes_channels_last(const tn_program *program, uint32_t op, tn_dtype dtype);
/* schedule.c: when nodes run, and what is computed again rather than kept. Nothing may ask about
 * nodes' uses afterwards. */
tn_status passes_schedule(passes *p, const tn_compile_options *options);

#endif
