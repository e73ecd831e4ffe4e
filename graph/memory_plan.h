/* What of a record a program runs, and where each buffer lies. */
#ifndef TENON_GRAPH_MEMORY_PLAN_H
#define TENON_GRAPH_MEMORY_PLAN_H

#include "graph/record.h"

enum { PLAN_ALIGNMENT = 256 }; /* of every buffer's place, in bytes */

/* Where a buffer of a program is. */
typedef enum buffer_place {
  PLACE_NOWHERE = 0, /* nothing that runs uses it */
  PLACE_PLANNED = 1, /* at `offset` of the program's memory */
  PLACE_INPUT = 2,   /* where the run's input lies */
  PLACE_OUTPUT = 3,  /* where the run's output lies, number `output` */
  PLACE_REAL = 4,    /* a parameter or constant */
} buffer_place;

typedef struct planned_buffer {
  uint32_t place;       /* buffer_place */
  uint32_t first, last; /* nodes that use it; outputs that are copied use it to the end */
  uint32_t home;        /* the buffer whose memory it takes over, itself where it takes none */
  uint32_t output;
  uint64_t bytes, offset;
} planned_buffer;

typedef struct memory_plan {
  host_memory memory;
  bool *runs;              /* by node */
  planned_buffer *buffers; /* by buffer */
  uint64_t *live;          /* by node: what is in use at it, in bytes */
  uint32_t num_running;
  uint64_t bytes;          /* of the program's memory */
  uint64_t live_bytes;     /* the most that is in use at once */
  uint32_t live_node;      /* the first node at which it is */
  uint64_t separate_bytes; /* of all, none of them sharing */
} memory_plan;

/* What a buffer of as many bytes takes of the program's memory. */
static inline uint64_t plan_rounded(uint64_t bytes) {
  return (bytes + PLAN_ALIGNMENT - 1) & ~(uint64_t)(PLAN_ALIGNMENT - 1);
}

/* Errors: INVALID_ARGUMENT where a node that runs, or an output, reads what nothing has written,
 * or an output was written after it was declared; on failure the plan is empty. */
tn_status memory_plan_make(const record *r, memory_plan *plan);
/* The first part of it, with the same errors: what runs, and what each buffer holds. */
tn_status memory_plan_check(const record *r, memory_plan *plan);
/* All but the places: how long each buffer lives, and what is in use at once. */
tn_status memory_plan_live(const record *r, memory_plan *plan);
void memory_plan_free(memory_plan *plan);

#endif
