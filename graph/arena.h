/* Memory that is taken piece by piece and given back as a whole. */
#ifndef TENON_GRAPH_ARENA_H
#define TENON_GRAPH_ARENA_H

#include "dispatcher/base/error.h"

/* Chunks, of which the last made is the one that pieces are cut from. */
typedef struct arena {
  struct arena_chunk *chunks;
  char *at, *end; /* of what is left of the last chunk */
} arena;

enum { ARENA_ALIGNMENT = 16 };

/* Another chunk, and the piece from there. */
void *arena_take_slowly(arena *a, const host_memory *memory, size_t bytes);

/* A piece at a multiple of ARENA_ALIGNMENT, as it is: nothing is zeroed. NULL when there is no
 * memory. */
static inline void *arena_take(arena *a, const host_memory *memory, size_t bytes) {
  size_t whole = (bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
  if (__builtin_expect((size_t)(a->end - a->at) < whole, 0))
    return arena_take_slowly(a, memory, whole);
  void *piece = a->at;
  a->at += whole;
  return piece;
}

/* Gives back a piece and all that were taken after it. */
void arena_rewind(arena *a, void *piece);
/* Gives back all pieces; the last chunk stays, for more. */
void arena_clear(arena *a, const host_memory *memory);
void arena_free(arena *a, const host_memory *memory);

#endif
