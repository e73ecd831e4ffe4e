/*
 * The passes that change when nodes run, and how often, so that less memory is in use at once. They
 * try a change, plan anew and keep what they tried or take it back: nothing is kept that makes the
 * plan larger.
 */
#ifndef TENON_GRAPH_PASSES_SCHEDULE_H
#define TENON_GRAPH_PASSES_SCHEDULE_H

#include "graph/passes/passes.h"

/* What is known of a node, wherever it is moved. */
typedef struct node_note {
  uint32_t number; /* in the graph */
  bool pure;       /* may run again: passes_is_pure, and its operator's results never vary */
  bool refused;    /* running it again was tried and gained nothing */
  uint64_t cost;   /* of running it: as many bytes could be moved meanwhile */
} node_note;

/* What was done, to be taken back in reverse. */
typedef struct change {
  uint32_t kind, from, to;
  uint32_t num_values, num_buffers; /* before */
  record_node node;                 /* before */
} change;

typedef struct schedule {
  passes *p;
  record *r;
  node_note *notes; /* by node */
  change *changes;
  uint32_t *twins; /* by value, less first_value: the one that it stands for */
  size_t max_notes, max_changes, max_twins;
  uint32_t num_changes, first_value, first_buffer;
  uint32_t num_running; /* nodes, before there were changes */
  memory_plan plan;     /* of the record as it is: what lives when */
  uint64_t work;        /* nodes that may still be looked at */
} schedule;

/* --- schedule.c --- */

/* Plans anew. */
tn_status schedule_measure(schedule *s);
/* Runs node `from` at `to`, those between one later or earlier. */
tn_status schedule_move(schedule *s, uint32_t from, uint32_t to);
/* A node like one that there is, of the tensors that `like` says, in front of node `at`. */
tn_status schedule_add(schedule *s, const record_node *like, const node_note *note, uint32_t at,
                       record_node **made);
/* Node k's results once more, in buffers of their own: computed by a node in front of `at`, and
 * read by all behind it. */
tn_status schedule_repeat(schedule *s, uint32_t k, uint32_t at);
/* The node does nothing any more. */
tn_status schedule_silence(schedule *s, uint32_t k);
/* Takes back all but the first `left` changes, and plans anew. */
tn_status schedule_undo(schedule *s, uint32_t left);

/* --- cost.c --- */

/* By what the operator computes, and the device: a rough guess. */
uint64_t node_cost(const record *r, const record_node *n, const tn_device *device);
/* The least that a node costs. */
uint64_t call_cost(const tn_device *device);
/* Whether the operator computes the same again, bit by bit, for what node_cost says. */
bool node_is_repeatable(const record_node *n);

/* --- early.c --- */

/* Updates of parameters run as soon as they can, so that gradients go. */
tn_status pass_early(schedule *s);
/* Steps of many parameters at once become several, where that lets large gradients go. */
tn_status pass_split(schedule *s);

/* --- recompute.c --- */

/* What is cheap to compute is computed again rather than kept where most is in use, for `percent`
 * of a run's cost. */
tn_status pass_recompute(schedule *s, uint32_t percent);

#endif
