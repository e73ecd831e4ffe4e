/* An arena's chunks. Each is twice as large as the one before it, to a limit: small records stay
 * small, and chunks below a C library's threshold for pages of their own are had again cheaply. */
#include "graph/arena.h"

#include <stdint.h>

typedef struct arena_chunk {
  struct arena_chunk *next; /* made before this one */
  size_t bytes;             /* behind this struct */
} arena_chunk;

enum { CHUNK_FIRST = 2048, CHUNK_MOST = 1 << 16 };

static char *begin_of(arena_chunk *c) { return (char *)c + ARENA_ALIGNMENT; }

void *arena_take_slowly(arena *a, const host_memory *memory, size_t bytes) {
  _Static_assert(sizeof(arena_chunk) <= ARENA_ALIGNMENT, "pieces begin behind it");
  size_t wanted = a->chunks ? 2 * a->chunks->bytes : CHUNK_FIRST;
  if (wanted > CHUNK_MOST) wanted = CHUNK_MOST;
  if (wanted < bytes) wanted = bytes;
  arena_chunk *c = memory->alloc(memory->user, ARENA_ALIGNMENT + wanted, ARENA_ALIGNMENT);
  if (!c) return NULL;
  *c = (arena_chunk){a->chunks, wanted};
  a->chunks = c;
  a->at = begin_of(c) + bytes;
  a->end = begin_of(c) + wanted;
  return begin_of(c);
}

void arena_rewind(arena *a, void *piece) {
  char *at = piece;
  /* Of an earlier chunk it stays taken: that is for the end. */
  if (a->chunks && at >= begin_of(a->chunks) && at < a->at) a->at = at;
}

void arena_clear(arena *a, const host_memory *memory) {
  arena_chunk *last = a->chunks;
  if (!last) return;
  for (arena_chunk *c = last->next, *next; c; c = next) {
    next = c->next;
    host_free(memory, c);
  }
  last->next = NULL;
  a->at = begin_of(last);
}

void arena_free(arena *a, const host_memory *memory) {
  for (arena_chunk *c = a->chunks, *next; c; c = next) {
    next = c->next;
    host_free(memory, c);
  }
  *a = (arena){0};
}
