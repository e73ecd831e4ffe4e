/*
 * The memory of living tensors, by place, with the accesses that may still be pending.
 *
 * Released memory goes back to the pool, which gives it out again in the order of the
 * stream that it belongs to, and waits for other streams. So a new tensor inherits the
 * pending accesses of its own stream, from "ghosts", and no others.
 */
#include <string.h>

#include "validate.h"

static void memory_free(validate *v, memory *m) {
  v->host->free(v->host, m->accesses);
  v->host->free(v->host, m);
}

/* Forgets what the host knows done. */
static void prune(const validate *v, memory *m) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < m->num_accesses; ++i)
    if (!host_knows(v, &m->accesses[i])) m->accesses[kept++] = m->accesses[i];
  m->num_accesses = kept;
}

/* --- by place --- */

static int compare_place(const memory *m, const device *d, const void *base, int64_t lo) {
  if (m->device != d) return m->device < d ? -1 : 1;
  if (m->base != base) return (uintptr_t)m->base < (uintptr_t)base ? -1 : 1;
  return m->lo < lo ? -1 : m->lo > lo;
}

/* The first piece that lies at the place or behind it. */
static size_t place_of(const validate *v, const device *d, const void *base, int64_t lo) {
  size_t low = 0, high = v->num_sorted;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (compare_place(v->sorted[middle], d, base, lo) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool sorted_add(validate *v, memory *m) {
  if (v->num_sorted == v->room_sorted) {
    size_t room = v->room_sorted ? 2 * v->room_sorted : 256;
    memory **grown = v->host->alloc(v->host, room * sizeof *grown, 64);
    if (!grown) return false;
    if (v->num_sorted) memcpy(grown, v->sorted, v->num_sorted * sizeof *grown);
    v->host->free(v->host, v->sorted);
    v->sorted = grown;
    v->room_sorted = room;
  }
  size_t at = place_of(v, m->device, m->base, m->lo);
  memmove(v->sorted + at + 1, v->sorted + at, (v->num_sorted++ - at) * sizeof *v->sorted);
  v->sorted[at] = m;
  return true;
}

static void sorted_remove(validate *v, const memory *m) {
  size_t at = place_of(v, m->device, m->base, m->lo);
  while (at < v->num_sorted && v->sorted[at] != m) ++at;
  if (at == v->num_sorted) return;
  memmove(v->sorted + at, v->sorted + at + 1, (--v->num_sorted - at) * sizeof *v->sorted);
}

static bool meets(const memory *m, const device *d, const extent *e) {
  return m->device == d && m->base == e->base && m->lo < e->hi && e->lo < m->hi;
}

void memory_visit(validate *v, const device *d, const extent *e,
                  void (*visit)(memory *m, void *ctx), void *ctx) {
  size_t at = place_of(v, d, e->base, e->lo);
  if (at > 0) --at; /* what begins before may reach into it */
  for (; at < v->num_sorted && compare_place(v->sorted[at], d, e->base, e->hi) < 0; ++at)
    if (meets(v->sorted[at], d, e)) visit(v->sorted[at], ctx);
  for (memory *m = v->imports; m; m = m->next)
    if (meets(m, d, e)) visit(m, ctx);
}

/* --- accesses --- */

/* Whoever is ordered behind `a` is ordered behind `old` too, and meets what it meets. */
static bool replaces(const validate *v, const access *a, const access *old) {
  if (!extent_covers(&a->where, &old->where)) return false;
  if (a->actor == old->actor) return a->write || !old->write;
  return a->write && is_ordered(v, old, a->actor);
}

void memory_note(validate *v, memory *m, const access *a) {
  if (a->actor == 0) return; /* the host knows its own */
  uint32_t kept = 0;
  for (uint32_t i = 0; i < m->num_accesses; ++i) {
    const access *old = &m->accesses[i];
    if (!host_knows(v, old) && !replaces(v, a, old)) m->accesses[kept++] = *old;
  }
  m->num_accesses = kept;
  if (kept == m->room && m->room < ACCESSES_MAX) {
    uint32_t room = m->room ? 4 * m->room : 4;
    access *grown = v->host->alloc(v->host, room * sizeof *grown, 16);
    if (grown) {
      if (kept) memcpy(grown, m->accesses, kept * sizeof *grown);
      v->host->free(v->host, m->accesses);
      m->accesses = grown;
      m->room = room;
    }
  }
  if (m->num_accesses == m->room) {
    ++v->forgotten;
    if (m->room == 0) return;
    memmove(m->accesses, m->accesses + 1, --m->num_accesses * sizeof *m->accesses);
  }
  m->accesses[m->num_accesses++] = *a;
}

/* --- ghosts --- */

static void ghost_drop(validate *v, memory **at) {
  memory *m = *at;
  *at = m->next;
  --v->num_ghosts;
  memory_free(v, m);
}

static void ghost_add(validate *v, memory *m) {
  memory **last = &v->ghosts;
  while (*last && (*last)->next) last = &(*last)->next;
  if (v->num_ghosts == GHOSTS_MAX) { /* the oldest is last */
    ++v->forgotten;
    ghost_drop(v, last);
  }
  m->next = v->ghosts;
  v->ghosts = m;
  ++v->num_ghosts;
}

void ghosts_forget(validate *v, const device *d) {
  for (memory **at = &v->ghosts; *at;)
    if ((*at)->device == d)
      ghost_drop(v, at);
    else
      at = &(*at)->next;
}

/* Takes over what the stream may still do to this memory. */
static void inherit(validate *v, memory *m) {
  extent all = {.base = m->base, .lo = m->lo, .hi = m->hi};
  for (memory **at = &v->ghosts; *at;) {
    memory *ghost = *at;
    prune(v, ghost);
    bool covered = meets(ghost, m->device, &all) && ghost->lo >= m->lo && ghost->hi <= m->hi;
    for (uint32_t i = 0; meets(ghost, m->device, &all) && i < ghost->num_accesses; ++i) {
      access a = ghost->accesses[i];
      a.earlier = true;
      if (a.actor == m->home && a.where.lo < m->hi && m->lo < a.where.hi) memory_note(v, m, &a);
    }
    if (covered || ghost->num_accesses == 0)
      ghost_drop(v, at);
    else
      at = &ghost->next;
  }
}

/* --- made and released --- */

void memory_made(validate *v, const tn_layer_event *event) {
  if (map_get(&v->memories, event->memory, 0)) return; /* a view of it */
  const device *d = device_of(v, event->device_type, event->device_index, event->backend);
  memory *m = v->host->alloc(v->host, sizeof *m, 16);
  if (!m || !d) {
    v->host->free(v->host, m);
    return;
  }
  extent e = extent_of(event->tensor, d->opaque);
  *m = (memory){.device = d, .base = e.base, .lo = e.lo, .hi = e.hi};
  m->imported = !event->stream;
  if (event->stream) m->home = actor_of(v, d, event->stream);
  if (!map_put(&v->memories, event->memory, 0, m)) {
    v->host->free(v->host, m);
    return;
  }
  if (m->imported) {
    m->next = v->imports;
    v->imports = m;
  } else {
    if (!sorted_add(v, m)) v->checks &= ~(uint32_t)CHECK_LIFETIME; /* it would be missed */
    inherit(v, m);
  }
}

void memory_released(validate *v, const void *identity) {
  memory *m = map_take(&v->memories, identity, 0);
  if (!m) return;
  if (m->imported) {
    memory **at = &v->imports;
    while (*at && *at != m) at = &(*at)->next;
    if (*at) *at = m->next;
    memory_free(v, m);
    return;
  }
  sorted_remove(v, m);
  prune(v, m);
  if (m->num_accesses)
    ghost_add(v, m);
  else
    memory_free(v, m);
}

void memories_free(validate *v) {
  for (size_t i = 0; i < v->memories.capacity; ++i)
    if (v->memories.slots[i].value) memory_free(v, v->memories.slots[i].value);
  while (v->ghosts) ghost_drop(v, &v->ghosts);
  map_free(&v->memories);
  v->host->free(v->host, v->sorted);
}
