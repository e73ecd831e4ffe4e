/*
 * What the files of the pool share: its structs, size classes and stacks.
 *
 * A segment is one raw allocation. Pieces tile it in address order; each is
 *   OUT      with the user, or on a stack of its cache waiting to be reused as it is,
 *   BINNED   free, merged with its free neighbours, in a bin of its cache, or
 *   PENDING  freed, but other streams' work on it may not be done.
 * Stacks are lock-free. Everything else is touched under the pool's lock alone.
 */
#ifndef TENON_DISPATCHER_POOL_INTERNAL_H
#define TENON_DISPATCHER_POOL_INTERNAL_H

#include <pthread.h>

#include "dispatcher/base/forks.h"
#include "dispatcher/base/invariant.h"
#include "dispatcher/base/log.h"
#include "dispatcher/memory/pool.h"

/* Requests are rounded up to a size class: 8 per doubling up to the small limit
 * (normally 1 MiB; at most 12.5 % waste), 32 per doubling above it (3 %), and from
 * 1024 times the small limit on whole multiples of twice that limit. */
enum {
  SMALL_CLASSES = 105,
  STACKED_CLASSES = SMALL_CLASSES + 10 * 32,
  HUGE_CLASS = STACKED_CLASSES,
  CLASSES,
  CLASS_WORDS = (CLASSES + 63) / 64,
  SMALLEST_BLOCK = 256,
};

/* Sizes in units: every block's size and offset is a multiple of the unit, which is a
 * multiple of the alignment. */
typedef struct size_classes {
  size_t small_limit;
  unsigned unit_shift, large_shift; /* log2 of the unit below and above small_limit */
  size_t least_units;               /* of a small block */
} size_classes;

/* Small requests and large ones live in segments of their own, so that small blocks of
 * long life do not break up the room of large ones. */
typedef enum domain { SMALL, LARGE, DOMAINS } domain;

typedef enum piece_state { OUT, BINNED, PENDING } piece_state;

/* Free blocks of one size class, to be reused as they are. */
typedef struct block_stack {
  _Atomic(block *) top, rest;
} block_stack;

typedef struct segment segment;

typedef struct piece {
  segment *segment;
  struct piece *prev, *next;           /* neighbours in the segment */
  struct piece *list_prev, *list_next; /* bin, pending list or spares */
  void *mark;                          /* PENDING: on the stream of mark_user, or NULL */
  pool_cache *mark_user;               /* PENDING: users before it are done */
  piece_state state;
  _Alignas(64) block pub; /* last: the user's header follows */
} piece;

struct segment {
  pool_cache *cache;
  void *handle;
  size_t bytes;
  domain domain;
  piece *first;
  void *idle_mark; /* set when the segment became wholly free; NULL otherwise */
  segment *prev, *next;
};

struct pool_cache {
  size_classes sizes; /* the pool's, near to hand */
  pool *pool;
  void *stream;
  pool_cache *next; /* in order of index */
  uint32_t index;
  bool closed, retiring;
  uint64_t opened;   /* how often */
  uint64_t visitors; /* threads that use the stream of a block, and have not left yet */
  uint64_t reserved[DOMAINS];
  uint64_t bin_map[DOMAINS][CLASS_WORDS];
  piece *bins[DOMAINS][CLASSES];
  _Alignas(64) block_stack stacks[STACKED_CLASSES];
};

typedef struct slab {
  struct slab *next;
} slab;

struct pool {
  pool_config config;
  pool_ops ops;
  size_classes sizes;
  pthread_mutex_t lock;
  pthread_cond_t changed; /* a cache that retires: its last visitor left, or it is closed */
  pool_cache *caches, *last_cache;
  segment *segments;
  piece *spares; /* pieces that stand for no memory at present */
  slab *slabs;
  piece *pending_first, *pending_last;
  uint64_t pieces, binned, pending; /* how many; `pieces` is those that tile segments */
  uint64_t binned_bytes;
  uint64_t reserved, peak_reserved, raw_allocs, out_of_memory;
  uint32_t num_segments;
  uint32_t fork_generation; /* in which it was made */
};

/* Functions of the device run under the lock and may log; the host's callback, which may ask
 * the pool for its figures, hears of it afterwards. */
static inline void pool_lock(pool *p) {
  log_hold();
  pthread_mutex_lock(&p->lock);
}

static inline void pool_unlock(pool *p) {
  pthread_mutex_unlock(&p->lock);
  log_resume();
}

/* ------------------------------------------------------------- size classes --- */

static inline unsigned log2_floor(size_t x) { return 63u - (unsigned)__builtin_clzll(x); }

/* The class whose blocks serve a request. */
static inline unsigned class_of_request(const size_classes *s, size_t bytes) {
  if (bytes <= s->small_limit) {
    size_t units = (bytes + ((size_t)1 << s->unit_shift) - 1) >> s->unit_shift;
    units = units < s->least_units ? s->least_units : units;
    size_t m = units - 1;
    unsigned shift = log2_floor(m | 8) - 3;
    return shift * 8 + (unsigned)(m >> shift) + 1;
  }
  size_t m = (bytes - 1) >> s->large_shift;
  unsigned shift = log2_floor(m) - 5;
  unsigned found = SMALL_CLASSES + shift * 32 + (unsigned)(m >> shift) - 32;
  return found < HUGE_CLASS ? found : HUGE_CLASS;
}

/* The largest class that a block of `bytes`, a multiple of the unit, can serve. */
static inline unsigned class_of_block(const size_classes *s, size_t bytes) {
  if (bytes <= s->small_limit) {
    size_t units = bytes >> s->unit_shift;
    unsigned shift = log2_floor(units | 8) - 3;
    return shift * 8 + (unsigned)(units >> shift);
  }
  size_t units = bytes >> s->large_shift;
  unsigned shift = log2_floor(units) - 5;
  unsigned found = SMALL_CLASSES + shift * 32 + (unsigned)(units >> shift) - 33;
  return found < HUGE_CLASS ? found : HUGE_CLASS;
}

/* Bytes of a block that serves a request of this class; 0 if there is no such number. */
size_t class_bytes(const size_classes *s, unsigned class, size_t bytes);

/* ------------------------------------------------------------------- stacks --- */

/* A thread takes from a chain by swapping the whole of it out, which no other thread can
 * undo or repeat: there is no ABA. For that moment others find it empty. The block freed
 * last stands alone in `top`, so that the usual pair of alloc and free is two swaps. */

static inline bool swap_in(_Atomic(block *) *place, block *expected, block *b) {
  return atomic_compare_exchange_strong_explicit(place, &expected, b, memory_order_release,
                                                 memory_order_relaxed);
}

static inline block *swap_out(_Atomic(block *) *place) {
  if (!atomic_load_explicit(place, memory_order_relaxed)) return NULL;
  return atomic_exchange_explicit(place, NULL, memory_order_acquire);
}

/* Puts a chain back that was swapped out, under what was pushed since. */
static inline void chain_put_back(_Atomic(block *) *place, block *chain) {
  while (!swap_in(place, NULL, chain)) {
    block *newer = swap_out(place);
    if (!newer) continue;
    block *tail = newer;
    while (tail->next_free) tail = tail->next_free;
    tail->next_free = chain;
    chain = newer;
  }
}

static inline void stack_push(block_stack *stack, block *b) {
  b->next_free = NULL;
  if (!atomic_load_explicit(&stack->top, memory_order_relaxed) && swap_in(&stack->top, NULL, b))
    return;
  do b->next_free = atomic_load_explicit(&stack->rest, memory_order_relaxed);
  while (!swap_in(&stack->rest, b->next_free, b));
}

static inline block *stack_pop(block_stack *stack) {
  block *b = swap_out(&stack->top);
  if (b) return b;
  b = swap_out(&stack->rest);
  if (b && b->next_free) chain_put_back(&stack->rest, b->next_free);
  return b;
}

static inline block *stack_take_all(block_stack *stack) {
  block *top = swap_out(&stack->top), *rest = swap_out(&stack->rest);
  if (top) top->next_free = rest;
  return top ? top : rest;
}

/* ------------------------------------------------- pool_segment.c, under lock --- */

static inline piece *piece_of(block *b) { return (piece *)((char *)b - offsetof(piece, pub)); }

static inline domain domain_of(const pool *p, size_t need) {
  return need <= p->sizes.small_limit ? SMALL : LARGE;
}

/* Frees a piece that is not in a list: merges it and puts it into a bin. */
void piece_release(piece *x);

/* The smallest free piece of the cache, in segments of one domain, that has `need`
 * bytes; NULL if there is none. */
piece *bins_find(const pool_cache *cache, domain d, size_t need);

/* Takes a piece from its bin for the user and gives what it has beyond `need` back.
 * TN_ERR_OUT_OF_MEMORY: nothing has changed. */
tn_status piece_hand_out(piece *x, size_t need, block **out);

/* Moves what lies on a cache's stacks into its bins. */
void cache_drain(pool_cache *cache);

/* Takes a segment with at least `need` bytes for the cache; it is one free piece then.
 * TN_ERR_DEVICE_OUT_OF_MEMORY, TN_ERR_OUT_OF_MEMORY or the device's error. */
tn_status segment_grow(pool_cache *cache, size_t need);

/* Moves the smallest wholly free segment of another cache that has `need` bytes, lies in
 * `d` (DOMAINS: in either) and is idle to this cache. wait: waits for it to be idle. */
bool segment_steal(pool_cache *cache, domain d, size_t need, bool wait);

/* Gives wholly free, idle segments back to the device. */
void segments_release(pool *p, bool wait);

/* Drops the idle marks of a cache whose stream's work is done. */
void segments_forget_marks(pool_cache *cache);

/* Tells the owners of the cache's blocks that their stream is gone. */
void segments_orphan(const pool_cache *cache);

static inline bool wholly_free(const segment *s) {
  return s->first->state == BINNED && !s->first->next;
}

/* Gives all memory back without looking. */
void segments_destroy(pool *p);

/* ------------------------------------------------- pool_pending.c, under lock --- */

/* Puts a freed piece that other streams used on the pending list. */
void pending_add(piece *x);

/* Frees pending pieces whose users are done; wait: waits until they are. */
void pending_poll(pool *p, bool wait);

/* The cache's stream is done with everything: frees what waited for it. */
void pending_forget(pool_cache *cache);

/* ---------------------------------------------- pool_check.c: see invariant.h --- */

/* Looked at without the lock, so only at what does not change while a block is OUT. */
bool block_is_out(const block *b);
/* Taken from a stack of this cache: nobody else used it since. */
bool block_is_ready(const block *b, const pool_cache *cache);

/* Under the lock: one thing and its neighbours. */
bool piece_is_valid(const piece *x);
bool segment_is_valid(const segment *s);
bool pending_piece_is_valid(const piece *x);
bool figures_are_valid(const pool *p);

/* Under the lock: every segment, piece, bin and cache, and the pending list. */
bool segments_are_valid(const pool *p);

#endif
