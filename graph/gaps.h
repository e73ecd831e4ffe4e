/* Where a buffer fits between those placed before it, found without looking at each of them. */
#ifndef TENON_GRAPH_GAPS_H
#define TENON_GRAPH_GAPS_H

#include "graph/memory_plan.h"

/* Buffers that follow each other in the order of their offsets, and what all of them have in
 * common: whoever lives while none of them does, or while all of them do, need not look at each. */
typedef struct gap_run gap_run;

/* The buffers placed so far. */
typedef struct gap_finder {
  gap_run *runs;   /* in no order */
  uint32_t *order; /* of runs, by offset */
  uint32_t num_runs;
  uint64_t looked; /* runs and buffers looked at, for tests */
} gap_finder;

/* Room for as many buffers as `most`. Errors: OUT_OF_MEMORY, with nothing to free. */
tn_status gap_finder_make(const host_memory *memory, uint32_t most, gap_finder *finder);
void gap_finder_free(const host_memory *memory, gap_finder *finder);
/* Forgets all buffers. */
void gap_finder_clear(gap_finder *finder);

/* The tightest gap between the buffers placed that live while `b` does, else the end of them. */
uint64_t gap_find(gap_finder *finder, const planned_buffer *b);
/* Takes a buffer up, where its offset says; it must stay where it is until the finder is cleared.
 */
void gap_place(gap_finder *finder, planned_buffer *b);

#endif
