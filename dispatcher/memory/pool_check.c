/*
 * The pool's invariants. The local ones look at one thing and its neighbours;
 * segments_are_valid looks at everything the pool has, which takes as long as the pool is
 * large.
 */
#include "dispatcher/memory/pool_internal.h"

/* ------------------------------------------------------------------- blocks --- */

static bool is_stack_of(const block_stack *stack, const pool_cache *c) {
  return stack >= c->stacks && stack < c->stacks + STACKED_CLASSES;
}

bool block_is_out(const block *b) {
  const pool_cache *c = b->cache;
  if (!c || !b->bytes || piece_of((block *)(uintptr_t)b)->state != OUT) return false;
  return !b->stack ||
         (is_stack_of(b->stack, c) && b->stack == &c->stacks[class_of_block(&c->sizes, b->bytes)]);
}

bool block_is_ready(const block *b, const pool_cache *cache) {
  return block_is_out(b) && b->cache == cache && b->stack &&
         !atomic_load_explicit(&b->other_use, memory_order_relaxed);
}

/* ----------------------------------------------------- pieces and segments --- */

/* Neighbours name each other, meet without a gap, and are not both free. */
static bool meets_next(const piece *x) {
  const piece *next = x->next;
  return !next || (next->prev == x && next->segment == x->segment &&
                   next->pub.offset == x->pub.offset + x->pub.bytes &&
                   !(x->state == BINNED && next->state == BINNED));
}

static bool is_in_its_bin(const piece *x) {
  const pool_cache *c = x->pub.cache;
  unsigned class = class_of_block(&c->sizes, x->pub.bytes);
  bool is_first = c->bins[x->segment->domain][class] == x;
  return is_first == !x->list_prev && (!x->list_prev || x->list_prev->list_next == x) &&
         c->bin_map[x->segment->domain][class / 64] >> class % 64 & 1;
}

bool piece_is_valid(const piece *x) {
  const segment *s = x->segment;
  size_t unit = (size_t)1 << s->cache->sizes.unit_shift;
  return x->pub.cache == s->cache && x->pub.handle == s->handle && x->pub.bytes &&
         !(x->pub.offset & (unit - 1)) && x->pub.offset + x->pub.bytes <= s->bytes &&
         (s->first == x) == !x->prev && meets_next(x) && (!x->prev || meets_next(x->prev)) &&
         (x->state != BINNED || is_in_its_bin(x));
}

bool segment_is_valid(const segment *s) {
  return s->cache && s->bytes && s->first && s->first->segment == s && !s->first->pub.offset &&
         (!s->next || s->next->prev == s) && (!s->prev || s->prev->next == s) &&
         s->cache->reserved[s->domain] >= s->bytes && (!s->idle_mark || wholly_free(s)) &&
         piece_is_valid(s->first);
}

/* Its pieces tile it. */
static bool is_tiled(const segment *s, uint64_t count[3]) {
  uint64_t end = 0;
  for (const piece *x = s->first; x; x = x->next) {
    if (x->segment != s || !piece_is_valid(x) || x->pub.offset != end) return false;
    end += x->pub.bytes;
    count[x->state]++;
  }
  return end == s->bytes;
}

/* ------------------------------------------------------------------ pending --- */

bool pending_piece_is_valid(const piece *x) {
  const pool *p = x->pub.cache->pool;
  return x->state == PENDING && p->pending && (!x->mark || x->mark_user) &&
         atomic_load_explicit(&x->pub.other_use, memory_order_relaxed) &&
         (x->list_prev ? x->list_prev->list_next : p->pending_first) == x &&
         (x->list_next ? x->list_next->list_prev : p->pending_last) == x;
}

static bool pending_is_valid(const pool *p) {
  uint64_t count = 0;
  for (const piece *x = p->pending_first; x; x = x->list_next, count++)
    if (!pending_piece_is_valid(x)) return false;
  return count == p->pending;
}

/* ------------------------------------------------------------------- caches --- */

static bool bin_is_valid(const pool_cache *c, domain d, unsigned class, uint64_t *binned,
                         uint64_t *bytes) {
  bool mapped = c->bin_map[d][class / 64] >> class % 64 & 1;
  if (mapped != !!c->bins[d][class]) return false;
  for (const piece *x = c->bins[d][class]; x; x = x->list_next) {
    if (x->state != BINNED || x->pub.cache != c || x->segment->domain != d ||
        class_of_block(&c->sizes, x->pub.bytes) != class)
      return false;
    ++*binned;
    *bytes += x->pub.bytes;
  }
  return true;
}

static bool cache_is_valid(const pool_cache *c, uint64_t *binned, uint64_t *bytes) {
  if (!c->pool || (c->next && c->next->index != c->index + 1) ||
      (!c->next && c->pool->last_cache != c))
    return false;
  for (unsigned i = 0; i < DOMAINS * CLASSES; i++)
    if (!bin_is_valid(c, (domain)(i / CLASSES), i % CLASSES, binned, bytes)) return false;
  return true;
}

/* ---------------------------------------------------------------- the whole --- */

bool figures_are_valid(const pool *p) {
  return p->binned + p->pending <= p->pieces && p->binned_bytes <= p->reserved &&
         p->reserved <= p->peak_reserved && p->num_segments <= p->pieces &&
         (!p->config.limit || p->reserved <= p->config.limit);
}

static bool reserved_is_valid(const pool *p) {
  uint64_t held = 0, of_caches = 0;
  uint32_t segments = 0;
  for (const segment *s = p->segments; s; s = s->next, segments++) held += s->bytes;
  for (const pool_cache *c = p->caches; c; c = c->next)
    for (int d = 0; d < DOMAINS; d++) of_caches += c->reserved[d];
  return held == p->reserved && of_caches == held && segments == p->num_segments;
}

bool segments_are_valid(const pool *p) {
  uint64_t count[3] = {0}, binned = 0, bytes = 0;
  for (const segment *s = p->segments; s; s = s->next)
    if (!segment_is_valid(s) || !is_tiled(s, count)) return false;
  for (const pool_cache *c = p->caches; c; c = c->next)
    if (!cache_is_valid(c, &binned, &bytes)) return false;
  return count[BINNED] == p->binned && count[PENDING] == p->pending && binned == p->binned &&
         bytes == p->binned_bytes && count[OUT] + p->binned + p->pending == p->pieces &&
         reserved_is_valid(p) && figures_are_valid(p) && pending_is_valid(p);
}

bool pool_is_valid(pool *p) {
  pthread_mutex_lock(&p->lock);
  bool valid = segments_are_valid(p);
  pthread_mutex_unlock(&p->lock);
  return valid;
}
