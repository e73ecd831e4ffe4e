/* What the checks of memory slots share: a queue if the backend has queues, bytes that tell
 * themselves apart, and copies that record what went wrong. */
#ifndef TENON_CHECK_BACKEND_MEMORY_H
#define TENON_CHECK_BACKEND_MEMORY_H

#include "backend.h"

/* One device and one of its queues, NULL where a synchronous backend has none. Functions that
 * return bool have recorded a failure when they return false: the check then ends, and so does its
 * process. */
typedef struct memory_bench {
  direct *d;
  void *queue;
  uint64_t random;
} memory_bench;

bool memory_begin(direct *d, memory_bench *b);
void memory_end(memory_bench *b);

bool memory_take(memory_bench *b, uint32_t kind, size_t bytes, void **ptr);
/* Waits for the queue first: no work uses memory that is given back. */
bool memory_give(memory_bench *b, uint32_t kind, void *ptr);
bool memory_wait(memory_bench *b);

/* Host memory of the kit's own; ends the process when there is none. */
void *memory_of_host(size_t bytes);
void memory_random(memory_bench *b, void *ptr, size_t bytes);
/* Where two pieces differ first; `bytes` where they do not. */
size_t memory_differs(const void *a, const void *b, size_t bytes);

bool memory_write(memory_bench *b, void *to, uint64_t offset, const void *from, size_t bytes);
bool memory_read(memory_bench *b, void *to, const void *from, uint64_t offset, size_t bytes);
bool memory_move(memory_bench *b, void *to, uint64_t to_offset, const void *from,
                 uint64_t from_offset, size_t bytes);

/* Bytes that a check may hold of the device's memory at once: no more than `most`, nor than a
 * quarter of what is free, since others use it as well, and what can be had in one piece. */
size_t memory_allowance(memory_bench *b, size_t most);

/* Pinned memory, which a backend or a machine need not have: then *ptr is NULL, and a note says so.
 * False for a failure of another kind. */
bool memory_take_pinned(memory_bench *b, size_t bytes, void **ptr);

/* --- the checks --- */

void check_memory_blocks(direct *d, const check_options *o); /* memory_blocks.c */
void check_memory_limits(direct *d, const check_options *o); /* memory_limits.c */
void check_memory_info(direct *d, const check_options *o);
void check_memory_copies(direct *d, const check_options *o); /* memory_copies.c */
void check_memory_far(direct *d, const check_options *o);    /* memory_far.c, of the copies */
void check_memory_order(direct *d, const check_options *o);  /* memory_order.c */
void check_memory_pinned(direct *d, const check_options *o);
void check_memory_leaks(direct *d, const check_options *o);  /* memory_leaks.c */
void check_memory_reopen(direct *d, const check_options *o); /* memory_reopen.c */

#endif
