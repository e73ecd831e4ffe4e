/*
 * Segments of raw memory and the pieces that tile them: best fit, split, merge, growth,
 * and giving wholly free segments to other caches or back to the device. All of it runs
 * under the pool's lock.
 *
 * Invariant: of two neighbours in a segment at most one is BINNED; a BINNED piece is in
 * the bin of the largest class it can serve.
 */
#include "dispatcher/memory/pool_internal.h"

#include <string.h>

enum { PIECES_PER_SLAB = 16 };

/* A request for more than so many small limits gets a segment of its own. */
enum { own_segment = 10 };

/* ------------------------------------------------------------------- pieces --- */

static size_t piece_bytes(const pool *p) {
  size_t bytes = offsetof(piece, pub) + sizeof(block) + 15 + p->config.header_bytes;
  return (bytes + 63) & ~(size_t)63;
}

static bool spares_fill(pool *p) {
  size_t each = piece_bytes(p);
  slab *s = host_alloc(p->config.memory, 64 + PIECES_PER_SLAB * each);
  if (!s) return false;
  s->next = p->slabs;
  p->slabs = s;
  for (int i = 0; i < PIECES_PER_SLAB; i++) {
    piece *x = (piece *)((char *)s + 64 + (size_t)i * each);
    x->list_next = p->spares;
    p->spares = x;
  }
  return true;
}

/* NULL when there is no host memory. */
static piece *piece_make(segment *s, uint64_t offset, size_t bytes) {
  pool *p = s->cache->pool;
  if (!p->spares && !spares_fill(p)) return NULL;
  piece *x = p->spares;
  p->spares = x->list_next;
  memset(x, 0, sizeof *x);
  x->segment = s;
  x->state = OUT;
  x->pub.handle = s->handle;
  x->pub.offset = offset;
  x->pub.bytes = bytes;
  x->pub.cache = s->cache;
  p->pieces++;
  return x;
}

static void piece_unmake(pool *p, piece *x) {
  x->list_next = p->spares;
  p->spares = x;
  p->pieces--;
}

/* --------------------------------------------------------------------- bins --- */

static void bin_insert(piece *x) {
  pool_cache *c = x->pub.cache;
  domain d = x->segment->domain;
  unsigned class = class_of_block(&c->sizes, x->pub.bytes);
  piece **bin = &c->bins[d][class];
  x->state = BINNED;
  x->list_prev = NULL;
  x->list_next = *bin;
  if (*bin) (*bin)->list_prev = x;
  *bin = x;
  c->bin_map[d][class / 64] |= (uint64_t)1 << class % 64;
  c->pool->binned++;
  c->pool->binned_bytes += x->pub.bytes;
}

static void drop_idle_mark(segment *s) {
  pool *p = s->cache->pool;
  if (s->idle_mark) p->ops.unmark(p->config.ctx, s->idle_mark);
  s->idle_mark = NULL;
}

static void bin_remove(piece *x) {
  pool_cache *c = x->pub.cache;
  domain d = x->segment->domain;
  unsigned class = class_of_block(&c->sizes, x->pub.bytes);
  piece **bin = &c->bins[d][class];
  *(x->list_prev ? &x->list_prev->list_next : bin) = x->list_next;
  if (x->list_next) x->list_next->list_prev = x->list_prev;
  if (!*bin) c->bin_map[d][class / 64] &= ~((uint64_t)1 << class % 64);
  x->state = OUT;
  c->pool->binned--;
  c->pool->binned_bytes -= x->pub.bytes;
}

/* The first class >= from with a piece in its bin; CLASSES if there is none. */
static unsigned next_class(const uint64_t *map, unsigned from) {
  if (from >= CLASSES) return CLASSES;
  uint64_t word = map[from / 64] & (~(uint64_t)0 << from % 64);
  for (unsigned i = from / 64;;) {
    if (word) return i * 64 + (unsigned)__builtin_ctzll(word);
    if (++i == CLASS_WORDS) return CLASSES;
    word = map[i];
  }
}

/* Pieces of one bin differ by an eighth at the most, so a few that fit are looked at. */
static piece *bin_best(piece *bin, size_t need) {
  piece *best = NULL;
  int fitting = 0;
  for (piece *x = bin; x && fitting < 8; x = x->list_next) {
    if (x->pub.bytes < need) continue;
    if (!fitting++ || x->pub.bytes < best->pub.bytes) best = x;
    if (best->pub.bytes == need) break;
  }
  return best;
}

piece *bins_find(const pool_cache *cache, domain d, size_t need) {
  unsigned class = class_of_block(&cache->sizes, need);
  for (;; class ++) {
    class = next_class(cache->bin_map[d], class);
    if (class == CLASSES) return NULL;
    piece *x = bin_best(cache->bins[d][class], need);
    if (x) return x;
  }
}

/* ---------------------------------------------------------- split and merge --- */

static void unlink_neighbour(piece *x) {
  if (x->next) x->next->prev = x->prev;
  *(x->prev ? &x->prev->next : &x->segment->first) = x->next;
}

/* x swallows its right neighbour. */
static void merge_next(piece *x) {
  piece *gone = x->next;
  x->pub.bytes += gone->pub.bytes;
  unlink_neighbour(gone);
  piece_unmake(x->pub.cache->pool, gone);
}

void piece_release(piece *x) {
  if (x->next && x->next->state == BINNED) {
    bin_remove(x->next);
    merge_next(x);
  }
  if (x->prev && x->prev->state == BINNED) {
    x = x->prev;
    bin_remove(x);
    merge_next(x);
  }
  bin_insert(x);
  INVARIANT(piece_is_valid(x));
}

static size_t least_piece(const pool *p, const segment *s, size_t need) {
  if (s->domain == LARGE && domain_of(p, need) == LARGE) return (size_t)1 << p->sizes.large_shift;
  return p->sizes.least_units << p->sizes.unit_shift;
}

tn_status piece_hand_out(piece *x, size_t need, block **out) {
  pool_cache *c = x->pub.cache;
  pool *p = c->pool;
  size_t left = x->pub.bytes - need;
  piece *rest = NULL;
  if (left >= least_piece(p, x->segment, need)) {
    rest = piece_make(x->segment, x->pub.offset + need, left);
    if (!rest) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the allocator's records");
  }
  drop_idle_mark(x->segment);
  bin_remove(x);
  if (rest) {
    x->pub.bytes = need;
    rest->prev = x;
    rest->next = x->next;
    if (rest->next) rest->next->prev = rest;
    x->next = rest;
    bin_insert(rest);
  }
  unsigned class = class_of_block(&c->sizes, x->pub.bytes);
  x->pub.stack = class < STACKED_CLASSES && !p->config.tracked ? &c->stacks[class] : NULL;
  x->pub.next_free = NULL;
  memset(block_header(&x->pub), 0, p->config.header_bytes);
  INVARIANT(piece_is_valid(x) && (!rest || piece_is_valid(rest)));
  *out = &x->pub;
  return TN_OK;
}

void cache_drain(pool_cache *cache) {
  for (unsigned i = 0; i < STACKED_CLASSES; i++) {
    for (block *b = stack_take_all(&cache->stacks[i]), *next; b; b = next) {
      next = b->next_free;
      piece_release(piece_of(b));
    }
  }
}

/* ----------------------------------------------------------------- segments --- */

static void segment_link(pool *p, segment *s) {
  s->prev = NULL;
  s->next = p->segments;
  if (s->next) s->next->prev = s;
  p->segments = s;
  p->num_segments++;
  p->reserved += s->bytes;
  if (p->reserved > p->peak_reserved) p->peak_reserved = p->reserved;
  s->cache->reserved[s->domain] += s->bytes;
}

static void segment_unlink(pool *p, segment *s) {
  *(s->prev ? &s->prev->next : &p->segments) = s->next;
  if (s->next) s->next->prev = s->prev;
  p->num_segments--;
  p->reserved -= s->bytes;
  s->cache->reserved[s->domain] -= s->bytes;
}

static void segment_destroy(pool *p, segment *s) {
  INVARIANT(!s->idle_mark);
  segment_unlink(p, s);
  p->ops.raw_free(p->config.ctx, s->handle);
  host_free(p->config.memory, s);
}

/* pre: wholly free, and its stream's work on it is done. */
static void give_back(pool *p, segment *s) {
  drop_idle_mark(s);
  bin_remove(s->first);
  piece_unmake(p, s->first);
  segment_destroy(p, s);
}

/* Gives back what is wholly free and too small, for as many bytes as are about to be taken:
 * segments that requests outgrew would else be held for good. Devices with streams keep them, for
 * these may be busy, or recorded with memory that is free by now. */
static void give_back_outgrown(pool *p, size_t bytes) {
  size_t given = 0;
  if (p->ops.mark) return;
  for (segment *s = p->segments, *next; s && given < bytes; s = next) {
    next = s->next;
    if (s->domain != LARGE || !wholly_free(s)) continue;
    given += s->bytes;
    give_back(p, s);
  }
}

/* Multiples of `step`; 0 if there is none. */
static size_t round_up(size_t bytes, size_t step) {
  size_t sum;
  return size_add(bytes, step - 1, &sum) ? sum & ~(step - 1) : 0;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* One part of `parts` of what a cache holds, at most `most`, in multiples of `step`. */
static size_t share_of(const pool_cache *cache, domain d, unsigned parts, size_t most,
                       size_t step) {
  uint64_t part = cache->reserved[d] / parts;
  return round_up(part < most ? (size_t)part : most, step);
}

/* The first multiple of `step` from `from` to `to` of which pieces of `need` leave a sixteenth at
 * most, or else the one of which they leave the least part. */
static size_t fitting_size(size_t need, size_t from, size_t to, size_t step) {
  size_t best = from;
  for (size_t size = from; size <= to; size += step) {
    size_t left = size % need;
    if (left <= size / 16) return size;
    if ((double)left / (double)size < (double)(best % need) / (double)best) best = size;
  }
  return best;
}

/* How much to take for a request. Segments of a cache grow with what it holds, so that a
 * program with little memory takes little: small ones from 1/4 to 2 small limits (256 KiB
 * to 2 MiB), large ones from 2 to 20. These are a sixteenth of what there is, since what is taken
 * and not needed yet is for nothing, and up to a quarter where requests like this fill that better.
 */
static size_t segment_size(const pool_cache *cache, size_t need) {
  size_t limit = cache->sizes.small_limit;
  domain d = domain_of(cache->pool, need);
  size_t least = d == SMALL ? limit / 4 : 2 * limit;
  size_t most = d == SMALL ? 2 * limit : 20 * limit;
  size_t wanted = round_up(need, least);
  if (need > own_segment * limit) return wanted;
  if (d == SMALL) return larger(wanted, share_of(cache, d, 1, most, least));
  return fitting_size(need, larger(wanted, share_of(cache, d, 16, most, least)),
                      share_of(cache, d, 4, most, least), least);
}

/* Cuts a size to what the pool's limit leaves, in whole `grain`s. */
static size_t within_limit(const pool *p, size_t bytes, size_t grain) {
  if (!p->config.limit) return bytes;
  uint64_t left = p->config.limit > p->reserved ? p->config.limit - p->reserved : 0;
  return bytes <= left ? bytes : (size_t)left & ~(grain - 1);
}

static tn_status take_raw(pool *p, size_t bytes, void **handle) {
  p->raw_allocs++;
  return p->ops.raw_alloc(p->config.ctx, bytes, handle);
}

/* Takes `wanted` bytes, or if the device has not as much `need`. */
static tn_status raw_memory(pool *p, size_t wanted, size_t need, segment *s) {
  tn_status status = take_raw(p, s->bytes = wanted, &s->handle);
  if (status == TN_ERR_DEVICE_OUT_OF_MEMORY && wanted > need)
    status = take_raw(p, s->bytes = need, &s->handle);
  return status;
}

tn_status segment_grow(pool_cache *cache, size_t need) {
  pool *p = cache->pool;
  domain d = domain_of(p, need);
  unsigned grain = d == SMALL ? p->sizes.unit_shift : p->sizes.large_shift;
  if (need > own_segment * p->sizes.small_limit) give_back_outgrown(p, need);
  size_t wanted = within_limit(p, segment_size(cache, need), (size_t)1 << grain);
  if (wanted < need) return fail(TN_ERR_DEVICE_OUT_OF_MEMORY, "the limit is reached");

  segment *s = host_alloc(p->config.memory, sizeof *s);
  if (!s) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the allocator's records");
  *s = (segment){.cache = cache, .domain = d};
  piece *whole = piece_make(s, 0, wanted);
  tn_status status = whole
                         ? raw_memory(p, wanted, need, s)
                         : fail(TN_ERR_OUT_OF_MEMORY, "no host memory for the allocator's records");
  if (status != TN_OK) {
    if (whole) piece_unmake(p, whole);
    host_free(p->config.memory, s);
    return status;
  }
  whole->pub.handle = s->handle;
  whole->pub.bytes = s->bytes;
  s->first = whole;
  segment_link(p, s);
  bin_insert(whole);
  INVARIANT(segment_is_valid(s) && figures_are_valid(p));
  return TN_OK;
}

/* Whether the work of the owner's stream on a wholly free segment is done. */
static bool segment_idle(segment *s, bool wait) {
  pool *p = s->cache->pool;
  if (s->cache->closed || !p->ops.mark) return true;
  if (!s->idle_mark && p->ops.mark(p->config.ctx, s->cache->stream, &s->idle_mark) != TN_OK) {
    s->idle_mark = NULL;
    return false;
  }
  if (wait) p->ops.wait(p->config.ctx, s->idle_mark);
  return p->ops.passed(p->config.ctx, s->idle_mark);
}

static bool may_steal(const segment *s, const pool_cache *thief, domain d, size_t need) {
  return s->cache != thief && s->bytes >= need && (d == DOMAINS || s->domain == d) &&
         wholly_free(s);
}

bool segment_steal(pool_cache *cache, domain d, size_t need, bool wait) {
  const pool *p = cache->pool;
  const uint64_t others = p->reserved - cache->reserved[SMALL] - cache->reserved[LARGE];
  segment *best = NULL;
  if (others < need || p->binned_bytes < need) return false; /* a free segment's are in a bin */
  for (segment *s = p->segments; s; s = s->next)
    if (may_steal(s, cache, d, need) && (!best || s->bytes < best->bytes) && segment_idle(s, wait))
      best = s;
  if (!best) return false;
  drop_idle_mark(best);
  bin_remove(best->first);
  best->cache->reserved[best->domain] -= best->bytes;
  cache->reserved[best->domain] += best->bytes;
  best->cache = best->first->pub.cache = cache;
  bin_insert(best->first);
  INVARIANT(segment_is_valid(best));
  return true;
}

void segments_release(pool *p, bool wait) {
  for (segment *s = p->segments, *next; s; s = next) {
    next = s->next;
    if (wholly_free(s) && segment_idle(s, wait)) give_back(p, s);
  }
}

void segments_forget_marks(pool_cache *cache) {
  for (segment *s = cache->pool->segments; s; s = s->next)
    if (s->cache == cache) drop_idle_mark(s);
}

void segments_orphan(const pool_cache *cache) {
  const pool *p = cache->pool;
  if (!p->config.orphaned) return;
  for (const segment *s = p->segments; s; s = s->next)
    for (piece *x = s->cache == cache ? s->first : NULL; x; x = x->next)
      if (x->state == OUT) p->config.orphaned(block_header(&x->pub));
}

void segments_destroy(pool *p) {
  while (p->segments) {
    drop_idle_mark(p->segments);
    segment_destroy(p, p->segments);
  }
  for (slab *s = p->slabs, *next; s; s = next) {
    next = s->next;
    host_free(p->config.memory, s);
  }
}
