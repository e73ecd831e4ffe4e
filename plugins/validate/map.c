/* Open addressing with linear probing; removal shifts what follows back into the gap. */
#include "map.h"

#include <string.h>

static size_t slot_of(const map *m, const void *key, uint64_t number) {
  uint64_t h = ((uint64_t)(uintptr_t)key ^ number * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
  return (size_t)(h ^ h >> 32) & (m->capacity - 1);
}

/* The key's slot, or the free one where it would go. pre: there are slots. */
static map_slot *probe(const map *m, const void *key, uint64_t number) {
  size_t at = slot_of(m, key, number);
  while (m->slots[at].value && (m->slots[at].key != key || m->slots[at].number != number))
    at = (at + 1) & (m->capacity - 1);
  return &m->slots[at];
}

static bool grow(map *m) {
  map larger = {.host = m->host, .capacity = m->capacity ? 2 * m->capacity : 64};
  larger.slots = m->host->alloc(m->host, larger.capacity * sizeof *larger.slots, 64);
  if (!larger.slots) return false;
  memset(larger.slots, 0, larger.capacity * sizeof *larger.slots);
  for (size_t i = 0; i < m->capacity; ++i)
    if (m->slots[i].value) *probe(&larger, m->slots[i].key, m->slots[i].number) = m->slots[i];
  m->host->free(m->host, m->slots);
  m->slots = larger.slots;
  m->capacity = larger.capacity;
  return true;
}

void map_free(map *m) {
  m->host->free(m->host, m->slots);
  m->slots = NULL;
  m->capacity = m->count = 0;
}

void *map_get(const map *m, const void *key, uint64_t number) {
  return m->capacity ? probe(m, key, number)->value : NULL;
}

bool map_put(map *m, const void *key, uint64_t number, void *value) {
  if (2 * (m->count + 1) > m->capacity && !grow(m)) return false;
  *probe(m, key, number) = (map_slot){key, number, value};
  ++m->count;
  return true;
}

void *map_take(map *m, const void *key, uint64_t number) {
  map_slot *found = m->capacity ? probe(m, key, number) : NULL;
  if (!found || !found->value) return NULL;
  void *value = found->value;
  size_t gap = (size_t)(found - m->slots), mask = m->capacity - 1;
  for (size_t at = (gap + 1) & mask; m->slots[at].value; at = (at + 1) & mask) {
    size_t home = slot_of(m, m->slots[at].key, m->slots[at].number);
    /* It may move to the gap if its home does not lie behind the gap. */
    if (((at - home) & mask) < ((at - gap) & mask)) continue;
    m->slots[gap] = m->slots[at];
    gap = at;
  }
  m->slots[gap].value = NULL;
  --m->count;
  return value;
}
