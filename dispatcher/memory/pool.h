/*
 * The caching, stream-ordered allocator: one pool per device, one cache per stream.
 *
 * A block freed on its stream is reused by that stream at once, since the stream's
 * work runs in order. A block that other streams used as well waits until marks on
 * those streams have passed. Raw memory is taken in segments that belong to one
 * stream's cache; blocks are split off and merged inside their segment.
 *
 * The hit path (pool_alloc of a size lately freed, pool_free) takes no lock: each
 * cache holds, per size class, a stack of free blocks whose head is swapped
 * atomically. Everything else is under the pool's mutex.
 */
#ifndef TENON_DISPATCHER_POOL_H
#define TENON_DISPATCHER_POOL_H

#include <stdatomic.h>

#include "dispatcher/base/error.h"

typedef struct pool pool;
typedef struct pool_cache pool_cache;

/* A piece of device memory. The user's header (header_bytes, zeroed when the block is
 * cut from its segment, left alone while it is freed and reused as it is) follows the
 * struct: block_header(). */
typedef struct block {
  void *handle;      /* of the segment: what raw_alloc gave */
  uint64_t offset;   /* bytes from the handle to this block */
  size_t bytes;      /* usable, at least what was asked for */
  pool_cache *cache; /* of the stream it was allocated on */
  /* The pool's own: */
  struct block *next_free;
  struct block_stack *stack;   /* where it goes when freed; NULL: through the lock */
  _Atomic(uint64_t) other_use; /* the other caches whose streams used it, as bits */
} block;

static inline void *block_header(block *b) {
  return (void *)(((uintptr_t)(b + 1) + 15) & ~(uintptr_t)15);
}

/* What the pool needs of its device. `stream` is the value given to pool_cache_open.
 * mark, passed, wait and unmark are NULL for a synchronous device. All are called from
 * any thread, for any open stream, and all but `pressure` with the pool's lock held: they
 * must not call back into the pool. */
typedef struct pool_ops {
  tn_status (*raw_alloc)(void *ctx, size_t bytes, void **handle);
  void (*raw_free)(void *ctx, void *handle);
  /* Makes a mark at the point that the stream has reached. */
  tn_status (*mark)(void *ctx, void *stream, void **mark);
  bool (*passed)(void *ctx, void *mark); /* true as well when the device is lost */
  void (*wait)(void *ctx, void *mark);   /* blocks until passed */
  void (*unmark)(void *ctx, void *mark);
  /* The host's last help on shortage: true = it freed something, try again. Called
   * without the pool's lock. May be NULL. */
  bool (*pressure)(void *ctx, size_t bytes);
} pool_ops;

typedef struct pool_config {
  const pool_ops *ops;
  void *ctx;
  const host_memory *memory;
  size_t alignment;    /* of blocks, a power of two >= 1 */
  size_t header_bytes; /* user's header in each block */
  uint64_t limit;      /* most bytes to reserve; 0 = no limit */
  bool tracked;        /* pool_alloc says POOL_TRACKED for TN_OK */
  /* The stream of a block that is in use is gone for good: its cache may come to serve another,
   * which the block was not made on. Under the lock, perhaps while a thread frees the block. NULL:
   * nobody needs to know. */
  void (*orphaned)(void *header);
} pool_config;

/* TN_OK of a pool whose blocks are tracked, so that a caller's branch for failure takes both.
 * Blocks of such a pool never take the fast path. No tn_status. */
enum { POOL_TRACKED = 1 << 21 };

/* pre: config->ops, memory set. TN_ERR_OUT_OF_MEMORY. */
tn_status pool_create(const pool_config *config, pool **out);

/* Gives every segment back. pre: no block is in use (pool_blocks_in_use is 0) and the
 * device is idle. Accepts NULL. */
void pool_destroy(pool *p);

/* The cache of one stream; thread-safe to use. Owned by the pool. */
tn_status pool_cache_open(pool *p, void *stream, pool_cache **out);

/* The stream is about to go: waits for those who visit it. Who wants to from now on waits until the
 * cache is closed. */
void pool_cache_retire(pool_cache *cache);

/* The stream's work is done. Blocks of it that are still in use may be freed later; the cache may
 * be reused by a later pool_cache_open afterwards. */
void pool_cache_close(pool_cache *cache);

/* The stream given to pool_cache_open. pre: the caller knows that it is open. */
void *pool_cache_stream(const pool_cache *cache);

/* How often the cache was opened: what tells its streams apart. pre: as before. */
uint64_t pool_cache_opened(const pool_cache *cache);

/* The stream, which stays open until pool_cache_leave; NULL once it is gone. `opened` 0: whichever
 * the cache serves now. */
void *pool_cache_visit(pool_cache *cache, uint64_t opened);
void pool_cache_leave(pool_cache *cache);

/* A block of at least `bytes` bytes (0 counts as 1) for work on the cache's stream.
 * On shortage: polls pending blocks, empties caches, waits for pending blocks, asks
 * ops->pressure, then fails with TN_ERR_DEVICE_OUT_OF_MEMORY and the figures.
 * Thread-safe. */
tn_status pool_alloc(pool_cache *cache, size_t bytes, block **out);

/* Gives a block back in its stream's order. Thread-safe, cannot fail. */
void pool_free(block *b);

/* Notes that work on another cache's stream uses the block: its memory will not be
 * reused before that work, as far as it was enqueued when the block was freed, is done.
 * Cheap when repeated. Thread-safe; takes no memory and cannot fail. */
void pool_note_use(block *b, pool_cache *user);

/* Gives segments that are wholly free back to the device; waits for the streams that
 * last used them. */
void pool_trim(pool *p);

/* Fills reserved, in_use, segments and so on; struct_size is the caller's. */
void pool_stats(pool *p, tn_memory_stats *stats);

/* Blocks that are allocated and not yet freed by the user. Exact when no other thread
 * is inside the pool. */
uint64_t pool_blocks_in_use(pool *p);

/* The pool's invariants: blocks tile their segments, free neighbours are merged, the
 * figures add up. For tests; looks at every block. In pool_check.c, which builds without
 * checks leave out. */
bool pool_is_valid(pool *p);

#endif
