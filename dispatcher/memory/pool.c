/*
 * The pool's front: the lock-free hit path, the slow path behind it with its ladder for
 * shortage, caches and figures.
 *
 * A miss looks, under the lock, at what is cheapest first: the stack again, free pieces,
 * the stacks of other sizes, idle segments of other caches, new raw memory.
 */
#include "dispatcher/memory/pool_internal.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

/* ------------------------------------------------------------- size classes --- */

static size_classes classes_for(size_t alignment) {
  size_t unit = alignment < 32 ? 32 : alignment;
  size_t large_unit = unit < 32768 ? 32768 : unit;
  return (size_classes){
      .small_limit = 32 * large_unit,
      .unit_shift = log2_floor(unit),
      .large_shift = log2_floor(large_unit),
      .least_units = unit < SMALLEST_BLOCK ? SMALLEST_BLOCK / unit : 1,
  };
}

size_t class_bytes(const size_classes *s, unsigned class, size_t bytes) {
  if (class == HUGE_CLASS) {
    size_t step = 2 * s->small_limit, sum;
    return size_add(bytes, step - 1, &sum) ? sum & ~(step - 1) : 0;
  }
  if (class >= SMALL_CLASSES) {
    unsigned i = class - SMALL_CLASSES;
    return ((size_t)33 + i % 32) << (i / 32 + s->large_shift);
  }
  if (class < 16) return (size_t) class << s->unit_shift;
  return ((size_t)8 + class % 8) << (class / 8 - 1 + s->unit_shift);
}

/* ---------------------------------------------------------- create, destroy --- */

tn_status pool_create(const pool_config *config, pool **out) {
  pool *p = host_alloc(config->memory, sizeof *p);
  if (!p) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a device's allocator");
  p->config = *config;
  p->ops = *config->ops;
  p->sizes = classes_for(config->alignment);
  p->fork_generation = atomic_load(&fork_generation);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->changed, NULL);
  *out = p;
  return TN_OK;
}

void pool_destroy(pool *p) {
  if (!p) return;
  for (piece *x = p->pending_first; x; x = x->list_next)
    if (x->mark) p->ops.unmark(p->config.ctx, x->mark);
  segments_destroy(p);
  for (pool_cache *c = p->caches, *next; c; c = next) {
    next = c->next;
    host_free(p->config.memory, c);
  }
  pthread_cond_destroy(&p->changed);
  pthread_mutex_destroy(&p->lock);
  host_free(p->config.memory, p);
}

static pool_cache *closed_cache(const pool *p) {
  for (pool_cache *c = p->caches; c; c = c->next)
    if (c->closed) return c;
  return NULL;
}

static pool_cache *cache_make(pool *p) {
  pool_cache *c = host_alloc(p->config.memory, sizeof *c);
  if (!c) return NULL;
  c->pool = p;
  c->sizes = p->sizes;
  c->index = p->last_cache ? p->last_cache->index + 1 : 0;
  *(p->last_cache ? &p->last_cache->next : &p->caches) = c;
  p->last_cache = c;
  return c;
}

tn_status pool_cache_open(pool *p, void *stream, pool_cache **out) {
  pool_lock(p);
  pool_cache *c = closed_cache(p);
  if (!c) c = cache_make(p);
  if (c) {
    c->stream = stream;
    c->closed = false;
    ++c->opened;
  }
  pool_unlock(p);
  if (!c) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a stream's cache");
  *out = c;
  return TN_OK;
}

void pool_cache_retire(pool_cache *cache) {
  pool *p = cache->pool;
  pool_lock(p);
  cache->retiring = true;
  while (cache->visitors) pthread_cond_wait(&p->changed, &p->lock);
  pool_unlock(p);
}

/* One that comes while others are there may be called by one of them, and must not wait. */
void *pool_cache_visit(pool_cache *cache, uint64_t opened) {
  pool *p = cache->pool;
  pool_lock(p);
  while (cache->retiring && !cache->visitors) pthread_cond_wait(&p->changed, &p->lock);
  bool there = !cache->closed && (!opened || opened == cache->opened);
  void *stream = there ? cache->stream : NULL;
  if (there) ++cache->visitors;
  pool_unlock(p);
  return stream;
}

void pool_cache_leave(pool_cache *cache) {
  pool *p = cache->pool;
  pool_lock(p);
  if (--cache->visitors == 0) pthread_cond_broadcast(&p->changed);
  pool_unlock(p);
}

void pool_cache_close(pool_cache *cache) {
  pool *p = cache->pool;
  pool_lock(p);
  INVARIANT(!cache->visitors);
  cache->closed = true;
  cache->retiring = false;
  pthread_cond_broadcast(&p->changed);
  pending_forget(cache);
  segments_forget_marks(cache);
  cache_drain(cache);
  segments_orphan(cache);
  INVARIANT_OF_ALL(segments_are_valid(p));
  pool_unlock(p);
}

void *pool_cache_stream(const pool_cache *cache) { return cache->stream; }

uint64_t pool_cache_opened(const pool_cache *cache) { return cache->opened; }

/* --------------------------------------------------------------- the misses --- */

static void drain_all(pool *p) {
  for (pool_cache *c = p->caches; c; c = c->next) cache_drain(c);
}

/* What the cache itself has, or gets without new raw memory. */
static piece *find_cached(pool_cache *cache, size_t need) {
  domain d = domain_of(cache->pool, need);
  piece *x = bins_find(cache, d, need);
  if (x) return x;
  cache_drain(cache);
  x = bins_find(cache, d, need);
  if (x) return x;
  for (pool_cache *c = cache->pool->caches; c; c = c->next)
    if (c->closed) cache_drain(c);
  return segment_steal(cache, d, need, false) ? bins_find(cache, d, need) : NULL;
}

static piece *find_anywhere(pool_cache *cache, size_t need, bool wait) {
  domain d = domain_of(cache->pool, need);
  piece *x = bins_find(cache, d, need);
  if (!x) x = bins_find(cache, d == SMALL ? LARGE : SMALL, need);
  if (x || !segment_steal(cache, DOMAINS, need, wait)) return x;
  x = bins_find(cache, d, need);
  return x ? x : bins_find(cache, d == SMALL ? LARGE : SMALL, need);
}

static tn_status grow(pool_cache *cache, size_t need, piece **found) {
  tn_status status = segment_grow(cache, need);
  if (status == TN_OK) *found = bins_find(cache, domain_of(cache->pool, need), need);
  INVARIANT_OF_ALL(segments_are_valid(cache->pool));
  return status;
}

/* One step of the ladder for shortage: gathers what is free in all caches, gives back
 * what serves no one, and asks the device again. */
static tn_status squeeze(pool_cache *cache, size_t need, bool wait, piece **found) {
  pool *p = cache->pool;
  pending_poll(p, wait);
  drain_all(p);
  *found = find_anywhere(cache, need, wait);
  if (*found) return TN_OK;
  segments_release(p, wait);
  return grow(cache, need, found);
}

/* Asks the host for help, without the lock, for as long as it has some. */
static tn_status press(pool_cache *cache, size_t need, piece **found) {
  enum { MOST_CALLS = 100 }; /* a host that always says yes must not hang the program */
  pool *p = cache->pool;
  tn_status status = TN_ERR_DEVICE_OUT_OF_MEMORY;
  for (int i = 0; status == TN_ERR_DEVICE_OUT_OF_MEMORY && p->ops.pressure && i < MOST_CALLS; i++) {
    pool_unlock(p);
    bool again = p->ops.pressure(p->config.ctx, need);
    pool_lock(p);
    if (!again) break;
    status = squeeze(cache, need, true, found);
  }
  return status;
}

static void count_stacked(pool *p, uint64_t *blocks, uint64_t *bytes);

static tn_status report_shortage(pool *p, size_t bytes) {
  uint64_t blocks, stacked;
  count_stacked(p, &blocks, &stacked);
  char limit[48] = "no limit";
  if (p->config.limit) snprintf(limit, sizeof limit, "limit %" PRIu64, p->config.limit);
  return fail(TN_ERR_DEVICE_OUT_OF_MEMORY,
              "no %zu bytes of device memory: %" PRIu64 " bytes reserved in %" PRIu32
              " segments (%s), %" PRIu64 " of them in use: %s",
              bytes, p->reserved, p->num_segments, limit, p->reserved - p->binned_bytes - stacked,
              tn_last_error());
}

static tn_status find_in_shortage(pool_cache *cache, size_t need, piece **found) {
  cache->pool->out_of_memory++;
  tn_status status = squeeze(cache, need, false, found);
  if (status != TN_ERR_DEVICE_OUT_OF_MEMORY) return status;
  sched_yield(); /* to a thread that has just a stack in its hands */
  status = squeeze(cache, need, true, found);
  return status == TN_ERR_DEVICE_OUT_OF_MEMORY ? press(cache, need, found) : status;
}

/* Other threads may hold a stack for the moment of their pop. Before more memory is taken
 * they get time to put it back, unless there is none yet that they could hold: where all
 * processors are busy, giving way so often takes as long as opening a runtime. */
static block *pop_patiently(pool_cache *cache, unsigned class, size_t need) {
  enum { TRIES = 32 }; /* some microseconds, little beside a growing segment's cost */
  if (class >= STACKED_CLASSES || !cache->reserved[domain_of(cache->pool, need)]) return NULL;
  block *b = stack_pop(&cache->stacks[class]);
  for (int i = 0; !b && i < TRIES; i++) {
    sched_yield();
    b = stack_pop(&cache->stacks[class]);
  }
  return b;
}

static tn_status find(pool_cache *cache, unsigned class, size_t need, block **out) {
  pending_poll(cache->pool, false);
  block *b = class < STACKED_CLASSES ? stack_pop(&cache->stacks[class]) : NULL;
  piece *x = b ? NULL : find_cached(cache, need);
  if (!b && !x) b = pop_patiently(cache, class, need);
  if (b) {
    INVARIANT(block_is_ready(b, cache));
    *out = b;
    return TN_OK;
  }
  tn_status status = x ? TN_OK : grow(cache, need, &x);
  if (status == TN_ERR_DEVICE_OUT_OF_MEMORY) status = find_in_shortage(cache, need, &x);
  return status == TN_OK ? piece_hand_out(x, need, out) : status;
}

static __attribute__((noinline)) tn_status alloc_slowly(pool_cache *cache, size_t bytes,
                                                        unsigned class, block **out) {
  pool *p = cache->pool;
  size_t need = class_bytes(&p->sizes, class, bytes);
  pool_lock(p);
  tn_status status = need ? find(cache, class, need, out)
                          : fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "more than there can be");
  if (status == TN_ERR_DEVICE_OUT_OF_MEMORY) report_shortage(p, bytes);
  pool_unlock(p);
  return status == TN_OK && p->config.tracked ? (tn_status)POOL_TRACKED : status;
}

static __attribute__((noinline)) void free_slowly(block *b) {
  pool *p = b->cache->pool;
  if (atomic_load(&fork_generation) != p->fork_generation) return; /* the lock may be held */
  pool_lock(p);
  if (atomic_load_explicit(&b->other_use, memory_order_relaxed))
    pending_add(piece_of(b));
  else
    piece_release(piece_of(b));
  pool_unlock(p);
}

/* ----------------------------------------------------------------- the hits --- */

tn_status pool_alloc(pool_cache *cache, size_t bytes, block **out) {
  unsigned class = class_of_request(&cache->sizes, bytes);
  block *b = class < STACKED_CLASSES ? stack_pop(&cache->stacks[class]) : NULL;
  if (!b) return alloc_slowly(cache, bytes, class, out);
  INVARIANT(block_is_ready(b, cache) && b->bytes >= bytes);
  *out = b;
  return TN_OK;
}

void pool_free(block *b) {
  INVARIANT(block_is_out(b));
  if (b->stack && !atomic_load_explicit(&b->other_use, memory_order_relaxed))
    stack_push(b->stack, b);
  else
    free_slowly(b);
}

/* ------------------------------------------------------------------ figures --- */

/* Blocks on stacks are taken off to be counted: a thread that misses them for that
 * moment waits for the lock, and finds them then. */
static void count_stacked(pool *p, uint64_t *blocks, uint64_t *bytes) {
  *blocks = *bytes = 0;
  for (pool_cache *c = p->caches; c; c = c->next) {
    for (unsigned i = 0; i < STACKED_CLASSES; i++) {
      block *chain = stack_take_all(&c->stacks[i]);
      for (block *b = chain; b; b = b->next_free) {
        ++*blocks;
        *bytes += b->bytes;
      }
      if (chain) chain_put_back(&c->stacks[i].rest, chain);
    }
  }
}

void pool_trim(pool *p) {
  pool_lock(p);
  pending_poll(p, false);
  drain_all(p);
  segments_release(p, true);
  INVARIANT_OF_ALL(segments_are_valid(p));
  pool_unlock(p);
}

void pool_stats(pool *p, tn_memory_stats *stats) {
  uint64_t blocks, stacked;
  pool_lock(p);
  count_stacked(p, &blocks, &stacked);
  stats->segments = p->num_segments;
  stats->reserved = p->reserved;
  stats->in_use = p->reserved - p->binned_bytes - stacked;
  stats->peak_reserved = p->peak_reserved;
  stats->limit = p->config.limit;
  stats->raw_allocs = p->raw_allocs;
  stats->out_of_memory = p->out_of_memory;
  pool_unlock(p);
}

uint64_t pool_blocks_in_use(pool *p) {
  uint64_t blocks, bytes;
  pool_lock(p);
  count_stacked(p, &blocks, &bytes);
  blocks = p->pieces - p->binned - p->pending - blocks;
  pool_unlock(p);
  return blocks;
}
