/*
 * Blocks that more streams than their own have used, and that were freed. Such a block
 * waits here until a mark on each of those streams has passed. Marks are made one after
 * the other, so that a block holds at most one and none of this needs memory: a mark made
 * later than the free covers the same work and a little more.
 */
#include "dispatcher/memory/pool_internal.h"

/* Caches beyond the first 63 share a bit; sharing only makes blocks wait longer. */
static uint64_t user_bit(const pool_cache *user) {
  return (uint64_t)1 << (user->index < 63 ? user->index : 63);
}

void pool_note_use(block *b, pool_cache *user) {
  if (user == b->cache || !user->pool->ops.mark) return;
  uint64_t bit = user_bit(user);
  if (atomic_load_explicit(&b->other_use, memory_order_relaxed) & bit) return;
  atomic_fetch_or_explicit(&b->other_use, bit, memory_order_relaxed);
}

static pool_cache *next_user(const piece *x, pool_cache *from) {
  uint64_t users = atomic_load_explicit(&x->pub.other_use, memory_order_relaxed);
  for (pool_cache *c = from; c; c = c->next)
    if (c != x->pub.cache && !c->closed && (users & user_bit(c))) return c;
  return NULL;
}

static void list_append(pool *p, piece *x) {
  x->list_prev = p->pending_last;
  x->list_next = NULL;
  *(p->pending_last ? &p->pending_last->list_next : &p->pending_first) = x;
  p->pending_last = x;
  p->pending++;
}

static void list_remove(pool *p, piece *x) {
  *(x->list_prev ? &x->list_prev->list_next : &p->pending_first) = x->list_next;
  *(x->list_next ? &x->list_next->list_prev : &p->pending_last) = x->list_prev;
  p->pending--;
}

static void drop_mark(pool *p, piece *x) {
  p->ops.unmark(p->config.ctx, x->mark);
  x->mark = NULL;
  x->mark_user = x->mark_user->next;
}

static bool mark_passed(pool *p, const piece *x, bool wait, uint64_t *busy) {
  /* Marks of one stream pass in order, so one that has not passed answers for the rest. */
  if (!wait && (*busy & user_bit(x->mark_user))) return false;
  if (wait) p->ops.wait(p->config.ctx, x->mark);
  if (p->ops.passed(p->config.ctx, x->mark)) return true;
  *busy |= user_bit(x->mark_user);
  return false;
}

static void finish(pool *p, piece *x) {
  list_remove(p, x);
  atomic_store_explicit(&x->pub.other_use, 0, memory_order_relaxed);
  if (!x->pub.stack) {
    piece_release(x);
    return;
  }
  x->state = OUT;
  INVARIANT(block_is_ready(&x->pub, x->pub.cache));
  stack_push(x->pub.stack, &x->pub);
}

/* Goes on as far as can be: from mark to mark to being free. */
static void advance(pool *p, piece *x, bool wait, uint64_t *busy) {
  for (;;) {
    if (x->mark) {
      if (!mark_passed(p, x, wait, busy)) return;
      drop_mark(p, x);
    }
    pool_cache *user = x->mark_user = next_user(x, x->mark_user);
    if (!user) break;
    if (p->ops.mark(p->config.ctx, user->stream, &x->mark) != TN_OK) {
      x->mark = NULL; /* a later poll tries again */
      return;
    }
    INVARIANT(pending_piece_is_valid(x));
  }
  finish(p, x);
}

void pending_add(piece *x) {
  pool *p = x->pub.cache->pool;
  uint64_t busy = 0;
  x->state = PENDING;
  x->mark = NULL;
  x->mark_user = p->caches;
  list_append(p, x);
  INVARIANT(pending_piece_is_valid(x));
  advance(p, x, false, &busy);
}

void pending_poll(pool *p, bool wait) {
  uint64_t busy = 0;
  for (piece *x = p->pending_first, *next; x; x = next) {
    next = x->list_next;
    advance(p, x, wait, &busy);
  }
}

void pending_forget(pool_cache *cache) {
  pool *p = cache->pool;
  uint64_t busy = 0;
  for (piece *x = p->pending_first, *next; x; x = next) {
    next = x->list_next;
    if (x->mark && x->mark_user == cache) drop_mark(p, x);
    advance(p, x, false, &busy);
  }
}
